//! From a validated policy to what the readers of signals are asked. Pure.

use rlscaler_api::policy::{LatencyUnit, OnEmpty as WireOnEmpty};
use rlscaler_api::validate::{Fault, HistogramQuery, Queries, Query, Validated};
use rlscaler_signals::fault::ReadFault;
use rlscaler_signals::report::SignalName;
use rlscaler_signals::request::{
    CpuRequest, HistogramRequest, OnEmpty, PriceRequest, QueryRequest, SignalRequest, Unit,
};
use rlscaler_signals::{histogram as buckets, promql};

/// What is to be read for the policy. `label_selector` is the target's and narrows what the metrics API lists.
#[must_use]
pub fn request(namespace: &str, validated: &Validated, label_selector: &str) -> SignalRequest {
    let Queries { requests, qps, latency, sla, errors, cpu, price } = &validated.queries;
    let constant = validated.settings.price_per_replica_hour.map(PriceRequest::Constant);
    SignalRequest {
        namespace: namespace.to_owned(),
        target_secs: validated.settings.objective.target_secs,
        percentile: validated.settings.objective.latency_percentile,
        requests: requests.as_ref().map(histogram),
        qps: qps.as_ref().map(query),
        latency: latency.as_ref().map(query),
        sla: sla.as_ref().map(query),
        errors: errors.as_ref().map(query),
        cpu: cpu.map_or(CpuRequest::None, |cpu| CpuRequest::Resource {
            label_selector: label_selector.to_owned(),
            max_age_secs: cpu.max_age_secs,
        }),
        price: price.as_ref().map(|price| PriceRequest::Query(query(price))).or(constant),
    }
}

/// What cannot be asked of any source, each by its field: a text that is no PromQL, or that costs too much.
#[must_use]
pub fn faults(queries: &Queries) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut add = |field: String, fault: ReadFault| {
        let message = match fault {
            ReadFault::BadQuery { why, .. } => why,
            other => other.to_string(),
        };
        faults.push(Fault { field, message });
    };
    for name in SignalName::ALL {
        let Some(query) = query_of(queries, name) else { continue };
        let place = place(queries, name);
        if let Err(fault) = promql::admit(&query.query, None) {
            add(format!("{place}.query"), fault);
        }
        if let Some(Err(fault)) = query.freshness_query.as_ref().map(|text| promql::admit(text, None)) {
            add(format!("{place}.freshnessQuery"), fault);
        }
    }
    if let Some(Err(fault)) = queries.requests.as_ref().map(|requests| buckets::queries(&histogram(requests)))
    {
        add("spec.signals.requests.histogram.matchers".to_owned(), fault);
    }
    faults
}

/// Where the policy says how a signal is read.
#[must_use]
pub fn place(queries: &Queries, name: SignalName) -> String {
    match name {
        SignalName::Price => "spec.cost.prometheus".to_owned(),
        SignalName::Cpu => "spec.signals.cpu".to_owned(),
        _ if query_of(queries, name).is_none() => "spec.signals.requests.histogram".to_owned(),
        _ => format!("spec.signals.{name}.prometheus"),
    }
}

fn query_of(queries: &Queries, name: SignalName) -> Option<&Query> {
    match name {
        SignalName::Qps => queries.qps.as_ref(),
        SignalName::Latency => queries.latency.as_ref(),
        SignalName::Sla => queries.sla.as_ref(),
        SignalName::Errors => queries.errors.as_ref(),
        SignalName::Price => queries.price.as_ref(),
        SignalName::Cpu => None,
    }
}

fn query(wire: &Query) -> QueryRequest {
    let Query { source, query, freshness_query, unit, on_empty, max_age_secs } = wire;
    QueryRequest {
        source: source.clone(),
        query: query.clone(),
        freshness_query: freshness_query.clone(),
        unit: unit_of(*unit),
        on_empty: on_empty_of(*on_empty),
        max_age_secs: *max_age_secs,
    }
}

fn histogram(wire: &HistogramQuery) -> HistogramRequest {
    let HistogramQuery { source, metric, matchers, window_secs, unit, on_empty, max_age_secs } = wire;
    HistogramRequest {
        source: source.clone(),
        metric: metric.clone(),
        matchers: matchers.clone(),
        window_secs: *window_secs,
        unit: unit_of(*unit),
        on_empty: on_empty_of(*on_empty),
        max_age_secs: *max_age_secs,
    }
}

fn unit_of(unit: LatencyUnit) -> Unit {
    match unit {
        LatencyUnit::Seconds => Unit::Native,
        LatencyUnit::Milliseconds => Unit::Milliseconds,
    }
}

fn on_empty_of(on_empty: WireOnEmpty) -> OnEmpty {
    match on_empty {
        WireOnEmpty::Error => OnEmpty::Error,
        WireOnEmpty::Zero => OnEmpty::Zero,
    }
}

#[cfg(test)]
mod tests {
    use rlscaler_api::policy::SignalsSpec;
    use rlscaler_api::{Limits, RLReplicaPolicy, validate};
    use serde_json::{Value, json};

    use super::*;

    fn asked(signals: Value) -> SignalRequest {
        let policy: RLReplicaPolicy = serde_json::from_value(json!({
            "apiVersion": "rlscaler.io/v1alpha1", "kind": "RLReplicaPolicy", "metadata": {"name": "web"},
            "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "maxReplicas": 9, "objective": {"latency": {"targetMilliseconds": 250}}, "signals": signals}}))
        .unwrap();
        request("shop", &validate(&policy.spec, Limits::default()).unwrap(), "app=web")
    }

    // Case 5.
    #[test]
    fn what_an_empty_answer_means_is_asked_for_as_the_policy_says_signal_by_signal() {
        let wanted = asked(json!({
            "qps": {"prometheus": {"source": "default", "query": "q"}, "onEmpty": "Zero"},
            "errors": {"prometheus": {"source": "default", "query": "e"}, "onEmpty": "Zero"},
            "latency": {"prometheus": {"source": "default", "query": "l"}},
        }));
        let of = |query: Option<QueryRequest>| query.map(|query| query.on_empty);
        assert_eq!(of(wanted.qps), Some(OnEmpty::Zero));
        assert_eq!(of(wanted.errors), Some(OnEmpty::Zero));
        assert_eq!(of(wanted.latency), Some(OnEmpty::Error), "the default holds");
        let histogram = |more: Value| {
            let mut histogram = json!({"source": "default", "metric": "http_request_duration_seconds"});
            let mut requests = json!({"histogram": histogram.take()});
            if let (Value::Object(requests), Value::Object(more)) = (&mut requests, more) {
                requests.extend(more);
            }
            asked(json!({"requests": requests})).requests.map(|requests| requests.on_empty)
        };
        assert_eq!(histogram(json!({"onEmpty": "Zero"})), Some(OnEmpty::Zero));
        assert_eq!(histogram(json!({})), Some(OnEmpty::Error));
    }

    fn faults_of(signals: Value) -> Vec<String> {
        let signals: SignalsSpec = serde_json::from_value(signals).unwrap();
        let mut spec = crate::fake::Stage::new(0.0).policy(|_| {}).spec;
        spec.signals = signals;
        let validated = validate(&spec, Limits::default()).unwrap();
        faults(&validated.queries).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_query_that_breaks_off_is_named_by_field_and_place() {
        let signals = json!({
            "qps": {"prometheus": {"source": "default", "query": "sum(rate(a[1m])", "freshnessQuery": "max(timestamp(a)))"}},
            "errors": {"prometheus": {"source": "default", "query": "up"}},
            "requests": {"histogram": {"source": "default", "metric": "a", "matchers": "b=\"c\"} or secret{d=\"e\""}},
        });
        assert_eq!(
            faults_of(signals),
            [
                "spec.signals.qps.prometheus.query: `(` at character 4 is never closed",
                "spec.signals.qps.prometheus.freshnessQuery: `)` at character 18 closes nothing",
                "spec.signals.requests.histogram.matchers: the matchers must be label matchers only, such as app=\"web\"",
            ]
        );
    }

    #[test]
    fn a_query_that_can_be_asked_has_no_fault() {
        let signals = json!({"qps": {"prometheus": {"source": "default", "query": "sum(rate(a[1m]))", "freshnessQuery": "max(timestamp(a))"}}});
        assert_eq!(faults_of(signals), Vec::<String>::new());
    }
}
