//! KEDA with a rate per replica: an external metric with an average value, scaled by the HPA's rule for it. Written
//! from <https://keda.sh/docs/latest/concepts/scaling-deployments/> and the algorithm details of the HPA's page.

use rlscaler_core::hpa::{Hpa, TOLERANCE};
use rlscaler_core::settings::Bounds;

use crate::metrics::Seen;
use crate::run::Scaler;

/// Wants the rate divided by the rate per replica.
pub struct KedaRate {
    hpa: Hpa,
    per_replica: f64,
}

impl KedaRate {
    /// `per_replica`: requests per second one replica is to get. Positive.
    #[must_use]
    pub fn new(bounds: Bounds, per_replica: f64) -> Self {
        const UNUSED_TARGET_PERCENT: u32 = 100;
        Self { hpa: Hpa::new(bounds, UNUSED_TARGET_PERCENT), per_replica }
    }
}

impl Scaler for KedaRate {
    fn decide(&mut self, seen: &Seen) -> u32 {
        let current = seen.observation.replicas;
        let wanted = seen.observation.signals.qps.usable().map(|rate| {
            let ratio = rate / (self.per_replica * f64::from(current.max(1)));
            let close = (1.0 - TOLERANCE..=1.0 + TOLERANCE).contains(&ratio);
            if close { current } else { (rate / self.per_replica).ceil() as u32 }
        });
        self.hpa.sync(seen.observation.time_secs, current, wanted)
    }

    fn record_scale(&mut self, time_secs: f64, from: u32, to: u32) {
        self.hpa.record_scale(time_secs, from, to);
    }
}
