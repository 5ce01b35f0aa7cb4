//! Policies on top of the planner: what a multiplier does, and that price works the right way.

use rlscaler_core::observation::{Signal, Signals};
use rlscaler_core::settings::{DeclaredSignals, Override, Weights};
use rlscaler_core::{Action, Driver, Features, Policy, PolicyFault};

use crate::service::{PER_POD, Service, fresh, settings};

/// Multiplies by something that grows with the price, as the actor does by construction.
struct Priced;

impl Policy for Priced {
    fn act(&self, features: &Features) -> Result<Action, PolicyFault> {
        Ok(Action { multiplier: (features.price() / 20.0).sqrt().clamp(0.3, 3.0), value: -1.0 })
    }

    fn describe(&self) -> String {
        "priced".to_owned()
    }
}

pub(crate) struct Constant(pub(crate) Result<Action, PolicyFault>);

impl Policy for Constant {
    fn act(&self, _features: &Features) -> Result<Action, PolicyFault> {
        self.0
    }

    fn describe(&self) -> String {
        "constant".to_owned()
    }
}

#[test]
fn a_multiplier_of_one_answers_as_the_planner() {
    let one = Constant(Ok(Action { multiplier: 1.0, value: 0.0 }));
    let (mut with, mut without) = (Service::new(settings(), 5), Service::new(settings(), 5));
    for tick in 0..500 {
        let qps = 500.0 + 400.0 * (f64::from(tick) / 40.0).sin();
        let (ours, planners) = (with.tick_with(&one, qps, |_| {}), without.tick(qps, |_| {}));
        assert_eq!(ours.replicas(), planners.replicas());
        assert_eq!((ours.driver(), planners.driver()), (Driver::Model, Driver::Planner));
    }
}

/// The model's answer after an hour at a constant load, all else being equal: the count stays at 15 meanwhile.
fn answer(price: impl Fn(u32) -> Signal, weights: Weights, sla: f64) -> u32 {
    let mut settings = settings();
    settings.declared = DeclaredSignals { price: true, ..settings.declared };
    settings.objective.weights = weights;
    settings.objective.sla = sla;
    let mut service = Service::new(settings, 15);
    service.will = Override::Pause;
    let mut last = 0;
    for tick in 0..240 {
        last = service.tick_with(&Priced, 800.0, |seen| seen.signals.price = price(tick)).proposed();
    }
    last
}

// Cases 72 and 74.
#[test]
fn a_dearer_hour_never_asks_for_more_and_a_strange_price_is_neutral() {
    let usual = answer(|_| fresh(0.1), Weights::default(), 0.999);
    let dearer = answer(|tick| fresh(if tick < 120 { 0.1 } else { 1.0 }), Weights::default(), 0.999);
    assert!(dearer < usual, "{dearer} {usual}");
    for strange in [Signal::Missing, Signal::Invalid, fresh(0.0), fresh(-3.0), fresh(f64::NAN)] {
        assert_eq!(answer(|_| strange, Weights::default(), 0.999), usual, "{strange:?}");
    }
}

#[test]
fn more_weight_on_saving_never_asks_for_more_and_a_stricter_sla_never_for_fewer() {
    let price = |_| fresh(0.1);
    let mut before = u32::MAX;
    for saving in [1.0, 2.0, 5.0, 20.0, 100.0] {
        let replicas = answer(price, Weights { saving, ..Weights::default() }, 0.99);
        assert!(replicas <= before, "{saving}");
        before = replicas;
    }
    let mut before = 0;
    for sla in [0.5, 0.9, 0.95, 0.99, 0.999, 0.9999] {
        let replicas = answer(price, Weights::default(), sla);
        assert!(before <= replicas, "{sla}");
        before = replicas;
    }
}

#[test]
fn late_requests_use_up_the_budget_and_raise_the_price() {
    let mut settings = settings();
    settings.declared.sla = true;
    let mut service = Service::new(settings, 8);
    let sla = |share: f64| move |signals: &mut Signals| signals.sla = fresh(share);
    let calm = service.run_spoiled(3_600.0, 400.0, |seen| sla(1.0)(&mut seen.signals)).budget();
    let spent = service.run_spoiled(1_800.0, 400.0, |seen| sla(0.9)(&mut seen.signals)).budget();
    assert_eq!((calm.burn_1h, calm.remaining_ratio), (0.0, 1.0));
    assert!(4.0 < spent.burn_1h && spent.burn_6h < spent.burn_1h, "{spent:?}");
    assert!(spent.remaining_ratio < calm.remaining_ratio);
    assert!(calm.lateness_price < 20.0 && 20.0 < spent.lateness_price, "{calm:?} {spent:?}");
}

#[test]
fn without_the_budget_controller_the_price_does_not_follow_the_late_share() {
    let mut settings = settings();
    settings.declared.sla = true;
    settings.tuning.follows_budget = false;
    let price = |settings: &rlscaler_core::Settings, share: f64| {
        let mut service = Service::new(settings.clone(), 8);
        let decision = service.run_spoiled(1_800.0, 400.0, |seen| seen.signals.sla = fresh(share));
        decision.budget().lateness_price
    };
    assert_eq!(price(&settings, 1.0), price(&settings, 0.9));
    settings.tuning.follows_budget = true;
    assert!(price(&settings, 1.0) < price(&settings, 0.9));
}

/// The planner's answer for pods that carry 70 % of what is declared, after an hour at a constant count.
fn answer_for_weak_pods(learns_capacity: bool) -> u32 {
    const SHARE: f64 = 0.7;
    let mut settings = settings();
    settings.tuning.learns_capacity = learns_capacity;
    let mut service = Service::new(settings, 6);
    service.will = Override::Pause;
    let mut last = 0;
    for _ in 0..240 {
        let decision = service.tick(400.0, |seen| {
            seen.signals.latency = fresh(0.4);
            seen.signals.cpu = fresh(400.0 / (SHARE * PER_POD));
        });
        last = decision.planner();
    }
    last
}

#[test]
fn without_the_capacity_estimator_a_declared_capacity_is_believed_whatever_is_seen() {
    let (learnt, believed) = (answer_for_weak_pods(true), answer_for_weak_pods(false));
    assert!(f64::from(believed) * 1.3 < f64::from(learnt), "{believed} {learnt}");
}
