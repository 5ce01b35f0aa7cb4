//! A training run from settings and a seed to a model file.
//!
//! In: [`TrainingSettings`], a seed, perhaps a checkpoint. Out: the learner, and its two files. A function of its
//! arguments on one machine. Never: a clock, a file; who calls it keeps time, writes and draws progress.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use rayon::prelude::*;
use rlscaler_core::features;
use rlscaler_sim::seed::Seed;
use serde::{Deserialize, Serialize};

use crate::builtin::schema;
use crate::checkpoint::{self, CheckpointFault};
use crate::episodes::{self, Episode, EpisodeSettings};
use crate::left_out;
use crate::limits;
use crate::manifest::{Manifest, ModelKind, Versions, schema_hash_text};
use crate::model_file;
use crate::pathwise::{self, Learner, PathwiseSettings, UpdateReport};

/// Most episodes a run may draw.
pub const EPISODES_MAX: u64 = 20_000;

/// Everything a run depends on beside its seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainingSettings {
    /// Episodes drawn before the first update; windows are drawn from them for the whole run. 500 MB.
    pub episode_count: u64,
    /// What they are drawn from.
    pub episodes: EpisodeSettings,
    /// How to learn.
    pub pathwise: PathwiseSettings,
}

impl Default for TrainingSettings {
    fn default() -> Self {
        Self {
            episode_count: 6000,
            episodes: EpisodeSettings::default(),
            pathwise: PathwiseSettings::default(),
        }
    }
}

/// Why a run did not come about or broke off.
#[derive(Debug, thiserror::Error)]
pub enum TrainingFault {
    /// A setting no run can have.
    #[error("{field}: {expected}")]
    Setting {
        /// Path of the setting.
        field: &'static str,
        /// What it should be.
        expected: String,
    },
    /// The checkpoint to go on from.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointFault),
    /// candle.
    #[error("an update failed")]
    Update(#[from] candle_core::Error),
}

impl TrainingSettings {
    /// What identifies a run: going on from a checkpoint of another is refused.
    #[must_use]
    pub fn fingerprint(&self, seed: Seed) -> String {
        let run = format!("{self:?} {seed:?} {}", schema_hash_text(schema().hash));
        model_file::content_hash(run.as_bytes())
    }

    /// # Errors
    /// The first setting that no run can have.
    pub fn check(&self) -> Result<(), TrainingFault> {
        limits::check(self)
    }
}

/// Draws the episodes of a run. Runs on the rayon pool it is called in.
#[must_use]
pub fn draw_episodes(settings: &TrainingSettings, seed: Seed) -> Vec<Episode> {
    let real = episodes::training_traces();
    let draw = |index| episodes::draw(&settings.episodes, &real, seed, index);
    let drawn: Vec<Episode> = (0..settings.episode_count).into_par_iter().map(draw).collect();
    // A trace shorter than an episode gives a shorter one; below a window it teaches nothing.
    let mut drawn: Vec<Episode> =
        drawn.into_iter().filter(|episode| settings.pathwise.window_slots() <= episode.slots()).collect();
    left_out::hide(&settings.pathwise.left_out, &mut drawn);
    drawn
}

/// Trains to the end of the settings, or until `observe` breaks off. `observe` is called after every update with the
/// learner as it then is, fit for a checkpoint.
///
/// # Errors
/// Settings no run can have, a checkpoint of another run, or candle.
pub fn run(
    settings: &TrainingSettings,
    seed: Seed,
    resume: Option<&[u8]>,
    observe: &mut dyn FnMut(&Learner, &UpdateReport) -> ControlFlow<()>,
) -> Result<Learner, TrainingFault> {
    settings.check()?;
    let resumed = resume
        .map(|bytes| checkpoint::read(bytes, features::WIDTH, &settings.fingerprint(seed)))
        .transpose()?;
    let episodes = draw_episodes(settings, seed);
    if episodes.is_empty() {
        let expected = "a window that fits into the traces".into();
        return Err(TrainingFault::Setting { field: "pathwise.counted_slots", expected });
    }
    let mut learner = resumed.unwrap_or_else(|| Learner::new(features::WIDTH, &episodes, seed));
    while learner.adam.updates < settings.pathwise.updates {
        let report = pathwise::update(&mut learner, &settings.pathwise, &episodes, seed)?;
        if observe(&learner, &report).is_break() {
            break;
        }
    }
    Ok(learner)
}

/// What a trained model's manifest says beside what follows from its weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Provenance<'a> {
    /// Name for policies.
    pub name: &'a str,
    /// Settings of the run.
    pub settings: &'a TrainingSettings,
    /// Its seed.
    pub seed: Seed,
    /// Commit it was trained on.
    pub commit: Option<String>,
    /// Scores by name.
    pub scores: BTreeMap<String, f64>,
}

/// The two files of a trained model: weights, then manifest.
#[must_use]
pub fn files(learner: &Learner, provenance: Provenance<'_>) -> (Vec<u8>, String) {
    let Provenance { name, settings, seed, commit, scores } = provenance;
    let bytes = model_file::write(&learner.weights);
    let left_out = settings.pathwise.left_out.clone();
    let settings = serde_json::to_value(settings).expect("settings are numbers under names");
    let settings = settings.as_object().cloned().unwrap_or_default().into_iter().collect();
    let manifest = Manifest {
        name: name.into(),
        kind: ModelKind::Trained,
        schema_hash: schema_hash_text(schema().hash),
        content_hash: model_file::content_hash(&bytes),
        versions: Versions::current(),
        settings,
        seed: seed.0,
        commit,
        scores,
        left_out,
    };
    (bytes, manifest.to_json())
}
