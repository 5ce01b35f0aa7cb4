//! Which program is started with which flags, and the files they read. Pure: nothing is started or written here.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::component::{Probe, Recipe, TlsProbe};
use super::options::{ClusterOptions, HpaOptions, NodeOptions, PrometheusOptions, milliseconds};
use crate::tools::Programs;

/// Where a cluster's files stand and which ports it has.
pub(super) struct Site<'a> {
    pub(super) programs: &'a Programs,
    pub(super) folder: &'a Path,
    pub(super) ports: SitePorts,
}

/// One port for each thing that listens.
#[derive(Clone, Copy)]
pub(super) struct SitePorts {
    pub(super) etcd: u16,
    pub(super) etcd_peer: u16,
    pub(super) apiserver: u16,
    pub(super) controller_manager: u16,
    pub(super) scheduler: u16,
    pub(super) kwok: u16,
    pub(super) prometheus: u16,
}

/// Prometheus' configuration in the cluster's folder.
pub(super) const PROMETHEUS_CONFIG: &str = "prometheus.yaml";

/// The kubeconfig of health probes in the cluster's folder.
pub(super) const PROBE_KUBECONFIG: &str = "probe.kubeconfig";

/// An address of the documentation range (RFC 5737) for the Service `kubernetes`, which nobody here calls. The server
/// would otherwise look for this machine's address on a network and refuse to start without one.
const ADVERTISED_ADDRESS: &str = "192.0.2.1";

/// A laptop that sleeps, or compiles on all cores, must not look like a node that died.
const NODE_GRACE_PERIOD: &str = "1h";

/// Requests a second the controllers may send. Their own defaults hold back a big scale-up for seconds, which at a
/// time factor would count against whoever scales.
const CONTROLLER_QPS: u32 = 300;

impl Site<'_> {
    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    pub(super) fn apiserver_url(&self) -> String {
        format!("https://127.0.0.1:{}", self.ports.apiserver)
    }

    /// The server makes its own authority and certificate, in this file one after the other.
    pub(super) fn certificate(&self) -> PathBuf {
        self.folder.join("certs/apiserver.crt")
    }

    /// The server's own key also signs service account tokens: both live as long as this folder.
    fn key(&self) -> String {
        path(&self.folder.join("certs/apiserver.key"))
    }

    pub(super) fn etcd(&self) -> Recipe {
        let client = format!("http://127.0.0.1:{}", self.ports.etcd);
        let peer = format!("http://127.0.0.1:{}", self.ports.etcd_peer);
        let args = vec![
            format!("--data-dir={}", path(&self.folder.join("etcd"))),
            "--unsafe-no-fsync".to_owned(), // the data dies with the cluster
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
            "--log-level=warn".to_owned(),
        ];
        self.recipe("etcd", &self.programs.etcd, args, self.plain(self.ports.etcd, "/readyz"))
    }

    pub(super) fn apiserver(&self, tokens: &Path, extra_flags: &[String]) -> Recipe {
        let mut args = vec![
            format!("--etcd-servers=http://127.0.0.1:{}", self.ports.etcd),
            format!("--cert-dir={}", path(&self.folder.join("certs"))),
            format!("--secure-port={}", self.ports.apiserver),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--advertise-address={ADVERTISED_ADDRESS}"),
            format!("--service-account-key-file={}", self.key()),
            format!("--service-account-signing-key-file={}", self.key()),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--token-auth-file={}", path(tokens)),
            "--authorization-mode=RBAC".to_owned(),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            "--allow-privileged=true".to_owned(),
        ];
        args.extend_from_slice(extra_flags);
        let probe = self.over_tls(self.ports.apiserver, "/readyz");
        self.recipe("kube-apiserver", &self.programs.kube_apiserver, args, probe)
    }

    pub(super) fn controller_manager(&self, options: &ClusterOptions) -> Recipe {
        let HpaOptions {
            sync_period,
            downscale_stabilization,
            cpu_initialization_period,
            initial_readiness_delay,
            tolerance,
        } = &options.hpa;
        let hpa = |flag: &str, time| format!("--horizontal-pod-autoscaler-{flag}={}", milliseconds(time));
        let mut args = self.controller_args(self.ports.controller_manager);
        args.extend([
            format!("--service-account-private-key-file={}", self.key()),
            "--controllers=*,-nodeipam,-route,-service-lb-controller,-cloud-node-lifecycle-controller"
                .to_owned(),
            format!("--node-monitor-grace-period={NODE_GRACE_PERIOD}"),
            hpa("sync-period", *sync_period),
            hpa("downscale-stabilization", *downscale_stabilization),
            hpa("cpu-initialization-period", *cpu_initialization_period),
            hpa("initial-readiness-delay", *initial_readiness_delay),
            format!("--horizontal-pod-autoscaler-tolerance={tolerance}"),
        ]);
        args.extend_from_slice(&options.controller_manager_flags);
        let probe = self.over_tls(self.ports.controller_manager, "/healthz");
        self.recipe("kube-controller-manager", &self.programs.kube_controller_manager, args, probe)
    }

    pub(super) fn scheduler(&self) -> Recipe {
        let args = self.controller_args(self.ports.scheduler);
        let probe = self.over_tls(self.ports.scheduler, "/readyz");
        self.recipe("kube-scheduler", &self.programs.kube_scheduler, args, probe)
    }

    pub(super) fn kwok(&self) -> Recipe {
        let args = vec![
            format!("--kubeconfig={}", path(&self.kubeconfig())),
            "--manage-all-nodes=true".to_owned(),
            format!("--config={}", path(&self.programs.kwok_stages)),
            "--node-lease-duration-seconds=40".to_owned(),
            format!("--server-address=127.0.0.1:{}", self.ports.kwok),
        ];
        self.recipe("kwok", &self.programs.kwok, args, self.plain(self.ports.kwok, "/readyz"))
    }

    pub(super) fn prometheus(&self, options: &PrometheusOptions) -> Recipe {
        let mut args = vec![
            format!("--config.file={}", path(&self.folder.join(PROMETHEUS_CONFIG))),
            format!("--storage.tsdb.path={}", path(&self.folder.join("prometheus"))),
            format!("--web.listen-address=127.0.0.1:{}", self.ports.prometheus),
            "--web.enable-lifecycle".to_owned(), // reloads its targets when asked
            "--log.level=warn".to_owned(),
        ];
        args.extend_from_slice(&options.flags);
        self.recipe(
            "prometheus",
            &self.programs.prometheus,
            args,
            self.plain(self.ports.prometheus, "/-/ready"),
        )
    }

    fn controller_args(&self, port: u16) -> Vec<String> {
        let kubeconfig = path(&self.kubeconfig());
        vec![
            format!("--kubeconfig={kubeconfig}"),
            format!("--authentication-kubeconfig={kubeconfig}"),
            format!("--authorization-kubeconfig={kubeconfig}"),
            "--leader-elect=false".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            format!("--kube-api-qps={CONTROLLER_QPS}"),
            format!("--kube-api-burst={}", 2 * CONTROLLER_QPS),
        ]
    }

    fn recipe(&self, name: &'static str, program: &Path, args: Vec<String>, probe: Probe) -> Recipe {
        Recipe {
            name,
            program: program.to_owned(),
            args,
            log: self.folder.join(format!("{name}.log")),
            probe,
        }
    }

    fn plain(&self, port: u16, path: &str) -> Probe {
        Probe { port, path: path.to_owned(), over_tls: None }
    }

    fn over_tls(&self, port: u16, path: &str) -> Probe {
        let tls = TlsProbe {
            kubectl: self.programs.kubectl.clone(),
            kubeconfig: self.folder.join(PROBE_KUBECONFIG),
        };
        Probe { port, path: path.to_owned(), over_tls: Some(tls) }
    }
}

/// A kubeconfig with one user who shows a token. JSON, which is YAML too.
pub(super) fn kubeconfig(server: &str, certificate: &Path, token: &str, namespace: &str) -> Value {
    kubeconfig_of(json!({"server": server, "certificate-authority": certificate}), token, namespace)
}

/// A kubeconfig that takes any certificate, for looking after the health of servers of our own.
pub(super) fn probe_kubeconfig(server: &str, token: &str) -> Value {
    kubeconfig_of(json!({"server": server, "insecure-skip-tls-verify": true}), token, "default")
}

fn kubeconfig_of(cluster: Value, token: &str, namespace: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "local", "cluster": cluster}],
        "users": [{"name": "user", "user": {"token": token}}],
        "contexts": [{"name": "local", "context": {"cluster": "local", "user": "user", "namespace": namespace}}],
        "current-context": "local",
    })
}

/// Node objects for kwok to play.
pub(super) fn nodes(options: &NodeOptions) -> Value {
    let NodeOptions { count, cpu, memory, pods } = options;
    let resources = json!({"cpu": cpu, "memory": memory, "pods": pods});
    let nodes: Vec<Value> = (0..*count)
        .map(|number| {
            let name = format!("node-{number}");
            json!({
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": name,
                    "annotations": {"kwok.x-k8s.io/node": "fake"},
                    "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"},
                },
                "status": {"allocatable": resources, "capacity": resources},
            })
        })
        .collect();
    json!({"apiVersion": "v1", "kind": "List", "items": nodes})
}

/// Prometheus' configuration. JSON, which is YAML too.
pub(super) fn prometheus_config(options: &PrometheusOptions) -> Value {
    let jobs: Vec<Value> = options
        .jobs
        .iter()
        .map(|job| {
            json!({
                "job_name": job.name,
                "metrics_path": job.metrics_path,
                "static_configs": [{"targets": job.targets}],
            })
        })
        .collect();
    let interval = milliseconds(options.scrape_interval);
    json!({
        "global": {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval},
        "scrape_configs": jobs,
    })
}

/// A Service that leads to a port of this machine and the APIService that sends an API group there. (Endpoints with
/// loopback addresses are refused by validation; a Service of type ExternalName is the way.)
pub(super) fn aggregated_api(group: &str, version: &str, port: u16) -> Value {
    let service = group.replace('.', "-");
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": service, "namespace": "kube-system"},
            "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port, "protocol": "TCP"}]},
        },
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": format!("{version}.{group}")},
            "spec": {
                "group": group,
                "version": version,
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "insecureSkipTLSVerify": true,
                "service": {"name": service, "namespace": "kube-system", "port": port},
            },
        },
    ]})
}

fn path(path: &Path) -> String {
    path.display().to_string()
}
