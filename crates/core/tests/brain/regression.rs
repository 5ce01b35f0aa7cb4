//! A scale-down of ours that breaks the objective is undone and held off; nothing else is.

use proptest::prelude::*;
use rlscaler_core::observation::{Observation, Signal};
use rlscaler_core::settings::{DeclaredSignals, Override, Settings};
use rlscaler_core::{Brain, Decision, Memory, PlannerOnly};

use crate::service::{Service, bounds, codes, fresh, says, settings};

/// Load before and after it fell.
const BEFORE_QPS: f64 = 800.0;
const AFTER_QPS: f64 = 640.0;

fn with_sla() -> Settings {
    let declared = DeclaredSignals { sla: true, ..settings().declared };
    Settings { declared, bounds: bounds(2, 40), ..settings() }
}

/// Everything is well, and so says the late share.
fn well(seen: &mut Observation) {
    seen.signals.sla = fresh(1.0);
}

fn late(share: f64) -> impl Fn(&mut Observation) {
    move |seen| {
        seen.signals.sla = fresh(1.0 - share);
        seen.signals.latency = fresh(0.3);
    }
}

/// Steady, then less load, until a scale-down of ours has just happened; the count before it.
fn just_scaled_down(settings: Settings) -> (Service, u32) {
    let mut service = Service::new(settings, 14);
    service.run_spoiled(1_800.0, BEFORE_QPS, well);
    down(&mut service, AFTER_QPS, well)
}

/// Until a scale-down of ours has just happened; the count before it.
fn down(service: &mut Service, qps: f64, spoil: impl Fn(&mut Observation)) -> (Service, u32) {
    for _ in 0..200 {
        let decision = service.tick(qps, &spoil);
        if decision.replicas() < decision.from() {
            let brain = service.brain.clone();
            let (time_secs, replicas, will) = (service.time_secs, service.replicas, service.will);
            return (Service { brain, time_secs, replicas, will }, decision.from());
        }
    }
    panic!("nothing scaled down");
}

/// Ticks until the scale-down is undone, at most these seconds.
fn undone_within(
    service: &mut Service,
    secs: f64,
    qps: f64,
    spoil: impl Fn(&mut Observation),
) -> Option<Decision> {
    let end = service.time_secs + secs;
    while service.time_secs < end {
        let decision = service.tick(qps, &spoil);
        if says(&decision, "ScaleDownUndone") {
            return Some(decision);
        }
    }
    None
}

#[test]
fn a_scale_down_that_breaks_the_objective_is_undone_and_held_off_for_ten_minutes() {
    let (mut service, before) = just_scaled_down(with_sla());
    let undone = undone_within(&mut service, 90.0, AFTER_QPS, late(0.2)).expect("undone");
    assert!(before <= undone.replicas(), "{:?}", codes(&undone));
    let held = undone.hold_off().expect("held off");
    assert_eq!(held.until_secs - held.since_secs, 600.0);
    let mut lowest = u32::MAX;
    while service.time_secs < held.until_secs {
        lowest = lowest.min(service.tick(AFTER_QPS, well).replicas());
    }
    assert_eq!(lowest, held.replicas);
    let after = service.run_spoiled(300.0, AFTER_QPS, well);
    assert!(after.replicas() < before && after.hold_off().is_none(), "{:?}", codes(&after));
    assert_eq!(service.brain.scale_downs_undone(), 1);
}

#[test]
fn what_does_not_prove_a_regression_undoes_nothing() {
    let check = |what: &str, settings: Settings, qps: f64, spoil: &dyn Fn(u32, &mut Observation)| {
        let (mut service, _) = just_scaled_down(settings);
        for tick in 0..40 {
            let decision = service.tick(qps, |seen| {
                well(seen);
                spoil(tick, seen);
            });
            assert!(!says(&decision, "ScaleDownUndone"), "{what}, tick {tick}: {:?}", codes(&decision));
        }
    };
    let always = |_: u32, seen: &mut Observation| late(0.2)(seen);
    check("nothing is late", with_sla(), AFTER_QPS, &|_, _| {});
    check("one reading is late", with_sla(), AFTER_QPS, &|tick, seen| {
        if tick == 5 {
            late(0.9)(seen);
        }
    });
    check("every other reading is late", with_sla(), AFTER_QPS, &|tick, seen| {
        if tick % 2 == 0 {
            late(0.9)(seen);
        }
    });
    check("no more late than the SLA leaves room for", with_sla(), AFTER_QPS, &|_, seen| late(0.02)(seen));
    check("demand rose", with_sla(), 1.2 * AFTER_QPS, &always);
    check("pods are missing", with_sla(), AFTER_QPS, &|_, seen| {
        late(0.2)(seen);
        seen.pods.ready -= 1;
        seen.pods.unhealthy = 1;
    });
    check("pods are idle: something else is slow", with_sla(), AFTER_QPS, &|_, seen| {
        late(0.2)(seen);
        seen.signals.qps = fresh(0.6 * AFTER_QPS);
        seen.signals.cpu = fresh(0.3 * f64::from(seen.pods.ready));
    });
    check("it began after five minutes", with_sla(), AFTER_QPS, &|tick, seen| {
        if 21 < tick {
            late(0.2)(seen);
        }
    });
    check("lateness cannot be read", with_sla(), AFTER_QPS, &|_, seen| {
        late(0.2)(seen);
        seen.signals.sla = Signal::Missing;
    });
}

#[test]
fn few_requests_prove_nothing() {
    let mut service = Service::new(Settings { bounds: bounds(0, 40), ..with_sla() }, 3);
    service.run_spoiled(1_800.0, 120.0, well);
    let (mut service, _) = down(&mut service, 0.5, well);
    // 15 requests in a window, three of them late.
    assert!(undone_within(&mut service, 600.0, 0.5, late(0.2)).is_none());
}

#[test]
fn latency_over_its_target_is_enough_where_no_late_share_is_declared() {
    let (mut service, before) = just_scaled_down(settings());
    let slow = |seen: &mut Observation| seen.signals.latency = fresh(0.4);
    let undone = undone_within(&mut service, 120.0, AFTER_QPS, slow).expect("undone");
    assert!(before <= undone.replicas());
}

#[test]
fn a_person_decides_for_himself() {
    for will in
        [Override::Pause, Override::Pin { replicas: 5, allow_out_of_bounds: false }, Override::PauseScaleUp]
    {
        let (mut service, _) = just_scaled_down(with_sla());
        service.will = will;
        assert!(undone_within(&mut service, 400.0, AFTER_QPS, late(0.2)).is_none(), "{will:?}");
    }
    // What is held off does not stand in the way of a pin either.
    let (mut service, _) = just_scaled_down(with_sla());
    undone_within(&mut service, 90.0, AFTER_QPS, late(0.2)).expect("undone");
    service.will = Override::Pin { replicas: 3, allow_out_of_bounds: false };
    assert_eq!(service.tick(AFTER_QPS, well).replicas(), 3);
}

#[test]
fn a_count_that_a_person_pinned_is_not_undone() {
    let mut service = Service::new(with_sla(), 14);
    service.run_spoiled(1_800.0, BEFORE_QPS, well);
    service.will = Override::Pin { replicas: 11, allow_out_of_bounds: false };
    service.tick(BEFORE_QPS, well);
    service.will = Override::None;
    assert!(undone_within(&mut service, 300.0, BEFORE_QPS, late(0.2)).is_none());
}

#[test]
fn a_repetition_is_held_off_twice_as_long_an_hour_at_most_and_the_count_comes_down_in_between() {
    let (mut service, _) = just_scaled_down(with_sla());
    let mut lengths = Vec::new();
    for _ in 0..5 {
        let undone = undone_within(&mut service, 400.0, AFTER_QPS, late(0.04)).expect("undone");
        let held = undone.hold_off().expect("held off");
        lengths.push(held.until_secs - held.since_secs);
        while service.time_secs < held.until_secs {
            service.tick(AFTER_QPS, well);
        }
        // Without the doubts, which would make it right the next time.
        let memory = Memory { capacity: Memory::default().capacity, ..service.brain.memory() };
        service.brain = Brain::restore(with_sla(), &memory);
        (service, _) = down(&mut service, AFTER_QPS, well);
    }
    assert_eq!(lengths, [600.0, 1_200.0, 2_400.0, 3_600.0, 3_600.0]);
    // Long after the last one it begins anew.
    service.run_spoiled(3.0 * 3_600.0, BEFORE_QPS, well);
    let (mut service, _) = down(&mut service, AFTER_QPS, well);
    let undone = undone_within(&mut service, 400.0, AFTER_QPS, late(0.04)).expect("undone");
    let held = undone.hold_off().expect("held off");
    assert_eq!(held.until_secs - held.since_secs, 600.0);
}

#[test]
fn the_hold_off_ends_when_the_demand_is_gone() {
    let (mut service, _) = just_scaled_down(with_sla());
    undone_within(&mut service, 90.0, AFTER_QPS, late(0.2)).expect("undone");
    let after = service.run_spoiled(240.0, 0.4 * AFTER_QPS, well);
    assert!(after.hold_off().is_none() && after.replicas() < 8, "{:?}", codes(&after));
}

#[test]
fn an_undone_scale_down_makes_the_pods_doubted() {
    let (mut service, _) = just_scaled_down(with_sla());
    let scale = service.brain.memory().capacity.scale;
    undone_within(&mut service, 90.0, AFTER_QPS, late(0.04)).expect("undone");
    let doubted = service.brain.memory().capacity.scale;
    assert!(scale < doubted && doubted <= 1.1042 * scale, "{scale} {doubted}");
}

/// As it would have been without anything to undo or to hold off.
fn without(brain: &Brain) -> Brain {
    let memory = Memory { regression: Memory::default().regression, ..brain.memory() };
    Brain::restore(brain.settings().clone(), &memory)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_late_the_count_is_within_bounds_never_lower_for_it_and_comes_down_again(
        shares in prop::collection::vec(prop_oneof![2 => Just(0.0), 1 => 0.0..0.5_f64], 60..400),
        waves in 10.0..80.0_f64,
        restart in 1_usize..40,
    ) {
        let settings = with_sla();
        let mut service = Service::new(settings.clone(), 10);
        let mut highest = 10;
        for (tick, share) in shares.iter().enumerate() {
            if tick % restart == 0 {
                service.brain = Brain::restore(settings.clone(), &service.brain.memory());
            }
            let qps = 700.0 + 400.0 * (tick as f64 / waves).sin();
            let mut seen = service.healthy(qps);
            late(*share)(&mut seen);
            let expected = without(&service.brain).decide(&PlannerOnly, Override::None, &seen);
            let found = service.tick(qps, late(*share));
            prop_assert!(settings.bounds.clamp(found.replicas()) == found.replicas());
            prop_assert!(expected.replicas() <= found.replicas(), "{:?} {:?}", codes(&expected), codes(&found));
            if let Some(held) = found.hold_off() {
                prop_assert!(held.until_secs - held.since_secs <= 3_600.0);
                prop_assert!(held.replicas <= highest, "{held:?} {highest}");
            }
            highest = highest.max(found.replicas());
        }
        // A calm hour and a bit: nothing is held off any more.
        let last = service.run_spoiled(3_600.0 + 300.0, 700.0, well);
        prop_assert!(last.hold_off().is_none());
        let expected = without(&service.brain).decide(&PlannerOnly, Override::None, &service.healthy(700.0));
        prop_assert!(last.replicas() <= expected.replicas().max(last.from()));
    }
}
