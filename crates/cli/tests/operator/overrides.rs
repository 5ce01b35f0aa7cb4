//! A person's will, by annotation, on a real cluster.

use crate::harness::{Scene, policy};
use crate::scripted_prometheus::Answer;

#[test]
fn a_pin_is_obeyed_also_while_prometheus_is_stopped_and_removing_it_resumes() {
    let scene = Scene::new("override-pin");
    let _operator = scene.operator();
    scene.apply(&policy(""));
    scene.wait("a decision", || scene.condition("ScalingActive").starts_with("True/"));

    scene.kubectl(&["annotate", "rlrp/web", "rlscaler.io/replicas=12"]);
    scene.wait_replicas(12);
    scene.wait("the condition", || scene.condition("Paused").starts_with("True/"));

    scene.prometheus.stop();
    scene.kubectl(&["annotate", "rlrp/web", "rlscaler.io/replicas=9", "--overwrite"]);
    scene.wait_replicas(9);
    scene.prometheus.start_again();

    scene.kubectl(&["annotate", "rlrp/web", "rlscaler.io/replicas-"]);
    scene.wait("automatic scaling to the small load", || scene.replicas() < 9);
    scene.wait("the condition", || scene.condition("Paused").starts_with("False/"));
}

#[test]
fn a_pin_outside_the_bounds_is_clamped_and_said() {
    let scene = Scene::new("override-clamp");
    let _operator = scene.operator();
    scene.apply(&policy(""));
    scene.kubectl(&["annotate", "rlrp/web", "rlscaler.io/replicas=50"]);
    scene.wait_replicas(20);
    scene
        .wait("an event", || scene.events().iter().any(|event| event.contains("50") && event.contains("20")));
}

#[test]
fn junk_in_an_annotation_pauses_and_a_warning_names_it() {
    let scene = Scene::new("override-junk");
    let _operator = scene.operator();
    scene.apply(&policy(""));
    scene.wait("a decision", || scene.condition("ScalingActive").starts_with("True/"));
    scene.kubectl(&["annotate", "rlrp/web", "rlscaler.io/pause=perhaps"]);
    scene.wait("a pause", || scene.condition("Paused").starts_with("True/"));
    scene.wait("an event", || scene.events().iter().any(|event| event.contains("rlscaler.io/pause")));
    scene.prometheus.set("scripted_qps", Answer::Value(800.0));
    scene.ticks(5);
    assert_eq!(scene.replicas(), 2);
}

#[test]
fn shadow_writes_nothing_not_even_a_pin() {
    let scene = Scene::new("override-shadow");
    let _operator = scene.operator();
    scene.apply(&policy("").replace("mode: Auto", "mode: Shadow"));
    scene.prometheus.set("scripted_qps", Answer::Value(800.0));
    scene.kubectl(&["annotate", "rlrp/web", "rlscaler.io/replicas=12"]);
    scene
        .wait("an event", || scene.events().iter().any(|event| event.starts_with("OverrideIgnoredInShadow")));
    scene.wait("advice", || 10 < scene.status()["desiredReplicas"].as_u64().unwrap_or(0));
    assert_eq!(scene.replicas(), 2);
}

#[test]
fn a_pause_counts_for_a_decision_whose_signals_are_still_being_read() {
    let scene = Scene::new("override-late");
    let _operator = scene.operator();
    scene.apply(&policy(""));
    scene.wait("a decision", || scene.condition("ScalingActive").starts_with("True/"));
    for attempt in 1..=3 {
        // The load asks for far more, and the answer that says so is under way when the pause arrives.
        scene.prometheus.set("scripted_qps", Answer::Slowly(600, 1_500.0));
        scene.prometheus.wait_asked("scripted_qps", 1);
        scene.kubectl(&["annotate", "rlrp/web", "rlscaler.io/pause=true"]);
        let paused_at = scene.replicas();
        scene.ticks(3);
        assert_eq!(scene.replicas(), paused_at, "attempt {attempt}");
        scene.prometheus.set("scripted_qps", Answer::Value(40.0));
        scene.kubectl(&["annotate", "rlrp/web", "rlscaler.io/pause-"]);
        scene.ticks(2);
    }
}
