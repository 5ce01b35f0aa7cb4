//! A simulated service from one tick to the next: its pods, its queue, its load, and what goes wrong. In: how many
//! replicas are wanted. Out: what each tick brought, and what can be seen of it. Two levels share everything but the
//! queue: the fast one for training and judging, the exact one, request by request, to check it.

use std::ops::Range;

use rand_distr::{Distribution, Poisson, StandardNormal};

use crate::arrivals::Arrivals;
use crate::exact::{Exact, PodId};
use crate::fault::FaultKind;
use crate::fleet::{Fleet, Placement, ReadyPod};
use crate::fluid::{Capacity, Fluid, Queue, Waits, normal_tail};
use crate::histogram::Histogram;
use crate::metrics::{Moment, Recorder, Sample, Seen};
use crate::scenario::Scenario;
use crate::seed::{Seed, Stream};

/// Age of the first pods at the exact level, whose clock starts this much earlier: warmed up.
const AGE_SECS: f64 = 100_000.0;

/// How the queue is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Level {
    /// As a fluid with a random layer.
    #[default]
    Fast,
    /// Request by request.
    Exact,
}

/// What one tick brought, in requests.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TickOutcome {
    /// Arrived.
    pub offered: f64,
    /// Answered, or being answered.
    pub served: f64,
    /// Will not be, or were not, answered in time.
    pub late: f64,
    /// Never answered.
    pub dropped: f64,
    /// Pods paid for.
    pub paid: u32,
    /// Price of a replica-hour.
    pub price: f64,
    /// Mean speed of the pods.
    pub speed: f64,
    /// Latency at the signal's percentile, seconds.
    pub latency_secs: f64,
    /// The waits; at the exact level, see `histogram`.
    pub waits: Waits,
}

/// A simulated service.
#[derive(Debug, Clone)]
pub struct World<'a> {
    scenario: &'a Scenario,
    fluid: Fluid,
    fleet: Fleet,
    queue: Kind,
    recorder: Recorder,
    tick: i64,
    /// The service time at the latency signal's percentile, seconds.
    service_quantile_secs: f64,
    late_anyway: f64,
    counts: Stream,
}

#[derive(Debug, Clone)]
enum Kind {
    Fast(Queue),
    Exact(Box<ExactQueue>),
}

#[derive(Debug, Clone)]
struct ExactQueue {
    exact: Exact,
    arrivals: Arrivals,
    times: Vec<f64>,
    ready: Vec<PodId>,
    latencies: Histogram,
    unanswered: f64,
    worker_secs: f64,
}

impl<'a> World<'a> {
    /// The service as it was left: its initial replicas ready, and enough past that every window is full.
    #[must_use]
    pub fn new(scenario: &'a Scenario, level: Level, seed: Seed, bounds: &[f64]) -> Self {
        let mut service = scenario.profile.service.clone();
        service.service_secs /= scenario.true_capacity;
        let fluid = Fluid::new(&service, scenario.dispersion);
        let before = (scenario.metrics.lag_secs + scenario.metrics.window_secs) / scenario.tick_secs;
        let tick = -(before.ceil() as i64);
        let start_secs = tick as f64 * scenario.tick_secs;
        let replicas = scenario.initial_replicas();
        let queue = match level {
            Level::Fast => Kind::Fast(Queue::default()),
            Level::Exact => {
                let histogram = Histogram::new(bounds.into());
                Kind::Exact(Box::new(ExactQueue {
                    exact: Exact::with_bounds(service, seed, bounds.into()),
                    arrivals: Arrivals::bursty(seed, start_secs + AGE_SECS, scenario.dispersion),
                    times: Vec::new(),
                    ready: Vec::new(),
                    latencies: histogram,
                    unanswered: 0.0,
                    worker_secs: 0.0,
                }))
            }
        };
        let mut world = Self {
            scenario,
            fluid,
            fleet: Fleet::new(scenario.profile.startup, replicas, scenario.failures_per_pod_hour, seed),
            queue,
            recorder: Recorder::new(scenario, seed),
            tick,
            service_quantile_secs: fluid
                .service_quantile(normal_quantile(scenario.metrics.latency_percentile)),
            late_anyway: fluid.late_without_wait(1.0),
            counts: seed.stream("arrivals"),
        };
        while world.tick < 0 {
            world.step();
        }
        world
    }

    /// Seconds of the run.
    #[must_use]
    pub fn time_secs(&self) -> f64 {
        self.tick as f64 * self.scenario.tick_secs
    }

    /// Its pods.
    #[must_use]
    pub fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    /// The service's queue at the fast level.
    #[must_use]
    pub fn fluid(&self) -> &Fluid {
        &self.fluid
    }

    /// Requests waiting or being worked on.
    #[must_use]
    pub fn inside(&self) -> f64 {
        match &self.queue {
            Kind::Fast(queue) => queue.backlog,
            Kind::Exact(queue) => queue.exact.inside() as f64,
        }
    }

    /// Latencies of the last tick and the number of unanswered requests; `None` at the fast level.
    #[must_use]
    pub fn histogram(&self) -> Option<(&Histogram, f64)> {
        match &self.queue {
            Kind::Fast(_) => None,
            Kind::Exact(queue) => Some((&queue.latencies, queue.unanswered)),
        }
    }

    /// What a scaler sees now.
    pub fn observe(&mut self) -> Seen {
        let time_secs = self.time_secs();
        let moment = Moment {
            time_secs,
            replicas: self.fleet.wanted(),
            count: self.fleet.count(),
            price: self.price(time_secs),
            faults: &self.scenario.faults,
        };
        let mut seen = self.recorder.observe(&moment);
        seen.observation.pod_cpu_request = Some(self.scenario.profile.pod_cpu_request);
        seen.observation.startup_secs = Some(self.scenario.profile.startup.p90_secs);
        seen
    }

    /// Wants this many replicas from now on, held within the profile's bounds.
    pub fn scale(&mut self, replicas: u32) {
        let profile = &self.scenario.profile;
        let replicas = replicas.clamp(profile.min_replicas, profile.max_replicas);
        if replicas != self.fleet.wanted() {
            self.fleet.scale(self.time_secs(), replicas);
        }
    }

    /// One tick.
    pub fn step(&mut self) -> TickOutcome {
        let scenario = self.scenario;
        let secs = scenario.tick_secs;
        let from_secs = self.time_secs();
        let to_secs = from_secs + secs;
        let mut rate = scenario.rate_at(from_secs + 0.5 * secs);
        let mut trouble = Trouble { speed: 1.0, dependency: 1.0, lost: 0.0 };
        if !scenario.faults.is_empty() {
            rate *= self.apply_faults(from_secs, &mut trouble);
        }
        let failed = self.fleet.pass(from_secs, to_secs);
        if failed.is_some() {
            self.lose(failed, &mut trouble);
        }
        let slow_start = scenario.profile.service.slow_start;
        let (pods, warm) = self.fleet.capacity(from_secs, to_secs, slow_start);
        let speed = warm * trouble.speed / trouble.dependency;
        let late_anyway = if speed == 1.0 { self.late_anyway } else { self.fluid.late_without_wait(speed) };

        let mut outcome = match &mut self.queue {
            Kind::Fast(queue) => {
                let flow = self.fluid.step(queue, rate, Capacity { pods, speed }, late_anyway, secs);
                let in_flight = trouble.lost * rate * self.fluid.service_secs() / pods.max(1.0);
                let lost = in_flight.min(flow.served);
                TickOutcome {
                    offered: flow.offered,
                    served: flow.served - lost,
                    late: (flow.late + lost).min(flow.offered),
                    dropped: flow.dropped + lost,
                    waits: flow.waits,
                    ..TickOutcome::default()
                }
            }
            Kind::Exact(queue) => {
                let mean_speed = trouble.speed / trouble.dependency;
                queue.step(&self.fleet, from_secs..to_secs, rate, mean_speed)
            }
        };
        outcome.paid = self.fleet.count().paid();
        outcome.price = self.price(from_secs);
        outcome.speed = speed;
        outcome.latency_secs = self.record(&outcome, rate, pods, &trouble);
        self.tick += 1;
        outcome
    }

    /// Records what can be seen of the tick; returns its latency.
    fn record(&mut self, outcome: &TickOutcome, rate: f64, pods: f64, trouble: &Trouble) -> f64 {
        let scenario = self.scenario;
        let profile = &scenario.profile;
        let workers = f64::from(profile.service.workers);
        let percentile = scenario.metrics.latency_percentile;
        let (arrived, latency_secs, worker_secs) = match &self.queue {
            Kind::Fast(queue) => {
                let mean = rate * scenario.tick_secs;
                let arrived = draw_count(mean, scenario.dispersion, &mut self.counts);
                let service_secs = self.service_quantile_secs;
                let latency = self.fluid.latency(&outcome.waits, percentile, outcome.speed, service_secs);
                // While all workers are busy, chance has no say in how busy they are.
                let chance = if 0.0 < queue.backlog {
                    0.0
                } else {
                    let normal: f64 = StandardNormal.sample(&mut self.counts);
                    arrived - mean + mean.sqrt() * self.fluid.service_cv() * normal
                };
                let work = (outcome.served + chance).max(0.0) * self.fluid.service_secs() / outcome.speed;
                (arrived, latency, work.min(pods * workers * scenario.tick_secs))
            }
            Kind::Exact(queue) => {
                let latency = queue.latencies.quantile(percentile);
                (outcome.offered, latency.unwrap_or(0.0), queue.worker_secs)
            }
        };
        self.recorder.record(Sample {
            arrived,
            offered: outcome.offered,
            late: outcome.late,
            dropped: outcome.dropped,
            // A worker that waits for a dependency is busy and uses no CPU.
            core_secs: worker_secs / trouble.dependency / workers * profile.pod_cpu_request,
            pods,
            latency_secs,
        });
        latency_secs
    }

    fn price(&self, time_secs: f64) -> f64 {
        let mut price = self.scenario.profile.price_per_replica_hour;
        for fault in self.scenario.faults.iter().filter(|fault| fault.lasts(time_secs)) {
            if let FaultKind::Price { per_replica_hour } = fault.kind {
                price = per_replica_hour;
            }
        }
        price
    }

    /// Starts and ends what goes wrong; returns the factor on the load.
    fn apply_faults(&mut self, now_secs: f64, trouble: &mut Trouble) -> f64 {
        let scenario = self.scenario;
        let mut load = 1.0;
        let mut placement = Placement::Open;
        for fault in &scenario.faults {
            let starts = fault.lasts(now_secs) && !fault.lasts(now_secs - scenario.tick_secs);
            let ended = !fault.lasts(now_secs) && fault.lasts(now_secs - scenario.tick_secs);
            match fault.kind {
                FaultKind::PodsCrash { share } if starts => {
                    let gone = self.fleet.crash(share);
                    self.lose(gone, trouble);
                }
                FaultKind::PodsCrash { .. } if ended => self.fleet.recover(now_secs),
                FaultKind::Rollout { surge } if starts => self.fleet.roll_out(now_secs, surge),
                FaultKind::PodsPend if fault.lasts(now_secs) => placement = Placement::Blocked,
                FaultKind::PodsSlow { share, speed } if fault.lasts(now_secs) => {
                    trouble.speed *= 1.0 - share.clamp(0.0, 1.0) * (1.0 - speed.clamp(0.01, 1.0));
                }
                FaultKind::Load { factor } if fault.lasts(now_secs) => load *= factor.max(0.0),
                FaultKind::SlowDependency { factor } if fault.lasts(now_secs) => {
                    trouble.dependency *= factor.max(1.0);
                }
                _ => {}
            }
        }
        self.fleet.place(now_secs, placement);
        load
    }

    /// Pods die with what they were working on.
    fn lose(&mut self, gone: impl IntoIterator<Item = PodId>, trouble: &mut Trouble) {
        let now_secs = self.time_secs();
        for id in gone {
            trouble.lost += 1.0;
            if let Kind::Exact(queue) = &mut self.queue {
                queue.exact.crash(now_secs + AGE_SECS, id);
            }
        }
    }
}

/// What goes wrong in one tick with the pods.
struct Trouble {
    /// Mean speed of the pods' own work.
    speed: f64,
    /// How many times longer a request takes because of others.
    dependency: f64,
    /// Pods that died at its start.
    lost: f64,
}

impl ExactQueue {
    /// Warm-up is the exact level's own; `mean_speed` is what faults leave.
    fn step(&mut self, fleet: &Fleet, secs: Range<f64>, rate: f64, mean_speed: f64) -> TickOutcome {
        let (from_secs, to_secs) = (secs.start + AGE_SECS, secs.end + AGE_SECS);
        let ready = fleet.ready();
        let since = |pod: &ReadyPod| pod.since_secs + AGE_SECS;
        let mut present = ready.partition_point(|pod| since(pod) <= from_secs);
        let mut now_secs = if self.exact.inside() == 0 && self.ready.is_empty() { 0.0 } else { from_secs };
        // Pods that become ready within the tick do so at their time.
        loop {
            self.ready.clear();
            self.ready.extend(ready[..present].iter().map(|pod| pod.id));
            self.exact.set_pods(now_secs, &self.ready);
            for id in &self.ready {
                self.exact.set_speed(*id, mean_speed);
            }
            let Some(next) = ready.get(present) else { break };
            now_secs = since(next);
            present += 1;
            self.times.clear();
            self.arrivals.until(now_secs, rate, &mut self.times);
            self.exact.feed(now_secs, &self.times);
        }
        self.times.clear();
        self.arrivals.until(to_secs, rate, &mut self.times);
        let tick = self.exact.serve(to_secs, &self.times);
        let unanswered = (tick.dropped + tick.timed_out) as f64;
        self.unanswered = unanswered;
        self.latencies = tick.latencies;
        self.worker_secs = tick.busy_worker_secs.iter().map(|(_, secs)| secs).sum();
        TickOutcome {
            offered: tick.offered as f64,
            served: tick.served as f64,
            late: tick.late as f64,
            dropped: unanswered,
            ..TickOutcome::default()
        }
    }
}

/// Arrivals counted in a tick: Poisson, or with this variance over mean.
fn draw_count(mean: f64, dispersion: f64, counts: &mut Stream) -> f64 {
    /// From here on the normal law stands for Poisson's.
    const MANY: f64 = 30.0;
    if mean <= 0.0 {
        return 0.0;
    }
    if mean < MANY && dispersion <= 1.0 {
        return Poisson::new(mean).map_or(mean, |law| law.sample(counts));
    }
    let normal: f64 = StandardNormal.sample(counts);
    (mean + (mean * dispersion.max(1.0)).sqrt() * normal).max(0.0)
}

/// The standard normal value below which a share `probability` of draws lies, by bisection; asked once per world.
fn normal_quantile(probability: f64) -> f64 {
    let (mut low, mut high) = (-8.0, 8.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if 1.0 - probability < normal_tail(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}
