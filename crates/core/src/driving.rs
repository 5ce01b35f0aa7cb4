//! Who drives: the model, or the planner where the model must not.
//!
//! In: at every tick, whether there is reason to doubt the model's answer, and how the planner's forecasts did. Out:
//! who drives. Doubt hands over at once; the way back is a stretch without any, which grows with every repetition, so
//! that the two do not take turns. What a hand-over does to the replicas passes the guardrails like everything else.

use std::fmt;

use crate::forecast::Judged;
use crate::memory::DrivingMemory;
use crate::policy::PolicyFault;
use crate::settings::Settings;

/// Seconds without a doubt, real time, before the model drives again after its first strike.
const CALM_SECS: f64 = 120.0;
/// Each further strike asks for this many times as long.
const CALM_GROWTH: f64 = 2.0;
/// Strikes beyond this ask for no longer a calm: 120 s doubled five times is about an hour.
pub const MAX_STRIKES: u32 = 6;
/// Seconds of driving without a doubt, real time, that make up for one strike.
const FORGIVEN_SECS: f64 = 6.0 * 3_600.0;

/// Forgetting per slot of the fast error: half-life of 10 minutes.
const FAST_KEEP: f64 = 0.982_820_6;
/// Forgetting per slot of the slow error, the service's own past: half-life of a day.
const SLOW_KEEP: f64 = 0.999_879_67;
/// Slots of experience before a drift can be told from a start: 6 hours.
const DRIFT_SLOTS_MIN: f64 = 1_440.0;
/// Forecasts have drifted when they fall short by this many times what they did in the service's own past. Measured:
/// no tick of 15 worlds of the standing suite gets there (`crates/rl/tests/driving.rs`); the nearest is 2.95, under the
/// rare bursts of crane_input6.
const DRIFT_ENTER: f64 = 3.25;
/// They are taken to be as before once they fall short by no more than this many times as much.
const DRIFT_LEAVE: f64 = 1.75;
/// A past with fewer misses than this counts as this, relative: a quiet service may become a usual one.
const DRIFT_FLOOR: f64 = 0.08;

/// Why the model must not drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Doubt {
    /// The features are far outside what training saw.
    OutOfDistribution,
    /// The forecasts fall short far more than they used to: the service no longer behaves as its own past.
    ForecastDrift,
    /// The answer is NaN, infinite or out of range.
    NotANumber,
    /// The model expects other features than this operator computes.
    SchemaMismatch,
    /// Anything else that went wrong inside.
    Failed,
}

impl Doubt {
    /// All of them.
    pub const ALL: [Doubt; 5] = [
        Doubt::OutOfDistribution,
        Doubt::ForecastDrift,
        Doubt::NotANumber,
        Doubt::SchemaMismatch,
        Doubt::Failed,
    ];

    /// As written in memory and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Doubt::OutOfDistribution => "OutOfDistribution",
            Doubt::ForecastDrift => "ForecastDrift",
            Doubt::NotANumber => "NotANumber",
            Doubt::SchemaMismatch => "SchemaMismatch",
            Doubt::Failed => "Failed",
        }
    }
}

impl From<PolicyFault> for Doubt {
    fn from(fault: PolicyFault) -> Self {
        match fault {
            PolicyFault::OutOfDistribution => Doubt::OutOfDistribution,
            PolicyFault::NotANumber => Doubt::NotANumber,
            PolicyFault::SchemaMismatch => Doubt::SchemaMismatch,
            PolicyFault::Failed => Doubt::Failed,
        }
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Doubt::OutOfDistribution => PolicyFault::OutOfDistribution.fmt(f),
            Doubt::ForecastDrift => f.write_str(
                "forecasts fall short far more than they used to: the load no longer behaves as its past",
            ),
            Doubt::NotANumber => PolicyFault::NotANumber.fmt(f),
            Doubt::SchemaMismatch => PolicyFault::SchemaMismatch.fmt(f),
            Doubt::Failed => PolicyFault::Failed.fmt(f),
        }
    }
}

/// Who drives at one tick.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    /// The model.
    Model,
    /// The planner: there is a doubt now.
    Doubted(Doubt),
    /// The planner: there was one, and all has not been calm for long enough.
    Calming {
        /// The last doubt.
        doubt: Doubt,
        /// How long all must have been calm, seconds.
        calm_secs: f64,
    },
}

/// Remembers doubts, and how the forecasts do.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Watch {
    memory: DrivingMemory,
}

impl Watch {
    /// As it was.
    #[must_use]
    pub fn restore(memory: &DrivingMemory) -> Self {
        Self { memory: *memory }
    }

    /// What must survive.
    #[must_use]
    pub fn memory(&self) -> DrivingMemory {
        self.memory
    }

    /// Forgets how the forecasts did: they were of another load.
    pub fn change_unit(&mut self) {
        self.memory.fast = [0.0; 2];
        self.memory.slow = [0.0; 2];
    }

    /// The doubt because of which the planner drives, and how long all must be calm before the model does, seconds.
    #[must_use]
    pub fn standing(&self, settings: &Settings) -> Option<(Doubt, f64)> {
        let doublings = self.memory.strikes.clamp(1, MAX_STRIKES) - 1;
        let calm_secs = settings.scaled(CALM_SECS * CALM_GROWTH.powi(doublings as i32));
        self.memory.doubt.map(|doubt| (doubt, calm_secs))
    }

    /// Takes in the forecasts that came due at one tick.
    pub fn learn(&mut self, judged: Judged) {
        let Judged { squares, count } = judged;
        if count == 0 {
            return;
        }
        let slots = f64::from(count);
        for ([sum, weight], keep) in [(&mut self.memory.fast, FAST_KEEP), (&mut self.memory.slow, SLOW_KEEP)]
        {
            let kept = keep.powf(slots);
            *sum = *sum * kept + squares;
            *weight = *weight * kept + slots;
        }
    }

    /// By how much forecasts fall short now over how much they did in the service's own past; `None` while too little
    /// of it is known.
    #[must_use]
    pub fn drift(&self) -> Option<f64> {
        let root = |[sum, weight]: [f64; 2]| (sum / weight).sqrt();
        let DrivingMemory { fast, slow, .. } = self.memory;
        (DRIFT_SLOTS_MIN <= slow[1]).then(|| root(fast) / root(slow).max(DRIFT_FLOOR))
    }

    /// True when the forecasts have drifted; once they have, until they are back well below where that began.
    #[must_use]
    pub fn drifted(&self) -> bool {
        let limit = if self.memory.doubt == Some(Doubt::ForecastDrift) { DRIFT_LEAVE } else { DRIFT_ENTER };
        self.drift().is_some_and(|drift| limit <= drift)
    }

    /// Who drives at this tick, `step_secs` after the last one at which the model was asked.
    pub fn judge(&mut self, settings: &Settings, step_secs: f64, doubt: Option<Doubt>) -> Verdict {
        if let Some(doubt) = doubt {
            let memory = &mut self.memory;
            if memory.doubt.is_none() {
                memory.strikes = (memory.strikes + 1).min(MAX_STRIKES);
                memory.takeovers = memory.takeovers.saturating_add(1);
            }
            memory.doubt = Some(doubt);
            memory.calm_secs = 0.0;
            memory.clean_secs = 0.0;
            return Verdict::Doubted(doubt);
        }
        if let Some((doubt, calm_secs)) = self.standing(settings) {
            self.memory.calm_secs += step_secs;
            if self.memory.calm_secs < calm_secs {
                return Verdict::Calming { doubt, calm_secs };
            }
            self.memory.doubt = None;
            return Verdict::Model;
        }
        let memory = &mut self.memory;
        memory.clean_secs += step_secs;
        if settings.scaled(FORGIVEN_SECS) <= memory.clean_secs {
            memory.strikes = memory.strikes.saturating_sub(1);
            memory.clean_secs = 0.0;
        }
        Verdict::Model
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Bounds, Objective, Weights};

    const STEP_SECS: f64 = 15.0;

    fn settings() -> Settings {
        let objective =
            Objective { target_secs: 0.25, sla: 0.99, latency_percentile: 0.95, weights: Weights::default() };
        Settings::new(Bounds::new(1, 100).expect("1 <= 100"), objective)
    }

    fn tick(watch: &mut Watch, doubt: Option<Doubt>) -> Verdict {
        watch.judge(&settings(), STEP_SECS, doubt)
    }

    /// Calm ticks until the model drives.
    fn ticks_until_the_model(watch: &mut Watch) -> u32 {
        (1..100_000).find(|_| tick(watch, None) == Verdict::Model).expect("the model drives again")
    }

    fn fed(watch: &mut Watch, slots: u32, short: f64) {
        for _ in 0..slots {
            watch.learn(Judged { squares: short * short, count: 1 });
        }
    }

    #[test]
    fn every_doubt_hands_over_at_once_and_is_told() {
        for doubt in Doubt::ALL {
            let mut watch = Watch::default();
            assert_eq!(tick(&mut watch, None), Verdict::Model);
            assert_eq!(tick(&mut watch, Some(doubt)), Verdict::Doubted(doubt));
            assert_eq!(tick(&mut watch, None), Verdict::Calming { doubt, calm_secs: CALM_SECS });
        }
    }

    #[test]
    fn the_way_back_is_calm_and_grows_with_repetition_to_about_an_hour() {
        let mut watch = Watch::default();
        let mut asked_secs = Vec::new();
        for _ in 0..8 {
            tick(&mut watch, Some(Doubt::Failed));
            asked_secs.push(f64::from(ticks_until_the_model(&mut watch)) * STEP_SECS);
        }
        assert_eq!(asked_secs, [120.0, 240.0, 480.0, 960.0, 1920.0, 3840.0, 3840.0, 3840.0]);
    }

    #[test]
    fn a_doubt_in_between_begins_the_calm_anew_but_is_no_further_strike() {
        let mut watch = Watch::default();
        for _ in 0..50 {
            tick(&mut watch, Some(Doubt::NotANumber));
            for _ in 0..7 {
                assert!(matches!(tick(&mut watch, None), Verdict::Calming { .. }));
            }
        }
        assert_eq!(watch.memory().strikes, 1);
        tick(&mut watch, Some(Doubt::NotANumber));
        assert_eq!(ticks_until_the_model(&mut watch), 8);
    }

    #[test]
    fn hours_without_a_doubt_make_up_for_one_strike_each() {
        let mut watch = Watch::default();
        for _ in 0..3 {
            tick(&mut watch, Some(Doubt::Failed));
            ticks_until_the_model(&mut watch);
        }
        let ticks = (FORGIVEN_SECS / STEP_SECS) as u32;
        for _ in 0..ticks - 1 {
            tick(&mut watch, None);
        }
        assert_eq!(watch.memory().strikes, 3);
        tick(&mut watch, None);
        assert_eq!(watch.memory().strikes, 2);
        for _ in 0..3 * ticks {
            tick(&mut watch, None);
        }
        assert_eq!(watch.memory().strikes, 0);
    }

    #[test]
    fn forecasts_that_fall_short_far_more_than_they_used_to_have_drifted() {
        let mut watch = Watch::default();
        fed(&mut watch, 5_760, 0.05);
        assert!(!watch.drifted(), "{:?}", watch.drift());
        fed(&mut watch, 60, 0.4);
        assert!(watch.drifted(), "{:?}", watch.drift());
    }

    #[test]
    fn a_service_that_was_always_hard_to_foresee_does_not_drift() {
        let mut watch = Watch::default();
        fed(&mut watch, 5_760, 0.3);
        fed(&mut watch, 60, 0.5);
        assert!(!watch.drifted(), "{:?}", watch.drift());
    }

    #[test]
    fn one_burst_is_no_drift_and_a_young_service_has_no_past_to_drift_from() {
        let mut watch = Watch::default();
        fed(&mut watch, 5_760, 0.01);
        fed(&mut watch, 6, 0.5);
        assert!(!watch.drifted(), "{:?}", watch.drift());
        let mut young = Watch::default();
        fed(&mut young, 1_000, 0.01);
        fed(&mut young, 100, 0.5);
        assert_eq!(young.drift(), None);
    }

    #[test]
    fn a_drift_ends_well_below_where_it_began() {
        let mut watch = Watch::default();
        fed(&mut watch, 5_760, 0.05);
        fed(&mut watch, 60, 0.4);
        tick(&mut watch, Some(Doubt::ForecastDrift));
        while watch.drifted() {
            fed(&mut watch, 1, 0.0);
        }
        let drift = watch.drift().expect("known");
        assert!(drift < DRIFT_LEAVE, "{drift}");
        // The same error does not count as a drift where the planner does not already drive for it.
        let mut other = Watch::restore(&DrivingMemory { doubt: None, ..watch.memory() });
        fed(&mut other, 1, 0.4);
        assert!(!other.drifted(), "{:?}", other.drift());
    }

    #[test]
    fn a_new_regime_becomes_the_services_own_past() {
        let mut watch = Watch::default();
        fed(&mut watch, 5_760, 0.05);
        fed(&mut watch, 60, 0.4);
        tick(&mut watch, Some(Doubt::ForecastDrift));
        assert!(watch.drifted());
        fed(&mut watch, 2 * 5_760, 0.4);
        assert!(!watch.drifted(), "{:?}", watch.drift());
    }
}
