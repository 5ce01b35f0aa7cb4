//! Whether a candidate model may take the place of the current one, from cells in which both, the planner and HPAs scaled
//! the same worlds.
//!
//! In: [`Pair`]s and [`GateSettings`]. Out: a [`Judgement`], a function of these alone: the order of the pairs does not
//! matter, and the same seed resamples the same. Never: a file, a clock, a simulator; who runs the cells is somebody
//! else's business, a suite today, a shadow in a cluster tomorrow.
//!
//! Accepted is who is better with confidence in reward or replica-time, not worse in the other, costs no cell its SLA, has
//! no worst day beyond what the SLA allows that is worse than the planner's, and is dominated by no HPA where the current
//! model is not. Doubt refuses.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use rand::RngExt;
use rlscaler_sim::seed::Seed;

/// What is asked of a candidate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GateSettings {
    /// Seed of the resampling.
    pub seed: u64,
    /// Times the loads are drawn again, with replacement. 2,000 place the 5th percentile within a tenth of its distance
    /// from the mean.
    pub resamples: u32,
    /// Probability, 0 < p < 1, that a lower bound is indeed below the mean over loads of this kind.
    pub confidence: f64,
    /// Fewest loads: with fewer, resampling says nothing about other loads.
    pub loads_min: usize,
    /// Reward that may be lost, with confidence, where replica-time is gained.
    pub reward_slack: f64,
    /// Logarithm of replica-time that may be lost, with confidence, where reward is gained.
    pub cost_slack: f64,
    /// Late share, of what the SLA allows, by which a cell that misses the SLA may be later than with the current model:
    /// below that it is not another cell.
    pub late_slack: f64,
}

impl Default for GateSettings {
    fn default() -> Self {
        Self {
            seed: 1,
            resamples: 2_000,
            confidence: 0.95,
            loads_min: 5,
            reward_slack: 0.0,
            cost_slack: 0.01,
            late_slack: 0.01,
        }
    }
}

/// What one scaler came to in one cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Score {
    /// Mean reward, -1..1.
    pub reward: f64,
    /// Pod-hours paid; positive.
    pub replica_hours: f64,
    /// Share of offered requests that were late, 0..1.
    pub late_share: f64,
    /// The same of the worst day.
    pub worst_day_late: f64,
}

impl Score {
    fn is_usable(&self) -> bool {
        let Self { reward, replica_hours, late_share, worst_day_late } = *self;
        let share = |value: f64| (0.0..=1.0).contains(&value);
        reward.is_finite()
            && replica_hours.is_finite()
            && 0.0 < replica_hours
            && share(late_share)
            && share(worst_day_late)
    }

    fn numbers(&self) -> [f64; 4] {
        let Self { reward, replica_hours, late_share, worst_day_late } = *self;
        [reward, replica_hours, late_share, worst_day_late]
    }
}

/// One cell: all scalers in the same world.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// The load; cells of the same load are not independent and are resampled together.
    pub load: String,
    /// The cell, as people are told.
    pub cell: String,
    /// Seed of its world.
    pub seed: u64,
    /// Share of requests that may be late, 0 < share < 1.
    pub allowed_late: f64,
    /// Who wants to be.
    pub candidate: Score,
    /// Who is.
    pub current: Score,
    /// The planner alone.
    pub planner: Score,
    /// HPAs by name; may be empty.
    pub hpas: Vec<(String, Score)>,
}

/// The outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The candidate may take the current model's place.
    Accept,
    /// It may not.
    Reject,
}

impl Verdict {
    /// As reported.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Accept => "Accept",
            Verdict::Reject => "Reject",
        }
    }
}

/// A mean over loads and its lower bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// Mean over loads of the mean over a load's cells.
    pub mean: f64,
    /// Percentile of the resampled means.
    pub low: f64,
}

/// Everything the gate says.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// The outcome.
    pub verdict: Verdict,
    /// Loads seen.
    pub loads: usize,
    /// Reward of the candidate less that of the current model; `None` where cells are missing or broken.
    pub reward: Option<Bound>,
    /// Logarithm of the current model's replica-time over the candidate's: positive is cheaper.
    pub saving: Option<Bound>,
    /// Why not; empty when accepted.
    pub reasons: Vec<Refusal>,
}

/// Why a candidate is refused.
#[derive(Debug, Clone, PartialEq)]
pub enum Refusal {
    /// Too little was seen.
    TooFewLoads {
        /// Loads.
        found: usize,
        /// Asked.
        needed: usize,
    },
    /// A number of a cell makes no sense.
    Broken {
        /// Which.
        cell: String,
        /// Seed of its world.
        seed: u64,
    },
    /// Neither reward nor replica-time is better with confidence.
    NotBetter,
    /// Reward may be worse.
    RewardFalls {
        /// Lower bound of the difference.
        low: f64,
    },
    /// Replica-time may be more.
    CostRises {
        /// Upper bound of candidate over current.
        ratio: f64,
    },
    /// A cell misses the SLA and is later than with the current model.
    SlaWorse {
        /// Which.
        cell: String,
        /// Seed of its world.
        seed: u64,
        /// Late shares of the candidate, of the current model, and what is allowed.
        late: [f64; 3],
    },
    /// A worst day is beyond what the SLA allows and worse than the planner's.
    WorstDay {
        /// Which.
        cell: String,
        /// Seed of its world.
        seed: u64,
        /// Late shares of the candidate's and of the planner's worst day.
        late: [f64; 2],
    },
    /// An HPA has both fewer late and less replica-time, and has not against the current model.
    Dominated {
        /// Which cell.
        cell: String,
        /// Seed of its world.
        seed: u64,
        /// Which HPA.
        by: String,
    },
}

impl Refusal {
    /// Its kind, for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Refusal::TooFewLoads { .. } => "TooFewLoads",
            Refusal::Broken { .. } => "Broken",
            Refusal::NotBetter => "NotBetter",
            Refusal::RewardFalls { .. } => "RewardFalls",
            Refusal::CostRises { .. } => "CostRises",
            Refusal::SlaWorse { .. } => "SlaWorse",
            Refusal::WorstDay { .. } => "WorstDay",
            Refusal::Dominated { .. } => "Dominated",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| 100.0 * share;
        match self {
            Refusal::TooFewLoads { found, needed } => {
                write!(f, "only {found} loads were seen, {needed} are needed")
            }
            Refusal::Broken { cell, seed } => write!(f, "{cell}, seed {seed}: a number makes no sense"),
            Refusal::NotBetter => {
                write!(
                    f,
                    "neither reward nor replica-time is better than the current model's with confidence"
                )
            }
            Refusal::RewardFalls { low } => write!(f, "the reward may fall by {:.4}", -low),
            Refusal::CostRises { ratio } => {
                write!(f, "replica-time may rise to {ratio:.4} times the current")
            }
            Refusal::SlaWorse { cell, seed, late: [candidate, current, allowed] } => write!(
                f,
                "{cell}, seed {seed}: {:.3} % late, {:.3} % with the current model, {:.3} % are allowed",
                percent(*candidate),
                percent(*current),
                percent(*allowed)
            ),
            Refusal::WorstDay { cell, seed, late: [candidate, planner] } => write!(
                f,
                "{cell}, seed {seed}: {:.3} % late on the worst day, {:.3} % with the planner",
                percent(*candidate),
                percent(*planner)
            ),
            Refusal::Dominated { cell, seed, by } => {
                write!(f, "{cell}, seed {seed}: {by} has both fewer late and less replica-time")
            }
        }
    }
}

/// Judges a candidate.
#[must_use]
pub fn judge(pairs: &[Pair], settings: &GateSettings) -> Judgement {
    let mut pairs: Vec<&Pair> = pairs.iter().collect();
    pairs.sort_by(|a, b| order(a, b));
    let loads = by_load(&pairs);
    let mut reasons: Vec<Refusal> = pairs.iter().filter_map(|pair| broken(pair)).collect();
    if loads.len() < settings.loads_min.max(1) {
        reasons.push(Refusal::TooFewLoads { found: loads.len(), needed: settings.loads_min.max(1) });
    }
    if !reasons.is_empty() {
        return Judgement {
            verdict: Verdict::Reject,
            loads: loads.len(),
            reward: None,
            saving: None,
            reasons,
        };
    }
    let reward_of = |pair: &Pair| pair.candidate.reward - pair.current.reward;
    let saving_of = |pair: &Pair| (pair.current.replica_hours / pair.candidate.replica_hours).ln();
    let draws = draws(loads.len(), settings);
    let reward = bound(&means(&loads, reward_of), &draws, settings);
    let saving = bound(&means(&loads, saving_of), &draws, settings);
    if reward.low <= 0.0 && saving.low <= 0.0 {
        reasons.push(Refusal::NotBetter);
    }
    if reward.low < -settings.reward_slack {
        reasons.push(Refusal::RewardFalls { low: reward.low });
    }
    if saving.low < -settings.cost_slack {
        reasons.push(Refusal::CostRises { ratio: (-saving.low).exp() });
    }
    reasons.extend(pairs.iter().filter_map(|pair| sla_worse(pair, settings)));
    reasons.extend(pairs.iter().filter_map(|pair| worst_day(pair)));
    reasons.extend(pairs.iter().filter_map(|pair| dominated(pair)));
    let verdict = if reasons.is_empty() { Verdict::Accept } else { Verdict::Reject };
    Judgement { verdict, loads: loads.len(), reward: Some(reward), saving: Some(saving), reasons }
}

/// By everything that tells cells apart, so that sums have one order.
fn order(a: &Pair, b: &Pair) -> Ordering {
    let names = |pair: &Pair| (pair.load.clone(), pair.cell.clone(), pair.seed);
    let numbers = |pair: &Pair| {
        let scores = [pair.candidate, pair.current, pair.planner];
        scores.iter().flat_map(Score::numbers).chain([pair.allowed_late]).collect::<Vec<f64>>()
    };
    let by_numbers = || {
        let pairs = numbers(a).into_iter().zip(numbers(b));
        pairs.map(|(a, b)| a.total_cmp(&b)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    };
    names(a).cmp(&names(b)).then_with(by_numbers)
}

fn by_load<'a>(pairs: &[&'a Pair]) -> Vec<Vec<&'a Pair>> {
    let mut loads: BTreeMap<&str, Vec<&Pair>> = BTreeMap::new();
    for pair in pairs {
        loads.entry(&pair.load).or_default().push(pair);
    }
    loads.into_values().collect()
}

fn means(loads: &[Vec<&Pair>], of: impl Fn(&Pair) -> f64) -> Vec<f64> {
    loads.iter().map(|load| load.iter().map(|pair| of(pair)).sum::<f64>() / load.len() as f64).collect()
}

/// Places of loads, drawn with replacement: a bootstrap over loads. The same draws serve every difference.
fn draws(loads: usize, settings: &GateSettings) -> Vec<Vec<usize>> {
    let mut rng = Seed(settings.seed).stream("gate");
    (0..settings.resamples.max(1)).map(|_| (0..loads).map(|_| rng.random_range(0..loads)).collect()).collect()
}

/// The mean and the percentile of the resampled means.
fn bound(values: &[f64], draws: &[Vec<usize>], settings: &GateSettings) -> Bound {
    let mean_of =
        |places: &[usize]| places.iter().map(|place| values[*place]).sum::<f64>() / places.len() as f64;
    let mut resampled: Vec<f64> = draws.iter().map(|places| mean_of(places)).collect();
    resampled.sort_by(f64::total_cmp);
    let place = ((1.0 - settings.confidence) * resampled.len() as f64) as usize;
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    Bound { mean, low: resampled[place.min(resampled.len() - 1)] }
}

fn broken(pair: &Pair) -> Option<Refusal> {
    let Pair { candidate, current, planner, hpas, allowed_late, .. } = pair;
    let usable = [candidate, current, planner].into_iter().all(Score::is_usable)
        && hpas.iter().all(|(_, score)| score.is_usable())
        && 0.0 < *allowed_late
        && *allowed_late < 1.0;
    (!usable).then(|| Refusal::Broken { cell: pair.cell.clone(), seed: pair.seed })
}

/// Room for the last bits of `1 - sla`.
const EPSILON: f64 = 1e-12;

fn sla_worse(pair: &Pair, settings: &GateSettings) -> Option<Refusal> {
    let allowed = pair.allowed_late + EPSILON;
    let (candidate, current) = (pair.candidate.late_share, pair.current.late_share);
    let misses = allowed < candidate;
    let met = current <= allowed;
    let later = current + settings.late_slack * pair.allowed_late < candidate;
    (misses && (met || later)).then(|| Refusal::SlaWorse {
        cell: pair.cell.clone(),
        seed: pair.seed,
        late: [candidate, current, pair.allowed_late],
    })
}

fn worst_day(pair: &Pair) -> Option<Refusal> {
    let (candidate, planner) = (pair.candidate.worst_day_late, pair.planner.worst_day_late);
    let worse = pair.allowed_late + EPSILON < candidate && planner < candidate;
    worse.then(|| Refusal::WorstDay { cell: pair.cell.clone(), seed: pair.seed, late: [candidate, planner] })
}

fn dominated(pair: &Pair) -> Option<Refusal> {
    let dominates = |hpa: &Score, other: &Score| {
        hpa.late_share < other.late_share && hpa.replica_hours < other.replica_hours
    };
    let by = |other: &Score| {
        let better = pair.hpas.iter().filter(|(_, hpa)| dominates(hpa, other));
        better.map(|(name, _)| name).min().cloned()
    };
    match (by(&pair.candidate), by(&pair.current)) {
        (Some(by), None) => Some(Refusal::Dominated { cell: pair.cell.clone(), seed: pair.seed, by }),
        _ => None,
    }
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
