//! What a dead, silent or lying Prometheus does to a real Deployment: nothing.

use crate::harness::{Scene, policy};
use crate::scripted_prometheus::Answer;

/// Load of about 10 busy pods: 20 requests/s keep one pod of 4 workers x 50 ms a quarter busy.
const HIGH_QPS: f64 = 800.0;
/// Load of about half a busy pod.
const LOW_QPS: f64 = 40.0;

/// A scene that has scaled up to the high load.
fn scaled_up(namespace: &'static str) -> (Scene, crate::harness::Operator, u64) {
    let scene = Scene::new(namespace);
    scene.prometheus.set("scripted_qps", Answer::Value(HIGH_QPS));
    let operator = scene.operator();
    scene.apply(&policy(""));
    scene.wait("a scale-up to the load", || 10 < scene.replicas());
    scene.ticks(5);
    let high = scene.replicas();
    (scene, operator, high)
}

/// Breaks the source one way, lets ticks pass, and expects the count to stand and somebody to say why; then mends it.
fn check_holds(scene: &Scene, high: u64, name: &str, break_it: impl Fn(), mend_it: impl Fn()) {
    break_it();
    scene.wait(&format!("{name}: ScalingActive=False"), || {
        scene.condition("ScalingActive").starts_with("False/")
    });
    assert_eq!(scene.replicas(), high, "{name}");
    let signals = scene.status()["signals"].clone();
    let qps = signals.as_array().unwrap().iter().find(|signal| signal["name"] == "qps").unwrap().clone();
    assert!(["Missing", "Invalid", "Stale"].contains(&qps["state"].as_str().unwrap()), "{name}: {qps}");
    mend_it();
    scene.wait(&format!("{name}: recovery"), || scene.condition("ScalingActive").starts_with("True/"));
    assert_eq!(scene.replicas(), high, "{name}, after recovery");
}

#[test]
fn replicas_hold_while_the_load_cannot_be_read_and_recovery_is_by_itself() {
    let (scene, _operator, high) = scaled_up("signals-hold");
    let prometheus = &scene.prometheus;
    let answers = [
        ("empty", Answer::Empty),
        ("NaN", Answer::Text("NaN")),
        ("infinite", Answer::Text("+Inf")),
        ("negative", Answer::Value(-5.0)),
        ("broken", Answer::Broken),
        ("silent", Answer::Silence),
    ];
    for (name, answer) in answers {
        let set = |answer: &Answer| prometheus.set("scripted_qps", answer.clone());
        check_holds(&scene, high, name, || set(&answer), || set(&Answer::Value(HIGH_QPS)));
    }
    check_holds(&scene, high, "stopped", || prometheus.stop(), || prometheus.start_again());
}

#[test]
fn a_healthy_load_scales_up_while_latency_is_lost_and_nothing_scales_down() {
    let scene = Scene::new("signals-partial");
    scene.prometheus.set("scripted_latency", Answer::Empty);
    let _operator = scene.operator();
    scene.apply(&policy(""));
    scene.prometheus.set("scripted_qps", Answer::Value(HIGH_QPS));
    scene.wait("a scale-up on the healthy signal", || 10 < scene.replicas());
    scene.ticks(5);
    let high = scene.replicas();

    scene.prometheus.set("scripted_qps", Answer::Value(LOW_QPS));
    scene.ticks(30); // more than every window of this policy
    assert_eq!(scene.replicas(), high);

    scene.prometheus.set("scripted_latency", Answer::Value(0.08));
    scene.wait("a scale-down once all is seen", || scene.replicas() < high);
}

#[test]
fn the_declared_fallback_applies_after_its_duration_and_never_scales_down() {
    let scene = Scene::new("signals-fallback");
    let _operator = scene.operator();
    scene.apply(&policy("  fallback: {failureDurationSeconds: 5, replicas: 7}"));
    scene.wait("a decision", || scene.condition("ScalingActive").starts_with("True/"));
    scene.prometheus.stop();
    scene.wait_replicas(7);
    scene.wait("the condition", || scene.condition("Fallback").starts_with("True/"));
    scene.prometheus.start_again();
    scene.wait("the end of the fallback", || scene.condition("Fallback").starts_with("False/"));
}
