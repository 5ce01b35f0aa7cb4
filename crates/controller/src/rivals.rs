//! Other autoscalers: HPAs, and KEDA's ScaledObjects and VPAs where a cluster has them. Reads only.
//!
//! Watched over the whole cluster (or the watched namespace), and of each only who it is and what it targets is kept.

use std::sync::RwLock;
use std::time::Duration;

use futures::{Stream, StreamExt};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Client, ResourceExt};
use serde_json::Value;

use crate::by_target::{ByTarget, TargetKey};
use crate::replica::target::TargetRef;
use crate::retry::{Quiet, WatchBackoff};

/// Most rivals remembered of one kind; a cluster with more has other worries, and conflicts then err towards none.
const MAX_RIVALS: usize = 100_000;

/// Before a kind the cluster does not know is asked for again: whoever installs KEDA does not wait for seconds.
const ABSENT_PAUSE: Duration = Duration::from_secs(60);

/// What kind of autoscaler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RivalKind {
    /// `autoscaling/v2` HorizontalPodAutoscaler.
    Hpa,
    /// KEDA's ScaledObject.
    ScaledObject,
    /// A VerticalPodAutoscaler that changes CPU by itself.
    Vpa,
}

impl RivalKind {
    const ALL: [Self; 3] = [Self::Hpa, Self::ScaledObject, Self::Vpa];

    /// As people call it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hpa => "HorizontalPodAutoscaler",
            Self::ScaledObject => "ScaledObject",
            Self::Vpa => "VerticalPodAutoscaler",
        }
    }

    fn resource(self) -> ApiResource {
        let (group, version) = match self {
            Self::Hpa => ("autoscaling", "v2"),
            Self::ScaledObject => ("keda.sh", "v1alpha1"),
            Self::Vpa => ("autoscaling.k8s.io", "v1"),
        };
        ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, self.as_str()))
    }
}

/// One other autoscaler on a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rival {
    /// What it is.
    pub kind: RivalKind,
    /// Its name, in the target's namespace.
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    namespace: String,
    name: String,
}

#[derive(Debug, Default)]
struct OfKind {
    /// `None` until listed once.
    known: Option<ByTarget<Key, ()>>,
    listing: ByTarget<Key, ()>,
}

/// All that are known.
#[derive(Debug, Default)]
pub struct Rivals {
    hpas: RwLock<OfKind>,
    scaled_objects: RwLock<OfKind>,
    vpas: RwLock<OfKind>,
    quiet: Quiet,
}

impl Rivals {
    /// Whoever else scales the target, HPAs first. `None` while it is not known yet: then nothing may be written.
    #[must_use]
    pub fn of(&self, namespace: &str, target: &TargetRef) -> Option<Vec<Rival>> {
        let target = TargetKey::new(namespace, target);
        let mut rivals = Vec::new();
        for kind in RivalKind::ALL {
            let of_kind = self.of_kind(kind).read().expect("no panic while locked");
            let claims = of_kind.known.as_ref()?.of(&target);
            rivals.extend(claims.map(|(key, ())| Rival { kind, name: key.name.clone() }));
        }
        rivals.sort_by(|one, other| (one.kind.as_str(), &one.name).cmp(&(other.kind.as_str(), &other.name)));
        Some(rivals)
    }

    /// Keeps the knowledge up to date for as long as it is polled.
    pub async fn watch(&self, client: &Client, namespace: Option<&str>) {
        let follow = |kind: RivalKind| {
            let api: Api<DynamicObject> = match namespace {
                Some(namespace) => Api::namespaced_with(client.clone(), namespace, &kind.resource()),
                None => Api::all_with(client.clone(), &kind.resource()),
            };
            let events = watcher::watcher(api, watcher::Config::default().any_semantic())
                .backoff(WatchBackoff::default());
            self.follow(kind, events)
        };
        futures::join!(follow(RivalKind::Hpa), follow(RivalKind::ScaledObject), follow(RivalKind::Vpa));
    }

    async fn follow(
        &self,
        kind: RivalKind,
        events: impl Stream<Item = Result<Event<DynamicObject>, watcher::Error>>,
    ) {
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.apply(kind, event),
                Err(error) if is_absent(&error) => {
                    self.set_absent(kind);
                    tokio::time::sleep(ABSENT_PAUSE).await;
                }
                Err(error) => {
                    if let Some(unsaid) = self.quiet.may_say(kind.as_str()) {
                        tracing::warn!(kind = kind.as_str(), %error, unsaid, "other autoscalers cannot be watched");
                    }
                }
            }
        }
    }

    fn of_kind(&self, kind: RivalKind) -> &RwLock<OfKind> {
        match kind {
            RivalKind::Hpa => &self.hpas,
            RivalKind::ScaledObject => &self.scaled_objects,
            RivalKind::Vpa => &self.vpas,
        }
    }

    fn set_absent(&self, kind: RivalKind) {
        let mut of_kind = self.of_kind(kind).write().expect("no panic while locked");
        *of_kind = OfKind { known: Some(ByTarget::default()), listing: ByTarget::default() };
    }

    /// One step of a watch.
    pub fn apply(&self, kind: RivalKind, event: Event<DynamicObject>) {
        let mut of_kind = self.of_kind(kind).write().expect("no panic while locked");
        let key = |object: &DynamicObject| Key {
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
        };
        let target_of = |object: &DynamicObject| {
            let target = target(kind, &object.data)?;
            Some(TargetKey::new(&object.namespace().unwrap_or_default(), &target))
        };
        match event {
            Event::Init => of_kind.listing = ByTarget::default(),
            Event::InitApply(object) => {
                if let Some(target) = target_of(&object)
                    && of_kind.listing.len() < MAX_RIVALS
                {
                    of_kind.listing.insert(key(&object), target, ());
                }
            }
            Event::InitDone => of_kind.known = Some(std::mem::take(&mut of_kind.listing)),
            Event::Apply(object) => {
                let known = of_kind.known.get_or_insert_default();
                match target_of(&object) {
                    Some(target) if known.len() < MAX_RIVALS => known.insert(key(&object), target, ()),
                    _ => known.remove(&key(&object)),
                }
            }
            Event::Delete(object) => {
                if let Some(known) = &mut of_kind.known {
                    known.remove(&key(&object));
                }
            }
        }
    }
}

/// The cluster does not know the kind.
fn is_absent(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code == 404,
        _ => false,
    }
}

/// What the autoscaler targets; `None` when it does not act on what we look at.
fn target(kind: RivalKind, data: &Value) -> Option<TargetRef> {
    let spec = &data["spec"];
    let (reference, default_kind) = match kind {
        RivalKind::Hpa => (&spec["scaleTargetRef"], None),
        RivalKind::ScaledObject => (&spec["scaleTargetRef"], Some(("apps/v1", "Deployment"))),
        RivalKind::Vpa if changes_cpu(spec) => (&spec["targetRef"], None),
        RivalKind::Vpa => return None,
    };
    let text = |field: &str, default: Option<&str>| reference[field].as_str().or(default).map(str::to_owned);
    Some(TargetRef {
        api_version: text("apiVersion", default_kind.map(|(version, _)| version)).unwrap_or_default(),
        kind: text("kind", default_kind.map(|(_, kind)| kind))?,
        name: text("name", None)?,
    })
}

/// VPA acts by itself unless its mode is `Off` or `Initial`, on CPU unless its policies name other resources only.
fn changes_cpu(spec: &Value) -> bool {
    let mode = spec["updatePolicy"]["updateMode"].as_str().unwrap_or("Auto");
    let policies = spec["resourcePolicy"]["containerPolicies"].as_array();
    let spares_cpu = |policy: &Value| {
        let resources = policy["controlledResources"].as_array();
        policy["mode"] == "Off" || resources.is_some_and(|names| names.iter().all(|name| name != "cpu"))
    };
    !matches!(mode, "Off" | "Initial")
        && !policies.is_some_and(|all| !all.is_empty() && all.iter().all(spares_cpu))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(name: &str, spec: Value) -> DynamicObject {
        serde_json::from_value(json!({"apiVersion": "x/v1", "kind": "X",
            "metadata": {"name": name, "namespace": "shop"}, "spec": spec}))
        .unwrap()
    }

    fn web() -> TargetRef {
        TargetRef { api_version: "apps/v1".into(), kind: "Deployment".into(), name: "web".into() }
    }

    fn list(rivals: &Rivals, kind: RivalKind, objects: Vec<DynamicObject>) {
        rivals.apply(kind, Event::Init);
        objects.into_iter().for_each(|object| rivals.apply(kind, Event::InitApply(object)));
        rivals.apply(kind, Event::InitDone);
    }

    #[test]
    fn nothing_is_known_before_all_kinds_were_listed() {
        let rivals = Rivals::default();
        list(&rivals, RivalKind::Hpa, vec![]);
        rivals.set_absent(RivalKind::ScaledObject);
        assert_eq!(rivals.of("shop", &web()), None);
        rivals.set_absent(RivalKind::Vpa);
        assert_eq!(rivals.of("shop", &web()), Some(vec![]));
    }

    // Cases 56 and 61.
    #[test]
    fn autoscalers_on_the_same_target_are_found_and_forgotten_with_their_deletion() {
        let reference = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
        let other = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"});
        let rivals = Rivals::default();
        let hpa = object("hpa", json!({"scaleTargetRef": reference}));
        list(&rivals, RivalKind::Hpa, vec![hpa.clone(), object("db", json!({"scaleTargetRef": other}))]);
        list(
            &rivals,
            RivalKind::ScaledObject,
            vec![object("keda", json!({"scaleTargetRef": {"name": "web"}}))],
        );
        list(&rivals, RivalKind::Vpa, vec![object("vpa", json!({"targetRef": reference}))]);
        let names =
            || rivals.of("shop", &web()).unwrap().into_iter().map(|rival| rival.name).collect::<Vec<_>>();
        assert_eq!(names(), ["hpa", "keda", "vpa"]);
        assert_eq!(rivals.of("elsewhere", &web()), Some(vec![]));
        rivals.apply(RivalKind::Hpa, Event::Delete(hpa));
        assert_eq!(names(), ["keda", "vpa"]);
    }

    #[test]
    fn a_vpa_that_leaves_cpu_alone_is_no_rival() {
        let check = |spec: Value, expected| assert_eq!(changes_cpu(&spec), expected, "{spec}");
        check(json!({}), true);
        check(json!({"updatePolicy": {"updateMode": "Recreate"}}), true);
        check(json!({"updatePolicy": {"updateMode": "Off"}}), false);
        check(json!({"updatePolicy": {"updateMode": "Initial"}}), false);
        let only = |resources: Value| json!({"resourcePolicy": {"containerPolicies": [{"controlledResources": resources}]}});
        check(only(json!(["memory"])), false);
        check(only(json!(["cpu", "memory"])), true);
    }
}
