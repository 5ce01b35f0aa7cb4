//! The very brain the operator runs, as a scaler: the planner alone, or a model on top of it.

use std::sync::Arc;

use rlscaler_core::{Brain, Decision, History, Override, Policy, Settings};

use crate::metrics::Seen;
use crate::run::Scaler;

/// A brain and what advises it.
pub struct BrainScaler {
    brain: Brain,
    policy: Arc<dyn Policy>,
    will: Override,
    last: Option<Decision>,
}

impl BrainScaler {
    /// A brain that has seen nothing.
    #[must_use]
    pub fn new(settings: Settings, policy: Arc<dyn Policy>) -> Self {
        Self::with_override(settings, policy, Override::None)
    }

    /// The same under a person's will, from the first decision to the last.
    #[must_use]
    pub fn with_override(settings: Settings, policy: Arc<dyn Policy>, will: Override) -> Self {
        Self { brain: Brain::new(settings), policy, will, last: None }
    }
}

impl Scaler for BrainScaler {
    fn backfill(&mut self, history: &History) {
        self.brain.backfill(history);
    }

    fn decide(&mut self, seen: &Seen) -> u32 {
        let decision = self.brain.decide(self.policy.as_ref(), self.will, &seen.observation);
        self.last.insert(decision).replicas()
    }

    fn record_scale(&mut self, time_secs: f64, from: u32, to: u32) {
        self.brain.record_scale(time_secs, from, to);
    }

    fn last_decision(&self) -> Option<&Decision> {
        self.last.as_ref()
    }
}
