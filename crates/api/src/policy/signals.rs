//! Where a policy's numbers are read. A source is always the *name* of one in the operator's configuration: a policy
//! has no field that takes a URL, a header or a file.

#![allow(unreachable_pub, reason = "KubeSchema copies each struct into a function")]

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::{
    MAX_AGE_SECS, MAX_MATCHERS_CHARS, MAX_METRIC_CHARS, MAX_NAME_CHARS, MAX_QUERY_CHARS, MAX_WINDOW_SECS,
};

/// Where load, latency and CPU are read. A policy needs `qps`, `requests` or `cpu`.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq, Default)]
#[x_kube(validation = Rule::new("has(self.qps) || has(self.requests) || !has(self.cpu) || !has(self.cpu.none)")
    .message("signals needs one of qps, requests or cpu: without any the load cannot be known."))]
#[serde(rename_all = "camelCase")]
pub struct SignalsSpec {
    /// One latency histogram that gives qps, latency and sla at once. A query given for one of them counts instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<RequestsSignal>,
    /// Requests per second offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qps: Option<QuerySignal>,
    /// Latency at a percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencySignal>,
    /// Share of offered requests answered within the target, 0..1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sla: Option<QuerySignal>,
    /// Share of offered requests that failed, 0..1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<QuerySignal>,
    /// Cores used, summed over the target's ready pods. Read from the metrics API unless turned off by `none: {}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuSignal>,
}

/// One latency histogram that gives qps, latency and sla at once.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct RequestsSignal {
    /// The histogram.
    pub histogram: HistogramSource,
    /// Percentile of the latency. 95 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 99))]
    pub percentile: Option<i32>,
    /// What the bucket bounds are measured in. Seconds when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<LatencyUnit>,
    /// What an empty answer means. `Error` (the signals are missing) when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_empty: Option<OnEmpty>,
    /// Seconds after which a reading may no longer be acted on. 60 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_AGE_SECS))]
    pub max_age_seconds: Option<i32>,
}

/// A classic Prometheus latency histogram of the service's requests.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct HistogramSource {
    /// Name of a source in the operator's configuration, never a URL.
    #[schemars(length(min = 1, max = MAX_NAME_CHARS))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$')")
        .message("source must be the name of a source in the operator's configuration (a-z, 0-9, '-' and '.'), never a URL."))]
    pub source: String,
    /// Base name, for example `http_request_duration_seconds`; a trailing `_bucket` is dropped.
    #[schemars(length(min = 1, max = MAX_METRIC_CHARS))]
    #[x_kube(validation = Rule::new("self.matches('^[a-zA-Z_:][a-zA-Z0-9_:]*$')")
        .message("metric must be the name of a Prometheus metric: letters, digits, '_' and ':'."))]
    pub metric: String,
    /// Label matchers as between the braces of a selector, for example `app="web",code!~"5.."`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_MATCHERS_CHARS))]
    pub matchers: Option<String>,
    /// Width of `rate()`, seconds; at least two scrapes must fall into it. 60 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_WINDOW_SECS))]
    pub window_seconds: Option<i32>,
}

/// A signal from one Prometheus query.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct QuerySignal {
    /// The query.
    pub prometheus: PrometheusSource,
    /// What an empty answer means. `Error` (the signal is missing) when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_empty: Option<OnEmpty>,
    /// Seconds after which a reading may no longer be acted on. 60 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_AGE_SECS))]
    pub max_age_seconds: Option<i32>,
}

/// Latency at a percentile, from one Prometheus query.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct LatencySignal {
    /// The query.
    pub prometheus: PrometheusSource,
    /// Percentile the query gives. 95 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 99))]
    pub percentile: Option<i32>,
    /// Unit of the query's answer. Seconds when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<LatencyUnit>,
    /// What an empty answer means. `Error` (the signal is missing) when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_empty: Option<OnEmpty>,
    /// Seconds after which a reading may no longer be acted on. 60 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_AGE_SECS))]
    pub max_age_seconds: Option<i32>,
}

/// One Prometheus query whose answer is one number.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PrometheusSource {
    /// Name of a source in the operator's configuration, never a URL.
    #[schemars(length(min = 1, max = MAX_NAME_CHARS))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$')")
        .message("source must be the name of a source in the operator's configuration (a-z, 0-9, '-' and '.'), never a URL."))]
    pub source: String,
    /// PromQL.
    #[schemars(length(min = 1, max = MAX_QUERY_CHARS))]
    pub query: String,
    /// PromQL whose answer is the Unix time of the newest sample behind `query`; without it the age is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_QUERY_CHARS))]
    pub freshness_query: Option<String>,
}

/// Cores used, from the metrics API or not at all.
#[derive(KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq, Default)]
#[x_kube(validation = Rule::new("has(self.resource) != has(self.none)")
    .message("cpu needs either resource or none, not both."))]
#[serde(rename_all = "camelCase")]
pub struct CpuSignal {
    /// Read from `metrics.k8s.io`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<CpuResource>,
    /// Not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub none: Option<CpuNone>,
    /// Seconds after which a pod's sample no longer counts. 60 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_AGE_SECS))]
    pub max_age_seconds: Option<i32>,
}

/// The metrics API has nothing to be told.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq, Default)]
pub struct CpuResource {}

/// Nothing to be told.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq, Default)]
pub struct CpuNone {}

/// Unit of a latency.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq, Default)]
#[schemars(transform = crate::crd::described_by_its_field)]
pub enum LatencyUnit {
    /// Seconds, as Prometheus recommends.
    #[default]
    Seconds,
    /// Thousandths of a second.
    Milliseconds,
}

/// What an empty answer means.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq, Default)]
#[schemars(transform = crate::crd::described_by_its_field)]
pub enum OnEmpty {
    /// The signal is missing: nothing scales down.
    #[default]
    Error,
    /// The signal is zero, for workloads whose series do not exist while they are idle.
    Zero,
}
