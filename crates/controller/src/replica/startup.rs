//! How long a pod takes from creation to Ready, learnt from the target's own pods. Pure.

use std::collections::{BTreeSet, VecDeque};

/// Start-ups remembered; the oldest go first.
const MAX_SAMPLES: usize = 64;
/// A pod is seen within a tick or two of its creation. One that is older than this when it is first seen may have been
/// ready before: its Ready condition tells when it came back, not when it started.
const FIRST_SIGHT_SECS: f64 = 600.0;
/// The share of start-ups that are faster than what is answered.
const PERCENTILE: f64 = 0.9;

/// The last start-ups, each pod once: a Ready condition that flaps later does not count again.
#[derive(Debug, Clone, Default)]
pub struct Startups {
    samples: VecDeque<(String, f64)>,
    /// Pods that were seen from their beginning and have not been ready yet.
    watched: BTreeSet<String>,
}

impl Startups {
    /// Adds ready pods that were not seen before, (UID, seconds from creation to Ready), and watches those that are not
    /// ready yet, (UID, seconds since creation).
    pub fn learn(&mut self, startups: Vec<(String, f64)>, waiting: Vec<(String, f64)>) {
        for (uid, secs) in startups {
            let started_now = secs <= FIRST_SIGHT_SECS || self.watched.contains(&uid);
            if !started_now || self.samples.iter().any(|(known, _)| *known == uid) {
                continue;
            }
            if self.samples.len() == MAX_SAMPLES {
                self.samples.pop_front();
            }
            self.samples.push_back((uid, secs));
        }
        let watched = std::mem::take(&mut self.watched);
        let new = waiting.into_iter().filter(|(uid, age)| *age <= FIRST_SIGHT_SECS || watched.contains(uid));
        self.watched = new.map(|(uid, _)| uid).collect();
    }

    /// The 90th percentile, seconds; `None` before the first pod was seen to start.
    #[must_use]
    pub fn p90_secs(&self) -> Option<f64> {
        let mut secs: Vec<f64> = self.samples.iter().map(|(_, secs)| *secs).collect();
        secs.sort_by(f64::total_cmp);
        let rank = (PERCENTILE * secs.len() as f64).ceil() as usize;
        secs.get(rank.checked_sub(1)?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_the_ninetieth_percentile_of_distinct_pods() {
        let mut startups = Startups::default();
        assert_eq!(startups.p90_secs(), None);
        startups.learn(vec![("a".into(), 30.0)], vec![]);
        startups.learn(vec![("a".into(), 900.0)], vec![]);
        assert_eq!(startups.p90_secs(), Some(30.0));
        startups.learn((1..10).map(|n| (n.to_string(), f64::from(n))).collect(), vec![]);
        assert_eq!(startups.p90_secs(), Some(9.0));
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_are_forgotten() {
        let mut startups = Startups::default();
        startups.learn(vec![("slow".into(), 300.0)], vec![]);
        for n in 0..1000 {
            startups.learn(vec![(n.to_string(), 10.0)], vec![(format!("next-{n}"), 5.0)]);
        }
        assert_eq!((startups.samples.len(), startups.p90_secs()), (MAX_SAMPLES, Some(10.0)));
        assert_eq!(startups.watched.len(), 1, "only those that still wait are watched");
    }

    // fission#1427: readiness that flaps is no start.
    #[test]
    fn a_pod_whose_readiness_came_back_after_hours_tells_nothing_of_a_start() {
        let mut startups = Startups::default();
        // A restarted operator finds pods whose node was lost for a moment an hour ago, and one that is away just now.
        let back: Vec<_> = (0..3).map(|n| (format!("old-{n}"), 3_000.0)).collect();
        startups.learn(back, vec![("away".into(), 7_200.0)]);
        startups.learn(vec![("away".into(), 3_500.0)], vec![]);
        assert_eq!(startups.p90_secs(), None);
        // A pod that loads a model for twenty minutes before our eyes does.
        for age in [10.0, 610.0, 1_190.0] {
            startups.learn(vec![], vec![("slow".into(), age)]);
        }
        startups.learn(vec![("slow".into(), 1_200.0)], vec![]);
        assert_eq!(startups.p90_secs(), Some(1_200.0));
    }
}
