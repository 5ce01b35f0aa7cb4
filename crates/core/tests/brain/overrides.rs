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
