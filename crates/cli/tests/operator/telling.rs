//! What a person is told: `explain`, `describe`, printer columns.

use std::process::Command;

use crate::harness::{Scene, policy};
use crate::scripted_prometheus::Answer;

#[test]
fn explain_and_describe_tell_what_was_seen_and_why_the_number_is_what_it_is() {
    let scene = Scene::new("telling");
    scene.prometheus.set("scripted_qps", Answer::Value(3000.0));
    let _operator = scene.operator();
    scene.apply(&policy("").replace("maxReplicas: 20", "maxReplicas: 12"));
    scene.wait_replicas(12);
    scene.wait("the limit", || scene.condition("ScalingLimited").starts_with("True/TooManyReplicas"));

    let output = Command::new(env!("CARGO_BIN_EXE_rlscaler"))
        .args(["explain", "telling/web"])
        .env("KUBECONFIG", scene.site.cluster.kubeconfig())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for word in ["qps", "3000", "planner", "maxReplicas", "12"] {
        assert!(told.contains(word), "no {word} in:\n{told}");
    }

    let described = scene.kubectl(&["describe", "rlrp", "web"]);
    for word in [
        "SuccessfulRescale",
        "New size: 12; reason: ",
        "TooManyReplicas",
        "ModelReady",
        "InsufficientHistory",
    ] {
        assert!(described.contains(word), "no {word} in:\n{described}");
    }

    let columns = scene.kubectl(&["get", "rlrp", "-o", "wide"]);
    let heads = columns.lines().next().unwrap();
    for head in [
        "REFERENCE",
        "MIN",
        "MAX",
        "CURRENT",
        "DESIRED",
        "MODE",
        "READY",
        "PAUSED",
        "AGE",
        "DRIVER",
        "MODEL",
        "REASON",
    ] {
        assert!(heads.contains(head), "no {head} in {heads}");
    }
}
