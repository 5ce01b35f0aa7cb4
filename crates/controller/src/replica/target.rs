//! The workload that is scaled, of any kind that has `/scale`. Reads only.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

use k8s_openapi::api::autoscaling::v1::Scale as WireScale;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::core::Request;
use kube::{Client, discovery};
use serde::Deserialize;
use serde_json::Value;

use super::pod::{Meta, Pod};

/// Kinds remembered; a cluster has a handful that scale.
const MAX_KINDS: usize = 256;

/// What is scaled, as the policy names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TargetRef {
    /// `apps/v1`
    pub api_version: String,
    /// `Deployment`
    pub kind: String,
    /// Name in the policy's namespace.
    pub name: String,
}

impl TargetRef {
    /// The API group; empty for the core group. Versions of one group are the same object.
    #[must_use]
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }
}

impl From<&rlscaler_api::validate::Target> for TargetRef {
    fn from(target: &rlscaler_api::validate::Target) -> Self {
        Self { api_version: target.api_version(), kind: target.kind.clone(), name: target.name.clone() }
    }
}

/// Resources by kind: `deployments` for `Deployment`. What is not found is asked for again at the next tick.
#[derive(Debug, Default)]
pub struct Kinds {
    known: Mutex<HashMap<GroupVersionKind, ApiResource>>,
}

impl Kinds {
    /// The resource behind a kind; asks the API server once.
    ///
    /// # Errors
    /// When the API server does not know the kind, or does not answer.
    pub async fn find(&self, client: &Client, target: &TargetRef) -> Result<ApiResource, kube::Error> {
        let (group, version) = target.api_version.split_once('/').unwrap_or(("", &target.api_version));
        let gvk = GroupVersionKind::gvk(group, version, &target.kind);
        if (group, version) == ("apps", "v1") && matches!(target.kind.as_str(), "Deployment" | "StatefulSet")
        {
            return Ok(ApiResource::from_gvk(&gvk));
        }
        if let Some(resource) = self.known.lock().expect("no panic while locked").get(&gvk) {
            return Ok(resource.clone());
        }
        let (resource, _) = discovery::pinned_kind(client, &gvk).await?;
        let mut known = self.known.lock().expect("no panic while locked");
        if known.len() < MAX_KINDS {
            known.insert(gvk, resource.clone());
        }
        Ok(resource)
    }
}

/// `/scale` as read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scale {
    /// UID of the target.
    pub uid: String,
    /// `spec.replicas`; absent means 0 in this type.
    pub replicas: u32,
    /// `status.replicas`.
    pub running: u32,
    /// `status.selector`; empty when the target has none.
    pub selector: String,
}

impl From<WireScale> for Scale {
    fn from(scale: WireScale) -> Self {
        let status = scale.status.unwrap_or_default();
        let count = |replicas: i32| u32::try_from(replicas).unwrap_or(0);
        Self {
            uid: scale.metadata.uid.unwrap_or_default(),
            replicas: count(scale.spec.and_then(|spec| spec.replicas).unwrap_or(0)),
            running: count(status.replicas),
            selector: status.selector.unwrap_or_default(),
        }
    }
}

/// Reads `/scale`.
///
/// # Errors
/// Whatever the API server answers.
pub async fn read_scale(
    client: &Client,
    namespace: &str,
    resource: &ApiResource,
    name: &str,
) -> Result<Scale, kube::Error> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, resource);
    Ok(api.get_scale(name).await?.into())
}

/// Lists the pods the selector matches, from the API server's cache, keeping only what is used.
///
/// # Errors
/// Whatever the API server answers.
pub async fn list_pods(client: &Client, namespace: &str, selector: &str) -> Result<Vec<Pod>, kube::Error> {
    let request = Request::new(format!("/api/v1/namespaces/{namespace}/pods"));
    let params = ListParams::default().labels(selector).match_any();
    let list: Items<Pod> = client.request(request.list(&params).map_err(kube::Error::BuildRequest)?).await?;
    Ok(list.items)
}

/// ReplicaSet UID to the UID of its controller, for every ReplicaSet the selector matches.
///
/// # Errors
/// Whatever the API server answers.
pub async fn list_replica_sets(
    client: &Client,
    namespace: &str,
    selector: &str,
) -> Result<BTreeMap<String, String>, kube::Error> {
    let request = Request::new(format!("/apis/apps/v1/namespaces/{namespace}/replicasets"));
    let params = ListParams::default().labels(selector).match_any();
    let request = request.list_metadata(&params).map_err(kube::Error::BuildRequest)?;
    let list: Items<Owned> = client.request(request).await?;
    let owner = |meta: Meta| {
        let owner = meta.controller().map(|owner| owner.uid.clone()).unwrap_or_default();
        (meta.uid, owner)
    };
    Ok(list.items.into_iter().map(|item| owner(item.metadata)).collect())
}

#[derive(Deserialize)]
struct Items<T> {
    items: Vec<T>,
}

#[derive(Deserialize)]
struct Owned {
    metadata: Meta,
}

/// What the target itself tells: who writes its replicas, and whether its pods are refused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parent {
    /// Field managers that own `spec.replicas`, other than ours.
    pub writers: Vec<String>,
    /// Ours owns `spec.replicas`, and nobody else does: what stands there was written by us, if by another operator or
    /// with an answer that was lost.
    pub by_us: bool,
    /// Message of the condition `ReplicaFailure`: pods are refused, most often by a quota.
    pub refused: Option<String>,
}

/// Reads the target itself. Asked for only when its replicas changed by another hand, or pods are missing.
///
/// # Errors
/// Whatever the API server answers.
pub async fn read_parent(
    client: &Client,
    namespace: &str,
    resource: &ApiResource,
    name: &str,
    our_manager: &str,
) -> Result<Parent, kube::Error> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, resource);
    Ok(parent(&api.get(name).await?, our_manager))
}

fn parent(object: &DynamicObject, our_manager: &str) -> Parent {
    let managed = object.metadata.managed_fields.as_deref().unwrap_or_default();
    let owners: Vec<String> = managed
        .iter()
        .filter(|entry| {
            entry.fields_v1.as_ref().is_some_and(|fields| fields.0.pointer("/f:spec/f:replicas").is_some())
        })
        .filter_map(|entry| entry.manager.clone())
        .collect();
    let mut writers = owners.clone();
    writers.retain(|manager| manager != our_manager);
    let by_us = !owners.is_empty() && writers.is_empty();
    writers.dedup();
    let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array);
    let refused = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "ReplicaFailure" && condition["status"] == "True");
    let message = refused.map(|condition| condition["message"].as_str().unwrap_or_default().to_owned());
    Parent { writers, by_us, refused: message }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_scale_without_replicas_means_zero() {
        let scale = |value| Scale::from(serde_json::from_value::<WireScale>(value).unwrap());
        let zero = scale(
            json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"uid": "u"}, "spec": {}}),
        );
        assert_eq!(zero, Scale { uid: "u".into(), replicas: 0, running: 0, selector: String::new() });
        let five = scale(
            json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {}, "spec": {"replicas": 5},
            "status": {"replicas": 4, "selector": "app=web"}}),
        );
        assert_eq!((five.replicas, five.running, five.selector.as_str()), (5, 4, "app=web"));
    }

    // Case 55.
    #[test]
    fn whoever_owns_the_replicas_beside_us_is_named() {
        let entry = |manager: &str, fields: Value| json!({"manager": manager, "operation": "Update", "apiVersion": "apps/v1", "fieldsType": "FieldsV1", "fieldsV1": fields});
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "managedFields": [
                entry("rlscaler", json!({"f:spec": {"f:replicas": {}}})),
                entry("argocd-controller", json!({"f:spec": {"f:replicas": {}, "f:template": {}}})),
                entry("kube-controller-manager", json!({"f:status": {"f:replicas": {}}})),
            ]},
            "status": {"conditions": [{"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: pods"}]},
        }))
        .unwrap();
        let parent = parent(&object, "rlscaler");
        assert_eq!(parent.writers, ["argocd-controller"]);
        assert!(!parent.by_us);
        assert_eq!(parent.refused.as_deref(), Some("exceeded quota: pods"));
    }

    #[test]
    fn what_another_operator_of_ours_wrote_is_ours() {
        let check = |managers: &[&str], expected| {
            let owns = |manager| json!({"manager": manager, "fieldsV1": {"f:spec": {"f:replicas": {}}}});
            let managed: Vec<Value> = managers.iter().map(owns).collect();
            let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"managedFields": managed}});
            let object: DynamicObject = serde_json::from_value(object).unwrap();
            assert_eq!(parent(&object, "rlscaler").by_us, expected, "{managers:?}");
        };
        check(&["rlscaler"], true);
        check(&["rlscaler", "kubectl"], false);
        check(&["kubectl"], false);
        // Nobody tells: it may have been anybody.
        check(&[], false);
    }
}
