//! The error budget: how much of what the SLA allows is used up, and what a late request is therefore worth.
//!
//! In: the late share of each tick, weighted by the requests offered in it, and the price of a replica-hour. Out: the
//! price of lateness the actor is given, what remains of the budget, and burn rates as SREs read them (Beyer et al.,
//! *The Site Reliability Workbook*, 2018, chapter 5).

use crate::memory::{BudgetBucket, BudgetMemory};
use crate::settings::Settings;

/// Half-life of the rolling late share: a week.
const HALF_LIFE_SECS: f64 = 7.0 * 86_400.0;
/// Traffic at the set point every service starts with, so that its first late requests are not a catastrophe: with an hour of
/// it the price of the first day swings, which costs changes and saves no replicas.
const PRIOR_SECS: f64 = 4.0 * 3_600.0;
/// The controller aims at this share of what the SLA allows.
const SET_POINT: f64 = 0.5;
/// Price of lateness at the set point, 99 % and the usual surprise.
const BASE_PRICE: f64 = 20.0;
/// Surprise ([`crate::forecast::Forecaster::surprise`]) of a load that needs the base price.
pub const USUAL_SURPRISE: f64 = 0.0144;
/// How the price at the set point follows the surprise. Of 45 generated loads, those that never surprise need a price of
/// 1.5 to 3 to be as late as the set point says, those with 1 % about 12, with 2 % about 30; beyond that it does not grow.
const SURPRISE_POWER: f64 = 1.4;
/// The price at the set point is at most this.
const EXPECTED_PRICE_MAX: f64 = 40.0;
/// How the price follows B / set point. A load that needs a price far from the base settles that much off the set point:
/// a ratio of 15 costs a factor of 4 in lateness at a power of 2, 6 at 1.5; more makes the price swing.
const CONTROL_POWER: f64 = 2.0;
/// How the base follows what the SLA allows.
const SLA_POWER: f64 = -0.5;
/// The share the base is stated for.
const SLA_REFERENCE: f64 = 0.01;
/// From this multiple of the set point on, 0.85 of what the SLA allows, the price gains a factor of the excess to a further
/// power: the fifth in all. Without it a load that jumps settles at 1.0 to 1.3 % late where 1 % is allowed, at two thirds of an HPA's
/// replicas.
const NEAR_SLA: f64 = 1.7;
/// See [`NEAR_SLA`].
const NEAR_SLA_POWER: f64 = 3.0;
/// Lower limit of the controlled price, at 99 %. Below it, giving up would be cheaper than serving.
const CONTROL_PRICE_MIN: f64 = 1.5;
/// Upper limits of the controlled price, up to an SLA of 99.9 %; for stricter ones they grow with the base. The higher one holds
/// while the SLA may be reached. A load that is late for two requests in a hundred for days is one that nobody can
/// follow, and beyond the lower one replicas no longer buy what it loses.
const CONTROL_PRICES_MAX: (f64, f64) = (200.0, 630.0);
/// What that SLA allows.
const CONTROL_PRICE_MAX_SHARE: f64 = 0.001;
/// Late share at which the upper limit begins to fall from the higher to the lower one, by the power of it; it is there at 2.1 %.
const FOLLOWED_SHARE: f64 = 0.01;
/// See [`FOLLOWED_SHARE`].
const FOLLOWED_POWER: f64 = -1.5;
/// Prices the actor was trained on; the product of all factors stays inside.
pub const PRICE_MIN: f64 = 1.5;
/// See [`PRICE_MIN`].
pub const PRICE_MAX: f64 = 1500.0;
/// Length of a bucket of the burn rates.
const BUCKET_SECS: f64 = 300.0;
/// Buckets kept: 6 hours.
pub const MAX_BUCKETS: usize = 72;
/// Buckets of the two burn rates: 1 hour and 6 hours.
const WINDOWS_BUCKETS: [i64; 2] = [12, MAX_BUCKETS as i64];
/// Memory of the mean price of a replica-hour.
const PRICE_MEMORY_SECS: f64 = 7.0 * 86_400.0;

/// The error budget as status and metrics show it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct BudgetReport {
    /// Share of offered requests that must not be late.
    pub sla: f64,
    /// Share of the rolling budget that is left: 1 untouched, 0 used up, negative overspent.
    pub remaining_ratio: f64,
    /// Late share of the last hour over what the SLA allows; 1 uses the budget up exactly.
    pub burn_1h: f64,
    /// The same over 6 hours.
    pub burn_6h: f64,
    /// Price of lateness the actor is given.
    pub lateness_price: f64,
}

/// What one tick adds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spent {
    /// Seconds since the last tick.
    pub step_secs: f64,
    /// Requests offered in them (any unit of work, where requests are not counted).
    pub offered: f64,
    /// Share of them that came late; `None`: unknown, nothing is booked.
    pub late_share: Option<f64>,
    /// Price of a replica-hour now, where known and positive.
    pub price: Option<f64>,
}

/// Rolling sums, O(1) per tick.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Budget {
    memory: BudgetMemory,
    /// Late and offered requests of the buckets before the last one, over 1 h and over 6 h.
    before: [(f64, f64); 2],
}

impl Budget {
    /// As it was.
    #[must_use]
    pub fn restore(memory: &BudgetMemory) -> Self {
        let mut restored = Self { memory: memory.clone(), before: [(0.0, 0.0); 2] };
        restored.sum_up();
        restored
    }

    /// What must survive.
    #[must_use]
    pub fn memory(&self) -> BudgetMemory {
        self.memory.clone()
    }

    /// Books one tick.
    pub fn book(&mut self, settings: &Settings, now_secs: f64, spent: Spent) {
        let Spent { step_secs, offered, late_share, price } = spent;
        self.book_price(settings, step_secs, price);
        let Some(share) = late_share.filter(|share| share.is_finite()) else { return };
        let late = offered * share.clamp(0.0, 1.0);
        let keep = (-step_secs / settings.scaled(HALF_LIFE_SECS)).exp2();
        let memory = &mut self.memory;
        memory.late = memory.late * keep + late;
        memory.offered = memory.offered * keep + offered;
        memory.secs = memory.secs * keep + step_secs;
        let index = (now_secs / settings.scaled(BUCKET_SECS)).floor() as i64;
        match memory.buckets.last_mut() {
            Some(bucket) if index <= bucket.index => {
                bucket.late += late;
                bucket.offered += offered;
            }
            _ => {
                memory.buckets.retain(|bucket| index < bucket.index + MAX_BUCKETS as i64);
                memory.buckets.push(BudgetBucket { index, late, offered });
                self.sum_up();
            }
        }
    }

    /// Sums up what no longer changes, so that a report costs nothing.
    fn sum_up(&mut self) {
        let Some((last, earlier)) = self.memory.buckets.split_last() else { return };
        for (sum, buckets) in self.before.iter_mut().zip(WINDOWS_BUCKETS) {
            let within = earlier.iter().filter(|bucket| last.index < bucket.index + buckets);
            *sum = within
                .fold((0.0, 0.0), |(late, offered), bucket| (late + bucket.late, offered + bucket.offered));
        }
    }

    fn book_price(&mut self, settings: &Settings, step_secs: f64, price: Option<f64>) {
        let Some(price) = price else { return };
        let memory = &mut self.memory;
        let step = step_secs.max(f64::MIN_POSITIVE);
        memory.price_secs = (memory.price_secs + step).min(settings.scaled(PRICE_MEMORY_SECS));
        memory.price_mean += (price - memory.price_mean) * (step / memory.price_secs).min(1.0);
    }

    /// Rolling late share B, with the prior.
    #[must_use]
    pub fn late_share(&self, settings: &Settings) -> f64 {
        let memory = &self.memory;
        let set_point = SET_POINT * settings.allowed_late();
        if memory.secs <= 0.0 || memory.offered <= 0.0 {
            return set_point;
        }
        let prior = memory.offered / memory.secs * settings.scaled(PRIOR_SECS);
        (memory.late + prior * set_point) / (memory.offered + prior)
    }

    /// Price of lateness: limited(base(SLA) * controller(surprise, late share)) * weights * (mean price / price now). `price`: of a replica-hour now.
    #[must_use]
    pub fn lateness_price(&self, settings: &Settings, surprise: f64, price: Option<f64>) -> f64 {
        let allowed = settings.allowed_late();
        let base = (allowed / SLA_REFERENCE).powf(SLA_POWER);
        let follows = settings.tuning.follows_budget;
        let late = if follows { self.late_share(settings) } else { SET_POINT * allowed };
        let used = late / (SET_POINT * allowed);
        let expected = BASE_PRICE * (surprise / USUAL_SURPRISE).powf(SURPRISE_POWER);
        let expected = expected.clamp(CONTROL_PRICE_MIN, EXPECTED_PRICE_MAX);
        let near = (used / NEAR_SLA).max(1.0).powf(NEAR_SLA_POWER);
        let (lower, higher) = CONTROL_PRICES_MAX;
        let highest = (higher * (late / FOLLOWED_SHARE).powf(FOLLOWED_POWER)).clamp(lower, higher);
        let stricter = (allowed / CONTROL_PRICE_MAX_SHARE).powf(SLA_POWER).max(1.0);
        let controlled = (base * expected * used.powf(CONTROL_POWER) * near)
            .clamp(base * CONTROL_PRICE_MIN, stricter * highest);
        let weights = settings.objective.weights;
        let wish = (weights.latency + weights.sla) / (2.0 * weights.saving);
        let cheapness = match price {
            Some(price) if 0.0 < self.memory.price_mean => self.memory.price_mean / price,
            _ => 1.0,
        };
        (controlled * wish * cheapness).clamp(PRICE_MIN, PRICE_MAX)
    }

    /// For status and metrics.
    #[must_use]
    pub fn report(&self, settings: &Settings, surprise: f64, price: Option<f64>) -> BudgetReport {
        BudgetReport {
            sla: settings.objective.sla,
            remaining_ratio: self.remaining(settings),
            burn_1h: self.burn(settings, 0),
            burn_6h: self.burn(settings, 1),
            lateness_price: self.lateness_price(settings, surprise, price),
        }
    }

    /// Of the late requests a whole period at this traffic allows, the share not yet used.
    fn remaining(&self, settings: &Settings) -> f64 {
        let memory = &self.memory;
        if memory.secs <= 0.0 || memory.offered <= 0.0 {
            return 1.0;
        }
        let period_secs = settings.scaled(HALF_LIFE_SECS) / std::f64::consts::LN_2;
        let period = memory.offered / memory.secs * period_secs.max(memory.secs);
        1.0 - memory.late / (settings.allowed_late() * period)
    }

    fn burn(&self, settings: &Settings, window: usize) -> f64 {
        let Some(last) = self.memory.buckets.last() else { return 0.0 };
        let (late, offered) = self.before[window];
        let offered = offered + last.offered;
        if offered <= 0.0 { 0.0 } else { (late + last.late) / offered / settings.allowed_late() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::settings::{Bounds, Objective, Weights};

    fn settings(sla: f64) -> Settings {
        let objective =
            Objective { target_secs: 0.25, sla, latency_percentile: 0.95, weights: Weights::default() };
        Settings::new(Bounds::new(1, 100).expect("1 <= 100"), objective)
    }

    /// The price after a month at this late share, at a surprise that makes the base price 10.
    fn price(sla: f64, late_share: f64) -> f64 {
        let settings = settings(sla);
        let mut budget = Budget::default();
        for hour in 0..720 {
            let spent =
                Spent { step_secs: 3_600.0, offered: 100.0, late_share: Some(late_share), price: None };
            budget.book(&settings, f64::from(hour) * 3_600.0, spent);
        }
        let surprise = USUAL_SURPRISE * 0.5_f64.powf(1.0 / SURPRISE_POWER);
        budget.lateness_price(&settings, surprise, None)
    }

    // The prior of four hours makes a month's price up to 4 % less.
    #[test]
    fn the_price_follows_the_square_of_what_is_late_and_a_higher_power_near_the_sla() {
        let close =
            |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 0.06, "{found} {expected}");
        close(price(0.99, 0.005), 10.0);
        close(price(0.99, 0.008), 10.0 * 1.6_f64.powi(2));
        close(price(0.99, 0.01), 10.0 * 4.0 * (2.0_f64 / 1.7).powi(3));
        assert_eq!((price(0.999, 0.009), price(0.99, 0.03), price(0.999, 0.1)), (630.0, 200.0, 200.0));
    }

    proptest! {
        #[test]
        fn a_stricter_sla_never_lowers_the_price_nor_do_more_late_requests_that_can_be_followed(
            late_share in 0.0..0.2_f64, more in 0.0..1.0_f64, exponent in -12.0..-0.01_f64, share in 0.1..1.0_f64,
        ) {
            let allowed = 10_f64.powf(exponent);
            let here = price(1.0 - allowed, late_share);
            let followed = late_share * FOLLOWED_SHARE;
            let later = followed + more * (FOLLOWED_SHARE - followed);
            prop_assert!(price(1.0 - allowed, followed) <= price(1.0 - allowed, later) * (1.0 + 1e-9));
            prop_assert!(here <= price(1.0 - share * allowed, late_share) * (1.0 + 1e-9));
        }
    }
}
