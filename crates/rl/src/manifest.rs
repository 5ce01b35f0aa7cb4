//! The page beside a model's weights: what it is, for which features, how it came to be and what it scored.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::left_out::Part;

/// How a model came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ModelKind {
    /// Untrained: answers exactly as the planner.
    #[serde(rename = "zero-initialised")]
    ZeroInitialised,
    /// The outcome of a training run.
    #[serde(rename = "trained")]
    Trained,
    /// The outcome of a run of the ablation [`crate::ppo`], another architecture: for comparing, not for serving.
    #[serde(rename = "ppo")]
    Ppo,
}

impl ModelKind {
    /// As written in the manifest and in `ModelReady`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ModelKind::ZeroInitialised => "zero-initialised",
            ModelKind::Trained => "trained",
            ModelKind::Ppo => "ppo",
        }
    }
}

/// Libraries whose arithmetic or format the weights depend on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Versions {
    /// This crate.
    pub rlscaler: String,
    /// candle-core, major and minor.
    pub candle: String,
    /// safetensors, major and minor.
    pub safetensors: String,
}

impl Versions {
    /// Those this crate was built with; a test holds them against Cargo.lock.
    #[must_use]
    pub fn current() -> Self {
        Self { rlscaler: env!("CARGO_PKG_VERSION").into(), candle: "0.11".into(), safetensors: "0.8".into() }
    }
}

/// Everything known of a model beside its weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Manifest {
    /// As policies name it.
    pub name: String,
    /// How it came to be.
    pub kind: ModelKind,
    /// Hash of the feature vector's names and order, 16 hexadecimal digits.
    pub schema_hash: String,
    /// SHA-256 of the weights' file, 64 hexadecimal digits.
    pub content_hash: String,
    /// Libraries it was made with.
    pub versions: Versions,
    /// Settings of training by name, each as the trainer writes it; empty when untrained.
    pub settings: BTreeMap<String, serde_json::Value>,
    /// Seed of all randomness in it.
    pub seed: u64,
    /// Commit it was trained on; absent when untrained, as then only the seed matters.
    pub commit: Option<String>,
    /// Scores by name, as measured by the command that the name of each states.
    pub scores: BTreeMap<String, f64>,
    /// Parts it was trained without, and is to be asked without; none of a shipped model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<Part>,
}

impl Manifest {
    /// As committed: pretty JSON with a newline at its end.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut json = serde_json::to_string_pretty(self).expect("a manifest has only string keys");
        json.push('\n');
        json
    }
}

/// A feature schema hash as manifests write it.
#[must_use]
pub fn schema_hash_text(hash: u64) -> String {
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_versions_are_those_of_the_lock_file() {
        let lock = include_str!("../../../Cargo.lock");
        let Versions { rlscaler, candle, safetensors } = Versions::current();
        for (package, version) in [("candle-core", candle), ("safetensors", safetensors)] {
            let wanted = format!("name = \"{package}\"\nversion = \"{version}.");
            assert!(lock.contains(&wanted), "{package} is no longer {version}: update Versions::current");
        }
        assert!(lock.contains(&format!("name = \"rlscaler-rl\"\nversion = \"{rlscaler}\"")));
    }
}
