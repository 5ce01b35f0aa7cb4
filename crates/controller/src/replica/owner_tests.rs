//! Whole ticks beside others who write: tools, people, autoscalers; and with an API server that refuses.

use std::sync::Arc;
use std::time::Duration;

use kube::runtime::controller::Action;
use kube::runtime::watcher::Event;
use rlscaler_core::{PlannerOnly, Signal};
use serde_json::{Value, json};

use super::tests::{HIGH_QPS, LOW_QPS, scaled_up, ticks, unchanged};
use super::{DEBOUNCE, REPORT_AGAIN, tick};
use crate::context::Context;
use crate::fake::{Stage, fresh};
use crate::models::LoadedModel;
use crate::rivals::RivalKind;

/// Events with this reason.
fn told(stage: &Stage, reason: &str) -> Vec<String> {
    stage.events().into_iter().filter(|event| event.starts_with(&format!("{reason}: "))).collect()
}

fn message(stage: &Stage, kind: &str) -> String {
    let status = stage.world.lock().unwrap().status.clone();
    let conditions = status["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|condition| condition["type"] == kind).unwrap();
    found["message"].as_str().unwrap().to_owned()
}

// Case 55.
#[tokio::test]
async fn a_manager_that_keeps_rewriting_is_named_and_backed_off_from_also_across_restarts() {
    for restarts in [false, true] {
        let stage = Stage::new(HIGH_QPS);
        let mut operator = stage.operator();
        stage.world.lock().unwrap().manager = Some("argocd-controller");
        for round in 0..3 {
            assert_ne!(stage.condition("ReplicasConflict"), "True/OtherWriter", "round {round}");
            ticks(&stage, &operator, 1, unchanged).await;
            assert!(stage.writes().contains(&"scale"), "round {round}");
            stage.world.lock().unwrap().replicas = Some(3);
            if restarts {
                operator = stage.operator();
            }
        }
        ticks(&stage, &operator, 1, unchanged).await;
        assert_eq!(stage.condition("ReplicasConflict"), "True/OtherWriter", "restarts: {restarts}");
        for words in ["argocd-controller", "ignoreDifferences: [{group: apps, kind: Deployment"] {
            assert!(
                message(&stage, "ReplicasConflict").contains(words),
                "{}",
                message(&stage, "ReplicasConflict")
            );
            assert!(told(&stage, "ReplicasConflict")[0].contains(words));
        }
        for _ in 0..35 {
            if restarts {
                operator = stage.operator();
            }
            ticks(&stage, &operator, 1, unchanged).await;
        }
        assert!(!stage.writes().contains(&"scale"), "restarts: {restarts}");
        ticks(&stage, &operator, 6, unchanged).await;
        assert!(stage.writes().contains(&"scale"), "after ten minutes it is tried again");
        assert_eq!(stage.condition("ReplicasConflict"), "False/NoConflict");
    }
}

// Issue: a person's `kubectl scale --replicas=0`.
#[tokio::test]
async fn a_person_s_scale_to_zero_stands_still_and_scaling_resumes_by_a_person_s_hand() {
    let (stage, mut operator) = scaled_up(Stage::operator).await;
    stage.world.lock().unwrap().replicas = Some(0);
    for round in 0..20 {
        if round % 5 == 4 {
            operator = stage.operator();
        }
        ticks(&stage, &operator, 1, unchanged).await;
        assert_eq!((stage.replicas(), stage.writes().contains(&"scale")), (0, false), "round {round}");
        assert_eq!(stage.condition("ScalingActive"), "False/ScalingDisabled");
        assert_eq!(stage.condition("ReplicasConflict"), "False/NoConflict");
    }
    stage.world.lock().unwrap().replicas = Some(1);
    ticks(&stage, &operator, 4, unchanged).await;
    assert!(8 < stage.replicas(), "{}", stage.replicas());
    assert_eq!(stage.condition("ScalingActive"), "True/ValidMetricFound");
}

// Case 61.
#[tokio::test]
async fn a_vpa_on_the_cpu_of_the_target_is_warned_of_once_a_day_and_keeps_nobody_from_scaling() {
    let stage = Stage::new(HIGH_QPS);
    let operator = stage.operator();
    let vpa = serde_json::from_value(
        json!({"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "tuner", "namespace": "shop"},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}}),
    );
    operator.rivals.apply(RivalKind::Vpa, Event::Apply(vpa.unwrap()));
    ticks(&stage, &operator, 10, unchanged).await;
    let warned = told(&stage, "VerticalPodAutoscaler");
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert!(warned[0].contains("tuner") && warned[0].contains("controlledResources"), "{warned:?}");
    assert!(8 < stage.replicas());
    stage.advance(86_400);
    ticks(&stage, &operator, 2, unchanged).await;
    assert_eq!(told(&stage, "VerticalPodAutoscaler").len(), 2);
}

// Case 46.
#[tokio::test]
async fn junk_in_an_annotation_is_one_event_and_other_junk_another() {
    let stage = Stage::new(HIGH_QPS);
    let operator = stage.operator();
    let junk: fn(&mut Value) =
        |policy| policy["metadata"]["annotations"] = json!({"rlscaler.io/pause": "perhaps"});
    ticks(&stage, &operator, 5, junk).await;
    let about_overrides = || {
        let events = stage.events().into_iter();
        events.filter(|event| event.starts_with("Override")).collect::<Vec<_>>()
    };
    assert_eq!(about_overrides().len(), 1, "{:?}", about_overrides());
    assert!(about_overrides()[0].starts_with("OverrideInvalid: rlscaler.io/pause is \"perhaps\""));
    assert_eq!(stage.replicas(), 3);
    ticks(&stage, &operator, 5, |policy| {
        policy["metadata"]["annotations"] = json!({"rlscaler.io/replicas": "many"});
    })
    .await;
    assert_eq!(about_overrides().len(), 2, "{:?}", about_overrides());
    assert!(about_overrides().iter().any(|event| event.contains("rlscaler.io/replicas is \"many\"")));
    ticks(&stage, &operator, 2, unchanged).await;
    assert_eq!(told(&stage, "OverrideReleased").len(), 1);
    assert!(3 < stage.replicas());
}

#[tokio::test]
async fn an_event_that_could_not_be_written_is_told_later_with_its_own_time_and_a_refused_one_is_not() {
    let check = |code: u16, expected: usize| async move {
        let stage = Stage::new(HIGH_QPS);
        let operator = stage.operator();
        stage.world.lock().unwrap().refuse.extend([("event", code), ("status", 503)]);
        let happened = *stage.now.lock().unwrap();
        ticks(&stage, &operator, 1, unchanged).await;
        assert_eq!(told(&stage, "SuccessfulRescale").len(), 0, "{code}");
        ticks(&stage, &operator, 3, unchanged).await;
        let world = stage.world.lock().unwrap();
        let rescaled: Vec<_> =
            world.events.values().filter(|event| event["action"] == "ScaleFrom3To7").collect();
        assert_eq!(rescaled.len(), expected, "{code}: {rescaled:?}");
        for event in rescaled {
            let at: jiff::Timestamp = event["eventTime"].as_str().unwrap().parse().unwrap();
            assert_eq!(at, happened);
        }
    };
    check(503, 1).await;
    check(403, 0).await;
}

/// Ticks of ten minutes at which a scaling was asked for, while each is answered with this.
async fn asked(stage: &Stage, operator: &Context, code: u16) -> usize {
    let mut asked = 0;
    for _ in 0..40 {
        stage.world.lock().unwrap().refuse.insert("scale", code);
        ticks(stage, operator, 1, unchanged).await;
        asked += usize::from(!stage.world.lock().unwrap().refuse.contains_key("scale"));
    }
    asked
}

#[tokio::test]
async fn a_refused_scaling_is_asked_for_ever_later_and_a_failed_one_at_every_tick() {
    let stage = Stage::new(HIGH_QPS);
    let operator = stage.operator();
    let refused = asked(&stage, &operator, 403).await;
    assert!((8..=14).contains(&refused), "{refused} times in ten minutes");
    assert_eq!(stage.condition("AbleToScale"), "False/FailedUpdateScale");
    assert_eq!(told(&stage, "FailedRescale").len(), 1, "{:?}", stage.events());
    // A person's pin is another number: it is asked for at once.
    stage.world.lock().unwrap().refuse.clear();
    ticks(&stage, &operator, 1, |policy| {
        policy["metadata"]["annotations"] = json!({"rlscaler.io/replicas": "5"});
    })
    .await;
    assert_eq!(stage.replicas(), 5);

    let stage = Stage::new(HIGH_QPS);
    let operator = stage.operator();
    assert_eq!(asked(&stage, &operator, 503).await, 40);
}

#[tokio::test]
async fn a_target_that_is_not_there_is_looked_for_ever_later_and_a_silent_server_at_every_tick() {
    let stage = Stage::new(HIGH_QPS);
    let operator = stage.operator();
    stage.world.lock().unwrap().replicas = None;
    for secs in [15, 30, 60, 60] {
        let action = tick(&stage.policy(unchanged), &operator).await;
        assert_eq!(action, Action::requeue(Duration::from_secs(secs) - DEBOUNCE));
        stage.advance(u32::try_from(secs).unwrap());
    }
    stage.world.lock().unwrap().replicas = Some(3);
    let action = tick(&stage.policy(unchanged), &operator).await;
    assert_eq!(action, Action::requeue(Duration::from_secs(15) - DEBOUNCE));
    assert!(3 < stage.replicas());
}

#[tokio::test]
async fn a_refusal_of_the_policy_that_could_not_be_written_is_written_later() {
    let stage = Stage::new(HIGH_QPS);
    let operator = stage.operator();
    let broken: fn(&mut Value) = |policy| policy["spec"]["minReplicas"] = json!(50);
    stage.world.lock().unwrap().refuse.insert("status", 503);
    let action = tick(&stage.policy(broken), &operator).await;
    assert_eq!(action, Action::requeue(REPORT_AGAIN));
    stage.advance(15);
    assert_eq!(tick(&stage.policy(broken), &operator).await, Action::await_change());
    assert_eq!(stage.condition("Ready"), "False/InvalidPolicy");
    assert_eq!(told(&stage, "InvalidPolicy").len(), 1);
}

// Case 70.
#[tokio::test]
async fn a_model_without_a_day_of_history_says_what_it_has_and_what_it_needs_and_scales_meanwhile() {
    let stage = Stage::new(HIGH_QPS);
    let operator = stage.operator_with(LoadedModel { policy: Arc::new(PlannerOnly), trained: true });
    ticks(&stage, &operator, 1, unchanged).await;
    assert_eq!(stage.condition("ModelReady"), "False/InsufficientHistory");
    assert!(3 < stage.replicas(), "scaled meanwhile");
    stage.advance(2 * 3600 - 15);
    ticks(&stage, &operator, 1, unchanged).await;
    assert!(message(&stage, "ModelReady").contains("have 2h need 24h"), "{}", message(&stage, "ModelReady"));
    stage.advance(22 * 3600 - 30);
    ticks(&stage, &operator, 1, unchanged).await;
    assert_eq!(stage.condition("ModelReady"), "False/InsufficientHistory", "a tick before the day is over");
    ticks(&stage, &operator, 1, unchanged).await;
    assert_eq!(stage.condition("ModelReady"), "True/ModelLoaded");
    assert!(told(&stage, "ModelRejected").is_empty(), "being young is no fault");
}

// Case 66.
#[tokio::test]
async fn lists_in_status_keep_their_order_whatever_comes_and_goes() {
    let stage = Stage::new(HIGH_QPS);
    let operator = stage.operator();
    let names = |list: &str, field: &str| {
        let status = stage.world.lock().unwrap().status.clone();
        let items = status[list].as_array().unwrap().clone();
        items.iter().map(|item| item[field].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    ticks(&stage, &operator, 1, unchanged).await;
    let (conditions, signals) = (names("conditions", "type"), names("signals", "name"));
    let loads = [Signal::Missing, fresh(LOW_QPS), Signal::Invalid, fresh(0.0), fresh(HIGH_QPS)];
    for round in 0..15 {
        stage.set_qps(loads[round % loads.len()]);
        stage.signals.lock().unwrap().latency = if round % 2 == 0 { Signal::Missing } else { fresh(0.08) };
        stage.world.lock().unwrap().replicas = if round % 7 == 6 { None } else { Some(3) };
        ticks(&stage, &operator, 1, unchanged).await;
        assert_eq!(
            (names("conditions", "type"), names("signals", "name")),
            (conditions.clone(), signals.clone())
        );
    }
}

#[tokio::test]
async fn the_last_decisions_stand_in_status_and_survive_a_restart() {
    let (stage, _) = scaled_up(Stage::operator).await;
    let decisions = || stage.world.lock().unwrap().status["decisions"].as_array().unwrap().clone();
    let first = decisions().last().unwrap().clone();
    assert_eq!((&first["from"], &first["action"]), (&json!(3), &json!("up")));
    assert!(decisions().len() < 4, "holds are one");
    let operator = stage.operator();
    stage.set_qps(fresh(LOW_QPS));
    ticks(&stage, &operator, 40, unchanged).await;
    assert_eq!(decisions().last().unwrap(), &first);
    assert_eq!(decisions()[0]["to"], stage.replicas());
    assert!(decisions().len() <= 10);
}
