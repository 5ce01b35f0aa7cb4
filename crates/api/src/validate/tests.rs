//! Each field at its limit, one below, one above, and missing; every fault by the path of its field.

use rlscaler_core::settings::{Behavior, Select, StepKind};
use serde_json::{Value, json};

use super::*;

fn valid() -> Value {
    json!({
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 2,
        "maxReplicas": 60,
        "objective": {"latency": {"targetMilliseconds": 250}, "slaPercent": "99"},
        "signals": {"qps": {"prometheus": {"source": "default", "query": "sum(rate(requests_total[1m]))"}}}
    })
}

/// The valid policy with the value at a JSON pointer replaced, or removed by null.
fn with(pointer: &str, value: Value) -> RLReplicaPolicySpec {
    let mut spec = valid();
    let mut place = &mut spec;
    for key in pointer.split('/').skip(1) {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[key];
    }
    *place = value;
    serde_json::from_value(spec).unwrap_or_else(|error| panic!("{pointer}: {error}"))
}

fn fields(spec: &RLReplicaPolicySpec) -> Vec<String> {
    match validate(spec, Limits::default()) {
        Ok(_) => Vec::new(),
        Err(faults) => faults.into_iter().map(|fault| fault.field).collect(),
    }
}

fn settings(pointer: &str, value: Value) -> Validated {
    validate(&with(pointer, value), Limits::default()).unwrap_or_else(|faults| panic!("{}", Faults(&faults)))
}

#[test]
fn the_defaults_are_filled_in() {
    let Validated { settings, queries, model, currency, warnings, target } =
        settings("/minReplicas", json!(2));
    assert_eq!(settings.mode, CoreMode::Shadow);
    assert_eq!(settings.interval_secs, 15.0);
    assert_eq!(settings.objective.sla, 0.99);
    assert_eq!(settings.objective.latency_percentile, 0.95);
    assert_eq!(settings.objective.weights, Weights::default());
    assert_eq!(settings.behavior, Behavior::default());
    assert_eq!((settings.capacity, settings.startup_secs, settings.fallback), (None, None, None));
    assert!(settings.declared.qps && settings.declared.cpu && !settings.declared.latency);
    assert_eq!(queries.cpu, Some(CpuQuery { max_age_secs: 60.0 }));
    assert_eq!((model, currency, warnings), (None, None, vec![]));
    assert_eq!((target.group.as_str(), target.version.as_str()), ("apps", "v1"));
}

#[test]
fn what_is_within_its_limits_is_accepted() {
    for (pointer, value) in [
        ("/minReplicas", json!(0)),
        ("/minReplicas", json!(60)),
        ("/maxReplicas", json!(2)),
        ("/maxReplicas", json!(MAX_REPLICAS)),
        ("/intervalSeconds", json!(1)),
        ("/intervalSeconds", json!(300)),
        ("/scaleTargetRef/apiVersion", json!("v1")),
        ("/scaleTargetRef/apiVersion", json!("argoproj.io/v1alpha1")),
        ("/objective/latency/targetMilliseconds", json!(1)),
        ("/objective/slaPercent", json!("0.1")),
        ("/objective/slaPercent", json!("99.99")),
        ("/objective/weights", json!({"latency": 0, "saving": 1, "sla": 100})),
        ("/objective/weights", json!({})),
        ("/capacity", json!({"concurrency": 1, "serviceMilliseconds": 249})),
        ("/startupSeconds", json!(1)),
        ("/cost", json!({"perReplicaHour": "0.0001", "currency": "EUR"})),
        ("/cost", json!({"prometheus": {"source": "default", "query": "price"}})),
        ("/fallback", json!({"replicas": 0})),
        ("/fallback", json!({"replicas": 60})),
        ("/override", json!({"mode": "Pin", "replicas": 0, "until": "2020-01-01T00:00:00Z"})),
        ("/model", json!({"name": "base"})),
        ("/signals", json!({})),
        ("/signals/cpu", json!({"none": {}})),
    ] {
        assert_eq!(fields(&with(pointer, value.clone())), Vec::<String>::new(), "{pointer}: {value}");
    }
}

#[test]
fn what_is_beyond_its_limits_is_refused_by_its_field() {
    let query = |source: &str| json!({"prometheus": {"source": source, "query": "up"}});
    for (pointer, value, field) in [
        ("/minReplicas", json!(-1), "spec.minReplicas"),
        ("/minReplicas", json!(61), "spec.minReplicas"),
        ("/maxReplicas", json!(0), "spec.maxReplicas"),
        ("/maxReplicas", json!(MAX_REPLICAS + 1), "spec.maxReplicas"),
        ("/intervalSeconds", json!(0), "spec.intervalSeconds"),
        ("/intervalSeconds", json!(301), "spec.intervalSeconds"),
        ("/scaleTargetRef/apiVersion", json!("apps"), "spec.scaleTargetRef.apiVersion"),
        ("/scaleTargetRef/apiVersion", json!("/v1"), "spec.scaleTargetRef.apiVersion"),
        ("/scaleTargetRef/kind", json!("deployment"), "spec.scaleTargetRef.kind"),
        ("/scaleTargetRef/name", json!("a/b"), "spec.scaleTargetRef.name"),
        ("/scaleTargetRef/name", json!(""), "spec.scaleTargetRef.name"),
        ("/objective/latency/targetMilliseconds", json!(0), "spec.objective.latency.targetMilliseconds"),
        ("/objective/slaPercent", json!("0"), "spec.objective.slaPercent"),
        ("/objective/slaPercent", json!("100"), "spec.objective.slaPercent"),
        ("/objective/slaPercent", json!("-99"), "spec.objective.slaPercent"),
        ("/objective/slaPercent", json!("NaN"), "spec.objective.slaPercent"),
        ("/objective/weights/latency", json!(-1), "spec.objective.weights.latency"),
        ("/objective/weights/saving", json!(0), "spec.objective.weights.saving"),
        ("/objective/weights/sla", json!(101), "spec.objective.weights.sla"),
        ("/capacity", json!({"concurrency": 0, "serviceMilliseconds": 1}), "spec.capacity.concurrency"),
        (
            "/capacity",
            json!({"concurrency": 1, "serviceMilliseconds": 0}),
            "spec.capacity.serviceMilliseconds",
        ),
        (
            "/capacity",
            json!({"concurrency": 1, "serviceMilliseconds": 250}),
            "spec.objective.latency.targetMilliseconds",
        ),
        ("/startupSeconds", json!(0), "spec.startupSeconds"),
        ("/cost", json!({}), "spec.cost"),
        ("/cost", json!({"perReplicaHour": "1", "prometheus": {"source": "a", "query": "b"}}), "spec.cost"),
        ("/cost", json!({"perReplicaHour": "0"}), "spec.cost.perReplicaHour"),
        ("/cost", json!({"perReplicaHour": "-1"}), "spec.cost.perReplicaHour"),
        ("/cost", json!({"perReplicaHour": "1", "currency": "usd"}), "spec.cost.currency"),
        ("/fallback", json!({"replicas": -1}), "spec.fallback.replicas"),
        ("/fallback", json!({"replicas": 61}), "spec.fallback.replicas"),
        (
            "/fallback",
            json!({"replicas": 1, "failureDurationSeconds": 0}),
            "spec.fallback.failureDurationSeconds",
        ),
        ("/override", json!({"mode": "Pin"}), "spec.override.replicas"),
        ("/override", json!({"mode": "Pause", "replicas": 1}), "spec.override.replicas"),
        ("/override", json!({"mode": "Pause", "until": "tomorrow"}), "spec.override.until"),
        ("/model", json!({"name": "Base"}), "spec.model.name"),
        ("/signals", json!({"cpu": {"none": {}}}), "spec.signals"),
        ("/signals/cpu", json!({"none": {}, "resource": {}}), "spec.signals.cpu"),
        ("/signals/cpu", json!({}), "spec.signals.cpu"),
        ("/signals/qps", query("http://evil.example"), "spec.signals.qps.prometheus.source"),
        ("/signals/sla", query(""), "spec.signals.sla.prometheus.source"),
        ("/signals/errors", query("Default"), "spec.signals.errors.prometheus.source"),
        ("/signals/qps/prometheus/query", json!(" "), "spec.signals.qps.prometheus.query"),
        ("/signals/qps/maxAgeSeconds", json!(0), "spec.signals.qps.maxAgeSeconds"),
        (
            "/signals/latency",
            json!({"prometheus": {"source": "a", "query": "b"}, "percentile": 100}),
            "spec.signals.latency.percentile",
        ),
        (
            "/signals/requests",
            json!({"histogram": {"source": "a", "metric": "a b"}}),
            "spec.signals.requests.histogram.metric",
        ),
        (
            "/signals/requests",
            json!({"histogram": {"source": "a", "metric": "a", "windowSeconds": 0}}),
            "spec.signals.requests.histogram.windowSeconds",
        ),
        (
            "/behavior/scaleUp/stabilizationWindowSeconds",
            json!(3601),
            "spec.behavior.scaleUp.stabilizationWindowSeconds",
        ),
        ("/behavior/scaleUp/policies", json!([]), "spec.behavior.scaleUp.policies"),
        (
            "/behavior/scaleDown/policies",
            json!([{"type": "Pods", "value": 0, "periodSeconds": 1}]),
            "spec.behavior.scaleDown.policies[0].value",
        ),
        (
            "/behavior/scaleDown/policies",
            json!([{"type": "Pods", "value": 1, "periodSeconds": 1801}]),
            "spec.behavior.scaleDown.policies[0].periodSeconds",
        ),
        ("/behavior/scaleDown/tolerance", json!("-0.1"), "spec.behavior.scaleDown.tolerance"),
    ] {
        assert_eq!(fields(&with(pointer, value.clone())), vec![field.to_owned()], "{pointer}: {value}");
    }
}

#[test]
fn all_faults_are_reported_not_only_the_first() {
    let mut spec = with("/minReplicas", json!(99));
    spec.interval_seconds = Some(0);
    spec.objective.sla_percent = "many".to_owned();
    spec.scale_target_ref.name.clear();
    let found = fields(&spec);
    let expected =
        ["spec.scaleTargetRef.name", "spec.minReplicas", "spec.intervalSeconds", "spec.objective.slaPercent"];
    assert_eq!(found, expected);
}

#[test]
fn zero_replicas_need_a_qps_signal() {
    let mut spec = with("/signals", json!({"requests": {"histogram": {"source": "default", "metric": "m"}}}));
    assert_eq!(fields(&spec), Vec::<String>::new());
    spec.min_replicas = 0;
    assert_eq!(fields(&spec), ["spec.minReplicas"]);
}

#[test]
fn one_histogram_declares_three_signals() {
    let signals = json!({"requests": {"histogram": {"source": "default", "metric": "m"}, "percentile": 99}});
    let Validated { settings, queries, .. } = settings("/signals", signals);
    let declared = settings.declared;
    assert!(declared.qps && declared.latency && declared.sla && !declared.errors && declared.cpu);
    assert_eq!(settings.objective.latency_percentile, 0.99);
    assert_eq!(queries.requests.map(|requests| requests.window_secs), Some(60));
}

#[test]
fn the_percentile_of_a_query_counts_more_than_that_of_the_histogram() {
    let signals = json!({
        "requests": {"histogram": {"source": "default", "metric": "m"}, "percentile": 99},
        "latency": {"prometheus": {"source": "default", "query": "q"}, "percentile": 90}
    });
    assert_eq!(settings("/signals", signals).settings.objective.latency_percentile, 0.9);
}

#[test]
fn the_operators_floor_raises_the_interval_and_says_so() {
    for (interval, effective, warned) in [(1, 5.0, true), (4, 5.0, true), (5, 5.0, false), (6, 6.0, false)] {
        let Validated { settings, warnings, .. } = settings("/intervalSeconds", json!(interval));
        assert_eq!(settings.interval_secs, effective);
        assert_eq!(warnings.len(), usize::from(warned), "{interval}");
    }
}

#[test]
fn the_time_factor_divides_the_defaults_and_nothing_that_is_written() {
    let limits = Limits { interval_min_secs: 1.0, time_factor: 5.0 };
    let spec = with("/fallback", json!({"replicas": 3}));
    let Validated { settings, queries, .. } = validate(&spec, limits).expect("valid");
    assert_eq!(settings.interval_secs, 3.0);
    assert_eq!(settings.metric_lag_secs, 3.0);
    assert_eq!(settings.behavior.down.window_secs, 6.0);
    assert_eq!(settings.behavior.up.steps[0].period_secs, 3.0);
    assert_eq!(settings.fallback.map(|fallback| fallback.failure_secs), Some(36.0));
    assert_eq!(queries.cpu, Some(CpuQuery { max_age_secs: 12.0 }));
    assert_eq!(settings.time_factor, 5.0);

    let spec = with("/intervalSeconds", json!(30));
    assert_eq!(validate(&spec, limits).expect("valid").settings.interval_secs, 30.0);
}

#[test]
fn an_hpas_behavior_is_taken_field_for_field() {
    let pasted = json!({
        "scaleUp": {"stabilizationWindowSeconds": 60, "selectPolicy": "Min", "tolerance": "50m", "policies": [
            {"type": "Percent", "value": 50, "periodSeconds": 60},
            {"type": "Pods", "value": 2, "periodSeconds": 1800}
        ]},
        "scaleDown": {"selectPolicy": "Disabled"}
    });
    let Behavior { up, down } = settings("/behavior", pasted).settings.behavior;
    assert_eq!((up.window_secs, up.select, up.tolerance), (60.0, Select::Min, Some(0.05)));
    let steps: Vec<_> = up.steps.iter().map(|step| (step.kind, step.value, step.period_secs)).collect();
    assert_eq!(steps, [(StepKind::Percent, 50, 60.0), (StepKind::Pods, 2, 1800.0)]);
    assert_eq!((down.select, down.window_secs), (Select::Disabled, Behavior::default().down.window_secs));
    assert_eq!(down.steps, Behavior::default().down.steps);
}

#[test]
fn a_weight_that_is_left_out_is_one() {
    let weights = settings("/objective/weights", json!({"sla": 5})).settings.objective.weights;
    assert_eq!(weights, Weights { latency: 1.0, saving: 1.0, sla: 5.0 });
}
