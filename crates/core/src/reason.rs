//! Why a decision is what it is: a closed set of codes with the numbers behind them. Formatting happens only when
//! somebody reads; deciding allocates nothing for it.

use std::fmt;

use crate::driving::Doubt;
use crate::influence::Influence;
use crate::text::{fixed, signed};

/// Who determined the number before the guardrails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Driver {
    /// The actor's multiplier on the planner's answer.
    Model,
    /// The queue-model planner alone.
    #[default]
    Planner,
    /// A person.
    Override,
    /// The declared fallback, all signals being lost for long.
    Fallback,
    /// Nobody: nothing could be read, or scaling is disabled; the present count is kept.
    Hold,
}

impl Driver {
    /// As written in JSON and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Driver::Model => "model",
            Driver::Planner => "planner",
            Driver::Override => "override",
            Driver::Fallback => "fallback",
            Driver::Hold => "hold",
        }
    }
}

/// A signal by name, as in the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalName {
    /// `qps`
    Qps,
    /// `latency`
    Latency,
    /// `sla`
    Sla,
    /// `errors`
    Errors,
    /// `cpu`
    Cpu,
}

impl SignalName {
    /// As written in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            SignalName::Qps => "qps",
            SignalName::Latency => "latency",
            SignalName::Sla => "sla",
            SignalName::Errors => "errors",
            SignalName::Cpu => "cpu",
        }
    }
}

/// What a reason does to the number; answers "why not more?" and "why not fewer?".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Something that was measured.
    Seen,
    /// A term the number is made of.
    Term,
    /// It kept the number from being larger.
    HeldDown,
    /// It kept the number from being smaller.
    HeldUp,
    /// It decided the number in both directions.
    Fixed,
}

/// One reason: what was seen, or which term or guardrail spoke. `code()` is UpperCamel and stable; `Display` is the
/// message a person reads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reason {
    /// The load that was seen.
    Load {
        /// Requests per second, or cores where the load is taken from CPU.
        value: f64,
        /// The same in pods that are fully busy.
        busy_pods: f64,
        /// True when the load is CPU.
        cores: bool,
    },
    /// The latency that was seen.
    Latency {
        /// Seconds.
        secs: f64,
        /// The target, seconds.
        target_secs: f64,
    },
    /// The queue model asks for this many.
    QueueModel {
        /// Load looked ahead, in busy pods.
        busy_pods: f64,
        /// Replicas.
        replicas: u32,
    },
    /// The load grows significantly and is looked ahead by the start-up time.
    Rising {
        /// Expected load over present load.
        ratio: f64,
    },
    /// The same hour of an earlier day or week rose from here.
    Seasonal {
        /// Expected load over present load.
        ratio: f64,
    },
    /// Requests are waiting.
    Backlog {
        /// Requests.
        requests: f64,
    },
    /// Capacity of a replica is neither declared nor known yet: the number follows latency and proven load per pod.
    CapacityUnknown,
    /// Latency is over its target and the load cannot be read.
    LatencyDriven {
        /// Latency over target.
        ratio: f64,
    },
    /// The model's factor on the planner's answer.
    Multiplier {
        /// Factor.
        factor: f64,
        /// Price of lateness it was given.
        price: f64,
    },
    /// Something about the load that moved the model's factor by at least a replica.
    Influence {
        /// What.
        influence: Influence,
        /// Replicas it adds to the model's answer, or takes from it; never 0.
        change: i32,
    },
    /// The model must not drive now: the planner does.
    ModelRejected {
        /// Why.
        doubt: Doubt,
    },
    /// The model must not have driven lately: the planner keeps driving until all has been calm for a while.
    ModelSuspended {
        /// Why it had to.
        doubt: Doubt,
        /// How long all must have been calm, seconds.
        calm_secs: f64,
    },
    /// A higher answer of the last minutes is kept.
    ScaleDownStabilized {
        /// The number kept.
        replicas: u32,
    },
    /// A lower answer of the last minutes is kept.
    ScaleUpStabilized {
        /// The number kept.
        replicas: u32,
    },
    /// `behavior.scaleUp` allows no more within its period.
    ScaleUpLimit {
        /// The most allowed now.
        replicas: u32,
    },
    /// `behavior.scaleDown` allows no fewer within its period.
    ScaleDownLimit {
        /// The fewest allowed now.
        replicas: u32,
    },
    /// `maxReplicas` caps the number.
    TooManyReplicas {
        /// What was wanted.
        wanted: u32,
        /// `maxReplicas`.
        max: u32,
    },
    /// `minReplicas` raises the number.
    TooFewReplicas {
        /// What was wanted.
        wanted: u32,
        /// `minReplicas`.
        min: u32,
    },
    /// Too small a change to make.
    Deadband {
        /// What was wanted.
        wanted: u32,
    },
    /// An increase within `behavior.scaleUp.tolerance`, or, without one, within the slack around the present count.
    Tolerated {
        /// What was wanted.
        wanted: u32,
    },
    /// A signal cannot be acted on, so nothing scales down.
    SignalLost {
        /// Which.
        signal: SignalName,
    },
    /// No load can be read: the count is kept.
    NoLoadSignal,
    /// The load is said to be zero, suddenly or while the pods work, and nothing confirms it.
    SuddenZero,
    /// The declared fallback applies.
    FallbackActive {
        /// Its replicas.
        replicas: u32,
        /// Seconds since signals were lost.
        failing_secs: f64,
    },
    /// The objective was met before a scale-down of ours and not after it, and the load does not explain that: undone.
    ScaleDownUndone {
        /// What it had led to.
        from: u32,
        /// What is restored.
        to: u32,
        /// For how long it is held off, seconds.
        held_off_secs: f64,
    },
    /// A scale-down that was undone is held off.
    ScaleDownHeldOff {
        /// The number kept.
        replicas: u32,
        /// For how much longer, seconds.
        left_secs: f64,
    },
    /// Pods of the last scale-up are still starting.
    StillStarting {
        /// How many.
        starting: u32,
    },
    /// Pods cannot be placed, or a quota leaves no room for more: raising is pointless.
    CapacityUnavailable {
        /// How many pods cannot be placed.
        unschedulable: u32,
        /// Most replicas quotas leave room for, where that is what limits.
        room: Option<u32>,
    },
    /// No pod is ready: load that is not seen may be load that nobody serves.
    NoPodReady,
    /// Pods crash or cannot pull their image: more of them would not serve.
    RolloutUnhealthy {
        /// How many.
        unhealthy: u32,
    },
    /// Latency is over its target while CPU is idle: more replicas would not help; look at code or a dependency.
    ScalingWontHelp {
        /// Latency over target.
        ratio: f64,
        /// CPU used over requested, 0..1.
        utilization: f64,
    },
    /// CPU is high, yet latency is comfortably inside its target and the load does not grow.
    LatencyComfortable {
        /// Latency over target.
        ratio: f64,
        /// CPU used over requested, 0..1.
        utilization: f64,
    },
    /// The target has 0 replicas and minReplicas is not 0: somebody switched it off.
    ScalingDisabled,
    /// A pin to 0 of ours has ended.
    ResumedFromZero,
    /// Load returned, or is still too large for 0.
    Activated {
        /// Requests per second.
        qps: f64,
    },
    /// No load for long enough: 0 replicas.
    Idle,
    /// A person pinned the number.
    Pinned {
        /// What was asked.
        replicas: u32,
    },
    /// The pin was moved into min..max.
    PinClamped {
        /// What was asked.
        asked: u32,
        /// What it became.
        replicas: u32,
    },
    /// A person paused scaling.
    Paused,
    /// A person paused scaling down.
    ScaleDownPaused,
    /// A person paused scaling up.
    ScaleUpPaused,
    /// The clock went backwards.
    ClockStepped,
    /// Answer and present count agree.
    DesiredWithinRange,
}

impl Reason {
    /// Stable UpperCamel code: the variant's name, or that of the influence.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.entry().0
    }

    /// What it does to the number.
    #[must_use]
    pub fn role(&self) -> Role {
        self.entry().1
    }

    fn entry(&self) -> (&'static str, Role) {
        match self {
            Reason::Load { .. } => ("Load", Role::Seen),
            Reason::Latency { .. } => ("Latency", Role::Seen),
            Reason::QueueModel { .. } => ("QueueModel", Role::Term),
            Reason::Rising { .. } => ("Rising", Role::Term),
            Reason::Seasonal { .. } => ("Seasonal", Role::Term),
            Reason::Backlog { .. } => ("Backlog", Role::Term),
            Reason::CapacityUnknown => ("CapacityUnknown", Role::Term),
            Reason::LatencyDriven { .. } => ("LatencyDriven", Role::Term),
            Reason::Multiplier { .. } => ("Multiplier", Role::Term),
            Reason::Influence { influence, .. } => (influence.code(), Role::Term),
            Reason::ModelRejected { .. } => ("ModelRejected", Role::Term),
            Reason::ModelSuspended { .. } => ("ModelSuspended", Role::Term),
            Reason::ScaleDownStabilized { .. } => ("ScaleDownStabilized", Role::HeldUp),
            Reason::ScaleUpStabilized { .. } => ("ScaleUpStabilized", Role::HeldDown),
            Reason::ScaleUpLimit { .. } => ("ScaleUpLimit", Role::HeldDown),
            Reason::ScaleDownLimit { .. } => ("ScaleDownLimit", Role::HeldUp),
            Reason::TooManyReplicas { .. } => ("TooManyReplicas", Role::HeldDown),
            Reason::TooFewReplicas { .. } => ("TooFewReplicas", Role::HeldUp),
            Reason::Deadband { .. } => ("Deadband", Role::HeldUp),
            Reason::Tolerated { .. } => ("Tolerated", Role::HeldDown),
            Reason::SignalLost { .. } => ("SignalLost", Role::HeldUp),
            Reason::NoLoadSignal => ("NoLoadSignal", Role::Fixed),
            Reason::SuddenZero => ("SuddenZero", Role::HeldUp),
            Reason::FallbackActive { .. } => ("FallbackActive", Role::HeldUp),
            Reason::ScaleDownUndone { .. } => ("ScaleDownUndone", Role::HeldUp),
            Reason::ScaleDownHeldOff { .. } => ("ScaleDownHeldOff", Role::HeldUp),
            Reason::StillStarting { .. } => ("StillStarting", Role::HeldUp),
            Reason::CapacityUnavailable { .. } => ("CapacityUnavailable", Role::HeldDown),
            Reason::NoPodReady => ("NoPodReady", Role::HeldUp),
            Reason::RolloutUnhealthy { .. } => ("RolloutUnhealthy", Role::Fixed),
            Reason::ScalingWontHelp { .. } => ("ScalingWontHelp", Role::HeldDown),
            Reason::LatencyComfortable { .. } => ("LatencyComfortable", Role::HeldDown),
            Reason::ScalingDisabled => ("ScalingDisabled", Role::Fixed),
            Reason::ResumedFromZero => ("ResumedFromZero", Role::HeldUp),
            Reason::Activated { .. } => ("Activated", Role::HeldUp),
            Reason::Idle => ("Idle", Role::Term),
            Reason::Pinned { .. } => ("Pinned", Role::Fixed),
            Reason::PinClamped { .. } => ("PinClamped", Role::Fixed),
            Reason::Paused => ("Paused", Role::Fixed),
            Reason::ScaleDownPaused => ("ScaleDownPaused", Role::HeldUp),
            Reason::ScaleUpPaused => ("ScaleUpPaused", Role::HeldDown),
            Reason::ClockStepped => ("ClockStepped", Role::HeldUp),
            Reason::DesiredWithinRange => ("DesiredWithinRange", Role::Seen),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Reason::Load { value, busy_pods, cores } => {
                if cores {
                    write!(f, "{} cores used", fixed(value, 2))?;
                } else {
                    write!(f, "{} requests/s", fixed(value, 1))?;
                }
                // While nobody knows what a pod can serve, the load is not known in pods.
                if 0.0 < busy_pods {
                    write!(f, ", the work of {} busy pods", fixed(busy_pods, 1))
                } else {
                    Ok(())
                }
            }
            Reason::Latency { secs, target_secs } => {
                write!(f, "latency {} ms, target {} ms", fixed(secs * 1e3, 0), fixed(target_secs * 1e3, 0))
            }
            Reason::QueueModel { busy_pods, replicas } => {
                write!(f, "{} busy pods expected need {replicas} replicas to meet the latency target", fixed(busy_pods, 1))
            }
            Reason::Rising { ratio } => {
                write!(f, "load is rising: {} % expected by the time a new pod serves", signed((ratio - 1.0) * 100.0, 0))
            }
            Reason::Seasonal { ratio } => {
                write!(f, "this hour usually brings {} % soon", signed((ratio - 1.0) * 100.0, 0))
            }
            Reason::Backlog { requests } => write!(f, "about {} requests are waiting", fixed(requests, 0)),
            Reason::CapacityUnknown => f.write_str(
                "what a replica can serve is neither declared nor known yet: following latency and proven load per pod",
            ),
            Reason::LatencyDriven { ratio } => {
                write!(f, "latency is {} times its target while the load cannot be read", fixed(ratio, 1))
            }
            Reason::Multiplier { factor, price } => {
                write!(f, "the model multiplies by {} at lateness price {}", fixed(factor, 2), fixed(price, 0))
            }
            Reason::Influence { influence, change } => {
                let noun = if change.abs() == 1 { "replica" } else { "replicas" };
                write!(f, "{influence} ({change:+} {noun})")
            }
            Reason::ModelRejected { doubt } => write!(f, "the planner drives: {doubt}"),
            Reason::ModelSuspended { doubt, calm_secs } => {
                write!(f, "the planner drives until all has been calm for {calm_secs:.0} s; before: {doubt}")
            }
            Reason::ScaleDownStabilized { replicas } => {
                write!(f, "{replicas} were needed within the stabilization window")
            }
            Reason::ScaleUpStabilized { replicas } => {
                write!(f, "only {replicas} were needed within the stabilization window")
            }
            Reason::ScaleUpLimit { replicas } => write!(f, "scaleUp policies allow at most {replicas} now"),
            Reason::ScaleDownLimit { replicas } => write!(f, "scaleDown policies allow no fewer than {replicas} now"),
            Reason::TooManyReplicas { wanted, max } => write!(f, "{wanted} wanted, maxReplicas is {max}"),
            Reason::TooFewReplicas { wanted, min } => write!(f, "{wanted} wanted, minReplicas is {min}"),
            Reason::Deadband { wanted } => write!(f, "a decrease to {wanted} is too small to be worth a change"),
            Reason::Tolerated { wanted } => {
                write!(f, "an increase to {wanted} is too small to be worth a change")
            }
            Reason::SignalLost { signal } => {
                write!(f, "{} cannot be read: no scale-down without it", signal.as_str())
            }
            Reason::NoLoadSignal => f.write_str("no signal tells the load: the present count is kept"),
            Reason::SuddenZero => {
                f.write_str("load is said to be zero and nothing confirms it: the present count is kept")
            }
            Reason::FallbackActive { replicas, failing_secs } => {
                write!(f, "signals lost for {} s: at least the fallback's {replicas} replicas", fixed(failing_secs, 0))
            }
            Reason::ScaleDownUndone { from, to, held_off_secs } => write!(
                f,
                "the objective is missed since the scale-down to {from} and the load does not explain it: back to {to}, held off for {:.0} min",
                held_off_secs / 60.0
            ),
            Reason::ScaleDownHeldOff { replicas, left_secs } => write!(
                f,
                "fewer than {replicas} made requests late: held off for another {:.0} min",
                (left_secs / 60.0).ceil()
            ),
            Reason::StillStarting { starting } => write!(f, "{starting} pods of a scale-up are still starting"),
            Reason::CapacityUnavailable { room: Some(room), .. } => {
                write!(f, "quotas leave room for {room} replicas: asking for more would not help")
            }
            Reason::CapacityUnavailable { unschedulable, room: None } => {
                write!(f, "{unschedulable} pods cannot be placed: asking for more would not help")
            }
            Reason::NoPodReady => {
                f.write_str("no pod is ready: load that is not seen may be load that nobody serves")
            }
            Reason::RolloutUnhealthy { unhealthy } => {
                write!(f, "{unhealthy} pods crash or cannot start: holding until the rollout is healthy")
            }
            Reason::ScalingWontHelp { ratio, utilization } => write!(
                f,
                "latency is {} times its target at {} % CPU: more replicas would not help, look at the code or a dependency",
                fixed(ratio, 1),
                fixed(utilization * 100.0, 0)
            ),
            Reason::LatencyComfortable { ratio, utilization } => write!(
                f,
                "CPU is at {} %, but latency is at {} % of its target and the load does not grow",
                fixed(utilization * 100.0, 0),
                fixed(ratio * 100.0, 0)
            ),
            Reason::ScalingDisabled => {
                f.write_str("the target was scaled to 0 by somebody else and minReplicas is not 0: standing still")
            }
            Reason::ResumedFromZero => f.write_str("the 0 replicas were ours: resuming at minReplicas"),
            Reason::Activated { qps } => write!(f, "{} requests/s: too much for 0 replicas", fixed(qps, 2)),
            Reason::Idle => f.write_str("no load for long enough to run 0 replicas"),
            Reason::Pinned { replicas } => write!(f, "pinned to {replicas}"),
            Reason::PinClamped { asked, replicas } => {
                write!(f, "the pin to {asked} is outside min..max and became {replicas}")
            }
            Reason::Paused => f.write_str("paused"),
            Reason::ScaleDownPaused => f.write_str("scaling down is paused"),
            Reason::ScaleUpPaused => f.write_str("scaling up is paused"),
            Reason::ClockStepped => f.write_str("the clock went backwards: no scale-down at this tick"),
            Reason::DesiredWithinRange => f.write_str("the present count is right"),
        }
    }
}
