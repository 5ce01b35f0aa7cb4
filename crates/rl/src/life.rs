//! A service's life under some policy, slot by slot: enough of a world to train in and to choose in. The brain sees
//! rates late and averaged and decides; what its orders were worth is told by [`rlscaler_sim::window`] afterwards.
//!
//! In: a [`World`], a stretch of a trace, a policy. Out: loads, orders, and what the policy was shown. Never: an
//! influence of the orders on the loads.

use rand_distr::{Distribution, Poisson};
use rlscaler_core::observation::{History, Observation, Pods, Reading, Signal, Signals};
use rlscaler_core::policy::Policy;
use rlscaler_core::queue::Service;
use rlscaler_core::settings::{Bounds, Capacity, Objective, Override, Settings, Tuning, Weights};
use rlscaler_core::{Brain, Decision};
use rlscaler_sim::seed::Stream;
use rlscaler_sim::trace::Trace;

/// Seconds of a slot: the interval between two decisions.
pub const SLOT_SECS: f64 = 15.0;

/// Slots over which the observed rate is averaged.
const RATE_SLOTS: usize = 2;

/// Slots by which the signals are late.
const LAG_SLOTS: usize = 1;

/// Slots between two remembered samples of the past.
const HISTORY_STEP_SLOTS: usize = 4;

/// More than any service needs that is drawn or evaluated here.
pub const REPLICAS_MAX: u32 = 1000;

/// Mean start-up time over its 90th percentile, which is what scalers are told: lognormal, coefficient of variation 0.2.
const MEAN_OVER_P90: f64 = 0.79;

/// A service as the scaler is told of it and as it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct World {
    /// As it is.
    pub service: Service,
    /// Declared over real capacity.
    pub capacity_error: f64,
    /// Start-up time, seconds; always the same.
    pub startup_secs: f64,
    /// Requests that would wait longer give up, seconds.
    pub timeout_secs: f64,
    /// Share that must not be late.
    pub sla: f64,
    /// Another margin of the planner than its default; for its curve in hindsight.
    pub safety: Option<f64>,
}

impl World {
    /// Slots from an order to its pods being ready.
    #[must_use]
    pub fn startup_slots(&self) -> usize {
        (MEAN_OVER_P90 * self.startup_secs / SLOT_SECS).round().max(1.0) as usize
    }

    /// The policy a user of this service would have written.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let objective = Objective {
            target_secs: self.service.target_secs,
            sla: self.sla,
            latency_percentile: 0.95,
            weights: Weights::default(),
        };
        let bounds = Bounds::new(1, REPLICAS_MAX).expect("1 <= the largest count");
        let declared_secs = self.service.service_secs / self.capacity_error;
        let mut tuning = Tuning::default();
        tuning.safety = self.safety.unwrap_or(tuning.safety);
        Settings {
            tuning,
            interval_secs: SLOT_SECS,
            capacity: Some(Capacity { concurrency: self.service.workers, service_secs: declared_secs }),
            startup_secs: Some(self.startup_secs),
            metric_lag_secs: LAG_SLOTS as f64 * SLOT_SECS,
            ..Settings::new(bounds, objective)
        }
    }
}

/// Part of a trace and how it is made into a load.
#[derive(Debug, Clone, Copy)]
pub struct Stretch<'a> {
    /// The shape.
    pub trace: &'a Trace,
    /// Where it begins in the trace, seconds.
    pub start_secs: f64,
    /// How much before that is known, seconds.
    pub history_secs: f64,
    /// Slots to live through.
    pub slots: usize,
    /// Load at the trace's peak, busy pods.
    pub peak: f64,
    /// Exponent on the shape: above 1 makes peaks sharper.
    pub power: f64,
}

/// A service in the middle of its life.
pub struct Life<'a> {
    world: &'a World,
    shape: Shape<'a>,
    brain: Brain,
    slot: usize,
    /// Loads of all slots so far, led by those that the first observations need.
    loads: Vec<f64>,
    orders: Vec<f64>,
}

/// A stretch with its peak found once.
struct Shape<'a> {
    stretch: &'a Stretch<'a>,
    top: f64,
}

impl Shape<'_> {
    /// Load of a slot, counted from the stretch's beginning, drawn: Poisson arrivals over `slots` slots.
    fn draw(&self, world: &World, slot: i64, slots: usize, rng: &mut Stream) -> f64 {
        let Stretch { trace, start_secs, peak, power, .. } = *self.stretch;
        let middle_secs = start_secs + (slot as f64 + slots as f64 / 2.0) * SLOT_SECS;
        let expected = peak * (trace.rate_at(middle_secs) / self.top).powf(power);
        let requests_per_load = world.service.rate_per_replica() * SLOT_SECS * slots as f64;
        match Poisson::new(expected * requests_per_load) {
            Ok(law) => law.sample(rng) / requests_per_load,
            Err(_) => 0.0,
        }
    }
}

impl<'a> Life<'a> {
    /// At the beginning of a stretch: the past is known as far as the stretch says, and the service runs with what
    /// its first load needs.
    #[must_use]
    pub fn begin(world: &'a World, stretch: &'a Stretch<'a>, rng: &mut Stream) -> Self {
        let shape = Shape { stretch, top: stretch.trace.peak().max(f64::MIN_POSITIVE) };
        let mut brain = Brain::new(world.settings());
        let known = (stretch.history_secs / SLOT_SECS) as i64;
        let rate = world.service.rate_per_replica();
        let mut qps = Vec::new();
        for slot in (-known..0).step_by(HISTORY_STEP_SLOTS) {
            let load = shape.draw(world, slot, HISTORY_STEP_SLOTS, rng);
            qps.push((time_secs(stretch, slot + HISTORY_STEP_SLOTS as i64), load * rate));
        }
        if !qps.is_empty() {
            brain.backfill(&History { qps, ..History::default() });
        }
        let lead = (RATE_SLOTS + LAG_SLOTS) as i64;
        let loads = (-lead..0).map(|slot| shape.draw(world, slot, 1, rng)).collect();
        Self { world, shape, brain, slot: 0, loads, orders: vec![] }
    }

    /// One slot: the brain decides at its beginning, then its load comes.
    pub fn step(&mut self, policy: &dyn Policy, rng: &mut Stream) -> Decision {
        let seen = self.observe();
        let decision = self.brain.decide(policy, Override::None, &seen);
        if decision.changes() {
            self.brain.record_scale(seen.time_secs, decision.from(), decision.replicas());
        }
        self.orders.push(f64::from(decision.replicas()));
        self.loads.push(self.shape.draw(self.world, self.slot as i64, 1, rng));
        self.slot += 1;
        decision
    }

    /// Load of every slot lived through, busy pods.
    #[must_use]
    pub fn loads(&self) -> &[f64] {
        &self.loads[RATE_SLOTS + LAG_SLOTS..]
    }

    /// Replicas ordered in every slot lived through.
    #[must_use]
    pub fn orders(&self) -> &[f64] {
        &self.orders
    }

    fn observe(&self) -> Observation {
        let seen = &self.loads[self.slot..self.slot + RATE_SLOTS];
        let load = seen.iter().sum::<f64>() / RATE_SLOTS as f64;
        let reading = Reading {
            value: load * self.world.service.rate_per_replica(),
            age_secs: Some(LAG_SLOTS as f64 * SLOT_SECS),
        };
        let (replicas, ready) = self.replicas_and_ready(load);
        Observation {
            time_secs: time_secs(self.shape.stretch, self.slot as i64),
            replicas,
            pods: Pods { ready, starting: replicas - ready, ..Pods::default() },
            signals: Signals { qps: Signal::Fresh(reading), ..Signals::default() },
            ..Observation::default()
        }
    }

    fn replicas_and_ready(&self, first_load: f64) -> (u32, u32) {
        let recent = self.orders.len().saturating_sub(self.world.startup_slots() + 1)..;
        let Some(&last) = self.orders.last() else {
            let first = (first_load * FIRST_MARGIN).ceil().max(1.0) as u32;
            return (first, first);
        };
        let ready = self.orders[recent].iter().copied().fold(last, f64::min);
        (last as u32, ready as u32)
    }
}

/// Replicas a service begins with, over its first load.
const FIRST_MARGIN: f64 = 1.3;

/// Time of a slot's beginning: any origin will do that keeps the past above zero.
fn time_secs(stretch: &Stretch<'_>, slot: i64) -> f64 {
    const ORIGIN_SECS: f64 = 30.0 * 86_400.0;
    ORIGIN_SECS + stretch.start_secs + slot as f64 * SLOT_SECS
}
