//! `rlscaler run`: the operator. Reads flags and the configuration file, connects, and hands everything to the
//! controller; ends on SIGTERM and SIGINT after the ticks under way.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use clap::ArgAction;
use futures::FutureExt;
use jiff::Timestamp;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use prometheus_client::registry::Registry;
use rlscaler_api::Limits;
use rlscaler_controller::run::Stop;
use rlscaler_controller::{Authenticator, Clock, Health, Metrics, Options, Parts};
use rlscaler_signals::Sources;
use tokio::signal::unix::{SignalKind, signal};

use crate::telemetry::LogFormat;
use crate::{Unusable, models, telemetry};

/// Longest configuration file, bytes.
const MAX_CONFIG_BYTES: u64 = 1 << 20;
/// Largest time factor: above it, ticks of a real cluster cannot follow.
const MAX_TIME_FACTOR: f64 = 100.0;

/// Flags of the operator.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// File with the sources policies may name; without it only CPU of the metrics API can be read.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Kubeconfig; without it $KUBECONFIG, ~/.kube/config, or the pod's service account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Only policies of this namespace; all without.
    #[arg(long, value_name = "NAMESPACE")]
    watch_namespace: Option<String>,
    /// Where /metrics, /healthz and /readyz are served.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:8080")]
    metrics_address: SocketAddr,
    /// Serve /metrics only to whoever has a bearer token that the API server knows (TokenReview).
    #[arg(long)]
    metrics_authentication: bool,
    /// Run only while holding a Lease, so that several operators may stand by.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    leader_elect: bool,
    /// Namespace of the Lease.
    #[arg(long, value_name = "NAMESPACE", env = "POD_NAMESPACE")]
    lease_namespace: Option<String>,
    /// Name of this process among its peers.
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    identity: Option<String>,
    /// Shortest interval between two decisions of a policy; shorter ones are raised to it.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = seconds)]
    interval_min: f64,
    /// How log lines look.
    #[arg(long, value_enum, default_value = "json")]
    log_format: LogFormat,
    /// How many times faster than real time the world runs; for the demo.
    #[arg(long, value_name = "K", default_value = "1", hide = true, value_parser = time_factor)]
    time_factor: f64,
}

/// `1s`, `500ms`, `2m`, in seconds.
fn seconds(text: &str) -> Result<f64, String> {
    let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0)];
    let (number, factor) = units
        .into_iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))
        .ok_or("needs a unit, for example 5s, 500ms or 1m")?;
    let secs = number.parse::<f64>().map_err(|_| format!("{number:?} is not a number"))? * factor;
    if (0.1..=300.0).contains(&secs) { Ok(secs) } else { Err("must lie between 100ms and 5m".to_owned()) }
}

fn time_factor(text: &str) -> Result<f64, String> {
    let factor: f64 = text.parse().map_err(|_| format!("{text:?} is not a number"))?;
    if (1.0..=MAX_TIME_FACTOR).contains(&factor) {
        Ok(factor)
    } else {
        Err(format!("must lie between 1 and {MAX_TIME_FACTOR}"))
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    telemetry::init_logging(args.log_format);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("no runtime could be started")?;
    runtime.block_on(operate(args))
}

async fn operate(args: &Args) -> anyhow::Result<()> {
    // reqwest is built without a provider of its own, so that there is one in the program.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = match &args.config {
        Some(path) => configuration(path)?,
        None => rlscaler_signals::Config::default(),
    };
    let lease_namespace = match (args.leader_elect, &args.lease_namespace) {
        (false, _) => None,
        (true, Some(namespace)) => Some(namespace.clone()),
        (true, None) => return Err(Unusable("--leader-elect needs --lease-namespace".to_owned()).into()),
    };
    let client = client(args.kubeconfig.as_deref()).await?;
    let sources =
        Sources::from_config(&config, Some(client.clone())).map_err(|faults| unusable(args, &faults))?;
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let health = Arc::new(Health::default());
    let clock: Clock = Arc::new(Timestamp::now);
    let began = Instant::now();
    let authenticator =
        args.metrics_authentication.then(|| Authenticator::new(client.clone(), clock.clone()));
    telemetry::serve(args.metrics_address, registry, health.clone(), authenticator).await?;

    let options = Options {
        limits: Limits { interval_min_secs: args.interval_min, time_factor: args.time_factor },
        namespace: args.watch_namespace.clone(),
        lease_namespace,
        identity: args.identity.clone().unwrap_or_else(identity),
        clock,
        steady: Arc::new(move || began.elapsed()),
    };
    let parts = Parts { client, signals: Arc::new(sources), models: models::builtin(), metrics, health };
    tracing::info!(version = env!("CARGO_PKG_VERSION"), identity = options.identity, "rlscaler starts");
    rlscaler_controller::run(parts, options, stop()?).await?;
    tracing::info!("rlscaler has stopped");
    Ok(())
}

fn configuration(path: &Path) -> anyhow::Result<rlscaler_signals::Config> {
    let shown = path.display().to_string();
    let length = fs::metadata(path).with_context(|| format!("cannot read {shown}"))?.len();
    if MAX_CONFIG_BYTES < length {
        return Err(Unusable(format!("{shown}: {length} bytes, at most {MAX_CONFIG_BYTES} are read")).into());
    }
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    rlscaler_api::yaml::read(&text, &shown).map_err(|fault| Unusable(fault.to_string()).into())
}

fn unusable(args: &Args, faults: &[rlscaler_signals::ConfigFault]) -> anyhow::Error {
    let file = args.config.as_deref().unwrap_or(Path::new("configuration")).display();
    let told: Vec<_> = faults.iter().map(|fault| format!("{file}: {fault}")).collect();
    Unusable(told.join("\n")).into()
}

/// A client from the kubeconfig given, or from wherever one is found.
pub(crate) async fn client(kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    let config = match kubeconfig {
        Some(path) => {
            let kubeconfig = Kubeconfig::read_from(path)
                .with_context(|| format!("cannot use kubeconfig {}", path.display()))?;
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?
        }
        None => Config::infer().await.context("no kubeconfig and no service account found")?,
    };
    Client::try_from(config).context("cannot connect to the API server")
}

/// Unique enough where no pod name is given: the host and the process.
fn identity() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_else(|_| "rlscaler".to_owned());
    format!("{}-{}", host.trim(), std::process::id())
}

fn stop() -> anyhow::Result<Stop> {
    let mut term = signal(SignalKind::terminate()).context("SIGTERM cannot be handled")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT cannot be handled")?;
    let told = async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("told to stop: finishing the ticks under way");
    };
    Ok(told.boxed().shared())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_needs_a_unit_and_sane_bounds() {
        let check = |text: &str, expected: Option<f64>| assert_eq!(seconds(text).ok(), expected, "{text}");
        check("5s", Some(5.0));
        check("1s", Some(1.0));
        check("500ms", Some(0.5));
        check("5m", Some(300.0));
        check("5", None);
        check("0s", None);
        check("6m", None);
        check("NaNs", None);
    }

    #[test]
    fn a_time_factor_is_never_below_one() {
        assert_eq!(time_factor("5"), Ok(5.0));
        for bad in ["0.5", "101", "x", "NaN"] {
            assert!(time_factor(bad).is_err(), "{bad}");
        }
    }
}
