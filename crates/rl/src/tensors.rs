//! The same two networks as candle tensors, for training and for large batches: one matrix per layer, gradients.
//!
//! In: [`Weights`] and features, one row each. Out: tensors that candle can differentiate. Deciding uses
//! [`crate::network`]; a test holds the two equal.

use candle_core::backprop::GradStore;
use candle_core::{DType, Device, Result, Tensor, Var};

use crate::head::{GATE_SCALE, HEAD, UNIT_FEATURE, UNIT_MAX, UNIT_MIN};
use crate::layers::{linear, silu};
use crate::weights::{CENTRE, SPREAD, Weights, layout};

/// Parameters as candle variables, in the order of [`layout`].
#[derive(Debug, Clone)]
pub struct Tensors {
    features: usize,
    variables: Vec<Var>,
}

impl Tensors {
    /// Copies the weights into variables.
    ///
    /// # Errors
    /// As candle's.
    pub fn new(weights: &Weights) -> Result<Self> {
        let variables = layout(weights.features())
            .iter()
            .zip(weights.values())
            .map(|(shape, values)| Var::from_slice(values, shape.dims.clone(), &Device::Cpu))
            .collect::<Result<_>>()?;
        Ok(Self { features: weights.features(), variables })
    }

    /// Copies the variables back into weights.
    ///
    /// # Errors
    /// As candle's.
    pub fn weights(&self) -> Result<Weights> {
        let values = self
            .variables
            .iter()
            .map(|variable| variable.as_tensor().flatten_all()?.to_dtype(DType::F32)?.to_vec1())
            .collect::<Result<_>>()?;
        Ok(Weights::new(self.features, values).expect("variables keep their shapes"))
    }

    /// All variables, in the order of [`layout`].
    #[must_use]
    pub fn variables(&self) -> &[Var] {
        &self.variables
    }

    /// Gradients in the order of [`layout`]; zeros where none was left.
    ///
    /// # Errors
    /// As candle's.
    pub fn gradients(&self, store: &GradStore) -> Result<Vec<Vec<f32>>> {
        let gradient = |variable: &Var| match store.get(variable) {
            Some(gradient) => gradient.flatten_all()?.to_vec1(),
            None => Ok(vec![0.0; variable.elem_count()]),
        };
        self.variables.iter().map(gradient).collect()
    }

    /// Log-multipliers (rows, prices) for `features` (rows, features), given the ramps of each price (prices, anchors).
    /// Not clamped: the clamp has no gradient where training would need one most.
    ///
    /// # Errors
    /// As candle's.
    pub fn log_multipliers(&self, features: &Tensor, ramps: &Tensor) -> Result<Tensor> {
        let output = self.network("actor", &self.standardised(features)?)?;
        let base = output.narrow(1, 0, 1)?;
        let slopes = softplus(&output.narrow(1, 1, HEAD - 1)?)?;
        let gates = (self.variable("actor.gates").as_tensor() * f64::from(GATE_SCALE))?.abs()?;
        let unit = features.narrow(1, UNIT_FEATURE, 1)?.clamp(UNIT_MIN, UNIT_MAX)?;
        slopes.broadcast_mul(&gates)?.matmul(&ramps.t()?)?.broadcast_add(&base)?.broadcast_mul(&unit)
    }

    /// The same without the constraint, see [`crate::head::unconstrained`].
    ///
    /// # Errors
    /// As candle's.
    pub fn unconstrained(&self, features: &Tensor, ramps: &Tensor) -> Result<Tensor> {
        let output = self.network("actor", &self.standardised(features)?)?;
        let unit = features.narrow(1, UNIT_FEATURE, 1)?.clamp(UNIT_MIN, UNIT_MAX)?;
        let slopes = output.narrow(1, 1, HEAD - 1)?;
        slopes.matmul(&ramps.t()?)?.broadcast_add(&output.narrow(1, 0, 1)?)?.broadcast_mul(&unit)
    }

    /// The critic's values, one per row of `inputs` (rows, features and the log price).
    ///
    /// # Errors
    /// As candle's.
    pub fn values(&self, inputs: &Tensor) -> Result<Tensor> {
        let features = self.standardised(&inputs.narrow(1, 0, self.features)?)?;
        let price = inputs.narrow(1, self.features, 1)?;
        self.network("critic", &Tensor::cat(&[&features, &price], 1)?)?.squeeze(1)
    }

    /// Features as differences from what is typical; nothing is learnt in it.
    fn standardised(&self, features: &Tensor) -> Result<Tensor> {
        let centre = self.variable(CENTRE).as_tensor().detach();
        let spread = self.variable(SPREAD).as_tensor().detach();
        features.broadcast_sub(&centre)?.broadcast_div(&spread)
    }

    fn network(&self, which: &str, input: &Tensor) -> Result<Tensor> {
        let of = |what: &str| {
            ["first", "second", "output"]
                .map(|layer| self.variable(&format!("{which}.{layer}.{what}")).as_tensor())
        };
        three_layers(input, of("weight"), of("bias"))
    }

    /// Panics on a name that is not in [`layout`].
    fn variable(&self, name: &str) -> &Var {
        let index = layout(self.features).iter().position(|shape| shape.name == name);
        &self.variables[index.expect("the name is in the layout")]
    }
}

/// A network's outputs for rows of inputs.
pub(crate) fn three_layers(input: &Tensor, weights: [&Tensor; 3], biases: [&Tensor; 3]) -> Result<Tensor> {
    let layer = |x: &Tensor, at: usize| linear(x, weights[at], biases[at]);
    let first = silu(&layer(input, 0)?)?;
    let second = silu(&layer(&first, 1)?)?;
    layer(&second, 2)
}

/// `ln(1 + exp(x))`, without overflow.
fn softplus(x: &Tensor) -> Result<Tensor> {
    x.relu()? + (x.abs()?.neg()?.exp()? + 1.0)?.log()?
}
