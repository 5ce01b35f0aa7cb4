//! Following the load, and what limits it.

use rlscaler_core::decision::Limited;
use rlscaler_core::observation::Signal;
use rlscaler_core::settings::{Behavior, Direction, Select, Settings, Step, StepKind};
use rlscaler_core::{Action, Features, PlannerOnly, Policy, PolicyFault, Reason};

use crate::service::{Service, bounds, codes, fresh, says, settings};

#[test]
fn a_fresh_service_is_sized_by_its_first_tick() {
    let mut service = Service::new(settings(), 5);
    let first = service.tick(560.0, |_| {});
    assert!((8..=9).contains(&first.replicas()), "{:?}", codes(&first));
    assert_eq!(first.planner(), first.proposed());
}

#[test]
fn the_count_follows_the_load_both_ways_within_the_bounds() {
    let mut service = Service::new(settings(), 5);
    for (qps, expected) in
        [(300.0, 5..=6), (900.0, 12..=14), (5_000.0, 20..=20), (300.0, 5..=6), (1.0, 2..=2)]
    {
        let last = service.run(900.0, qps);
        assert!(expected.contains(&last.replicas()), "{qps}: {} {:?}", last.replicas(), codes(&last));
    }
    assert_eq!(service.run(900.0, 300.0).limited(), None);
    assert_eq!(service.run(300.0, 5_000.0).limited(), Some(Limited::TooManyReplicas));
    assert_eq!(service.run(900.0, 1.0).limited(), Some(Limited::TooFewReplicas));
}

#[test]
fn scale_up_policies_limit_a_jump() {
    let mut service = Service::new(settings(), 2);
    let jump = service.tick(1_500.0, |_| {});
    assert_eq!(jump.replicas(), 6);
    assert_eq!(jump.limited(), Some(Limited::ScaleUpLimit));
    assert_eq!(service.tick(1_500.0, |_| {}).replicas(), 12);
}

#[test]
fn behavior_is_per_direction() {
    let frozen = Direction { window_secs: 0.0, select: Select::Disabled, steps: Vec::new(), tolerance: None };
    let slow = Step { kind: StepKind::Pods, value: 1, period_secs: 60.0 };
    let behavior = Behavior {
        up: frozen,
        down: Direction { window_secs: 0.0, select: Select::Max, steps: vec![slow], tolerance: None },
    };
    let mut service = Service::new(Settings { behavior, ..settings() }, 10);
    assert_eq!(service.run(300.0, 1_500.0).replicas(), 10);
    service.run(135.0, 200.0);
    let before = service.replicas;
    let last = service.run(240.0, 200.0);
    assert!((3..=5).contains(&(before - last.replicas())), "{before} {}", last.replicas());
    assert_eq!(last.limited(), Some(Limited::ScaleDownLimit));
}

#[test]
fn a_small_decrease_is_not_worth_a_change() {
    let mut service = Service::new(settings(), 16);
    service.run(7_200.0, 1_040.0);
    let before = service.replicas;
    let last = service.run(600.0, 1_000.0);
    assert_eq!(last.replicas(), before, "{:?}", codes(&last));
}

// Case 21 and 22.
#[test]
fn a_rollout_with_surge_changes_nothing() {
    let mut service = Service::new(settings(), 6);
    service.run(900.0, 400.0);
    let before = service.replicas;
    for tick in 0..40 {
        let decision = service.tick(400.0, |seen| {
            seen.pods.ready = before - tick % 2;
            seen.pods.starting = 2;
        });
        assert_eq!(decision.replicas(), before, "{:?}", codes(&decision));
    }
}

// Case 23.
#[test]
fn crash_looping_pods_do_not_drive_the_count_up() {
    let mut service = Service::new(settings(), 6);
    service.run(900.0, 400.0);
    let before = service.replicas;
    let last = service.run_spoiled(1_800.0, 400.0, |seen| {
        seen.pods.ready = before - 1;
        seen.pods.unhealthy = 3;
        seen.signals.latency = fresh(0.5);
    });
    assert_eq!(last.replicas(), before, "{:?}", codes(&last));
}

// Case 27.
#[test]
fn pods_without_metrics_do_not_double_the_count() {
    let mut service = Service::new(settings(), 2);
    let mut most = 0;
    for _ in 0..20 {
        let decision = service.tick(300.0, |seen| {
            seen.pods.ready = 2;
            seen.pods.starting = seen.replicas - 2;
            seen.signals.cpu = fresh(2.0);
        });
        most = most.max(decision.replicas());
    }
    assert!(most <= 6, "{most}");
}

// Case 31.
#[test]
fn unschedulable_pods_stop_the_raising() {
    let mut service = Service::new(settings(), 6);
    service.run(600.0, 400.0);
    let before = service.replicas;
    let last = service.run_spoiled(600.0, 1_500.0, |seen| seen.pods.unschedulable = 2);
    assert_eq!(last.replicas(), before);
    assert_eq!(last.limited(), Some(Limited::CapacityUnavailable));
}

// Case 32.
#[test]
fn no_scale_down_while_a_scale_up_is_still_starting() {
    let mut service = Service::new(settings(), 5);
    service.run(900.0, 300.0);
    service.run(30.0, 900.0);
    let raised = service.replicas;
    assert!(12 <= raised);
    let starting = |seen: &mut rlscaler_core::Observation| {
        seen.pods.ready = 6;
        seen.pods.starting = raised - 6;
    };
    let held = service.run_spoiled(150.0, 700.0, starting);
    assert_eq!(held.replicas(), raised, "{:?}", codes(&held));
    let gone = service.run_spoiled(150.0, 200.0, starting);
    assert!(gone.replicas() < raised, "{:?}", codes(&gone));
}

// Case 42.
#[test]
fn zero_needs_lasting_idleness_and_little_load_wakes() {
    let mut service = Service::new(Settings { bounds: bounds(0, 20), ..settings() }, 3);
    let idle = |seen: &mut rlscaler_core::Observation| {
        seen.signals.latency = Signal::NotApplicable;
        seen.signals.cpu = fresh(0.01);
    };
    service.run(300.0, 100.0);
    assert_eq!(service.run_spoiled(285.0, 0.0, idle).replicas(), 1);
    let zero = service.run_spoiled(180.0, 0.0, idle);
    assert_eq!(zero.replicas(), 0, "{:?}", codes(&zero));
    assert_eq!(service.run_spoiled(600.0, 0.005, idle).replicas(), 0);
    let awake = service.tick(0.02, |seen| seen.signals.cpu = Signal::Missing);
    assert_eq!(awake.replicas(), 1);
    assert!(says(&awake, "Activated"));
    assert_eq!(service.run_spoiled(1_200.0, 0.005, idle).replicas(), 1);
}

#[test]
fn a_world_five_times_faster_decides_the_same() {
    let fast = Settings {
        time_factor: 5.0,
        interval_secs: 3.0,
        startup_secs: Some(12.0),
        metric_lag_secs: 3.0,
        behavior: {
            let mut behavior = settings().behavior;
            for direction in [&mut behavior.up, &mut behavior.down] {
                direction.window_secs /= 5.0;
                direction.steps.iter_mut().for_each(|step| step.period_secs /= 5.0);
            }
            behavior
        },
        ..settings()
    };
    let slow = Settings { startup_secs: Some(60.0), ..settings() };
    let (mut fast, mut slow) = (Service::new(fast, 5), Service::new(slow, 5));
    (fast.time_secs, slow.time_secs) = (0.0, 0.0);
    for tick in 0..2_000 {
        let qps = 500.0 + 400.0 * (f64::from(tick) / 60.0).sin() + f64::from(tick * 37 % 50);
        let quick = fast.tick(qps, |seen| {
            // Of the same age in its own time.
            if let Signal::Fresh(reading) = &mut seen.signals.qps {
                reading.age_secs = reading.age_secs.map(|age_secs| age_secs / 5.0);
            }
        });
        let usual = slow.tick(qps, |_| {});
        assert_eq!(
            quick.replicas(),
            usual.replicas(),
            "tick {tick}: {:?} {:?}",
            quick.reasons(),
            usual.reasons()
        );
    }
}

#[test]
fn latency_beyond_its_histogram_with_nearly_all_late_clears_what_waits() {
    let mut declared = settings();
    declared.declared.sla = true;
    let answer = |late: bool| {
        let mut service = Service::new(declared.clone(), 8);
        service.run_spoiled(600.0, 480.0, |seen| seen.signals.sla = fresh(1.0));
        service.replicas = 6;
        service.tick(480.0, |seen| {
            seen.signals.sla = fresh(if late { 0.02 } else { 1.0 });
            seen.signals.latency = if late { Signal::Invalid } else { fresh(0.08) };
        })
    };
    let (calm, overloaded) = (answer(false), answer(true));
    assert!(calm.proposed() + 2 <= overloaded.proposed(), "{} {}", calm.proposed(), overloaded.proposed());
    assert!(says(&overloaded, "Backlog"), "{:?}", codes(&overloaded));
}

/// Changes of an hour in which the load goes to and fro by `swing` around what 10 pods carry.
fn changes(slack: Option<(f64, f64)>, swing: f64) -> usize {
    let mut settings = settings();
    let tuning = rlscaler_core::settings::Tuning::default();
    (settings.tuning.raise_slack, settings.tuning.lower_slack) =
        slack.unwrap_or((tuning.raise_slack, tuning.lower_slack));
    let mut service = Service::new(settings, 10);
    let mut changes = 0;
    for tick in 0..240 {
        let qps = 680.0 * (1.0 + swing * (f64::from(tick) / 12.0).sin());
        changes += usize::from(service.tick(qps, |_| {}).changes());
    }
    changes
}

#[test]
fn a_load_on_the_edge_between_two_counts_does_not_make_them_alternate() {
    let (exact, slack) = (changes(Some((0.0, 0.0)), 0.04), changes(None, 0.04));
    assert!(slack <= 1 && 3 < exact, "{slack} {exact}");
    assert!(4 < changes(None, 0.4), "what moves the load far is followed");
}

#[test]
fn a_restless_load_is_followed_downwards_more_and_more_rarely() {
    let mut settings = settings();
    settings.bounds = crate::service::bounds(2, 60);
    let mut service = Service::new(settings, 10);
    let mut changes = Vec::new();
    for tick in 0..960_u32 {
        let qps = if (tick / 12).is_multiple_of(2) { 400.0 } else { 1_600.0 };
        if service.tick(qps, |_| {}).changes() {
            changes.push(tick);
        }
    }
    let within = |hour: u32| changes.iter().filter(|&&tick| tick / 240 == hour).count();
    assert!(3 * within(3) < 2 * within(0), "{} {}", within(0), within(3));
}

/// Answers as the planner, and is a model.
struct Same;

impl Policy for Same {
    fn act(&self, _: &Features) -> Result<Action, PolicyFault> {
        Ok(Action { multiplier: 1.0, value: 0.0 })
    }

    fn describe(&self) -> String {
        "same".into()
    }
}

/// Whether a raise was called too small on the way up from 10 pods' load.
fn held_on_the_way_up(policy: &dyn Policy, tolerance: Option<f64>) -> bool {
    let mut settings = settings();
    settings.tuning.raise_slack = rlscaler_core::settings::Tuning::default().raise_slack;
    settings.behavior.up.tolerance = tolerance;
    // Without CPU nobody can say that latency is comfortable.
    settings.declared.cpu = false;
    let mut service = Service::new(settings, 10);
    (0..60_u32).any(|tick| {
        let decision = service.tick_with(policy, 560.0 + 3.0 * f64::from(tick), |seen| {
            seen.signals.cpu = Signal::Missing;
        });
        decision.reasons().iter().any(|reason| matches!(reason, Reason::Tolerated { .. }))
    })
}

#[test]
fn a_models_raise_within_the_slack_is_held_and_a_written_tolerance_takes_its_place() {
    assert!(held_on_the_way_up(&Same, None), "the slack is a model's");
    assert!(!held_on_the_way_up(&PlannerOnly, None), "the planner is followed at once");
    assert!(!held_on_the_way_up(&Same, Some(0.0)), "who writes 0 gets 0");
    assert!(held_on_the_way_up(&PlannerOnly, Some(0.2)));
}
