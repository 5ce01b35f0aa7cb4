//! What was seen at one tick. Built by the controller from a cluster, by the simulator from its world, and by
//! `rlscaler decide` from a JSON line. Missing is not zero: a signal that could not be read carries no number.

/// One measured value with its age.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// In the signal's unit: requests/s, seconds, cores, ratio 0..1, or price per replica-hour. Finite, not negative.
    pub value: f64,
    /// Seconds between the sample and the observation, where known. `None`: the source cannot tell; the declared
    /// lag of the signal is then assumed.
    pub age_secs: Option<f64>,
}

/// What is known of one named signal at one tick.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Signal {
    /// The policy does not ask for this signal.
    #[default]
    NotDeclared,
    /// Read, and young enough to act on.
    Fresh(Reading),
    /// Read, but older than the signal's `maxAgeSeconds`.
    Stale(Reading),
    /// Read from a part of the data only, as the source itself says: a load is at least this. May scale up, never
    /// down.
    Partial(Reading),
    /// Asked for and not obtained: source down, time-out, empty answer.
    Missing,
    /// Obtained but unusable: NaN, infinite, negative, several series, above the largest histogram bucket.
    Invalid,
    /// Undefined because nothing was asked of the service (0/0 at idle). Does not block a scale-down.
    NotApplicable,
    /// Not measured; derived from the queue model.
    Estimated(Reading),
}

impl Signal {
    /// The value, where one may be acted on.
    #[must_use]
    pub fn usable(&self) -> Option<f64> {
        match self {
            Signal::Fresh(reading) | Signal::Estimated(reading) => Some(reading.value),
            _ => None,
        }
    }

    /// The value, where it may at least speak for more.
    #[must_use]
    pub fn at_least(&self) -> Option<f64> {
        match self {
            Signal::Partial(reading) => Some(reading.value),
            other => other.usable(),
        }
    }

    /// True when the signal was asked for and cannot be acted on, or not in full: it forbids a scale-down.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self, Signal::Stale(_) | Signal::Partial(_) | Signal::Missing | Signal::Invalid)
    }
}

/// The signals a decision may use.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Signals {
    /// Requests per second offered to the service.
    pub qps: Signal,
    /// Latency at the policy's percentile, seconds.
    pub latency: Signal,
    /// Share of offered requests answered within the target, 0..1.
    pub sla: Signal,
    /// Share of offered requests that failed, 0..1.
    pub errors: Signal,
    /// Cores used, summed over the target's ready pods.
    pub cpu: Signal,
    /// Price of one replica for an hour. Missing, zero or negative is neutral.
    pub price: Signal,
}

/// The pods of the target, counted. Terminating, failed and foreign pods are in none of the counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pods {
    /// Ready and serving.
    pub ready: u32,
    /// Scheduled or being scheduled, not yet ready, nothing known to be wrong.
    pub starting: u32,
    /// Cannot be placed: unschedulable, or refused by a quota.
    pub unschedulable: u32,
    /// Crash-looping or failing to pull: they will not become ready by waiting.
    pub unhealthy: u32,
}

/// Everything seen at one tick.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Observation {
    /// Seconds, increasing from tick to tick; Unix time in a cluster, any origin elsewhere.
    pub time_secs: f64,
    /// Seconds since the observation before it, by a clock that nobody sets; `None` where that is not known, as after a
    /// restart. What differs from it in `time_secs` is then known to be a clock that was set.
    pub lived_secs: Option<f64>,
    /// `spec.replicas` of the target: what is asked for now.
    pub replicas: u32,
    /// The target's pods.
    pub pods: Pods,
    /// CPU request of one pod, cores, where declared.
    pub pod_cpu_request: Option<f64>,
    /// Ready pods the CPU signal is the sum of; `None`: all of them. A pod that became ready a moment ago has no sample
    /// yet.
    pub cpu_pods: Option<u32>,
    /// Most pods the target can have now by what quotas leave; `None`: no quota is known to limit it.
    pub room: Option<u32>,
    /// The signals.
    pub signals: Signals,
    /// Start-up time from creation to Ready, p90 in seconds, as learnt from the target's own pods.
    pub startup_secs: Option<f64>,
}

/// Samples of the past, oldest first, as Prometheus would have remembered them: (time in seconds, value).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct History {
    /// Requests per second offered.
    pub qps: Vec<(f64, f64)>,
    /// Cores used in all.
    pub cpu: Vec<(f64, f64)>,
    /// Share within the target, 0..1.
    pub sla: Vec<(f64, f64)>,
}
