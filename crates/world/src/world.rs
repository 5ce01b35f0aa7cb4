//! The running world: watches the cluster, moves time, and serves what it counts. In: [`WorldOptions`]. Out: a
//! [`World`] that runs until dropped. The only file that reads a clock. It writes nothing to the cluster.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::reflector::{self, Lookup, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use rlscaler_sim::model::ServiceModel;
use rlscaler_sim::seed::Seed;
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::load::{Load, Seen, Traffic};
use crate::pods::{self, Workload};
use crate::sampling::{Moment, RESOLUTION_SECS, Sample, Sampler};
use crate::score::{Point, Score};
use crate::{exposition, serve};

/// Between two looks at the cluster, wall time: small against every delay in it, and cheap.
const TICK: Duration = Duration::from_millis(50);

/// What to play.
pub struct WorldOptions {
    /// A client that may list and watch Deployments, ReplicaSets and pods.
    pub client: Client,
    /// Who receives the requests; each receives all of them.
    pub workloads: Vec<Workload>,
    /// What one pod can do, in trace time.
    pub model: ServiceModel,
    /// The trace. Until it begins, its rate at time zero holds.
    pub load: Load,
    /// Trace seconds in a second of the wall. Positive.
    pub speed: f64,
    /// Decides arrivals and work.
    pub seed: u64,
}

/// One workload as it stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorkloadNow {
    /// `spec.replicas`, 0 while the Deployment is not there.
    pub wanted: u32,
    /// Pods that serve.
    pub ready: u32,
    /// Pods that exist.
    pub existing: u32,
    /// 95th percentile of the last minute, trace seconds.
    pub p95_secs: Option<f64>,
    /// Share late in the last minute.
    pub late_ratio: f64,
    /// Totals since scoring began.
    pub score: Score,
}

/// A running world; dropping it ends it.
pub struct World {
    shared: Arc<Shared>,
    service_metrics_port: u16,
    resource_metrics_port: u16,
    _tasks: JoinSet<()>,
}

/// What the ticking task writes and the servers read.
pub(crate) struct Shared {
    workloads: Vec<Workload>,
    model: ServiceModel,
    load: Load,
    speed: f64,
    state: Mutex<State>,
    service_metrics_hidden: AtomicBool,
    resource_metrics_hidden: AtomicBool,
}

struct State {
    traffic: Traffic,
    /// World time at which the trace began.
    trace_began_secs: Option<f64>,
    sampler: Sampler,
    /// Number of the last sampling period.
    sampled_period: i64,
    samples: Arc<Vec<Sample>>,
}

/// What is known of the cluster.
struct Watches {
    deployments: Store<Deployment>,
    sets: Store<ReplicaSet>,
    pods: Store<Pod>,
}

impl World {
    /// Starts to watch, to serve and to expose; returns once the cluster's present state is known.
    ///
    /// # Errors
    /// When no port can be bound or the cluster cannot be listed.
    pub async fn start(options: WorldOptions) -> Result<Self> {
        let WorldOptions { client, workloads, model, load, speed, seed } = options;
        anyhow::ensure!(speed.is_finite() && 0.0 < speed, "speed {speed} is not a positive number");
        let traffic = Traffic::new(&model, Seed(seed), workloads.len());
        let state = State {
            traffic,
            trace_began_secs: None,
            sampler: Sampler::default(),
            sampled_period: 0,
            samples: Arc::default(),
        };
        let shared = Arc::new(Shared {
            workloads,
            model,
            load,
            speed,
            state: Mutex::new(state),
            service_metrics_hidden: AtomicBool::new(false),
            resource_metrics_hidden: AtomicBool::new(false),
        });
        let mut tasks = JoinSet::new();
        let watches = Watches::start(&client, &mut tasks).await?;
        let (service_listener, service_metrics_port) = serve::listen().await?;
        let (resource_listener, resource_metrics_port) = serve::listen().await?;
        let tls = serve::self_signed()?;
        let served = Arc::clone(&shared);
        tasks.spawn(async move {
            report_end("service metrics", serve::service_metrics(service_listener, served).await)
        });
        let served = Arc::clone(&shared);
        tasks.spawn(async move {
            report_end("resource metrics", serve::resource_metrics(resource_listener, tls, served).await);
        });
        let ticking = Arc::clone(&shared);
        tasks.spawn(async move { tick_forever(&ticking, &watches).await });
        Ok(Self { shared, service_metrics_port, resource_metrics_port, _tasks: tasks })
    }

    /// Loopback port of the Prometheus text, plain HTTP, path `/metrics`.
    #[must_use]
    pub fn service_metrics_port(&self) -> u16 {
        self.service_metrics_port
    }

    /// Loopback port of `metrics.k8s.io`, HTTPS with a self-signed certificate; to be registered as an APIService.
    #[must_use]
    pub fn resource_metrics_port(&self) -> u16 {
        self.resource_metrics_port
    }

    /// From now on the trace runs and everything counts; what was before is forgotten.
    pub fn begin_trace(&self) {
        let mut state = self.shared.state();
        state.trace_began_secs = Some(state.traffic.now_secs());
        state.traffic.begin_scoring();
    }

    /// Trace seconds since the trace began; 0 before.
    #[must_use]
    pub fn trace_secs(&self) -> f64 {
        self.shared.state().trace_secs()
    }

    /// Requests per trace second offered now.
    #[must_use]
    pub fn rate(&self) -> f64 {
        let trace_secs = self.trace_secs();
        (self.shared.load)(trace_secs)
    }

    /// Each workload as it stands, in the order given.
    #[must_use]
    pub fn now(&self) -> Vec<WorkloadNow> {
        let state = self.shared.state();
        let services = state.traffic.services.iter();
        services
            .map(|service| {
                let replicas = service.seen.replicas();
                let (p95_secs, late_ratio) = service.tally.now();
                WorkloadNow {
                    wanted: replicas.wanted.unwrap_or(0),
                    ready: replicas.ready,
                    existing: replicas.existing,
                    p95_secs,
                    late_ratio,
                    score: service.tally.score(),
                }
            })
            .collect()
    }

    /// The series of each workload since scoring began, in the order given.
    #[must_use]
    pub fn series(&self) -> Vec<Vec<Point>> {
        let state = self.shared.state();
        state.traffic.services.iter().map(|service| service.tally.points()).collect()
    }

    /// A fault for tests: the Prometheus page is empty from now on.
    pub fn hide_service_metrics(&self) {
        self.shared.service_metrics_hidden.store(true, Ordering::Relaxed);
    }

    /// Ends [`World::hide_service_metrics`].
    pub fn show_service_metrics(&self) {
        self.shared.service_metrics_hidden.store(false, Ordering::Relaxed);
    }

    /// A fault for tests: the metrics API knows no pod and no node from now on.
    pub fn hide_resource_metrics(&self) {
        self.shared.resource_metrics_hidden.store(true, Ordering::Relaxed);
    }

    /// Ends [`World::hide_resource_metrics`].
    pub fn show_resource_metrics(&self) {
        self.shared.resource_metrics_hidden.store(false, Ordering::Relaxed);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves counters that are still counters.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The Prometheus page.
    pub(crate) fn exposition(&self) -> String {
        if self.service_metrics_hidden.load(Ordering::Relaxed) {
            return String::new();
        }
        let state = self.state();
        let counters = state.traffic.services.iter().map(|service| &service.counters);
        let workloads: Vec<_> = self.workloads.iter().zip(counters).collect();
        exposition::page(&workloads, &self.model, self.speed)
    }

    /// The latest CPU samples.
    pub(crate) fn samples(&self) -> Arc<Vec<Sample>> {
        if self.resource_metrics_hidden.load(Ordering::Relaxed) {
            return Arc::default();
        }
        Arc::clone(&self.state().samples)
    }

    fn tick(&self, to_secs: f64, timestamp: Timestamp, seen: Vec<Seen>) {
        let mut state = self.state();
        let rate = (self.load)(state.trace_secs());
        state.traffic.advance(to_secs, rate, seen);
        // On whole seconds of the wall where the period has them, so that cutting timestamps to seconds loses nothing.
        let period_ms = (RESOLUTION_SECS / self.speed * 1000.0).max(1.0) as i64;
        let period = timestamp.as_millisecond() / period_ms;
        if state.sampled_period < period {
            state.sampled_period = period;
            state.sample(Moment { trace_secs: to_secs, timestamp, speed: self.speed }, self.model.workers);
        }
    }
}

impl State {
    fn trace_secs(&self) -> f64 {
        self.trace_began_secs.map_or(0.0, |began_secs| self.traffic.now_secs() - began_secs)
    }

    fn sample(&mut self, moment: Moment, workers: u32) {
        let working = self
            .traffic
            .services
            .iter()
            .flat_map(|service| {
                service.seen.pods.iter().filter_map(|pod| Some((pod.clone(), service.work_of(pod)?)))
            })
            .collect();
        self.samples = Arc::new(self.sampler.sample(moment, workers, working));
    }
}

impl Watches {
    async fn start(client: &Client, tasks: &mut JoinSet<()>) -> Result<Self> {
        let watches = Self {
            deployments: watch(Api::all(client.clone()), tasks),
            sets: watch(Api::all(client.clone()), tasks),
            pods: watch(Api::all(client.clone()), tasks),
        };
        watches.deployments.wait_until_ready().await.context("listing Deployments")?;
        watches.sets.wait_until_ready().await.context("listing ReplicaSets")?;
        watches.pods.wait_until_ready().await.context("listing pods")?;
        Ok(watches)
    }

    fn see(&self, workloads: &[Workload]) -> Vec<Seen> {
        let (pods, sets) = (self.pods.state(), self.sets.state());
        let see = |workload: &Workload| {
            let key = reflector::ObjectRef::new(&workload.deployment).within(&workload.namespace);
            let wanted = self.deployments.get(&key).map(|deployment| {
                let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas);
                replicas.and_then(|replicas| u32::try_from(replicas).ok()).unwrap_or(1)
            });
            Seen { wanted, pods: pods::pods_of(workload, &pods, &sets) }
        };
        workloads.iter().map(see).collect()
    }
}

/// Keeps a local copy of all objects of one kind until the task is dropped.
fn watch<K>(api: Api<K>, tasks: &mut JoinSet<()>) -> Store<K>
where
    K: kube::Resource<DynamicType = ()>
        + Lookup<DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + Send
        + Sync
        + 'static,
    K: serde::de::DeserializeOwned,
{
    let (store, writer) = reflector::store();
    let stream = watcher(api, watcher::Config::default()).default_backoff();
    tasks.spawn(kube::runtime::reflector(writer, stream).for_each(|event| {
        if let Err(error) = event {
            tracing::warn!(%error, "the watch was interrupted and is tried again");
        }
        std::future::ready(())
    }));
    store
}

async fn tick_forever(shared: &Shared, watches: &Watches) {
    let began = Instant::now();
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        let to_secs = began.elapsed().as_secs_f64() * shared.speed;
        shared.tick(to_secs, Timestamp::now(), watches.see(&shared.workloads));
    }
}

fn report_end(server: &str, ended: std::io::Result<()>) {
    if let Err(error) = ended {
        tracing::error!(%error, server, "the server ended");
    }
}
