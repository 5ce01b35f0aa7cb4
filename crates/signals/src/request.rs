//! What one policy asks to be read. The controller makes it from a validated policy, once per edit.
//! A source is always a name; there is no place here for a URL, a header or a file.

use std::time::Duration;

use jiff::Timestamp;

/// Everything one policy asks for. Where both `requests` and a single query give a signal, the query counts.
#[derive(Debug, Clone, PartialEq)]
pub struct SignalRequest {
    /// The policy's namespace: decides which sources may be used and which pods are asked about.
    pub namespace: String,
    /// A request is late when not answered within this many seconds. Positive.
    pub target_secs: f64,
    /// Percentile of the latency, 0 < p < 1.
    pub percentile: f64,
    /// One latency histogram that gives qps, latency and sla at once.
    pub requests: Option<HistogramRequest>,
    /// Requests per second offered.
    pub qps: Option<QueryRequest>,
    /// Latency at the percentile.
    pub latency: Option<QueryRequest>,
    /// Share within the target, 0..1.
    pub sla: Option<QueryRequest>,
    /// Share that failed, 0..1.
    pub errors: Option<QueryRequest>,
    /// Cores used by the target's ready pods.
    pub cpu: CpuRequest,
    /// Price of one replica for an hour.
    pub price: Option<PriceRequest>,
}

/// One Prometheus query whose answer is one number.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryRequest {
    /// Name of a source in the operator's configuration.
    pub source: String,
    /// PromQL.
    pub query: String,
    /// PromQL whose answer is the Unix time of the newest sample behind `query`; without it the age is unknown.
    pub freshness_query: Option<String>,
    /// What the query's number is measured in.
    pub unit: Unit,
    /// What an empty answer means.
    pub on_empty: OnEmpty,
    /// Seconds after which a reading may no longer be acted on.
    pub max_age_secs: f64,
}

impl QueryRequest {
    /// A query in the signal's own unit, with the API's defaults: an empty answer is missing, 60 s of age at most.
    #[must_use]
    pub fn new(source: impl Into<String>, query: impl Into<String>) -> Self {
        Self {
            source: source.into(),
            query: query.into(),
            freshness_query: None,
            unit: Unit::default(),
            on_empty: OnEmpty::default(),
            max_age_secs: DEFAULT_MAX_AGE_SECS,
        }
    }
}

/// `maxAgeSeconds` where a policy does not say.
pub const DEFAULT_MAX_AGE_SECS: f64 = 60.0;

/// A classic Prometheus latency histogram of the service's requests.
#[derive(Debug, Clone, PartialEq)]
pub struct HistogramRequest {
    /// Name of a source in the operator's configuration.
    pub source: String,
    /// Base name, for example `http_request_duration_seconds`; a trailing `_bucket` is dropped.
    pub metric: String,
    /// Label matchers as between the braces of a selector, for example `app="web",code!~"5.."`; may be empty.
    pub matchers: String,
    /// Width of `rate()`, seconds. At least two scrapes must fall into it.
    pub window_secs: u32,
    /// What the bucket bounds are measured in.
    pub unit: Unit,
    /// What an empty answer means; `Zero` means an idle service.
    pub on_empty: OnEmpty,
    /// Seconds after which a reading may no longer be acted on.
    pub max_age_secs: f64,
}

/// Unit of a number as the source gives it. Only latency knows another than the signal's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unit {
    /// The signal's own: requests/s, seconds, ratio, price per replica-hour.
    #[default]
    Native,
    /// Thousandths of a second.
    Milliseconds,
}

/// What an empty answer means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnEmpty {
    /// The signal is missing.
    #[default]
    Error,
    /// The signal is zero, for workloads whose series do not exist while they are idle.
    Zero,
}

/// Where the CPU usage comes from.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum CpuRequest {
    /// Not asked for.
    #[default]
    None,
    /// `metrics.k8s.io` in the policy's namespace.
    Resource {
        /// The target's selector as a label selector string; narrows what is listed. Which pods count is decided by
        /// name ([`ReadyPod`]), never by the selector.
        label_selector: String,
        /// Seconds after which a pod's sample no longer counts.
        max_age_secs: f64,
    },
}

/// Where the price of a replica-hour comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum PriceRequest {
    /// Written in the policy.
    Constant(f64),
    /// Asked for at every tick.
    Query(QueryRequest),
}

/// One ready pod of the target, found by its owner.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadyPod {
    /// `metadata.name`.
    pub name: String,
    /// When its Ready condition last became true, where known.
    pub ready_since: Option<Timestamp>,
}

/// What changes from one read to the next.
#[derive(Debug, Clone, Copy)]
pub struct Tick<'a> {
    /// The operator's clock.
    pub now: Timestamp,
    /// All signals are read at the same time and none is waited for any longer than this.
    pub deadline: Duration,
    /// The target's ready pods.
    pub pods: &'a [ReadyPod],
}
