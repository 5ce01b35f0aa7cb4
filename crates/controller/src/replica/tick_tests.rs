//! Whole ticks against a scripted API server: what is written, in which order, and what is not.

use kube::core::DeserializeGuard;
use kube::runtime::{reflector, watcher::Event};
use rlscaler_api::memory;
use rlscaler_core::Signal;
use rlscaler_core::memory::ScaleEvent;
use serde_json::{Value, json};

use crate::context::Context;
use crate::fake::{Stage, fresh};
use crate::replica::tick;

/// The work of about 8 busy pods.
pub(crate) const HIGH_QPS: f64 = 640.0;
/// The work of half a busy pod.
pub(crate) const LOW_QPS: f64 = 40.0;

/// So many ticks at the default interval.
pub(crate) async fn ticks(stage: &Stage, operator: &Context, count: usize, change: fn(&mut Value)) {
    for _ in 0..count {
        tick(&stage.policy(change), operator).await;
        stage.advance(15);
    }
}

pub(crate) fn unchanged(_: &mut Value) {}

fn annotated(policy: &mut Value) {
    policy["metadata"]["annotations"] = json!({"rlscaler.io/replicas": "12"});
}

/// A stage scaled up to the high load.
pub(crate) async fn scaled_up(operator: impl Fn(&Stage) -> Context) -> (Stage, Context) {
    let stage = Stage::new(HIGH_QPS);
    let operator = operator(&stage);
    ticks(&stage, &operator, 4, unchanged).await;
    assert!(8 < stage.replicas(), "{}", stage.replicas());
    stage.writes();
    (stage, operator)
}

#[tokio::test]
async fn a_rise_in_load_scales_up_and_is_told_with_cause_from_and_to() {
    let stage = Stage::new(HIGH_QPS);
    let operator = stage.operator();
    ticks(&stage, &operator, 1, unchanged).await;
    let replicas = stage.replicas();
    assert!(3 < replicas);
    let rescale = stage.events().into_iter().find(|event| event.starts_with("SuccessfulRescale")).unwrap();
    assert!(
        rescale.contains(&format!("New size: {replicas}; reason: ")) && rescale.contains("was 3"),
        "{rescale}"
    );
    // Case 63: cause, both numbers and the strongest signal, also for a machine.
    assert!(rescale.contains("strongest signal: 640.0 requests/s, the work of 8.0 busy pods"), "{rescale}");
    let action = format!("ScaleFrom3To{replicas}");
    assert!(stage.world.lock().unwrap().events.values().any(|event| event["action"] == *action));
    assert_eq!(stage.condition("AbleToScale"), "True/SucceededRescale");
    assert_eq!(stage.condition("Ready"), "True/ValidPolicy");
    assert_eq!(stage.condition("ScalingActive"), "True/ValidMetricFound");
    assert_eq!(stage.world.lock().unwrap().status["currentReplicas"], replicas);
}

#[tokio::test]
async fn nothing_is_written_while_nothing_changes_but_once_a_minute() {
    let stage = Stage::new(HIGH_QPS);
    let operator = stage.operator();
    let fixed: fn(&mut Value) = |policy| policy["spec"]["minReplicas"] = json!(40);
    ticks(&stage, &operator, 30, fixed).await;
    stage.writes();
    ticks(&stage, &operator, 40, fixed).await; // ten minutes
    let writes = stage.writes();
    assert!(writes.iter().all(|write| *write == "status"), "{writes:?}");
    assert!(writes.len() <= 10, "{} writes in ten minutes", writes.len());
}

#[tokio::test]
async fn memory_stands_in_status_before_a_scale_down_acts() {
    let (stage, operator) = scaled_up(Stage::operator).await;
    stage.set_qps(fresh(LOW_QPS));
    for _ in 0..40 {
        stage.writes();
        let before = stage.replicas();
        ticks(&stage, &operator, 1, unchanged).await;
        if stage.replicas() < before {
            let writes = stage.writes();
            let scale = writes.iter().position(|write| *write == "scale").unwrap();
            assert_eq!(writes[scale - 1], "status", "{writes:?}");
            // It is this tick's, and holds what is about to happen.
            let status = stage.world.lock().unwrap().status_at_scale.clone();
            let stood =
                memory::from_status(&serde_json::from_value(status["memory"].clone()).unwrap()).unwrap();
            let now_secs = stage.now.lock().unwrap().as_second() as f64 - 15.0;
            let change = before - stage.replicas();
            assert_eq!(stood.last_tick_secs, now_secs);
            assert_eq!(stood.scaling.downs.last(), Some(&ScaleEvent { time_secs: now_secs, change }));
            return;
        }
    }
    panic!("it never scaled down");
}

#[tokio::test]
async fn a_scale_down_whose_memory_cannot_be_written_does_not_act() {
    let (stage, operator) = scaled_up(Stage::operator).await;
    let high = stage.replicas();
    stage.set_qps(fresh(LOW_QPS));
    for _ in 0..40 {
        stage.world.lock().unwrap().refuse.insert("status", 503);
        ticks(&stage, &operator, 1, unchanged).await;
        assert_eq!(stage.replicas(), high);
    }
    stage.world.lock().unwrap().refuse.clear();
    ticks(&stage, &operator, 20, unchanged).await;
    assert!(stage.replicas() < high);
}

#[tokio::test]
async fn a_person_s_change_during_the_tick_is_decided_upon_and_not_overwritten_unseen() {
    let stage = Stage::new(HIGH_QPS);
    let operator = stage.operator();
    stage.world.lock().unwrap().person = Some(30);
    ticks(&stage, &operator, 1, unchanged).await;
    let status = stage.world.lock().unwrap().status.clone();
    assert_eq!(status["decision"]["from"], 30, "decided upon what the person wrote");
    assert!(stage.events().iter().all(|event| !event.contains("was 3,")), "{:?}", stage.events());
}

/// One tick of the policy as it was when the tick began, while the watch has it `now`.
async fn edited_meanwhile(stage: &Stage, now: fn(&mut Value)) {
    let (policies, mut watched) = reflector::store();
    watched.apply_watcher_event(&Event::Apply(DeserializeGuard(Ok(stage.policy(now)))));
    let operator = Context { policies, ..stage.operator() };
    ticks(stage, &operator, 1, unchanged).await;
}

#[tokio::test]
async fn an_edit_during_the_tick_is_obeyed_by_that_tick_or_ends_it() {
    let stage = Stage::new(HIGH_QPS);
    edited_meanwhile(&stage, annotated).await;
    assert_eq!(stage.replicas(), 12, "the pin is younger than the tick");
    let ends: [fn(&mut Value); 3] = [
        |policy| policy["metadata"]["generation"] = json!(2),
        |policy| policy["metadata"]["uid"] = json!("another"),
        |policy| policy["metadata"]["deletionTimestamp"] = json!("2026-11-30T07:00:00Z"),
    ];
    for end in ends {
        let stage = Stage::new(HIGH_QPS);
        edited_meanwhile(&stage, end).await;
        assert_eq!(stage.writes(), Vec::<&str>::new());
    }
    let stage = Stage::new(HIGH_QPS);
    edited_meanwhile(&stage, unchanged).await;
    assert!(3 < stage.replicas());
}

// Case 36.
#[tokio::test]
async fn a_restart_at_any_tick_scales_down_no_earlier_and_repeats_no_event() {
    let (stage, operator) = scaled_up(Stage::operator).await;
    stage.set_qps(fresh(LOW_QPS));
    let mut undisturbed = Vec::new();
    for _ in 0..40 {
        ticks(&stage, &operator, 1, unchanged).await;
        undisturbed.push(stage.replicas());
    }
    for restart_at in 0..12 {
        let (stage, mut operator) = scaled_up(Stage::operator).await;
        stage.set_qps(fresh(LOW_QPS));
        for (tick, expected) in undisturbed.iter().enumerate() {
            if tick == restart_at {
                let events = stage.events();
                stage.writes();
                operator = stage.operator();
                ticks(&stage, &operator, 1, unchanged).await;
                let rescaled =
                    |events: &[String]| events.iter().filter(|event| event.starts_with("Succ")).count();
                let scaled = stage.writes().contains(&"scale");
                assert_eq!(rescaled(&stage.events()), rescaled(&events) + usize::from(scaled));
            } else {
                ticks(&stage, &operator, 1, unchanged).await;
            }
            assert!(
                *expected <= stage.replicas(),
                "restart at {restart_at}, tick {tick}: {} < {expected}",
                stage.replicas()
            );
        }
    }
}

// Cases 2, 4, 6: not seeing is not zero.
#[tokio::test]
async fn a_lost_load_holds_the_replicas_and_says_why() {
    let (stage, operator) = scaled_up(Stage::operator).await;
    let high = stage.replicas();
    for lost in [Signal::Missing, Signal::Invalid] {
        stage.set_qps(lost);
        ticks(&stage, &operator, 20, unchanged).await;
        assert_eq!(stage.replicas(), high);
        assert!(
            stage.condition("ScalingActive").starts_with("False/"),
            "{}",
            stage.condition("ScalingActive")
        );
        assert_eq!(stage.condition("Ready"), "True/ValidPolicy", "case 64: Ready is not the weather");
    }
    stage.set_qps(fresh(HIGH_QPS));
    ticks(&stage, &operator, 2, unchanged).await;
    assert_eq!(stage.condition("ScalingActive"), "True/ValidMetricFound");
    assert!(stage.events().iter().any(|event| event.starts_with("SignalRecovered")), "{:?}", stage.events());
}

// Cases 43 and 50.
#[tokio::test]
async fn a_pin_is_obeyed_with_every_source_down_and_its_removal_resumes() {
    let stage = Stage::new(LOW_QPS);
    let operator = stage.operator();
    stage.set_qps(Signal::Missing);
    stage.signals.lock().unwrap().latency = Signal::Missing;
    ticks(&stage, &operator, 1, annotated).await;
    assert_eq!(stage.replicas(), 12);
    assert_eq!(stage.condition("Paused"), "True/Pinned");
    assert!(stage.events().iter().any(|event| event.starts_with("OverrideApplied")));
    stage.set_qps(fresh(LOW_QPS));
    stage.signals.lock().unwrap().latency = fresh(0.08);
    ticks(&stage, &operator, 30, unchanged).await;
    assert!(stage.replicas() < 12);
    assert_eq!(stage.condition("Paused"), "False/Automatic");
    assert!(stage.events().iter().any(|event| event.starts_with("OverrideReleased")));
}

#[tokio::test]
async fn shadow_writes_no_scale_whatever_is_asked() {
    let stage = Stage::new(HIGH_QPS);
    let operator = stage.operator();
    let shadow: fn(&mut Value) = |policy| {
        policy["spec"]["mode"] = json!("Shadow");
        annotated(policy);
    };
    ticks(&stage, &operator, 5, shadow).await;
    assert_eq!(stage.replicas(), 3);
    assert!(!stage.writes().contains(&"scale"));
    let events = stage.events();
    for reason in ["OverrideIgnoredInShadow", "ShadowDecision"] {
        assert!(events.iter().any(|event| event.starts_with(reason)), "{reason}: {events:?}");
    }
}

#[tokio::test]
async fn every_fault_of_a_refused_policy_is_told_and_nothing_is_scaled() {
    let stage = Stage::new(HIGH_QPS);
    let operator = stage.operator();
    let broken: fn(&mut Value) = |policy| {
        policy["spec"]["minReplicas"] = json!(50);
        policy["spec"]["objective"]["slaPercent"] = json!("100");
    };
    ticks(&stage, &operator, 2, broken).await;
    assert_eq!(stage.replicas(), 3);
    assert_eq!(stage.condition("Ready"), "False/InvalidPolicy");
    let refused = stage.events().into_iter().find(|event| event.starts_with("InvalidPolicy")).unwrap();
    assert!(
        refused.contains("spec.minReplicas") && refused.contains("spec.objective.slaPercent"),
        "{refused}"
    );
    assert_eq!(stage.writes(), ["status", "event"], "the second tick has nothing to add");
}

#[tokio::test]
async fn a_target_that_is_gone_and_comes_back_is_scaled_again() {
    let stage = Stage::new(HIGH_QPS);
    let operator = stage.operator();
    stage.world.lock().unwrap().replicas = None;
    ticks(&stage, &operator, 3, unchanged).await;
    assert_eq!(stage.condition("AbleToScale"), "False/FailedGetScale");
    assert_eq!(stage.condition("Ready"), "False/FailedGetScale");
    stage.world.lock().unwrap().replicas = Some(3);
    ticks(&stage, &operator, 2, unchanged).await;
    assert!(3 < stage.replicas());
    assert_eq!(stage.condition("Ready"), "True/ValidPolicy");
}

#[tokio::test]
async fn a_refused_scale_is_told_and_tried_again() {
    let stage = Stage::new(HIGH_QPS);
    let operator = stage.operator();
    stage.world.lock().unwrap().refuse.insert("scale", 403);
    ticks(&stage, &operator, 1, unchanged).await;
    assert_eq!(stage.replicas(), 3);
    assert_eq!(stage.condition("AbleToScale"), "False/FailedUpdateScale");
    assert!(stage.events().iter().any(|event| event.starts_with("FailedRescale")));
    ticks(&stage, &operator, 1, unchanged).await;
    assert!(3 < stage.replicas());
}

#[tokio::test]
async fn a_status_that_vanished_with_its_policy_leaves_nothing_behind() {
    let stage = Stage::new(HIGH_QPS);
    let operator = stage.operator();
    ticks(&stage, &operator, 1, unchanged).await;
    assert_eq!(operator.states.len(), 1);
    assert!(operator.states.forget("policy-uid").is_some());
    assert!(operator.states.is_empty());
}

#[tokio::test]
async fn a_clock_that_steps_back_delays_neither_the_status_nor_the_next_decision() {
    let stage = Stage::new(HIGH_QPS);
    let operator = stage.operator();
    let fixed: fn(&mut Value) = |policy| policy["spec"]["minReplicas"] = json!(40);
    ticks(&stage, &operator, 30, fixed).await;
    stage.set_clock(-3600);
    stage.writes();
    ticks(&stage, &operator, 6, fixed).await;
    assert!(stage.writes().contains(&"status"), "what must survive a restart is written within a minute");
    let at = |secs: i64| jiff::Timestamp::from_second(1_800_000_000 + secs).unwrap();
    let interval = jiff::SignedDuration::from_secs(15);
    let pause = |due: i64, now: i64| super::pause(at(due), at(now), interval) + super::DEBOUNCE;
    assert_eq!(pause(15, 2).as_secs(), 13);
    assert_eq!(pause(15, -3600).as_secs(), 15, "it stepped back during the tick");
    assert_eq!(pause(15, 3600), super::DEBOUNCE);
}

// Found by seeds 9213 and 11574 of the fault run.
#[tokio::test]
async fn a_clock_that_is_set_brings_the_declared_fallback_no_sooner_and_no_later() {
    let declared: fn(&mut Value) = |policy| {
        policy["metadata"]["generation"] = json!(2);
        policy["spec"]["fallback"] = json!({"failureDurationSeconds": 120, "replicas": 5});
    };
    for step_secs in [0, 20, 120, 3600, -20, -3600] {
        let (stage, operator) = scaled_up(Stage::operator).await;
        let high = stage.replicas();
        stage.set_qps(Signal::Missing);
        ticks(&stage, &operator, 3, declared).await;
        stage.set_clock(step_secs);
        ticks(&stage, &operator, 5, declared).await;
        assert_eq!(stage.replicas(), high, "the clock was set by {step_secs} s");
        ticks(&stage, &operator, 1, declared).await;
        assert_eq!(stage.replicas(), 5, "the clock was set by {step_secs} s");
    }
}
