//! Whatever is seen: never outside bounds, never down on missing data, never against the raw direction, NaN nowhere.

use proptest::prelude::*;
use rlscaler_core::driving::Doubt;
use rlscaler_core::observation::{Observation, Pods, Reading, Signal, Signals};
use rlscaler_core::reason::{Driver, Reason};
use rlscaler_core::settings::{Override, Settings};
use rlscaler_core::{Action, Brain, Features, Policy, PolicyFault};

use crate::service::{bounds, settings, with_fallback};

/// Looks at every feature and answers with anything.
struct Wild(u64);

impl Policy for Wild {
    fn act(&self, features: &Features) -> Result<Action, PolicyFault> {
        assert!(features.values().iter().all(|value| value.is_finite()), "{:?}", features.values());
        assert!(features.price().is_finite());
        let sum: f32 = features.values().iter().sum();
        let turn = f64::from(sum) * self.0 as f64;
        let multiplier = if turn.sin() < -0.9 { f64::NAN } else { turn.cos().exp() };
        Ok(Action { multiplier, value: 0.0 })
    }

    fn describe(&self) -> String {
        "wild".to_owned()
    }
}

fn any_value(most: f64) -> impl Strategy<Value = f64> + Clone {
    prop_oneof![
        8 => 0.0..most,
        1 => Just(0.0),
        1 => prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(-1.0), Just(f64::MAX), Just(f64::MIN_POSITIVE)],
    ]
}

fn any_signal(most: f64) -> impl Strategy<Value = Signal> {
    let reading = any_value(most).prop_map(|value| Reading { value, age_secs: None });
    prop_oneof![
        12 => reading.clone().prop_map(Signal::Fresh),
        1 => reading.prop_map(Signal::Stale),
        1 => Just(Signal::Missing),
        1 => Just(Signal::Invalid),
        1 => Just(Signal::NotApplicable),
        1 => Just(Signal::NotDeclared),
    ]
}

prop_compose! {
    fn any_tick()(
        step in prop_oneof![9 => 1.0..30.0_f64, 1 => -100.0..100_000.0_f64, 1 => Just(f64::NAN)],
        qps in any_signal(3_000.0),
        latency in any_signal(1.0),
        sla in any_signal(1.2),
        cpu in any_signal(40.0),
        price in any_signal(5.0),
        (starting, unschedulable, unhealthy) in (0_u32..4, 0_u32..2, 0_u32..2),
        pod_cpu_request in prop_oneof![4 => Just(Some(1.0)), 1 => any_value(2.0).prop_map(Some), 1 => Just(None)],
        meddled in prop_oneof![9 => Just(None), 1 => (0_u32..60).prop_map(Some)],
    ) -> AnyTick {
        let signals = Signals { qps, latency, sla, errors: Signal::NotDeclared, cpu, price };
        let pods = Pods { ready: 0, starting, unschedulable, unhealthy };
        let seen = Observation { pods, signals, pod_cpu_request, ..Observation::default() };
        (step, seen, meddled)
    }
}

fn any_will() -> impl Strategy<Value = Override> {
    prop_oneof![
        12 => Just(Override::None),
        1 => (0_u32..40).prop_map(|replicas| Override::Pin { replicas, allow_out_of_bounds: false }),
        1 => Just(Override::PauseScaleDown),
        1 => Just(Override::PauseScaleUp),
        1 => Just(Override::Pause),
    ]
}

fn any_settings() -> impl Strategy<Value = Settings> {
    (any::<[bool; 5]>(), 0_u32..4).prop_map(|([declared, fallback, by_cpu, sla, price], min)| {
        let mut settings = if fallback { with_fallback(6) } else { settings() };
        settings.bounds = bounds(min, 30);
        settings.declared.qps = !by_cpu;
        settings.declared.sla = sla;
        settings.declared.price = price;
        if !declared {
            settings.capacity = None;
        }
        settings
    })
}

/// Seconds since the last tick, what is seen, and replicas somebody else set.
type AnyTick = (f64, Observation, Option<u32>);

fn check(settings: &Settings, ticks: &[(AnyTick, Override)], seed: u64) {
    let mut brain = Brain::new(settings.clone());
    let (mut time_secs, mut replicas) = (0.0_f64, 5_u32);
    for ((step, seen, meddled), will) in ticks {
        replicas = meddled.unwrap_or(replicas);
        let mut seen = Observation { time_secs: time_secs + step, replicas, ..*seen };
        seen.pods.ready = replicas.saturating_sub(seen.pods.starting);
        let silent = brain.decide(&Wild(seed), *will, &seen);
        let decision = brain.explain(&Wild(seed), silent);
        assert_eq!(decision.replicas(), silent.replicas());
        let (from, to) = (decision.from(), decision.replicas());
        let bounds = settings.bounds;
        let stands = to == from;
        assert!(stands || (bounds.min()..=bounds.max()).contains(&to), "out of bounds: {decision:?}");
        let is = |code: &str| decision.reasons().iter().any(|reason| reason.code() == code);
        let inside = (bounds.min()..=bounds.max()).contains(&from);
        if inside && decision.driver() != Driver::Override && !is("FallbackActive") {
            let lost = settings.declared.qps
                && !matches!(seen.signals.qps, Signal::Fresh(reading) if 0.0 <= reading.value && reading.value.is_finite());
            assert!(!(lost && to < from), "down on a lost rate: {decision:?}");
            assert!(!(is("SignalLost") && to < from), "down on a lost signal: {decision:?}");
            let raw = decision.proposed();
            let zero_or_activated = is("Idle") || is("Activated");
            assert!(
                zero_or_activated || !(from < raw && to < from),
                "against the raw direction: {decision:?}"
            );
            assert!(
                zero_or_activated || !(raw < from && from < to),
                "against the raw direction: {decision:?}"
            );
        }
        let budget = decision.budget();
        let numbers = [budget.remaining_ratio, budget.burn_1h, budget.burn_6h, budget.lateness_price];
        assert!(numbers.iter().all(|number| number.is_finite()), "{budget:?}");
        for reason in decision.reasons() {
            let text = reason.to_string();
            assert!(!text.contains("NaN") && !text.contains("inf"), "{reason:?}");
            assert!(!matches!(reason, Reason::ModelRejected { doubt: Doubt::Failed }));
        }
        if decision.changes() {
            brain.record_scale(seen.time_secs, from, to);
        }
        replicas = to;
        if seen.time_secs.is_finite() {
            time_secs = seen.time_secs;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_invariants_hold_whatever_is_seen(
        settings in any_settings(),
        ticks in prop::collection::vec((any_tick(), any_will()), 1..120),
        seed in 0_u64..1_000,
    ) {
        check(&settings, &ticks, seed);
    }
}
