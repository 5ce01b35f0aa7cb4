//! How a net does on the loads that nets are chosen on: quickly, while it is learning, and in full at the end.
//!
//! In: a net. Out: a few figures for people and for the manifest. Lower is better in all of them. Never: an influence
//! on the net. What is judged, and how, is in [`crate::choosing`].

use std::collections::BTreeMap;

use rayon::prelude::*;
use rlscaler_sim::seed::Seed;

use crate::actor_critic::ActorCritic;
use crate::choosing::{self, Case, Curves, PRICES, Point, SAFETIES, Scaler};

/// Every so many of the loads that nets are chosen on is looked at while learning: six, none of a shape of another.
const QUICK_STEP: usize = 4;

/// Seed of the arrivals; the same for every net, so that nets differ and not their luck.
const ARRIVALS: Seed = Seed(1);

/// Name in the manifest of the net's replicas over the planner's at the same late share ([`choosing::matched_cost`]).
pub const MATCHED_COST: &str = "train.matchedCost";

/// Name in the manifest of the net's changes per hour, the median over loads and prices.
pub const CHANGES_PER_HOUR: &str = "train.changesPerHour";

/// A quick look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Score {
    /// Replicas over the planner's at the same late share; `None` where the net is nowhere as late as the planner.
    pub matched_cost: Option<f64>,
    /// Changes per hour, the median over loads and prices.
    pub changes_per_hour: f64,
}

/// The loads of the quick look, and the planner's curve on each, which no net changes.
#[derive(Debug)]
pub struct Validation {
    cases: Vec<(Case, Vec<Point>)>,
}

impl Validation {
    /// Lets the planner live through them. Runs on the rayon pool it is called in.
    #[must_use]
    pub fn begin() -> Self {
        let cases: Vec<Case> = choosing::cases().into_iter().step_by(QUICK_STEP).collect();
        let planner = |case: &Case| {
            SAFETIES.iter().map(|&k| choosing::judge(case, Scaler::Planner(k), ARRIVALS)).collect()
        };
        let planned: Vec<Vec<Point>> = cases.par_iter().map(planner).collect();
        Self { cases: cases.into_iter().zip(planned).collect() }
    }

    /// The net beside it. Runs on the rayon pool it is called in.
    #[must_use]
    pub fn score(&self, net: &ActorCritic) -> Score {
        let of_case = |(case, planner): &(Case, Vec<Point>)| Curves {
            name: case.name.clone(),
            net: PRICES
                .par_iter()
                .map(|&price| choosing::judge(case, Scaler::Net(net, price), ARRIVALS))
                .collect(),
            planner: planner.clone(),
        };
        summary(&self.cases.par_iter().map(of_case).collect::<Vec<_>>())
    }
}

/// The whole of the loads that nets are chosen on, by the names that a manifest has for it. Runs on the rayon pool it
/// is called in.
#[must_use]
pub fn scores(net: &ActorCritic) -> BTreeMap<String, f64> {
    let Score { matched_cost, changes_per_hour } =
        summary(&choosing::curves(&choosing::cases(), net, ARRIVALS));
    let cost = matched_cost.map(|cost| (MATCHED_COST.to_owned(), cost));
    cost.into_iter().chain([(CHANGES_PER_HOUR.to_owned(), changes_per_hour)]).collect()
}

fn summary(curves: &[Curves]) -> Score {
    let mut changes: Vec<f64> =
        curves.iter().flat_map(|of_case| &of_case.net).map(|point| point.changes_per_hour).collect();
    changes.sort_by(f64::total_cmp);
    Score {
        matched_cost: choosing::matched_cost(curves),
        changes_per_hour: changes.get(changes.len() / 2).copied().unwrap_or(0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_the_cost_at_matched_lateness_and_the_median_of_changes() {
        let point = |late_share, replicas, changes_per_hour| Point { late_share, replicas, changes_per_hour };
        let curves = Curves {
            name: String::new(),
            net: vec![point(0.1, 8.0, 5.0), point(0.01, 12.0, 1.0), point(0.001, 13.0, 9.0)],
            planner: vec![point(0.1, 10.0, 50.0)],
        };
        let score = summary(&[curves]);
        assert!((score.matched_cost.unwrap() - 0.8).abs() < 1e-12, "{score:?}");
        assert_eq!(score.changes_per_hour, 5.0);
        assert_eq!(summary(&[]), Score { matched_cost: None, changes_per_hour: 0.0 });
    }
}
