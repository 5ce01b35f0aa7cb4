//! What a stranger's bytes go through, one function a door: trace files, answers of sources, queries, annotations,
//! policies, model files, lines of `decide`. Each also holds what must be true whatever comes in. libFuzzer calls them
//! (`fuzz_targets/`), and so does `crates/cli/tests/corpus.rs` with every committed input.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::OnceLock;

use jiff::Timestamp;
use rlscaler_api::policy::{OverrideMode, OverrideSpec};
use rlscaler_api::validate::Faults;
use rlscaler_api::{Limits, RLReplicaPolicy, Validated, overrides, yaml};
use rlscaler_core::features::{Features, WIDTH};
use rlscaler_core::text::is_hidden;
use rlscaler_core::{PlannerOnly, Policy};
use rlscaler_rl::{Manifest, Model, checkpoint, model_file};
use rlscaler_signals::promql::{self, Confinement};
use rlscaler_signals::{OnEmpty, QueryRequest, ReadyPod, SignalName, SignalReport, Unit, saved};
use rlscaler_sim::trace::Trace;

#[path = "../../crates/cli/src/decide/lines.rs"]
mod lines;

/// Longest message that may come of a stranger's bytes, characters: a status with all of them must stay small.
const LONGEST_MESSAGE: usize = 2_048;

/// What people are shown is one line of bounded length without anything a terminal obeys.
fn check_message(message: &str) {
    let length = message.chars().count();
    assert!(length <= LONGEST_MESSAGE, "{length} characters: {message:.300}");
    assert!(!message.contains(is_hidden), "{message:?}");
}

/// Trace files in every accepted form.
pub fn trace(data: &[u8]) {
    match Trace::read(Cursor::new(data.to_vec()), "trace") {
        Ok(trace) => {
            assert!(0.0 < trace.step_secs() && trace.step_secs().is_finite());
            assert!(trace.rates().iter().all(|rate| rate.is_finite() && 0.0 <= *rate));
            assert!(trace.rate_at(trace.duration_secs() / 2.0).is_finite());
            assert!(!trace.slice(1e3, 60.0).rates().is_empty());
        }
        Err(fault) => check_message(&fault.to_string()),
    }
}

const NAMES: [SignalName; 6] = SignalName::ALL;
const TARGET_SECS: f64 = 0.25;

/// Answers of Prometheus and of the metrics API. The first byte picks the HTTP status and the signal.
pub fn answers(data: &[u8]) {
    let Some((first, body)) = data.split_first() else { return };
    let status = if first & 0x80 == 0 { 200 } else { 422 };
    let name = NAMES[usize::from(first % 6)];
    let unit = if first & 0x40 == 0 { Unit::Native } else { Unit::Milliseconds };
    let on_empty = if first & 0x20 == 0 { OnEmpty::Error } else { OnEmpty::Zero };

    let number = saved::number(status, body);
    let newest = number.clone().ok();
    let query = QueryRequest { unit, on_empty, ..QueryRequest::new("default", "q") };
    for newest in [None, newest.as_ref()] {
        check_report(name, &saved::signal(name, &query, number.clone(), newest, TARGET_SECS));
    }
    match saved::buckets(status, body, unit) {
        Ok(buckets) => {
            assert!(buckets.total().is_finite() && 0.0 <= buckets.total());
            match buckets.quantile(0.95) {
                Ok(secs) => assert!(secs.is_finite() && 0.0 <= secs, "{secs}"),
                Err(fault) => check_message(&fault.to_string()),
            }
            match buckets.within(TARGET_SECS) {
                Ok(within) => assert!((0.0..=1.0).contains(&within.ratio), "{within:?}"),
                Err(fault) => check_message(&fault.to_string()),
            }
        }
        Err(fault) => check_message(&fault.to_string()),
    }
    match saved::series(status, body) {
        Ok(samples) => assert!(samples.iter().all(|(_, value)| value.is_finite() && 0.0 <= *value)),
        Err(fault) => check_message(&fault.to_string()),
    }
    match saved::bucket_history(status, body, unit) {
        Ok(instants) => assert!(instants.values().flatten().all(|(_, rate)| rate.is_finite())),
        Err(fault) => check_message(&fault.to_string()),
    }
    match saved::cpu(body, &pods(), now(), 60.0) {
        Ok(used) => assert!(used.cores.is_finite() && 0.0 <= used.cores, "{used:?}"),
        Err(fault) => check_message(&fault.to_string()),
    }
}

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("a time in range")
}

fn pods() -> Vec<ReadyPod> {
    let pod = |name: &str, secs: i64| ReadyPod {
        name: name.to_owned(),
        ready_since: Timestamp::from_second(1_800_000_000 - secs).ok(),
    };
    vec![pod("web-0", 3_600), pod("web-1", 300), pod("web-2", 10)]
}

fn check_report(name: SignalName, report: &SignalReport) {
    for detail in &report.details {
        let shown = detail.value.iter().chain(&detail.why);
        shown.for_each(|text| check_message(text));
    }
    report.hints.iter().for_each(|hint| check_message(&hint.to_string()));
    let signals = report.signals;
    let of_name = match name {
        SignalName::Qps => signals.qps,
        SignalName::Latency => signals.latency,
        SignalName::Sla => signals.sla,
        SignalName::Errors => signals.errors,
        SignalName::Cpu => signals.cpu,
        SignalName::Price => signals.price,
    };
    if let Some(value) = of_name.usable() {
        assert!(value.is_finite() && 0.0 <= value, "{name} {value}");
        let is_ratio = matches!(name, SignalName::Sla | SignalName::Errors);
        assert!(!is_ratio || value <= 1.0, "{name} {value}");
    }
}

/// Queries of a policy: what is admitted is bounded and, where asked for, confined; what is refused says why.
pub fn promql(data: &[u8]) {
    let Ok(query) = str::from_utf8(data) else { return };
    let confinement = Confinement { label: "namespace", value: "shop" };
    match promql::admit(query, Some(confinement)) {
        Ok(sent) => {
            // Ours stands in every selector once: asked for again, nothing is added that was not there.
            let again = promql::admit(&sent, Some(confinement)).expect("what was sent is a query");
            let count = |text: &str| text.matches("namespace=\"shop\"").count();
            assert!(count(&sent) <= count(&again));
            assert!(promql::admit(query, None).is_ok(), "refused only without confinement");
        }
        Err(fault) => check_message(&fault.to_string()),
    }
}

/// Annotations, a `KEY=VALUE` a line, and an override of the spec in the first line (`MODE REPLICAS UNTIL`).
pub fn annotations(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.split('\n');
    let spec = lines.next().and_then(override_of_spec);
    let annotations: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    let resolved = overrides::resolve(&annotations, spec.as_ref(), now());
    resolved.warnings.iter().for_each(|warning| check_message(&warning.to_string()));
    resolved.reason.iter().for_each(|reason| check_message(reason));
    if resolved.invalid().is_some() && resolved.expired().is_none() {
        // The safe state, or a pin that can be read beside a flag that cannot.
        assert!(resolved.mode().is_some(), "{annotations:?} runs free");
    }
    if let rlscaler_core::Override::Pin { replicas, .. } = resolved.will {
        assert!(replicas <= rlscaler_api::limits::MAX_REPLICAS.unsigned_abs());
    }
}

fn override_of_spec(line: &str) -> Option<OverrideSpec> {
    let mut words = line.split(' ');
    let mode = match words.next()? {
        "Pin" => OverrideMode::Pin,
        "Pause" => OverrideMode::Pause,
        "PauseScaleDown" => OverrideMode::PauseScaleDown,
        "PauseScaleUp" => OverrideMode::PauseScaleUp,
        _ => return None,
    };
    let replicas = words.next().and_then(|word| word.parse().ok());
    Some(OverrideSpec { mode, replicas, reason: None, until: words.next().map(str::to_owned) })
}

/// Policy files, read strictly and validated.
pub fn policy(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    match yaml::read_valid_policy(text, "policy.yaml", Limits::default()) {
        Ok((wire, validated)) => {
            let Validated { settings, queries, warnings, .. } = validated;
            assert!(settings.bounds.min() <= settings.bounds.max());
            assert!(settings.interval_secs.is_finite() && 0.0 < settings.interval_secs);
            assert!(queries.cpu.is_some() || queries.qps.is_some() || queries.requests.is_some());
            check_message(&Faults(&warnings).to_string());
            // What is written out is the same policy again.
            let again =
                yaml::read_policy(&yaml::write(&wire), "again.yaml").expect("what was written is read");
            assert_eq!(serde_json::to_value(&again.spec).ok(), serde_json::to_value(&wire.spec).ok());
        }
        Err(faults) => faults.iter().for_each(|fault| check_message(&fault.to_string())),
    }
}

/// Model files: two bytes with the manifest's length, the manifest, the weights. They are read as they are, and once
/// more with the hashes made right, as somebody would who means to be loaded.
pub fn model(data: &[u8]) {
    let Some((length, rest)) = data.split_first_chunk::<2>() else { return };
    let (manifest, weights) = rest.split_at(usize::from(u16::from_le_bytes(*length)).min(rest.len()));
    load(weights, manifest);
    if let Ok(mut honest) = serde_json::from_slice::<Manifest>(manifest) {
        honest.schema_hash = rlscaler_rl::manifest::schema_hash_text(rlscaler_core::features::schema_hash());
        honest.content_hash = model_file::content_hash(weights);
        load(weights, honest.to_json().as_bytes());
    }
    if let Err(fault) = checkpoint::read(weights, WIDTH, "run") {
        check_message(&fault.to_string());
    }
}

fn load(weights: &[u8], manifest: &[u8]) {
    match Model::load(weights, manifest) {
        Ok(model) => {
            check_message(&model.describe());
            for level in [0.0, 1.0, -3.0] {
                // Whatever the weights are, an answer that is no number is a fault and not an answer.
                if let Ok(action) = model.act(&Features::new([level; WIDTH], 20.0, 12.0, 10.0)) {
                    assert!(action.multiplier.is_finite() && 0.0 < action.multiplier, "{action:?}");
                }
            }
        }
        Err(fault) => {
            check_message(&fault.to_string());
            let mut cause: &dyn std::error::Error = &fault;
            while let Some(inner) = cause.source() {
                check_message(&inner.to_string());
                cause = inner;
            }
        }
    }
}

const POLICY: &str = r#"
apiVersion: rlscaler.io/v1alpha1
kind: RLReplicaPolicy
metadata: {name: web, namespace: shop}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 0
  maxReplicas: 20
  objective: {latency: {targetMilliseconds: 250}}
  signals:
    qps: {prometheus: {source: default, query: q}}
    latency: {prometheus: {source: default, query: l}}
    sla: {prometheus: {source: default, query: s}}
    errors: {prometheus: {source: default, query: e}}
  cost: {prometheus: {source: default, query: p}}
  fallback: {replicas: 4}
"#;

fn decide_policy() -> &'static (RLReplicaPolicy, Validated) {
    static READ: OnceLock<(RLReplicaPolicy, Validated)> = OnceLock::new();
    READ.get_or_init(|| {
        yaml::read_valid_policy(POLICY, "policy.yaml", Limits::default()).expect("the policy above is valid")
    })
}

/// Lines of `rlscaler decide`, through the whole brain.
pub fn decide(data: &[u8]) {
    let (wire, validated) = decide_policy();
    let mut output = Vec::new();
    let stop = lines::answer_all(wire, validated.clone(), &PlannerOnly, Cursor::new(data), &mut output);
    if let Err(stop) = stop {
        check_message(&stop.to_string());
    }
    for line in String::from_utf8(output).expect("answers are UTF-8").lines() {
        let answer: serde_json::Value = serde_json::from_str(line).expect("an answer is JSON");
        // Bounds hold for what is asked for; what is there already may lie outside while nothing is decided.
        assert!(answer["replicas"].as_u64().is_some_and(|replicas| replicas <= 100_000), "{line}");
        assert!(answer["planner"].as_u64().is_some_and(|replicas| replicas <= 100_000), "{line}");
        let reasons = answer["reasons"].as_array().expect("reasons are a list");
        assert!(!reasons.is_empty(), "{line}");
        reasons.iter().for_each(|reason| check_message(reason["message"].as_str().expect("a text")));
    }
}
