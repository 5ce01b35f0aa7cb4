//! Whole ticks against a scripted API server: what is seen of pods, quotas and signals, and what is told of it.

use jiff::Timestamp;
use kube::runtime::watcher::Event;
use rlscaler_core::{Reading, Signal};
use rlscaler_signals::report::{SignalDetail, SignalName, State};
use serde_json::{Value, json};

use crate::context::Context;
use crate::fake::{Stage, fresh, pod};
use crate::replica::{status, tick};

/// The work of about 8 busy pods.
const HIGH_QPS: f64 = 640.0;

async fn ticks(stage: &Stage, operator: &Context, count: usize) {
    for _ in 0..count {
        tick(&stage.policy(|_| {}), operator).await;
        stage.advance(15);
    }
}

fn crashing(index: u32, state: Value) -> Value {
    let mut pod = pod(index, "False");
    pod["status"]["containerStatuses"] = json!([state]);
    pod
}

// Case 1.
#[tokio::test]
async fn the_signal_that_is_lost_is_named_while_the_others_scale_up() {
    let stage = Stage::new(HIGH_QPS);
    stage.signals.lock().unwrap().latency = Signal::Missing;
    let operator = stage.operator();
    ticks(&stage, &operator, 1).await;
    assert!(3 < stage.replicas());
    let message = stage.message("ScalingActive");
    assert!(message.contains("no scale-down while latency is Missing"), "{message}");

    let stage = Stage::new(HIGH_QPS);
    stage.signals.lock().unwrap().latency = fresh(0.8);
    stage.set_qps(Signal::Missing);
    let operator = stage.operator();
    ticks(&stage, &operator, 1).await;
    assert!(3 < stage.replicas(), "latency alone scales up");
    let message = stage.message("ScalingActive");
    assert!(message.contains("qps is Missing"), "{message}");
}

// VictoriaMetrics#4531: whoever reads the condition sees that a number is of a part of the data.
#[tokio::test]
async fn a_number_of_a_part_of_the_data_is_said_to_be_incomplete_and_lowers_nothing() {
    let stage = Stage::new(HIGH_QPS);
    let operator = stage.operator();
    ticks(&stage, &operator, 8).await;
    let before = stage.replicas();
    stage.set_qps(Signal::Partial(Reading { value: 40.0, age_secs: None }));
    ticks(&stage, &operator, 60).await;
    assert_eq!(stage.replicas(), before);
    let message = stage.message("ScalingActive");
    assert!(message.contains("no scale-down while qps is incomplete"), "{message}");
}

// Cases 18 and 19.
#[test]
fn the_query_and_the_sample_time_arrive_in_status_as_they_were_read() {
    let sample_time = Timestamp::from_second(1_800_000_000).unwrap();
    let query = r#"max(sum by (le) (rate(http_bucket{app="web",ns=~"shop"}[60s])))"#;
    let detail = SignalDetail {
        name: SignalName::Qps,
        value: Some("118.25".to_owned()),
        unit: "requests/s",
        query: query.to_owned(),
        sample_time: Some(sample_time),
        state: State::Stale,
        why: Some("the newest sample is 300 s old, the limit is 60 s".to_owned()),
        partial: None,
        fault: None,
        is_misconfigured: false,
    };
    let told = serde_json::to_value(status::signals(&[detail])).unwrap();
    let expected = json!([{"name": "qps", "value": "118.25", "unit": "requests/s", "state": "Stale",
        "query": query, "sampleTime": "2027-01-15T08:00:00Z",
        "message": "the newest sample is 300 s old, the limit is 60 s"}]);
    assert_eq!(told, expected);
}

// Case 23.
#[tokio::test]
async fn a_revision_that_crashes_is_told_of_once_and_does_not_raise_the_number() {
    let stage = Stage::new(200.0);
    let operator = stage.operator();
    ticks(&stage, &operator, 4).await;
    let before = stage.replicas();
    for round in 0..20 {
        // Now waiting, now running for a moment.
        let state = match round % 2 {
            0 => json!({"restartCount": round, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}),
            _ => json!({"restartCount": 2 + round,
                "state": {"running": {"startedAt": stage.now.lock().unwrap().to_string()}},
                "lastState": {"terminated": {"exitCode": 1, "startedAt": "2027-01-15T08:00:00Z",
                    "finishedAt": "2027-01-15T08:00:05Z"}}}),
        };
        let mut pods: Vec<Value> = (0..before).map(|index| pod(index, "True")).collect();
        pods.push(crashing(before, state));
        stage.world.lock().unwrap().pods = Some(pods);
        stage.set_qps(fresh(if round < 10 { 200.0 } else { 260.0 }));
        ticks(&stage, &operator, 1).await;
        assert_eq!(stage.replicas(), before, "round {round}");
    }
    let told: Vec<_> =
        stage.events().into_iter().filter(|event| event.starts_with("RolloutUnhealthy")).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains(&format!("web-{before}: CrashLoopBackOff")), "{told:?}");
    assert_eq!(stage.condition("ScalingLimited"), "True/RolloutUnhealthy");
}

// Case 28.
#[tokio::test]
async fn a_wrong_status_replicas_changes_nothing() {
    let decided = |running: Option<u32>| async move {
        let stage = Stage::new(HIGH_QPS);
        stage.world.lock().unwrap().running = running;
        let operator = stage.operator();
        ticks(&stage, &operator, 8).await;
        let decision = stage.world.lock().unwrap().status["decision"].clone();
        (stage.replicas(), decision["to"].clone(), decision["planner"].clone())
    };
    let right = decided(None).await;
    for wrong in [0, 1, 500] {
        assert_eq!(decided(Some(wrong)).await, right, "status.replicas {wrong}");
    }
}

// Case 29.
#[tokio::test]
async fn how_many_pods_are_used_and_ignored_stands_in_the_condition() {
    let stage = Stage::new(200.0);
    let mut job = pod(7, "True");
    job["metadata"]["ownerReferences"] = json!([{"kind": "Job", "uid": "job", "controller": true}]);
    let mut leaving = pod(8, "True");
    leaving["metadata"]["deletionTimestamp"] = json!("2027-01-15T07:59:00Z");
    let evicted =
        json!({"metadata": pod(9, "False")["metadata"], "status": {"phase": "Failed", "reason": "Evicted"}});
    let mut pods: Vec<Value> = (0..3).map(|index| pod(index, "True")).collect();
    pods.extend([pod(3, "False"), job, leaving, evicted]);
    stage.world.lock().unwrap().pods = Some(pods);
    let operator = stage.operator();
    ticks(&stage, &operator, 1).await;
    let expected = "the load is read; of 7 pods the selector matches 4 are used (3 ready, 1 starting); \
        ignored: 1 owned by others, 2 terminating or finished";
    assert_eq!(stage.message("ScalingActive"), expected);
}

// Case 31.
#[tokio::test]
async fn a_refusal_stops_the_raising_and_the_condition_repeats_it() {
    let stage = Stage::new(HIGH_QPS);
    let operator = stage.operator();
    {
        let mut world = stage.world.lock().unwrap();
        world.replicas = Some(5);
        world.pods = Some((0..3).map(|index| pod(index, "True")).collect());
        world.refused = Some("pods \"web-x\" is forbidden: exceeded quota: compute");
    }
    ticks(&stage, &operator, 4).await;
    assert_eq!(stage.replicas(), 5);
    assert_eq!(stage.condition("ScalingLimited"), "True/CapacityUnavailable");
    let message = stage.message("ScalingLimited");
    assert!(
        message.contains("2 pods cannot be placed") && message.contains("exceeded quota: compute"),
        "{message}"
    );
    assert!(stage.events().iter().any(|event| event.starts_with("CapacityUnavailable")));
    // It is told of also while no more is wanted.
    stage.set_qps(fresh(330.0));
    ticks(&stage, &operator, 20).await;
    assert_eq!(
        (stage.replicas(), stage.condition("ScalingLimited").as_str()),
        (5, "True/CapacityUnavailable")
    );
    stage.set_qps(fresh(HIGH_QPS));
    // The same pods missing without a refusal are on their way.
    stage.world.lock().unwrap().refused = None;
    ticks(&stage, &operator, 1).await;
    assert!(5 < stage.replicas());
}

// Case 31.
#[tokio::test]
async fn what_a_quota_leaves_is_raised_to_and_not_beyond() {
    let stage = Stage::new(HIGH_QPS);
    let operator = stage.operator();
    let quota = json!({"metadata": {"name": "compute", "namespace": "shop"},
        "status": {"hard": {"requests.cpu": "8"}, "used": {"requests.cpu": "6"}}});
    operator.quotas.apply(Event::Apply(serde_json::from_value(quota).unwrap()));
    ticks(&stage, &operator, 1).await;
    assert_eq!(stage.replicas(), 5, "3 pods, and room for 2 of one core");
    assert_eq!(stage.condition("ScalingLimited"), "True/CapacityUnavailable");
    let message = stage.message("ScalingLimited");
    let expected = "ResourceQuota compute: 6 of 8 requests.cpu are used";
    assert!(message.contains("room for 5 replicas") && message.contains(expected), "{message}");
}
