//! The brain of one policy.

use crate::budget::BudgetReport;
use crate::decision::Decision;
use crate::decision::{Active, Parts, Reasons};
use crate::memory::Memory;
use crate::observation::{History, Observation};
use crate::policy::Policy;
use crate::reason::Driver;
use crate::settings::{Override, Settings};

/// All bounded state of one policy.
#[derive(Debug, Clone)]
pub struct Brain {
    settings: Settings,
}

impl Brain {
    /// A brain that has seen nothing.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings }
    }

    /// As it was before a restart; call [`Brain::backfill`] then, where there is a history.
    #[must_use]
    pub fn restore(settings: Settings, _memory: &Memory) -> Self {
        Self { settings }
    }

    /// An edited policy keeps what it has learnt.
    pub fn replace_settings(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// What must survive a restart.
    #[must_use]
    pub fn memory(&self) -> Memory {
        Memory::default()
    }

    /// What Prometheus remembers; at most once, before the first decide.
    pub fn backfill(&mut self, _history: &History) {}

    /// One tick. Pure but for the brain's own state.
    pub fn decide(&mut self, _policy: &dyn Policy, _will: Override, seen: &Observation) -> Decision {
        Decision::new(Parts {
            time_secs: seen.time_secs,
            from: seen.replicas,
            replicas: seen.replicas,
            proposed: seen.replicas,
            planner: seen.replicas,
            hpa_would_be: None,
            driver: Driver::Hold,
            active: Active::NoSignal,
            value: None,
            budget: BudgetReport::default(),
            reasons: Reasons::default(),
        })
    }

    /// A scaling of ours really happened.
    pub fn record_scale(&mut self, _time_secs: f64, _from: u32, _to: u32) {}
}
