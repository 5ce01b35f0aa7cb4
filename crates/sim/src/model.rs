//! What a service is: workers per pod, how long a request occupies one, when it is late and when it gives up.
//! Plain data, shared by the exact and the fast level and by the world emulator.

/// The law of the time a request occupies a worker.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ServiceLaw {
    /// Always the mean.
    Deterministic,
    /// Exponential: coefficient of variation 1.
    Exponential,
    /// Lognormal with this coefficient of variation (standard deviation / mean), positive.
    Lognormal {
        /// Standard deviation over mean.
        cv: f64,
    },
}

impl ServiceLaw {
    /// Standard deviation over mean.
    #[must_use]
    pub fn cv(self) -> f64 {
        match self {
            ServiceLaw::Deterministic => 0.0,
            ServiceLaw::Exponential => 1.0,
            ServiceLaw::Lognormal { cv } => cv,
        }
    }
}

/// A pod that has just become ready serves more slowly for a while (caches, JIT).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlowStart {
    /// Seconds from Ready to full speed; the speed rises linearly.
    pub secs: f64,
    /// Speed at the moment of Ready, as a share of full speed, 0 < speed <= 1.
    pub initial_speed: f64,
}

impl SlowStart {
    /// Speed of a pod that has been ready for `age_secs`, as a share of full speed.
    #[must_use]
    pub fn speed(self, age_secs: f64) -> f64 {
        let progress = (age_secs / self.secs).clamp(0.0, 1.0);
        self.initial_speed + (1.0 - self.initial_speed) * progress
    }
}

/// One service, as it really is (what a scaler believes of it may differ).
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceModel {
    /// Requests one pod works on at the same time, at least 1.
    pub workers: u32,
    /// Mean seconds a request occupies a worker at full speed. Positive.
    pub service_secs: f64,
    /// Law of that time.
    pub law: ServiceLaw,
    /// A request not answered within this many seconds is late.
    pub target_secs: f64,
    /// A request that has waited this long for a worker gives up.
    pub timeout_secs: f64,
    /// Requests that may wait; one that arrives beyond them is dropped.
    pub max_waiting: usize,
    /// Warm-up of a fresh pod, if any.
    pub slow_start: Option<SlowStart>,
}

/// Default of `max_waiting`: more than any service of the profiles can work off before the time-out, and bounded.
pub const MAX_WAITING: usize = 100_000;

/// Default of `timeout_secs`.
pub const TIMEOUT_SECS: f64 = 10.0;

impl ServiceModel {
    /// A service with lognormal service times (coefficient of variation 1), 10 s time-out and no slow start.
    #[must_use]
    pub fn new(workers: u32, service_secs: f64, target_secs: f64) -> Self {
        Self {
            workers,
            service_secs,
            law: ServiceLaw::Lognormal { cv: 1.0 },
            target_secs,
            timeout_secs: TIMEOUT_SECS,
            max_waiting: MAX_WAITING,
            slow_start: None,
        }
    }

    /// Requests per second one pod can serve at most.
    #[must_use]
    pub fn pod_capacity(&self) -> f64 {
        f64::from(self.workers) / self.service_secs
    }
}
