//! Parts that an actor can do without, to see what each of them is worth (`docs/learning.md`, ablations).
//!
//! In: which parts. Out: what such an actor sees, and what its answer is relative to. Never: in the shipped recipe.

use rlscaler_core::features;
use serde::{Deserialize, Serialize};

use crate::episodes::Episode;
use crate::head::place;

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// What repeats by the half hour, hour, day and week: a service without history shows the same.
    Seasons,
    /// That a higher price of lateness never asks for fewer replicas: the price may pull either way.
    MonotonePrice,
    /// The planner: the answer is relative to the present load, and nothing of the planner's is shown.
    Planner,
}

impl Part {
    /// As settings and manifests name it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Part::Seasons => "seasons",
            Part::MonotonePrice => "monotone-price",
            Part::Planner => "planner",
        }
    }
}

/// Features that tell of the past by the hour, day and week, by the beginning of their names.
const SEASONS: [&str; 5] = ["day_", "week_", "days_", "lag30m_", "lag60m_"];

/// What a service without history shows in them.
const NO_SEASON: f32 = 0.0;

/// What is shown instead of the planner's own: no ratio, no size, and for the running error of its forecasts, which is the
/// unit of the answer, a usual one.
const NO_PLANNER: [(usize, f32); 4] = [
    (place("planner_ratio"), 0.0),
    (place("log_planner"), 0.0),
    (place("planner_error"), 0.3),
    (place("forecast_ratio"), 0.0),
];

/// ln((n0 + 0.1) / (load + 0.1)).
const PLANNER_RATIO: usize = place("planner_ratio");

/// ln(n0 + 0.1).
const LOG_PLANNER: usize = place("log_planner");

/// What levels are compared after adding, busy pods; as in `core::features`.
const FLOOR_PODS: f64 = 0.1;

/// A multiplier beyond would not be believed (`core::policy`), a logarithm.
const BELIEVED: f32 = 2.3;

/// Replaces features that are not to be seen.
pub fn blind(parts: &[Part], features: &mut [f32]) {
    if parts.contains(&Part::Seasons) {
        for (name, feature) in features::NAMES.iter().zip(features.iter_mut()) {
            if SEASONS.iter().any(|start| name.starts_with(start)) {
                *feature = NO_SEASON;
            }
        }
    }
    if parts.contains(&Part::Planner) {
        for (place, neutral) in NO_PLANNER {
            features[place] = neutral;
        }
    }
}

/// An answer as a log-multiplier on the planner's number. `features`: before anything was hidden.
#[must_use]
pub fn on_planner(parts: &[Part], features: &[f32], log_multiplier: f32) -> f32 {
    if !parts.contains(&Part::Planner) {
        return log_multiplier;
    }
    let floored = features[LOG_PLANNER];
    // From n0 + 0.1, which is what the features tell of, to n0.
    let planner = (floored.exp() - FLOOR_PODS as f32).max(FLOOR_PODS as f32);
    (log_multiplier - features[PLANNER_RATIO] + floored - planner.ln()).clamp(-BELIEVED, BELIEVED)
}

/// Episodes as an actor without these parts lives through them.
pub fn hide(parts: &[Part], episodes: &mut [Episode]) {
    for episode in episodes.iter_mut().filter(|_| !parts.is_empty()) {
        let width = episode.features.len() / episode.slots();
        for (row, planner) in episode.features.chunks_exact_mut(width).zip(&mut episode.planner) {
            if parts.contains(&Part::Planner) {
                let ratio = f64::from(row[PLANNER_RATIO]);
                *planner = ((f64::from(*planner) + FLOOR_PODS) / ratio.exp()) as f32;
            }
            blind(parts, row);
        }
    }
}

#[cfg(test)]
mod tests {
    use rlscaler_core::features::{NAMES, WIDTH};

    use super::*;

    fn shown() -> Vec<f32> {
        (0..WIDTH).map(|at| 1.0 + at as f32 / 100.0).collect()
    }

    fn hidden(parts: &[Part]) -> Vec<&'static str> {
        let mut features = shown();
        blind(parts, &mut features);
        let changed =
            NAMES.iter().zip(features.iter().zip(shown())).filter(|(_, (now, before))| *now != before);
        changed.map(|(name, _)| *name).collect()
    }

    #[test]
    fn only_what_is_left_out_is_hidden() {
        assert_eq!(hidden(&[]), [""; 0]);
        assert_eq!(hidden(&[Part::MonotonePrice]), [""; 0]);
        let seasons = hidden(&[Part::Seasons]);
        assert_eq!(seasons.len(), 20, "{seasons:?}");
        assert!(seasons.contains(&"day_skill") && seasons.contains(&"lag60m_known"), "{seasons:?}");
        let planner = ["planner_ratio", "log_planner", "planner_error", "forecast_ratio"];
        assert_eq!(hidden(&[Part::Planner]), planner);
    }

    #[test]
    fn without_the_planner_an_answer_of_zero_is_the_present_load_whatever_the_planner_asks_for() {
        for (planner, load) in [(12.0_f32, 8.0_f32), (3.0, 8.0), (40.0, 39.5)] {
            let mut features = vec![0.0; WIDTH];
            features[PLANNER_RATIO] = ((planner + 0.1) / (load + 0.1)).ln();
            features[LOG_PLANNER] = (planner + 0.1).ln();
            let replicas = planner * on_planner(&[Part::Planner], &features, 0.0).exp();
            assert!((replicas - (load + 0.1)).abs() < 1e-3, "{replicas} {load}");
            assert_eq!(on_planner(&[Part::Seasons], &features, 0.7), 0.7);
        }
    }

    #[test]
    fn without_the_planner_an_episode_stands_on_its_load() {
        let world = crate::life::World {
            service: rlscaler_core::queue::Service {
                workers: 4,
                service_secs: 0.05,
                target_secs: 0.25,
                variability: 1.0,
            },
            capacity_error: 1.0,
            startup_secs: 60.0,
            timeout_secs: 10.0,
            sla: 0.99,
            safety: None,
        };
        let mut row = shown();
        row[PLANNER_RATIO] = (12.1_f32 / 8.1).ln();
        let episode = Episode {
            world,
            fresh: false,
            features: row.repeat(2),
            planner: vec![12.0; 2],
            load: vec![8.0; 2],
            need: vec![9.0; 2],
            usual_late_share: 0.01,
        };
        let mut episodes = vec![episode.clone()];
        hide(&[], &mut episodes);
        assert_eq!(episodes[0], episode);
        hide(&[Part::Planner], &mut episodes);
        assert!(episodes[0].planner.iter().all(|n| (n - 8.1).abs() < 1e-4), "{:?}", episodes[0].planner);
        assert_eq!(episodes[0].features(1)[PLANNER_RATIO], 0.0);
    }
}
