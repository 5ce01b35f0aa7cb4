//! The learner: an actor whose gradient is computed through the queue instead of guessed by exploration, and a critic
//! beside it.
//!
//! Arrivals do not depend on what is ordered, and the queue is known. So for any stretch of arrivals the derivative
//! of "replicas + price * lateness + changes" with respect to every order can be computed
//! ([`rlscaler_sim::window`]), and candle carries it on into the weights. Sources: Madeka et al. 2022 (arXiv
//! 2210.03137) for exogenous inputs and known dynamics, Xu et al. 2022 (SHAC, arXiv 2204.07137) for short windows.
//!
//! In: settings, episodes, a seed. Out: weights. Deterministic: the same arguments give the same bytes on one
//! machine. Never: a clock, a file.

use candle_core::{Device, Result, Tensor};
use rand::RngExt;
use rayon::prelude::*;
use rlscaler_sim::seed::{Seed, Stream};
use rlscaler_sim::window::{self, Cost, Scratch, Window};
use serde::{Deserialize, Serialize};

use crate::actor_critic::log_price;
use crate::episodes::Episode;
use crate::head::{self, ANCHORS, LOG_MULTIPLIER_LIMIT, PRICE_MAX, PRICE_MIN};
use crate::life::SLOT_SECS;
use crate::optimiser::{Adam, AdamSettings, clip};
use crate::tensors::Tensors;
use crate::weights::{RANGE_HIGH, RANGE_LOW, Weights, layout};

/// How to learn. Every default is the one the shipped recipe uses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PathwiseSettings {
    /// Windows per update. 192: the gradient's noise falls no further in wall time beyond it.
    pub batch: usize,
    /// Updates. 1,500 scored as well as 3,000 within the spread over seeds.
    pub updates: u64,
    /// Learning rate of the first update; it falls to 0 along a cosine.
    pub learning_rate: f64,
    /// Largest norm of the actor's gradient, and of the critic's.
    pub gradient_norm_max: f64,
    /// Slots of a window that are simulated and not counted: the longest start-up drawn.
    pub burn_in_slots: usize,
    /// Slots of a window that are counted: 11 minutes.
    pub counted_slots: usize,
    /// Price of changing one mean need of replicas. 1.0 makes 2 changes an hour fewer of 15 and costs 1 %.
    pub change_price: f64,
    /// Weight of the logarithm of over-utilisation in the first update ([`Window::softness`]); it falls linearly.
    pub softness_first: f64,
    /// The same in the last update.
    pub softness_last: f64,
    /// The loss of a window is divided by `0.3 * (0.1 + the planner's)^this`, so that hard windows do not drown the
    /// others. 1.0, where every window counts for what it gains relatively, scored 1 % better than 0.7.
    pub difficulty_power: f64,
}

impl Default for PathwiseSettings {
    fn default() -> Self {
        Self {
            batch: 192,
            updates: 1500,
            learning_rate: 2e-3,
            gradient_norm_max: 1.0,
            burn_in_slots: 20,
            counted_slots: 44,
            change_price: 0.3,
            softness_first: 1.0,
            softness_last: 0.3,
            difficulty_power: 1.0,
        }
    }
}

impl PathwiseSettings {
    /// Slots of a window.
    #[must_use]
    pub fn window_slots(&self) -> usize {
        self.burn_in_slots + self.counted_slots
    }

    fn adam(&self) -> AdamSettings {
        AdamSettings { learning_rate: self.learning_rate, updates: self.updates }
    }

    fn softness(&self, update: u64) -> f64 {
        let progress = (update as f64 / self.updates.max(1) as f64).min(1.0);
        self.softness_first + (self.softness_last - self.softness_first) * progress
    }
}

/// Everything that changes while learning.
#[derive(Debug, Clone, PartialEq)]
pub struct Learner {
    /// The networks.
    pub weights: Weights,
    /// The optimiser's memory, and with it the number of updates made.
    pub adam: Adam,
}

impl Learner {
    /// Untrained, over features of the range that `episodes` show.
    #[must_use]
    pub fn new(features: usize, episodes: &[Episode], seed: Seed) -> Self {
        let mut weights = Weights::zero_initialised(features, seed);
        let (low, high) = range(features, episodes);
        weights.tensor_mut(RANGE_LOW).copy_from_slice(&low);
        weights.tensor_mut(RANGE_HIGH).copy_from_slice(&high);
        let adam = Adam::new(weights.values());
        Self { weights, adam }
    }
}

/// What one update saw, means over its windows.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct UpdateReport {
    /// Updates made before it.
    pub update: u64,
    /// Loss of the actor, each window over its difficulty.
    pub loss: f64,
    /// The same of the planner's orders.
    pub planner_loss: f64,
    /// Late share under the actor.
    pub late_share: f64,
    /// Late share under the planner.
    pub planner_late_share: f64,
    /// Ordered replicas over the mean need, under the actor.
    pub replicas: f64,
    /// The same under the planner.
    pub planner_replicas: f64,
    /// Root mean square error of the critic, in units of the loss.
    pub critic_error: f64,
    /// Norm of the actor's gradient before it was shortened.
    pub gradient_norm: f64,
}

/// One update of the learner from windows of `episodes`. Runs on the rayon pool it is called in.
///
/// # Errors
/// As candle's.
pub fn update(
    learner: &mut Learner,
    settings: &PathwiseSettings,
    episodes: &[Episode],
    seed: Seed,
) -> Result<UpdateReport> {
    let number = learner.adam.updates;
    let draws = draw_windows(settings, episodes, &mut seed.stream(&format!("update {number}")));
    let softness = settings.softness(number);
    let lessons = draws
        .par_chunks(CHUNK)
        .map(|chunk| lesson(&learner.weights, settings, softness, chunk))
        .collect::<Result<Vec<_>>>()?;

    let mut gradients: Vec<Vec<f32>> = learner.weights.values().iter().map(|v| vec![0.0; v.len()]).collect();
    for lesson in &lessons {
        let pairs = gradients.iter_mut().flatten().zip(lesson.gradients.iter().flatten());
        pairs.for_each(|(sum, gradient)| *sum += gradient);
    }
    let critic = layout(learner.weights.features()).partition_point(|shape| shape.name < "critic");
    let gradient_norm = clip(&mut gradients[..critic], settings.gradient_norm_max);
    clip(&mut gradients[critic..], settings.gradient_norm_max);
    learner.adam.step(&settings.adam(), learner.weights.values_mut(), &gradients);
    Ok(report(number, &lessons, gradient_norm))
}

/// Windows that go through the networks together: their activations fit into a core's cache.
const CHUNK: usize = 16;

/// What some windows taught.
struct Lesson {
    outcomes: Vec<Outcome>,
    gradients: Vec<Vec<f32>>,
    critic_squares: f64,
}

/// Windows through the actor, the queue and back; the critic learns the loss the actor made beside it.
fn lesson(
    weights: &Weights,
    settings: &PathwiseSettings,
    softness: f64,
    draws: &[Draw<'_>],
) -> Result<Lesson> {
    let tensors = Tensors::new(weights)?;
    let inputs = Inputs::gather(draws, settings.window_slots(), weights.features())?;
    let log_multipliers = tensors.log_multipliers(&inputs.features, &inputs.ramps)?;
    let g: Vec<f32> = log_multipliers.to_vec1()?;
    let windows = draws.iter().zip(g.chunks_exact(settings.window_slots()));
    let outcomes: Vec<Outcome> = windows.map(|(draw, g)| follow(settings, softness, draw, g)).collect();

    let pulls: Vec<f32> =
        outcomes.iter().flat_map(|outcome| outcome.gradient.iter().map(|&g| g as f32)).collect();
    let pulls = Tensor::from_vec(pulls, g.len(), &Device::Cpu)?;
    let targets: Vec<f32> = outcomes.iter().map(|outcome| outcome.loss as f32).collect();
    let misses = (tensors.values(&inputs.critic)? - Tensor::from_vec(targets, draws.len(), &Device::Cpu)?)?;
    let critic_squares = misses.sqr()?.sum_all()?;
    let per_window = 1.0 / settings.batch as f64;
    let surrogate = (((log_multipliers * pulls)?.sum_all()? + &critic_squares)? * per_window)?;
    let gradients = tensors.gradients(&surrogate.backward()?)?;
    Ok(Lesson { outcomes, gradients, critic_squares: critic_squares.to_scalar::<f32>()?.into() })
}

/// One window to learn from.
#[derive(Debug, Clone, Copy)]
struct Draw<'a> {
    episode: &'a Episode,
    start: usize,
    price: f64,
}

fn draw_windows<'a>(settings: &PathwiseSettings, episodes: &'a [Episode], rng: &mut Stream) -> Vec<Draw<'a>> {
    (0..settings.batch)
        .map(|_| {
            let episode = &episodes[rng.random_range(0..episodes.len())];
            let start = rng.random_range(0..=episode.slots() - settings.window_slots());
            let log_price = rng.random_range(PRICE_MIN.ln()..=PRICE_MAX.ln());
            Draw { episode, start, price: log_price.exp() }
        })
        .collect()
}

/// The batch as tensors: a row per slot for the actor, one per window for the critic.
struct Inputs {
    features: Tensor,
    ramps: Tensor,
    critic: Tensor,
}

impl Inputs {
    fn gather(draws: &[Draw<'_>], slots: usize, width: usize) -> Result<Self> {
        let mut features = Vec::with_capacity(draws.len() * slots * width);
        let mut ramps = Vec::with_capacity(draws.len() * slots * ANCHORS);
        let mut critic = Vec::with_capacity(draws.len() * (width + 1));
        for draw in draws {
            let window = &draw.episode.features[draw.start * width..(draw.start + slots) * width];
            features.extend_from_slice(window);
            ramps.extend(head::ramps(draw.price).repeat(slots));
            critic.extend_from_slice(&window[..width]);
            critic.push(log_price(draw.price));
        }
        Ok(Self {
            features: Tensor::from_vec(features, (draws.len() * slots, width), &Device::Cpu)?,
            ramps: Tensor::from_vec(ramps, (draws.len() * slots, ANCHORS), &Device::Cpu)?,
            critic: Tensor::from_vec(critic, (draws.len(), width + 1), &Device::Cpu)?,
        })
    }
}

/// What became of one window.
#[derive(Debug, Clone)]
struct Outcome {
    /// Derivative of the loss with respect to each slot's log-multiplier.
    gradient: Vec<f64>,
    loss: f64,
    planner_loss: f64,
    cost: Cost,
    planner_cost: Cost,
    need: f64,
}

/// Orders as the actor would have them, through the queue, and the derivative back to its output. Rounding is
/// passed straight through; past the head's limit only a pull back inside counts.
fn follow(settings: &PathwiseSettings, softness: f64, draw: &Draw<'_>, g: &[f32]) -> Outcome {
    let Draw { episode, start, price } = *draw;
    let slots = start..start + g.len();
    let need = mean_need(&episode.need[slots.clone()]);
    let window = Window {
        service: episode.world.service,
        load: &episode.load[slots.clone()],
        slot_secs: SLOT_SECS,
        startup_slots: episode.world.startup_slots(),
        timeout_secs: episode.world.timeout_secs,
        burn_in: settings.burn_in_slots,
        softness,
    };
    let prices =
        window::Weights { replicas: 1.0 / need, lateness: price, change: settings.change_price / need };
    let planner = &episode.planner[slots];
    let mut scratch = Scratch::default();

    let planned: Vec<f64> = planner.iter().map(|&n0| whole(f64::from(n0))).collect();
    let planner_cost = window::cost(&window, &planned, &mut scratch);
    let difficulty = 0.3 * (0.1 + planner_cost.total(&prices)).powf(settings.difficulty_power);

    let wanted: Vec<f64> = planner.iter().zip(g).map(|(&n0, &g)| f64::from(n0) * multiplier(g)).collect();
    let orders: Vec<f64> = wanted.iter().map(|&n| whole(n)).collect();
    let mut gradient = vec![0.0; orders.len()];
    let cost = window::cost_and_gradient(&window, &orders, &prices, &mut scratch, &mut gradient);
    for ((pull, &n), &g) in gradient.iter_mut().zip(&wanted).zip(g) {
        *pull *= n / difficulty;
        let outside = LOG_MULTIPLIER_LIMIT <= g.abs();
        if outside && *pull * f64::from(g) < 0.0 {
            *pull = 0.0;
        }
    }
    let loss = cost.total(&prices) / difficulty;
    let planner_loss = planner_cost.total(&prices) / difficulty;
    Outcome { gradient, loss, planner_loss, cost, planner_cost, need }
}

fn multiplier(g: f32) -> f64 {
    f64::from(g.clamp(-LOG_MULTIPLIER_LIMIT, LOG_MULTIPLIER_LIMIT)).exp()
}

/// Replicas are whole, and a service has at least one.
fn whole(replicas: f64) -> f64 {
    replicas.round().max(1.0)
}

fn mean_need(need: &[f32]) -> f64 {
    let sum: f64 = need.iter().map(|&n| f64::from(n)).sum();
    (sum / need.len() as f64).max(1.0)
}

fn report(update: u64, lessons: &[Lesson], gradient_norm: f64) -> UpdateReport {
    let mut report = UpdateReport { update, gradient_norm, ..UpdateReport::default() };
    let windows: usize = lessons.iter().map(|lesson| lesson.outcomes.len()).sum();
    let weight = 1.0 / windows as f64;
    for outcome in lessons.iter().flat_map(|lesson| &lesson.outcomes) {
        report.loss += weight * outcome.loss;
        report.planner_loss += weight * outcome.planner_loss;
        report.late_share += weight * outcome.cost.late_share;
        report.planner_late_share += weight * outcome.planner_cost.late_share;
        report.replicas += weight * outcome.cost.replicas / outcome.need;
        report.planner_replicas += weight * outcome.planner_cost.replicas / outcome.need;
    }
    report.critic_error = (weight * lessons.iter().map(|lesson| lesson.critic_squares).sum::<f64>()).sqrt();
    report
}

/// Smallest and largest value of each feature.
fn range(features: usize, episodes: &[Episode]) -> (Vec<f32>, Vec<f32>) {
    let mut low = vec![f32::MAX; features];
    let mut high = vec![f32::MIN; features];
    for row in episodes.iter().flat_map(|episode| episode.features.chunks_exact(features)) {
        for ((low, high), &value) in low.iter_mut().zip(&mut high).zip(row) {
            *low = low.min(value);
            *high = high.max(value);
        }
    }
    (low, high)
}

#[cfg(test)]
mod tests;
