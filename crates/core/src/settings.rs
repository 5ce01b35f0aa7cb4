//! A policy after validation: what `api::validate` makes and everything else may rely on.

/// Smallest and largest replica count, `min <= max`, `1 <= max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    min: u32,
    max: u32,
}

impl Bounds {
    /// `None` unless `min <= max` and `1 <= max`.
    #[must_use]
    pub fn new(min: u32, max: u32) -> Option<Self> {
        (min <= max && 1 <= max).then_some(Self { min, max })
    }
    /// Smallest replica count.
    #[must_use]
    pub fn min(self) -> u32 {
        self.min
    }
    /// Largest replica count.
    #[must_use]
    pub fn max(self) -> u32 {
        self.max
    }
    /// `replicas` moved into the bounds.
    #[must_use]
    pub fn clamp(self, replicas: u32) -> u32 {
        replicas.clamp(self.min, self.max)
    }
}

/// Whether decisions are carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Decide and report, never write.
    #[default]
    Shadow,
    /// Decide and scale.
    Auto,
}

/// What the user wants of the service.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Objective {
    /// A request is late when not answered within this many seconds. Positive.
    pub target_secs: f64,
    /// Share of offered requests that must not be late, 0 < sla < 1.
    pub sla: f64,
    /// Percentile of the latency signal, 0 < p < 1.
    pub latency_percentile: f64,
    /// Weights a, b, c of the reward.
    pub weights: Weights,
}

/// Weights of the reward `a * latency reduction + b * resource saving + c * SLA completion`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weights {
    /// a, 0..100.
    pub latency: f64,
    /// b, 1..100.
    pub saving: f64,
    /// c, 0..100.
    pub sla: f64,
}

impl Default for Weights {
    fn default() -> Self {
        Self { latency: 1.0, saving: 1.0, sla: 1.0 }
    }
}

/// What one replica can serve, where declared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Capacity {
    /// Requests one replica works on at the same time, at least 1.
    pub concurrency: u32,
    /// Mean seconds one request occupies one of them. Positive.
    pub service_secs: f64,
}

/// Signals the policy asks for; the others are `NotDeclared`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeclaredSignals {
    /// Load.
    pub qps: bool,
    /// Latency.
    pub latency: bool,
    /// SLA completion.
    pub sla: bool,
    /// Errors.
    pub errors: bool,
    /// CPU of the metrics API.
    pub cpu: bool,
    /// Price from a query.
    pub price: bool,
}

/// What to do when no signal can be read for long.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fallback {
    /// Seconds of failure before it applies.
    pub failure_secs: f64,
    /// Replicas then, combined by max with what healthy signals ask for; moved into the bounds.
    pub replicas: u32,
}

/// Which of several scaling policies of one direction counts, as in `autoscaling/v2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Select {
    /// The one that allows the larger change.
    #[default]
    Max,
    /// The one that allows the smaller change.
    Min,
    /// No change in this direction.
    Disabled,
}

/// Unit of a scaling policy's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepKind {
    /// Replicas.
    Pods,
    /// Percent of the replicas at the start of the period.
    Percent,
}

/// One `behavior` policy: at most this much change within the period.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Unit of `value`.
    pub kind: StepKind,
    /// Positive.
    pub value: u32,
    /// 1..=1800 seconds.
    pub period_secs: f64,
}

/// One direction of HPA's `behavior`.
#[derive(Debug, Clone, PartialEq)]
pub struct Direction {
    /// Seconds of past recommendations that are looked at, 0..=3600.
    pub window_secs: f64,
    /// Which policy counts.
    pub select: Select,
    /// Limits of the rate of change.
    pub steps: Vec<Step>,
    /// Relative change of the answer below which nothing happens; `None`: the caller's default.
    pub tolerance: Option<f64>,
}

/// HPA's `behavior`, both directions, defaults filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct Behavior {
    /// Rising.
    pub up: Direction,
    /// Falling.
    pub down: Direction,
}

impl Default for Behavior {
    /// The defaults of a policy without `behavior`: up without window, the greater of +100 % and +4 pods per 15 s;
    /// down with a 30-s window, 100 % per 15 s.
    fn default() -> Self {
        const PERIOD_SECS: f64 = 15.0;
        const DOWN_WINDOW_SECS: f64 = 30.0;
        let percent = Step { kind: StepKind::Percent, value: 100, period_secs: PERIOD_SECS };
        let pods = Step { kind: StepKind::Pods, value: 4, period_secs: PERIOD_SECS };
        Self {
            up: Direction {
                window_secs: 0.0,
                select: Select::Max,
                steps: vec![percent, pods],
                tolerance: None,
            },
            down: Direction {
                window_secs: DOWN_WINDOW_SECS,
                select: Select::Max,
                steps: vec![percent],
                tolerance: None,
            },
        }
    }
}

/// A person's will, already resolved from annotations and spec (`api::overrides`) and not expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Override {
    /// None: automatic.
    #[default]
    None,
    /// Exactly this many, whatever the signals say.
    Pin {
        /// Replicas asked for.
        replicas: u32,
        /// May leave min..max.
        allow_out_of_bounds: bool,
    },
    /// Leave the target as it is.
    Pause,
    /// Never down.
    PauseScaleDown,
    /// Never up.
    PauseScaleUp,
}

/// A validated policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Replica bounds.
    pub bounds: Bounds,
    /// Whether decisions are carried out (ignored by `decide`).
    pub mode: Mode,
    /// Seconds between two decisions, 1..=300 in a cluster; the demo's time factor may divide it.
    pub interval_secs: f64,
    /// What the user wants.
    pub objective: Objective,
    /// What one replica can serve, where declared.
    pub capacity: Option<Capacity>,
    /// Start-up time, where declared, seconds.
    pub startup_secs: Option<f64>,
    /// Signals asked for.
    pub declared: DeclaredSignals,
    /// Seconds between a change in the world and its appearance in the signals, where the age is unknown.
    pub metric_lag_secs: f64,
    /// Declared price of a replica-hour; a measured one comes as a signal.
    pub price_per_replica_hour: Option<f64>,
    /// Limits of the rate of change.
    pub behavior: Behavior,
    /// What to do in a long outage.
    pub fallback: Option<Fallback>,
    /// How many times faster than real time this policy's world runs, 1 in a cluster. The demo divides everything by
    /// its `--speed K`: interval, start-up, windows and trace. Every time constant of the brain that is not a setting
    /// (slots of 15 s, the own maximum over 2 minutes, half-lives) is divided by it; the other settings already are.
    pub time_factor: f64,
    /// Constants of planner and guardrails; the defaults are what the operator uses.
    pub tuning: Tuning,
}

impl Settings {
    /// A policy with every default: load from qps, no declared capacity, start-up, price, fallback or behavior.
    #[must_use]
    pub fn new(bounds: Bounds, objective: Objective) -> Self {
        Self {
            bounds,
            mode: Mode::default(),
            interval_secs: 15.0,
            objective,
            capacity: None,
            startup_secs: None,
            declared: DeclaredSignals { qps: true, ..DeclaredSignals::default() },
            metric_lag_secs: 15.0,
            price_per_replica_hour: None,
            behavior: Behavior::default(),
            fallback: None,
            time_factor: 1.0,
            tuning: Tuning::default(),
        }
    }

    /// Share of offered requests that may be late, > 0.
    #[must_use]
    pub fn allowed_late(&self) -> f64 {
        1.0 - self.objective.sla
    }

    /// A time constant of the brain, stated for real time, in this policy's time. Seconds.
    #[must_use]
    pub fn scaled(&self, real_secs: f64) -> f64 {
        real_secs / self.time_factor
    }
}

/// Constants of planner and guardrails. They are not part of the API: the judge varies them to find a baseline's best
/// setting in hindsight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tuning {
    /// k: running errors of its own forecasts the planner adds to the demand. Default 1.
    pub safety: f64,
    /// W: seconds of own answers the number may not fall below, in real time. Default 120.
    pub own_max_secs: f64,
    /// Relative decrease that is not worth a change. Default 0.08.
    pub deadband: f64,
    /// Replicas by which a model's number must be above the present count for a raise; the planner's, which says what the
    /// objective needs, is always followed. Default 0.5: measured together with
    /// `lower_slack`, a third fewer changes at the same cost and lateness.
    pub raise_slack: f64,
    /// Replicas by which the number must be below the next lower count for a decrease. Default 1.2.
    pub lower_slack: f64,
    /// Squared coefficient of variation of service times. Default 1 (exponential).
    pub service_cv2: f64,
    /// Squared coefficient of variation of interarrival times. Default 1 (Poisson).
    pub arrival_cv2: f64,
    /// The price of lateness follows the error budget. Default true; false takes the late share to be
    /// at the set point, whatever came.
    pub follows_budget: bool,
    /// A declared capacity is doubted and trusted by what is seen. Default true; false believes it whatever happens.
    pub learns_capacity: bool,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            safety: 1.0,
            own_max_secs: 120.0,
            deadband: 0.08,
            raise_slack: 0.5,
            lower_slack: 1.2,
            service_cv2: 1.0,
            arrival_cv2: 1.0,
            follows_budget: true,
            learns_capacity: true,
        }
    }
}

impl Tuning {
    /// A number up to here is carried by `standing` replicas: a load on the edge between two counts shall not make them
    /// alternate.
    #[must_use]
    pub fn edge_above(&self, standing: f64) -> f64 {
        standing + self.raise_slack.min(RAISE_SHARE_MAX * standing)
    }

    /// A number above this is not yet worth one replica less than `standing`.
    #[must_use]
    pub fn edge_below(&self, standing: f64) -> f64 {
        standing - 1.0 - self.lower_slack.min(LOWER_SHARE_MAX * standing)
    }
}

/// The slack of a small service, as a share of its replicas.
const RAISE_SHARE_MAX: f64 = 0.05;
/// See [`RAISE_SHARE_MAX`].
const LOWER_SHARE_MAX: f64 = 0.05;
