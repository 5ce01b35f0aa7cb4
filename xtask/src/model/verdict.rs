//! Whether a model is the shipped one, as good as it, or worse. In: the committed files, and those of a run. Out: a
//! verdict and the figures it stands on. Every score counts for what is lower being better.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

/// Scores that the trainer itself measures begin so; others in a manifest are measured by other commands.
const TRAINERS: &str = "train.";

/// A score this much worse than the worst known one, relatively, is still equal: few seeds do not show all of their
/// spread.
const LEAST_BAND: f64 = 0.01;

type Scores = BTreeMap<String, f64>;

/// What matters of a manifest here.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Manifest {
    kind: String,
    seed: u64,
    settings: Value,
    scores: Scores,
}

/// A model from a run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Trained {
    weights: Vec<u8>,
    manifest: Manifest,
}

/// What is committed: the shipped model, and the scores by training seed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Committed {
    shipped: Trained,
    seeds: BTreeMap<u64, Scores>,
}

/// How a model stands to the shipped one.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Verdict {
    /// The same weights, byte for byte.
    Same,
    /// No score worse than the spread over seeds explains.
    Equal,
    /// The names of the scores that are.
    Worse(Vec<String>),
    /// The shipped model is untrained.
    First,
}

impl Trained {
    pub(super) fn read(weights: &Path, manifest: &Path) -> Result<Self> {
        let read = |file: &Path| fs::read(file).with_context(|| format!("reading {}", file.display()));
        let text = read(manifest)?;
        let manifest = serde_json::from_slice(&text)
            .with_context(|| format!("{} is no manifest", manifest.display()))?;
        Ok(Self { weights: read(weights)?, manifest })
    }

    fn scores(&self) -> impl Iterator<Item = (&String, f64)> {
        self.manifest
            .scores
            .iter()
            .filter(|(name, _)| name.starts_with(TRAINERS))
            .map(|(name, score)| (name, *score))
    }

    fn is_trained(&self) -> bool {
        self.manifest.kind == "trained"
    }
}

impl Committed {
    pub(super) fn read(weights: &Path, manifest: &Path, seeds: &Path) -> Result<Self> {
        let shipped = Trained::read(weights, manifest)?;
        let seeds = match fs::read(seeds) {
            Err(error) if error.kind() == ErrorKind::NotFound => BTreeMap::new(),
            read => serde_json::from_slice(&read.with_context(|| format!("reading {}", seeds.display()))?)
                .with_context(|| format!("{} is no table of scores by seed", seeds.display()))?,
        };
        Ok(Self { shipped, seeds })
    }

    pub(super) fn seed(&self) -> u64 {
        self.shipped.manifest.seed
    }

    /// Takes a run into the table.
    pub(super) fn record(&mut self, seed: u64, trained: &Trained) {
        self.seeds.insert(seed, trained.scores().map(|(name, score)| (name.clone(), score)).collect());
    }

    /// The table as it is committed.
    pub(super) fn seeds_json(&self) -> String {
        format!("{}\n", serde_json::to_string_pretty(&self.seeds).expect("the table has only string keys"))
    }

    /// Everything known of a score: the shipped model's, and each seed's.
    fn known(&self, name: &str) -> Vec<f64> {
        let shipped = self.shipped.manifest.scores.get(name);
        self.seeds.values().filter_map(|scores| scores.get(name)).chain(shipped).copied().collect()
    }

    /// The worst that is still equal: as far beyond the worst known as that is from the best.
    fn at_most(&self, name: &str) -> Option<(f64, f64, f64)> {
        let known = self.known(name);
        let best = known.iter().copied().reduce(f64::min)?;
        let worst = known.iter().copied().reduce(f64::max)?;
        Some((best, worst, worst + (worst - best).max(LEAST_BAND * worst)))
    }

    #[cfg(test)]
    pub(super) fn as_trained(&self) -> Trained {
        self.shipped.clone()
    }

    #[cfg(test)]
    pub(super) fn expected_of_itself(&self) -> Verdict {
        if self.shipped.is_trained() { Verdict::Same } else { Verdict::First }
    }
}

pub(super) fn verdict(committed: &Committed, trained: &Trained) -> Verdict {
    if !committed.shipped.is_trained() {
        return Verdict::First;
    }
    if committed.shipped.weights == trained.weights {
        return Verdict::Same;
    }
    let is_worse = |name: &str| match (committed.at_most(name), trained.manifest.scores.get(name)) {
        (Some((_, _, at_most)), Some(&score)) => score.is_nan() || at_most < score,
        // What the shipped model has a score in, this one must have too.
        (Some(_), None) => true,
        (None, _) => false,
    };
    let worse: Vec<String> =
        committed.shipped.scores().map(|(name, _)| name.clone()).filter(|name| is_worse(name)).collect();
    if worse.is_empty() { Verdict::Equal } else { Verdict::Worse(worse) }
}

/// The figures, a line a score, and in what the settings differ.
pub(super) fn table(committed: &Committed, trained: &Trained) -> String {
    let mut lines = Vec::new();
    let show = |score: Option<f64>| score.map_or("-".to_owned(), |score| format!("{score:.4}"));
    for (name, score) in trained.scores() {
        let shipped = show(committed.shipped.manifest.scores.get(name).copied());
        let known = committed.known(name).len();
        let band = committed.at_most(name).map_or(String::new(), |(best, worst, at_most)| {
            format!(", {best:.4} to {worst:.4} over {known} runs, equal up to {at_most:.4}")
        });
        lines.push(format!("{name}: {score:.4}, shipped {shipped}{band}"));
    }
    if committed.shipped.is_trained() && committed.shipped.manifest.settings != trained.manifest.settings {
        lines.push("the shipped model was trained with other settings than today's defaults".into());
    }
    lines.join("\n")
}

impl Display for Verdict {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Same => write!(out, "the same as the shipped model, byte for byte"),
            Verdict::Equal => write!(out, "equal to the shipped model within the spread over seeds"),
            Verdict::Worse(names) => write!(out, "worse than the shipped model in {}", names.join(", ")),
            Verdict::First => write!(out, "nothing to compare with: the shipped model is untrained"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COST: &str = "train.matchedCost";

    fn trained(weights: u8, scores: &[(&str, f64)]) -> Trained {
        let scores = scores.iter().map(|(name, score)| ((*name).to_owned(), *score)).collect();
        let manifest = Manifest { kind: "trained".into(), seed: 1, settings: Value::Null, scores };
        Trained { weights: vec![weights], manifest }
    }

    fn committed(shipped: f64, seeds: &[f64]) -> Committed {
        let scores = |score: f64| BTreeMap::from([(COST.to_owned(), score)]);
        let shipped = trained(1, &[(COST, shipped), ("evaluate.other", 0.1)]);
        Committed { shipped, seeds: (2..).zip(seeds.iter().map(|&score| scores(score))).collect() }
    }

    #[test]
    fn the_verdict_is_by_bytes_and_then_by_the_spread_over_seeds() {
        let worse = || Verdict::Worse(vec![COST.to_owned()]);
        let three = committed(0.90, &[0.88, 0.92]);
        let one = committed(0.90, &[]);
        for (committed, weights, score, expected) in [
            (&three, 1, 9.9, Verdict::Same),
            (&three, 2, 0.80, Verdict::Equal),
            (&three, 2, 0.959, Verdict::Equal),
            (&three, 2, 0.961, worse()),
            (&three, 2, f64::NAN, worse()),
            (&one, 2, 0.9089, Verdict::Equal),
            (&one, 2, 0.9091, worse()),
        ] {
            assert_eq!(
                verdict(committed, &trained(weights, &[(COST, score)])),
                expected,
                "{weights} {score}"
            );
        }
    }

    #[test]
    fn a_score_that_is_missing_is_worse_and_one_of_another_command_is_not_looked_at() {
        let committed = committed(0.9, &[]);
        assert_eq!(verdict(&committed, &trained(2, &[])), Verdict::Worse(vec![COST.to_owned()]));
        assert_eq!(verdict(&committed, &trained(2, &[(COST, 0.9)])), Verdict::Equal);
    }

    #[test]
    fn an_untrained_model_is_no_measure() {
        let mut committed = committed(0.9, &[]);
        committed.shipped.manifest.kind = "zero-initialised".into();
        assert_eq!(verdict(&committed, &trained(2, &[(COST, 3.0)])), Verdict::First);
    }

    #[test]
    fn a_recorded_run_widens_the_spread() {
        let mut committed = committed(0.90, &[]);
        let run = trained(2, &[(COST, 0.95), ("evaluate.other", 0.5)]);
        assert_eq!(verdict(&committed, &run), Verdict::Worse(vec![COST.to_owned()]));
        committed.record(7, &run);
        assert_eq!(verdict(&committed, &run), Verdict::Equal);
        let table: BTreeMap<u64, Scores> =
            serde_json::from_str(&committed.seeds_json()).expect("it reads back");
        assert_eq!(table, BTreeMap::from([(7, BTreeMap::from([(COST.to_owned(), 0.95)]))]));
    }
}
