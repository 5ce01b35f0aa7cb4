//! Pods there is no room for, on a real control plane: quotas, refusals, and a node that is full.

use serde_json::Value;

use crate::harness::{DEPLOYMENT, Operator, Scene, policy};
use crate::scripted_prometheus::Answer;

/// Load of about 10 busy pods.
const HIGH_QPS: f64 = 800.0;
/// Load of about one busy pod.
const LOW_QPS: f64 = 80.0;
/// Latency of too few pods.
const LATE_SECS: f64 = 0.4;
/// Pods the small node has room for.
const ROOM: usize = 4;

/// Starts the operator under a load that asks for more than there is room for, and waits until it says so.
fn limited(scene: &Scene, more: &str) -> (Operator, u64) {
    scene.prometheus.set("scripted_qps", Answer::Value(HIGH_QPS));
    scene.prometheus.set("scripted_latency", Answer::Value(LATE_SECS));
    let operator = scene.operator();
    scene.apply(&policy(more));
    scene.wait("CapacityUnavailable", || {
        scene.condition("ScalingLimited").starts_with("True/CapacityUnavailable")
    });
    let stopped_at = scene.replicas();
    scene.ticks(10);
    assert_eq!(scene.replicas(), stopped_at, "{}", scene.condition("ScalingLimited"));
    assert!(scene.condition("ScalingLimited").starts_with("True/CapacityUnavailable"));
    scene.wait("the event", || scene.events().iter().any(|event| event.starts_with("CapacityUnavailable")));
    (operator, stopped_at)
}

// Case 31.
#[test]
fn a_quota_is_raised_up_to_and_never_run_into() {
    let scene = Scene::new("capacity-quota");
    let quota = |pods: u32| {
        format!(
            "{{apiVersion: v1, kind: ResourceQuota, metadata: {{name: compute}}, spec: {{hard: {{pods: '{pods}'}}}}}}"
        )
    };
    scene.apply(&quota(5));
    scene.wait("the quota's own count", || {
        scene.get("resourcequota", "compute")["status"]["used"]["pods"] == "2"
    });
    let (_operator, stopped_at) = limited(&scene, "");
    assert_eq!(stopped_at, 5);
    let told = scene.condition("ScalingLimited");
    assert!(told.contains("room for 5 replicas: ") && told.contains("ResourceQuota compute"), "{told}");
    let refused = scene.kubectl(&[
        "get",
        "events.events.k8s.io",
        "-o",
        "name",
        "--field-selector",
        "reason=FailedCreate",
    ]);
    assert_eq!(refused, "", "no pod was ever refused");

    scene.apply(&quota(30));
    scene.wait("a raise into the new room", || 10 < scene.replicas());
}

// Case 31.
#[test]
fn a_refusal_nobody_could_foresee_stops_the_raising_and_is_repeated() {
    let scene = Scene::new("capacity-refused");
    scene.wait("the first pods", || ready_pods(&scene).len() == 2);
    scene.apply(
        "{apiVersion: v1, kind: LimitRange, metadata: {name: small},
          spec: {limits: [{type: Container, max: {cpu: 50m}}]}}",
    );
    let (_operator, stopped_at) = limited(&scene, "");
    assert!(2 < stopped_at);
    let told = scene.condition("ScalingLimited");
    assert!(told.contains("cannot be placed") && told.contains("cpu limit of 50m"), "{told}");

    scene.kubectl(&["delete", "limitrange", "small"]);
    scene.wait("a raise once pods are let in", || 10 < scene.replicas());
}

// Cases 26 and 31.
#[test]
fn pods_a_full_node_has_no_room_for_stop_the_raising_and_go_first() {
    let scene = Scene::new("capacity-node");
    // Tainted, so that the pods of other tests stay away.
    let node = format!(
        "{{apiVersion: v1, kind: Node, metadata: {{name: small, labels: {{only: capacity}},
            annotations: {{kwok.x-k8s.io/node: fake}}}},
          spec: {{taints: [{{key: only, value: capacity, effect: NoSchedule}}]}},
          status: {{allocatable: {{cpu: '64', memory: 64Gi, pods: '{ROOM}'}},
            capacity: {{cpu: '64', memory: 64Gi, pods: '{ROOM}'}}}}}}"
    );
    scene.apply(&node);
    let there = "    spec:\n      nodeSelector: {only: capacity}\n      tolerations: [{key: only, operator: Exists}]\n";
    scene.apply(&DEPLOYMENT.replace("    spec:\n      containers:", &format!("{there}      containers:")));
    scene.wait("a finished rollout onto the small node", || {
        let pods = pods(&scene);
        pods.len() == 2
            && pods.iter().all(|pod| pod["spec"]["nodeName"] == "small")
            && ready_pods(&scene).len() == 2
    });
    let (_operator, stopped_at) = limited(&scene, "");
    scene.wait("a full node", || ready_pods(&scene).len() == ROOM);
    let told = scene.condition("ScalingLimited");
    assert!(told.contains("cannot be placed") && told.contains("Too many pods"), "{told}");
    let ready = ready_pods(&scene);

    scene.prometheus.set("scripted_qps", Answer::Value(LOW_QPS));
    scene.prometheus.set("scripted_latency", Answer::Value(0.08));
    scene.wait("a scale-down beside pods that cannot be placed", || scene.replicas() < stopped_at);
    scene.wait("room for all that are left", || {
        let left = pods(&scene);
        left.len() as u64 == scene.replicas() && left.iter().all(|pod| ready.contains(&name(pod)))
    });
    scene.wait("no limit, or only the minimum", || {
        scene.condition("ScalingLimited").starts_with("False/") || scene.replicas() == 2
    });
}

fn pods(scene: &Scene) -> Vec<Value> {
    let listed: Value = serde_json::from_str(&scene.kubectl(&["get", "pods", "-o", "json"])).unwrap();
    listed["items"].as_array().unwrap().clone()
}

fn name(pod: &Value) -> String {
    pod["metadata"]["name"].as_str().unwrap().to_owned()
}

/// Names of the pods that are ready.
fn ready_pods(scene: &Scene) -> Vec<String> {
    let is_ready = |pod: &&Value| {
        let conditions = pod["status"]["conditions"].as_array();
        conditions
            .into_iter()
            .flatten()
            .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    };
    pods(scene).iter().filter(is_ready).map(name).collect()
}
