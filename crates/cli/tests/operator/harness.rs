//! What every real-cluster test of the operator stands on: one cluster with the chart in it, shared while any test
//! uses it; a namespace, a scripted Prometheus and an operator process for each test.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use xtask::cluster::{Cluster, ClusterOptions, process};

use crate::scripted_prometheus::{Answer, ScriptedPrometheus};

/// Where the chart puts the operator's ServiceAccount.
const SYSTEM_NAMESPACE: &str = "rlscaler";
/// No test waits longer than this for the cluster to show something.
const PATIENCE: Duration = Duration::from_secs(90);
/// Between two looks at the cluster.
const LOOK: Duration = Duration::from_millis(100);
/// The operator's clock-independent constants run this many times faster, so that windows of minutes pass in seconds.
const TIME_FACTOR: &str = "15";

/// The cluster, with the chart installed.
pub(crate) struct Site {
    pub(crate) cluster: Cluster,
    pub(crate) service_account: PathBuf,
}

/// The site, made by the first test that asks and gone with the last that holds it.
pub(crate) fn site() -> Arc<Site> {
    static SITE: Mutex<Weak<Site>> = Mutex::new(Weak::new());
    // A test that failed while it made the site has told why; the next one tries again.
    let mut shared = SITE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(site) = shared.upgrade() {
        return site;
    }
    let cluster = Cluster::start(&ClusterOptions { prometheus: None, ..ClusterOptions::default() }).unwrap();
    let chart = root().join("charts/rlscaler");
    cluster
        .helm(&[
            "install",
            "rlscaler",
            chart.to_str().unwrap(),
            "--namespace",
            SYSTEM_NAMESPACE,
            "--create-namespace",
        ])
        .unwrap();
    cluster
        .kubectl_ok(&[
            "wait",
            "--for=condition=Established",
            "crd/rlreplicapolicies.rlscaler.io",
            "--timeout=60s",
        ])
        .unwrap();
    let service_account = cluster.kubeconfig_for_service_account(SYSTEM_NAMESPACE, "rlscaler").unwrap();
    let site = Arc::new(Site { cluster, service_account });
    *shared = Arc::downgrade(&site);
    site
}

/// The workspace.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// One test's part of the cluster.
pub(crate) struct Scene {
    pub(crate) site: Arc<Site>,
    pub(crate) namespace: &'static str,
    pub(crate) prometheus: ScriptedPrometheus,
}

impl Scene {
    /// A namespace with a Deployment `web` of 2 replicas, and a Prometheus that tells 40 requests/s at 80 ms.
    pub(crate) fn new(namespace: &'static str) -> Self {
        let site = site();
        site.cluster.kubectl_ok(&["create", "namespace", namespace]).unwrap();
        // Each operator of a test leads in its own namespace; the chart lets it lead in the chart's.
        let role = ["create", "role", "lease", "--verb=create,get,update,patch", "--resource=leases"];
        let account = format!("--serviceaccount={SYSTEM_NAMESPACE}:rlscaler");
        let binding = ["create", "rolebinding", "lease", "--role=lease", &account];
        for args in [&role[..], &binding[..]] {
            site.cluster.kubectl_ok(&[args, &["--namespace", namespace]].concat()).unwrap();
        }
        let prometheus = ScriptedPrometheus::start();
        prometheus.set("scripted_qps", Answer::Value(40.0));
        prometheus.set("scripted_latency", Answer::Value(0.08));
        let scene = Self { site, namespace, prometheus };
        scene.apply(DEPLOYMENT);
        scene
    }

    /// Applies objects into the namespace.
    pub(crate) fn apply(&self, yaml: &str) {
        let output = self
            .site
            .cluster
            .kubectl_with_input(&["apply", "--namespace", self.namespace, "-f", "-"], yaml)
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Runs kubectl in the namespace and answers what it printed.
    pub(crate) fn kubectl(&self, args: &[&str]) -> String {
        self.site.cluster.kubectl_ok(&[args, &["--namespace", self.namespace]].concat()).unwrap()
    }

    /// An object as the server has it.
    pub(crate) fn get(&self, kind: &str, name: &str) -> Value {
        serde_json::from_str(&self.kubectl(&["get", kind, name, "-o", "json"])).unwrap()
    }

    /// `spec.replicas` of the Deployment.
    pub(crate) fn replicas(&self) -> u64 {
        self.get("deployment", "web")["spec"]["replicas"].as_u64().unwrap()
    }

    /// The policy's status.
    pub(crate) fn status(&self) -> Value {
        self.get("rlrp", "web")["status"].clone()
    }

    /// One of the policy's conditions as `STATUS/REASON: MESSAGE`, empty where there is none.
    pub(crate) fn condition(&self, kind: &str) -> String {
        let status = self.status();
        let found =
            status["conditions"].as_array().into_iter().flatten().find(|condition| condition["type"] == kind);
        let field = |name: &str| {
            found.map_or("", |condition| condition[name].as_str().unwrap_or_default()).to_owned()
        };
        if found.is_none() {
            return String::new();
        }
        format!("{}/{}: {}", field("status"), field("reason"), field("message"))
    }

    /// Reason and note of every event about the policy, oldest first.
    pub(crate) fn events(&self) -> Vec<String> {
        let listing: Value =
            serde_json::from_str(&self.kubectl(&["get", "events.events.k8s.io", "-o", "json"])).unwrap();
        let mut events: Vec<_> = listing["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|event| event["regarding"]["kind"] == "RLReplicaPolicy")
            .map(|event| {
                let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
                (text("eventTime"), format!("{}: {}", text("reason"), text("note")))
            })
            .collect();
        events.sort();
        events.into_iter().map(|(_, event)| event).collect()
    }

    /// Waits until the Deployment has this many replicas.
    pub(crate) fn wait_replicas(&self, wanted: u64) {
        self.wait(&format!("{wanted} replicas"), || self.replicas() == wanted);
    }

    /// Waits until something is so; fails with the policy's status otherwise.
    pub(crate) fn wait(&self, what: &str, so: impl Fn() -> bool) {
        let began = Instant::now();
        while !so() {
            if PATIENCE < began.elapsed() {
                panic!("never seen: {what}\nreplicas {}\n{:#}", self.replicas(), self.status());
            }
            thread::sleep(LOOK);
        }
    }

    /// Lets the operator finish this many ticks.
    pub(crate) fn ticks(&self, count: u64) {
        self.prometheus.wait_asked("scripted_qps", count + 1);
    }

    /// Starts an operator that looks after this namespace only.
    pub(crate) fn operator(&self) -> Operator {
        let folder = self.site.cluster.folder();
        let config = folder.join(format!("{}.yaml", self.namespace));
        let source =
            format!("sources:\n- {{name: scripted, url: '{}', timeoutSeconds: 2}}\n", self.prometheus.url());
        fs::write(&config, source).unwrap();
        let log = folder.join(format!("{}.log", self.namespace));
        let mut command = Command::new(env!("CARGO_BIN_EXE_rlscaler"));
        command
            .args(["run", "--config", config.to_str().unwrap(), "--metrics-address", "127.0.0.1:0"])
            .args([
                "--leader-elect",
                "--lease-namespace",
                self.namespace,
                "--watch-namespace",
                self.namespace,
            ])
            .args(["--interval-min", "1s", "--time-factor", TIME_FACTOR, "--log-format", "json"])
            .env("KUBECONFIG", &self.site.service_account)
            .stdin(Stdio::null())
            .stdout(File::options().create(true).append(true).open(&log).unwrap())
            .stderr(File::options().create(true).append(true).open(&log).unwrap());
        Operator { child: process::spawn_tied(command).unwrap(), log }
    }
}

/// A running operator; killed when dropped.
pub(crate) struct Operator {
    child: Child,
    log: PathBuf,
}

impl Operator {
    /// `kill -9`.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// What it logged so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("the operator's log:\n{}", self.log());
        }
    }
}

/// A Deployment kwok makes ready within about a second.
pub(crate) const DEPLOYMENT: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
      annotations:
        pod-create.stage.kwok.x-k8s.io/delay: 100ms
        pod-create.stage.kwok.x-k8s.io/jitter-delay: 100ms
        pod-ready.stage.kwok.x-k8s.io/delay: 100ms
        pod-ready.stage.kwok.x-k8s.io/jitter-delay: 100ms
    spec:
      containers:
      - {name: app, image: web, resources: {requests: {cpu: 100m}}}
"#;

/// A policy `web` whose `spec` starts from what most tests need; `more` are further lines of the spec.
pub(crate) fn policy(more: &str) -> String {
    format!(
        r#"
apiVersion: rlscaler.io/v1alpha1
kind: RLReplicaPolicy
metadata: {{name: web}}
spec:
  scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: web}}
  minReplicas: 2
  maxReplicas: 20
  mode: Auto
  intervalSeconds: 1
  objective:
    latency: {{targetMilliseconds: 250}}
    slaPercent: "99"
  signals:
    qps: {{prometheus: {{source: scripted, query: scripted_qps}}}}
    latency: {{prometheus: {{source: scripted, query: scripted_latency}}}}
    cpu: {{none: {{}}}}
  capacity: {{concurrency: 4, serviceMilliseconds: 50}}
  startupSeconds: 1
{more}
"#
    )
}
