//! One writer: who stands down for whom on a real cluster, and what the operator may not do there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::harness::{DEPLOYMENT, Scene, policy};
use crate::scripted_prometheus::Answer;

const HIGH_QPS: f64 = 800.0;

// Case 56 of other autoscalers' users: two of them on one target.
#[test]
fn a_policy_yields_to_an_hpa_by_name_and_scales_again_when_it_is_gone() {
    let scene = Scene::new("conflict-hpa");
    scene.kubectl(&["autoscale", "deployment/web", "--name=theirs", "--min=2", "--max=3", "--cpu=50%"]);
    let _operator = scene.operator();
    scene.apply(&policy(""));
    scene.prometheus.set("scripted_qps", Answer::Value(HIGH_QPS));
    scene.wait("the conflict", || scene.condition("ReplicasConflict").starts_with("True/"));
    assert!(
        scene.condition("ReplicasConflict").contains("theirs"),
        "{}",
        scene.condition("ReplicasConflict")
    );
    scene.ticks(5);
    assert!(scene.replicas() <= 3, "{} replicas", scene.replicas());

    scene.kubectl(&["delete", "hpa", "theirs"]);
    scene.wait("a scale-up by the policy", || 10 < scene.replicas());
}

#[test]
fn of_two_policies_on_one_target_the_older_scales_and_the_younger_names_it() {
    let scene = Scene::new("conflict-policies");
    let _operator = scene.operator();
    scene.apply(&policy(""));
    // Creation times are whole seconds: let them differ, so that it is age that decides.
    scene.wait("a decision", || scene.condition("ScalingActive").starts_with("True/"));
    scene.ticks(2);
    scene.apply(
        &policy("")
            .replace("metadata: {name: web}", "metadata: {name: younger}")
            .replace("maxReplicas: 20", "maxReplicas: 4"),
    );
    let conflict = || {
        let younger = scene.get("rlrp", "younger");
        let conditions = younger["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|condition| condition["type"] == "ReplicasConflict").unwrap_or_default()
    };
    scene.wait("the younger's conflict", || conflict()["status"] == "True");
    assert!(conflict()["message"].as_str().unwrap().contains("web"), "{}", conflict());
    scene.prometheus.set("scripted_qps", Answer::Value(HIGH_QPS));
    scene.wait("a scale-up by the older", || 10 < scene.replicas());
    assert!(scene.condition("ReplicasConflict").starts_with("False/"));
}

/// Somebody who applies `replicas: 3` again and again, as a GitOps tool does, until dropped.
struct Rewriter {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Rewriter {
    fn start(scene: &Scene) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (site, namespace, stopped) = (scene.site.clone(), scene.namespace, stop.clone());
        let manifest = DEPLOYMENT.replace("replicas: 2", "replicas: 3");
        let args = ["apply", "--server-side", "--force-conflicts", "--field-manager=gitops-tool", "-f", "-"];
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let all = [&args[..], &["--namespace", namespace]].concat();
                // A conflict with a write of ours is tried again at once.
                let _ = site.cluster.kubectl_with_input(&all, &manifest).unwrap();
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Rewriter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

// Case 55: another field manager that keeps rewriting the replicas, also across a restart of ours.
#[test]
fn a_second_field_manager_is_named_with_the_snippet_and_backed_off_from_also_after_a_restart() {
    let scene = Scene::new("conflict-gitops");
    let operator = scene.operator();
    scene.apply(&policy(""));
    scene.wait("a decision", || scene.condition("ScalingActive").starts_with("True/"));
    scene.prometheus.set("scripted_qps", Answer::Value(HIGH_QPS));
    let rewriter = Rewriter::start(&scene);
    let conflict = || scene.condition("ReplicasConflict");
    scene.wait("the quarrel", || conflict().starts_with("True/OtherWriter"));
    for words in [
        "gitops-tool keeps rewriting",
        "ignoreDifferences: [{group: apps, kind: Deployment",
        "/spec/replicas",
    ] {
        assert!(conflict().contains(words), "no {words:?} in {}", conflict());
    }
    scene.wait("the event", || scene.events().iter().any(|event| event.contains("gitops-tool")));

    let rescaled = || scene.events().iter().filter(|event| event.starts_with("SuccessfulRescale")).count();
    let before = rescaled();
    operator.kill();
    let operator = scene.operator();
    scene.ticks(5);
    scene.wait("the quarrel, still", || conflict().starts_with("True/OtherWriter"));
    // An operator that had forgotten would have written three times before it knew.
    assert!(rescaled() <= before + 1, "{} scalings after the restart", rescaled() - before);

    drop(rewriter);
    // With the time factor of these tests ten minutes are forty seconds.
    scene.wait("another try once the tool has stopped", || 5 < scene.replicas());
    scene.wait("the end of the conflict", || conflict().starts_with("False/NoConflict"));
    drop(operator);
}

// A person's `kubectl scale --replicas=0` with minReplicas above 0.
#[test]
fn a_person_s_scale_to_zero_stands_still_and_says_so() {
    let scene = Scene::new("conflict-zero");
    let _operator = scene.operator();
    scene.apply(&policy(""));
    scene.prometheus.set("scripted_qps", Answer::Value(HIGH_QPS));
    scene.wait("a scale-up", || 10 < scene.replicas());
    scene.kubectl(&["scale", "deployment/web", "--replicas=0"]);
    scene.wait("ScalingDisabled", || scene.condition("ScalingActive").starts_with("False/ScalingDisabled"));
    scene.ticks(5);
    assert_eq!(scene.replicas(), 0);
    scene.kubectl(&["scale", "deployment/web", "--replicas=1"]);
    scene.wait("scaling again", || 10 < scene.replicas());
}

// Case 96: an operator that can read all secrets.
#[test]
fn the_chart_lets_the_operator_touch_nothing_but_scales_statuses_and_events() {
    let scene = Scene::new("rights");
    let may = |verb: &str, what: &str| {
        let (resource, subresource) = what.split_once('/').unwrap_or((what, ""));
        let subresource = format!("--subresource={subresource}");
        let account = "--as=system:serviceaccount:rlscaler:rlscaler";
        let args = ["auth", "can-i", verb, resource, &subresource, account, "--namespace=rights"];
        let output = scene.site.cluster.kubectl(&args).unwrap();
        String::from_utf8_lossy(&output.stdout).trim() == "yes"
    };
    for (verb, what) in [
        ("get", "secrets"),
        ("list", "configmaps"),
        ("patch", "deployments.apps"),
        ("update", "deployments.apps"),
        ("delete", "pods"),
        ("create", "pods/exec"),
        ("patch", "rlreplicapolicies.rlscaler.io"),
        ("delete", "rlreplicapolicies.rlscaler.io"),
        ("create", "tokenreviews.authentication.k8s.io"),
    ] {
        assert!(!may(verb, what), "may {verb} {what}");
    }
    for (verb, what) in [
        ("patch", "deployments.apps/scale"),
        ("patch", "rlreplicapolicies.rlscaler.io/status"),
        ("create", "events.events.k8s.io"),
        ("list", "pods"),
    ] {
        assert!(may(verb, what), "may not {verb} {what}");
    }
}
