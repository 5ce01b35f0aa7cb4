//! Who drives: every way in, every way out, a restart in between, and that a hand-over jumps no further than allowed.

use rlscaler_core::driving::Doubt;
use rlscaler_core::observation::Signal;
use rlscaler_core::settings::{Step, StepKind};
use rlscaler_core::{Action, Brain, Decision, Driver, Features, Policy, PolicyFault, Reason};

use crate::learning::Constant;
use crate::service::{Service, codes, says, settings};

fn constant(multiplier: f64) -> Constant {
    Constant(Ok(Action { multiplier, value: 0.0 }))
}

fn drivers(service: &mut Service, policy: &dyn Policy, ticks: u32, qps: f64) -> Vec<Driver> {
    (0..ticks).map(|_| service.tick_with(policy, qps, |_| {}).driver()).collect()
}

fn doubt_of(decision: &Decision) -> Option<Doubt> {
    decision.reasons().iter().find_map(|reason| match *reason {
        Reason::ModelRejected { doubt } | Reason::ModelSuspended { doubt, .. } => Some(doubt),
        _ => None,
    })
}

#[test]
fn an_unusable_answer_leaves_the_planner_driving_until_all_has_been_calm() {
    for (bad, doubt) in [
        (Ok(f64::NAN), Doubt::NotANumber),
        (Ok(f64::INFINITY), Doubt::NotANumber),
        (Ok(0.0), Doubt::NotANumber),
        (Ok(1e9), Doubt::NotANumber),
        (Err(PolicyFault::OutOfDistribution), Doubt::OutOfDistribution),
        (Err(PolicyFault::SchemaMismatch), Doubt::SchemaMismatch),
        (Err(PolicyFault::Failed), Doubt::Failed),
    ] {
        let bad = Constant(bad.map(|multiplier| Action { multiplier, value: 0.0 }));
        let mut service = Service::new(settings(), 5);
        let rejected = service.tick_with(&bad, 300.0, |_| {});
        assert_eq!((rejected.driver(), rejected.proposed()), (Driver::Planner, rejected.planner()));
        assert!(says(&rejected, "ModelRejected"), "{:?}", codes(&rejected));
        assert_eq!(doubt_of(&rejected), Some(doubt));
        let suspended = service.tick_with(&constant(1.5), 300.0, |_| {});
        assert!(says(&suspended, "ModelSuspended"), "{:?}", codes(&suspended));
        assert_eq!((suspended.driver(), doubt_of(&suspended)), (Driver::Planner, Some(doubt)));
        let later = drivers(&mut service, &constant(1.5), 8, 300.0);
        assert_eq!(later[5..], [Driver::Planner, Driver::Model, Driver::Model]);
    }
}

#[test]
fn a_policy_that_does_not_look_is_never_doubted() {
    let mut service = Service::new(settings(), 5);
    let decision = service.run(3_600.0, 300.0);
    assert_eq!((decision.driver(), doubt_of(&decision)), (Driver::Planner, None));
}

/// Far out of what it knows at every second call.
struct Alternating(std::sync::atomic::AtomicU32, u32);

impl Policy for Alternating {
    fn act(&self, _features: &Features) -> Result<Action, PolicyFault> {
        let call = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if call.is_multiple_of(self.1) {
            return Err(PolicyFault::OutOfDistribution);
        }
        Ok(Action { multiplier: 2.0, value: 0.0 })
    }

    fn describe(&self) -> String {
        "alternating".to_owned()
    }
}

#[test]
fn alternating_doubts_do_not_make_the_two_take_turns() {
    // A day of doubts at every second tick, every tenth, every hundredth, and every hour.
    for (every, most) in [(2, 1), (10, 5), (100, 30), (240, 30)] {
        let policy = Alternating(std::sync::atomic::AtomicU32::new(0), every);
        let mut service = Service::new(settings(), 5);
        let day = drivers(&mut service, &policy, 5_760, 300.0);
        let turns = day.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(turns <= most, "every {every}: {turns} hand-overs");
    }
}

/// Quiet for a day; then bursts of ever more load, which no forecast could know.
fn drifting(service: &mut Service, policy: &dyn Policy) -> Decision {
    for tick in 0..5_760 {
        let qps = 300.0 + 30.0 * (f64::from(tick) / 200.0).sin();
        assert_ne!(doubt_of(&service.tick_with(policy, qps, |_| {})), Some(Doubt::ForecastDrift));
    }
    for tick in 0..240 {
        let qps = if tick / 8 % 2 == 0 { 200.0 } else { 1_400.0 };
        let decision = service.tick_with(policy, qps, |_| {});
        if decision.driver() == Driver::Planner {
            return decision;
        }
    }
    panic!("no drift seen: {:?}", service.brain.forecast_drift());
}

#[test]
fn the_planner_drives_when_the_service_no_longer_behaves_as_its_past_and_hands_back_when_it_does() {
    let mut service = Service::new(settings(), 5);
    let decision = drifting(&mut service, &constant(1.0));
    assert_eq!(doubt_of(&decision), Some(Doubt::ForecastDrift), "{:?}", codes(&decision));
    assert!(decision.reasons().iter().any(|reason| reason.to_string().contains("its past")));
    let after = drivers(&mut service, &constant(1.0), 240, 300.0);
    let back = after.iter().position(|driver| *driver == Driver::Model);
    assert!(back.is_some_and(|tick| 8 < tick), "back after {back:?} ticks");
    assert!(after[240 - 60..].iter().all(|driver| *driver == Driver::Model));
}

#[test]
fn a_restart_between_any_two_ticks_changes_nothing_about_who_drives() {
    let (mut whole, mut restarted) = (Service::new(settings(), 5), Service::new(settings(), 5));
    for service in [&mut whole, &mut restarted] {
        drifting(service, &constant(1.3));
    }
    for tick in 0..200 {
        restarted.brain = Brain::restore(settings(), &restarted.brain.memory());
        let bad = Constant(Err(PolicyFault::OutOfDistribution));
        let good = constant(1.3);
        let policy: &dyn Policy = if tick % 37 == 0 { &bad } else { &good };
        let expected = whole.tick_with(policy, 300.0, |_| {});
        let found = restarted.tick_with(policy, 300.0, |_| {});
        assert_eq!(found.driver(), expected.driver(), "tick {tick}");
        assert_eq!(found.replicas(), expected.replicas(), "tick {tick}");
        assert_eq!(doubt_of(&found), doubt_of(&expected), "tick {tick}");
    }
    assert_eq!(restarted.brain.memory().driving, whole.brain.memory().driving);
}

#[test]
fn time_in_which_nothing_was_seen_is_no_calm() {
    let mut service = Service::new(settings(), 5);
    service.tick_with(&Constant(Err(PolicyFault::Failed)), 300.0, |_| {});
    // The operator was away for an hour: at most four intervals of it count.
    service.time_secs += 3_600.0;
    let after = drivers(&mut service, &constant(1.5), 5, 300.0);
    assert_eq!(after, [[Driver::Planner; 4].as_slice(), &[Driver::Model]].concat());
}

#[test]
fn a_doubt_stands_while_nothing_can_be_seen() {
    let mut service = Service::new(settings(), 5);
    service.tick_with(&Constant(Err(PolicyFault::OutOfDistribution)), 300.0, |_| {});
    for _ in 0..20 {
        let blind = service.tick_with(&constant(1.5), 300.0, |seen| {
            seen.signals.qps = Signal::Missing;
            seen.signals.cpu = Signal::Missing;
        });
        assert_eq!((blind.driver(), doubt_of(&blind)), (Driver::Hold, Some(Doubt::OutOfDistribution)));
    }
    let after = drivers(&mut service, &constant(1.5), 8, 300.0);
    assert_eq!(after[6..], [Driver::Planner, Driver::Model]);
}

#[test]
fn a_hand_over_moves_the_replicas_no_further_than_behavior_allows() {
    let mut settings = settings();
    let one_a_minute = vec![Step { kind: StepKind::Pods, value: 1, period_secs: 60.0 }];
    settings.behavior.up.steps = one_a_minute.clone();
    settings.behavior.down.steps = one_a_minute;
    let mut service = Service::new(settings, 5);
    let (generous, broken) = (constant(3.0), Constant(Ok(Action { multiplier: f64::NAN, value: 0.0 })));
    let (mut last_change_secs, mut changes) = (f64::NEG_INFINITY, 0);
    for tick in 0..960 {
        // 40 minutes each: the answers of the two are a factor of 3 apart.
        let policy: &dyn Policy = if tick / 160 % 2 == 0 { &generous } else { &broken };
        let decision = service.tick_with(policy, 400.0, |_| {});
        let moved = decision.replicas().abs_diff(decision.from());
        assert!(moved <= 1, "tick {tick}: {} -> {}", decision.from(), decision.replicas());
        if moved == 1 {
            let since_secs = decision.time_secs() - last_change_secs;
            assert!(60.0 <= since_secs, "tick {tick}: {since_secs} s after the last change");
            (last_change_secs, changes) = (decision.time_secs(), changes + 1);
        }
    }
    assert!(20 < changes, "{changes}");
}

#[test]
fn a_hand_over_to_a_lower_answer_waits_for_the_stabilization_window() {
    let mut service = Service::new(settings(), 5);
    for _ in 0..40 {
        service.tick_with(&constant(2.0), 400.0, |_| {});
    }
    let before = service.replicas;
    let broken = Constant(Err(PolicyFault::Failed));
    let first = service.tick_with(&broken, 400.0, |_| {});
    assert!(first.proposed() < before && first.replicas() == before, "{:?}", codes(&first));
    assert!(says(&first, "ScaleDownStabilized"));
}
