//! The three rules the project was asked to know, and what is said about a decision.

use rlscaler_core::observation::Observation;
use rlscaler_core::settings::Settings;

use crate::service::{Service, bounds, codes, fresh, says, settings};

#[test]
fn a_spike_whose_trend_falls_back_is_not_chased() {
    let mut service = Service::new(settings(), 6);
    service.run(1_800.0, 400.0);
    let before = service.replicas;
    let mut most = before;
    for qps in [420.0, 470.0, 540.0, 500.0, 450.0, 420.0, 400.0, 400.0, 400.0] {
        most = most.max(service.tick(qps, |_| {}).replicas());
    }
    // 540 requests/s are 6.75 busy pods, and 8 replicas serve them in time.
    assert!(most <= 8, "{before} -> {most}");
}

#[test]
fn high_cpu_with_comfortable_latency_does_not_scale_up() {
    for capacity in [settings().capacity, None] {
        let settings = Settings { capacity, ..settings() };
        let mut service = Service::new(settings, 5);
        service.run_spoiled(900.0, 290.0, |seen| seen.signals.cpu = fresh(3.6));
        let before = service.replicas;
        for _ in 0..60 {
            let decision =
                service.tick(290.0, |seen| seen.signals.cpu = fresh(0.95 * f64::from(seen.replicas)));
            assert!(decision.replicas() <= before, "{:?}", codes(&decision));
        }
    }
}

#[test]
fn high_cpu_at_the_first_tick_with_comfortable_latency_does_not_scale_up() {
    let mut service = Service::new(settings(), 5);
    let decision = service.tick(360.0, |seen| seen.signals.cpu = fresh(4.6));
    assert_eq!(decision.replicas(), 5, "{:?}", codes(&decision));
    assert!(says(&decision, "LatencyComfortable"));
}

#[test]
fn latency_over_its_target_at_low_cpu_does_not_scale_up_and_says_so() {
    for capacity in [settings().capacity, None] {
        let mut service = Service::new(Settings { capacity, ..settings() }, 6);
        service.run(900.0, 300.0);
        let before = service.replicas;
        for _ in 0..120 {
            let decision = service.tick(300.0, |seen| {
                seen.signals.cpu = fresh(0.2 * f64::from(seen.replicas));
                seen.signals.latency = fresh(0.9);
            });
            assert!(decision.replicas() <= before, "{:?}", codes(&decision));
            assert!(decision.scaling_wont_help().is_some(), "{:?}", codes(&decision));
        }
    }
}

#[test]
fn latency_over_its_target_at_high_cpu_scales_up() {
    for capacity in [settings().capacity, None] {
        let mut service = Service::new(Settings { capacity, ..settings() }, 4);
        service.run(900.0, 240.0);
        let before = service.replicas;
        let last = service.run_spoiled(120.0, 330.0, |seen| {
            seen.signals.latency = fresh(0.9);
            seen.signals.cpu = fresh(f64::from(seen.replicas));
        });
        assert!(before < last.replicas(), "{:?}", codes(&last));
    }
}

#[test]
fn without_any_knowledge_of_capacity_nothing_wild_happens() {
    let blind = |seen: &mut Observation| seen.pod_cpu_request = None;
    let mut service = Service::new(Settings { capacity: None, bounds: bounds(1, 50), ..settings() }, 6);
    for _ in 0..40 {
        assert_eq!(service.tick(300.0, |seen| blind(seen)).replicas().abs_diff(6), 0);
        if service.time_secs > 1_000_200.0 {
            break;
        }
    }
    let probed = service.run_spoiled(3_600.0, 300.0, blind);
    assert!((1..6).contains(&probed.replicas()), "{}", probed.replicas());
    let before = probed.replicas();
    let late = service.run_spoiled(60.0, 300.0, |seen| {
        blind(seen);
        seen.signals.latency = fresh(0.4);
    });
    assert!(before < late.replicas() && late.replicas() <= 8 * before, "{:?}", codes(&late));
}

#[test]
fn cpu_alone_is_enough_to_follow() {
    let mut settings = settings();
    settings.declared.qps = false;
    settings.capacity = None;
    let mut service = Service::new(settings, 5);
    let strip = |seen: &mut Observation| {
        seen.signals.qps = rlscaler_core::Signal::NotDeclared;
        seen.signals.latency = fresh(0.2);
    };
    let busy = service.run_spoiled(600.0, 800.0, strip);
    assert!((11..=16).contains(&busy.replicas()), "{} {:?}", busy.replicas(), codes(&busy));
    let calm = service.run_spoiled(900.0, 160.0, strip);
    assert!((2..=5).contains(&calm.replicas()), "{} {:?}", calm.replicas(), codes(&calm));
}

// Case 63.
#[test]
fn every_decision_has_a_reason_a_person_can_read() {
    let mut service = Service::new(settings(), 5);
    for qps in [300.0, 900.0, 900.0, 100.0, 0.0, 5_000.0] {
        let decision = service.run(150.0, qps);
        assert!(!decision.reasons().is_empty());
        assert!(!decision.main_reason().to_string().is_empty());
        for why in [decision.why_not_more(), decision.why_not_fewer()] {
            assert!(decision.reasons().contains(&why), "{why:?}");
        }
    }
    let capped = service.run(300.0, 5_000.0);
    assert_eq!(capped.why_not_more().code(), "TooManyReplicas");
}
