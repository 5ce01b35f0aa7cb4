//! What persons do to the policy and its target, and the policy as they leave it.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::core::DeserializeGuard;
use kube::runtime::watcher::Event;
use rlscaler_api::RLReplicaPolicy;
use serde_json::{Value, json};

use super::schedule::{Behaviour, Person, Setting};
use super::will::{Version, Wish, Written, at, spec_override};
use super::world::World;

/// What a person has written, from which the policy is made.
pub(crate) struct Will {
    min: u32,
    max: u32,
    auto: bool,
    valid: bool,
    insists: bool,
    annotations: BTreeMap<&'static str, String>,
    annotated: Option<Written>,
    spec: Option<Written>,
    fallback: Option<(u32, u32)>,
    generation: i64,
    uid: String,
}

impl Will {
    pub(crate) fn new(setting: &Setting) -> Self {
        Self {
            min: setting.min,
            max: setting.max,
            auto: true,
            valid: true,
            insists: false,
            annotations: BTreeMap::new(),
            annotated: None,
            spec: None,
            fallback: setting.fallback,
            generation: 1,
            uid: String::new(),
        }
    }

    /// A fallback above the bounds is refused as a broken spec is.
    fn is_valid(&self) -> bool {
        self.valid && self.fallback.is_none_or(|(_, replicas)| replicas <= self.max)
    }
}

impl World {
    pub(crate) fn person(&mut self, person: Person) {
        let place = &mut self.places[0];
        let will = &mut place.will;
        let annotate = |will: &mut Will, until: Option<f64>| {
            if let Some(until) = until {
                will.annotations.insert("rlscaler.io/override-until", at(until).to_string());
            }
            if will.insists {
                will.annotations.insert("rlscaler.io/ignore-conflicts", "true".to_owned());
            }
        };
        let mut edits_spec = true;
        match person {
            Person::Scale(replicas) => {
                self.pass(0);
                let Some(target) = &mut self.places[0].workload.target else { return };
                if target.replicas == replicas {
                    return;
                }
                target.replicas = replicas;
                target.writer = "kubectl";
                self.pass(0);
                self.changed_by_another();
                return;
            }
            Person::Recreate => {
                self.delete_policy(0);
                self.create_policy(0);
                return;
            }
            Person::Bounds(min, max) => (will.min, will.max, will.valid) = (min, max, true),
            Person::Break => will.valid = false,
            Person::Mode { auto } => will.auto = auto,
            Person::Spec(written) => will.spec = written,
            Person::Fallback(fallback) => will.fallback = fallback,
            Person::Insist(insists) => {
                will.insists = insists;
                will.annotations.remove("rlscaler.io/ignore-conflicts");
                annotate(will, None);
                edits_spec = false;
            }
            Person::Annotate(annotated, until) => {
                will.annotations =
                    annotated.map(|annotated| annotated.pairs()).unwrap_or_default().into_iter().collect();
                will.annotated =
                    annotated.map(|annotated| Written { wish: annotated.wish(), until_secs: until });
                annotate(will, until.filter(|_| annotated.is_some()));
                edits_spec = false;
            }
        }
        if edits_spec {
            will.generation += 1;
        }
        self.edited(0);
    }

    /// What is invalid is corrected, and the policy scales; overrides stay.
    pub(crate) fn tidy(&mut self) {
        let will = &mut self.places[0].will;
        if !will.is_valid() || !will.auto {
            (will.valid, will.auto) = (true, true);
            will.fallback = will.fallback.map(|(secs, replicas)| (secs, replicas.min(will.max)));
            will.generation += 1;
            self.tell(|| "the policy is corrected and set to Auto".to_owned());
            self.edited(0);
        }
    }

    fn delete_policy(&mut self, place: usize) {
        let Some(policy) = self.places[place].policy.take() else { return };
        self.deliver(place, Event::Delete(DeserializeGuard(Ok(policy))));
    }

    pub(crate) fn create_policy(&mut self, index: usize) {
        self.policies_made += 1;
        let uid = format!("policy-{}", self.policies_made);
        self.places[index].will.uid = uid;
        self.places[index].will.generation = 1;
        self.places[index].policy = None;
        let record = std::mem::take(&mut self.places[index].record);
        self.places[index].record = record.for_another_policy();
        self.edited(index);
    }

    /// The policy as a person left it becomes a new version, which the watches will see.
    fn edited(&mut self, index: usize) {
        let place = &self.places[index];
        let will = &place.will;
        let beyond = will.annotations.contains_key("rlscaler.io/allow-out-of-bounds");
        let spec = will.spec.map(|written| match written.wish {
            Wish::Pin { replicas, .. } => Written { wish: Wish::Pin { replicas, beyond }, ..written },
            _ => written,
        });
        let version = Version {
            number: place.versions.len(),
            uid: will.uid.clone(),
            min: will.min,
            max: will.max,
            auto: will.auto,
            valid: will.is_valid(),
            insists: will.insists,
            annotated: will.annotated,
            spec,
            fallback: will.fallback.map(|(secs, replicas)| (f64::from(secs), replicas)),
            interval_secs: f64::from(self.setting.interval_secs),
        };
        let status = place.policy.as_ref().and_then(|policy| policy.status.clone());
        let mut policy: RLReplicaPolicy =
            serde_json::from_value(object(&self.setting, place.workload.name, will, version.number)).unwrap();
        policy.status = status;
        let place = &mut self.places[index];
        let version = Arc::new(version);
        place.versions.push(version.clone());
        place.policy = Some(policy.clone());
        self.tell(|| format!("{version:?}"));
        self.deliver(index, Event::Apply(DeserializeGuard(Ok(policy))));
    }
}

/// The policy as the API server has it.
fn object(setting: &Setting, name: &str, will: &Will, version: usize) -> Value {
    let Setting { interval_secs, signals, behavior, .. } = setting;
    let query = |what: &str| json!({"prometheus": {"source": "default", "query": format!("{what}:{name}")}});
    let mut wanted = json!({"cpu": if signals.cpu { json!({"resource": {}}) } else { json!({"none": {}}) }});
    for (declared, what) in [(signals.qps, "qps"), (signals.latency, "latency"), (signals.sla, "sla")] {
        if declared {
            wanted[what] = query(what);
        }
    }
    // A spec that is refused: nothing may be done under it.
    let min = if will.valid { will.min } else { will.max + 1 };
    let mut spec = json!({
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "minReplicas": min, "maxReplicas": will.max, "mode": if will.auto { "Auto" } else { "Shadow" },
        "intervalSeconds": interval_secs,
        "objective": {"latency": {"targetMilliseconds": 250}, "slaPercent": "99"},
        "signals": wanted,
    });
    if setting.capacity_declared {
        spec["capacity"] = json!({"concurrency": 4, "serviceMilliseconds": 50});
    }
    if setting.startup_declared {
        spec["startupSeconds"] = json!(setting.startup_secs.ceil() as u32);
    }
    if let Some((secs, replicas)) = will.fallback {
        spec["fallback"] = json!({"failureDurationSeconds": secs, "replicas": replicas});
    }
    if let Some(written) = will.spec {
        spec["override"] = spec_override(written);
    }
    let rate = |kind: &str, value: u32| json!([{"type": kind, "value": value, "periodSeconds": 15}]);
    match behavior {
        Behaviour::Absent => {}
        Behaviour::Windows => {
            spec["behavior"] = json!({"scaleUp": {"stabilizationWindowSeconds": 20},
                "scaleDown": {"stabilizationWindowSeconds": 90}});
        }
        Behaviour::Rates => {
            spec["behavior"] = json!({"scaleUp": {"policies": rate("Pods", 6)},
                "scaleDown": {"policies": rate("Percent", 50), "stabilizationWindowSeconds": 0}});
        }
    }
    json!({
        "apiVersion": "rlscaler.io/v1alpha1", "kind": "RLReplicaPolicy",
        "metadata": {"name": name, "namespace": "shop", "uid": will.uid, "generation": will.generation,
            "creationTimestamp": at(0.0).to_string(), "annotations": will.annotations,
            "labels": {"version": version.to_string()}},
        "spec": spec,
    })
}
