//! What a person sees who mistypes a policy file.

use super::*;

const VALID: &str = "\
apiVersion: rlscaler.io/v1alpha1
kind: RLReplicaPolicy
metadata:
  name: web
  annotations: {rlscaler.io/pause: \"true\"}
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: web
  minReplicas: 2
  maxReplicas: 60
  objective:
    latency: {targetMilliseconds: 250}
    slaPercent: \"99\"
  behavior:
    scaleUp:
      policies:
        - type: Pods
          value: 4
          periodSeconds: 15
";

/// Errors of the valid file with one text replaced by another.
fn faults(from: &str, to: &str) -> Vec<String> {
    assert!(VALID.contains(from), "{from}");
    let text = VALID.replacen(from, to, 1);
    match read_valid_policy(&text, "web.yaml", Limits::default()) {
        Ok(_) => Vec::new(),
        Err(faults) => faults.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn a_valid_file_is_read() {
    assert_eq!(faults("web", "web"), Vec::<String>::new());
    let policy = read_policy(VALID, "web.yaml").expect("valid");
    assert_eq!(policy.spec.max_replicas, 60);
    assert_eq!(policy.metadata.annotations.map(|annotations| annotations.len()), Some(1));
}

#[test]
fn an_error_names_file_line_and_field() {
    for (from, to, begins) in [
        ("minReplicas: 2", "minReplicas: two", "web.yaml:11: spec.minReplicas: invalid type"),
        (
            "minReplicas: 2",
            "minReplica: 2",
            "web.yaml:11: spec: unknown field \"minReplica\", expected one of",
        ),
        ("targetMilliseconds", "target", "web.yaml:14: spec.objective.latency: unknown field \"target\""),
        (
            "\"99\"",
            "99",
            "web.yaml:15: spec.objective.slaPercent: invalid type: integer `99`, expected a string, in quotes",
        ),
        ("name: web\n  minR", "name: true\n  minR", "web.yaml:10: spec.scaleTargetRef.name: invalid type"),
        ("{targetMilliseconds: 250}", "250", "web.yaml:14: spec.objective.latency: invalid type"),
        (
            "value: 4",
            "value: 4\n          valve: 5",
            "web.yaml:21: spec.behavior.scaleUp.policies[0]: unknown field",
        ),
        ("  maxReplicas: 60\n", "", "web.yaml:7: spec: missing field `maxReplicas`"),
        ("spec:", "sepc:", "web.yaml:6: unknown field \"sepc\""),
        (
            "minReplicas: 2",
            "minReplicas: 2\n  minReplicas: 3",
            "web.yaml:12: spec: field \"minReplicas\" is given twice",
        ),
        ("kind: RLReplicaPolicy", "kind: Deployment", "web.yaml:2: kind: must be RLReplicaPolicy"),
        ("v1alpha1", "v1", "web.yaml:1: apiVersion: must be rlscaler.io/v1alpha1"),
        ("minReplicas: 2", "minReplicas: [", "web.yaml:"),
    ] {
        let found = faults(from, to);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with(begins), "{} instead of {begins}", found[0]);
    }
}

#[test]
fn a_wrong_value_names_its_line_and_all_are_reported() {
    let found = faults(
        "minReplicas: 2\n  maxReplicas: 60",
        "minReplicas: 99\n  intervalSeconds: 0\n  maxReplicas: 60",
    );
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("web.yaml:11: spec.minReplicas: must not be greater"), "{found:?}");
    assert!(found[1].starts_with("web.yaml:12: spec.intervalSeconds: must be 1 to 300"), "{found:?}");
    let found = faults("value: 4", "value: 0");
    assert!(found[0].starts_with("web.yaml:20: spec.behavior.scaleUp.policies[0].value"), "{found:?}");
}

#[test]
fn a_field_that_is_missing_is_placed_at_the_one_around_it() {
    let found = faults("minReplicas: 2\n", "minReplicas: 2\n  override: {mode: Pin}\n");
    assert!(found[0].starts_with("web.yaml:12: spec.override.replicas: is needed"), "{found:?}");
}

#[test]
fn a_huge_file_is_refused_unread() {
    let huge = " ".repeat(MAX_FILE_BYTES + 1);
    assert!(read_policy(&huge, "web.yaml").is_err());
}
