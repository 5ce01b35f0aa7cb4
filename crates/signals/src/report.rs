//! What a read brings back: numbers for the brain, and for every signal what a person needs to check them.

use std::fmt;

use jiff::Timestamp;
use rlscaler_core::observation::Signals;
use rlscaler_core::text::{exact, fixed};

use crate::fault::FaultClass;

/// The signals of one policy at one tick.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SignalReport {
    /// For the brain.
    pub signals: Signals,
    /// Ready pods the CPU signal is the sum of; `None`: it is not summed over pods here.
    pub cpu_pods: Option<u32>,
    /// For people: one entry for each declared signal, in the order of [`SignalName::ALL`].
    pub details: Vec<SignalDetail>,
    /// What a person should look at although the signals could be read.
    pub hints: Vec<Hint>,
}

impl SignalReport {
    /// The detail of one signal, where declared.
    #[must_use]
    pub fn detail(&self, name: SignalName) -> Option<&SignalDetail> {
        self.details.iter().find(|detail| detail.name == name)
    }
}

/// A signal's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SignalName {
    /// Requests per second offered.
    Qps,
    /// Latency at the policy's percentile.
    Latency,
    /// Share within the target.
    Sla,
    /// Share that failed.
    Errors,
    /// Cores used.
    Cpu,
    /// Price of a replica-hour.
    Price,
}

impl SignalName {
    /// In the order in which they are listed; the order never changes, so that lists in status keep theirs.
    pub const ALL: [Self; 6] = [Self::Qps, Self::Latency, Self::Sla, Self::Errors, Self::Cpu, Self::Price];

    /// As written in status and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Qps => "qps",
            Self::Latency => "latency",
            Self::Sla => "sla",
            Self::Errors => "errors",
            Self::Cpu => "cpu",
            Self::Price => "price",
        }
    }

    /// Unit of the brain's number.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            Self::Qps => "requests/s",
            Self::Latency => "seconds",
            Self::Sla | Self::Errors => "ratio",
            Self::Cpu => "cores",
            Self::Price => "per replica-hour",
        }
    }
}

impl fmt::Display for SignalName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What became of one signal, as status writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Read, and young enough to act on.
    Fresh,
    /// Read, but too old.
    Stale,
    /// Not obtained.
    Missing,
    /// Obtained but unusable.
    Invalid,
    /// Derived by the brain, not measured. Never made here.
    Estimated,
    /// Undefined because nothing was asked of the service.
    NotApplicable,
}

impl State {
    /// UpperCamel, as in status.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fresh => "Fresh",
            Self::Stale => "Stale",
            Self::Missing => "Missing",
            Self::Invalid => "Invalid",
            Self::Estimated => "Estimated",
            Self::NotApplicable => "NotApplicable",
        }
    }
}

/// One signal for people: enough to run the same query by hand and see the same number.
#[derive(Debug, Clone, PartialEq)]
pub struct SignalDetail {
    /// Which one.
    pub name: SignalName,
    /// The number as the source gave it, in `unit`; `None` when there was none.
    pub value: Option<String>,
    /// Unit of `value`.
    pub unit: &'static str,
    /// Exactly what was asked; for the metrics API the path.
    pub query: String,
    /// When the newest sample behind the value was taken, where known.
    pub sample_time: Option<Timestamp>,
    /// What became of it.
    pub state: State,
    /// Why it is not `Fresh`, or a remark on how a fresh one came about.
    pub why: Option<String>,
    /// Of which part of the data the value is, in the source's words; `None` when of all of it.
    pub partial: Option<String>,
    /// Class of the fault behind `why`; `None` when nothing failed.
    pub fault: Option<FaultClass>,
    /// The policy asks for what cannot be had: an unknown or forbidden source, or a query that is no PromQL.
    pub is_misconfigured: bool,
}

/// Something a person should look at. Nothing is corrected on its account.
#[derive(Debug, Clone, PartialEq)]
pub enum Hint {
    /// The latency is so far above the target that it looks like milliseconds declared as seconds.
    UnitLooksWrong {
        /// The latency read, seconds as declared.
        value_secs: f64,
        /// The policy's target.
        target_secs: f64,
    },
    /// The source's clock and the operator's differ.
    ClockSkew {
        /// The source.
        source: String,
        /// Source minus operator, seconds.
        ahead_secs: f64,
    },
    /// The source answered with a warning of its own.
    SourceWarning {
        /// The signal concerned.
        signal: SignalName,
        /// What the source said, cut to a printable length.
        text: String,
    },
    /// A number below zero, which no signal can have; it is not used.
    Negative {
        /// The signal concerned.
        signal: SignalName,
        /// As the source wrote it.
        raw: String,
    },
    /// The price cannot be used; the cost term is neutral.
    PriceUnusable {
        /// What was wrong.
        why: String,
    },
}

impl Hint {
    /// UpperCamel, for the reason of an event.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnitLooksWrong { .. } => "LatencyUnitLooksWrong",
            Self::ClockSkew { .. } => "SourceClockSkew",
            Self::SourceWarning { .. } => "SourceWarning",
            Self::Negative { .. } => "SignalNegative",
            Self::PriceUnusable { .. } => "PriceUnusable",
        }
    }
}

impl Hint {
    /// What of several things the same code may tell of, so that each is told.
    #[must_use]
    pub fn about(&self) -> &str {
        match self {
            Self::UnitLooksWrong { .. } | Self::PriceUnusable { .. } => "",
            Self::ClockSkew { source, .. } => source,
            Self::SourceWarning { signal, .. } | Self::Negative { signal, .. } => signal.as_str(),
        }
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnitLooksWrong { value_secs, target_secs } => write!(
                f,
                "the latency of {} s is {} times the target of {} s: if the query answers in milliseconds, set \
                 `unit: Milliseconds`",
                exact(*value_secs),
                fixed(value_secs / target_secs, 0),
                exact(*target_secs)
            ),
            Self::ClockSkew { source, ahead_secs } => write!(
                f,
                "the clock of source {source} is {} s {} the operator's",
                fixed(ahead_secs.abs(), 0),
                if *ahead_secs < 0.0 { "behind" } else { "ahead of" }
            ),
            Self::SourceWarning { signal, text } => write!(f, "the source warns about {signal}: {text}"),
            Self::Negative { signal, raw } => {
                write!(
                    f,
                    "{signal} is negative ({raw}) and not used: look at its query, a counter is not a rate"
                )
            }
            Self::PriceUnusable { why } => write!(f, "the price is not used: {why}"),
        }
    }
}
