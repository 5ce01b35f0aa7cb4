//! A scripted API server with one Deployment and one policy, sources that answer what a test says, and a clock that
//! stands still until told. For tests only.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::{BoxFuture, ready};
use http::{Method, Request, Response, StatusCode};
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::api::DynamicObject;
use kube::client::Body;
use kube::runtime::{reflector, watcher::Event};
use prometheus_client::registry::Registry;
use rlscaler_api::{Limits, RLReplicaPolicy};
use rlscaler_core::{PlannerOnly, Reading, Signal, Signals};
use rlscaler_signals::request::{SignalRequest, Tick};
use rlscaler_signals::{Fixed, HistoryReport, HistoryWindow, ReadSignals, SignalReport};
use serde_json::{Value, json};

use crate::claims::Claims;
use crate::context::{Context, States};
use crate::metrics::Metrics;
use crate::models::{LoadedModel, Models};
use crate::quotas::Quotas;
use crate::replica::target::Kinds;
use crate::retry::Quiet;
use crate::rivals::{RivalKind, Rivals};

/// What the world holds.
#[derive(Debug, Default)]
pub(crate) struct World {
    /// `spec.replicas` of the Deployment; `None`: there is none.
    pub(crate) replicas: Option<u32>,
    /// Pods that are ready; `None`: as many as asked for.
    pub(crate) ready: Option<u32>,
    /// What pods are listed; `None`: as many as asked for, `ready` of them ready.
    pub(crate) pods: Option<Vec<Value>>,
    /// `status.replicas` of the scale; `None`: as many as asked for.
    pub(crate) running: Option<u32>,
    /// Message of the Deployment's condition `ReplicaFailure`, where it holds.
    pub(crate) refused: Option<&'static str>,
    /// The policy's status.
    pub(crate) status: Value,
    /// The policy's status when the scale was last written.
    pub(crate) status_at_scale: Value,
    /// Events by name.
    pub(crate) events: BTreeMap<String, Value>,
    /// What was written, in order: `scale`, `status`, `event`.
    pub(crate) writes: Vec<&'static str>,
    /// A person sets the replicas to this just before the next write of ours.
    pub(crate) person: Option<u32>,
    /// Who owns `spec.replicas` of the Deployment by its managedFields.
    pub(crate) manager: Option<&'static str>,
    /// Answers for the next writes: kind and HTTP status.
    pub(crate) refuse: BTreeMap<&'static str, u16>,
}

/// World, sources and clock of one test.
#[derive(Clone)]
pub(crate) struct Stage {
    pub(crate) world: Arc<Mutex<World>>,
    pub(crate) signals: Arc<Mutex<Signals>>,
    pub(crate) now: Arc<Mutex<Timestamp>>,
    lived: Arc<Mutex<Duration>>,
}

struct Scripted(Arc<Mutex<Signals>>);

impl ReadSignals for Scripted {
    fn read<'a>(&'a self, _: &'a SignalRequest, _: Tick<'a>) -> BoxFuture<'a, SignalReport> {
        Box::pin(ready(Fixed::new(*self.0.lock().unwrap()).report))
    }

    fn history<'a>(
        &'a self,
        _: &'a SignalRequest,
        _: Timestamp,
        _: HistoryWindow,
    ) -> BoxFuture<'a, HistoryReport> {
        Box::pin(ready(HistoryReport::default()))
    }
}

pub(crate) fn fresh(value: f64) -> Signal {
    Signal::Fresh(Reading { value, age_secs: Some(5.0) })
}

impl Stage {
    /// Three replicas, all ready, under a load of `qps`.
    pub(crate) fn new(qps: f64) -> Self {
        let world = World { replicas: Some(3), ..World::default() };
        let signals = Signals { qps: fresh(qps), latency: fresh(0.08), ..Signals::default() };
        Self {
            world: Arc::new(Mutex::new(world)),
            signals: Arc::new(Mutex::new(signals)),
            now: Arc::new(Mutex::new(Timestamp::from_second(1_800_000_000).unwrap())),
            lived: Arc::default(),
        }
    }

    pub(crate) fn set_qps(&self, qps: Signal) {
        self.signals.lock().unwrap().qps = qps;
    }

    pub(crate) fn advance(&self, secs: u32) {
        self.set_clock(i64::from(secs));
        *self.lived.lock().unwrap() += Duration::from_secs(u64::from(secs));
    }

    /// The clock is set by so much, and no time passes.
    pub(crate) fn set_clock(&self, secs: i64) {
        *self.now.lock().unwrap() += SignedDuration::from_secs(secs);
    }

    pub(crate) fn replicas(&self) -> u32 {
        self.world.lock().unwrap().replicas.unwrap()
    }

    /// What was written since the last look.
    pub(crate) fn writes(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.world.lock().unwrap().writes)
    }

    /// `REASON: NOTE` of all events, by name.
    pub(crate) fn events(&self) -> Vec<String> {
        let world = self.world.lock().unwrap();
        let text = |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
        world
            .events
            .values()
            .map(|event| format!("{}: {}", text(event, "reason"), text(event, "note")))
            .collect()
    }

    /// Message of a condition.
    pub(crate) fn message(&self, kind: &str) -> String {
        let world = self.world.lock().unwrap();
        let conditions = world.status["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|condition| condition["type"] == kind);
        found.map_or(String::new(), |condition| condition["message"].as_str().unwrap().to_owned())
    }

    /// `STATUS/REASON` of a condition.
    pub(crate) fn condition(&self, kind: &str) -> String {
        let world = self.world.lock().unwrap();
        let conditions = world.status["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|condition| condition["type"] == kind);
        found.map_or(String::new(), |condition| {
            format!("{}/{}", condition["status"].as_str().unwrap(), condition["reason"].as_str().unwrap())
        })
    }

    /// A policy on the Deployment, with its status as the world has it; `change` edits it.
    pub(crate) fn policy(&self, change: impl FnOnce(&mut Value)) -> RLReplicaPolicy {
        let mut policy = json!({
            "apiVersion": "rlscaler.io/v1alpha1", "kind": "RLReplicaPolicy",
            "metadata": {"name": "web", "namespace": "shop", "uid": "policy-uid", "generation": 1,
                "creationTimestamp": "2026-11-30T06:00:00Z"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "minReplicas": 2, "maxReplicas": 40, "mode": "Auto",
                "objective": {"latency": {"targetMilliseconds": 250}},
                "signals": {
                    "qps": {"prometheus": {"source": "default", "query": "q"}},
                    "latency": {"prometheus": {"source": "default", "query": "l"}},
                    "cpu": {"none": {}},
                },
                "capacity": {"concurrency": 4, "serviceMilliseconds": 50},
                "startupSeconds": 15,
            },
        });
        change(&mut policy);
        let mut policy: RLReplicaPolicy = serde_json::from_value(policy).unwrap();
        policy.status = serde_json::from_value(self.world.lock().unwrap().status.clone()).unwrap();
        policy
    }

    /// An operator that has just started.
    pub(crate) fn operator(&self) -> Context {
        self.operator_with(LoadedModel { policy: Arc::new(PlannerOnly), trained: false })
    }

    pub(crate) fn operator_with(&self, model: LoadedModel) -> Context {
        let stage = self.clone();
        let service = tower::service_fn(move |request| {
            let stage = stage.clone();
            async move { Ok::<_, Infallible>(stage.answer(request).await) }
        });
        let rivals = Rivals::default();
        for kind in [RivalKind::Hpa, RivalKind::ScaledObject, RivalKind::Vpa] {
            rivals.apply(kind, Event::<DynamicObject>::InitDone);
        }
        let (now, lived) = (self.now.clone(), self.lived.clone());
        let (policies, _) = reflector::store();
        Context {
            client: Client::new(service, "shop"),
            signals: Arc::new(Scripted(self.signals.clone())),
            models: Models {
                default: "base".into(),
                by_name: BTreeMap::from([("base".to_owned(), Ok(model))]),
            },
            metrics: Metrics::register(&mut Registry::default()),
            rivals: Arc::new(rivals),
            quotas: Arc::new(Quotas::default()),
            claims: Claims::default(),
            quiet: Quiet::default(),
            kinds: Kinds::default(),
            clock: Arc::new(move || *now.lock().unwrap()),
            steady: Arc::new(move || *lived.lock().unwrap()),
            limits: Limits::default(),
            instance: "test".into(),
            policies,
            states: States::default(),
        }
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let body = body.collect_bytes().await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let (status, answer) = self.world.lock().unwrap().answer(&head.method, head.uri.path(), &body);
        let answer = match status {
            StatusCode::OK => answer,
            _ => {
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "code": status.as_u16()})
            }
        };
        Response::builder().status(status).body(Body::from(serde_json::to_vec(&answer).unwrap())).unwrap()
    }
}

impl World {
    fn answer(&mut self, method: &Method, path: &str, body: &Value) -> (StatusCode, Value) {
        let last = path.rsplit('/').next().unwrap_or_default();
        if *method != Method::GET {
            let kind = match last {
                "scale" => "scale",
                "status" => "status",
                _ => "event",
            };
            if let Some(code) = self.refuse.remove(kind) {
                return (StatusCode::from_u16(code).unwrap(), Value::Null);
            }
        }
        match (method, last) {
            (&Method::GET, "pods") => (StatusCode::OK, json!({"items": self.pods()})),
            (&Method::GET, "replicasets") => (
                StatusCode::OK,
                json!({"items": [
                    {"metadata": {"name": "web-1", "uid": "rs", "ownerReferences": [owner("Deployment", "deployment-uid")]}},
                ]}),
            ),
            (&Method::GET, "scale") => self.scale(),
            (&Method::GET, _) => self.deployment(),
            (&Method::PATCH, "scale") => self.set_scale(body),
            (&Method::PATCH, "status") => {
                self.writes.push("status");
                self.status = body[1]["value"].clone();
                let metadata = json!({"name": "web", "namespace": "shop", "uid": "policy-uid"});
                let spec = json!({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                    "maxReplicas": 40, "objective": {"latency": {"targetMilliseconds": 250}}});
                (
                    StatusCode::OK,
                    json!({"apiVersion": "rlscaler.io/v1alpha1", "kind": "RLReplicaPolicy", "metadata": metadata, "spec": spec}),
                )
            }
            (&Method::POST, "events") => {
                let name = body["metadata"]["name"].as_str().unwrap().to_owned();
                if self.events.contains_key(&name) {
                    return (StatusCode::CONFLICT, Value::Null);
                }
                self.writes.push("event");
                self.events.insert(name, body.clone());
                (StatusCode::OK, body.clone())
            }
            other => panic!("unexpected request {other:?} {path}"),
        }
    }

    fn scale(&self) -> (StatusCode, Value) {
        let Some(replicas) = self.replicas else { return (StatusCode::NOT_FOUND, Value::Null) };
        let spec = if replicas == 0 { json!({}) } else { json!({"replicas": replicas}) };
        (
            StatusCode::OK,
            json!({"apiVersion": "autoscaling/v1", "kind": "Scale",
            "metadata": {"name": "web", "namespace": "shop", "uid": "deployment-uid"},
            "spec": spec, "status": {"replicas": self.running.unwrap_or(replicas), "selector": "app=web"}}),
        )
    }

    fn deployment(&self) -> (StatusCode, Value) {
        let refused = |message| json!({"type": "ReplicaFailure", "status": "True", "message": message});
        let conditions: Vec<Value> = self.refused.into_iter().map(refused).collect();
        (
            StatusCode::OK,
            json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "shop", "uid": "deployment-uid", "managedFields": [
                {"manager": self.manager, "operation": "Apply", "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:spec": {"f:replicas": {}}}},
            ]}, "spec": {"replicas": self.replicas}, "status": {"conditions": conditions}}),
        )
    }

    fn set_scale(&mut self, patch: &Value) -> (StatusCode, Value) {
        if let Some(person) = self.person.take() {
            self.replicas = Some(person);
        }
        let Some(replicas) = self.replicas else { return (StatusCode::NOT_FOUND, Value::Null) };
        let tested = patch[0]["value"].as_u64().unwrap_or(0);
        if tested != u64::from(replicas) {
            return (StatusCode::UNPROCESSABLE_ENTITY, Value::Null);
        }
        self.writes.push("scale");
        self.status_at_scale = self.status.clone();
        self.replicas = Some(u32::try_from(patch[1]["value"].as_u64().unwrap()).unwrap());
        self.scale()
    }

    fn pods(&self) -> Vec<Value> {
        if let Some(pods) = &self.pods {
            return pods.clone();
        }
        let replicas = self.replicas.unwrap_or(0);
        let ready = self.ready.unwrap_or(replicas).min(replicas);
        (0..replicas).map(|index| pod(index, if index < ready { "True" } else { "False" })).collect()
    }
}

/// One pod of the Deployment, ready or not.
pub(crate) fn pod(index: u32, ready: &str) -> Value {
    json!({"metadata": {"name": format!("web-{index}"), "uid": format!("pod-{index}"),
            "creationTimestamp": "2027-01-15T07:00:00Z", "ownerReferences": [owner("ReplicaSet", "rs")]},
        "spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": "Running", "conditions": [
            {"type": "Ready", "status": ready, "lastTransitionTime": "2027-01-15T07:00:10Z"}]}})
}

fn owner(kind: &str, uid: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": kind, "name": "x", "uid": uid, "controller": true})
}
