//! A predictive HPA: the HPA's rule, raised to what Holt-Winters smoothing of the CPU use foresees for the time when a
//! pod ordered now is ready. Additive, as in Hyndman and Athanasopoulos, Forecasting: Principles and Practice (3rd
//! ed.), 8.3; the season of a day joins when the history is long enough to have seen one.

use rlscaler_core::History;
use rlscaler_core::hpa::{Hpa, Tolerances, utilization_replicas};
use rlscaler_core::settings::Bounds;

use super::hpa::view;
use crate::metrics::Seen;
use crate::run::Scaler;
use crate::scenario::Scenario;

/// Length of a slot of the smoothed series, seconds.
const SLOT_SECS: f64 = 60.0;

/// Slots of a season, a day.
const SEASON: usize = 1_440;

/// Weights of the newest value in level, trend and season.
const LEVEL: f64 = 0.4;
const TREND: f64 = 0.05;
const SEASONAL: f64 = 0.3;

/// An HPA that looks ahead.
pub struct PredictiveHpa {
    hpa: Hpa,
    pods: Vec<(rlscaler_core::hpa::PodClass, u64)>,
    smoothing: Smoothing,
    ahead_secs: f64,
    slot: Slot,
    pod_cpu_request: f64,
}

#[derive(Debug, Default)]
struct Slot {
    end_secs: Option<f64>,
    sum: f64,
    count: f64,
}

#[derive(Debug)]
struct Smoothing {
    level: Option<f64>,
    trend: f64,
    season: Vec<f64>,
    seen: usize,
}

impl PredictiveHpa {
    /// Looks as far ahead as a pod of this scenario takes to start and metrics take to show.
    #[must_use]
    pub fn new(scenario: &Scenario, bounds: Bounds, target_percent: u32) -> Self {
        Self {
            hpa: Hpa::new(bounds, target_percent),
            pods: Vec::new(),
            smoothing: Smoothing { level: None, trend: 0.0, season: vec![0.0; SEASON], seen: 0 },
            ahead_secs: scenario.profile.startup.p90_secs
                + scenario.interval_secs
                + scenario.metrics.lag_secs,
            slot: Slot::default(),
            pod_cpu_request: scenario.profile.pod_cpu_request,
        }
    }

    fn forecast_replicas(&self) -> Option<u32> {
        let cores = self.smoothing.forecast((self.ahead_secs / SLOT_SECS).ceil() as usize)?;
        let per_pod = self.pod_cpu_request * f64::from(self.hpa.target_percent) / 100.0;
        Some((cores.max(0.0) / per_pod).ceil() as u32)
    }
}

impl Scaler for PredictiveHpa {
    fn backfill(&mut self, history: &History) {
        for (_, cores) in &history.cpu {
            self.smoothing.add(*cores);
        }
    }

    fn decide(&mut self, seen: &Seen) -> u32 {
        let (now_secs, current) = (seen.observation.time_secs, seen.observation.replicas);
        if let Some(cores) = seen.observation.signals.cpu.usable() {
            let end_secs = *self.slot.end_secs.get_or_insert(now_secs + SLOT_SECS);
            self.slot.sum += cores;
            self.slot.count += 1.0;
            if end_secs <= now_secs + 1e-9 {
                self.smoothing.add(self.slot.sum / self.slot.count);
                self.slot = Slot { end_secs: Some(end_secs + SLOT_SECS), sum: 0.0, count: 0.0 };
            }
        }
        view(seen, &mut self.pods);
        let rule = utilization_replicas(&self.pods, self.hpa.target_percent, current, Tolerances::default());
        let wanted = rule.map(|rule| rule.max(self.forecast_replicas().unwrap_or(0)));
        self.hpa.sync(now_secs, current, wanted)
    }

    fn record_scale(&mut self, time_secs: f64, from: u32, to: u32) {
        self.hpa.record_scale(time_secs, from, to);
    }
}

impl Smoothing {
    /// True once a whole season has been seen.
    fn seasonal(&self) -> bool {
        SEASON <= self.seen
    }

    fn add(&mut self, value: f64) {
        let place = self.seen % SEASON;
        let season = if self.seasonal() { self.season[place] } else { 0.0 };
        let before = self.level.unwrap_or(value);
        let level = LEVEL * (value - season) + (1.0 - LEVEL) * (before + self.trend);
        self.trend = TREND * (level - before) + (1.0 - TREND) * self.trend;
        self.season[place] =
            if self.seasonal() { SEASONAL * (value - level) + (1.0 - SEASONAL) * season } else { value };
        self.level = Some(level);
        self.seen += 1;
        if self.seen == SEASON {
            // The first season is kept as deviations from its mean, and the level starts there.
            let mean = self.season.iter().sum::<f64>() / SEASON as f64;
            self.season.iter_mut().for_each(|value| *value -= mean);
            self.level = Some(mean);
            self.trend = 0.0;
        }
    }

    fn forecast(&self, slots: usize) -> Option<f64> {
        let level = self.level? + self.trend * slots as f64;
        let season = if self.seasonal() { self.season[(self.seen + slots - 1) % SEASON] } else { 0.0 };
        Some(level + season)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn smoothing(values: impl Iterator<Item = f64>) -> Smoothing {
        let mut smoothing = Smoothing { level: None, trend: 0.0, season: vec![0.0; SEASON], seen: 0 };
        values.for_each(|value| smoothing.add(value));
        smoothing
    }

    #[test]
    fn a_daily_hump_is_foreseen_after_two_days() {
        let hump = |slot: usize| if slot % SEASON < SEASON / 2 { 10.0 } else { 20.0 };
        let smoothing = smoothing((0..2 * SEASON + SEASON / 2 - 2).map(hump));
        let ahead = smoothing.forecast(3).unwrap();
        assert!((ahead - 20.0).abs() < 1.0, "{ahead}");
    }

    #[test]
    fn a_straight_rise_is_followed() {
        let smoothing = smoothing((0..600).map(|slot| slot as f64));
        assert!((smoothing.forecast(5).unwrap() - 604.0).abs() < 2.0);
    }
}
