//! A training run from settings and a seed to a model file.
//!
//! In: [`TrainingSettings`], a seed, perhaps a checkpoint. Out: the learner, and its two files. A function of its
//! arguments on one machine. Never: a clock, a file; who calls it keeps time, writes and draws progress.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;

use rayon::prelude::*;
use rlscaler_core::features;
use rlscaler_sim::seed::Seed;
use rlscaler_sim::trace::Trace;
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
    /// Episodes that windows are drawn from at any time. 8,000 take 570 MB.
    pub episode_count: u64,
    /// How often in the run a tenth of them, the oldest, gives way to new ones. A net learns episodes that stay: with 12,000
    /// instead of 3,000 it loses 1 % less on others after as many updates. 80 instead of 40, with 14,000
    /// updates instead of 20,000: up to 9 % less at prices from 300 up where a week is known.
    pub renewals: u64,
    /// What they are drawn from.
    pub episodes: EpisodeSettings,
    /// How to learn.
    pub pathwise: PathwiseSettings,
}

impl Default for TrainingSettings {
    fn default() -> Self {
        Self {
            episode_count: 8000,
            renewals: 80,
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

/// Draws the episodes a run begins with. Runs on the rayon pool it is called in.
#[must_use]
pub fn draw_episodes(settings: &TrainingSettings, seed: Seed) -> Vec<Episode> {
    let mut pool = Pool::default();
    // Without an episode there is nothing to train on, which whoever draws them sees.
    let _ = pool.renew(settings, &episodes::training_traces(), seed, 0);
    pool.episodes
}

/// The episodes that windows are drawn from just now: a function of settings, seed and the updates made.
#[derive(Default)]
struct Pool {
    /// In the order they were drawn in.
    episodes: Vec<Episode>,
    /// The first of its batches.
    first: u64,
    /// Episodes of each.
    lengths: VecDeque<usize>,
}

/// Batches of a pool; one gives way at a time.
const BATCHES: u64 = 10;

impl Pool {
    /// Makes it what it is after `updates`.
    fn renew(
        &mut self,
        settings: &TrainingSettings,
        real: &[Trace],
        seed: Seed,
        updates: u64,
    ) -> Result<(), TrainingFault> {
        let TrainingSettings { episode_count, renewals, .. } = *settings;
        let first = (updates * (renewals + 1) / settings.pathwise.updates.max(1)).min(renewals);
        while self.first < first {
            self.episodes.drain(..self.lengths.pop_front().unwrap_or(0));
            self.first += 1;
        }
        for batch in first + self.lengths.len() as u64..first + BATCHES {
            let indices = batch * episode_count / BATCHES..(batch + 1) * episode_count / BATCHES;
            let draw = |index| episodes::draw(&settings.episodes, real, seed, index);
            let drawn: Vec<Episode> = indices.into_par_iter().map(draw).collect();
            // A trace shorter than an episode gives a shorter one; below a window it teaches nothing.
            let long = |episode: &Episode| settings.pathwise.window_slots() <= episode.slots();
            let mut drawn: Vec<Episode> = drawn.into_iter().filter(long).collect();
            left_out::hide(&settings.pathwise.left_out, &mut drawn);
            self.lengths.push_back(drawn.len());
            self.episodes.append(&mut drawn);
        }
        if self.episodes.is_empty() {
            let expected = "a window that fits into the traces".into();
            return Err(TrainingFault::Setting { field: "pathwise.counted_slots", expected });
        }
        Ok(())
    }
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
    let real = episodes::training_traces();
    let mut pool = Pool::default();
    pool.renew(settings, &real, seed, resumed.as_ref().map_or(0, |learner| learner.adam.updates))?;
    let mut learner = resumed.unwrap_or_else(|| Learner::new(features::WIDTH, &pool.episodes, seed));
    while learner.adam.updates < settings.pathwise.updates {
        pool.renew(settings, &real, seed, learner.adam.updates)?;
        let report = pathwise::update(&mut learner, &settings.pathwise, &pool.episodes, seed)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn episodes_give_way_a_tenth_at_a_time_and_are_the_same_however_the_run_came_there() {
        let mut settings = TrainingSettings { episode_count: 20, renewals: 6, ..TrainingSettings::default() };
        settings.pathwise.updates = 70;
        settings.episodes.slots = 70;
        settings.episodes.real_share = 0.0;
        settings.episodes.history_secs = (300.0, 600.0);
        settings.episodes.known_share = 0.0;
        let mut pool = Pool::default();
        let mut after = |updates: u64| {
            pool.renew(&settings, &[], Seed(5), updates).expect("long enough");
            pool.episodes.clone()
        };
        let first = after(0);
        assert_eq!(first.len(), 20);
        assert!(after(9) == first);
        let next = after(10);
        assert!(next[..18] == first[2..] && next[18..] != first[..2]);
        let late = after(69);
        let mut resumed = Pool::default();
        resumed.renew(&settings, &[], Seed(5), 69).expect("long enough");
        assert!(late == resumed.episodes && late[..8] == first[12..]);
    }
}
