//! PPO where the right answer is known.

use rlscaler_core::features::{Features, WIDTH};

use super::*;
use crate::pathwise::tests::{FEATURES, constant_loads, row};
use crate::training::TrainingSettings;

fn small() -> (PpoSettings, PathwiseSettings) {
    let settings = PpoSettings {
        updates: 25,
        batch: 16,
        learning_rate: 5e-3,
        own_max_secs: 0.0,
        ..PpoSettings::default()
    };
    (settings, PathwiseSettings::default())
}

fn learn(settings: &PpoSettings, updates: u64, episodes: &[Episode], seed: Seed) -> Learner {
    let world = small().1;
    let mut learner = Learner::new(settings, FEATURES, episodes, seed);
    for _ in 0..updates {
        update(&mut learner, settings, &world, episodes, seed).unwrap();
    }
    learner
}

#[test]
fn untrained_it_answers_exactly_as_the_planner() {
    let episodes = constant_loads(10.0, 4);
    let (settings, _) = small();
    let policy = Policy::of(&Learner::new(&settings, FEATURES, &episodes, Seed(3)));
    for (load, price) in [(4.0, 1.5), (10.0, 20.0), (16.0, 1500.0)] {
        assert_eq!(policy.log_multiplier(&row(load, 10.0), price), 0.0);
    }
    // Also where nothing is likelier than anything else.
    let even = PpoSettings { planner_logit: 0.0, ..settings };
    let policy = Policy::of(&Learner::new(&even, FEATURES, &episodes, Seed(3)));
    assert_eq!(policy.log_multiplier(&row(8.0, 10.0), 20.0), 0.0);
}

#[test]
fn it_finds_the_cheaper_answer_where_the_planner_always_orders_the_same() {
    let answer = |least: f64, most: f64| {
        let mut episodes = constant_loads(10.0, 60);
        episodes.retain(|episode| least < episode.load[0] && episode.load[0] < most);
        // Pods that are there at once, so that an answer shows in its own slot.
        episodes.iter_mut().for_each(|episode| episode.world.startup_secs = 1.0);
        let (settings, _) = small();
        let policy = Policy::of(&learn(&settings, settings.updates, &episodes, Seed(1)));
        policy.log_multiplier(&row(((least + most) / 2.0) as f32, 10.0), 20.0)
    };
    let (few, many) = (answer(4.0, 6.0), answer(10.0, 13.0));
    assert!(few < 0.0, "half the planner's number would do: {few}");
    assert!(0.0 < many, "the planner orders too few: {many}");
}

#[test]
fn the_same_seed_learns_the_same_bytes_and_another_others() {
    let episodes = constant_loads(10.0, 8);
    let (settings, _) = small();
    let run = |seed| learn(&settings, 2, &episodes, Seed(seed));
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn no_order_ever_leaves_the_bounds_or_rises_faster_than_behavior_allows() {
    let mut episodes = constant_loads(10.0, 4);
    // A planner that jumps about, beyond every bound.
    for episode in &mut episodes {
        for (slot, n0) in episode.planner.iter_mut().enumerate() {
            *n0 = [2.0, 900.0, 0.2, 40.0][slot % 4];
        }
    }
    let (settings, world) = small();
    let learner = Learner::new(&settings, FEATURES, &episodes, Seed(2));
    let driver = rollout::Driver::new(&learner, &settings, &world);
    let mut rng = Seed(7).stream("bounds");
    for episode in &episodes {
        let outcome =
            driver.window(&Draw { episode, start: 3, burn_in: world.burn_in_slots }, 20.0, &mut rng);
        for pair in outcome.orders.windows(2) {
            assert!((1.0..=1000.0).contains(&pair[1]), "{pair:?}");
            assert!(pair[1] <= (2.0 * pair[0]).max(pair[0] + 4.0), "{pair:?}");
        }
    }
}

#[test]
fn what_a_slot_is_told_is_against_the_planner_on_the_same_arrivals() {
    let episodes = constant_loads(10.0, 1);
    let (settings, world) = small();
    // Nothing but the planner's own answer to choose.
    let settings = PpoSettings { steps: [0.0; ACTIONS], ..settings };
    let learner = Learner::new(&settings, FEATURES, &episodes, Seed(2));
    let driver = rollout::Driver::new(&learner, &settings, &world);
    let draw = Draw { episode: &episodes[0], start: 0, burn_in: world.burn_in_slots };
    let outcome = driver.window(&draw, 20.0, &mut Seed(7).stream("paired"));
    assert_eq!(outcome.loss, outcome.planner_loss);
    assert!(outcome.tries.iter().all(|tried| tried.advantage == 0.0));
}

#[test]
fn its_files_are_read_back_as_the_same_policy_and_not_as_the_shipped_kind() {
    let episodes = constant_loads(10.0, 2);
    let (settings, _) = small();
    let mut learner = Learner::new(&settings, WIDTH, &episodes[..0], Seed(2));
    (learner.low, learner.high) = (vec![-9.0; WIDTH], vec![9.0; WIDTH]);
    learner.actor.values[5] = vec![0.0, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0];
    let (weights, manifest) = files(&learner, &settings, &TrainingSettings::default(), Seed(2), None);
    let policy = crate::model::load_policy(&weights, manifest.as_bytes()).unwrap();
    let features = Features::new([0.1; WIDTH], 20.0, 10.0, 8.0);
    let multiplier = policy.act(&features).unwrap().multiplier;
    assert!((multiplier - 0.2_f64.exp()).abs() < 1e-6, "two errors of 0.1: {multiplier}");
    assert!(policy.describe().ends_with("(ppo)"), "{}", policy.describe());
    assert!(crate::Model::load(&weights, manifest.as_bytes()).is_err());
}
