//! What is told of a status.

use rlscaler_core::reason::{Role, SignalName};
use rlscaler_core::{PolicyFault, Reason};

use super::*;

fn policy() -> RLReplicaPolicy {
    serde_json::from_value(json!({
        "apiVersion": "rlscaler.io/v1alpha1", "kind": "RLReplicaPolicy",
        "metadata": {"name": "web", "namespace": "shop", "uid": "u"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 2, "maxReplicas": 12, "mode": "Auto", "objective": {"latency": {"targetMilliseconds": 250}}},
        "status": {
            "currentReplicas": 12, "desiredReplicas": 12, "readyReplicas": 11,
            "decision": {"time": "2026-11-30T07:00:00Z", "from": 9, "to": 12, "proposed": 15, "planner": 15, "driver": "planner",
                "reasons": [
                    {"code": "TooManyReplicas", "message": "15 wanted, maxReplicas is 12"},
                    {"code": "Load", "message": "900.0 requests/s, the work of 11.2 busy pods"},
                    {"code": "QueueModel", "message": "11.2 busy pods expected need 15 replicas"},
                ]},
            "signals": [{"name": "qps", "value": "900", "unit": "requests/s", "state": "Fresh", "query": "sum(rate(x[1m]))"}],
        },
    }))
    .unwrap()
}

fn event(uid: &str, note: &str) -> Event {
    serde_json::from_value(json!({
        "metadata": {"name": "x", "namespace": "shop"}, "reason": "SuccessfulRescale", "action": "ScaleFrom3To9",
        "eventTime": "2026-11-30T06:59:00.000000Z", "note": note, "regarding": {"uid": uid},
    }))
    .unwrap()
}

#[test]
fn the_guardrail_that_decides_answers_why_not_more_and_the_terms_answer_why_not_fewer() {
    let told = explanation(&policy(), &[], 10);
    assert_eq!(told["whyNotMore"][0]["code"], "TooManyReplicas");
    assert_eq!(told["whyNotFewer"][0]["code"], "QueueModel");
}

#[test]
fn the_scalings_before_are_those_of_this_very_policy() {
    let events = [event("u", "New size: 9; reason: load"), event("of its predecessor", "New size: 3")];
    let told = explanation(&policy(), &events, 10);
    assert_eq!(told["before"].as_array().unwrap().len(), 1);
    assert_eq!(explanation(&policy(), &events, 0)["before"], json!([]));
}

#[test]
fn the_table_tells_what_was_seen_what_was_said_and_what_limited_it() {
    let text = table(&explanation(&policy(), &[event("u", "New size: 9; reason: load")], 10));
    for words in [
        "shop/web  Deployment web  mode Auto  2..12",
        "decided   9 -> 12",
        "planner 15",
        "Why not more?",
        "15 wanted, maxReplicas is 12",
        "qps",
        "900",
        "sum(rate(x[1m]))",
        "New size: 9; reason: load",
    ] {
        assert!(text.contains(words), "no {words:?} in\n{text}");
    }
}

#[test]
fn a_policy_without_a_decision_is_explained_too() {
    let mut policy = policy();
    policy.status = None;
    assert!(table(&explanation(&policy, &[], 10)).contains("no decision yet"));
}

/// Status holds codes only; the roles told from them must be the brain's own.
#[test]
fn the_codes_have_the_roles_the_brain_gives_them() {
    let reasons = [
        Reason::Load { value: 0.0, busy_pods: 0.0, cores: false },
        Reason::Latency { secs: 0.0, target_secs: 1.0 },
        Reason::QueueModel { busy_pods: 0.0, replicas: 0 },
        Reason::ModelRejected { fault: PolicyFault::Failed },
        Reason::ScaleDownStabilized { replicas: 0 },
        Reason::ScaleUpStabilized { replicas: 0 },
        Reason::ScaleUpLimit { replicas: 0 },
        Reason::ScaleDownLimit { replicas: 0 },
        Reason::TooManyReplicas { wanted: 0, max: 0 },
        Reason::TooFewReplicas { wanted: 0, min: 0 },
        Reason::Deadband { wanted: 0 },
        Reason::SignalLost { signal: SignalName::Qps },
        Reason::NoLoadSignal,
        Reason::SuddenZero,
        Reason::FallbackActive { replicas: 0, failing_secs: 0.0 },
        Reason::ScaleDownUndone { from: 0, to: 0, held_off_secs: 0.0 },
        Reason::ScaleDownHeldOff { replicas: 0, left_secs: 0.0 },
        Reason::StillStarting { starting: 0 },
        Reason::CapacityUnavailable { unschedulable: 0, room: None },
        Reason::NoPodReady,
        Reason::RolloutUnhealthy { unhealthy: 0 },
        Reason::ScalingWontHelp { ratio: 0.0, utilization: 0.0 },
        Reason::LatencyComfortable { ratio: 0.0, utilization: 0.0 },
        Reason::ScalingDisabled,
        Reason::ResumedFromZero,
        Reason::Activated { qps: 0.0 },
        Reason::Pinned { replicas: 0 },
        Reason::PinClamped { asked: 0, replicas: 0 },
        Reason::Paused,
        Reason::ScaleDownPaused,
        Reason::ScaleUpPaused,
        Reason::ClockStepped,
        Reason::DesiredWithinRange,
    ];
    for reason in reasons {
        let code = reason.code();
        let lists =
            [(HELD_DOWN, Role::HeldDown), (HELD_UP, Role::HeldUp), (FIXED, Role::Fixed), (SEEN, Role::Seen)];
        let found =
            lists.iter().find(|(codes, _)| codes.contains(&code)).map_or(Role::Term, |(_, role)| *role);
        assert_eq!(found, reason.role(), "{code}");
    }
}
