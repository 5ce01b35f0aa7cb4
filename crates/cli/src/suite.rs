//! Which worlds are judged, and who scales them: a suite file, or what the command line names. In: TOML or names. Out:
//! [`Suite`], checked. Bad input is refused with file, line or field, and what was expected.

use std::collections::BTreeMap;

use rlscaler_sim::profile::Profile;
use rlscaler_sim::scenario::Scenario;
use rlscaler_sim::seed::Seed;
use rlscaler_sim::trace::Trace;
use serde::Deserialize;

use crate::Unusable;
use crate::evaluate::contestant::Contestant;

/// The suite `evaluate` runs when nothing else is asked for.
const STANDING: &str = include_str!("../../../suites/standing.toml");

/// Version of the suite file's form.
const VERSION: u32 = 1;

/// Largest suite file read, bytes.
const MAX_FILE_BYTES: u64 = 256 * 1024;

/// Most cells (cases x seeds) of one suite; more is a mistake rather than an evening.
const MAX_CELLS: usize = 10_000;

/// Most seeds.
const MAX_SEEDS: u32 = 1_000;

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
    /// Share of requests that must not be late, 0 < sla < 1.
    pub(crate) sla: f64,
    /// The same draws for every scaler; one world per case and seed.
    pub(crate) seeds: Vec<Seed>,
    /// Who is compared.
    pub(crate) contestants: Vec<Contestant>,
    /// The worlds.
    pub(crate) cases: Vec<Case>,
}

/// One world, but for its seed.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// The trace's name.
    pub(crate) trace: String,
    /// The profile's name.
    pub(crate) profile: String,
    /// What is special about it.
    pub(crate) note: Option<String>,
    /// The world.
    pub(crate) scenario: Scenario,
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
    /// Number of seeds.
    pub(crate) seeds: Option<u32>,
    /// First seed.
    pub(crate) first_seed: Option<u64>,
    /// Percent.
    pub(crate) sla_percent: Option<f64>,
}

/// A suite from a file, or the standing one.
pub(crate) fn from_file(file: Option<&str>, wishes: &Wishes) -> anyhow::Result<Suite> {
    let Some(file) = file else { return parse(STANDING, "suites/standing.toml", wishes) };
    let cannot = |error: std::io::Error| Unusable(format!("{file}: cannot be read: {error}"));
    let opened = std::fs::File::open(file).map_err(cannot)?;
    let mut text = String::new();
    std::io::Read::read_to_string(&mut std::io::Read::take(opened, MAX_FILE_BYTES), &mut text)
        .map_err(cannot)?;
    parse(&text, file, wishes)
}

/// A suite of every trace with every profile.
pub(crate) fn from_names(
    traces: &[String],
    profiles: &[String],
    part: Part,
    wishes: &Wishes,
) -> anyhow::Result<Suite> {
    let wire = Wire {
        version: VERSION,
        name: traces.join(","),
        sla_percent: 99.0,
        seeds: 1,
        scalers: DEFAULT_SCALERS.map(str::to_owned).to_vec(),
        cases: vec![WireCase {
            traces: traces.to_vec(),
            profiles: profiles.to_vec(),
            history_hours: part.history_hours,
            hours: part.hours,
            ..WireCase::default()
        }],
    };
    wire.check(&Place { file: COMMAND_LINE }, wishes)
}

fn parse(text: &str, file: &str, wishes: &Wishes) -> anyhow::Result<Suite> {
    let wire: Wire = toml::from_str(text)
        .map_err(|fault| Unusable(format!("{file}: not a suite: {}", fault.to_string().trim_end())))?;
    wire.check(&Place { file }, wishes)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    version: u32,
    name: String,
    sla_percent: f64,
    seeds: u32,
    scalers: Vec<String>,
    cases: Vec<WireCase>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct WireCase {
    traces: Vec<String>,
    profiles: Vec<String>,
    note: Option<String>,
    history_hours: Option<f64>,
    hours: Option<f64>,
    true_capacity: Option<f64>,
    dispersion: Option<f64>,
    failures_per_pod_hour: Option<f64>,
    missing: Option<f64>,
}

/// Where a fault is.
struct Place<'a> {
    file: &'a str,
}

impl Place<'_> {
    /// Refuses a value that is not `valid`.
    fn must(
        &self,
        field: &str,
        valid: bool,
        expected: &str,
        found: impl std::fmt::Display,
    ) -> anyhow::Result<()> {
        if valid {
            return Ok(());
        }
        let file = self.file;
        Err(Unusable(format!("{file}: {field}: expected {expected}, found {found}")).into())
    }
}

impl Wire {
    fn check(self, place: &Place, wishes: &Wishes) -> anyhow::Result<Suite> {
        let Wire { version, name, sla_percent, seeds, scalers, cases } = self;
        place.must("version", version == VERSION, "1", version)?;
        let flags = Place { file: COMMAND_LINE };
        let (percent, by) = match wishes.sla_percent {
            Some(percent) => (percent, (&flags, "--sla")),
            None => (sla_percent, (place, "sla_percent")),
        };
        let valid = 0.0 < percent && percent < 100.0;
        by.0.must(by.1, valid, "a percentage over 0 and under 100", percent)?;
        let (count, by) = match wishes.seeds {
            Some(count) => (count, (&flags, "--seeds")),
            None => (seeds, (place, "seeds")),
        };
        by.0.must(by.1, (1..=MAX_SEEDS).contains(&count), "1 to 1000", count)?;
        let first = wishes.first_seed.unwrap_or(1);
        let contestants = if wishes.scalers.is_empty() {
            contestants(&scalers, place, "scalers")?
        } else {
            contestants(&wishes.scalers, &flags, "--scalers")?
        };
        let sla = percent / 100.0;
        let mut traces = BTreeMap::new();
        let mut worlds = Vec::new();
        for (index, case) in cases.iter().enumerate() {
            case.check(place, index, &mut traces, &mut worlds)?;
        }
        place.must("cases", !worlds.is_empty(), "at least one trace and one profile", "none")?;
        let cells = worlds.len() * count as usize;
        place.must("cases", cells <= MAX_CELLS, "at most 10000 cells", cells)?;
        let seeds = (0..u64::from(count)).map(|index| Seed(first.wrapping_add(index))).collect();
        Ok(Suite { name, sla, seeds, contestants, cases: worlds })
    }
}

fn contestants(names: &[String], place: &Place, field: &str) -> anyhow::Result<Vec<Contestant>> {
    let mut contestants: Vec<Contestant> = Vec::new();
    for name in names {
        let contestant = Contestant::parse(name).map_err(|expected| {
            Unusable(format!("{}: {field}: expected {expected}, found `{name}`", place.file))
        })?;
        let twice = contestants.iter().any(|known| known.name == contestant.name);
        place.must(field, !twice, "every scaler once", format!("`{name}` twice"))?;
        contestants.push(contestant);
    }
    place.must(field, !contestants.is_empty(), "at least one scaler", "none")?;
    Ok(contestants)
}

impl WireCase {
    fn check(
        &self,
        place: &Place,
        index: usize,
        traces: &mut BTreeMap<String, Trace>,
        worlds: &mut Vec<Case>,
    ) -> anyhow::Result<()> {
        let checks = [
            ("history_hours", self.history_hours, 0.0..=192.0, "0 to 192"),
            ("hours", self.hours, 0.01..=8_760.0, "0.01 to 8760"),
            ("true_capacity", self.true_capacity, 0.1..=10.0, "0.1 to 10"),
            ("dispersion", self.dispersion, 1.0..=100.0, "1 to 100"),
            ("failures_per_pod_hour", self.failures_per_pod_hour, 0.0..=60.0, "0 to 60"),
            ("missing", self.missing, 0.0..=1.0, "0 to 1"),
        ];
        for (field, value, range, expected) in checks {
            let Some(value) = value else { continue };
            place.must(&format!("cases[{index}].{field}"), range.contains(&value), expected, value)?;
        }
        for name in &self.traces {
            if !traces.contains_key(name) {
                let trace = Trace::open(name).map_err(|fault| Unusable(fault_chain(&fault)))?;
                traces.insert(name.clone(), trace);
            }
            for profile in &self.profiles {
                let profile = Profile::open(profile).map_err(|fault| Unusable(fault_chain(&fault)))?;
                worlds.push(self.world(place, index, &traces[name], &profile)?);
            }
        }
        Ok(())
    }

    fn world(&self, place: &Place, index: usize, trace: &Trace, profile: &Profile) -> anyhow::Result<Case> {
        let mut scenario = Scenario::new(profile, trace);
        let (start_secs, secs) = part(scenario.duration_secs, self.history_hours, self.hours);
        let there = start_secs + secs <= scenario.duration_secs && scenario.interval_secs <= secs;
        let found = format!("{:.2} hours in {}", scenario.duration_secs / HOUR_SECS, trace.name());
        let expected =
            "a trace at least as long as history_hours + hours, and a quarter of a minute to judge";
        place.must(&format!("cases[{index}].hours"), there, expected, found)?;
        scenario = scenario.part(start_secs, secs);
        scenario.true_capacity = self.true_capacity.unwrap_or(scenario.true_capacity);
        scenario.dispersion = self.dispersion.unwrap_or(scenario.dispersion);
        scenario.failures_per_pod_hour = self.failures_per_pod_hour.unwrap_or(scenario.failures_per_pod_hour);
        scenario.metrics.missing = self.missing.unwrap_or(scenario.metrics.missing);
        let (trace, profile) = (trace.name().to_owned(), profile.name.clone());
        Ok(Case { trace, profile, note: self.note.clone(), scenario })
    }
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
    /// Its name in tables: trace, profile, and what is special.
    pub(crate) fn label(&self) -> String {
        let note = self.note.as_ref().map_or(String::new(), |note| format!(", {note}"));
        format!("{} / {}{note}", self.trace, self.profile)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standing_suite_can_be_read() {
        let suite = from_file(None, &Wishes::default()).unwrap();
        assert!(10 <= suite.cases.len() && suite.contestants.len() == DEFAULT_SCALERS.len());
    }

    #[test]
    fn the_standing_suite_judges_on_nothing_a_model_was_trained_or_chosen_on() {
        let suite = from_file(None, &Wishes::default()).unwrap();
        let used: Vec<String> = rlscaler_rl::episodes::training_traces()
            .iter()
            .map(|trace| trace.name().to_owned())
            .chain(rlscaler_rl::choosing::cases().iter().map(|case| case.trace.name().to_owned()))
            .collect();
        for case in &suite.cases {
            assert!(!used.contains(&case.trace), "{} is not unseen", case.trace);
        }
    }

    #[test]
    fn a_wrong_suite_is_refused_with_its_field() {
        let good = "version = 1\nname = \"t\"\nsla_percent = 99\nseeds = 1\nscalers = [\"planner\"]\n\
                    [[cases]]\ntraces = [\"gen:step:1\"]\nprofiles = [\"web\"]\nhours = 1\n";
        assert!(parse(good, "my.toml", &Wishes::default()).is_ok());
        for (from, to, named) in [
            ("version = 1", "version = 2", "version: expected 1, found 2"),
            ("seeds = 1", "seeds = 0", "seeds: expected 1 to 1000, found 0"),
            ("seeds = 1", "sedes = 1", "sedes"),
            ("99", "100", "sla_percent: expected a percentage over 0 and under 100, found 100"),
            ("\"planner\"", "\"hpa:x\"", "scalers: expected "),
            ("\"planner\"", "\"planner\", \"planner\"", "`planner` twice"),
            ("gen:step:1", "gen:stop:1", "gen:stop:1: expected "),
            ("\"web\"", "\"wab\"", "wab: cannot be read"),
            ("hours = 1", "hours = 500", "cases[0].hours: expected a trace at least as long"),
            ("hours = 1", "hours = -1", "cases[0].hours: expected 0.01 to 8760, found -1"),
        ] {
            let text = good.replacen(from, to, 1);
            let fault = parse(&text, "my.toml", &Wishes::default()).err().unwrap().to_string();
            assert!(fault.contains(named), "{from} -> {to}: {fault}");
        }
    }

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
