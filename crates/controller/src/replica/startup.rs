//! How long a pod takes from creation to Ready, learnt from the target's own pods. Pure.

use std::collections::VecDeque;

/// Start-ups remembered; the oldest go first.
const MAX_SAMPLES: usize = 64;
/// The share of start-ups that are faster than what is answered.
const PERCENTILE: f64 = 0.9;

/// The last start-ups, each pod once: a Ready condition that flaps later does not count again.
#[derive(Debug, Clone, Default)]
pub struct Startups {
    samples: VecDeque<(String, f64)>,
}

impl Startups {
    /// Adds pods that were not seen before.
    pub fn learn(&mut self, startups: Vec<(String, f64)>) {
        for (uid, secs) in startups {
            if self.samples.iter().any(|(known, _)| *known == uid) {
                continue;
            }
            if self.samples.len() == MAX_SAMPLES {
                self.samples.pop_front();
            }
            self.samples.push_back((uid, secs));
        }
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
        startups.learn(vec![("a".into(), 30.0)]);
        startups.learn(vec![("a".into(), 900.0)]);
        assert_eq!(startups.p90_secs(), Some(30.0));
        startups.learn((1..10).map(|n| (n.to_string(), f64::from(n))).collect());
        assert_eq!(startups.p90_secs(), Some(9.0));
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_are_forgotten() {
        let mut startups = Startups::default();
        startups.learn(vec![("slow".into(), 3000.0)]);
        for n in 0..1000 {
            startups.learn(vec![(n.to_string(), 10.0)]);
        }
        assert_eq!((startups.samples.len(), startups.p90_secs()), (MAX_SAMPLES, Some(10.0)));
    }
}
