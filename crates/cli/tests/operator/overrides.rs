//! A person's will, by annotation, on a real cluster.

use std::time::{SystemTime, UNIX_EPOCH};

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

// Case 48: the same after a pause, and after a pause of one direction, as before.
#[test]
fn scaling_resumes_after_a_pause_and_after_a_pause_of_one_direction() {
    let scene = Scene::new("override-resume");
    let _operator = scene.operator();
    scene.apply(&policy(""));
    scene.wait("a decision", || scene.condition("ScalingActive").starts_with("True/"));
    let up = |annotation: &str| {
        scene.kubectl(&["annotate", "rlrp/web", &format!("{annotation}=true")]);
        scene.wait("the pause", || scene.condition("Paused").starts_with("True/"));
        scene.prometheus.set("scripted_qps", Answer::Value(800.0));
        scene.ticks(4);
        assert_eq!(scene.replicas(), 2, "{annotation}");
        scene.kubectl(&["annotate", "rlrp/web", &format!("{annotation}-")]);
        scene.wait("a scale-up", || 5 < scene.replicas());
        scene.wait("the end of the pause", || scene.condition("Paused").starts_with("False/Automatic"));
    };
    let down = |annotation: &str| {
        scene.kubectl(&["annotate", "rlrp/web", &format!("{annotation}=true")]);
        scene.wait("the pause", || scene.condition("Paused").starts_with("True/"));
        let high = scene.replicas();
        scene.prometheus.set("scripted_qps", Answer::Value(40.0));
        scene.ticks(20); // more than every window of this policy
        assert!(high <= scene.replicas(), "{annotation}");
        scene.kubectl(&["annotate", "rlrp/web", &format!("{annotation}-")]);
        scene.wait_replicas(2);
        scene.wait("the end of the pause", || scene.condition("Paused").starts_with("False/Automatic"));
    };
    up("rlscaler.io/pause-scale-up");
    down("rlscaler.io/pause-scale-down");
    up("rlscaler.io/pause");
    down("rlscaler.io/pause");
}

// Case 49: two people annotate at the same moment, one of them may be removing what the other sets.
#[test]
fn whatever_two_people_annotate_at_the_same_moment_what_stands_in_the_object_is_obeyed() {
    let scene = Scene::new("override-race");
    let operator = scene.operator();
    scene.apply(&policy(""));
    scene.wait("a decision", || scene.condition("ScalingActive").starts_with("True/"));
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos() as usize;
    println!("seed {seed}");
    let moves: [&[&str]; 6] = [
        &["rlscaler.io/replicas=9", "--overwrite"],
        &["rlscaler.io/replicas=13", "--overwrite"],
        &["rlscaler.io/replicas-"],
        &["rlscaler.io/pause=true", "--overwrite"],
        &["rlscaler.io/pause-"],
        &["rlscaler.io/replicas-", "rlscaler.io/pause-"],
    ];
    for round in 0..8 {
        let of = |person: usize| moves[(seed / (1 + person * 6) + round * (1 + 4 * person)) % moves.len()];
        std::thread::scope(|both| {
            for person in 0..2 {
                let scene = &scene;
                both.spawn(move || scene.kubectl(&[&["annotate", "rlrp/web"], of(person)].concat()));
            }
        });
        let annotations = scene.get("rlrp", "web")["metadata"]["annotations"].clone();
        let pinned = annotations["rlscaler.io/replicas"].as_str().map(|count| count.parse::<u64>().unwrap());
        let paused = annotations["rlscaler.io/pause"] == "true";
        let expected = match (pinned, paused) {
            (Some(_), _) => "True/Pinned",
            (None, true) => "True/PausedByUser",
            (None, false) => "False/Automatic",
        };
        scene.wait(&format!("round {round}: {expected}"), || scene.condition("Paused").starts_with(expected));
        match pinned {
            Some(count) => scene.wait_replicas(count),
            None if paused => {}
            None => scene.wait("automatic scaling", || scene.replicas() < 9),
        }
        let standing = scene.replicas();
        scene.ticks(3);
        if pinned.is_some() || paused {
            assert_eq!(scene.replicas(), standing, "round {round}: {annotations}");
        }
    }
    assert!(!operator.log().contains("panicked"));
}
