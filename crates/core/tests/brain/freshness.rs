//! Not seeing is not zero: lost, wrong and sudden signals, and the fallback.

use rlscaler_core::Brain;
use rlscaler_core::decision::Active;
use rlscaler_core::observation::{Observation, Reading, Signal, Signals};
use rlscaler_core::reason::Driver;
use rlscaler_core::settings::{DeclaredSignals, Settings};

use crate::service::{Service, bounds, codes, fresh, says, settings, with_fallback};

/// A service that ran long at 800 requests/s, then at a load that needs far fewer.
fn falling(settings: Settings) -> Service {
    let mut service = Service::new(settings, 12);
    service.run(1_800.0, 800.0);
    service
}

#[test]
fn healthy_signals_scale_down_after_the_window() {
    let mut service = falling(settings());
    let before = service.replicas;
    assert!((11..=13).contains(&before), "{before}");
    assert_eq!(service.run(90.0, 160.0).replicas(), before);
    let after = service.run(150.0, 160.0);
    assert!((3..=4).contains(&after.replicas()), "{:?}", codes(&after));
}

#[test]
fn nothing_scales_down_while_a_declared_signal_is_lost() {
    let stale = Signal::Stale(Reading { value: 0.05, age_secs: Some(900.0) });
    type Spoil = fn(&mut Signals, Signal);
    let spoils: [(&str, Spoil); 3] = [
        ("qps", |signals, lost| signals.qps = lost),
        ("latency", |signals, lost| signals.latency = lost),
        ("cpu", |signals, lost| signals.cpu = lost),
    ];
    for (name, spoil) in spoils {
        for lost in
            [Signal::Missing, Signal::Invalid, stale, fresh(f64::NAN), fresh(-1.0), fresh(f64::INFINITY)]
        {
            let mut service = falling(settings());
            let before = service.replicas;
            let last = service.run_spoiled(3_600.0, 160.0, |seen| spoil(&mut seen.signals, lost));
            assert_eq!(last.replicas(), before, "{name} {lost:?}: {:?}", codes(&last));
            assert!(says(&last, "SignalLost"), "{name} {lost:?}: {:?}", codes(&last));
        }
    }
}

#[test]
fn a_lost_price_blocks_nothing() {
    let declared = DeclaredSignals { price: true, ..settings().declared };
    let mut service = falling(Settings { declared, ..settings() });
    let before = service.replicas;
    let last = service.run_spoiled(300.0, 160.0, |seen| seen.signals.price = Signal::Missing);
    assert!(last.replicas() < before);
}

#[test]
fn cpu_that_was_never_there_is_not_lost() {
    let mut service = Service::new(settings(), 12);
    let last = service.run_spoiled(600.0, 160.0, |seen| seen.signals.cpu = Signal::Missing);
    assert!(last.replicas() < 12, "{:?}", codes(&last));
}

// Case 1.
#[test]
fn a_missing_rate_lets_latency_scale_up() {
    let mut service = Service::new(settings(), 4);
    service.run(600.0, 240.0);
    let before = service.replicas;
    let last = service.tick(240.0, |seen| {
        seen.signals.qps = Signal::Missing;
        seen.signals.cpu = Signal::Missing;
        seen.signals.latency = fresh(0.6);
    });
    assert!(before < last.replicas(), "{:?}", codes(&last));
    assert!(says(&last, "LatencyDriven"));
}

#[test]
fn one_missing_sample_changes_nothing() {
    let mut service = Service::new(settings(), 9);
    service.run_spoiled(1_800.0, 640.0, |seen| seen.signals.cpu = fresh(8.8));
    let before = service.replicas;
    for tick in 0..100 {
        let decision = service.tick(640.0, |seen| {
            seen.signals.cpu = fresh(0.99 * f64::from(before));
            if tick % 10 == 0 {
                seen.signals.qps = Signal::Missing;
            }
        });
        assert_eq!(decision.replicas(), before, "{:?}", decision.reasons());
    }
}

#[test]
fn a_missing_rate_lets_cpu_scale_up() {
    let mut service = Service::new(settings(), 4);
    service.run(600.0, 240.0);
    let before = service.replicas;
    let last = service.run_spoiled(60.0, 800.0, |seen| seen.signals.qps = Signal::Missing);
    assert!(before < last.replicas(), "{:?}", codes(&last));
}

// Case 2.
#[test]
fn everything_zero_in_one_poll_holds() {
    let zero: fn(&mut Observation) = |seen| {
        seen.signals.qps = fresh(0.0);
        seen.signals.cpu = fresh(0.0);
        seen.signals.latency = Signal::NotApplicable;
    };
    let gone: fn(&mut Observation) = |seen| {
        seen.signals.qps = fresh(0.0);
        seen.signals.cpu = Signal::Missing;
        seen.signals.latency = Signal::NotApplicable;
    };
    // Pods that go on working contradict a rate of zero as much as pods that seem to use nothing at all.
    let working: fn(&mut Observation) = |seen| {
        seen.signals.qps = fresh(0.0);
        seen.signals.cpu = fresh(8.0);
        seen.signals.latency = Signal::NotApplicable;
    };
    for spoil in [zero, gone, working] {
        let mut service = falling(settings());
        let before = service.replicas;
        let last = service.run_spoiled(86_400.0, 0.0, spoil);
        assert_eq!(last.replicas(), before, "{:?}", codes(&last));
        let told_by_cpu = says(&last, "Load");
        assert_eq!(last.active() == Active::NoSignal, !told_by_cpu, "{:?}", codes(&last));
        assert!(says(&last, "SuddenZero"), "{:?}", codes(&last));
    }
}

// Case 2.
#[test]
fn a_zero_that_cpu_confirmed_is_believed_no_more_once_the_pods_work_again() {
    let mut service = falling(settings());
    service.run_spoiled(30.0, 0.0, |seen| {
        seen.signals.qps = fresh(0.0);
        seen.signals.cpu = fresh(0.5);
        seen.signals.latency = Signal::NotApplicable;
    });
    let before = service.replicas;
    let last = service.run_spoiled(3_600.0, 0.0, |seen| {
        seen.signals.qps = fresh(0.0);
        seen.signals.cpu = fresh(8.0);
        seen.signals.latency = Signal::NotApplicable;
    });
    assert!(2 < before && before <= last.replicas(), "{before}: {:?}", codes(&last));
    assert!(says(&last, "SuddenZero"), "{:?}", codes(&last));
}

// Case 2.
#[test]
fn everything_zero_in_one_poll_holds_where_cpu_is_the_load() {
    let declared = DeclaredSignals { qps: false, latency: true, cpu: true, ..DeclaredSignals::default() };
    let mut service = falling(Settings { declared, ..settings() });
    let before = service.replicas;
    let last = service.run_spoiled(86_400.0, 0.0, |seen| {
        seen.signals.cpu = fresh(0.0);
        seen.signals.latency = fresh(0.0);
    });
    assert_eq!((last.replicas(), last.active()), (before, Active::NoSignal), "{:?}", codes(&last));
    let back = service.run(300.0, 160.0);
    assert!(back.replicas() < before && back.active() == Active::ValidMetricFound, "{:?}", codes(&back));
}

// Cases 2 and 3.
#[test]
fn a_zero_that_is_never_believed_ends_in_the_declared_fallback() {
    let mut service = falling(with_fallback(6));
    let zero = |seen: &mut Observation| {
        seen.signals.qps = fresh(0.0);
        seen.signals.cpu = fresh(0.0);
        seen.signals.latency = Signal::NotApplicable;
    };
    let last = service.run_spoiled(86_400.0, 0.0, zero);
    assert_eq!((last.replicas(), last.driver()), (6, Driver::Fallback), "{:?}", codes(&last));
}

// Cases 2 and 3: where nothing could ever confirm a zero, waiting for good would never let go of what runs.
#[test]
fn a_zero_that_nothing_else_can_tell_about_is_believed_after_a_quarter_of_an_hour() {
    let declared = DeclaredSignals { cpu: false, ..settings().declared };
    let mut service = falling(Settings { declared, ..settings() });
    let before = service.replicas;
    let zero = |seen: &mut Observation| {
        seen.signals.qps = fresh(0.0);
        seen.signals.cpu = Signal::NotDeclared;
        seen.signals.latency = Signal::NotApplicable;
    };
    assert_eq!(service.run_spoiled(840.0, 0.0, zero).replicas(), before);
    assert_eq!(service.run_spoiled(300.0, 0.0, zero).replicas(), 2);
}

#[test]
fn a_zero_in_one_poll_holds_although_the_load_stepped_down_minutes_before() {
    let mut service = falling(settings());
    service.run(120.0, 240.0);
    let last = service.run_spoiled(840.0, 0.0, |seen| {
        seen.signals.qps = fresh(0.0);
        seen.signals.cpu = Signal::Missing;
        seen.signals.latency = Signal::NotApplicable;
    });
    assert!(says(&last, "SuddenZero"), "{:?}", codes(&last));
    assert!(3 < last.replicas(), "{:?}", codes(&last));
}

fn dead(seen: &mut Observation) {
    let lost = Signal::Missing;
    seen.signals = Signals { qps: lost, latency: lost, cpu: lost, ..Signals::default() };
}

fn dead_and_lived(seen: &mut Observation) {
    dead(seen);
    seen.lived_secs = Some(15.0);
}

#[test]
fn a_clock_that_is_set_makes_an_outage_neither_longer_nor_shorter() {
    for step_secs in [0.0, 5.0, 20.0, 45.0, 3_600.0, -5.0, -20.0, -3_600.0] {
        let mut service = falling(with_fallback(6));
        let before = service.replicas;
        service.run_spoiled(60.0, 160.0, dead_and_lived);
        service.time_secs += step_secs;
        for tick in 4..12 {
            let held = service.tick(160.0, dead_and_lived).replicas();
            assert_eq!(held, before, "{step_secs}: tick {tick}");
        }
        assert_eq!(service.tick(160.0, dead_and_lived).replicas(), 6, "{step_secs}");
    }
}

#[test]
fn where_nobody_knows_what_was_lived_through_an_outage_grows_by_one_interval() {
    for (restarts, step_secs) in [(false, 20.0), (true, 20.0), (true, 45.0), (true, 3_600.0)] {
        let mut service = falling(with_fallback(6));
        let before = service.replicas;
        service.run_spoiled(60.0, 160.0, dead_and_lived);
        if restarts {
            service.brain = Brain::restore(with_fallback(6), &service.brain.memory());
        }
        service.time_secs += step_secs;
        assert_eq!(service.tick(160.0, dead).replicas(), before);
        for tick in 5..12 {
            assert_eq!(service.tick(160.0, dead_and_lived).replicas(), before, "{step_secs}: tick {tick}");
        }
        assert_eq!(service.tick(160.0, dead_and_lived).replicas(), 6, "{step_secs}");
    }
}

#[test]
fn ticks_that_were_missed_count_for_a_minute_of_an_outage_at_most() {
    for (lived_secs, left) in [(60.0, 8), (75.0, 8), (3_600.0, 8), (30.0, 10)] {
        let mut service = falling(with_fallback(6));
        let before = service.replicas;
        service.run_spoiled(15.0, 160.0, dead_and_lived);
        service.time_secs += lived_secs - 15.0;
        let late = |seen: &mut Observation| {
            dead(seen);
            seen.lived_secs = Some(lived_secs);
        };
        assert_eq!(service.tick(160.0, late).replicas(), before);
        for tick in 1..left {
            assert_eq!(service.tick(160.0, dead_and_lived).replicas(), before, "{lived_secs}: tick {tick}");
        }
        assert_eq!(service.tick(160.0, dead_and_lived).replicas(), 6, "{lived_secs}");
    }
}

#[test]
fn a_zero_that_cpu_confirms_is_idleness() {
    let mut service = falling(settings());
    let last = service.run_spoiled(600.0, 0.0, |seen| {
        seen.signals.cpu = fresh(0.05);
        seen.signals.latency = Signal::NotApplicable;
    });
    assert_eq!(last.replicas(), 2, "{:?}", codes(&last));
}

#[test]
fn a_load_that_fades_to_zero_is_idleness() {
    let mut service = falling(settings());
    for qps in [600.0, 400.0, 200.0, 50.0] {
        service.tick(qps, |_| {});
    }
    let last = service.run_spoiled(600.0, 0.0, |seen| {
        seen.signals.cpu = fresh(0.0);
        seen.signals.latency = Signal::Missing;
    });
    assert_eq!(last.replicas(), 2, "{:?}", codes(&last));
}

// Cases 3, 10, 11, 12.
#[test]
fn the_fallback_comes_after_its_duration_in_one_step_and_stays() {
    let mut service = falling(with_fallback(6));
    let before = service.replicas;
    assert_eq!(service.run_spoiled(180.0, 160.0, dead).replicas(), before);
    let first = service.tick(160.0, dead);
    assert_eq!((first.replicas(), first.driver()), (6, Driver::Fallback), "{:?}", codes(&first));
    for _ in 0..200 {
        assert_eq!(service.tick(160.0, dead).replicas(), 6);
    }
    let mut flickering = falling(with_fallback(6));
    for _ in 0..20 {
        assert_eq!(flickering.run_spoiled(165.0, 800.0, dead).replicas(), before);
        flickering.tick(800.0, |_| {});
    }
}

#[test]
fn the_fallback_never_takes_what_healthy_signals_ask_for() {
    let mut service = falling(with_fallback(6));
    let last = service.run_spoiled(900.0, 800.0, |seen| seen.signals.latency = Signal::Missing);
    assert!((11..=13).contains(&last.replicas()), "{:?}", codes(&last));
    let lower = service.run_spoiled(900.0, 160.0, |seen| seen.signals.latency = Signal::Missing);
    assert_eq!(lower.replicas(), 6);
}

// Case 13.
#[test]
fn the_fallback_lifts_a_service_from_zero() {
    let mut service = Service::new(Settings { bounds: bounds(0, 20), ..with_fallback(2) }, 0);
    let dead = |seen: &mut Observation| {
        seen.signals.qps = Signal::Missing;
        seen.signals.latency = Signal::Missing;
    };
    assert_eq!(service.run_spoiled(180.0, 0.0, dead).replicas(), 0);
    assert_eq!(service.tick(0.0, dead).replicas(), 2);
}

#[test]
fn recovery_is_by_itself() {
    let mut service = falling(settings());
    service.run_spoiled(900.0, 0.0, |seen| seen.signals = Signals::default());
    let last = service.run(300.0, 160.0);
    assert!((3..=4).contains(&last.replicas()), "{:?}", codes(&last));
}
