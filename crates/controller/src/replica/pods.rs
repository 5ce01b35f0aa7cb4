//! The target's pods, found by their owners and counted. Pure.
//!
//! In: pods and ReplicaSets as listed, trimmed to the few fields below. Out: [`Counted`]: what the brain counts, which
//! ready pods the CPU signal may use, and start-up times to learn from. Terminating, finished and foreign pods are in
//! none of the counts.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use rlscaler_core::Pods;
use rlscaler_signals::metrics_api::parse_cores;
use rlscaler_signals::request::ReadyPod;
use serde::Deserialize;

/// Longest start-up that is believed: above it the Ready condition most likely flapped.
const MAX_STARTUP_SECS: f64 = 3600.0;

/// Reasons of a waiting container that waiting longer does not cure.
const UNHEALTHY: [&str; 7] = [
    "CrashLoopBackOff",
    "ImagePullBackOff",
    "ErrImagePull",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
];

/// A pod, trimmed.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Pod {
    /// Name, owner, times.
    #[serde(default)]
    pub metadata: Meta,
    /// Requests.
    #[serde(default)]
    pub spec: PodSpec,
    /// Phase, conditions, containers.
    #[serde(default)]
    pub status: PodStatus,
}

/// The metadata that matters.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// Created at.
    pub creation_timestamp: Option<Timestamp>,
    /// Set while terminating.
    pub deletion_timestamp: Option<Timestamp>,
    /// Owners.
    pub owner_references: Vec<Owner>,
}

/// One owner reference.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Owner {
    /// Kind of the owner.
    pub kind: String,
    /// UID of the owner.
    pub uid: String,
    /// True for the one that manages the object.
    pub controller: bool,
}

impl Meta {
    /// The managing owner.
    #[must_use]
    pub fn controller(&self) -> Option<&Owner> {
        self.owner_references.iter().find(|owner| owner.controller)
    }
}

/// What is needed of a pod's spec.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    containers: Vec<Container>,
    init_containers: Vec<Container>,
    resources: Option<Resources>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    resources: Resources,
    restart_policy: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Resources {
    requests: BTreeMap<String, String>,
}

/// What is needed of a pod's status.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    phase: String,
    conditions: Vec<PodCondition>,
    container_statuses: Vec<ContainerStatus>,
    init_container_statuses: Vec<ContainerStatus>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodCondition {
    #[serde(rename = "type")]
    name: String,
    status: String,
    reason: Option<String>,
    last_transition_time: Option<Timestamp>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerStatus {
    restart_count: i32,
    state: ContainerState,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct ContainerState {
    waiting: Option<Waiting>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Waiting {
    reason: Option<String>,
}

/// The target's pods.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counted {
    /// For the brain.
    pub pods: Pods,
    /// Ready pods by name, for the CPU signal.
    pub ready: Vec<ReadyPod>,
    /// CPU request of one pod, cores: the mean over pods whose containers all declare one.
    pub cpu_request: Option<f64>,
    /// (pod UID, seconds from creation to Ready) of ready pods that never restarted.
    pub startups: Vec<(String, f64)>,
    /// Pods the selector matched that belong to somebody else, are terminating, or are finished.
    pub ignored: u32,
    /// How many different owners the pods counted have, where they could only be told by the selector.
    pub ambiguous_owners: usize,
}

impl Counted {
    /// Pods that exist and count: ready, starting, unschedulable, unhealthy.
    #[must_use]
    pub fn total(&self) -> u32 {
        let Pods { ready, starting, unschedulable, unhealthy } = self.pods;
        ready + starting + unschedulable + unhealthy
    }
}

/// Counts the pods owned by the target itself or by one of `owned` (its ReplicaSets).
///
/// A target whose pods are owned through something unknown is counted by its selector alone; if those pods have
/// several owners, [`Counted::ambiguous_owners`] says how many.
#[must_use]
pub fn count(pods: &[Pod], target_uid: &str, owned: &BTreeSet<String>) -> Counted {
    let is_ours = |pod: &Pod| {
        pod.metadata.controller().is_some_and(|owner| owner.uid == target_uid || owned.contains(&owner.uid))
    };
    let by_owner = pods.iter().any(is_ours);
    // Without a single pod of ours, ReplicaSets of others still tell that these pods are foreign.
    let through_unknown = |pod: &Pod| {
        pod.metadata.controller().is_some_and(|owner| !matches!(owner.kind.as_str(), "ReplicaSet" | "Job"))
    };
    let by_selector = !by_owner && owned.is_empty() && pods.iter().all(through_unknown);
    let mut counted = Counted::default();
    let mut owners = BTreeSet::new();
    let mut requests = Vec::new();
    for pod in pods {
        if !(is_ours(pod) || by_selector) || is_leaving(pod) {
            counted.ignored += 1;
            continue;
        }
        owners.insert(pod.metadata.controller().map_or("", |owner| owner.uid.as_str()));
        requests.extend(cpu_request(&pod.spec));
        add(&mut counted, pod);
    }
    counted.ambiguous_owners = if by_selector { owners.len() } else { 0 };
    if !requests.is_empty() {
        counted.cpu_request = Some(requests.iter().sum::<f64>() / requests.len() as f64);
    }
    counted
}

/// ReplicaSets that own pods here and are neither known to be the target's nor known to be foreign.
#[must_use]
pub fn unknown_replica_sets<'a>(pods: &'a [Pod], known: &BTreeMap<String, String>) -> Vec<&'a str> {
    let owners = pods.iter().filter_map(|pod| pod.metadata.controller());
    owners
        .filter(|owner| owner.kind == "ReplicaSet" && !known.contains_key(&owner.uid))
        .map(|owner| owner.uid.as_str())
        .collect()
}

fn is_leaving(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some() || matches!(pod.status.phase.as_str(), "Failed" | "Succeeded")
}

fn add(counted: &mut Counted, pod: &Pod) {
    let condition = |name: &str| pod.status.conditions.iter().find(|condition| condition.name == name);
    if let Some(ready) = condition("Ready").filter(|ready| ready.status == "True") {
        counted.pods.ready += 1;
        counted
            .ready
            .push(ReadyPod { name: pod.metadata.name.clone(), ready_since: ready.last_transition_time });
        counted.startups.extend(startup(pod, ready.last_transition_time));
        return;
    }
    let unplaced = condition("PodScheduled")
        .is_some_and(|placed| placed.status == "False" && placed.reason.as_deref() == Some("Unschedulable"));
    let statuses = pod.status.init_container_statuses.iter().chain(&pod.status.container_statuses);
    let broken = statuses
        .filter_map(|status| status.state.waiting.as_ref()?.reason.as_deref())
        .any(|reason| UNHEALTHY.contains(&reason));
    match (unplaced, broken) {
        (true, _) => counted.pods.unschedulable += 1,
        (false, true) => counted.pods.unhealthy += 1,
        (false, false) => counted.pods.starting += 1,
    }
}

fn startup(pod: &Pod, ready_since: Option<Timestamp>) -> Option<(String, f64)> {
    let restarted = pod.status.container_statuses.iter().any(|status| 0 < status.restart_count);
    let secs = ready_since?.duration_since(pod.metadata.creation_timestamp?).as_secs_f64();
    (!restarted && (0.0..=MAX_STARTUP_SECS).contains(&secs)).then(|| (pod.metadata.uid.clone(), secs))
}

/// Sum over the containers that run all the time; `None` as soon as one of them declares nothing, as HPA does.
fn cpu_request(spec: &PodSpec) -> Option<f64> {
    if let Some(request) = spec.resources.as_ref().and_then(|resources| resources.requests.get("cpu")) {
        return parse_cores(request);
    }
    let sidecars =
        spec.init_containers.iter().filter(|container| container.restart_policy.as_deref() == Some("Always"));
    let mut cores = 0.0;
    for container in spec.containers.iter().chain(sidecars) {
        cores += parse_cores(container.resources.requests.get("cpu")?)?;
    }
    (0.0 < cores).then_some(cores)
}

#[cfg(test)]
#[path = "pods_tests.rs"]
mod tests;
