//! Drives every workload with the same requests. In: a rate over time and which pods are ready. Out: what each
//! service counted. All in trace time; the exact service model of the simulator does the serving. Reads no clock.

use std::collections::BTreeMap;
use std::sync::Arc;

use rlscaler_sim::arrivals::Arrivals;
use rlscaler_sim::exact::{Exact, PodId, Tick};
use rlscaler_sim::histogram::Histogram;
use rlscaler_sim::model::ServiceModel;
use rlscaler_sim::seed::Seed;

use crate::pods::PodView;
use crate::score::{Replicas, Tally};

/// Requests per trace second at a time in trace seconds since the trace began.
pub type Load = Arc<dyn Fn(f64) -> f64 + Send + Sync>;

/// Ratio of neighbouring latency buckets. Real services have about this many buckets when somebody cares.
const BUCKET_RATIO: f64 = 1.2;
const BUCKETS_BELOW_TARGET: i32 = 15;
const BUCKETS_ABOVE_TARGET: i32 = 20;

/// Upper bounds of the latency buckets, trace seconds; the target is one of them.
pub(crate) fn bucket_bounds(target_secs: f64) -> Arc<[f64]> {
    (-BUCKETS_BELOW_TARGET..=BUCKETS_ABOVE_TARGET).map(|step| target_secs * BUCKET_RATIO.powi(step)).collect()
}

/// What a workload looks like from the API server at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// `spec.replicas`; `None` while the Deployment is not there.
    pub(crate) wanted: Option<u32>,
    /// Its pods, ready or starting.
    pub(crate) pods: Vec<PodView>,
}

impl Seen {
    pub(crate) fn replicas(&self) -> Replicas {
        let ready = self.pods.iter().filter(|pod| pod.ready).count();
        Replicas { wanted: self.wanted, ready: ready as u32, existing: self.pods.len() as u32 }
    }
}

/// Counts since the world began, as a service exports them.
#[derive(Debug, Clone)]
pub(crate) struct Counters {
    pub(crate) answered: u64,
    pub(crate) dropped: u64,
    pub(crate) timed_out: u64,
    pub(crate) waiting: u64,
    /// Of the answered.
    pub(crate) latencies: Histogram,
}

/// A pod's work so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Work {
    pub(crate) ready_since_secs: f64,
    pub(crate) busy_worker_secs: f64,
}

/// One workload being served.
#[derive(Debug)]
pub(crate) struct Service {
    exact: Exact,
    ids: BTreeMap<String, PodId>,
    names_given: u64,
    work: BTreeMap<PodId, Work>,
    pub(crate) counters: Counters,
    pub(crate) tally: Tally,
    pub(crate) seen: Seen,
}

/// All workloads and the requests they receive.
#[derive(Debug)]
pub(crate) struct Traffic {
    arrivals: Arrivals,
    now_secs: f64,
    bounds: Arc<[f64]>,
    times: Vec<f64>,
    pub(crate) services: Vec<Service>,
}

impl Traffic {
    /// `workloads` services alike, at time zero, without pods.
    pub(crate) fn new(model: &ServiceModel, seed: Seed, workloads: usize) -> Self {
        let bounds = bucket_bounds(model.target_secs);
        let services = (0..workloads).map(|_| Service::new(model, seed, &bounds)).collect();
        Self { arrivals: Arrivals::poisson(seed, 0.0), now_secs: 0.0, bounds, times: Vec::new(), services }
    }

    pub(crate) fn now_secs(&self) -> f64 {
        self.now_secs
    }

    /// Serves up to `to_secs` at a constant rate, the workloads being as seen now.
    pub(crate) fn advance(&mut self, to_secs: f64, rate: f64, seen: Vec<Seen>) {
        self.times.clear();
        self.arrivals.until(to_secs, rate, &mut self.times);
        for (service, seen) in self.services.iter_mut().zip(seen) {
            service.advance(self.now_secs, to_secs, &self.times, seen);
        }
        self.now_secs = to_secs;
    }

    /// Forgets the scores so far; from here on everything counts.
    pub(crate) fn begin_scoring(&mut self) {
        for service in &mut self.services {
            service.tally = Tally::new(&self.bounds, self.now_secs, service.seen.wanted);
        }
    }
}

impl Service {
    fn new(model: &ServiceModel, seed: Seed, bounds: &Arc<[f64]>) -> Self {
        Self {
            exact: Exact::with_bounds(model.clone(), seed, Arc::clone(bounds)),
            ids: BTreeMap::new(),
            names_given: 0,
            work: BTreeMap::new(),
            counters: Counters {
                answered: 0,
                dropped: 0,
                timed_out: 0,
                waiting: 0,
                latencies: Histogram::new(Arc::clone(bounds)),
            },
            tally: Tally::new(bounds, 0.0, None),
            seen: Seen::default(),
        }
    }

    fn advance(&mut self, from_secs: f64, to_secs: f64, times: &[f64], seen: Seen) {
        let ready = self.ready_ids(from_secs, &seen);
        self.exact.set_pods(from_secs, &ready);
        let tick = self.exact.serve(to_secs, times);
        self.count(&tick);
        self.tally.record(to_secs, &tick, seen.replicas());
        self.seen = seen;
    }

    /// Ids of the ready pods; forgets pods that are gone, so that a long run stays small.
    fn ready_ids(&mut self, now_secs: f64, seen: &Seen) -> Vec<PodId> {
        let mut ready = Vec::with_capacity(seen.pods.len());
        for pod in seen.pods.iter().filter(|pod| pod.ready) {
            let id = *self.ids.entry(pod.uid.clone()).or_insert_with(|| {
                self.names_given += 1;
                PodId(self.names_given)
            });
            self.work.entry(id).or_insert(Work { ready_since_secs: now_secs, busy_worker_secs: 0.0 });
            ready.push(id);
        }
        self.ids.retain(|_, id| ready.contains(id));
        self.work.retain(|id, _| ready.contains(id));
        ready
    }

    fn count(&mut self, tick: &Tick) {
        for (id, busy_worker_secs) in &tick.busy_worker_secs {
            // A pod that only finishes its last requests is not measured any more.
            if let Some(work) = self.work.get_mut(id) {
                work.busy_worker_secs += busy_worker_secs;
            }
        }
        self.counters.answered += tick.served;
        self.counters.dropped += tick.dropped;
        self.counters.timed_out += tick.timed_out;
        self.counters.waiting = tick.waiting as u64;
        self.counters.latencies.add(&tick.latencies);
    }

    /// The work of a ready pod.
    pub(crate) fn work_of(&self, pod: &PodView) -> Option<Work> {
        self.work.get(self.ids.get(&pod.uid)?).copied()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn pod(name: &str, ready: bool) -> PodView {
        PodView {
            uid: format!("uid-{name}"),
            namespace: "shop".into(),
            name: name.into(),
            node: Some("node-0".into()),
            labels: BTreeMap::from([("app".into(), "web".into())]),
            containers: vec!["server".into()],
            request_cores: 0.5,
            ready,
        }
    }

    fn seen(pods: &[PodView]) -> Seen {
        Seen { wanted: Some(pods.len() as u32), pods: pods.to_vec() }
    }

    fn web() -> ServiceModel {
        ServiceModel::new(4, 0.05, 0.25)
    }

    #[test]
    fn workloads_receive_the_same_requests_whatever_their_pods_are() {
        let mut traffic = Traffic::new(&web(), Seed(7), 2);
        let many: Vec<_> = (0..4).map(|n| pod(&n.to_string(), true)).collect();
        for step in 1..=100 {
            traffic.advance(f64::from(step) * 0.25, 100.0, vec![seen(&many), seen(&many[..1])]);
        }
        let [rich, poor] = [0, 1].map(|index| traffic.services[index].tally.score());
        assert_eq!(rich.offered, poor.offered, "seed 7");
        assert!(
            2000 < rich.offered && rich.late_ratio < 0.01 && 0.3 < poor.late_ratio,
            "seed 7: {rich:?} {poor:?}"
        );
    }

    #[test]
    fn a_saturated_pod_keeps_all_its_workers_busy_and_a_starting_one_does_nothing() {
        let mut traffic = Traffic::new(&web(), Seed(1), 1);
        let pods = [pod("a", true), pod("b", false)];
        for step in 1..=40 {
            traffic.advance(f64::from(step), 500.0, vec![seen(&pods)]);
        }
        let work = traffic.services[0].work_of(&pods[0]).unwrap();
        assert!((work.busy_worker_secs / 40.0 - 4.0).abs() < 0.01, "{work:?}");
        assert_eq!(traffic.services[0].work_of(&pods[1]), None);
        assert!(0 < traffic.services[0].counters.timed_out);
    }

    #[test]
    fn pods_that_are_gone_are_forgotten() {
        let mut traffic = Traffic::new(&web(), Seed(1), 1);
        for step in 1..=50 {
            let pods = [pod(&step.to_string(), true)];
            traffic.advance(f64::from(step), 10.0, vec![seen(&pods)]);
        }
        assert_eq!((traffic.services[0].ids.len(), traffic.services[0].work.len()), (1, 1));
    }

    #[test]
    fn the_target_is_a_bucket() {
        assert!(bucket_bounds(0.25).contains(&0.25));
    }
}
