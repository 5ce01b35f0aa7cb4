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

fn now() -> Timestamp {
    "2026-11-30T08:00:00Z".parse().unwrap()
}

fn owned() -> BTreeSet<String> {
    BTreeSet::from(["rs".to_owned()])
}

fn check(change: Value, expected: Pods) {
    assert_eq!(check_pod(change.clone()), expected, "{change}");
}

/// What one pod of the target counts as.
fn check_pod(change: Value) -> Pods {
    count(&[pod("a", ("ReplicaSet", "rs"), change)], "deployment", &owned(), now()).pods
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
    // Ready while terminating: it takes no new requests.
    check(
        json!({"metadata": {"deletionTimestamp": "2026-11-30T07:59:50Z"}, "status": {"phase": "Running"}}),
        NONE,
    );
    // A readiness gate that is not passed yet, and a node that does not answer.
    let gate = json!([{"type": "ContainersReady", "status": "True"},
        {"type": "Ready", "status": "False", "reason": "ReadinessGatesNotReady"}]);
    check(json!({"status": {"conditions": gate}}), Pods { starting: 1, ..NONE });
    let lost = json!([{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]);
    check(json!({"status": {"conditions": lost}}), Pods { starting: 1, ..NONE });
}

/// A container in its `restarts`-th run since `began`, after one of `ran` seconds that ended at `ended`.
fn run(restarts: u32, began: &str, ended: &str, ran_secs: i64) -> Value {
    let finished: Timestamp = ended.parse().unwrap();
    json!({"restartCount": restarts, "state": {"running": {"startedAt": began}},
        "lastState": {"terminated": {"exitCode": 1, "finishedAt": ended,
            "startedAt": finished - SignedDuration::from_secs(ran_secs)}}})
}

// Case 23.
#[test]
fn a_pod_that_runs_for_a_moment_between_two_crashes_stays_unhealthy() {
    let is_ready = |ready: &str| json!([{"type": "Ready", "status": ready, "lastTransitionTime": "2026-11-30T07:59:55Z"}]);
    let of = |ready: &str, container: &Value| {
        check_pod(json!({"status": {"conditions": is_ready(ready), "containerStatuses": [container]}}))
    };
    let looping = run(5, "2026-11-30T07:59:50Z", "2026-11-30T07:57:10Z", 8);
    for ready in ["False", "True"] {
        assert_eq!(of(ready, &looping), Pods { unhealthy: 1, ..NONE }, "ready {ready}");
    }
    // Between the end of a run and the wait for the next.
    let ended = json!({"restartCount": 0, "state": {"terminated": {"exitCode": 1}}});
    assert_eq!(of("False", &ended), Pods { unhealthy: 1, ..NONE });
    // One crash may be a dependency that was not there yet; a long run before or since is no loop.
    let once = run(1, "2026-11-30T07:59:50Z", "2026-11-30T07:59:40Z", 8);
    assert_eq!(of("False", &once), Pods { starting: 1, ..NONE });
    let after_days = run(5, "2026-11-30T07:59:50Z", "2026-11-30T07:59:40Z", 200_000);
    assert_eq!(of("True", &after_days), Pods { ready: 1, ..NONE });
    let overcome = run(5, "2026-11-30T07:49:50Z", "2026-11-30T07:47:10Z", 8);
    assert_eq!(of("True", &overcome), Pods { ready: 1, ..NONE });
    assert_eq!(of("False", &overcome), Pods { starting: 1, ..NONE }, "overloaded, most likely");
}

// Case 23.
#[test]
fn an_init_container_that_failed_and_then_ended_well_is_done() {
    let mut done = run(4, "2026-11-30T07:59:50Z", "2026-11-30T07:59:40Z", 3);
    done["state"] = json!({"terminated": {"exitCode": 0}});
    let failing = json!({"restartCount": 4, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
    let of = |init: &Value| {
        check_pod(json!({"status": {"conditions": [{"type": "Ready", "status": "False"}],
            "initContainerStatuses": [init], "containerStatuses": [{"state": {"running": {}}}]}}))
    };
    assert_eq!(of(&done), Pods { starting: 1, ..NONE });
    assert_eq!(of(&failing), Pods { unhealthy: 1, ..NONE });
    // A sidecar that crashes again and again, as any other container.
    assert_eq!(of(&run(4, "2026-11-30T07:59:50Z", "2026-11-30T07:59:40Z", 3)), Pods { unhealthy: 1, ..NONE });
}

// Case 29.
#[test]
fn pods_of_others_under_the_same_selector_do_not_count() {
    let pods = [
        pod("a", ("ReplicaSet", "rs"), json!({})),
        pod("b", ("ReplicaSet", "other"), json!({})),
        pod("c", ("StatefulSet", "db"), json!({})),
        pod("d", ("ReplicaSet", "rs"), json!({"metadata": {"ownerReferences": []}})),
        pod("e", ("Job", "migration"), json!({})),
        pod("f", ("ReplicaSet", "rs"), json!({"metadata": {"deletionTimestamp": "2026-11-30T07:00:00Z"}})),
    ];
    let counted = count(&pods, "deployment", &owned(), now());
    assert_eq!((counted.pods.ready, counted.ignored(), counted.ambiguous_owners), (1, 5, 0));
    assert_eq!((counted.foreign, counted.leaving, counted.total()), (4, 1, 1));
    assert_eq!(counted.ready[0].name, "a");
    let foreign = count(&pods[1..3], "deployment", &BTreeSet::new(), now());
    assert_eq!((foreign.pods, foreign.ignored()), (NONE, 2));
}

#[test]
fn a_target_that_owns_its_pods_directly_is_found() {
    let pods = [pod("db-0", ("StatefulSet", "set"), json!({})), pod("x", ("ReplicaSet", "rs"), json!({}))];
    assert_eq!(count(&pods, "set", &BTreeSet::new(), now()).pods.ready, 1);
}

#[test]
fn an_unknown_chain_of_owners_is_counted_by_the_selector_and_said_so() {
    let pods = [pod("a", ("Worker", "w1"), json!({})), pod("b", ("Worker", "w2"), json!({}))];
    let counted = count(&pods, "custom", &BTreeSet::new(), now());
    assert_eq!((counted.pods.ready, counted.ambiguous_owners), (2, 2));
}

#[test]
fn what_is_wrong_is_told_with_an_example() {
    let crashing = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}],
        "containerStatuses": [{"restartCount": 3, "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}});
    let unplaced = json!({"status": {"conditions": [{"type": "PodScheduled", "status": "False",
        "reason": "Unschedulable", "message": "0/3 nodes are available: 3 Insufficient cpu."}]}});
    let young =
        json!({"metadata": {"creationTimestamp": "2026-11-30T07:00:00Z"}, "spec": {"containers": []}});
    let pods = [
        pod("a", ("ReplicaSet", "rs"), crashing.clone()),
        pod("b", ("ReplicaSet", "rs"), crashing),
        pod("c", ("ReplicaSet", "rs"), unplaced),
        pod("d", ("ReplicaSet", "rs"), young),
        pod("e", ("ReplicaSet", "rs"), json!({})),
    ];
    let counted = count(&pods, "deployment", &owned(), now());
    let why = "ImagePullBackOff".to_owned();
    assert_eq!(counted.broken, Some(Broken { pod: "a".into(), owner: "rs".into(), why }));
    assert_eq!(counted.unplaced.as_deref(), Some("0/3 nodes are available: 3 Insufficient cpu."));
    assert!(counted.newest.is_some_and(|spec| spec.containers.is_empty()), "what one more pod would ask for");
}

#[test]
fn the_cpu_request_is_the_sum_over_containers_that_run_all_the_time() {
    let request = |spec: Value| {
        count(&[pod("a", ("ReplicaSet", "rs"), json!({"spec": spec}))], "deployment", &owned(), now())
            .cpu_request
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
    let startups =
        |change| count(&[pod("a", ("ReplicaSet", "rs"), change)], "deployment", &owned(), now()).startups;
    assert_eq!(startups(json!({})), [("uid-a".to_owned(), 40.0)]);
    assert_eq!(startups(json!({"status": {"containerStatuses": [{"restartCount": 1}]}})), []);
    assert_eq!(startups(json!({"metadata": {"creationTimestamp": "2026-11-29T06:00:00Z"}})), []);
    assert_eq!(startups(json!({"metadata": {"creationTimestamp": "2026-11-30T07:00:00Z"}})), []);
}

#[test]
fn owners_are_asked_for_when_a_replica_set_is_unknown_and_only_then() {
    let known = BTreeMap::from([("rs".to_owned(), "deployment".to_owned())]);
    let ours = || pod("a", ("ReplicaSet", "rs"), json!({}));
    let new = || pod("b", ("ReplicaSet", "new"), json!({}));
    let database = || pod("c", ("StatefulSet", "db"), json!({}));
    assert!(!owners_are_outdated(&[ours(), database()], "deployment", &known));
    assert!(owners_are_outdated(&[ours(), new(), database()], "deployment", &known));
    assert!(!owners_are_outdated(&[database()], "deployment", &known), "no ReplicaSet could own it");
}

// `kubectl delete deployment --cascade=orphan`, then the same Deployment again.
#[test]
fn a_replica_set_that_a_recreated_target_adopted_is_asked_about_again() {
    let pods = [pod("a", ("ReplicaSet", "rs"), json!({}))];
    for before in ["deployment", ""] {
        let known = BTreeMap::from([("rs".to_owned(), before.to_owned())]);
        assert!(owners_are_outdated(&pods, "created-anew", &known), "{before:?}");
    }
    let known = BTreeMap::from([("rs".to_owned(), "created-anew".to_owned())]);
    assert!(!owners_are_outdated(&pods, "created-anew", &known));
}
