//! Knows the future load: for each tick the smallest count that meets the target, raised to what must already be
//! starting for the ticks ahead. Its replica-time is the floor the others are measured against.

use std::collections::VecDeque;

use rlscaler_core::Settings;

use crate::fluid::{Capacity, Fluid, Queue};
use crate::metrics::Seen;
use crate::run::Scaler;
use crate::scenario::Scenario;
use crate::seed::Seed;

/// Standard normal value at which start-up times are foreseen: one pod in a hundred is slower.
const STARTUP_Z: f64 = 2.326;

/// Replicas for every decision, known in advance.
pub struct Clairvoyant {
    interval_secs: f64,
    replicas: Vec<u32>,
}

impl Clairvoyant {
    /// Looks at the whole run. Faults of pods are not foreseen, those of the load are.
    #[must_use]
    pub fn new(scenario: &Scenario, settings: &Settings, _seed: Seed) -> Self {
        let mut service = scenario.profile.service.clone();
        service.service_secs /= scenario.true_capacity;
        let fluid = Fluid::new(&service, scenario.dispersion);
        let warm_secs = service.slow_start.map_or(0.0, |slow| slow.secs / 2.0);
        let ahead_secs = scenario.profile.startup.secs_at(STARTUP_Z) + warm_secs + scenario.tick_secs;
        let ticks = (scenario.interval_secs / scenario.tick_secs).round().max(1.0) as u64;
        let ahead = (ahead_secs / scenario.interval_secs).ceil() as usize;

        // What each interval needs by itself: the most any of its ticks needs.
        let allowed = settings.allowed_late();
        let mut cache = Needs::new(&fluid, allowed, scenario.profile.max_replicas);
        let need_of = |interval: u64, cache: &mut Needs| {
            let starts = (0..ticks).map(|tick| {
                let middle = (interval * ticks + tick) as f64 + 0.5;
                scenario.rate_at(middle * scenario.tick_secs)
            });
            cache.smallest(starts.fold(0.0, f64::max))
        };
        let decisions = scenario.decisions();
        let needs: Vec<u32> =
            (0..decisions + ahead as u64).map(|interval| need_of(interval, &mut cache)).collect();
        let replicas = maxima_ahead(&needs, ahead + 1, decisions as usize);
        Self { interval_secs: scenario.interval_secs, replicas }
    }
}

impl Scaler for Clairvoyant {
    fn decide(&mut self, seen: &Seen) -> u32 {
        let index = (seen.observation.time_secs / self.interval_secs).round().max(0.0) as usize;
        self.replicas.get(index).copied().unwrap_or(seen.observation.replicas)
    }
}

/// The maximum over each `length` values from a place on.
fn maxima_ahead(values: &[u32], length: usize, count: usize) -> Vec<u32> {
    let mut window: VecDeque<usize> = VecDeque::new();
    let mut maxima = vec![0; count];
    for (index, value) in values.iter().enumerate() {
        while window.back().is_some_and(|last| values[*last] <= *value) {
            window.pop_back();
        }
        window.push_back(index);
        if let Some(place) = (index + 1).checked_sub(length)
            && place < count
        {
            while window.front().is_some_and(|first| *first < place) {
                window.pop_front();
            }
            maxima[place] = window.front().map_or(0, |first| values[*first]);
        }
    }
    maxima
}

/// Smallest replica counts, searched from the last answer on, as loads change little.
struct Needs<'a> {
    fluid: &'a Fluid,
    allowed: f64,
    most: u32,
    last: u32,
}

impl<'a> Needs<'a> {
    fn new(fluid: &'a Fluid, allowed: f64, most: u32) -> Self {
        Self { fluid, allowed, most, last: 1 }
    }

    fn smallest(&mut self, rate: f64) -> u32 {
        if rate <= 0.0 {
            return 0;
        }
        let mut replicas = self.last.max(1);
        while replicas < self.most && !self.enough(rate, replicas) {
            replicas += 1;
        }
        while 1 < replicas && self.enough(rate, replicas - 1) {
            replicas -= 1;
        }
        self.last = replicas;
        replicas
    }

    /// Whether the steady state of this rate meets the target.
    fn enough(&self, rate: f64, replicas: u32) -> bool {
        const LONG_SECS: f64 = 1e6;
        let capacity = Capacity { pods: f64::from(replicas), speed: 1.0 };
        if self.fluid.capacity(capacity) <= rate {
            return false;
        }
        let mut queue = Queue::default();
        let late = self.fluid.late_without_wait(1.0);
        let flow = self.fluid.step(&mut queue, rate, capacity, late, LONG_SECS);
        flow.late <= self.allowed * flow.offered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_maximum_ahead_covers_the_window_and_no_more() {
        assert_eq!(maxima_ahead(&[1, 5, 2, 2, 3, 1, 1], 3, 5), vec![5, 5, 3, 3, 3]);
    }
}
