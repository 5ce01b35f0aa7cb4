//! The actor-critic as deciding uses it: features and a price of lateness in, a multiplier on the planner's answer
//! and a value out. Never: a thread, a clock, an allocation per decision.

use crate::head::{self, ANCHORS};
use crate::left_out::{self, Part};
use crate::network::Network;
use crate::weights::{RANGE_HIGH, RANGE_LOW, Weights};

/// Widest feature vector a model may have; bounds the critic's input on the stack.
pub const FEATURES_MAX: usize = 128;

/// What the two networks say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answer {
    /// Natural logarithm of the multiplier on the planner's answer.
    pub log_multiplier: f32,
    /// The critic's estimate of what comes after, in units of the training loss (lower is better).
    pub value: f32,
}

/// Two networks over the same features, ready to answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ActorCritic {
    actor: Network,
    gates: [f32; ANCHORS],
    critic: Network,
    low: Vec<f32>,
    high: Vec<f32>,
    left_out: Vec<Part>,
}

impl ActorCritic {
    /// From weights that were loaded, drawn or trained.
    ///
    /// # Panics
    /// When the weights have more than [`FEATURES_MAX`] features; the schema is a constant of the build.
    #[must_use]
    pub fn new(weights: &Weights) -> Self {
        assert!(weights.features() <= FEATURES_MAX, "the feature vector outgrew FEATURES_MAX");
        Self {
            actor: weights.actor(),
            gates: weights.gates(),
            critic: weights.critic(),
            low: weights.tensor(RANGE_LOW).to_vec(),
            high: weights.tensor(RANGE_HIGH).to_vec(),
            left_out: vec![],
        }
    }

    /// The same networks with another idea of what training saw.
    #[must_use]
    pub fn with_range(self, low: Vec<f32>, high: Vec<f32>) -> Self {
        Self { low, high, ..self }
    }

    /// The same networks, trained without these parts.
    #[must_use]
    pub fn without(self, left_out: &[Part]) -> Self {
        Self { left_out: left_out.to_vec(), ..self }
    }

    /// Both networks' answers. `features` has the length of the schema. May be NaN for inputs that are not finite.
    #[must_use]
    pub fn answer(&self, features: &[f32], price: f64) -> Answer {
        Answer { log_multiplier: self.log_multiplier(features, price), value: self.value(features, price) }
    }

    /// The actor's answer alone.
    #[must_use]
    pub fn log_multiplier(&self, features: &[f32], price: f64) -> f32 {
        let mut buffer = [0.0; FEATURES_MAX];
        let seen = self.seen(features, &mut buffer);
        let (output, ramps, planner_error) =
            (self.actor.forward(seen), head::ramps(price), seen[head::UNIT_FEATURE]);
        if self.left_out.is_empty() {
            return head::log_multiplier(&output, &self.gates, &ramps, planner_error);
        }
        let answer = match self.left_out.contains(&Part::MonotonePrice) {
            false => head::log_multiplier(&output, &self.gates, &ramps, planner_error),
            true => head::unconstrained(&output, &ramps, planner_error),
        };
        left_out::on_planner(&self.left_out, features, answer)
    }

    /// The critic's answer alone.
    #[must_use]
    pub fn value(&self, features: &[f32], price: f64) -> f32 {
        let mut input = [0.0; FEATURES_MAX + 1];
        input[..features.len()].copy_from_slice(features);
        left_out::blind(&self.left_out, &mut input[..features.len()]);
        input[features.len()] = log_price(price);
        let [value] = self.critic.forward(&input[..=features.len()]);
        value
    }

    /// How far outside of what training saw the features are: the largest excess of any feature over its range, in
    /// the feature's own unit (a logarithm for most); 0 inside. The caller decides how far is too far.
    #[must_use]
    pub fn excess(&self, features: &[f32]) -> f32 {
        let mut buffer = [0.0; FEATURES_MAX];
        excess(self.seen(features, &mut buffer), &self.low, &self.high)
    }

    /// The features, without what the networks were trained not to see.
    fn seen<'f>(&self, features: &'f [f32], buffer: &'f mut [f32; FEATURES_MAX]) -> &'f [f32] {
        if self.left_out.is_empty() {
            return features;
        }
        let seen = &mut buffer[..features.len()];
        seen.copy_from_slice(features);
        left_out::blind(&self.left_out, seen);
        seen
    }
}

/// The largest excess of any feature over its range, 0 inside.
pub(crate) fn excess(features: &[f32], low: &[f32], high: &[f32]) -> f32 {
    let bounds = low.iter().zip(high);
    features.iter().zip(bounds).map(|(x, (low, high))| (low - x).max(x - high).max(0.0)).fold(0.0, f32::max)
}

/// The critic's last input: the price's logarithm, moved into what training draws from.
#[must_use]
pub fn log_price(price: f64) -> f32 {
    head::bounded(price).ln() as f32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rlscaler_sim::seed::Seed;

    use super::*;
    use crate::weights::{layout, symmetric};

    const FEATURES: usize = 57;

    /// Weights of every size, none of them zero: a net such as training could leave.
    pub(crate) fn random_weights(seed: u64, bound: f32) -> Weights {
        let mut rng = Seed(seed).stream("test weights");
        let values = layout(FEATURES)
            .iter()
            .map(|shape| (0..shape.len()).map(|_| symmetric(&mut rng, bound)).collect())
            .collect();
        Weights::new(FEATURES, values).unwrap()
    }

    fn random_features(seed: u64) -> Vec<f32> {
        let mut rng = Seed(seed).stream("test features");
        (0..FEATURES).map(|_| symmetric(&mut rng, 4.0)).collect()
    }

    #[test]
    fn before_training_the_answer_is_exactly_zero_whatever_the_features_and_price() {
        for seed in 0..20 {
            let net = ActorCritic::new(&Weights::zero_initialised(FEATURES, Seed(seed)));
            for price in [0.0, 4.0, 1500.0, f64::INFINITY] {
                let answer = net.answer(&random_features(seed), price);
                assert_eq!(answer, Answer { log_multiplier: 0.0, value: 0.0 }, "seed {seed}");
                assert_eq!(f64::from(answer.log_multiplier).exp(), 1.0);
            }
        }
    }

    #[test]
    fn excess_is_how_far_the_farthest_feature_is_outside() {
        let mut values = Weights::zero_initialised(FEATURES, Seed(1)).values().to_vec();
        let names = layout(FEATURES);
        for (shape, values) in names.iter().zip(&mut values) {
            match shape.name {
                RANGE_LOW => values.fill(-1.0),
                RANGE_HIGH => values.fill(2.0),
                _ => {}
            }
        }
        let net = ActorCritic::new(&Weights::new(FEATURES, values).unwrap());
        let mut features = vec![0.0; FEATURES];
        assert_eq!(net.excess(&features), 0.0);
        features[3] = 2.5;
        features[7] = -2.0;
        assert_eq!(net.excess(&features), 1.0);
    }

    proptest! {
        #[test]
        fn a_higher_price_never_asks_for_fewer_over_random_nets_and_features(
            seed in any::<u64>(),
            bound in 0.01f32..2.0,
            low in 0.0f64..1600.0,
            factor in 1.0f64..100.0,
        ) {
            let net = ActorCritic::new(&random_weights(seed, bound));
            let features = random_features(seed);
            let at = |price| net.answer(&features, price).log_multiplier;
            prop_assert!(at(low) <= at(low * factor), "seed {seed}");
        }
    }
}
