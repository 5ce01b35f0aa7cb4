//! Starts a control plane, sets many scenes on it, and collects the decisions of the real HPA until there are enough.

use std::fs::File;
use std::io::Read;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use futures::future::try_join_all;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Unit};
use rlscaler_sim::recorded_hpa::{Controller, Decision, Line};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::{JoinSet, block_in_place};

use super::driver::{Driver, Live};
use super::log;
use super::scene::Scene;
use crate::cluster::{Cluster, ClusterOptions, HpaOptions, NodeOptions};
use crate::demo::stage;

/// Decisions each service is good for: a few windows and periods pass by.
const DECISIONS_EACH: usize = 12;

/// Fewer would not be of many kinds; more at once would wait for each other on a small machine.
const SERVICES: RangeInclusive<usize> = 8..=48;

/// Longest time without any decision, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks into the controller's log.
const LOOK: Duration = Duration::from_millis(20);

/// Between two syncs of an HPA.
const SYNC_PERIOD: Duration = Duration::from_millis(1200);

/// The controller's log tells the moment of each sync; a sync that we keep waiting must not keep others waiting; and
/// Deployments and pods must stay as we make them.
const CONTROLLER_FLAGS: [&str; 3] = [
    "--vmodule=horizontal=4",
    "--concurrent-horizontal-pod-autoscaler-syncs=100",
    "--controllers=-deployment-controller,-pod-garbage-collector-controller,-garbage-collector-controller",
];

/// The recording: one JSON object a line, grouped by service.
///
/// # Errors
/// When the control plane does not start, refuses an object, or stops deciding.
pub(super) async fn record(seed: u64, decisions: usize) -> Result<String> {
    let hpa = HpaOptions {
        sync_period: SYNC_PERIOD,
        downscale_stabilization: Duration::from_secs(3),
        cpu_initialization_period: Duration::from_secs(120),
        ..HpaOptions::default()
    };
    let mut flags = Controller {
        kubernetes: String::new(),
        seed,
        tolerance: hpa.tolerance,
        cpu_initialization_secs: hpa.cpu_initialization_period.as_secs_f64(),
        initial_readiness_secs: hpa.initial_readiness_delay.as_secs_f64(),
        down_window_secs: hpa.downscale_stabilization.as_secs_f64(),
    };
    let options = ClusterOptions {
        hpa,
        nodes: NodeOptions { count: 0, ..NodeOptions::default() },
        prometheus: None,
        controller_manager_flags: CONTROLLER_FLAGS.map(str::to_owned).to_vec(),
        ..ClusterOptions::default()
    };
    let cluster = block_in_place(|| Cluster::start(&options))?;
    let client = stage::client(&cluster).await?;
    flags.kubernetes = client.apiserver_version().await.context("asking for the version")?.git_version;
    let began = Timestamp::now().round(Unit::Second).context("rounding the time")?;
    let services = decisions.div_ceil(DECISIONS_EACH).clamp(*SERVICES.start(), *SERVICES.end());
    let mut lives = Vec::new();
    for number in 0..services {
        lives.push(Mutex::new(Live::new(Scene::new(&flags, number, 0))));
    }
    let driver = Arc::new(Driver { client, began, lives });
    let (port, serving) = rlscaler_world::https(router(driver.clone())).await?;
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { serving.await.context("serving metrics") });
    block_in_place(|| cluster.aggregate_api("metrics.k8s.io", "v1beta1", port))?;
    try_join_all((0..services).map(|number| driver.set(number))).await?;

    let log = cluster.component("kube-controller-manager")?.log().to_owned();
    let found = collect(&driver, &log, decisions, &mut tasks).await?;
    Ok(written(&driver, flags, found))
}

/// Follows the log and leads every service from sync to sync, until there are enough sure decisions.
async fn collect(
    driver: &Arc<Driver>,
    log: &Path,
    enough: usize,
    tasks: &mut JoinSet<Result<()>>,
) -> Result<Vec<Decision>> {
    let (decided, mut decisions) = mpsc::unbounded_channel();
    let mut senders = Vec::new();
    for number in 0..driver.lives.len() {
        let (sender, entries) = mpsc::unbounded_channel();
        senders.push(sender);
        tasks.spawn(driver.clone().lead(number, entries, decided.clone()));
    }
    let mut tail = Tail::new(log)?;
    let (mut found, mut sure): (Vec<Decision>, usize) = (Vec::new(), 0);
    let mut looks = tokio::time::interval(LOOK);
    let mut last = tokio::time::Instant::now();
    while sure < enough {
        tokio::select! {
            Some(decision) = decisions.recv() => {
                let decision: Decision = decision;
                sure += usize::from(decision.unsure == Default::default());
                found.push(decision);
                last = tokio::time::Instant::now();
            }
            Some(ended) = tasks.join_next() => {
                ended.context("a task")??;
                bail!("the recorder ended before it had enough");
            }
            _ = looks.tick() => {
                for entry in tail.entries()? {
                    // A service without a task has its error in `tasks`.
                    senders.get(entry.service).map(|sender| sender.send(entry));
                }
            }
        }
        if PATIENCE < last.elapsed() {
            bail!("the controller decided nothing for {} s, see {}", PATIENCE.as_secs(), log.display());
        }
    }
    tasks.shutdown().await;
    Ok(found)
}

fn written(driver: &Driver, flags: Controller, mut decisions: Vec<Decision>) -> String {
    decisions.sort_by_key(|decision| decision.service); // stable: a service's stay in order
    let mut lines = vec![Line::Controller(flags)];
    let mut service = None;
    for decision in decisions {
        if service != Some(decision.service) {
            service = Some(decision.service);
            lines.push(Line::Service(driver.live(decision.service).scene.service.clone()));
        }
        lines.push(Line::Decision(decision));
    }
    lines.iter().map(|line| format!("{}\n", json!(line))).collect()
}

/// What was written to a log since the last look.
struct Tail {
    file: File,
    unfinished: String,
    zone: TimeZone,
    year: i16,
}

impl Tail {
    fn new(log: &Path) -> Result<Self> {
        let file = File::open(log).with_context(|| format!("opening {}", log.display()))?;
        let zone = TimeZone::system();
        let year = Timestamp::now().to_zoned(zone.clone()).year();
        Ok(Self { file, unfinished: String::new(), zone, year })
    }

    fn entries(&mut self) -> Result<Vec<log::Entry>> {
        self.file.read_to_string(&mut self.unfinished).context("reading the controller's log")?;
        let finished = self.unfinished.rfind('\n').map_or(0, |end| end + 1);
        let rest = self.unfinished.split_off(finished);
        let lines = std::mem::replace(&mut self.unfinished, rest);
        Ok(lines.lines().filter_map(|line| log::parse(line, self.year, &self.zone)).collect())
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Selected {
    #[serde(default)]
    label_selector: String,
}

fn router(driver: Arc<Driver>) -> Router {
    let root = "/apis/metrics.k8s.io/v1beta1";
    let resources = json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": "metrics.k8s.io/v1beta1",
        "resources": [{"name": "pods", "singularName": "", "namespaced": true, "kind": "PodMetrics", "verbs": ["get", "list"]}],
    });
    Router::new()
        .route(root, get(async move || Json(resources)))
        .route(&format!("{root}/namespaces/default/pods"), get(pods))
        .with_state(driver)
}

async fn pods(State(driver): State<Arc<Driver>>, Query(selected): Query<Selected>) -> Response {
    let Some(number) = log::number(&selected.label_selector).filter(|number| *number < driver.lives.len())
    else {
        return StatusCode::NOT_FOUND.into_response();
    };
    match driver.serve(number).await {
        Some(metrics) => Json(metrics).into_response(),
        None => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
