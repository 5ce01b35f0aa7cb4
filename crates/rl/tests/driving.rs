//! Who drives in healthy worlds, and that what is told of a net's answer is true of the net.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use rlscaler_core::budget::BudgetReport;
use rlscaler_core::features::{NAMES, WIDTH};
use rlscaler_core::influence::{self, Asked, Group};
use rlscaler_core::policy::multiplied;
use rlscaler_core::{Action, Brain, Features, History, Override, Policy, PolicyFault, Reason};
use rlscaler_rl::actor_critic::ActorCritic;
use rlscaler_rl::weights::{RANGE_HIGH, RANGE_LOW, Weights};
use rlscaler_rl::{Model, ModelKind, builtin};
use rlscaler_sim::metrics::Seen;
use rlscaler_sim::profile::Profile;
use rlscaler_sim::run::{Scaler, run};
use rlscaler_sim::scenario::{Detail, Scenario};
use rlscaler_sim::seed::Seed;
use rlscaler_sim::trace::Trace;

/// Share of the ticks at which the planner may have to drive in a healthy world.
const TAKEN_OVER_MOST: f64 = 0.01;

/// A brain that counts for how many ticks the planner drove in place of the model, and shows every decision.
struct Watched<'a> {
    brain: Brain,
    policy: &'a dyn Policy,
    taken_over: u32,
    ticks: u32,
}

impl Scaler for Watched<'_> {
    fn backfill(&mut self, history: &History) {
        self.brain.backfill(history);
    }

    fn decide(&mut self, seen: &Seen) -> u32 {
        let decision = self.brain.decide(self.policy, Override::None, &seen.observation);
        self.ticks += 1;
        self.taken_over += u32::from(decision.doubt().is_some());
        decision.replicas()
    }

    fn record_scale(&mut self, time_secs: f64, from: u32, to: u32) {
        self.brain.record_scale(time_secs, from, to);
    }
}

/// A day of a trace (or three quarters of a shorter one) with all before it as history, with seed 1.
fn scenario(trace: &str, profile: &str) -> Scenario {
    const DAY_SECS: f64 = 86_400.0;
    let (trace, profile) = (Trace::open(trace).unwrap(), Profile::open(profile).unwrap());
    let length_secs = trace.duration_secs();
    let judged_secs = if DAY_SECS < length_secs { DAY_SECS } else { 0.75 * length_secs };
    let scenario = Scenario::new(&profile, &trace).part(length_secs - judged_secs, judged_secs);
    Scenario { detail: Detail::Totals, ..scenario }
}

#[test]
fn the_planner_takes_over_rarely_in_healthy_worlds() {
    let model = builtin();
    for (trace, profile) in [
        ("crane_input6", "web"),
        ("crane_input9", "web"),
        ("crane_input9", "jvm"),
        ("crane_input9", "edge"),
        ("autothrottle_diurnal", "web"),
        ("azure_llm_2023", "llm"),
        ("gen:diurnal:9001", "web"),
        ("gen:step:9002", "web"),
        ("gen:ramp:9003", "web"),
        ("gen:flash-crowd:9004", "web"),
        ("gen:on-off:9005", "web"),
        ("gen:markov:9006", "web"),
        ("gen:diurnal:9007", "jvm"),
        ("gen:llm-tokens:9008", "llm"),
        ("gen:diurnal:9011", "edge"),
    ] {
        let scenario = scenario(trace, profile);
        let brain = Brain::new(scenario.settings(0.99));
        let mut watched = Watched { brain, policy: &model, taken_over: 0, ticks: 0 };
        run(&mut watched, &scenario, Seed(1));
        let Watched { taken_over, ticks, .. } = watched;
        eprintln!("{trace} {profile} seed 1: the planner drove at {taken_over} of {ticks} ticks");
        assert!(f64::from(taken_over) <= TAKEN_OVER_MOST * f64::from(ticks), "{trace} {profile}");
    }
}

/// A net for which nothing is out of the usual.
struct Net(ActorCritic);

impl Net {
    /// Every weight the built-in model has, moved by up to `by`.
    fn perturbed(seed: u64, by: f32) -> Self {
        let mut weights = weights();
        let mut state = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        for (shape, values) in rlscaler_rl::weights::layout(WIDTH).iter().zip(weights.values_mut()) {
            for value in values.iter_mut().filter(|_| ![RANGE_HIGH, RANGE_LOW].contains(&shape.name)) {
                *value += by * uniform(&mut state);
            }
        }
        Self(ActorCritic::new(&weights).with_range(vec![f32::MIN; WIDTH], vec![f32::MAX; WIDTH]))
    }
}

impl Policy for Net {
    fn act(&self, features: &Features) -> Result<Action, PolicyFault> {
        let multiplier = f64::from(self.0.log_multiplier(features.values(), features.price())).exp();
        Ok(Action { multiplier, value: 0.0 })
    }

    fn describe(&self) -> String {
        "net".to_owned()
    }
}

/// The committed model's numbers.
fn weights() -> Weights {
    let bytes = include_bytes!("../../../models/base.safetensors");
    let manifest = include_bytes!("../../../models/base.json");
    rlscaler_rl::model_file::read(bytes, manifest, rlscaler_rl::builtin::schema()).unwrap().0
}

/// Uniform in -1..1, by a xorshift generator.
fn uniform(state: &mut u64) -> f32 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 40) as f32 / 8_388_608.0 - 1.0
}

/// Features of any service: levels and shapes within what is usual.
fn any_features(state: &mut u64) -> Features {
    let mut values = [0.0; WIDTH];
    for (value, name) in values.iter_mut().zip(NAMES) {
        *value = match name {
            "day_known" | "week_known" | "lag30m_known" | "lag60m_known" => {
                f32::from(u8::from(0.0 < uniform(state)))
            }
            "noise_5m" | "noise_60m" | "noise_poisson" | "planner_error" | "history_length" => {
                0.5 * uniform(state).abs()
            }
            _ => uniform(state),
        };
    }
    Features::new(values, f64::from(700.0 * uniform(state).abs() + 1.0), 30.0, 22.0)
}

/// What is told of the answers of a net; the claims that were made.
fn check(policy: &dyn Policy, net: &dyn Fn(&Features) -> f64, features: &Features) -> u32 {
    let multiplier = policy.act(features).unwrap().multiplier;
    let asked = Asked {
        features: *features,
        planner: 30.0,
        multiplier,
        usual_price: 20.0,
        budget: BudgetReport::default(),
    };
    let mut claims = 0;
    let mut last = f64::INFINITY;
    for reason in influence::strongest(policy, &asked).iter() {
        let Reason::Influence { influence, change } = reason else { panic!("{reason:?}") };
        // By hand: the group's features as of a steady service, all others as they were.
        let neutral = influence::neutral(features, influence.group(), 20.0);
        let others = features.values().iter().zip(neutral.values()).filter(|(old, new)| old == new).count();
        assert!(
            (WIDTH - 16..WIDTH).contains(&others) || influence.group() == Group::Price,
            "{others} features stayed"
        );
        let (with, without) = (net(features), net(&neutral));
        // In the named direction, by the stated size, and the strongest first.
        assert_eq!(0 < change, without < with, "{reason}: {with} {without}");
        let exact = 30.0 * (with.exp() - without.exp());
        assert!((exact - f64::from(change)).abs() <= 1.0, "{reason}: {exact}");
        assert_eq!(
            i64::from(multiplied(30.0, with.exp())) - i64::from(multiplied(30.0, without.exp())),
            i64::from(change)
        );
        assert!((with - without).abs() <= last + 1e-9, "{reason}");
        last = (with - without).abs();
        claims += 1;
    }
    claims
}

#[test]
fn what_is_told_of_random_and_perturbed_nets_is_true_of_them() {
    let mut claims = 0;
    for seed in 0..60 {
        for by in [0.02, 0.1, 0.4] {
            let net = Net::perturbed(seed, by);
            let mut state = seed + 1;
            for _ in 0..5 {
                let features = any_features(&mut state);
                let answer = |features: &Features| {
                    f64::from(net.0.log_multiplier(features.values(), features.price()))
                };
                claims += check(&net, &answer, &features);
            }
        }
    }
    assert!(600 < claims, "only {claims} claims were checked");
}

#[test]
fn what_is_told_of_the_builtin_model_is_true_of_it() {
    let model: Model = builtin();
    let answer = |features: &Features| {
        f64::from(model.actor_critic().log_multiplier(features.values(), features.price()))
    };
    let mut state = 7;
    let mut claims = 0;
    for _ in 0..200 {
        let features = any_features(&mut state);
        if model.act(&features).is_ok() {
            claims += check(&model, &answer, &features);
        }
    }
    let trained = model.manifest().kind != ModelKind::ZeroInitialised;
    assert!(!trained || 100 < claims, "only {claims} claims were made of {}", model.describe());
}

#[test]
fn the_untrained_model_gives_no_reasons() {
    let files = rlscaler_rl::builtin::zero_initialised_files();
    let model = Model::load(&files.0, files.1.as_bytes()).unwrap();
    let mut state = 7;
    for _ in 0..50 {
        let features = any_features(&mut state);
        let asked = Asked {
            features,
            planner: 30.0,
            multiplier: 1.0,
            usual_price: 20.0,
            budget: BudgetReport::default(),
        };
        assert_eq!(influence::strongest(&model, &asked).iter().count(), 0);
    }
}

#[test]
fn a_dearer_late_request_is_never_told_to_have_taken_replicas() {
    for seed in 0..60 {
        let net = Net::perturbed(seed, 0.3);
        let mut state = seed + 1;
        for _ in 0..5 {
            let seen = any_features(&mut state);
            let multiplier = net.act(&seen).unwrap().multiplier;
            let effects = influence::effects(&net, &seen, 20.0, multiplier.ln());
            let of_price = effects[Group::ALL.iter().position(|group| *group == Group::Price).unwrap()];
            assert!(of_price == 0.0 || (0.0 < of_price) == (20.0 < seen.price()), "seed {seed}: {of_price}");
        }
    }
}
