//! CPU from `metrics.k8s.io`: cores used, summed over the target's ready pods.
//!
//! In: the pods that count, by name, and the API's list. Out: a sum with the time of its oldest sample, and how many
//! pods it stands on. A new pod without a usable sample adds nothing: the load it will take is still measured at the
//! others, and filling it in would raise the sum with every scale-up. An old pod without one is filled in with the
//! mean of the others, so that a blind spot of the metrics server does not look like idleness.

use std::collections::HashMap;
use std::time::Duration;

use futures::AsyncReadExt;
use jiff::{SignedDuration, Timestamp};
use kube::api::ListParams;
use serde::Deserialize;

use crate::fault::{ReadFault, printable};
use crate::request::ReadyPod;

/// Largest list accepted, bytes. A pod with two containers takes about 600.
pub const MAX_LIST_BYTES: usize = 16 * 1024 * 1024;
/// Seconds a pod may be ready before it must have a sample: the metrics server scrapes every 15 s and needs two.
pub const NEW_POD_SECS: i64 = 60;

/// The sum over the ready pods.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CpuUse {
    /// Cores.
    pub cores: f64,
    /// Of the oldest sample in the sum.
    pub sample_time: Timestamp,
    /// Pods in the sum by a sample of their own.
    pub counted: usize,
    /// Ready pods too new to have a sample after their start; they add nothing.
    pub new: usize,
    /// Older ready pods without a usable sample; each adds the mean of the counted.
    pub filled_in: usize,
}

impl CpuUse {
    /// Ready pods the sum stands for.
    #[must_use]
    pub fn pods(&self) -> u32 {
        u32::try_from(self.counted + self.filled_in).unwrap_or(u32::MAX)
    }
}

/// The path asked for, as shown to people.
#[must_use]
pub fn shown_query(namespace: &str, label_selector: &str) -> String {
    let path = path(namespace);
    if label_selector.is_empty() { path } else { format!("{path}?labelSelector={label_selector}") }
}

fn path(namespace: &str) -> String {
    format!("/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods")
}

/// Asks the API server.
///
/// # Errors
/// [`ReadFault::MetricsApi`], [`ReadFault::Oversized`].
pub(crate) async fn list(
    client: &kube::Client,
    namespace: &str,
    label_selector: &str,
) -> Result<Vec<PodMetrics>, ReadFault> {
    let broken = |why: String| ReadFault::MetricsApi { why: printable(&why), transient: true };
    let request = kube::core::Request::new(path(namespace))
        .list(&ListParams::default().labels(label_selector))
        .map_err(|error| ReadFault::MetricsApi { why: error.to_string(), transient: false })?;
    let stream = client.request_stream(request).await.map_err(api_fault)?;
    let mut body = Vec::new();
    let mut limited = stream.take(MAX_LIST_BYTES as u64 + 1);
    limited.read_to_end(&mut body).await.map_err(|error| broken(error.to_string()))?;
    if MAX_LIST_BYTES < body.len() {
        return Err(ReadFault::Oversized { limit_bytes: MAX_LIST_BYTES });
    }
    items(&body)
}

/// The pods of a list as it came.
pub(crate) fn items(body: &[u8]) -> Result<Vec<PodMetrics>, ReadFault> {
    let list: PodMetricsList = serde_json::from_slice(body)
        .map_err(|error| ReadFault::MetricsApi { why: printable(&error.to_string()), transient: true })?;
    Ok(list.items)
}

fn api_fault(error: kube::Error) -> ReadFault {
    let (why, transient) = match &error {
        kube::Error::Api(status) if status.code == 404 => {
            ("it is not installed in this cluster (404)".to_owned(), false)
        }
        kube::Error::Api(status) if status.code == 401 || status.code == 403 => {
            (format!("not allowed: {}", status.message), false)
        }
        kube::Error::Api(status) => (format!("HTTP {}: {}", status.code, status.message), true),
        _ => (error.to_string(), true),
    };
    ReadFault::MetricsApi { why: printable(&why), transient }
}

#[derive(Debug, Deserialize)]
struct PodMetricsList {
    #[serde(default)]
    items: Vec<PodMetrics>,
}

/// One pod's usage, as much of it as is needed.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct PodMetrics {
    metadata: Metadata,
    timestamp: String,
    #[serde(default)]
    window: String,
    #[serde(default)]
    containers: Vec<ContainerMetrics>,
}

#[derive(Debug, Clone, Deserialize)]
struct Metadata {
    name: String,
}

#[derive(Debug, Clone, Deserialize)]
struct ContainerMetrics {
    #[serde(default)]
    usage: HashMap<String, String>,
}

struct Sample {
    cores: f64,
    time: Timestamp,
    window: Duration,
}

impl PodMetrics {
    /// `None` when any part of it cannot be read: half a pod is no pod.
    fn sample(&self) -> Option<Sample> {
        if self.containers.is_empty() {
            return None;
        }
        let mut cores = 0.0;
        for container in &self.containers {
            cores += parse_cores(container.usage.get("cpu")?)?;
        }
        let window = parse_go_duration(&self.window).unwrap_or_default();
        Some(Sample { cores, time: self.timestamp.parse().ok()?, window })
    }
}

/// Sums over `pods`; what the list says of other pods is not looked at.
///
/// # Errors
/// [`ReadFault::NoReadyPods`]; [`ReadFault::PodsWithoutSamples`] when more than half of the pods that should have a
/// sample have none.
pub(crate) fn sum(
    pods: &[ReadyPod],
    list: &[PodMetrics],
    now: Timestamp,
    max_age_secs: f64,
) -> Result<CpuUse, ReadFault> {
    if pods.is_empty() {
        return Err(ReadFault::NoReadyPods);
    }
    let by_name: HashMap<&str, &PodMetrics> =
        list.iter().map(|pod| (pod.metadata.name.as_str(), pod)).collect();
    let mut young = Vec::with_capacity(pods.len());
    let mut stale = Vec::new();
    let mut new = 0;
    let mut without = 0;
    for pod in pods {
        match by_name.get(pod.name.as_str()).and_then(|metrics| metrics.sample()) {
            Some(sample) if is_of_start_up(&sample, pod) => new += 1,
            Some(sample) if (now - sample.time).get_seconds() as f64 <= max_age_secs => young.push(sample),
            Some(sample) => stale.push(sample),
            None if is_new(pod, now) => new += 1,
            None => without += 1,
        }
    }
    // Old samples alone are still worth showing: their age makes the signal stale.
    let (counted, filled_in) =
        if young.is_empty() { (stale, without) } else { (young, stale.len() + without) };
    let Some(sample_time) = counted.iter().map(|sample| sample.time).min() else {
        return Err(ReadFault::PodsWithoutSamples { without: pods.len(), ready: pods.len() });
    };
    if counted.len() < filled_in {
        return Err(ReadFault::PodsWithoutSamples { without: filled_in, ready: pods.len() });
    }
    let measured: f64 = counted.iter().map(|sample| sample.cores).sum();
    let mean = measured / counted.len() as f64;
    Ok(CpuUse {
        cores: measured + mean * filled_in as f64,
        sample_time,
        counted: counted.len(),
        new,
        filled_in,
    })
}

/// The sample's window began before the pod was ready: it measures the start (compiling, filling caches), not the load.
fn is_of_start_up(sample: &Sample, pod: &ReadyPod) -> bool {
    let Ok(window) = SignedDuration::try_from(sample.window) else { return false };
    pod.ready_since.is_some_and(|since| sample.time.checked_sub(window).is_ok_and(|began| began < since))
}

fn is_new(pod: &ReadyPod, now: Timestamp) -> bool {
    pod.ready_since.is_some_and(|since| now.as_second() - since.as_second() < NEW_POD_SECS)
}

/// A Kubernetes quantity of CPU in cores, for example `250m`, `123456n`, `1.5`, `2e-1`. `None` when negative or no
/// quantity.
#[must_use]
pub fn parse_cores(text: &str) -> Option<f64> {
    let (number, factor) = match text.as_bytes().last()? {
        b'n' => (&text[..text.len() - 1], 1e-9),
        b'u' => (&text[..text.len() - 1], 1e-6),
        b'm' => (&text[..text.len() - 1], 1e-3),
        b'k' => (&text[..text.len() - 1], 1e3),
        _ => (text, 1.0),
    };
    if !number.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-')) {
        return None;
    }
    let cores = number.parse::<f64>().ok()? * factor;
    (cores.is_finite() && 0.0 <= cores).then_some(cores)
}

/// A Go duration such as `30s`, `1m0.5s`, `250ms`.
fn parse_go_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut secs = 0.0f64;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..end].parse().ok()?;
        rest = &rest[end..];
        let units =
            [("ms", 1e-3), ("us", 1e-6), ("µs", 1e-6), ("ns", 1e-9), ("h", 3600.0), ("m", 60.0), ("s", 1.0)];
        let (unit, factor) = units.into_iter().find(|(unit, _)| rest.starts_with(unit))?;
        rest = &rest[unit.len()..];
        secs += number * factor;
    }
    Duration::try_from_secs_f64(secs).ok()
}

#[cfg(test)]
#[path = "metrics_api_tests.rs"]
mod tests;
