//! What a tick leaves behind for metrics. Pure.

use rlscaler_api::conditions::ConditionReason;
use rlscaler_core::driving::Doubt;
use rlscaler_core::observation::Signal;
use rlscaler_core::settings::{Mode, Settings};
use rlscaler_core::{Brain, Decision};
use rlscaler_signals::report::{SignalName, State};

use super::seen::Seen;
use super::state::Known;
use crate::metrics::{PolicySample, SignalSample};
use crate::models::Chosen;

/// The sample, and the failures counted.
pub fn sample(
    decision: &Decision,
    settings: &Settings,
    seen: &Seen,
    model: &Chosen<'_>,
    known: &mut Known,
) -> PolicySample {
    let budget = decision.budget();
    let override_mode = decision.reasons().iter().map(rlscaler_core::Reason::code).find(|code| {
        matches!(*code, "Pinned" | "PinClamped" | "Paused" | "ScaleDownPaused" | "ScaleUpPaused")
    });
    PolicySample {
        current: seen.scale.replicas,
        ready: seen.pods.pods.ready,
        desired: decision.replicas(),
        proposed: decision.proposed(),
        planner: decision.planner(),
        hpa_would_be: decision.hpa_would_be(),
        shadow: (settings.mode == Mode::Shadow).then_some(decision.replicas()),
        override_mode: override_mode.unwrap_or("none"),
        driver: decision.driver().as_str(),
        model: model.describe(),
        model_doubt: match model {
            Chosen::Loaded(_) => decision.doubt().map(Doubt::as_str),
            Chosen::NotFound(_) => Some(ConditionReason::ModelNotFound.as_str()),
            Chosen::Unusable(_) => Some(ConditionReason::SchemaMismatch.as_str()),
        },
        model_multiplier: decision.multiplier(),
        model_takeovers: known.brain.as_ref().map_or(0, Brain::takeovers),
        forecast_drift: known.brain.as_ref().and_then(Brain::forecast_drift),
        budget_remaining_ratio: budget.remaining_ratio,
        burn_1h: budget.burn_1h,
        burn_6h: budget.burn_6h,
        lateness_price: budget.lateness_price,
        shadow_report: known.brain.as_ref().and_then(Brain::shadow),
        scale_downs_undone: known.brain.as_ref().map_or(0, Brain::scale_downs_undone),
        startup_secs: known.startups.p90_secs(),
        signals: signals(seen, known),
    }
}

fn signals(seen: &Seen, known: &mut Known) -> Vec<(SignalName, SignalSample)> {
    let mut samples = Vec::with_capacity(seen.report.details.len());
    for detail in &seen.report.details {
        let failures = known.failures.entry(detail.name).or_default();
        if detail.partial.is_some() || matches!(detail.state, State::Stale | State::Missing | State::Invalid)
        {
            *failures += 1;
        }
        let age_secs = match of(seen, detail.name) {
            Signal::Fresh(reading)
            | Signal::Partial(reading)
            | Signal::Stale(reading)
            | Signal::Estimated(reading) => reading.age_secs,
            Signal::NotDeclared | Signal::Missing | Signal::Invalid | Signal::NotApplicable => None,
        };
        samples.push((detail.name, SignalSample { age_secs, failures: *failures }));
    }
    samples
}

fn of(seen: &Seen, name: SignalName) -> Signal {
    let signals = &seen.report.signals;
    match name {
        SignalName::Qps => signals.qps,
        SignalName::Latency => signals.latency,
        SignalName::Sla => signals.sla,
        SignalName::Errors => signals.errors,
        SignalName::Cpu => signals.cpu,
        SignalName::Price => signals.price,
    }
}
