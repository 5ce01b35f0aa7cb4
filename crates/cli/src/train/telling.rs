//! What a training run says while it goes: a bar where stderr is a terminal, a line now and then where it is not. In:
//! rows of its course. Out: stderr.

use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use rlscaler_rl::validation::Score;

use super::course::Row;

/// Between two lines of a log.
const LINE_PERIOD: Duration = Duration::from_secs(15);

/// One of the two ways.
pub(super) enum Teller {
    /// For a person who watches.
    Bar(ProgressBar),
    /// For a log; the time of the last line.
    Lines {
        /// Updates of the whole run.
        of: u64,
        /// When the last line was written.
        last: Mutex<Option<Instant>>,
    },
    /// For tests.
    #[cfg(test)]
    Nobody,
}

impl Teller {
    /// By what stderr is; `done` of `of` updates were made before.
    pub(super) fn new(of: u64, done: u64) -> Self {
        if !std::io::stderr().is_terminal() {
            return Teller::Lines { of, last: Mutex::new(None) };
        }
        let style =
            ProgressStyle::with_template("{wide_bar} {pos} of {len} updates, about {eta} left\n{msg}")
                .expect("the template is well-formed");
        let bar = ProgressBar::new(of).with_position(done).with_style(style);
        bar.reset_eta();
        bar.set_message("drawing episodes");
        Teller::Bar(bar)
    }

    /// An update was made; `score` is the last there was.
    pub(super) fn tell(&self, row: &Row, score: Option<(u64, Score)>) {
        let line = line(row, score);
        match self {
            Teller::Bar(bar) => {
                bar.set_position(row.updates());
                bar.set_message(line);
            }
            Teller::Lines { of, last } => {
                let mut last = last.lock().expect("nobody panics while holding it");
                if row.score.is_some() || last.is_none_or(|last| LINE_PERIOD <= last.elapsed()) {
                    *last = Some(Instant::now());
                    print(&format!("update {} of {of}: {line}", row.updates()));
                }
            }
            #[cfg(test)]
            Teller::Nobody => {}
        }
    }

    /// Something else.
    pub(super) fn say(&self, line: &str) {
        match self {
            Teller::Bar(bar) => bar.suspend(|| print(line)),
            Teller::Lines { .. } => print(line),
            #[cfg(test)]
            Teller::Nobody => {}
        }
    }
}

/// A line that nobody reads any more is no reason to stop learning.
fn print(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// The figures of an update beside the planner's.
fn line(row: &Row, score: Option<(u64, Score)>) -> String {
    let report = &row.report;
    let mut text = format!(
        "loss {:.3} (planner {:.3}), late {:.2} % ({:.2} %), replicas {:.2} times the planner's",
        report.loss,
        report.planner_loss,
        100.0 * report.late_share,
        100.0 * report.planner_late_share,
        report.replicas / report.planner_replicas,
    );
    if let Some((updates, score)) = score {
        text.push_str(&format!("; chosen-on loads after {updates}: {}", score_text(&score)));
    }
    text
}

/// A score in words.
pub(super) fn score_text(score: &Score) -> String {
    let cost = match score.matched_cost {
        Some(cost) => format!("{cost:.3} of the planner's replicas at the same lateness"),
        None => "nowhere as late as the planner".to_owned(),
    };
    format!("{cost}, {:.1} changes/h", score.changes_per_hour)
}

/// The most memory this process ever held, where the system tells.
pub(super) fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse().ok());
    kib.map(|kib: u64| format!(", peak memory {} MiB", kib / 1024)).unwrap_or_default()
}
