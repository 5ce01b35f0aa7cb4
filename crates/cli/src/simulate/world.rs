//! The world of one policy. In: its settings, a trace, and what the command line adds. Out: a scenario: the service is
//! what the policy declares it to be, unless a profile says otherwise. Pure.

use rlscaler_core::Settings;
use rlscaler_core::settings::Capacity;
use rlscaler_sim::profile::Profile;
use rlscaler_sim::scenario::Scenario;
use rlscaler_sim::trace::Trace;

use crate::Unusable;
use crate::suite::{Part, part};

/// The service where neither policy nor command line says more.
const DEFAULT_PROFILE: &str = "web";

/// The peak keeps at most this share of maxReplicas busy, unless told otherwise.
const PEAK_SHARE_OF_MAX: f64 = 0.7;

/// A world's tick is no longer, seconds.
const MAX_TICK_SECS: f64 = 5.0;

/// A request gives up no sooner than after this many targets.
const LEAST_TIMEOUT_TARGETS: f64 = 2.0;

const HOUR_SECS: f64 = 3_600.0;

/// What the command line says.
pub(super) struct Wish {
    /// The service as it is, whatever the policy declares.
    pub(super) profile: Option<Profile>,
    /// Busy pods at the peak; 0: the trace's own rates.
    pub(super) peak_pods: Option<f64>,
    /// Which part of the trace.
    pub(super) part: Part,
}

/// The world.
pub(super) fn scenario(settings: &Settings, trace: &Trace, wish: &Wish) -> anyhow::Result<Scenario> {
    let mut profile = match &wish.profile {
        Some(profile) => profile.clone(),
        None => as_declared(settings),
    };
    let service = &mut profile.service;
    service.target_secs = settings.objective.target_secs;
    service.timeout_secs = service.timeout_secs.max(LEAST_TIMEOUT_TARGETS * service.target_secs);
    profile.min_replicas = settings.bounds.min();
    profile.max_replicas = settings.bounds.max();
    if let Some(price) = settings.price_per_replica_hour {
        profile.price_per_replica_hour = price;
    }
    let usual = profile.peak_busy_pods.min(PEAK_SHARE_OF_MAX * f64::from(settings.bounds.max()));
    profile.peak_busy_pods = match wish.peak_pods {
        None => usual,
        Some(0.0) => trace.peak() / profile.service.pod_capacity(),
        Some(pods) if 0.0 < pods && pods <= 1e6 => pods,
        Some(pods) => {
            return Err(Unusable(format!("--peak-pods: expected 0 to 1000000, found {pods}")).into());
        }
    };
    let mut scenario = Scenario::new(&profile, trace);
    scenario.interval_secs = settings.interval_secs;
    scenario.tick_secs = settings.interval_secs / (settings.interval_secs / MAX_TICK_SECS).ceil();
    scenario.metrics.latency_percentile = settings.objective.latency_percentile;
    let Part { history_hours, hours } = wish.part;
    let length_secs = scenario.duration_secs;
    for (flag, hours) in [("--history-hours", history_hours), ("--hours", hours)] {
        if hours.is_some_and(|hours| !(0.0..=1e6).contains(&hours)) {
            return Err(
                Unusable(format!("{flag}: expected 0 or more, found {}", hours.unwrap_or(f64::NAN))).into()
            );
        }
    }
    let (start_secs, secs) = part(length_secs, history_hours, hours);
    if length_secs < start_secs + secs || secs < scenario.interval_secs {
        let there = length_secs / HOUR_SECS;
        let asked = (start_secs + secs) / HOUR_SECS;
        return Err(Unusable(format!(
            "--hours: expected at least one interval within the {there:.2} hours of {}, found {asked:.2} hours",
            trace.name()
        ))
        .into());
    }
    Ok(scenario.part(start_secs, secs))
}

/// The default service with what the policy declares of its own.
fn as_declared(settings: &Settings) -> Profile {
    let mut profile = Profile::shipped(DEFAULT_PROFILE).expect("the default profile ships");
    if let Some(Capacity { concurrency, service_secs }) = settings.capacity {
        profile.service.workers = concurrency;
        profile.service.service_secs = service_secs;
    }
    if let Some(startup_secs) = settings.startup_secs {
        profile.startup.p90_secs = startup_secs;
    }
    profile
}

#[cfg(test)]
mod tests {
    use rlscaler_core::settings::{Bounds, Objective, Weights};

    use super::*;

    fn settings(max: u32) -> Settings {
        let objective =
            Objective { target_secs: 0.5, sla: 0.99, latency_percentile: 0.95, weights: Weights::default() };
        let capacity = Some(Capacity { concurrency: 8, service_secs: 0.1 });
        let bounds = Bounds::new(2, max).unwrap();
        Settings { capacity, startup_secs: Some(45.0), ..Settings::new(bounds, objective) }
    }

    fn wish(peak_pods: Option<f64>) -> Wish {
        Wish { profile: None, peak_pods, part: Part::default() }
    }

    fn trace() -> Trace {
        Trace::open("autothrottle_diurnal").unwrap()
    }

    #[test]
    fn the_service_is_what_the_policy_declares() {
        let scenario = scenario(&settings(20), &trace(), &wish(None)).unwrap();
        let profile = &scenario.profile;
        assert_eq!((profile.service.workers, profile.service.service_secs), (8, 0.1));
        assert_eq!((profile.startup.p90_secs, profile.service.target_secs), (45.0, 0.5));
        assert_eq!((profile.min_replicas, profile.max_replicas), (2, 20));
        assert!((profile.peak_busy_pods - 14.0).abs() < 1e-9);
    }

    #[test]
    fn a_profile_outranks_what_the_policy_declares_but_not_its_bounds() {
        let wish = Wish { profile: Profile::shipped("jvm"), ..wish(None) };
        let scenario = scenario(&settings(100), &trace(), &wish).unwrap();
        assert_eq!(scenario.profile.service.service_secs, 0.08);
        assert_eq!((scenario.profile.min_replicas, scenario.profile.max_replicas), (2, 100));
    }

    #[test]
    fn the_peak_is_what_is_asked_for_or_the_traces_own() {
        let peak = |pods| scenario(&settings(100), &trace(), &wish(Some(pods))).map(|s| s.trace.peak());
        assert!((peak(5.0).unwrap() - 5.0 * 80.0).abs() < 1e-6);
        assert!((peak(0.0).unwrap() - trace().peak()).abs() < 1e-9);
        assert!(peak(-1.0).unwrap_err().to_string().contains("--peak-pods"));
    }
}
