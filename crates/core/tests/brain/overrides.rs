//! A person's will.

use rlscaler_core::decision::Active;
use rlscaler_core::observation::Signals;
use rlscaler_core::reason::Driver;
use rlscaler_core::settings::{Override, Settings};

use crate::service::{Service, bounds, codes, says, settings};

#[test]
fn a_pin_is_obeyed_at_once_whatever_the_signals_say() {
    let check = |replicas, allow_out_of_bounds, expected| {
        let mut service = Service::new(settings(), 5);
        service.run(300.0, 300.0);
        service.will = Override::Pin { replicas, allow_out_of_bounds };
        let decision = service.tick(300.0, |seen| seen.signals = Signals::default());
        assert_eq!((decision.replicas(), decision.driver()), (expected, Driver::Override));
        assert_eq!(says(&decision, "PinClamped"), replicas != expected);
    };
    check(12, false, 12);
    check(2, false, 2);
    check(1, false, 2);
    check(21, false, 20);
    check(21, true, 21);
    check(0, true, 0);
}

#[test]
fn a_pause_leaves_the_target_as_it_is() {
    for replicas in [0, 1, 5, 40] {
        let mut service = Service::new(settings(), replicas);
        service.will = Override::Pause;
        let decision = service.run(600.0, 1_200.0);
        assert_eq!((decision.replicas(), decision.driver()), (replicas, Driver::Override));
    }
}

#[test]
fn one_direction_can_be_paused() {
    let mut service = Service::new(settings(), 5);
    service.run(300.0, 300.0);
    service.will = Override::PauseScaleUp;
    let kept = service.run(300.0, 1_000.0);
    assert!(kept.replicas() <= 6 && says(&kept, "ScaleUpPaused"), "{:?}", codes(&kept));
    service.will = Override::PauseScaleDown;
    let raised = service.run(300.0, 1_000.0).replicas();
    assert!(12 < raised);
    let kept = service.run(900.0, 100.0);
    assert_eq!(kept.replicas(), raised);
    assert!(says(&kept, "ScaleDownPaused"));
}

#[test]
fn when_a_pin_ends_scaling_resumes_at_the_next_tick() {
    let mut service = Service::new(settings(), 5);
    service.run(900.0, 300.0);
    let before = service.replicas;
    service.will = Override::Pin { replicas: 15, allow_out_of_bounds: false };
    service.run(300.0, 300.0);
    service.will = Override::None;
    let resumed = service.tick(300.0, |_| {});
    assert_eq!(resumed.replicas(), before, "{:?}", codes(&resumed));
}

// Case 48.
#[test]
fn after_any_override_all_is_as_if_there_had_been_none() {
    let pin = Override::Pin { replicas: 9, allow_out_of_bounds: false };
    let rising = |secs: f64| if secs < 600.0 { 300.0 } else { 500.0 };
    let falling = |secs: f64| if secs < 600.0 { 600.0 } else { 200.0 };
    let loads: [(&str, &dyn Fn(f64) -> f64); 2] = [("rising", &rising), ("falling", &falling)];
    for (load, qps) in loads {
        for will in [Override::Pause, Override::PauseScaleDown, Override::PauseScaleUp, pin] {
            let mut free = Service::new(settings(), 9);
            let mut held = Service::new(settings(), 9);
            let start = free.time_secs;
            let mut agreed_since = None;
            while free.time_secs < start + 3_600.0 {
                let secs = free.time_secs - start;
                let overridden = (300.0..1_200.0).contains(&secs);
                held.will = if overridden { will } else { Override::None };
                let (one, other) = (free.tick(qps(secs), |_| {}), held.tick(qps(secs), |_| {}));
                if 1_200.0 <= secs {
                    assert!(!matches!(other.driver(), Driver::Override), "{will:?}: it is over");
                    if one.replicas() != other.replicas() {
                        agreed_since = None;
                    } else if agreed_since.is_none() {
                        agreed_since = Some(secs - 1_200.0);
                    }
                }
            }
            // A window of 2 minutes and the rate limits of a raise at the most.
            assert!(agreed_since.is_some_and(|secs| secs <= 180.0), "{load}, {will:?}: {agreed_since:?} s");
        }
    }
}

#[test]
fn what_was_recommended_during_a_pin_still_holds_a_scale_down() {
    let mut service = Service::new(settings(), 12);
    service.run(7_200.0, 800.0);
    let before = service.replicas;
    service.will = Override::Pin { replicas: before, allow_out_of_bounds: false };
    service.run(300.0, 800.0);
    service.will = Override::None;
    assert_eq!(service.run(60.0, 160.0).replicas(), before);
    assert!(service.run(120.0, 160.0).replicas() < before);
}

#[test]
fn a_pin_to_zero_of_ours_resumes_at_min_and_a_zero_of_somebody_else_stands_still() {
    let mut service = Service::new(settings(), 5);
    service.run(300.0, 300.0);
    service.will = Override::Pin { replicas: 0, allow_out_of_bounds: true };
    assert_eq!(service.run(300.0, 0.0).replicas(), 0);
    service.will = Override::None;
    let resumed = service.tick(0.0, |seen| seen.signals = Signals::default());
    assert_eq!(resumed.replicas(), 2, "{:?}", codes(&resumed));
    assert!(says(&resumed, "ResumedFromZero"));

    service.replicas = 0;
    service.run(300.0, 300.0);
    service.replicas = 0;
    let still = service.run(300.0, 300.0);
    assert_eq!((still.replicas(), still.active()), (0, Active::ScalingDisabled));
    assert!(says(&still, "ScalingDisabled"));
}

#[test]
fn a_count_outside_the_bounds_is_brought_back_inside() {
    let check = |replicas, expected| {
        let mut service = Service::new(Settings { bounds: bounds(3, 9), ..settings() }, replicas);
        let decision = service.tick(400.0, |seen| seen.signals = Signals::default());
        assert_eq!(decision.replicas(), expected, "{:?}", codes(&decision));
    };
    check(1, 3);
    check(3, 3);
    check(9, 9);
    check(30, 9);
    check(0, 0);
}
