//! What is told of a status.

use super::*;

fn policy() -> RLReplicaPolicy {
    let reasons = json!([
        {"code": "TooManyReplicas", "message": "15 wanted, maxReplicas is 12"},
        {"code": "Load", "message": "900.0 requests/s, the work of 11.2 busy pods"},
        {"code": "QueueModel", "message": "11.2 busy pods expected need 15 replicas"},
    ]);
    let decision = |time: &str, from: u32, to: u32, action: &str| {
        json!({"time": time, "from": from, "to": to, "proposed": 15, "planner": 15, "hpaWouldBe": 11, "driver": "planner",
            "action": action, "whyNotMore": "TooManyReplicas", "whyNotFewer": "QueueModel", "reasons": reasons})
    };
    serde_json::from_value(json!({
        "apiVersion": "rlscaler.io/v1alpha1", "kind": "RLReplicaPolicy",
        "metadata": {"name": "web", "namespace": "shop", "uid": "u"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 2, "maxReplicas": 12, "mode": "Auto", "objective": {"latency": {"targetMilliseconds": 250}}},
        "status": {
            "currentReplicas": 12, "desiredReplicas": 12, "readyReplicas": 11,
            "decision": decision("2026-11-30T07:01:00Z", 12, 12, "hold"),
            "decisions": [
                decision("2026-11-30T07:00:15Z", 12, 12, "hold"),
                decision("2026-11-30T07:00:00Z", 9, 12, "up"),
            ],
            "signals": [{"name": "qps", "value": "900", "unit": "requests/s", "state": "Fresh", "query": "sum(rate(x[1m]))",
                "sampleTime": "2026-11-30T07:00:55Z"}],
            "model": "base@0f1e2d3c (untrained)",
            "conditions": [{"type": "Ready", "status": "True", "reason": "ValidPolicy",
                "message": "the policy is valid and its target exists", "lastTransitionTime": "2026-11-30T06:00:00Z"}],
            "budget": {"slaPercent": "99", "remainingPercent": "87.5", "burnRate1h": "0.4", "burnRate6h": "0.2",
                "latenessPrice": "19.8"},
            "savings": {"since": "2026-11-29T00:00:00Z", "replicaHours": "120.5", "hpaReplicaHours": "160", "cost": "11.57",
                "currency": "USD"},
        },
    }))
    .unwrap()
}

fn event(uid: &str, reason: &str, time: &str, action: &str) -> Event {
    serde_json::from_value(json!({
        "metadata": {"name": "x", "namespace": "shop"}, "reason": reason, "action": action, "regarding": {"uid": uid},
        "eventTime": format!("2026-11-30T{time}.000000Z"), "note": "New size: 9; reason: load",
    }))
    .unwrap()
}

/// Events of this policy and of one of the same name before it.
fn events() -> [Event; 5] {
    [
        event("u", "SuccessfulRescale", "06:59:00", "ScaleFrom3To9"),
        event("u", "ShadowDecision", "06:10:00", "WouldScaleFrom5To3"),
        event("u", "SuccessfulRescale", "07:00:00", "ScaleFrom9To12"),
        event("u", "SignalLost", "06:30:00", "ScalingActiveBecameFalse"),
        event("of its predecessor", "SuccessfulRescale", "06:00:00", "ScaleFrom1To3"),
    ]
}

#[test]
fn the_table_tells_what_was_seen_what_was_decided_and_what_limited_it() {
    insta::assert_snapshot!("table", table(&explanation(&policy(), &events(), 10)));
}

#[test]
fn the_json_has_every_number_of_the_table() {
    insta::assert_json_snapshot!("json", explanation(&policy(), &events(), 10));
}

#[test]
fn decisions_come_from_status_and_before_them_from_the_events_of_this_very_policy_newest_first() {
    let check = |last: usize, expected: &[(&str, u64, u64)]| {
        let told = explanation(&policy(), &events(), last);
        let decisions = told["decisions"].as_array().unwrap();
        let numbers = decisions.iter().map(|one| {
            (one["action"].as_str().unwrap(), one["from"].as_u64().unwrap(), one["to"].as_u64().unwrap())
        });
        assert_eq!(numbers.collect::<Vec<_>>(), expected, "last {last}");
    };
    check(10, &[("hold", 12, 12), ("up", 9, 12), ("up", 3, 9), ("advise_down", 5, 3)]);
    check(3, &[("hold", 12, 12), ("up", 9, 12), ("up", 3, 9)]);
    check(0, &[]);
}

#[test]
fn the_guardrail_or_the_term_that_decides_is_named_in_its_own_words() {
    let told = explanation(&policy(), &[], 10);
    assert_eq!(told["whyNotMore"]["message"], "15 wanted, maxReplicas is 12");
    assert_eq!(told["whyNotFewer"]["code"], "QueueModel");
}

#[test]
fn a_policy_without_a_decision_is_explained_too() {
    let mut policy = policy();
    policy.status = None;
    assert!(table(&explanation(&policy, &[], 10)).contains("no decision yet"));
}

#[test]
fn what_cannot_be_explained_is_told_in_a_persons_words() {
    let status =
        |code, message: &str| kube::core::Status { code, message: message.into(), ..Default::default() };
    let told = |answer| found(answer, "RLReplicaPolicy shop/web").unwrap_err().to_string();
    let refused = |code, message: &str| told(Err(kube::Error::Api(Box::new(status(code, message)))));
    assert_eq!(told(Ok(None)), "RLReplicaPolicy shop/web: there is none of this name");
    let unknown = refused(404, "404 page not found");
    assert!(unknown.contains("does not know the kind") && unknown.contains("chart"), "{unknown}");
    let forbidden = "rlreplicapolicies.rlscaler.io \"web\" is forbidden: User \"dev\" cannot get resource";
    assert_eq!(refused(403, forbidden), format!("RLReplicaPolicy shop/web: {forbidden}"));
}
