//! Which policies in `Auto` claim which target, so that of several the oldest scales. Follows the watch; pure.

use std::collections::HashSet;
use std::sync::RwLock;

use jiff::Timestamp;
use kube::ResourceExt;
use rlscaler_api::RLReplicaPolicy;
use rlscaler_api::policy::Mode;

use crate::by_target::{ByTarget, TargetKey};
use crate::replica::target::TargetRef;

/// All claims, by the policy's UID.
#[derive(Debug, Default)]
pub struct Claims {
    by_target: RwLock<ByTarget<String, Claim>>,
}

#[derive(Debug)]
struct Claim {
    created: Option<Timestamp>,
    name: String,
}

impl Claims {
    /// The policy as it is now: it claims its target in `Auto` and until it is being deleted.
    pub fn apply(&self, policy: &RLReplicaPolicy) {
        let Some((uid, key)) = uid_and_key(policy) else { return };
        let mut by_target = self.by_target.write().expect("no panic while locked");
        if policy.spec.mode == Mode::Auto && policy.metadata.deletion_timestamp.is_none() {
            let created = policy.metadata.creation_timestamp.as_ref().map(|time| time.0);
            by_target.insert(uid, key, Claim { created, name: policy.name_any() });
        } else {
            by_target.remove(&uid);
        }
    }

    /// The policy is gone, or cannot be read any more.
    pub fn forget(&self, uid: &str) {
        self.by_target.write().expect("no panic while locked").remove(&uid.to_owned());
    }

    /// Forgets every policy that is not among the living.
    pub fn retain(&self, living: &HashSet<String>) {
        self.by_target.write().expect("no panic while locked").retain(|uid| living.contains(uid));
    }

    /// Of the policies that claim the same target, the name of the one before ours: older, or of the same age with the
    /// smaller UID.
    #[must_use]
    pub fn older(&self, ours: &RLReplicaPolicy) -> Option<String> {
        let (uid, key) = uid_and_key(ours)?;
        let created = ours.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let by_target = self.by_target.read().expect("no panic while locked");
        let others = by_target.of(&key).filter(|(other, _)| **other != uid);
        let first = others.min_by_key(|(uid, claim)| (claim.created, (*uid).clone()))?;
        ((first.1.created, first.0) < (created, &uid)).then(|| first.1.name.clone())
    }

    /// True when nothing is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_target.read().expect("no panic while locked").is_empty()
    }
}

fn uid_and_key(policy: &RLReplicaPolicy) -> Option<(String, TargetKey)> {
    let reference = &policy.spec.scale_target_ref;
    let target = TargetRef {
        api_version: reference.api_version.clone(),
        kind: reference.kind.clone(),
        name: reference.name.clone(),
    };
    Some((policy.uid()?, TargetKey::new(&policy.namespace()?, &target)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn policy(name: &str, created: &str, change: impl FnOnce(&mut Value)) -> RLReplicaPolicy {
        let mut policy = json!({
            "apiVersion": "rlscaler.io/v1alpha1", "kind": "RLReplicaPolicy",
            "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}"),
                "creationTimestamp": format!("2026-11-30T{created}:00Z")},
            "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "mode": "Auto",
                "maxReplicas": 3, "objective": {"latency": {"targetMilliseconds": 250}}},
        });
        change(&mut policy);
        serde_json::from_value(policy).unwrap()
    }

    // Case 56.
    #[test]
    fn of_several_policies_on_one_target_the_oldest_scales_and_at_the_same_age_the_smaller_uid() {
        let check = |other: RLReplicaPolicy, yields: bool| {
            let ours = policy("b", "08:00", |_| {});
            let claims = Claims::default();
            claims.apply(&ours);
            claims.apply(&other);
            assert_eq!(claims.older(&ours), yields.then(|| other.name_any()), "{:?}", other.spec);
        };
        check(policy("x", "07:59", |_| {}), true);
        check(policy("x", "08:01", |_| {}), false);
        check(policy("a", "08:00", |_| {}), true);
        check(policy("c", "08:00", |_| {}), false);
        check(policy("a", "07:00", |policy| policy["spec"]["mode"] = "Shadow".into()), false);
        check(policy("a", "07:00", |policy| policy["metadata"]["namespace"] = "other".into()), false);
        check(policy("a", "07:00", |policy| policy["spec"]["scaleTargetRef"]["name"] = "db".into()), false);
        check(
            policy("a", "07:00", |policy| {
                policy["spec"]["scaleTargetRef"]["apiVersion"] = "apps/v1beta1".into()
            }),
            true,
        );
        let deleted =
            |policy: &mut Value| policy["metadata"]["deletionTimestamp"] = "2026-11-30T09:00:00Z".into();
        check(policy("a", "07:00", deleted), false);
    }

    #[test]
    fn a_policy_that_goes_or_changes_its_target_leaves_no_claim_behind() {
        let ours = policy("b", "08:00", |_| {});
        let claims = Claims::default();
        claims.apply(&policy("a", "07:00", |_| {}));
        claims.apply(&policy("a", "07:00", |policy| policy["spec"]["scaleTargetRef"]["name"] = "db".into()));
        assert_eq!(claims.older(&ours), None);
        claims.apply(&policy("a", "07:00", |_| {}));
        claims.apply(&policy("c", "07:30", |_| {}));
        claims.forget("uid-a");
        assert_eq!(claims.older(&ours).as_deref(), Some("c"));
        claims.retain(&HashSet::new());
        assert!(claims.is_empty());
    }
}
