//! How many decisions a second the simulator gives: many environments, 15-s decisions over 5-s ticks, on two threads.
//! Reported, not a gate. `cargo bench -p rlscaler-sim`.

use std::sync::Arc;
use std::thread;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rlscaler_core::PlannerOnly;
use rlscaler_sim::outcome::Outcome;
use rlscaler_sim::profile::Profile;
use rlscaler_sim::run::run;
use rlscaler_sim::scalers::{Kind, Setup};
use rlscaler_sim::scenario::{Detail, Scenario};
use rlscaler_sim::seed::Seed;
use rlscaler_sim::trace::Trace;

const THREADS: u64 = 2;
const ENVIRONMENTS: u64 = 32;
const DAY_SECS: f64 = 86_400.0;

fn scenario() -> Scenario {
    let trace = Trace::open("crane_input13").expect("it is bundled");
    let profile = Profile::shipped("web").expect("it ships");
    let scenario = Scenario::new(&profile, &trace).part(8.0 * DAY_SECS, DAY_SECS / 4.0).cold();
    Scenario { detail: Detail::Totals, ..scenario }
}

fn environment(scenario: &Scenario, name: &str, seed: u64) -> Outcome {
    let settings = scenario.settings(0.99);
    let kind = Kind::parse(name, &settings).expect("a known scaler");
    let setup = Setup { settings, model: Arc::new(PlannerOnly) };
    run(kind.build(&setup, scenario, Seed(seed)).as_mut(), scenario, Seed(seed))
}

fn decisions(criterion: &mut Criterion) {
    let scenario = scenario();
    let mut group = criterion.benchmark_group("decisions");
    group.sample_size(10);
    group.throughput(Throughput::Elements(ENVIRONMENTS * scenario.decisions()));
    for name in ["planner", "hpa:60", "keda-rate", "clairvoyant"] {
        group.bench_function(BenchmarkId::new("two threads", name), |bencher| {
            bencher.iter(|| {
                thread::scope(|scope| {
                    for half in 0..THREADS {
                        let scenario = &scenario;
                        scope.spawn(move || {
                            for seed in (half..ENVIRONMENTS).step_by(THREADS as usize) {
                                std::hint::black_box(environment(scenario, name, seed));
                            }
                        });
                    }
                });
            });
        });
    }
    group.finish();
}

criterion_group!(benches, decisions);
criterion_main!(benches);
