//! The horizontal pod autoscaler of Kubernetes 1.36 on CPU utilization: `core`'s rule, fed as its controller would be.

use rlscaler_core::hpa::{Hpa, PodClass, Tolerances, utilization_replicas};
use rlscaler_core::settings::Bounds;

use crate::metrics::Seen;
use crate::run::Scaler;

/// An HPA and room for its view of the pods.
pub struct HpaScaler {
    hpa: Hpa,
    pods: Vec<(PodClass, u64)>,
}

impl HpaScaler {
    /// With this target (percent of the request) and stabilization of scale-down (seconds).
    #[must_use]
    pub fn new(bounds: Bounds, target_percent: u32, down_window_secs: f64) -> Self {
        let mut hpa = Hpa::new(bounds, target_percent);
        hpa.down_window_secs = down_window_secs;
        Self { hpa, pods: Vec::new() }
    }
}

impl Scaler for HpaScaler {
    fn decide(&mut self, seen: &Seen) -> u32 {
        view(seen, &mut self.pods);
        let current = seen.observation.replicas;
        let target_percent = self.hpa.target_percent;
        let wanted = utilization_replicas(&self.pods, target_percent, current, Tolerances::default());
        self.hpa.sync(seen.observation.time_secs, current, wanted)
    }

    fn record_scale(&mut self, time_secs: f64, from: u32, to: u32) {
        self.hpa.record_scale(time_secs, from, to);
    }
}

/// The pods as the HPA's controller sees them. Pods the sample covers use its mean; pods that became ready after it
/// have no sample of their time as ready pods and count as unready, as do those starting. Without a sample no pod has
/// one, and the HPA can compute nothing.
pub(super) fn view(seen: &Seen, pods: &mut Vec<(PodClass, u64)>) {
    const MILLIS: f64 = 1_000.0;
    let seen_pods = seen.observation.pods;
    let request = (seen.observation.pod_cpu_request.unwrap_or(0.0) * MILLIS).round() as u64;
    let covered = seen.cpu_pods.min(seen_pods.ready);
    pods.clear();
    let sampled = match seen.observation.signals.cpu.usable() {
        Some(cores) if 0 < covered => {
            PodClass::Ready((cores * MILLIS / f64::from(seen.cpu_pods.max(1))).round() as u64)
        }
        _ => PodClass::Missing,
    };
    pods.extend(std::iter::repeat_n((sampled, request), covered as usize));
    let others =
        (seen_pods.ready - covered) + seen_pods.starting + seen_pods.unschedulable + seen_pods.unhealthy;
    pods.extend(std::iter::repeat_n((PodClass::Unready, request), others as usize));
}
