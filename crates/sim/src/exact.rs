//! The exact level: a service simulated request by request. In: which pods are ready, and arrivals. Out: what was
//! served, late, dropped and timed out in each stretch of time, latencies, and how busy each pod was. Used by the
//! world emulator and to validate the fast level.
//!
//! One queue, first come first served; a free worker of the pod with the most free workers takes the next request.
//! A request is late when it is not answered within the target; one that waits longer than the time-out gives up,
//! one that finds the queue full is dropped, and both are late. A pod that is no longer ready takes no new request
//! and finishes those it has (a graceful termination); a pod that crashes loses them, and they count as dropped.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use rand_distr::{Distribution, Exp1, StandardNormal};

use crate::arrivals::Arrivals;
use crate::histogram::Histogram;
use crate::model::{ServiceLaw, ServiceModel};
use crate::seed::{Seed, Stream};

/// Identity of a pod, chosen by the caller; never reused for another pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodId(pub u64);

/// What happened in one stretch of time.
#[derive(Debug, Clone, PartialEq)]
pub struct Tick {
    /// Requests that arrived.
    pub offered: u64,
    /// Requests answered, in time or not.
    pub served: u64,
    /// Requests that became late: answered after the target, dropped, or timed out.
    pub late: u64,
    /// Requests lost: the queue was full, or their pod crashed.
    pub dropped: u64,
    /// Requests that gave up waiting.
    pub timed_out: u64,
    /// Requests waiting for a worker at the end.
    pub waiting: usize,
    /// Requests being worked on at the end.
    pub in_service: usize,
    /// Latencies of the answered requests. Those dropped and timed out have none: count them above every bound.
    pub latencies: Histogram,
    /// Worker-seconds each pod was busy, ready pods first, then those finishing their last requests.
    pub busy_worker_secs: Vec<(PodId, f64)>,
}

/// A request-by-request service.
#[derive(Debug, Clone)]
pub struct Exact {
    model: ServiceModel,
    bounds: Arc<[f64]>,
    now_secs: f64,
    pods: Vec<Pod>,
    queue: VecDeque<Request>,
    /// Requests being worked on, the first to finish on top.
    running: BinaryHeap<Reverse<Running>>,
    work: Stream,
    arrivals: Arrivals,
    times: Vec<f64>,
    tick: Tick,
}

#[derive(Debug, Clone)]
struct Pod {
    id: PodId,
    ready_since_secs: f64,
    /// Share of full speed; a fault may lower it.
    speed: f64,
    draining: bool,
    busy: u32,
    busy_worker_secs: f64,
    counted_to_secs: f64,
}

#[derive(Debug, Clone, Copy)]
struct Request {
    arrived_secs: f64,
    /// Seconds of a worker at full speed.
    work_secs: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Running {
    ends_secs: f64,
    arrived_secs: f64,
    pod: PodId,
}

impl Exact {
    /// An empty service at time zero, without pods.
    #[must_use]
    pub fn new(model: ServiceModel, seed: Seed) -> Self {
        let bounds = Histogram::bounds_around(model.target_secs);
        Self::with_bounds(model, seed, bounds)
    }

    /// The same with the latency buckets the caller wants, upper bounds in seconds, rising.
    #[must_use]
    pub fn with_bounds(model: ServiceModel, seed: Seed, bounds: Arc<[f64]>) -> Self {
        let tick = Tick::empty(&bounds);
        Self {
            model,
            bounds,
            now_secs: 0.0,
            pods: Vec::new(),
            queue: VecDeque::new(),
            running: BinaryHeap::new(),
            work: seed.stream("service"),
            arrivals: Arrivals::poisson(seed, 0.0),
            times: Vec::new(),
            tick,
        }
    }

    /// Says which pods are ready from `now_secs` on. New ones start to serve, absent ones finish what they have
    /// and vanish. `now_secs` must not lie before the end of the last stretch; it is moved there if it does.
    pub fn set_pods(&mut self, now_secs: f64, ready: &[PodId]) {
        let now_secs = now_secs.max(self.now_secs);
        self.run_to(now_secs);
        for pod in &mut self.pods {
            pod.draining = !ready.contains(&pod.id);
        }
        for id in ready {
            if self.pods.iter().all(|pod| pod.id != *id) {
                self.pods.push(Pod::new(*id, now_secs));
            }
        }
        self.start_waiting(now_secs);
    }

    /// A pod dies at `now_secs` with all it was working on.
    pub fn crash(&mut self, now_secs: f64, id: PodId) {
        self.run_to(now_secs.max(self.now_secs));
        let before = self.running.len();
        self.running.retain(|Reverse(running)| running.pod != id);
        let lost = (before - self.running.len()) as u64;
        self.tick.dropped += lost;
        self.tick.late += lost;
        if let Some(pod) = self.pods.iter_mut().find(|pod| pod.id == id) {
            pod.count_to(self.now_secs);
            pod.busy = 0;
            pod.draining = true;
        }
    }

    /// From now on the pod works at this share of full speed (a fault); requests already started are not slowed.
    pub fn set_speed(&mut self, id: PodId, speed: f64) {
        const MIN_SPEED: f64 = 0.001;
        if let Some(pod) = self.pods.iter_mut().find(|pod| pod.id == id) {
            pod.speed = speed.max(MIN_SPEED);
        }
    }

    /// Simulates up to `to_secs` with Poisson arrivals of this rate, drawn from the service's own seed.
    pub fn advance(&mut self, to_secs: f64, rate: f64) -> Tick {
        let mut times = std::mem::take(&mut self.times);
        times.clear();
        self.arrivals.until(to_secs, rate, &mut times);
        let tick = self.serve(to_secs, &times);
        self.times = times;
        tick
    }

    /// Simulates up to `to_secs` with the given arrival times, rising and within the stretch: the way to give
    /// several services the same arrivals (`Arrivals` makes them).
    pub fn serve(&mut self, to_secs: f64, times: &[f64]) -> Tick {
        self.feed(to_secs, times);
        self.close_tick()
    }

    /// As `serve`, but the stretch goes on: the pods may change before its end.
    pub fn feed(&mut self, to_secs: f64, times: &[f64]) {
        for arrived_secs in times {
            self.run_to(*arrived_secs);
            self.arrive(*arrived_secs);
        }
        self.run_to(to_secs);
    }

    /// Requests waiting or being worked on.
    #[must_use]
    pub fn inside(&self) -> usize {
        self.queue.len() + self.running.len()
    }

    fn arrive(&mut self, arrived_secs: f64) {
        self.tick.offered += 1;
        // Drawn on arrival, so that the n-th request is the same work whatever the pods are.
        let work_secs = draw_service(&self.model, &mut self.work);
        if self.model.max_waiting <= self.queue.len() {
            self.tick.dropped += 1;
            self.tick.late += 1;
            return;
        }
        self.queue.push_back(Request { arrived_secs, work_secs });
        self.start_waiting(arrived_secs);
    }

    /// Finishes all that ends up to `to_secs`, and starts what was waiting for it.
    fn run_to(&mut self, to_secs: f64) {
        while let Some(Reverse(first)) = self.running.peek().copied() {
            if to_secs < first.ends_secs {
                break;
            }
            self.running.pop();
            self.finish(first);
            self.start_waiting(first.ends_secs);
        }
        self.now_secs = self.now_secs.max(to_secs);
        self.give_up(self.now_secs);
    }

    fn finish(&mut self, running: Running) {
        let latency_secs = running.ends_secs - running.arrived_secs;
        self.tick.served += 1;
        self.tick.late += u64::from(self.model.target_secs < latency_secs);
        self.tick.latencies.record(latency_secs);
        if let Some(pod) = self.pods.iter_mut().find(|pod| pod.id == running.pod) {
            pod.count_to(running.ends_secs);
            pod.busy -= 1;
        }
    }

    fn start_waiting(&mut self, now_secs: f64) {
        self.give_up(now_secs);
        while !self.queue.is_empty() {
            let workers = self.model.workers;
            let free = self.pods.iter_mut().filter(|pod| !pod.draining && pod.busy < workers);
            let Some(pod) = free.min_by_key(|pod| pod.busy) else { return };
            let Some(request) = self.queue.pop_front() else { return };
            let warm = self.model.slow_start.map_or(1.0, |slow| slow.speed(now_secs - pod.ready_since_secs));
            pod.count_to(now_secs);
            pod.busy += 1;
            self.running.push(Reverse(Running {
                ends_secs: now_secs + request.work_secs / (pod.speed * warm),
                arrived_secs: request.arrived_secs,
                pod: pod.id,
            }));
        }
    }

    /// Those at the head of the queue have waited longest, and all have the same patience.
    fn give_up(&mut self, now_secs: f64) {
        while let Some(first) = self.queue.front() {
            if now_secs < first.arrived_secs + self.model.timeout_secs {
                return;
            }
            self.queue.pop_front();
            self.tick.timed_out += 1;
            self.tick.late += 1;
        }
    }

    fn close_tick(&mut self) -> Tick {
        let now_secs = self.now_secs;
        for pod in &mut self.pods {
            pod.count_to(now_secs);
        }
        let by_state = |draining: bool| move |pod: &&mut Pod| pod.draining == draining;
        let mut busy_worker_secs = Vec::with_capacity(self.pods.len());
        for draining in [false, true] {
            for pod in self.pods.iter_mut().filter(by_state(draining)) {
                busy_worker_secs.push((pod.id, std::mem::take(&mut pod.busy_worker_secs)));
            }
        }
        self.pods.retain(|pod| !pod.draining || 0 < pod.busy);
        self.tick.busy_worker_secs = busy_worker_secs;
        self.tick.waiting = self.queue.len();
        self.tick.in_service = self.running.len();
        std::mem::replace(&mut self.tick, Tick::empty(&self.bounds))
    }
}

/// Seconds of a worker one request needs.
fn draw_service(model: &ServiceModel, work: &mut Stream) -> f64 {
    let factor: f64 = match model.law {
        ServiceLaw::Deterministic => 1.0,
        ServiceLaw::Exponential => Exp1.sample(work),
        ServiceLaw::Lognormal { cv } => lognormal(cv, StandardNormal.sample(work)),
    };
    model.service_secs * factor
}

/// A lognormal of mean one and this coefficient of variation at the standard normal value `z`.
pub(crate) fn lognormal(cv: f64, z: f64) -> f64 {
    let variance = (cv * cv).ln_1p();
    (variance.sqrt() * z - variance / 2.0).exp()
}

impl Pod {
    fn new(id: PodId, now_secs: f64) -> Self {
        Self {
            id,
            ready_since_secs: now_secs,
            speed: 1.0,
            draining: false,
            busy: 0,
            busy_worker_secs: 0.0,
            counted_to_secs: now_secs,
        }
    }

    fn count_to(&mut self, now_secs: f64) {
        self.busy_worker_secs += f64::from(self.busy) * (now_secs - self.counted_to_secs).max(0.0);
        self.counted_to_secs = now_secs;
    }
}

impl Tick {
    fn empty(bounds: &Arc<[f64]>) -> Self {
        Self {
            offered: 0,
            served: 0,
            late: 0,
            dropped: 0,
            timed_out: 0,
            waiting: 0,
            in_service: 0,
            latencies: Histogram::new(Arc::clone(bounds)),
            busy_worker_secs: Vec::new(),
        }
    }
}

impl Eq for Running {}

impl PartialOrd for Running {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Running {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let Running { ends_secs, arrived_secs, pod } = self;
        let by_end = ends_secs.total_cmp(&other.ends_secs);
        by_end.then(arrived_secs.total_cmp(&other.arrived_secs)).then(pod.cmp(&other.pod))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(law: ServiceLaw) -> Exact {
        let model = ServiceModel { law, ..ServiceModel::new(1, 1.0, 2.0) };
        Exact::new(model, Seed(1))
    }

    #[test]
    fn requests_queue_are_late_and_time_out() {
        let mut exact = service(ServiceLaw::Deterministic);
        exact.set_pods(0.0, &[PodId(1)]);
        let tick = exact.serve(5.0, &[0.1, 0.2, 0.3, 0.4]);
        // Answered after 1.0, 1.9, 2.8 and 3.7 seconds.
        assert_eq!((tick.offered, tick.served, tick.late), (4, 4, 2));
        assert!((tick.busy_worker_secs[0].1 - 4.0).abs() < 1e-9);
        exact.set_pods(5.0, &[]);
        let tick = exact.serve(20.0, &[6.0]);
        assert_eq!((tick.served, tick.timed_out, tick.late), (0, 1, 1));
    }

    #[test]
    fn a_removed_pod_finishes_and_a_crashed_one_loses_its_requests() {
        let mut exact = service(ServiceLaw::Deterministic);
        exact.set_pods(0.0, &[PodId(1), PodId(2)]);
        exact.serve(0.5, &[0.1, 0.2]);
        exact.set_pods(0.5, &[PodId(2)]);
        exact.crash(0.6, PodId(2));
        let tick = exact.serve(5.0, &[]);
        assert_eq!((tick.served, tick.dropped), (1, 1));
    }

    #[test]
    fn a_full_queue_drops() {
        let model = ServiceModel { max_waiting: 2, ..ServiceModel::new(1, 1.0, 2.0) };
        let mut exact = Exact::new(model, Seed(1));
        let tick = exact.serve(1.0, &[0.1, 0.2, 0.3]);
        assert_eq!((tick.waiting, tick.dropped), (2, 1));
    }

    #[test]
    fn a_fresh_pod_is_slow_and_a_slow_pod_stays_so() {
        let mut exact = service(ServiceLaw::Deterministic);
        exact.model.slow_start = Some(SlowStart { secs: 100.0, initial_speed: 0.5 });
        exact.set_pods(0.0, &[PodId(1)]);
        let tick = exact.serve(3.0, &[0.0]);
        assert!((tick.latencies.sum_secs() - 2.0).abs() < 0.02);
        exact.set_speed(PodId(1), 0.25);
        let tick = exact.serve(210.0, &[200.0]);
        assert!((tick.latencies.sum_secs() - 4.0).abs() < 1e-9);
    }

    #[test]
    fn offered_is_served_dropped_timed_out_or_still_there() {
        let mut exact = service(ServiceLaw::Lognormal { cv: 2.0 });
        let mut balance = 0i64;
        for step in 0..200u32 {
            let pods: Vec<_> = (0..u64::from(step % 7)).map(PodId).collect();
            exact.set_pods(f64::from(step), &pods);
            let tick = exact.advance(f64::from(step + 1), 4.0);
            balance += tick.offered as i64 - (tick.served + tick.dropped + tick.timed_out) as i64;
            assert_eq!(balance, (tick.waiting + tick.in_service) as i64, "step {step}, seed 1");
        }
    }

    #[test]
    fn two_services_can_get_the_same_arrivals_and_repeat_to_the_bit() {
        let run = || {
            let mut exact = service(ServiceLaw::Exponential);
            exact.set_pods(0.0, &[PodId(1), PodId(2)]);
            (0..50).map(|step| exact.advance(f64::from(step), 1.5)).collect::<Vec<_>>()
        };
        assert_eq!(run(), run());
    }

    use crate::model::SlowStart;
}
