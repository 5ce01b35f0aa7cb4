//! HPA v2's `behavior`: stabilization over recent recommendations, and limits of the rate of change counted from scale
//! events, as the controller of Kubernetes 1.36 does it. Used by our guardrails and by the HPA of the simulator.
//!
//! Source of the semantics: kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale and, where it is silent,
//! what `pkg/controller/podautoscaler/horizontal.go` of v1.36.3 is seen to do.

use crate::memory::{Recommendation, ScaleEvent, ScalingMemory};
use crate::settings::{Behavior, Bounds, Direction, Select, Step, StepKind};

/// Recommendations kept by the operator: fits in status, and equal neighbours share an entry.
pub const MAX_RECOMMENDATIONS: usize = 64;
/// Scale events kept per direction by the operator.
pub const MAX_EVENTS: usize = 32;
/// The lower end of what was left alone: no raise is held down by it.
const HELD: u32 = u32::MAX;

/// Recommendations and scale events of one scaler.
#[derive(Debug, Clone, PartialEq)]
pub struct Track {
    memory: ScalingMemory,
    max_recommendations: usize,
    max_events: usize,
}

impl Default for Track {
    fn default() -> Self {
        Self::restore(&ScalingMemory::default())
    }
}

/// How far back recommendations are looked at, seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Windows {
    /// Before going up.
    pub up_secs: f64,
    /// Before going down.
    pub down_secs: f64,
}

impl From<&Behavior> for Windows {
    fn from(behavior: &Behavior) -> Self {
        Self { up_secs: behavior.up.window_secs, down_secs: behavior.down.window_secs }
    }
}

/// What stabilization made of a recommendation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stabilized {
    /// Unchanged.
    Free(u32),
    /// A recent lower recommendation holds it down.
    Up(u32),
    /// A recent higher recommendation holds it up.
    Down(u32),
}

impl Stabilized {
    /// The number.
    #[must_use]
    pub fn replicas(self) -> u32 {
        match self {
            Stabilized::Free(replicas) | Stabilized::Up(replicas) | Stabilized::Down(replicas) => replicas,
        }
    }
}

/// What rate limits and bounds made of a number; the names are HPA's reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateLimited {
    /// Unchanged.
    WithinRange(u32),
    /// `scaleUp` allows no more now.
    ScaleUpLimit(u32),
    /// `scaleDown` allows no fewer now.
    ScaleDownLimit(u32),
    /// `maxReplicas`.
    TooMany(u32),
    /// `minReplicas`.
    TooFew(u32),
}

impl RateLimited {
    /// The number.
    #[must_use]
    pub fn replicas(self) -> u32 {
        match self {
            RateLimited::WithinRange(replicas)
            | RateLimited::ScaleUpLimit(replicas)
            | RateLimited::ScaleDownLimit(replicas)
            | RateLimited::TooMany(replicas)
            | RateLimited::TooFew(replicas) => replicas,
        }
    }
}

impl Track {
    /// With the operator's limits.
    #[must_use]
    pub fn restore(memory: &ScalingMemory) -> Self {
        Self { memory: memory.clone(), max_recommendations: MAX_RECOMMENDATIONS, max_events: MAX_EVENTS }
    }

    /// Never merges entries and forgets scale events when the original does: for the simulator's HPA.
    #[must_use]
    pub fn exact() -> Self {
        Self { memory: ScalingMemory::default(), max_recommendations: usize::MAX, max_events: usize::MAX }
    }

    /// What must survive.
    #[must_use]
    pub fn memory(&self) -> ScalingMemory {
        self.memory.clone()
    }

    /// True before the first recommendation.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.memory.recommendations.is_empty()
    }

    /// Changes per hour lately: an exponential mean over an hour of so many seconds.
    #[must_use]
    pub fn changes_per_hour(&self, now_secs: f64, hour_secs: f64) -> f64 {
        let (changes, since_secs) = self.memory.pace;
        changes * (-(now_secs - since_secs).max(0.0) / hour_secs).exp()
    }

    /// Counts a change towards [`Self::changes_per_hour`].
    pub fn count_change(&mut self, now_secs: f64, hour_secs: f64) {
        self.memory.pace = (self.changes_per_hour(now_secs, hour_secs) + 1.0, now_secs);
    }

    /// Moves everything in time, after the clock was stepped.
    pub fn shift(&mut self, delta_secs: f64) {
        let ScalingMemory { recommendations, ups, downs, pace } = &mut self.memory;
        pace.1 += delta_secs;
        recommendations.iter_mut().for_each(|entry| entry.time_secs += delta_secs);
        ups.iter_mut().chain(downs).for_each(|event| event.time_secs += delta_secs);
    }

    /// The recommendation held within what the windows have seen, and then remembered as it was.
    pub fn stabilize(&mut self, windows: Windows, now_secs: f64, current: u32, desired: u32) -> Stabilized {
        let stabilized = self.stabilized(windows, now_secs, current, desired);
        self.recommend(windows, now_secs, desired);
        stabilized
    }

    fn stabilized(&self, windows: Windows, now_secs: f64, current: u32, desired: u32) -> Stabilized {
        let (mut lowest, mut highest) = (desired, desired);
        let (up_cutoff, down_cutoff) = (now_secs - windows.up_secs, now_secs - windows.down_secs);
        for entry in &self.memory.recommendations {
            if up_cutoff < entry.time_secs {
                lowest = lowest.min(entry.low);
            }
            if down_cutoff < entry.time_secs {
                highest = highest.max(entry.high);
            }
        }
        let replicas = current.max(lowest).min(highest);
        if replicas == desired {
            Stabilized::Free(replicas)
        } else if current <= desired {
            Stabilized::Up(replicas)
        } else {
            Stabilized::Down(replicas)
        }
    }

    /// The highest recommendation not older than `cutoff_secs`.
    #[must_use]
    pub fn highest_since(&self, cutoff_secs: f64) -> Option<u32> {
        let entries = self.memory.recommendations.iter();
        entries.filter(|entry| cutoff_secs <= entry.time_secs).map(|entry| entry.high).max()
    }

    /// Remembers a recommendation without using it.
    pub fn recommend(&mut self, windows: Windows, now_secs: f64, desired: u32) {
        self.remember(windows, Recommendation { time_secs: now_secs, low: desired, high: desired });
    }

    /// Nothing could be recommended and what runs was left alone: it holds a later scale-down as if it had been
    /// wanted, and no later scale-up.
    pub fn hold(&mut self, windows: Windows, now_secs: f64, replicas: u32) {
        self.remember(windows, Recommendation { time_secs: now_secs, low: HELD, high: replicas });
    }

    /// What was only left alone is no longer held: a declared fallback says what is wanted.
    pub fn release(&mut self) {
        self.memory.recommendations.retain(|entry| entry.low != HELD);
    }

    fn remember(&mut self, windows: Windows, new: Recommendation) {
        let oldest = new.time_secs - windows.up_secs.max(windows.down_secs);
        let entries = &mut self.memory.recommendations;
        entries.retain(|entry| oldest <= entry.time_secs);
        match entries.last_mut() {
            Some(last) if (last.low, last.high) == (new.low, new.high) => last.time_secs = new.time_secs,
            _ => entries.push(new),
        }
        if self.max_recommendations < entries.len() {
            merge_closest(entries);
        }
    }

    /// The number within what rate limits and bounds allow.
    #[must_use]
    pub fn limit(
        &self,
        behavior: &Behavior,
        bounds: Bounds,
        now_secs: f64,
        current: u32,
        desired: u32,
    ) -> RateLimited {
        if current < desired {
            let limit = self.up_limit(&behavior.up, now_secs, current);
            if limit < bounds.max() && limit < desired {
                return RateLimited::ScaleUpLimit(limit);
            }
            if bounds.max() < desired {
                return RateLimited::TooMany(bounds.max());
            }
        } else if desired < current {
            let limit = self.down_limit(&behavior.down, now_secs, current);
            if bounds.min() < limit && desired < limit {
                return RateLimited::ScaleDownLimit(limit);
            }
            if desired < bounds.min() {
                return RateLimited::TooFew(bounds.min());
            }
        }
        RateLimited::WithinRange(desired)
    }

    /// The most replicas `behavior.scaleUp` allows now, at least `current`.
    #[must_use]
    pub fn up_limit(&self, rules: &Direction, now_secs: f64, current: u32) -> u32 {
        let limits = rules.steps.iter().map(|step| {
            let start = self.at_period_start(step, now_secs, current);
            match step.kind {
                StepKind::Pods => start + i64::from(step.value),
                // Rounded up, or a single pod could never grow by less than 100 %.
                StepKind::Percent => (start as f64 * (1.0 + f64::from(step.value) / 100.0)).ceil() as i64,
            }
        });
        let limit = match rules.select {
            Select::Disabled => None,
            Select::Max => limits.max(),
            Select::Min => limits.min(),
        };
        limit.map_or(current, |limit| to_replicas(limit).max(current))
    }

    /// The fewest replicas `behavior.scaleDown` allows now, at most `current`.
    #[must_use]
    pub fn down_limit(&self, rules: &Direction, now_secs: f64, current: u32) -> u32 {
        let limits = rules.steps.iter().map(|step| {
            let start = self.at_period_start(step, now_secs, current);
            match step.kind {
                StepKind::Pods => start - i64::from(step.value),
                StepKind::Percent => (start as f64 * (1.0 - f64::from(step.value) / 100.0)) as i64,
            }
        });
        let limit = match rules.select {
            Select::Disabled => None,
            Select::Max => limits.min(),
            Select::Min => limits.max(),
        };
        limit.map_or(current, |limit| to_replicas(limit).min(current))
    }

    /// Remembers a scaling that really happened.
    pub fn record(&mut self, behavior: &Behavior, now_secs: f64, from: u32, to: u32) {
        let up = from < to;
        let event = ScaleEvent { time_secs: now_secs, change: from.abs_diff(to) };
        if event.change == 0 {
            return;
        }
        let longest = longest_period(&behavior.up).max(longest_period(&behavior.down));
        let (events, own) =
            if up { (&mut self.memory.ups, &behavior.up) } else { (&mut self.memory.downs, &behavior.down) };
        if self.max_events == usize::MAX {
            replace_outdated(events, event, now_secs - longest_period(own));
            return;
        }
        events.retain(|event| now_secs - longest <= event.time_secs);
        events.push(event);
        if self.max_events < events.len() {
            // The younger time stays: the change counts longer, never shorter.
            let oldest = events.remove(0);
            events[0].change += oldest.change;
        }
    }

    /// Time of the last scale-up that really happened and is still remembered.
    #[must_use]
    pub fn last_up_secs(&self) -> Option<f64> {
        self.memory.ups.last().map(|event| event.time_secs)
    }

    fn at_period_start(&self, step: &Step, now_secs: f64, current: u32) -> i64 {
        let cutoff = now_secs - step.period_secs;
        let within = |events: &[ScaleEvent]| -> i64 {
            events.iter().filter(|event| cutoff < event.time_secs).map(|event| i64::from(event.change)).sum()
        };
        i64::from(current) - within(&self.memory.ups) + within(&self.memory.downs)
    }
}

fn to_replicas(limit: i64) -> u32 {
    u32::try_from(limit.max(0)).unwrap_or(u32::MAX)
}

fn longest_period(rules: &Direction) -> f64 {
    rules.steps.iter().map(|step| step.period_secs).fold(0.0, f64::max)
}

/// The original's way: the last event that no policy of its own direction looks at any more makes room for the new one,
/// although policies of the other direction may still look at it; without such an event, the list grows.
fn replace_outdated(events: &mut Vec<ScaleEvent>, event: ScaleEvent, cutoff_secs: f64) {
    match events.iter().rposition(|old| old.time_secs < cutoff_secs) {
        Some(index) => events[index] = event,
        None => events.push(event),
    }
}

/// Merges the two neighbours closest in time; what they stood for holds until the later one expires, so a window is
/// never shortened.
fn merge_closest(entries: &mut Vec<Recommendation>) {
    let gap = |pair: &[Recommendation]| pair[1].time_secs - pair[0].time_secs;
    let closest = entries.windows(2).enumerate().min_by(|a, b| gap(a.1).total_cmp(&gap(b.1)));
    let Some(index) = closest.map(|(index, _)| index) else { return };
    let earlier = entries.remove(index);
    let later = &mut entries[index];
    later.low = later.low.min(earlier.low);
    later.high = later.high.max(earlier.high);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn direction(window_secs: f64, select: Select, steps: &[(StepKind, u32, f64)]) -> Direction {
        let step = |&(kind, value, period_secs)| Step { kind, value, period_secs };
        Direction { window_secs, select, steps: steps.iter().map(step).collect(), tolerance: None }
    }

    #[test]
    fn a_window_holds_what_was_recommended_within_it_and_not_longer() {
        let check = |up, down, recommended: &[(f64, u32)], (now, current, desired), expected| {
            let windows = Windows { up_secs: up, down_secs: down };
            let mut track = Track::default();
            for &(time, replicas) in recommended {
                track.recommend(windows, time, replicas);
            }
            let found = track.stabilize(windows, now, current, desired);
            assert_eq!(found, expected, "{up} {down} {recommended:?} {now} {current} {desired}");
        };
        check(0.0, 300.0, &[(0.0, 10)], (299.0, 10, 5), Stabilized::Down(10));
        check(0.0, 300.0, &[(0.0, 10)], (300.0, 10, 5), Stabilized::Free(5));
        check(0.0, 300.0, &[(0.0, 8)], (10.0, 10, 5), Stabilized::Down(8));
        check(60.0, 300.0, &[(0.0, 3)], (59.0, 3, 9), Stabilized::Up(3));
        check(60.0, 300.0, &[(0.0, 3)], (60.0, 3, 9), Stabilized::Free(9));
        check(60.0, 0.0, &[(0.0, 5), (10.0, 7)], (20.0, 3, 9), Stabilized::Up(5));
        check(0.0, 0.0, &[(0.0, 5)], (0.0, 3, 9), Stabilized::Free(9));
        check(0.0, 300.0, &[(0.0, 20)], (10.0, 3, 9), Stabilized::Free(9));
    }

    #[test]
    fn rates_are_counted_from_scale_events_within_their_period() {
        let pods = |value, period| (StepKind::Pods, value, period);
        let percent = |value, period| (StepKind::Percent, value, period);
        let check = |select, steps: &[_], events: &[(f64, u32, u32)], (now, current), (most, fewest)| {
            let rules = direction(0.0, select, steps);
            let behavior = Behavior { up: rules.clone(), down: rules.clone() };
            let mut track = Track::default();
            for &(time, from, to) in events {
                track.record(&behavior, time, from, to);
            }
            assert_eq!(track.up_limit(&rules, now, current), most, "up {steps:?} {events:?}");
            assert_eq!(track.down_limit(&rules, now, current), fewest, "down {steps:?} {events:?}");
        };
        let both = [pods(4, 15.0), percent(100, 15.0)];
        check(Select::Max, &both, &[], (0.0, 3), (7, 0));
        check(Select::Max, &both, &[], (0.0, 10), (20, 0));
        check(Select::Min, &both, &[], (0.0, 3), (6, 0));
        check(Select::Min, &both, &[], (0.0, 10), (14, 6));
        check(Select::Disabled, &both, &[], (0.0, 10), (10, 10));
        check(Select::Max, &[percent(10, 60.0)], &[], (0.0, 3), (4, 2));
        check(Select::Max, &[pods(2, 60.0)], &[(0.0, 5, 7)], (59.0, 7), (7, 3));
        check(Select::Max, &[pods(2, 60.0)], &[(0.0, 5, 7)], (60.0, 7), (9, 5));
        check(Select::Max, &[pods(2, 60.0)], &[(0.0, 7, 5)], (59.0, 5), (9, 5));
        check(Select::Max, &[pods(2, 60.0)], &[(0.0, 5, 8)], (59.0, 8), (8, 3));
    }

    #[test]
    fn only_the_exact_track_forgets_what_the_other_direction_still_counts() {
        let up = direction(0.0, Select::Max, &[(StepKind::Pods, 4, 15.0)]);
        let down = direction(0.0, Select::Max, &[(StepKind::Pods, 1, 60.0)]);
        let behavior = Behavior { up, down };
        let check = |mut track: Track, last, expected| {
            track.record(&behavior, 0.0, 2, 5);
            track.record(&behavior, last, 5, 9);
            assert_eq!(track.down_limit(&behavior.down, 30.0, 9), expected, "{last}");
        };
        check(Track::default(), 20.0, 1);
        check(Track::exact(), 20.0, 4);
        check(Track::exact(), 15.0, 1);
    }

    #[test]
    fn bounds_and_rates_are_told_apart() {
        let behavior = Behavior {
            up: direction(0.0, Select::Max, &[(StepKind::Pods, 4, 15.0)]),
            down: direction(0.0, Select::Max, &[(StepKind::Pods, 2, 15.0)]),
        };
        let bounds = Bounds::new(2, 12).expect("2 <= 12");
        let check = |current, desired, expected| {
            let found = Track::default().limit(&behavior, bounds, 0.0, current, desired);
            assert_eq!(found, expected, "{current} {desired}");
        };
        check(5, 8, RateLimited::WithinRange(8));
        check(5, 10, RateLimited::ScaleUpLimit(9));
        check(10, 20, RateLimited::TooMany(12));
        check(8, 4, RateLimited::ScaleDownLimit(6));
        check(3, 1, RateLimited::TooFew(2));
        check(5, 5, RateLimited::WithinRange(5));
    }

    proptest! {
        #[test]
        fn bounded_memory_never_holds_less_than_exact_memory(
            answers in prop::collection::vec((1.0..20.0_f64, 1_u32..50), 1..300),
            window in 0.0..1200.0_f64,
        ) {
            let windows = Windows { up_secs: window, down_secs: window };
            let (mut bounded, mut exact) = (Track::default(), Track::exact());
            let mut now = 0.0;
            for (step, desired) in answers {
                now += step;
                let held = bounded.stabilize(windows, now, 25, desired).replicas();
                let original = exact.stabilize(windows, now, 25, desired).replicas();
                prop_assert!(held.abs_diff(25) <= original.abs_diff(25));
                prop_assert!(bounded.memory().recommendations.len() <= MAX_RECOMMENDATIONS);
            }
        }
    }
}
