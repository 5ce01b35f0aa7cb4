//! The course of a training run: a row per update, as CSV. In: what each update reports, now and then a score on the
//! loads that models are chosen on. Out: the same text for the same run, however often it was interrupted; no time of
//! day is in it.

use std::fmt::Write;

use rlscaler_rl::pathwise::UpdateReport;
use rlscaler_rl::validation::Score;

/// One update.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Row {
    /// What it reports.
    pub(super) report: UpdateReport,
    /// How the net did after it, where that was looked at.
    pub(super) score: Option<Score>,
}

impl Row {
    /// Updates made with it.
    pub(super) fn updates(&self) -> u64 {
        self.report.update + 1
    }
}

/// All updates from the first.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Course {
    rows: Vec<Row>,
}

/// A column: its name, and the figure of a report.
type Column = (&'static str, fn(&mut UpdateReport) -> &mut f64);

/// After the number of updates and before the scores.
const COLUMNS: [Column; 8] = [
    ("loss", |report| &mut report.loss),
    ("planner_loss", |report| &mut report.planner_loss),
    ("late_share", |report| &mut report.late_share),
    ("planner_late_share", |report| &mut report.planner_late_share),
    ("replicas_over_need", |report| &mut report.replicas),
    ("planner_replicas_over_need", |report| &mut report.planner_replicas),
    ("critic_error", |report| &mut report.critic_error),
    ("gradient_norm", |report| &mut report.gradient_norm),
];

/// Columns around those: updates made; scores, empty where nobody looked.
const FIRST: &str = "updates";
const SCORES: [&str; 2] = ["chosen_on_matched_cost", "chosen_on_changes_per_hour"];

/// Why a course cannot be gone on with.
#[derive(Debug, thiserror::Error, PartialEq)]
pub(super) enum CourseFault {
    /// Of another version of this program, or no CSV of its.
    #[error("line 1: expected {expected:?}")]
    Head {
        /// The head.
        expected: String,
    },
    /// Not a row.
    #[error("line {line}: expected update {expected} and its figures")]
    Row {
        /// Counted from 1.
        line: usize,
        /// The update that belongs there.
        expected: u64,
    },
    /// Shorter than the checkpoint.
    #[error("has {rows} updates and the checkpoint {updates}: one of the two is of another run")]
    Short {
        /// Updates in it.
        rows: usize,
        /// Updates of the checkpoint.
        updates: u64,
    },
}

impl Course {
    /// In order.
    pub(super) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The next update.
    pub(super) fn push(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// The last score, and after how many updates.
    pub(super) fn last_score(&self) -> Option<(u64, Score)> {
        self.rows.iter().rev().find_map(|row| Some((row.updates(), row.score?)))
    }

    /// As CSV.
    pub(super) fn csv(&self) -> String {
        let mut text = head();
        for row in &self.rows {
            let mut report = row.report;
            let _ = write!(text, "{}", row.updates());
            for (_, figure) in COLUMNS {
                let _ = write!(text, ",{}", figure(&mut report));
            }
            let cost = row.score.and_then(|score| score.matched_cost);
            for score in [cost, row.score.map(|score| score.changes_per_hour)] {
                let _ = write!(text, ",{}", score.map(|score| score.to_string()).unwrap_or_default());
            }
            text.push('\n');
        }
        text
    }

    /// The first `updates` updates of a CSV; what comes after them will be made anew.
    pub(super) fn read(csv: &str, updates: u64) -> Result<Self, CourseFault> {
        let head = head();
        let Some(body) = csv.strip_prefix(&head) else {
            return Err(CourseFault::Head { expected: head.trim_end().to_owned() });
        };
        let mut rows = Vec::new();
        for (index, line) in body.lines().take(usize::try_from(updates).unwrap_or(usize::MAX)).enumerate() {
            let expected = index as u64 + 1;
            let fault = CourseFault::Row { line: index + 2, expected };
            rows.push(row(line).filter(|row| row.updates() == expected).ok_or(fault)?);
        }
        if (rows.len() as u64) < updates {
            return Err(CourseFault::Short { rows: rows.len(), updates });
        }
        Ok(Self { rows })
    }
}

fn head() -> String {
    let names: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).chain(SCORES).collect();
    format!("{FIRST},{}\n", names.join(","))
}

fn row(line: &str) -> Option<Row> {
    let mut cells = line.split(',');
    let update = cells.next()?.parse::<u64>().ok()?.checked_sub(1)?;
    let mut report = UpdateReport { update, ..UpdateReport::default() };
    for (_, figure) in COLUMNS {
        *figure(&mut report) = cells.next()?.parse().ok()?;
    }
    let mut score = || match cells.next()? {
        "" => Some(None),
        cell => cell.parse::<f64>().ok().map(Some),
    };
    let (matched_cost, changes_per_hour) = (score()?, score()?);
    let score = changes_per_hour.map(|changes_per_hour| Score { matched_cost, changes_per_hour });
    cells.next().is_none().then_some(Row { report, score })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(updates: u64) -> Course {
        let score = |update| match update % 3 {
            0 => None,
            1 => Some(Score { matched_cost: None, changes_per_hour: 7.25 }),
            _ => Some(Score { matched_cost: Some(1.0 / 3.0), changes_per_hour: 0.0 }),
        };
        let report = |update| UpdateReport {
            update,
            loss: 0.1 + 0.2,
            late_share: 1e-17 * update as f64,
            gradient_norm: 1825.31 / 7.0,
            ..UpdateReport::default()
        };
        Course {
            rows: (0..updates).map(|update| Row { report: report(update), score: score(update) }).collect(),
        }
    }

    #[test]
    fn a_course_reads_back_to_the_bit_as_far_as_it_is_asked_for() {
        let csv = course(7).csv();
        assert_eq!(Course::read(&csv, 7).unwrap(), course(7));
        assert_eq!(Course::read(&csv, 5).unwrap(), course(5));
        assert_eq!(Course::read(&csv, 0).unwrap(), course(0));
        assert_eq!(csv.lines().count(), 8);
        assert!(csv.starts_with("updates,loss,planner_loss,"), "{csv}");
    }

    #[test]
    fn a_torn_foreign_or_short_course_is_refused() {
        let csv = course(3).csv();
        assert_eq!(Course::read(&csv, 4).unwrap_err(), CourseFault::Short { rows: 3, updates: 4 });
        assert_eq!(
            Course::read(&csv[..csv.len() - 9], 3).unwrap_err(),
            CourseFault::Row { line: 4, expected: 3 }
        );
        let doubled = format!("{csv}{}", csv.lines().last().unwrap());
        assert_eq!(Course::read(&doubled, 4).unwrap_err(), CourseFault::Row { line: 5, expected: 4 });
        assert!(matches!(Course::read("", 1), Err(CourseFault::Head { .. })));
        assert!(matches!(Course::read("a,b\n1,2\n", 1), Err(CourseFault::Head { .. })));
    }
}
