//! Neighbours of the reports in `docs/cases.md`: the same kinds of fault, met elsewhere.

use rlscaler_core::observation::{Observation, Pods, Reading, Signal, Signals};
use rlscaler_core::settings::{DeclaredSignals, Override, Settings};

use crate::service::{Service, bounds, codes, fresh, says, settings, with_fallback};

/// Nothing answers.
fn dead(seen: &mut Observation) {
    let lost = Signal::Missing;
    seen.signals = Signals { qps: lost, latency: lost, cpu: lost, ..Signals::default() };
}

/// No pod runs: only the gateway can tell anything.
fn asleep(seen: &mut Observation) {
    seen.signals.cpu = Signal::Missing;
    seen.signals.latency = Signal::NotApplicable;
}

// keda#2446, keda#4249: a service that sleeps has no CPU to be seen, and that is no outage.
#[test]
fn a_sleeping_service_is_not_woken_by_its_fallback() {
    let mut service = Service::new(Settings { bounds: bounds(0, 20), ..with_fallback(6) }, 3);
    service.run(300.0, 100.0);
    let idle = |seen: &mut Observation| {
        seen.signals.cpu = fresh(0.01);
        seen.signals.latency = Signal::NotApplicable;
    };
    assert_eq!(service.run_spoiled(900.0, 0.0, idle).replicas(), 0);
    let end = service.time_secs + 3_600.0;
    while service.time_secs < end {
        let decision = service.tick(0.0, asleep);
        assert_eq!(decision.replicas(), 0, "{:?}", codes(&decision));
    }
    // What tells whether it is needed is lost, too: now it is an outage.
    assert_eq!(service.run_spoiled(240.0, 0.0, dead).replicas(), 6);
}

// keda#5526: nothing can be measured at pods that a person has pinned away, and that is no outage either.
#[test]
fn after_a_pin_to_zero_scaling_resumes_at_the_minimum_and_not_at_the_fallback() {
    let mut service = Service::new(with_fallback(6), 5);
    service.run(600.0, 300.0);
    service.will = Override::Pin { replicas: 0, allow_out_of_bounds: true };
    service.run_spoiled(7_200.0, 0.0, dead);
    service.will = Override::None;
    let resumed = service.tick(0.0, dead);
    assert_eq!(resumed.replicas(), 2, "{:?}", codes(&resumed));
    // From then on they are missed.
    assert_eq!(service.run_spoiled(150.0, 0.0, dead).replicas(), 2);
    assert_eq!(service.run_spoiled(60.0, 0.0, dead).replicas(), 6);
}

// Yelp/paasta#3034, kube-prometheus#120: the first rates after a gap are of half a window, and too low.
#[test]
fn the_first_numbers_after_an_outage_scale_nothing_down() {
    for outage_secs in [60.0, 300.0, 7_200.0] {
        let mut service = Service::new(settings(), 12);
        service.run(1_800.0, 800.0);
        let before = service.replicas;
        service.run_spoiled(outage_secs, 800.0, dead);
        for share in [0.25, 0.5, 0.75, 1.0] {
            let ramp = |seen: &mut Observation| seen.signals.qps = fresh(800.0 * share);
            let decision = service.tick(800.0, ramp);
            assert_eq!(decision.replicas(), before, "{outage_secs} s, {share}: {:?}", codes(&decision));
        }
        assert!(before - 1 <= service.run(600.0, 800.0).replicas());
        let after = service.run(600.0, 160.0);
        assert!(after.replicas() <= 4, "what is really less still counts: {:?}", codes(&after));
    }
}

// k/k#62845, k/k#67066: a pod on a lost node never becomes ready; the others must not wait for it.
#[test]
fn a_pod_that_never_becomes_ready_does_not_stop_a_raise_that_latency_asks_for() {
    let declared = DeclaredSignals { cpu: false, ..settings().declared };
    let mut service = Service::new(Settings { capacity: None, declared, ..settings() }, 5);
    let overloaded = |seen: &mut Observation| {
        seen.pods = Pods { ready: seen.replicas - 1, starting: 1, ..Pods::default() };
        seen.pod_cpu_request = None;
        seen.signals.latency = fresh(0.6);
        seen.signals.cpu = Signal::NotDeclared;
    };
    let raised = service.run_spoiled(600.0, 500.0, overloaded);
    assert!(5 < raised.replicas(), "{:?}", codes(&raised));
    assert!(!says(&raised, "RolloutUnhealthy"));
}

// VictoriaMetrics#4531, Thanos' partial response: what a source sees of a part of its data is a lower bound.
#[test]
fn a_part_of_the_data_may_raise_and_never_lowers_and_teaches_nothing() {
    let part = |value| Signal::Partial(Reading { value, age_secs: Some(15.0) });
    let mut service = Service::new(settings(), 12);
    service.run(1_800.0, 800.0);
    let before = service.replicas;
    let last = service.run_spoiled(3_600.0, 800.0, |seen| seen.signals.qps = part(300.0));
    assert_eq!(last.replicas(), before, "{:?}", codes(&last));
    assert!(says(&last, "SignalLost"));
    let seen_again = service.tick(800.0, |_| {});
    assert_eq!(seen_again.replicas(), before, "it was never thought to be less: {:?}", codes(&seen_again));
    let more = service.run_spoiled(60.0, 1_300.0, |seen| {
        seen.signals.qps = part(1_300.0);
        seen.signals.cpu = Signal::Missing;
    });
    assert!(before < more.replicas(), "at least so much is asked for: {:?}", codes(&more));

    let mut service = Service::new(settings(), 12);
    service.run(1_800.0, 800.0);
    let idle = service.run_spoiled(3_600.0, 0.0, |seen| seen.signals.qps = part(0.0));
    assert_eq!(idle.replicas(), before, "nothing in a part is not idleness: {:?}", codes(&idle));
}

#[test]
fn a_latency_of_a_part_of_the_data_raises_where_the_load_is_lost() {
    let mut service = Service::new(settings(), 5);
    service.run(1_800.0, 300.0);
    let before = service.replicas;
    let late = service.run_spoiled(300.0, 300.0, |seen| {
        seen.signals.qps = Signal::Missing;
        seen.signals.cpu = Signal::Missing;
        seen.signals.latency = Signal::Partial(Reading { value: 0.6, age_secs: Some(15.0) });
    });
    assert!(before < late.replicas(), "{:?}", codes(&late));
}
