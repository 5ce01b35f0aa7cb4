//! `kill -9` and a restart: nothing happens that would not have happened otherwise.

use crate::harness::{Scene, policy};
use crate::scripted_prometheus::Answer;

#[test]
fn a_killed_operator_neither_shortens_the_window_nor_repeats_an_event() {
    let scene = Scene::new("restart-window");
    scene.prometheus.set("scripted_qps", Answer::Value(800.0));
    let operator = scene.operator();
    // The window is longer than this test: no scale-down can be right in it.
    scene.apply(&policy("  behavior: {scaleDown: {stabilizationWindowSeconds: 3600}}"));
    scene.wait("a scale-up", || 10 < scene.replicas());
    scene.ticks(5);
    let high = scene.replicas();
    let events = scene.events();
    assert!(events.iter().any(|event| event.starts_with("SuccessfulRescale")), "{events:?}");

    scene.prometheus.set("scripted_qps", Answer::Value(40.0));
    let mut operator = operator;
    for _ in 0..3 {
        operator.kill();
        operator = scene.operator();
        scene.ticks(10);
        assert_eq!(scene.replicas(), high);
    }
    assert_eq!(scene.events(), events, "events after three restarts");
}

#[test]
fn an_old_pause_is_not_obeyed_after_a_restart() {
    let scene = Scene::new("restart-pause");
    let operator = scene.operator();
    scene.apply(&policy(""));
    scene.kubectl(&["annotate", "rlrp/web", "rlscaler.io/replicas=12"]);
    scene.wait_replicas(12);
    operator.kill();
    scene.kubectl(&["annotate", "rlrp/web", "rlscaler.io/replicas-"]);
    let _operator = scene.operator();
    scene.wait("automatic scaling", || scene.replicas() < 12);
}
