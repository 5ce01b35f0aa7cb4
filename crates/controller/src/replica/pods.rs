//! The target's pods, found by their owners and counted. Pure.
//!
//! In: pods and ReplicaSets as listed, and the time. Out: [`Counted`]: what the brain counts, which ready pods the CPU
//! signal may use, start-up times to learn from, and what to tell. Terminating, finished and foreign pods are in none
//! of the counts.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use rlscaler_core::Pods;
use rlscaler_signals::metrics_api::parse_cores;
use rlscaler_signals::request::ReadyPod;

use super::pod::{ContainerStatus, Pod, PodSpec};

/// Longest start-up that is believed: above it the Ready condition most likely flapped.
const MAX_STARTUP_SECS: f64 = 3600.0;

/// A container that ran shorter than this before it ended was crashing: the kubelet forgets its back-off after as long.
const SHORT_RUN: SignedDuration = SignedDuration::from_mins(10);
/// Restarts from which on short runs make a loop: one may be a dependency that was not there yet.
const LOOP_RESTARTS: i32 = 2;

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
    /// (pod UID, seconds since creation) of pods that are not ready.
    pub waiting: Vec<(String, f64)>,
    /// Pods the selector matched that belong to somebody else.
    pub foreign: u32,
    /// Pods of the target that are terminating or finished.
    pub leaving: u32,
    /// One of the unhealthy pods, and what is wrong with it.
    pub broken: Option<Broken>,
    /// What the scheduler says of one of the pods it cannot place.
    pub unplaced: Option<String>,
    /// What one more pod would ask for: the spec of the youngest.
    pub newest: Option<PodSpec>,
    /// How many different owners the pods counted have, where they could only be told by the selector.
    pub ambiguous_owners: usize,
}

/// A pod that will not become ready by waiting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Its name.
    pub pod: String,
    /// UID of its owner, one for each revision of a Deployment.
    pub owner: String,
    /// `CrashLoopBackOff`, ...
    pub why: String,
}

impl Counted {
    /// Pods the selector matched that are not counted.
    #[must_use]
    pub fn ignored(&self) -> u32 {
        self.foreign + self.leaving
    }

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
pub fn count(pods: &[Pod], target_uid: &str, owned: &BTreeSet<String>, now: Timestamp) -> Counted {
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
    let mut newest = None;
    for pod in pods {
        if !(is_ours(pod) || by_selector) {
            counted.foreign += 1;
            continue;
        }
        if is_leaving(pod) {
            counted.leaving += 1;
            continue;
        }
        newest = newest.max(Some((pod.metadata.creation_timestamp, &pod.metadata.uid)));
        if newest == Some((pod.metadata.creation_timestamp, &pod.metadata.uid)) {
            counted.newest = Some(pod.spec.clone());
        }
        owners.insert(pod.metadata.controller().map_or("", |owner| owner.uid.as_str()));
        requests.extend(cpu_request(&pod.spec));
        add(&mut counted, pod, now);
    }
    counted.ambiguous_owners = if by_selector { owners.len() } else { 0 };
    if !requests.is_empty() {
        counted.cpu_request = Some(requests.iter().sum::<f64>() / requests.len() as f64);
    }
    counted
}

/// Whether the owners of the ReplicaSets must be listed again: a pod's ReplicaSet is not known, or all that are known
/// belong to others. A Deployment created anew adopts the ReplicaSets its predecessor left behind
/// (`kubectl delete --cascade=orphan`): the same ReplicaSet has another owner then.
#[must_use]
pub fn owners_are_outdated(pods: &[Pod], target_uid: &str, known: &BTreeMap<String, String>) -> bool {
    let owners = || pods.iter().filter_map(|pod| pod.metadata.controller());
    let replica_sets = || owners().filter(|owner| owner.kind == "ReplicaSet");
    let is_ours = |uid: &str| uid == target_uid || known.get(uid).is_some_and(|owner| owner == target_uid);
    let none_is_ours = !owners().any(|owner| is_ours(&owner.uid));
    replica_sets().any(|owner| none_is_ours || !known.contains_key(&owner.uid))
}

fn is_leaving(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some() || matches!(pod.status.phase.as_str(), "Failed" | "Succeeded")
}

fn add(counted: &mut Counted, pod: &Pod, now: Timestamp) {
    let unplaced = pod
        .status
        .condition("PodScheduled")
        .filter(|placed| placed.status == "False" && placed.reason.as_deref() == Some("Unschedulable"));
    if let Some(unplaced) = unplaced {
        counted.pods.unschedulable += 1;
        counted.unplaced = counted.unplaced.take().or_else(|| unplaced.message.clone());
        return;
    }
    let ready = pod.status.condition("Ready").filter(|ready| ready.status == "True");
    if ready.is_none()
        && let Some(created) = pod.metadata.creation_timestamp
    {
        counted.waiting.push((pod.metadata.uid.clone(), now.duration_since(created).as_secs_f64()));
    }
    if let Some(why) = trouble(pod, ready.is_some(), now) {
        counted.pods.unhealthy += 1;
        let owner = pod.metadata.controller().map_or(String::new(), |owner| owner.uid.clone());
        let pod = pod.metadata.name.clone();
        counted.broken = counted.broken.take().or(Some(Broken { pod, owner, why }));
        return;
    }
    let Some(ready) = ready else {
        counted.pods.starting += 1;
        return;
    };
    counted.pods.ready += 1;
    counted.ready.push(ReadyPod { name: pod.metadata.name.clone(), ready_since: ready.last_transition_time });
    counted.startups.extend(startup(pod, ready.last_transition_time));
}

/// What keeps a pod from becoming ready, or from staying so.
fn trouble(pod: &Pod, is_ready: bool, now: Timestamp) -> Option<String> {
    let status = &pod.status;
    let waits = |container: &ContainerStatus| {
        let reason = container.state.waiting.as_ref()?.reason.clone()?;
        UNHEALTHY.contains(&reason.as_str()).then_some(reason)
    };
    let ended = |container: &ContainerStatus| container.state.terminated.is_some();
    let loops = |container: &ContainerStatus| is_crash_loop(container, now);
    let serving = &status.container_statuses;
    // An init container that has ended well is done, however often it failed before.
    let before: Vec<&ContainerStatus> = status
        .init_container_statuses
        .iter()
        .filter(|container| container.state.terminated.as_ref().is_none_or(|run| run.exit_code != 0))
        .collect();
    let all = || serving.iter().chain(before.iter().copied());
    if let Some(reason) = all().find_map(waits).filter(|_| !is_ready) {
        return Some(reason);
    }
    if all().any(loops) {
        return Some("it runs for a moment between two crashes".to_owned());
    }
    (!is_ready && all().any(ended)).then(|| "a container has ended".to_owned())
}

/// It ended again and again after short runs. The present run is short, too, and proves nothing, not even while the pod
/// is ready.
fn is_crash_loop(container: &ContainerStatus, now: Timestamp) -> bool {
    let Some(last) = &container.last_state.terminated else { return false };
    let ran =
        last.finished_at.zip(last.started_at).map(|(finished, started)| finished.duration_since(started));
    let runs =
        container.state.running.as_ref().and_then(|run| run.started_at).map(|at| now.duration_since(at));
    LOOP_RESTARTS <= container.restart_count
        && ran.is_some_and(|ran| ran < SHORT_RUN)
        && runs.is_none_or(|runs| runs < SHORT_RUN)
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
