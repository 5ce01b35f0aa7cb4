//! The fast level: a service's queue as a fluid with a random layer on top, in a handful of operations per tick.
//!
//! In: arrival rate, pods, their speed, and the state at the start of the tick. Out: what was served, late and
//! dropped, and the state at its end. Never: randomness, allocation. Smooth but for a few kinks, so that it can be
//! differentiated.
//!
//! Two numbers are carried along. The *backlog* is what a fluid would leave: arrivals minus capacity. The *spread* is
//! the size (in requests) of the queue that chance alone makes: its square gains the variance of arrivals and services
//! and loses to the spare capacity, d(x^2)/dt = v - 2 (C - r) x. At rest that gives x = v / 2(C - r), which is the
//! exponential decay of the M/G/c tail with Allen and Cunneen's variability factor; without spare capacity it grows as
//! a random walk does, so that a queue does not jump to its distant equilibrium within one tick.
//! P(wait > w) = P(wait > 0) exp(-(w C - backlog) / x), with P(wait > 0) after Sakasegawa (Annals of the Institute of
//! Statistical Mathematics 29, 1977): rho^(sqrt(2 (c + 1)) - 1), exact for one server and within 0.04 of Erlang's C
//! elsewhere, and defined for a fractional number of servers.

use crate::model::ServiceModel;

/// What of a service does not change from tick to tick.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fluid {
    workers: f64,
    service_secs: f64,
    /// Standard deviation of the service time, seconds.
    deviation_secs: f64,
    target_secs: f64,
    timeout_secs: f64,
    max_waiting: f64,
    /// Variance per request of arrivals plus services: dispersion + cv^2.
    variance: f64,
    /// Sigma of the lognormal service time; 0 when it is constant.
    sigma: f64,
}

/// The queue at the end of a tick.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Queue {
    /// Requests waiting that a fluid would leave.
    pub backlog: f64,
    /// Size of the queue that chance makes, requests.
    pub spread: f64,
    /// Requests that arrived within about the last time-out: no more can be waiting, as older ones gave up.
    pub recent: f64,
}

/// The capacity of a tick.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Capacity {
    /// Pods ready, those that became ready within the tick by the share of it.
    pub pods: f64,
    /// Their mean speed, a share of full speed.
    pub speed: f64,
}

/// What happened in a tick, in requests. `backlog before + offered = served + dropped + backlog after`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Flow {
    /// Arrived.
    pub offered: f64,
    /// Answered or being answered.
    pub served: f64,
    /// Of those that arrived: will not be answered within the target.
    pub late: f64,
    /// Gave up, or found the queue full.
    pub dropped: f64,
    /// What one needs to know of the waits.
    pub waits: Waits,
}

/// The distribution of waits of a tick's arrivals: `offset_secs` for all, and more than w beyond it with probability
/// `chance` exp(-w / mean_secs).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Waits {
    /// Wait behind the backlog, seconds, mean over the tick.
    pub offset_secs: f64,
    /// Probability of waiting more than that.
    pub chance: f64,
    /// Mean of the additional wait of those who have one, seconds.
    pub mean_secs: f64,
}

impl Waits {
    /// The wait that a share `quantile` of requests does not exceed, seconds.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> f64 {
        let excess = self.chance / (1.0 - quantile);
        self.offset_secs + if 1.0 < excess { self.mean_secs * excess.ln() } else { 0.0 }
    }
}

impl Fluid {
    /// `dispersion` is the variance over the mean of arrival counts, 1 for Poisson.
    #[must_use]
    pub fn new(service: &ServiceModel, dispersion: f64) -> Self {
        let cv = service.law.cv();
        Self {
            workers: f64::from(service.workers),
            service_secs: service.service_secs,
            deviation_secs: cv * service.service_secs,
            target_secs: service.target_secs,
            timeout_secs: service.timeout_secs,
            max_waiting: service.max_waiting as f64,
            variance: dispersion.max(1.0) + cv * cv,
            sigma: (cv * cv).ln_1p().sqrt(),
        }
    }

    /// The mean time one request occupies a worker at full speed, seconds.
    #[must_use]
    pub fn service_secs(&self) -> f64 {
        self.service_secs
    }

    /// Standard deviation over mean of the service time.
    #[must_use]
    pub fn service_cv(&self) -> f64 {
        self.deviation_secs / self.service_secs
    }

    /// Requests per second these pods can serve.
    #[must_use]
    pub fn capacity(&self, capacity: Capacity) -> f64 {
        capacity.pods * capacity.speed * self.workers / self.service_secs
    }

    /// Share of requests that take longer than the target even without a wait, at this speed.
    #[must_use]
    pub fn late_without_wait(&self, speed: f64) -> f64 {
        self.service_exceeds(self.target_secs * speed)
    }

    /// Share of requests that occupy a worker for longer than `secs` at full speed.
    #[must_use]
    pub fn service_exceeds(&self, secs: f64) -> f64 {
        let ratio = secs / self.service_secs;
        if self.sigma == 0.0 {
            return if ratio < 1.0 { 1.0 } else { 0.0 };
        }
        normal_tail(ratio.ln() / self.sigma + self.sigma / 2.0)
    }

    /// Share of requests whose latency exceeds `bound_secs`.
    #[must_use]
    pub fn latency_exceeds(&self, waits: &Waits, speed: f64, bound_secs: f64) -> f64 {
        let without = self.service_exceeds(bound_secs * speed);
        let room_secs = bound_secs - self.service_secs / speed - waits.offset_secs;
        let waiting = if 0.0 <= room_secs {
            waits.chance * (-room_secs / waits.mean_secs.max(f64::MIN_POSITIVE)).exp()
        } else if 0.0 < waits.offset_secs {
            1.0
        } else {
            0.0
        };
        without + (1.0 - without) * waiting
    }

    /// Latency that a share `quantile` of requests does not exceed; `service_quantile_secs` from `service_quantile`.
    #[must_use]
    pub fn latency(&self, waits: &Waits, quantile: f64, speed: f64, service_quantile_secs: f64) -> f64 {
        let wait = waits.quantile(quantile);
        (service_quantile_secs / speed).max(self.service_secs / speed + wait)
    }

    /// The service time at the standard normal value `z` of its lognormal, at full speed, seconds.
    #[must_use]
    pub fn service_quantile(&self, z: f64) -> f64 {
        self.service_secs * (self.sigma * z - self.sigma * self.sigma / 2.0).exp()
    }

    /// One tick of `secs`, at `rate` requests per second. `late_anyway` is `late_without_wait` at this speed.
    pub fn step(
        &self,
        queue: &mut Queue,
        rate: f64,
        capacity: Capacity,
        late_anyway: f64,
        secs: f64,
    ) -> Flow {
        let offered = rate * secs;
        let per_sec = self.capacity(capacity);
        let room = self.room(queue, rate, per_sec, secs);
        if per_sec <= 0.0 {
            return self.step_without_pods(queue, rate, room, secs);
        }
        let start = queue.backlog.min(room);
        let unbounded = start + (rate - per_sec) * secs;
        let end = unbounded.clamp(0.0, room);
        let dropped = (queue.backlog - start) + (unbounded - end).max(0.0);
        let served = queue.backlog + offered - dropped - end;

        // The random layer; the implicit step is stable at any spare capacity and has the rest point as fixed point.
        let spare = (per_sec - rate).max(0.0) * secs;
        let variance = per_sec * self.variance * secs;
        let spread = (spare * spare + queue.spread * queue.spread + variance).sqrt() - spare;
        queue.backlog = end;
        queue.spread = spread;

        let busy_share = (rate / per_sec).min(1.0);
        let servers = capacity.pods * self.workers;
        let chance = wait_probability(busy_share, servers);
        let slack_secs = self.target_secs - self.service_secs / capacity.speed;
        let limit = slack_secs * per_sec;
        let late_share = if start <= 0.0 && end <= 0.0 {
            chance * self.beyond(limit, spread, per_sec, capacity.speed)
        } else {
            // The part of the tick in which the backlog is gone, if it is.
            let busy_time = if 0.0 < end { 1.0 } else { start / (start - unbounded) };
            let calm = if busy_time < 1.0 {
                chance * self.beyond(limit, spread, per_sec, capacity.speed)
            } else {
                0.0
            };
            busy_time * self.beyond_a_slope(limit, start, end, spread) + (1.0 - busy_time) * calm
        };
        let late = offered * (late_anyway + (1.0 - late_anyway) * late_share);
        let backlogged = 0.0 < start || 0.0 < end;
        let waits = Waits {
            offset_secs: (0.5 * (start + end) / per_sec).min(self.timeout_secs),
            chance: if backlogged { 1.0 } else { chance },
            mean_secs: spread / per_sec,
        };
        Flow { offered, served, late, dropped, waits }
    }

    /// Most requests that can be waiting: those that arrived within the time-out. After a fall of the rate those of
    /// the time before are still among them; they are forgotten exponentially.
    fn room(&self, queue: &mut Queue, rate: f64, per_sec: f64, secs: f64) -> f64 {
        let keep = (1.0 - secs / self.timeout_secs).max(0.0);
        queue.recent = queue.recent * keep + rate * secs.min(self.timeout_secs);
        (rate.max(per_sec) * self.timeout_secs).max(queue.recent).min(self.max_waiting)
    }

    /// Nothing is served; those who have waited for the time-out give up.
    fn step_without_pods(&self, queue: &mut Queue, rate: f64, room: f64, secs: f64) -> Flow {
        let offered = rate * secs;
        let waiting = queue.backlog + offered;
        queue.backlog = waiting.min(room);
        queue.spread = 0.0;
        let waits = Waits { offset_secs: self.timeout_secs, chance: 0.0, mean_secs: 0.0 };
        Flow { offered, served: 0.0, late: offered, dropped: waiting - queue.backlog, waits }
    }

    /// Probability that the queue which chance makes exceeds `limit` requests, given that there is one, and that the
    /// request's own service time varies: a request that happens to be long has less patience left.
    fn beyond(&self, limit: f64, spread: f64, per_sec: f64, speed: f64) -> f64 {
        if limit <= 0.0 {
            return 1.0;
        }
        let steepness = limit / spread.max(f64::MIN_POSITIVE);
        let vary = per_sec * self.deviation_secs / (speed * spread.max(f64::MIN_POSITIVE));
        (-steepness + (0.5 * vary * vary).min(0.5 * steepness)).exp()
    }

    /// Mean of P(queue > `limit`) while the backlog goes straight from `start` to `end`. Near an empty queue chance only
    /// adds; about a large backlog it adds and takes away alike (a Laplace law of the walk's deviation).
    fn beyond_a_slope(&self, limit: f64, start: f64, end: f64, spread: f64) -> f64 {
        let (low, high) = (start.min(end), start.max(end));
        let spread = spread.max(f64::MIN_POSITIVE);
        let middle = 0.5 * (low + high);
        let far = middle / (middle + spread);
        let scale = spread * (1.0 - (1.0 - std::f64::consts::FRAC_1_SQRT_2) * far);
        let (below, above) = (1.0 - 0.5 * far, 0.5 * far);
        let width = high - low;
        if width < 1e-9 * (1.0 + high) {
            return if middle < limit {
                below * (-(limit - middle) / scale).exp()
            } else {
                1.0 - above * (-(middle - limit) / scale).exp()
            };
        }
        let mut area = 0.0;
        if low < limit {
            let top = high.min(limit);
            area += below * scale * ((-(limit - top) / scale).exp() - (-(limit - low) / scale).exp());
        }
        if limit < high {
            let bottom = low.max(limit);
            let missed = (-(bottom - limit) / scale).exp() - (-(high - limit) / scale).exp();
            area += (high - bottom) - above * scale * missed;
        }
        area / width
    }
}

/// Probability that an arrival waits, `servers` servers being busy by the share `busy_share`.
#[must_use]
pub fn wait_probability(busy_share: f64, servers: f64) -> f64 {
    if busy_share <= 0.0 {
        return 0.0;
    }
    busy_share.min(1.0).powf((2.0 * (servers + 1.0)).sqrt() - 1.0)
}

/// P(Z > z) of the standard normal, within 1e-7 (Abramowitz and Stegun, Handbook of Mathematical Functions, 26.2.17).
#[must_use]
pub fn normal_tail(z: f64) -> f64 {
    const COEFFICIENTS: [f64; 5] =
        [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    if z < 0.0 {
        return 1.0 - normal_tail(-z);
    }
    let t = 1.0 / (1.0 + 0.231_641_9 * z);
    let polynomial = COEFFICIENTS.iter().rev().fold(0.0, |sum, coefficient| (sum + coefficient) * t);
    polynomial * (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn web() -> Fluid {
        Fluid::new(&ServiceModel::new(4, 0.05, 0.25), 1.0)
    }

    #[test]
    fn at_rest_the_tail_is_that_of_one_server() {
        // M/M/1: P(wait > w) = rho exp(-(1 - rho) w / s).
        let fluid = Fluid { deviation_secs: 0.0, ..Fluid::new(&ServiceModel::new(1, 0.05, 0.25), 1.0) };
        let mut queue = Queue::default();
        let capacity = Capacity { pods: 1.0, speed: 1.0 };
        let mut flow = Flow::default();
        for _ in 0..10_000 {
            flow = fluid.step(&mut queue, 18.0, capacity, 0.0, 5.0);
        }
        let expected = 0.9 * (-0.1 * 0.2 / 0.05_f64).exp();
        assert!(
            (flow.late / flow.offered - expected).abs() < 1e-3,
            "{} {expected}",
            flow.late / flow.offered
        );
    }

    #[test]
    fn the_normal_tail_is_that_of_the_tables() {
        for (z, tail) in
            [(0.0, 0.5), (1.0, 0.158_655), (-1.0, 0.841_345), (2.326_348, 0.01), (3.090_232, 0.001)]
        {
            assert!((normal_tail(z) - tail).abs() < 1e-6);
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_shares_are_shares(
            backlog in 0.0..50_000.0_f64, spread in 0.0..1_000.0_f64, rate in 0.0..5_000.0_f64,
            pods in 0.0..60.0_f64, speed in 0.05..1.0_f64, secs in 0.1..30.0_f64,
        ) {
            let mut queue = Queue { backlog, spread, ..Queue::default() };
            let flow = web().step(&mut queue, rate, Capacity { pods, speed }, 0.001, secs);
            let before = backlog + flow.offered;
            let after = flow.served + flow.dropped + queue.backlog;
            prop_assert!((before - after).abs() <= 1e-9 * before.max(1.0));
            prop_assert!(0.0 <= flow.late && flow.late <= flow.offered * (1.0 + 1e-12));
            prop_assert!(-1e-6 <= flow.served && 0.0 <= flow.dropped && queue.spread.is_finite());
        }

        #[test]
        fn one_pod_more_makes_no_more_late_but_for_what_chance_takes_from_a_backlog(
            backlog in 0.0..5_000.0_f64, rate in 0.0..5_000.0_f64, pods in 0.0..60.0_f64,
        ) {
            let late = |pods| {
                let mut queue = Queue { backlog, spread: 3.0, ..Queue::default() };
                web().step(&mut queue, rate, Capacity { pods, speed: 1.0 }, 0.0, 5.0).late
            };
            prop_assert!(late(pods + 1.0) <= late(pods) + 0.01 * rate * 5.0 + 1e-6);
        }
    }
}
