//! How far what is seen lies behind the world: as declared, or longer where readings are plainly older.
//!
//! In: the age of each reading of the load, where its source tells it. Out: seconds. The first age is believed, for the
//! past is judged by it; from then on it moves slowly, so that a single odd age changes nothing. Never below what is
//! declared: a rate is late by more than the age of its newest sample.

use crate::history::SLOT_SECS;
use crate::settings::Settings;

/// A reading is not taken to be older, seconds.
pub(crate) const AGE_MAX_SECS: f64 = 600.0;
/// A reading moves the typical age by so many real seconds at most, in a slot of time: what settles is about the median,
/// and a minute more is followed within four.
const STEP_SECS: f64 = 3.0;

/// The typical age of readings. O(1) per tick.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Lag {
    typical_secs: Option<f64>,
}

impl Lag {
    /// As it was.
    pub(crate) fn restore(typical_secs: Option<f64>) -> Self {
        Self { typical_secs: typical_secs.filter(|secs| (0.0..=AGE_MAX_SECS).contains(secs)) }
    }

    /// What must survive: the typical age, seconds.
    pub(crate) fn typical_secs(&self) -> Option<f64> {
        self.typical_secs
    }

    /// Learns from one reading's age, `step_secs` after the last.
    pub(crate) fn note(&mut self, settings: &Settings, age_secs: f64, step_secs: f64) {
        let slots = (step_secs / settings.scaled(SLOT_SECS)).clamp(0.0, 1.0);
        let most_secs = settings.scaled(STEP_SECS) * slots;
        let typical_secs = self.typical_secs.unwrap_or(age_secs.max(settings.metric_lag_secs));
        self.typical_secs = Some(typical_secs + (age_secs - typical_secs).clamp(-most_secs, most_secs));
    }

    /// Seconds: what is declared, and whole slots beyond, so that it does not follow every breath.
    pub(crate) fn secs(&self, settings: &Settings) -> f64 {
        let declared_secs = settings.metric_lag_secs;
        let slot_secs = settings.scaled(SLOT_SECS);
        let beyond_secs = self.typical_secs.map_or(0.0, |typical_secs| typical_secs - declared_secs);
        declared_secs + (beyond_secs / slot_secs).round().max(0.0) * slot_secs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Bounds, Objective, Weights};

    /// Declared: 15 s.
    fn settings() -> Settings {
        let objective =
            Objective { target_secs: 0.25, sla: 0.99, latency_percentile: 0.95, weights: Weights::default() };
        Settings::new(Bounds::new(1, 10).expect("1 <= 10"), objective)
    }

    fn after(lag: &mut Lag, ages_secs: impl IntoIterator<Item = f64>) -> f64 {
        let settings = settings();
        for age_secs in ages_secs {
            lag.note(&settings, age_secs, 15.0);
        }
        lag.secs(&settings)
    }

    #[test]
    fn the_declared_lag_holds_where_no_age_is_told() {
        assert_eq!(after(&mut Lag::default(), []), 15.0);
    }

    #[test]
    fn ages_about_as_declared_change_nothing() {
        let mut lag = Lag::default();
        for age_secs in [0.0, 3.0, 15.0, 22.0, 29.0, 7.0, 15.0, 22.0, 22.0] {
            assert_eq!(after(&mut lag, [age_secs]), 15.0);
        }
    }

    #[test]
    fn the_first_age_is_believed() {
        assert_eq!(after(&mut Lag::default(), [60.0]), 60.0);
    }

    #[test]
    fn a_single_odd_age_changes_nothing() {
        for (usual_secs, odd_secs) in [(15.0, AGE_MAX_SECS), (60.0, 0.0), (60.0, AGE_MAX_SECS)] {
            let mut lag = Lag::default();
            let before = after(&mut lag, [usual_secs; 20]);
            assert_eq!(after(&mut lag, [odd_secs]), before, "{odd_secs} after {usual_secs}");
            assert_eq!(after(&mut lag, [usual_secs; 20]), before);
        }
    }

    #[test]
    fn readings_that_grow_old_are_followed_within_minutes_and_back() {
        let mut lag = Lag::default();
        assert_eq!(after(&mut lag, [15.0; 20]), 15.0);
        assert_eq!(after(&mut lag, [60.0; 16]), 60.0);
        assert_eq!(after(&mut lag, [15.0; 16]), 15.0);
    }

    #[test]
    fn ages_that_rise_between_scrapes_count_by_their_middle() {
        let saw = (0..400).map(|tick| 15.0 * f64::from(tick % 5));
        assert_eq!(after(&mut Lag::default(), saw), 30.0);
    }

    #[test]
    fn what_was_learnt_survives_a_restart_and_nonsense_does_not() {
        let mut lag = Lag::default();
        after(&mut lag, [52.0, 60.0]);
        assert_eq!(Lag::restore(lag.typical_secs()), lag);
        let mut at_once = Lag::default();
        after(&mut at_once, [0.0; 8]);
        assert_eq!(Lag::restore(at_once.typical_secs()), at_once);
        for nonsense in [-1.0, f64::NAN, f64::INFINITY, AGE_MAX_SECS + 1.0] {
            assert_eq!(Lag::restore(Some(nonsense)), Lag::default());
        }
    }
}
