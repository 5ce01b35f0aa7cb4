//! Who may write the replicas: one. Pure.
//!
//! Other autoscalers do not stand down, so ours does: to any HPA or ScaledObject on the target, to an older policy,
//! and for a while to whoever keeps rewriting `spec.replicas` (most often a GitOps tool).

use super::rewrites::Quarrel;
use super::seen::Others;
use super::target::TargetRef;
use crate::rivals::RivalKind;

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
    /// Field managers that keep rewriting the replicas of this target.
    Writers(Quarrel, TargetRef),
}

impl Conflict {
    /// The one that counts: what can be named for certain first.
    #[must_use]
    pub fn of(others: &Others, target: &TargetRef) -> Self {
        let Others { known, autoscalers, older_policy, quarrel } = others;
        let rival = autoscalers.iter().find(|rival| rival.kind != RivalKind::Vpa);
        match (rival, older_policy, quarrel) {
            (Some(rival), ..) => Self::Autoscaler(rival.kind, rival.name.clone()),
            (None, Some(older), _) => Self::OlderPolicy(older.clone()),
            (None, None, _) if !known => Self::Unknown,
            (None, None, Some(quarrel)) => Self::Writers(quarrel.clone(), target.clone()),
            (None, None, None) => Self::None,
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
            Self::Writers(quarrel, target) => format!(
                "{} keeps rewriting spec.replicas of the target: standing back until {}. Leave the field out of its \
                 manifests; for Argo CD: ignoreDifferences: [{{group: {}, kind: {}, jsonPointers: [/spec/replicas]}}] \
                 with syncOptions: [RespectIgnoreDifferences=true]",
                quarrel.names.join(", "),
                quarrel.until,
                target.group(),
                target.kind
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::rivals::Rival;

    fn target() -> TargetRef {
        TargetRef { api_version: "apps/v1".into(), kind: "StatefulSet".into(), name: "db".into() }
    }

    fn quarrel() -> Quarrel {
        Quarrel { names: vec!["argocd-controller".into()], until: Timestamp::UNIX_EPOCH }
    }

    #[test]
    fn the_one_who_counts_is_named() {
        let check = |change: fn(&mut Others), expected: Conflict| {
            let mut others = Others { known: true, ..Others::default() };
            change(&mut others);
            assert_eq!(Conflict::of(&others, &target()), expected);
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
        check(|others| others.quarrel = Some(quarrel()), Conflict::Writers(quarrel(), target()));
    }

    // Case 55.
    #[test]
    fn who_rewrites_until_when_and_the_snippet_that_ends_it_are_told() {
        let message = Conflict::Writers(quarrel(), target()).message();
        for words in [
            "argocd-controller keeps rewriting spec.replicas",
            "standing back until 1970-01-01T00:00:00Z",
            "ignoreDifferences: [{group: apps, kind: StatefulSet, jsonPointers: [/spec/replicas]}]",
            "RespectIgnoreDifferences=true",
        ] {
            assert!(message.contains(words), "no {words:?} in {message}");
        }
    }
}
