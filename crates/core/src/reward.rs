//! The reward people asked for: `a * latency reduction + b * resource saving + c * SLA completion`, told in parts.
//!
//! Latency reduction is against the target (a constant), resource saving against a reference count on the same
//! arrivals (a stock HPA), SLA completion against what is asked. An interval without requests is neutral.

use crate::settings::{Objective, Weights};

/// What an interval was like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Requests offered.
    pub offered: f64,
    /// Latency at the objective's percentile, seconds.
    pub latency_secs: f64,
    /// Share of offered requests that came late, 0..1.
    pub late_share: f64,
    /// Cost of the pods, starting ones included.
    pub cost: f64,
    /// Cost of the reference on the same arrivals.
    pub reference_cost: f64,
}

/// The three parts, each weighted by nothing, and their weighted sum.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Reward {
    /// (target - latency) / target, -1..=1.
    pub latency_reduction: f64,
    /// (reference cost - cost) / reference cost, -1..=1.
    pub resource_saving: f64,
    /// (completion - asked) / (1 - asked): 1 when nothing was late, 0 exactly at the SLA, not below -1.
    pub sla_completion: f64,
    /// Weighted mean of the parts, -1..=1.
    pub total: f64,
}

/// The reward of one interval.
#[must_use]
pub fn reward(objective: &Objective, interval: &Interval) -> Reward {
    let Interval { offered, latency_secs, late_share, cost, reference_cost } = *interval;
    let resource_saving = share(reference_cost - cost, reference_cost);
    let (latency_reduction, sla_completion) = if offered <= 0.0 {
        (0.0, 0.0)
    } else {
        let allowed = 1.0 - objective.sla;
        (
            share(objective.target_secs - latency_secs, objective.target_secs),
            share(allowed - late_share, allowed),
        )
    };
    let Weights { latency, saving, sla } = objective.weights;
    let total = (latency * latency_reduction + saving * resource_saving + sla * sla_completion)
        / (latency + saving + sla);
    Reward { latency_reduction, resource_saving, sla_completion, total }
}

fn share(part: f64, whole: f64) -> f64 {
    if 0.0 < whole && part.is_finite() { (part / whole).clamp(-1.0, 1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_has_its_zero_and_its_limits() {
        let objective =
            Objective { target_secs: 0.25, sla: 0.99, latency_percentile: 0.95, weights: Weights::default() };
        let neutral =
            Interval { offered: 1.0, latency_secs: 0.25, late_share: 0.01, cost: 2.0, reference_cost: 2.0 };
        let check = |interval, parts: [f64; 3]| {
            let Reward { latency_reduction, resource_saving, sla_completion, total } =
                reward(&objective, &interval);
            let found = [latency_reduction, resource_saving, sla_completion];
            for (found, expected) in found.iter().zip(parts) {
                assert!((found - expected).abs() < 1e-9, "{interval:?}: {found} {expected}");
            }
            assert!((total - parts.iter().sum::<f64>() / 3.0).abs() < 1e-9);
        };
        check(neutral, [0.0, 0.0, 0.0]);
        check(Interval { latency_secs: 0.05, ..neutral }, [0.8, 0.0, 0.0]);
        check(Interval { latency_secs: 9.0, ..neutral }, [-1.0, 0.0, 0.0]);
        check(Interval { cost: 1.0, ..neutral }, [0.0, 0.5, 0.0]);
        check(Interval { late_share: 0.0, ..neutral }, [0.0, 0.0, 1.0]);
        check(Interval { late_share: 1.0, ..neutral }, [0.0, 0.0, -1.0]);
        check(Interval { offered: 0.0, latency_secs: f64::NAN, ..neutral }, [0.0, 0.0, 0.0]);
        check(Interval { reference_cost: 0.0, ..neutral }, [0.0, 0.0, 0.0]);
    }
}
