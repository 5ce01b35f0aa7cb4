//! How time passes for a brain: ticks that were missed, clocks that were set.
//!
//! In: the time of an observation, and what was lived through since the last one. Out: a [`Tick`]. What is remembered moves
//! with a clock that was set, so that no window is longer or shorter for it; an outage is only as long as was lived
//! through.

use super::{Brain, Tick, load_age_secs};
use crate::guardrail::Rails;
use crate::observation::Observation;

/// A tick books at most this many intervals: what happened while nobody looked is not known.
const STEP_INTERVALS: f64 = 4.0;
/// Where nobody can tell how much of the time was lived through, as after a restart, an outage grows by this many at most.
const UNKNOWN_INTERVALS: f64 = 1.0;
/// Two clocks that are read one after the other differ by less than this, seconds; a clock that is slewed differs by less
/// over the longest interval.
const SET_SECS: f64 = 0.25;

impl Brain {
    /// Sets the time.
    pub(super) fn begin(&mut self, seen: &Observation) -> Tick {
        let last = self.last_tick_secs;
        let now_secs = if seen.time_secs.is_finite() { seen.time_secs } else { last.unwrap_or(0.0) };
        let by_clock_secs = last.map_or(f64::INFINITY, |last| now_secs - last);
        let lived_secs =
            seen.lived_secs.filter(|lived| last.is_some() && (0.0..f64::INFINITY).contains(lived));
        // Without a better one the clock is believed, unless it went backwards.
        let gap_secs = lived_secs.unwrap_or(by_clock_secs.max(0.0));
        let set_secs = if last.is_some() { by_clock_secs - gap_secs } else { 0.0 };
        if SET_SECS < set_secs.abs() || by_clock_secs < 0.0 {
            self.shift(set_secs);
        }
        let known_intervals = if lived_secs.is_some() { STEP_INTERVALS } else { UNKNOWN_INTERVALS };
        self.leave_out((gap_secs - known_intervals * self.settings.interval_secs).max(0.0));
        if last.is_none() {
            self.started_secs = now_secs;
            self.last_replicas = seen.replicas;
        }
        if self.last_replicas < seen.replicas {
            self.rails.raised_secs = Some(now_secs);
        }
        self.last_replicas = seen.replicas;
        self.last_tick_secs = Some(now_secs);
        let startup_secs = self.startup_secs(seen.startup_secs);
        let interval = self.settings.interval_secs;
        let step_secs = if gap_secs.is_finite() { gap_secs.min(STEP_INTERVALS * interval) } else { interval };
        if let Some(age_secs) = load_age_secs(&self.settings, seen) {
            self.lag.note(&self.settings, age_secs, step_secs);
        }
        self.set_horizon(startup_secs);
        if let Some(past) = self.past.take() {
            self.go_through(&past);
        }
        let slot = self.slot_of(now_secs);
        if let Some(newest) = self.forecaster.history().last_slot().filter(|&newest| slot <= newest) {
            self.slot_shift += newest + 1 - slot;
        }
        let clock_stepped = by_clock_secs < 0.0;
        Tick { now_secs, step_secs, gap_secs, slot: self.slot_of(now_secs), clock_stepped, startup_secs }
    }

    /// What happened while nobody looked is not known: an outage or an idle time is not longer for it, and a clock that
    /// jumps ahead makes neither.
    fn leave_out(&mut self, unseen_secs: f64) {
        self.rails.leave_out(unseen_secs);
        if let Some(shadow) = &mut self.shadow {
            shadow.leave_out(unseen_secs);
        }
        if let Some(since) = &mut self.senses.sudden_zero_since_secs {
            *since += unseen_secs;
        }
    }

    /// The clock was set by so much: everything remembered is taken along.
    fn shift(&mut self, delta_secs: f64) {
        self.rails.shift(delta_secs);
        if let Some(shadow) = &mut self.shadow {
            shadow.shift(delta_secs);
        }
        self.hpa.shift(delta_secs);
        self.estimator.shift(delta_secs);
        self.started_secs += delta_secs;
        if let Some(since) = &mut self.senses.sudden_zero_since_secs {
            *since += delta_secs;
        }
    }
}

impl Rails {
    /// See [`Brain::leave_out`].
    pub(crate) fn leave_out(&mut self, unseen_secs: f64) {
        for since in [&mut self.failing_since_secs, &mut self.idle_since_secs].into_iter().flatten() {
            *since += unseen_secs;
        }
    }

    /// Moves times after the clock was set.
    pub(crate) fn shift(&mut self, delta_secs: f64) {
        self.track.shift(delta_secs);
        self.regression.shift(delta_secs);
        let since = [&mut self.failing_since_secs, &mut self.idle_since_secs, &mut self.raised_secs];
        for time_secs in since.into_iter().flatten() {
            *time_secs += delta_secs;
        }
    }
}
