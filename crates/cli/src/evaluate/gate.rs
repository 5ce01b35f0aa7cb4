//! `rlscaler evaluate --gate CANDIDATE`: may this model take the place of the current one? In: a suite in which both, the
//! planner and HPAs ran, and its verdict. Out: what [`rlscaler_rl::gate`] says of it, as text or JSON, and the exit status.
//! Never: a rule of its own.

use std::fmt::Write;
use std::path::Path;

use rlscaler_rl::gate::{self, GateSettings, Judgement, Pair, Score};
use schemars::JsonSchema;
use serde::Serialize;

use super::competitors::RL;
use super::judge::{Cell, Verdict, allowed};
use super::measures::{Measures, round};
use super::report::{Program, SuitePart, program, suite_part};
use super::table::{grid, percent, slas};
use super::{Format, write_out};
use crate::Unusable;
use crate::suite::Suite;

/// The suite where none is named: candidates are never let through on what is reported on.
pub(super) const SUITE: &str = "choosing";

/// Name and version of the form.
const SCHEMA: &str = "rlscaler.io/gate/v1";

/// HPAs that nobody tuned.
const HPAS: [&str; 3] = ["hpa:50", "hpa:60", "hpa:70"];

/// Places among the contestants, see [`scalers`].
const CURRENT: usize = 0;
const CANDIDATE: usize = 1;
const PLANNER: usize = 2;
const FIRST_HPA: usize = 3;

/// Who must run, in the order of the places above.
pub(super) fn scalers(candidate: &str, current: Option<&str>) -> Vec<String> {
    let current = current.map_or(RL.to_owned(), |path| format!("{RL}:{path}"));
    let ours = [current, format!("{RL}:{candidate}"), "planner".to_owned()];
    ours.into_iter().chain(HPAS.map(str::to_owned)).collect()
}

/// The candidate is refused: exit status 1. Why stands in the report.
#[derive(Debug, thiserror::Error)]
#[error("the candidate is rejected, for {0} reason(s)")]
struct Rejected(usize);

/// Everything the gate reports.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "GateReport")]
pub(super) struct GateReport {
    /// `rlscaler.io/gate/v1`. A field may be added within a version; none is removed or changes its meaning.
    schema: String,
    /// The program.
    program: Program,
    /// What was run.
    suite: SuitePart,
    /// The candidate: name, hash and kind.
    candidate: String,
    /// The current model.
    current: String,
    /// `Accept` or `Reject`.
    verdict: String,
    /// Why not; empty when accepted.
    reasons: Vec<ReasonPart>,
    /// Traces; the cells of one are resampled together.
    loads: usize,
    /// Reward of the candidate less that of the current model; null where cells are missing or broken.
    reward: Option<BoundPart>,
    /// Logarithm of the current model's replica-time over the candidate's, positive is cheaper; null as above.
    saving: Option<BoundPart>,
    /// How it was judged.
    settings: SettingsPart,
    /// Every cell.
    cells: Vec<GateCellPart>,
}

/// A reason to refuse.
#[derive(Debug, Serialize, JsonSchema)]
struct ReasonPart {
    /// `TooFewLoads`, `Broken`, `NotBetter`, `RewardFalls`, `CostRises`, `SlaWorse`, `WorstDay` or `Dominated`.
    code: String,
    /// In words, with the cell and its numbers.
    message: String,
}

/// A mean over loads.
#[derive(Debug, Serialize, JsonSchema)]
struct BoundPart {
    /// The mean.
    mean: f64,
    /// Its lower bound.
    low: f64,
}

/// How it was judged.
#[derive(Debug, Serialize, JsonSchema)]
struct SettingsPart {
    /// Seed of the resampling.
    seed: u64,
    /// Times the loads were drawn again.
    resamples: u32,
    /// Of the lower bounds, 0..1.
    confidence: f64,
    /// Fewest loads.
    loads_min: usize,
    /// Reward that may be lost where replica-time is gained.
    reward_slack: f64,
    /// Logarithm of replica-time that may be lost where reward is gained.
    cost_slack: f64,
    /// Share of what the SLA allows by which a cell that misses it may be later.
    late_slack: f64,
}

/// One cell.
#[derive(Debug, Serialize, JsonSchema)]
struct GateCellPart {
    /// Index into the suite's cases.
    case: usize,
    /// Seed.
    seed: u64,
    /// The candidate.
    candidate: Measures,
    /// The current model.
    current: Measures,
    /// The planner.
    planner: Measures,
}

/// Judges, tells, and ends with the exit status.
pub(super) fn finish(
    suite: &Suite,
    verdict: &Verdict,
    format: Format,
    out: Option<&Path>,
) -> anyhow::Result<()> {
    let settings = GateSettings::default();
    let worlds: Vec<&[Cell]> = verdict.cells.chunks(suite.contestants.len()).collect();
    let pairs: Vec<Pair> = worlds.iter().map(|cells| pair(suite, cells)).collect();
    let judgement = gate::judge(&pairs, &settings);
    let report = GateReport::new(suite, &worlds, &judgement, settings);
    let text = match format {
        Format::Table => text(&report),
        Format::Json => format!("{}\n", serde_json::to_string_pretty(&report)?),
        Format::Markdown | Format::Html => {
            let expected = "--format: expected table or json with --gate";
            return Err(Unusable(expected.to_owned()).into());
        }
    };
    write_out(&text, out)?;
    match judgement.verdict {
        gate::Verdict::Accept => Ok(()),
        gate::Verdict::Reject => Err(Rejected(judgement.reasons.len()).into()),
    }
}

fn pair(suite: &Suite, cells: &[Cell]) -> Pair {
    let case = &suite.cases[cells[CURRENT].case];
    let score = |place: usize| score(&cells[place].measures);
    Pair {
        load: case.trace.clone(),
        cell: case.label(),
        seed: suite.seeds[cells[CURRENT].seed].0,
        allowed_late: allowed(case.sla),
        candidate: score(CANDIDATE),
        current: score(CURRENT),
        planner: score(PLANNER),
        hpas: HPAS
            .iter()
            .enumerate()
            .map(|(index, name)| ((*name).to_owned(), score(FIRST_HPA + index)))
            .collect(),
    }
}

fn score(measures: &Measures) -> Score {
    Score {
        reward: measures.reward.total,
        replica_hours: measures.replica_hours,
        late_share: measures.late_ratio,
        worst_day_late: measures.worst_day_late_ratio,
    }
}

impl GateReport {
    fn new(suite: &Suite, worlds: &[&[Cell]], judgement: &Judgement, settings: GateSettings) -> Self {
        let Judgement { verdict, loads, reward, saving, reasons } = judgement;
        let described = |place: usize| {
            let number = suite.contestants[place].ladder[0].model;
            suite.competitors.policy(number).describe()
        };
        let bound = |bound: &gate::Bound| BoundPart { mean: round(bound.mean), low: round(bound.low) };
        let reason = |reason: &gate::Refusal| ReasonPart {
            code: reason.code().to_owned(),
            message: reason.to_string(),
        };
        let cell = |cells: &&[Cell]| GateCellPart {
            case: cells[CURRENT].case,
            seed: suite.seeds[cells[CURRENT].seed].0,
            candidate: cells[CANDIDATE].measures.clone(),
            current: cells[CURRENT].measures.clone(),
            planner: cells[PLANNER].measures.clone(),
        };
        let GateSettings { seed, resamples, confidence, loads_min, reward_slack, cost_slack, late_slack } =
            settings;
        Self {
            schema: SCHEMA.to_owned(),
            program: program(suite),
            suite: suite_part(suite),
            candidate: described(CANDIDATE),
            current: described(CURRENT),
            verdict: verdict.as_str().to_owned(),
            reasons: reasons.iter().map(reason).collect(),
            loads: *loads,
            reward: reward.as_ref().map(bound),
            saving: saving.as_ref().map(bound),
            settings: SettingsPart {
                seed,
                resamples,
                confidence,
                loads_min,
                reward_slack,
                cost_slack,
                late_slack,
            },
            cells: worlds.iter().map(cell).collect(),
        }
    }
}

/// The report for a terminal.
fn text(report: &GateReport) -> String {
    let mut text = format!(
        "{}: {} in the place of {}\nsuite {}: {} cells on {} loads, SLA {} %; rlscaler {} (commit {})\n\n",
        report.verdict,
        report.candidate,
        report.current,
        report.suite.name,
        report.cells.len(),
        report.loads,
        slas(&report.suite),
        report.program.version,
        report.program.commit,
    );
    let confidence = format!("{:.0} % sure", 100.0 * report.settings.confidence);
    let row = |name: &str, bound: &Option<BoundPart>| {
        let show = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:+.4}"));
        let bound = bound.as_ref();
        vec![name.to_owned(), show(bound.map(|bound| bound.mean)), show(bound.map(|bound| bound.low))]
    };
    text.push_str(&grid(&[
        vec!["candidate against current".to_owned(), "mean".to_owned(), confidence],
        row("reward", &report.reward),
        row("replica-time saved (log)", &report.saving),
    ]));
    let _ = writeln!(text, "\n{}", cells_line(report));
    for reason in &report.reasons {
        let _ = writeln!(text, "{}: {}", reason.code, reason.message);
    }
    text
}

/// The cells in one line.
fn cells_line(report: &GateReport) -> String {
    let met =
        |of: fn(&GateCellPart) -> &Measures| report.cells.iter().filter(|cell| of(cell).sla_met).count();
    let worst = |of: fn(&GateCellPart) -> &Measures| {
        report.cells.iter().map(|cell| of(cell).worst_day_late_ratio).fold(0.0, f64::max)
    };
    let told = |name: &str, of: fn(&GateCellPart) -> &Measures| {
        format!("{name} {} (worst day {} % late)", met(of), percent(worst(of)))
    };
    format!(
        "SLA met: {}, {}, {}",
        told("candidate", |cell| &cell.candidate),
        told("current", |cell| &cell.current),
        told("planner", |cell| &cell.planner)
    )
}
