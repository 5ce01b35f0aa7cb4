//! Everything a demo needs, up and running: the chart, both services, their traffic, both scalers. In: a cluster. Out:
//! a [`Stage`] on which the trace may begin, both scalers having decided once and from the same replicas.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, Config};
use rlscaler_world::{Workload, WorkloadNow, World, WorldOptions};
use serde_json::Value;
use tokio::task::block_in_place;

use super::manifests::{self, HPA, NAMESPACE, POLICY};
use super::operator::{self, Operator};
use super::plan::Plan;
use super::policy_status;
use crate::cluster::{Cluster, ScrapeJob};

/// Longest time for the services to calm down, or for both scalers to decide once; wall time: at K = 1 a start-up and
/// two minutes, and as much again on a busy machine.
const PATIENCE: Duration = Duration::from_secs(420);

/// Between two looks while waiting, wall time.
const LOOK: Duration = Duration::from_millis(200);

/// A service has calmed down when less than this share of its last minute was late.
const CALM_LATE_RATIO: f64 = 0.01;

/// How long it must have been so, trace time: longer than every window.
const CALM_SECS: f64 = 60.0;

/// The running demo.
pub(super) struct Stage<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) plan: &'a Plan,
    pub(super) world: World,
    operator: Mutex<Operator>,
    policies: Api<DynamicObject>,
}

/// What there is to see at one moment.
pub(super) struct Glance {
    pub(super) trace_secs: f64,
    /// Requests per trace second.
    pub(super) rate: f64,
    /// The policy's workload, then the HPA's.
    pub(super) workloads: Vec<WorkloadNow>,
    /// Price of a replica for an hour of the trace.
    pub(super) price: f64,
    /// The policy's last reason.
    pub(super) reason: String,
}

impl<'a> Stage<'a> {
    /// Sets the stage, telling each step.
    ///
    /// # Errors
    /// When a step fails; the operator's own failure is told with its log.
    pub(super) async fn set(plan: &'a Plan, cluster: &'a Cluster, program: &Path) -> Result<Self> {
        eprintln!("installing the chart with helm ...");
        block_in_place(|| operator::install_chart(cluster))?;
        eprintln!("starting the services and their traffic ...");
        block_in_place(|| cluster.apply(&manifests::services(plan).to_string()))?;
        let client = client(cluster).await?;
        let world = start_world(plan, client.clone()).await?;
        block_in_place(|| {
            cluster
                .scrape(&[ScrapeJob::new("world", &format!("127.0.0.1:{}", world.service_metrics_port()))])?;
            cluster.aggregate_api("metrics.k8s.io", "v1beta1", world.resource_metrics_port())
        })?;
        await_calm(&world).await?;
        eprintln!("starting both scalers ...");
        for object in [manifests::policy(plan), manifests::hpa(plan)] {
            block_in_place(|| cluster.apply(&object.to_string()))?;
        }
        let operator = Mutex::new(block_in_place(|| Operator::start(program, plan, cluster))?);
        let kind = GroupVersionKind::gvk("rlscaler.io", "v1alpha1", "RLReplicaPolicy");
        let resource = ApiResource::from_gvk_with_plural(&kind, "rlreplicapolicies");
        let policies = Api::namespaced_with(client, NAMESPACE, &resource);
        let stage = Self { cluster, plan, world, operator, policies };
        stage.await_first_decisions().await?;
        Ok(stage)
    }

    /// The policy as the server has it.
    pub(super) async fn policy(&self) -> Result<Value> {
        self.operator.lock().expect("nobody panics while holding the operator").check()?;
        let policy = self.policies.get(POLICY).await.context("reading the policy")?;
        serde_json::to_value(policy).context("reading the policy")
    }

    /// What there is to see now.
    pub(super) async fn glance(&self) -> Result<Glance> {
        let policy = self.policy().await?;
        Ok(Glance {
            trace_secs: self.world.trace_secs(),
            rate: self.world.rate(),
            workloads: self.world.now(),
            price: self.plan.profile.price_per_replica_hour,
            reason: policy_status::reason(&policy),
        })
    }

    /// For `--keep`.
    pub(super) fn how_to_look_around(&self) -> String {
        let kubectl = self.cluster.programs().kubectl.display().to_string();
        let operator_log =
            self.operator.lock().expect("nobody panics while holding the operator").log().to_owned();
        format!(
            "\nStill running; Ctrl-C ends it. In another terminal:\n  export KUBECONFIG={}\n  \
             alias kubectl={kubectl}\n  kubectl get rlrp,hpa,deployments -n {NAMESPACE}\n  kubectl describe rlrp/{POLICY} -n {NAMESPACE}\n  \
             kubectl top pods -n {NAMESPACE}\n  kubectl annotate rlrp/{POLICY} -n {NAMESPACE} rlscaler.io/pause=true\n\
             Prometheus: {}   metrics: http://127.0.0.1:{}/metrics\nThe operator logs to {}",
            self.cluster.kubeconfig().display(),
            self.cluster.prometheus_url(),
            self.world.service_metrics_port(),
            operator_log.display(),
        )
    }

    /// Both scalers must have seen the service before the trace begins to move: neither shall be late to the start.
    async fn await_first_decisions(&self) -> Result<()> {
        let began = Instant::now();
        while !policy_status::has_decided(&self.policy().await?) {
            ensure!(began.elapsed() < PATIENCE, "the policy has decided nothing in {} s", PATIENCE.as_secs());
            tokio::time::sleep(LOOK).await;
        }
        let timeout = format!("--timeout={}s", PATIENCE.as_secs());
        let hpa = format!("hpa/{HPA}");
        let active = ["wait", "--for=condition=ScalingActive", &hpa, "--namespace", NAMESPACE, &timeout];
        block_in_place(|| self.cluster.kubectl_ok(&active)).context("the HPA has decided nothing")?;
        Ok(())
    }
}

/// An administrator's client.
///
/// # Errors
/// When the cluster's kubeconfig cannot be used.
pub async fn client(cluster: &Cluster) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig()).context("reading the kubeconfig")?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Client::try_from(config).context("making a client")
}

async fn start_world(plan: &Plan, client: Client) -> Result<World> {
    let trace = plan.trace.clone();
    World::start(WorldOptions {
        client,
        workloads: vec![Workload::new(NAMESPACE, POLICY), Workload::new(NAMESPACE, HPA)],
        model: plan.profile.service.clone(),
        load: Arc::new(move |secs| trace.rate_at(secs)),
        speed: f64::from(plan.speed),
        seed: plan.seed,
    })
    .await
}

/// While the first pods start nobody is served; both services begin once that is behind them, and out of the windows
/// that either scaler looks at.
async fn await_calm(world: &World) -> Result<()> {
    let began = Instant::now();
    let mut calm_since_secs = None;
    loop {
        let workloads = world.now();
        let now_secs = workloads.first().map_or(0.0, |workload| workload.score.secs);
        if !workloads.iter().all(is_calm) {
            calm_since_secs = None;
        } else if CALM_SECS <= now_secs - *calm_since_secs.get_or_insert(now_secs) {
            return Ok(());
        }
        ensure!(began.elapsed() < PATIENCE, "the services have not calmed down in {} s", PATIENCE.as_secs());
        tokio::time::sleep(LOOK).await;
    }
}

fn is_calm(workload: &WorkloadNow) -> bool {
    let complete = 0 < workload.wanted && workload.ready == workload.wanted;
    complete && workload.p95_secs.is_some() && workload.late_ratio < CALM_LATE_RATIO
}

#[cfg(test)]
mod tests {
    use super::*;
    use rlscaler_world::Score;

    #[test]
    fn a_service_is_calm_when_all_its_pods_serve_and_nobody_is_late() {
        let score = Score {
            offered: 0,
            late_ratio: 0.0,
            replica_hours: 0.0,
            changes: 0,
            p95_secs: None,
            min_replicas: 0,
            max_replicas: 0,
            secs: 0.0,
        };
        let calm =
            WorkloadNow { wanted: 5, ready: 5, existing: 5, p95_secs: Some(0.1), late_ratio: 0.0, score };
        assert!(is_calm(&calm));
        // Nobody is late yet in the first seconds of an overload.
        assert!(!is_calm(&WorkloadNow { ready: 4, ..calm.clone() }));
        assert!(!is_calm(&WorkloadNow { wanted: 0, ready: 0, ..calm.clone() }));
        assert!(!is_calm(&WorkloadNow { p95_secs: None, ..calm.clone() }));
        assert!(!is_calm(&WorkloadNow { late_ratio: 0.01, ..calm }));
    }
}
