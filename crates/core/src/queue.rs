//! The queue behind a service: n pods of k workers each, one queue, first come first served.
//!
//! In: offered load, replicas, what one replica can serve, the latency target. Out: the share of requests that come
//! late, and the smallest replica count that keeps it under a limit. Pure arithmetic, no allocation.
//!
//! Sources: Erlang's delay formula (Erlang 1917; Kleinrock, *Queueing Systems* vol. 1, 1975, 3.5) gives P(wait > 0) and
//! the exact exponential tail of M/M/c. For other service times the decay rate is divided by (ca² + cs²)/2: Kingman
//! 1961 for one server, Köllerström 1974 for several, the same factor as in Allen-Cunneen (Allen, *Probability,
//! Statistics and Queueing Theory*, 1990, 5.6; Whitt, "Approximations for the GI/G/m queue", 1993).

/// What one replica can serve, and how late is late.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Service {
    /// Requests one replica works on at the same time, at least 1.
    pub workers: u32,
    /// Mean seconds a request occupies one worker. Positive.
    pub service_secs: f64,
    /// Seconds within which a request must be answered. Positive.
    pub target_secs: f64,
    /// (ca² + cs²) / 2: 1 for Poisson arrivals and exponential service, 0.5 for deterministic service. Positive.
    pub variability: f64,
}

impl Service {
    /// Requests per second one replica serves when all its workers are busy.
    #[must_use]
    pub fn rate_per_replica(&self) -> f64 {
        f64::from(self.workers) / self.service_secs
    }

    /// Seconds a request may wait and still be in time, at least 0.
    #[must_use]
    pub fn slack_secs(&self) -> f64 {
        (self.target_secs - self.service_secs).max(0.0)
    }
}

/// Largest replica count the search looks at; Kubernetes' `maxReplicas` is an int32, no service is this large.
pub const MAX_SEARCHED_REPLICAS: u32 = 100_000;

/// Standard deviations below the load at which Erlang's recursion may start: what it forgets from there to the load is
/// below 1e-12.
const START_DEVIATIONS: f64 = 8.0;

/// P(wait > target - service) in steady state with `busy_workers` = offered load in workers (rate * service time).
/// 1 when the load is not below what the replicas can serve, 0 when there is none.
#[must_use]
pub fn late_share(service: &Service, busy_workers: f64, replicas: u32) -> f64 {
    wait_exceeds(service, busy_workers, replicas, service.slack_secs())
}

/// True when [`late_share`] cannot exceed `limit`, found without Erlang's recursion: P(wait > 0) is at most 1.
#[must_use]
pub fn late_share_below(service: &Service, busy_workers: f64, replicas: u32, limit: f64) -> bool {
    let spare = (u64::from(replicas) * u64::from(service.workers)) as f64 - busy_workers;
    0.0 < spare && decay(service, spare, service.slack_secs()) <= limit
}

/// Late share when `backlog` requests already wait: a new request first waits for them to be served.
#[must_use]
pub fn late_share_behind(service: &Service, busy_workers: f64, replicas: u32, backlog: f64) -> f64 {
    let rate = f64::from(replicas) * service.rate_per_replica();
    if rate <= 0.0 {
        return if busy_workers > 0.0 { 1.0 } else { 0.0 };
    }
    let left = service.slack_secs() - backlog / rate;
    if left < 0.0 { 1.0 } else { wait_exceeds(service, busy_workers, replicas, left) }
}

/// P(wait > `wait_secs`) in steady state.
#[must_use]
pub fn wait_exceeds(service: &Service, busy_workers: f64, replicas: u32, wait_secs: f64) -> f64 {
    let servers = u64::from(replicas) * u64::from(service.workers);
    if busy_workers <= 0.0 {
        return 0.0;
    }
    if servers as f64 <= busy_workers {
        return 1.0;
    }
    let mut erlang = Erlang::below(busy_workers);
    erlang.advance_to(servers);
    tail(service, &erlang, wait_secs)
}

/// The smallest replica count, at most `limit`, whose late share is at most `allowed`; `limit` when none is. 0 without
/// load.
#[must_use]
pub fn smallest_replicas(service: &Service, busy_workers: f64, allowed: f64, limit: u32) -> u32 {
    if busy_workers <= 0.0 || limit == 0 {
        return 0;
    }
    let limit = limit.min(MAX_SEARCHED_REPLICAS);
    let workers = u64::from(service.workers);
    let first = (busy_workers / workers as f64).floor() + 1.0;
    if f64::from(limit) <= first {
        return limit;
    }
    let mut erlang = Erlang::below(busy_workers);
    let mut replicas = first as u32;
    while replicas < limit {
        erlang.advance_to(u64::from(replicas) * workers);
        if tail(service, &erlang, service.slack_secs()) <= allowed {
            return replicas;
        }
        replicas += 1;
    }
    limit
}

/// Replicas as a real number: what [`smallest_replicas`] answers is the next whole number. Between whole numbers the
/// logarithm of the late share is taken to be linear, so that it is continuous and grows with the load. 0 without load,
/// `limit` where that many are not enough.
#[must_use]
pub fn exact_replicas(service: &Service, busy_workers: f64, allowed: f64, limit: u32) -> f64 {
    let whole = smallest_replicas(service, busy_workers, allowed, limit);
    let Some(fewer) = whole.checked_sub(1) else { return 0.0 };
    let share = |replicas: u32| late_share(service, busy_workers, replicas).max(f64::MIN_POSITIVE).ln();
    let (above, below) = (share(fewer), share(whole));
    let part = (above - allowed.ln()) / (above - below);
    if part.is_finite() { f64::from(fewer) + part.clamp(SMALLEST_PART, 1.0) } else { f64::from(whole) }
}

/// Part of a replica by which [`exact_replicas`] is above the whole number below, at least.
const SMALLEST_PART: f64 = 1e-6;

/// [`late_share`] of one load for any number of replicas, each found once: Erlang's recursion goes on where it stopped.
#[derive(Debug, Clone)]
pub struct LateShares {
    service: Service,
    busy_workers: f64,
    erlang: Erlang,
    /// Replicas of the first share known.
    first: u32,
    shares: Vec<f64>,
}

impl LateShares {
    /// Of this service under this load; nothing is computed yet.
    #[must_use]
    pub fn new(service: &Service, busy_workers: f64) -> Self {
        let first = (busy_workers / f64::from(service.workers)).floor().max(0.0) as u32;
        Self { service: *service, busy_workers, erlang: Erlang::below(busy_workers), first, shares: vec![] }
    }

    /// True when it was made for these.
    #[must_use]
    pub fn are_of(&self, service: &Service, busy_workers: f64) -> bool {
        self.busy_workers == busy_workers && self.service == *service
    }

    /// The late share with this many replicas.
    pub fn with(&mut self, replicas: u32) -> f64 {
        if self.busy_workers <= 0.0 {
            return 0.0;
        }
        let Some(place) = replicas.checked_sub(self.first) else { return 1.0 };
        while self.shares.len() <= place as usize {
            let replicas = u64::from(self.first) + self.shares.len() as u64;
            let next = self.next(replicas * u64::from(self.service.workers));
            self.shares.push(next);
        }
        self.shares[place as usize]
    }

    fn next(&mut self, servers: u64) -> f64 {
        if servers as f64 <= self.busy_workers {
            return 1.0;
        }
        self.erlang.advance_to(servers);
        tail(&self.service, &self.erlang, self.service.slack_secs())
    }
}

/// Mean wait in seconds (exact for M/M/c, Allen-Cunneen otherwise); infinite at or above capacity.
#[must_use]
pub fn mean_wait_secs(service: &Service, busy_workers: f64, replicas: u32) -> f64 {
    let servers = u64::from(replicas) * u64::from(service.workers);
    if busy_workers <= 0.0 {
        return 0.0;
    }
    if servers as f64 <= busy_workers {
        return f64::INFINITY;
    }
    let mut erlang = Erlang::below(busy_workers);
    erlang.advance_to(servers);
    erlang.delayed() * service.variability * service.service_secs / (servers as f64 - busy_workers)
}

/// One step of the fluid model: what `replicas` do with an arrival rate for `step_secs`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FluidStep {
    /// Requests served.
    pub served: f64,
    /// Requests that gave up.
    pub dropped: f64,
    /// Requests waiting at the end.
    pub backlog: f64,
}

/// Arrivals and backlog in, served and backlog out; what would wait longer than `timeout_secs` gives up.
/// `backlog + rate * step = served + dropped + backlog'`.
#[must_use]
pub fn fluid_step(
    service: &Service,
    backlog: f64,
    rate: f64,
    replicas: f64,
    timeout_secs: f64,
    step_secs: f64,
) -> FluidStep {
    let offered = backlog + rate * step_secs;
    let capacity = replicas * service.rate_per_replica();
    let served = offered.min(capacity * step_secs);
    let waiting = offered - served;
    let kept = waiting.min(capacity * timeout_secs);
    FluidStep { served, dropped: waiting - kept, backlog: kept }
}

fn tail(service: &Service, erlang: &Erlang, wait_secs: f64) -> f64 {
    let spare = erlang.servers as f64 - erlang.load;
    erlang.delayed() * decay(service, spare, wait_secs)
}

/// How much of the wait's tail is left after `wait_secs` with this many spare workers.
fn decay(service: &Service, spare: f64, wait_secs: f64) -> f64 {
    (-spare * wait_secs / (service.service_secs * service.variability)).exp()
}

/// Erlang's loss formula as a recursion over servers: 1/B(c) = 1 + c/a * 1/B(c-1). Below the load every step shrinks
/// an error by c/a, so it may start close to the load from a rough guess.
#[derive(Debug, Clone)]
struct Erlang {
    load: f64,
    servers: u64,
    inverse_loss: f64,
}

impl Erlang {
    fn below(load: f64) -> Self {
        let start = (load - START_DEVIATIONS * load.sqrt()).floor();
        if start <= 0.0 {
            return Self { load, servers: 0, inverse_loss: 1.0 };
        }
        Self { load, servers: start as u64, inverse_loss: load / (load - start) }
    }

    fn advance_to(&mut self, servers: u64) {
        let per_load = 1.0 / self.load;
        while self.servers < servers {
            self.servers += 1;
            self.inverse_loss = 1.0 + self.servers as f64 * per_load * self.inverse_loss;
        }
    }

    /// P(wait > 0) = B / (1 - rho (1 - B)).
    fn delayed(&self) -> f64 {
        if self.inverse_loss.is_infinite() {
            return 0.0;
        }
        let rho = self.load / self.servers as f64;
        let loss = 1.0 / self.inverse_loss;
        loss / (1.0 - rho * (1.0 - loss))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn web(workers: u32) -> Service {
        Service { workers, service_secs: 0.05, target_secs: 0.25, variability: 1.0 }
    }

    /// P(wait > 0) by the textbook sum, in logarithms.
    fn erlang_c_by_sum(servers: u32, load: f64) -> f64 {
        let (mut term, mut sum) = (1.0_f64, 0.0);
        for k in 0..servers {
            sum += term;
            term *= load / f64::from(k + 1);
        }
        let last = term / (1.0 - load / f64::from(servers));
        last / (sum + last)
    }

    #[test]
    fn the_wait_of_one_server_is_the_mm1_closed_form() {
        for rho in [0.1, 0.5, 0.9, 0.99] {
            let service = web(1);
            let expected = rho * (-(1.0 - rho) / 0.05 * 0.2_f64).exp();
            assert!((late_share(&service, rho, 1) - expected).abs() < 1e-12);
            let mean = rho * 0.05 / (1.0 - rho);
            assert!((mean_wait_secs(&service, rho, 1) - mean).abs() < 1e-12);
        }
    }

    #[test]
    fn late_shares_found_one_after_another_are_those_found_alone() {
        for (workers, busy_workers) in [(1, 0.0), (1, 0.3), (1, 3.0), (4, 37.9), (16, 640.0), (8, 24.0)] {
            let service = web(workers);
            let mut shares = LateShares::new(&service, busy_workers);
            for replicas in [7, 5, 0, 90, 6, 3, 41, 40] {
                let alone = late_share(&service, busy_workers, replicas);
                assert_eq!(shares.with(replicas), alone, "{workers} {busy_workers} {replicas}");
            }
            assert!(shares.are_of(&service, busy_workers) && !shares.are_of(&web(workers + 1), busy_workers));
        }
    }

    #[test]
    fn the_wait_of_many_servers_is_erlangs_formula() {
        for (servers, load) in [(2, 1.5), (10, 8.0), (100, 90.0), (100, 95.0), (400, 380.0), (120, 40.0)] {
            let found = wait_exceeds(&web(1), load, servers, 0.0);
            let expected = erlang_c_by_sum(servers, load);
            assert!(
                (found - expected).abs() < 1e-9 * expected.max(1e-6),
                "{servers} {load}: {found} {expected}"
            );
        }
    }

    #[test]
    fn no_load_needs_no_replica_and_too_much_is_always_late() {
        assert_eq!(smallest_replicas(&web(4), 0.0, 0.01, 60), 0);
        assert_eq!(late_share(&web(4), 4.0, 1), 1.0);
        assert_eq!(late_share(&web(4), 1.0, 0), 1.0);
        assert_eq!(late_share(&web(4), 0.0, 0), 0.0);
        assert_eq!(smallest_replicas(&web(4), 1e9, 0.01, 60), 60);
    }

    #[test]
    fn a_target_below_the_service_time_asks_for_hardly_any_wait() {
        let service = Service { target_secs: 0.01, ..web(4) };
        assert_eq!(service.slack_secs(), 0.0);
        assert!(smallest_replicas(&service, 8.0, 0.01, 60) > 3);
    }

    #[test]
    fn a_backlog_makes_late_what_would_have_been_in_time() {
        let service = web(4);
        let rate = 5.0 * service.rate_per_replica();
        assert!(late_share_behind(&service, 10.0, 5, 0.0) < 1e-3);
        assert_eq!(late_share_behind(&service, 10.0, 5, 0.21 * rate), 1.0);
    }

    #[test]
    fn nothing_is_lost_in_a_fluid_step() {
        let step = fluid_step(&web(4), 100.0, 500.0, 3.0, 0.2, 5.0);
        assert!((100.0 + 2500.0 - step.served - step.dropped - step.backlog).abs() < 1e-9);
        assert!((step.backlog - 3.0 * 80.0 * 0.2).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn more_replicas_are_never_later(load in 0.01..300.0_f64, replicas in 1_u32..120, workers in 1_u32..9) {
            let service = web(workers);
            let fewer = late_share(&service, load, replicas);
            let more = late_share(&service, load, replicas + 1);
            prop_assert!((0.0..=1.0).contains(&fewer));
            prop_assert!(!late_share_below(&service, load, replicas, 0.05) || fewer <= 0.05);
            prop_assert!(more <= fewer + 1e-12);
        }

        #[test]
        fn more_load_never_needs_fewer(load in 0.01..200.0_f64, factor in 1.0..2.0_f64, workers in 1_u32..9) {
            let service = web(workers);
            let little = smallest_replicas(&service, load, 0.01, 1000);
            prop_assert!(little <= smallest_replicas(&service, load * factor, 0.01, 1000));
        }

        #[test]
        fn the_real_number_is_within_the_whole_one_and_grows_with_the_load_without_a_jump(
            load in 0.01..200.0_f64, workers in 1_u32..9, allowed in 1e-4..0.2_f64,
        ) {
            let service = web(workers);
            let exact = |load: f64| exact_replicas(&service, load, allowed, 1000);
            let n = smallest_replicas(&service, load, allowed, 1000);
            prop_assert_eq!(exact(load).ceil() as u32, n);
            let more = exact(load * 1.001);
            prop_assert!(exact(load) <= more + 1e-9, "{} {more}", exact(load));
            prop_assert!(more - exact(load) < 0.1 + 0.01 * load / f64::from(workers), "{} {more}", exact(load));
        }

        #[test]
        fn the_answer_is_the_smallest(load in 0.01..200.0_f64, workers in 1_u32..9, allowed in 1e-4..0.2_f64) {
            let service = web(workers);
            let n = smallest_replicas(&service, load, allowed, 1000);
            prop_assert!(late_share(&service, load, n) <= allowed);
            prop_assert!(n == 0 || late_share(&service, load, n - 1) > allowed);
        }
    }
}
