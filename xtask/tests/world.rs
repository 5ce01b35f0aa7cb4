//! The world emulator against the real HPA and the real kubectl, in a cluster of its own.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]
use std::sync::Arc;

use rlscaler_sim::model::ServiceModel;
use rlscaler_world::{Workload, World, WorldOptions};
use serde_json::{Value, json};
use xtask::cluster::{Cluster, ClusterOptions};
use xtask::demo::manifests::{self, NAMESPACE, Service};
use xtask::demo::stage;

/// Long enough for a busy machine; each wait takes seconds.
const TIMEOUT: &str = "--timeout=180s";
const SPEED: f64 = 5.0;
/// 2.7 of the service's pods busy: at 60 % CPU the HPA wants 4.5, so 5, with room for the noise on both sides.
const RATE: f64 = 216.0;
const BUSY_CORES: f64 = 1.35;
const SEED: u64 = 11;

fn hpa() -> Value {
    json!({
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": NAMESPACE},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 1,
            "maxReplicas": 20,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}}],
        },
    })
}

fn wait(cluster: &Cluster, condition: &str, object: &str) {
    cluster.kubectl_ok(&["wait", condition, object, "--namespace", NAMESPACE, TIMEOUT]).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_real_hpa_scales_from_our_metrics_and_kubectl_top_prints_them() {
    println!("seed {SEED}");
    let options = ClusterOptions { prometheus: None, ..ClusterOptions::default().sped_up(SPEED) };
    let cluster = Cluster::start(&options).unwrap();
    cluster.kubectl_ok(&["create", "namespace", NAMESPACE]).unwrap();
    let web = manifests::deployment(Service { name: "web", replicas: 3, startup_wall_ms: (500, 500) });
    cluster.apply(&web.to_string()).unwrap();
    let world = World::start(WorldOptions {
        client: stage::client(&cluster).await.unwrap(),
        workloads: vec![Workload::new(NAMESPACE, "web")],
        model: ServiceModel::new(4, 0.05, 0.25),
        load: Arc::new(|_| RATE),
        speed: SPEED,
        seed: SEED,
    })
    .await
    .unwrap();
    cluster.aggregate_api("metrics.k8s.io", "v1beta1", world.resource_metrics_port()).unwrap();
    cluster.apply(&hpa().to_string()).unwrap();

    wait(&cluster, "--for=jsonpath={.status.currentReplicas}=5", "hpa/web");
    wait(&cluster, "--for=jsonpath={.status.readyReplicas}=5", "deployment/web");
    assert_eq!(world.now()[0].wanted, 5);

    let top = cluster.kubectl_ok(&["top", "pods", "--namespace", NAMESPACE, "--no-headers"]).unwrap();
    let millicores: f64 = top.lines().map(|line| millicores(line, 1)).sum();
    assert!((millicores / 1000.0 / BUSY_CORES - 1.0).abs() < 0.3, "{top}");
    let nodes = cluster.kubectl_ok(&["top", "nodes", "--no-headers"]).unwrap();
    assert!(nodes.lines().any(|line| 0.0 < millicores_or_zero(line, 1)), "{nodes}");

    world.hide_resource_metrics();
    wait(&cluster, "--for=condition=ScalingActive=False", "hpa/web");
    world.show_resource_metrics();
    wait(&cluster, "--for=condition=ScalingActive=True", "hpa/web");
}

fn millicores(line: &str, column: usize) -> f64 {
    let field = line.split_whitespace().nth(column).unwrap();
    field.strip_suffix('m').unwrap().parse().unwrap()
}

fn millicores_or_zero(line: &str, column: usize) -> f64 {
    let field = line.split_whitespace().nth(column).unwrap_or_default();
    field.strip_suffix('m').and_then(|field| field.parse().ok()).unwrap_or(0.0)
}
