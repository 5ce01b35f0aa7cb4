//! What mattered most: that it is true, in which direction and by how much, and how it is said.

use rlscaler_core::budget::Budget;
use rlscaler_core::budget::BudgetReport;
use rlscaler_core::capacity::Estimator;
use rlscaler_core::features::{self, Facts, NAMES, WIDTH};
use rlscaler_core::forecast::Forecaster;
use rlscaler_core::influence::{self, Asked, Group, Influence, Past};
use rlscaler_core::planner::{self, Demand};
use rlscaler_core::policy::multiplied;
use rlscaler_core::{Action, Features, Policy, PolicyFault, Reason};

use crate::service::{Service, settings};

/// ln of the multiplier = weights x features + `by_price` x ln(price / 20).
struct Linear {
    weights: [f32; WIDTH],
    by_price: f64,
}

impl Linear {
    fn of(names: &[(&str, f32)]) -> Self {
        let mut weights = [0.0; WIDTH];
        for (name, weight) in names {
            weights[place(name)] = *weight;
        }
        Self { weights, by_price: 0.0 }
    }
}

impl Policy for Linear {
    fn act(&self, features: &Features) -> Result<Action, PolicyFault> {
        let sum: f32 = self.weights.iter().zip(features.values()).map(|(weight, value)| weight * value).sum();
        let log = f64::from(sum) + self.by_price * (features.price() / 20.0).ln();
        Ok(Action { multiplier: log.clamp(-1.8, 1.8).exp(), value: 0.0 })
    }

    fn describe(&self) -> String {
        "linear".to_owned()
    }
}

fn place(name: &str) -> usize {
    NAMES.iter().position(|known| *known == name).expect("a known name")
}

fn with(values: &[(&str, f32)], price: f64) -> Features {
    let mut all = [0.0; WIDTH];
    for (name, value) in values {
        all[place(name)] = *value;
    }
    Features::new(all, price, 20.0, 15.0)
}

fn asked(policy: &dyn Policy, features: Features, left: f64) -> Asked {
    let multiplier = policy.act(&features).expect("answers").multiplier;
    let budget = BudgetReport { remaining_ratio: left, ..BudgetReport::default() };
    Asked { features, planner: 20.0, multiplier, usual_price: 20.0, budget }
}

fn sentences(policy: &dyn Policy, features: Features, left: f64) -> Vec<String> {
    influence::strongest(policy, &asked(policy, features, left))
        .iter()
        .map(|reason| reason.to_string())
        .collect()
}

#[test]
fn the_strongest_come_first_and_at_most_three_are_told() {
    let policy = Linear {
        by_price: 0.3,
        ..Linear::of(&[("mean_60m", -1.0), ("max_60m", 0.5), ("day_rise", 0.4), ("planner_error", -0.5)])
    };
    let seen = [
        ("mean_60m", -0.165_514),
        ("slope_5m", 0.12),
        ("max_60m", 0.31),
        ("max_24h", std::f32::consts::LN_2),
        ("day_rise", 0.223_144),
        ("day_level", -0.165_514),
        ("day_known", 1.0),
        ("planner_error", 0.5),
    ];
    let told = sentences(&policy, with(&seen, 40.0), 0.5);
    assert_eq!(
        told,
        [
            "forecasts lately fell short by 50 % (-8 replicas)",
            "half of this week's error budget is left: a late request weighs 2.0 times as much as usual (+5 replicas)",
            "load is 18 % above the mean of the last hour and rising: by 12 % in five minutes (+4 replicas)",
        ]
    );
}

#[test]
fn every_influence_has_its_sentence() {
    let say = |influence| Reason::Influence { influence, change: 1 }.to_string();
    for (influence, expected) in [
        (
            Influence::Trend { above_hour: 0.18, rise_5m: 0.1 },
            "load is 18 % above the mean of the last hour and rising: by 10 % in five minutes (+1 replica)",
        ),
        (
            Influence::Trend { above_hour: -0.05, rise_5m: -0.1 },
            "load is 5 % below the mean of the last hour and falling: by 10 % in five minutes (+1 replica)",
        ),
        (
            Influence::Trend { above_hour: 0.001, rise_5m: 0.001 },
            "load is at the mean of the last hour and steady (+1 replica)",
        ),
        (
            Influence::Peaks { hour: 0.6, day: 1.1 },
            "the last hour was bursty: peaks 60 % above its mean, that of the last day 110 % above the load now (+1 replica)",
        ),
        (
            Influence::Peaks { hour: 0.05, day: 0.2 },
            "the peak of the last hour was 5 % above its mean, that of the last day 20 % above the load now (+1 replica)",
        ),
        (
            Influence::Season { past: Past::Day, above: 0.18, rose: 0.25 },
            "load is 18 % above the usual for this hour; yesterday it rose by 25 % from here (+1 replica)",
        ),
        (
            Influence::Season { past: Past::Week, above: -0.3, rose: 0.0 },
            "load is 30 % below the usual for this hour; a week ago it did not rise from here (+1 replica)",
        ),
        (
            Influence::Season { past: Past::Hour, above: 0.0, rose: 0.5 },
            "load is at that of an hour ago; then it rose by 50 % from here (+1 replica)",
        ),
        (
            Influence::Season { past: Past::HalfHour, above: 0.1, rose: -0.2 },
            "load is 10 % above that of half an hour ago; then it did not rise from here (+1 replica)",
        ),
        (
            Influence::Burstiness { swing: 0.12, chance: 0.04 },
            "load swings by 12 % from one quarter minute to the next, 3.0 times what chance would give (+1 replica)",
        ),
        (Influence::ForecastError { short: 0.14 }, "forecasts lately fell short by 14 % (+1 replica)"),
        (
            Influence::Startup { secs: 90.0, target: 5.0 },
            "a new pod serves after 90 s, and the target is 5.0 service times (+1 replica)",
        ),
        (Influence::History { days: 0.1 }, "only 2.4 h of this service's past are known (+1 replica)"),
        (Influence::History { days: 8.0 }, "8 days of this service's past are known (+1 replica)"),
        (
            Influence::Price { left: 0.5, times: 1.0 },
            "half of this week's error budget is left: a late request weighs 1.0 times as much as usual (+1 replica)",
        ),
        (
            Influence::Price { left: 0.97, times: 0.2 },
            "97 % of this week's error budget is left: a late request weighs 0.2 times as much as usual (+1 replica)",
        ),
        (
            Influence::Price { left: -0.4, times: 6.0 },
            "this week's error budget is used up: a late request weighs 6.0 times as much as usual (+1 replica)",
        ),
    ] {
        assert_eq!(say(influence), expected);
        assert!(influence.code().starts_with(|c: char| c.is_ascii_uppercase()));
    }
}

#[test]
fn nothing_is_claimed_that_moves_the_answer_by_less_than_a_replica() {
    for weight in [0.0, 1e-4, 0.02] {
        let policy = Linear::of(&[("mean_60m", weight), ("max_60m", weight)]);
        let told = sentences(&policy, with(&[("mean_60m", 1.0), ("max_60m", 1.0)], 20.0), 1.0);
        assert_eq!(told, Vec::<String>::new(), "{weight}");
    }
    // A group that moves the answer across a rounding only is no reason either: 20.49 and 20.51 pods.
    let policy = Linear::of(&[("mean_60m", 0.001), ("log_level", 0.0247)]);
    let told = sentences(&policy, with(&[("mean_60m", 1.0), ("log_level", 1.0)], 20.0), 1.0);
    assert_eq!(told, Vec::<String>::new());
}

/// Fails on anything but what it was first shown.
struct Narrow;

impl Policy for Narrow {
    fn act(&self, features: &Features) -> Result<Action, PolicyFault> {
        let seen = features.values()[place("mean_60m")];
        if seen == 1.0 {
            Ok(Action { multiplier: 2.0, value: 0.0 })
        } else {
            Err(PolicyFault::OutOfDistribution)
        }
    }

    fn describe(&self) -> String {
        "narrow".to_owned()
    }
}

#[test]
fn nothing_is_claimed_where_the_neutral_features_are_strange_to_the_model() {
    assert_eq!(sentences(&Narrow, with(&[("mean_60m", 1.0)], 20.0), 1.0), Vec::<String>::new());
}

#[test]
fn every_feature_is_of_one_group_or_of_the_size_and_neutral_is_neutral() {
    let features = with(&NAMES.map(|name| (name, if name == "noise_poisson" { 0.05 } else { 0.321 })), 55.0);
    let mut changed = [0; WIDTH];
    for group in Group::ALL {
        let once = influence::neutral(&features, group, 20.0);
        assert_eq!(influence::neutral(&once, group, 20.0), once, "{group:?}");
        assert_eq!(once.price() == 20.0, group == Group::Price);
        for (count, (old, new)) in changed.iter_mut().zip(features.values().iter().zip(once.values())) {
            *count += u32::from(old != new);
        }
    }
    for (name, count) in NAMES.iter().zip(changed) {
        let kept = ["noise_poisson", "log_level", "planner_ratio", "log_planner"].contains(name);
        assert_eq!(count, u32::from(!kept), "{name}");
    }
}

/// Rates over 30 s of a steady Poisson stream of `rate` requests per second, as they are seen every 15 s; normal draws
/// are sums of twelve uniform ones of a congruential generator.
fn steady(rate: f64) -> impl FnMut() -> f64 {
    let mut state = 9_001_u64;
    let mut quarter = move || {
        let uniform = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        15.0 * rate + ((0..12).map(uniform).sum::<f64>() - 6.0) * (15.0 * rate).sqrt()
    };
    let mut before = quarter();
    move || {
        let now = quarter();
        (std::mem::replace(&mut before, now) + now) / 30.0
    }
}

/// Mean features of a steady service over a day.
fn steady_features(rate: f64) -> [f64; WIDTH] {
    const TICKS: i64 = 60;
    let settings = settings();
    let capacity = Estimator::default().capacity(&settings, None).expect("declared");
    let mut forecaster = Forecaster::default();
    forecaster.set_horizon(6);
    let (mut next, mut means) = (steady(rate), [0.0; WIDTH]);
    for slot in 0..2 * 5_760 {
        forecaster.observe(slot, next());
        if slot < 5_760 || slot % (5_760 / TICKS) != 0 {
            continue;
        }
        let demand = Demand { forecast: forecaster.forecast(), backlog: 0.0, saturation: None, scale: 1.0 };
        let features = features::compute(&Facts {
            settings: &settings,
            capacity: &capacity,
            forecaster: &forecaster,
            demand: &demand,
            plan: &planner::plan(&settings, &capacity, &demand),
            startup_secs: 60.0,
            price: 20.0,
        });
        for (mean, value) in means.iter_mut().zip(features.values()) {
            *mean += f64::from(*value) / TICKS as f64;
        }
    }
    means
}

#[test]
fn a_steady_service_shows_about_the_neutral_values() {
    for rate in [400.0, 4_000.0] {
        let seen = steady_features(rate);
        let noise = seen[place("noise_poisson")];
        let strange = NAMES.map(|name| (name, if name == "noise_poisson" { noise as f32 } else { 0.321 }));
        let strange = with(&strange, 20.0);
        let neutral = Group::ALL
            .into_iter()
            .fold(strange, |features, group| influence::neutral(&features, group, 20.0));
        for (at, name) in NAMES.iter().enumerate() {
            let is_past =
                ["day", "week", "lag", "history", "surprise"].iter().any(|prefix| name.starts_with(prefix));
            let is_size = ["log_level", "planner_ratio", "log_planner", "noise_poisson"].contains(name);
            let off = (seen[at] - f64::from(neutral.values()[at])).abs();
            assert!(is_past || is_size || off < 0.35 * noise + 0.003, "{name} at {rate}: {off} off");
        }
    }
}

#[test]
fn what_is_told_of_a_decision_is_what_flipping_the_group_does() {
    let policy = Linear {
        by_price: 0.4,
        ..Linear::of(&[("mean_60m", -0.8), ("max_60m", 0.6), ("noise_60m", 1.5), ("history_length", -0.7)])
    };
    let mut service = Service::new(settings(), 5);
    let mut told = 0;
    for tick in 0..2_000 {
        let qps = 500.0 + 300.0 * (f64::from(tick) / 60.0).sin() + f64::from(tick * 37 % 101);
        let recording = Recording { inner: &policy, seen: std::sync::Mutex::new(None) };
        let decision = service.tick_with(&recording, qps, |_| {});
        let Some(features) = *recording.seen.lock().expect("no panic") else { continue };
        let explained = service.brain.explain(&policy, decision);
        assert_eq!(
            (explained.replicas(), explained.main_reason()),
            (decision.replicas(), decision.main_reason())
        );
        for reason in explained.reasons() {
            let Reason::Influence { influence, change } = *reason else { continue };
            let surprise = 0.01 * f64::from(features.values()[place("surprise")]).exp() - 0.001;
            let usual_price = Budget::default().lateness_price(service.brain.settings(), surprise, None);
            let flipped = influence::neutral(&features, influence.group(), usual_price);
            let without = multiplied(features.planner(), policy.act(&flipped).expect("answers").multiplier);
            assert_eq!(i64::from(decision.proposed()) - i64::from(without), i64::from(change), "{reason}");
            told += 1;
        }
    }
    assert!(1_000 < told, "{told}");
}

/// Remembers what it was shown last.
struct Recording<'a> {
    inner: &'a Linear,
    seen: std::sync::Mutex<Option<Features>>,
}

impl Policy for Recording<'_> {
    fn act(&self, features: &Features) -> Result<Action, PolicyFault> {
        *self.seen.lock().expect("no panic") = Some(*features);
        self.inner.act(features)
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}
