//! The API server: what it does with each call of an operator, in its own time, and what it does not when there is
//! trouble. A write is carried out whether or not its caller still waits.

use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::oracle::{Seen, Write};
use super::schedule::{Call, Side, Trouble};
use super::world::{Shared, World};

type Boxed = Box<dyn std::error::Error + Send + Sync>;

/// Longer than any caller waits.
const NEVER: Duration = Duration::from_secs(100_000);
/// Largest status that is written, bytes: a bounded memory, and what people are shown.
const MAX_STATUS_BYTES: usize = 24_000;
/// For so long after two operators ran at once, one may take the other's work for its own, seconds.
const DOUBT_SECS: f64 = 60.0;
/// The limits of the events API, bytes.
const MAX_NOTE_BYTES: usize = 1024;
const MAX_ACTION_BYTES: usize = 128;

/// One call, taken apart.
#[derive(Clone)]
struct Asked {
    call: Call,
    place: usize,
    body: Value,
    query: String,
    /// What the caller had seen when it called.
    seen: Seen,
}

enum Answer {
    Json(Value),
    Text(String),
    Code(u16),
}

/// Answers one request of an operator.
pub(crate) async fn handle(
    world: Shared,
    operator: usize,
    request: Request<Body>,
) -> Result<Response<Body>, Boxed> {
    let (head, body) = request.into_parts();
    let body = body.collect_bytes().await?;
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let (path, query) = (head.uri.path(), head.uri.query().unwrap_or_default());
    let Some((asked, trouble, before)) = world.lock().receive(operator, &head.method, (path, query), body)
    else {
        return respond(Answer::Code(405));
    };
    sleep(before).await;
    match trouble {
        Some(Trouble::Code(code)) => return respond(Answer::Code(code)),
        Some(Trouble::Reset) => return Err("connection reset by peer".into()),
        Some(Trouble::Hang) => {
            sleep(NEVER).await;
            return Err("never".into());
        }
        _ => {}
    }
    let late = if let Some(Trouble::Late(secs)) = trouble { secs } else { 0.0 };
    let place = asked.place;
    let doing = {
        let world = world.clone();
        tokio::spawn(async move {
            sleep(Duration::from_secs_f64(late)).await;
            world.lock().carry_out(operator, asked)
        })
    };
    let (answer, dies) = doing.await?;
    if dies || trouble == Some(Trouble::DoneButHang) {
        sleep(NEVER).await;
    }
    let back = world.lock().on_the_way(place);
    sleep(back).await;
    match trouble {
        Some(Trouble::DoneBut(code)) => respond(Answer::Code(code)),
        Some(Trouble::DoneButReset) => Err("connection reset by peer".into()),
        _ => respond(answer),
    }
}

fn respond(answer: Answer) -> Result<Response<Body>, Boxed> {
    let (code, text) = match answer {
        Answer::Json(value) => (200, value.to_string()),
        Answer::Text(text) => (200, text),
        Answer::Code(code) => {
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "code": code});
            (code, status.to_string())
        }
    };
    Ok(Response::builder().status(StatusCode::from_u16(code)?).body(Body::from(text.into_bytes()))?)
}

impl World {
    /// Time on the way to the API server or back.
    fn on_the_way(&mut self, place: usize) -> Duration {
        Duration::from_secs_f64(self.places[place].dice.between(0.001, 0.02))
    }

    /// Takes a call apart; `None` for one that no operator may make.
    fn receive(
        &mut self,
        operator: usize,
        method: &Method,
        (path, query): (&str, &str),
        body: Value,
    ) -> Option<(Asked, Option<Trouble>, Duration)> {
        let found = self.call_of(method, path, query, &body);
        let Some((call, place)) = found else {
            self.check(Err(format!("a call that no operator may make: {method} {path}")));
            return None;
        };
        let sight = &mut self.seats[operator].sights[place];
        let verdict = sight.call();
        let trouble = self.trouble_with(place, call);
        let sight = &mut self.seats[operator].sights[place];
        if trouble.is_some() {
            sight.disturb();
        }
        let seen = sight.tick.clone();
        self.check(verdict);
        if let Some(trouble) = trouble {
            self.tell(|| format!("operator {operator} {call:?}: will be met with {trouble:?}"));
        }
        let before = self.on_the_way(place);
        Some((Asked { call, place, body, query: query.to_owned(), seen }, trouble, before))
    }

    fn call_of(&self, method: &Method, path: &str, query: &str, body: &Value) -> Option<(Call, usize)> {
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let by_label = || {
            let name = query.split('&').find_map(|pair| pair.strip_prefix("labelSelector="))?;
            self.place_of(name.rsplit(['=', 'D']).next()?)
        };
        match (method.as_str(), parts.as_slice()) {
            ("GET", ["api", "v1", "namespaces", "shop", "pods"]) => Some((Call::ListPods, by_label()?)),
            ("GET", ["apis", "apps", "v1", "namespaces", "shop", "replicasets"]) => {
                Some((Call::ListReplicaSets, by_label()?))
            }
            ("GET", ["apis", "apps", "v1", "namespaces", "shop", "deployments", name]) => {
                Some((Call::ReadTarget, self.place_of(name)?))
            }
            ("GET", ["apis", "apps", "v1", "namespaces", "shop", "deployments", name, "scale"]) => {
                Some((Call::ReadScale, self.place_of(name)?))
            }
            ("PATCH", ["apis", "apps", "v1", "namespaces", "shop", "deployments", name, "scale"]) => {
                Some((Call::WriteScale, self.place_of(name)?))
            }
            (
                "PATCH",
                [
                    "apis",
                    "rlscaler.io",
                    "v1alpha1",
                    "namespaces",
                    "shop",
                    "rlreplicapolicies",
                    name,
                    "status",
                ],
            ) => Some((Call::WriteStatus, self.place_of(name)?)),
            ("POST", ["apis", "events.k8s.io", "v1", "namespaces", "shop", "events"]) => {
                Some((Call::WriteEvent, self.place_of(body["regarding"]["name"].as_str()?)?))
            }
            _ => None,
        }
    }

    /// Does what was asked. True when the operator dies of something that happens at this call.
    fn carry_out(&mut self, operator: usize, asked: Asked) -> (Answer, bool) {
        let Asked { call, place, .. } = asked;
        if self.strike(place, call, Side::Before) {
            return (Answer::Code(500), true);
        }
        self.pass(place);
        let answer = match call {
            Call::ReadScale => self.read_scale(operator, place),
            Call::ListPods => Answer::Text(self.places[place].workload.list_pods()),
            Call::ListReplicaSets => Answer::Json(self.places[place].workload.list_replica_sets()),
            Call::ReadTarget => {
                let workload = &self.places[place].workload;
                workload
                    .target
                    .as_ref()
                    .map_or(Answer::Code(404), |target| Answer::Json(workload.deployment(target)))
            }
            Call::WriteScale => self.write_scale(operator, &asked),
            Call::WriteStatus => self.write_status(operator, &asked),
            Call::WriteEvent => self.write_event(operator, &asked),
        };
        if let Answer::Code(code) = answer {
            self.tell(|| format!("operator {operator} {call:?}: {code}"));
        }
        let dies = self.strike(place, call, Side::After);
        (answer, dies)
    }

    fn read_scale(&mut self, operator: usize, place: usize) -> Answer {
        let workload = &self.places[place].workload;
        let Some(target) = &workload.target else { return Answer::Code(404) };
        self.seats[operator].sights[place].read(target.replicas);
        Answer::Json(workload.scale(target))
    }

    fn write_scale(&mut self, operator: usize, asked: &Asked) -> Answer {
        let Asked { place, body, query, seen, .. } = asked;
        let place = *place;
        let Some(target) = self.places[place].workload.target.clone() else { return Answer::Code(404) };
        let to = match patched(target.replicas, body) {
            Ok(to) => to,
            Err(code) => {
                self.tell(|| format!("operator {operator}: {body} does not apply to {}", target.replicas));
                return Answer::Code(code);
            }
        };
        if !query.contains("fieldManager=rlscaler") {
            self.check(Err("the scale is written without the field manager's name".to_owned()));
        }
        let (now_secs, clock_secs) = (self.now_secs(), self.clock_secs(operator));
        let write = Write {
            seen,
            current: target.replicas,
            to,
            by_another: target.writer != "rlscaler",
            rival_now: self.knows_rival(operator, place),
            window_secs: self.window_secs(),
            now_secs,
            clock_secs,
        };
        let verdict = self.places[place].record.judge(&write);
        self.tell(|| format!("operator {operator} scales {} -> {to}", target.replicas));
        self.check(verdict);
        let Some(target) = &mut self.places[place].workload.target else { return Answer::Code(404) };
        (target.replicas, target.writer) = (to, "rlscaler");
        self.places[place].record.changed_secs = now_secs;
        self.pass(place);
        let workload = &self.places[place].workload;
        let scale = workload.target.as_ref().map(|target| workload.scale(target));
        scale.map_or(Answer::Code(404), Answer::Json)
    }

    fn write_status(&mut self, operator: usize, asked: &Asked) -> Answer {
        let Asked { place, body, .. } = asked;
        let Some(policy) = &self.places[*place].policy else { return Answer::Code(404) };
        let uid = policy.metadata.uid.clone();
        let operations = body.as_array().cloned().unwrap_or_default();
        let tested = operations.iter().find(|operation| operation["op"] == "test");
        if tested
            .is_some_and(|test| test["path"] != "/metadata/uid" || test["value"].as_str() != uid.as_deref())
        {
            return Answer::Code(422);
        }
        let meant =
            self.seats[operator].sights[*place].tick.versions.first().map(|version| version.uid.clone());
        if tested.is_none() && meant != uid {
            self.check(Err("the status of a policy was written to another of the same name".to_owned()));
        }
        let mut others = operations.iter().filter(|operation| operation["op"] != "test");
        if others.clone().any(|operation| operation["path"] != "/status") {
            self.check(Err(format!("more than the status was written: {body}")));
        }
        let Some(status) = others.next_back().map(|operation| operation["value"].clone()) else {
            return Answer::Code(400);
        };
        let bytes = status.to_string().len();
        if MAX_STATUS_BYTES < bytes {
            self.check(Err(format!("growth: a status of {bytes} bytes")));
        }
        self.tell(|| {
            let decision = &status["decision"];
            let reasons: Vec<&str> = decision["reasons"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|one| one["code"].as_str())
                .collect();
            format!(
                "operator {operator} writes status: {} -> {} {reasons:?}, {bytes} bytes",
                decision["from"], decision["to"]
            )
        });
        self.set_status(*place, &status);
        self.seats[operator].sights[*place].persist(&mut self.places[*place].record);
        let spec = json!({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "maxReplicas": 40, "objective": {"latency": {"targetMilliseconds": 250}}});
        Answer::Json(json!({"apiVersion": "rlscaler.io/v1alpha1", "kind": "RLReplicaPolicy",
            "metadata": {"name": self.places[*place].workload.name, "namespace": "shop"}, "spec": spec}))
    }

    fn write_event(&mut self, operator: usize, asked: &Asked) -> Answer {
        let Asked { place, body, .. } = asked;
        let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
        let (reason, action, note) = (text("reason"), text("action"), text("note"));
        let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if self.events.contains(&name) {
            return Answer::Code(409);
        }
        let acceptable = !reason.is_empty()
            && (1..=MAX_ACTION_BYTES).contains(&action.len())
            && (1..=MAX_NOTE_BYTES).contains(&note.len());
        if !acceptable {
            self.check(Err(format!("an event the API server refuses: {body}")));
        }
        self.tell(|| format!("operator {operator} tells {reason} {action}: {note}"));
        if reason == "SuccessfulRescale" {
            let alone = DOUBT_SECS < self.now_secs() - self.doubtful_secs;
            let verdict = self.places[*place].record.tell(&action, alone);
            self.check(verdict);
            let cause = note.split_once("reason: ").map_or("", |(_, cause)| cause.trim());
            if cause.is_empty() {
                self.check(Err(format!("a scaling without a cause: {note:?}")));
            }
        }
        self.events.insert(name);
        Answer::Json(body.clone())
    }

    /// An operator's clock, seconds since the beginning.
    pub(crate) fn clock_secs(&self, operator: usize) -> f64 {
        self.now_secs() + self.seats[operator].clock_offset_secs
    }
}

/// A JSON patch on a Scale as the API server applies it: 0 replicas are no field at all, `test` for null finds that so.
fn patched(replicas: u32, patch: &Value) -> Result<u32, u16> {
    let mut field = if replicas == 0 { Value::Null } else { Value::from(replicas) };
    for operation in patch.as_array().into_iter().flatten() {
        if operation["path"] != "/spec/replicas" {
            return Err(403);
        }
        match operation["op"].as_str() {
            Some("test") if field != operation["value"] => return Err(422),
            Some("test") => {}
            Some("replace") if field.is_null() => return Err(422),
            Some("replace" | "add") => field = operation["value"].clone(),
            _ => return Err(400),
        }
    }
    field.as_u64().and_then(|replicas| u32::try_from(replicas).ok()).ok_or(422)
}
