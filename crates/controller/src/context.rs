//! What every tick is given: clients, clock, sources, models, and the states of all policies.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use kube::runtime::reflector::Store;
use rlscaler_api::Limits;
use rlscaler_signals::ReadSignals;

use crate::claims::Claims;
use crate::metrics::{Metrics, PolicyKey};
use crate::models::Models;
use crate::quotas::Quotas;
use crate::replica::state::Known;
use crate::replica::target::Kinds;
use crate::retry::Quiet;
use crate::rivals::Rivals;
use crate::run::Guarded;

/// The time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Time that passed since some moment, by a clock that nobody sets: how long things lasted.
pub type Steady = Arc<dyn Fn() -> Duration + Send + Sync>;

/// Given to every tick.
pub struct Context {
    /// The API server.
    pub client: Client,
    /// Where signals come from.
    pub signals: Arc<dyn ReadSignals>,
    /// Models by name.
    pub models: Models,
    /// Counters.
    pub metrics: Metrics,
    /// Other autoscalers.
    pub rivals: Arc<Rivals>,
    /// What namespaces have room for.
    pub quotas: Arc<Quotas>,
    /// Targets claimed by policies.
    pub claims: Claims,
    /// Keeps the log readable.
    pub quiet: Quiet,
    /// Resources by kind.
    pub kinds: Kinds,
    /// The time.
    pub clock: Clock,
    /// How long things last.
    pub steady: Steady,
    /// Of all policies.
    pub limits: Limits,
    /// This process, in events.
    pub instance: String,
    /// All policies, as watched.
    pub policies: Store<Guarded>,
    /// What is kept between ticks.
    pub states: States,
}

/// What is kept between ticks, by the policy's UID.
#[derive(Default)]
pub struct States {
    by_uid: Mutex<HashMap<String, Entry>>,
}

struct Entry {
    key: PolicyKey,
    known: Arc<tokio::sync::Mutex<Known>>,
}

impl States {
    /// The policy's state, new when it was never seen.
    #[must_use]
    pub fn of(&self, uid: &str, key: &PolicyKey) -> Arc<tokio::sync::Mutex<Known>> {
        let mut by_uid = self.by_uid.lock().expect("no panic while locked");
        let entry = by_uid.entry(uid.to_owned());
        entry.or_insert_with(|| Entry { key: key.clone(), known: Arc::default() }).known.clone()
    }

    /// Whether the policy is still there: a tick that ends after its policy must leave nothing behind.
    #[must_use]
    pub fn has(&self, uid: &str) -> bool {
        self.by_uid.lock().expect("no panic while locked").contains_key(uid)
    }

    /// Forgets one policy.
    pub fn forget(&self, uid: &str) -> Option<PolicyKey> {
        self.by_uid.lock().expect("no panic while locked").remove(uid).map(|entry| entry.key)
    }

    /// Forgets every policy that is not among the living.
    pub fn retain(&self, living: impl Fn(&str) -> bool) -> Vec<PolicyKey> {
        let mut by_uid = self.by_uid.lock().expect("no panic while locked");
        let dead: Vec<String> = by_uid.keys().filter(|uid| !living(uid)).cloned().collect();
        dead.iter().filter_map(|uid| by_uid.remove(uid)).map(|entry| entry.key).collect()
    }

    /// Policies known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_uid.lock().expect("no panic while locked").len()
    }

    /// True when there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What probes ask.
#[derive(Debug, Default)]
pub struct Health {
    stopped: AtomicBool,
    ready: AtomicBool,
}

impl Health {
    /// False when the controller has stopped and the process should be restarted.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        !self.stopped.load(Ordering::Relaxed)
    }

    /// True once the policies were listed, or while standing by for the lease.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    /// Standing by, or listed.
    pub fn set_ready(&self) {
        self.ready.store(true, Ordering::Relaxed);
    }

    /// Nothing will happen any more.
    pub fn set_stopped(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}
