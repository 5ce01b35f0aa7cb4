//! A restart between any two ticks changes nothing.

use rlscaler_core::observation::{History, Observation, Signal};
use rlscaler_core::settings::{Override, Settings};
use rlscaler_core::{Brain, Memory, PlannerOnly};

use crate::service::{Service, bounds, codes, fresh, settings, with_fallback};

/// A day of everything: waves, old readings, lost signals, pins, idleness.
fn spoil(tick: u32, seen: &mut Observation) {
    if (100..250).contains(&tick)
        && let Signal::Fresh(reading) = &mut seen.signals.qps
    {
        reading.age_secs = Some(60.0);
    }
    match tick % 97 {
        60..=64 => seen.signals.qps = Signal::Missing,
        70 => seen.signals.latency = fresh(0.4),
        80..=83 => seen.pods.starting = 1,
        _ => {}
    }
    if 400 < tick && tick < 420 {
        seen.signals.qps = Signal::Missing;
        seen.signals.cpu = Signal::Missing;
        seen.signals.latency = Signal::Missing;
    }
}

fn load(tick: u32) -> f64 {
    let tick = f64::from(tick);
    (500.0 + 450.0 * (tick / 50.0).sin() + (tick * 37.0) % 50.0).max(0.0)
}

#[test]
fn a_restart_between_any_two_ticks_changes_no_decision() {
    for settings in [settings(), Settings { capacity: None, bounds: bounds(0, 30), ..with_fallback(7) }] {
        let mut whole = Service::new(settings.clone(), 5);
        let mut restarted = Service::new(settings.clone(), 5);
        for tick in 0..700 {
            let will = if (200..210).contains(&tick) {
                Override::Pin { replicas: 0, allow_out_of_bounds: true }
            } else {
                Override::None
            };
            (whole.will, restarted.will) = (will, will);
            restarted.brain = Brain::restore(settings.clone(), &restarted.brain.memory());
            let expected = whole.tick(load(tick), |seen| spoil(tick, seen));
            let found = restarted.tick(load(tick), |seen| spoil(tick, seen));
            assert_eq!(
                found.replicas(),
                expected.replicas(),
                "tick {tick}: {:?} {:?}",
                codes(&found),
                codes(&expected)
            );
            assert_eq!(found.reasons(), expected.reasons(), "tick {tick}");
            assert_eq!(found.hpa_would_be(), expected.hpa_would_be(), "tick {tick}");
        }
    }
}

#[test]
fn a_backfill_after_a_restart_keeps_what_was_remembered() {
    let mut service = Service::new(settings(), 5);
    let mut history = History::default();
    for tick in 0..700 {
        history.qps.push((service.time_secs, load(tick)));
        service.tick(load(tick), |_| {});
    }
    let mut restarted = Brain::restore(settings(), &service.brain.memory());
    restarted.backfill(&history);
    let seen = service.healthy(load(700));
    let expected = service.brain.decide(&PlannerOnly, Override::None, &seen);
    let found = restarted.decide(&PlannerOnly, Override::None, &seen);
    assert_eq!(found.reasons(), expected.reasons());
    assert_eq!(found.replicas(), expected.replicas());
}

// Case 36.
#[test]
fn a_brain_that_lost_its_memory_does_not_scale_down_at_first() {
    let mut service = Service::new(settings(), 12);
    service.run(900.0, 800.0);
    service.brain = Brain::restore(settings(), &Memory::default());
    let before = service.replicas;
    assert_eq!(service.run(105.0, 160.0).replicas(), before);
    assert!(service.run(60.0, 160.0).replicas() < before);
}

#[test]
fn a_long_absence_is_not_taken_for_calm() {
    let mut service = Service::new(settings(), 12);
    service.run(900.0, 800.0);
    let before = service.replicas;
    service.time_secs += 3_600.0;
    assert_eq!(service.run(105.0, 160.0).replicas(), before);
    assert!(service.run(60.0, 160.0).replicas() < before);
}

#[test]
fn a_clock_that_steps_neither_frees_nor_freezes() {
    for step in [-86_400.0, -7.0, 3_600.0] {
        let mut service = Service::new(settings(), 12);
        service.run(900.0, 800.0);
        let before = service.replicas;
        service.run(30.0, 160.0);
        service.time_secs += step;
        assert_eq!(service.tick(160.0, |_| {}).replicas(), before, "{step}");
        let after = service.run(300.0, 160.0);
        assert!(after.replicas() < before, "{step}: {:?}", codes(&after));
    }
}

#[test]
fn a_clock_that_is_set_makes_no_window_longer_or_shorter() {
    let lived = |seen: &mut Observation| seen.lived_secs = Some(15.0);
    let down_after = |step_secs: f64| {
        let mut service = Service::new(settings(), 12);
        service.run_spoiled(900.0, 800.0, lived);
        let before = service.replicas;
        service.run_spoiled(30.0, 160.0, lived);
        service.time_secs += step_secs;
        (1..100).find(|_| service.tick(160.0, lived).replicas() < before)
    };
    let expected = down_after(0.0);
    assert!(expected.is_some_and(|ticks| 2 < ticks), "{expected:?}");
    for step_secs in [-3_600.0, -20.0, 20.0, 60.0, 120.0] {
        assert_eq!(down_after(step_secs), expected, "{step_secs}");
    }
}

#[test]
fn the_memory_is_small() {
    let mut service = Service::new(settings(), 5);
    for tick in 0..5_000 {
        service.tick(load(tick), |seen| spoil(tick, seen));
    }
    let Memory { scaling, hpa, budget, forecast, .. } = service.brain.memory();
    let numbers = 3 * (scaling.recommendations.len() + hpa.recommendations.len() + budget.buckets.len())
        + 2 * (scaling.ups.len() + scaling.downs.len() + hpa.ups.len() + hpa.downs.len())
        + forecast.slots.len()
        + forecast.open_forecasts.len();
    assert!(numbers < 500, "{numbers}");
}
