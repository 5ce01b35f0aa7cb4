//! What one run is judged by. In: an outcome and what it is compared with. Out: [`Measures`], rounded.

use rlscaler_core::reward::{self, Interval, Reward};
use rlscaler_core::settings::{Objective, Weights};
use rlscaler_sim::outcome::Outcome;
use rlscaler_sim::scenario::Scenario;
use schemars::JsonSchema;
use serde::Serialize;

use super::judge::allowed;

/// What one run came to.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Measures {
    /// True when the late share is within what the SLA allows.
    pub(crate) sla_met: bool,
    /// Share of offered requests not answered within the target, drops and time-outs among them, 0..1.
    pub(crate) late_ratio: f64,
    /// Late share of the worst hour, 0..1.
    pub(crate) worst_hour_late_ratio: f64,
    /// Late share of the worst day, 0..1; of a run of less than a day, its own.
    pub(crate) worst_day_late_ratio: f64,
    /// Share of offered requests never answered, 0..1.
    pub(crate) dropped_ratio: f64,
    /// Pod-hours paid, starting pods among them.
    pub(crate) replica_hours: f64,
    /// Pod-hours over those of the clairvoyant in the same world.
    pub(crate) over_clairvoyant: f64,
    /// Pod-hours times the profile's price.
    pub(crate) cost: f64,
    /// Changes of the number of replicas per hour.
    pub(crate) changes_per_hour: f64,
    /// Latency that 95 % of requests did not exceed, milliseconds; null without requests, and
    /// where more than the others were never answered.
    pub(crate) p95_ms: Option<f64>,
    /// Latency that 99 % of requests did not exceed, milliseconds; null without requests, and
    /// where more than the others were never answered.
    pub(crate) p99_ms: Option<f64>,
    /// Fewest replicas wanted.
    pub(crate) min_replicas: u32,
    /// Most replicas wanted.
    pub(crate) max_replicas: u32,
    /// The reward with equal weights, and its three parts: means over the intervals between decisions, where one without
    /// requests is neutral.
    pub(crate) reward: RewardParts,
}

/// The reward and its parts, each -1..1.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct RewardParts {
    /// Mean of the three parts.
    pub(crate) total: f64,
    /// (target - p95 of the interval) / target.
    pub(crate) latency_reduction: f64,
    /// (pods of a stock HPA, CPU 60 %, in the same interval of the same world - pods) / those of the HPA.
    pub(crate) resource_saving: f64,
    /// (late share allowed - late share) / late share allowed.
    pub(crate) sla_completion: f64,
}

/// What a run is measured against, in the same world.
pub(crate) struct Yardstick<'a> {
    /// Share that must not be late, 0 < sla < 1.
    pub(crate) sla: f64,
    /// Pods that a stock HPA paid for, mean of each interval.
    pub(crate) stock_pods: &'a [f64],
    /// Pod-hours of the clairvoyant.
    pub(crate) floor_hours: f64,
}

impl Measures {
    /// Of an outcome with a point per decision.
    pub(crate) fn new(outcome: &Outcome, scenario: &Scenario, yardstick: &Yardstick<'_>) -> Self {
        let late_share = outcome.late_share();
        let dropped = if 0.0 < outcome.offered { outcome.dropped / outcome.offered } else { 0.0 };
        // Requests that were never answered have no latency: a percentile among them is none.
        let millis = |quantile: f64| {
            let answered = dropped < 1.0 - quantile;
            outcome.latency_quantile(quantile).filter(|_| answered).map(|secs| round(1e3 * secs))
        };
        Self {
            sla_met: late_share <= allowed(yardstick.sla),
            late_ratio: round(late_share),
            worst_hour_late_ratio: round(outcome.worst_hour_late),
            worst_day_late_ratio: round(outcome.worst_day_late),
            dropped_ratio: round(dropped),
            replica_hours: round(outcome.replica_hours()),
            over_clairvoyant: round(outcome.replica_hours() / yardstick.floor_hours.max(f64::MIN_POSITIVE)),
            cost: round(outcome.cost),
            changes_per_hour: round(outcome.changes_per_hour()),
            p95_ms: millis(0.95),
            p99_ms: millis(0.99),
            min_replicas: outcome.min_replicas,
            max_replicas: outcome.max_replicas,
            reward: RewardParts::new(outcome, scenario, yardstick),
        }
    }
}

impl RewardParts {
    /// Means over the intervals.
    fn new(outcome: &Outcome, scenario: &Scenario, yardstick: &Yardstick<'_>) -> Self {
        let objective = Objective {
            target_secs: scenario.profile.service.target_secs,
            sla: yardstick.sla,
            latency_percentile: scenario.metrics.latency_percentile,
            weights: Weights::default(),
        };
        let mut sum = Reward::default();
        for (point, stock_pods) in outcome.points.iter().zip(yardstick.stock_pods) {
            let interval = Interval {
                offered: point.rate,
                latency_secs: point.latency_secs,
                late_share: point.late_share,
                cost: point.paid,
                reference_cost: *stock_pods,
            };
            let Reward { latency_reduction, resource_saving, sla_completion, total } =
                reward::reward(&objective, &interval);
            sum.latency_reduction += latency_reduction;
            sum.resource_saving += resource_saving;
            sum.sla_completion += sla_completion;
            sum.total += total;
        }
        let mean = |sum: f64| round(sum / outcome.points.len().max(1) as f64);
        Self {
            total: mean(sum.total),
            latency_reduction: mean(sum.latency_reduction),
            resource_saving: mean(sum.resource_saving),
            sla_completion: mean(sum.sla_completion),
        }
    }
}

/// Six significant digits: enough for every use, and the same on machines whose last bits differ.
pub(crate) fn round(value: f64) -> f64 {
    const DIGITS: i32 = 6;
    /// Below this, a number is zero.
    const TINY: f64 = 1e-12;
    if !value.is_finite() || value.abs() < TINY {
        return 0.0;
    }
    let places = DIGITS - 1 - value.abs().log10().floor() as i32;
    // Dividing by a power of ten that is exact keeps 0.1 at 0.1.
    if 0 <= places {
        let scale = 10_f64.powi(places);
        (value * scale).round() / scale
    } else {
        let scale = 10_f64.powi(-places);
        (value / scale).round() * scale
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_digits_are_kept() {
        for (value, expected) in [
            (0.123_456_789, 0.123_457),
            (123_456_789.0, 123_457_000.0),
            (-0.000_123_456_789, -0.000_123_457),
            (1e-15, 0.0),
            (f64::NAN, 0.0),
            (0.01, 0.01),
        ] {
            assert_eq!(round(value), expected);
        }
    }
}
