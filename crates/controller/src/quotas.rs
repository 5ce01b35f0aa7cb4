//! ResourceQuotas, read ahead: how many more pods of a target its namespace has room for. Reads only.
//!
//! Watched over the whole cluster (or the watched namespace), and of each only what limits pods is kept. Quotas that
//! apply to some pods only (by priority class, say) are left to their own refusals, which the target's conditions tell.

use std::collections::{BTreeMap, HashMap};
use std::sync::RwLock;

use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::api::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Client, ResourceExt};
use rlscaler_signals::metrics_api::parse_cores;

use crate::replica::pod::{Container, PodSpec};

/// Most quotas remembered; what is beyond is left to its own refusals.
const MAX_QUOTAS: usize = 100_000;
/// What limits how many pods there are, in any namespace.
const PODS: [&str; 2] = ["pods", "count/pods"];
/// Quantities are compared with this much slack, as decimals are not exact in binary.
const SLACK: f64 = 1e-9;

/// What a quota still lets in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headroom {
    /// Pods that may still be made.
    pub pods: u32,
    /// Which quota says so, and by what.
    pub why: String,
}

#[derive(Debug, Clone, PartialEq)]
struct Limit {
    resource: String,
    hard: String,
    used: String,
}

#[derive(Debug, Clone, PartialEq)]
struct Quota {
    limits: Vec<Limit>,
    scopes: Vec<String>,
}

/// By namespace and name.
type Known = HashMap<String, BTreeMap<String, Quota>>;

#[derive(Debug, Default)]
struct Store {
    known: Known,
    listing: Known,
}

/// All that are known. One that cannot be watched limits nothing here: the API server still refuses.
#[derive(Debug, Default)]
pub struct Quotas(RwLock<Store>);

impl Quotas {
    /// How many more pods like `pod` the namespace has room for; `None`: no quota is known to limit them.
    #[must_use]
    pub fn headroom(&self, namespace: &str, pod: Option<&PodSpec>) -> Option<Headroom> {
        let store = self.0.read().expect("no panic while locked");
        let quotas = store.known.get(namespace)?;
        let each = quotas.iter().filter(|(_, quota)| applies(&quota.scopes, pod));
        let of = |(name, quota): (&String, &Quota)| -> Option<Headroom> {
            let fits = quota.limits.iter().filter_map(|limit| Some((fits(limit, pod)?, limit)));
            let (pods, limit) = fits.min_by_key(|(pods, _)| *pods)?;
            let Limit { resource, hard, used } = limit;
            Some(Headroom {
                pods,
                why: format!("ResourceQuota {name}: {used} of {hard} {resource} are used"),
            })
        };
        each.filter_map(of).min_by_key(|headroom| headroom.pods)
    }

    /// Keeps the knowledge up to date for as long as it is polled.
    pub async fn watch(&self, client: &Client, namespace: Option<&str>) {
        let api: Api<ResourceQuota> = match namespace {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        };
        let events = watcher::watcher(api, watcher::Config::default().any_semantic()).default_backoff();
        self.follow(events).await;
    }

    async fn follow(&self, events: impl Stream<Item = Result<Event<ResourceQuota>, watcher::Error>>) {
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.apply(event),
                Err(error) => tracing::warn!(%error, "quotas cannot be watched"),
            }
        }
    }

    /// One step of a watch.
    pub fn apply(&self, event: Event<ResourceQuota>) {
        let mut store = self.0.write().expect("no panic while locked");
        match event {
            Event::Init => store.listing.clear(),
            Event::InitApply(quota) => insert(&mut store.listing, &quota),
            Event::InitDone => store.known = std::mem::take(&mut store.listing),
            Event::Apply(quota) => insert(&mut store.known, &quota),
            Event::Delete(quota) => {
                let namespace = quota.namespace().unwrap_or_default();
                if let Some(of_namespace) = store.known.get_mut(&namespace) {
                    of_namespace.remove(&quota.name_any());
                    if of_namespace.is_empty() {
                        store.known.remove(&namespace);
                    }
                }
            }
        }
    }
}

fn insert(known: &mut Known, quota: &ResourceQuota) {
    if MAX_QUOTAS <= known.values().map(BTreeMap::len).sum() {
        return;
    }
    let spec = quota.spec.as_ref();
    // Scopes are selectors that name one scope each; a selector that says more is not understood here.
    let mut scopes = spec.and_then(|spec| spec.scopes.clone()).unwrap_or_default();
    let selectors =
        spec.and_then(|spec| spec.scope_selector.as_ref()?.match_expressions.clone()).unwrap_or_default();
    scopes.extend(selectors.into_iter().map(|selector| match selector.operator.as_str() {
        "Exists" => selector.scope_name,
        operator => format!("{} {operator}", selector.scope_name),
    }));
    let status = quota.status.as_ref();
    let used = status.and_then(|status| status.used.as_ref());
    let limits =
        status.and_then(|status| status.hard.as_ref()).into_iter().flatten().filter_map(|(name, hard)| {
            Some(Limit { resource: name.clone(), hard: hard.0.clone(), used: used?.get(name)?.0.clone() })
        });
    let quota_now = Quota { limits: limits.collect(), scopes };
    known.entry(quota.namespace().unwrap_or_default()).or_default().insert(quota.name_any(), quota_now);
}

/// Whether a quota with these scopes counts the pods of a workload that runs until it is told to stop.
fn applies(scopes: &[String], pod: Option<&PodSpec>) -> bool {
    let asks = pod.is_none_or(|pod| {
        pod.containers.iter().chain(&pod.init_containers).any(|container| {
            let Container { resources, .. } = container;
            resources
                .requests
                .keys()
                .chain(resources.limits.keys())
                .any(|name| name == "cpu" || name == "memory")
        })
    });
    scopes.iter().all(|scope| match scope.as_str() {
        "NotTerminating" => true,
        "NotBestEffort" => asks,
        "BestEffort" => !asks,
        _ => false,
    })
}

/// How many more pods one limit lets in; `None` when it does not limit pods like this one.
fn fits(limit: &Limit, pod: Option<&PodSpec>) -> Option<u32> {
    let need = if PODS.contains(&limit.resource.as_str()) {
        1.0
    } else {
        need(&limit.resource, pod?).filter(|need| 0.0 < *need)?
    };
    let left = (quantity(&limit.hard)? - quantity(&limit.used)?).max(0.0);
    // The cast saturates.
    Some((left / need + SLACK).floor() as u32)
}

/// What one pod takes of a quota's resource: of its containers together or of the greediest init container, whichever
/// is more, as the scheduler reckons.
fn need(resource: &str, pod: &PodSpec) -> Option<f64> {
    let (name, of_limits) = match resource.split_once('.') {
        Some(("requests", name)) => (name, false),
        Some(("limits", name)) => (name, true),
        _ if resource == "cpu" || resource == "memory" => (resource, false),
        _ => return None,
    };
    let of = |resources: &crate::replica::pod::Resources| {
        let map = if of_limits { &resources.limits } else { &resources.requests };
        map.get(name).and_then(|text| quantity(text))
    };
    let overhead = pod.overhead.get(name).and_then(|text| quantity(text)).unwrap_or(0.0);
    if let Some(whole) = pod.resources.as_ref().and_then(of) {
        return Some(whole + overhead);
    }
    let of_container = |container: &Container| of(&container.resources).unwrap_or(0.0);
    let (sidecars, first): (Vec<&Container>, Vec<&Container>) = pod
        .init_containers
        .iter()
        .partition(|container| container.restart_policy.as_deref() == Some("Always"));
    let running: f64 = pod.containers.iter().chain(sidecars).map(of_container).sum();
    let starting = first.into_iter().map(of_container).fold(0.0, f64::max);
    Some(running.max(starting) + overhead)
}

/// A Kubernetes quantity as a number.
fn quantity(text: &str) -> Option<f64> {
    const FACTORS: [(&str, f64); 11] = [
        ("Ki", 1024.0),
        ("Mi", 1_048_576.0),
        ("Gi", 1_073_741_824.0),
        ("Ti", 1_099_511_627_776.0),
        ("Pi", 1_125_899_906_842_624.0),
        ("Ei", 1_152_921_504_606_846_976.0),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("P", 1e15),
        ("E", 1e18),
    ];
    let suffixed = FACTORS.iter().find_map(|(suffix, factor)| Some((text.strip_suffix(suffix)?, *factor)));
    match suffixed {
        Some((number, factor)) => Some(parse_cores(number)? * factor),
        None => parse_cores(text),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn quota(name: &str, hard: Value, used: Value, spec: Value) -> ResourceQuota {
        serde_json::from_value(json!({"metadata": {"name": name, "namespace": "shop"}, "spec": spec,
            "status": {"hard": hard, "used": used}}))
        .unwrap()
    }

    fn pod(spec: Value) -> PodSpec {
        serde_json::from_value(spec).unwrap()
    }

    fn web() -> PodSpec {
        pod(json!({"containers": [
            {"resources": {"requests": {"cpu": "500m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}}},
            {"resources": {"requests": {"cpu": "100m"}}},
        ]}))
    }

    fn check(hard: Value, used: Value, pod: &PodSpec, expected: Option<u32>) {
        let quotas = Quotas::default();
        quotas.apply(Event::Apply(quota("compute", hard.clone(), used.clone(), json!({}))));
        let headroom = quotas.headroom("shop", Some(pod));
        assert_eq!(headroom.map(|headroom| headroom.pods), expected, "{hard} {used}");
    }

    // Case 31.
    #[test]
    fn what_a_quota_leaves_is_counted_in_pods() {
        let web = web();
        check(json!({"pods": "10"}), json!({"pods": "7"}), &web, Some(3));
        check(json!({"count/pods": "10"}), json!({"count/pods": "12"}), &web, Some(0));
        check(json!({"requests.cpu": "6"}), json!({"requests.cpu": "2400m"}), &web, Some(6));
        check(json!({"cpu": "3"}), json!({"cpu": "2401m"}), &web, Some(0));
        check(json!({"requests.memory": "1Gi"}), json!({"requests.memory": "256Mi"}), &web, Some(3));
        check(json!({"limits.memory": "1G"}), json!({"limits.memory": "0"}), &web, Some(1));
        // What these pods do not ask for, or is no matter of pods, limits nothing here.
        check(
            json!({"limits.cpu": "1", "services": "1"}),
            json!({"limits.cpu": "1", "services": "1"}),
            &web,
            None,
        );
        check(
            json!({"pods": "10", "requests.cpu": "1"}),
            json!({"pods": "1", "requests.cpu": "1"}),
            &web,
            Some(0),
        );
        check(json!({"pods": "many"}), json!({"pods": "7"}), &web, None);
        check(json!({"requests.cpu": "4"}), json!({"requests.cpu": "0"}), &PodSpec::default(), None);
        let greedy_start = pod(json!({"containers": [{"resources": {"requests": {"cpu": "1"}}}],
            "initContainers": [{"resources": {"requests": {"cpu": "2"}}},
                {"restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}}]}));
        check(json!({"requests.cpu": "4"}), json!({"requests.cpu": "0"}), &greedy_start, Some(2));
    }

    #[test]
    fn the_tightest_quota_counts_and_is_named() {
        let quotas = Quotas::default();
        let pods = |name: &str, used: &str, spec: Value| {
            Event::Apply(quota(name, json!({"pods": "10"}), json!({"pods": used}), spec))
        };
        quotas.apply(pods("wide", "2", json!({})));
        quotas.apply(pods("tight", "9", json!({"scopes": ["NotTerminating", "NotBestEffort"]})));
        for other in [
            json!({"scopes": ["Terminating"]}),
            json!({"scopes": ["BestEffort"]}),
            json!({"scopeSelector": {"matchExpressions": [
                {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}}),
        ] {
            quotas.apply(pods("others", "10", other));
            let headroom = quotas.headroom("shop", Some(&web())).unwrap();
            assert_eq!(
                (headroom.pods, headroom.why.as_str()),
                (1, "ResourceQuota tight: 9 of 10 pods are used")
            );
        }
        assert_eq!(quotas.headroom("elsewhere", Some(&web())), None);
        // Of a target without pods nobody knows what one asks for, but it is one.
        assert_eq!(quotas.headroom("shop", None).map(|headroom| headroom.pods), Some(1));
    }

    #[test]
    fn a_quota_that_is_gone_limits_nothing() {
        let quotas = Quotas::default();
        let full = quota("full", json!({"pods": "1"}), json!({"pods": "1"}), json!({}));
        quotas.apply(Event::Init);
        quotas.apply(Event::InitApply(full.clone()));
        assert_eq!(quotas.headroom("shop", Some(&web())), None, "not before all were listed");
        quotas.apply(Event::InitDone);
        assert_eq!(quotas.headroom("shop", Some(&web())).map(|headroom| headroom.pods), Some(0));
        quotas.apply(Event::Delete(full.clone()));
        assert_eq!(quotas.headroom("shop", Some(&web())), None);
        quotas.apply(Event::Apply(full));
        quotas.apply(Event::Init);
        quotas.apply(Event::InitDone);
        assert_eq!(quotas.headroom("shop", Some(&web())), None);
    }
}
