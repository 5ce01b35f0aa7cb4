//! A training run is a function of its settings and seed, however often it is put aside.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use rlscaler_rl::checkpoint::{self, CheckpointFault};
use rlscaler_rl::pathwise::{Learner, PathwiseSettings};
use rlscaler_rl::training::{self, Provenance, TrainingFault, TrainingSettings};
use rlscaler_rl::{Model, ModelKind};
use rlscaler_sim::seed::Seed;

const SEED: Seed = Seed(3);

fn small() -> TrainingSettings {
    let pathwise = PathwiseSettings { batch: 20, updates: 4, ..PathwiseSettings::default() };
    let mut settings = TrainingSettings { episode_count: 4, pathwise, ..TrainingSettings::default() };
    settings.episodes.slots = 80;
    settings.episodes.history_secs = (3600.0, 7200.0);
    settings
}

fn train(updates: u64, resume: Option<&[u8]>) -> Learner {
    let mut left = updates;
    training::run(&small(), SEED, resume, &mut |_, _| {
        left -= 1;
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .unwrap()
}

#[test]
fn a_run_that_was_put_aside_ends_in_the_bytes_of_one_that_was_not() {
    let whole = train(4, None);
    let half = train(2, None);
    let saved = checkpoint::write(&half, &small().fingerprint(SEED));
    let resumed = train(2, Some(&saved));
    assert_eq!(whole, resumed);
    assert_ne!(half, whole);
}

#[test]
fn a_checkpoint_of_another_run_is_refused() {
    let saved = checkpoint::write(&train(1, None), &small().fingerprint(Seed(4)));
    let fault = training::run(&small(), SEED, Some(&saved), &mut |_, _| ControlFlow::Break(())).unwrap_err();
    assert!(matches!(fault, TrainingFault::Checkpoint(CheckpointFault::OtherRun)), "{fault}");
    let cut = &saved[..saved.len() - 1];
    let fault = training::run(&small(), SEED, Some(cut), &mut |_, _| ControlFlow::Break(())).unwrap_err();
    assert!(matches!(fault, TrainingFault::Checkpoint(CheckpointFault::Unreadable(_))), "{fault}");
}

#[test]
fn settings_no_run_can_have_are_named() {
    let field_of = |change: fn(&mut TrainingSettings)| {
        let mut settings = small();
        change(&mut settings);
        match settings.check() {
            Err(TrainingFault::Setting { field, .. }) => field,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(field_of(|settings| settings.episode_count = 0), "episode_count");
    assert_eq!(field_of(|settings| settings.episode_count = training::EPISODES_MAX + 1), "episode_count");
    assert_eq!(field_of(|settings| settings.pathwise.batch = 0), "pathwise.batch");
    assert_eq!(field_of(|settings| settings.episodes.slots = 63), "episodes.slots");
    assert!(small().check().is_ok());
}

#[test]
fn a_trained_model_can_be_loaded_and_says_how_it_came_to_be() {
    let learner = train(4, None);
    let provenance = Provenance {
        name: "try",
        settings: &small(),
        seed: SEED,
        commit: Some("abc".into()),
        scores: BTreeMap::from([("matched".into(), 0.9)]),
    };
    let (weights, manifest) = training::files(&learner, provenance);
    let model = Model::load(&weights, manifest.as_bytes()).unwrap();
    assert_eq!(model.manifest().kind, ModelKind::Trained);
    assert_eq!(model.manifest().settings["pathwise"]["updates"], 4);
}
