//! Step 3: what to do and what to tell, before anything is done. Pure.
//!
//! In: what was seen and decided, and what status said before. Out: [`Planned`]: a [`Plan`], the status to be and the
//! events to be. Step 4 carries the plan out, [`settled`] adds what became of it.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use rlscaler_api::RLReplicaPolicyStatus;
use rlscaler_api::conditions::{ConditionReason as Why, ConditionType as Kind, EventReason};
use rlscaler_api::status::OverrideStatus;
use rlscaler_api::validate::{Fault, Faults};
use rlscaler_core::Decision;
use rlscaler_core::settings::Mode;

use super::apply::Applied;
use super::conditions::{Facts, Holds, able, finding, findings, merged, paused};
use super::conflicts::Conflict;
use super::seen::Blind;
use super::status::{self, telling_message};
use super::telling::{Severity, Telling};
use crate::call::Class;

/// What to do about the scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// Nothing: the count is what it should be.
    Hold,
    /// The count should be another, but nothing is written: Shadow, or somebody else scales.
    Advise {
        /// Now.
        from: u32,
        /// What it should be.
        to: u32,
    },
    /// Write.
    Scale {
        /// Now.
        from: u32,
        /// What it will be.
        to: u32,
    },
}

impl Plan {
    /// As metrics name it.
    #[must_use]
    pub fn action(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Advise { from, to } if from < to => "advise_up",
            Self::Advise { .. } => "advise_down",
            Self::Scale { from, to } if from < to => "up",
            Self::Scale { .. } => "down",
        }
    }
}

/// The plan, and the status it leads to.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// What to do.
    pub plan: Plan,
    /// What status will say.
    pub status: RLReplicaPolicyStatus,
}

/// What a tick needs besides [`Facts`].
pub struct Frame<'a> {
    /// The clock.
    pub now: Timestamp,
    /// `metadata.generation`.
    pub generation: Option<i64>,
    /// What status said before.
    pub before: &'a RLReplicaPolicyStatus,
    /// The field manager that wrote the override.
    pub by: Option<&'a str>,
    /// Name and content hash of the model.
    pub model: String,
}

/// From a decision to a plan.
#[must_use]
pub fn plan(frame: &Frame<'_>, facts: &Facts<'_>) -> Planned {
    let Frame { now, generation, before, by, model } = frame;
    let decision = facts.decision;
    let mut all = findings(facts);
    all.push(able(facts.settings, decision));
    let status = RLReplicaPolicyStatus {
        observed_generation: *generation,
        current_replicas: Some(status::wire(facts.seen.scale.replicas)),
        desired_replicas: Some(status::wire(decision.replicas())),
        ready_replicas: Some(status::wire(facts.seen.pods.pods.ready)),
        last_scale_time: before.last_scale_time.clone(),
        decision: Some(status::decision(decision, *now)),
        decisions: before.decisions.clone(),
        signals: status::signals(&facts.seen.report.details),
        budget: Some(status::budget(decision)),
        savings: before.savings.clone(),
        shadow: before.shadow.clone(),
        scale_down_hold: status::scale_down_hold(decision),
        override_: status::override_of(facts.will, *by),
        model: Some(model.clone()),
        conditions: merged(&before.conditions, &all, *generation, *now),
        memory: before.memory.clone(),
    };
    Planned { plan: step(facts), status }
}

/// Whether a change is written is decided here and nowhere else.
fn step(facts: &Facts<'_>) -> Plan {
    let (from, to) = (facts.decision.from(), facts.decision.replicas());
    if from == to {
        return Plan::Hold;
    }
    let free = *facts.conflict == Conflict::None || facts.insists;
    match facts.settings.mode {
        Mode::Auto if free => Plan::Scale { from, to },
        Mode::Auto | Mode::Shadow => Plan::Advise { from, to },
    }
}

/// The status after step 4.
#[must_use]
pub fn settled(mut planned: Planned, applied: &Applied, generation: Option<i64>, now: Timestamp) -> Planned {
    let Plan::Scale { from, to } = planned.plan else { return planned };
    let kind = Kind::AbleToScale;
    let outcome = match applied {
        Applied::Scaled => {
            planned.status.current_replicas = Some(status::wire(to));
            planned.status.last_scale_time = Some(Time(now));
            finding(kind, Holds::Yes, Why::SucceededRescale, format!("scaled from {from} to {to}"))
        }
        Applied::Moved { now: count } => finding(
            kind,
            Holds::Yes,
            Why::ReadyForNewScale,
            format!(
                "the replicas became {count} while {to} was being written: left as they are until the next tick"
            ),
        ),
        Applied::Gone => finding(kind, Holds::No, Why::FailedGetScale, "the target does not exist any more"),
        Applied::Failed { why, .. } => finding(
            kind,
            Holds::No,
            Why::FailedUpdateScale,
            format!("scaling from {from} to {to} failed: {why}"),
        ),
    };
    if *applied != Applied::Scaled {
        planned.plan = Plan::Hold;
    }
    planned.status.conditions = merged(&planned.status.conditions, &[outcome], generation, now);
    planned
}

/// The event of a scaling that happened. Its identity is the decision's time, so that a restart repeats none.
#[must_use]
pub fn rescaled(decision: &Decision, now: Timestamp) -> Telling {
    let (from, to) = (decision.from(), decision.replicas());
    Telling {
        severity: Severity::Normal,
        reason: EventReason::SuccessfulRescale.as_str(),
        action: format!("ScaleFrom{from}To{to}"),
        note: format!(
            "New size: {to}; reason: {}; strongest signal: {}; {}",
            decision.main_reason(),
            decision.strongest_signal().map_or("none was read".to_owned(), |signal| signal.to_string()),
            summary(decision)
        ),
        identity: now.as_millisecond().to_string(),
    }
}

/// What a decision stood on, in a line.
fn summary(decision: &Decision) -> String {
    use rlscaler_core::reason::Role;
    let mut parts = vec![format!(
        "was {}, planner {}, proposed {}",
        decision.from(),
        decision.planner(),
        decision.proposed()
    )];
    parts.extend(decision.hpa_would_be().map(|hpa| format!("an HPA would be at {hpa}")));
    let told = [Some(decision.main_reason()), decision.strongest_signal()];
    let others = decision.reasons().iter().filter(|reason| !told.contains(&Some(**reason)));
    let seen = others.clone().filter(|reason| reason.role() == Role::Seen).map(ToString::to_string);
    let spoke = others
        .filter(|reason| matches!(reason.role(), Role::HeldDown | Role::HeldUp | Role::Fixed))
        .map(ToString::to_string);
    parts.extend(seen.chain(spoke));
    parts.join("; ")
}

/// The status of a policy whose target could not be observed. The last decision stands; nothing is written.
#[must_use]
pub fn blind(
    frame: &Frame<'_>,
    mode: Mode,
    will: &rlscaler_api::overrides::Resolved,
    blind: &Blind,
) -> Planned {
    let Frame { now, generation, before, by, model } = frame;
    let mut all =
        vec![finding(Kind::AbleToScale, Holds::No, Why::FailedGetScale, &blind.why), paused(will, mode)];
    match blind.class {
        // A condition of the configuration does not flap with the API server.
        Class::Transient | Class::Bug => {}
        Class::Invalid => all.push(finding(Kind::Ready, Holds::No, Why::FailedGetScale, &blind.why)),
    }
    let status = RLReplicaPolicyStatus {
        observed_generation: *generation,
        override_: status::override_of(will, *by),
        model: Some(model.clone()),
        conditions: merged(&before.conditions, &all, *generation, *now),
        ..(*before).clone()
    };
    Planned { plan: Plan::Hold, status }
}

/// The status of a policy that is refused: all of its faults, and nothing decided.
#[must_use]
pub fn refused(frame: &Frame<'_>, faults: &[Fault]) -> Planned {
    let Frame { now, generation, before, .. } = frame;
    let message = Faults(faults).to_string();
    let all = [
        finding(Kind::Ready, Holds::No, Why::InvalidPolicy, message),
        finding(
            Kind::ScalingActive,
            Holds::No,
            Why::InvalidPolicy,
            "the policy is refused, see Ready: nothing is decided",
        ),
    ];
    let status = RLReplicaPolicyStatus {
        observed_generation: *generation,
        conditions: merged(&before.conditions, &all, *generation, *now),
        ..(*before).clone()
    };
    Planned { plan: Plan::Hold, status }
}

/// Events of everything that changed between two statuses, each once.
#[must_use]
pub fn tellings(before: &RLReplicaPolicyStatus, after: &RLReplicaPolicyStatus, mode: Mode) -> Vec<Telling> {
    let mut tellings = Vec::new();
    for condition in &after.conditions {
        let old = before.conditions.iter().find(|old| old.type_ == condition.type_);
        let same = |old: &Condition| {
            old.status == condition.status
                && old.reason == condition.reason
                && telling_message(old) == telling_message(condition)
        };
        if old.is_some_and(same) {
            continue;
        }
        let was = old.map(|old| old.reason.as_str());
        let Some((severity, reason)) = event_of(&condition.type_, &condition.status, &condition.reason, was)
        else {
            continue;
        };
        let generation = after.observed_generation.unwrap_or_default();
        tellings.push(Telling {
            severity,
            reason: reason.as_str(),
            action: format!("{}Became{}", condition.type_, condition.status),
            note: condition.message.clone(),
            identity: format!(
                "{generation}-{}-{}{}",
                condition.reason,
                condition.last_transition_time.0.as_second(),
                telling_message(condition).unwrap_or_default()
            ),
        });
    }
    tellings.extend(override_telling(before.override_.as_ref(), after.override_.as_ref(), mode, after));
    tellings.extend(shadow_telling(before, after, mode));
    tellings.extend(undone_telling(before, after));
    tellings
}

/// Which event a change of a condition is worth.
fn event_of(kind: &str, holds: &str, why: &str, was: Option<&str>) -> Option<(Severity, EventReason)> {
    use EventReason as Event;
    let of = |wanted: Kind| kind == wanted.as_str();
    let is = |reason: Why| why == reason.as_str();
    let warning = |event| Some((Severity::Warning, event));
    let after = |reason: Why, event| (was == Some(reason.as_str())).then_some((Severity::Normal, event));
    match holds {
        "False" if of(Kind::Ready) && is(Why::InvalidPolicy) => warning(Event::InvalidPolicy),
        "False" if of(Kind::AbleToScale) && is(Why::FailedGetScale) => warning(Event::FailedGetScale),
        "False" if of(Kind::AbleToScale) => warning(Event::FailedRescale),
        "False" if of(Kind::ScalingActive) && is(Why::NoSignal) => warning(Event::SignalLost),
        "True" if of(Kind::ScalingActive) => after(Why::NoSignal, Event::SignalRecovered),
        "True" if of(Kind::ScalingLimited) && is(Why::CapacityUnavailable) => {
            warning(Event::CapacityUnavailable)
        }
        "True" if of(Kind::Paused) && is(Why::OverrideInvalid) => warning(Event::OverrideInvalid),
        "False" if of(Kind::Paused) && is(Why::OverrideExpired) => warning(Event::OverrideExpired),
        "True" if of(Kind::Fallback) => warning(Event::FallbackActive),
        "False" if of(Kind::Fallback) => after(Why::FallbackActive, Event::FallbackEnded),
        "False" if of(Kind::ModelReady) && !is(Why::InsufficientHistory) => warning(Event::ModelRejected),
        "True" if of(Kind::ReplicasConflict) => warning(Event::ReplicasConflict),
        "True" if of(Kind::ScalingWontHelp) => warning(Event::ScalingWontHelp),
        _ => None,
    }
}

fn override_telling(
    before: Option<&OverrideStatus>,
    after: Option<&OverrideStatus>,
    mode: Mode,
    status: &RLReplicaPolicyStatus,
) -> Option<Telling> {
    let paused = status.conditions.iter().find(|condition| condition.type_ == Kind::Paused.as_str())?;
    if paused.reason == Why::OverrideInvalid.as_str() {
        // Told by its condition.
        return None;
    }
    let told = |severity, reason: EventReason, note: String, identity: String| Telling {
        severity,
        reason: reason.as_str(),
        action: "Override".to_owned(),
        note,
        identity,
    };
    match (before, after) {
        (Some(old), None) => {
            // A new pin after this one has another time, so that its release is another event.
            let identity = format!("{old:?}-{}", paused.last_transition_time.0.as_second());
            Some(told(
                Severity::Normal,
                EventReason::OverrideReleased,
                "automatic again".to_owned(),
                identity,
            ))
        }
        (old, Some(new)) if old != Some(new) => {
            let by = new.by.as_ref().map_or(String::new(), |by| format!(", by {by}"));
            let identity = format!("{new:?}-{}", paused.last_transition_time.0.as_second());
            let (severity, reason) = match mode {
                Mode::Shadow => (Severity::Warning, EventReason::OverrideIgnoredInShadow),
                Mode::Auto => (Severity::Normal, EventReason::OverrideApplied),
            };
            Some(told(severity, reason, format!("{}{by}", paused.message), identity))
        }
        _ => None,
    }
}

/// What Auto would have done, once per answer.
fn shadow_telling(
    before: &RLReplicaPolicyStatus,
    after: &RLReplicaPolicyStatus,
    mode: Mode,
) -> Option<Telling> {
    let decision = after.decision.as_ref().filter(|_| mode == Mode::Shadow)?;
    let told_before = before.decision.as_ref().is_some_and(|old| old.to == decision.to);
    if decision.to == decision.from || told_before {
        return None;
    }
    let reason = decision.reasons.first().map_or("", |reason| reason.message.as_str());
    Some(Telling {
        severity: Severity::Normal,
        reason: EventReason::ShadowDecision.as_str(),
        action: format!("WouldScaleFrom{}To{}", decision.from, decision.to),
        note: format!("Would be: {}; is: {}; reason: {reason}", decision.to, decision.from),
        identity: decision.time.0.as_millisecond().to_string(),
    })
}

/// A scale-down that was undone, once for each.
fn undone_telling(before: &RLReplicaPolicyStatus, after: &RLReplicaPolicyStatus) -> Option<Telling> {
    let hold = after.scale_down_hold.as_ref()?;
    if before.scale_down_hold.as_ref().is_some_and(|old| old.since == hold.since) {
        return None;
    }
    let reasons = after.decision.iter().flat_map(|decision| &decision.reasons);
    let why = reasons.into_iter().find(|reason| reason.code == "ScaleDownUndone");
    let why = why.map_or("the objective was no longer met after a scale-down", |why| why.message.as_str());
    Some(Telling {
        severity: Severity::Warning,
        reason: EventReason::ScaleDownUndone.as_str(),
        action: format!("RestoreTo{}", hold.replicas),
        note: format!("{why}; not below {} until {}", hold.replicas, hold.until.0),
        identity: hold.since.0.as_millisecond().to_string(),
    })
}

/// A pin outside min..max that was moved into it.
#[must_use]
pub fn clamped(decision: &Decision, identity: String) -> Option<Telling> {
    let reason = decision.reasons().iter().find(|reason| reason.code() == "PinClamped")?;
    Some(Telling {
        severity: Severity::Warning,
        reason: EventReason::OverrideClamped.as_str(),
        action: "ClampOverride".to_owned(),
        note: format!("{reason}; the annotation rlscaler.io/allow-out-of-bounds: \"true\" allows it"),
        identity,
    })
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
