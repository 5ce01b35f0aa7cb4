//! The load per ready pod that latency has proven, and the one at which it broke.
//!
//! In: one tick. Out: two densities in the estimator's memory: the highest that was comfortable for long, and the lowest
//! that was too much for busy pods.

use super::{Estimator, PodSample, STEADY_SECS};
use crate::settings::Settings;

/// Proven density fades by this per sample, so that what was proven long ago must be proven again: 2 % an hour.
const DENSITY_FADE: f64 = 0.999_916;
/// Latency below this share of its target proves that a pod carries its load.
const COMFORT: f64 = 0.5;

impl Estimator {
    /// Load per ready pod that is proven to be served in time; 0 when none is.
    #[must_use]
    pub fn proven_density(&self) -> f64 {
        self.memory.good_density
    }

    /// No more than this load per pod is proven.
    pub(crate) fn disprove(&mut self, density: f64) {
        self.memory.good_density = self.memory.good_density.min(density);
    }

    /// Notes what this tick proves, and what it disproves.
    pub(super) fn note_density(&mut self, settings: &Settings, sample: &PodSample, density: f64) {
        let memory = &mut self.memory;
        if settings.declared.latency {
            memory.good_density *= DENSITY_FADE;
        }
        let long_steady = settings.scaled(STEADY_SECS) <= sample.now_secs - memory.steady_since_secs;
        if !settings.declared.latency && memory.good_density <= 0.0 && sample.all_ready && long_steady {
            // Nothing will ever prove a density: what the service was run with is kept.
            memory.good_density = density;
        }
        let Some(ratio) = sample.latency_ratio else { return };
        if ratio <= COMFORT && sample.all_ready && long_steady {
            memory.good_density = memory.good_density.max(density);
            if 0.0 < memory.bad_density {
                memory.bad_density = memory.bad_density.max(density);
            }
        }
        let busy = sample.utilization.is_none_or(|utilization| 0.5 <= utilization);
        if 1.0 < ratio && sample.all_ready && long_steady && busy {
            let worst = density * if ratio < 2.0 { 0.95 } else { 0.85 };
            let known = if memory.bad_density <= 0.0 { worst } else { memory.bad_density };
            memory.bad_density = known.min(worst);
            memory.good_density = memory.good_density.min(memory.bad_density);
        }
    }
}
