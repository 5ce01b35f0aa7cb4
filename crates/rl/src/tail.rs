//! The value of what comes after a window, for the ablation in which it closes the actor's horizon (SHAC, Xu et al. 2022,
//! arXiv 2204.07137): a critic that sees what is under way, so that it tells what the last orders are worth.
//!
//! It learns, from the state in which a window's counted part begins, what that part will cost; at the end of the window
//! it is asked what the next one would. So its horizon is a second window, longer than any start-up, and nothing is
//! bootstrapped from itself. In: states. Out: values and their derivatives. Never: in a shipped model.

use candle_core::{Device, Result, Tensor, Var};
use rlscaler_sim::seed::Seed;
use rlscaler_sim::window::{self, Scratch, State};

use crate::actor_critic::log_price;
use crate::life::SLOT_SECS;
use crate::mlp::{Mlp, Names, Variables};
use crate::pathwise::PathwiseSettings;
use crate::scene::{Draw, Ordered, Scene};

/// Its tensors.
pub(crate) const NAMES: Names = [
    "tail.first.weight",
    "tail.first.bias",
    "tail.second.weight",
    "tail.second.bias",
    "tail.output.weight",
    "tail.output.bias",
];

/// Inputs beside the features: the price, and three of what is under way.
const BESIDE: usize = 4;

/// The critic, untrained: everything that comes costs nothing.
pub(crate) fn new(features: usize, seed: Seed) -> Mlp {
    Mlp::new(&NAMES, inputs(features), 1, seed)
}

/// Width of its input.
pub(crate) fn inputs(features: usize) -> usize {
    features + BESIDE
}

/// A slot, the price and what is under way, as the critic sees them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub(crate) draw: Draw<'a>,
    /// Within the window; the one after the last where the episode goes on, else the last.
    pub(crate) slot: usize,
    pub(crate) price: f64,
    pub(crate) state: State,
}

impl Seen<'_> {
    fn place(&self) -> usize {
        (self.draw.start + self.slot).min(self.draw.episode.slots() - 1)
    }

    /// What is under way is told against the planner's answer, and waiting work against what that many do in a slot.
    fn planner(&self) -> f64 {
        f64::from(self.draw.episode.planner[self.place()]) + 1.0
    }

    pub(crate) fn row(&self) -> Vec<f32> {
        let episode = self.draw.episode;
        let width = episode.features.len() / episode.slots();
        let mut row = episode.features[self.place() * width..(self.place() + 1) * width].to_vec();
        let State { ready, ordered, backlog } = self.state;
        let planner = self.planner();
        row.push(log_price(self.price));
        row.push(((ready + 1.0) / planner).ln() as f32);
        row.push(((ordered + 1.0) / planner).ln() as f32);
        row.push((backlog / (planner * SLOT_SECS)).ln_1p() as f32);
        row
    }

    /// From derivatives with respect to the last three inputs to those with respect to what is under way.
    fn chain(&self, per_input: &[f32]) -> State {
        let State { ready, ordered, backlog } = self.state;
        let per = |at: usize| f64::from(per_input[per_input.len() - 3 + at]);
        State {
            ready: per(0) / (ready + 1.0),
            ordered: per(1) / (ordered + 1.0),
            backlog: per(2) / (self.planner() * SLOT_SECS + backlog),
        }
    }
}

fn input(rows: &[Seen<'_>]) -> Result<Tensor> {
    let values: Vec<f32> = rows.iter().flat_map(Seen::row).collect();
    let width = values.len() / rows.len().max(1);
    Tensor::from_vec(values, (rows.len(), width), &Device::Cpu)
}

/// A window at several prices, to look beyond.
pub(crate) struct Horizon<'a> {
    pub(crate) settings: &'a PathwiseSettings,
    pub(crate) scene: &'a Scene<'a>,
    pub(crate) draw: &'a Draw<'a>,
    pub(crate) prices: &'a [f64],
}

impl Horizon<'_> {
    /// For each price what the state at the end is worth, as weights of the window's sum; and the critic's gradients of
    /// what the windows themselves came to.
    pub(crate) fn beyond(
        &self,
        critic: &Variables,
        ordered: &[Ordered],
    ) -> Result<(Vec<State>, Vec<Vec<f32>>)> {
        let Self { settings, scene, draw, prices } = *self;
        let (mut begins, mut ends, mut losses) = (vec![], vec![], vec![]);
        let mut scratch = Scratch::default();
        for (&price, Ordered { orders, .. }) in prices.iter().zip(ordered) {
            let cost = window::cost(&scene.window, orders, &mut scratch);
            let begin = scene.window.burn_in;
            let state = window::state_before(&scene.window, orders, begin, &scratch);
            begins.push(Seen { draw: *draw, slot: begin, price, state });
            ends.push(Seen { draw: *draw, slot: orders.len(), price, state: cost.end });
            losses.push(
                (cost.total(&scene.weights(settings, price)) / scene.difficulty(settings, price)) as f32,
            );
        }
        let gradients = lesson(critic, &begins, &losses, settings.batch * prices.len())?;
        let scaled = |(slope, &price): (State, &f64)| {
            let weight = settings.end_value_weight * scene.difficulty(settings, price);
            let State { ready, ordered, backlog } = slope;
            State { ready: weight * ready, ordered: weight * ordered, backlog: weight * backlog }
        };
        let ends = slopes(critic, &ends)?.into_iter().zip(prices).map(scaled).collect();
        Ok((ends, gradients))
    }
}

/// The derivative of each value with respect to what is under way.
fn slopes(critic: &Variables, rows: &[Seen<'_>]) -> Result<Vec<State>> {
    let input = Var::from_tensor(&input(rows)?)?;
    let store = critic.forward(&input)?.sum_all()?.backward()?;
    let Some(gradient) = store.get(&input) else { return Ok(vec![State::default(); rows.len()]) };
    let gradient: Vec<Vec<f32>> = gradient.to_vec2()?;
    Ok(rows.iter().zip(gradient).map(|(seen, per_input)| seen.chain(&per_input)).collect())
}

/// Gradients of the mean squared error against what the windows did cost, over `count` windows of which these are some.
fn lesson(critic: &Variables, rows: &[Seen<'_>], losses: &[f32], count: usize) -> Result<Vec<Vec<f32>>> {
    let losses = Tensor::from_slice(losses, (losses.len(), 1), &Device::Cpu)?;
    let squares = (critic.forward(&input(rows)?)? - losses)?.sqr()?.sum_all()?;
    critic.gradients(&(squares / count as f64)?.backward()?)
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::*;
    use crate::pathwise::tests::{FEATURES, constant_loads};

    /// A critic with no weight at zero.
    fn random(seed: u64) -> Mlp {
        let mut critic = new(FEATURES, Seed(seed));
        let mut rng = Seed(seed).stream("test critic");
        for value in critic.values.iter_mut().flatten() {
            *value += rng.random_range(-0.2..0.2);
        }
        critic
    }

    #[test]
    fn the_slope_of_the_value_is_the_derivative_with_respect_to_what_is_under_way() {
        let episodes = constant_loads(10.0, 1);
        let draw = Draw { episode: &episodes[0], start: 5, burn_in: 20 };
        for seed in 0..5 {
            let critic = random(seed);
            let network = critic.network();
            let value = |state: State| {
                let [value] = network.forward(&Seen { draw, slot: 40, price: 20.0, state }.row());
                f64::from(value)
            };
            let state = State { ready: 8.0, ordered: 13.0, backlog: 40.0 };
            let seen = Seen { draw, slot: 40, price: 20.0, state };
            let found = slopes(&critic.variables().unwrap(), &[seen]).unwrap()[0];
            // The values are of single precision: steps wide enough to be seen, and as wide a tolerance.
            let expected = State {
                ready: (value(State { ready: 8.5, ..state }) - value(State { ready: 7.5, ..state })),
                ordered: (value(State { ordered: 13.5, ..state }) - value(State { ordered: 12.5, ..state })),
                backlog: (value(State { backlog: 45.0, ..state }) - value(State { backlog: 35.0, ..state }))
                    / 10.0,
            };
            for (found, expected) in [
                (found.ready, expected.ready),
                (found.ordered, expected.ordered),
                (found.backlog, expected.backlog),
            ] {
                assert!(
                    (found - expected).abs() < 2e-5 + 0.02 * expected.abs(),
                    "seed {seed}: {found} {expected}"
                );
            }
        }
    }

    #[test]
    fn an_untrained_critic_pulls_at_nothing_and_a_trained_one_tells_few_from_enough() {
        let episodes = constant_loads(10.0, 1);
        let draw = Draw { episode: &episodes[0], start: 0, burn_in: 20 };
        let of = |ready: f64| {
            let state = State { ready, ordered: ready, backlog: 0.0 };
            Seen { draw, slot: 20, price: 20.0, state }
        };
        let mut critic = new(FEATURES, Seed(1));
        let untrained = slopes(&critic.variables().unwrap(), &[of(8.0)]).unwrap();
        assert_eq!(untrained, [State::default()]);
        let adam = crate::optimiser::AdamSettings { learning_rate: 0.01, updates: 200 };
        for _ in 0..200 {
            let rows = [of(4.0), of(8.0), of(16.0)];
            let gradients = lesson(&critic.variables().unwrap(), &rows, &[3.0, 2.0, 1.0], 3).unwrap();
            critic.step(&adam, gradients, 1.0);
        }
        let slope = slopes(&critic.variables().unwrap(), &[of(8.0)]).unwrap()[0];
        assert!(slope.ready + slope.ordered < 0.0, "{slope:?}");
    }
}
