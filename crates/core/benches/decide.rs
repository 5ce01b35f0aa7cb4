//! What one tick costs without I/O: the planner alone, and with features for a policy that reads them.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use rlscaler_core::observation::{History, Observation, Pods, Reading, Signal, Signals};
use rlscaler_core::settings::{Bounds, Capacity, Objective, Override, Settings, Weights};
use rlscaler_core::{Action, Brain, Features, PlannerOnly, Policy, PolicyFault};

/// Reads its features and does nothing with them.
struct Reader;

impl Policy for Reader {
    fn act(&self, features: &Features) -> Result<Action, PolicyFault> {
        black_box(features.values());
        Ok(Action { multiplier: 1.0, value: 0.0 })
    }

    fn describe(&self) -> String {
        "reader".to_owned()
    }
}

/// A service of some 28 busy pods with 8 days of history.
fn brain() -> Brain {
    let objective =
        Objective { target_secs: 0.25, sla: 0.99, latency_percentile: 0.95, weights: Weights::default() };
    let bounds = Bounds::new(1, 100).expect("1 <= 100");
    let capacity = Some(Capacity { concurrency: 4, service_secs: 0.05 });
    let mut brain =
        Brain::new(Settings { capacity, startup_secs: Some(60.0), ..Settings::new(bounds, objective) });
    let qps =
        (0..8 * 1_440).map(|minute| (60.0 * f64::from(minute) - 691_200.0, load(f64::from(4 * minute))));
    brain.backfill(&History { qps: qps.collect(), ..History::default() });
    brain
}

fn load(tick: f64) -> f64 {
    2_000.0 + 800.0 * (tick / 300.0).sin() + 100.0 * (tick * 7.3).sin()
}

fn seen(tick: u32, replicas: u32) -> Observation {
    let reading = |value| Signal::Fresh(Reading { value, age_secs: Some(15.0) });
    let tick = f64::from(tick);
    Observation {
        time_secs: 15.0 * tick,
        replicas,
        pods: Pods { ready: replicas, ..Pods::default() },
        pod_cpu_request: Some(1.0),
        signals: Signals {
            qps: reading(load(tick)),
            latency: reading(0.09),
            cpu: reading(load(tick) / 80.0),
            ..Signals::default()
        },
        startup_secs: None,
        ..Observation::default()
    }
}

fn ticks(brain: &mut Brain, policy: &dyn Policy, count: u32) {
    let mut replicas = 30;
    for tick in 0..count {
        let decision = brain.decide(policy, Override::None, &seen(tick, replicas));
        replicas = black_box(decision.replicas());
    }
}

fn decide(criterion: &mut Criterion) {
    const TICKS: u32 = 1_000;
    let start = brain();
    let mut group = criterion.benchmark_group("decide");
    group.throughput(criterion::Throughput::Elements(u64::from(TICKS)));
    for (name, policy) in [("planner", &PlannerOnly as &dyn Policy), ("features", &Reader)] {
        group.bench_function(name, |bencher| {
            bencher.iter_batched_ref(
                || start.clone(),
                |brain| ticks(brain, policy, TICKS),
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, decide);
criterion_main!(benches);
