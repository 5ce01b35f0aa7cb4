//! The answers of `metrics.k8s.io/v1beta1`. In: samples. Out: JSON as metrics-server gives it. Pure.
//! Timestamps are cut to whole seconds because the API's type is.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::core::{Selector, SelectorExt};
use serde_json::{Value, json};

use crate::sampling::Sample;

/// The group's name.
pub(crate) const GROUP: &str = "metrics.k8s.io";

/// Group and version.
pub(crate) const GROUP_VERSION: &str = "metrics.k8s.io/v1beta1";

/// Memory is not emulated; every container uses this much, so that `kubectl top` has something to print.
const CONTAINER_MEMORY: &str = "64Mi";

/// `/apis/metrics.k8s.io`.
pub(crate) fn group() -> Value {
    let version = json!({"groupVersion": GROUP_VERSION, "version": "v1beta1"});
    json!({"kind": "APIGroup", "apiVersion": "v1", "name": GROUP, "versions": [version], "preferredVersion": version})
}

/// `/apis/metrics.k8s.io/v1beta1`.
pub(crate) fn resources() -> Value {
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": GROUP_VERSION, "resources": [
        {"name": "nodes", "singularName": "", "namespaced": false, "kind": "NodeMetrics", "verbs": ["get", "list"]},
        {"name": "pods", "singularName": "", "namespaced": true, "kind": "PodMetrics", "verbs": ["get", "list"]},
    ]})
}

/// The pods of a namespace (of all when `None`) whose labels match.
pub(crate) fn pod_list(samples: &[Sample], namespace: Option<&str>, selector: &Selector) -> Value {
    let items: Vec<Value> = samples
        .iter()
        .filter(|sample| namespace.is_none_or(|namespace| sample.pod.namespace == namespace))
        .filter(|sample| selector.matches(&sample.pod.labels))
        .map(pod)
        .collect();
    json!({"kind": "PodMetricsList", "apiVersion": GROUP_VERSION, "metadata": {}, "items": items})
}

/// One pod by name.
pub(crate) fn pod_named(samples: &[Sample], namespace: &str, name: &str) -> Option<Value> {
    let found = samples.iter().find(|sample| sample.pod.namespace == namespace && sample.pod.name == name)?;
    Some(with_kind("PodMetrics", pod(found)))
}

/// All nodes that run a measured pod: the sums over these pods.
pub(crate) fn node_list(samples: &[Sample]) -> Value {
    let items: Vec<Value> = nodes(samples).into_values().collect();
    json!({"kind": "NodeMetricsList", "apiVersion": GROUP_VERSION, "metadata": {}, "items": items})
}

/// One node by name.
pub(crate) fn node_named(samples: &[Sample], name: &str) -> Option<Value> {
    nodes(samples).remove(name).map(|node| with_kind("NodeMetrics", node))
}

fn pod(sample: &Sample) -> Value {
    let Sample { pod, timestamp, window_secs, cores } = sample;
    // Which container works is not emulated: the first does everything, which leaves the pod's sum right.
    let usage = |index: usize| if index == 0 { *cores } else { 0.0 };
    let containers: Vec<Value> = pod
        .containers
        .iter()
        .enumerate()
        .map(|(index, name)| json!({"name": name, "usage": {"cpu": nanocores(usage(index)), "memory": CONTAINER_MEMORY}}))
        .collect();
    json!({
        "metadata": {"name": pod.name, "namespace": pod.namespace, "creationTimestamp": seconds(*timestamp), "labels": pod.labels},
        "timestamp": seconds(*timestamp),
        "window": duration(*window_secs),
        "containers": containers,
    })
}

fn nodes(samples: &[Sample]) -> BTreeMap<String, Value> {
    let mut sums: BTreeMap<&str, (f64, u64, &Sample)> = BTreeMap::new();
    for sample in samples {
        let Some(node) = &sample.pod.node else { continue };
        let (cores, containers, _) = sums.entry(node).or_insert((0.0, 0, sample));
        *cores += sample.cores;
        *containers += sample.pod.containers.len() as u64;
    }
    let node = |(name, (cores, containers, any)): (&str, (f64, u64, &Sample))| {
        let usage = json!({"cpu": nanocores(cores), "memory": format!("{}Mi", 64 * containers)});
        let node = json!({
            "metadata": {"name": name, "creationTimestamp": seconds(any.timestamp)},
            "timestamp": seconds(any.timestamp),
            "window": duration(any.window_secs),
            "usage": usage,
        });
        (name.to_owned(), node)
    };
    sums.into_iter().map(node).collect()
}

fn with_kind(kind: &str, mut object: Value) -> Value {
    object["kind"] = kind.into();
    object["apiVersion"] = GROUP_VERSION.into();
    object
}

fn nanocores(cores: f64) -> String {
    format!("{}n", (cores * 1e9).round())
}

fn seconds(timestamp: Timestamp) -> String {
    timestamp.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A duration as Go prints and parses it.
fn duration(secs: f64) -> String {
    format!("{}s", (secs * 1000.0).round() / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::tests::pod as view;
    use crate::selector;

    fn samples() -> Vec<Sample> {
        let sample = |name: &str, cores: f64| Sample {
            pod: view(name, true),
            timestamp: "2026-11-30T06:00:03.7Z".parse().unwrap(),
            window_secs: 3.0,
            cores,
        };
        vec![sample("web-1", 0.25), sample("web-2", 0.125)]
    }

    #[test]
    fn a_pod_reads_as_from_metrics_server() {
        let expected = json!({
            "metadata": {"name": "web-1", "namespace": "shop", "creationTimestamp": "2026-11-30T06:00:03Z", "labels": {"app": "web"}},
            "timestamp": "2026-11-30T06:00:03Z",
            "window": "3s",
            "containers": [{"name": "server", "usage": {"cpu": "250000000n", "memory": "64Mi"}}],
            "kind": "PodMetrics",
            "apiVersion": "metrics.k8s.io/v1beta1",
        });
        assert_eq!(pod_named(&samples(), "shop", "web-1"), Some(expected));
        assert_eq!(pod_named(&samples(), "other", "web-1"), None);
    }

    #[test]
    fn lists_keep_to_the_namespace_and_the_selector() {
        let count = |namespace: Option<&str>, selector: &str| {
            let list = pod_list(&samples(), namespace, &selector::parse(selector).unwrap());
            assert_eq!(list["kind"], "PodMetricsList");
            list["items"].as_array().unwrap().len()
        };
        assert_eq!(count(None, ""), 2);
        assert_eq!(count(Some("shop"), "app=web"), 2);
        assert_eq!(count(Some("shop"), "app=api"), 0);
        assert_eq!(count(Some("other"), ""), 0);
    }

    #[test]
    fn a_node_uses_what_its_pods_use() {
        let node = node_named(&samples(), "node-0").unwrap();
        assert_eq!(node["usage"], json!({"cpu": "375000000n", "memory": "128Mi"}));
        assert_eq!(node_list(&samples())["items"].as_array().unwrap().len(), 1);
        assert_eq!(node_named(&samples(), "node-9"), None);
    }

    #[test]
    fn discovery_names_both_resources() {
        let names: Vec<_> =
            resources()["resources"].as_array().unwrap().iter().map(|r| r["name"].clone()).collect();
        assert_eq!(names, ["nodes", "pods"]);
        assert_eq!(group()["preferredVersion"]["groupVersion"], GROUP_VERSION);
    }

    #[test]
    fn a_window_is_written_as_go_reads_it() {
        assert_eq!(duration(3.0), "3s");
        assert_eq!(duration(2.9996), "3s");
        assert_eq!(duration(4.98), "4.98s");
    }
}
