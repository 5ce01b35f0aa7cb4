//! What the operator tells about a policy. Times, never ages; bounded; nothing in it is ever read back but the memory.

#![allow(unreachable_pub, reason = "KubeSchema copies each struct into a function")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::limits::{
    MAX_CONDITIONS, MAX_DECIMAL_CHARS, MAX_MEMORY_BYTES, MAX_MESSAGE_CHARS, MAX_NAME_CHARS,
    MAX_OBJECT_NAME_CHARS, MAX_QUERY_CHARS, MAX_REASON_CHARS, MAX_STATUS_DECISIONS, MAX_STATUS_REASONS,
    MAX_STATUS_SIGNALS,
};
use crate::policy::OverrideMode;

/// What was seen, decided and done last.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct RLReplicaPolicyStatus {
    /// Generation of the policy this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `spec.replicas` of the target as last seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_replicas: Option<i32>,
    /// What the last decision asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired_replicas: Option<i32>,
    /// Pods of the target that are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// When the operator last changed the scale.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_scale_time: Option<Time>,
    /// The last decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<DecisionStatus>,
    /// The last decisions that were not like the one before, newest first: `rlscaler explain` shows them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_STATUS_DECISIONS), extend("x-kubernetes-list-type" = "atomic"))]
    pub decisions: Vec<DecisionStatus>,
    /// What the signals were at that decision, always in the same order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_STATUS_SIGNALS), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub signals: Vec<SignalStatus>,
    /// The error budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetStatus>,
    /// What the policy has saved against what an HPA would have run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub savings: Option<SavingsStatus>,
    /// What would have been, where the policy is in `Shadow`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shadow: Option<ShadowStatus>,
    /// The scale-down that was undone and is held off; absent when there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_down_hold: Option<ScaleDownHoldStatus>,
    /// The person's will that is in force.
    #[serde(rename = "override", skip_serializing_if = "Option::is_none")]
    pub override_: Option<OverrideStatus>,
    /// Model in use: name, content hash, kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_OBJECT_NAME_CHARS))]
    pub model: Option<String>,
    /// What is the matter.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
    /// What guardrails, budget and estimators need to survive a restart. Not meant for reading.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryStatus>,
}

/// One decision.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct DecisionStatus {
    /// When it was made.
    pub time: Time,
    /// `spec.replicas` that was seen.
    pub from: i32,
    /// Replicas decided; equal to `from` when it holds.
    pub to: i32,
    /// The driver's answer before the guardrails.
    pub proposed: i32,
    /// The planner's answer.
    pub planner: i32,
    /// What a stock HPA at 60 % CPU would ask for; absent without CPU.
    #[serde(default, rename = "hpaWouldBe", skip_serializing_if = "Option::is_none")]
    pub hpa_would_be: Option<i32>,
    /// Who determined the number before the guardrails: model, planner, override, fallback or hold.
    #[schemars(length(max = MAX_NAME_CHARS))]
    pub driver: String,
    /// What became of it: up, down or hold; advise_up or advise_down where nothing is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_NAME_CHARS))]
    pub action: Option<String>,
    /// Code of the reason why it is not more: the guardrail that had the last word, else the term that made the number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_NAME_CHARS))]
    pub why_not_more: Option<String>,
    /// Code of the reason why it is not fewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_NAME_CHARS))]
    pub why_not_fewer: Option<String>,
    /// Why; the reason that explains the number best stands first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_STATUS_REASONS), extend("x-kubernetes-list-type" = "atomic"))]
    pub reasons: Vec<ReasonStatus>,
}

/// One reason of a decision.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ReasonStatus {
    /// Stable code.
    #[schemars(length(max = MAX_NAME_CHARS))]
    pub code: String,
    /// The numbers behind it, in a sentence.
    #[schemars(length(max = MAX_MESSAGE_CHARS))]
    pub message: String,
}

/// One signal as it was read.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct SignalStatus {
    /// qps, latency, sla, errors, cpu or price.
    #[schemars(length(min = 1, max = MAX_NAME_CHARS))]
    pub name: String,
    /// The number as the source gave it, a decimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_NAME_CHARS))]
    pub value: Option<String>,
    /// Unit of the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_NAME_CHARS))]
    pub unit: Option<String>,
    /// When the newest sample behind it was taken, where the source can tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample_time: Option<Time>,
    /// Exactly what was asked, to be run by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_STATUS_QUERY_CHARS))]
    pub query: Option<String>,
    /// What became of it.
    pub state: SignalState,
    /// Why, where it cannot be acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_MESSAGE_CHARS))]
    pub message: Option<String>,
}

/// Longest query in status: a namespace matcher may have been added to every selector.
pub const MAX_STATUS_QUERY_CHARS: usize = 4 * MAX_QUERY_CHARS;

/// What became of a signal.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalState {
    /// Read, and young enough to act on.
    Fresh,
    /// Read, but too old.
    Stale,
    /// Not obtained.
    Missing,
    /// Obtained but unusable.
    Invalid,
    /// Derived from the queue model, not measured.
    Estimated,
    /// Undefined because nothing was asked of the service.
    NotApplicable,
}

/// The error budget. Numbers are decimals.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct BudgetStatus {
    /// Share of offered requests that must not be late, percent.
    #[schemars(length(max = MAX_DECIMAL_CHARS))]
    pub sla_percent: String,
    /// What is left of the budget, percent: 100 untouched, negative overspent.
    #[schemars(length(max = MAX_DECIMAL_CHARS))]
    pub remaining_percent: String,
    /// Late share of the last hour over what the SLA allows.
    #[serde(rename = "burnRate1h")]
    #[schemars(length(max = MAX_DECIMAL_CHARS))]
    pub burn_rate_1h: String,
    /// The same over six hours.
    #[serde(rename = "burnRate6h")]
    #[schemars(length(max = MAX_DECIMAL_CHARS))]
    pub burn_rate_6h: String,
    /// What a late request is worth to the model now.
    #[schemars(length(max = MAX_DECIMAL_CHARS))]
    pub lateness_price: String,
}

/// What the policy has saved. Numbers are decimals.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct SavingsStatus {
    /// Since when it is counted.
    pub since: Time,
    /// Replica-hours asked for since then.
    #[schemars(length(max = MAX_DECIMAL_CHARS))]
    pub replica_hours: String,
    /// Replica-hours a stock HPA at 60 % CPU would have asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_DECIMAL_CHARS))]
    pub hpa_replica_hours: Option<String>,
    /// Cost of the replica-hours, where a price is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_DECIMAL_CHARS))]
    pub cost: Option<String>,
    /// ISO 4217 code of the cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 3))]
    pub currency: Option<String>,
}

/// What would have been, had the decisions of `Shadow` been followed, beside what really happened. Pod-hours and late
/// shares of the decided path come from a queue simulated with this service's own numbers: load as measured, capacity as
/// declared or estimated, start-up as declared or learnt. Numbers are decimals.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ShadowStatus {
    /// Since when it is counted.
    pub since: Time,
    /// Whether the prediction is to be trusted, by the last 24 hours.
    pub trust: ShadowTrust,
    /// Why, with both figures.
    #[schemars(length(max = MAX_MESSAGE_CHARS))]
    pub message: String,
    /// Since the beginning.
    #[serde(flatten)]
    pub total: ShadowWindowStatus,
    /// The last 24 hours.
    pub last_day: ShadowWindowStatus,
}

/// A stretch of time in shadow. Numbers are decimals.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase")]
pub struct ShadowWindowStatus {
    /// Replica-hours that were really asked for.
    #[schemars(length(max = MAX_DECIMAL_CHARS))]
    pub replica_hours: String,
    /// Replica-hours, had the decisions been followed.
    #[schemars(length(max = MAX_DECIMAL_CHARS))]
    pub would_be_replica_hours: String,
    /// Replica-hours a stock HPA at 60 % CPU would have asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_DECIMAL_CHARS))]
    pub hpa_replica_hours: Option<String>,
    /// Requests that came late as measured, percent; absent where that is not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_DECIMAL_CHARS))]
    pub late_percent: Option<String>,
    /// The same by the queue model with the replicas that really ran: the calibration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_DECIMAL_CHARS))]
    pub predicted_late_percent: Option<String>,
    /// The same by the queue model, had the decisions been followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_DECIMAL_CHARS))]
    pub would_be_late_percent: Option<String>,
}

/// Whether what shadow predicts is to be trusted.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShadowTrust {
    /// Too few requests, or too short a time.
    NotYetKnown,
    /// The late share is not measured: nothing says whether the queue model is right.
    NotMeasured,
    /// What the queue model makes of the replicas that really ran is what was measured.
    Agrees,
    /// It is not: the prediction is not to be trusted.
    LatenessDisagrees,
    /// CPU shows another capacity than is declared: the prediction is not to be trusted.
    CapacityDisagrees,
}

/// A scale-down after which the objective was no longer met: undone, and held off for a while.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ScaleDownHoldStatus {
    /// When it was undone.
    pub since: Time,
    /// The count that is not gone below.
    pub replicas: i32,
    /// Until when, unless demand is gone before.
    pub until: Time,
}

/// The person's will that is in force.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct OverrideStatus {
    /// Its kind.
    pub mode: OverrideMode,
    /// Replicas of a pin, as asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Where it is written.
    pub from: OverrideFrom,
    /// The field manager that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_OBJECT_NAME_CHARS))]
    pub by: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_REASON_CHARS))]
    pub reason: Option<String>,
    /// When it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
}

/// Where an override is written.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverrideFrom {
    /// `spec.override`.
    Spec,
    /// An annotation.
    Annotation,
}

/// What must survive a restart, see [`crate::memory`].
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct MemoryStatus {
    /// Version of the state's form.
    pub version: i32,
    /// The state as JSON.
    #[schemars(length(max = MAX_MEMORY_BYTES))]
    pub state: String,
    /// Replicas of ours that somebody else overwrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rewrites: Option<RewritesStatus>,
}

/// Most rewrites remembered: so many make a quarrel.
pub const MAX_REWRITES: usize = 3;
/// Most field managers named.
pub const MAX_REWRITERS: usize = 8;

/// Replicas of ours that somebody else overwrote.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct RewritesStatus {
    /// When, of the last minutes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_REWRITES), extend("x-kubernetes-list-type" = "atomic"))]
    pub times: Vec<Time>,
    /// What was written last, as long as it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ours: Option<i32>,
    /// When that was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ours_time: Option<Time>,
    /// The field managers that overwrote it last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "writers_schema")]
    pub writers: Vec<String>,
    /// Quarrels in a row.
    #[serde(default)]
    pub quarrels: i32,
    /// Until when nothing is written on their account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
}

/// A list of names, each bounded.
fn writers_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "The field managers that overwrote it last.",
        "type": "array",
        "maxItems": MAX_REWRITERS,
        "x-kubernetes-list-type": "atomic",
        "items": {"type": "string", "description": "Name of a field manager.", "maxLength": MAX_OBJECT_NAME_CHARS}
    })
}

/// The standard condition, bounded as `metav1.Condition` is.
fn conditions_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "What is the matter.",
        "type": "array",
        "maxItems": MAX_CONDITIONS,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "description": "One aspect of the policy's state.",
            "required": ["type", "status", "lastTransitionTime", "reason", "message"],
            "properties": {
                "type": {
                    "type": "string",
                    "description": "Which aspect.",
                    "minLength": 1,
                    "maxLength": 316
                },
                "status": {
                    "type": "string",
                    "description": "Whether it holds.",
                    "enum": ["True", "False", "Unknown"]
                },
                "observedGeneration": {
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                    "description": "Generation of the policy it speaks of."
                },
                "lastTransitionTime": {
                    "type": "string",
                    "format": "date-time",
                    "description": "When the status last changed."
                },
                "reason": {
                    "type": "string",
                    "description": "Why, as a stable code.",
                    "minLength": 1,
                    "maxLength": 1024
                },
                "message": {
                    "type": "string",
                    "description": "Why, as a sentence.",
                    "maxLength": 32768
                }
            }
        }
    })
}
