//! The live table. In: a glance at a time. Out: a block that is redrawn in a terminal, plain lines elsewhere.

use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use rlscaler_world::WorkloadNow;

use super::stage::Glance;

/// Between two lines where there is no terminal, wall time.
const LINE_PERIOD: Duration = Duration::from_secs(5);

/// Lines of the block.
const LINES: usize = 5;

pub(super) struct Live {
    screen: MultiProgress,
    lines: Vec<ProgressBar>,
    speed: u32,
    last_line: Option<Instant>,
}

impl Live {
    pub(super) fn new(speed: u32) -> Self {
        let screen = MultiProgress::new();
        let style = ProgressStyle::with_template("{wide_msg}").expect("the template is one placeholder");
        let lines =
            (0..LINES).map(|_| screen.add(ProgressBar::new_spinner().with_style(style.clone()))).collect();
        Self { screen, lines, speed, last_line: None }
    }

    pub(super) fn show(&mut self, glance: &Glance) {
        if !self.screen.is_hidden() {
            for (line, text) in self.lines.iter().zip(block(glance, self.speed)) {
                line.set_message(text);
                line.tick();
            }
        } else if self.last_line.is_none_or(|last| LINE_PERIOD <= last.elapsed()) {
            eprintln!("{}", plain_line(glance, self.speed));
            self.last_line = Some(Instant::now());
        }
    }

    /// A remark between the rows.
    pub(super) fn say(&self, text: &str) {
        match self.screen.is_hidden() {
            true => eprintln!("{text}"),
            // Fails only when the terminal is gone, and then nobody reads it.
            false => drop(self.screen.println(text)),
        }
    }

    /// Leaves the last block where it stands and draws no more.
    pub(super) fn end(self) {
        for line in &self.lines {
            line.abandon();
        }
    }
}

fn block(glance: &Glance, speed: u32) -> [String; LINES] {
    let header = format!(
        "{:<10} {:>7} {:>6} {:>9} {:>9} {:>9} {:>10}",
        "", "WANTED", "READY", "P95", "LATE 1m", "LATE", "COST"
    );
    let row = |name: &str, now: &WorkloadNow| {
        format!(
            "{name:<10} {:>7} {:>6} {:>9} {:>9} {:>9} {:>10}",
            now.wanted,
            now.ready,
            milliseconds(now.p95_secs),
            percent(now.late_ratio),
            percent(now.score.late_ratio),
            dollars(now, glance.price),
        )
    };
    [
        format!("trace {}   {:.0} requests/s   K = {speed}", clock(glance.trace_secs), glance.rate),
        header,
        row("rlscaler", &glance.workloads[0]),
        row("hpa", &glance.workloads[1]),
        format!("rlscaler's reason: {}", glance.reason),
    ]
}

fn plain_line(glance: &Glance, speed: u32) -> String {
    let part = |name: &str, now: &WorkloadNow| {
        format!(
            "{name} {}/{} p95 {} late {} {}",
            now.ready,
            now.wanted,
            milliseconds(now.p95_secs),
            percent(now.late_ratio),
            dollars(now, glance.price)
        )
    };
    format!(
        "{} K={speed} {:.0}/s | {} | {} | {}",
        clock(glance.trace_secs),
        glance.rate,
        part("rlscaler", &glance.workloads[0]),
        part("hpa", &glance.workloads[1]),
        glance.reason
    )
}

fn clock(secs: f64) -> String {
    format!("{:02}:{:02}", (secs / 60.0) as u64, (secs % 60.0) as u64)
}

fn milliseconds(secs: Option<f64>) -> String {
    secs.map_or_else(|| "-".to_owned(), |secs| format!("{:.0} ms", secs * 1000.0))
}

fn percent(ratio: f64) -> String {
    format!("{:.2} %", ratio * 100.0)
}

fn dollars(now: &WorkloadNow, price: f64) -> String {
    format!("${:.3}", now.score.replica_hours * price)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rlscaler_world::Score;

    fn glance() -> Glance {
        let score = Score {
            offered: 10,
            late_ratio: 0.01,
            replica_hours: 2.0,
            changes: 0,
            p95_secs: None,
            min_replicas: 1,
            max_replicas: 1,
            secs: 1.0,
        };
        let now = |p95_secs| WorkloadNow {
            wanted: 7,
            ready: 6,
            existing: 7,
            p95_secs,
            late_ratio: 0.002,
            score: score.clone(),
        };
        Glance {
            trace_secs: 3725.0,
            rate: 812.4,
            workloads: vec![now(Some(0.12)), now(None)],
            price: 0.1,
            reason: "planner: why".into(),
        }
    }

    #[test]
    fn a_line_tells_time_rate_replicas_latency_lateness_cost_and_reason() {
        let line = plain_line(&glance(), 5);
        let expected = "62:05 K=5 812/s | rlscaler 6/7 p95 120 ms late 0.20 % $0.200 | hpa 6/7 p95 - late 0.20 % $0.200 | planner: why";
        assert_eq!(line, expected);
    }

    #[test]
    fn the_block_has_its_columns_under_their_heads() {
        let block = block(&glance(), 5);
        assert!(block[1..4].iter().all(|line| line.len() == block[1].len()), "{block:#?}");
        assert!(block[0].contains("K = 5"));
    }
}
