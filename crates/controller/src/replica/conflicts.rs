//! Who may write the replicas: one. Pure.
//!
//! Other autoscalers do not stand down, so ours does: to any HPA or ScaledObject on the target, to an older policy,
//! and for a while to whoever keeps rewriting `spec.replicas` (most often a GitOps tool).

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};
use rlscaler_api::RLReplicaPolicy;
use rlscaler_api::policy::{Mode, ScaleTargetRef};

use super::seen::Others;
use crate::rivals::RivalKind;

/// So many foreign rewrites within [`REWRITE_WINDOW_SECS`] are a quarrel; fewer are a person.
const QUARREL_REWRITES: usize = 3;
/// See [`QUARREL_REWRITES`].
const REWRITE_WINDOW_SECS: i64 = 600;

/// Who stands in the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conflict {
    /// Nobody.
    None,
    /// Not known yet; nothing is written before it is.
    Unknown,
    /// An autoscaler of another kind.
    Autoscaler(RivalKind, String),
    /// A policy older than this one.
    OlderPolicy(String),
    /// Field managers that keep rewriting the replicas.
    Writers(String),
}

impl Conflict {
    /// The one that counts: what can be named for certain first.
    #[must_use]
    pub fn of(others: &Others) -> Self {
        let Others { known, autoscalers, older_policy, rewriters } = others;
        let rival = autoscalers.iter().find(|rival| rival.kind != RivalKind::Vpa);
        match (rival, older_policy) {
            (Some(rival), _) => Self::Autoscaler(rival.kind, rival.name.clone()),
            (None, Some(older)) => Self::OlderPolicy(older.clone()),
            (None, None) if !known => Self::Unknown,
            (None, None) if !rewriters.is_empty() => Self::Writers(rewriters.join(", ")),
            (None, None) => Self::None,
        }
    }

    /// In a person's words; empty without a conflict.
    #[must_use]
    pub fn message(&self) -> String {
        match self {
            Self::None => "nobody else scales the target".to_owned(),
            Self::Unknown => {
                "the other autoscalers of the cluster are not known yet: nothing is written".to_owned()
            }
            Self::Autoscaler(kind, name) => {
                format!("{} {name} has the same target: it scales, this policy stands down", kind.as_str())
            }
            Self::OlderPolicy(name) => {
                format!(
                    "RLReplicaPolicy {name} has the same target and is older: it scales, this policy stands down"
                )
            }
            Self::Writers(names) => format!(
                "{names} keeps rewriting spec.replicas of the target: standing back for a while. Leave the field out \
                 of its manifests; for Argo CD: ignoreDifferences: [{{group: apps, kind: Deployment, jsonPointers: \
                 [/spec/replicas]}}] with syncOptions: [RespectIgnoreDifferences=true]"
            ),
        }
    }
}

/// Of the policies in `Auto` on the same target, the one before ours: older, or of the same age with the smaller UID.
#[must_use]
pub fn older_policy<'a>(
    ours: &RLReplicaPolicy,
    all: impl Iterator<Item = &'a RLReplicaPolicy>,
) -> Option<String> {
    let age = |policy: &RLReplicaPolicy| {
        let created = policy.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (created, policy.metadata.uid.clone())
    };
    let same_target = |other: &RLReplicaPolicy| {
        let (one, other) = (&ours.spec.scale_target_ref, &other.spec.scale_target_ref);
        let group = |reference: &ScaleTargetRef| {
            reference.api_version.split_once('/').map(|(group, _)| group.to_owned())
        };
        group(one) == group(other) && one.kind == other.kind && one.name == other.name
    };
    let rivals = all.filter(|other| {
        other.metadata.namespace == ours.metadata.namespace
            && other.metadata.uid != ours.metadata.uid
            && other.metadata.deletion_timestamp.is_none()
            && other.spec.mode == Mode::Auto
            && same_target(other)
            && age(other) < age(ours)
    });
    rivals.min_by_key(|other| age(other)).and_then(|other| other.metadata.name.clone())
}

/// Counts of ours that somebody else overwrote, of the last minutes. What others do among themselves (an HPA beside a
/// policy in `Shadow`) is no quarrel of ours.
#[derive(Debug, Clone, Default)]
pub struct Rewrites {
    times: VecDeque<Timestamp>,
    /// What we wrote last, as long as it stands.
    ours: Option<u32>,
    writers: Vec<String>,
}

impl Rewrites {
    /// True when what we wrote was overwritten: the target should be asked by whom.
    #[must_use]
    pub fn is_foreign(&self, replicas: u32) -> bool {
        self.ours.is_some_and(|ours| ours != replicas)
    }

    /// What was seen, and by whom it was written where that was asked.
    pub fn see(&mut self, now: Timestamp, replicas: u32, writers: Option<Vec<String>>) {
        if self.is_foreign(replicas) {
            self.times.push_back(now);
            self.ours = None;
            if let Some(writers) = writers {
                self.writers = writers;
            }
        }
        let horizon = now - SignedDuration::from_secs(REWRITE_WINDOW_SECS);
        while self.times.front().is_some_and(|time| *time < horizon) || QUARREL_REWRITES < self.times.len() {
            self.times.pop_front();
        }
    }

    /// What we wrote ourselves.
    pub fn wrote(&mut self, replicas: u32) {
        self.ours = Some(replicas);
    }

    /// Those who keep rewriting; empty while it may have been a person.
    #[must_use]
    pub fn quarrel(&self) -> Vec<String> {
        if self.times.len() < QUARREL_REWRITES {
            return Vec::new();
        }
        if self.writers.is_empty() { vec!["another field manager".to_owned()] } else { self.writers.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rivals::Rival;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + secs).unwrap()
    }

    #[test]
    fn the_one_who_counts_is_named() {
        let check = |change: fn(&mut Others), expected: Conflict| {
            let mut others = Others { known: true, ..Others::default() };
            change(&mut others);
            assert_eq!(Conflict::of(&others), expected);
        };
        let vpa =
            |others: &mut Others| others.autoscalers.push(Rival { kind: RivalKind::Vpa, name: "v".into() });
        check(|_| {}, Conflict::None);
        check(|others| others.known = false, Conflict::Unknown);
        check(vpa, Conflict::None);
        check(
            |others| {
                others.autoscalers.push(Rival { kind: RivalKind::Hpa, name: "h".into() });
                others.older_policy = Some("old".into());
            },
            Conflict::Autoscaler(RivalKind::Hpa, "h".into()),
        );
        check(|others| others.older_policy = Some("old".into()), Conflict::OlderPolicy("old".into()));
        check(|others| others.rewriters = vec!["argocd".into()], Conflict::Writers("argocd".into()));
    }

    // Case 55.
    #[test]
    fn whoever_keeps_rewriting_the_replicas_is_backed_off_from_and_a_person_is_not() {
        let mut rewrites = Rewrites::default();
        let argocd = || Some(vec!["argocd".to_owned()]);
        for (round, secs) in [60, 120, 180].into_iter().enumerate() {
            assert_eq!(rewrites.quarrel(), Vec::<String>::new(), "round {round}");
            rewrites.wrote(6);
            assert!(rewrites.is_foreign(3));
            rewrites.see(at(secs), 3, argocd());
        }
        assert_eq!(rewrites.quarrel(), ["argocd"]);
        rewrites.see(at(660), 3, None);
        assert_eq!(rewrites.quarrel(), ["argocd"]);
        rewrites.see(at(661), 3, None);
        assert!(rewrites.quarrel().is_empty(), "after a while it is tried again");
    }

    #[test]
    fn what_others_do_among_themselves_is_no_quarrel() {
        let mut rewrites = Rewrites::default();
        for secs in 0..20 {
            rewrites.see(at(secs * 15), (secs % 7) as u32, None);
        }
        assert!(rewrites.quarrel().is_empty());
    }
}
