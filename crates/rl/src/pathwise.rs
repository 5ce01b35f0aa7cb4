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
use rlscaler_core::settings::Tuning;
use rlscaler_sim::seed::{Seed, Stream};
use rlscaler_sim::window::{self, Cost, Scratch, State};
use serde::{Deserialize, Serialize};

use crate::actor_critic::log_price;
use crate::episodes::Episode;
use crate::head::{self, ANCHORS, LOG_MULTIPLIER_LIMIT, PRICE_MAX, PRICE_MIN};
use crate::left_out::Part;
use crate::mlp::{self, Mlp};
use crate::muon;
use crate::optimiser::{self, Adam, AdamSettings, clip};
use crate::scene::{Draw, Ordered, Scene};
use crate::tail::{self, Horizon};
use crate::tensors::Tensors;
use crate::weights::{CENTRE, RANGE_HIGH, RANGE_LOW, SPREAD, Weights, layout};

/// How to learn. Every default is the one the shipped recipe uses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PathwiseSettings {
    /// Windows per update. 192: the gradient's noise falls no further in wall time beyond it.
    pub batch: usize,
    /// Prices of lateness at which each window is followed. Only the actor's last step depends on the price, so more
    /// of them cost little beside the window itself.
    pub prices: usize,
    /// Seconds of own answers the number may not fall below, as the guardrails see to it when serving. Learning inside
    /// them is 2 % cheaper at matched lateness than learning without.
    pub own_max_secs: f64,
    /// The relative decrease that is not worth a change, likewise.
    pub deadband: f64,
    /// Replicas above the present count that are not worth a raise, likewise.
    pub raise_slack: f64,
    /// Replicas below the next lower count that a decrease takes, likewise.
    pub lower_slack: f64,
    /// Updates. 20,000, with half the renewals of episodes, lose no less on unseen ones, and more at prices from 300 up, which
    /// rare events decide.
    pub updates: u64,
    /// Learning rate of the first update; it falls to 0 along a cosine.
    pub learning_rate: f64,
    /// The same of the actor's two hidden weight matrices, whose steps turn them in every direction alike ([`crate::muon`]). 0.008
    /// loses 0.7 % less than Adam on episodes it has not seen, after as many updates.
    pub matrix_learning_rate: f64,
    /// Largest norm of the actor's gradient, and of the critic's.
    pub gradient_norm_max: f64,
    /// Slots of a window that are simulated and not counted: the longest start-up drawn. Fewer where a life begins.
    pub burn_in_slots: usize,
    /// Slots of a window that are counted: 11 minutes.
    pub counted_slots: usize,
    /// Price of changing one mean need of replicas. 1.0 makes 2 changes an hour fewer of 15 and costs 1 %.
    pub change_price: f64,
    /// Weight of the logarithm of over-utilisation in the first update ([`window::Window::softness`]); it falls linearly. It shows
    /// the way while everything is late; left on, it pays for replicas that save nobody.
    pub softness_first: f64,
    /// The same at the end of the share `softness_share` of all updates, and from then on.
    pub softness_last: f64,
    /// See `softness_last`.
    pub softness_share: f64,
    /// The loss of a window is divided by `0.3 * (1 + price * (this + the late share usual for its load))`, so that loads
    /// that are late whatever is done do not drown the others. By what is usual and not by what came: a window's own
    /// outcome as its measure would make rare disasters cheap.
    pub late_floor: f64,
    /// Decoupled weight decay of the layers' weights, biases and gates apart (Loshchilov & Hutter 2019, arXiv
    /// 1711.05101): what no load clearly asks for stays one curve over the price for all loads.
    pub weight_decay: f64,
    /// Weight of what a critic says will come after a window in the actor's gradient; 0 in the recipe, for the
    /// ablations.
    pub end_value_weight: f64,
    /// Parts that the actor does without: seasons, monotone-price, planner. None; for the ablations.
    pub left_out: Vec<Part>,
}

impl Default for PathwiseSettings {
    fn default() -> Self {
        Self {
            batch: 192,
            prices: 6,
            own_max_secs: Tuning::default().own_max_secs,
            deadband: Tuning::default().deadband,
            raise_slack: Tuning::default().raise_slack,
            lower_slack: Tuning::default().lower_slack,
            updates: 14_000,
            learning_rate: 3e-3,
            matrix_learning_rate: 8e-3,
            gradient_norm_max: 1.0,
            burn_in_slots: 20,
            counted_slots: 44,
            change_price: 0.3,
            softness_first: 0.5,
            softness_last: 0.0,
            softness_share: 0.6,
            late_floor: 0.003,
            weight_decay: 0.1,
            end_value_weight: 0.0,
            left_out: vec![],
        }
    }
}

impl PathwiseSettings {
    /// Slots of a window.
    #[must_use]
    pub fn window_slots(&self) -> usize {
        self.burn_in_slots + self.counted_slots
    }

    /// The guardrails' numbers among them.
    pub(crate) fn tuning(&self) -> Tuning {
        let Self { own_max_secs, deadband, raise_slack, lower_slack, .. } = *self;
        Tuning { own_max_secs, deadband, raise_slack, lower_slack, ..Tuning::default() }
    }

    fn adam(&self) -> AdamSettings {
        AdamSettings { learning_rate: self.learning_rate, updates: self.updates }
    }

    fn softness(&self, update: u64) -> f64 {
        let progress = (update as f64 / (self.softness_share * self.updates as f64).max(1.0)).min(1.0);
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
    /// The critic of what comes after a window, where the actor heeds it.
    pub(crate) tail: Option<Mlp>,
}

impl Learner {
    /// Untrained, over features of the range that `episodes` show.
    #[must_use]
    pub fn new(features: usize, episodes: &[Episode], seed: Seed) -> Self {
        let mut weights = Weights::zero_initialised(features, seed);
        let (low, high) = range(features, episodes);
        weights.tensor_mut(RANGE_LOW).copy_from_slice(&low);
        weights.tensor_mut(RANGE_HIGH).copy_from_slice(&high);
        let (centre, spread) = typical(features, episodes);
        weights.tensor_mut(CENTRE).copy_from_slice(&centre);
        weights.tensor_mut(SPREAD).copy_from_slice(&spread);
        let adam = Adam::new(weights.values());
        Self { weights, adam, tail: None }
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
    let chunks = draw_chunks(settings, episodes, &mut seed.stream(&format!("update {number}")));
    let softness = settings.softness(number);
    if 0.0 < settings.end_value_weight && learner.tail.is_none() {
        learner.tail = Some(tail::new(learner.weights.features(), seed));
    }
    let lessons = chunks
        .par_iter()
        .map(|chunk| lesson(learner, settings, softness, chunk))
        .collect::<Result<Vec<_>>>()?;

    let mut gradients: Vec<Vec<f32>> = learner.weights.values().iter().map(|v| vec![0.0; v.len()]).collect();
    for lesson in &lessons {
        let pairs = gradients.iter_mut().flatten().zip(lesson.gradients.iter().flatten());
        pairs.for_each(|(sum, gradient)| *sum += gradient);
    }
    let critic = layout(learner.weights.features()).partition_point(|shape| shape.name < "critic");
    let gradient_norm = clip(&mut gradients[..critic], settings.gradient_norm_max);
    clip(&mut gradients[critic..], settings.gradient_norm_max);
    let rate = optimiser::learning_rate(&settings.adam(), number);
    turn_matrices(learner, settings, &mut gradients);
    learner.adam.step(&settings.adam(), learner.weights.values_mut(), &gradients);
    let keep = (1.0 - rate * settings.weight_decay) as f32;
    for (shape, values) in layout(learner.weights.features()).iter().zip(learner.weights.values_mut()) {
        if shape.name.ends_with(".weight") {
            values.iter_mut().for_each(|value| *value *= keep);
        }
    }
    if let Some(tail) = &mut learner.tail {
        let mut gradients = tail.zeros();
        lessons.iter().for_each(|lesson| mlp::add(&mut gradients, &lesson.tail));
        tail.step(&settings.adam(), gradients, settings.gradient_norm_max);
    }
    Ok(report(number, &lessons, gradient_norm))
}

/// The weight matrices that [`muon`] moves.
const TURNED: [&str; 2] = ["actor.first.weight", "actor.second.weight"];

/// One step of the actor's hidden matrices; their gradients are taken.
fn turn_matrices(learner: &mut Learner, settings: &PathwiseSettings, gradients: &mut [Vec<f32>]) {
    let adam = AdamSettings { learning_rate: settings.matrix_learning_rate, ..settings.adam() };
    let rate = optimiser::learning_rate(&adam, learner.adam.updates) as f32;
    for (place, shape) in layout(learner.weights.features()).iter().enumerate() {
        if TURNED.contains(&shape.name) {
            let gradient = std::mem::take(&mut gradients[place]);
            let step = muon::step(&mut learner.adam.mean[place], &gradient, shape.dims[0]);
            let weights = learner.weights.values_mut()[place].iter_mut();
            weights.zip(step).for_each(|(weight, step)| *weight -= rate * step);
        }
    }
}

/// Windows that go through the networks together: their activations fit into a core's cache, and are small enough for
/// the allocator to keep.
const CHUNK: usize = 8;

/// What some windows taught.
struct Lesson {
    outcomes: Vec<Outcome>,
    gradients: Vec<Vec<f32>>,
    /// Gradients of the critic of what comes after; empty without one.
    tail: Vec<Vec<f32>>,
    critic_squares: f64,
}

/// Windows through the actor, the queue and back; the critic learns the loss the actor made beside it.
fn lesson(
    learner: &Learner,
    settings: &PathwiseSettings,
    softness: f64,
    chunk: &Chunk<'_>,
) -> Result<Lesson> {
    let tensors = Tensors::new(&learner.weights)?;
    let tail = learner.tail.as_ref().map(Mlp::variables).transpose()?;
    let mut of_tail = learner.tail.as_ref().map_or(vec![], Mlp::zeros);
    let (slots, prices) = (settings.window_slots(), chunk.prices.len());
    let inputs = Inputs::gather(chunk, slots, learner.weights.features())?;
    let log_multipliers = match settings.left_out.contains(&Part::MonotonePrice) {
        false => tensors.log_multipliers(&inputs.features, &inputs.ramps)?,
        true => tensors.unconstrained(&inputs.features, &inputs.ramps)?,
    };
    let g: Vec<f32> = log_multipliers.flatten_all()?.to_vec1()?;
    let mut outcomes = Vec::with_capacity(chunk.draws.len() * prices);
    let mut pulls = vec![0.0_f32; g.len()];
    for ((draw, g), pulls) in
        chunk.draws.iter().zip(g.chunks_exact(slots * prices)).zip(pulls.chunks_exact_mut(slots * prices))
    {
        let scene = Scene::new(settings, softness, draw);
        let mut scratch = Scratch::default();
        let of_price = |place: usize| g.iter().skip(place).step_by(prices).copied().collect::<Vec<f32>>();
        let ordered: Vec<Ordered> =
            (0..prices).map(|place| scene.ordered(settings, &of_price(place))).collect();
        let ends = match &tail {
            None => vec![State::default(); prices],
            Some(critic) => {
                let horizon = Horizon { settings, scene: &scene, draw, prices: &chunk.prices };
                let (ends, gradients) = horizon.beyond(critic, &ordered)?;
                mlp::add(&mut of_tail, &gradients);
                ends
            }
        };
        for (place, &price) in chunk.prices.iter().enumerate() {
            let (ordered, g) = (&ordered[place], of_price(place));
            let outcome = follow(settings, &scene, (price, ends[place]), ordered, &g, &mut scratch);
            for (pull, &derivative) in pulls.iter_mut().skip(place).step_by(prices).zip(&outcome.gradient) {
                *pull = derivative as f32;
            }
            outcomes.push(outcome);
        }
    }

    let pulls = Tensor::from_vec(pulls, (chunk.draws.len() * slots, prices), &Device::Cpu)?;
    let targets: Vec<f32> = outcomes.iter().map(|outcome| outcome.loss as f32).collect();
    let targets = Tensor::from_vec(targets, outcomes.len(), &Device::Cpu)?;
    let critic_squares = (tensors.values(&inputs.critic)? - targets)?.sqr()?.sum_all()?;
    let per_window = 1.0 / (settings.batch * prices) as f64;
    let surrogate = (((log_multipliers * pulls)?.sum_all()? + &critic_squares)? * per_window)?;
    let gradients = tensors.gradients(&surrogate.backward()?)?;
    let critic_squares = critic_squares.to_scalar::<f32>()?.into();
    Ok(Lesson { outcomes, gradients, tail: of_tail, critic_squares })
}

/// Windows that go through the networks together, and the prices at which each of them is followed.
#[derive(Debug, Clone)]
struct Chunk<'a> {
    draws: Vec<Draw<'a>>,
    prices: Vec<f64>,
}

/// The windows of an update. The prices of a chunk are one from each of as many equal parts of the logarithm's range.
fn draw_chunks<'a>(settings: &PathwiseSettings, episodes: &'a [Episode], rng: &mut Stream) -> Vec<Chunk<'a>> {
    let draws: Vec<Draw<'a>> = (0..settings.batch)
        .map(|_| {
            let episode = &episodes[rng.random_range(0..episodes.len())];
            Draw::any(settings, episode, rng)
        })
        .collect();
    let part = (PRICE_MAX / PRICE_MIN).ln() / settings.prices as f64;
    let prices = |rng: &mut Stream| {
        let price = |place| PRICE_MIN * ((place as f64 + rng.random_range(0.0..1.0)) * part).exp();
        (0..settings.prices).map(price).collect()
    };
    draws.chunks(CHUNK).map(|draws| Chunk { draws: draws.to_vec(), prices: prices(rng) }).collect()
}

/// A chunk as tensors: a row per slot for the actor, one per window and price for the critic.
struct Inputs {
    features: Tensor,
    ramps: Tensor,
    critic: Tensor,
}

impl Inputs {
    fn gather(chunk: &Chunk<'_>, slots: usize, width: usize) -> Result<Self> {
        let Chunk { draws, prices } = chunk;
        let mut features = Vec::with_capacity(draws.len() * slots * width);
        let mut critic = Vec::with_capacity(draws.len() * prices.len() * (width + 1));
        for draw in draws {
            let window = &draw.episode.features[draw.start * width..(draw.start + slots) * width];
            features.extend_from_slice(window);
            for &price in prices {
                critic.extend_from_slice(&window[..width]);
                critic.push(log_price(price));
            }
        }
        let ramps: Vec<f32> = prices.iter().flat_map(|&price| head::ramps(price)).collect();
        Ok(Self {
            features: Tensor::from_vec(features, (draws.len() * slots, width), &Device::Cpu)?,
            ramps: Tensor::from_vec(ramps, (prices.len(), ANCHORS), &Device::Cpu)?,
            critic: Tensor::from_vec(critic, (draws.len() * prices.len(), width + 1), &Device::Cpu)?,
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

/// Orders as the actor would have them, through the queue, and the derivative back to its output: on a whole number that
/// on the side the answer leans to ([`Ordered::leans`]). Past the head's limit only a pull back inside
/// counts. `end`: what is under way at the end is worth, beside the price.
fn follow(
    settings: &PathwiseSettings,
    scene: &Scene<'_>,
    (price, end): (f64, State),
    ordered: &Ordered,
    g: &[f32],
    scratch: &mut Scratch,
) -> Outcome {
    let (weights, difficulty) = (scene.weights(settings, price), scene.difficulty(settings, price));
    let Ordered { wanted, orders, leans, sources } = ordered;
    let mut carried = vec![0.0; orders.len()];
    let pulling = window::Weights { end, ..weights };
    let answered = (orders.as_slice(), leans.as_slice());
    let cost = window::cost_and_gradient(&scene.window, answered, &pulling, scratch, &mut carried);
    let mut gradient = vec![0.0; orders.len()];
    for (&source, pull) in sources.iter().zip(carried) {
        gradient[source] += pull;
    }
    for (((pull, &n), &g), &lowest) in gradient.iter_mut().zip(wanted).zip(g).zip(&scene.lowest) {
        *pull *= n / difficulty;
        let outward = if 0.0 < *pull { g <= lowest } else { LOG_MULTIPLIER_LIMIT <= g };
        if outward {
            *pull = 0.0;
        }
    }
    let loss = cost.total(&weights) / difficulty;
    let planner_loss = scene.planner_cost.total(&weights) / difficulty;
    Outcome { gradient, loss, planner_loss, cost, planner_cost: scene.planner_cost, need: scene.need }
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

/// Mean and standard deviation of each feature.
pub(crate) fn typical(features: usize, episodes: &[Episode]) -> (Vec<f32>, Vec<f32>) {
    let mut count = 0.0_f64;
    let mut sums = vec![(0.0_f64, 0.0_f64); features];
    for row in episodes.iter().flat_map(|episode| episode.features.chunks_exact(features)) {
        count += 1.0;
        for ((sum, squares), &value) in sums.iter_mut().zip(row) {
            *sum += f64::from(value);
            *squares += f64::from(value) * f64::from(value);
        }
    }
    let count = count.max(1.0);
    sums.iter()
        .map(|(sum, squares)| {
            let mean = sum / count;
            let deviation = (squares / count - mean * mean).max(0.0).sqrt();
            (mean as f32, (deviation as f32).max(SPREAD_MIN))
        })
        .unzip()
}

/// Spread of a feature that hardly varies in training.
const SPREAD_MIN: f32 = 0.05;

/// Smallest and largest value of each feature.
pub(crate) fn range(features: usize, episodes: &[Episode]) -> (Vec<f32>, Vec<f32>) {
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
pub(crate) mod tests;
