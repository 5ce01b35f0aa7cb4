//! The form of a suite file, and how it becomes a [`Suite`]: every trace with every profile at every SLA. In: TOML, and
//! what the command line adds. Out: the suite. Never: a case that was asked for and silently is not there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rlscaler_sim::profile::Profile;
use rlscaler_sim::scenario::Scenario;
use rlscaler_sim::seed::Seed;
use rlscaler_sim::trace::{Trace, bundled};
use serde::Deserialize;

use super::{
    COMMAND_LINE, Case, DEFAULT_SCALERS, HOUR_SECS, Ladder, Missing, Part, Role, Suite, Wishes, fault_chain,
    part,
};
use crate::Unusable;
use crate::evaluate::competitors::Competitors;
use crate::evaluate::contestant::Contestant;

/// Version of the suite file's form.
const VERSION: u32 = 1;

/// Most cells (cases x seeds) of one suite; more is a mistake rather than an evening.
const MAX_CELLS: usize = 10_000;

/// Most seeds.
const MAX_SEEDS: u32 = 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    version: u32,
    name: String,
    sla_percent: Option<f64>,
    sla_percents: Option<Vec<f64>>,
    seeds: u32,
    scalers: Vec<String>,
    ladder: Option<bool>,
    cases: Vec<WireCase>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct WireCase {
    traces: Vec<String>,
    profiles: Vec<String>,
    note: Option<String>,
    #[serde(default)]
    role: Role,
    history_hours: Option<f64>,
    hours: Option<f64>,
    true_capacity: Option<f64>,
    dispersion: Option<f64>,
    failures_per_pod_hour: Option<f64>,
    missing: Option<f64>,
    metric_lag_seconds: Option<f64>,
}

pub(super) fn parse(text: &str, file: &str, wishes: &Wishes) -> anyhow::Result<Suite> {
    let wire: Wire = toml::from_str(text)
        .map_err(|fault| Unusable(format!("{file}: not a suite: {}", fault.to_string().trim_end())))?;
    wire.check(&Place { file }, wishes)
}

pub(super) fn from_names(
    traces: &[String],
    profiles: &[String],
    part: Part,
    wishes: &Wishes,
) -> anyhow::Result<Suite> {
    let wire = Wire {
        version: VERSION,
        name: traces.join(","),
        sla_percent: Some(99.0),
        sla_percents: None,
        seeds: 1,
        scalers: DEFAULT_SCALERS.map(str::to_owned).to_vec(),
        ladder: None,
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
        let Wire { version, name, sla_percent, sla_percents, seeds, scalers, ladder, cases } = self;
        place.must("version", version == VERSION, "1", version)?;
        let flags = Place { file: COMMAND_LINE };
        let slas = match (wishes.sla_percents.as_slice(), sla_percent, sla_percents) {
            ([], Some(percent), None) => slas(&[percent], place, "sla_percent")?,
            ([], None, Some(percents)) => slas(&percents, place, "sla_percents")?,
            ([], _, _) => {
                place.must("sla_percent", false, "it or sla_percents", "both or neither")?;
                vec![]
            }
            (percents, _, _) => slas(percents, &flags, "--sla")?,
        };
        let (count, by) = match wishes.seeds {
            Some(count) => (count, (&flags, "--seeds")),
            None => (seeds, (place, "seeds")),
        };
        by.0.must(by.1, (1..=MAX_SEEDS).contains(&count), "1 to 1000", count)?;
        let first = wishes.first_seed.unwrap_or(1);
        let mut competitors = Competitors::builtin();
        let ladder = match (wishes.ladder, ladder) {
            (Ladder::Whole, Some(false)) => Ladder::Own,
            (wish, _) => wish,
        };
        let contestants = if wishes.scalers.is_empty() {
            contestants(&scalers, &mut competitors, ladder, place, "scalers")?
        } else {
            let named_by = if wishes.gated { "--gate, --against" } else { "--scalers" };
            contestants(&wishes.scalers, &mut competitors, ladder, &flags, named_by)?
        };
        let mut found = Traces::new(wishes);
        let mut worlds = Vec::new();
        for (index, case) in cases.iter().enumerate() {
            case.check(place, index, &mut found, &mut worlds)?;
        }
        place.must("cases", !worlds.is_empty(), "at least one trace and one profile", "none")?;
        every_robust_case_has_its_twin(&worlds, place)?;
        let cells = worlds.len() * slas.len() * count as usize;
        place.must("cases", cells <= MAX_CELLS, "at most 10000 cells", cells)?;
        let seeds = (0..u64::from(count)).map(|index| Seed(first.wrapping_add(index))).collect();
        let cases = at_each_sla(&worlds, &slas);
        Ok(Suite { name, slas, seeds, contestants, competitors, cases, left_out: found.left_out })
    }
}

/// Percents as shares.
fn slas(percents: &[f64], place: &Place, field: &str) -> anyhow::Result<Vec<f64>> {
    place.must(field, !percents.is_empty(), "at least one percentage", "none")?;
    let mut slas = Vec::new();
    for percent in percents {
        let valid = 0.0 < *percent && *percent < 100.0;
        place.must(field, valid, "a percentage over 0 and under 100", percent)?;
        let sla = percent / 100.0;
        place.must(field, !slas.contains(&sla), "every percentage once", format!("{percent} twice"))?;
        slas.push(sla);
    }
    Ok(slas)
}

/// A robust case is told by the main case of the same trace, profile and hours.
fn every_robust_case_has_its_twin(worlds: &[Case], place: &Place) -> anyhow::Result<()> {
    for case in worlds.iter().filter(|case| case.role == Role::Robust) {
        let there = worlds.iter().any(|other| other.is_twin_of(case));
        let expected =
            "a case with role main of the same trace, profile and hours for every one with role robust";
        place.must("cases", there, expected, format!("none for {}", case.label()))?;
    }
    Ok(())
}

/// Every world at each SLA, the SLAs of one world side by side.
fn at_each_sla(worlds: &[Case], slas: &[f64]) -> Vec<Case> {
    let of_world = |(world, case): (usize, &Case)| -> Vec<Case> {
        let shows_sla = 1 < slas.len();
        slas.iter().map(|sla| Case { sla: *sla, shows_sla, world, ..case.clone() }).collect()
    };
    worlds.iter().enumerate().flat_map(of_world).collect()
}

fn contestants(
    names: &[String],
    competitors: &mut Competitors,
    ladder: Ladder,
    place: &Place,
    field: &str,
) -> anyhow::Result<Vec<Contestant>> {
    let mut contestants: Vec<Contestant> = Vec::new();
    for name in names {
        let contestant = Contestant::parse(name, competitors, ladder)
            .map_err(|fault| Unusable(format!("{}: {field}: {fault}", place.file)))?;
        let twice = contestants.iter().any(|known| known.name == contestant.name);
        place.must(field, !twice, "every scaler once", format!("`{name}` twice"))?;
        contestants.push(contestant);
    }
    place.must(field, !contestants.is_empty(), "at least one scaler", "none")?;
    Ok(contestants)
}

/// Traces that were found, each read once.
struct Traces<'a> {
    wishes: &'a Wishes,
    read: BTreeMap<String, Trace>,
    left_out: Vec<String>,
}

impl<'a> Traces<'a> {
    fn new(wishes: &'a Wishes) -> Self {
        Self { wishes, read: BTreeMap::new(), left_out: vec![] }
    }

    /// The trace of this name; `None` where it is not there and may be left out.
    fn get(&mut self, name: &str) -> anyhow::Result<Option<&Trace>> {
        if self.left_out.iter().any(|known| known == name) {
            return Ok(None);
        }
        if !self.read.contains_key(name) {
            let made = name.starts_with("gen:") || bundled::load(name).is_some();
            let path = if made { None } else { Some(self.path(name)) };
            if let Some(path) = path.as_ref().filter(|path| !path.exists()) {
                if self.wishes.missing == Missing::LeaveOut {
                    self.left_out.push(name.to_owned());
                    return Ok(None);
                }
                let hint = "a trace that does not ship needs its file's path, or --traces-folder with the folder \
                            it is in; --skip-missing leaves it out";
                return Err(Unusable(format!(
                    "{}: cannot be read: there is no such file; {hint}",
                    path.display()
                ))
                .into());
            }
            let what = path.map_or(name.to_owned(), |path| path.display().to_string());
            let trace = Trace::open(&what).map_err(|fault| Unusable(fault_chain(&fault)))?;
            self.read.insert(name.to_owned(), trace);
        }
        Ok(self.read.get(name))
    }

    /// The file of a trace that does not ship: as named, or in the folder, with or without `.csv`.
    fn path(&self, name: &str) -> PathBuf {
        let named = Path::new(name);
        let Some(folder) = self.wishes.traces_folder.as_ref().filter(|_| !named.exists()) else {
            return named.to_owned();
        };
        let whole = folder.join(name);
        if whole.exists() { whole } else { folder.join(format!("{name}.csv")) }
    }
}

impl WireCase {
    fn check(
        &self,
        place: &Place,
        index: usize,
        traces: &mut Traces<'_>,
        worlds: &mut Vec<Case>,
    ) -> anyhow::Result<()> {
        let checks = [
            ("history_hours", self.history_hours, 0.0..=192.0, "0 to 192"),
            ("hours", self.hours, 0.01..=8_760.0, "0.01 to 8760"),
            ("true_capacity", self.true_capacity, 0.1..=10.0, "0.1 to 10"),
            ("dispersion", self.dispersion, 1.0..=100.0, "1 to 100"),
            ("failures_per_pod_hour", self.failures_per_pod_hour, 0.0..=60.0, "0 to 60"),
            ("missing", self.missing, 0.0..=1.0, "0 to 1"),
            ("metric_lag_seconds", self.metric_lag_seconds, 0.0..=600.0, "0 to 600"),
        ];
        for (field, value, range, expected) in checks {
            let Some(value) = value else { continue };
            place.must(&format!("cases[{index}].{field}"), range.contains(&value), expected, value)?;
        }
        for name in &self.traces {
            let Some(trace) = traces.get(name)? else { continue };
            for profile in &self.profiles {
                let profile = Profile::open(profile).map_err(|fault| Unusable(fault_chain(&fault)))?;
                worlds.push(self.world(place, index, trace, &profile)?);
            }
        }
        Ok(())
    }

    /// A world; its SLA and number are not known yet.
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
        let told_lag_secs = scenario.metrics.lag_secs;
        scenario.metrics.lag_secs = self.metric_lag_seconds.unwrap_or(told_lag_secs);
        Ok(Case {
            told_lag_secs,
            trace: trace.name().to_owned(),
            profile: profile.name.clone(),
            note: self.note.clone(),
            role: self.role,
            sla: 0.0,
            shows_sla: false,
            world: 0,
            scenario,
        })
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
