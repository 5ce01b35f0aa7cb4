//! A real Kubernetes control plane on one machine, without containers: etcd, kube-apiserver, kube-controller-manager
//! (with the real HPA), kube-scheduler, and kwok in place of the kubelets; Prometheus beside it.
//!
//! In: [`ClusterOptions`]. Out: a [`Cluster`], which is up while the value lives. Everything listens on loopback, on
//! ports no other cluster on this machine has, and nothing outlives the process that started it, however that ends.
//! Linux only: the promise rests on the kernel's parent-death signal.
//!
//! `cargo xtask cluster up` keeps one cluster per checkout beyond its own end; see [`detached`].

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;

use anyhow::{Context, Result, anyhow, bail};

pub mod command;
mod component;
pub mod detached;
mod options;
mod ports;
pub mod process;
mod recipes;
mod workdir;

pub use component::Component;
pub use options::{ClusterOptions, HpaOptions, NodeOptions, PrometheusOptions, ScrapeJob};

use crate::tools::{self, Programs};
use component::http_status;
use ports::Ports;
use recipes::{Site, SitePorts};
use workdir::WorkDir;

/// How long a token of [`Cluster::kubeconfig_for_service_account`] is good.
const TOKEN_LIFETIME: &str = "24h";

/// A running control plane. Dropping it kills its programs and removes its files.
#[derive(Debug)]
pub struct Cluster {
    // In the order they are dropped: programs first, then what they use.
    components: Vec<Component>,
    programs: Programs,
    prometheus_options: Option<PrometheusOptions>,
    prometheus_port: u16,
    server: String,
    certificate: PathBuf,
    kubeconfig: PathBuf,
    workdir: WorkDir,
    _ports: Ports,
}

impl Cluster {
    /// Builds what is missing, starts a cluster and waits until pods can run in it.
    ///
    /// # Errors
    /// When the programs cannot be built, or one of them does not become ready; with the end of its log.
    pub fn start(options: &ClusterOptions) -> Result<Self> {
        Self::start_telling(options, &mut |_| {})
    }

    /// As [`Cluster::start`], and tells each step as it is done.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub fn start_telling(options: &ClusterOptions, tell: &mut dyn FnMut(&str)) -> Result<Self> {
        if !cfg!(target_os = "linux") {
            bail!("the local cluster runs on Linux only");
        }
        let repository = tools::repository_root();
        let programs = tools::build_all(repository)?;
        let mut ports = Ports::new()?;
        let site_ports = SitePorts {
            etcd: ports.reserve()?,
            etcd_peer: ports.reserve()?,
            apiserver: ports.reserve()?,
            controller_manager: ports.reserve()?,
            scheduler: ports.reserve()?,
            kwok: ports.reserve()?,
            prometheus: ports.reserve()?,
        };
        let workdir = WorkDir::new(&repository.join("target/cluster"))?;
        let folder = workdir.path().to_owned();
        let site = Site { programs: &programs, folder: &folder, ports: site_ports };
        let mut cluster = Self {
            components: Vec::new(),
            programs: programs.clone(),
            prometheus_options: options.prometheus.clone(),
            prometheus_port: site_ports.prometheus,
            server: site.apiserver_url(),
            certificate: site.certificate(),
            kubeconfig: site.kubeconfig(),
            workdir,
            _ports: ports,
        };
        if let Err(error) = cluster.bring_up(&site, options, tell) {
            cluster.workdir.keep();
            return Err(error);
        }
        Ok(cluster)
    }

    fn bring_up(
        &mut self,
        site: &Site<'_>,
        options: &ClusterOptions,
        tell: &mut dyn FnMut(&str),
    ) -> Result<()> {
        let token = random_token()?;
        let tokens =
            self.workdir.write_secret("tokens.csv", &format!("{token},admin,admin,\"system:masters\"\n"))?;
        let kubeconfig = recipes::kubeconfig(&self.server, &self.certificate, &token, "default");
        self.workdir.write_secret("kubeconfig", &format!("{kubeconfig:#}\n"))?;
        let probe_kubeconfig = recipes::probe_kubeconfig(&self.server, &token);
        self.workdir.write_secret(recipes::PROBE_KUBECONFIG, &probe_kubeconfig.to_string())?;

        let etcd = self.launch(site.etcd())?;
        let prometheus = match &options.prometheus {
            Some(prometheus) => {
                self.write_prometheus_config(prometheus)?;
                Some(self.launch(site.prometheus(prometheus))?)
            }
            None => None,
        };
        self.await_ready(etcd, tell)?;
        let apiserver = self.launch(site.apiserver(&tokens, &options.apiserver_flags))?;
        self.await_ready(apiserver, tell)?;
        let launched_before = self.components.len();
        self.launch(site.controller_manager(options))?;
        self.launch(site.scheduler())?;
        self.launch(site.kwok())?;
        for index in launched_before..self.components.len() {
            self.await_ready(index, tell)?;
        }
        if let Some(prometheus) = prometheus {
            self.await_ready(prometheus, tell)?;
        }
        self.await_usable(&options.nodes, tell)
    }

    /// Pods can be made once the controller manager has made the service account they run as, and run once kwok has
    /// made a node ready.
    fn await_usable(&self, nodes: &NodeOptions, tell: &mut dyn FnMut(&str)) -> Result<()> {
        let succeeds = |args: &[&str]| self.kubectl(args).is_ok_and(|output| output.status.success());
        let controllers = self.component("kube-controller-manager")?;
        controllers.wait_until("working", || succeeds(&["get", "serviceaccount", "default"]))?;
        if nodes.count > 0 {
            self.apply(&recipes::nodes(nodes).to_string())?;
            let kwok = self.component("kwok")?;
            kwok.wait_until("playing nodes", || {
                succeeds(&["wait", "--for=condition=Ready", "node", "--all", "--timeout=1s"])
            })?;
        }
        tell(&format!("{} nodes ready", nodes.count));
        Ok(())
    }

    /// A kubeconfig of an administrator.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The API server's address.
    pub fn server_url(&self) -> &str {
        &self.server
    }

    /// Where the built programs stand.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// A folder for files that shall vanish with the cluster.
    pub fn folder(&self) -> &Path {
        self.workdir.path()
    }

    /// Everything that runs, in the order it was started.
    pub fn components(&self) -> &[Component] {
        &self.components
    }

    /// One program by name, such as `kube-apiserver`.
    ///
    /// # Errors
    /// When the cluster has no program of that name.
    pub fn component(&self, name: &str) -> Result<&Component> {
        let found = self.components.iter().find(|component| component.name() == name);
        found.with_context(|| format!("this cluster has no {name}"))
    }

    /// Prometheus, to be stopped, started again, paused or resumed.
    ///
    /// # Panics
    /// When the cluster was started without one.
    pub fn prometheus(&self) -> &Component {
        self.component("prometheus").expect("ClusterOptions.prometheus is Some")
    }

    /// Prometheus' base address, the same after a restart.
    pub fn prometheus_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.prometheus_port)
    }

    /// Replaces what a running Prometheus scrapes.
    ///
    /// # Errors
    /// When there is no running Prometheus or it refuses the jobs.
    pub fn scrape(&self, jobs: &[ScrapeJob]) -> Result<()> {
        let options =
            self.prometheus_options.clone().context("this cluster was started without Prometheus")?;
        self.write_prometheus_config(&PrometheusOptions { jobs: jobs.to_vec(), ..options })?;
        let connection = TcpStream::connect((Ipv4Addr::LOCALHOST, self.prometheus_port))
            .context("connecting to Prometheus")?;
        let status = http_status(connection, "POST", "/-/reload").context("asking Prometheus to reload")?;
        if status != 200 {
            bail!(
                "Prometheus refused its new jobs (HTTP {status}), see {}",
                self.prometheus().log().display()
            );
        }
        Ok(())
    }

    /// Runs kubectl as administrator.
    ///
    /// # Errors
    /// When it cannot be run; its own failure is in the output.
    pub fn kubectl(&self, args: &[&str]) -> Result<Output> {
        self.kubectl_with_input(args, "")
    }

    /// Runs kubectl as administrator with a text on its standard input.
    ///
    /// # Errors
    /// As [`Cluster::kubectl`].
    pub fn kubectl_with_input(&self, args: &[&str], input: &str) -> Result<Output> {
        self.run(&self.programs.kubectl, args, input)
    }

    /// Runs kubectl as administrator and answers what it printed.
    ///
    /// # Errors
    /// When it fails; with what it said.
    pub fn kubectl_ok(&self, args: &[&str]) -> Result<String> {
        printed("kubectl", args, self.kubectl(args)?)
    }

    /// Applies objects, given as YAML or JSON.
    ///
    /// # Errors
    /// When the server refuses one; with what kubectl said.
    pub fn apply(&self, yaml: &str) -> Result<String> {
        let args = ["apply", "-f", "-"];
        printed("kubectl", &args, self.kubectl_with_input(&args, yaml)?)
    }

    /// Runs helm as administrator and answers what it printed.
    ///
    /// # Errors
    /// When it fails; with what it said.
    pub fn helm(&self, args: &[&str]) -> Result<String> {
        printed("helm", args, self.run(&self.programs.helm, args, "")?)
    }

    /// A kubeconfig of a ServiceAccount, with a token from the server's own TokenRequest API, so that RBAC applies
    /// as it would to a pod.
    ///
    /// # Errors
    /// When the ServiceAccount does not exist.
    pub fn kubeconfig_for_service_account(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        let lifetime = format!("--duration={TOKEN_LIFETIME}");
        let token = self.kubectl_ok(&["create", "token", name, "--namespace", namespace, &lifetime])?;
        let kubeconfig = recipes::kubeconfig(&self.server, &self.certificate, token.trim(), namespace);
        self.workdir.write_secret(&format!("{namespace}.{name}.kubeconfig"), &format!("{kubeconfig:#}\n"))
    }

    /// Sends an API group, such as `metrics.k8s.io`, to a server on this machine that speaks HTTPS with any
    /// certificate, and waits until the API server finds it available.
    ///
    /// # Errors
    /// When the API server refuses the objects or finds nobody at that port.
    pub fn aggregate_api(&self, group: &str, version: &str, port: u16) -> Result<()> {
        self.apply(&recipes::aggregated_api(group, version, port).to_string())?;
        let api_service = format!("apiservice/{version}.{group}");
        self.kubectl_ok(&["wait", "--for=condition=Available", &api_service, "--timeout=60s"])?;
        Ok(())
    }

    /// The environment in which a program finds this cluster. Caches are the cluster's own: kubectl and helm keep them
    /// by address, and another cluster may have had this one.
    pub fn environment(&self) -> [(&'static str, PathBuf); 5] {
        [
            ("KUBECONFIG", self.kubeconfig.clone()),
            ("KUBECACHEDIR", self.workdir.join("kube-cache")),
            ("HELM_CACHE_HOME", self.workdir.join("helm/cache")),
            ("HELM_CONFIG_HOME", self.workdir.join("helm/config")),
            ("HELM_DATA_HOME", self.workdir.join("helm/data")),
        ]
    }

    fn run(&self, program: &Path, args: &[&str], input: &str) -> Result<Output> {
        let mut command = Command::new(program);
        command
            .args(args)
            .envs(self.environment())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child =
            process::spawn_tied(command).with_context(|| format!("starting {}", program.display()))?;
        let mut stdin = child.stdin.take().expect("stdin is piped");
        let input = input.to_owned();
        // On a thread of its own, as the program may print before it has read everything. It may also stop reading.
        let writer = thread::spawn(move || stdin.write_all(input.as_bytes()));
        let output = child.wait_with_output().with_context(|| format!("running {}", program.display()))?;
        drop(writer.join());
        Ok(output)
    }

    fn launch(&mut self, recipe: component::Recipe) -> Result<usize> {
        self.components.push(Component::launch(recipe)?);
        Ok(self.components.len() - 1)
    }

    fn await_ready(&self, index: usize, tell: &mut dyn FnMut(&str)) -> Result<()> {
        let component = &self.components[index];
        component.wait_ready()?;
        tell(&format!("{} ready", component.name()));
        Ok(())
    }

    fn write_prometheus_config(&self, options: &PrometheusOptions) -> Result<()> {
        let text = format!("{:#}\n", recipes::prometheus_config(options));
        fs::write(self.workdir.join(recipes::PROMETHEUS_CONFIG), text)
            .context("writing Prometheus' configuration")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Clients before servers, so that none of them fills its log with the end of the others.
        while let Some(component) = self.components.pop() {
            drop(component);
        }
    }
}

fn printed(program: &str, args: &[&str], output: Output) -> Result<String> {
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{program} {}: {}", args.join(" "), said.trim());
    }
    String::from_utf8(output.stdout).map_err(|_| anyhow!("{program} {} printed no text", args.join(" ")))
}

/// The administrator's password for this cluster: anybody on this machine can reach its port.
fn random_token() -> Result<String> {
    let mut bytes = [0u8; 32];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
