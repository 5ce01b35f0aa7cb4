//! Step 2: the brain's answer. Pure but for the brain's own state; the one look at the past is started here and
//! never waited for longer than a part of the interval.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rlscaler_api::overrides::Resolved;
use rlscaler_api::{RLReplicaPolicy, Validated};
use rlscaler_core::settings::Mode;
use rlscaler_core::{Brain, Decision, Observation, PlannerOnly, Policy};
use rlscaler_signals::{HistoryReport, HistoryWindow, ReadSignals, SignalRequest};
use tokio::task::JoinSet;

use super::seen::Seen;
use super::state::{History, Known};
use crate::models::Chosen;

/// How far back is looked, in real time: last week's same hour, and the day it belongs to.
const HISTORY_SPAN_SECS: f64 = 8.0 * 86_400.0;
/// Resolution of the past, in real time.
const HISTORY_STEP_SECS: f64 = 60.0;
/// Longest wait for the past at a policy's first tick; it goes on in the background after that.
const FIRST_WAIT_SECS: f64 = 5.0;
/// Pause before a past that could not be read is asked for again, seconds.
const RETRY_SECS: i64 = 300;

/// The decision.
pub fn decide(
    policy: &RLReplicaPolicy,
    validated: &Validated,
    model: &Chosen<'_>,
    will: &Resolved,
    seen: &Seen,
    known: &mut Known,
) -> Decision {
    let driver: &dyn Policy = match model {
        Chosen::Loaded(loaded) => loaded.policy.as_ref(),
        Chosen::NotFound(_) | Chosen::Unusable(_) => &PlannerOnly,
    };
    let brain = known.brain(policy, validated, &seen.observation);
    match validated.settings.mode {
        Mode::Shadow => brain.follow_shadow(&seen.observation),
        Mode::Auto => brain.leave_shadow(),
    }
    let decision = brain.decide(driver, will.will, &seen.observation);
    brain.explain(driver, decision)
}

/// Takes up what is known of the past: asks for it at the first tick, waits a moment, and looks again at later ones.
pub async fn recall(
    signals: &Arc<dyn ReadSignals>,
    policy: &RLReplicaPolicy,
    validated: &Validated,
    asked: (&SignalRequest, &Observation),
    known: &mut Known,
    now: Timestamp,
) {
    let (request, seen) = asked;
    let mut reading = match std::mem::take(&mut known.history) {
        History::NotAsked => ask(signals, validated, request, now),
        History::Failed { again } if again <= now => ask(signals, validated, request, now),
        History::Reading(reading) => reading,
        done @ (History::Read { .. } | History::Failed { .. }) => {
            known.history = done;
            return;
        }
    };
    let first = known.brain.is_none();
    let wait_secs = if first { FIRST_WAIT_SECS.min(validated.settings.interval_secs / 2.0) } else { 0.0 };
    let joined = tokio::time::timeout(Duration::from_secs_f64(wait_secs), reading.join_next()).await;
    known.history = match joined {
        Err(_) => History::Reading(reading),
        Ok(Some(Ok(report))) => take_up(policy, validated, report, seen, known, now),
        // The reader panicked or was stopped: go on without the past.
        Ok(Some(Err(_)) | None) => History::Failed { again: now + SignedDuration::from_secs(RETRY_SECS) },
    };
}

fn ask(
    signals: &Arc<dyn ReadSignals>,
    validated: &Validated,
    request: &SignalRequest,
    now: Timestamp,
) -> JoinSet<HistoryReport> {
    let window = HistoryWindow {
        span_secs: validated.settings.scaled(HISTORY_SPAN_SECS) as u32,
        step_secs: (validated.settings.scaled(HISTORY_STEP_SECS) as u32).max(1),
    };
    let (signals, request) = (signals.clone(), request.clone());
    let mut reading = JoinSet::new();
    reading.spawn(async move { signals.history(&request, now, window).await });
    reading
}

/// A brain that already decided is rebuilt from its memory around the past: what a restart would do, and as harmless.
fn take_up(
    policy: &RLReplicaPolicy,
    validated: &Validated,
    report: HistoryReport,
    seen: &Observation,
    known: &mut Known,
    now: Timestamp,
) -> History {
    let HistoryReport { history, faults } = report;
    for (signal, fault) in &faults {
        tracing::info!(signal = signal.as_str(), %fault, "the past cannot be read");
    }
    let first = |samples: &[(f64, f64)]| samples.first().map(|(time_secs, _)| *time_secs);
    let since_secs = first(&history.qps).or(first(&history.cpu));
    if since_secs.is_none() && !faults.is_empty() {
        return History::Failed { again: now + SignedDuration::from_secs(RETRY_SECS) };
    }
    if let Some(brain) = &known.brain {
        known.brain = Some(Brain::restore(validated.settings.clone(), &brain.memory()));
    }
    known.brain(policy, validated, seen).backfill(&history);
    History::Read { since_secs }
}

/// Seconds of this service's past that are known.
#[must_use]
pub fn history_secs(known: &Known, now_secs: f64) -> f64 {
    let from_sources = match &known.history {
        History::Read { since_secs } => *since_secs,
        _ => None,
    };
    let started = known.memory.as_ref().map(|memory| memory.started_secs).filter(|secs| 0.0 < *secs);
    let since = [from_sources, started].into_iter().flatten().reduce(f64::min);
    since.map_or(0.0, |since| (now_secs - since).max(0.0))
}
