//! Shadow does not lie: what it says would have been is what a policy in Auto then really had, on the same seed.
#![allow(clippy::unwrap_used)] // a test fails by panicking

use std::sync::Arc;

use rlscaler_core::shadow::{ShadowReport, Trust};
use rlscaler_core::{Brain, Decision, History, Override, PlannerOnly, Settings};
use rlscaler_sim::metrics::Seen;
use rlscaler_sim::outcome::Outcome;
use rlscaler_sim::profile::Profile;
use rlscaler_sim::run::{Scaler, run, run_watched};
use rlscaler_sim::scalers::brain::BrainScaler;
use rlscaler_sim::scalers::hpa::HpaScaler;
use rlscaler_sim::scenario::{Detail, Scenario};
use rlscaler_sim::seed::Seed;
use rlscaler_sim::trace::Trace;
use rlscaler_sim::world::Level;

const DAY_SECS: f64 = 86_400.0;
const SLA: f64 = 0.99;

/// An HPA scales, the brain looks on.
struct Beside {
    hpa: HpaScaler,
    brain: Brain,
    last: Option<Decision>,
}

impl Scaler for Beside {
    fn backfill(&mut self, history: &History) {
        self.brain.backfill(history);
    }

    fn decide(&mut self, seen: &Seen) -> u32 {
        self.brain.follow_shadow(&seen.observation);
        self.last = Some(self.brain.decide(&PlannerOnly, Override::None, &seen.observation));
        self.hpa.decide(seen)
    }

    fn record_scale(&mut self, time_secs: f64, from: u32, to: u32) {
        self.hpa.record_scale(time_secs, from, to);
    }

    fn last_decision(&self) -> Option<&Decision> {
        self.last.as_ref()
    }
}

/// The last day of a trace, or three quarters of a short one, with what lies before as history.
fn scenario(trace: &str, profile: &str) -> Scenario {
    let trace = Trace::open(trace).unwrap();
    let length_secs = trace.duration_secs();
    let judged_secs = if DAY_SECS < length_secs { DAY_SECS } else { 0.75 * length_secs };
    let scenario = Scenario::new(&Profile::shipped(profile).unwrap(), &trace);
    Scenario { detail: Detail::Totals, ..scenario.part(length_secs - judged_secs, judged_secs) }
}

/// What the shadow says, what really happened beside it, and what Auto then had.
fn both(
    scenario: &Scenario,
    settings: &Settings,
    target_percent: u32,
    seed: u64,
) -> (ShadowReport, Outcome, Outcome) {
    let hpa = HpaScaler::new(settings.bounds, target_percent, 300.0);
    let mut beside = Beside { hpa, brain: Brain::new(settings.clone()), last: None };
    let real = run(&mut beside, scenario, Seed(seed));
    let mut auto = BrainScaler::new(settings.clone(), Arc::new(PlannerOnly));
    let then = run(&mut auto, scenario, Seed(seed));
    (beside.brain.shadow().unwrap(), real, then)
}

/// Every kind of load, short and long start-ups. Seed 1 of all of `suites/standing.toml` was looked at; these run here.
const CASES: [(&str, &str); 8] = [
    ("crane_input6", "web"),
    ("crane_input9", "jvm"),
    ("autothrottle_diurnal", "web"),
    ("azure_llm_2023", "llm"),
    ("gen:step:9002", "web"),
    ("gen:flash-crowd:9004", "web"),
    ("gen:on-off:9005", "web"),
    ("gen:diurnal:9007", "edge"),
];

/// Bound on replica-hours: what Auto learns of its pods from its own lateness, shadow cannot know.
const HOURS_AGREE: f64 = 0.12;
/// Late shares agree within half of what the SLA allows, or this share of the larger one: what shadow itself asks of
/// its model before it calls it trusted.
const LATE_AGREE: f64 = 0.4;

#[test]
fn what_shadow_says_would_have_been_is_what_auto_then_had() {
    for (trace, profile) in CASES {
        for seed in 1..=2 {
            let scenario = scenario(trace, profile);
            let (told, real, then) = both(&scenario, &scenario.settings(SLA), 60, seed);
            let case = format!("{trace} {profile} seed {seed}: {told:?}");
            assert_eq!(told.trust, Trust::Agrees, "{case}");
            let whole = told.whole;
            let off = |found: f64, expected: f64| (found / expected - 1.0).abs();
            assert!(off(whole.replica_hours, real.replica_hours()) < 0.01, "{case}");
            assert!(
                off(whole.would_be_hours, then.replica_hours()) < HOURS_AGREE,
                "{case}, Auto had {} h",
                then.replica_hours()
            );
            let agree = |found: f64, expected: f64| {
                let bound = (0.5 * (1.0 - SLA)).max(LATE_AGREE * found.max(expected));
                assert!((found - expected).abs() <= bound, "{case}: late {found} told, {expected} had");
            };
            agree(whole.late.unwrap(), real.late_share());
            agree(whole.predicted_late.unwrap(), real.late_share());
            agree(whole.would_be_late.unwrap(), then.late_share());
        }
    }
}

#[test]
fn a_capacity_that_is_declared_wrong_by_a_third_is_called_out() {
    for (trace, profile) in CASES {
        for true_capacity in [0.77, 1.3] {
            let scenario = Scenario { true_capacity, ..scenario(trace, profile) };
            let (told, ..) = both(&scenario, &scenario.settings(SLA), 60, 1);
            let Trust::CapacityDisagrees { measured, declared } = told.trust else {
                panic!("{trace} {profile} {true_capacity}: {:?}", told.trust)
            };
            assert_eq!(measured < declared, 1.0 < true_capacity, "{trace} {profile}: {measured} {declared}");
        }
    }
}

#[test]
fn what_would_have_been_has_no_part_in_what_is_decided() {
    let scenario = scenario("autothrottle_diurnal", "web");
    let settings = scenario.settings(SLA);
    let mut followed = Beside {
        hpa: HpaScaler::new(settings.bounds, 60, 300.0),
        brain: Brain::new(settings.clone()),
        last: None,
    };
    let mut alone = Brain::new(settings.clone());
    let history = scenario.history(Seed(1));
    alone.backfill(&history);
    run_watched(&mut followed, &scenario, Seed(1), Level::Fast, |seen, scaler| {
        let expected = alone.decide(&PlannerOnly, Override::None, &seen.observation);
        assert_eq!(scaler.last_decision(), Some(&expected));
    });
}
