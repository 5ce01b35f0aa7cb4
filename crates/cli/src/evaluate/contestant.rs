//! Who is compared, by name: a scaler with one setting, or `NAME:tuned`, its best setting in hindsight on the very
//! world it is judged in. Every contestant has a ladder of settings, for the Pareto plot and the matched-SLA cost.

use std::fmt;

use rlscaler_core::Settings;
use rlscaler_core::settings::{Bounds, Objective, Weights};
use rlscaler_sim::scalers::tuned::settings_of;
use rlscaler_sim::scalers::{Kind, Setup};

/// Multiples of the late share that the SLA allows, at which a scaler that takes an SLA is also tried.
const ALLOWED_FACTORS: [f64; 6] = [4.0, 2.0, 1.0, 0.5, 0.25, 0.1];

/// A scaler with one setting.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Setting {
    /// Which, and its numbers.
    pub(crate) kind: Kind,
    /// It is told to allow this many times the late share that the SLA allows.
    pub(crate) allowed_factor: f64,
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
    Setting { kind: Kind::Hpa { target_percent: 60, down_window_secs: 300.0 }, allowed_factor: 1.0 };

/// Knows the future.
pub(crate) const CLAIRVOYANT: Setting = Setting { kind: Kind::Clairvoyant, allowed_factor: 1.0 };

/// Name of the contestant whose cost others are matched against.
pub(crate) const HPA_TUNED: &str = "hpa:tuned";

impl Contestant {
    /// The contestant of this name; what was expected where there is none.
    pub(crate) fn parse(name: &str) -> Result<Self, String> {
        let (base, tuned) = match name.strip_suffix(":tuned") {
            Some(base) => (base, true),
            None => (name, false),
        };
        let kind = Kind::parse(base, &any_settings())
            .ok_or_else(|| format!("one of {}, or any of these with :tuned", Kind::NAMES))?;
        let own = Setting { kind, allowed_factor: 1.0 };
        let choice = if tuned { Choice::Hindsight } else { Choice::Fixed(own) };
        Ok(Self { name: name.to_owned(), choice, ladder: ladder(own) })
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
            ALLOWED_FACTORS.map(|allowed_factor| Setting { kind: own.kind, allowed_factor }).to_vec()
        }
        kind => settings_of(kind).into_iter().map(|kind| Setting { kind, allowed_factor: 1.0 }).collect(),
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
    /// The setup with this setting's own idea of the SLA.
    pub(crate) fn setup(&self, setup: &Setup) -> Setup {
        let mut setup = setup.clone();
        let allowed = setup.settings.allowed_late() * self.allowed_factor;
        setup.settings.objective.sla = 1.0 - allowed.min(MOST_LATE);
        setup
    }
}

/// No setting allows more than this to be late.
const MOST_LATE: f64 = 0.5;

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.allowed_factor == 1.0 {
            write!(f, "{}", self.kind)
        } else {
            write!(f, "{} allowed x{}", self.kind, self.allowed_factor)
        }
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
        let check = |name: &str, settings: usize, tuned: bool| {
            let contestant = Contestant::parse(name).unwrap();
            assert_eq!(contestant.ladder.len(), settings, "{name}");
            assert_eq!(contestant.choice == Choice::Hindsight, tuned, "{name}");
        };
        check("hpa", 24, false);
        check("hpa:60", 24, false);
        check("hpa:61", 25, false);
        check("hpa:tuned", 24, true);
        check("planner", 24, false);
        check("planner:tuned", 24, true);
        check("rl", ALLOWED_FACTORS.len(), false);
        assert!(Contestant::parse("hpa:").unwrap_err().contains("hpa[:TARGET_PERCENT"));
        assert!(Contestant::parse("tuned").is_err());
    }
}
