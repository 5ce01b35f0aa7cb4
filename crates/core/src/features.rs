//! What a policy sees: a fixed-length vector of exogenous facts about the load and the planner, and the price.
//!
//! A level z is compared with the present level u as ln((z + 0.1) / (u + 0.1)) in busy pods, clipped to +-4, so one net
//! serves every service. Nothing in the vector depends on the replicas of the service itself: a training window's
//! features can be computed before its actions are known.

use crate::capacity::PodCapacity;
use crate::forecast::{Forecaster, SEASONS};
use crate::history::{BIN_SLOTS, DAY_SLOTS, HOUR_SLOTS, MAX_BINS};
use crate::planner::{Demand, Plan};
use crate::settings::Settings;

/// Length of the vector.
pub const WIDTH: usize = NAMES.len();

/// Meaning of each place, in order. Changing anything here changes [`schema_hash`] and makes older models unusable.
pub const NAMES: [&str; 57] = [
    "last_slot",
    "mean_1m",
    "mean_5m",
    "mean_15m",
    "mean_60m",
    "mean_6h",
    "max_1m",
    "max_5m",
    "max_15m",
    "max_60m",
    "max_24h",
    "min_5m",
    "min_15m",
    "slope_1m",
    "slope_5m",
    "noise_5m",
    "noise_60m",
    "noise_poisson",
    "p75_60m",
    "p90_60m",
    "p98_60m",
    "deviation_60m",
    "rise_p50",
    "rise_p90",
    "rise_p98",
    "rise_p995",
    "day_rise",
    "day_rise_after",
    "day_level",
    "day_known",
    "week_rise",
    "week_rise_after",
    "week_level",
    "week_known",
    "days_rise_mean",
    "days_rise_max",
    "lag30m_rise",
    "lag30m_rise_after",
    "lag30m_level",
    "lag30m_known",
    "lag60m_rise",
    "lag60m_rise_after",
    "lag60m_level",
    "lag60m_known",
    "day_skill",
    "week_skill",
    "log_level",
    "planner_ratio",
    "log_planner",
    "planner_error",
    "forecast_ratio",
    "log_startup",
    "log_horizon",
    "log_target_over_service",
    "log_workers",
    "history_length",
    "surprise",
];

/// One tick's features.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Features {
    values: [f32; WIDTH],
    price: f64,
    planner: f64,
    busy_pods: f64,
}

impl Features {
    /// From its parts; anything not finite becomes 0. `planner`: n0 in replicas, before bounds; `busy_pods`: the
    /// present load.
    #[must_use]
    pub fn new(mut values: [f32; WIDTH], price: f64, planner: f64, busy_pods: f64) -> Self {
        for value in &mut values {
            if !value.is_finite() {
                *value = 0.0;
            }
        }
        Self { values, price, planner, busy_pods }
    }

    /// The vector, in the order of [`NAMES`].
    #[must_use]
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// Price of lateness.
    #[must_use]
    pub fn price(&self) -> f64 {
        self.price
    }

    /// n0, the number the multiplier is applied to, in replicas, before bounds.
    #[must_use]
    pub fn planner(&self) -> f64 {
        self.planner
    }

    /// Present load in busy pods.
    #[must_use]
    pub fn busy_pods(&self) -> f64 {
        self.busy_pods
    }
}

/// FNV-1a over the names and their order, and over the version of their meaning.
#[must_use]
pub fn schema_hash() -> u64 {
    /// Raised when a feature keeps its name and changes its meaning.
    const VERSION: u8 = 2;
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let mut hash = (OFFSET ^ u64::from(VERSION)).wrapping_mul(PRIME);
    for name in NAMES {
        for byte in name.bytes().chain([b'\n']) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(PRIME);
        }
    }
    hash
}

/// What the vector is computed from.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The policy.
    pub settings: &'a Settings,
    /// What one pod carries.
    pub capacity: &'a PodCapacity,
    /// The past.
    pub forecaster: &'a Forecaster,
    /// The present and what is expected.
    pub demand: &'a Demand,
    /// n0.
    pub plan: &'a Plan,
    /// Start-up time, seconds.
    pub startup_secs: f64,
    /// Price of lateness.
    pub price: f64,
}

/// Levels are compared after adding this many busy pods, so that an idle service has no infinite ratios.
const FLOOR_PODS: f64 = 0.1;
/// Log ratios are clipped to this.
const CLIP: f64 = 4.0;
/// Seconds over which rates are averaged, for the noise a Poisson stream would show at this level.
const RATE_WINDOW_SECS: f64 = 30.0;
/// Slots of the stretch after the horizon: 10 minutes.
const AFTER_SLOTS: usize = 2 * BIN_SLOTS;
/// Lags shorter than a day whose rise is shown, in slots: 30 and 60 minutes.
const SHORT_LAGS: [i64; 2] = [HOUR_SLOTS as i64 / 2, HOUR_SLOTS as i64];
/// Surprise is compared with this, after adding a little, so that none has a logarithm.
const SURPRISE_TYPICAL: f64 = 0.01;
/// See [`SURPRISE_TYPICAL`].
const SURPRISE_FLOOR: f64 = 0.001;
/// Days whose rise is averaged.
const DAYS: i64 = 7;

/// The vector of one tick. Some microseconds; no allocation.
#[must_use]
pub fn compute(facts: &Facts<'_>) -> Features {
    let Facts { settings, capacity, forecaster, demand, plan, startup_secs, price } = *facts;
    let per_load = demand.scale / capacity.load_per_pod;
    let present = forecaster.history().level() * per_load;
    let scale = Scale { per_load, floor: present + FLOOR_PODS };
    let mut vector = Vector { values: [0.0; WIDTH], len: 0 };

    push_levels(&mut vector, &scale, forecaster);
    push_shape(&mut vector, &scale, facts, present);
    for quantile in forecaster.rise_quantiles() {
        vector.push(quantile);
    }
    for lag in SEASONS {
        push_lag(&mut vector, &scale, forecaster, lag);
    }
    push_days(&mut vector, forecaster);
    for lag in SHORT_LAGS {
        push_lag(&mut vector, &scale, forecaster, lag);
    }
    for skill in forecaster.skills() {
        vector.push(skill);
    }
    let replicas = plan.exact;
    vector.push((present + FLOOR_PODS).ln());
    vector.push(((replicas + FLOOR_PODS) / scale.floor).ln());
    vector.push((replicas + FLOOR_PODS).ln());
    vector.push(demand.forecast.error);
    vector.push(scale.ratio(demand.forecast.expected()));
    // Times are stated for real time, so that a faster world looks the same.
    vector.push((startup_secs * settings.time_factor / 60.0).max(1e-3).ln());
    vector.push((forecaster.horizon_slots() as f64 / 8.0).ln());
    vector.push((capacity.service.target_secs / capacity.service.service_secs).ln());
    vector.push(f64::from(capacity.service.workers).ln());
    vector.push(forecaster.history().bins().len() as f64 / MAX_BINS as f64);
    vector.push(((forecaster.surprise() + SURPRISE_FLOOR) / SURPRISE_TYPICAL).ln());
    debug_assert_eq!(vector.len, WIDTH, "every name has its value");
    Features::new(vector.values.map(|value| value as f32), price, replicas, present)
}

struct Vector {
    values: [f64; WIDTH],
    len: usize,
}

impl Vector {
    fn push(&mut self, value: f64) {
        self.values[self.len] = value.clamp(-CLIP, CLIP);
        self.len += 1;
    }
}

struct Scale {
    per_load: f64,
    floor: f64,
}

impl Scale {
    /// ln((z + 0.1) / (u + 0.1)) of a load.
    fn ratio(&self, load: f64) -> f64 {
        ((load * self.per_load + FLOOR_PODS) / self.floor).ln()
    }

    /// A difference of loads against the present level.
    fn share(&self, difference: f64) -> f64 {
        difference * self.per_load / self.floor
    }
}

fn push_levels(vector: &mut Vector, scale: &Scale, forecaster: &Forecaster) {
    let history = forecaster.history();
    let (slots, bins) = (history.slots(), history.bins());
    let now = history.level_now();
    vector.push(scale.ratio(now));
    for minutes in [1, 5, 15, 60] {
        vector.push(scale.ratio(mean(slots.last(4 * minutes)).unwrap_or(now)));
    }
    vector.push(scale.ratio(mean(bins.last(72)).unwrap_or(now)));
    for minutes in [1, 5, 15, 60] {
        vector.push(scale.ratio(most(slots.last(4 * minutes)).max(now)));
    }
    vector.push(scale.ratio(most(bins.last(288)).max(now)));
    for minutes in [5, 15] {
        vector.push(scale.ratio(least(slots.last(4 * minutes)).min(now)));
    }
}

fn push_shape(vector: &mut Vector, scale: &Scale, facts: &Facts<'_>, present: f64) {
    let history = facts.forecaster.history();
    let (slots, now) = (history.slots(), history.level_now());
    for minutes in [1, 5] {
        let before = slots.last(4 * minutes).first().map_or(now, |&load| f64::from(load));
        vector.push(scale.share(now - before));
    }
    for minutes in [5, 60] {
        vector.push(scale.share(roughness(slots.last(4 * minutes))));
    }
    let service = &facts.capacity.service;
    let requests = present * service.rate_per_replica() * facts.settings.scaled(RATE_WINDOW_SECS);
    vector.push(1.0 / (requests + 1.0).sqrt());
    let hour = slots.last(HOUR_SLOTS);
    let mut sorted = [0.0_f32; HOUR_SLOTS];
    let sorted = &mut sorted[..hour.len()];
    sorted.copy_from_slice(hour);
    // From the largest share down: each selection only has to look at what is below the last one.
    let mut found = [now; 3];
    let mut below = hour.len();
    for (place, share) in [(2, 0.98), (1, 0.90), (0, 0.75)] {
        let index = (share * hour.len() as f64) as usize;
        if index < below {
            found[place] = f64::from(*sorted[..below].select_nth_unstable_by(index, f32::total_cmp).1);
            below = index.max(1);
        }
    }
    for load in found {
        vector.push(scale.ratio(load));
    }
    let middle = mean(hour).unwrap_or(now);
    let squares: f64 = hour.iter().map(|&load| (f64::from(load) - middle).powi(2)).sum();
    vector.push(scale.share((squares / hour.len().max(1) as f64).sqrt()));
}

/// The rise at a lag and after it, the level then, and whether history reaches that far.
fn push_lag(vector: &mut Vector, scale: &Scale, forecaster: &Forecaster, lag: i64) {
    let Some([peak, after, level]) = forecaster.rise_at(lag, AFTER_SLOTS) else {
        vector.len += 4;
        return;
    };
    let floor = level * scale.per_load + FLOOR_PODS;
    let rise = |load: f64| ((load * scale.per_load + FLOOR_PODS) / floor).ln();
    vector.push(rise(peak));
    vector.push(rise(after));
    vector.push(scale.ratio(level));
    vector.push(1.0);
}

/// Mean and maximum of the rises at the same time of up to seven days.
fn push_days(vector: &mut Vector, forecaster: &Forecaster) {
    let (mut sum, mut highest, mut count) = (0.0, 0.0_f64, 0.0);
    for day in 1..=DAYS {
        let Some([peak, _, level]) = forecaster.rise_at(day * DAY_SLOTS, 0) else { break };
        if 0.0 < level {
            let rise = (peak / level).ln();
            sum += rise;
            highest = highest.max(rise);
            count += 1.0;
        }
    }
    vector.push(if count == 0.0 { 0.0 } else { sum / count });
    vector.push(highest);
}

fn mean(loads: &[f32]) -> Option<f64> {
    let sum: f32 = loads.iter().sum();
    (!loads.is_empty()).then(|| f64::from(sum) / loads.len() as f64)
}

fn most(loads: &[f32]) -> f64 {
    loads.iter().fold(0.0_f32, |most, &load| if most < load { load } else { most }).into()
}

fn least(loads: &[f32]) -> f64 {
    loads.iter().fold(f32::INFINITY, |least, &load| if load < least { load } else { least }).into()
}

/// Root mean square of the differences between neighbours.
fn roughness(loads: &[f32]) -> f64 {
    let squares: f32 = loads.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).sum();
    (f64::from(squares) / loads.len().saturating_sub(1).max(1) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::Estimator;
    use crate::planner;
    use crate::settings::{Bounds, Capacity, Objective, Weights};

    fn settings() -> Settings {
        let objective =
            Objective { target_secs: 0.25, sla: 0.99, latency_percentile: 0.95, weights: Weights::default() };
        let capacity = Some(Capacity { concurrency: 4, service_secs: 0.05 });
        Settings { capacity, ..Settings::new(Bounds::new(1, 100).expect("1 <= 100"), objective) }
    }

    fn after(slots: i64, load: impl Fn(i64) -> f64) -> Features {
        let settings = settings();
        let capacity = Estimator::default().capacity(&settings, None).expect("declared");
        let mut forecaster = Forecaster::default();
        forecaster.set_horizon(6);
        for slot in 0..slots {
            forecaster.observe(slot, load(slot));
        }
        let demand = Demand { forecast: forecaster.forecast(), backlog: 0.0, saturation: None, scale: 1.0 };
        let plan = planner::plan(&settings, &capacity, &demand);
        compute(&Facts {
            settings: &settings,
            capacity: &capacity,
            forecaster: &forecaster,
            demand: &demand,
            plan: &plan,
            startup_secs: 60.0,
            price: 20.0,
        })
    }

    fn named(features: &Features, name: &str) -> f32 {
        let place = NAMES.iter().position(|&known| known == name).expect("a known name");
        features.values()[place]
    }

    #[test]
    fn every_name_is_there_once() {
        let mut names = NAMES.to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), WIDTH);
    }

    #[test]
    fn a_fresh_service_has_finite_features_and_knows_no_past() {
        for features in [after(1, |_| 100.0), after(1, |_| 0.0), after(3, |_| 1e12)] {
            assert!(features.values().iter().all(|value| value.is_finite() && value.abs() <= 4.0));
            assert_eq!(named(&features, "day_known"), 0.0);
        }
    }

    #[test]
    fn levels_are_told_against_the_present_one() {
        let features = after(300, |slot| if slot < 290 { 80.0 } else { 160.0 });
        let expected = (1.1_f64 / 2.1).ln() as f32;
        assert!((named(&features, "min_15m") - expected).abs() < 1e-3);
        assert!(named(&features, "last_slot").abs() < 1e-6);
        assert!((features.busy_pods() - 2.0).abs() < 1e-6);
        assert!((named(&features, "p75_60m") - expected).abs() < 1e-3);
    }

    #[test]
    fn yesterday_is_known_after_a_day() {
        let daily = |slot: i64| 200.0 + 100.0 * (slot as f64 / 480.0 * std::f64::consts::TAU).sin();
        let features = after(2 * DAY_SLOTS, daily);
        assert_eq!(named(&features, "day_known"), 1.0);
        assert_eq!(named(&features, "week_known"), 0.0);
        assert!(named(&features, "day_rise") > 0.02);
        assert!(named(&features, "days_rise_max") >= named(&features, "days_rise_mean"));
    }

    #[test]
    fn the_scale_of_the_service_does_not_show_but_in_its_own_features() {
        let (small, large) =
            (after(400, |slot| 400.0 + slot as f64), after(400, |slot| 4000.0 + 10.0 * slot as f64));
        for (name, (small, large)) in NAMES.iter().zip(small.values().iter().zip(large.values())) {
            let of_size = ["log_level", "log_planner", "planner_ratio", "noise_poisson"].contains(name);
            assert!(of_size || (small - large).abs() < 0.02, "{name}: {small} {large}");
        }
    }
}
