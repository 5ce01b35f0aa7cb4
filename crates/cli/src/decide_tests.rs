//! The filter, line by line.

use std::io::Cursor;

use serde_json::{Value, json};

use super::*;

const POLICY: &str = r#"
apiVersion: rlscaler.io/v1alpha1
kind: RLReplicaPolicy
metadata: {name: web, namespace: shop}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 2
  maxReplicas: 20
  mode: Shadow
  objective: {latency: {targetMilliseconds: 250}}
  signals:
    qps: {prometheus: {source: default, query: q}}
    latency: {prometheus: {source: default, query: l}}
    cpu: {none: {}}
  capacity: {concurrency: 4, serviceMilliseconds: 50}
"#;

/// Runs the filter on a policy and answers its lines, or its complaint.
fn decide(policy: &str, scaler: Option<Scaler>, input: &str) -> Result<Vec<Value>, String> {
    let file = std::env::temp_dir().join(format!(
        "decide-{}-{:?}.yaml",
        std::process::id(),
        std::thread::current().id()
    ));
    fs::write(&file, policy).unwrap();
    let mut output = Vec::new();
    let outcome = filter(&Args { policy: file.clone(), scaler }, Cursor::new(input), &mut output);
    fs::remove_file(&file).unwrap();
    outcome.map_err(|error| format!("{error:#}"))?;
    Ok(String::from_utf8(output).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

fn seen(time: u32, replicas: u64, qps: f64) -> String {
    let signals =
        json!({"qps": {"value": qps, "ageSeconds": 15}, "latency": {"value": 0.08, "ageSeconds": 15}});
    json!({"time": time, "replicas": replicas, "ready": replicas, "signals": signals}).to_string() + "\n"
}

#[test]
fn one_line_in_is_one_line_out_in_the_documented_form() {
    let answers = decide(POLICY, None, &seen(0, 3, 640.0)).unwrap();
    let answer = answers[0].as_object().unwrap();
    let fields: Vec<_> = answer.keys().map(String::as_str).collect();
    assert_eq!(fields, ["time", "replicas", "planner", "proposed", "driver", "reasons"]);
    assert_eq!(answer["time"].to_string(), "0");
    assert!(3 < answer["replicas"].as_u64().unwrap(), "{answer:?}");
    assert!(answer["reasons"][0]["code"].is_string() && answer["reasons"][0]["message"].is_string());
}

#[test]
fn the_model_drives_and_the_planner_only_where_it_is_asked_for() {
    let drivers = |scaler| -> Vec<Value> {
        let answers = decide(POLICY, scaler, &seen(0, 3, 640.0)).unwrap();
        answers.into_iter().map(|answer| answer["driver"].clone()).collect()
    };
    assert_eq!(drivers(None), ["model"]);
    assert_eq!(drivers(Some(Scaler::Model)), ["model"]);
    assert_eq!(drivers(Some(Scaler::Planner)), ["planner"]);
}

#[test]
fn history_is_taken_first_and_only_first() {
    let past = "{\"history\": {\"qps\": [[-120, 100.0], [-60, 110.0]]}}\n";
    assert_eq!(decide(POLICY, None, &format!("{past}{}", seen(0, 3, 100.0))).unwrap().len(), 1);
    let late = decide(POLICY, None, &format!("{}{past}", seen(0, 3, 100.0))).unwrap_err();
    assert!(late.starts_with("line 2: history"), "{late}");
}

#[test]
fn an_override_of_the_file_applies_and_its_end_is_by_the_line_s_time() {
    let until = "  override: {mode: Pin, replicas: 9, until: \"1970-01-01T00:01:00Z\"}\n";
    let input = seen(0, 3, 100.0) + &seen(59, 9, 100.0) + &seen(60, 9, 100.0);
    let answers = decide(&format!("{POLICY}{until}"), None, &input).unwrap();
    assert_eq!((answers[0]["driver"].as_str(), answers[0]["replicas"].as_u64()), (Some("override"), Some(9)));
    assert_eq!(answers[1]["driver"], "override");
    assert_ne!(answers[2]["driver"], "override");
}

#[test]
fn a_lost_load_holds() {
    let blind = json!({"time": 15, "replicas": 7, "ready": 7, "signals": {}}).to_string();
    let answers = decide(POLICY, None, &(seen(0, 7, 100.0) + &blind)).unwrap();
    assert_eq!(answers[1]["replicas"], 7);
}

#[test]
fn an_unusable_line_is_named() {
    let check = |line: &str, words: &[&str]| {
        let said = decide(POLICY, None, &format!("{}\n{line}\n", seen(0, 3, 1.0))).unwrap_err();
        for word in ["line 3: "].iter().chain(words) {
            assert!(said.contains(word), "{line}: no {word:?} in {said}");
        }
    };
    check("{", &["JSON"]);
    check("[]", &["no JSON object"]);
    check(r#"{"time": 1, "replicas": -1, "ready": 1}"#, &["invalid value", "-1"]);
    check(r#"{"time": 1, "ready": 1}"#, &["replicas"]);
    check(r#"{"time": 0, "replicas": 1, "ready": 1}"#, &["times must increase"]);
    check(r#"{"time": 1e300, "replicas": 1, "ready": 1}"#, &["no time"]);
    check(r#"{"time": 1, "replicas": 100001, "ready": 1}"#, &["100001"]);
    check(r#"{"time": 1, "replicas": 1, "ready": 1, "podCpuRequest": -1}"#, &["podCpuRequest"]);
    check(r#"{"time": 1, "replicas": 1, "ready": 1, "signals": {"rps": {"value": 1}}}"#, &["rps"]);
}

#[test]
fn a_faulty_policy_is_refused_with_file_line_and_field() {
    let said = decide(&POLICY.replace("minReplicas: 2", "minReplicas: 30"), None, "").unwrap_err();
    assert!(said.contains(".yaml:7: spec.minReplicas"), "{said}");
    let said = decide(&POLICY.replace("query: l", "query: 'max(rate(l[1m])'"), None, "").unwrap_err();
    let expected = ".yaml:13: spec.signals.latency.prometheus.query: `(` at character 4 is never closed";
    assert!(said.contains(expected), "{said}");
}
