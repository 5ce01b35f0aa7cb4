//! The planner: from demand at the horizon to n0, the smallest replica count whose queue keeps the late share under
//! what the SLA allows. Where capacity is unknown, a careful rule on latency and on load per pod that is proven.
//!
//! In: a forecast, what one pod carries, what waits. Out: a [`Plan`]. Pure.
//! Its maximum over its own answers of the last W seconds is kept by `guardrail`, as a stabilization window.

use crate::capacity::PodCapacity;
use crate::decision::Reasons;
use crate::forecast::Forecast;
use crate::policy::whole;
use crate::queue::exact_replicas;
use crate::reason::Reason;
use crate::settings::Settings;

/// Seconds within which waiting requests shall be worked off.
const DRAIN_SECS: f64 = 30.0;
/// CPU this close to the request hides demand where the load is taken from CPU: a busy pod uses no more than it has.
const SATURATED: f64 = 0.95;
/// Demand assumed behind a saturated CPU, over what is seen: as much as a stock HPA at 60 % would.
const HIDDEN_DEMAND: f64 = 1.5;
/// Replica counts beyond this are not searched; bounds are applied later.
const SEARCH_MAX: u32 = 100_000;
/// Growth worth mentioning.
const WORTH_SAYING: f64 = 1.02;

/// What the planner answers from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Demand {
    /// Looked ahead, in the load's unit.
    pub forecast: Forecast,
    /// Requests (or core-seconds) estimated to wait.
    pub backlog: f64,
    /// CPU used over requested, where the load is taken from CPU and latency is not comfortable.
    pub saturation: Option<f64>,
    /// The learnt factor on the load.
    pub scale: f64,
}

/// The planner's answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// n0: replicas, before bounds; at least 1 where there is load.
    pub replicas: u32,
    /// n0 as a real number, of which `replicas` is the next whole one.
    pub exact: f64,
    /// Demand behind it, in busy pods.
    pub busy_pods: f64,
    /// Present level, in busy pods, the learnt factor applied.
    pub level_busy_pods: f64,
}

/// n0 for this demand.
#[must_use]
pub fn plan(settings: &Settings, capacity: &PodCapacity, demand: &Demand) -> Plan {
    let busy_pods = busy_pods(settings, capacity, demand, demand.forecast.error);
    let exact = needed(settings, capacity, busy_pods);
    Plan {
        replicas: whole(exact),
        exact,
        busy_pods,
        level_busy_pods: demand.forecast.level * demand.scale / capacity.load_per_pod,
    }
}

/// n0 with only as much margin as forecasts have proven to need: what cannot be blamed on the prior of a fresh service.
#[must_use]
pub fn plan_proven(settings: &Settings, capacity: &PodCapacity, demand: &Demand) -> f64 {
    needed(settings, capacity, busy_pods(settings, capacity, demand, demand.forecast.proven_error))
}

/// Says what the plan is made of.
pub fn explain(plan: &Plan, demand: &Demand, reasons: &mut Reasons) {
    let Demand { forecast, backlog, .. } = demand;
    let ratio = |expected: f64| expected / forecast.level.max(f64::MIN_POSITIVE);
    if forecast.seasonal < forecast.trend && WORTH_SAYING < ratio(forecast.trend) {
        reasons.push(Reason::Rising { ratio: ratio(forecast.trend) });
    } else if WORTH_SAYING < ratio(forecast.seasonal) {
        reasons.push(Reason::Seasonal { ratio: ratio(forecast.seasonal) });
    }
    if 1.0 <= *backlog {
        reasons.push(Reason::Backlog { requests: *backlog });
    }
    reasons.push(Reason::QueueModel { busy_pods: plan.busy_pods, replicas: plan.replicas });
}

fn busy_pods(settings: &Settings, capacity: &PodCapacity, demand: &Demand, error: f64) -> f64 {
    let Demand { forecast, backlog, saturation, scale } = demand;
    let hidden = if saturation.is_some_and(|used| SATURATED <= used) { HIDDEN_DEMAND } else { 1.0 };
    let expected = forecast.expected() * hidden * (1.0 + settings.tuning.safety * error);
    (expected + backlog / settings.scaled(DRAIN_SECS)) * scale / capacity.load_per_pod
}

fn needed(settings: &Settings, capacity: &PodCapacity, busy_pods: f64) -> f64 {
    let busy_workers = busy_pods * f64::from(capacity.service.workers);
    exact_replicas(&capacity.service, busy_workers, settings.allowed_late(), SEARCH_MAX)
}

/// What the careful rule answers from, where nobody knows what a pod can serve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unknown {
    /// `spec.replicas`.
    pub current: u32,
    /// Demand looked ahead with its margin, where the load is known.
    pub demand: Option<f64>,
    /// Load per pod that is proven to be served in time (or that the service was run with); 0: none.
    pub proven_density: f64,
    /// Latency over target, where fresh.
    pub latency_ratio: Option<f64>,
    /// CPU used over requested, where known.
    pub utilization: Option<f64>,
    /// No pod is starting.
    pub all_ready: bool,
    /// Seconds that load and pods have been steady.
    pub steady_secs: f64,
}

/// Latency below this share of the target is comfortable.
pub const COMFORT: f64 = 0.5;
/// CPU below this share of the request is idle.
pub const IDLE: f64 = 0.5;
/// A pod is not asked to carry more than this multiple of what is proven.
const BEYOND_PROOF: f64 = 1.5;
/// Latency over its target asks for at most this factor at once.
const LATENCY_FACTOR_MAX: f64 = 2.0;
/// Seconds of comfort before one replica less is tried.
const PROBE_SECS: f64 = 300.0;

/// The careful rule: up with latency or with load per pod far beyond what is proven; down to what is proven, and one by
/// one beyond it. Holds when it knows neither.
#[must_use]
pub fn careful(settings: &Settings, seen: &Unknown) -> u32 {
    let Unknown { current, demand, proven_density, latency_ratio, utilization, all_ready, steady_secs } =
        *seen;
    if let Some(up) = by_latency(current, latency_ratio, utilization, all_ready) {
        return up;
    }
    let Some(demand) = demand.filter(|_| 0.0 < proven_density) else { return current };
    let at = |density: f64| (demand / density).ceil() as u32;
    if latency_ratio.is_none() {
        return at(proven_density).max(1);
    }
    let comfortable = latency_ratio.is_some_and(|ratio| ratio <= COMFORT);
    if !comfortable {
        return current.max(at(proven_density).min(current.saturating_mul(2)));
    }
    let probe = all_ready && settings.scaled(PROBE_SECS) <= steady_secs;
    let fewest = if probe { current.saturating_sub(1) } else { current };
    let upper = at(BEYOND_PROOF * proven_density);
    if current < upper { upper } else { at(proven_density).min(fewest).max(1) }
}

/// Latency over its target asks for more, in proportion, once what was asked for is there; not while CPU idles.
#[must_use]
pub fn by_latency(
    current: u32,
    latency_ratio: Option<f64>,
    utilization: Option<f64>,
    all_ready: bool,
) -> Option<u32> {
    let ratio = latency_ratio.filter(|&ratio| 1.0 < ratio)?;
    if !all_ready || utilization.is_some_and(|used| used < IDLE) {
        return Some(current);
    }
    Some((f64::from(current.max(1)) * ratio.min(LATENCY_FACTOR_MAX)).ceil() as u32)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::capacity::{Estimator, Source};
    use crate::settings::{Bounds, Capacity, Objective, Weights};

    fn settings() -> Settings {
        let objective =
            Objective { target_secs: 0.25, sla: 0.99, latency_percentile: 0.95, weights: Weights::default() };
        let capacity = Some(Capacity { concurrency: 4, service_secs: 0.05 });
        Settings { capacity, ..Settings::new(Bounds::new(1, 100).expect("1 <= 100"), objective) }
    }

    fn demand(level: f64, error: f64) -> Demand {
        let forecast = Forecast { level, trend: level, seasonal: level, error, proven_error: 0.0 };
        Demand { forecast, backlog: 0.0, saturation: None, scale: 1.0 }
    }

    fn replicas(demand: &Demand) -> u32 {
        let settings = settings();
        let capacity = Estimator::default().capacity(&settings, None).expect("declared");
        assert_eq!(capacity.source, Source::Declared);
        plan(&settings, &capacity, demand).replicas
    }

    #[test]
    fn n0_is_the_smallest_count_whose_queue_meets_the_target() {
        // 300 requests/s are 15 busy workers: with 16 workers 1.8 % wait more than 200 ms, with 20 nobody does.
        assert_eq!(replicas(&demand(300.0, 0.0)), 5);
        assert_eq!(replicas(&demand(300.0, 0.1)), 5);
        assert_eq!(replicas(&demand(300.0, 0.3)), 6);
        assert_eq!(replicas(&demand(0.0, 0.1)), 0);
        assert_eq!(replicas(&demand(0.01, 0.1)), 1);
    }

    #[test]
    fn what_waits_shall_be_worked_off_in_half_a_minute() {
        let waiting = Demand { backlog: 2400.0, ..demand(300.0, 0.0) };
        assert_eq!(replicas(&waiting), replicas(&demand(380.0, 0.0)));
    }

    #[test]
    fn a_saturated_cpu_hides_demand() {
        let seen = |saturation| Demand { saturation, ..demand(300.0, 0.0) };
        assert_eq!(replicas(&seen(Some(0.94))), 5);
        assert_eq!(replicas(&seen(Some(0.95))), replicas(&demand(450.0, 0.0)));
    }

    #[test]
    fn the_careful_rule_follows_latency_and_proof() {
        let known = Unknown {
            current: 4,
            demand: Some(100.0),
            proven_density: 25.0,
            latency_ratio: Some(0.3),
            utilization: None,
            all_ready: true,
            steady_secs: 0.0,
        };
        let check = |seen: Unknown, expected| assert_eq!(careful(&settings(), &seen), expected, "{seen:?}");
        check(known, 4);
        check(Unknown { steady_secs: 300.0, ..known }, 3);
        check(Unknown { steady_secs: 300.0, all_ready: false, ..known }, 4);
        check(Unknown { current: 1, demand: Some(1.0), steady_secs: 300.0, ..known }, 1);
        check(Unknown { demand: Some(60.0), ..known }, 3);
        check(Unknown { demand: Some(140.0), ..known }, 4);
        check(Unknown { demand: Some(300.0), ..known }, 8);
        check(Unknown { demand: Some(140.0), latency_ratio: Some(0.7), ..known }, 6);
        check(Unknown { latency_ratio: Some(1.5), ..known }, 6);
        check(Unknown { latency_ratio: Some(9.0), ..known }, 8);
        check(Unknown { latency_ratio: Some(9.0), all_ready: false, ..known }, 4);
        check(Unknown { latency_ratio: Some(9.0), utilization: Some(0.2), ..known }, 4);
        check(Unknown { latency_ratio: None, demand: Some(150.0), ..known }, 6);
        check(Unknown { proven_density: 0.0, ..known }, 4);
        check(Unknown { demand: None, ..known }, 4);
    }

    proptest! {
        #[test]
        fn more_of_anything_never_asks_for_fewer(
            level in 0.0..5000.0_f64,
            more in 0.0..500.0_f64,
            error in 0.0..0.5_f64,
            backlog in 0.0..5000.0_f64,
        ) {
            let least = replicas(&demand(level, 0.0));
            prop_assert!(least <= replicas(&demand(level + more, 0.0)));
            prop_assert!(least <= replicas(&demand(level, error)));
            let waiting = Demand { backlog, ..demand(level, 0.0) };
            prop_assert!(least <= replicas(&waiting));
            let doubted = Demand { scale: 1.0 + error, ..demand(level, 0.0) };
            prop_assert!(least <= replicas(&doubted));
        }
    }
}
