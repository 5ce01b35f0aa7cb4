//! The model that is compiled into the binary, and how its files are made.

use std::collections::BTreeMap;

use rlscaler_core::features;
use rlscaler_sim::seed::Seed;

use crate::manifest::{Manifest, ModelKind, Versions, schema_hash_text};
use crate::model::Model;
use crate::model_file::{self, Schema};
use crate::weights::Weights;

/// Name by which policies ask for it, and the default.
pub const BUILTIN_NAME: &str = "base";

/// Seed of the untrained model's hidden layers.
const ZERO_INITIALISED_SEED: u64 = 1;

const WEIGHTS: &[u8] = include_bytes!("../../../models/base.safetensors");
const MANIFEST: &[u8] = include_bytes!("../../../models/base.json");

/// What this build's features ask of a model.
#[must_use]
pub fn schema() -> Schema {
    Schema { features: features::WIDTH, hash: features::schema_hash() }
}

/// The model compiled into the binary.
///
/// # Panics
/// Never in a build whose tests passed: they load it.
#[must_use]
pub fn builtin() -> Model {
    Model::load(WEIGHTS, MANIFEST).expect("the committed model is loaded by a test")
}

/// The two files of the untrained model: weights, then manifest. A function of nothing, so that anybody can see
/// that the committed files are these.
#[must_use]
pub fn zero_initialised_files() -> (Vec<u8>, String) {
    let schema = schema();
    let bytes = model_file::write(&Weights::zero_initialised(schema.features, Seed(ZERO_INITIALISED_SEED)));
    let manifest = Manifest {
        name: BUILTIN_NAME.into(),
        kind: ModelKind::ZeroInitialised,
        schema_hash: schema_hash_text(schema.hash),
        content_hash: model_file::content_hash(&bytes),
        versions: Versions::current(),
        settings: BTreeMap::new(),
        seed: ZERO_INITIALISED_SEED,
        commit: None,
        scores: BTreeMap::new(),
        left_out: vec![],
    };
    (bytes, manifest.to_json())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_model_is_what_its_maker_makes() {
        if builtin().manifest().kind != ModelKind::ZeroInitialised {
            return;
        }
        let (weights, manifest) = zero_initialised_files();
        let how = "`cargo run -p rlscaler-rl --example untrained_model` writes it anew";
        assert_eq!(manifest, str::from_utf8(MANIFEST).unwrap(), "{how}");
        assert!(weights == WEIGHTS, "{how}");
    }
}
