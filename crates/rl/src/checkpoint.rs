//! A training run put aside: weights, the optimiser's memory, and what run it was. Going on from it gives the bytes
//! an unbroken run gives.
//!
//! In: a [`Learner`] and a fingerprint of (settings, seed, features). Out: bytes, and back. Never: a file.

use std::collections::HashMap;

use safetensors::SafeTensors;

use crate::mlp::{self, Mlp};
use crate::model_file::{F32View, ModelFault, parse, read_named};
use crate::optimiser::Adam;
use crate::pathwise::Learner;
use crate::tail;
use crate::weights::{TensorShape, Weights, layout};

/// The three tensors kept per tensor of the networks.
const PARTS: [&str; 3] = ["weights", "mean", "square"];

/// Key of the file's only metadata entry: one, as the writer does not keep the order of several.
const RUN: &str = "run";

/// Why a checkpoint cannot be gone on from.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointFault {
    /// Its tensors are not what a checkpoint holds.
    #[error("the checkpoint cannot be read")]
    Unreadable(#[source] ModelFault),
    /// The number of updates or the fingerprint is missing.
    #[error("the checkpoint does not say what run it is of")]
    Unnamed,
    /// Going on would give a model that no single run gives.
    #[error("the checkpoint is of another run: settings, seed or features differ")]
    OtherRun,
}

/// The learner as bytes.
#[must_use]
pub fn write(learner: &Learner, fingerprint: &str) -> Vec<u8> {
    let Learner { weights, adam, tail } = learner;
    let updates = adam.updates;
    let mut tensors = named(&layout(weights.features()), weights.values(), adam);
    if let Some(Mlp { values, adam }) = tail {
        tensors.extend(named(&tail_layout(weights.features()), values, adam));
    }
    let views = tensors.iter().map(|(name, values, shape)| (name.as_str(), F32View::new(shape, values)));
    let run = HashMap::from([(RUN.to_owned(), format!("{updates} {fingerprint}"))]);
    safetensors::serialize(views, Some(run)).expect("shapes and lengths agree by construction of Weights")
}

/// The learner again.
///
/// # Errors
/// When the bytes are no checkpoint, or one of another run.
pub fn read(bytes: &[u8], features: usize, fingerprint: &str) -> Result<Learner, CheckpointFault> {
    let updates = updates_of(bytes, fingerprint)?;
    let tensors = parse(bytes).map_err(CheckpointFault::Unreadable)?;
    let (weights, adam) = of_names(&tensors, &layout(features), updates)?;
    let weights = Weights::new(features, weights).expect("every tensor was checked against the layout");
    let has_tail = tensors.names().into_iter().any(|name| name.contains(tail::NAMES[0]));
    let tail = has_tail.then(|| of_names(&tensors, &tail_layout(features), updates)).transpose()?;
    Ok(Learner { weights, adam, tail: tail.map(|(values, adam)| Mlp { values, adam }) })
}

/// Tensors of the critic of what comes after a window. Its optimiser has made the same number of steps.
fn tail_layout(features: usize) -> [TensorShape; 6] {
    mlp::shapes(&tail::NAMES, tail::inputs(features), 1)
}

/// Values and the optimiser's memory of them, by name.
fn named(shapes: &[TensorShape], values: &[Vec<f32>], adam: &Adam) -> Vec<(String, Vec<f32>, TensorShape)> {
    let parts = [values, adam.mean.as_slice(), adam.square.as_slice()];
    let of_part = |(part, values): (&&str, &[Vec<f32>])| -> Vec<(String, Vec<f32>, TensorShape)> {
        let tensors = shapes.iter().zip(values);
        tensors
            .map(|(shape, values)| (format!("{part}/{}", shape.name), values.clone(), shape.clone()))
            .collect()
    };
    PARTS.iter().zip(parts).flat_map(of_part).collect()
}

fn of_names(
    tensors: &SafeTensors<'_>,
    shapes: &[TensorShape],
    updates: u64,
) -> Result<(Vec<Vec<f32>>, Adam), CheckpointFault> {
    let part = |part: &str| -> Result<Vec<Vec<f32>>, CheckpointFault> {
        let tensor = |shape: &TensorShape| read_named(tensors, &format!("{part}/{}", shape.name), shape);
        shapes.iter().map(tensor).collect::<Result<_, _>>().map_err(CheckpointFault::Unreadable)
    };
    let [values, mean, square] = PARTS.map(part);
    Ok((values?, Adam { updates, mean: mean?, square: square? }))
}

fn updates_of(bytes: &[u8], fingerprint: &str) -> Result<u64, CheckpointFault> {
    // `parse` first: it bounds the size.
    parse(bytes).map_err(CheckpointFault::Unreadable)?;
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(|_| CheckpointFault::Unnamed)?;
    let run =
        header.metadata().as_ref().and_then(|metadata| metadata.get(RUN)).ok_or(CheckpointFault::Unnamed)?;
    let (updates, of) = run.split_once(' ').ok_or(CheckpointFault::Unnamed)?;
    if of != fingerprint {
        return Err(CheckpointFault::OtherRun);
    }
    updates.parse().map_err(|_| CheckpointFault::Unnamed)
}
