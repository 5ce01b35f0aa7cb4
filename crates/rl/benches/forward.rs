//! What one decision's forward pass costs: the plain loops that serve it, beside candle on the same weights, in a
//! pool of one thread and in the default pool. `cargo bench -p rlscaler-rl`.

use std::hint::black_box;

use candle_core::{Device, Tensor};
use criterion::{Criterion, criterion_group, criterion_main};
use rlscaler_rl::actor_critic::ActorCritic;
use rlscaler_rl::head::{ANCHORS, ramps};
use rlscaler_rl::tensors::Tensors;
use rlscaler_rl::weights::Weights;
use rlscaler_sim::seed::Seed;

const FEATURES: usize = 57;
const PRICE: f64 = 20.0;
const BATCH: usize = 5000;

fn forward(criterion: &mut Criterion) {
    let weights = Weights::zero_initialised(FEATURES, Seed(1));
    let net = ActorCritic::new(&weights);
    let features: Vec<f32> = (0..FEATURES).map(|i| (i as f32 * 0.7).sin()).collect();
    criterion.bench_function("one decision, plain loops, actor and critic", |bencher| {
        bencher.iter(|| net.answer(black_box(&features), black_box(PRICE)));
    });
    criterion.bench_function("5000 decisions, plain loops, actor and critic", |bencher| {
        bencher.iter(|| (0..BATCH).map(|_| net.answer(black_box(&features), PRICE).value).sum::<f32>());
    });

    let tensors = Tensors::new(&weights).expect("weights of the right shape");
    let candle = |rows: usize| {
        let input = Tensor::from_vec(features.repeat(rows), (rows, FEATURES), &Device::Cpu)?;
        let ramps = Tensor::from_vec(ramps(PRICE).to_vec(), (1, ANCHORS), &Device::Cpu)?;
        tensors.log_multipliers(&input, &ramps)?.flatten_all()?.to_vec1::<f32>()
    };
    let measure_candle = |criterion: &mut Criterion, pool: &str| {
        criterion.bench_function(&format!("one decision, candle, {pool}, actor only"), |bencher| {
            bencher.iter(|| candle(1).expect("shapes agree"));
        });
        criterion.bench_function(&format!("5000 decisions, candle, {pool}, actor only"), |bencher| {
            bencher.iter(|| candle(BATCH).expect("shapes agree"));
        });
    };
    measure_candle(criterion, "default pool");
    let one_thread = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("one more thread");
    one_thread.install(|| measure_candle(&mut Criterion::default().configure_from_args(), "one thread"));
}

criterion_group!(benches, forward);
criterion_main!(benches);
