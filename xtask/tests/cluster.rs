//! The local cluster, really started: these tests need Linux, and Go the first time.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rustix::process::Signal;

use xtask::cluster::detached::Home;
use xtask::cluster::process::Identity;
use xtask::cluster::{Cluster, ClusterOptions, HpaOptions, NodeOptions, ScrapeJob};
use xtask::tools::go::Go;

/// How long a pod may take on a busy machine; kwok's stages take about two seconds.
const POD_TIMEOUT: &str = "--timeout=120s";

/// Processes are killed by the kernel, so they are gone at once.
const END_DEADLINE: Duration = Duration::from_secs(20);

const DEPLOYMENT: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: example.com/web
        resources: {requests: {cpu: "1"}}
"#;

/// One cluster for all tests that only use it; they differ by namespace.
fn shared() -> &'static Cluster {
    static SHARED: OnceLock<Cluster> = OnceLock::new();
    SHARED.get_or_init(|| Cluster::start(&ClusterOptions::default()).unwrap())
}

fn processes(cluster: &Cluster) -> Vec<Identity> {
    cluster.components().iter().map(|component| component.process().unwrap()).collect()
}

fn assert_ended(processes: &[Identity]) {
    for process in processes {
        assert!(process.wait_end(END_DEADLINE), "{process:?} is still there");
    }
}

#[test]
fn a_deployment_is_scheduled_and_its_pods_become_ready() {
    let cluster = shared();
    cluster.apply(DEPLOYMENT).unwrap();
    cluster.kubectl_ok(&["rollout", "status", "deployment/web", POD_TIMEOUT]).unwrap();
    let ready =
        cluster.kubectl_ok(&["get", "deployment", "web", "-o", "jsonpath={.status.readyReplicas}"]).unwrap();
    assert_eq!(ready, "2");
    let version = cluster.kubectl_ok(&["version", "-o", "json"]).unwrap();
    assert_eq!(version.matches(r#""gitVersion": "v1.36."#).count(), 2, "{version}");
}

#[test]
fn a_service_account_may_do_only_what_it_was_given() {
    let cluster = shared();
    cluster.kubectl_ok(&["create", "namespace", "accounts"]).unwrap();
    cluster.kubectl_ok(&["create", "serviceaccount", "reader", "-n", "accounts"]).unwrap();
    let role = ["create", "role", "reader", "-n", "accounts", "--verb=list", "--resource=pods"];
    cluster.kubectl_ok(&role).unwrap();
    let bind = "create rolebinding reader -n accounts --role=reader --serviceaccount=accounts:reader";
    cluster.kubectl_ok(&bind.split(' ').collect::<Vec<_>>()).unwrap();

    let kubeconfig = cluster.kubeconfig_for_service_account("accounts", "reader").unwrap();
    let flag = format!("--kubeconfig={}", kubeconfig.display());
    cluster.kubectl_ok(&[&flag, "get", "pods"]).unwrap();
    let refused = cluster.kubectl_ok(&[&flag, "get", "pods", "-n", "default"]).unwrap_err().to_string();
    assert!(refused.contains("system:serviceaccount:accounts:reader"), "{refused}");
    assert_eq!(fs::metadata(kubeconfig).unwrap().permissions().mode() & 0o077, 0);
}

#[test]
fn helm_finds_the_cluster() {
    assert!(shared().helm(&["list", "--all-namespaces"]).unwrap().starts_with("NAME"));
}

#[test]
fn a_failed_command_says_what_the_server_said() {
    let error = shared().kubectl_ok(&["get", "deployment", "absent"]).unwrap_err().to_string();
    assert!(error.contains(r#"deployments.apps "absent" not found"#), "{error}");
    let error = shared().apply("apiVersion: v1\nkind: Nonsense\n").unwrap_err().to_string();
    assert!(error.contains("Nonsense"), "{error}");
}

#[test]
fn two_clusters_side_by_side_do_not_meet_and_each_leaves_nothing_behind() {
    let hpa = HpaOptions { sync_period: Duration::from_millis(3750), ..HpaOptions::default() };
    let nodes = NodeOptions { count: 1, ..NodeOptions::default() };
    let options = ClusterOptions { hpa, nodes, prometheus: None, ..ClusterOptions::default() };
    let other = Cluster::start(&options).unwrap();
    let ours: Vec<u16> = shared().components().iter().map(|component| component.port()).collect();
    assert!(other.components().iter().all(|component| !ours.contains(&component.port())));
    other.kubectl_ok(&["create", "namespace", "only-there"]).unwrap();
    shared().kubectl_ok(&["get", "namespace", "only-there"]).unwrap_err();
    assert_eq!(other.kubectl_ok(&["get", "nodes", "-o", "name"]).unwrap(), "node/node-0\n");

    let (theirs, folder) = (processes(&other), other.folder().to_owned());
    assert_eq!(theirs.len(), 5);
    drop(other);
    assert_ended(&theirs);
    assert!(!folder.exists());
    shared().kubectl_ok(&["get", "--raw", "/readyz"]).unwrap();
}

#[test]
fn prometheus_can_be_stopped_started_and_paused_on_one_port() {
    let options = ClusterOptions {
        nodes: NodeOptions { count: 0, ..NodeOptions::default() },
        ..ClusterOptions::default()
    };
    let cluster = Cluster::start(&options).unwrap();
    let prometheus = cluster.prometheus();
    let url = cluster.prometheus_url();
    let port = prometheus.port();
    let first = prometheus.process().unwrap();

    prometheus.stop().unwrap();
    assert!(!first.is_alive());
    assert_eq!(prometheus.process(), None);
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
    prometheus.start().unwrap();
    assert_eq!(cluster.prometheus_url(), url);
    assert_ne!(prometheus.process().unwrap(), first);

    prometheus.pause().unwrap();
    let stat = fs::read_to_string(format!("/proc/{}/stat", prometheus.process().unwrap().pid)).unwrap();
    assert!(stat.contains(") T "), "{stat}");
    assert!(
        std::net::TcpStream::connect(("127.0.0.1", port)).is_ok(),
        "a paused program still holds its port"
    );
    prometheus.resume().unwrap();
    cluster.scrape(&[ScrapeJob::new("itself", &format!("127.0.0.1:{port}"))]).unwrap();
    let refused = cluster.scrape(&[ScrapeJob::new("", "127.0.0.1:1")]).unwrap_err().to_string();
    assert!(refused.contains("refused its new jobs"), "{refused}");

    prometheus.pause().unwrap();
    prometheus.stop().unwrap();
}

/// Not a test of its own: what a test below starts in another process, to kill it.
const CHILD_VARIABLE: &str = "RLSCALER_TEST_CLUSTER_CHILD";

#[test]
fn a_killed_parent_leaves_no_child() {
    if let Ok(notes) = std::env::var(CHILD_VARIABLE) {
        let options = ClusterOptions { prometheus: None, ..ClusterOptions::default() };
        let cluster = Cluster::start(&options).unwrap();
        fs::write(notes, serde_json::to_string(&processes(&cluster)).unwrap()).unwrap();
        println!("up");
        loop {
            std::thread::park();
        }
    }
    let notes = std::env::temp_dir().join(format!("rlscaler-killed-parent-{}", std::process::id()));
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args(["a_killed_parent_leaves_no_child", "--exact", "--nocapture"])
        .env(CHILD_VARIABLE, &notes)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let told = BufReader::new(parent.stdout.take().unwrap());
    assert!(told.lines().map_while(Result::ok).any(|line| line.ends_with("up")));
    let children: Vec<Identity> = serde_json::from_str(&fs::read_to_string(&notes).unwrap()).unwrap();
    fs::remove_file(notes).unwrap();
    assert_eq!(children.len(), 5);
    assert!(children.iter().all(Identity::is_alive));

    parent.kill().unwrap();
    parent.wait().unwrap();
    assert_ended(&children);
}

fn xtask(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask")).args(args).output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The checkout has one detached cluster: tests of it take turns. `None` when a person is using it.
fn checkout() -> Option<(MutexGuard<'static, ()>, Home)> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let home = Home::of_checkout();
    if home.state().unwrap().is_some_and(|state| state.supervisor.is_alive()) {
        println!("the cluster of this checkout is in use; not touching it");
        return None;
    }
    Some((turn, home))
}

/// The processes another one started, and those they started.
fn descendants(pid: u32) -> Vec<Identity> {
    let mut found = Vec::new();
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    for thread in threads.flatten() {
        let children = fs::read_to_string(thread.path().join("children")).unwrap();
        for child in children.split_whitespace().map(|child| child.parse().unwrap()) {
            found.extend(Identity::of(child));
            found.extend(descendants(child));
        }
    }
    found
}

#[test]
fn up_interrupted_before_it_is_ready_leaves_nothing() {
    let Some((_turn, home)) = checkout() else { return };
    let mut up = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["cluster", "up", "--no-prometheus"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let told = BufReader::new(up.stderr.take().unwrap());
    assert!(told.lines().map_while(Result::ok).any(|line| line == "etcd ready"));
    let started = descendants(up.id());
    assert!(2 <= started.len(), "no supervisor or no etcd in {started:?}");

    let itself = Identity::of(up.id()).unwrap();
    itself.signal(Signal::INT).unwrap();
    up.wait().unwrap();
    assert_ended(&started);
    assert!(home.state().unwrap().is_none());
}

#[test]
fn up_stays_up_says_so_the_second_time_and_down_ends_all_of_it() {
    let Some((_turn, home)) = checkout() else { return };
    let up = xtask(&["cluster", "up", "--nodes", "1", "--no-prometheus"]);
    assert!(up.status.success(), "{}", said(&up));
    assert!(said(&up).contains("export KUBECONFIG="), "{}", said(&up));
    let state = home.state().unwrap().unwrap();
    let pids: Vec<Identity> =
        state.members().iter().map(|member| Identity::of(member.pid).unwrap()).collect();
    assert_eq!(pids.len(), 5);

    let again = xtask(&["cluster", "up"]);
    assert!(again.status.success() && said(&again).contains("already running"), "{}", said(&again));
    assert_eq!(home.state().unwrap().unwrap().supervisor, state.supervisor);
    let status = said(&xtask(&["cluster", "status"]));
    assert_eq!(status.matches(" ready ").count(), 5, "{status}");

    let down = xtask(&["cluster", "down"]);
    assert!(down.status.success(), "{}", said(&down));
    assert!(!state.supervisor.is_alive() && pids.iter().all(|process| !process.is_alive()));
    assert!(!state.kubeconfig.exists());
    assert!(said(&xtask(&["cluster", "down"])).contains("no cluster was up"));
}

#[test]
fn a_go_that_is_too_old_is_refused_by_its_number() {
    let folder = std::env::temp_dir().join(format!("rlscaler-old-go-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let old = script(&folder, "echo go version go1.22.3 linux/amd64");
    let error = Go::check(old.as_os_str()).unwrap_err().to_string();
    assert!(error.contains("is Go 1.22") && error.contains("Go 1.26 or newer"), "{error}");
    fs::remove_dir_all(folder).unwrap();
}

fn script(folder: &Path, body: &str) -> PathBuf {
    let path = folder.join("go");
    fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}
