//! Demand looked ahead by the time a new pod needs: the recent level, an upward trend only where it is significant,
//! yesterday's and last week's rise from here while it has shown skill, and the running error of its own forecasts.
//!
//! In: load samples. Out: a [`Forecast`] in the load's unit. Judges itself: a forecast made H ago is compared with the
//! largest load since.

use crate::history::{DAY_SLOTS, LoadHistory, MAX_SLOTS, REMEMBERED_SLOTS, Ring};
use crate::memory::ForecastMemory;
use crate::surprise::Surprises;

/// Longest horizon, in slots: 16 minutes of real time.
pub const MAX_HORIZON_SLOTS: usize = 64;
/// Windows of the trend, in slots, and how many standard errors the slope must be from 0 in each. Rates are averages
/// over windows that overlap, which makes neighbours alike and slopes look surer than they are: hence far more than 2.
/// Measured on generated and bundled loads (18 cells, web, jvm, llm): 4 or 6 errors differ by 1 % of the cost at matched
/// lateness; no trend at all is 2 % cheaper there, and misses the SLA in more cells with the same margin.
const TRENDS: [(usize, f64); 2] = [(6, 6.0), (20, 6.0)];
/// A trend is not believed beyond this multiple of the level.
const TREND_RATIO_MAX: f64 = 1.5;
/// Rises of the past are believed within these limits.
const RISE_MAX: f64 = 4.0;
/// Slots without a sample at whose end forecasts are still judged: what the slots and the longest horizon hold, 80 minutes.
const JUDGED_GAP_SLOTS: usize = MAX_SLOTS + MAX_HORIZON_SLOTS;
/// Forgetting per slot of errors and skills: half-life of an hour.
const KEEP_PER_SLOT: f64 = 0.997_116;
/// Slots of experience before a seasonal rise is used: an hour's weight, decayed.
const SKILL_SLOTS_MIN: f64 = 150.0;
/// The seasonal error must be below this share of persistence's.
const SKILL_MARGIN: f64 = 0.9;
/// The running error is this many times the root mean square by which forecasts fell short: the standard deviation of an
/// error that is as often above as below. Measured (18 generated and bundled loads, profile web, k = 1): the planner
/// meets 99 % in 8 of the 11 cells where an HPA tuned in hindsight does, at 0.95 of that HPA's replica-time; with 1 in
/// 6 at 0.93, with 2 in 9 at 0.98.
const SHORTFALLS: f64 = std::f64::consts::SQRT_2;
/// Root mean square shortfall assumed before any forecast is due, and its weight in slots: 5 minutes.
const PRIOR_ERROR: f64 = 0.1;
const PRIOR_SLOTS: f64 = 20.0;
/// A single miss counts at most this much, relative: a flash crowd must not inflate the margin for hours.
const ERROR_MAX: f64 = 0.5;
/// Quantiles of the rise that are tracked, and the step of their stochastic approximation in log units.
pub const RISE_QUANTILES: [f64; 4] = [0.5, 0.9, 0.98, 0.995];
const QUANTILE_STEP: f64 = 0.02;
const QUANTILE_PRIOR: [f64; 4] = [0.0, 0.1, 0.2, 0.3];
/// Lags of the seasonal rise, in slots: a day and a week.
pub const SEASONS: [i64; 2] = [DAY_SLOTS, 7 * DAY_SLOTS];

/// Demand at the horizon, in the load's unit.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Forecast {
    /// Present level.
    pub level: f64,
    /// By trend; the level where no trend is significant.
    pub trend: f64,
    /// By season; the level where none has shown skill.
    pub seasonal: f64,
    /// Running relative error by which its own forecasts fell short; with the prior.
    pub error: f64,
    /// The same without the prior: 0 until forecasts have come due.
    pub proven_error: f64,
}

impl Forecast {
    /// The largest of level, trend and season.
    #[must_use]
    pub fn expected(&self) -> f64 {
        self.level.max(self.trend).max(self.seasonal)
    }

    /// True when demand is expected to grow by more than `ratio` (above 1).
    #[must_use]
    pub fn grows(&self, ratio: f64) -> bool {
        ratio * self.level < self.expected()
    }
}

/// Running squared error and its weight.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Running {
    squares: f64,
    weight: f64,
}

impl Running {
    fn add(&mut self, error: f64) {
        self.squares = self.squares * KEEP_PER_SLOT + error * error;
        self.weight = self.weight * KEEP_PER_SLOT + 1.0;
    }

    fn root(&self) -> f64 {
        if self.weight <= 0.0 { 0.0 } else { (self.squares / self.weight).sqrt() }
    }
}

/// Forecasts that came due at one tick.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Judged {
    /// Sum of the squared relative shortfalls.
    pub squares: f64,
    /// How many there were.
    pub count: u32,
}

/// History and the judgement of past forecasts. O(horizon) per slot, no allocation after the start.
#[derive(Debug, Clone, PartialEq)]
pub struct Forecaster {
    history: LoadHistory,
    horizon_slots: usize,
    /// Forecasts, levels and seasonal rises as they stood when each of the last slots closed.
    forecasts: Ring,
    levels: Ring,
    rises: [Ring; 2],
    error: Running,
    persistence: [Running; 2],
    seasonal: [Running; 2],
    rise_quantiles: [f64; 4],
    surprises: Surprises,
    judged: Judged,
}

impl Default for Forecaster {
    fn default() -> Self {
        let ring = || Ring::new(MAX_HORIZON_SLOTS + 1);
        Self {
            history: LoadHistory::default(),
            horizon_slots: 1,
            forecasts: ring(),
            levels: ring(),
            rises: [ring(), ring()],
            error: Running::default(),
            persistence: [Running::default(); 2],
            seasonal: [Running::default(); 2],
            rise_quantiles: QUANTILE_PRIOR,
            surprises: Surprises::default(),
            judged: Judged::default(),
        }
    }
}

impl Forecaster {
    /// Looks this many slots ahead from now on.
    pub fn set_horizon(&mut self, slots: usize) {
        self.horizon_slots = slots.clamp(1, MAX_HORIZON_SLOTS);
    }

    /// Slots looked ahead.
    #[must_use]
    pub fn horizon_slots(&self) -> usize {
        self.horizon_slots
    }

    /// The past.
    #[must_use]
    pub fn history(&self) -> &LoadHistory {
        &self.history
    }

    /// The forecasts that came due at the last `observe` or `pass`.
    #[must_use]
    pub fn judged(&self) -> Judged {
        self.judged
    }

    /// Adds a sample taken in slot `slot`; forecasts that came due meanwhile are judged.
    pub fn observe(&mut self, slot: i64, load: f64) {
        self.pass(slot);
        self.history.add(slot, load);
    }

    /// Time passed without a sample: the last level is taken to hold. Beyond [`JUDGED_GAP_SLOTS`] that is no proof of
    /// anything, and only the history is filled.
    pub fn pass(&mut self, slot: i64) {
        self.judged = Judged::default();
        let slots = self.history.slots_before(slot);
        for _ in JUDGED_GAP_SLOTS..slots {
            self.history.close_slot();
        }
        for _ in 0..slots.min(JUDGED_GAP_SLOTS) {
            self.close_slot();
        }
    }

    /// Demand at the horizon.
    #[must_use]
    pub fn forecast(&self) -> Forecast {
        let level = self.history.level().max(self.history.level_now());
        let weight = self.error.weight + PRIOR_SLOTS;
        let squares = self.error.squares + PRIOR_SLOTS * PRIOR_ERROR * PRIOR_ERROR;
        Forecast {
            level,
            trend: self.trend(level),
            seasonal: self.best_season().map_or(level, |rise| level * rise.max(1.0)),
            error: SHORTFALLS * (squares / weight).sqrt(),
            proven_error: SHORTFALLS * self.error.root(),
        }
    }

    /// Rise of the load (peak over the horizon / level) at `lag` slots before now, and in the stretch after it.
    #[must_use]
    pub fn rise_at(&self, lag: i64, after_slots: usize) -> Option<[f64; 3]> {
        let now = self.history.last_slot()? as f64 + 1.0;
        let (from, horizon) = (now - lag as f64, self.horizon_slots as f64);
        let level = self.history.at(from)?;
        let peak = self.history.peak(from, from + horizon)?;
        let after = self.history.peak(from + horizon, from + horizon + after_slots as f64)?;
        Some([peak, after, level])
    }

    /// Running skill of each seasonal rise: share of persistence's error it avoids, 0 when unknown.
    #[must_use]
    pub fn skills(&self) -> [f64; 2] {
        std::array::from_fn(|season| {
            let (ours, theirs) = (self.seasonal[season].root(), self.persistence[season].root());
            if theirs <= 0.0 { 0.0 } else { (1.0 - ours / theirs).clamp(-1.0, 1.0) }
        })
    }

    /// Online quantiles of ln(peak over the horizon / level), at [`RISE_QUANTILES`].
    #[must_use]
    pub fn rise_quantiles(&self) -> [f64; 4] {
        self.rise_quantiles
    }

    /// Share of the requests that came while the load was more than a fifth above the most of the two minutes that end a
    /// horizon ago: what a plain rule could not have followed, whatever its pods carry. Of the last days; a prior at first.
    #[must_use]
    pub fn surprise(&self) -> f64 {
        self.surprises.share()
    }

    /// What must survive where Prometheus remembers nothing.
    #[must_use]
    pub fn memory(&self) -> ForecastMemory {
        let (open_sum, open_count) = self.history.open();
        // Beyond the horizon, as that may grow.
        let remembered = REMEMBERED_SLOTS.max(self.horizon_slots);
        ForecastMemory {
            last_slot: self.history.last_slot().unwrap_or(0),
            open_sum,
            open_count,
            slots: self.history.slots().last(remembered).to_vec(),
            open_forecasts: self.forecasts.last(remembered).to_vec(),
            error: [self.error.squares, self.error.weight],
            surprises: self.surprises.memory(),
        }
    }

    /// Goes on where `memory` stopped. What was backfilled before it stays; the last minutes and the errors are ours.
    pub fn resume(&mut self, memory: &ForecastMemory) {
        let ForecastMemory { last_slot, open_sum, open_count, slots, open_forecasts, error, surprises } =
            memory;
        let first = last_slot + 1 - slots.len().min(MAX_SLOTS) as i64;
        for (place, &load) in slots.iter().rev().take(MAX_SLOTS).rev().enumerate() {
            self.observe(first + place as i64, f64::from(load));
        }
        self.pass(last_slot + 1);
        self.history.reopen(*last_slot, (*open_sum, *open_count));
        self.forecasts = Ring::new(MAX_HORIZON_SLOTS + 1);
        for &forecast in open_forecasts {
            self.forecasts.push(forecast);
        }
        self.error = Running { squares: error[0], weight: error[1] };
        self.surprises.resume(*surprises);
    }

    fn close_slot(&mut self) {
        self.history.close_slot();
        self.judge();
        self.surprises.note(self.history.slots(), self.horizon_slots);
        let forecast = self.forecast();
        self.forecasts.push(forecast.expected() as f32);
        self.levels.push(forecast.level as f32);
        for (season, lag) in SEASONS.into_iter().enumerate() {
            self.rises[season].push(self.rise(lag).unwrap_or(f64::NAN) as f32);
        }
    }

    /// Compares what was forecast one horizon ago with what came.
    fn judge(&mut self) {
        let horizon = self.horizon_slots;
        let due = horizon - 1;
        let came = largest(self.history.slots().last(horizon));
        if let Some(forecast) = self.forecasts.back(due).map(f64::from).filter(|&forecast| 0.0 < forecast) {
            let short = ((came - forecast) / forecast).clamp(0.0, ERROR_MAX);
            self.error.add(short);
            self.judged.squares += short * short;
            self.judged.count += 1;
        }
        let Some(level) = self.levels.back(due).map(f64::from).filter(|&level| 0.0 < level) else { return };
        let rise = (came.max(1e-9 * level) / level).ln().clamp(-4.0, 4.0);
        for season in 0..SEASONS.len() {
            let Some(usual) = self.rises[season].back(due).map(f64::from).filter(|usual| usual.is_finite())
            else {
                continue;
            };
            self.persistence[season].add(rise);
            self.seasonal[season].add(rise - usual.ln());
        }
        for (quantile, share) in self.rise_quantiles.iter_mut().zip(RISE_QUANTILES) {
            *quantile += QUANTILE_STEP * if *quantile < rise { share } else { share - 1.0 };
        }
    }

    fn rise(&self, lag: i64) -> Option<f64> {
        let [peak, _, level] = self.rise_at(lag, 0)?;
        (0.0 < level).then(|| (peak / level).clamp(1.0 / RISE_MAX, RISE_MAX))
    }

    /// The rise of the season with the smallest error, if it beats persistence.
    fn best_season(&self) -> Option<f64> {
        let mut best: Option<(f64, f64)> = None;
        for (season, lag) in SEASONS.into_iter().enumerate() {
            let (ours, theirs) = (&self.seasonal[season], &self.persistence[season]);
            if ours.weight < SKILL_SLOTS_MIN || SKILL_MARGIN * theirs.root() <= ours.root() {
                continue;
            }
            let error = ours.root();
            if best.is_none_or(|(least, _)| error < least)
                && let Some(rise) = self.rise(lag)
            {
                best = Some((error, rise));
            }
        }
        best.map(|(_, rise)| rise)
    }

    fn trend(&self, level: f64) -> f64 {
        let now = self.history.level_now();
        let Some(last) = self.history.slots().back(0) else { return level };
        if now < f64::from(last) {
            // The rise has fallen back: it is over until it goes on.
            return level;
        }
        let mut best = level;
        for (window, surety) in TRENDS {
            let slots = self.history.slots().last(window - 1);
            if slots.len() + 1 < window {
                continue;
            }
            if let Some(ahead) = significant_rise(slots, now, surety, self.horizon_slots as f64) {
                best = best.max(ahead);
            }
        }
        best.min(TREND_RATIO_MAX * level)
    }
}

/// The regression line through `slots` and `now`, `ahead` slots later, where its slope is positive and at least
/// `surety` standard errors from 0.
fn significant_rise(slots: &[f32], now: f64, surety: f64, ahead: f64) -> Option<f64> {
    let count = slots.len() as f64 + 1.0;
    let middle = (count - 1.0) / 2.0;
    let (mut sum, mut moment, mut squares) = (now, middle * now, now * now);
    for (place, &load) in slots.iter().enumerate() {
        let load = f64::from(load);
        sum += load;
        moment += (place as f64 - middle) * load;
        squares += load * load;
    }
    let spread = count * (count * count - 1.0) / 12.0;
    let slope = moment / spread;
    if slope <= 0.0 {
        return None;
    }
    let residual = (squares - sum * sum / count - slope * moment).max(0.0) / (count - 2.0);
    let error = (residual / spread).sqrt();
    let end = sum / count + slope * middle;
    let still = slots.get(slots.len().wrapping_sub(2)).map_or(now, |&load| now - f64::from(load));
    if still < slope {
        // A step that has been taken is not a ramp: the last two slots must show at least half the slope.
        return None;
    }
    (surety * error <= slope).then_some(end + slope * ahead)
}

fn largest(loads: &[f32]) -> f64 {
    let mut most = 0.0_f32;
    for &load in loads {
        most = if most < load { load } else { most };
    }
    f64::from(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(slots: i64, horizon: usize, load: impl Fn(i64) -> f64) -> Forecaster {
        let mut forecaster = Forecaster::default();
        forecaster.set_horizon(horizon);
        for slot in 0..slots {
            forecaster.observe(slot, load(slot));
        }
        forecaster
    }

    #[test]
    fn a_constant_load_is_expected_to_stay_and_its_error_fades() {
        let forecast = after(480, 6, |_| 100.0).forecast();
        assert_eq!(forecast.expected(), 100.0);
        assert!(forecast.error < 0.06, "{forecast:?}");
        assert_eq!(forecast.proven_error, 0.0);
    }

    #[test]
    fn a_fresh_forecaster_knows_that_it_may_err() {
        let forecast = after(1, 6, |_| 100.0).forecast();
        assert_eq!((forecast.level, forecast.error), (100.0, SHORTFALLS * PRIOR_ERROR));
    }

    #[test]
    fn a_steady_ramp_is_looked_ahead() {
        let forecast = after(40, 6, |slot| 100.0 + 5.0 * slot as f64).forecast();
        let there = 100.0 + 5.0 * 45.0;
        assert!((forecast.expected() - there).abs() < 0.1, "{forecast:?}");
    }

    #[test]
    fn noise_is_not_a_trend() {
        let noise = |slot: i64| 100.0 + 10.0 * ((slot * 7_919 % 31) as f64 / 15.0 - 1.0);
        let rising = (100..400).filter(|&slots| after(slots, 6, noise).forecast().grows(1.1)).count();
        assert!(rising < 20, "{rising} of 300 ticks saw a trend in noise");
    }

    #[test]
    fn a_rise_that_falls_back_is_not_extrapolated() {
        let load = |slot: i64| match slot {
            0..=39 => 100.0,
            40..=43 => 100.0 + 40.0 * (slot - 39) as f64,
            _ => 260.0 - 50.0 * (slot - 43) as f64,
        };
        assert!(after(44, 6, load).forecast().expected() >= 260.0);
        let falling = after(46, 6, load).forecast();
        assert_eq!(falling.expected(), falling.level);
    }

    #[test]
    fn yesterdays_rise_is_expected_once_it_has_shown_skill() {
        let daily = |slot: i64| 200.0 + 100.0 * (slot as f64 / 480.0 * std::f64::consts::TAU).sin();
        let forecaster = after(2 * DAY_SLOTS, 8, daily);
        assert!(forecaster.skills()[0] > 0.5, "{:?}", forecaster.skills());
        let forecast = forecaster.forecast();
        assert!(forecast.seasonal > 1.03 * forecast.level, "{forecast:?}");
        assert_eq!(forecaster.skills()[1], 0.0);
    }

    #[test]
    fn a_week_nobody_saw_is_no_proof_of_good_forecasts_and_costs_little() {
        let bumpy = |slot: i64| if slot % 40 < 20 { 100.0 } else { 160.0 };
        let gap = |slots: i64| {
            let mut forecaster = after(480, 6, bumpy);
            forecaster.pass(480 + slots);
            forecaster
        };
        let (hours, week) = (gap(JUDGED_GAP_SLOTS as i64), gap(7 * DAY_SLOTS));
        assert!(0.0 < week.forecast().proven_error);
        assert_eq!(week.forecast(), hours.forecast());
        assert_eq!(week.judged().count, JUDGED_GAP_SLOTS as u32);
        // The history itself goes on at the level that was last seen.
        assert_eq!(week.history().last_slot(), Some(479 + 7 * DAY_SLOTS));
        assert_eq!(week.history().bins().back(300), Some(160.0));
    }

    #[test]
    fn a_resumed_forecaster_goes_on_exactly() {
        let load = |slot: i64| 100.0 + 30.0 * (slot as f64 / 40.0).sin() + (slot * 31 % 7) as f64;
        let mut whole = after(300, 8, load);
        let mut resumed = Forecaster::default();
        resumed.set_horizon(8);
        resumed.resume(&whole.memory());
        for slot in 300..500 {
            assert_eq!(resumed.forecast(), whole.forecast(), "slot {slot}");
            whole.observe(slot, load(slot));
            resumed.observe(slot, load(slot));
        }
    }
}
