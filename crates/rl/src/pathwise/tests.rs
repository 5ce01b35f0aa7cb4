//! Learning where the right answer is known.

use rand::RngExt;
use rlscaler_core::queue::Service;

use super::*;
use crate::actor_critic::ActorCritic;
use crate::head::UNIT_FEATURE;
use crate::life::World;

pub(crate) const FEATURES: usize = UNIT_FEATURE + 1;

/// What a load looks like here: how far it is from the planner's answer, and a forecast error.
pub(crate) fn row(load: f32, planner: f32) -> Vec<f32> {
    let mut row = vec![0.0; FEATURES];
    row[0] = (load / planner).ln();
    row[UNIT_FEATURE] = 0.5;
    row
}

/// A service of constant load whose planner knows nothing: it always orders `planner` replicas. The features tell
/// the load.
pub(crate) fn constant_loads(planner: f32, episodes: usize) -> Vec<Episode> {
    constant_loads_of(planner, episodes, 4.0..16.0)
}

fn constant_loads_of(planner: f32, episodes: usize, loads: std::ops::Range<f64>) -> Vec<Episode> {
    let mut rng = Seed(11).stream("constant loads");
    let service = Service { workers: 4, service_secs: 0.05, target_secs: 0.25, variability: 1.0 };
    let world = World {
        service,
        capacity_error: 1.0,
        startup_secs: 60.0,
        timeout_secs: 10.0,
        sla: 0.99,
        safety: None,
    };
    let slots = 100;
    let draw = |_| {
        let load: f64 = rng.random_range(loads.clone());
        let features = row(load as f32, planner).repeat(slots);
        Episode {
            world,
            fresh: false,
            features,
            planner: vec![planner; slots],
            load: vec![load; slots],
            need: vec![load as f32 * 1.1; slots],
            usual_late_share: 0.01,
        }
    };
    (0..episodes).map(draw).collect()
}

fn small() -> PathwiseSettings {
    PathwiseSettings { batch: 16, updates: 80, learning_rate: 2e-2, ..PathwiseSettings::default() }
}

fn learn(settings: &PathwiseSettings, episodes: &[Episode], seed: Seed) -> (Learner, Vec<UpdateReport>) {
    let mut learner = Learner::new(FEATURES, episodes, seed);
    let reports =
        (0..settings.updates).map(|_| update(&mut learner, settings, episodes, seed).unwrap()).collect();
    (learner, reports)
}

#[test]
fn before_the_first_update_the_actor_costs_exactly_what_the_planner_costs() {
    let episodes = constant_loads(10.0, 8);
    let mut learner = Learner::new(FEATURES, &episodes, Seed(1));
    let report = update(&mut learner, &small(), &episodes, Seed(1)).unwrap();
    assert_eq!(report.loss, report.planner_loss);
    assert_eq!(report.late_share, report.planner_late_share);
}

#[test]
fn the_actor_learns_to_order_what_the_load_needs_and_more_where_lateness_is_dear() {
    let episodes = constant_loads(10.0, 40);
    let (learner, reports) = learn(&small(), &episodes, Seed(1));
    let last = reports.last().unwrap();
    assert!(last.loss < 0.5 * last.planner_loss, "{last:?}");
    let net = ActorCritic::new(&learner.weights);
    let orders = |load: f32, price: f64| 10.0 * net.answer(&row(load, 10.0), price).log_multiplier.exp();
    assert!(
        orders(6.0, 20.0) < 10.0 && 13.0 < orders(14.0, 20.0),
        "{} {}",
        orders(6.0, 20.0),
        orders(14.0, 20.0)
    );
    assert!(orders(10.0, 4.0) < orders(10.0, 400.0));
}

#[test]
fn a_small_service_settles_inside_the_cheapest_count_and_not_at_its_edge() {
    let episodes = constant_loads_of(3.0, 8, 1.25..1.35);
    let settings = PathwiseSettings { softness_first: 0.0, ..small() };
    let (learner, _) = learn(&settings, &episodes, Seed(1));
    let net = ActorCritic::new(&learner.weights);
    let scene = Scene::new(
        &settings,
        0.0,
        &Draw { episode: &episodes[0], start: 0, burn_in: settings.burn_in_slots },
    );
    for price in [4.0, 8.0, 16.0, 32.0] {
        let weights = scene.weights(&settings, price);
        let cost = |count: u32| {
            let orders = vec![f64::from(count); settings.window_slots()];
            window::cost(&scene.window, &orders, &mut Scratch::default()).total(&weights)
        };
        let cheapest = (1..=6).min_by(|&one, &other| cost(one).total_cmp(&cost(other))).unwrap();
        let answer = 3.0 * f64::from(net.answer(&row(1.3, 3.0), price).log_multiplier).exp();
        let inside = f64::from(cheapest) - 0.8..f64::from(cheapest) - 0.2;
        assert!(inside.contains(&answer), "{answer} for {cheapest} at {price}");
    }
}

#[test]
fn nothing_pulls_at_an_answer_below_half_a_pod() {
    let episodes = constant_loads_of(0.4, 1, 0.1..0.2);
    let settings = small();
    let scene = Scene::new(
        &settings,
        1.0,
        &Draw { episode: &episodes[0], start: 0, burn_in: settings.burn_in_slots },
    );
    let pulls = |g: f32| {
        let g = vec![g; settings.window_slots()];
        follow(
            &settings,
            &scene,
            (20.0, State::default()),
            &scene.ordered(&settings, &g),
            &g,
            &mut Scratch::default(),
        )
        .gradient
    };
    assert!(pulls(0.0).iter().all(|&pull| pull == 0.0), "one pod either way");
    assert!(0.0 < pulls(0.8).iter().sum::<f64>(), "two pods are not worth their price");
}

#[test]
fn the_same_seed_learns_the_same_bytes_and_another_others() {
    let settings = PathwiseSettings { updates: 5, ..small() };
    let episodes = constant_loads(10.0, 8);
    let run = |seed| learn(&settings, &episodes, Seed(seed)).0;
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn beyond_the_heads_limit_only_a_pull_back_counts() {
    // Both limits are near a whole number then, where something pulls.
    let episodes = constant_loads(9.25, 1);
    let settings = small();
    let scene = Scene::new(
        &settings,
        1.0,
        &Draw { episode: &episodes[0], start: 0, burn_in: settings.burn_in_slots },
    );
    let outcome_of = |g: &[f32], price: f64| {
        follow(
            &settings,
            &scene,
            (price, State::default()),
            &scene.ordered(&settings, g),
            g,
            &mut Scratch::default(),
        )
    };
    let far_above = vec![LOG_MULTIPLIER_LIMIT + 0.1; settings.window_slots()];
    let outcome = outcome_of(&far_above, 1.5);
    assert!(outcome.gradient.iter().all(|&pull| 0.0 <= pull), "too many: down");
    assert!(outcome.gradient.iter().any(|&pull| 0.0 < pull));
    let far_below: Vec<f32> = far_above.iter().map(|g| -g).collect();
    let outcome = outcome_of(&far_below, 1000.0);
    assert!(outcome.gradient.iter().all(|&pull| pull <= 0.0), "too few: up");
    assert!(outcome.gradient.iter().any(|&pull| pull < 0.0));
}
