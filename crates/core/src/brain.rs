//! The brain of one policy: one tick from an observation to a decision.
//!
//! In: a validated policy, a person's will, what was seen. Out: a [`Decision`]. All state is here, bounded, and what
//! must survive a restart comes out as [`Memory`]. Never: I/O, a clock, randomness.

use crate::budget::{Budget, Spent};
use crate::capacity::{Estimator, PodCapacity, PodSample, Source};
use crate::decision::{Decision, Reasons};
use crate::features::{self, Facts, Features, WIDTH};
use crate::forecast::{Forecast, Forecaster};
use crate::guardrail::{self, Proposal, Rails, Scene};
use crate::history::{BIN_SLOTS, SLOT_SECS};
use crate::hpa::{self, Hpa};
use crate::memory::{ForecastMemory, Memory};
use crate::observation::{History, Observation};
use crate::planner::{self, COMFORT, Demand, Plan, Unknown};
use crate::policy::{self, Action, Policy};
use crate::queue::late_share_behind;
use crate::reason::{Driver, Reason};
use crate::sense::{self, Load, SenseMemory, Senses, Usual};
use crate::settings::{Bounds, Override, Settings};

/// Start-up time assumed while it is neither declared nor learnt, real seconds.
const STARTUP_SECS: f64 = 60.0;
/// Seconds the planner drives after the model gave an unusable answer, real time.
const SUSPENSION_SECS: f64 = 120.0;
/// A tick books at most this many intervals: what happened while nobody looked is not known.
const STEP_INTERVALS: f64 = 4.0;
/// Seconds of backlog a service can hold before its callers give up.
const BACKLOG_SECS: f64 = 10.0;

/// CPU requests of a pod that make sense, cores: a milli-core to a large machine.
const CPU_REQUEST_MIN: f64 = 0.001;
/// See [`CPU_REQUEST_MIN`].
const CPU_REQUEST_MAX: f64 = 10_000.0;
/// A longer start-up is not learnt: an hour.
const STARTUP_MAX_SECS: f64 = 3_600.0;

/// All bounded state of one policy.
#[derive(Debug, Clone)]
pub struct Brain {
    settings: Settings,
    started_secs: f64,
    last_tick_secs: Option<f64>,
    /// Keeps slots increasing when the clock does not.
    slot_shift: i64,
    forecaster: Forecaster,
    /// What the forecaster resumed from, until a backfill has put the older past underneath.
    resumed: Option<ForecastMemory>,
    estimator: Estimator,
    budget: Budget,
    senses: SenseMemory,
    rails: Rails,
    hpa: Hpa,
    backlog: f64,
    suspended_until_secs: f64,
    last_replicas: u32,
}

/// One tick's time.
#[derive(Debug, Clone, Copy)]
struct Tick {
    now_secs: f64,
    /// Since the last tick, as far as it is booked.
    step_secs: f64,
    /// Since the last tick; infinite at the first.
    gap_secs: f64,
    slot: i64,
    clock_stepped: bool,
    startup_secs: f64,
}

/// What is expected, and what the planner makes of it.
#[derive(Debug, Clone, Copy)]
struct Outlook {
    demand: Demand,
    /// `None` while nobody knows what a pod can serve.
    planned: Option<(PodCapacity, Plan)>,
    load: Option<Load>,
}

/// A number, who gave it, and what it is made of.
#[derive(Debug, Clone, Copy)]
struct Answer {
    proposal: Proposal,
    multiplier: f64,
}

impl Brain {
    /// A brain that has seen nothing.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self::restore(settings, &Memory::default())
    }

    /// As it was before a restart; call [`Brain::backfill`] then, where there is a history.
    #[must_use]
    pub fn restore(settings: Settings, memory: &Memory) -> Self {
        let seen_before = 0.0 < memory.last_tick_secs || memory.last_replicas != 0;
        let mut brain = Self {
            started_secs: memory.started_secs,
            last_tick_secs: seen_before.then_some(memory.last_tick_secs),
            slot_shift: 0,
            forecaster: Forecaster::default(),
            resumed: seen_before.then(|| memory.forecast.clone()).filter(|memory| !memory.is_empty()),
            estimator: Estimator::restore(&memory.capacity),
            budget: Budget::restore(&memory.budget),
            senses: SenseMemory {
                sudden_zero_since_secs: memory.sudden_zero_since_secs,
                busy_cores: memory.busy_cores,
            },
            rails: Rails {
                track: crate::behavior::Track::restore(&memory.scaling),
                zeroed_by_us: memory.zeroed_by_us,
                failing_since_secs: memory.failing_since_secs,
                idle_since_secs: memory.idle_since_secs,
                raised_secs: (0.0 < memory.raised_secs).then_some(memory.raised_secs),
            },
            hpa: Hpa::stock(hpa_bounds(&settings), settings.time_factor, &memory.hpa),
            backlog: memory.backlog,
            suspended_until_secs: memory.suspended_until_secs,
            last_replicas: memory.last_replicas,
            settings,
        };
        let startup_secs = brain.startup_secs(None);
        brain.set_horizon(startup_secs);
        if let Some(resumed) = &brain.resumed {
            brain.forecaster.resume(resumed);
        }
        brain
    }

    /// An edited policy keeps what it has learnt; where the unit of the load changes, the past of the load is dropped.
    pub fn replace_settings(&mut self, settings: Settings) {
        if settings.declared.qps != self.settings.declared.qps {
            self.forecaster = Forecaster::default();
            self.estimator = Estimator::default();
            self.resumed = None;
        }
        let memory = self.hpa.memory();
        self.hpa = Hpa::stock(hpa_bounds(&settings), settings.time_factor, &memory);
        self.settings = settings;
    }

    /// The policy it decides for.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What must survive a restart.
    #[must_use]
    pub fn memory(&self) -> Memory {
        Memory {
            started_secs: self.started_secs,
            last_tick_secs: self.last_tick_secs.unwrap_or(0.0),
            scaling: self.rails.track.memory(),
            hpa: self.hpa.memory(),
            failing_since_secs: self.rails.failing_since_secs,
            sudden_zero_since_secs: self.senses.sudden_zero_since_secs,
            busy_cores: self.senses.busy_cores,
            zeroed_by_us: self.rails.zeroed_by_us,
            raised_secs: self.rails.raised_secs.unwrap_or(0.0),
            last_replicas: self.last_replicas,
            idle_since_secs: self.rails.idle_since_secs,
            suspended_until_secs: self.suspended_until_secs,
            backlog: self.backlog,
            capacity: self.estimator.memory(),
            budget: self.budget.memory(),
            forecast: self.forecaster.memory(),
        }
    }

    /// What Prometheus remembers; at most once, before the first decide after `new` or `restore`. Samples that are not
    /// finite, negative or out of order are skipped.
    pub fn backfill(&mut self, history: &History) {
        let past = if self.settings.declared.qps { &history.qps } else { &history.cpu };
        let horizon = self.forecaster.horizon_slots();
        let resumed = self.resumed.take();
        let first_resumed =
            resumed.as_ref().map_or(i64::MAX, |resumed| resumed.last_slot + 1 - resumed.slots.len() as i64);
        self.forecaster = Forecaster::default();
        self.forecaster.set_horizon(horizon);
        let mut last_secs = f64::NEG_INFINITY;
        for &(time_secs, load) in past {
            let usable = time_secs.is_finite() && load.is_finite() && 0.0 <= load && last_secs < time_secs;
            let slot = self.slot_of(time_secs);
            if usable && slot < first_resumed {
                last_secs = time_secs;
                self.forecaster.observe(slot, load);
            }
        }
        if let Some(resumed) = resumed {
            self.forecaster.resume(&resumed);
        }
    }

    /// A scaling of ours really happened.
    pub fn record_scale(&mut self, time_secs: f64, from: u32, to: u32) {
        self.rails.track.record(&self.settings.behavior, time_secs, from, to);
        self.rails.zeroed_by_us = to == 0;
    }

    /// One tick. Pure but for the brain's own state.
    pub fn decide(&mut self, policy: &dyn Policy, will: Override, seen: &Observation) -> Decision {
        let seen = &plausible(seen);
        let tick = self.begin(seen);
        let senses = self.sense(seen, &tick);
        self.learn(seen, &tick, &senses);
        let outlook = self.look_ahead(seen, &senses);
        self.book(seen, &tick, &senses, &outlook);
        let answer = self.answer(policy, seen, &tick, &senses, &outlook);
        let hpa_would_be = self.hpa_would_be(seen, &tick, &senses);
        let scene = Scene {
            settings: &self.settings,
            seen,
            now_secs: tick.now_secs,
            will,
            lost: senses.lost,
            sudden_zero: senses.sudden_zero,
            load_known: senses.load.is_some(),
            qps: senses.qps,
            latency_ratio: senses.latency_ratio,
            utilization: senses.utilization,
            busy_ratio: busy_ratio(seen, &outlook),
            growth: self.growth(&outlook.demand.forecast),
            proven: self.proven(seen, &senses, &outlook, &answer),
            clock_stepped: tick.clock_stepped,
            startup_secs: tick.startup_secs,
            gap_secs: tick.gap_secs,
            hpa_would_be,
            budget: self.budget.report(&self.settings, senses.price),
        };
        guardrail::guard(&mut self.rails, &scene, answer.proposal)
    }

    /// Sets the time. A clock that went backwards takes everything remembered with it, so that no window grows.
    fn begin(&mut self, seen: &Observation) -> Tick {
        let last = self.last_tick_secs;
        let now_secs = if seen.time_secs.is_finite() { seen.time_secs } else { last.unwrap_or(0.0) };
        let gap_secs = last.map_or(f64::INFINITY, |last| now_secs - last);
        let clock_stepped = gap_secs < 0.0;
        if clock_stepped {
            self.shift(gap_secs);
        }
        if last.is_none() {
            self.started_secs = now_secs;
            self.last_replicas = seen.replicas;
        }
        if self.last_replicas < seen.replicas {
            self.rails.raised_secs = Some(now_secs);
        }
        self.last_replicas = seen.replicas;
        self.last_tick_secs = Some(now_secs);
        let startup_secs = self.startup_secs(seen.startup_secs);
        self.set_horizon(startup_secs);
        let slot = self.slot_of(now_secs);
        if let Some(newest) = self.forecaster.history().last_slot().filter(|&newest| slot <= newest) {
            self.slot_shift += newest + 1 - slot;
        }
        let interval = self.settings.interval_secs;
        let step_secs =
            if gap_secs.is_finite() { gap_secs.clamp(0.0, STEP_INTERVALS * interval) } else { interval };
        Tick { now_secs, step_secs, gap_secs, slot: self.slot_of(now_secs), clock_stepped, startup_secs }
    }

    fn sense(&mut self, seen: &Observation, tick: &Tick) -> Senses {
        let history = self.forecaster.history();
        let last = history.level_now();
        let slots = history.slots().last(BIN_SLOTS);
        let mean = if slots.is_empty() { last } else { mean(slots) };
        let usual = Usual { last, mean };
        sense::sense(&self.settings, seen, tick.now_secs, usual, &self.estimator, &mut self.senses)
    }

    /// History and capacity.
    fn learn(&mut self, seen: &Observation, tick: &Tick, senses: &Senses) {
        match senses.load {
            Some(load) => self.forecaster.observe(tick.slot, load.value),
            None => self.forecaster.pass(tick.slot),
        }
        let pods = seen.pods;
        // A load told by CPU teaches nothing about what CPU a load costs.
        let told_apart = self.settings.declared.qps && senses.load.is_some_and(|load| !load.by_cpu);
        let sample = PodSample {
            now_secs: tick.now_secs,
            step_secs: tick.step_secs,
            load: senses.load.map(|load| load.value),
            cores: senses.cores.filter(|_| told_apart),
            pod_cpu_request: seen.pod_cpu_request,
            latency_ratio: senses.latency_ratio,
            late_share: senses.late_share,
            ready: pods.ready,
            all_ready: pods.starting == 0 && pods.unschedulable == 0 && pods.unhealthy == 0,
            utilization: senses.utilization,
        };
        self.estimator.learn(&self.settings, &sample);
        self.backlog = self.backlog_after(seen, tick, senses);
    }

    /// What waits: by Little's law from latency beyond the target; without a latency signal, by the fluid model.
    fn backlog_after(&self, seen: &Observation, tick: &Tick, senses: &Senses) -> f64 {
        let Some(load) = senses.load else { return 0.0 };
        let Some(capacity) = self.estimator.capacity(&self.settings, seen.pod_cpu_request) else {
            return 0.0;
        };
        let served = f64::from(seen.pods.ready) * capacity.load_per_pod / self.estimator.scale();
        if let Some(ratio) = senses.latency_ratio {
            let busy = senses.utilization.is_none_or(|used| planner::IDLE <= used);
            if !busy || load.value < planner::IDLE * served {
                return 0.0;
            }
            let late_secs = (ratio - 1.0).max(0.0) * self.settings.objective.target_secs;
            return load.value * late_secs.min(BACKLOG_SECS);
        }
        if self.settings.declared.latency || load.by_cpu {
            return 0.0;
        }
        let waiting = self.backlog + (load.value - served) * tick.step_secs;
        waiting.clamp(0.0, BACKLOG_SECS * served.max(load.value))
    }

    /// Demand at the horizon, and n0.
    fn look_ahead(&self, seen: &Observation, senses: &Senses) -> Outlook {
        let demand = Demand {
            forecast: self.forecaster.forecast(),
            backlog: self.backlog,
            saturation: senses.utilization.filter(|_| senses.load.is_some_and(|load| load.by_cpu)),
            scale: self.estimator.scale(),
        };
        let capacity = self.estimator.capacity(&self.settings, seen.pod_cpu_request);
        let planned = capacity
            .filter(|_| senses.load.is_some())
            .map(|capacity| (capacity, planner::plan(&self.settings, &capacity, &demand)));
        Outlook { demand, planned, load: senses.load }
    }

    /// The error budget, and the price of a replica-hour.
    fn book(&mut self, seen: &Observation, tick: &Tick, senses: &Senses, outlook: &Outlook) {
        let estimated = outlook.planned.map(|(capacity, plan)| {
            let busy_workers = plan.level_busy_pods * f64::from(capacity.service.workers);
            let share = late_share_behind(&capacity.service, busy_workers, seen.pods.ready, 0.0);
            // The p-th percentile is over the target when more than 1 - p of the requests are late.
            let by_latency = match senses.latency_ratio {
                Some(ratio) if 1.0 < ratio => 1.0 - self.settings.objective.latency_percentile,
                _ => 0.0,
            };
            if senses.latency_ratio.is_some() { by_latency } else { share }
        });
        let measured_lost = self.settings.declared.sla && senses.late_share.is_none();
        let spent = Spent {
            step_secs: tick.step_secs,
            offered: outlook.load.map_or(0.0, |load| load.value) * tick.step_secs,
            late_share: senses.late_share.or(estimated.filter(|_| !measured_lost)),
            price: senses.price,
        };
        self.budget.book(&self.settings, tick.now_secs, spent);
    }

    /// The driver's number.
    fn answer(
        &mut self,
        policy: &dyn Policy,
        seen: &Observation,
        tick: &Tick,
        senses: &Senses,
        outlook: &Outlook,
    ) -> Answer {
        let mut reasons = self.seen_reasons(senses, outlook);
        let Some((capacity, plan)) = outlook.planned else {
            return self.answer_unplanned(seen, tick, senses, outlook, reasons);
        };
        planner::explain(&plan, &outlook.demand, &mut reasons);
        let mut driver = Driver::Planner;
        let mut action = Action { multiplier: 1.0, value: 0.0 };
        if !policy.reads_features() {
            let empty = Features::new([0.0; WIDTH], 0.0, f64::from(plan.replicas), plan.level_busy_pods);
            action = policy.act(&empty).and_then(policy::checked).unwrap_or(action);
        } else if tick.now_secs < self.suspended_until_secs {
            reasons.push(Reason::ModelSuspended);
        } else {
            let price = self.budget.lateness_price(&self.settings, senses.price);
            let facts = Facts {
                settings: &self.settings,
                capacity: &capacity,
                forecaster: &self.forecaster,
                demand: &outlook.demand,
                plan: &plan,
                startup_secs: tick.startup_secs,
                price,
            };
            match policy.act(&features::compute(&facts)).and_then(policy::checked) {
                Ok(answer) => {
                    action = answer;
                    driver = Driver::Model;
                    reasons.push(Reason::Multiplier { factor: action.multiplier, price });
                }
                Err(fault) => {
                    self.suspended_until_secs = tick.now_secs + self.settings.scaled(SUSPENSION_SECS);
                    reasons.push(Reason::ModelRejected { fault });
                }
            }
        }
        let proposal = Proposal {
            replicas: multiplied(plan.replicas, action.multiplier),
            planner: Some(plan.replicas),
            driver,
            value: (driver == Driver::Model).then_some(action.value),
            reasons,
        };
        Answer { proposal, multiplier: action.multiplier }
    }

    /// The number where no queue can be computed: the load is unknown, or what a pod can serve is.
    fn answer_unplanned(
        &self,
        seen: &Observation,
        tick: &Tick,
        senses: &Senses,
        outlook: &Outlook,
        mut reasons: Reasons,
    ) -> Answer {
        let current = seen.replicas;
        let pods = seen.pods;
        let all_ready = pods.starting == 0 && pods.unschedulable == 0 && pods.unhealthy == 0;
        let forecast = outlook.demand.forecast;
        let margin = 1.0 + self.settings.tuning.safety * forecast.error;
        let (replicas, driver) = if senses.load.is_some() {
            reasons.push(Reason::CapacityUnknown);
            let unknown = Unknown {
                current,
                demand: Some(forecast.expected() * margin),
                proven_density: self.estimator.proven_density(),
                latency_ratio: senses.latency_ratio,
                utilization: senses.utilization,
                all_ready,
                steady_secs: self.estimator.steady_secs(tick.now_secs),
            };
            (planner::careful(&self.settings, &unknown), Driver::Planner)
        } else {
            reasons.push(Reason::NoLoadSignal);
            let up = planner::by_latency(current, senses.latency_ratio, senses.utilization, all_ready);
            match (up.filter(|&up| current < up), senses.latency_ratio) {
                (Some(up), Some(ratio)) => {
                    reasons.push(Reason::LatencyDriven { ratio });
                    (up, Driver::Planner)
                }
                _ => (current, Driver::Hold),
            }
        };
        let planner = (driver == Driver::Planner).then_some(replicas);
        Answer { proposal: Proposal { replicas, planner, driver, value: None, reasons }, multiplier: 1.0 }
    }

    fn seen_reasons(&self, senses: &Senses, outlook: &Outlook) -> Reasons {
        let mut reasons = Reasons::default();
        if let Some(load) = senses.load {
            let busy_pods = outlook.planned.map_or(0.0, |(_, plan)| plan.level_busy_pods);
            reasons.push(Reason::Load { value: load.value, busy_pods, cores: !self.settings.declared.qps });
        }
        if let Some(ratio) = senses.latency_ratio {
            let target_secs = self.settings.objective.target_secs;
            reasons.push(Reason::Latency { secs: ratio * target_secs, target_secs });
        }
        reasons
    }

    /// The answer without what only the prior of a fresh service, or a costlier request by CPU, adds to it; computed
    /// only where the guardrail may ask.
    fn proven(&self, seen: &Observation, senses: &Senses, outlook: &Outlook, answer: &Answer) -> Option<u32> {
        let comfortable = senses.latency_ratio.is_some_and(|ratio| ratio <= COMFORT);
        if !comfortable || senses.utilization.is_none() || answer.proposal.replicas <= seen.replicas {
            return None;
        }
        let (capacity, _) = outlook.planned?;
        Some(match capacity.source {
            Source::Declared => {
                let proven = planner::plan_proven(&self.settings, &capacity, &outlook.demand);
                multiplied(proven, answer.multiplier)
            }
            Source::Cpu | Source::Saturation => multiplied(seen.replicas, answer.multiplier.max(1.0)),
        })
    }

    /// Expected demand over the lower of the present level and that of the last minutes.
    fn growth(&self, forecast: &Forecast) -> f64 {
        let slots = self.forecaster.history().slots().last(BIN_SLOTS);
        let before = if slots.is_empty() { forecast.level } else { mean(slots).min(forecast.level) };
        if before <= 0.0 {
            if 0.0 < forecast.level { f64::INFINITY } else { 1.0 }
        } else {
            forecast.expected() / before
        }
    }

    fn hpa_would_be(&mut self, seen: &Observation, tick: &Tick, senses: &Senses) -> Option<u32> {
        let wish = senses.cores.zip(seen.pod_cpu_request).and_then(|(cores, request)| {
            hpa::stock_wish(cores, request, seen.pods.ready, seen.pods.starting, seen.replicas)
        })?;
        Some(self.hpa.sync(tick.now_secs, seen.replicas, Some(wish)))
    }

    fn startup_secs(&self, learnt: Option<f64>) -> f64 {
        self.settings.startup_secs.or(learnt).unwrap_or(self.settings.scaled(STARTUP_SECS))
    }

    /// H = start-up + interval + metric lag.
    fn set_horizon(&mut self, startup_secs: f64) {
        let horizon_secs = startup_secs + self.settings.interval_secs + self.settings.metric_lag_secs;
        self.forecaster.set_horizon((horizon_secs / self.settings.scaled(SLOT_SECS)).ceil() as usize);
    }

    fn slot_of(&self, time_secs: f64) -> i64 {
        (time_secs / self.settings.scaled(SLOT_SECS)).floor() as i64 + self.slot_shift
    }

    fn shift(&mut self, delta_secs: f64) {
        self.rails.track.shift(delta_secs);
        self.hpa.shift(delta_secs);
        self.estimator.shift(delta_secs);
        self.suspended_until_secs += delta_secs;
        self.started_secs += delta_secs;
        let since = [
            &mut self.rails.failing_since_secs,
            &mut self.rails.idle_since_secs,
            &mut self.rails.raised_secs,
            &mut self.senses.sudden_zero_since_secs,
        ];
        for time_secs in since.into_iter().flatten() {
            *time_secs += delta_secs;
        }
    }
}

/// A CPU request or start-up time that is no number is none; the signals are looked at by `sense`.
fn plausible(seen: &Observation) -> Observation {
    let request =
        seen.pod_cpu_request.filter(|request| (CPU_REQUEST_MIN..=CPU_REQUEST_MAX).contains(request));
    let startup = seen.startup_secs.filter(|secs| (0.0..=STARTUP_MAX_SECS).contains(secs));
    Observation { pod_cpu_request: request, startup_secs: startup, ..*seen }
}

/// The HPA has no 0: its `minReplicas` is at least 1.
fn hpa_bounds(settings: &Settings) -> Bounds {
    let bounds = settings.bounds;
    Bounds::new(bounds.min().max(1), bounds.max()).unwrap_or(bounds)
}

fn multiplied(replicas: u32, multiplier: f64) -> u32 {
    let product = (f64::from(replicas) * multiplier).round() as u32;
    if 0 < replicas { product.max(1) } else { 0 }
}

fn busy_ratio(seen: &Observation, outlook: &Outlook) -> Option<f64> {
    let (_, plan) = outlook.planned?;
    (0 < seen.pods.ready).then(|| plan.level_busy_pods / f64::from(seen.pods.ready))
}

fn mean(loads: &[f32]) -> f64 {
    let sum: f32 = loads.iter().sum();
    f64::from(sum) / loads.len() as f64
}
