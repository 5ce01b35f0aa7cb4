//! The operator of the demo: run as the chart's ServiceAccount. kwok runs no containers, so
//! it is a process of ours beside the cluster instead of a pod in it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use super::manifests;
use super::plan::Plan;
use crate::cluster::{Cluster, process};
use crate::tools;

/// The chart's release, and the ServiceAccount it makes.
const RELEASE: &str = "rlscaler";
/// Where the chart is installed.
pub(super) const SYSTEM_NAMESPACE: &str = "rlscaler-system";
/// Lines of the log shown when the operator ends by itself.
const SHOWN_LOG_LINES: usize = 20;

/// A running operator; it ends when dropped.
pub(super) struct Operator {
    child: Child,
    log: PathBuf,
}

/// Installs CRDs, ServiceAccount and RBAC through the chart. Its Deployment stays at no replicas: kwok would only
/// pretend to run it.
pub(super) fn install_chart(cluster: &Cluster) -> Result<()> {
    let chart = tools::repository_root().join("charts/rlscaler").display().to_string();
    let arguments = ["install", RELEASE, &chart, "--namespace", SYSTEM_NAMESPACE, "--create-namespace"];
    cluster.helm(&[&arguments[..], &["--set", "replicas=0"]].concat())?;
    let established =
        ["wait", "--for=condition=Established", "crd/rlreplicapolicies.rlscaler.io", "--timeout=60s"];
    cluster.kubectl_ok(&established)?;
    Ok(())
}

impl Operator {
    /// Starts it with every time divided by K.
    pub(super) fn start(program: &Path, plan: &Plan, cluster: &Cluster) -> Result<Self> {
        let config = cluster.folder().join("operator.yaml");
        std::fs::write(&config, format!("{:#}\n", manifests::sources(&cluster.prometheus_url())))
            .context("writing the operator's configuration")?;
        let log = cluster.folder().join("operator.log");
        let log_file = File::create(&log).context("creating the operator's log")?;
        let mut command = Command::new(program);
        command
            .arg("run")
            .arg("--config")
            .arg(&config)
            .args(["--interval-min", "1s", "--time-factor", &plan.speed.to_string()])
            .args(["--metrics-address", "127.0.0.1:0"])
            .args(["--leader-elect", "--lease-namespace", SYSTEM_NAMESPACE])
            .env("KUBECONFIG", cluster.kubeconfig_for_service_account(SYSTEM_NAMESPACE, RELEASE)?)
            .stdin(Stdio::null())
            .stdout(log_file.try_clone().context("sharing the log")?)
            .stderr(log_file);
        let child =
            process::spawn_tied(command).with_context(|| format!("starting {}", program.display()))?;
        Ok(Self { child, log })
    }

    /// Where it logs.
    pub(super) fn log(&self) -> &Path {
        &self.log
    }

    /// Fails when it has ended, with the end of its log.
    pub(super) fn check(&mut self) -> Result<()> {
        let Some(status) = self.child.try_wait().context("asking for the operator")? else { return Ok(()) };
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(SHOWN_LOG_LINES)..].join("\n");
        bail!("the operator ended ({status}); the end of its log:\n{tail}")
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
