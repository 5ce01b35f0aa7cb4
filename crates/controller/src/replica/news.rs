//! Things worth an event that are no change of a condition: hints of the sources, warnings about annotations, a VPA.
//! Pure.

use jiff::Timestamp;
use rlscaler_api::RLReplicaPolicy;
use rlscaler_api::conditions::EventReason;
use rlscaler_api::overrides::{Resolved, Warning};
use rlscaler_api::status::OverrideFrom;
use rlscaler_signals::report::Hint;

use super::pods::{Broken, Counted};
use super::seen::Others;
use super::telling::{Severity, Telling};
use crate::rivals::RivalKind;

/// A hint that stays is told once a day.
const DAY_SECS: i64 = 86_400;

/// A warning told once a day for as long as it lasts.
#[must_use]
pub fn warning(reason: EventReason, note: impl Into<String>, now: Timestamp) -> Telling {
    let day = now.as_second().div_euclid(DAY_SECS);
    Telling {
        severity: Severity::Warning,
        reason: reason.as_str(),
        action: "Look".to_owned(),
        note: note.into(),
        identity: day.to_string(),
    }
}

/// Pods that crash or cannot start, whether or not they keep a number from changing: once a day for each revision.
#[must_use]
pub fn unhealthy(pods: &Counted, now: Timestamp) -> Option<Telling> {
    let Broken { pod, owner, why } = pods.broken.as_ref()?;
    let count = pods.pods.unhealthy;
    let note = format!(
        "{count} pods crash or cannot start, for example {pod}: {why}; they are not counted as capacity, and the number \
         is held where more of them would not help"
    );
    let told = warning(EventReason::RolloutUnhealthy, note, now);
    Some(Telling { identity: format!("{owner}-{}", told.identity), ..told })
}

/// Everything of this tick.
#[must_use]
pub fn hints(
    policy: &RLReplicaPolicy,
    hints: &[Hint],
    will: &Resolved,
    others: &Others,
    now: Timestamp,
) -> Vec<Telling> {
    let generation = policy.metadata.generation.unwrap_or_default();
    let day = now.as_second().div_euclid(DAY_SECS);
    let told = |reason: &'static str, note: String, what: &str| Telling {
        severity: Severity::Warning,
        reason,
        action: "Look".to_owned(),
        note,
        identity: format!("{generation}-{day}-{what}"),
    };
    let mut tellings: Vec<Telling> =
        hints.iter().map(|hint| told(hint.code(), hint.to_string(), hint.about())).collect();
    // The other warnings change a condition, which tells them.
    let unknown = will.warnings.iter().filter(|warning| matches!(warning, Warning::Unknown { .. }));
    tellings.extend(
        unknown.map(|warning| told(warning.event().as_str(), warning.to_string(), &warning.to_string())),
    );
    let vpas = others.autoscalers.iter().filter(|rival| rival.kind == RivalKind::Vpa);
    tellings.extend(vpas.map(|vpa| {
        let note = format!(
            "VerticalPodAutoscaler {} changes CPU requests of the same pods: CPU per pod then means another thing from \
             one day to the next; restrict it to memory (controlledResources)",
            vpa.name
        );
        told(EventReason::VerticalPodAutoscaler.as_str(), note, &vpa.name)
    }));
    tellings
}

/// The field manager that wrote the override that counts, by the object's managedFields; the latest where several own
/// the field.
#[must_use]
pub fn written_by(policy: &RLReplicaPolicy, will: &Resolved) -> Option<String> {
    let pointer = match (will.from?, will.annotation) {
        (OverrideFrom::Annotation, Some(annotation)) => {
            format!("/f:metadata/f:annotations/f:{}", annotation.replace('/', "~1"))
        }
        (OverrideFrom::Spec | OverrideFrom::Annotation, _) => "/f:spec/f:override".to_owned(),
    };
    let managed = policy.metadata.managed_fields.as_deref().unwrap_or_default();
    let owners = managed
        .iter()
        .filter(|entry| entry.fields_v1.as_ref().is_some_and(|fields| fields.0.pointer(&pointer).is_some()));
    owners.max_by_key(|entry| entry.time.as_ref().map(|time| time.0))?.manager.clone()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rlscaler_api::overrides::resolve;
    use rlscaler_signals::report::SignalName;
    use serde_json::json;

    use super::*;

    // Case 9.
    #[test]
    fn hints_of_two_signals_are_two_events() {
        let negative = |signal| Hint::Negative { signal, raw: "-3".into() };
        let told = [negative(SignalName::Qps), negative(SignalName::Latency)];
        let policy: RLReplicaPolicy = serde_json::from_value(json!({
            "apiVersion": "rlscaler.io/v1alpha1", "kind": "RLReplicaPolicy", "metadata": {"name": "web"},
            "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "maxReplicas": 3, "objective": {"latency": {"targetMilliseconds": 250}}},
        }))
        .unwrap();
        let told = hints(&policy, &told, &Resolved::default(), &Others::default(), Timestamp::UNIX_EPOCH);
        assert_eq!((told[0].reason, told[1].reason), ("SignalNegative", "SignalNegative"));
        assert_ne!(told[0].identity, told[1].identity);
    }

    #[test]
    fn whoever_annotated_is_found_in_the_managed_fields() {
        let entry = |manager: &str, time: &str, field: &str| {
            json!({"manager": manager, "operation": "Update", "time": time, "fieldsType": "FieldsV1",
                "fieldsV1": {"f:metadata": {"f:annotations": {field: {}}}}})
        };
        let policy: RLReplicaPolicy = serde_json::from_value(json!({
            "apiVersion": "rlscaler.io/v1alpha1", "kind": "RLReplicaPolicy",
            "metadata": {"name": "web", "managedFields": [
                entry("kubectl-annotate", "2026-11-30T07:00:00Z", "f:rlscaler.io/replicas"),
                entry("other", "2026-11-30T08:00:00Z", "f:rlscaler.io/pause"),
            ]},
            "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "maxReplicas": 3, "objective": {"latency": {"targetMilliseconds": 250}}},
        }))
        .unwrap();
        let annotations = BTreeMap::from([("rlscaler.io/replicas".to_owned(), "2".to_owned())]);
        let will = resolve(&annotations, None, Timestamp::UNIX_EPOCH);
        assert_eq!(written_by(&policy, &will).as_deref(), Some("kubectl-annotate"));
        assert_eq!(written_by(&policy, &Resolved::default()), None);
    }
}
