//! Runs a suite: every setting of every contestant in every world, with paired seeds, on a pool of threads of its own.
//! In: a suite. Out: [`Verdict`], the same bytes whatever the number of threads: results are collected in
//! order, and no run knows of another.

use std::collections::BTreeMap;
use std::sync::Arc;

use rayon::prelude::*;
use rlscaler_core::Decision;
use rlscaler_sim::outcome::Outcome;
use rlscaler_sim::run::run_watched;
use rlscaler_sim::scalers::{Kind, Setup};
use rlscaler_sim::scenario::Detail;
use rlscaler_sim::world::Level;

use super::contestant::{CLAIRVOYANT, Choice, Contestant, STOCK_HPA, Setting};
use super::measures::{Measures, Yardstick};
use super::series::Series;
use crate::suite::{Case, Suite};

/// What a run of the ladder came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rung {
    /// Late share, 0..1.
    pub(crate) late_share: f64,
    /// Pod-hours.
    pub(crate) replica_hours: f64,
}

impl Rung {
    /// What an outcome came to.
    pub(crate) fn new(outcome: &Outcome) -> Self {
        Self { late_share: outcome.late_share(), replica_hours: outcome.replica_hours() }
    }
}

/// One contestant in one world.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    /// Index of the case.
    pub(crate) case: usize,
    /// Index of the seed.
    pub(crate) seed: usize,
    /// Index of the contestant.
    pub(crate) contestant: usize,
    /// The setting it ran with.
    pub(crate) setting: Setting,
    /// What it came to.
    pub(crate) measures: Measures,
    /// Decisions of scalers of ours outside of the bounds, before the world holds them within.
    pub(crate) outside_bounds: u64,
    /// How it went, of the first seed only.
    pub(crate) series: Option<Series>,
}

/// All results.
pub(crate) struct Verdict {
    /// Every setting tried, each once.
    pub(crate) settings: Vec<Setting>,
    /// `rungs[case][seed][setting]`.
    pub(crate) rungs: Vec<Vec<Vec<Rung>>>,
    /// In the order case, seed, contestant.
    pub(crate) cells: Vec<Cell>,
}

/// CPU time of a day's decisions against a day of the HPA (2 ms), so that the progress bar's estimate is honest.
/// Measured on one thread; only the proportions matter.
fn weight(kind: Kind) -> f64 {
    match kind {
        Kind::Model => 25.0,
        Kind::Planner { .. } => 6.0,
        _ => 1.0,
    }
}

/// The same for keeping percentiles of latency and a point per decision.
const FULL_WEIGHT: f64 = 20.0;

/// Runs everything. `progress` is told the work done as a share, and may be called from any thread.
pub(crate) fn judge(suite: &Suite, pool: &rayon::ThreadPool, progress: &(dyn Fn(f64) + Sync)) -> Verdict {
    let settings = all_settings(&suite.contestants);
    let ladder = Ladder::new(suite, &settings);
    let work = Work::new(suite, &settings, &ladder, progress);
    let rung = |run: &Run| {
        let (outcome, _) = run_one(suite, *run, settings[run.setting], Detail::Totals);
        work.done(&suite.cases[run.case], settings[run.setting], Detail::Totals);
        Rung::new(&outcome)
    };
    let rungs: Vec<Rung> = pool.install(|| ladder.runs.par_iter().map(rung).collect());
    let rungs = ladder.spread(&rungs, settings.len(), suite.seeds.len());

    let stock_of = |run: &Run| {
        let (outcome, _) = run_one(suite, *run, STOCK_HPA, Detail::Full);
        work.done(&suite.cases[run.case], STOCK_HPA, Detail::Full);
        outcome.points.iter().map(|point| point.paid).collect()
    };
    let stock: Vec<Vec<f64>> = pool.install(|| stock_runs(suite).par_iter().map(stock_of).collect());

    let duels: Vec<(usize, usize, usize)> = (0..suite.cases.len())
        .flat_map(|case| (0..suite.seeds.len()).map(move |seed| (case, seed)))
        .flat_map(|(case, seed)| (0..suite.contestants.len()).map(move |who| (case, seed, who)))
        .collect();
    let full = |&(case, seed, who): &(usize, usize, usize)| {
        let of_world = World { settings: &settings, rungs: &rungs[case][seed] };
        let judged = &suite.cases[case];
        let setting = of_world.chosen(&suite.contestants[who], judged.sla);
        let (outcome, outside_bounds) = run_one(suite, Run { case, seed, setting: 0 }, setting, Detail::Full);
        work.done(judged, setting, Detail::Full);
        let yardstick = Yardstick {
            sla: judged.sla,
            stock_pods: &stock[judged.world * suite.seeds.len() + seed],
            floor_hours: of_world.rung(CLAIRVOYANT).replica_hours,
        };
        Cell {
            case,
            seed,
            contestant: who,
            setting,
            measures: Measures::new(&outcome, &judged.scenario, &yardstick),
            outside_bounds,
            series: (seed == 0).then(|| Series::new(&outcome, &judged.scenario)),
        }
    };
    let cells = pool.install(|| duels.par_iter().map(full).collect());
    Verdict { settings, rungs, cells }
}

/// One run of a setting in a case with a seed, all by their places.
#[derive(Debug, Clone, Copy)]
struct Run {
    case: usize,
    seed: usize,
    setting: usize,
}

/// The runs of all ladders. Those who know nothing of the SLA, and those told the same one, run once in a world, whatever
/// is asked in it.
struct Ladder {
    runs: Vec<Run>,
    /// For each case, seed and setting in this order, the place of its run.
    places: Vec<usize>,
}

impl Ladder {
    fn new(suite: &Suite, settings: &[Setting]) -> Self {
        let mut known = BTreeMap::new();
        let mut runs = Vec::new();
        let mut places = Vec::new();
        for (case, judged) in suite.cases.iter().enumerate() {
            for seed in 0..suite.seeds.len() {
                for (setting, wanted) in settings.iter().enumerate() {
                    let same = |other: &Setting| {
                        (other.kind, other.model, other.without)
                            == (wanted.kind, wanted.model, wanted.without)
                    };
                    let first = settings.iter().position(same).unwrap_or(setting);
                    let told = if heeds_sla(wanted.kind) { wanted.told_sla(judged.sla).to_bits() } else { 0 };
                    let place = *known.entry((judged.world, seed, first, told)).or_insert(runs.len());
                    if place == runs.len() {
                        runs.push(Run { case, seed, setting });
                    }
                    places.push(place);
                }
            }
        }
        Self { runs, places }
    }

    /// Results of the runs as `[case][seed][setting]`.
    fn spread(&self, rungs: &[Rung], settings: usize, seeds: usize) -> Vec<Vec<Vec<Rung>>> {
        let all: Vec<Rung> = self.places.iter().map(|place| rungs[*place]).collect();
        all.chunks(settings * seeds)
            .map(|of_case| of_case.chunks(settings).map(<[Rung]>::to_vec).collect())
            .collect()
    }
}

/// Whether a scaler does something else when another SLA is asked.
fn heeds_sla(kind: Kind) -> bool {
    match kind {
        Kind::Planner { .. } | Kind::Model | Kind::Clairvoyant => true,
        Kind::Hpa { .. } | Kind::KedaRate { .. } | Kind::PredictiveHpa { .. } => false,
    }
}

/// The stock HPA in every world with every seed, in this order.
fn stock_runs(suite: &Suite) -> Vec<Run> {
    let mut runs = Vec::new();
    for (case, judged) in suite.cases.iter().enumerate() {
        if judged.world * suite.seeds.len() == runs.len() {
            runs.extend((0..suite.seeds.len()).map(|seed| Run { case, seed, setting: 0 }));
        }
    }
    runs
}

/// One run, and how many decisions of a scaler of ours were outside of the bounds.
fn run_one(suite: &Suite, at: Run, setting: Setting, detail: Detail) -> (Outcome, u64) {
    let case = &suite.cases[at.case];
    let mut scenario = case.scenario.clone();
    scenario.detail = detail;
    let mut settings = scenario.settings(setting.told_sla(case.sla));
    settings.metric_lag_secs = case.told_lag_secs;
    setting.without.apply(&mut settings.tuning);
    let bounds = settings.bounds.min()..=settings.bounds.max();
    let setup = Setup { settings, model: Arc::clone(suite.competitors.policy(setting.model)) };
    let seed = suite.seeds[at.seed];
    let mut scaler = setting.kind.build(&setup, &scenario, seed);
    let mut outside = 0;
    let outcome = run_watched(scaler.as_mut(), &scenario, seed, Level::Fast, |_, scaler| {
        let decided = scaler.last_decision().map(Decision::replicas);
        outside += u64::from(decided.is_some_and(|replicas| !bounds.contains(&replicas)));
    });
    (outcome, outside)
}

/// Every setting of every ladder once, and the two that everything is measured against.
fn all_settings(contestants: &[Contestant]) -> Vec<Setting> {
    let mut settings = vec![STOCK_HPA, CLAIRVOYANT];
    for contestant in contestants {
        for setting in &contestant.ladder {
            if !settings.contains(setting) {
                settings.push(*setting);
            }
        }
    }
    settings
}

/// What the ladder came to in one world.
#[derive(Clone, Copy)]
pub(crate) struct World<'a> {
    /// All settings.
    pub(crate) settings: &'a [Setting],
    /// What each came to.
    pub(crate) rungs: &'a [Rung],
}

impl<'a> World<'a> {
    /// What a setting came to.
    pub(crate) fn rung(&self, setting: Setting) -> &'a Rung {
        let place = self.settings.iter().position(|known| *known == setting);
        &self.rungs[place.expect("all_settings holds every ladder and both references")]
    }

    /// The setting a contestant has, or would have had in hindsight.
    pub(crate) fn chosen(&self, contestant: &Contestant, sla: f64) -> Setting {
        match contestant.choice {
            Choice::Fixed(setting) => setting,
            Choice::Hindsight => {
                self.cheapest(contestant, allowed(sla)).unwrap_or_else(|| self.fewest_late(contestant))
            }
        }
    }

    /// The cheapest of a contestant's settings whose late share is at most `late_share`.
    pub(crate) fn cheapest(&self, contestant: &Contestant, late_share: f64) -> Option<Setting> {
        let reaching =
            contestant.ladder.iter().filter(|setting| self.rung(**setting).late_share <= late_share);
        let hours = |setting: &Setting| self.rung(*setting).replica_hours;
        reaching.min_by(|a, b| hours(a).total_cmp(&hours(b))).copied()
    }

    fn fewest_late(&self, contestant: &Contestant) -> Setting {
        let key = |setting: &Setting| self.rung(*setting);
        let order = |a: &&Setting, b: &&Setting| {
            let (a, b) = (key(a), key(b));
            a.late_share.total_cmp(&b.late_share).then(a.replica_hours.total_cmp(&b.replica_hours))
        };
        *contestant.ladder.iter().min_by(order).expect("a ladder holds its own setting")
    }
}

/// The share that may be late, with room for the last bit of `1 - sla`.
pub(crate) fn allowed(sla: f64) -> f64 {
    1.0 - sla + 1e-12
}

/// Work done, for the progress bar.
struct Work<'a> {
    total: f64,
    progress: &'a (dyn Fn(f64) + Sync),
}

impl<'a> Work<'a> {
    fn new(suite: &Suite, settings: &[Setting], ladder: &Ladder, progress: &'a (dyn Fn(f64) + Sync)) -> Self {
        let of_run = |run: &Run| cost(&suite.cases[run.case], settings[run.setting], Detail::Totals);
        let ladder: f64 = ladder.runs.iter().map(of_run).sum();
        let stock = stock_runs(suite);
        let stock: f64 = stock.iter().map(|run| cost(&suite.cases[run.case], STOCK_HPA, Detail::Full)).sum();
        let own = |contestant: &Contestant| match contestant.choice {
            Choice::Fixed(setting) => setting,
            Choice::Hindsight => contestant.ladder[0],
        };
        let of_case = |case: &Case| -> f64 {
            suite.contestants.iter().map(|contestant| cost(case, own(contestant), Detail::Full)).sum()
        };
        let full = suite.cases.iter().map(of_case).sum::<f64>() * suite.seeds.len() as f64;
        Self { total: ladder + stock + full, progress }
    }

    fn done(&self, case: &Case, setting: Setting, detail: Detail) {
        (self.progress)(cost(case, setting, detail) / self.total);
    }
}

fn cost(case: &Case, setting: Setting, detail: Detail) -> f64 {
    let full = if detail == Detail::Full { FULL_WEIGHT } else { 0.0 };
    case.scenario.decisions() as f64 * (weight(setting.kind) + full)
}
