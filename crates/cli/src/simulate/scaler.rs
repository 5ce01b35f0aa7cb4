//! A policy file as a scaler: the brain with the policy's settings, its override, and the signals it asks for.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use rlscaler_api::overrides::resolve;
use rlscaler_api::policy::OverrideSpec;
use rlscaler_core::settings::DeclaredSignals;
use rlscaler_core::{Brain, Decision, History, Policy, Settings, Signal, Signals};
use rlscaler_sim::metrics::Seen;
use rlscaler_sim::run::Scaler;

/// The brain under one policy.
pub(super) struct PolicyScaler {
    brain: Brain,
    declared: DeclaredSignals,
    model: Arc<dyn Policy>,
    annotations: BTreeMap<String, String>,
    spec: Option<OverrideSpec>,
    start: Timestamp,
    last: Option<Decision>,
}

impl PolicyScaler {
    /// `start`: the time of the run's first second.
    pub(super) fn new(
        settings: Settings,
        model: Arc<dyn Policy>,
        annotations: BTreeMap<String, String>,
        spec: Option<OverrideSpec>,
        start: Timestamp,
    ) -> Self {
        let declared = settings.declared;
        Self { brain: Brain::new(settings), declared, model, annotations, spec, start, last: None }
    }
}

impl Scaler for PolicyScaler {
    fn backfill(&mut self, history: &History) {
        let History { qps, cpu, sla } = history;
        let asked = |declared: bool, samples: &[(f64, f64)]| if declared { samples.to_vec() } else { vec![] };
        self.brain.backfill(&History {
            qps: asked(self.declared.qps, qps),
            cpu: asked(self.declared.cpu, cpu),
            sla: asked(self.declared.sla, sla),
        });
    }

    fn decide(&mut self, seen: &Seen) -> u32 {
        let mut observation = seen.observation;
        observation.signals = asked_for(&observation.signals, self.declared);
        let since = SignedDuration::from_secs(observation.time_secs as i64);
        // A run that reaches the end of time keeps its last moment.
        let now = self.start.checked_add(since).unwrap_or(Timestamp::MAX);
        let will = resolve(&self.annotations, self.spec.as_ref(), now).will;
        let decision = self.brain.decide(self.model.as_ref(), will, &observation);
        self.last = Some(decision);
        decision.replicas()
    }

    fn record_scale(&mut self, time_secs: f64, from: u32, to: u32) {
        self.brain.record_scale(time_secs, from, to);
    }

    fn last_decision(&self) -> Option<&Decision> {
        self.last.as_ref()
    }
}

/// A signal the policy does not ask for is not looked at.
fn asked_for(signals: &Signals, declared: DeclaredSignals) -> Signals {
    let asked = |declared: bool, signal: Signal| if declared { signal } else { Signal::NotDeclared };
    Signals {
        qps: asked(declared.qps, signals.qps),
        latency: asked(declared.latency, signals.latency),
        sla: asked(declared.sla, signals.sla),
        errors: asked(declared.errors, signals.errors),
        cpu: asked(declared.cpu, signals.cpu),
        price: asked(declared.price, signals.price),
    }
}

#[cfg(test)]
mod tests {
    use rlscaler_core::Reading;

    use super::*;

    #[test]
    fn a_signal_that_is_not_asked_for_is_not_seen() {
        let fresh = Signal::Fresh(Reading { value: 1.0, age_secs: None });
        let all = Signals { qps: fresh, latency: fresh, ..Signals::default() };
        let declared = DeclaredSignals { qps: true, ..DeclaredSignals::default() };
        let seen = asked_for(&all, declared);
        assert_eq!((seen.qps, seen.latency), (fresh, Signal::NotDeclared));
    }
}
