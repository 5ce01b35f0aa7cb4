//! Scale-downs that are undone: practically never where a service is what it was said to be, and soon where its pods
//! are not what they were when they were taken away.
#![allow(clippy::unwrap_used)] // a test fails by panicking

use std::sync::Arc;

use rlscaler_core::PlannerOnly;
use rlscaler_sim::fault::{Fault, FaultKind};
use rlscaler_sim::profile::Profile;
use rlscaler_sim::run::run_watched;
use rlscaler_sim::scalers::brain::BrainScaler;
use rlscaler_sim::scenario::{Detail, Scenario};
use rlscaler_sim::seed::Seed;
use rlscaler_sim::trace::Trace;
use rlscaler_sim::world::Level;

const DAY_SECS: f64 = 86_400.0;

/// When scale-downs were undone, every (time, replicas), and when the last was held off.
fn run(scenario: &Scenario, seed: u64) -> (Vec<f64>, Vec<(f64, u32)>, f64) {
    let (mut undone, mut counts, mut held_secs) = (Vec::new(), Vec::new(), 0.0);
    let mut scaler = BrainScaler::new(scenario.settings(0.99), Arc::new(PlannerOnly));
    run_watched(&mut scaler, scenario, Seed(seed), Level::Fast, |seen, scaler| {
        let (time_secs, decision) = (seen.observation.time_secs, scaler.last_decision().unwrap());
        if decision.reasons().iter().any(|reason| reason.code() == "ScaleDownUndone") {
            undone.push(time_secs);
        }
        if decision.hold_off().is_some() {
            held_secs = time_secs;
        }
        counts.push((time_secs, decision.replicas()));
    });
    (undone, counts, held_secs)
}

/// The last day of a trace, or three quarters of a short one, with what lies before as history.
fn scenario(trace: &str, profile: &str) -> Scenario {
    let trace = Trace::open(trace).unwrap();
    let length_secs = trace.duration_secs();
    let judged_secs = if DAY_SECS < length_secs { DAY_SECS } else { 0.75 * length_secs };
    let scenario = Scenario::new(&Profile::shipped(profile).unwrap(), &trace);
    Scenario { detail: Detail::Totals, ..scenario.part(length_secs - judged_secs, judged_secs) }
}

#[test]
fn where_all_is_as_it_was_said_no_scale_down_is_undone() {
    for (trace, profile) in [
        ("crane_input6", "web"),
        ("crane_input9", "jvm"),
        ("autothrottle_diurnal", "web"),
        ("azure_llm_2023", "llm"),
        ("gen:step:9002", "web"),
        ("gen:flash-crowd:9004", "web"),
        ("gen:on-off:9005", "web"),
        ("gen:markov:9006", "web"),
        ("gen:diurnal:9007", "edge"),
    ] {
        for seed in 1..=2 {
            let (undone, ..) = run(&scenario(trace, profile), seed);
            assert!(undone.is_empty(), "{trace} {profile} seed {seed}: {undone:?}");
        }
    }
}

#[test]
fn pods_that_turn_slow_after_a_scale_down_are_joined_by_those_that_went() {
    let profile = Profile::shipped("web").unwrap();
    let capacity = profile.service.pod_capacity();
    // From 20 busy pods to 14 after an hour; the pods that are left turn slower when they have gone.
    let rate = |step: u32| if step < 360 { 20.0 * capacity } else { 14.0 * capacity };
    let trace = Trace::new("less", 10.0, (0..1_080).map(rate).collect()).unwrap();
    for seed in 1..=5 {
        let mut scenario = Scenario::new(&profile, &trace);
        scenario.trace = Arc::new(trace.clone());
        let (undone, counts, _) = run(&scenario, seed);
        assert!(undone.is_empty(), "seed {seed}: {undone:?}");
        let fell = counts.windows(2).rfind(|pair| pair[1].1 < pair[0].1 && pair[1].0 < 3_900.0).unwrap();
        let (down_secs, before) = (fell[1].0, fell[0].1);
        let kind = FaultKind::PodsSlow { share: 1.0, speed: 0.8 };
        let (from_secs, until_secs) = (down_secs + 15.0, down_secs + 900.0);
        scenario.faults = vec![Fault { from_secs, until_secs, kind }];
        let (undone, counts, held_secs) = run(&scenario, seed);
        let first = *undone.first().unwrap();
        assert!(first <= down_secs + 150.0, "seed {seed}: down at {down_secs}, undone at {first}");
        let mut held = counts.iter().filter(|(time, _)| first <= *time && *time < first + 600.0);
        assert!(held.all(|(_, replicas)| before <= *replicas), "seed {seed}: {before}");
        // The pods turn well again, and so does the count: what is held off ends.
        assert!(held_secs < first + 4_800.0, "seed {seed}: held off at {held_secs}");
    }
}
