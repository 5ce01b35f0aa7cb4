//! How a run went, thinned to what a chart can show. In: an outcome with a point per decision. Out: [`Series`], at
//! most a few hundred columns, each the mean load and the most replicas of its stretch, so that no peak is lost.

use rlscaler_sim::outcome::{Outcome, Point};
use rlscaler_sim::scenario::Scenario;

/// Most columns.
const MAX_COLUMNS: usize = 320;

/// A run in columns.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Series {
    /// Length of a column, hours.
    pub(crate) column_hours: f64,
    /// The columns in order.
    pub(crate) columns: Vec<Column>,
}

/// A stretch of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Column {
    /// Most load, in busy pods.
    pub(crate) load: f64,
    /// Most replicas wanted.
    pub(crate) wanted: u32,
    /// Late share, request-weighted.
    pub(crate) late_share: f64,
}

impl Series {
    /// Thins the points of an outcome.
    pub(crate) fn new(outcome: &Outcome, scenario: &Scenario) -> Self {
        let per_pod = scenario.profile.service.pod_capacity();
        let width = outcome.points.len().div_ceil(MAX_COLUMNS).max(1);
        let column = |points: &[Point]| {
            let requests: f64 = points.iter().map(|point| point.rate).sum();
            let late: f64 = points.iter().map(|point| point.rate * point.late_share).sum();
            Column {
                load: points.iter().map(|point| point.rate).fold(0.0, f64::max) / per_pod,
                wanted: points.iter().map(|point| point.wanted).max().unwrap_or(0),
                late_share: if 0.0 < requests { late / requests } else { 0.0 },
            }
        };
        Self {
            column_hours: width as f64 * scenario.interval_secs / 3_600.0,
            columns: outcome.points.chunks(width).map(column).collect(),
        }
    }

    /// Most replicas or load.
    pub(crate) fn top(&self) -> f64 {
        self.columns.iter().map(|column| column.load.max(f64::from(column.wanted))).fold(1.0, f64::max)
    }
}
