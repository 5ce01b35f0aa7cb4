//! What a cluster can be told. Defaults are Kubernetes' own; times may be fractions of a second, as the demo divides
//! all of them by its time factor.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How to start a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterOptions {
    /// The timing of the real HPA.
    pub hpa: HpaOptions,
    /// The nodes kwok plays.
    pub nodes: NodeOptions,
    /// The Prometheus beside the cluster; `None` starts none.
    pub prometheus: Option<PrometheusOptions>,
    /// More flags for kube-apiserver, such as `--v=4`.
    pub apiserver_flags: Vec<String>,
    /// More flags for kube-controller-manager.
    pub controller_manager_flags: Vec<String>,
}

/// Flags of the controller manager that time the HPA. Defaults as in Kubernetes 1.36.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HpaOptions {
    /// Between two decisions.
    pub sync_period: Duration,
    /// The window whose highest recommendation stands, unless an HPA object says otherwise.
    pub downscale_stabilization: Duration,
    /// From a pod's start: its CPU is used only when it is ready and measured wholly after that.
    pub cpu_initialization_period: Duration,
    /// From a pod's start: going unready within this time is a start, not a failure.
    pub initial_readiness_delay: Duration,
    /// The relative difference from the target that is left alone.
    pub tolerance: f64,
}

/// Nodes that exist only as objects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeOptions {
    /// How many.
    pub count: u32,
    /// CPU of each, as a Kubernetes quantity.
    pub cpu: String,
    /// Memory of each, as a Kubernetes quantity.
    pub memory: String,
    /// Pods each takes.
    pub pods: u32,
}

/// A Prometheus that scrapes what it is told to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PrometheusOptions {
    /// Between two scrapes; whole milliseconds.
    pub scrape_interval: Duration,
    /// What to scrape. It can be changed while Prometheus runs.
    pub jobs: Vec<ScrapeJob>,
    /// More flags, such as `--query.lookback-delta=1m`.
    pub flags: Vec<String>,
}

/// Targets under one job name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScrapeJob {
    /// The `job` label.
    pub name: String,
    /// `HOST:PORT` of each target.
    pub targets: Vec<String>,
    /// Where the targets serve their metrics.
    pub metrics_path: String,
}

impl ScrapeJob {
    /// A job with one target that serves `/metrics`.
    pub fn new(name: &str, target: &str) -> Self {
        Self { name: name.to_owned(), targets: vec![target.to_owned()], metrics_path: "/metrics".to_owned() }
    }
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self {
            hpa: HpaOptions::default(),
            nodes: NodeOptions::default(),
            prometheus: Some(PrometheusOptions::default()),
            apiserver_flags: Vec::new(),
            controller_manager_flags: Vec::new(),
        }
    }
}

impl Default for HpaOptions {
    fn default() -> Self {
        Self {
            sync_period: Duration::from_secs(15),
            downscale_stabilization: Duration::from_secs(300),
            cpu_initialization_period: Duration::from_secs(300),
            initial_readiness_delay: Duration::from_secs(30),
            tolerance: 0.1,
        }
    }
}

impl Default for NodeOptions {
    /// Room for any demo: capacity is not what is tried here unless somebody asks for it.
    fn default() -> Self {
        Self { count: 3, cpu: "64".to_owned(), memory: "256Gi".to_owned(), pods: 500 }
    }
}

impl Default for PrometheusOptions {
    fn default() -> Self {
        Self { scrape_interval: Duration::from_secs(5), jobs: Vec::new(), flags: Vec::new() }
    }
}

impl ClusterOptions {
    /// Divides every time by `speed`, so that a trace replayed `speed` times faster meets the same controllers.
    #[must_use]
    pub fn sped_up(mut self, speed: f64) -> Self {
        let HpaOptions {
            sync_period,
            downscale_stabilization,
            cpu_initialization_period,
            initial_readiness_delay,
            tolerance: _,
        } = &mut self.hpa;
        for time in [sync_period, downscale_stabilization, cpu_initialization_period, initial_readiness_delay]
        {
            *time = time.div_f64(speed);
        }
        if let Some(prometheus) = &mut self.prometheus {
            prometheus.scrape_interval = prometheus.scrape_interval.div_f64(speed);
        }
        self
    }
}

/// A time as Go's flags and Prometheus read it: whole milliseconds, at least one.
pub(super) fn milliseconds(time: Duration) -> String {
    format!("{}ms", (time.as_secs_f64() * 1000.0).round().max(1.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_divides_every_time_and_nothing_else() {
        let fast = ClusterOptions::default().sped_up(5.0);
        assert_eq!(fast.hpa.sync_period, Duration::from_secs(3));
        assert_eq!(fast.hpa.downscale_stabilization, Duration::from_secs(60));
        assert_eq!(fast.hpa.cpu_initialization_period, Duration::from_secs(60));
        assert_eq!(fast.hpa.initial_readiness_delay, Duration::from_secs(6));
        assert_eq!(fast.hpa.tolerance, 0.1);
        assert_eq!(fast.prometheus.unwrap().scrape_interval, Duration::from_secs(1));
        assert_eq!(fast.nodes, NodeOptions::default());
    }

    #[test]
    fn a_fraction_of_a_second_is_written_in_milliseconds() {
        assert_eq!(milliseconds(Duration::from_secs(15).div_f64(4.0)), "3750ms");
        assert_eq!(milliseconds(Duration::from_secs(15)), "15000ms");
        assert_eq!(milliseconds(Duration::ZERO), "1ms");
    }
}
