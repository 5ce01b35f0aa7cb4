//! A pod as the API server sends it, trimmed to the few fields that are looked at. Nothing is judged here.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;

/// A pod, trimmed.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
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
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
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
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
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
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// Those that serve.
    pub containers: Vec<Container>,
    /// Those that run before, and sidecars (`restartPolicy: Always`).
    pub init_containers: Vec<Container>,
    /// Of the pod as a whole, where declared; it outranks its containers'.
    pub resources: Option<Resources>,
    /// What the runtime itself takes.
    pub overhead: BTreeMap<String, String>,
}

/// What is needed of a container.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Requests and limits.
    pub resources: Resources,
    /// `Always` for a sidecar among the init containers.
    pub restart_policy: Option<String>,
}

/// What a container, or a pod as a whole, asks for and is held to.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// By resource name, as quantities.
    pub requests: BTreeMap<String, String>,
    /// By resource name, as quantities.
    pub limits: BTreeMap<String, String>,
}

/// What is needed of a pod's status.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Failed`, ...
    pub phase: String,
    /// `Ready`, `PodScheduled`, ...
    pub conditions: Vec<PodCondition>,
    /// Of the containers that serve.
    pub container_statuses: Vec<ContainerStatus>,
    /// Of the init containers and sidecars.
    pub init_container_statuses: Vec<ContainerStatus>,
}

impl PodStatus {
    /// One condition.
    #[must_use]
    pub fn condition(&self, name: &str) -> Option<&PodCondition> {
        self.conditions.iter().find(|condition| condition.name == name)
    }
}

/// One condition of a pod.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodCondition {
    /// Its type.
    #[serde(rename = "type")]
    pub name: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// UpperCamel.
    pub reason: Option<String>,
    /// For people.
    pub message: Option<String>,
    /// When the status last changed.
    pub last_transition_time: Option<Timestamp>,
}

/// How one container is.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// Since the pod was made.
    pub restart_count: i32,
    /// Now.
    pub state: ContainerState,
    /// The run before this one.
    pub last_state: ContainerState,
}

/// At most one of the three is there.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ContainerState {
    /// Not running yet, or not again yet.
    pub waiting: Option<Waiting>,
    /// Running.
    pub running: Option<Run>,
    /// Ended.
    pub terminated: Option<Run>,
}

/// Why a container waits.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Waiting {
    /// UpperCamel.
    pub reason: Option<String>,
}

/// One run of a container.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Run {
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// 0: it ended well.
    pub exit_code: i32,
}
