//! What a metrics server would know of each pod's CPU. In: cumulative work at regular moments. Out: samples with
//! their time and window. Pure. As in metrics-server, a pod appears once two readings exist, the moment it became
//! ready being the first; a window shorter than ten seconds is too noisy to be shown.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::load::Work;
use crate::pods::PodView;

/// Between two readings, trace seconds: metrics-server's usual resolution.
pub(crate) const RESOLUTION_SECS: f64 = 15.0;

/// Shortest window of a fresh pod, trace seconds; as metrics-server's `freshContainerMinMetricsResolution`.
const MIN_WINDOW_SECS: f64 = 10.0;

/// One pod's CPU over one window.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    pub(crate) pod: PodView,
    /// End of the window.
    pub(crate) timestamp: Timestamp,
    /// Length of the window, wall seconds.
    pub(crate) window_secs: f64,
    /// Mean cores over the window.
    pub(crate) cores: f64,
}

/// The moment of a reading, in both times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) trace_secs: f64,
    pub(crate) timestamp: Timestamp,
    /// Trace seconds in a second of the wall.
    pub(crate) speed: f64,
}

/// Remembers the last reading of each pod.
#[derive(Debug, Default)]
pub(crate) struct Sampler {
    last: BTreeMap<String, (f64, f64)>,
}

impl Sampler {
    /// Reads every pod once. `workers` of a pod busy are its whole CPU request.
    pub(crate) fn sample(&mut self, moment: Moment, workers: u32, pods: Vec<(PodView, Work)>) -> Vec<Sample> {
        let mut next = BTreeMap::new();
        let mut samples = Vec::with_capacity(pods.len());
        for (pod, work) in pods {
            let first = (work.ready_since_secs, 0.0);
            let (from_secs, from_work) = self.last.get(&pod.uid).copied().unwrap_or(first);
            let window_secs = moment.trace_secs - from_secs;
            if window_secs < MIN_WINDOW_SECS {
                continue; // its next reading reaches back to the moment it became ready
            }
            next.insert(pod.uid.clone(), (moment.trace_secs, work.busy_worker_secs));
            let busy = (work.busy_worker_secs - from_work) / window_secs / f64::from(workers);
            samples.push(Sample {
                cores: busy * pod.request_cores,
                timestamp: moment.timestamp,
                window_secs: window_secs / moment.speed,
                pod,
            });
        }
        self.last = next;
        samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::tests::pod;

    fn moment(trace_secs: f64) -> Moment {
        Moment { trace_secs, timestamp: Timestamp::UNIX_EPOCH, speed: 5.0 }
    }

    fn work(ready_since_secs: f64, busy_worker_secs: f64) -> Work {
        Work { ready_since_secs, busy_worker_secs }
    }

    #[test]
    fn all_workers_busy_are_exactly_the_request() {
        let mut sampler = Sampler::default();
        let first = sampler.sample(moment(15.0), 4, vec![(pod("a", true), work(0.0, 60.0))]);
        assert_eq!((first[0].cores, first[0].window_secs), (0.5, 3.0));
        let second = sampler.sample(moment(30.0), 4, vec![(pod("a", true), work(0.0, 75.0))]);
        assert_eq!(second[0].cores, 0.125, "only the work since the last reading");
    }

    #[test]
    fn a_fresh_pod_is_measured_from_the_moment_it_was_ready_once_that_is_long_enough() {
        let mut sampler = Sampler::default();
        assert!(sampler.sample(moment(15.0), 4, vec![(pod("a", true), work(5.1, 39.0))]).is_empty());
        let samples = sampler.sample(moment(30.0), 4, vec![(pod("a", true), work(5.1, 99.6))]);
        assert!((samples[0].window_secs - 24.9 / 5.0).abs() < 1e-9 && (samples[0].cores - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_pod_that_stopped_serving_is_not_measured() {
        let mut sampler = Sampler::default();
        sampler.sample(moment(15.0), 4, vec![(pod("a", true), work(0.0, 1.0))]);
        assert!(sampler.sample(moment(30.0), 4, Vec::new()).is_empty());
        assert!(sampler.last.is_empty());
    }
}
