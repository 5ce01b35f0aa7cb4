//! What is kept of a policy between two ticks, by its UID: gone with the policy, rebuilt after a restart.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rlscaler_api::status::MemoryStatus;
use rlscaler_api::{Fault, Limits, RLReplicaPolicy, RLReplicaPolicyStatus, Validated, memory, validate};
use rlscaler_core::memory::Recommendation;
use rlscaler_core::{Brain, Memory, Observation};
use rlscaler_signals::HistoryReport;
use rlscaler_signals::report::SignalName;
use tokio::task::JoinSet;

use super::recent::Recent;
use super::rewrites::Rewrites;
use super::savings::Savings;
use super::startup::Startups;
use super::untold::Untold;
use crate::call::Class;
use crate::retry::Retry;

/// Things told once and remembered as told; beyond this the oldest memory is worth a repeated event.
const MAX_TOLD: usize = 64;

/// A timer and the clock may differ by this much: a tick so little before its time is the one that was due.
const EARLY_SLACK: SignedDuration = SignedDuration::from_millis(50);

/// Between ticks.
#[derive(Default)]
pub struct Known {
    /// `None` before the first tick; the policy as last validated, and its generation.
    pub validated: Option<(Option<i64>, Validated)>,
    /// Decides. `None` before the first tick and after a panic.
    pub brain: Option<Brain>,
    /// The last memory handed to status, to begin anew with after a panic.
    pub memory: Option<Memory>,
    /// True when status had a memory that could not be read.
    pub memory_lost: bool,
    /// Start-up times.
    pub startups: Startups,
    /// ReplicaSet UID to the UID of its controller.
    pub replica_sets: BTreeMap<String, String>,
    /// Changes of the replicas by others; see [`Known::resume`].
    pub rewrites: Rewrites,
    /// The last decisions, for people.
    pub recent: Recent,
    /// True once what status remembers was taken up.
    pub resumed: bool,
    /// Reading the target.
    pub sight: Retry,
    /// Writing the status.
    pub writing: Retry,
    /// The scaling that was refused last.
    pub refusal: Option<Refusal>,
    /// Events that could not be written yet.
    pub untold: Untold,
    /// When the last decision was made, by the clock that nobody sets.
    pub decided: Option<Duration>,
    /// When the next decision is due.
    pub due: Option<Timestamp>,
    /// The status last written, and when.
    pub written: Option<(RLReplicaPolicyStatus, Timestamp)>,
    /// Replica-hours.
    pub savings: Option<Savings>,
    /// The past, as far as sources remember it.
    pub history: History,
    /// Ticks at which a signal could not be acted on.
    pub failures: BTreeMap<SignalName, u64>,
    /// Hints already told.
    pub told: BTreeSet<String>,
}

/// A scaling that was refused: asked for again only after a while, or when the number is another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Replicas refused.
    pub to: u32,
    /// What the API server said.
    pub why: String,
    /// When it is asked again.
    pub retry: Retry,
}

/// The one-time look at the past.
#[derive(Default)]
pub enum History {
    /// Not asked for yet.
    #[default]
    NotAsked,
    /// Being read in the background.
    Reading(JoinSet<HistoryReport>),
    /// Read, with the time of the oldest sample.
    Read {
        /// Unix time.
        since_secs: Option<f64>,
    },
    /// It failed; asked again later.
    Failed {
        /// When.
        again: Timestamp,
    },
}

impl Known {
    /// What status said last: what we wrote, or what the object holds when nothing was written yet.
    #[must_use]
    pub fn before(&self, policy: &RLReplicaPolicy) -> RLReplicaPolicyStatus {
        match &self.written {
            Some((status, _)) => status.clone(),
            None => policy.status.clone().unwrap_or_default(),
        }
    }

    /// Takes up what status remembers beside the brain's memory, once.
    pub fn resume(&mut self, policy: &RLReplicaPolicy) {
        if !std::mem::replace(&mut self.resumed, true) {
            self.recent =
                policy.status.as_ref().map_or(Recent::default(), |status| Recent::resume(&status.decisions));
            let memory = policy.status.as_ref().and_then(|status| status.memory.as_ref());
            let stored = memory.and_then(|memory| memory.rewrites.as_ref());
            self.rewrites = stored.map_or(Rewrites::default(), Rewrites::from_status);
        }
    }

    /// What must survive a restart, for status.
    #[must_use]
    pub fn memory_status(&self, memory: &Memory) -> MemoryStatus {
        MemoryStatus { rewrites: self.rewrites.to_status(), ..memory::to_status(memory) }
    }

    /// Why a scaling to this number is not asked for now: it was refused, and nothing changed since.
    #[must_use]
    pub fn still_refused(&self, to: u32, now: Timestamp) -> Option<String> {
        let refusal =
            self.refusal.as_ref().filter(|refusal| refusal.to == to && !refusal.retry.is_due(now))?;
        Some(refusal.why.clone())
    }

    /// A scaling failed.
    pub fn refused(&mut self, to: u32, class: Class, why: &str, now: Timestamp, interval: SignedDuration) {
        let before = self.refusal.take().filter(|refusal| refusal.to == to);
        let mut retry = before.map_or(Retry::default(), |refusal| refusal.retry);
        retry.failed(class, now, interval);
        self.refusal = Some(Refusal { to, why: why.to_owned(), retry });
    }

    /// The policy's settings, checked once per edit; a brain that is there keeps what it has learnt.
    ///
    /// # Errors
    /// All faults of the spec.
    pub fn settings(&mut self, policy: &RLReplicaPolicy, limits: Limits) -> Result<Validated, Vec<Fault>> {
        let generation = policy.metadata.generation;
        if let Some((seen, validated)) = &self.validated
            && *seen == generation
            && generation.is_some()
        {
            return Ok(validated.clone());
        }
        let validated = validate(&policy.spec, limits)?;
        if self.validated.as_ref().is_some_and(|(_, before)| before.target != validated.target) {
            self.leave_target();
        }
        if let Some(brain) = &mut self.brain {
            brain.replace_settings(validated.settings.clone());
        }
        self.validated = Some((generation, validated.clone()));
        Ok(validated)
    }

    /// The policy names another workload from now on: what was learnt of the one before, what it was scaled to and who
    /// rewrote it say nothing of this one. What status remembers is of the one before, too.
    fn leave_target(&mut self) {
        self.brain = None;
        self.memory = Some(Memory::default());
        self.startups = Startups::default();
        self.replica_sets = BTreeMap::new();
        self.rewrites = Rewrites::default();
        self.refusal = None;
        self.history = History::NotAsked;
    }

    /// The brain: restored from what was remembered where there is none.
    ///
    /// Status may be up to a minute old, so what was answered just before a restart may be missing from it. The present
    /// count is taken as answered now, as the HPA does when it starts: no window is shorter for a restart.
    pub fn brain(
        &mut self,
        policy: &RLReplicaPolicy,
        validated: &Validated,
        seen: &Observation,
    ) -> &mut Brain {
        if self.brain.is_none() {
            let remembered = self.memory.clone().or_else(|| self.stored_memory(policy));
            let settings = validated.settings.clone();
            self.brain = Some(match remembered {
                Some(mut memory) => {
                    let (time_secs, replicas) = (seen.time_secs, seen.replicas);
                    let present = Recommendation { time_secs, low: replicas, high: replicas };
                    memory.scaling.recommendations.push(present);
                    Brain::restore(settings, &memory)
                }
                None => Brain::new(settings),
            });
        }
        self.brain.as_mut().expect("made above")
    }

    fn stored_memory(&mut self, policy: &RLReplicaPolicy) -> Option<Memory> {
        let stored = policy.status.as_ref()?.memory.as_ref()?;
        let memory = memory::from_status(stored);
        if let Err(fault) = &memory {
            tracing::warn!(%fault, "the memory in status cannot be read; windows start anew");
            self.memory_lost = true;
        }
        memory.ok()
    }

    /// Moves on to the next decision on a steady cadence; answers how late this one is. A tick before its time (an
    /// edited policy) is not late and moves nothing; ticks that were missed are left out.
    pub fn begin(&mut self, now: Timestamp, interval_secs: f64) -> Option<f64> {
        let interval = interval(interval_secs);
        let Some(due) = self.due else {
            self.due = Some(now + interval);
            return None;
        };
        if now + EARLY_SLACK < due {
            // A shorter interval takes effect at once.
            self.due = Some(due.min(now + interval));
            return None;
        }
        let late_secs = now.duration_since(due).as_secs_f64().max(0.0);
        let missed = (late_secs / interval_secs).floor();
        let next =
            due + SignedDuration::try_from_secs_f64((missed + 1.0) * interval_secs).unwrap_or(interval);
        self.due = Some(next);
        Some(late_secs)
    }

    /// A decision is made now: seconds since the last one, by the clock that nobody sets; `None` at the first.
    pub fn lived_secs(&mut self, steady: Duration) -> Option<f64> {
        self.decided.replace(steady).map(|before| steady.saturating_sub(before).as_secs_f64())
    }

    /// True the first time it is asked about something.
    pub fn is_news(&mut self, what: String) -> bool {
        if MAX_TOLD <= self.told.len() {
            self.told.clear();
        }
        self.told.insert(what)
    }
}

/// Seconds as a duration.
#[must_use]
pub fn interval(secs: f64) -> SignedDuration {
    SignedDuration::try_from_secs_f64(secs).unwrap_or(SignedDuration::from_secs(15))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(1_800_000_000_000 + millis).unwrap()
    }

    #[test]
    fn decisions_keep_a_steady_cadence_whatever_a_tick_takes() {
        let mut known = Known::default();
        assert_eq!(known.begin(at(0), 15.0), None);
        assert_eq!(known.begin(at(15_200), 15.0), Some(0.2));
        assert_eq!(known.due, Some(at(30_000)));
        // An edit in between changes nothing about the next.
        assert_eq!(known.begin(at(20_000), 15.0), None);
        assert_eq!(known.due, Some(at(30_000)));
        // What was missed is not made up for.
        assert_eq!(known.begin(at(70_000), 15.0), Some(40.0));
        assert_eq!(known.due, Some(at(75_000)));
    }

    #[test]
    fn a_shorter_interval_takes_effect_at_once() {
        let mut known = Known::default();
        known.begin(at(0), 300.0);
        known.begin(at(1_000), 5.0);
        assert_eq!(known.due, Some(at(6_000)));
    }

    #[test]
    fn another_target_is_another_service_and_another_edit_is_not() {
        let stage = crate::fake::Stage::new(0.0);
        let mut known = Known::default();
        let seen = |replicas| Observation { time_secs: 1_800_000_000.0, replicas, ..Observation::default() };
        let mut edited = |generation: i64, name: &str, replicas: u32| {
            let policy = stage.policy(|policy| {
                policy["metadata"]["generation"] = generation.into();
                policy["spec"]["scaleTargetRef"]["name"] = name.into();
            });
            let validated = known.settings(&policy, Limits::default()).unwrap();
            let scaling = known.brain(&policy, &validated, &seen(replicas)).memory().scaling;
            let start = known.startups.p90_secs();
            known.brain.as_mut().unwrap().record_scale(1_800_000_000.0, 40, 30);
            known.startups.learn(vec![("a".into(), 30.0)], vec![]);
            known.rewrites.wrote(at(0), 30);
            (scaling.downs.len(), start, scaling.recommendations.iter().map(|entry| entry.high).max())
        };
        edited(1, "web", 40);
        assert_eq!((edited(2, "web", 40).0, edited(3, "web", 40).1), (1, Some(30.0)), "kept");
        assert_eq!(edited(4, "api", 3), (0, None, Some(3)));
        assert!(known.rewrites.is_foreign(3), "only what was written since");
    }

    #[test]
    fn what_was_told_is_bounded() {
        let mut known = Known::default();
        assert!(known.is_news("a".into()) && !known.is_news("a".into()));
        (0..1000).for_each(|n| {
            known.is_news(n.to_string());
        });
        assert!(known.told.len() <= MAX_TOLD);
    }
}
