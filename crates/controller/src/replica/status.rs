//! From what was seen and decided to the wire's status. Pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use rlscaler_api::RLReplicaPolicyStatus;
use rlscaler_api::conditions::ConditionReason;
use rlscaler_api::limits::{MAX_MESSAGE_CHARS, MAX_NAME_CHARS, MAX_STATUS_REASONS, cut};
use rlscaler_api::overrides::Resolved;
use rlscaler_api::status::{
    BudgetStatus, DecisionStatus, MAX_STATUS_QUERY_CHARS, OverrideStatus, ReasonStatus, ScaleDownHoldStatus,
    SignalState, SignalStatus,
};
use rlscaler_core::settings::Override;
use rlscaler_core::{Decision, Reason};
use rlscaler_signals::report::{SignalDetail, State};

/// Seconds between two writes of a status in which nothing of weight changed.
pub const MIN_WRITE_SECS: f64 = 60.0;

/// A replica count as the wire has it.
#[must_use]
pub fn wire(replicas: u32) -> i32 {
    i32::try_from(replicas).unwrap_or(i32::MAX)
}

/// The decision, the reason that explains it best first.
#[must_use]
pub fn decision(decision: &Decision, now: Timestamp) -> DecisionStatus {
    let main = decision.main_reason();
    let others = decision.reasons().iter().filter(|reason| **reason != main);
    let reasons = std::iter::once(&main).chain(others).take(MAX_STATUS_REASONS).map(reason).collect();
    DecisionStatus {
        time: Time(now),
        from: wire(decision.from()),
        to: wire(decision.replicas()),
        proposed: wire(decision.proposed()),
        planner: wire(decision.planner()),
        hpa_would_be: decision.hpa_would_be().map(wire),
        driver: decision.driver().as_str().to_owned(),
        action: None,
        why_not_more: Some(decision.why_not_more().code().to_owned()),
        why_not_fewer: Some(decision.why_not_fewer().code().to_owned()),
        reasons,
    }
}

fn reason(reason: &Reason) -> ReasonStatus {
    ReasonStatus { code: reason.code().to_owned(), message: cut(&reason.to_string(), MAX_MESSAGE_CHARS) }
}

/// The signals, in the order they always have.
#[must_use]
pub fn signals(details: &[SignalDetail]) -> Vec<SignalStatus> {
    details
        .iter()
        .map(|detail| SignalStatus {
            name: detail.name.as_str().to_owned(),
            value: detail.value.as_ref().map(|value| cut(value, MAX_NAME_CHARS)),
            unit: Some(detail.unit.to_owned()),
            sample_time: detail.sample_time.map(Time),
            query: Some(cut(&detail.query, MAX_STATUS_QUERY_CHARS)),
            state: state(detail.state),
            message: detail.why.as_ref().map(|why| cut(why, MAX_MESSAGE_CHARS)),
        })
        .collect()
}

fn state(state: State) -> SignalState {
    match state {
        State::Fresh => SignalState::Fresh,
        State::Stale => SignalState::Stale,
        State::Missing => SignalState::Missing,
        State::Invalid => SignalState::Invalid,
        State::Estimated => SignalState::Estimated,
        State::NotApplicable => SignalState::NotApplicable,
    }
}

/// The error budget.
#[must_use]
pub fn budget(decision: &Decision) -> BudgetStatus {
    let report = decision.budget();
    BudgetStatus {
        sla_percent: trimmed(report.sla * 100.0, 4),
        remaining_percent: trimmed(report.remaining_ratio * 100.0, 1),
        burn_rate_1h: trimmed(report.burn_1h, 2),
        burn_rate_6h: trimmed(report.burn_6h, 2),
        lateness_price: trimmed(report.lateness_price, 1),
    }
}

/// The scale-down that was undone and is held off.
#[must_use]
pub fn scale_down_hold(decision: &Decision) -> Option<ScaleDownHoldStatus> {
    let hold = decision.hold_off()?;
    Some(ScaleDownHoldStatus {
        since: time(hold.since_secs)?,
        replicas: wire(hold.replicas),
        until: time(hold.until_secs)?,
    })
}

/// Unix seconds as the wire has them, whole; `None` for a time no calendar has.
pub(super) fn time(secs: f64) -> Option<Time> {
    Timestamp::from_second(secs.floor() as i64).ok().map(Time)
}

/// A decimal without needless zeros.
pub(super) fn trimmed(number: f64, digits: usize) -> String {
    let text = format!("{number:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// The person's will that is in force.
#[must_use]
pub fn override_of(will: &Resolved, by: Option<&str>) -> Option<OverrideStatus> {
    let mode = will.mode()?;
    let replicas = match will.will {
        Override::Pin { replicas, .. } => Some(wire(replicas)),
        _ => None,
    };
    Some(OverrideStatus {
        mode,
        replicas,
        from: will.from?,
        by: by.map(str::to_owned),
        reason: will.reason.clone(),
        until: will.until.map(Time),
    })
}

/// Whether the status must reach the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// A condition, the decision, an override, the model or the generation changed.
    Now,
    /// Only numbers changed, and the last write is a while ago.
    Refresh,
    /// Only numbers changed, or nothing did.
    Later,
}

/// Compares with what was written last.
#[must_use]
pub fn must_write(written: &RLReplicaPolicyStatus, new: &RLReplicaPolicyStatus, since_secs: f64) -> Write {
    if essence(written) != essence(new) {
        Write::Now
    } else if MIN_WRITE_SECS <= since_secs && written != new {
        Write::Refresh
    } else {
        Write::Later
    }
}

/// What makes two statuses different for a person; numbers that move at every tick are not among it.
fn essence(status: &RLReplicaPolicyStatus) -> impl PartialEq + '_ {
    let conditions: Vec<_> = status
        .conditions
        .iter()
        .map(|condition| (&condition.type_, &condition.status, &condition.reason, telling_message(condition)))
        .collect();
    let decision = status.decision.as_ref().map(|decision| (decision.from, decision.to, &decision.driver));
    let savings_known = status.savings.is_some();
    let signals: Vec<_> = status.signals.iter().map(|signal| (&signal.name, signal.state)).collect();
    let all_ready = status.ready_replicas == status.current_replicas;
    (
        conditions,
        decision,
        signals,
        all_ready,
        &status.override_,
        &status.model,
        status.observed_generation,
        status.current_replicas,
        &status.last_scale_time,
        savings_known,
        &status.scale_down_hold,
        status.shadow.as_ref().map(|shadow| shadow.trust),
    )
}

/// The message where it is what is told: which annotation cannot be read.
#[must_use]
pub fn telling_message(condition: &Condition) -> Option<&str> {
    (condition.reason == ConditionReason::OverrideInvalid.as_str()).then_some(condition.message.as_str())
}
