//! The verdict as it is reported: the JSON form (its schema is `docs/evaluate.schema.json`) and the source of table and
//! page. In: a suite and its verdict. Out: [`Report`]. Everything in it follows from the runs; nothing tells when or
//! where they ran, so that the same suite gives the same bytes.

use schemars::JsonSchema;
use serde::Serialize;

use super::contestant::{Contestant, HPA_TUNED};
use super::goals::{self, GoalsPart, geometric_mean};
use super::judge::{Cell, Verdict, World, allowed};
use super::measures::{Measures, round};
use crate::suite::Suite;

/// Name and version of the form.
pub(crate) const SCHEMA: &str = "rlscaler.io/evaluate/v1";

/// The commit this program was built from, where the build was told (`RLSCALER_COMMIT`).
pub(crate) const COMMIT: &str = match option_env!("RLSCALER_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// Everything `evaluate` reports.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Report {
    /// `rlscaler.io/evaluate/v1`. A field may be added within a version; none is removed or changes its meaning.
    pub(crate) schema: String,
    /// The program.
    pub(crate) program: Program,
    /// What was run.
    pub(crate) suite: SuitePart,
    /// What is asked of the planner and of models at each SLA and over all; empty where the suite's cases have no role or
    /// `hpa:tuned` does not run.
    pub(crate) goals: Vec<GoalsPart>,
    /// One for each scaler, in the order asked for.
    pub(crate) scalers: Vec<ScalerPart>,
    /// One for each case, seed and scaler, in this order.
    pub(crate) cells: Vec<CellPart>,
    /// Every setting tried, in every case with every seed: the points of the Pareto plots.
    pub(crate) settings: Vec<SettingPart>,
}

/// The program that ran.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Program {
    /// Its version.
    pub(crate) version: String,
    /// The commit it was built from, where the build was told.
    pub(crate) commit: String,
    /// The model behind `rl`.
    pub(crate) model: String,
    /// The model behind every `rl:PATH`.
    pub(crate) models: Vec<ModelPart>,
}

/// A model that competes.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct ModelPart {
    /// Its scaler.
    pub(crate) scaler: String,
    /// Name, hash and kind.
    pub(crate) model: String,
}

/// What was run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct SuitePart {
    /// Its name.
    pub(crate) name: String,
    /// Percent of requests that must not be late; the first where several are asked.
    pub(crate) sla_percent: f64,
    /// All of them.
    pub(crate) sla_percents: Vec<f64>,
    /// Traces that are not there and were left out.
    pub(crate) left_out: Vec<String>,
    /// Seeds; each with every case is a world, the same for all scalers.
    pub(crate) seeds: Vec<u64>,
    /// The cases.
    pub(crate) cases: Vec<CasePart>,
}

/// A case.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct CasePart {
    /// Trace.
    pub(crate) trace: String,
    /// Profile.
    pub(crate) profile: String,
    /// What is special about it.
    pub(crate) note: Option<String>,
    /// Percent of requests that must not be late in it.
    pub(crate) sla_percent: f64,
    /// Hours of history that scalers could see before the start.
    pub(crate) history_hours: f64,
    /// Hours judged.
    pub(crate) hours: f64,
    /// Latency target, milliseconds.
    pub(crate) target_ms: f64,
}

/// A scaler over all cells.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct ScalerPart {
    /// Its name as asked for.
    pub(crate) scaler: String,
    /// Cells it ran in.
    pub(crate) cells: usize,
    /// Cells in which it met the SLA.
    pub(crate) sla_met: usize,
    /// Cells in which it met the SLA at the least replica-hours of those who did (where nobody did: was the least late).
    /// The clairvoyant does not compete.
    pub(crate) cells_won: usize,
    /// Medians over cells.
    pub(crate) median: MedianPart,
    /// The cell with its largest late share.
    pub(crate) worst: WorstPart,
    /// Cost at the same lateness against `hpa:tuned`; null when that did not run.
    pub(crate) matched: Option<MatchedPart>,
}

/// Medians over the cells of a scaler.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct MedianPart {
    /// Late share, 0..1.
    pub(crate) late_ratio: f64,
    /// Late share of the worst hour, 0..1.
    pub(crate) worst_hour_late_ratio: f64,
    /// Pod-hours over the clairvoyant's.
    pub(crate) over_clairvoyant: f64,
    /// Changes per hour.
    pub(crate) changes_per_hour: f64,
    /// 95th percentile of latency over the target; null where it has none in half of the cells.
    pub(crate) p95_over_target: Option<f64>,
    /// 99th percentile of latency over the target; null where it has none in half of the cells.
    pub(crate) p99_over_target: Option<f64>,
    /// Reward.
    pub(crate) reward: f64,
    /// Its part.
    pub(crate) latency_reduction: f64,
    /// Its part.
    pub(crate) resource_saving: f64,
    /// Its part.
    pub(crate) sla_completion: f64,
}

/// The worst cell of a scaler.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct WorstPart {
    /// Index into the suite's cases.
    pub(crate) case: usize,
    /// Seed.
    pub(crate) seed: u64,
    /// Late share, 0..1.
    pub(crate) late_ratio: f64,
}

/// Matched-SLA cost: replica-hours of a scaler's cheapest setting that is late no more than the SLA allows (where
/// `hpa:tuned` itself misses the SLA: no more than it), over those of `hpa:tuned`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct MatchedPart {
    /// Cells in which some setting was as good.
    pub(crate) cells: usize,
    /// Median ratio over these cells; null when there are none.
    pub(crate) median: Option<f64>,
    /// Geometric mean; null when there are none.
    pub(crate) geometric_mean: Option<f64>,
    /// Largest ratio; null when there are none.
    pub(crate) worst: Option<f64>,
}

/// One scaler in one case with one seed.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct CellPart {
    /// Index into the suite's cases.
    pub(crate) case: usize,
    /// Seed.
    pub(crate) seed: u64,
    /// Scaler.
    pub(crate) scaler: String,
    /// The setting it ran with.
    pub(crate) setting: String,
    /// Its cost at the same lateness over that of `hpa:tuned`, see `MatchedPart`; null where it cannot be matched.
    pub(crate) matched_cost: Option<f64>,
    /// Decisions of scalers of ours outside of the bounds.
    pub(crate) outside_bounds: u64,
    /// What it came to.
    #[serde(flatten)]
    pub(crate) measures: Measures,
}

/// One setting in one case with one seed.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct SettingPart {
    /// Index into the suite's cases.
    pub(crate) case: usize,
    /// Seed.
    pub(crate) seed: u64,
    /// The setting.
    pub(crate) setting: String,
    /// Late share, 0..1.
    pub(crate) late_ratio: f64,
    /// Pod-hours.
    pub(crate) replica_hours: f64,
}

impl Report {
    /// Adds up a verdict.
    pub(crate) fn new(suite: &Suite, verdict: &Verdict) -> Self {
        let cells: Vec<CellPart> = verdict.cells.iter().map(|cell| cell_part(suite, verdict, cell)).collect();
        let winners = winners(suite, &cells);
        let scaler = |(index, contestant): (usize, &Contestant)| {
            let own: Vec<&CellPart> = cells.iter().skip(index).step_by(suite.contestants.len()).collect();
            scaler_part(suite, contestant, &own, winners[index])
        };
        let scalers = suite.contestants.iter().enumerate().map(scaler).collect();
        Self {
            schema: SCHEMA.to_owned(),
            program: program(suite),
            suite: suite_part(suite),
            goals: goals::goals(suite, verdict),
            scalers,
            cells,
            settings: setting_parts(suite, verdict),
        }
    }
}

/// The program, and the models it runs.
pub(crate) fn program(suite: &Suite) -> Program {
    Program {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: COMMIT.to_owned(),
        model: suite.competitors.policy(0).describe(),
        models: models(suite),
    }
}

/// The models from files.
fn models(suite: &Suite) -> Vec<ModelPart> {
    let described = suite.competitors.described().skip(1);
    described.map(|(scaler, model)| ModelPart { scaler: scaler.to_owned(), model }).collect()
}

/// The suite.
pub(crate) fn suite_part(suite: &Suite) -> SuitePart {
    let case = |case: &crate::suite::Case| CasePart {
        trace: case.trace.clone(),
        profile: case.profile.clone(),
        note: case.note.clone(),
        sla_percent: round(100.0 * case.sla),
        history_hours: round(case.scenario.history_secs / 3_600.0),
        hours: round(case.scenario.duration_secs / 3_600.0),
        target_ms: round(1e3 * case.scenario.profile.service.target_secs),
    };
    SuitePart {
        name: suite.name.clone(),
        sla_percent: round(100.0 * suite.slas[0]),
        sla_percents: suite.slas.iter().map(|sla| round(100.0 * sla)).collect(),
        left_out: suite.left_out.clone(),
        seeds: suite.seeds.iter().map(|seed| seed.0).collect(),
        cases: suite.cases.iter().map(case).collect(),
    }
}

fn cell_part(suite: &Suite, verdict: &Verdict, cell: &Cell) -> CellPart {
    let contestant = &suite.contestants[cell.contestant];
    CellPart {
        case: cell.case,
        seed: suite.seeds[cell.seed].0,
        scaler: contestant.name.clone(),
        setting: cell.setting.shown(&suite.competitors),
        matched_cost: matched_cost(suite, verdict, cell).map(round),
        outside_bounds: cell.outside_bounds,
        measures: cell.measures.clone(),
    }
}

fn matched_cost(suite: &Suite, verdict: &Verdict, cell: &Cell) -> Option<f64> {
    let tuned = suite.contestants.iter().find(|contestant| contestant.name == HPA_TUNED)?;
    let world = World { settings: &verdict.settings, rungs: &verdict.rungs[cell.case][cell.seed] };
    let sla = suite.cases[cell.case].sla;
    let reference = world.rung(world.chosen(tuned, sla));
    let bar = allowed(sla).max(reference.late_share);
    let setting = world.cheapest(&suite.contestants[cell.contestant], bar)?;
    Some(world.rung(setting).replica_hours / reference.replica_hours.max(f64::MIN_POSITIVE))
}

/// Cells won, for each contestant.
fn winners(suite: &Suite, cells: &[CellPart]) -> Vec<usize> {
    let mut won = vec![0; suite.contestants.len()];
    for of_world in cells.chunks(suite.contestants.len()) {
        let competing = || {
            let all = of_world.iter().enumerate();
            all.filter(|(index, _)| suite.contestants[*index].family() != "clairvoyant")
        };
        let hours = |cell: &CellPart| cell.measures.replica_hours;
        let met = competing().filter(|(_, cell)| cell.measures.sla_met);
        let cheapest = met.min_by(|a, b| hours(a.1).total_cmp(&hours(b.1)));
        let late = |cell: &CellPart| cell.measures.late_ratio;
        let least_late = || competing().min_by(|a, b| late(a.1).total_cmp(&late(b.1)));
        if let Some((index, _)) = cheapest.or_else(least_late) {
            won[index] += 1;
        }
    }
    won
}

fn scaler_part(suite: &Suite, contestant: &Contestant, cells: &[&CellPart], cells_won: usize) -> ScalerPart {
    let of = |measure: &dyn Fn(&CellPart) -> f64| {
        round(median(cells.iter().map(|cell| measure(cell)).collect()).unwrap_or(0.0))
    };
    let over_target = |millis: &dyn Fn(&Measures) -> Option<f64>| {
        // A percentile of requests that were never answered is larger than any other.
        let of_cell = |cell: &&CellPart| {
            let target_secs = suite.cases[cell.case].scenario.profile.service.target_secs;
            millis(&cell.measures).map_or(f64::INFINITY, |millis| millis / (1e3 * target_secs))
        };
        median(cells.iter().map(of_cell).collect()).filter(|ratio| ratio.is_finite()).map(round)
    };
    let late = |cell: &CellPart| cell.measures.late_ratio;
    let worst =
        cells.iter().copied().reduce(|worst, cell| if late(worst) < late(cell) { cell } else { worst });
    let worst = worst.expect("a suite has a cell for each contestant");
    let with_reference = suite.contestants.iter().any(|contestant| contestant.name == HPA_TUNED);
    ScalerPart {
        scaler: contestant.name.clone(),
        cells: cells.len(),
        sla_met: cells.iter().filter(|cell| cell.measures.sla_met).count(),
        cells_won,
        median: MedianPart {
            late_ratio: of(&late),
            worst_hour_late_ratio: of(&|cell| cell.measures.worst_hour_late_ratio),
            over_clairvoyant: of(&|cell| cell.measures.over_clairvoyant),
            changes_per_hour: of(&|cell| cell.measures.changes_per_hour),
            p95_over_target: over_target(&|measures| measures.p95_ms),
            p99_over_target: over_target(&|measures| measures.p99_ms),
            reward: of(&|cell| cell.measures.reward.total),
            latency_reduction: of(&|cell| cell.measures.reward.latency_reduction),
            resource_saving: of(&|cell| cell.measures.reward.resource_saving),
            sla_completion: of(&|cell| cell.measures.reward.sla_completion),
        },
        worst: WorstPart { case: worst.case, seed: worst.seed, late_ratio: late(worst) },
        matched: with_reference.then(|| matched_part(cells)),
    }
}

fn matched_part(cells: &[&CellPart]) -> MatchedPart {
    let ratios: Vec<f64> = cells.iter().filter_map(|cell| cell.matched_cost).collect();
    MatchedPart {
        cells: ratios.len(),
        median: median(ratios.clone()).map(round),
        geometric_mean: geometric_mean(&ratios).map(round),
        worst: ratios.iter().copied().reduce(f64::max).map(round),
    }
}

fn setting_parts(suite: &Suite, verdict: &Verdict) -> Vec<SettingPart> {
    let mut parts = Vec::new();
    for (case, of_case) in verdict.rungs.iter().enumerate() {
        for (seed, of_seed) in suite.seeds.iter().zip(of_case) {
            for (setting, rung) in verdict.settings.iter().zip(of_seed) {
                parts.push(SettingPart {
                    case,
                    seed: seed.0,
                    setting: setting.shown(&suite.competitors),
                    late_ratio: round(rung.late_share),
                    replica_hours: round(rung.replica_hours),
                });
            }
        }
    }
    parts
}

/// The middle value, or the mean of the two in the middle; `None` of nothing.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        values.get(middle).copied()
    } else {
        Some(0.5 * (values.get(middle.checked_sub(1)?)? + values.get(middle)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_two_is_their_mean_and_of_nothing_nothing() {
        for (values, expected) in [
            (vec![], None),
            (vec![3.0], Some(3.0)),
            (vec![3.0, 1.0], Some(2.0)),
            (vec![9.0, 1.0, 2.0], Some(2.0)),
        ] {
            assert_eq!(median(values), expected);
        }
    }
}
