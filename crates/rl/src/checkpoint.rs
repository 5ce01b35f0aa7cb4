//! A training run put aside: weights, the optimiser's memory, and what run it was. Going on from it gives the bytes
//! an unbroken run gives.
//!
//! In: a [`Learner`] and a fingerprint of (settings, seed, features). Out: bytes, and back. Never: a file.

use std::collections::HashMap;

use safetensors::SafeTensors;

use crate::model_file::{F32View, ModelFault, parse, read_named};
use crate::optimiser::Adam;
use crate::pathwise::Learner;
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
    let Learner { weights, adam } = learner;
    let Adam { updates, mean, square } = adam;
    let shapes = layout(weights.features());
    let parts = [weights.values(), mean.as_slice(), square.as_slice()];
    let named = |(part, values): (&&str, &[Vec<f32>])| -> Vec<(String, Vec<f32>, TensorShape)> {
        let tensors = shapes.iter().zip(values);
        tensors
            .map(|(shape, values)| (format!("{part}/{}", shape.name), values.clone(), shape.clone()))
            .collect()
    };
    let tensors: Vec<_> = PARTS.iter().zip(parts).flat_map(named).collect();
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
    let shapes = layout(features);
    let part = |part: &str| -> Result<Vec<Vec<f32>>, CheckpointFault> {
        let tensor = |shape: &TensorShape| read_named(&tensors, &format!("{part}/{}", shape.name), shape);
        shapes.iter().map(tensor).collect::<Result<_, _>>().map_err(CheckpointFault::Unreadable)
    };
    let [weights, mean, square] = PARTS.map(part);
    let weights = Weights::new(features, weights?).expect("every tensor was checked against the layout");
    Ok(Learner { weights, adam: Adam { updates, mean: mean?, square: square? } })
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
