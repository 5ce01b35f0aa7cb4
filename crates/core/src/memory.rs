//! What must survive a restart: everything a brain holds that Prometheus does not remember. Plain data with public
//! fields; the wire form lives in `api`. Bounded: see the constant beside each list.

use crate::driving::Doubt;

/// Answers of the last minutes, merged where equal.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Recommendation {
    /// When it was last given, seconds.
    pub time_secs: f64,
    /// Smallest answer it stands for.
    pub low: u32,
    /// Largest answer it stands for.
    pub high: u32,
}

/// One scaling that really happened.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ScaleEvent {
    /// When, seconds.
    pub time_secs: f64,
    /// Replicas added or removed, positive.
    pub change: u32,
}

/// Recommendations and scale events of one scaler.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ScalingMemory {
    /// Oldest first; at most [`crate::behavior::MAX_RECOMMENDATIONS`].
    pub recommendations: Vec<Recommendation>,
    /// Scale-ups; at most [`crate::behavior::MAX_EVENTS`].
    pub ups: Vec<ScaleEvent>,
    /// Scale-downs; at most [`crate::behavior::MAX_EVENTS`].
    pub downs: Vec<ScaleEvent>,
    /// Changes, each fading by a factor e an hour, and the time they are stated for, seconds.
    pub pace: (f64, f64),
}

/// What has been learnt about one pod.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CapacityMemory {
    /// Factor on the load: above 1 where pods proved weaker than thought. 0 means unset (1).
    pub scale: f64,
    /// Running sums of the regression of cores per pod on requests per second per pod: weight, x, y, xx, xy.
    pub sums: [f64; 5],
    /// Highest load per ready pod seen with latency inside its target; 0 when none.
    pub good_density: f64,
    /// Lowest load per ready pod seen with latency over its target and busy pods; 0 when none.
    pub bad_density: f64,
    /// Seconds (as in the observation) since the load per ready pod is steady.
    pub steady_since_secs: f64,
    /// Load per ready pod at that time.
    pub steady_density: f64,
    /// Since when the present stretch of extremes runs, seconds (as in the observation).
    pub extremes_since_secs: f64,
    /// Lowest and highest load per ready pod of the present stretch.
    pub extremes: [f64; 2],
    /// The same of the stretch before.
    pub extremes_before: [f64; 2],
}

/// Late and offered requests of a stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct BudgetBucket {
    /// Index of the bucket: start time over its length.
    pub index: i64,
    /// Late requests.
    pub late: f64,
    /// Offered requests.
    pub offered: f64,
}

/// The error budget.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BudgetMemory {
    /// Late requests, decayed.
    pub late: f64,
    /// Offered requests, decayed.
    pub offered: f64,
    /// Seconds observed, decayed.
    pub secs: f64,
    /// Mean price of a replica-hour, decayed; 0 when none was seen.
    pub price_mean: f64,
    /// Weight of that mean, seconds.
    pub price_secs: f64,
    /// The last 6 hours; at most [`crate::budget::MAX_BUCKETS`].
    pub buckets: Vec<BudgetBucket>,
}

/// The forecaster's recent past, so that a restart is exact where Prometheus remembers nothing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ForecastMemory {
    /// Index of the last complete slot.
    pub last_slot: i64,
    /// The slot being filled: sum of load and number of samples.
    pub open_sum: f64,
    /// See `open_sum`.
    pub open_count: u32,
    /// Loads of the last slots, oldest first; at most [`crate::history::REMEMBERED_SLOTS`].
    pub slots: Vec<f32>,
    /// Forecasts not yet due, and as many before them as the horizon may grow, oldest first; at most
    /// [`crate::forecast::MAX_HORIZON_SLOTS`].
    pub open_forecasts: Vec<f32>,
    /// Running squared relative error of the forecasts, and its weight.
    pub error: [f64; 2],
    /// Load that came faster than a plain rule could follow, all load, and slots, each as far as remembered.
    pub surprises: [f64; 3],
}

impl ForecastMemory {
    /// True when nothing was seen.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.open_count == 0
    }
}

/// A scale-down of ours that may yet prove wrong.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct OwnDown {
    /// When, seconds.
    pub time_secs: f64,
    /// Replicas before it.
    pub from: u32,
    /// Replicas after it.
    pub to: u32,
    /// Load at that time, in the policy's unit.
    pub load: f64,
}

/// A scale-down that was undone and is held off.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct HoldOffMemory {
    /// The count that is not gone below, before bounds.
    pub replicas: u32,
    /// Load at that time, in the policy's unit.
    pub load: f64,
    /// When it was undone, seconds.
    pub since_secs: f64,
    /// Until when it is held off, seconds.
    pub until_secs: f64,
}

/// Scale-downs of ours, and what became of the objective after them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RegressionMemory {
    /// Oldest first; at most [`crate::regression::MAX_DOWNS`].
    pub downs: Vec<OwnDown>,
    /// Highest load since the last of them.
    pub highest_load: f64,
    /// Since when the objective is broken, and at how many readings in a row.
    pub broken_since_secs: Option<f64>,
    /// See `broken_since_secs`.
    pub broken_readings: u32,
    /// What is held off.
    pub hold_off: Option<HoldOffMemory>,
    /// Length of the last hold-off, seconds; 0 when there was none.
    pub hold_off_secs: f64,
    /// When it ended.
    pub ended_secs: f64,
    /// Scale-downs undone so far.
    pub undone: u32,
}

/// Sums of a stretch of time in shadow. Pod-seconds, seconds and requests (or the policy's unit of work).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ShadowSums {
    /// Seconds.
    pub secs: f64,
    /// Pod-seconds really asked for.
    pub real: f64,
    /// Pod-seconds decided.
    pub would_be: f64,
    /// Pod-seconds of an HPA, while its answer was known.
    pub hpa: f64,
    /// Seconds in which it was.
    pub hpa_secs: f64,
    /// Requests for which lateness could be predicted.
    pub offered: f64,
    /// Late by the model with the replicas that really ran.
    pub predicted_late: f64,
    /// Late by the model with the decided ones.
    pub would_be_late: f64,
    /// Requests whose lateness was measured, too.
    pub measured_offered: f64,
    /// Of these, late as measured.
    pub measured_late: f64,
    /// Of these, late by the model with the replicas that really ran.
    pub measured_predicted: f64,
    /// Seconds in which CPU could be compared with the declared capacity.
    pub busy_secs: f64,
    /// How busy pods were by CPU, times seconds.
    pub busy_seen: f64,
    /// How busy they were by the declared capacity, times seconds.
    pub busy_declared: f64,
}

/// What waits in a fluid queue with a random layer.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct QueueMemory {
    /// Requests a fluid would leave waiting.
    pub backlog: f64,
    /// Size of the queue that chance makes, requests.
    pub spread: f64,
}

/// What would have been, had the decisions been followed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ShadowMemory {
    /// Since when, seconds.
    pub since_secs: f64,
    /// Replicas that would be asked for.
    pub wanted: u32,
    /// Windows and rate limits of that path.
    pub scaling: ScalingMemory,
    /// When it was last raised, seconds; 0: never.
    pub raised_secs: f64,
    /// Its 0 replicas are ours.
    pub zeroed_by_us: bool,
    /// Its pods under way: (ready at, how many), oldest first; at most [`crate::shadow::MAX_ORDERS`].
    pub orders: Vec<(f64, u32)>,
    /// (time, ready pods, ready pods of that path), oldest first; at most [`crate::shadow::MAX_COUNTS`].
    pub counts: Vec<(f64, u32, u32)>,
    /// What waits by the model: really, and in that path.
    pub queues: [QueueMemory; 2],
    /// Late and offered requests while nothing waited.
    pub calm: [f64; 2],
    /// Since the beginning.
    pub whole: ShadowSums,
    /// (index, sums) of hours, oldest first; at most [`crate::shadow::MAX_BUCKETS`].
    pub buckets: Vec<(i64, ShadowSums)>,
}

/// Who drives, and how well the planner's forecasts do.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DrivingMemory {
    /// Why the planner drives in place of the model; `None` while the model may.
    pub doubt: Option<Doubt>,
    /// Seconds without a doubt since the last one.
    pub calm_secs: f64,
    /// How often the planner had to take over lately; at most [`crate::driving::MAX_STRIKES`].
    pub strikes: u32,
    /// How often it had to since the policy began.
    pub takeovers: u32,
    /// Seconds the model has driven since the last strike was given or forgiven.
    pub clean_secs: f64,
    /// Running squared shortfall of the forecasts over minutes, and its weight.
    pub fast: [f64; 2],
    /// The same over a day: the service's own past.
    pub slow: [f64; 2],
}

/// Everything.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Memory {
    /// First tick ever, seconds.
    pub started_secs: f64,
    /// Last tick, seconds.
    pub last_tick_secs: f64,
    /// Ours: windows and rate limits.
    pub scaling: ScalingMemory,
    /// The imagined HPA's.
    pub hpa: ScalingMemory,
    /// Since when signals are lost.
    pub failing_since_secs: Option<f64>,
    /// Since when load is zero without confirmation.
    pub sudden_zero_since_secs: Option<f64>,
    /// Cores used while there was load, running mean; 0 when unknown.
    pub busy_cores: f64,
    /// Typical age of a reading of the load, seconds; none while none told its age.
    pub typical_age_secs: Option<f64>,
    /// The 0 replicas are ours.
    pub zeroed_by_us: bool,
    /// When the target's replicas were last seen to have been raised, by whomever; 0: never.
    pub raised_secs: f64,
    /// `spec.replicas` at the last tick.
    pub last_replicas: u32,
    /// Since when the service is idle enough for 0.
    pub idle_since_secs: Option<f64>,
    /// Who drives.
    pub driving: DrivingMemory,
    /// Estimated requests waiting.
    pub backlog: f64,
    /// Scale-downs of ours that were, or may have to be, undone.
    pub regression: RegressionMemory,
    /// What would have been, where the policy is in shadow.
    pub shadow: Option<ShadowMemory>,
    /// What has been learnt about one pod.
    pub capacity: CapacityMemory,
    /// The error budget.
    pub budget: BudgetMemory,
    /// The forecaster's recent past.
    pub forecast: ForecastMemory,
}
