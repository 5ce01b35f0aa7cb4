//! A training run is a function of its settings and seed, however often it is put aside.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use rlscaler_core::Policy;
use rlscaler_core::features::{NAMES, WIDTH};
use rlscaler_rl::checkpoint::{self, CheckpointFault};
use rlscaler_rl::left_out::Part;
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
fn with_a_value_at_the_windows_end_the_run_is_another_and_can_be_put_aside_too() {
    let mut settings = small();
    settings.pathwise.end_value_weight = 1.0;
    let run = |updates: u64, resume: Option<&[u8]>| {
        let mut left = updates;
        training::run(&settings, SEED, resume, &mut |_, _| {
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap()
    };
    let whole = run(4, None);
    assert_ne!(whole.weights, train(4, None).weights);
    let saved = checkpoint::write(&run(2, None), &settings.fingerprint(SEED));
    assert_eq!(run(2, Some(&saved)), whole);
}

#[test]
fn a_model_without_parts_says_so_and_does_not_see_what_is_left_out() {
    let mut settings = small();
    settings.pathwise.left_out = vec![Part::Seasons, Part::Planner];
    settings.pathwise.learning_rate = 0.1;
    settings.pathwise.weight_decay = 0.0;
    let learner = training::run(&settings, SEED, None, &mut |_, _| ControlFlow::Continue(())).unwrap();
    let provenance =
        Provenance { name: "try", settings: &settings, seed: SEED, commit: None, scores: BTreeMap::new() };
    let (weights, manifest) = training::files(&learner, provenance);
    let model = Model::load(&weights, manifest.as_bytes()).unwrap();
    assert!(
        model.describe().ends_with("(trained, without seasons, without planner)"),
        "{}",
        model.describe()
    );
    let net = model.actor_critic();
    let mut features = [0.1; WIDTH];
    let answer = net.answer(&features, 20.0);
    let excess = net.excess(&features);
    for (place, name) in NAMES.iter().enumerate() {
        if name.starts_with("day_") || ["lag30m_rise", "planner_error", "forecast_ratio"].contains(name) {
            features[place] = 2.5;
        }
    }
    assert_eq!(net.answer(&features, 20.0), answer);
    assert_eq!(net.excess(&features), excess);
    features[NAMES.iter().position(|name| *name == "mean_5m").unwrap()] = 2.5;
    assert_ne!(net.answer(&features, 20.0), answer);
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
