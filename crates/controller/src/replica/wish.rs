//! From a validated policy to what the readers of signals are asked. Pure.

use rlscaler_api::policy::{LatencyUnit, OnEmpty as WireOnEmpty};
use rlscaler_api::validate::{HistogramQuery, Queries, Query, Validated};
use rlscaler_signals::request::{
    CpuRequest, HistogramRequest, OnEmpty, PriceRequest, QueryRequest, SignalRequest, Unit,
};

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
}
