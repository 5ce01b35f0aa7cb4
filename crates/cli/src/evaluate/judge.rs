//! Runs a suite: every setting of every contestant in every world, with paired seeds, on a pool of threads of its own.
//! In: a suite and a model. Out: [`Verdict`], the same bytes whatever the number of threads: results are collected in
//! order, and no run knows of another.

use std::sync::Arc;

use rayon::prelude::*;
use rlscaler_core::Policy;
use rlscaler_sim::outcome::Outcome;
use rlscaler_sim::run::run;
use rlscaler_sim::scalers::{Kind, Setup};
use rlscaler_sim::scenario::Detail;

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
pub(crate) fn judge(
    suite: &Suite,
    model: &Arc<dyn Policy>,
    pool: &rayon::ThreadPool,
    progress: &(dyn Fn(f64) + Sync),
) -> Verdict {
    let settings = all_settings(&suite.contestants);
    let work = Work::new(suite, &settings, progress);
    let worlds: Vec<(usize, usize)> = (0..suite.cases.len())
        .flat_map(|case| (0..suite.seeds.len()).map(move |seed| (case, seed)))
        .collect();
    let runs: Vec<(usize, usize, usize)> = worlds
        .iter()
        .flat_map(|&(case, seed)| (0..settings.len()).map(move |setting| (case, seed, setting)))
        .collect();
    let ladder = |&(case, seed, setting): &(usize, usize, usize)| {
        let outcome = run_one(suite, case, seed, settings[setting], model, Detail::Totals);
        work.done(&suite.cases[case], settings[setting], Detail::Totals);
        Rung::new(&outcome)
    };
    let flat: Vec<Rung> = pool.install(|| runs.par_iter().map(ladder).collect());
    let rungs: Vec<Vec<Vec<Rung>>> = flat
        .chunks(settings.len() * suite.seeds.len())
        .map(|of_case| of_case.chunks(settings.len()).map(<[Rung]>::to_vec).collect())
        .collect();

    let stock_of = |&(case, seed): &(usize, usize)| {
        let outcome = run_one(suite, case, seed, STOCK_HPA, model, Detail::Full);
        work.done(&suite.cases[case], STOCK_HPA, Detail::Full);
        outcome.points.iter().map(|point| point.paid).collect()
    };
    let stock: Vec<Vec<f64>> = pool.install(|| worlds.par_iter().map(stock_of).collect());

    let duels: Vec<(usize, usize, usize)> = worlds
        .iter()
        .flat_map(|&(case, seed)| (0..suite.contestants.len()).map(move |who| (case, seed, who)))
        .collect();
    let full = |&(case, seed, who): &(usize, usize, usize)| {
        let of_world = World { settings: &settings, rungs: &rungs[case][seed] };
        let setting = of_world.chosen(&suite.contestants[who], suite.sla);
        let outcome = run_one(suite, case, seed, setting, model, Detail::Full);
        work.done(&suite.cases[case], setting, Detail::Full);
        let scenario = &suite.cases[case].scenario;
        let yardstick = Yardstick {
            sla: suite.sla,
            stock_pods: &stock[case * suite.seeds.len() + seed],
            floor_hours: of_world.rung(CLAIRVOYANT).replica_hours,
        };
        Cell {
            case,
            seed,
            contestant: who,
            setting,
            measures: Measures::new(&outcome, scenario, &yardstick),
            series: (seed == 0).then(|| Series::new(&outcome, scenario)),
        }
    };
    let cells = pool.install(|| duels.par_iter().map(full).collect());
    Verdict { settings, rungs, cells }
}

/// One run.
fn run_one(
    suite: &Suite,
    case: usize,
    seed: usize,
    setting: Setting,
    model: &Arc<dyn Policy>,
    detail: Detail,
) -> Outcome {
    let mut scenario = suite.cases[case].scenario.clone();
    scenario.detail = detail;
    let setup = setting.setup(&Setup { settings: scenario.settings(suite.sla), model: Arc::clone(model) });
    let seed = suite.seeds[seed];
    let mut scaler = setting.kind.build(&setup, &scenario, seed);
    run(scaler.as_mut(), &scenario, seed)
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
    fn new(suite: &Suite, settings: &[Setting], progress: &'a (dyn Fn(f64) + Sync)) -> Self {
        let own = |contestant: &Contestant| match contestant.choice {
            Choice::Fixed(setting) => setting,
            Choice::Hindsight => contestant.ladder[0],
        };
        let of_case = |case: &Case| -> f64 {
            let ladder = settings.iter().map(|setting| cost(case, *setting, Detail::Totals));
            let full = suite.contestants.iter().map(own).chain([STOCK_HPA]);
            let full = full.map(|setting| cost(case, setting, Detail::Full));
            ladder.chain(full).sum()
        };
        let total = suite.cases.iter().map(of_case).sum::<f64>() * suite.seeds.len() as f64;
        Self { total, progress }
    }

    fn done(&self, case: &Case, setting: Setting, detail: Detail) {
        (self.progress)(cost(case, setting, detail) / self.total);
    }
}

fn cost(case: &Case, setting: Setting, detail: Detail) -> f64 {
    let full = if detail == Detail::Full { FULL_WEIGHT } else { 0.0 };
    case.scenario.decisions() as f64 * (weight(setting.kind) + full)
}
