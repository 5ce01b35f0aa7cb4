//! Counts goals over lines. Pure.

use rlscaler_sim::scalers::Kind;

use super::super::contestant::STOCK_DOWN_WINDOW_SECS;
use super::super::judge::allowed;
use super::super::measures::round;
use super::super::report::median;
use super::{
    ChangesPart, ColdPart, DominatedPart, GoalsPart, Line, Matched, MatchedLatenessPart, MissPart, Point,
    ReachedPart, RobustPart, Role, UnreachedPart,
};

/// Share of the cells of goals 1 and 5 that may miss.
const MISSES_MAX: f64 = 0.2;

/// Replica-time over that of `hpa:tuned` where it reaches the SLA, geometric mean.
const REACHED_MEAN_MAX: f64 = 0.92;

/// The same at matched lateness.
const MATCHED_MEAN_MAX: f64 = 0.80;

/// Median of changes per hour over that of `hpa:tuned`.
const CHANGES_OVER_HPA_MAX: f64 = 1.5;

/// Changes per hour in any cell.
const CHANGES_MAX: f64 = 30.0;

/// Late share where something is wrong over that where all is as told.
const LATE_FACTOR_MAX: f64 = 2.0;

/// What a robust cell is measured against.
const AS_TOLD: &str = "all as told";

/// Targets of the HPA that people use without tuning, percent.
const STOCK_TARGETS_PERCENT: [u32; 3] = [50, 60, 70];

/// Room for the last bits of a ratio.
const EPSILON: f64 = 1e-9;

/// Below one request in ten thousand nobody tells the difference between two late shares.
const LATE_FLOOR: f64 = 1e-4;

/// Everything at one SLA, or over all where `sla` is absent.
pub(super) fn goals_part(scaler: &str, sla: Option<f64>, lines: &[&Line]) -> GoalsPart {
    let of = |role: Role| -> Vec<&Line> { lines.iter().copied().filter(|line| line.role == role).collect() };
    let (main, hard, cold) = (of(Role::Main), of(Role::Hard), of(Role::Cold));
    let outside_bounds = lines.iter().map(|line| line.outside_bounds).sum();
    let mut misses = Vec::new();
    GoalsPart {
        scaler: scaler.to_owned(),
        sla_percent: sla.map(|sla| round(100.0 * sla)),
        reached: reached(&main, &mut misses),
        unreached: unreached(&main, &mut misses),
        matched: matched(&main),
        changes: changes(&main, &mut misses),
        hard: hard_part(&hard, &mut misses),
        cold: cold_part(&cold, &mut misses),
        robust: robust_part(&of(Role::Robust), outside_bounds, &mut misses),
        misses,
    }
}

/// Whether an HPA is one that nobody tuned.
pub(super) fn is_stock(kind: Kind) -> bool {
    match kind {
        Kind::Hpa { target_percent, down_window_secs } => {
            STOCK_TARGETS_PERCENT.contains(&target_percent) && down_window_secs == STOCK_DOWN_WINDOW_SECS
        }
        _ => false,
    }
}

/// Replica-time on a curve over that of a rival, at the rival's late share `at`; where no setting of the curve is so little
/// late, at its least late end, against the rival's curve. `None` where one point is no curve.
pub(super) fn over(curve: &[Point], rivals: &[Point], at: &Point) -> Option<Matched> {
    if curve.len() < 2 {
        return None;
    }
    let ratio = |own: f64, rival: f64| own / rival.max(f64::MIN_POSITIVE);
    if let Some(own) = hours_at(curve, height(at)) {
        return Some(Matched { ratio: ratio(own, at.replica_hours), as_little_late: true });
    }
    let least = curve.iter().map(height).fold(f64::INFINITY, f64::min);
    let (own, rival) = (hours_at(curve, least)?, hours_at(rivals, least)?);
    Some(Matched { ratio: ratio(own, rival), as_little_late: false })
}

/// The logarithm of a late share.
fn height(point: &Point) -> f64 {
    point.late_share.max(LATE_FLOOR).ln()
}

/// Replica-time at which a curve is as little late as wanted; `None` where it never is.
fn hours_at(curve: &[Point], wanted: f64) -> Option<f64> {
    // What nothing is better than, from most to least late.
    let better = |a: &Point, b: &Point| height(a) <= height(b) && a.replica_hours < b.replica_hours;
    let mut front: Vec<&Point> =
        curve.iter().filter(|point| !curve.iter().any(|other| better(other, point))).collect();
    front.sort_by(|a, b| height(b).total_cmp(&height(a)).then(a.replica_hours.total_cmp(&b.replica_hours)));
    let reaching = front.iter().position(|point| height(point) <= wanted + EPSILON)?;
    let below = front[reaching];
    let Some(above) = reaching.checked_sub(1).map(|place| front[place]) else {
        return Some(below.replica_hours);
    };
    let share = (height(above) - wanted) / (height(above) - height(below)).max(f64::MIN_POSITIVE);
    Some(above.replica_hours + share.clamp(0.0, 1.0) * (below.replica_hours - above.replica_hours))
}

/// Geometric mean; `None` of nothing.
pub(in super::super) fn geometric_mean(ratios: &[f64]) -> Option<f64> {
    let logs: f64 = ratios.iter().map(|ratio| ratio.max(f64::MIN_POSITIVE).ln()).sum();
    (!ratios.is_empty()).then(|| (logs / ratios.len() as f64).exp())
}

fn reaches(line: &Line, point: &Point) -> bool {
    point.late_share <= allowed(line.sla)
}

fn cost_ratio(line: &Line, against: &Point) -> f64 {
    line.own.replica_hours / against.replica_hours.max(f64::MIN_POSITIVE)
}

/// Reaches the SLA at no more replica-time than `hpa:tuned`.
fn as_good_as_tuned(line: &Line) -> bool {
    reaches(line, &line.own) && cost_ratio(line, &line.tuned) <= 1.0 + EPSILON
}

fn few_miss(misses: usize, cells: usize) -> bool {
    misses as f64 <= MISSES_MAX * cells as f64
}

fn reached(main: &[&Line], misses: &mut Vec<MissPart>) -> ReachedPart {
    let lines: Vec<&&Line> = main.iter().filter(|line| reaches(line, &line.tuned)).collect();
    let ratios: Vec<f64> = lines.iter().map(|line| cost_ratio(line, &line.tuned)).collect();
    let mean = geometric_mean(&ratios);
    let missing: Vec<&&&Line> = lines.iter().filter(|line| !as_good_as_tuned(line)).collect();
    misses.extend(missing.iter().map(|line| MissPart::new(1, line, &line.tuned)));
    ReachedPart {
        cells: lines.len(),
        as_good: lines.len() - missing.len(),
        geometric_mean: mean.map(round),
        holds: mean.map(|mean| mean <= REACHED_MEAN_MAX && few_miss(missing.len(), lines.len())),
    }
}

fn unreached(main: &[&Line], misses: &mut Vec<MissPart>) -> UnreachedPart {
    let lines: Vec<&&Line> = main.iter().filter(|line| !reaches(line, &line.tuned)).collect();
    let as_good = |line: &Line| {
        let fewer = line.own.late_share < line.tuned.late_share;
        reaches(line, &line.own) || (fewer && cost_ratio(line, &line.tuned) <= 1.0 + EPSILON)
    };
    let missing: Vec<&&&Line> = lines.iter().filter(|line| !as_good(line)).collect();
    misses.extend(missing.iter().map(|line| MissPart::new(2, line, &line.tuned)));
    UnreachedPart {
        cells: lines.len(),
        as_good: lines.len() - missing.len(),
        holds: (!lines.is_empty()).then_some(missing.is_empty()),
    }
}

fn matched(main: &[&Line]) -> MatchedLatenessPart {
    let ratios = |of: fn(&Line) -> Option<Matched>| -> Vec<f64> {
        main.iter().filter_map(|line| of(line)).map(|matched| matched.ratio).collect()
    };
    let hpa = geometric_mean(&ratios(|line| line.over_hpa));
    let planner = geometric_mean(&ratios(|line| line.over_planner));
    let as_little_late = |line: &&&Line| line.over_hpa.is_some_and(|matched| matched.as_little_late);
    MatchedLatenessPart {
        cells: main.iter().filter(as_little_late).count(),
        of_cells: main.len(),
        over_hpa: hpa.map(round),
        over_planner: planner.map(round),
        holds: hpa.zip(planner).map(|(hpa, planner)| hpa <= MATCHED_MEAN_MAX && planner < 1.0),
    }
}

fn changes(main: &[&Line], misses: &mut Vec<MissPart>) -> ChangesPart {
    let own = median(main.iter().map(|line| line.changes_per_hour).collect());
    let tuned = median(main.iter().map(|line| line.tuned_changes_per_hour).collect());
    let ratio = own.zip(tuned).map(|(own, tuned)| own / tuned.max(f64::MIN_POSITIVE));
    let restless = main.iter().filter(|line| CHANGES_MAX < line.changes_per_hour);
    misses.extend(restless.map(|line| MissPart::new(4, line, &line.tuned)));
    let most = main.iter().map(|line| line.changes_per_hour).fold(0.0, f64::max);
    ChangesPart {
        median: own.map(round),
        over_hpa: ratio.map(round),
        most,
        holds: ratio.map(|ratio| ratio <= CHANGES_OVER_HPA_MAX && most <= CHANGES_MAX),
    }
}

/// The HPA with the fewest late among those that have both fewer late and less replica-time.
fn dominating(line: &Line, among: impl Fn(&Point) -> bool) -> Option<&Point> {
    let own = &line.own;
    let better = line.hpa.iter().filter(|point| {
        among(point) && point.late_share < own.late_share && point.replica_hours < own.replica_hours
    });
    better.min_by(|a, b| a.late_share.total_cmp(&b.late_share))
}

fn hard_part(hard: &[&Line], misses: &mut Vec<MissPart>) -> DominatedPart {
    let mut dominated = 0;
    for line in hard {
        if let Some(point) = dominating(line, |_| true) {
            dominated += 1;
            misses.push(MissPart::new(5, line, point));
        }
    }
    let holds = (!hard.is_empty()).then(|| few_miss(dominated, hard.len()));
    DominatedPart { cells: hard.len(), dominated, holds }
}

fn cold_part(cold: &[&Line], misses: &mut Vec<MissPart>) -> ColdPart {
    let mut dominated = 0;
    for line in cold {
        if let Some(point) = dominating(line, |point| point.stock) {
            dominated += 1;
            misses.push(MissPart::new(5, line, point));
        }
    }
    let reached = cold.iter().filter(|line| reaches(line, &line.tuned));
    ColdPart {
        cells: cold.len(),
        dominated,
        reached: reached.clone().count(),
        as_good: reached.filter(|line| as_good_as_tuned(line)).count(),
        holds: (!cold.is_empty()).then_some(dominated == 0),
    }
}

fn robust_part(robust: &[&Line], outside_bounds: u64, misses: &mut Vec<MissPart>) -> RobustPart {
    let (mut doubled, mut doubled_anyway, mut doubled_and_missed) = (0, 0, 0);
    for line in robust {
        let Some(as_told) = &line.as_told else { continue };
        let most = LATE_FACTOR_MAX * as_told.late_share.max(LATE_FLOOR);
        if most < line.own.late_share {
            doubled += 1;
            doubled_anyway += usize::from(most < line.late_anyway);
            doubled_and_missed += usize::from(!reaches(line, &line.own));
            misses.push(MissPart::new(6, line, &Point { setting: AS_TOLD.to_owned(), ..as_told.clone() }));
        }
    }
    let holds = (!robust.is_empty()).then_some(doubled == 0 && outside_bounds == 0);
    RobustPart { cells: robust.len(), doubled, doubled_anyway, doubled_and_missed, outside_bounds, holds }
}

#[cfg(test)]
#[path = "count_tests.rs"]
mod tests;
