//! One window under answers that are drawn: what was tried in each slot, and how much better than expected it came out.
//!
//! In: the networks as they are, a window, a price, randomness. Out: [`Outcome`]. Never: an answer beyond what the
//! guardrails would carry out.

use rand::RngExt;
use rlscaler_sim::seed::Stream;
use rlscaler_sim::window::{self, Scratch};

use super::{ACTIONS, Learner, PpoSettings};
use crate::actor_critic::log_price;
use crate::head::{LOG_MULTIPLIER_LIMIT, UNIT_FEATURE, UNIT_MAX, UNIT_MIN};
use crate::life::REPLICAS_MAX;
use crate::network::Network;
use crate::pathwise::PathwiseSettings;
use crate::scene::{Draw, Scene, carried_out};
use crate::tail::Seen;

/// A slot as it was tried.
#[derive(Debug, Clone)]
pub(super) struct Tried {
    /// Features and log price.
    pub(super) seen: Vec<f32>,
    /// The same and what is under way.
    pub(super) under_way: Vec<f32>,
    /// 0 for what may be answered, [`FORBIDDEN`] for the rest.
    pub(super) mask: [f32; ACTIONS],
    pub(super) action: usize,
    pub(super) log_probability: f32,
    log_probabilities: [f32; ACTIONS],
    /// What came after it, over the planner's, and more than the critic expected.
    pub(super) advantage: f64,
    /// What came after it, over the planner's.
    pub(super) outcome: f64,
}

impl Tried {
    pub(super) fn entropy(&self) -> f64 {
        self.log_probabilities.iter().map(|&log| -f64::from(log) * f64::from(log).exp()).sum()
    }
}

/// A window as it was tried.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    pub(super) tries: Vec<Tried>,
    pub(super) orders: Vec<f64>,
    pub(super) loss: f64,
    pub(super) planner_loss: f64,
}

/// Added to the logit of an answer that is not possible.
pub(super) const FORBIDDEN: f32 = -1e9;

/// The default `behavior`: at most twice as many or this many more at once.
const RAISE_PODS: f64 = 4.0;

/// What answers are drawn from.
pub(super) struct Driver<'a> {
    /// Over standardised features.
    actor: Network,
    typical: &'a (Vec<f32>, Vec<f32>),
    critic: Network,
    settings: &'a PpoSettings,
    world: &'a PathwiseSettings,
}

impl<'a> Driver<'a> {
    pub(super) fn new(learner: &'a Learner, settings: &'a PpoSettings, world: &'a PathwiseSettings) -> Self {
        let (actor, critic) = (learner.actor.network(), learner.critic.network());
        Self { actor, typical: &learner.typical, critic, settings, world }
    }

    pub(super) fn window(&self, draw: &Draw<'_>, price: f64, rng: &mut Stream) -> Outcome {
        let Self { settings, world, .. } = *self;
        let scene = Scene::new(world, 0.0, draw);
        let (mut asked, mut tries) = (Vec::new(), Vec::new());
        let mut standing = None;
        for slot in 0..world.window_slots() {
            let answers = answers(&settings.steps, &scene, draw, slot);
            let most = most(standing);
            let mask = mask(&answers, most);
            let seen = seen(draw, slot, price, self.typical);
            let log_probabilities = log_softmax(&self.actor.forward(&seen), &mask);
            let action = drawn(&log_probabilities, rng);
            asked.push(answers[action].min(most));
            standing = carried_out(world, &asked).0.last().copied();
            tries.push(Tried {
                seen,
                under_way: vec![],
                mask,
                action,
                log_probability: log_probabilities[action],
                log_probabilities,
                advantage: 0.0,
                outcome: 0.0,
            });
        }
        let (orders, _) = carried_out(world, &asked);
        let mut outcome = Outcome { tries, orders, loss: 0.0, planner_loss: 0.0 };
        self.judge(&scene, draw, price, &mut outcome);
        outcome
    }

    /// Rewards, values and advantages, backwards.
    fn judge(&self, scene: &Scene<'_>, draw: &Draw<'_>, price: f64, outcome: &mut Outcome) {
        let Self { settings, world, .. } = *self;
        let weights = scene.weights(world, price);
        let difficulty = scene.difficulty(world, price);
        let mut scratch = Scratch::default();
        let planner = window::by_slot(&scene.window, &scene.planned, &weights, &mut scratch);
        let own = window::by_slot(&scene.window, &outcome.orders, &weights, &mut scratch);
        outcome.loss = own.iter().sum::<f64>() / difficulty;
        outcome.planner_loss = planner.iter().sum::<f64>() / difficulty;
        let value = |slot: usize| {
            let state = window::state_before(&scene.window, &outcome.orders, slot, &scratch);
            let row = Seen { draw: *draw, slot, price, state }.row();
            let [value] = self.critic.forward(&row);
            (row, f64::from(value))
        };
        let slots = outcome.tries.len();
        let (_, mut next_value) = value(slots);
        let mut next_advantage = 0.0;
        for slot in (0..slots).rev() {
            let (row, value) = value(slot);
            let reward = (planner[slot] - own[slot]) * world.counted_slots as f64 / difficulty;
            let surprise = reward + settings.discount * next_value - value;
            next_advantage = surprise + settings.discount * settings.lambda * next_advantage;
            next_value = value;
            let tried = &mut outcome.tries[slot];
            tried.under_way = row;
            tried.advantage = next_advantage;
            tried.outcome = next_advantage + value;
        }
    }
}

/// Features of a slot as differences from what is typical, and the price.
fn seen(draw: &Draw<'_>, slot: usize, price: f64, (centre, spread): &(Vec<f32>, Vec<f32>)) -> Vec<f32> {
    let (features, width) = (&draw.episode.features, draw.episode.features.len() / draw.episode.slots());
    let at = draw.start + slot;
    let shown = features[at * width..(at + 1) * width].iter().zip(centre.iter().zip(spread));
    let mut seen: Vec<f32> = shown.map(|(x, (centre, spread))| (x - centre) / spread).collect();
    seen.push(log_price(price));
    seen
}

/// Replicas that each answer asks for.
fn answers(steps: &[f32; ACTIONS], scene: &Scene<'_>, draw: &Draw<'_>, slot: usize) -> [f64; ACTIONS] {
    let width = draw.episode.features.len() / draw.episode.slots();
    let planner_error = draw.episode.features[(draw.start + slot) * width + UNIT_FEATURE];
    let n0 = f64::from(scene.planner[slot]);
    steps.map(|step| n0 * f64::from(log_multiplier(step, planner_error, scene.lowest[slot])).exp())
}

/// A step as a log-multiplier on the planner's number.
pub(super) fn log_multiplier(step: f32, planner_error: f32, lowest: f32) -> f32 {
    (step * planner_error.clamp(UNIT_MIN, UNIT_MAX)).clamp(lowest, LOG_MULTIPLIER_LIMIT)
}

/// Most that the guardrails would carry out where so many stand; `None`: where the window begins.
fn most(standing: Option<f64>) -> f64 {
    let bound = f64::from(REPLICAS_MAX);
    standing.map_or(bound, |standing| (2.0 * standing).max(standing + RAISE_PODS).min(bound))
}

/// What may be answered; the least of the answers where all are beyond: it is cut to what is possible.
fn mask(answers: &[f64; ACTIONS], most: f64) -> [f32; ACTIONS] {
    let least = answers.iter().copied().fold(f64::INFINITY, f64::min);
    answers.map(|answer| if answer <= most.max(least) { 0.0 } else { FORBIDDEN })
}

fn log_softmax(logits: &[f32; ACTIONS], mask: &[f32; ACTIONS]) -> [f32; ACTIONS] {
    let masked: [f32; ACTIONS] = std::array::from_fn(|action| logits[action] + mask[action]);
    let largest = masked.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = masked.iter().map(|logit| (logit - largest).exp()).sum();
    masked.map(|logit| logit - largest - sum.ln())
}

/// An answer, as likely as it is.
fn drawn(log_probabilities: &[f32; ACTIONS], rng: &mut Stream) -> usize {
    let mut left: f64 = rng.random_range(0.0..1.0);
    let mut last = 0;
    for (action, log) in log_probabilities.iter().enumerate() {
        let probability = f64::from(*log).exp();
        if 0.0 < probability {
            last = action;
            if left < probability {
                break;
            }
            left -= probability;
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWERS: [f64; ACTIONS] = [4.0, 5.0, 6.0, 7.0, 9.0, 13.0, 24.0];

    #[test]
    fn what_the_guardrails_would_cut_is_masked_at_the_limit_and_beyond() {
        let allowed = |standing: f64| mask(&ANSWERS, most(Some(standing))).map(|mask| mask == 0.0);
        assert_eq!(allowed(3.0), [true, true, true, true, false, false, false], "4 more");
        assert_eq!(allowed(6.5), [true, true, true, true, true, true, false], "twice as many");
        assert_eq!(allowed(12.0), [true; ACTIONS]);
        assert_eq!(most(None), f64::from(REPLICAS_MAX));
        assert_eq!(most(Some(900.0)), f64::from(REPLICAS_MAX));
    }

    #[test]
    fn where_all_is_beyond_the_least_is_left() {
        let left = mask(&ANSWERS, 2.0).map(|mask| mask == 0.0);
        assert_eq!(left, [true, false, false, false, false, false, false]);
    }

    #[test]
    fn an_answer_that_is_masked_is_never_drawn() {
        let mut rng = rlscaler_sim::seed::Seed(5).stream("masked");
        let mask = [FORBIDDEN, 0.0, FORBIDDEN, FORBIDDEN, 0.0, FORBIDDEN, FORBIDDEN];
        let logs = log_softmax(&[3.0; ACTIONS], &mask);
        let mut seen = [0; ACTIONS];
        for _ in 0..200 {
            seen[drawn(&logs, &mut rng)] += 1;
        }
        assert_eq!(seen[1] + seen[4], 200);
        assert!(60 < seen[1] && 60 < seen[4], "{seen:?}");
    }
}
