//! How good a net is on the loads that nets are chosen on, beside the planner: each lives through the same day under
//! the whole brain, guardrails included, and the queue tells what came late.
//!
//! In: weights. Out: one [`Point`] per case and setting, and the cost at matched lateness. Never: a trace that models
//! are trained or reported on. The full judge is `rlscaler evaluate`; this is the quick look while training.

use rayon::prelude::*;
use rlscaler_core::features::Features;
use rlscaler_core::policy::{self, Action, PlannerOnly, Policy, PolicyFault};
use rlscaler_core::queue::Service;
use rlscaler_sim::generators::{self, Shape};
use rlscaler_sim::seed::Seed;
use rlscaler_sim::trace::Trace;
use rlscaler_sim::window::{self, Scratch, Window};

use crate::actor_critic::ActorCritic;
use crate::life::{Life, SLOT_SECS, Stretch, World};

/// Real traces that models are chosen on.
pub const CHOOSING_TRACES: [&str; 2] = ["crane_input13", "autothrottle_bursty"];

/// Seeds of the generators that models are chosen on.
pub const CHOOSING_SEEDS: std::ops::Range<u64> = 8000..8020;

/// Prices of lateness at which a net is tried: its curve of lateness against replicas.
pub const PRICES: [f64; 8] = [1.5, 4.0, 8.0, 20.0, 50.0, 130.0, 350.0, 1200.0];

/// Margins of the planner that are tried, in running errors of its own forecasts: its curve.
pub const SAFETIES: [f64; 6] = [0.0, 0.5, 1.0, 1.5, 2.5, 4.0];

/// Load at the peak, busy pods.
const PEAK_BUSY_PODS: f64 = 28.0;

/// A day, where the trace has one after its history.
const SLOTS_MAX: usize = 5760;

/// Share of a trace that is history.
const HISTORY_SHARE: f64 = 0.5;

/// The `web` profile: 50 ms on 4 workers, target 250 ms, start-up 60 s.
const WEB: World = World {
    service: Service { workers: 4, service_secs: 0.05, target_secs: 0.25, variability: 1.0 },
    capacity_error: 1.0,
    startup_secs: 60.0,
    timeout_secs: 10.0,
    sla: 0.99,
    safety: None,
};

/// One load to be judged on.
#[derive(Debug, Clone)]
pub struct Case {
    /// As shown.
    pub name: String,
    /// The load's shape.
    pub trace: Trace,
}

/// All loads that models are chosen on.
#[must_use]
pub fn cases() -> Vec<Case> {
    let real = CHOOSING_TRACES.iter().map(|name| {
        let trace = Trace::open(name).expect("the trace is bundled");
        Case { name: (*name).into(), trace }
    });
    let made = CHOOSING_SEEDS.map(|seed| {
        let shape = Shape::ALL[(seed % Shape::ALL.len() as u64) as usize];
        let trace = generators::generate(shape, Seed(seed), generators::DEFAULT_SECS);
        Case { name: format!("gen:{}:{seed}", shape.name()), trace }
    });
    real.chain(made).collect()
}

/// Who decides.
#[derive(Debug, Clone, Copy)]
pub enum Scaler<'a> {
    /// The net at a fixed price of lateness.
    Net(&'a ActorCritic, f64),
    /// The planner with this margin.
    Planner(f64),
}

/// What one scaler did on one case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Share of offered requests that came late.
    pub late_share: f64,
    /// Mean replicas ordered.
    pub replicas: f64,
    /// Changes per hour.
    pub changes_per_hour: f64,
}

/// Lives through one case.
#[must_use]
pub fn judge(case: &Case, scaler: Scaler<'_>, seed: Seed) -> Point {
    let duration_secs = case.trace.duration_secs();
    let history_secs = duration_secs * HISTORY_SHARE;
    let slots = (((duration_secs - history_secs) / SLOT_SECS) as usize).min(SLOTS_MAX);
    let stretch = Stretch {
        trace: &case.trace,
        start_secs: history_secs,
        history_secs,
        slots,
        peak: PEAK_BUSY_PODS,
        power: 1.0,
    };
    let mut rng = seed.stream(&case.name);
    match scaler {
        Scaler::Planner(safety) => {
            live(&World { safety: Some(safety), ..WEB }, &stretch, &PlannerOnly, &mut rng)
        }
        Scaler::Net(net, price) => live(&WEB, &stretch, &AtPrice { net, price }, &mut rng),
    }
}

fn live(
    world: &World,
    stretch: &Stretch<'_>,
    policy: &dyn Policy,
    rng: &mut rlscaler_sim::seed::Stream,
) -> Point {
    let mut life = Life::begin(world, stretch, rng);
    for _ in 0..stretch.slots {
        let _ = life.step(policy, rng);
    }
    let window = Window {
        service: world.service,
        load: life.loads(),
        slot_secs: SLOT_SECS,
        startup_slots: world.startup_slots(),
        timeout_secs: world.timeout_secs,
        burn_in: 0,
        softness: 0.0,
    };
    let cost = window::cost(&window, life.orders(), &mut Scratch::default());
    let changes = life.orders().windows(2).filter(|pair| pair[0] != pair[1]).count();
    let hours = stretch.slots as f64 * SLOT_SECS / 3600.0;
    Point { late_share: cost.late_share, replicas: cost.replicas, changes_per_hour: changes as f64 / hours }
}

/// The curves of one case: the net over [`PRICES`], the planner over [`SAFETIES`].
#[derive(Debug, Clone, PartialEq)]
pub struct Curves {
    /// The case.
    pub name: String,
    /// One point per price.
    pub net: Vec<Point>,
    /// One point per margin.
    pub planner: Vec<Point>,
}

impl Curves {
    /// For each of the planner's points: replicas of the net at the same late share, read off its curve, over the
    /// planner's. Points beyond the ends of the net's curve are left out.
    #[must_use]
    pub fn matched(&self) -> Vec<f64> {
        let ratio = |planner: &Point| Some(replicas_at(&self.net, planner.late_share)? / planner.replicas);
        self.planner.iter().filter_map(ratio).collect()
    }
}

/// Replicas at which a curve of falling lateness reaches `late_share`: linear in the logarithm of the late share
/// between neighbouring points; the cheaper where several would do. `None` beyond the ends.
#[must_use]
pub fn replicas_at(points: &[Point], late_share: f64) -> Option<f64> {
    // Below one request in ten thousand nobody tells the difference.
    const FLOOR: f64 = 1e-4;
    let height = |late_share: f64| late_share.max(FLOOR).ln();
    let wanted = height(late_share);
    let between = |pair: &[Point]| {
        let (above, below) = (height(pair[0].late_share), height(pair[1].late_share));
        let reached = below <= wanted && wanted <= above;
        let share = if above == below { 0.0 } else { (above - wanted) / (above - below) };
        reached.then(|| pair[0].replicas + share * (pair[1].replicas - pair[0].replicas))
    };
    points.windows(2).filter_map(between).min_by(f64::total_cmp)
}

/// All curves, in the order of `cases`. Runs on the rayon pool it is called in.
#[must_use]
pub fn curves(cases: &[Case], net: &ActorCritic, seed: Seed) -> Vec<Curves> {
    let of_case = |case: &Case| Curves {
        name: case.name.clone(),
        net: PRICES.iter().map(|&price| judge(case, Scaler::Net(net, price), seed)).collect(),
        planner: SAFETIES.iter().map(|&safety| judge(case, Scaler::Planner(safety), seed)).collect(),
    };
    cases.par_iter().map(of_case).collect()
}

/// Geometric mean over cases of their geometric mean at matched lateness; `None` where nothing can be matched.
#[must_use]
pub fn matched_cost(curves: &[Curves]) -> Option<f64> {
    let of_case = |curves: &Curves| geometric_mean(&curves.matched());
    geometric_mean(&curves.iter().filter_map(of_case).collect::<Vec<_>>())
}

fn geometric_mean(values: &[f64]) -> Option<f64> {
    let logs = values.iter().map(|value| value.ln()).sum::<f64>();
    (!values.is_empty()).then(|| (logs / values.len() as f64).exp())
}

/// A net at a price of our choosing instead of the error budget's.
struct AtPrice<'a> {
    net: &'a ActorCritic,
    price: f64,
}

impl Policy for AtPrice<'_> {
    fn act(&self, features: &Features) -> Result<Action, PolicyFault> {
        let answer = self.net.answer(features.values(), self.price);
        policy::checked(Action {
            multiplier: f64::from(answer.log_multiplier).exp(),
            value: f64::from(answer.value),
        })
    }

    fn describe(&self) -> String {
        format!("net at price {}", self.price)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(late_share: f64, replicas: f64) -> Point {
        Point { late_share, replicas, changes_per_hour: 0.0 }
    }

    #[test]
    fn replicas_at_a_late_share_are_read_off_the_curve_and_nowhere_beyond_its_ends() {
        let curve = [point(0.1, 8.0), point(0.001, 12.0), point(0.0, 13.0)];
        assert_eq!(replicas_at(&curve, 0.1), Some(8.0));
        assert!((replicas_at(&curve, 0.01).unwrap() - 10.0).abs() < 1e-9);
        assert_eq!(replicas_at(&curve, 0.0), Some(13.0));
        assert_eq!(replicas_at(&curve, 0.2), None);
        assert_eq!(replicas_at(&curve[..2], 0.0005), None);
    }

    #[test]
    fn cost_is_compared_only_where_both_are_equally_late() {
        let net = vec![point(0.1, 8.0), point(0.01, 12.0)];
        let planner = vec![point(0.2, 10.0), point(0.1, 10.0), point(0.01, 10.0), point(0.001, 30.0)];
        let curves = Curves { name: String::new(), net, planner };
        assert_eq!(curves.matched(), [0.8, 1.2]);
        let both = matched_cost(std::slice::from_ref(&curves)).unwrap();
        assert!((both - (0.8_f64 * 1.2).sqrt()).abs() < 1e-12);
        assert_eq!(matched_cost(&[]), None);
    }

    #[test]
    fn no_load_is_both_chosen_and_trained_on() {
        let chosen: Vec<_> = cases().iter().map(|case| case.trace.name().to_owned()).collect();
        for trace in crate::episodes::training_traces() {
            assert!(!chosen.iter().any(|name| name == trace.name()), "{}", trace.name());
        }
        assert_eq!(chosen.len(), 22);
    }
}
