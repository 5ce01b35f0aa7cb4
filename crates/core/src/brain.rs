//! The brain of one policy: one tick from an observation to a decision.
//!
//! In: a validated policy, a person's will, what was seen. Out: a [`Decision`]. All state is here, bounded, and what
//! must survive a restart comes out as [`Memory`]. Never: I/O, a clock, randomness.

mod answer;
mod outlook;
mod passing;

use crate::behavior::Track;
use crate::budget::Budget;
use crate::capacity::Estimator;
use crate::decision::Decision;
use crate::driving::Watch;
use crate::forecast::Forecaster;
use crate::guardrail::{self, Proposal, Rails, Scene};
use crate::history::{BIN_SLOTS, SLOT_SECS};
use crate::hpa::{self, Hpa};
use crate::influence::{self, Asked};
use crate::lag::{AGE_MAX_SECS, Lag};
use crate::memory::{ForecastMemory, Memory};
use crate::observation::{History, Observation, Signal};
use crate::planner::{self, Demand};
use crate::policy::{Policy, whole};
use crate::regression::Regression;
use crate::sense::{self, SenseMemory, Senses, Usual};
use crate::settings::{Bounds, Override, Settings};
use crate::shadow::{self, Shadow, ShadowReport};

/// Start-up time assumed while it is neither declared nor learnt, real seconds.
const STARTUP_SECS: f64 = 60.0;
/// Slots of a minute: a load that stayed where it is for so long is not fading, whatever it was before.
const MINUTE_SLOTS: usize = 4;

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
    /// What was handed over by a backfill and not gone through yet.
    past: Option<Vec<(f64, f64)>>,
    estimator: Estimator,
    lag: Lag,
    budget: Budget,
    senses: SenseMemory,
    rails: Rails,
    hpa: Hpa,
    backlog: f64,
    watch: Watch,
    /// What the last answer stands on, where the model gave it.
    asked: Option<Asked>,
    last_replicas: u32,
    /// `None` unless somebody follows what would have been.
    shadow: Option<Shadow>,
}

/// One tick's time.
#[derive(Debug, Clone, Copy)]
struct Tick {
    now_secs: f64,
    /// Since the last tick, as far as it is booked.
    step_secs: f64,
    /// Since the last tick, as far as it can be told; infinite at the first.
    gap_secs: f64,
    slot: i64,
    clock_stepped: bool,
    startup_secs: f64,
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
            past: None,
            estimator: Estimator::restore(&memory.capacity),
            lag: Lag::restore(memory.typical_age_secs),
            budget: Budget::restore(&memory.budget),
            senses: SenseMemory {
                sudden_zero_since_secs: memory.sudden_zero_since_secs,
                busy_cores: memory.busy_cores,
            },
            rails: Rails {
                track: Track::restore(&memory.scaling),
                zeroed_by_us: memory.zeroed_by_us,
                failing_since_secs: memory.failing_since_secs,
                idle_since_secs: memory.idle_since_secs,
                raised_secs: (0.0 < memory.raised_secs).then_some(memory.raised_secs),
                regression: Regression::restore(&memory.regression),
            },
            hpa: Hpa::stock(hpa_bounds(&settings), settings.time_factor, &memory.hpa),
            backlog: memory.backlog,
            watch: Watch::restore(&memory.driving),
            asked: None,
            last_replicas: memory.last_replicas,
            shadow: memory.shadow.as_ref().map(Shadow::restore),
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
            // Loads of before are in another unit: what is held off stays, what might be undone is forgotten.
            self.rails.regression.change_unit();
            self.watch.change_unit();
            self.resumed = None;
            self.past = None;
            self.lag = Lag::default();
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

    /// Scale-downs of ours that had to be undone, since the policy began.
    #[must_use]
    pub fn scale_downs_undone(&self) -> u32 {
        self.rails.regression.undone()
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
            typical_age_secs: self.lag.typical_secs(),
            zeroed_by_us: self.rails.zeroed_by_us,
            raised_secs: self.rails.raised_secs.unwrap_or(0.0),
            last_replicas: self.last_replicas,
            idle_since_secs: self.rails.idle_since_secs,
            driving: self.watch.memory(),
            backlog: self.backlog,
            regression: self.rails.regression.memory(),
            shadow: self.shadow.as_ref().map(Shadow::memory),
            capacity: self.estimator.memory(),
            budget: self.budget.memory(),
            forecast: self.forecaster.memory(),
        }
    }

    /// What Prometheus remembers; at most once, before the first decide after `new` or `restore`. Samples that are not
    /// finite, negative or out of order are skipped. It is gone through at that decide: only then is it known how far
    /// ahead forecasts have to reach, and so how well they would have done.
    pub fn backfill(&mut self, history: &History) {
        self.estimator.backfill(&self.settings, history);
        let past = if self.settings.declared.qps { &history.qps } else { &history.cpu };
        self.past = Some(past.clone());
    }

    /// Goes through the past, with the horizon as it is now.
    fn go_through(&mut self, past: &[(f64, f64)]) {
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
        if from != to {
            self.rails.track.count_change(time_secs, self.settings.scaled(guardrail::HOUR_SECS));
        }
        self.rails.regression.record_scale(time_secs, from, to);
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
        let undone = self.look_back(seen, &tick, will, &senses, &outlook);
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
            busy_ratio: outlook::busy_ratio(seen, &outlook),
            growth: self.growth(&outlook.demand.forecast),
            proven: self.proven(seen, &senses, &outlook, &answer),
            clock_stepped: tick.clock_stepped,
            startup_secs: tick.startup_secs,
            gap_secs: tick.gap_secs,
            hpa_would_be,
            budget: self.budget.report(&self.settings, self.forecaster.surprise(), senses.price),
            undone,
        };
        if let Some(shadow) = &mut self.shadow {
            let facts = shadow::Facts {
                step_secs: tick.step_secs,
                // What CPU tells of requests is too rough to make a queue of.
                load: senses
                    .load
                    .filter(|load| load.by_cpu != self.settings.declared.qps)
                    .map(|load| load.value),
                age_secs: load_age_secs(&self.settings, seen).unwrap_or(self.settings.metric_lag_secs),
                late_share: senses.late_share,
                capacity: outlook.planned.as_ref().map(|(capacity, _)| capacity),
                scale: self.estimator.scale(),
                hpa_would_be,
            };
            // What waits there is not what waits here.
            let proposal = outlook.planned.map_or(answer.proposal, |(capacity, _)| {
                let demand = Demand { backlog: shadow.backlog(), ..outlook.demand };
                let exact = planner::plan(&self.settings, &capacity, &demand).exact * answer.multiplier;
                Proposal { replicas: whole(exact), exact: Some(exact), ..answer.proposal }
            });
            shadow.tick(&scene, proposal, &facts);
        }
        guardrail::guard(&mut self.rails, &scene, answer.proposal)
    }

    /// From now on follows what would have been, had the decisions been carried out; goes on where it already does.
    pub fn follow_shadow(&mut self, seen: &Observation) {
        self.shadow.get_or_insert_with(|| Shadow::new(seen.time_secs, seen.replicas));
    }

    /// Follows it no more: decisions are carried out.
    pub fn leave_shadow(&mut self) {
        self.shadow = None;
    }

    /// What would have been, where it is followed.
    #[must_use]
    pub fn shadow(&self) -> Option<ShadowReport> {
        self.shadow.as_ref().map(|shadow| shadow.report(&self.settings))
    }

    /// The last decision with what mattered most in the model's answer; the same where the planner drove. `policy`: the
    /// one that decided. Costs some calls of it, so it is done only for decisions that somebody will read.
    #[must_use]
    pub fn explain(&self, policy: &dyn Policy, decision: Decision) -> Decision {
        match &self.asked {
            Some(asked) => decision.explained(&influence::strongest(policy, asked)),
            None => decision,
        }
    }

    /// The planner's forecasts: by how much they fall short now over how much they did in the service's own past; `None`
    /// while too little of it is known.
    #[must_use]
    pub fn forecast_drift(&self) -> Option<f64> {
        self.watch.drift()
    }

    /// How often the planner had to take over from the model since the policy began.
    #[must_use]
    pub fn takeovers(&self) -> u32 {
        self.watch.memory().takeovers
    }

    fn sense(&mut self, seen: &Observation, tick: &Tick) -> Senses {
        let history = self.forecaster.history();
        let last = history.level_now();
        let mean_of = |slots: usize| {
            let slots = history.slots().last(slots);
            if slots.is_empty() { last } else { mean(slots) }
        };
        let usual = Usual { last, mean: mean_of(BIN_SLOTS).min(mean_of(MINUTE_SLOTS)) };
        sense::sense(&self.settings, seen, tick.now_secs, usual, &self.estimator, &mut self.senses)
    }

    fn hpa_would_be(&mut self, seen: &Observation, tick: &Tick, senses: &Senses) -> Option<u32> {
        let wish = senses.cores.zip(seen.pod_cpu_request).and_then(|(cores, request)| {
            // To an HPA, a pod without a sample is one that is not ready yet.
            let without = seen.pods.ready - senses.cpu_pods;
            hpa::stock_wish(cores, request, senses.cpu_pods, seen.pods.starting + without, seen.replicas)
        })?;
        Some(self.hpa.sync(tick.now_secs, seen.replicas, Some(wish)))
    }

    fn startup_secs(&self, learnt: Option<f64>) -> f64 {
        self.settings.startup_secs.or(learnt).unwrap_or(self.settings.scaled(STARTUP_SECS))
    }

    /// H = start-up + interval + metric lag.
    fn set_horizon(&mut self, startup_secs: f64) {
        let horizon_secs = startup_secs + self.settings.interval_secs + self.lag.secs(&self.settings);
        self.forecaster.set_horizon((horizon_secs / self.settings.scaled(SLOT_SECS)).ceil() as usize);
    }

    fn slot_of(&self, time_secs: f64) -> i64 {
        (time_secs / self.settings.scaled(SLOT_SECS)).floor() as i64 + self.slot_shift
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

/// Age of the load's reading, where it is known.
fn load_age_secs(settings: &Settings, seen: &Observation) -> Option<f64> {
    match if settings.declared.qps { seen.signals.qps } else { seen.signals.cpu } {
        Signal::Fresh(reading) => reading.age_secs.filter(|age| (0.0..=AGE_MAX_SECS).contains(age)),
        _ => None,
    }
}

fn mean(loads: &[f32]) -> f64 {
    let sum: f32 = loads.iter().sum();
    f64::from(sum) / loads.len() as f64
}
