//! What a workload's users and its owner got, in trace time. In: what happened in each stretch of time. Out: totals
//! over the scored time, figures of the last minute, and a bounded series for charts. Pure.

use std::collections::VecDeque;
use std::sync::Arc;

use rlscaler_sim::exact::Tick;
use rlscaler_sim::histogram::Histogram;
use serde::{Deserialize, Serialize};

/// Between two points of the series, trace seconds: a third of the usual decision interval, so that every change shows.
const SERIES_STEP_SECS: f64 = 5.0;

/// "Now" is the last minute, trace seconds: long enough for a 95th percentile to mean something.
const RECENT_SECS: f64 = 60.0;

/// Points kept: a day of trace time. A longer run loses its beginning.
const MAX_POINTS: usize = 17_280;

/// Totals over the scored time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Requests that arrived.
    pub offered: u64,
    /// Share of them not answered within the target; those dropped or timed out are among them. 0 when none arrived.
    pub late_ratio: f64,
    /// Pods existing (starting ones too) integrated over trace time, hours.
    pub replica_hours: f64,
    /// Times `spec.replicas` changed.
    pub changes: u64,
    /// 95th percentile of the latency in trace seconds, a request without an answer being the slowest of all;
    /// `None` when nothing was answered.
    pub p95_secs: Option<f64>,
    /// Smallest `spec.replicas` seen.
    pub min_replicas: u32,
    /// Largest `spec.replicas` seen.
    pub max_replicas: u32,
    /// Scored time, trace seconds.
    pub secs: f64,
}

/// One point of the series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Trace seconds since scoring began, at the end of the step.
    pub secs: f64,
    /// Requests per trace second offered in the step.
    pub rate: f64,
    /// `spec.replicas` at its end.
    pub wanted: u32,
    /// Ready pods at its end.
    pub ready: u32,
    /// Requests offered in the step.
    pub offered: u64,
    /// Requests that became late in the step.
    pub late: u64,
    /// 95th percentile of the last minute, trace seconds.
    pub p95_secs: Option<f64>,
}

/// Replicas of one workload at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Replicas {
    /// `spec.replicas`; `None` while the Deployment is not there.
    pub(crate) wanted: Option<u32>,
    /// Pods that serve.
    pub(crate) ready: u32,
    /// Pods that exist.
    pub(crate) existing: u32,
}

/// Requests of some stretch of time.
#[derive(Debug, Clone)]
struct Requests {
    answered: Histogram,
    unanswered: u64,
    offered: u64,
    late: u64,
}

impl Requests {
    fn none(bounds: &Arc<[f64]>) -> Self {
        Self { answered: Histogram::new(Arc::clone(bounds)), unanswered: 0, offered: 0, late: 0 }
    }

    fn add_tick(&mut self, tick: &Tick) {
        self.answered.add(&tick.latencies);
        self.unanswered += tick.dropped + tick.timed_out;
        self.offered += tick.offered;
        self.late += tick.late;
    }

    fn add(&mut self, other: &Requests) {
        self.answered.add(&other.answered);
        self.unanswered += other.unanswered;
        self.offered += other.offered;
        self.late += other.late;
    }

    fn late_ratio(&self) -> f64 {
        // A request may arrive in one stretch and become late in the next: late ones may outnumber the offered.
        match (self.offered, self.late) {
            (_, 0) => 0.0,
            (offered, late) => (late as f64 / offered as f64).min(1.0),
        }
    }

    /// The open bucket of the unanswered is above all others, so only the rank among the answered changes.
    fn quantile(&self, quantile: f64) -> Option<f64> {
        let answered = self.answered.total();
        let rank = quantile * (answered + self.unanswered) as f64;
        if (answered as f64) < rank {
            return self.answered.bounds().last().copied();
        }
        self.answered.quantile(rank / answered as f64)
    }
}

/// Keeps score of one workload.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    bounds: Arc<[f64]>,
    began_secs: f64,
    now_secs: f64,
    total: Requests,
    replica_secs: f64,
    changes: u64,
    wanted: Option<u32>,
    min_replicas: u32,
    max_replicas: u32,
    step: Requests,
    step_began_secs: f64,
    recent: VecDeque<Requests>,
    points: VecDeque<Point>,
}

impl Tally {
    /// Scoring begins at `now_secs` with this many replicas asked for.
    pub(crate) fn new(bounds: &Arc<[f64]>, now_secs: f64, wanted: Option<u32>) -> Self {
        Self {
            bounds: Arc::clone(bounds),
            began_secs: now_secs,
            now_secs,
            total: Requests::none(bounds),
            replica_secs: 0.0,
            changes: 0,
            wanted,
            min_replicas: wanted.unwrap_or(u32::MAX),
            max_replicas: wanted.unwrap_or(0),
            step: Requests::none(bounds),
            step_began_secs: now_secs,
            recent: VecDeque::new(),
            points: VecDeque::new(),
        }
    }

    /// Accounts for the stretch up to `to_secs`, during which the replicas were as given.
    pub(crate) fn record(&mut self, to_secs: f64, tick: &Tick, replicas: Replicas) {
        self.replica_secs += f64::from(replicas.existing) * (to_secs - self.now_secs);
        self.now_secs = to_secs;
        self.total.add_tick(tick);
        self.step.add_tick(tick);
        if let Some(wanted) = replicas.wanted {
            self.changes += u64::from(self.wanted.is_some_and(|before| before != wanted));
            self.wanted = Some(wanted);
            self.min_replicas = self.min_replicas.min(wanted);
            self.max_replicas = self.max_replicas.max(wanted);
        }
        if SERIES_STEP_SECS <= to_secs - self.step_began_secs {
            self.close_step(replicas);
        }
    }

    fn close_step(&mut self, replicas: Replicas) {
        let step_secs = self.now_secs - self.step_began_secs;
        let step = std::mem::replace(&mut self.step, Requests::none(&self.bounds));
        self.step_began_secs = self.now_secs;
        let (offered, late) = (step.offered, step.late);
        self.recent.push_back(step);
        if RECENT_SECS / SERIES_STEP_SECS < self.recent.len() as f64 {
            self.recent.pop_front();
        }
        self.points.push_back(Point {
            secs: self.now_secs - self.began_secs,
            rate: offered as f64 / step_secs,
            wanted: self.wanted.unwrap_or(0),
            ready: replicas.ready,
            offered,
            late,
            p95_secs: self.last_minute().quantile(0.95),
        });
        if MAX_POINTS < self.points.len() {
            self.points.pop_front();
        }
    }

    fn last_minute(&self) -> Requests {
        let mut sum = Requests::none(&self.bounds);
        for step in &self.recent {
            sum.add(step);
        }
        sum
    }

    /// 95th percentile and late share of the last minute.
    pub(crate) fn now(&self) -> (Option<f64>, f64) {
        let recent = self.last_minute();
        (recent.quantile(0.95), recent.late_ratio())
    }

    pub(crate) fn points(&self) -> Vec<Point> {
        self.points.iter().cloned().collect()
    }

    pub(crate) fn score(&self) -> Score {
        Score {
            offered: self.total.offered,
            late_ratio: self.total.late_ratio(),
            replica_hours: self.replica_secs / 3600.0,
            changes: self.changes,
            p95_secs: self.total.quantile(0.95),
            min_replicas: self.min_replicas.min(self.max_replicas),
            max_replicas: self.max_replicas,
            secs: self.now_secs - self.began_secs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds() -> Arc<[f64]> {
        Arc::from([0.1, 0.2, 0.4])
    }

    fn tick(latencies: &[f64], late: u64, timed_out: u64) -> Tick {
        let mut histogram = Histogram::new(bounds());
        latencies.iter().for_each(|latency| histogram.record(*latency));
        let served = latencies.len() as u64;
        Tick {
            offered: served + timed_out,
            served,
            late,
            dropped: 0,
            timed_out,
            waiting: 0,
            in_service: 0,
            latencies: histogram,
            busy_worker_secs: Vec::new(),
        }
    }

    fn replicas(wanted: u32, ready: u32, existing: u32) -> Replicas {
        Replicas { wanted: Some(wanted), ready, existing }
    }

    #[test]
    fn starting_pods_cost_and_the_unanswered_are_late_and_slowest() {
        let mut tally = Tally::new(&bounds(), 100.0, Some(2));
        tally.record(1900.0, &tick(&[0.05; 90], 0, 0), replicas(2, 2, 2));
        tally.record(3700.0, &tick(&[], 10, 10), replicas(4, 2, 4));
        let score = tally.score();
        assert_eq!(score.replica_hours, 3.0);
        assert_eq!(score.late_ratio, 0.1);
        assert_eq!(score.p95_secs, Some(0.4), "above every bound");
        assert_eq!((score.changes, score.min_replicas, score.max_replicas, score.secs), (1, 2, 4, 3600.0));
    }

    #[test]
    fn a_deployment_that_is_away_for_a_moment_did_not_change_to_zero() {
        let mut tally = Tally::new(&bounds(), 0.0, Some(3));
        tally.record(1.0, &tick(&[], 0, 0), Replicas::default());
        tally.record(2.0, &tick(&[], 0, 0), replicas(3, 3, 3));
        let score = tally.score();
        assert_eq!((score.changes, score.min_replicas, score.max_replicas), (0, 3, 3));
        assert_eq!((score.late_ratio, score.p95_secs), (0.0, None));
    }

    #[test]
    fn the_last_minute_forgets_what_was_before() {
        let mut tally = Tally::new(&bounds(), 0.0, Some(1));
        tally.record(5.0, &tick(&[0.3; 10], 10, 0), replicas(1, 1, 1));
        assert_eq!(tally.now().1, 1.0);
        for step in 2..=13 {
            tally.record(5.0 * f64::from(step), &tick(&[0.05; 10], 0, 0), replicas(1, 1, 1));
        }
        let (p95, late) = tally.now();
        assert!(late == 0.0 && p95.unwrap() <= 0.1);
        assert_eq!(tally.points().len(), 13);
        assert_eq!(
            tally.points()[0],
            Point { secs: 5.0, rate: 2.0, wanted: 1, ready: 1, offered: 10, late: 10, p95_secs: Some(0.39) }
        );
    }
}
