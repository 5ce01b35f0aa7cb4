//! What holds in every world: nothing is lost, the same settings give the same bytes, faults do what they say, and a
//! lost signal is missing and not zero.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;

use rlscaler_core::{PlannerOnly, Signal};
use rlscaler_sim::fault::{Channel, Fault, FaultKind};
use rlscaler_sim::metrics::Seen;
use rlscaler_sim::outcome::Outcome;
use rlscaler_sim::profile::Profile;
use rlscaler_sim::run::{Scaler, run_watched};
use rlscaler_sim::scalers::{Kind, Setup};
use rlscaler_sim::scenario::Scenario;
use rlscaler_sim::seed::Seed;
use rlscaler_sim::trace::Trace;
use rlscaler_sim::world::Level;

const SEED: Seed = Seed(3);
const LEVELS: [Level; 2] = [Level::Fast, Level::Exact];

/// A quarter of an hour of a small service with a step in its load.
fn scenario() -> Scenario {
    let mut profile = Profile::shipped("web").unwrap();
    profile.peak_busy_pods = 6.0;
    let rates = (0..90).map(|step| if step < 45 { 0.5 } else { 1.0 }).collect();
    Scenario::new(&profile, &Trace::new("step", 10.0, rates).unwrap())
}

fn with(kind: FaultKind) -> Scenario {
    Scenario { faults: vec![Fault { from_secs: 300.0, until_secs: 600.0, kind }], ..scenario() }
}

fn run(scenario: &Scenario, name: &str, level: Level, watch: impl FnMut(&Seen, &dyn Scaler)) -> Outcome {
    let settings = scenario.settings(0.99);
    let kind = Kind::parse(name, &settings).unwrap();
    let setup = Setup { settings, model: Arc::new(PlannerOnly) };
    let mut scaler = kind.build(&setup, scenario, SEED);
    run_watched(scaler.as_mut(), scenario, SEED, level, watch)
}

fn every_fault() -> Vec<FaultKind> {
    vec![
        FaultKind::SignalLost(Channel::All),
        FaultKind::SignalLate(Channel::Qps, 60.0),
        FaultKind::SignalWrong(Channel::Cpu, 3.0),
        FaultKind::SignalWrong(Channel::Qps, f64::NAN),
        FaultKind::PodsCrash { share: 0.5 },
        FaultKind::PodsPend,
        FaultKind::PodsSlow { share: 0.5, speed: 0.3 },
        FaultKind::Rollout { surge: 0.25 },
        FaultKind::Price { per_replica_hour: 7.0 },
        FaultKind::Load { factor: 2.0 },
        FaultKind::SlowDependency { factor: 3.0 },
    ]
}

#[test]
fn offered_is_served_dropped_or_still_there_whatever_goes_wrong() {
    for level in LEVELS {
        for kind in every_fault() {
            let mut scenario = with(kind);
            scenario.failures_per_pod_hour = 2.0;
            let outcome = run(&scenario, "hpa:60:60", level, |_, _| {});
            let came = outcome.brought + outcome.offered;
            let went = outcome.served + outcome.dropped + outcome.left;
            assert!((came - went).abs() <= 1e-6 * came, "{level:?} {kind:?}: {came} {went} {SEED:?}");
            assert!(outcome.late <= outcome.offered + outcome.brought);
        }
    }
}

#[test]
fn the_same_settings_and_seed_give_the_same_bytes() {
    let cases = [
        (Level::Exact, "hpa"),
        (Level::Fast, "hpa"),
        (Level::Fast, "keda-rate"),
        (Level::Fast, "phpa"),
        (Level::Fast, "planner"),
        (Level::Fast, "clairvoyant"),
    ];
    for (level, name) in cases {
        for kind in every_fault() {
            let mut scenario = with(kind);
            scenario.dispersion = 3.0;
            scenario.failures_per_pod_hour = 1.0;
            let bytes = || format!("{:?}", run(&scenario, name, level, |_, _| {}));
            assert_eq!(bytes(), bytes(), "{level:?} {name} {kind:?} {SEED:?}");
        }
    }
}

#[test]
fn another_seed_gives_another_world_and_the_same_seed_the_same_arrivals_to_every_scaler() {
    let scenario = scenario();
    let seen = |name: &str, seed: u64| {
        let settings = scenario.settings(0.99);
        let setup = Setup { settings: settings.clone(), model: Arc::new(PlannerOnly) };
        let mut scaler = Kind::parse(name, &settings).unwrap().build(&setup, &scenario, Seed(seed));
        let mut rates = Vec::new();
        run_watched(scaler.as_mut(), &scenario, Seed(seed), Level::Fast, |seen, _| {
            rates.push(seen.observation.signals.qps.usable());
        });
        rates
    };
    assert_eq!(seen("hpa:40", 1), seen("clairvoyant", 1));
    assert_ne!(seen("hpa:40", 1), seen("hpa:40", 2));
}

/// Signals seen during the fault and outside it.
fn during(kind: FaultKind) -> Vec<Seen> {
    let mut scenario = with(kind);
    scenario.metrics.missing = 0.0;
    let mut all = Vec::new();
    run(&scenario, "hpa:60:60", Level::Fast, |seen, _| all.push(*seen));
    all.retain(|seen| (420.0..590.0).contains(&seen.observation.time_secs));
    all
}

#[test]
fn a_lost_signal_is_missing_and_a_wrong_one_is_wrong() {
    for seen in during(FaultKind::SignalLost(Channel::Qps)) {
        assert_eq!(seen.observation.signals.qps, Signal::Missing);
        assert!(seen.observation.signals.cpu.usable().is_some());
    }
    for seen in during(FaultKind::SignalWrong(Channel::Cpu, f64::NAN)) {
        assert_eq!(seen.observation.signals.cpu, Signal::Invalid);
    }
    for seen in during(FaultKind::SignalLate(Channel::Qps, 90.0)) {
        assert!(
            matches!(seen.observation.signals.qps, Signal::Fresh(reading) if reading.age_secs == Some(105.0))
        );
    }
    for seen in during(FaultKind::Price { per_replica_hour: 7.0 }) {
        assert_eq!(seen.observation.signals.price.usable(), Some(7.0));
    }
}

#[test]
fn troubled_pods_are_seen_as_what_they_are() {
    let first = |kind| during(kind).into_iter().next().unwrap().observation;
    assert!(0 < first(FaultKind::PodsCrash { share: 0.5 }).pods.unhealthy);
    let pending = during(FaultKind::PodsPend).into_iter().any(|seen| 0 < seen.observation.pods.unschedulable);
    assert!(pending);
    // A slow dependency makes requests late and leaves the CPU as it was.
    let slow = first(FaultKind::SlowDependency { factor: 6.0 }).signals;
    let usual = first(FaultKind::Price { per_replica_hour: 0.05 }).signals;
    assert!(slow.sla.usable().unwrap() < 0.5 && 0.99 < usual.sla.usable().unwrap());
    assert!(slow.cpu.usable().unwrap() < 1.2 * usual.cpu.usable().unwrap());
}

#[test]
fn samples_go_missing_as_often_as_stated() {
    let mut scenario = scenario();
    scenario.trace = Arc::new(Trace::new("flat", 60.0, vec![100.0; 3_000]).unwrap());
    scenario = scenario.part(0.0, 170_000.0);
    let (mut all, mut missing) = (0.0, 0.0);
    run(&scenario, "hpa", Level::Fast, |seen, _| {
        all += 1.0;
        missing += f64::from(u8::from(seen.observation.signals.qps == Signal::Missing));
    });
    let share: f64 = missing / all;
    assert!((share - 0.02).abs() < 0.004, "{share} {SEED:?}");
}

#[test]
fn an_idle_service_has_no_latency_and_zero_replicas_serve_nobody() {
    let mut profile = Profile::shipped("web").unwrap();
    profile.min_replicas = 0;
    let scenario = Scenario::new(&profile, &Trace::new("idle", 10.0, vec![0.0; 60]).unwrap());
    let outcome = run(&scenario, "clairvoyant", Level::Fast, |seen, _| {
        let signals = seen.observation.signals;
        assert!(matches!(signals.latency, Signal::NotApplicable | Signal::Missing));
    });
    assert_eq!((outcome.late_share(), outcome.offered), (0.0, 0.0));
    let mut busy = Scenario::new(&profile, &Trace::new("busy", 10.0, vec![5.0; 60]).unwrap());
    busy.metrics.missing = 0.0;
    struct Nobody;
    impl Scaler for Nobody {
        fn decide(&mut self, _seen: &Seen) -> u32 {
            0
        }
    }
    let outcome = run_watched(&mut Nobody, &busy, SEED, Level::Fast, |_, _| {});
    assert!((outcome.late_share() - 1.0).abs() < 1e-9 && outcome.replica_secs == 0.0);
}

#[test]
fn the_clairvoyant_meets_the_target_at_less_than_any_hpa() {
    let trace = Trace::open("crane_input13").unwrap();
    let mut scenario =
        Scenario::new(&Profile::shipped("web").unwrap(), &trace).part(9.0 * 86_400.0, 43_200.0);
    scenario.metrics.missing = 0.0;
    let floor = run(&scenario, "clairvoyant", Level::Fast, |_, _| {});
    assert!(floor.late_share() < 0.01, "{}", floor.late_share());
    for name in ["hpa:40", "hpa:60", "hpa:80", "keda-rate", "phpa"] {
        let other = run(&scenario, name, Level::Fast, |_, _| {});
        assert!(floor.replica_secs < other.replica_secs || 0.01 < other.late_share(), "{name}");
    }
}

#[test]
fn what_is_late_anyway_is_late_with_many_times_the_pods_it_takes() {
    for true_capacity in [0.7, 1.0, 1.3] {
        let mut scenario = scenario();
        scenario.true_capacity = true_capacity;
        Arc::make_mut(&mut scenario.profile).min_replicas = 40;
        let late = run(&scenario, "hpa:60", Level::Fast, |_, _| {}).late_share();
        let anyway = scenario.late_anyway();
        assert!((late - anyway).abs() <= 0.01 * anyway, "capacity {true_capacity}: {late} {anyway}");
    }
    assert!(scenario().late_anyway() < 0.000_2);
}
