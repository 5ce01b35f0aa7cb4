//! Who may scale, by the names people use: `planner`, `rl`, `hpa`, `hpa:60`, `hpa:60:300`, `keda-rate`, `phpa`,
//! `clairvoyant`. In: a name. Out: a fresh scaler for a scenario. Baselines are written from the documented behaviour
//! of the originals, in our own code; what they share with the brain (the HPA's rule and `behavior`) is `core`'s.

pub mod brain;
pub mod clairvoyant;
pub mod hpa;
pub mod keda;
pub mod phpa;
pub mod tuned;

use std::fmt;
use std::sync::Arc;

use rlscaler_core::{PlannerOnly, Policy, Settings};

use crate::run::Scaler;
use crate::scenario::Scenario;
use crate::seed::Seed;

/// Utilization target of an HPA whose name states none, percent.
const HPA_TARGET_PERCENT: u32 = 60;

/// Stabilization of scale-down of an HPA whose name states none, seconds.
const HPA_DOWN_WINDOW_SECS: f64 = 300.0;

/// Who scales, and with which setting.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Our planner, without a model.
    Planner {
        /// k: running errors of its own forecasts added to the demand.
        safety: f64,
        /// W: seconds of own answers the number may not fall below.
        own_max_secs: f64,
    },
    /// Our brain with a model.
    Model,
    /// The horizontal pod autoscaler on CPU utilization.
    Hpa {
        /// Target, percent of the request.
        target_percent: u32,
        /// Stabilization of scale-down, seconds.
        down_window_secs: f64,
    },
    /// KEDA with a rate per replica.
    KedaRate {
        /// Rate per replica, percent of what one can serve.
        percent: u32,
    },
    /// The HPA's rule on what Holt-Winters foresees.
    PredictiveHpa {
        /// Target, percent of the request.
        target_percent: u32,
    },
    /// Knows the future.
    Clairvoyant,
}

/// What scalers are built from.
#[derive(Clone)]
pub struct Setup {
    /// The policy of ours.
    pub settings: Settings,
    /// The model for `Kind::Model`.
    pub model: Arc<dyn Policy>,
}

impl Kind {
    /// The kind of this name with its default or stated setting. `hpa:tuned` is not one: it is a choice among runs, see
    /// `tuned`.
    #[must_use]
    pub fn parse(name: &str, settings: &Settings) -> Option<Self> {
        let mut parts = name.split(':');
        let kind = parts.next()?;
        let numbers: Vec<u32> = parts.map(str::parse).collect::<Result<_, _>>().ok()?;
        let tuning = settings.tuning;
        let percent = |default: u32| match numbers.as_slice() {
            [] => Some(default),
            [percent] if (1..=1_000).contains(percent) => Some(*percent),
            _ => None,
        };
        match (kind, numbers.as_slice()) {
            ("planner", []) => {
                Some(Kind::Planner { safety: tuning.safety, own_max_secs: tuning.own_max_secs })
            }
            ("rl" | "model", []) => Some(Kind::Model),
            ("clairvoyant", []) => Some(Kind::Clairvoyant),
            ("hpa", [target_percent, secs]) if (1..=1_000).contains(target_percent) && *secs <= 3_600 => {
                Some(Kind::Hpa { target_percent: *target_percent, down_window_secs: f64::from(*secs) })
            }
            ("hpa", _) => percent(HPA_TARGET_PERCENT)
                .map(|target_percent| Kind::Hpa { target_percent, down_window_secs: HPA_DOWN_WINDOW_SECS }),
            ("keda-rate", _) => percent(HPA_TARGET_PERCENT).map(|percent| Kind::KedaRate { percent }),
            ("phpa", _) => {
                percent(HPA_TARGET_PERCENT).map(|target_percent| Kind::PredictiveHpa { target_percent })
            }
            _ => None,
        }
    }

    /// What `parse` accepts, for messages.
    pub const NAMES: &str = "planner, rl, hpa[:TARGET_PERCENT[:DOWN_WINDOW_SECONDS]], keda-rate[:PERCENT], \
                             phpa[:TARGET_PERCENT], clairvoyant";

    /// A fresh scaler for this scenario and seed.
    #[must_use]
    pub fn build(self, setup: &Setup, scenario: &Scenario, seed: Seed) -> Box<dyn Scaler> {
        let Setup { settings, model } = setup;
        match self {
            Kind::Planner { safety, own_max_secs } => {
                let mut settings = settings.clone();
                settings.tuning.safety = safety;
                settings.tuning.own_max_secs = own_max_secs;
                Box::new(brain::BrainScaler::new(settings, Arc::new(PlannerOnly)))
            }
            Kind::Model => Box::new(brain::BrainScaler::new(settings.clone(), Arc::clone(model))),
            Kind::Hpa { target_percent, down_window_secs } => {
                Box::new(hpa::HpaScaler::new(settings.bounds, target_percent, down_window_secs))
            }
            Kind::KedaRate { percent } => {
                let capacity = scenario.profile.service.pod_capacity();
                let per_replica = capacity * f64::from(percent) / 100.0;
                Box::new(keda::KedaRate::new(settings.bounds, per_replica))
            }
            Kind::PredictiveHpa { target_percent } => {
                Box::new(phpa::PredictiveHpa::new(scenario, settings.bounds, target_percent))
            }
            Kind::Clairvoyant => Box::new(clairvoyant::Clairvoyant::new(scenario, settings, seed)),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Planner { safety, own_max_secs } => write!(f, "planner k={safety} W={own_max_secs}"),
            Kind::Model => write!(f, "rl"),
            Kind::Hpa { target_percent, down_window_secs } => {
                write!(f, "hpa:{target_percent}:{down_window_secs}")
            }
            Kind::KedaRate { percent } => write!(f, "keda-rate:{percent}"),
            Kind::PredictiveHpa { target_percent } => write!(f, "phpa:{target_percent}"),
            Kind::Clairvoyant => write!(f, "clairvoyant"),
        }
    }
}
