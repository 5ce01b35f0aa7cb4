//! Model files: safetensors for the weights, JSON for the manifest. Reading trusts nothing: sizes are bounded before
//! anything is parsed, every tensor is accounted for, and both hashes must agree.
//!
//! In: bytes. Out: [`Weights`] and [`Manifest`], or one [`ModelFault`] that says what is wrong. Never: a file, a
//! network, a panic.

use std::borrow::Cow;

use safetensors::tensor::{Dtype, SafeTensorError, SafeTensors, View};
use sha2::{Digest, Sha256};

use crate::manifest::{Manifest, schema_hash_text};
use crate::weights::{TensorShape, Weights, layout};

/// Largest weights' file that is looked at. An actor-critic over a hundred features is about 90 KiB; ten times
/// that leaves room and still cannot hurt.
pub const WEIGHTS_BYTES_MAX: usize = 1 << 20;

/// Largest manifest that is looked at.
pub const MANIFEST_BYTES_MAX: usize = 64 << 10;

/// Longest model name, as for any Kubernetes object.
pub const NAME_CHARS_MAX: usize = 253;

/// The length field a safetensors file starts with, bytes.
const HEADER_LENGTH_BYTES: usize = 8;

/// Why a model cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelFault {
    /// See [`MANIFEST_BYTES_MAX`].
    #[error("the manifest has {bytes} bytes, more than the {MANIFEST_BYTES_MAX} allowed")]
    ManifestTooLarge {
        /// Bytes given.
        bytes: usize,
    },
    /// Not JSON, a field missing or unknown, or of the wrong type.
    #[error("the manifest cannot be read: {0}")]
    ManifestUnreadable(String),
    /// Empty or too long.
    #[error("the manifest's name has {chars} characters, not 1 to {NAME_CHARS_MAX}")]
    NameLength {
        /// Characters given.
        chars: usize,
    },
    /// Made for another feature vector: this operator would feed it the wrong numbers.
    #[error("the model was made for features {model}, this operator computes {operator}")]
    SchemaMismatch {
        /// Hash in the manifest.
        model: String,
        /// Hash of this build.
        operator: String,
    },
    /// See [`WEIGHTS_BYTES_MAX`].
    #[error("the weights have {bytes} bytes, more than the {WEIGHTS_BYTES_MAX} allowed")]
    WeightsTooLarge {
        /// Bytes given.
        bytes: usize,
    },
    /// The file ends within its header.
    #[error("the weights are truncated: {bytes} bytes of at least {announced}")]
    Truncated {
        /// Bytes given.
        bytes: usize,
        /// Bytes the file says it has.
        announced: u64,
    },
    /// The file ends before its last tensor does, or goes on after it.
    #[error(
        "the weights are truncated or have bytes appended: {bytes} bytes are not what the header announces"
    )]
    LengthMismatch {
        /// Bytes given.
        bytes: usize,
    },
    /// Not a safetensors file, or one whose header contradicts itself.
    #[error("the weights are not a valid safetensors file: {0}")]
    WeightsUnreadable(String),
    /// A tensor the networks need.
    #[error("the weights lack the tensor {name}")]
    MissingTensor {
        /// Its name.
        name: &'static str,
    },
    /// A tensor the networks do not know: the file is of another architecture.
    #[error("the weights have a tensor {name} that no network here uses")]
    UnknownTensor {
        /// Its name, cut to a printable length.
        name: String,
    },
    /// Not 32-bit floats.
    #[error("tensor {name} holds {found}, not F32")]
    WrongType {
        /// Its name.
        name: &'static str,
        /// The type found.
        found: String,
    },
    /// Not the dimensions the networks have.
    #[error("tensor {name} has shape {found:?}, not {expected:?}")]
    WrongShape {
        /// Its name.
        name: &'static str,
        /// Dimensions found.
        found: Vec<usize>,
        /// Dimensions needed.
        expected: Vec<usize>,
    },
    /// NaN or infinite.
    #[error("tensor {name} holds a value that is not finite")]
    NotFinite {
        /// Its name.
        name: &'static str,
    },
    /// The weights are not those the manifest speaks of.
    #[error("the weights' hash is {found}, the manifest says {expected}")]
    HashMismatch {
        /// SHA-256 of the bytes given.
        found: String,
        /// As the manifest has it, cut to a printable length.
        expected: String,
    },
}

/// What a reader must know to accept a model.
#[derive(Debug, Clone, Copy)]
pub struct Schema {
    /// Length of the feature vector.
    pub features: usize,
    /// Hash of its names and order.
    pub hash: u64,
}

/// Checks and reads a model.
///
/// # Errors
/// The first thing wrong, in this order: manifest, schema, size, structure, tensors by name, content hash.
pub fn read(weights: &[u8], manifest: &[u8], schema: Schema) -> Result<(Weights, Manifest), ModelFault> {
    let manifest = of_schema(manifest, schema)?;
    let tensors = parse(weights)?;
    let shapes = layout(schema.features);
    if let Some(name) = tensors.names().into_iter().find(|name| shapes.iter().all(|s| s.name != *name)) {
        return Err(ModelFault::UnknownTensor { name: printable(name) });
    }
    let values = shapes.iter().map(|shape| read_tensor(&tensors, shape)).collect::<Result<_, _>>()?;
    of_content(&manifest, weights)?;
    let checked = Weights::new(schema.features, values).expect("every tensor was checked against the layout");
    Ok((checked, manifest))
}

/// The bytes of a weights' file: the same for the same weights.
#[must_use]
pub fn write(weights: &Weights) -> Vec<u8> {
    let shapes = layout(weights.features());
    let views =
        shapes.iter().zip(weights.values()).map(|(shape, values)| (shape.name, F32View::new(shape, values)));
    safetensors::serialize(views, None).expect("shapes and lengths agree by construction of Weights")
}

/// SHA-256 in hexadecimal.
#[must_use]
pub fn content_hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A manifest that is for this build's features and for these weights.
pub(crate) fn checked_manifest(
    weights: &[u8],
    manifest: &[u8],
    schema: Schema,
) -> Result<Manifest, ModelFault> {
    let manifest = of_schema(manifest, schema)?;
    of_content(&manifest, weights)?;
    Ok(manifest)
}

fn of_schema(manifest: &[u8], schema: Schema) -> Result<Manifest, ModelFault> {
    let manifest = read_manifest(manifest)?;
    let operator = schema_hash_text(schema.hash);
    if manifest.schema_hash != operator {
        return Err(ModelFault::SchemaMismatch { model: printable(&manifest.schema_hash), operator });
    }
    Ok(manifest)
}

fn of_content(manifest: &Manifest, weights: &[u8]) -> Result<(), ModelFault> {
    let found = content_hash(weights);
    if manifest.content_hash != found {
        return Err(ModelFault::HashMismatch { found, expected: printable(&manifest.content_hash) });
    }
    Ok(())
}

pub(crate) fn read_manifest(bytes: &[u8]) -> Result<Manifest, ModelFault> {
    if MANIFEST_BYTES_MAX < bytes.len() {
        return Err(ModelFault::ManifestTooLarge { bytes: bytes.len() });
    }
    let manifest: Manifest = serde_json::from_slice(bytes)
        .map_err(|error| ModelFault::ManifestUnreadable(printable(&error.to_string())))?;
    let chars = manifest.name.chars().count();
    if !(1..=NAME_CHARS_MAX).contains(&chars) {
        return Err(ModelFault::NameLength { chars });
    }
    Ok(manifest)
}

pub(crate) fn parse(bytes: &[u8]) -> Result<SafeTensors<'_>, ModelFault> {
    if WEIGHTS_BYTES_MAX < bytes.len() {
        return Err(ModelFault::WeightsTooLarge { bytes: bytes.len() });
    }
    let truncated = |announced| ModelFault::Truncated { bytes: bytes.len(), announced };
    let Some(length) = bytes.first_chunk::<HEADER_LENGTH_BYTES>() else {
        return Err(truncated(HEADER_LENGTH_BYTES as u64));
    };
    let header_end = u64::from_le_bytes(*length).saturating_add(HEADER_LENGTH_BYTES as u64);
    if (bytes.len() as u64) < header_end {
        return Err(truncated(header_end));
    }
    SafeTensors::deserialize(bytes).map_err(|fault| match fault {
        SafeTensorError::MetadataIncompleteBuffer => ModelFault::LengthMismatch { bytes: bytes.len() },
        other => ModelFault::WeightsUnreadable(printable(&other.to_string())),
    })
}

pub(crate) fn read_tensor(tensors: &SafeTensors<'_>, shape: &TensorShape) -> Result<Vec<f32>, ModelFault> {
    read_named(tensors, shape.name, shape)
}

/// The tensor of this name in the file, which is to have the shape of that name in the layout.
pub(crate) fn read_named(
    tensors: &SafeTensors<'_>,
    name_in_file: &str,
    shape: &TensorShape,
) -> Result<Vec<f32>, ModelFault> {
    let name = shape.name;
    let Ok(view) = tensors.tensor(name_in_file) else {
        return Err(ModelFault::MissingTensor { name });
    };
    if view.dtype() != Dtype::F32 {
        return Err(ModelFault::WrongType { name, found: format!("{:?}", view.dtype()) });
    }
    if view.shape() != shape.dims {
        let found = view.shape().to_vec();
        return Err(ModelFault::WrongShape { name, found, expected: shape.dims.clone() });
    }
    let (chunks, _) = view.data().as_chunks::<4>();
    let values: Vec<f32> = chunks.iter().map(|chunk| f32::from_le_bytes(*chunk)).collect();
    if values.iter().any(|value| !value.is_finite()) {
        return Err(ModelFault::NotFinite { name });
    }
    Ok(values)
}

/// The start of a text that came from outside, fit for a log line.
pub(crate) fn printable(text: &str) -> String {
    const CHARS_MAX: usize = 100;
    rlscaler_core::text::visible(text, CHARS_MAX)
}

/// A tensor as the safetensors writer wants to see it.
pub(crate) struct F32View<'a> {
    shape: &'a TensorShape,
    values: &'a [f32],
}

impl<'a> F32View<'a> {
    /// `values` has as many numbers as `shape` says.
    pub(crate) fn new(shape: &'a TensorShape, values: &'a [f32]) -> Self {
        Self { shape, values }
    }
}

impl View for F32View<'_> {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }
    fn shape(&self) -> &[usize] {
        &self.shape.dims
    }
    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Owned(self.values.iter().flat_map(|value| value.to_le_bytes()).collect())
    }
    fn data_len(&self) -> usize {
        size_of_val(self.values)
    }
}
