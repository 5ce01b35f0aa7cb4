//! One scenario: which service, which load, what is seen of it, and what goes wrong. Plain data; with a seed it is a
//! world, and the same scenario and seed are the same world for every scaler.

use std::sync::Arc;

use rand_distr::{Distribution, StandardNormal};
use rlscaler_core::queue;
use rlscaler_core::settings::{Bounds, Capacity, DeclaredSignals, Objective, Weights};
use rlscaler_core::{History, Settings};

use crate::fault::Fault;
use crate::fluid::Fluid;
use crate::profile::Profile;
use crate::seed::Seed;
use crate::trace::Trace;

/// How far back the history goes that scalers may see before they start: what Prometheus usually keeps is longer.
pub const MAX_HISTORY_SECS: f64 = 8.0 * 86_400.0;

/// Distance of two samples of the history.
pub const HISTORY_STEP_SECS: f64 = 60.0;

/// What is seen of the world, and when.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Metrics {
    /// Seconds between a change and its appearance.
    pub lag_secs: f64,
    /// Seconds a rate is averaged over.
    pub window_secs: f64,
    /// Share of samples that go missing, 0..1.
    pub missing: f64,
    /// Percentile of the latency signal, 0 < p < 1.
    pub latency_percentile: f64,
}

impl Default for Metrics {
    fn default() -> Self {
        Self { lag_secs: 15.0, window_secs: 30.0, missing: 0.02, latency_percentile: 0.95 }
    }
}

/// How much of a run is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Detail {
    /// Sums: for training and tuning.
    Totals,
    /// Also the distribution of latencies and a point per decision: for reports.
    #[default]
    Full,
}

/// A world without its seed.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// The service, as it really is.
    pub profile: Arc<Profile>,
    /// The load, requests per second.
    pub trace: Arc<Trace>,
    /// Second of the trace at which the run starts; what lies before is history.
    pub start_secs: f64,
    /// Length of the run.
    pub duration_secs: f64,
    /// How much history scalers may see, at most what the trace has before the start.
    pub history_secs: f64,
    /// Length of a tick of the world.
    pub tick_secs: f64,
    /// Seconds between two decisions, a multiple of the tick.
    pub interval_secs: f64,
    /// What is seen.
    pub metrics: Metrics,
    /// Variance over mean of arrival counts; 1 is Poisson.
    pub dispersion: f64,
    /// Failures per ready pod and hour.
    pub failures_per_pod_hour: f64,
    /// What one pod can really serve, as a share of what its profile says. Scalers are told the profile.
    pub true_capacity: f64,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// How much is kept.
    pub detail: Detail,
}

impl Scenario {
    /// The whole trace, scaled to the profile's peak, without history: a service nobody knows yet.
    #[must_use]
    pub fn new(profile: &Profile, trace: &Trace) -> Self {
        let peak_rate = profile.peak_busy_pods * profile.service.pod_capacity();
        let trace = trace.scaled_to_peak(peak_rate);
        Self {
            profile: Arc::new(profile.clone()),
            start_secs: 0.0,
            duration_secs: trace.duration_secs(),
            history_secs: 0.0,
            trace: Arc::new(trace),
            tick_secs: 5.0,
            interval_secs: 15.0,
            metrics: Metrics::default(),
            dispersion: 1.0,
            failures_per_pod_hour: 0.0,
            true_capacity: 1.0,
            faults: Vec::new(),
            detail: Detail::default(),
        }
    }

    /// The same world from `start_secs` of the trace for `duration_secs` (both held within it), with what lies before
    /// as history.
    #[must_use]
    pub fn part(mut self, start_secs: f64, duration_secs: f64) -> Self {
        let length = self.trace.duration_secs();
        self.start_secs = start_secs.clamp(0.0, length - self.interval_secs);
        self.duration_secs = duration_secs.clamp(self.interval_secs, length - self.start_secs);
        self.history_secs = self.start_secs.min(MAX_HISTORY_SECS);
        self
    }

    /// Without history: the first hours of a service.
    #[must_use]
    pub fn cold(mut self) -> Self {
        self.history_secs = 0.0;
        self
    }

    /// Requests per second offered at a second of the run.
    #[must_use]
    pub fn rate_at(&self, time_secs: f64) -> f64 {
        self.trace.rate_at(self.start_secs + time_secs)
    }

    /// Share of requests that are late without any wait, as they take too long by themselves: no number of replicas
    /// avoids it.
    #[must_use]
    pub fn late_anyway(&self) -> f64 {
        Fluid::new(&self.profile.service, self.dispersion).late_without_wait(self.true_capacity)
    }

    /// Decisions in the run.
    #[must_use]
    pub fn decisions(&self) -> u64 {
        (self.duration_secs / self.interval_secs).floor().max(1.0) as u64
    }

    /// What Prometheus would remember of the time before the run, with the noise of a minute's count.
    #[must_use]
    pub fn history(&self, seed: Seed) -> History {
        let mut noise = seed.stream("history");
        let steps = (self.history_secs / HISTORY_STEP_SECS) as u32;
        let service = &self.profile.service;
        let cores_per_request = self.profile.pod_cpu_request * service.service_secs
            / f64::from(service.workers)
            / self.true_capacity;
        let mut history = History::default();
        for step in (1..=steps).rev() {
            let time_secs = -HISTORY_STEP_SECS * f64::from(step);
            let rate = self.rate_at(time_secs);
            let deviation = (rate * self.dispersion / HISTORY_STEP_SECS).sqrt();
            let normal: f64 = StandardNormal.sample(&mut noise);
            let seen = (rate + deviation * normal).max(0.0);
            history.qps.push((time_secs, seen));
            history.cpu.push((time_secs, seen * cores_per_request));
        }
        history
    }

    /// The policy a user of this profile would write: its bounds, target and interval, capacity and start-up time as
    /// the profile states them, and this SLA (0 < sla < 1).
    #[must_use]
    pub fn settings(&self, sla: f64) -> Settings {
        let profile = &self.profile;
        let bounds =
            Bounds::new(profile.min_replicas, profile.max_replicas).expect("a profile's bounds are checked");
        let objective = Objective {
            target_secs: profile.service.target_secs,
            sla,
            latency_percentile: self.metrics.latency_percentile,
            weights: Weights::default(),
        };
        let everything =
            DeclaredSignals { qps: true, latency: true, sla: true, errors: true, cpu: true, price: false };
        Settings {
            interval_secs: self.interval_secs,
            metric_lag_secs: self.metrics.lag_secs,
            capacity: Some(Capacity {
                concurrency: profile.service.workers,
                service_secs: profile.service.service_secs,
            }),
            startup_secs: Some(profile.startup.p90_secs),
            declared: everything,
            price_per_replica_hour: Some(profile.price_per_replica_hour),
            ..Settings::new(bounds, objective)
        }
    }

    /// Replicas that just meet the target at the start: how the service was left before.
    #[must_use]
    pub fn initial_replicas(&self) -> u32 {
        const ALLOWED_LATE: f64 = 0.01;
        let profile = &self.profile;
        let busy_workers = self.rate_at(0.0) * profile.service.service_secs / self.true_capacity;
        let needed =
            queue::smallest_replicas(&profile.station(), busy_workers, ALLOWED_LATE, profile.max_replicas);
        needed.clamp(profile.min_replicas.max(1), profile.max_replicas)
    }
}
