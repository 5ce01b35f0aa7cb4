//! The `behavior` block of `autoscaling/v2`, field for field, so that people can paste theirs.

#![allow(unreachable_pub, reason = "KubeSchema copies each struct into a function")]

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::{MAX_DECIMAL_CHARS, MAX_PERIOD_SECS, MAX_SCALING_POLICIES, MAX_STABILIZATION_SECS};

/// Limits of the rate of change in both directions.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase")]
pub struct BehaviorSpec {
    /// Rising. When absent: no window, the greater of +100 % and +4 replicas per 15 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_up: Option<ScalingRules>,
    /// Falling. When absent: a window of 30 s, 100 % per 15 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_down: Option<ScalingRules>,
}

/// Limits of the rate of change in one direction.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq, Default)]
#[serde(rename_all = "camelCase")]
pub struct ScalingRules {
    /// Seconds of past recommendations that are looked at. When absent: 0 up, 30 down. Down, our own answers of the last
    /// 2 minutes count in any case, of up to 8 where the count changes often.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_STABILIZATION_SECS))]
    pub stabilization_window_seconds: Option<i32>,
    /// Which of the policies counts. `Max` (the one that allows the larger change) when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub select_policy: Option<SelectPolicy>,
    /// Limits of the rate of change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_SCALING_POLICIES))]
    pub policies: Option<Vec<ScalingPolicy>>,
    /// Relative change below which nothing happens: a Kubernetes quantity, quoted, such as "0.05" or "50m". When
    /// absent: up half a replica where the model drives, down 8 % and 1.2 replicas beside the one; less for small services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_DECIMAL_CHARS))]
    #[x_kube(validation = Rule::new("isQuantity(self) && !quantity(self).isLessThan(quantity('0'))")
        .message("tolerance must be a quantity of at least 0, such as \"0.05\" or \"50m\"."))]
    pub tolerance: Option<String>,
}

/// At most this much change within the period.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ScalingPolicy {
    /// Unit of `value`.
    #[serde(rename = "type")]
    pub type_: PolicyType,
    /// Replicas, or percent of the replicas at the start of the period.
    #[schemars(range(min = 1))]
    pub value: i32,
    /// Length of the period, seconds.
    #[schemars(range(min = 1, max = MAX_PERIOD_SECS))]
    pub period_seconds: i32,
}

/// Unit of a scaling policy's value.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[schemars(transform = crate::crd::described_by_its_field)]
pub enum PolicyType {
    /// Replicas.
    Pods,
    /// Percent of the replicas at the start of the period.
    Percent,
}

/// Which of several scaling policies of one direction counts.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq, Default)]
#[schemars(transform = crate::crd::described_by_its_field)]
pub enum SelectPolicy {
    /// The one that allows the larger change.
    #[default]
    Max,
    /// The one that allows the smaller change.
    Min,
    /// No change in this direction.
    Disabled,
}
