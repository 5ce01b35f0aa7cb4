//! A scene as Kubernetes objects and as the answer of a metrics server. Pure.

use jiff::{SignedDuration, Timestamp};
use rlscaler_sim::recorded_hpa::{Phase, Pod};
use serde_json::{Value, json};

use super::log::name;
use super::scene::Scene;

/// Keeps a deleted pod where it can be seen.
const FINALIZER: &str = "rlscaler.io/differential";

/// The label by which an HPA finds its pods.
pub(super) const LABEL: &str = "app";

/// A Deployment whose controller does not run: it has replicas and a selector, and makes no pods.
pub(super) fn deployment(scene: &Scene, replicas: u32) -> Value {
    let name = name(scene.service.service);
    let labels = json!({LABEL: name});
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "none", "image": "none"}]},
            },
        },
    })
}

/// The HPA under test.
pub(super) fn hpa(scene: &Scene) -> Value {
    let name = name(scene.service.service);
    let target = json!({"type": "Utilization", "averageUtilization": scene.service.target});
    let mut spec = json!({
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "minReplicas": scene.service.min,
        "maxReplicas": scene.service.max,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
    });
    if let Some(behavior) = &scene.service.behavior {
        spec["behavior"] = json!(behavior);
    }
    json!({
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name},
        "spec": spec,
    })
}

/// The name of a pod.
pub(super) fn pod_name(service: usize, index: usize) -> String {
    format!("{}-{index}", name(service))
}

/// A pod that nobody schedules, with its request split over its containers.
pub(super) fn pod(scene: &Scene, index: usize) -> Value {
    let service = scene.service.service;
    let request = scene.pods[index].request;
    let containers: Vec<Value> = split(request, scene.containers[index])
        .map(|(number, request)| {
            let mut container = json!({"name": format!("c{number}"), "image": "none"});
            if 0 < request {
                container["resources"] = json!({"requests": {"cpu": format!("{request}m")}});
            }
            container
        })
        .collect();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(service, index),
            "labels": {LABEL: name(service)},
            "finalizers": [FINALIZER],
        },
        "spec": {
            "schedulerName": "nobody",
            "automountServiceAccountToken": false,
            "containers": containers,
        },
    })
}

/// A merge patch that gives a pod its state.
pub(super) fn pod_status(pod: &Pod, began: Timestamp) -> Value {
    let phase = match pod.phase {
        Phase::Running => "Running",
        Phase::Pending => "Pending",
        Phase::Failed => "Failed",
        Phase::Succeeded => "Succeeded",
    };
    let conditions: Vec<Value> = pod
        .ready
        .iter()
        .map(|(status, changed)| {
            json!({"type": "Ready", "status": status, "lastTransitionTime": at(began, *changed)})
        })
        .collect();
    let started = pod.started.map(|started| at(began, started));
    json!({"status": {"phase": phase, "startTime": started, "conditions": conditions}})
}

/// What the metrics server answers for a service.
pub(super) fn metrics(scene: &Scene, began: Timestamp) -> Value {
    let service = scene.service.service;
    let mut items = Vec::new();
    for (index, pod) in scene.pods.iter().enumerate() {
        let containers = scene.containers[index];
        let (usage, time, window, measured) = match pod.metric {
            Some((usage, time, window)) => (usage, time, window, containers),
            // A pod has no metric when one of its containers has none, too.
            None if 1 < containers => (50, 0, 15.0, containers - 1),
            None => continue,
        };
        let usage = split(usage, containers).map(|(number, millis)| {
            let usage = if number < measured { json!({"cpu": format!("{millis}m")}) } else { json!({}) };
            json!({"name": format!("c{number}"), "usage": usage})
        });
        items.push(json!({
            "metadata": {"name": pod_name(service, index), "namespace": "default", "labels": {LABEL: name(service)}},
            "timestamp": at(began, time),
            "window": format!("{window}s"),
            "containers": usage.collect::<Vec<_>>(),
        }));
    }
    json!({"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": items})
}

/// `total` in `parts`, numbered, the first parts a third of what is left.
fn split(total: u64, parts: usize) -> impl Iterator<Item = (usize, u64)> {
    let mut left = total;
    (0..parts).map(move |number| {
        let part = if number + 1 == parts { left } else { left / 3 };
        left -= part;
        (number, part)
    })
}

fn at(began: Timestamp, secs: i64) -> String {
    let time = began.saturating_add(SignedDuration::from_secs(secs)).unwrap_or(began);
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
