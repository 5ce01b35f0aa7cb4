//! What would have been: counted in hours that are known by hand, the same after a restart, bounded.

use rlscaler_core::observation::Signal;
use rlscaler_core::settings::{DeclaredSignals, Override, Settings};
use rlscaler_core::shadow::{MAX_BUCKETS, MAX_COUNTS, MAX_ORDERS, Trust};
use rlscaler_core::{Brain, PlannerOnly};

use crate::service::{Service, fresh, settings};

fn with_sla() -> Settings {
    Settings { declared: DeclaredSignals { sla: true, ..settings().declared }, ..settings() }
}

/// Somebody else runs this many; the brain looks on for so many ticks.
fn look_on(service: &mut Service, ticks: u32, load: impl Fn(u32) -> f64) {
    for tick in 0..ticks {
        let mut seen = service.healthy(load(tick));
        if service.brain.settings().declared.sla {
            seen.signals.sla = fresh(1.0);
        }
        if tick % 40 == 39 {
            seen.signals.qps = Signal::Missing;
        }
        service.brain.follow_shadow(&seen);
        service.brain.decide(&PlannerOnly, Override::None, &seen);
        service.time_secs += 15.0;
    }
}

#[test]
fn twice_as_many_pods_as_needed_are_told_in_hours() {
    let mut service = Service::new(with_sla(), 16);
    look_on(&mut service, 4 * 60 * 6, |_| 400.0);
    let told = service.brain.shadow().expect("followed");
    // 400 requests/s are 5 busy pods.
    assert!((told.whole.replica_hours - 96.0).abs() < 0.1, "{told:?}");
    assert!((35.0..50.0).contains(&told.whole.would_be_hours), "{told:?}");
    assert_eq!(told.trust, Trust::Agrees);
    assert_eq!(told.whole.late, Some(0.0));
    assert!(told.whole.would_be_late.expect("capacity is declared") < 0.01, "{told:?}");
    assert!(told.whole.hpa_hours.is_some());
}

#[test]
fn a_restart_between_any_two_ticks_changes_nothing_of_what_is_told() {
    let load = |tick: u32| 500.0 + 300.0 * (f64::from(tick) / 40.0).sin();
    let mut whole = Service::new(with_sla(), 12);
    let mut restarted = Service::new(with_sla(), 12);
    for tick in 0..600 {
        restarted.brain = Brain::restore(with_sla(), &restarted.brain.memory());
        look_on(&mut whole, 1, |_| load(tick));
        look_on(&mut restarted, 1, |_| load(tick));
        assert_eq!(restarted.brain.shadow(), whole.brain.shadow(), "tick {tick}");
    }
}

#[test]
fn lateness_that_the_queue_model_does_not_explain_is_called_out_with_both_figures() {
    let mut service = Service::new(with_sla(), 16);
    for _ in 0..400 {
        let mut seen = service.healthy(400.0);
        seen.signals.sla = fresh(0.95);
        service.brain.follow_shadow(&seen);
        service.brain.decide(&PlannerOnly, Override::None, &seen);
        service.time_secs += 15.0;
    }
    let told = service.brain.shadow().expect("followed");
    let Trust::LatenessDisagrees { measured, predicted } = told.trust else { panic!("{told:?}") };
    // What comes late whatever waits is believed up to what the SLA allows.
    assert!((measured - 0.05).abs() < 1e-9 && (predicted - 0.01).abs() < 1e-3, "{measured} {predicted}");
}

#[test]
fn it_is_bounded_and_the_day_forgets_what_is_older() {
    let mut service = Service::new(with_sla(), 16);
    look_on(&mut service, 4 * 60 * 50, |tick| 500.0 + 450.0 * (f64::from(tick) / 3.0).sin());
    let memory = service.brain.memory().shadow.expect("followed");
    assert!(memory.buckets.len() <= MAX_BUCKETS && memory.orders.len() <= MAX_ORDERS);
    assert!(memory.counts.len() <= MAX_COUNTS);
    let told = service.brain.shadow().expect("followed");
    assert!((23.0 * 3_600.0..=24.0 * 3_600.0).contains(&told.day.secs), "{told:?}");
    assert!(49.0 * 3_600.0 < told.whole.secs);
    service.brain.leave_shadow();
    assert!(service.brain.shadow().is_none() && service.brain.memory().shadow.is_none());
}

#[test]
fn where_lateness_is_not_measured_nothing_is_called_trusted() {
    let mut service = Service::new(settings(), 16);
    look_on(&mut service, 400, |_| 400.0);
    let told = service.brain.shadow().expect("followed");
    assert_eq!(told.trust, Trust::Unmeasured);
    assert_eq!(told.whole.late, None);
    let mut young = Service::new(with_sla(), 16);
    look_on(&mut young, 10, |_| 400.0);
    assert_eq!(young.brain.shadow().expect("followed").trust, Trust::NotYet);
}
