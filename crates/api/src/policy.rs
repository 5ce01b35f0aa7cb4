//! `RLReplicaPolicy`: what a person writes. Every field is bounded; what a schema cannot say, a CEL rule says in a
//! sentence. The types are lenient on purpose: an object that another version of the CRD let through must still be
//! readable, so that its faults can be reported. [`crate::validate`] checks everything again.

#![allow(unreachable_pub, reason = "KubeSchema copies each struct into a function")]
#![allow(clippy::duplicated_attributes, reason = "each printer column repeats its keys")]

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub mod behavior;
pub mod signals;

pub use behavior::{BehaviorSpec, PolicyType, ScalingPolicy, ScalingRules, SelectPolicy};
pub use signals::{
    CpuNone, CpuResource, CpuSignal, HistogramSource, LatencySignal, LatencyUnit, OnEmpty, PrometheusSource,
    QuerySignal, RequestsSignal, SignalsSpec,
};

use crate::limits::{
    MAX_CONCURRENCY, MAX_DECIMAL_CHARS, MAX_FAILURE_SECS, MAX_INTERVAL_SECS, MAX_LATENCY_MS, MAX_NAME_CHARS,
    MAX_OBJECT_NAME_CHARS, MAX_REASON_CHARS, MAX_REPLICAS, MAX_STARTUP_SECS, MAX_TIME_CHARS, MAX_WEIGHT,
};
use crate::status::RLReplicaPolicyStatus;

/// How many replicas a workload should have, decided from load, latency, CPU and price, within bounds and guardrails.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq)]
#[kube(
    group = "rlscaler.io",
    version = "v1alpha1",
    kind = "RLReplicaPolicy",
    plural = "rlreplicapolicies",
    shortname = "rlrp",
    category = "autoscaling",
    namespaced,
    status = "RLReplicaPolicyStatus",
    derive = "PartialEq",
    doc = "Sets the replica count of a workload by weighing latency, price and an SLA, within bounds and guardrails.",
    printcolumn(
        name = "Reference",
        type_ = "string",
        json_path = ".spec.scaleTargetRef.name",
        description = "The workload being scaled"
    ),
    printcolumn(name = "Min", type_ = "integer", json_path = ".spec.minReplicas"),
    printcolumn(name = "Max", type_ = "integer", json_path = ".spec.maxReplicas"),
    printcolumn(name = "Current", type_ = "integer", json_path = ".status.currentReplicas"),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".status.desiredReplicas"),
    printcolumn(
        name = "Mode",
        type_ = "string",
        json_path = ".spec.mode",
        description = "Shadow decides and reports, Auto also scales"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(
        name = "Paused",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Paused")].status"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Driver",
        type_ = "string",
        json_path = ".status.decision.driver",
        priority = "1",
        description = "Who determined the number before the guardrails"
    ),
    printcolumn(name = "Model", type_ = "string", json_path = ".status.model", priority = "1"),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.decision.reasons[0].code",
        priority = "1",
        description = "What explains the number best"
    )
)]
#[x_kube(
    validation = Rule::new("self.minReplicas <= self.maxReplicas")
        .message("minReplicas must not be greater than maxReplicas.")
        .field_path(".minReplicas"),
    validation = Rule::new("self.minReplicas > 0 || has(self.signals.qps)")
        .message("minReplicas can be 0 only with signals.qps, measured where requests arrive while no pod runs (a gateway): nothing else could wake the workload.")
        .field_path(".minReplicas"),
    validation = Rule::new("!has(self.capacity) || self.capacity.serviceMilliseconds < self.objective.latency.targetMilliseconds")
        .message("objective.latency.targetMilliseconds must be greater than capacity.serviceMilliseconds: no number of replicas answers faster than one request takes.")
        .field_path(".objective.latency.targetMilliseconds"),
    validation = Rule::new("!has(self.fallback) || self.fallback.replicas <= self.maxReplicas")
        .message("fallback.replicas must not be greater than maxReplicas.")
        .field_path(".fallback.replicas")
)]
#[serde(rename_all = "camelCase")]
pub struct RLReplicaPolicySpec {
    /// The workload to scale: anything with a `/scale` subresource, in the policy's namespace.
    pub scale_target_ref: ScaleTargetRef,
    /// Fewest replicas. 0 only with `signals.qps` that lives while no pod runs (measured at a gateway).
    #[serde(default = "default_min_replicas")]
    #[schemars(range(min = 0, max = MAX_REPLICAS))]
    pub min_replicas: i32,
    /// Most replicas.
    #[schemars(range(min = 1, max = MAX_REPLICAS))]
    pub max_replicas: i32,
    /// `Shadow` decides and reports and never writes. `Auto` scales.
    #[serde(default)]
    pub mode: Mode,
    /// Seconds between two decisions, 15 when absent. The operator's `--interval-min` is the floor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_INTERVAL_SECS))]
    pub interval_seconds: Option<i32>,
    /// What the service promises, and what it is worth.
    pub objective: ObjectiveSpec,
    /// Where load, latency and CPU are read. Without any, CPU of the metrics API alone.
    #[serde(default)]
    pub signals: SignalsSpec,
    /// What one replica can serve; estimated when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<CapacitySpec>,
    /// Seconds from the creation of a pod to its readiness; learnt from pods when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_STARTUP_SECS))]
    pub startup_seconds: Option<i32>,
    /// Price of one replica for an hour. It scales what saving is worth and is reported as cost; it never raises replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<CostSpec>,
    /// Limits of the rate of change, as the `behavior` of `autoscaling/v2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behavior: Option<BehaviorSpec>,
    /// Replicas to have when no signal could be read for long. Without it the present count is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<FallbackSpec>,
    /// A person's will. Any override annotation outranks it.
    #[serde(default, rename = "override", skip_serializing_if = "Option::is_none")]
    pub override_: Option<OverrideSpec>,
    /// Which model adjusts the planner's answer; the one built in when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelSpec>,
}

fn default_min_replicas() -> i32 {
    1
}

/// A workload with a `/scale` subresource.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ScaleTargetRef {
    /// API group and version, for example `apps/v1`.
    #[schemars(length(min = 1, max = MAX_OBJECT_NAME_CHARS))]
    #[x_kube(validation = Rule::new("self.matches('^([a-z0-9.-]+/)?v[0-9]+((alpha|beta)[0-9]+)?$')")
        .message("apiVersion must be a version such as v1, or a group and a version such as apps/v1."))]
    pub api_version: String,
    /// Kind, for example `Deployment`.
    #[schemars(length(min = 1, max = MAX_NAME_CHARS))]
    #[x_kube(validation = Rule::new("self.matches('^[A-Z][A-Za-z0-9]*$')")
        .message("kind must be the kind of an object in UpperCamelCase, such as Deployment."))]
    pub kind: String,
    /// Name, in the policy's namespace.
    #[schemars(length(min = 1, max = MAX_OBJECT_NAME_CHARS))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$')")
        .message("name must be the name of an object: a-z, 0-9, '-' and '.', beginning and ending with a letter or digit."))]
    pub name: String,
}

/// Whether decisions are carried out.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq, Default)]
#[schemars(transform = crate::crd::described_by_its_field)]
pub enum Mode {
    /// Decides and reports, never writes.
    #[default]
    Shadow,
    /// Decides and scales.
    Auto,
}

/// What the service promises, and what it is worth.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ObjectiveSpec {
    /// When a request is late.
    pub latency: LatencyObjective,
    /// Share of offered requests that must not be late, in percent: a decimal above 0 and below 100.
    #[serde(default = "default_sla_percent")]
    #[schemars(length(min = 1, max = MAX_DECIMAL_CHARS))]
    #[x_kube(validation = Rule::new("self.matches('^[0-9]{1,2}([.][0-9]+)?$') && double(self) > 0.0")
        .message("slaPercent must be a decimal above 0 and below 100, such as \"99.5\"."))]
    pub sla_percent: String,
    /// What latency, saving and the SLA weigh against each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<WeightsSpec>,
}

fn default_sla_percent() -> String {
    "99".to_owned()
}

/// When a request is late.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct LatencyObjective {
    /// A request is late when not answered within this many milliseconds.
    #[schemars(range(min = 1, max = MAX_LATENCY_MS))]
    pub target_milliseconds: i64,
}

/// Weights a, b, c of `a x latency reduction + b x resource saving + c x SLA completion`.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct WeightsSpec {
    /// a: weight of latency.
    #[serde(default = "default_weight")]
    #[schemars(range(min = 0, max = MAX_WEIGHT))]
    pub latency: i32,
    /// b: weight of saving; the others are measured against it, so it is at least 1.
    #[serde(default = "default_weight")]
    #[schemars(range(min = 1, max = MAX_WEIGHT))]
    pub saving: i32,
    /// c: weight of the SLA.
    #[serde(default = "default_weight")]
    #[schemars(range(min = 0, max = MAX_WEIGHT))]
    pub sla: i32,
}

fn default_weight() -> i32 {
    1
}

/// What one replica can serve.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct CapacitySpec {
    /// Requests one replica works on at the same time.
    #[schemars(range(min = 1, max = MAX_CONCURRENCY))]
    pub concurrency: i32,
    /// Mean milliseconds one request occupies one of them.
    #[schemars(range(min = 1, max = MAX_LATENCY_MS))]
    pub service_milliseconds: i64,
}

/// Price of one replica for an hour: written down, or asked for.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[x_kube(validation = Rule::new("has(self.perReplicaHour) != has(self.prometheus)")
    .message("cost needs either perReplicaHour or prometheus, not both."))]
#[serde(rename_all = "camelCase")]
pub struct CostSpec {
    /// Price of one replica for an hour: a decimal above 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_DECIMAL_CHARS))]
    #[x_kube(validation = Rule::new("self.matches('^[0-9]+([.][0-9]+)?$') && double(self) > 0.0")
        .message("perReplicaHour must be a decimal above 0, such as \"0.096\"."))]
    pub per_replica_hour: Option<String>,
    /// A query whose answer is the price of one replica for an hour. No answer, zero or a negative one is neutral.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prometheus: Option<PrometheusSource>,
    /// ISO 4217 code the cost is reported in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 3, max = 3))]
    #[x_kube(validation = Rule::new("self.matches('^[A-Z]{3}$')")
        .message("currency must be three capital letters, such as USD."))]
    pub currency: Option<String>,
}

/// Replicas to have when no signal could be read for long.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct FallbackSpec {
    /// Seconds of failure before it applies, as lived through by the operator: a restart counts for one interval at
    /// most. 180 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_FAILURE_SECS))]
    pub failure_duration_seconds: Option<i32>,
    /// Replicas then, moved into min..max, and never fewer than what healthy signals ask for.
    #[schemars(range(min = 0, max = MAX_REPLICAS))]
    pub replicas: i32,
}

/// A person's will.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[x_kube(validation = Rule::new("(self.mode == 'Pin') == has(self.replicas)")
    .message("override.replicas is needed with mode Pin, and only there."))]
#[serde(rename_all = "camelCase")]
pub struct OverrideSpec {
    /// What is wanted.
    pub mode: OverrideMode,
    /// Replicas of a pin. Moved into min..max unless the annotation `rlscaler.io/allow-out-of-bounds` is `"true"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_REPLICAS))]
    pub replicas: Option<i32>,
    /// Why; shown in status and events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_REASON_CHARS))]
    pub reason: Option<String>,
    /// When it ends by itself, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_TIME_CHARS))]
    #[x_kube(validation = Rule::new("self.matches('^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})$')")
        .message("until must be a time as in RFC 3339, such as 2027-01-01T00:00:00Z."))]
    pub until: Option<String>,
}

/// Kinds of override.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[schemars(transform = crate::crd::described_by_its_field)]
pub enum OverrideMode {
    /// Exactly this many replicas, whatever the signals say.
    Pin,
    /// Leave the target as it is.
    Pause,
    /// Never down.
    PauseScaleDown,
    /// Never up.
    PauseScaleUp,
}

/// Which model adjusts the planner's answer.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ModelSpec {
    /// Name of a model the operator has loaded.
    #[schemars(length(min = 1, max = MAX_NAME_CHARS))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$')")
        .message("name must be the name of a model of the operator: a-z, 0-9, '-' and '.'."))]
    pub name: String,
}
