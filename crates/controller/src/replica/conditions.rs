//! Conditions: what is the matter with a policy, from what was seen and decided. Pure.
//!
//! A condition's `lastTransitionTime` moves only when its status does. The order is that of
//! [`ConditionType::ALL`], always.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use rlscaler_api::conditions::{ConditionReason as Why, ConditionType as Kind};
use rlscaler_api::limits::{MAX_MESSAGE_CHARS, cut};
use rlscaler_api::overrides::Resolved;
use rlscaler_api::validate::{Fault, Faults, Queries};
use rlscaler_core::decision::{Active, Limited};
use rlscaler_core::settings::{Mode, Override, Settings};
use rlscaler_core::{Decision, Driver, Pods, Reason};
use rlscaler_signals::report::SignalReport;

use super::conflicts::Conflict;
use super::pods::{Broken, Counted};
use super::seen::Seen;
use super::wish;
use crate::models::Chosen;
use crate::rivals::RivalKind;

/// True, False, or nobody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// It holds.
    Yes,
    /// It does not.
    No,
    /// Not known.
    Unknown,
}

/// One condition before it has times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Which.
    pub kind: Kind,
    /// Whether it holds.
    pub holds: Holds,
    /// Why.
    pub why: Why,
    /// Why, in a sentence.
    pub message: String,
}

/// Shorthand.
#[must_use]
pub fn finding(kind: Kind, holds: Holds, why: Why, message: impl Into<String>) -> Finding {
    Finding { kind, holds, why, message: message.into() }
}

/// How much of the past the features want, seconds, in real time: one day.
pub const WANTED_HISTORY_SECS: f64 = 86_400.0;

/// What the conditions depend on.
pub struct Facts<'a> {
    /// The policy's settings.
    pub settings: &'a Settings,
    /// A person's will.
    pub will: &'a Resolved,
    /// What the policy asks to be read.
    pub queries: &'a Queries,
    /// What was seen.
    pub seen: &'a Seen,
    /// What was decided.
    pub decision: &'a Decision,
    /// Who stands in the way.
    pub conflict: &'a Conflict,
    /// True when a person insists in spite of a conflict.
    pub insists: bool,
    /// The model.
    pub model: &'a Chosen<'a>,
    /// Seconds of history known, where a model wants one.
    pub history_secs: f64,
    /// What is allowed in the policy but not done as written.
    pub notes: &'a [Fault],
}

/// All conditions of a tick but `AbleToScale`, which step 4 knows.
#[must_use]
pub fn findings(facts: &Facts<'_>) -> Vec<Finding> {
    vec![
        ready(&facts.seen.report, facts.queries, facts.notes),
        active(facts.seen, facts.decision),
        limited(facts.seen, facts.decision),
        paused(facts.will, facts.settings.mode),
        fallback(facts.settings, facts.decision),
        model(facts),
        conflict(facts),
        wont_help(facts.decision),
    ]
}

/// What step 3 already knows of `AbleToScale`.
#[must_use]
pub fn able(settings: &Settings, decision: &Decision) -> Finding {
    let stabilized = decision.reasons().iter().find_map(|reason| match reason {
        Reason::ScaleDownUndone { .. } | Reason::ScaleDownHeldOff { .. } => {
            Some((Why::ScaleDownHeldOff, reason))
        }
        Reason::ScaleDownStabilized { .. } => Some((Why::ScaleDownStabilized, reason)),
        Reason::ScaleUpStabilized { .. } => Some((Why::ScaleUpStabilized, reason)),
        _ => None,
    });
    match (settings.mode, stabilized) {
        (Mode::Shadow, _) => finding(
            Kind::AbleToScale,
            Holds::Yes,
            Why::ShadowMode,
            "mode Shadow: the scale is read and never written",
        ),
        (Mode::Auto, Some((why, reason))) => finding(Kind::AbleToScale, Holds::Yes, why, reason.to_string()),
        (Mode::Auto, None) => finding(
            Kind::AbleToScale,
            Holds::Yes,
            Why::ReadyForNewScale,
            "nothing stands in the way of a new scale",
        ),
    }
}

fn ready(report: &SignalReport, queries: &Queries, notes: &[Fault]) -> Finding {
    let misconfigured: Vec<_> = report.details.iter().filter(|detail| detail.is_misconfigured).collect();
    if !misconfigured.is_empty() {
        let of_text = wish::faults(queries);
        let mut faults: Vec<String> = of_text.iter().map(ToString::to_string).collect();
        // What is not the text's fault is the source's configuration.
        let others = misconfigured.iter().filter_map(|detail| {
            let place = wish::place(queries, detail.name);
            let told = of_text.iter().any(|fault| fault.field.starts_with(&place));
            (!told).then(|| format!("{place}: {}", detail.why.as_deref().unwrap_or("cannot be had")))
        });
        faults.extend(others);
        faults.dedup();
        return finding(Kind::Ready, Holds::No, Why::InvalidPolicy, faults.join("; "));
    }
    let mut message = "the policy is valid and its target exists".to_owned();
    if !notes.is_empty() {
        message = format!("{message}; note: {}", Faults(notes));
    }
    finding(Kind::Ready, Holds::Yes, Why::ValidPolicy, message)
}

fn active(seen: &Seen, decision: &Decision) -> Finding {
    let kind = Kind::ScalingActive;
    let lost = lost(&seen.report);
    match decision.active() {
        Active::ScalingDisabled => {
            finding(kind, Holds::No, Why::ScalingDisabled, Reason::ScalingDisabled.to_string())
        }
        Active::NoSignal => {
            finding(kind, Holds::No, Why::NoSignal, format!("no signal tells the load: {lost}"))
        }
        Active::ValidMetricFound if 1 < seen.pods.ambiguous_owners => {
            let owners = seen.pods.ambiguous_owners;
            let message = format!(
                "the selector matches pods of {owners} owners, none of them known to be the target's"
            );
            finding(kind, Holds::Yes, Why::AmbiguousSelector, message)
        }
        Active::ValidMetricFound if !lost.is_empty() => {
            let message = format!("the load is read; no scale-down while {lost}; {}", pods(&seen.pods));
            finding(kind, Holds::Yes, Why::ValidMetricFound, message)
        }
        Active::ValidMetricFound => {
            let message = format!("the load is read; {}", pods(&seen.pods));
            finding(kind, Holds::Yes, Why::ValidMetricFound, message)
        }
    }
}

/// Which pods stand behind the numbers.
fn pods(counted: &Counted) -> String {
    let Counted { pods, foreign, leaving, .. } = counted;
    let Pods { ready, starting, unschedulable, unhealthy } = *pods;
    let used = counted.total();
    let states = [
        (ready, "ready"),
        (starting, "starting"),
        (unschedulable, "unschedulable"),
        (unhealthy, "unhealthy"),
    ];
    let ignored = [(*foreign, "owned by others"), (*leaving, "terminating or finished")];
    let told = |before: &str, counts: &[(u32, &str)], after: &str| {
        let there = counts.iter().filter(|(count, _)| 0 < *count);
        let there: Vec<String> = there.map(|(count, what)| format!("{count} {what}")).collect();
        if there.is_empty() { String::new() } else { format!("{before}{}{after}", there.join(", ")) }
    };
    format!(
        "of {} pods the selector matches {used} are used{}{}",
        used + counted.ignored(),
        told(" (", &states, ")"),
        told("; ignored: ", &ignored, "")
    )
}

/// The signals that cannot be acted on, each with its cause; empty when all can.
fn lost(report: &SignalReport) -> String {
    use rlscaler_signals::report::{SignalName, State};
    let lost = report.details.iter().filter(|detail| {
        detail.name != SignalName::Price
            && (detail.partial.is_some()
                || matches!(detail.state, State::Stale | State::Missing | State::Invalid))
    });
    let told = lost.map(|detail| {
        let why = detail.why.as_deref().unwrap_or("no reason given");
        let state = if detail.partial.is_some() { "incomplete" } else { detail.state.as_str() };
        format!("{} is {state} ({why})", detail.name)
    });
    told.collect::<Vec<_>>().join("; ")
}

fn limited(seen: &Seen, decision: &Decision) -> Finding {
    let kind = Kind::ScalingLimited;
    let told =
        |code: &str| decision.reasons().iter().find(|reason| reason.code() == code).map(ToString::to_string);
    let unschedulable = seen.observation.pods.unschedulable;
    if 0 < unschedulable {
        // Whether or not more is wanted: what is asked for is not what can be had.
        let reason = Reason::CapacityUnavailable { unschedulable, room: None };
        let why = seen.refused.as_ref().or(seen.pods.unplaced.as_ref());
        let message = why.map_or(reason.to_string(), |why| format!("{reason}: {why}"));
        return finding(kind, Holds::Yes, Why::CapacityUnavailable, message);
    }
    if let Some(limited) = decision.limited() {
        let mut message = told(limited.as_str()).unwrap_or_default();
        if let (Limited::CapacityUnavailable, Some(why)) = (limited, &seen.quota) {
            message = format!("{message}: {why}");
        }
        return finding(kind, Holds::Yes, limited.into(), message);
    }
    match told("RolloutUnhealthy") {
        Some(message) => {
            let example = seen.pods.broken.as_ref().map(|Broken { pod, why, .. }| format!(" ({pod}: {why})"));
            let message = format!("{message}{}", example.unwrap_or_default());
            finding(kind, Holds::Yes, Why::RolloutUnhealthy, message)
        }
        None => finding(kind, Holds::No, Why::DesiredWithinRange, "the number is what was asked for"),
    }
}

/// Why scaling is paused, from the will alone, so that a policy whose target is lost can say so, too.
#[must_use]
pub fn paused(will: &Resolved, mode: Mode) -> Finding {
    let kind = Kind::Paused;
    if let Some(warning) = will.invalid().filter(|_| will.will == Override::Pause) {
        return finding(kind, Holds::Yes, Why::OverrideInvalid, warning.to_string());
    }
    let because = will.reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
    let until = will.until.map_or(String::new(), |until| format!(", until {until}"));
    let shadow = if mode == Mode::Shadow { " (mode Shadow: nothing is written)" } else { "" };
    let told = |what: String| format!("{what}{until}{because}{shadow}");
    match will.will {
        Override::Pin { replicas, .. } => {
            finding(kind, Holds::Yes, Why::Pinned, told(format!("pinned to {replicas}")))
        }
        Override::Pause => finding(kind, Holds::Yes, Why::PausedByUser, told("paused".to_owned())),
        Override::PauseScaleDown => {
            finding(kind, Holds::Yes, Why::ScaleDownPaused, told("scaling down is paused".to_owned()))
        }
        Override::PauseScaleUp => {
            finding(kind, Holds::Yes, Why::ScaleUpPaused, told("scaling up is paused".to_owned()))
        }
        Override::None => match will.expired() {
            Some(expired) => finding(kind, Holds::No, Why::OverrideExpired, expired.to_string()),
            None => finding(kind, Holds::No, Why::Automatic, "automatic"),
        },
    }
}

fn fallback(settings: &Settings, decision: &Decision) -> Finding {
    let kind = Kind::Fallback;
    let active = decision.reasons().iter().find(|reason| matches!(reason, Reason::FallbackActive { .. }));
    match (active, settings.fallback) {
        (Some(reason), _) => finding(kind, Holds::Yes, Why::FallbackActive, reason.to_string()),
        (None, None) => finding(kind, Holds::No, Why::FallbackNotDeclared, "the policy declares no fallback"),
        (None, Some(_)) => {
            finding(kind, Holds::No, Why::FallbackNotNeeded, "signals are read, or not lost for long enough")
        }
    }
}

fn model(facts: &Facts<'_>) -> Finding {
    let kind = Kind::ModelReady;
    let no = |why, message: String| finding(kind, Holds::No, why, message);
    let loaded = match facts.model {
        Chosen::NotFound(name) => {
            return no(Why::ModelNotFound, format!("no model named {name:?} is loaded: the planner drives"));
        }
        Chosen::Unusable(why) => return no(Why::SchemaMismatch, format!("{why}: the planner drives")),
        Chosen::Loaded(loaded) => loaded,
    };
    let name = loaded.policy.describe();
    if let Some(doubt) = facts.decision.doubt() {
        // The same words for as long as it stands: what is said of a doubt now and of the calm after it differ.
        return no(doubt.into(), format!("{name}: the planner drives until all has been calm: {doubt}"));
    }
    if !loaded.trained {
        let message = format!("{name}: untrained, it answers exactly as the planner");
        return finding(kind, Holds::Yes, Why::ModelUntrained, message);
    }
    let wanted_secs = facts.settings.scaled(WANTED_HISTORY_SECS);
    if facts.history_secs < wanted_secs {
        let message = format!(
            "{name}: have {} need {} of this service's history for what repeats by the day; acting without it",
            hours(facts.history_secs),
            hours(wanted_secs)
        );
        return no(Why::InsufficientHistory, message);
    }
    match facts.decision.driver() {
        Driver::Model => finding(kind, Holds::Yes, Why::ModelLoaded, format!("{name} drives")),
        driver => finding(
            kind,
            Holds::Yes,
            Why::ModelLoaded,
            format!("{name} is loaded; {} drives now", driver.as_str()),
        ),
    }
}

/// `2h`, `1.5h`, `40s`.
fn hours(secs: f64) -> String {
    if secs < 360.0 {
        return format!("{secs:.0}s");
    }
    let text = format!("{:.1}", secs / 3600.0);
    format!("{}h", text.strip_suffix(".0").unwrap_or(&text))
}

fn conflict(facts: &Facts<'_>) -> Finding {
    let kind = Kind::ReplicasConflict;
    let why = match facts.conflict {
        Conflict::None => return finding(kind, Holds::No, Why::NoConflict, facts.conflict.message()),
        Conflict::Unknown => {
            return finding(kind, Holds::Unknown, Why::NotYetKnown, facts.conflict.message());
        }
        Conflict::Autoscaler(RivalKind::ScaledObject, _) => Why::ScaledObject,
        Conflict::Autoscaler(..) => Why::HorizontalPodAutoscaler,
        Conflict::OlderPolicy(_) => Why::OlderPolicy,
        Conflict::Writers(..) => Why::OtherWriter,
    };
    if facts.insists {
        let message =
            format!("{}; rlscaler.io/ignore-conflicts says to scale all the same", facts.conflict.message());
        return finding(kind, Holds::Yes, Why::ConflictIgnored, message);
    }
    let message = match facts.settings.mode {
        Mode::Auto => facts.conflict.message(),
        Mode::Shadow => {
            format!("{} (mode Shadow: nothing would be written anyway)", facts.conflict.message())
        }
    };
    finding(kind, Holds::Yes, why, message)
}

fn wont_help(decision: &Decision) -> Finding {
    let kind = Kind::ScalingWontHelp;
    match decision.scaling_wont_help() {
        Some(reason) => finding(kind, Holds::Yes, Why::LatencyWithoutLoad, reason.to_string()),
        None => finding(kind, Holds::No, Why::ScalingHelps, "latency follows the load"),
    }
}

/// Puts findings into the list of conditions, in the order of [`Kind::ALL`]; what is not among the findings stays.
#[must_use]
pub fn merged(
    before: &[Condition],
    findings: &[Finding],
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    let of = |kind: Kind| before.iter().find(|condition| condition.type_ == kind.as_str());
    let condition = |kind: &Kind| {
        let old = of(*kind);
        let Some(finding) = findings.iter().find(|finding| finding.kind == *kind) else {
            return old.cloned();
        };
        let status = match finding.holds {
            Holds::Yes => "True",
            Holds::No => "False",
            Holds::Unknown => "Unknown",
        };
        let since = old.filter(|old| old.status == status).map(|old| old.last_transition_time.clone());
        Some(Condition {
            type_: kind.as_str().to_owned(),
            status: status.to_owned(),
            reason: finding.why.as_str().to_owned(),
            message: cut(&finding.message, MAX_MESSAGE_CHARS),
            last_transition_time: since.unwrap_or(Time(now)),
            observed_generation: generation,
        })
    };
    Kind::ALL.iter().filter_map(condition).collect()
}
