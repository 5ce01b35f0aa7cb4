//! Made-up loads with stated shapes. In: a shape and a seed. Out: a trace with a peak near one request per second,
//! to be scaled. The parameters of a shape (amplitude, length of bursts, noise) are drawn from the seed, so that a
//! range of seeds is a population of services; the same seed gives the same trace.

use rand::RngExt;
use rand_distr::{Distribution, Exp1, StandardNormal};

use crate::seed::{Seed, Stream};
use crate::trace::Trace;

/// Length of a generated trace unless told otherwise: eight days, a week of history and a day to judge.
pub const DEFAULT_SECS: f64 = 8.0 * DAY_SECS;

/// Step of generated traces.
pub const STEP_SECS: f64 = 10.0;

const DAY_SECS: f64 = 86_400.0;
const HOUR_SECS: f64 = 3_600.0;

/// What the load looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shape {
    /// A day with one or two humps, a quieter weekend, and noise that remembers minutes.
    Diurnal,
    /// Levels that hold for a while and change at once.
    Step,
    /// Levels that are reached by straight lines.
    Ramp,
    /// Calm, and now and then a crowd that comes within minutes and leaves over an hour.
    FlashCrowd,
    /// Full load and next to none in turns, as of a batch client.
    OnOff,
    /// Several levels with random changes between them, as of a Markov-modulated Poisson process.
    MarkovModulated,
    /// Work of an inference service: few requests whose mean size in tokens wanders.
    LlmTokens,
    /// Next to nothing, and now and then 32 times as much within 10 seconds, for minutes. For judging: no seed picks it.
    Bursts,
}

impl Shape {
    /// The shapes among which a seed picks one, in this order.
    pub const ALL: [Shape; 7] = [
        Shape::Diurnal,
        Shape::Step,
        Shape::Ramp,
        Shape::FlashCrowd,
        Shape::OnOff,
        Shape::MarkovModulated,
        Shape::LlmTokens,
    ];

    /// All shapes that can be named.
    pub const NAMED: [Shape; 8] = [
        Shape::Diurnal,
        Shape::Step,
        Shape::Ramp,
        Shape::FlashCrowd,
        Shape::OnOff,
        Shape::MarkovModulated,
        Shape::LlmTokens,
        Shape::Bursts,
    ];

    /// Its name in commands and tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Shape::Diurnal => "diurnal",
            Shape::Step => "step",
            Shape::Ramp => "ramp",
            Shape::FlashCrowd => "flash-crowd",
            Shape::OnOff => "on-off",
            Shape::MarkovModulated => "markov",
            Shape::LlmTokens => "llm-tokens",
            Shape::Bursts => "bursts",
        }
    }

    /// The shape of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::NAMED.into_iter().find(|shape| shape.name() == name)
    }

    /// All names, for messages.
    #[must_use]
    pub fn names() -> String {
        Self::NAMED.map(Shape::name).join(", ")
    }
}

/// A trace of this shape; its name is `gen:SHAPE:SEED`. `duration_secs` is at least one step.
#[must_use]
pub fn generate(shape: Shape, seed: Seed, duration_secs: f64) -> Trace {
    let mut draws = seed.stream(shape.name());
    let count = ((duration_secs / STEP_SECS) as usize).clamp(1, crate::trace::MAX_SAMPLES);
    let mut rates = match shape {
        Shape::Diurnal => diurnal(count, &mut draws),
        Shape::Step => levels(count, &mut draws, Edge::Sudden),
        Shape::Ramp => levels(count, &mut draws, Edge::Straight),
        Shape::FlashCrowd => flash_crowd(count, &mut draws),
        Shape::OnOff => on_off(count, &mut draws),
        Shape::MarkovModulated => markov(count, &mut draws),
        Shape::LlmTokens => llm_tokens(count, &mut draws),
        Shape::Bursts => bursts(count, &mut draws),
    };
    for rate in &mut rates {
        *rate = rate.max(0.0);
    }
    let name = format!("gen:{}:{}", shape.name(), seed.0);
    Trace::new(&name, STEP_SECS, rates).expect("generators make finite rates that are not negative")
}

/// Noise that multiplies: lognormal of this deviation, forgotten over `memory_secs`.
struct Noise {
    deviation: f64,
    keep: f64,
    state: f64,
}

impl Noise {
    fn new(deviation: f64, memory_secs: f64) -> Self {
        Self { deviation, keep: (-STEP_SECS / memory_secs).exp(), state: 0.0 }
    }

    fn next(&mut self, draws: &mut Stream) -> f64 {
        let normal: f64 = StandardNormal.sample(draws);
        self.state = self.keep * self.state + (1.0 - self.keep * self.keep).sqrt() * normal;
        (self.deviation * self.state).exp()
    }
}

fn exponential(mean: f64, draws: &mut Stream) -> f64 {
    let unit: f64 = Exp1.sample(draws);
    mean * unit
}

fn diurnal(count: usize, draws: &mut Stream) -> Vec<f64> {
    let amplitude = draws.random_range(0.4..0.9);
    let second_hump = draws.random_range(0.0..0.4);
    let phase = draws.random_range(0.0..std::f64::consts::TAU);
    let weekend = draws.random_range(0.6..1.0);
    let mut slow = Noise::new(draws.random_range(0.02..0.15), 900.0);
    let mut fast = Noise::new(draws.random_range(0.01..0.10), 30.0);
    let at = |index: usize| {
        let days = index as f64 * STEP_SECS / DAY_SECS;
        let angle = days * std::f64::consts::TAU + phase;
        let hump = (1.0 + angle.sin() + second_hump * (2.0 * angle).sin()) / 2.0;
        let day = if days as usize % 7 < 5 { 1.0 } else { weekend };
        day * (1.0 - amplitude + amplitude * hump)
    };
    (0..count).map(|index| at(index) * slow.next(draws) * fast.next(draws)).collect()
}

enum Edge {
    Sudden,
    Straight,
}

fn levels(count: usize, draws: &mut Stream, edge: Edge) -> Vec<f64> {
    let hold_secs = draws.random_range(900.0..7_200.0);
    let edge_secs = match edge {
        Edge::Sudden => 0.0,
        Edge::Straight => draws.random_range(60.0..1_800.0),
    };
    let mut noise = Noise::new(0.03, 30.0);
    let mut rates = Vec::with_capacity(count);
    let mut level = draws.random_range(0.1..1.0);
    while rates.len() < count {
        let next = draws.random_range(0.1..1.0);
        let held = (exponential(hold_secs, draws) / STEP_SECS) as usize + 1;
        let edged = (edge_secs / STEP_SECS) as usize;
        for index in 0..edged + held {
            let share = if edged == 0 { 1.0 } else { (index as f64 / edged as f64).min(1.0) };
            rates.push((level + (next - level) * share) * noise.next(draws));
        }
        level = next;
    }
    rates.truncate(count);
    rates
}

fn flash_crowd(count: usize, draws: &mut Stream) -> Vec<f64> {
    let calm = draws.random_range(0.1..0.4);
    let between_secs = draws.random_range(2.0..12.0) * HOUR_SECS;
    let mut noise = Noise::new(0.05, 60.0);
    let mut rates: Vec<f64> = (0..count).map(|_| calm * noise.next(draws)).collect();
    let mut start_secs = exponential(between_secs, draws);
    while start_secs < count as f64 * STEP_SECS {
        let rise_secs = draws.random_range(20.0..300.0);
        let fall_secs = draws.random_range(300.0..3_600.0);
        let height = (1.0 - calm) * draws.random_range(0.4..1.0);
        let first = (start_secs / STEP_SECS) as usize;
        for (index, rate) in rates.iter_mut().enumerate().skip(first) {
            let since = index as f64 * STEP_SECS - start_secs;
            let shape =
                if since < rise_secs { since / rise_secs } else { (-(since - rise_secs) / fall_secs).exp() };
            if rise_secs < since && shape < 1e-3 {
                break;
            }
            *rate += height * shape.max(0.0);
        }
        start_secs += rise_secs + exponential(between_secs, draws);
    }
    rates
}

fn on_off(count: usize, draws: &mut Stream) -> Vec<f64> {
    let on_secs = draws.random_range(120.0..3_600.0);
    let off_secs = draws.random_range(120.0..3_600.0);
    let off_level = draws.random_range(0.0..0.2);
    let mut noise = Noise::new(0.05, 30.0);
    let mut rates = Vec::with_capacity(count);
    let mut on = true;
    while rates.len() < count {
        let (level, mean_secs) = if on { (1.0, on_secs) } else { (off_level, off_secs) };
        let steps = (exponential(mean_secs, draws) / STEP_SECS) as usize + 1;
        for _ in 0..steps {
            rates.push(level * noise.next(draws));
        }
        on = !on;
    }
    rates.truncate(count);
    rates
}

fn markov(count: usize, draws: &mut Stream) -> Vec<f64> {
    const STATES: usize = 4;
    let stay_secs = draws.random_range(120.0..1_800.0);
    let states: [f64; STATES] = std::array::from_fn(|_| draws.random_range(0.1..1.0));
    let mut noise = Noise::new(0.03, 30.0);
    let mut state = 0;
    let mut rates = Vec::with_capacity(count);
    while rates.len() < count {
        for _ in 0..(exponential(stay_secs, draws) / STEP_SECS) as usize + 1 {
            rates.push(states[state] * noise.next(draws));
        }
        state = (state + draws.random_range(1..STATES)) % STATES;
    }
    rates.truncate(count);
    rates
}

fn llm_tokens(count: usize, draws: &mut Stream) -> Vec<f64> {
    let mut requests = Noise::new(draws.random_range(0.1..0.3), 300.0);
    let mut tokens = Noise::new(draws.random_range(0.2..0.5), 120.0);
    let day = diurnal(count, draws);
    day.into_iter().map(|level| level * requests.next(draws) * tokens.next(draws)).collect()
}

fn bursts(count: usize, draws: &mut Stream) -> Vec<f64> {
    /// A burst over the calm between.
    const HEIGHT: f64 = 32.0;
    let between_secs = draws.random_range(0.5..4.0) * HOUR_SECS;
    let burst_secs = draws.random_range(60.0..900.0);
    let mut noise = Noise::new(0.05, 30.0);
    let mut rates = Vec::with_capacity(count);
    let mut calm = true;
    while rates.len() < count {
        let (level, mean_secs) = if calm { (1.0 / HEIGHT, between_secs) } else { (1.0, burst_secs) };
        let steps = (exponential(mean_secs, draws) / STEP_SECS) as usize + 1;
        for _ in 0..steps {
            rates.push(level * noise.next(draws));
        }
        calm = !calm;
    }
    rates.truncate(count);
    rates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_repeats_for_a_seed_and_differs_for_another() {
        for shape in Shape::NAMED {
            let first = generate(shape, Seed(8_000), 2.0 * DAY_SECS);
            assert_eq!(first, generate(shape, Seed(8_000), 2.0 * DAY_SECS), "{}", shape.name());
            assert_ne!(first.rates(), generate(shape, Seed(8_001), 2.0 * DAY_SECS).rates());
            assert_eq!(first.rates().len(), 17_280);
            assert!((0.05..20.0).contains(&first.peak()), "{} peaks at {}", shape.name(), first.peak());
        }
    }

    #[test]
    fn a_burst_is_many_times_the_calm_within_one_step() {
        let trace = generate(Shape::Bursts, Seed(8_000), DAY_SECS);
        let largest = trace.rates().windows(2).map(|pair| pair[1] / pair[0]).fold(0.0, f64::max);
        assert!((20.0..50.0).contains(&largest), "{largest}");
    }

    #[test]
    fn a_step_is_sudden_and_a_ramp_is_not() {
        let largest = |shape| {
            let trace = generate(shape, Seed(8_003), DAY_SECS);
            let jumps = trace.rates().windows(2).map(|pair| (pair[1] - pair[0]).abs());
            jumps.fold(0.0, f64::max)
        };
        assert!(2.0 * largest(Shape::Ramp) < largest(Shape::Step));
    }
}
