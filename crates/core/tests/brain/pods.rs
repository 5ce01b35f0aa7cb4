//! Pods that are not simply ready: new ones without samples, slow starters, ones that cannot be placed, none at all.

use rlscaler_core::decision::{Active, Limited};
use rlscaler_core::observation::{Observation, Pods, Signal};
use rlscaler_core::settings::{DeclaredSignals, Settings};
use rlscaler_core::{Brain, PlannerOnly};

use crate::service::{PER_POD, Service, bounds, codes, fresh, says, settings};

/// A policy whose load is CPU.
fn by_cpu() -> Settings {
    let declared = DeclaredSignals { qps: false, latency: true, cpu: true, ..DeclaredSignals::default() };
    Settings { declared, ..settings() }
}

// Case 28.
#[test]
fn utilization_is_that_of_the_pods_that_gave_samples() {
    let overloaded = |cpu_pods| {
        let mut service = Service::new(settings(), 10);
        service.run(600.0, 600.0);
        service.replicas = 10;
        service.tick(600.0, |seen| {
            seen.signals.qps = Signal::Missing;
            seen.signals.latency = fresh(0.5);
            seen.signals.cpu = fresh(1.9);
            seen.cpu_pods = cpu_pods;
        })
    };
    let idle = overloaded(None);
    assert!(says(&idle, "ScalingWontHelp") && !idle.changes(), "{:?}", codes(&idle));
    let busy = overloaded(Some(2));
    assert!(!says(&busy, "ScalingWontHelp"), "{:?}", codes(&busy));
    assert!(10 < busy.replicas(), "{} {:?}", busy.replicas(), codes(&busy));
}

// Case 28.
#[test]
fn pods_without_samples_neither_add_load_nor_take_it_away() {
    let mut service = Service::new(by_cpu(), 8);
    service.run_spoiled(1_800.0, 0.0, |seen| seen.signals.cpu = fresh(4.8));
    let before = service.replicas;
    assert!((6..=8).contains(&before), "{before}");
    // Half of the pods are new: those with samples still carry all of the load, or half of it, until all are seen.
    let pods = before;
    for tick in 0..40 {
        let (cores, cpu_pods) = [(4.8, pods / 2), (2.4, pods / 2), (2.4, pods / 2), (4.8, pods)][tick % 4];
        let decision = service.tick(0.0, |seen| {
            seen.signals.cpu = fresh(cores);
            seen.cpu_pods = Some(cpu_pods);
        });
        assert_eq!(decision.replicas(), before, "tick {tick}: {:?}", decision.reasons());
    }
    // One pod in eight hides at most an eighth: the number still follows the load down.
    let last = service.run_spoiled(900.0, 0.0, |seen| {
        seen.signals.cpu = fresh(1.4);
        seen.cpu_pods = Some(seen.pods.ready - 1);
    });
    assert!(last.replicas() < before, "{:?}", last.reasons());
}

// Case 28.
#[test]
fn what_a_pod_serves_is_not_learnt_from_a_sum_that_pods_are_missing_from() {
    let learnt = |spoil: fn(&mut Observation)| {
        let mut service = Service::new(Settings { capacity: None, ..settings() }, 8);
        service.run(1_200.0, 400.0);
        service.run_spoiled(1_800.0, 400.0, spoil);
        service.tick(400.0, |_| {}).planner()
    };
    let all = learnt(|_| {});
    let half = learnt(|seen| {
        let Signal::Fresh(cpu) = seen.signals.cpu else { return };
        seen.signals.cpu = fresh(cpu.value / 2.0);
        seen.cpu_pods = Some(seen.pods.ready / 2);
    });
    assert_eq!(half, all);
}

/// A service whose pods take three minutes to be ready and whose latency tells of the last 75 seconds.
struct SlowStarter {
    brain: Brain,
    time_secs: f64,
    ready_at_secs: Vec<f64>,
    late_until_secs: f64,
}

const STARTUP_SECS: f64 = 180.0;
const LATENCY_LAG_SECS: f64 = 75.0;
const TICK_SECS: f64 = 15.0;

impl SlowStarter {
    fn new(settings: &Settings, replicas: usize) -> Self {
        let settings = Settings { bounds: bounds(2, 500), ..settings.clone() };
        Self {
            brain: Brain::new(settings),
            time_secs: 1_000_000.0,
            ready_at_secs: vec![0.0; replicas],
            late_until_secs: 0.0,
        }
    }

    /// One tick; what was asked for.
    fn tick(&mut self, qps: f64, spoil: fn(&mut Observation)) -> u32 {
        let replicas = self.ready_at_secs.len() as u32;
        let ready = self.ready_at_secs.iter().filter(|&&at| at <= self.time_secs).count() as u32;
        let most = PER_POD * f64::from(ready);
        if 0.95 * most < qps {
            self.late_until_secs = self.time_secs + LATENCY_LAG_SECS;
        }
        let late = self.time_secs < self.late_until_secs;
        let mut seen = Service::new(settings(), replicas).healthy(qps);
        seen.time_secs = self.time_secs;
        seen.pods = Pods { ready, starting: replicas - ready, ..Pods::default() };
        seen.startup_secs = Some(STARTUP_SECS);
        seen.signals.latency = fresh(if late { 2.0 } else { 0.08 });
        seen.signals.cpu = fresh((qps.min(most)) / PER_POD + 0.01);
        spoil(&mut seen);
        let decision = self.brain.decide(&PlannerOnly, rlscaler_core::settings::Override::None, &seen);
        if decision.changes() {
            self.brain.record_scale(self.time_secs, decision.from(), decision.replicas());
        }
        let wanted = decision.replicas() as usize;
        self.ready_at_secs.resize(wanted, self.time_secs + STARTUP_SECS);
        self.time_secs += TICK_SECS;
        decision.replicas()
    }

    fn run(&mut self, secs: f64, qps: f64, spoil: fn(&mut Observation)) -> u32 {
        (0..(secs / TICK_SECS) as u32).map(|_| self.tick(qps, spoil)).max().unwrap_or(0)
    }
}

// Case 35.
#[test]
fn an_overloaded_slow_starter_is_not_flooded_whatever_is_known_of_it() {
    /// Replicas that 800 requests/s need.
    const NEEDED: u32 = 12;
    let unknown = Settings { capacity: None, ..settings() };
    type Setup = (&'static str, Settings, fn(&mut Observation));
    let setups: [Setup; 6] = [
        ("declared capacity", settings(), |_| {}),
        ("capacity by CPU", unknown.clone(), |_| {}),
        ("nothing known of a pod", unknown.clone(), |seen| seen.pod_cpu_request = None),
        ("nothing but latency", unknown.clone(), |seen| {
            seen.signals.qps = Signal::Missing;
            seen.signals.cpu = Signal::Missing;
        }),
        ("the rate is lost", settings(), |seen| seen.signals.qps = Signal::Missing),
        ("load by CPU", by_cpu(), |_| {}),
    ];
    for (name, settings, spoil) in setups {
        let mut service = SlowStarter::new(&settings, 4);
        service.run(600.0, 200.0, |seen| seen.startup_secs = Some(STARTUP_SECS));
        let most = service.run(1_800.0, 800.0, spoil);
        // CPU that grows with the pods looks like load that grows: most is asked for where nothing else tells the load.
        assert!(2 * most <= 5 * NEEDED, "{name}: {most} replicas for a load that needs {NEEDED}");
        assert!(NEEDED <= most, "{name}: only {most} replicas for a load that needs {NEEDED}");
    }
}

// Case 35.
#[test]
fn while_pods_start_more_are_asked_for_only_when_demand_grew() {
    let mut service = SlowStarter::new(&settings(), 4);
    service.run(600.0, 200.0, |_| {});
    let first = service.run(60.0, 600.0, |_| {});
    let meanwhile = service.run(105.0, 600.0, |_| {});
    assert!(meanwhile <= first + 1, "{first} then {meanwhile}");
    let grown = service.run(60.0, 1_200.0, |_| {});
    assert!(15 <= grown, "{grown}");
}

// Case 26.
#[test]
fn pods_that_cannot_be_placed_do_not_keep_the_number_up() {
    let mut service = Service::new(settings(), 12);
    service.run(1_800.0, 800.0);
    let before = service.replicas;
    let last = service.run_spoiled(300.0, 240.0, |seen| {
        let stuck = 3.min(seen.replicas);
        seen.pods = Pods { ready: seen.replicas - stuck, unschedulable: stuck, ..Pods::default() };
    });
    assert!((4..=5).contains(&last.replicas()) && last.replicas() < before, "{:?}", codes(&last));
}

// Case 31.
#[test]
fn a_quota_is_seen_ahead_and_limits_the_raising_only() {
    let mut service = Service::new(settings(), 6);
    service.run(600.0, 400.0);
    let room = |room: u32| move |seen: &mut Observation| seen.room = Some(room);
    let raised = service.tick(1_500.0, room(9));
    assert_eq!((raised.replicas(), raised.limited()), (9, Some(Limited::CapacityUnavailable)));
    let held = service.run_spoiled(300.0, 1_500.0, room(9));
    assert_eq!((held.replicas(), held.limited()), (9, Some(Limited::CapacityUnavailable)));
    // A quota that was lowered below what runs takes nothing away and lets nothing in.
    let lowered = service.run_spoiled(300.0, 1_500.0, room(3));
    assert_eq!(lowered.replicas(), 9, "{:?}", codes(&lowered));
    let more = service.run_spoiled(60.0, 1_500.0, room(30));
    assert_eq!((more.replicas(), more.limited()), (20, Some(Limited::TooManyReplicas)));
    let fewer = service.run_spoiled(600.0, 240.0, room(3));
    assert!(fewer.replicas() <= 5, "{:?}", codes(&fewer));
}

#[test]
fn while_no_pod_is_ready_nothing_is_taken_for_idleness() {
    // A rollout that replaces all pods at once, of a service whose rate is measured at its pods and fades out.
    let mut no_cpu = settings();
    no_cpu.declared.cpu = false;
    for settings in [settings(), no_cpu] {
        let mut service = Service::new(settings, 9);
        service.run(1_800.0, 560.0);
        let before = service.replicas;
        for tick in 0..60 {
            let decision = service.tick((560.0 - 80.0 * f64::from(tick)).max(0.0), |seen| {
                seen.pods = Pods { starting: seen.replicas, ..Pods::default() };
                seen.signals.latency = Signal::Missing;
                seen.signals.cpu = Signal::Missing;
            });
            assert_eq!(decision.replicas(), before, "tick {tick}: {:?}", codes(&decision));
        }
    }
}

#[test]
fn a_rollout_that_stops_half_way_changes_nothing() {
    // Paused, or waiting for a StatefulSet's next pod: half of the pods stay where they are for an hour.
    let mut service = Service::new(settings(), 9);
    service.run(1_800.0, 400.0);
    let before = service.replicas;
    let last = service.run_spoiled(3_600.0, 400.0, |seen| {
        seen.pods = Pods { ready: before - 1, starting: 1, ..Pods::default() };
    });
    assert_eq!((last.replicas(), last.active()), (before, Active::ValidMetricFound), "{:?}", codes(&last));
}
