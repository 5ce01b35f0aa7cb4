//! The two ways of running the networks agree, and the gradient that training follows is the derivative of what
//! deciding does.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use candle_core::{Device, Tensor};
use rand::Rng;
use rlscaler_rl::actor_critic::{ActorCritic, log_price};
use rlscaler_rl::head::{ANCHORS, LOG_MULTIPLIER_LIMIT, UNIT_FEATURE, lowest, ramps};
use rlscaler_rl::left_out::Part;
use rlscaler_rl::tensors::Tensors;
use rlscaler_rl::weights::{SPREAD, Weights, layout};
use rlscaler_sim::seed::Seed;

const FEATURES: usize = 57;
const ROWS: usize = 40;

fn uniform(rng: &mut impl Rng, bound: f32) -> f32 {
    bound * (rng.next_u32() as f32 / u32::MAX as f32 * 2.0 - 1.0)
}

fn random_weights(seed: Seed) -> Weights {
    let mut rng = seed.stream("test weights");
    let draw = |shape: &rlscaler_rl::weights::TensorShape, rng: &mut _| {
        let bound = if shape.name == "actor.gates" { 0.05 } else { 0.2 };
        let value =
            |rng: &mut _| if shape.name == SPREAD { 1.0 + uniform(rng, 0.5) } else { uniform(rng, bound) };
        (0..shape.len()).map(|_| value(rng)).collect()
    };
    Weights::new(FEATURES, layout(FEATURES).iter().map(|shape| draw(shape, &mut rng)).collect()).unwrap()
}

struct Batch {
    rows: Vec<Vec<f32>>,
    prices: Vec<f64>,
}

impl Batch {
    fn random(seed: Seed) -> Self {
        let mut rng = seed.stream("test batch");
        let rows = (0..ROWS).map(|_| (0..FEATURES).map(|_| uniform(&mut rng, 3.0)).collect()).collect();
        let prices = (0..ROWS).map(|_| f64::from(uniform(&mut rng, 3.6) + 3.6).exp()).collect();
        Self { rows, prices }
    }

    fn features(&self) -> Tensor {
        Tensor::from_vec(self.rows.concat(), (ROWS, FEATURES), &Device::Cpu).unwrap()
    }

    fn ramps(&self) -> Tensor {
        let ramps: Vec<f32> = self.prices.iter().flat_map(|&price| ramps(price)).collect();
        Tensor::from_vec(ramps, (ROWS, ANCHORS), &Device::Cpu).unwrap()
    }

    fn critic_inputs(&self) -> Tensor {
        let prices: Vec<f32> = self.prices.iter().map(|&price| log_price(price)).collect();
        let prices = Tensor::from_vec(prices, (ROWS, 1), &Device::Cpu).unwrap();
        Tensor::cat(&[self.features(), prices], 1).unwrap()
    }
}

#[test]
fn plain_loops_and_candle_give_the_same_answers() {
    const TOLERANCE: f32 = 1e-4;
    for seed in (0..10).map(Seed) {
        let weights = random_weights(seed);
        let batch = Batch::random(seed);
        let tensors = Tensors::new(&weights).unwrap();
        let g: Vec<Vec<f32>> =
            tensors.log_multipliers(&batch.features(), &batch.ramps()).unwrap().to_vec2().unwrap();
        let values: Vec<f32> = tensors.values(&batch.critic_inputs()).unwrap().to_vec1().unwrap();
        let net = ActorCritic::new(&weights);
        for (row, features) in batch.rows.iter().enumerate() {
            let answer = net.answer(features, batch.prices[row]);
            let expected = g[row][row].clamp(lowest(features[UNIT_FEATURE]), LOG_MULTIPLIER_LIMIT);
            assert!((answer.log_multiplier - expected).abs() < TOLERANCE, "{seed:?} row {row}");
            assert!((answer.value - values[row]).abs() < TOLERANCE, "{seed:?} row {row}");
        }
    }
}

#[test]
fn without_the_constraint_both_give_the_same_answers_and_a_higher_price_may_ask_for_fewer() {
    let mut falls = 0;
    for seed in (0..10).map(Seed) {
        let weights = random_weights(seed);
        let batch = Batch::random(seed);
        let tensors = Tensors::new(&weights).unwrap();
        let g: Vec<Vec<f32>> =
            tensors.unconstrained(&batch.features(), &batch.ramps()).unwrap().to_vec2().unwrap();
        let monotone = ActorCritic::new(&weights);
        let net = monotone.clone().without(&[Part::MonotonePrice]);
        for (row, features) in batch.rows.iter().enumerate() {
            let expected = g[row][row].clamp(lowest(features[UNIT_FEATURE]), LOG_MULTIPLIER_LIMIT);
            let answer = net.log_multiplier(features, batch.prices[row]);
            assert!((answer - expected).abs() < 1e-4, "{seed:?} row {row}");
            let fall =
                |net: &ActorCritic| net.log_multiplier(features, 300.0) < net.log_multiplier(features, 3.0);
            falls += u32::from(fall(&net));
            assert!(!fall(&monotone), "{seed:?} row {row}");
        }
    }
    assert!(20 < falls, "{falls} of {}", 10 * ROWS);
}

#[test]
fn weights_go_through_tensors_unchanged() {
    let weights = random_weights(Seed(5));
    assert_eq!(Tensors::new(&weights).unwrap().weights().unwrap(), weights);
}

#[test]
fn an_untrained_actor_gets_a_gradient_for_its_level_and_its_gates() {
    let weights = Weights::zero_initialised(FEATURES, Seed(1));
    let batch = Batch::random(Seed(1));
    let tensors = Tensors::new(&weights).unwrap();
    let sum = tensors.log_multipliers(&batch.features(), &batch.ramps()).unwrap().sum_all().unwrap();
    let gradients = sum.backward().unwrap();
    for (shape, variable) in layout(FEATURES).iter().zip(tensors.variables()) {
        let gradient =
            gradients.get(variable).map(|g| g.abs().unwrap().sum_all().unwrap().to_scalar::<f32>().unwrap());
        let reached = ["actor.gates", "actor.output.bias", "actor.output.weight"].contains(&shape.name);
        assert_eq!(gradient.unwrap_or(0.0) > 0.0, reached, "{}", shape.name);
    }
}
