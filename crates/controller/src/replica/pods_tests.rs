//! Which pods count, as what.

use serde_json::{Value, json};

use super::*;

fn pod(name: &str, owner: (&str, &str), change: Value) -> Pod {
    let mut pod = json!({
        "metadata": {
            "name": name, "uid": format!("uid-{name}"), "creationTimestamp": "2026-11-30T06:00:00Z",
            "ownerReferences": [{"kind": owner.0, "uid": owner.1, "controller": true}],
        },
        "spec": {"containers": [{"resources": {"requests": {"cpu": "500m"}}}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-30T06:00:40Z"}],
        },
    });
    merge(&mut pod, change);
    serde_json::from_value(pod).unwrap()
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

fn owned() -> BTreeSet<String> {
    BTreeSet::from(["rs".to_owned()])
}

fn check(change: Value, expected: Pods) {
    let pods = [pod("a", ("ReplicaSet", "rs"), change.clone())];
    assert_eq!(count(&pods, "deployment", &owned()).pods, expected, "{change}");
}

const NONE: Pods = Pods { ready: 0, starting: 0, unschedulable: 0, unhealthy: 0 };

#[test]
fn a_pod_counts_as_what_it_is() {
    let not_ready = json!([{"type": "Ready", "status": "False"}]);
    let waiting = |reason: &str| {
        json!({"status": {"conditions": [{"type": "Ready", "status": "False"}],
            "containerStatuses": [{"restartCount": 7, "state": {"waiting": {"reason": reason}}}]}})
    };
    check(json!({}), Pods { ready: 1, ..NONE });
    check(json!({"status": {"conditions": not_ready}}), Pods { starting: 1, ..NONE });
    check(json!({"status": {"phase": "Pending", "conditions": []}}), Pods { starting: 1, ..NONE });
    check(waiting("ContainerCreating"), Pods { starting: 1, ..NONE });
    // Case 23.
    check(waiting("CrashLoopBackOff"), Pods { unhealthy: 1, ..NONE });
    check(waiting("ImagePullBackOff"), Pods { unhealthy: 1, ..NONE });
    // Case 26.
    let unschedulable = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]);
    check(json!({"status": {"conditions": unschedulable}}), Pods { unschedulable: 1, ..NONE });
    let gated = json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]);
    check(json!({"status": {"conditions": gated}}), Pods { starting: 1, ..NONE });
    check(json!({"metadata": {"deletionTimestamp": "2026-11-30T07:00:00Z"}}), NONE);
    check(json!({"status": {"phase": "Failed", "reason": "Evicted"}}), NONE);
    check(json!({"status": {"phase": "Succeeded"}}), NONE);
}

// Case 29.
#[test]
fn pods_of_others_under_the_same_selector_do_not_count() {
    let pods = [
        pod("a", ("ReplicaSet", "rs"), json!({})),
        pod("b", ("ReplicaSet", "other"), json!({})),
        pod("c", ("StatefulSet", "db"), json!({})),
        pod("d", ("ReplicaSet", "rs"), json!({"metadata": {"ownerReferences": []}})),
    ];
    let counted = count(&pods, "deployment", &owned());
    assert_eq!((counted.pods.ready, counted.ignored, counted.ambiguous_owners), (1, 3, 0));
    assert_eq!(counted.ready[0].name, "a");
    let foreign = count(&pods[1..2], "deployment", &BTreeSet::new());
    assert_eq!((foreign.pods, foreign.ignored), (NONE, 1));
}

#[test]
fn a_target_that_owns_its_pods_directly_is_found() {
    let pods = [pod("db-0", ("StatefulSet", "set"), json!({})), pod("x", ("ReplicaSet", "rs"), json!({}))];
    assert_eq!(count(&pods, "set", &BTreeSet::new()).pods.ready, 1);
}

#[test]
fn an_unknown_chain_of_owners_is_counted_by_the_selector_and_said_so() {
    let pods = [pod("a", ("Worker", "w1"), json!({})), pod("b", ("Worker", "w2"), json!({}))];
    let counted = count(&pods, "custom", &BTreeSet::new());
    assert_eq!((counted.pods.ready, counted.ambiguous_owners), (2, 2));
}

#[test]
fn the_cpu_request_is_the_sum_over_containers_that_run_all_the_time() {
    let request = |spec: Value| {
        count(&[pod("a", ("ReplicaSet", "rs"), json!({"spec": spec}))], "deployment", &owned()).cpu_request
    };
    let container = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
    assert_eq!(request(json!({})), Some(0.5));
    assert_eq!(request(json!({"containers": [container("1"), container("250m")]})), Some(1.25));
    assert_eq!(request(json!({"containers": [container("1"), {}]})), None);
    let mut sidecar = container("1");
    sidecar["restartPolicy"] = json!("Always");
    assert_eq!(request(json!({"initContainers": [sidecar, container("8")]})), Some(1.5));
    assert_eq!(request(json!({"resources": {"requests": {"cpu": "3"}}})), Some(3.0));
}

#[test]
fn start_up_is_learnt_from_pods_that_never_restarted() {
    let startups = |change| count(&[pod("a", ("ReplicaSet", "rs"), change)], "deployment", &owned()).startups;
    assert_eq!(startups(json!({})), [("uid-a".to_owned(), 40.0)]);
    assert_eq!(startups(json!({"status": {"containerStatuses": [{"restartCount": 1}]}})), []);
    assert_eq!(startups(json!({"metadata": {"creationTimestamp": "2026-11-29T06:00:00Z"}})), []);
    assert_eq!(startups(json!({"metadata": {"creationTimestamp": "2026-11-30T07:00:00Z"}})), []);
}

#[test]
fn only_unknown_replica_sets_are_asked_about() {
    let pods = [
        pod("a", ("ReplicaSet", "rs"), json!({})),
        pod("b", ("ReplicaSet", "new"), json!({})),
        pod("c", ("StatefulSet", "db"), json!({})),
    ];
    let known = BTreeMap::from([("rs".to_owned(), "deployment".to_owned())]);
    assert_eq!(unknown_replica_sets(&pods, &known), ["new"]);
}
