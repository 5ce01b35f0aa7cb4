//! Networks that only ablations train: their numbers where the optimiser and a checkpoint reach them, and the same as
//! candle variables.
//!
//! In: widths, a seed. Out: values, gradients. Never: in a shipped model ([`crate::weights`] is for those).

use candle_core::backprop::GradStore;
use candle_core::{Device, Result, Tensor, Var};

use crate::network::{HIDDEN, Layer, Network};
use crate::optimiser::{Adam, AdamSettings, clip};
use crate::tensors::three_layers;
use crate::weights::{TensorShape, symmetric};
use rlscaler_sim::seed::Seed;

/// Names of a network's tensors: weight and bias of each of its three layers.
pub(crate) type Names = [&'static str; 6];

/// A network of two hidden layers, and the optimiser's memory of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Mlp {
    pub(crate) values: Vec<Vec<f32>>,
    pub(crate) adam: Adam,
}

/// The tensors of a network of these names.
pub(crate) fn shapes(names: &Names, inputs: usize, outputs: usize) -> [TensorShape; 6] {
    let dims = [
        vec![inputs, HIDDEN],
        vec![HIDDEN],
        vec![HIDDEN, HIDDEN],
        vec![HIDDEN],
        vec![HIDDEN, outputs],
        vec![outputs],
    ];
    let mut dims = dims.into_iter();
    names.map(|name| TensorShape { name, dims: dims.next().expect("as many as names") })
}

impl Mlp {
    /// Hidden layers drawn at random, outputs zero.
    pub(crate) fn new(names: &Names, inputs: usize, outputs: usize, seed: Seed) -> Self {
        let initial = |shape: &TensorShape| {
            let mut rng = seed.stream(shape.name);
            // Variance 1 / inputs keeps the signal's size from layer to layer.
            let bound = if shape.dims.len() == 2 { (3.0 / shape.dims[0] as f32).sqrt() } else { 0.0 };
            (0..shape.len()).map(|_| symmetric(&mut rng, bound)).collect::<Vec<_>>()
        };
        let mut values: Vec<Vec<f32>> = shapes(names, inputs, outputs).iter().map(initial).collect();
        values[4].fill(0.0);
        Self::of(values)
    }

    /// As it was; the optimiser remembers nothing.
    pub(crate) fn of(values: Vec<Vec<f32>>) -> Self {
        let adam = Adam::new(&values);
        Self { values, adam }
    }

    /// For deciding.
    pub(crate) fn network(&self) -> Network {
        network(&self.values)
    }

    /// For training.
    pub(crate) fn variables(&self) -> Result<Variables> {
        let inputs = self.values[0].len() / HIDDEN;
        let outputs = self.values[5].len();
        let dims = shapes(&[""; 6], inputs, outputs);
        let variable = |(values, shape): (&Vec<f32>, &TensorShape)| {
            Var::from_slice(values, shape.dims.clone(), &Device::Cpu)
        };
        Ok(Variables(self.values.iter().zip(&dims).map(variable).collect::<Result<_>>()?))
    }

    /// One step against gradients that are shortened to `limit`.
    pub(crate) fn step(&mut self, settings: &AdamSettings, mut gradients: Vec<Vec<f32>>, limit: f64) {
        clip(&mut gradients, limit);
        self.adam.step(settings, &mut self.values, &gradients);
    }

    /// Zeros to add gradients to.
    pub(crate) fn zeros(&self) -> Vec<Vec<f32>> {
        self.values.iter().map(|values| vec![0.0; values.len()]).collect()
    }
}

/// The network of these values, in the order of [`Names`].
pub(crate) fn network(values: &[Vec<f32>]) -> Network {
    let layer = |at: usize| Layer { weight: values[at].clone(), bias: values[at + 1].clone() };
    Network { first: layer(0), second: layer(2), output: layer(4) }
}

/// A network's values as candle variables.
pub(crate) struct Variables(Vec<Var>);

impl Variables {
    pub(crate) fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let tensors: Vec<&Tensor> = self.0.iter().map(Var::as_tensor).collect();
        three_layers(input, [tensors[0], tensors[2], tensors[4]], [tensors[1], tensors[3], tensors[5]])
    }

    pub(crate) fn gradients(&self, store: &GradStore) -> Result<Vec<Vec<f32>>> {
        let gradient = |variable: &Var| match store.get(variable) {
            Some(gradient) => gradient.flatten_all()?.to_vec1(),
            None => Ok(vec![0.0; variable.elem_count()]),
        };
        self.0.iter().map(gradient).collect()
    }
}

/// Adds gradients up, in one order.
pub(crate) fn add(sums: &mut [Vec<f32>], gradients: &[Vec<f32>]) {
    sums.iter_mut().flatten().zip(gradients.iter().flatten()).for_each(|(sum, gradient)| *sum += gradient);
}
