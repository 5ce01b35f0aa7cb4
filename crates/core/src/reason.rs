//! Why a decision is what it is: a closed set of codes with the numbers behind them. Formatting happens only when
//! somebody reads; deciding allocates nothing for it.

use std::fmt;

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

/// One reason: what was seen, or which term or guardrail spoke. `code()` is UpperCamel and stable; `Display` is the
/// message a person reads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reason {
    /// The queue model asks for this many.
    QueueModel {
        /// Load looked ahead, in busy pods.
        busy_pods: f64,
        /// Replicas.
        replicas: u32,
    },
}

impl Reason {
    /// Stable UpperCamel code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Reason::QueueModel { .. } => "QueueModel",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::QueueModel { busy_pods, replicas } => {
                write!(f, "{busy_pods:.1} busy pods expected need {replicas} replicas to meet the latency target")
            }
        }
    }
}
