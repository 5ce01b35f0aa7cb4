//! What the planner and models are asked for, against an HPA at its best in hindsight, and every cell that misses it. In: a
//! suite whose cases say which goals they count for, and its verdict. Out: [`GoalsPart`] for each scaler and SLA, of the
//! JSON form, and a short table. Never: a goal that is counted over other cells than those it names. Nothing where
//! `hpa:tuned` did not run.
//!
//! 1. Where `hpa:tuned` reaches the SLA: reach it too, at no more replica-time; geometric mean at most 0.92.
//! 2. Where no setting of the HPA reaches it: reach it, or fewer late than the HPA with the fewest at no more replica-time.
//! 3. At the lateness of `hpa:tuned`: geometric mean of replica-time at most 0.80, and less than the planner's tuned.
//! 4. Changes per hour: median at most 1.5 times that of `hpa:tuned`, none above 30.
//! 5. Slow starts and bursts: no setting of the HPA has both fewer late and less replica-time. The first hour of an unknown
//!    service: the same against an HPA at 50, 60 and 70 % that nobody tuned.
//! 6. Capacity misjudged, metrics later than told, samples missing: the late share at most doubles, and no decision is ever
//!    outside of the bounds.

mod count;
mod text;

use schemars::JsonSchema;
use serde::Serialize;

use super::contestant::{Choice, Contestant, HPA_TUNED};
use super::judge::{Cell, Verdict, World};
use super::measures::round;
use crate::suite::{Role, Suite};

pub(super) use count::geometric_mean;
pub(super) use text::{html, text};

/// One scaler at one SLA, or at all.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct GoalsPart {
    /// Its name as asked for.
    pub(crate) scaler: String,
    /// Percent of requests that must not be late; null over all SLAs of the suite.
    pub(crate) sla_percent: Option<f64>,
    /// Goal 1.
    pub(crate) reached: ReachedPart,
    /// Goal 2.
    pub(crate) unreached: UnreachedPart,
    /// Goal 3.
    pub(crate) matched: MatchedLatenessPart,
    /// Goal 4.
    pub(crate) changes: ChangesPart,
    /// Goal 5, slow starts and bursts.
    pub(crate) hard: DominatedPart,
    /// Goal 5, the first hour.
    pub(crate) cold: ColdPart,
    /// Goal 6.
    pub(crate) robust: RobustPart,
    /// The cells that miss a goal.
    pub(crate) misses: Vec<MissPart>,
}

/// Cells of usual services in which `hpa:tuned` reaches the SLA.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct ReachedPart {
    /// How many.
    pub(crate) cells: usize,
    /// In how many this one reaches it too, at no more replica-time.
    pub(crate) as_good: usize,
    /// Replica-time over that of `hpa:tuned`, geometric mean over all of these cells; null without any.
    pub(crate) geometric_mean: Option<f64>,
    /// At most a fifth of them miss and the mean is within its bound; null without any.
    pub(crate) holds: Option<bool>,
}

/// Cells of usual services in which no setting of the HPA reaches the SLA.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct UnreachedPart {
    /// How many.
    pub(crate) cells: usize,
    /// In how many this one reaches it, or has fewer late than the HPA with the fewest at no more replica-time.
    pub(crate) as_good: usize,
    /// All of them; null without any.
    pub(crate) holds: Option<bool>,
}

/// Replica-time at the same late share, read off the curve of a scaler's settings: linear in the logarithm of the late
/// share between neighbours. Where no setting is so little late, both are compared where this scaler is least late.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct MatchedLatenessPart {
    /// Usual services in which some setting is as little late as `hpa:tuned`.
    pub(crate) cells: usize,
    /// Usual services.
    pub(crate) of_cells: usize,
    /// Replica-time over that of `hpa:tuned`, geometric mean; null where only one setting was tried.
    pub(crate) over_hpa: Option<f64>,
    /// Replica-time over that of the planner tuned in hindsight, at its lateness; null where no such planner ran.
    pub(crate) over_planner: Option<f64>,
    /// Both within their bounds; null where one is null.
    pub(crate) holds: Option<bool>,
}

/// Changes per hour in usual services.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct ChangesPart {
    /// Median over cells; null without any.
    pub(crate) median: Option<f64>,
    /// That over the median of `hpa:tuned`; null without any.
    pub(crate) over_hpa: Option<f64>,
    /// Most in any cell.
    pub(crate) most: f64,
    /// Both within their bounds; null without any cell.
    pub(crate) holds: Option<bool>,
}

/// Cells in which an HPA has both fewer late and less replica-time.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct DominatedPart {
    /// Cells looked at.
    pub(crate) cells: usize,
    /// In how many one has.
    pub(crate) dominated: usize,
    /// At most a fifth; null without any.
    pub(crate) holds: Option<bool>,
}

/// The first hour of a service nobody knows.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct ColdPart {
    /// Cells looked at.
    pub(crate) cells: usize,
    /// In how many an HPA at 50, 60 or 70 % that nobody tuned has both fewer late and less replica-time.
    pub(crate) dominated: usize,
    /// In how many the HPA tuned on that very hour reaches the SLA.
    pub(crate) reached: usize,
    /// In how many of these this one reaches it too, at no more replica-time.
    pub(crate) as_good: usize,
    /// None is dominated; null without any.
    pub(crate) holds: Option<bool>,
}

/// Cells in which something is not as the scaler is told.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct RobustPart {
    /// Cells looked at.
    pub(crate) cells: usize,
    /// In how many the late share is more than twice that of the same cell where all is as told, and more than 0.02 %.
    pub(crate) doubled: usize,
    /// In how many of these it could not be otherwise, however many replicas there are: so many requests take too long
    /// by themselves, without any wait.
    pub(crate) doubled_anyway: usize,
    /// In how many of all these the SLA is missed.
    pub(crate) doubled_and_missed: usize,
    /// Decisions outside of the bounds, in cells of every role.
    pub(crate) outside_bounds: u64,
    /// Neither; null without any cell.
    pub(crate) holds: Option<bool>,
}

/// A cell that misses a goal.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct MissPart {
    /// Which, 1 to 6.
    pub(crate) goal: u8,
    /// Index into the suite's cases.
    pub(crate) case: usize,
    /// Its name.
    pub(crate) label: String,
    /// Seed.
    pub(crate) seed: u64,
    /// Late share, 0..1.
    pub(crate) late_ratio: f64,
    /// Changes per hour.
    pub(crate) changes_per_hour: f64,
    /// Setting of the HPA it is measured against; for goal 6 the same scaler where all is as told.
    pub(crate) against: String,
    /// Late share of that, 0..1.
    pub(crate) against_late_ratio: f64,
    /// Replica-time over that of it.
    pub(crate) cost_ratio: f64,
}

/// Every goal of every scaler of ours with one setting.
pub(crate) fn goals(suite: &Suite, verdict: &Verdict) -> Vec<GoalsPart> {
    let Some(tuned) = suite.contestants.iter().find(|contestant| contestant.name == HPA_TUNED) else {
        return vec![];
    };
    let tuned_place = suite.contestants.iter().position(|contestant| contestant.name == HPA_TUNED);
    let planner = suite.contestants.iter().find(|who| who.family() == "planner" && 1 < who.ladder.len());
    let planner = planner.map(|who| Contestant { choice: Choice::Hindsight, ..who.clone() });
    let mut parts = Vec::new();
    for (place, contestant) in suite.contestants.iter().enumerate() {
        let ours = matches!(contestant.family(), "planner" | "rl");
        if !ours || contestant.choice == Choice::Hindsight {
            continue;
        }
        let line = |of_world: &[Cell]| {
            let rivals = Rivals { tuned, planner: planner.as_ref() };
            let tuned_changes = tuned_place.map(|place| of_world[place].measures.changes_per_hour);
            line(suite, verdict, &of_world[place], tuned_changes.unwrap_or(0.0), &rivals)
        };
        let mut lines: Vec<Line> = verdict.cells.chunks(suite.contestants.len()).filter_map(line).collect();
        add_twins(suite, &mut lines);
        let part = |sla: Option<f64>| {
            let lines = lines.iter().filter(|line| sla.is_none_or(|sla| sla == line.sla));
            count::goals_part(&contestant.name, sla, &lines.collect::<Vec<_>>())
        };
        if lines.is_empty() {
            continue;
        }
        parts.extend(suite.slas.iter().map(|sla| part(Some(*sla))));
        if 1 < suite.slas.len() {
            parts.push(part(None));
        }
    }
    parts
}

/// Who a scaler is measured against.
struct Rivals<'a> {
    tuned: &'a Contestant,
    planner: Option<&'a Contestant>,
}

/// What is compared in one cell.
#[derive(Debug, Clone)]
pub(super) struct Line {
    case: usize,
    label: String,
    seed: u64,
    role: Role,
    sla: f64,
    /// What the scaler came to with its own setting.
    own: Point,
    /// Its changes per hour, and those of `hpa:tuned`.
    changes_per_hour: f64,
    tuned_changes_per_hour: f64,
    /// Decisions outside of the bounds.
    outside_bounds: u64,
    /// What the scaler came to in the same cell where all is as told.
    as_told: Option<Point>,
    /// Share of requests that are late without any wait.
    late_anyway: f64,
    /// `hpa:tuned`.
    tuned: Point,
    /// Every setting of the HPA.
    hpa: Vec<Point>,
    /// Replica-time at the lateness of `hpa:tuned` over its.
    over_hpa: Option<Matched>,
    /// The same against the planner tuned in hindsight.
    over_planner: Option<Matched>,
}

/// Replica-time over a rival's at the same lateness.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Matched {
    ratio: f64,
    /// Some setting is as little late as the rival.
    as_little_late: bool,
}

/// What one setting came to.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Point {
    setting: String,
    /// Of an HPA that nobody tuned.
    stock: bool,
    late_share: f64,
    replica_hours: f64,
}

/// The line of a cell; `None` where its case counts for no goal.
fn line(
    suite: &Suite,
    verdict: &Verdict,
    cell: &Cell,
    tuned_changes_per_hour: f64,
    rivals: &Rivals<'_>,
) -> Option<Line> {
    let case = &suite.cases[cell.case];
    if case.role == Role::None {
        return None;
    }
    let world = World { settings: &verdict.settings, rungs: &verdict.rungs[cell.case][cell.seed] };
    let point = |setting: super::contestant::Setting| {
        let rung = world.rung(setting);
        Point {
            setting: setting.shown(&suite.competitors),
            stock: count::is_stock(setting.kind),
            late_share: rung.late_share,
            replica_hours: rung.replica_hours,
        }
    };
    let points =
        |who: &Contestant| -> Vec<Point> { who.ladder.iter().map(|setting| point(*setting)).collect() };
    let curve = points(&suite.contestants[cell.contestant]);
    let hpa = points(rivals.tuned);
    let tuned = point(world.chosen(rivals.tuned, case.sla));
    let over_planner = rivals
        .planner
        .and_then(|planner| count::over(&curve, &points(planner), &point(world.chosen(planner, case.sla))));
    Some(Line {
        case: cell.case,
        label: case.label(),
        seed: suite.seeds[cell.seed].0,
        role: case.role,
        sla: case.sla,
        own: point(cell.setting),
        changes_per_hour: cell.measures.changes_per_hour,
        outside_bounds: cell.outside_bounds,
        as_told: None,
        late_anyway: case.scenario.late_anyway(),
        tuned_changes_per_hour,
        over_hpa: count::over(&curve, &hpa, &tuned),
        over_planner,
        tuned,
        hpa,
    })
}

/// Gives every robust line what the scaler came to in its twin.
fn add_twins(suite: &Suite, lines: &mut [Line]) {
    let main: Vec<(usize, u64, Point)> = lines
        .iter()
        .filter(|line| line.role == Role::Main)
        .map(|line| (line.case, line.seed, line.own.clone()))
        .collect();
    for line in lines.iter_mut().filter(|line| line.role == Role::Robust) {
        let robust = &suite.cases[line.case];
        let twin = main.iter().find(|(case, seed, _)| {
            let case = &suite.cases[*case];
            (case.sla, *seed) == (line.sla, line.seed) && case.is_twin_of(robust)
        });
        line.as_told = twin.map(|(_, _, own)| own.clone());
    }
}

impl MissPart {
    fn new(goal: u8, line: &Line, against: &Point) -> Self {
        Self {
            goal,
            case: line.case,
            label: line.label.clone(),
            seed: line.seed,
            late_ratio: round(line.own.late_share),
            changes_per_hour: line.changes_per_hour,
            against: against.setting.clone(),
            against_late_ratio: round(against.late_share),
            cost_ratio: round(line.own.replica_hours / against.replica_hours.max(f64::MIN_POSITIVE)),
        }
    }
}
