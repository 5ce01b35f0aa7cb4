//! A window of a service's life as learners go through it: what of it does not depend on their answers, and what the
//! guardrails make of those.
//!
//! In: a stretch of an episode, answers. Out: orders, and the measure of what they cost. Never: a network.

use rand::RngExt;
use rlscaler_sim::seed::Stream;
use rlscaler_sim::window::{self, Cost, Lean, Scratch, State, Window};

use crate::episodes::Episode;
use crate::head::{self, LOG_MULTIPLIER_LIMIT, UNIT_FEATURE};
use crate::life::SLOT_SECS;
use crate::pathwise::PathwiseSettings;

/// One window to learn from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Draw<'a> {
    pub(crate) episode: &'a Episode,
    pub(crate) start: usize,
    /// Slots that are simulated and not counted.
    pub(crate) burn_in: usize,
}

impl<'a> Draw<'a> {
    /// The window whose counted part begins at this slot. A service's first slots have nothing before them.
    pub(crate) fn counted_from(settings: &PathwiseSettings, episode: &'a Episode, slot: usize) -> Self {
        let burn_in = slot.min(settings.burn_in_slots);
        Self { episode, start: slot - burn_in, burn_in }
    }

    /// Any of them; of a service without history, half from its first minutes.
    pub(crate) fn any(settings: &PathwiseSettings, episode: &'a Episode, rng: &mut Stream) -> Self {
        let last = episode.slots() - settings.counted_slots;
        let first_minutes = episode.fresh && rng.random_bool(FIRST_MINUTES_SHARE);
        let last = if first_minutes { last.min(settings.burn_in_slots) } else { last };
        Self::counted_from(settings, episode, rng.random_range(0..=last))
    }
}

/// Share of the windows of a service without history that begin in its first minutes: what is known changes with every
/// slot there, and one window in thirteen would show it.
const FIRST_MINUTES_SHARE: f64 = 0.5;

/// What is the same whatever is answered and whatever lateness costs.
#[derive(Debug, Clone)]
pub(crate) struct Scene<'a> {
    pub(crate) window: Window<'a>,
    /// The planner's answer in each slot.
    pub(crate) planner: &'a [f32],
    /// The least that may be answered in each slot, a logarithm.
    pub(crate) lowest: Vec<f32>,
    /// Mean of the fewest replicas that would do.
    pub(crate) need: f64,
    /// The planner's answers as orders.
    pub(crate) planned: Vec<f64>,
    /// What they cost.
    pub(crate) planner_cost: Cost,
    usual_late_share: f64,
}

impl<'a> Scene<'a> {
    pub(crate) fn new(settings: &PathwiseSettings, softness: f64, draw: &Draw<'a>) -> Self {
        let Draw { episode, start, burn_in } = *draw;
        let slots = start..start + settings.window_slots();
        let window = Window {
            service: episode.world.service,
            load: &episode.load[slots.clone()],
            slot_secs: SLOT_SECS,
            startup_slots: episode.world.startup_slots(),
            timeout_secs: episode.world.timeout_secs,
            burn_in,
            softness,
        };
        let planner = &episode.planner[slots.clone()];
        let planned: Vec<f64> = planner.iter().map(|&n0| whole(f64::from(n0))).collect();
        let planner_cost = window::cost(&window, &planned, &mut Scratch::default());
        let width = episode.features.len() / episode.slots();
        let lowest = slots.clone().map(|slot| head::lowest(episode.features[slot * width + UNIT_FEATURE]));
        Self {
            window,
            planner,
            lowest: lowest.collect(),
            need: mean_need(&episode.need[slots.clone()]),
            planned,
            planner_cost,
            usual_late_share: episode.usual_late_share,
        }
    }

    /// Weights of the terms of the cost.
    pub(crate) fn weights(&self, settings: &PathwiseSettings, price: f64) -> window::Weights {
        window::Weights {
            replicas: 1.0 / self.need,
            lateness: price,
            change: settings.change_price / self.need,
            end: State::default(),
        }
    }

    /// What a cost is divided by, see [`PathwiseSettings::late_floor`].
    pub(crate) fn difficulty(&self, settings: &PathwiseSettings, price: f64) -> f64 {
        0.3 * (1.0 + price * (settings.late_floor + self.usual_late_share))
    }

    /// What becomes of log-multipliers. Past the head's limit they are taken to be at it.
    pub(crate) fn ordered(&self, settings: &PathwiseSettings, log_multipliers: &[f32]) -> Ordered {
        let wanted = self.wanted(log_multipliers);
        let (orders, sources) = carried_out(settings, &wanted);
        let leans = sources.iter().map(|&source| lean(wanted[source])).collect();
        Ordered { wanted, orders, leans, sources }
    }

    fn wanted(&self, log_multipliers: &[f32]) -> Vec<f64> {
        let wanted = |((&n0, &g), &lowest): ((&f32, &f32), &f32)| {
            f64::from(n0) * f64::from(g.clamp(lowest, LOG_MULTIPLIER_LIMIT)).exp()
        };
        self.planner.iter().zip(log_multipliers).zip(&self.lowest).map(wanted).collect()
    }
}

/// Answers and what the guardrails make of them.
#[derive(Debug, Clone)]
pub(crate) struct Ordered {
    /// Replicas asked for, not rounded.
    pub(crate) wanted: Vec<f64>,
    /// Replicas ordered.
    pub(crate) orders: Vec<f64>,
    /// To which side each is moved by its answer.
    pub(crate) leans: Vec<Lean>,
    /// Which answer each order is.
    pub(crate) sources: Vec<usize>,
}

/// What the guardrails make of the answers, and which answer each order is: up at once, down to the largest answer
/// within the own maximum, and neither for a small difference.
pub(crate) fn carried_out(settings: &PathwiseSettings, wanted: &[f64]) -> (Vec<f64>, Vec<usize>) {
    let tuning = settings.tuning();
    let asked: Vec<f64> = wanted.iter().map(|&n| whole(n)).collect();
    let back = (tuning.own_max_secs / SLOT_SECS).round() as usize;
    let mut standing = 0;
    let mut sources = Vec::with_capacity(asked.len());
    for slot in 0..asked.len() {
        let mut largest = slot;
        for earlier in (slot.saturating_sub(back)..slot).rev() {
            if asked[largest] < asked[earlier] {
                largest = earlier;
            }
        }
        let now = asked[standing];
        let up = tuning.edge_above(now) < wanted[slot];
        let down = asked[largest] < now * (1.0 - tuning.deadband) && wanted[slot] <= tuning.edge_below(now);
        if up || asked[slot] == now {
            standing = slot;
        } else if down {
            standing = largest;
        }
        sources.push(standing);
    }
    (sources.iter().map(|&source| asked[source]).collect(), sources)
}

/// Replicas are whole, and a service has at least one.
pub(crate) fn whole(replicas: f64) -> f64 {
    replicas.ceil().max(1.0)
}

/// Width of the box of answers that a cost is spread over, as a share of the order; and its limits in replicas: half a replica
/// on either side of two is half of the service. On unseen loads of 1 to 2.5 busy pods at most a net trained with half a replica's
/// width loses 2 to 6 % less than with a whole one's; on large ones, at high prices, 4 % more.
const BOX_SHARE: f64 = 0.125;
/// See [`BOX_SHARE`].
const BOX_LIMITS: (f64, f64) = (0.5, 2.0);

/// Which side of the order that an answer is rounded to the cost is to be spread to, over a box of width s:
/// `d/dn E cost(whole(n + u))`, u even on (-s/2, s/2), is 1/s times the cost of one more, less the cost here, where the next
/// whole number is in the box, and 1/s times the cost here, less that of one fewer, where the one before is. There is
/// never less than one.
fn lean(wanted: f64) -> Lean {
    let order = whole(wanted);
    let width = (BOX_SHARE * order).clamp(BOX_LIMITS.0, BOX_LIMITS.1);
    let part = |inside: bool| if inside { 1.0 / width } else { 0.0 };
    Lean {
        down: part(1.0 < order && wanted - width / 2.0 <= order - 1.0),
        up: part(order < wanted + width / 2.0),
    }
}

fn mean_need(need: &[f32]) -> f64 {
    let sum: f64 = need.iter().map(|&n| f64::from(n)).sum();
    (sum / need.len() as f64).max(1.0)
}

#[cfg(test)]
mod tests {
    use rlscaler_sim::seed::Seed;

    use super::*;
    use crate::pathwise::tests::constant_loads;

    #[test]
    fn every_slot_of_a_life_may_be_counted_and_a_fresh_ones_first_minutes_often_are() {
        let settings =
            PathwiseSettings { burn_in_slots: 20, counted_slots: 44, ..PathwiseSettings::default() };
        let mut episode = constant_loads(10.0, 1).remove(0);
        let counts = |episode: &Episode| {
            let mut rng = Seed(5).stream("draws");
            let mut counted = vec![0; episode.slots()];
            for _ in 0..4_000 {
                let Draw { start, burn_in, .. } = Draw::any(&settings, episode, &mut rng);
                let window = start..start + settings.window_slots();
                assert!(window.end <= episode.slots(), "{window:?}");
                counted[start + burn_in..window.end].iter_mut().for_each(|count| *count += 1);
            }
            counted
        };
        let settled = counts(&episode);
        assert!(settled.iter().all(|&count| 0 < count), "{settled:?}");
        episode.fresh = true;
        let fresh = counts(&episode);
        assert!(fresh.iter().all(|&count| 0 < count), "{fresh:?}");
        assert!(1.5 * f64::from(settled[10]) < f64::from(fresh[10]), "{} {}", settled[10], fresh[10]);
    }

    #[test]
    fn an_answer_leans_to_the_counts_that_are_near_and_never_to_none() {
        let check = |wanted: f64, down: f64, up: f64| assert_eq!(lean(wanted), Lean { down, up }, "{wanted}");
        for held in [0.0, 0.75, 1.26, 1.75] {
            check(held, 0.0, 0.0);
        }
        check(0.76, 0.0, 2.0);
        check(1.0, 0.0, 2.0);
        check(1.01, 2.0, 0.0);
        check(1.25, 2.0, 0.0);
        check(7.2, 1.0, 0.0);
        check(7.8, 0.0, 1.0);
        check(5.3, 1.0 / 0.75, 0.0);
        check(5.5, 0.0, 0.0);
        check(30.4, 0.5, 0.5);
    }

    #[test]
    fn a_lean_is_the_derivative_of_the_cost_spread_over_a_box() {
        let cost = |replicas: f64| (replicas - 2.3).powi(2) + 5.0 / replicas;
        for n in [0.3, 0.7, 0.9, 1.2, 1.5, 1.8, 2.2, 2.9, 5.4, 11.5, 30.4] {
            let width = (BOX_SHARE * whole(n)).clamp(BOX_LIMITS.0, BOX_LIMITS.1);
            // The mean over the box around `n`, by the midpoints of many parts.
            let spread = |n: f64| {
                const PARTS: i32 = 100_000;
                let part = |part| (f64::from(part) + 0.5) / f64::from(PARTS) - 0.5;
                (0..PARTS).map(|at| cost(whole(n + width * part(at)))).sum::<f64>() / f64::from(PARTS)
            };
            let (here, Lean { down, up }) = (whole(n), lean(n));
            let more = if 0.0 < up { up * (cost(here + 1.0) - cost(here)) } else { 0.0 };
            let fewer = if 0.0 < down { down * (cost(here) - cost(here - 1.0)) } else { 0.0 };
            let slope = (spread(n + 0.01) - spread(n - 0.01)) / 0.02;
            assert!((more + fewer - slope).abs() < 1e-2 * (1.0 + slope.abs()), "{n}: {more} {fewer} {slope}");
        }
    }
}
