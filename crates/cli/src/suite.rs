//! Which worlds are judged, and who scales them: a suite file, or what the command line names. In: TOML or names. Out:
//! [`Suite`], checked. Bad input is refused with file, line or field, and what was expected.

mod file;

use std::path::PathBuf;

use rlscaler_sim::scenario::Scenario;
use rlscaler_sim::seed::Seed;

use crate::Unusable;
use crate::evaluate::competitors::Competitors;
use crate::evaluate::contestant::Contestant;
use crate::evaluate::measures::round;

/// The suites that ship, by name.
const SHIPPED: [(&str, &str); 5] = [
    ("standing", include_str!("../../../suites/standing.toml")),
    ("choosing", include_str!("../../../suites/choosing.toml")),
    ("reporting", include_str!("../../../suites/reporting.toml")),
    ("robustness", include_str!("../../../suites/robustness.toml")),
    ("reporting-robustness", include_str!("../../../suites/reporting-robustness.toml")),
];

/// Largest suite file read, bytes.
const MAX_FILE_BYTES: u64 = 256 * 1024;

/// What stands for the file in errors about flags.
const COMMAND_LINE: &str = "command line";

const HOUR_SECS: f64 = 3_600.0;

/// A trace that is longer is judged on its last day.
const LONG_TRACE_SECS: f64 = 25.0 * HOUR_SECS;

/// Length of that last day.
const DAY_SECS: f64 = 24.0 * HOUR_SECS;

/// Share of a shorter trace that is history.
const SHORT_HISTORY_SHARE: f64 = 0.25;

/// Scalers that are compared when none is named.
pub(crate) const DEFAULT_SCALERS: [&str; 7] =
    ["hpa:60", "hpa:tuned", "keda-rate", "phpa", "planner", "rl", "clairvoyant"];

/// Everything one evaluation needs.
pub(crate) struct Suite {
    /// Its name in reports.
    pub(crate) name: String,
    /// Shares of requests that must not be late, each 0 < sla < 1; every case is judged at each.
    pub(crate) slas: Vec<f64>,
    /// The same draws for every scaler; one world per case and seed.
    pub(crate) seeds: Vec<Seed>,
    /// Who is compared.
    pub(crate) contestants: Vec<Contestant>,
    /// The models among them.
    pub(crate) competitors: Competitors,
    /// The worlds.
    pub(crate) cases: Vec<Case>,
    /// Traces asked for that are not there, where leaving them out was allowed.
    pub(crate) left_out: Vec<String>,
}

/// One world, but for its seed, and what is asked for in it.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// The trace's name.
    pub(crate) trace: String,
    /// The profile's name.
    pub(crate) profile: String,
    /// What is special about it.
    pub(crate) note: Option<String>,
    /// Which goals it counts for.
    pub(crate) role: Role,
    /// Share of requests that must not be late, 0 < sla < 1.
    pub(crate) sla: f64,
    /// The SLA is told in its label, as the suite has several.
    pub(crate) shows_sla: bool,
    /// Cases of the same number differ in nothing but the SLA.
    pub(crate) world: usize,
    /// Seconds by which scalers are told that metrics are late.
    pub(crate) told_lag_secs: f64,
    /// The world.
    pub(crate) scenario: Scenario,
}

/// Which goals a case counts for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Role {
    /// None.
    #[default]
    None,
    /// The usual service with its history.
    Main,
    /// Slow starts and sudden bursts.
    Hard,
    /// The first hour of a service nobody knows.
    Cold,
    /// The same as a main case but for something the scaler is not told, or cannot see.
    Robust,
}

/// Which part of a trace is judged; what is absent is chosen by [`part`].
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Part {
    /// Hours of the trace before the judged part, which scalers may have seen.
    pub(crate) history_hours: Option<f64>,
    /// Hours judged.
    pub(crate) hours: Option<f64>,
}

/// What the command line says instead of, or on top of, a file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wishes {
    /// Names of scalers.
    pub(crate) scalers: Vec<String>,
    /// They were named by --gate and --against, not by --scalers.
    pub(crate) gated: bool,
    /// Number of seeds.
    pub(crate) seeds: Option<u32>,
    /// First seed.
    pub(crate) first_seed: Option<u64>,
    /// Percent, one or several.
    pub(crate) sla_percents: Vec<f64>,
    /// Where traces are looked for that do not ship.
    pub(crate) traces_folder: Option<PathBuf>,
    /// What happens where a trace is not there.
    pub(crate) missing: Missing,
    /// Which settings are tried.
    pub(crate) ladder: Ladder,
}

/// What happens where a trace is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Missing {
    /// Nothing is judged.
    #[default]
    Refuse,
    /// It is left out, and the report says so.
    LeaveOut,
}

/// Which settings of the planner and of models are tried beside those they run with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Ladder {
    /// All, for the cost at matched lateness.
    #[default]
    Whole,
    /// None: quicker.
    Own,
    /// None of anybody, but for those tuned in hindsight.
    Bare,
}

/// A suite that ships, by name; or from a file; or the standing one.
pub(crate) fn from_file(file: Option<&str>, wishes: &Wishes) -> anyhow::Result<Suite> {
    let name = file.unwrap_or("standing");
    if let Some((name, text)) = SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
        return file::parse(text, &format!("suites/{name}.toml"), wishes);
    }
    let cannot = |error: std::io::Error| {
        let names = SHIPPED.map(|(name, _)| name).join(", ");
        Unusable(format!("{name}: cannot be read: {error} (suites that ship: {names})"))
    };
    let opened = std::fs::File::open(name).map_err(cannot)?;
    let mut text = String::new();
    std::io::Read::read_to_string(&mut std::io::Read::take(opened, MAX_FILE_BYTES), &mut text)
        .map_err(cannot)?;
    file::parse(&text, name, wishes)
}

/// A suite of every trace with every profile.
pub(crate) fn from_names(
    traces: &[String],
    profiles: &[String],
    part: Part,
    wishes: &Wishes,
) -> anyhow::Result<Suite> {
    file::from_names(traces, profiles, part, wishes)
}

/// Start and length of the judged part of a trace, seconds. Where nothing is said, of a trace over a day the last day
/// is judged and what lies before is history; of a shorter one the first quarter is history.
pub(crate) fn part(length_secs: f64, history_hours: Option<f64>, hours: Option<f64>) -> (f64, f64) {
    let long = LONG_TRACE_SECS <= length_secs;
    let usual_secs = if long { DAY_SECS } else { (1.0 - SHORT_HISTORY_SHARE) * length_secs };
    match (history_hours, hours) {
        (Some(history), Some(hours)) => (history * HOUR_SECS, hours * HOUR_SECS),
        (Some(history), None) => {
            let start_secs = history * HOUR_SECS;
            (start_secs, (length_secs - start_secs).min(DAY_SECS))
        }
        (None, Some(hours)) => ((length_secs - hours * HOUR_SECS).max(0.0), hours * HOUR_SECS),
        (None, None) => (length_secs - usual_secs, usual_secs),
    }
}

/// An error and its causes in one line.
pub(crate) fn fault_chain(fault: &dyn std::error::Error) -> String {
    let mut text = fault.to_string();
    let mut cause = fault.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

impl Case {
    /// Whether this is the main case that a robust one is held against, at whatever SLA.
    pub(crate) fn is_twin_of(&self, robust: &Case) -> bool {
        let hours = |case: &Case| {
            let Scenario { start_secs, duration_secs, history_secs, .. } = case.scenario;
            [start_secs, duration_secs, history_secs]
        };
        self.role == Role::Main
            && (&self.trace, &self.profile, hours(self)) == (&robust.trace, &robust.profile, hours(robust))
    }

    /// Its name in tables: trace, profile, and what is special.
    pub(crate) fn label(&self) -> String {
        let note = self.note.as_ref().map_or(String::new(), |note| format!(", {note}"));
        let sla = if self.shows_sla { format!(", SLA {} %", round(100.0 * self.sla)) } else { String::new() };
        format!("{} / {}{note}{sla}", self.trace, self.profile)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_day_of_a_long_trace_is_judged_and_three_quarters_of_a_short_one() {
        let day = 86_400.0;
        for (length, history, hours, expected) in [
            (16.0 * day, None, None, (15.0 * day, day)),
            (3_600.0, None, None, (900.0, 2_700.0)),
            (16.0 * day, Some(0.0), None, (0.0, day)),
            (16.0 * day, None, Some(1.0), (16.0 * day - 3_600.0, 3_600.0)),
            (16.0 * day, Some(24.0), Some(1.0), (day, 3_600.0)),
        ] {
            assert_eq!(part(length, history, hours), expected);
        }
    }
}
