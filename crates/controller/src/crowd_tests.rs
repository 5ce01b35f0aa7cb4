//! Thousands of policies at once, and their coming and going, against an API server that answers after 5 ms and
//! sources that answer after 50 ms. Time is simulated, so that lateness is what the operator's own limits make of these
//! answers; the computing it costs is measured beside it, in seconds of one core.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode};
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::client::Body;
use kube::core::DeserializeGuard;
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector;
use kube::runtime::watcher::{self, Event};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use rlscaler_core::{PlannerOnly, Signals};
use rlscaler_signals::request::{SignalRequest, Tick};
use rlscaler_signals::{Fixed, HistoryReport, HistoryWindow, ReadSignals, SignalReport};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Guarded, drive, guarded_tick};
use crate::context::{Context, Health, States};
use crate::fake::{Stage, fresh};
use crate::metrics::Metrics;
use crate::models::LoadedModel;

const API_ANSWER: Duration = Duration::from_millis(5);
const SOURCE_ANSWER: Duration = Duration::from_millis(50);
const EPOCH_SECS: i64 = 1_800_000_000;
/// Requests/s of every service: the work of about two busy pods.
const QPS: f64 = 160.0;

/// An API server with a Deployment for every policy.
#[derive(Default)]
struct Server {
    replicas: Mutex<HashMap<String, u32>>,
    policies: Mutex<HashMap<String, Value>>,
    watch: Mutex<Option<UnboundedSender<watcher::Result<Event<Guarded>>>>>,
    reads: AtomicU64,
    statuses: AtomicU64,
    scales: AtomicU64,
    events: AtomicU64,
    in_flight: AtomicU64,
    most_in_flight: AtomicU64,
}

impl Server {
    fn send(&self, event: Event<Guarded>) {
        let watch = self.watch.lock().unwrap();
        watch.as_ref().expect("watched").unbounded_send(Ok(event)).expect("somebody watches");
    }

    fn guarded(policy: &Value) -> Guarded {
        DeserializeGuard(Ok(serde_json::from_value(policy.clone()).unwrap()))
    }

    fn add(&self, name: &str, uid: &str, interval_secs: u32) {
        let policy = json!({
            "apiVersion": "rlscaler.io/v1alpha1", "kind": "RLReplicaPolicy",
            "metadata": {"name": name, "namespace": "shop", "uid": uid, "generation": 1,
                "creationTimestamp": "2026-11-30T06:00:00Z"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
                "minReplicas": 1, "maxReplicas": 40, "mode": "Auto", "intervalSeconds": interval_secs,
                "objective": {"latency": {"targetMilliseconds": 250}},
                "signals": {
                    "qps": {"prometheus": {"source": "default", "query": "q"}},
                    "latency": {"prometheus": {"source": "default", "query": "l"}},
                    "cpu": {"none": {}},
                },
                "capacity": {"concurrency": 4, "serviceMilliseconds": 50}, "startupSeconds": 15,
            },
        });
        self.replicas.lock().unwrap().insert(name.to_owned(), 2);
        self.send(Event::Apply(Self::guarded(&policy)));
        self.policies.lock().unwrap().insert(name.to_owned(), policy);
    }

    fn delete_all(&self) {
        for (name, policy) in self.policies.lock().unwrap().drain() {
            self.replicas.lock().unwrap().remove(&name);
            self.send(Event::Delete(Self::guarded(&policy)));
        }
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let busy = self.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
        self.most_in_flight.fetch_max(busy, Ordering::Relaxed);
        tokio::time::sleep(API_ANSWER).await;
        let (head, body) = request.into_parts();
        let body = body.collect_bytes().await.unwrap();
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let answer =
            self.answered(&head.method, head.uri.path(), head.uri.query().unwrap_or_default(), &body);
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        let (status, answer) = match answer {
            Some(answer) => (StatusCode::OK, answer),
            None => (StatusCode::NOT_FOUND, json!({"kind": "Status", "status": "Failure", "code": 404})),
        };
        Response::builder().status(status).body(Body::from(serde_json::to_vec(&answer).unwrap())).unwrap()
    }

    fn answered(&self, method: &Method, path: &str, query: &str, body: &Value) -> Option<Value> {
        let parts: Vec<&str> = path.split('/').collect();
        let last = *parts.last()?;
        let owner = parts[parts.len() - 2];
        let counter = match (method, last) {
            (&Method::GET, _) => &self.reads,
            (_, "status") => &self.statuses,
            (_, "scale") => &self.scales,
            _ => &self.events,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        // `labelSelector=app%3DNAME`
        let selected = query.split('&').find_map(|pair| pair.strip_prefix("labelSelector=app%3D"));
        match (method, last) {
            (&Method::GET, "pods") => {
                let name = selected?;
                let replicas = *self.replicas.lock().unwrap().get(name)?;
                Some(json!({"items": (0..replicas).map(|index| pod(name, index)).collect::<Vec<_>>()}))
            }
            (&Method::GET, "replicasets") => {
                let name = selected?;
                Some(json!({"items": [{"metadata": {"name": name, "uid": format!("rs-{name}"),
                    "ownerReferences": [reference("Deployment", &format!("uid-{name}"))]}}]}))
            }
            (&Method::GET, "scale") => self.scale(owner),
            (&Method::PATCH, "scale") => {
                let to = u32::try_from(body[1]["value"].as_u64()?).ok()?;
                *self.replicas.lock().unwrap().get_mut(owner)? = to;
                self.scale(owner)
            }
            (&Method::PATCH, "status") => {
                let mut policies = self.policies.lock().unwrap();
                let policy = policies.get_mut(owner)?;
                policy["status"] = body[1]["value"].clone();
                let policy = policy.clone();
                self.send(Event::Apply(Self::guarded(&policy)));
                Some(policy)
            }
            (&Method::POST, "events") => Some(body.clone()),
            other => panic!("unexpected request {other:?} {path}"),
        }
    }

    fn scale(&self, name: &str) -> Option<Value> {
        let replicas = *self.replicas.lock().unwrap().get(name)?;
        Some(json!({"apiVersion": "autoscaling/v1", "kind": "Scale",
            "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}")},
            "spec": {"replicas": replicas}, "status": {"replicas": replicas, "selector": format!("app={name}")}}))
    }

    /// Statuses, scales and events written so far.
    fn writes(&self) -> [u64; 3] {
        [&self.statuses, &self.scales, &self.events].map(|counter| counter.load(Ordering::Relaxed))
    }
}

fn pod(name: &str, index: u32) -> Value {
    json!({"metadata": {"name": format!("{name}-{index}"), "uid": format!("pod-{name}-{index}"),
            "creationTimestamp": "2027-01-15T07:00:00Z", "ownerReferences": [reference("ReplicaSet", &format!("rs-{name}"))]},
        "spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": "Running", "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2027-01-15T07:00:10Z"}]}})
}

fn reference(kind: &str, uid: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": kind, "name": "x", "uid": uid, "controller": true})
}

/// Sources that take their time.
struct Sources;

impl ReadSignals for Sources {
    fn read<'a>(&'a self, _: &'a SignalRequest, _: Tick<'a>) -> BoxFuture<'a, SignalReport> {
        Box::pin(async {
            tokio::time::sleep(SOURCE_ANSWER).await;
            let signals = Signals { qps: fresh(QPS), latency: fresh(0.08), ..Signals::default() };
            Fixed::new(signals).report
        })
    }

    fn history<'a>(
        &'a self,
        _: &'a SignalRequest,
        _: Timestamp,
        _: HistoryWindow,
    ) -> BoxFuture<'a, HistoryReport> {
        Box::pin(async {
            tokio::time::sleep(SOURCE_ANSWER).await;
            HistoryReport::default()
        })
    }
}

/// The operator, its API server, and what it tells.
struct Crowd {
    server: Arc<Server>,
    ctx: Arc<Context>,
    registry: Registry,
}

impl Crowd {
    fn start() -> Self {
        let server = Arc::new(Server::default());
        let (send, receive) = unbounded();
        *server.watch.lock().unwrap() = Some(send);
        let service = tower::service_fn({
            let server = server.clone();
            move |request| {
                let server = server.clone();
                async move { Ok::<_, Infallible>(server.answer(request).await) }
            }
        });
        let (reader, writer) = reflector::store::<Guarded>();
        let began = Instant::now();
        let mut registry = Registry::default();
        let base =
            Stage::new(0.0).operator_with(LoadedModel { policy: Arc::new(PlannerOnly), trained: false });
        let clock = move || {
            let passed = SignedDuration::try_from(began.elapsed()).unwrap();
            Timestamp::from_second(EPOCH_SECS).unwrap() + passed
        };
        let ctx = Arc::new(Context {
            client: Client::new(service, "shop"),
            signals: Arc::new(Sources),
            metrics: Metrics::register(&mut registry),
            clock: Arc::new(clock),
            steady: Arc::new(move || began.elapsed()),
            policies: reader,
            states: States::default(),
            ..base
        });
        let events = receive.reflect(writer);
        let never = (Box::pin(std::future::pending()) as BoxFuture<'static, ()>).shared();
        let health = Arc::new(Health::default());
        tokio::spawn(drive(ctx.clone(), events, health, never, |policy, ctx| {
            guarded_tick(policy, ctx).boxed()
        }));
        server.send(Event::Init);
        server.send(Event::InitDone);
        Self { server, ctx, registry }
    }

    fn arrive(&self, count: usize, round: usize, interval_secs: u32) {
        (0..count).for_each(|n| self.server.add(&format!("p-{n}"), &format!("{round}-{n}"), interval_secs));
    }

    fn scrape(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).unwrap();
        text
    }

    /// Decisions so far by their lateness in seconds: how many came at most so late.
    fn lateness(&self) -> BTreeMap<String, f64> {
        let text = self.scrape();
        let prefix = "rlscaler_decision_lateness_seconds_bucket{le=\"";
        let buckets = text.lines().filter_map(|line| line.strip_prefix(prefix)?.split_once("\"} "));
        buckets.map(|(bound, count)| (bound.to_owned(), count.parse().unwrap())).collect()
    }
}

/// Runs one test in simulated time, alone: these tests look at what the process uses.
fn alone<T>(test: impl Future<Output = T>) -> T {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().start_paused(true).build().unwrap().block_on(test)
}

/// Seconds this thread has computed.
fn cpu_secs() -> f64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}

/// Memory of this process, MiB.
fn resident_mib() -> f64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<f64>().unwrap() * 4096.0 / 1024.0 / 1024.0
}

// Case 67.
#[test]
fn thousands_of_policies_are_decided_in_time_with_few_writes_by_one_core() {
    for (count, periods) in [(1_000_usize, 4_u32), (5_000, 4)] {
        alone(async {
            let crowd = Crowd::start();
            crowd.arrive(count, 0, 15);
            // Until all have settled: each is scaled once or twice at first.
            tokio::time::sleep(Duration::from_secs(60)).await;
            let (writes, reads) = (crowd.server.writes(), crowd.server.reads.load(Ordering::Relaxed));
            let (late, cpu) = (crowd.lateness(), cpu_secs());
            tokio::time::sleep(Duration::from_secs(15) * periods).await;
            let used = (cpu_secs() - cpu) / f64::from(periods);
            let decided = |bound: &str| crowd.lateness()[bound] - late[bound];
            let all = decided("+Inf");
            let share = |bound: &str| decided(bound) / all;
            let after = crowd.server.writes();
            let [statuses, scales, events] = [0, 1, 2].map(|n| (after[n] - writes[n]) as f64 / all);
            let reads = (crowd.server.reads.load(Ordering::Relaxed) - reads) as f64 / all;
            let most = crowd.server.most_in_flight.load(Ordering::Relaxed);
            println!(
                "{count} policies: {all} decisions in {periods} periods, {:.1} % within 0.1 s, {:.1} % within 1 s; of \
                 each decision {reads:.2} reads, {statuses:.3} statuses, {scales:.3} scales, {events:.3} events; at \
                 most {most} calls at once; {used:.2} s of one core in a period of 15 s",
                100.0 * share("0.1"),
                100.0 * share("1.0"),
            );
            assert!(0.95 * (count as f64) * f64::from(periods) <= all, "{all} decisions");
            assert!(0.99 <= share("1.0"), "99 % are less than a second late");
            assert!(statuses <= 0.26, "a status a minute at most while nothing changes: {statuses}");
            assert!(scales + events <= 0.01, "{scales} scales and {events} events");
            assert!(reads <= 2.1, "{reads} reads: the scale and the pods");
            assert!(most <= 2 * 64, "{most} calls at once");
            assert!(used < 15.0, "one core keeps up");
        });
    }
}

// Case 68.
#[test]
fn ten_thousand_policies_that_came_and_went_leave_nothing_behind() {
    const POLICIES: usize = 10_000;
    alone(async {
        let crowd = Crowd::start();
        let mut resident = Vec::new();
        for round in 0..2 {
            crowd.arrive(POLICIES, round, 300);
            tokio::time::sleep(Duration::from_secs(60)).await;
            assert_eq!(crowd.ctx.states.len(), POLICIES, "round {round}");
            let full = resident_mib();
            crowd.server.delete_all();
            // Past the last tick that was planned for any of them.
            tokio::time::sleep(Duration::from_secs(400)).await;
            resident.push(resident_mib());
            println!(
                "round {round}: {full:.0} MiB with {POLICIES} policies, {:.0} MiB after",
                resident[round]
            );
            assert!(crowd.ctx.states.is_empty(), "{} states", crowd.ctx.states.len());
            assert!(crowd.ctx.claims.is_empty());
            assert!(crowd.ctx.policies.is_empty());
            assert!(!crowd.scrape().contains("shop"), "no series");
            assert_eq!(crowd.server.in_flight.load(Ordering::Relaxed), 0, "no call is left open");
        }
        assert!(crowd.server.most_in_flight.load(Ordering::Relaxed) <= 2 * 64);
        assert!(resident[1] - resident[0] < 100.0, "it grows: {resident:?} MiB");
    });
}
