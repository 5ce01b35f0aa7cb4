//! PPO on the same windows, worlds and features: the ablation that the pathwise learner must beat. It answers with one
//! of a few steps on the planner's number and learns by trying, where [`crate::pathwise`] computes the gradient.
//!
//! Sources: Schulman et al. 2017 (arXiv 1707.06347) for the clipped objective, Schulman et al. 2016 (arXiv 1506.02438)
//! for the advantages, Mao et al. 2018 (arXiv 1807.02264) for baselines that see the arrivals: what a slot costs is told
//! against what the planner's order costs under the same arrivals. Beyond them: actions that the guardrails would cut are
//! masked, and the critic sees what is under way.
//!
//! In: settings, the windows' settings, episodes, a seed. Out: a policy and its two files. Deterministic: the same
//! arguments give the same bytes on one machine. Never: a clock, a file, the shipped model.

mod policy;
mod rollout;

use candle_core::{D, Device, Result, Tensor};
use candle_nn::ops::log_softmax;
use rand::RngExt;
use rayon::prelude::*;
use rlscaler_sim::seed::{Seed, Stream};
use serde::{Deserialize, Serialize};

use crate::episodes::Episode;
use crate::head::{PRICE_MAX, PRICE_MIN};
use crate::mlp::{self, Mlp, Names, Variables};
use crate::optimiser::AdamSettings;
use crate::pathwise::{PathwiseSettings, range, typical};
use crate::scene::Draw;
use crate::tail;
pub use policy::{Policy, files};
use rollout::Tried;

/// Answers to choose from.
pub const ACTIONS: usize = 7;

/// How to learn. Defaults are those of the sources where none is stated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PpoSettings {
    /// Steps to choose from, in running errors of the planner's own forecasts: the unit in which the actor of the shipped
    /// recipe answers too. In rising order, 0 among them: the planner's number itself.
    pub steps: [f32; ACTIONS],
    /// Logit that the step of 0 has more than the others before the first update: the planner is its greedy answer, and
    /// four in ten of what it tries.
    pub planner_logit: f32,
    /// Seconds of own answers the number may not fall below while learning. 30 and not the two minutes of serving: there a
    /// lower answer shows nothing unless eight in a row are lower, and fewer replicas are hardly ever tried.
    pub own_max_secs: f64,
    /// Updates.
    pub updates: u64,
    /// Windows per update, each tried once at a price of its own. 32: with three epochs an update takes about as much CPU
    /// time as one of the shipped recipe.
    pub batch: usize,
    /// Times that each try is learnt from.
    pub epochs: usize,
    /// Slots per step of the optimiser.
    pub minibatch: usize,
    /// Learning rate of the first update; it falls to 0 along a cosine.
    pub learning_rate: f64,
    /// Largest norm of the actor's gradient, and of the critic's.
    pub gradient_norm_max: f64,
    /// How far the probability of an answer may move before it is no longer pushed, as a share.
    pub clip: f64,
    /// Weight of the next slot's value: 0.98 looks 12 minutes ahead, twice the longest start-up.
    pub discount: f64,
    /// Weight of longer views in the advantages.
    pub lambda: f64,
    /// Weight of the answers' entropy in the first update; it falls linearly to 0, since serving takes the likeliest.
    pub entropy: f64,
}

impl Default for PpoSettings {
    fn default() -> Self {
        Self {
            steps: [-1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 4.0],
            planner_logit: 1.5,
            own_max_secs: 30.0,
            updates: 4000,
            batch: 32,
            epochs: 3,
            minibatch: 512,
            learning_rate: 1e-3,
            gradient_norm_max: 0.5,
            clip: 0.2,
            discount: 0.98,
            lambda: 0.95,
            entropy: 0.01,
        }
    }
}

impl PpoSettings {
    fn adam(&self, slots: usize) -> AdamSettings {
        let steps = (self.epochs * (self.batch * slots).div_ceil(self.minibatch)) as u64;
        AdamSettings { learning_rate: self.learning_rate, updates: self.updates * steps }
    }

    /// Place of the answer that is the planner's.
    fn planner_action(&self) -> usize {
        let nearest = |a: &usize, b: &usize| self.steps[*a].abs().total_cmp(&self.steps[*b].abs());
        (0..ACTIONS).min_by(nearest).expect("there are actions")
    }
}

const ACTOR: Names = [
    "ppo.first.weight",
    "ppo.first.bias",
    "ppo.second.weight",
    "ppo.second.bias",
    "ppo.output.weight",
    "ppo.output.bias",
];

const CRITIC: Names = [
    "ppo-critic.first.weight",
    "ppo-critic.first.bias",
    "ppo-critic.second.weight",
    "ppo-critic.second.bias",
    "ppo-critic.output.weight",
    "ppo-critic.output.bias",
];

/// Everything that changes while learning, and what does not of a model's file.
#[derive(Debug, Clone, PartialEq)]
pub struct Learner {
    actor: Mlp,
    critic: Mlp,
    steps: [f32; ACTIONS],
    low: Vec<f32>,
    high: Vec<f32>,
    /// Mean and deviation of each feature: the actor sees differences from the one over the other.
    typical: (Vec<f32>, Vec<f32>),
    /// Updates made.
    pub updates: u64,
}

impl Learner {
    /// Untrained: its likeliest answer is the planner's.
    #[must_use]
    pub fn new(settings: &PpoSettings, features: usize, episodes: &[Episode], seed: Seed) -> Self {
        // The price comes after the features.
        let mut actor = Mlp::new(&ACTOR, features + 1, ACTIONS, seed);
        actor.values[5][settings.planner_action()] = settings.planner_logit;
        let (low, high) = range(features, episodes);
        let critic = Mlp::new(&CRITIC, tail::inputs(features), 1, seed);
        let typical = typical(features, episodes);
        Self { actor, critic, steps: settings.steps, low, high, typical, updates: 0 }
    }
}

/// What one update saw.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct UpdateReport {
    /// Updates made before it.
    pub update: u64,
    /// Loss of the tries, mean over windows, each over its difficulty.
    pub loss: f64,
    /// The same of the planner's orders.
    pub planner_loss: f64,
    /// Mean entropy of the answers.
    pub entropy: f64,
}

/// One update from windows of `episodes` as `world` has them. Runs on the rayon pool it is called in.
///
/// # Errors
/// As candle's.
pub fn update(
    learner: &mut Learner,
    settings: &PpoSettings,
    world: &PathwiseSettings,
    episodes: &[Episode],
    seed: Seed,
) -> Result<UpdateReport> {
    let number = learner.updates;
    let world = &PathwiseSettings { own_max_secs: settings.own_max_secs, ..world.clone() };
    let mut rng = seed.stream(&format!("ppo update {number}"));
    let draws = draw(settings, world, episodes, &mut rng);
    let driver = rollout::Driver::new(learner, settings, world);
    let try_out = |(index, (draw, price)): (usize, &(Draw<'_>, f64))| {
        driver.window(draw, *price, &mut seed.stream(&format!("ppo update {number} window {index}")))
    };
    let windows: Vec<rollout::Outcome> = draws.par_iter().enumerate().map(try_out).collect();
    let mut report = UpdateReport { update: number, ..UpdateReport::default() };
    for window in &windows {
        report.loss += window.loss / windows.len() as f64;
        report.planner_loss += window.planner_loss / windows.len() as f64;
    }
    let mut tries: Vec<Tried> = windows.into_iter().flat_map(|window| window.tries).collect();
    report.entropy = tries.iter().map(|tried| tried.entropy()).sum::<f64>() / tries.len() as f64;
    normalise(&mut tries);

    let adam = settings.adam(world.window_slots());
    let entropy = settings.entropy * (1.0 - number as f64 / settings.updates.max(1) as f64).max(0.0);
    for _ in 0..settings.epochs {
        shuffle(&mut tries, &mut rng);
        for some in tries.chunks(settings.minibatch) {
            let lessons = some
                .par_chunks(ROWS)
                .map(|rows| lesson(learner, settings, entropy, rows, some.len()))
                .collect::<Result<Vec<_>>>()?;
            let (mut of_actor, mut of_critic) = (learner.actor.zeros(), learner.critic.zeros());
            for (actor, critic) in &lessons {
                mlp::add(&mut of_actor, actor);
                mlp::add(&mut of_critic, critic);
            }
            learner.actor.step(&adam, of_actor, settings.gradient_norm_max);
            learner.critic.step(&adam, of_critic, settings.gradient_norm_max);
        }
    }
    learner.updates += 1;
    Ok(report)
}

/// Slots that go through the networks together.
const ROWS: usize = 128;

/// The windows of an update, each with a price, log-uniform.
fn draw<'a>(
    settings: &PpoSettings,
    world: &PathwiseSettings,
    episodes: &'a [Episode],
    rng: &mut Stream,
) -> Vec<(Draw<'a>, f64)> {
    let one = |_| {
        let episode = &episodes[rng.random_range(0..episodes.len())];
        let draw = Draw::any(world, episode, rng);
        let price = PRICE_MIN * (rng.random_range(0.0..1.0) * (PRICE_MAX / PRICE_MIN).ln()).exp();
        (draw, price)
    };
    (0..settings.batch).map(one).collect()
}

/// Advantages of mean 0 and deviation 1.
fn normalise(tries: &mut [Tried]) {
    let count = tries.len().max(1) as f64;
    let mean = tries.iter().map(|tried| tried.advantage).sum::<f64>() / count;
    let square = tries.iter().map(|tried| (tried.advantage - mean).powi(2)).sum::<f64>() / count;
    for tried in tries {
        tried.advantage = (tried.advantage - mean) / (square.sqrt() + 1e-8);
    }
}

fn shuffle(tries: &mut [Tried], rng: &mut Stream) {
    for last in (1..tries.len()).rev() {
        tries.swap(last, rng.random_range(0..=last));
    }
}

type Gradients = Vec<Vec<f32>>;

/// Gradients of actor and critic from some slots of a minibatch of `count`.
fn lesson(
    learner: &Learner,
    settings: &PpoSettings,
    entropy: f64,
    rows: &[Tried],
    count: usize,
) -> Result<(Gradients, Gradients)> {
    let of_rows =
        |values: Vec<f32>, width: usize| Tensor::from_vec(values, (rows.len(), width), &Device::Cpu);
    let column = |of: fn(&Tried) -> f64| of_rows(rows.iter().map(|tried| of(tried) as f32).collect(), 1);
    let width = rows[0].seen.len();
    let seen = of_rows(rows.iter().flat_map(|tried| tried.seen.clone()).collect(), width)?;
    let mask = of_rows(rows.iter().flat_map(|tried| tried.mask).collect(), ACTIONS)?;
    let actions: Vec<u32> = rows.iter().map(|tried| tried.action as u32).collect();
    let actions = Tensor::from_vec(actions, (rows.len(), 1), &Device::Cpu)?;
    let advantage = column(|tried| tried.advantage)?;

    let actor: Variables = learner.actor.variables()?;
    let logs = log_softmax(&(actor.forward(&seen)? + mask)?, D::Minus1)?;
    let ratio = (logs.gather(&actions, 1)? - column(|tried| f64::from(tried.log_probability))?)?.exp()?;
    let clipped = ratio.clamp(1.0 - settings.clip, 1.0 + settings.clip)?;
    let gain = (&ratio * &advantage)?.minimum(&(clipped * &advantage)?)?.sum_all()?;
    let disorder = (logs.exp()? * &logs)?.sum_all()?.neg()?;
    let loss = ((gain + (disorder * entropy)?)?.neg()? / count as f64)?;
    let of_actor = actor.gradients(&loss.backward()?)?;

    let critic = learner.critic.variables()?;
    let critic_width = rows[0].under_way.len();
    let under_way = of_rows(rows.iter().flat_map(|tried| tried.under_way.clone()).collect(), critic_width)?;
    let miss = (critic.forward(&under_way)? - column(|tried| tried.outcome)?)?;
    let of_critic = critic.gradients(&(miss.sqr()?.sum_all()? / count as f64)?.backward()?)?;
    Ok((of_actor, of_critic))
}

#[cfg(test)]
mod tests;
