//! What a run came to: how many requests were late, what it cost, how often it changed, and how bad its worst hour
//! was. Latency percentiles and a point per decision where the scenario keeps them.

use crate::fluid::{Fluid, Waits};
use crate::histogram::Histogram;

const HOUR_SECS: f64 = 3_600.0;

/// Latency bounds per factor of ten.
const BOUNDS_PER_DECADE: i32 = 12;

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// Length of the run, seconds.
    pub duration_secs: f64,
    /// Requests that arrived.
    pub offered: f64,
    /// Requests answered.
    pub served: f64,
    /// Requests not answered within the target: slow, dropped or given up.
    pub late: f64,
    /// Requests never answered.
    pub dropped: f64,
    /// Requests waiting or being worked on at the end.
    pub left: f64,
    /// Requests that were there at the beginning.
    pub brought: f64,
    /// Pod-seconds paid: ready, starting and crashed pods.
    pub replica_secs: f64,
    /// Pod-seconds times price per second.
    pub cost: f64,
    /// Decisions taken.
    pub decisions: u64,
    /// Changes of the number of replicas.
    pub changes: u64,
    /// Fewest replicas wanted.
    pub min_replicas: u32,
    /// Most replicas wanted.
    pub max_replicas: u32,
    /// Late share of the worst hour.
    pub worst_hour_late: f64,
    /// Late share of the worst day.
    pub worst_day_late: f64,
    /// The distribution of latencies, where kept.
    pub latency: Option<Latency>,
    /// One point per decision, where kept.
    pub points: Vec<Point>,
}

/// One decision and the interval after it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Seconds of the run.
    pub time_secs: f64,
    /// Requests per second, mean of the interval.
    pub rate: f64,
    /// Replicas wanted.
    pub wanted: u32,
    /// Replicas ready at the end of the interval.
    pub ready: u32,
    /// Late share of the interval.
    pub late_share: f64,
    /// Latency at the signal's percentile, request-weighted mean of the interval's ticks, seconds; 0 without requests.
    pub latency_secs: f64,
    /// Pods paid for, mean.
    pub paid: f64,
}

/// Latencies of a run as a distribution: shares of requests above fixed bounds.
#[derive(Debug, Clone, PartialEq)]
pub struct Latency {
    /// Rising, seconds.
    bounds: Vec<f64>,
    /// Requests above each bound.
    above: Vec<f64>,
    total: f64,
}

impl Outcome {
    /// Share of offered requests that were late, 0..1; 0 when there were none.
    #[must_use]
    pub fn late_share(&self) -> f64 {
        if 0.0 < self.offered { self.late / self.offered } else { 0.0 }
    }

    /// Pod-hours paid.
    #[must_use]
    pub fn replica_hours(&self) -> f64 {
        self.replica_secs / HOUR_SECS
    }

    /// Changes per hour.
    #[must_use]
    pub fn changes_per_hour(&self) -> f64 {
        self.changes as f64 * HOUR_SECS / self.duration_secs.max(1.0)
    }

    /// Latency that a share `quantile` of requests did not exceed, seconds; `None` where not kept.
    #[must_use]
    pub fn latency_quantile(&self, quantile: f64) -> Option<f64> {
        self.latency.as_ref().and_then(|latency| latency.quantile(quantile))
    }
}

impl Latency {
    /// From a thousandth of the target to ten times the time-out.
    #[must_use]
    pub(crate) fn new(target_secs: f64, timeout_secs: f64) -> Self {
        let decades = (10.0 * (timeout_secs + target_secs) / target_secs).log10().ceil() as i32;
        let steps = -2 * BOUNDS_PER_DECADE..=decades * BOUNDS_PER_DECADE;
        let bound = |step: i32| target_secs * 10_f64.powf(f64::from(step) / f64::from(BOUNDS_PER_DECADE));
        let bounds: Vec<f64> = steps.map(bound).collect();
        let above = vec![0.0; bounds.len()];
        Self { bounds, above, total: 0.0 }
    }

    /// Adds a tick of the fast level; those without an answer are above every bound.
    pub(crate) fn add_waits(
        &mut self,
        fluid: &Fluid,
        waits: &Waits,
        speed: f64,
        answered: f64,
        unanswered: f64,
    ) {
        self.total += answered + unanswered;
        for (bound, above) in self.bounds.iter().zip(&mut self.above) {
            *above += fluid.latency_exceeds(waits, speed, *bound) * answered + unanswered;
        }
    }

    /// Adds a tick of the exact level; those without an answer are above every bound.
    pub(crate) fn add_histogram(&mut self, latencies: &Histogram, unanswered: f64) {
        let total = latencies.total() as f64;
        self.total += total + unanswered;
        for (bound, above) in self.bounds.iter().zip(&mut self.above) {
            let within = latencies.bounds().partition_point(|edge| *edge <= *bound * (1.0 + 1e-9));
            let below: u64 = latencies.counts()[..within].iter().sum();
            *above += total - below as f64 + unanswered;
        }
    }

    /// Bounds for the exact level's histograms.
    pub(crate) fn bounds(&self) -> &[f64] {
        &self.bounds
    }

    /// Interpolated on a logarithmic scale between two bounds; the last bound beyond it; `None` without requests.
    fn quantile(&self, quantile: f64) -> Option<f64> {
        if self.total <= 0.0 {
            return None;
        }
        let wanted = (1.0 - quantile) * self.total;
        let first = self.above.iter().position(|above| *above <= wanted);
        let Some(first) = first else { return self.bounds.last().copied() };
        if first == 0 {
            return Some(self.bounds[0]);
        }
        let (over, under) = (self.above[first - 1], self.above[first]);
        let share = (over - wanted) / (over - under).max(f64::MIN_POSITIVE);
        Some(self.bounds[first - 1] * (self.bounds[first] / self.bounds[first - 1]).powf(share))
    }
}

/// Late share of the worst of consecutive stretches of one length.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Worst {
    length_secs: f64,
    end_secs: f64,
    offered: f64,
    late: f64,
    worst: f64,
}

impl Worst {
    pub(crate) fn new(length_secs: f64) -> Self {
        Self { length_secs, end_secs: length_secs, offered: 0.0, late: 0.0, worst: 0.0 }
    }

    pub(crate) fn add(&mut self, time_secs: f64, offered: f64, late: f64) {
        if self.end_secs <= time_secs {
            self.close();
            self.end_secs += self.length_secs;
        }
        self.offered += offered;
        self.late += late;
    }

    fn close(&mut self) {
        if 0.0 < self.offered {
            self.worst = self.worst.max(self.late / self.offered);
        }
        (self.offered, self.late) = (0.0, 0.0);
    }

    pub(crate) fn finish(mut self) -> f64 {
        self.close();
        self.worst
    }
}
