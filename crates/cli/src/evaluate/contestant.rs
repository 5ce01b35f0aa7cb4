//! Who is compared, by name: a scaler with one setting, or `NAME:tuned`, its best setting in hindsight on the very
//! world it is judged in. Every contestant has a ladder of settings, for the Pareto plot and the matched-SLA cost.

use rlscaler_core::Settings;
use rlscaler_core::settings::{Bounds, Objective, Tuning, Weights};
use rlscaler_sim::scalers::Kind;
use rlscaler_sim::scalers::tuned::settings_of;

use super::competitors::Competitors;
use crate::suite::Ladder;

/// Percents of requests that must not be late which a scaler that takes an SLA is also told, whatever is asked: its curve.
/// Even steps on a logarithmic scale of what may be late; the same for every SLA asked, so that runs are shared. Down to 20 %: on a
/// load that nobody can follow the best HPA is 60 % late, and a curve that ends before is not compared at its lateness.
const TOLD_PERCENTS: [f64; 14] =
    [20.0, 50.0, 70.0, 80.0, 90.0, 95.0, 98.0, 99.0, 99.5, 99.8, 99.9, 99.95, 99.98, 99.99];

/// A scaler with one setting.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Setting {
    /// Which, and its numbers.
    pub(crate) kind: Kind,
    /// The model of `Kind::Model`, by its number among the competitors; 0 for others.
    pub(crate) model: usize,
    /// Percent of requests it is told must not be late; what is asked of it when absent.
    pub(crate) told_percent: Option<f64>,
    /// Parts of the brain it does without.
    pub(crate) without: Without,
}

/// Parts of the brain that a scaler of ours can do without, for the ablations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Without {
    /// The error budget has no influence on the price of lateness.
    pub(crate) budget: bool,
    /// A declared capacity is believed whatever is seen.
    pub(crate) estimator: bool,
}

/// Ends a scaler's name: the price of lateness does not follow what came late.
const FIXED_PRICE: &str = "+fixed-price";

/// Ends a scaler's name: a declared capacity is believed.
const NO_ESTIMATOR: &str = "+no-estimator";

impl Without {
    /// The name without what says so at its end.
    fn parse(mut name: &str) -> (&str, Self) {
        let mut without = Self::default();
        loop {
            if let Some(rest) = name.strip_suffix(FIXED_PRICE) {
                (name, without.budget) = (rest, true);
            } else if let Some(rest) = name.strip_suffix(NO_ESTIMATOR) {
                (name, without.estimator) = (rest, true);
            } else {
                return (name, without);
            }
        }
    }

    /// Tells the brain.
    pub(crate) fn apply(self, tuning: &mut Tuning) {
        tuning.follows_budget &= !self.budget;
        tuning.learns_capacity &= !self.estimator;
    }
}

/// How a contestant comes to its setting.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Choice {
    /// It has one.
    Fixed(Setting),
    /// The cheapest of its ladder that reaches the SLA in hindsight; the one with the fewest late where none does.
    Hindsight,
}

/// One who is compared.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Contestant {
    /// As given.
    pub(crate) name: String,
    /// How it comes to its setting.
    pub(crate) choice: Choice,
    /// All settings tried.
    pub(crate) ladder: Vec<Setting>,
}

/// The stock HPA that saving is measured against, and the floor.
pub(crate) const STOCK_HPA: Setting =
    Setting::new(Kind::Hpa { target_percent: 60, down_window_secs: STOCK_DOWN_WINDOW_SECS });

/// Stabilization of scale-down of an HPA nobody tuned, seconds.
pub(crate) const STOCK_DOWN_WINDOW_SECS: f64 = 300.0;

/// Knows the future.
pub(crate) const CLAIRVOYANT: Setting = Setting::new(Kind::Clairvoyant);

/// Name of the contestant whose cost others are matched against.
pub(crate) const HPA_TUNED: &str = "hpa:tuned";

impl Contestant {
    /// The contestant of this name, its model read where it has one; what was expected where there is none.
    pub(crate) fn parse(name: &str, competitors: &mut Competitors, wish: Ladder) -> Result<Self, String> {
        let (base, tuned) = match name.strip_suffix(":tuned") {
            Some(base) => (base, true),
            None => (name, false),
        };
        let (base, without) = Without::parse(base);
        let own = match competitors.number_of(base) {
            Some(model) => Setting { model: model?, ..Setting::new(Kind::Model) },
            None => Setting::new(Kind::parse(base, &any_settings()).ok_or_else(|| {
                let names = Kind::NAMES;
                format!("expected one of {names}, rl:PATH with a model's files, or any with :tuned, found `{name}`")
            })?),
        };
        let ours = matches!(own.kind, Kind::Planner { .. } | Kind::Model);
        if without != Without::default() && !ours {
            return Err(format!(
                "{FIXED_PRICE} and {NO_ESTIMATOR} are for planner, rl and rl:PATH, found `{name}`"
            ));
        }
        let own = Setting { without, ..own };
        let choice = if tuned { Choice::Hindsight } else { Choice::Fixed(own) };
        let alone = match wish {
            Ladder::Whole => false,
            Ladder::Own => ours && !tuned,
            Ladder::Bare => !tuned,
        };
        let ladder = if alone { vec![own] } else { ladder(own) };
        Ok(Self { name: name.to_owned(), choice, ladder })
    }

    /// The kind, for colours and names.
    pub(crate) fn family(&self) -> &'static str {
        family(self.ladder[0].kind)
    }
}

/// Every setting of the same kind, its own among them.
fn ladder(own: Setting) -> Vec<Setting> {
    let mut ladder = match own.kind {
        Kind::Model | Kind::Clairvoyant => {
            TOLD_PERCENTS.map(|percent| Setting { told_percent: Some(percent), ..own }).to_vec()
        }
        kind => settings_of(kind).into_iter().map(|kind| Setting { kind, ..own }).collect(),
    };
    if !ladder.contains(&own) {
        ladder.push(own);
    }
    ladder
}

/// The name without numbers.
pub(crate) fn family(kind: Kind) -> &'static str {
    match kind {
        Kind::Planner { .. } => "planner",
        Kind::Model => "rl",
        Kind::Hpa { .. } => "hpa",
        Kind::KedaRate { .. } => "keda-rate",
        Kind::PredictiveHpa { .. } => "phpa",
        Kind::Clairvoyant => "clairvoyant",
    }
}

impl Setting {
    /// With the built-in model, told what is asked.
    pub(crate) const fn new(kind: Kind) -> Self {
        Self { kind, model: 0, told_percent: None, without: Without { budget: false, estimator: false } }
    }

    /// Share of requests it is told must not be late where `sla` is asked.
    pub(crate) fn told_sla(&self, sla: f64) -> f64 {
        self.told_percent.map_or(sla, |percent| percent / 100.0)
    }

    /// As people are told.
    pub(crate) fn shown(&self, competitors: &Competitors) -> String {
        let name = match self.kind {
            Kind::Model => competitors.name(self.model).to_owned(),
            kind => kind.to_string(),
        };
        let Without { budget, estimator } = self.without;
        let suffix = |left_out: bool, suffix| if left_out { suffix } else { "" };
        let name = format!("{name}{}{}", suffix(budget, FIXED_PRICE), suffix(estimator, NO_ESTIMATOR));
        self.told_percent.map_or(name.clone(), |percent| format!("{name} told {percent} %"))
    }
}

/// Settings for reading names: only the defaults of the tuning matter.
fn any_settings() -> Settings {
    let bounds = Bounds::new(1, 1).expect("1 <= 1");
    let objective =
        Objective { target_secs: 1.0, sla: 0.99, latency_percentile: 0.95, weights: Weights::default() };
    Settings::new(bounds, objective)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_setting_or_a_choice_in_hindsight() {
        let mut competitors = Competitors::builtin();
        let mut check = |name: &str, settings: usize, tuned: bool| {
            let contestant = Contestant::parse(name, &mut competitors, Ladder::Whole).unwrap();
            assert_eq!(contestant.ladder.len(), settings, "{name}");
            assert_eq!(contestant.choice == Choice::Hindsight, tuned, "{name}");
        };
        check("hpa", 24, false);
        check("hpa:60", 24, false);
        check("hpa:61", 25, false);
        check("hpa:tuned", 24, true);
        check("planner", 24, false);
        check("planner:tuned", 24, true);
        check("rl", TOLD_PERCENTS.len() + 1, false);
        let mut fault = |name| Contestant::parse(name, &mut competitors, Ladder::Whole).unwrap_err();
        assert!(fault("hpa:").contains("hpa[:TARGET_PERCENT"));
        assert!(fault("tuned").contains("found `tuned`"));
        assert!(fault("hpa:60+fixed-price").contains("found `hpa:60+fixed-price`"));
        assert!(fault("rl:nowhere").contains("nowhere.safetensors: cannot be read"));
    }

    #[test]
    fn a_name_may_end_in_what_the_brain_is_to_do_without() {
        let mut competitors = Competitors::builtin();
        for (name, budget, estimator) in [
            ("rl", false, false),
            ("rl+fixed-price", true, false),
            ("planner+no-estimator", false, true),
            ("rl+no-estimator+fixed-price:tuned", true, true),
        ] {
            let contestant = Contestant::parse(name, &mut competitors, Ladder::Whole).unwrap();
            let without = Without { budget, estimator };
            assert!(contestant.ladder.iter().all(|setting| setting.without == without), "{name}");
            let mut tuning = Tuning::default();
            without.apply(&mut tuning);
            assert_eq!((tuning.follows_budget, tuning.learns_capacity), (!budget, !estimator), "{name}");
            assert_eq!(contestant.ladder[0].shown(&competitors).contains(FIXED_PRICE), budget, "{name}");
        }
    }

    #[test]
    fn without_a_ladder_only_baselines_and_those_tuned_in_hindsight_have_several_settings() {
        let mut competitors = Competitors::builtin();
        for (name, settings) in [("rl", 1), ("planner", 1), ("planner:tuned", 24), ("hpa:60", 24)] {
            let contestant = Contestant::parse(name, &mut competitors, Ladder::Own).unwrap();
            assert_eq!(contestant.ladder.len(), settings, "{name}");
        }
        for (name, settings) in [("rl", 1), ("hpa:60", 1), ("hpa:tuned", 24)] {
            let contestant = Contestant::parse(name, &mut competitors, Ladder::Bare).unwrap();
            assert_eq!(contestant.ladder.len(), settings, "{name}");
        }
    }
}
