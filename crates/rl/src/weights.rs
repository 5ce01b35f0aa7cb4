//! All numbers of an actor-critic under their names: what a model file holds, training changes and inference reads.
//!
//! One table ([`layout`]) says which tensors there are; loading, saving, drawing and the optimiser all follow it, in
//! its order (sorted by name), so that sums over parameters have one order and runs repeat to the bit.

use rand::Rng;
use rlscaler_sim::seed::{Seed, Stream};

use crate::head::{ANCHORS, HEAD};
use crate::network::{HIDDEN, Layer, Network};

/// One tensor the model consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorShape {
    /// Name in the file.
    pub name: &'static str,
    /// Dimensions; a weight is (inputs, outputs).
    pub dims: Vec<usize>,
}

impl TensorShape {
    /// Numbers in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.dims.iter().product()
    }

    /// True for a tensor without numbers; there is none in [`layout`].
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Tensors that the optimiser does not touch: the range of each feature seen in training.
pub const RANGE_HIGH: &str = "features.high";
/// See [`RANGE_HIGH`].
pub const RANGE_LOW: &str = "features.low";

/// Mean of each feature in training: the networks see differences from it, over [`SPREAD`].
pub const CENTRE: &str = "features.centre";
/// Standard deviation of each feature in training.
pub const SPREAD: &str = "features.spread";

/// Every tensor of an actor-critic over `features` features, sorted by name. The critic also sees the log price, as
/// its last input.
#[must_use]
pub fn layout(features: usize) -> Vec<TensorShape> {
    let shape = |name, dims: &[usize]| TensorShape { name, dims: dims.to_vec() };
    vec![
        shape("actor.first.bias", &[HIDDEN]),
        shape("actor.first.weight", &[features, HIDDEN]),
        shape("actor.gates", &[ANCHORS]),
        shape("actor.output.bias", &[HEAD]),
        shape("actor.output.weight", &[HIDDEN, HEAD]),
        shape("actor.second.bias", &[HIDDEN]),
        shape("actor.second.weight", &[HIDDEN, HIDDEN]),
        shape("critic.first.bias", &[HIDDEN]),
        shape("critic.first.weight", &[features + 1, HIDDEN]),
        shape("critic.output.bias", &[1]),
        shape("critic.output.weight", &[HIDDEN, 1]),
        shape("critic.second.bias", &[HIDDEN]),
        shape("critic.second.weight", &[HIDDEN, HIDDEN]),
        shape(CENTRE, &[features]),
        shape(RANGE_HIGH, &[features]),
        shape(RANGE_LOW, &[features]),
        shape(SPREAD, &[features]),
    ]
}

/// The numbers, in the order of [`layout`].
#[derive(Debug, Clone, PartialEq)]
pub struct Weights {
    features: usize,
    values: Vec<Vec<f32>>,
}

impl Weights {
    /// From values in the order of [`layout`]; the tensor that does not fit is named.
    ///
    /// # Errors
    /// The first tensor whose number of values is wrong, or one past the last given.
    pub fn new(features: usize, values: Vec<Vec<f32>>) -> Result<Self, TensorShape> {
        for (index, shape) in layout(features).into_iter().enumerate() {
            if values.get(index).map(Vec::len) != Some(shape.len()) {
                return Err(shape);
            }
        }
        Ok(Self { features, values })
    }

    /// The untrained actor-critic: hidden layers drawn at random, all that reaches the outputs zero, so that it
    /// answers exactly as the planner and still can learn. The range of features is everything.
    #[must_use]
    pub fn zero_initialised(features: usize, seed: Seed) -> Self {
        let values = layout(features).iter().map(|shape| initial(shape, seed)).collect();
        Self { features, values }
    }

    /// Number of features.
    #[must_use]
    pub fn features(&self) -> usize {
        self.features
    }

    /// Values in the order of [`layout`].
    #[must_use]
    pub fn values(&self) -> &[Vec<f32>] {
        &self.values
    }

    /// The same, to be changed in place; lengths stay.
    pub fn values_mut(&mut self) -> &mut [Vec<f32>] {
        &mut self.values
    }

    /// Values of one tensor, to be changed in place. Panics on a name that is not in [`layout`].
    pub fn tensor_mut(&mut self, name: &str) -> &mut [f32] {
        let index = layout(self.features).iter().position(|shape| shape.name == name);
        &mut self.values[index.expect("the name is in the layout")]
    }

    /// Values of one tensor. Panics on a name that is not in [`layout`].
    #[must_use]
    pub fn tensor(&self, name: &str) -> &[f32] {
        let index = layout(self.features).iter().position(|shape| shape.name == name);
        &self.values[index.expect("the name is in the layout")]
    }

    /// The actor's network.
    #[must_use]
    pub fn actor(&self) -> Network {
        Network {
            first: self.standardising(self.layer("actor.first.weight", "actor.first.bias")),
            second: self.layer("actor.second.weight", "actor.second.bias"),
            output: self.layer("actor.output.weight", "actor.output.bias"),
        }
    }

    /// The critic's network.
    #[must_use]
    pub fn critic(&self) -> Network {
        Network {
            first: self.standardising(self.layer("critic.first.weight", "critic.first.bias")),
            second: self.layer("critic.second.weight", "critic.second.bias"),
            output: self.layer("critic.output.weight", "critic.output.bias"),
        }
    }

    /// The actor's gates.
    #[must_use]
    pub fn gates(&self) -> [f32; ANCHORS] {
        self.tensor("actor.gates").try_into().expect("the layout says how many gates there are")
    }

    fn standardising(&self, layer: Layer) -> Layer {
        layer.over_standardised(self.tensor(CENTRE), self.tensor(SPREAD))
    }

    fn layer(&self, weight: &str, bias: &str) -> Layer {
        Layer { weight: self.tensor(weight).to_vec(), bias: self.tensor(bias).to_vec() }
    }
}

/// First values of one tensor. Each has a stream of its own, so that one more tensor changes no other.
fn initial(shape: &TensorShape, seed: Seed) -> Vec<f32> {
    match shape.name {
        RANGE_HIGH => vec![f32::MAX; shape.len()],
        RANGE_LOW => vec![f32::MIN; shape.len()],
        SPREAD => vec![1.0; shape.len()],
        "actor.first.weight" | "actor.second.weight" | "critic.first.weight" | "critic.second.weight" => {
            // Variance 1 / inputs keeps the signal's size from layer to layer.
            let bound = (3.0 / shape.dims[0] as f32).sqrt();
            let mut weights = seed.stream(shape.name);
            (0..shape.len()).map(|_| symmetric(&mut weights, bound)).collect()
        }
        _ => vec![0.0; shape.len()],
    }
}

/// Uniform in `[-bound, bound)`, from 24 bits, so that the bytes of a model do not depend on a library's sampling.
pub(crate) fn symmetric(rng: &mut Stream, bound: f32) -> f32 {
    const STEPS: f32 = 16_777_216.0;
    let unit = (rng.next_u32() >> 8) as f32 / STEPS;
    bound * (2.0 * unit - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_sorted_by_name_and_has_no_name_twice() {
        let names: Vec<_> = layout(3).iter().map(|shape| shape.name).collect();
        assert!(names.windows(2).all(|pair| pair[0] < pair[1]), "{names:?}");
    }

    #[test]
    fn the_same_seed_draws_the_same_weights_and_another_others() {
        assert_eq!(Weights::zero_initialised(3, Seed(1)), Weights::zero_initialised(3, Seed(1)));
        assert_ne!(Weights::zero_initialised(3, Seed(1)), Weights::zero_initialised(3, Seed(2)));
    }

    #[test]
    fn a_tensor_of_the_wrong_length_is_named() {
        let mut values = Weights::zero_initialised(3, Seed(1)).values().to_vec();
        values[2].pop();
        assert_eq!(Weights::new(3, values).unwrap_err().name, "actor.gates");
        assert_eq!(Weights::new(3, vec![]).unwrap_err().name, "actor.first.bias");
    }
}
