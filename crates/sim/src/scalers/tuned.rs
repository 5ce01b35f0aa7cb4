//! Baselines at their best: every setting is run on the very trace, and the cheapest that reaches the asked SLA in
//! hindsight is kept. Unfair to us on purpose.

use super::Kind;
use crate::outcome::Outcome;

/// HPA targets tried, percent.
pub const HPA_TARGETS_PERCENT: [u32; 12] = [40, 45, 50, 55, 60, 65, 70, 75, 80, 85, 90, 95];

/// Stabilization windows of scale-down tried, seconds.
pub const HPA_DOWN_WINDOWS_SECS: [f64; 2] = [60.0, 300.0];

/// Every setting of `hpa:tuned`.
#[must_use]
pub fn hpa_settings() -> Vec<Kind> {
    let with = |target_percent: u32| {
        HPA_DOWN_WINDOWS_SECS.map(|down_window_secs| Kind::Hpa { target_percent, down_window_secs })
    };
    HPA_TARGETS_PERCENT.into_iter().flat_map(with).collect()
}

/// The settings of a kind that a matched-SLA comparison may choose from; only itself where it has none.
#[must_use]
pub fn settings_of(kind: Kind) -> Vec<Kind> {
    const SAFETIES: [f64; 8] = [0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0];
    const OWN_MAX_SECS: [f64; 3] = [30.0, 120.0, 300.0];
    match kind {
        Kind::Hpa { .. } => hpa_settings(),
        Kind::Planner { .. } => SAFETIES
            .into_iter()
            .flat_map(|safety| OWN_MAX_SECS.map(|own_max_secs| Kind::Planner { safety, own_max_secs }))
            .collect(),
        Kind::KedaRate { .. } => HPA_TARGETS_PERCENT.map(|percent| Kind::KedaRate { percent }).to_vec(),
        Kind::PredictiveHpa { .. } => {
            HPA_TARGETS_PERCENT.map(|target_percent| Kind::PredictiveHpa { target_percent }).to_vec()
        }
        Kind::Model | Kind::Clairvoyant => vec![kind],
    }
}

/// Index of the cheapest run (replica-time) whose late share is at most `1 - sla`; `None` when none reaches it. Equal
/// costs: the first.
#[must_use]
pub fn cheapest<'a>(outcomes: impl IntoIterator<Item = &'a Outcome>, sla: f64) -> Option<usize> {
    let reaching = outcomes.into_iter().enumerate().filter(|(_, outcome)| outcome.late_share() <= 1.0 - sla);
    reaching.min_by(|a, b| a.1.replica_secs.total_cmp(&b.1.replica_secs)).map(|(index, _)| index)
}

/// Index of the run with the fewest late requests, for cells where no setting reaches the SLA. Equal: the cheapest.
#[must_use]
pub fn fewest_late<'a>(outcomes: impl IntoIterator<Item = &'a Outcome>) -> Option<usize> {
    let order = |a: &Outcome, b: &Outcome| {
        a.late_share().total_cmp(&b.late_share()).then(a.replica_secs.total_cmp(&b.replica_secs))
    };
    outcomes.into_iter().enumerate().min_by(|a, b| order(a.1, b.1)).map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(late: f64, replica_secs: f64) -> Outcome {
        Outcome { offered: 100.0, late, replica_secs, ..Outcome::default() }
    }

    #[test]
    fn the_cheapest_that_reaches_the_target_wins_and_else_the_one_with_the_fewest_late() {
        let runs = [outcome(0.5, 30.0), outcome(1.0, 20.0), outcome(2.0, 10.0)];
        assert_eq!(cheapest(&runs, 0.99), Some(1));
        assert_eq!(cheapest(&runs, 0.999), None);
        assert_eq!(fewest_late(&runs), Some(0));
        assert_eq!(hpa_settings().len(), 24);
    }
}
