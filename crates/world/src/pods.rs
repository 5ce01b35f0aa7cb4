//! Which pods belong to a Deployment, and which of them serve. In: pods and ReplicaSets as the API server has them.
//! Out: plain views. Pure. A pod belongs to a Deployment by its chain of controlling owners, never by its labels.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

/// CPU of a pod that requests none: it then has no request to fill, so one core stands for it.
const CORES_WITHOUT_REQUEST: f64 = 1.0;

/// A Deployment to play.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Workload {
    /// Its namespace.
    pub namespace: String,
    /// Its name, and the value of the label `app` of its metrics.
    pub deployment: String,
}

impl Workload {
    /// A Deployment by namespace and name.
    #[must_use]
    pub fn new(namespace: &str, deployment: &str) -> Self {
        Self { namespace: namespace.to_owned(), deployment: deployment.to_owned() }
    }
}

/// What is looked at of a pod that exists and is not on its way out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PodView {
    pub(crate) uid: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) node: Option<String>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) containers: Vec<String>,
    /// Cores requested by all containers together.
    pub(crate) request_cores: f64,
    pub(crate) ready: bool,
}

/// The pods of one Deployment: those that serve and those that cost without serving yet.
pub(crate) fn pods_of(workload: &Workload, pods: &[Arc<Pod>], sets: &[Arc<ReplicaSet>]) -> Vec<PodView> {
    let owned: Vec<&str> = sets
        .iter()
        .filter(|set| set.metadata.namespace.as_deref() == Some(&workload.namespace))
        .filter(|set| {
            let owner = controller_of(&set.metadata);
            owner.is_some_and(|owner| owner.kind == "Deployment" && owner.name == workload.deployment)
        })
        .filter_map(|set| set.metadata.uid.as_deref())
        .collect();
    pods.iter()
        .filter(|pod| controller_of(&pod.metadata).is_some_and(|owner| owned.contains(&owner.uid.as_str())))
        .filter_map(|pod| view(pod))
        .collect()
}

fn controller_of(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    metadata.owner_references.as_ref()?.iter().find(|owner| owner.controller == Some(true))
}

/// `None` for a pod that is being deleted or has ended.
fn view(pod: &Pod) -> Option<PodView> {
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or("Pending");
    if pod.metadata.deletion_timestamp.is_some() || phase == "Succeeded" || phase == "Failed" {
        return None;
    }
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let containers = pod.spec.as_ref().map(|spec| spec.containers.as_slice()).unwrap_or_default();
    let requested: Option<f64> = containers
        .iter()
        .filter_map(|container| container.resources.as_ref()?.requests.as_ref()?.get("cpu"))
        .map(|quantity| cores(&quantity.0))
        .sum();
    Some(PodView {
        uid: pod.metadata.uid.clone()?,
        namespace: pod.metadata.namespace.clone()?,
        name: pod.metadata.name.clone()?,
        node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
        labels: pod.metadata.labels.clone().unwrap_or_default(),
        containers: containers.iter().map(|container| container.name.clone()).collect(),
        request_cores: requested.filter(|cores| 0.0 < *cores).unwrap_or(CORES_WITHOUT_REQUEST),
        ready: conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True"),
    })
}

/// Cores of a CPU quantity as the API server normalizes them: `2`, `1.5`, `250m`.
fn cores(quantity: &str) -> Option<f64> {
    match quantity.strip_suffix('m') {
        Some(milli) => milli.parse::<f64>().ok().map(|milli| milli / 1000.0),
        None => quantity.parse().ok(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(name: &str, owner: &str, changes: &Value) -> Arc<Pod> {
        let mut pod = json!({
            "metadata": {"name": name, "namespace": "shop", "uid": name, "labels": {"app": "web"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": true}]},
            "spec": {"containers": [
                {"name": "server", "resources": {"requests": {"cpu": "250m"}}},
                {"name": "proxy", "resources": {"requests": {"cpu": "1"}}},
            ]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        });
        merge(&mut pod, changes);
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn merge(into: &mut Value, from: &Value) {
        match (into, from) {
            (Value::Object(into), Value::Object(from)) => {
                for (key, value) in from {
                    merge(into.entry(key.clone()).or_insert(Value::Null), value);
                }
            }
            (into, from) => *into = from.clone(),
        }
    }

    fn set(uid: &str, kind: &str, owner: &str) -> Arc<ReplicaSet> {
        Arc::new(
            serde_json::from_value(json!({
                "metadata": {"name": uid, "namespace": "shop", "uid": uid,
                    "ownerReferences": [{"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": "d", "controller": true}]},
                "spec": {"selector": {}},
            }))
            .unwrap(),
        )
    }

    #[test]
    fn pods_belong_by_their_owners_and_not_by_their_labels() {
        let sets = [
            set("web-1", "Deployment", "web"),
            set("web-2", "Deployment", "web"),
            set("x", "Rollout", "web"),
        ];
        let pods =
            ["web-1", "web-2", "x", "elsewhere"].map(|owner| pod(&format!("of-{owner}"), owner, &json!({})));
        let names: Vec<_> =
            pods_of(&Workload::new("shop", "web"), &pods, &sets).into_iter().map(|pod| pod.name).collect();
        assert_eq!(names, ["of-web-1", "of-web-2"]);
        assert!(pods_of(&Workload::new("other", "web"), &pods, &sets).is_empty());
    }

    #[test]
    fn only_a_ready_pod_serves_and_one_on_its_way_out_is_gone() {
        let cases = [
            (json!({}), Some(true)),
            (json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}), Some(false)),
            (json!({"status": null}), Some(false)),
            (json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), None),
            (json!({"status": {"phase": "Failed"}}), None),
            (json!({"status": {"phase": "Succeeded"}}), None),
        ];
        for (changes, ready) in cases {
            let pods = [pod("web-1-a", "web-1", &changes)];
            let seen = pods_of(&Workload::new("shop", "web"), &pods, &[set("web-1", "Deployment", "web")]);
            assert_eq!(seen.first().map(|pod| pod.ready), ready, "{changes}");
        }
    }

    #[test]
    fn a_pod_requests_what_its_containers_request() {
        let request = |changes: Value| view(&pod("a", "b", &changes)).unwrap().request_cores;
        assert_eq!(request(json!({})), 1.25);
        assert_eq!(request(json!({"spec": {"containers": [{"name": "server"}]}})), CORES_WITHOUT_REQUEST);
    }
}
