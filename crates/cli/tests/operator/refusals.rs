//! What the API server refuses, and how: every message names the field. No operator runs here.

use crate::harness::{Scene, policy, root};

/// Applies a policy with `from` replaced by `to` and expects a refusal that contains every word.
fn check_refused(scene: &Scene, from: &str, to: &str, words: &[&str]) {
    let text = policy("");
    assert!(text.contains(from), "the policy has no {from}");
    let args = ["apply", "--namespace", scene.namespace, "-f", "-"];
    let output = scene.site.cluster.kubectl_with_input(&args, &text.replace(from, to)).unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{to} was accepted");
    for word in words {
        assert!(said.contains(word), "{to}: no {word} in: {said}");
    }
}

#[test]
fn a_faulty_policy_is_refused_with_the_name_of_the_field() {
    let scene = Scene::new("refusals");
    let check = |from: &str, to: &str, words: &[&str]| check_refused(&scene, from, to, words);
    check("minReplicas: 2", "minReplicas: 30", &["minReplicas", "maxReplicas"]);
    check("slaPercent: \"99\"", "slaPercent: \"99\"\n    weights: {latency: -1}", &["weights.latency"]);
    check("intervalSeconds: 1", "intervalSeconds: 0", &["intervalSeconds"]);
    check("mode: Auto", "mode: Automatic", &["mode", "Shadow", "Auto"]);
    check(
        "{source: scripted, query: scripted_qps}",
        "{url: 'http://a', query: q}",
        &["qps.prometheus", "url"],
    );
    check("{source: scripted, query: scripted_qps}", "{source: 'http://evil:9090', query: q}", &["source"]);
    check("slaPercent: \"99\"", "slaPercent: \"100\"", &["slaPercent"]);
    check("targetMilliseconds: 250", "targetMilliseconds: 0", &["targetMilliseconds"]);
    check("maxReplicas: 20", "maxReplicas: 20\n  behaviour: {}", &["behaviour"]);
    check("cpu: {none: {}}", "cpu: {none: {}, resource: {}}", &["cpu"]);
    check("mode: Auto", "mode: Auto\n  cost: {perReplicaHour: \"-1\"}", &["cost"]);
    check("mode: Auto", "mode: Auto\n  override: {mode: Pin}", &["override", "replicas"]);
}

#[test]
fn a_dry_run_on_the_server_works_and_a_deletion_always_does() {
    let scene = Scene::new("refusals-dry-run");
    let args = ["apply", "--dry-run=server", "--namespace", scene.namespace, "-f", "-"];
    let output = scene.site.cluster.kubectl_with_input(&args, &policy("")).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    // Broken in a way only the controller can see: the source does not exist.
    let _operator = scene.operator();
    scene.apply(&policy("").replace("source: scripted", "source: nowhere"));
    scene.wait("Ready=False", || scene.condition("Ready").starts_with("False/"));
    let ready = scene.condition("Ready");
    assert!(ready.contains("nowhere"), "{ready}");
    scene.kubectl(&["delete", "rlrp/web", "--timeout=10s"]);
}

#[test]
fn every_example_is_accepted_by_the_api_server() {
    let scene = Scene::new("examples");
    let folder = root().join("examples");
    let mut seen = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let args = ["apply", "--dry-run=server", "-f", path.to_str().unwrap()];
            let text = std::fs::read_to_string(&path).unwrap();
            // The namespace an example names need not exist for a person to read it, but must for the server.
            for line in text.lines().filter_map(|line| line.split("namespace: ").nth(1)) {
                let namespace = line.trim_matches(|c: char| !c.is_ascii_alphanumeric() && c != '-');
                let namespace =
                    namespace.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').next().unwrap();
                let _ = scene.site.cluster.kubectl(&["create", "namespace", namespace]).unwrap();
            }
            scene.site.cluster.kubectl_ok(&args).unwrap();
            seen += 1;
        }
    }
    assert!(5 <= seen, "{seen} examples in {}", folder.display());
}
