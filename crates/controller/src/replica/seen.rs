//! What step 1 brings back: plain data, so that everything after it is pure.

use rlscaler_core::Observation;
use rlscaler_signals::report::SignalReport;

use super::pods::Counted;
use super::rewrites::Quarrel;
use super::target::Scale;
use crate::call::Class;
use crate::rivals::Rival;

/// Everything seen at one tick.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// For the brain.
    pub observation: Observation,
    /// The target's scale.
    pub scale: Scale,
    /// The target's pods.
    pub pods: Counted,
    /// The signals, with what a person needs to check them.
    pub report: SignalReport,
    /// Pods are refused, most often by a quota: what the target's condition says.
    pub refused: Option<String>,
    /// The quota that leaves least room, and by what.
    pub quota: Option<String>,
    /// Who else may write the replicas.
    pub rivals: Others,
}

/// Who else may write the replicas.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Others {
    /// False until all kinds of autoscalers were listed once: nothing may be written before.
    pub known: bool,
    /// Other autoscalers on the target.
    pub autoscalers: Vec<Rival>,
    /// Name of the oldest policy on the target that is older than this one.
    pub older_policy: Option<String>,
    /// Field managers that keep rewriting the replicas, and until when they are left alone.
    pub quarrel: Option<Quarrel>,
}

/// Why the target could not be observed. Replicas are left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blind {
    /// Whose move it is.
    pub class: Class,
    /// What the API server said.
    pub why: String,
}
