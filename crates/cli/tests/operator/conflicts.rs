//! One writer: who stands down for whom on a real cluster, and what the operator may not do there.

use crate::harness::{Scene, policy};
use crate::scripted_prometheus::Answer;

const HIGH_QPS: f64 = 800.0;

// Case 56 of other autoscalers' users: two of them on one target.
#[test]
fn a_policy_yields_to_an_hpa_by_name_and_scales_again_when_it_is_gone() {
    let scene = Scene::new("conflict-hpa");
    scene.kubectl(&["autoscale", "deployment/web", "--name=theirs", "--min=2", "--max=3", "--cpu=50%"]);
    let _operator = scene.operator();
    scene.apply(&policy(""));
    scene.prometheus.set("scripted_qps", Answer::Value(HIGH_QPS));
    scene.wait("the conflict", || scene.condition("ReplicasConflict").starts_with("True/"));
    assert!(
        scene.condition("ReplicasConflict").contains("theirs"),
        "{}",
        scene.condition("ReplicasConflict")
    );
    scene.ticks(5);
    assert!(scene.replicas() <= 3, "{} replicas", scene.replicas());

    scene.kubectl(&["delete", "hpa", "theirs"]);
    scene.wait("a scale-up by the policy", || 10 < scene.replicas());
}

#[test]
fn of_two_policies_on_one_target_the_older_scales_and_the_younger_names_it() {
    let scene = Scene::new("conflict-policies");
    let _operator = scene.operator();
    scene.apply(&policy(""));
    // Creation times are whole seconds: let them differ, so that it is age that decides.
    scene.wait("a decision", || scene.condition("ScalingActive").starts_with("True/"));
    scene.ticks(2);
    scene.apply(
        &policy("")
            .replace("metadata: {name: web}", "metadata: {name: younger}")
            .replace("maxReplicas: 20", "maxReplicas: 4"),
    );
    let conflict = || {
        let younger = scene.get("rlrp", "younger");
        let conditions = younger["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|condition| condition["type"] == "ReplicasConflict").unwrap_or_default()
    };
    scene.wait("the younger's conflict", || conflict()["status"] == "True");
    assert!(conflict()["message"].as_str().unwrap().contains("web"), "{}", conflict());
    scene.prometheus.set("scripted_qps", Answer::Value(HIGH_QPS));
    scene.wait("a scale-up by the older", || 10 < scene.replicas());
    assert!(scene.condition("ReplicasConflict").starts_with("False/"));
}

// Case 96: an operator that can read all secrets.
#[test]
fn the_chart_lets_the_operator_touch_nothing_but_scales_statuses_and_events() {
    let scene = Scene::new("rights");
    let may = |verb: &str, what: &str| {
        let (resource, subresource) = what.split_once('/').unwrap_or((what, ""));
        let subresource = format!("--subresource={subresource}");
        let account = "--as=system:serviceaccount:rlscaler:rlscaler";
        let args = ["auth", "can-i", verb, resource, &subresource, account, "--namespace=rights"];
        let output = scene.site.cluster.kubectl(&args).unwrap();
        String::from_utf8_lossy(&output.stdout).trim() == "yes"
    };
    for (verb, what) in [
        ("get", "secrets"),
        ("list", "configmaps"),
        ("patch", "deployments.apps"),
        ("update", "deployments.apps"),
        ("delete", "pods"),
        ("create", "pods/exec"),
        ("patch", "rlreplicapolicies.rlscaler.io"),
        ("delete", "rlreplicapolicies.rlscaler.io"),
        ("create", "tokenreviews.authentication.k8s.io"),
    ] {
        assert!(!may(verb, what), "may {verb} {what}");
    }
    for (verb, what) in [
        ("patch", "deployments.apps/scale"),
        ("patch", "rlreplicapolicies.rlscaler.io/status"),
        ("create", "events.events.k8s.io"),
        ("list", "pods"),
    ] {
        assert!(may(verb, what), "may not {verb} {what}");
    }
}
