//! A small fully connected network in plain loops, and the names and shapes of its weights.
//!
//! In: a slice of inputs. Out: a slice of outputs. Never: a thread, an allocation, a tensor. One decision is a few
//! thousand multiplications, for which a tensor library's own overhead is most of the cost
//! (docs/decisions, "Inference in plain loops"); training uses [`crate::tensors`], which is tested to be equal.

/// Neurons of each of the two hidden layers.
pub const HIDDEN: usize = 64;

/// Weights of one layer: `weight[input * outputs + output]`, so that the inner loop runs over outputs and vectorises.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// Input-major, `inputs * outputs` long.
    pub weight: Vec<f32>,
    /// One per output.
    pub bias: Vec<f32>,
}

impl Layer {
    /// This layer over standardised inputs as one over the inputs as they are; inputs beyond `centre` are not standardised.
    #[must_use]
    pub fn over_standardised(self, centre: &[f32], spread: &[f32]) -> Self {
        let Self { mut weight, mut bias } = self;
        let outputs = bias.len();
        for (row, (&centre, &spread)) in weight.chunks_exact_mut(outputs).zip(centre.iter().zip(spread)) {
            for (weight, bias) in row.iter_mut().zip(&mut bias) {
                *weight /= spread;
                *bias -= centre * *weight;
            }
        }
        Self { weight, bias }
    }

    /// `out = bias + input * weight`. Lengths are the caller's invariant: the model file is checked when loaded.
    fn apply(&self, input: &[f32], out: &mut [f32]) {
        out.copy_from_slice(&self.bias);
        for (&x, row) in input.iter().zip(self.weight.chunks_exact(out.len())) {
            for (o, &w) in out.iter_mut().zip(row) {
                *o += x * w;
            }
        }
    }
}

/// `inputs -> HIDDEN -> HIDDEN -> outputs`, SiLU between, nothing after.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    /// First hidden layer.
    pub first: Layer,
    /// Second hidden layer.
    pub second: Layer,
    /// Linear output.
    pub output: Layer,
}

impl Network {
    /// One forward pass. `OUT` is the width of the output layer.
    #[must_use]
    pub fn forward<const OUT: usize>(&self, input: &[f32]) -> [f32; OUT] {
        let mut first = [0.0; HIDDEN];
        let mut second = [0.0; HIDDEN];
        let mut out = [0.0; OUT];
        self.first.apply(input, &mut first);
        silu(&mut first);
        self.second.apply(&first, &mut second);
        silu(&mut second);
        self.output.apply(&second, &mut out);
        out
    }
}

/// `x * sigmoid(x)`.
fn silu(values: &mut [f32]) {
    for x in values {
        *x /= 1.0 + (-*x).exp();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_is_bias_plus_weighted_inputs() {
        let layer = Layer { weight: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0], bias: vec![0.5, 0.0, -0.5] };
        let mut out = [0.0; 3];
        layer.apply(&[10.0, 1.0], &mut out);
        assert_eq!(out, [14.5, 25.0, 35.5]);
    }

    #[test]
    fn silu_is_near_the_input_far_up_and_zero_far_down() {
        let mut values = [0.0, 1.0, 100.0, -100.0];
        silu(&mut values);
        assert_eq!(values[0], 0.0);
        assert!((values[1] - 0.731_058_6).abs() < 1e-6);
        assert_eq!(values[2], 100.0);
        assert!(values[3].abs() < 1e-30);
    }
}
