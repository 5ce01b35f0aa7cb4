//! What is to be read, and where: plain descriptions that the controller hands to the readers of signals.

use super::checks::{Checks, shown};
use super::{DEFAULT_PERCENTILE, Limits};
use crate::limits::{MAX_AGE_SECS, MAX_MATCHERS_CHARS, MAX_METRIC_CHARS, MAX_QUERY_CHARS, MAX_WINDOW_SECS};
use crate::policy::{
    CpuSignal, HistogramSource, LatencySignal, LatencyUnit, OnEmpty, PrometheusSource, QuerySignal,
    RequestsSignal, SignalsSpec,
};
use crate::scalar;

/// `maxAgeSeconds` where a policy does not say.
const DEFAULT_MAX_AGE_SECS: f64 = 60.0;
/// `windowSeconds` where a policy does not say.
const DEFAULT_WINDOW_SECS: f64 = 60.0;

/// What is to be read. Where `requests` and a single query give the same signal, the query counts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Queries {
    /// One latency histogram that gives qps, latency and sla.
    pub requests: Option<HistogramQuery>,
    /// Requests per second offered.
    pub qps: Option<Query>,
    /// Latency at the percentile.
    pub latency: Option<Query>,
    /// Share within the target, 0..1.
    pub sla: Option<Query>,
    /// Share that failed, 0..1.
    pub errors: Option<Query>,
    /// Cores of the target's ready pods, from the metrics API.
    pub cpu: Option<CpuQuery>,
    /// Price of one replica for an hour.
    pub price: Option<Query>,
}

/// One query whose answer is one number.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// Name of a source in the operator's configuration.
    pub source: String,
    /// PromQL, not parsed yet.
    pub query: String,
    /// PromQL whose answer is the Unix time of the newest sample.
    pub freshness_query: Option<String>,
    /// Unit of the answer; only latency knows another than seconds.
    pub unit: LatencyUnit,
    /// What an empty answer means.
    pub on_empty: OnEmpty,
    /// Seconds after which a reading may no longer be acted on.
    pub max_age_secs: f64,
}

/// One latency histogram.
#[derive(Debug, Clone, PartialEq)]
pub struct HistogramQuery {
    /// Name of a source in the operator's configuration.
    pub source: String,
    /// Base name of the metric.
    pub metric: String,
    /// Label matchers as between the braces of a selector; may be empty.
    pub matchers: String,
    /// Width of `rate()`, seconds.
    pub window_secs: u32,
    /// Unit of the bucket bounds.
    pub unit: LatencyUnit,
    /// What an empty answer means.
    pub on_empty: OnEmpty,
    /// Seconds after which a reading may no longer be acted on.
    pub max_age_secs: f64,
}

/// CPU from the metrics API.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CpuQuery {
    /// Seconds after which a pod's sample no longer counts.
    pub max_age_secs: f64,
}

pub(super) fn queries(signals: &SignalsSpec, limits: Limits, checks: &mut Checks) -> Queries {
    let SignalsSpec { requests, qps, latency, sla, errors, cpu } = signals;
    let queries = Queries {
        requests: requests.as_ref().map(|requests| histogram(requests, limits, checks)),
        qps: qps.as_ref().map(|signal| query("spec.signals.qps", signal, limits, checks)),
        latency: latency.as_ref().map(|signal| latency_query(signal, limits, checks)),
        sla: sla.as_ref().map(|signal| query("spec.signals.sla", signal, limits, checks)),
        errors: errors.as_ref().map(|signal| query("spec.signals.errors", signal, limits, checks)),
        cpu: cpu_query(cpu.as_ref(), limits, checks),
        price: None,
    };
    if requests.is_none() && qps.is_none() && queries.cpu.is_none() {
        checks
            .fault("spec.signals", "needs one of qps, requests or cpu: without any the load cannot be known");
    }
    queries
}

/// Percentile of the latency, 0..1: that of the query where there is one, as the query counts.
pub(super) fn percentile(signals: &SignalsSpec, checks: &mut Checks) -> Option<f64> {
    let mut check = |field: &str, percentile: Option<i32>| {
        checks.whole(field, percentile.unwrap_or(DEFAULT_PERCENTILE).into(), 1, 99)
    };
    let of_requests = signals
        .requests
        .as_ref()
        .map(|requests| check("spec.signals.requests.percentile", requests.percentile));
    let of_latency =
        signals.latency.as_ref().map(|latency| check("spec.signals.latency.percentile", latency.percentile));
    let percentile = of_latency.or(of_requests).unwrap_or_else(|| u32::try_from(DEFAULT_PERCENTILE).ok());
    percentile.map(|percentile| f64::from(percentile) / 100.0)
}

pub(super) fn price_query(source: &PrometheusSource, limits: Limits, checks: &mut Checks) -> Query {
    let settled = Settled {
        unit: LatencyUnit::default(),
        on_empty: None,
        max_age_secs: max_age("spec.cost", None, limits, checks),
    };
    prometheus("spec.cost.prometheus", source, settled, checks)
}

fn query(field: &str, signal: &QuerySignal, limits: Limits, checks: &mut Checks) -> Query {
    let QuerySignal { prometheus: source, on_empty, max_age_seconds } = signal;
    let max_age_secs = max_age(field, *max_age_seconds, limits, checks);
    let settled = Settled { unit: LatencyUnit::default(), on_empty: *on_empty, max_age_secs };
    prometheus(&format!("{field}.prometheus"), source, settled, checks)
}

fn latency_query(signal: &LatencySignal, limits: Limits, checks: &mut Checks) -> Query {
    let LatencySignal { prometheus: source, percentile: _, unit, on_empty, max_age_seconds } = signal;
    let max_age_secs = max_age("spec.signals.latency", *max_age_seconds, limits, checks);
    let settled = Settled { unit: unit.unwrap_or_default(), on_empty: *on_empty, max_age_secs };
    prometheus("spec.signals.latency.prometheus", source, settled, checks)
}

/// What stands beside a query in its signal.
struct Settled {
    unit: LatencyUnit,
    on_empty: Option<OnEmpty>,
    max_age_secs: f64,
}

fn prometheus(field: &str, wire: &PrometheusSource, settled: Settled, checks: &mut Checks) -> Query {
    let PrometheusSource { source, query, freshness_query } = wire;
    check_source(&format!("{field}.source"), source, checks);
    checks.length(&format!("{field}.query"), query, 1, MAX_QUERY_CHARS);
    if query.trim().is_empty() {
        checks.fault(format!("{field}.query"), "must not be blank");
    }
    if let Some(freshness) = freshness_query {
        checks.length(&format!("{field}.freshnessQuery"), freshness, 1, MAX_QUERY_CHARS);
    }
    let Settled { unit, on_empty, max_age_secs } = settled;
    Query {
        source: source.clone(),
        query: query.clone(),
        freshness_query: freshness_query.clone(),
        unit,
        on_empty: on_empty.unwrap_or_default(),
        max_age_secs,
    }
}

fn histogram(requests: &RequestsSignal, limits: Limits, checks: &mut Checks) -> HistogramQuery {
    const FIELD: &str = "spec.signals.requests.histogram";
    let RequestsSignal { histogram, percentile: _, unit, on_empty, max_age_seconds } = requests;
    let HistogramSource { source, metric, matchers, window_seconds } = histogram;
    check_source(&format!("{FIELD}.source"), source, checks);
    let first = |c: char| c.is_ascii_alphabetic() || c == '_' || c == ':';
    let valid = metric.len() <= MAX_METRIC_CHARS
        && metric.starts_with(first)
        && metric.chars().all(|c| first(c) || c.is_ascii_digit());
    if !valid {
        checks.fault(
            format!("{FIELD}.metric"),
            format!(
                "{:?} must be the name of a Prometheus metric: letters, digits, '_' and ':'",
                shown(metric)
            ),
        );
    }
    let matchers = matchers.clone().unwrap_or_default();
    checks.length(&format!("{FIELD}.matchers"), &matchers, 0, MAX_MATCHERS_CHARS);
    let window_secs = match window_seconds {
        None => (DEFAULT_WINDOW_SECS / limits.time_factor).ceil() as u32,
        Some(secs) => checks
            .whole(&format!("{FIELD}.windowSeconds"), (*secs).into(), 1, MAX_WINDOW_SECS.into())
            .unwrap_or_default(),
    };
    HistogramQuery {
        source: source.clone(),
        metric: metric.clone(),
        matchers,
        window_secs,
        unit: unit.unwrap_or_default(),
        on_empty: on_empty.unwrap_or_default(),
        max_age_secs: max_age("spec.signals.requests", *max_age_seconds, limits, checks),
    }
}

fn cpu_query(cpu: Option<&CpuSignal>, limits: Limits, checks: &mut Checks) -> Option<CpuQuery> {
    const FIELD: &str = "spec.signals.cpu";
    let Some(CpuSignal { resource, none, max_age_seconds }) = cpu else {
        return Some(CpuQuery { max_age_secs: max_age(FIELD, None, limits, checks) });
    };
    if resource.is_some() == none.is_some() {
        checks.fault(FIELD, "needs either resource or none, not both");
    }
    let max_age_secs = max_age(FIELD, *max_age_seconds, limits, checks);
    resource.as_ref().map(|_| CpuQuery { max_age_secs })
}

fn max_age(field: &str, seconds: Option<i32>, limits: Limits, checks: &mut Checks) -> f64 {
    match seconds {
        None => DEFAULT_MAX_AGE_SECS / limits.time_factor,
        Some(secs) => checks
            .whole(&format!("{field}.maxAgeSeconds"), secs.into(), 1, MAX_AGE_SECS.into())
            .map_or(DEFAULT_MAX_AGE_SECS, f64::from),
    }
}

fn check_source(field: &str, source: &str, checks: &mut Checks) {
    if !scalar::is_name(source) {
        checks.fault(
            field,
            format!(
                "{:?} must be the name of a source in the operator's configuration (a-z, 0-9, '-' and '.'), never a URL",
                shown(source)
            ),
        );
    }
}
