//! The exact level against the closed forms of queueing theory, over a grid of servers and load.
//!
//! M/M/c: Erlang's C (Kleinrock, Queueing Systems 1, 1975, 3.5): mean wait C / (mu (c - a)), P(wait > t) = C exp(-mu (c - a) t).
//! M/D/1: Pollaczek and Khinchin, half the mean wait of M/M/1. M/D/c: Crommelin's exact series for the mean wait
//! (J. Riordan, Stochastic Service Systems, 1962, 4.5), summed here.
//! Tolerances: 4 % of the mean wait plus 0.001 service times; 0.01 of the tail. The grid stays at or below 0.9 of capacity,
//! where 2.4 million requests are enough to say so.

use rlscaler_sim::exact::{Exact, PodId};
use rlscaler_sim::fluid::{Capacity, Fluid, Queue};
use rlscaler_sim::model::{ServiceLaw, ServiceModel};
use rlscaler_sim::seed::Seed;

const REQUESTS: f64 = 2_400_000.0;
const SEED: Seed = Seed(7);
/// A late request is one that waits more than this many service times (plus its own time).
const TARGET: f64 = 1.0;
const GRID: [(u32, f64); 12] = [
    (1, 0.3),
    (1, 0.6),
    (1, 0.8),
    (2, 0.5),
    (2, 0.8),
    (4, 0.6),
    (4, 0.85),
    (16, 0.7),
    (16, 0.9),
    (64, 0.8),
    (64, 0.9),
    (112, 0.9),
];

fn erlang_c(servers: u32, load: f64) -> f64 {
    let mut blocked = 1.0;
    for n in 1..=servers {
        blocked = load * blocked / (f64::from(n) + load * blocked);
    }
    let spare = 1.0 - load / f64::from(servers);
    blocked / (spare + blocked * load / f64::from(servers))
}

/// Mean wait of M/D/c in service times: sum over i of e^{-ia} (sum_{k >= ic} (ia)^k / k! - c/a sum_{k > ic} (ia)^k / k!).
fn crommelin(servers: u32, load: f64) -> f64 {
    const TERMS: u32 = 400;
    let mut wait = 0.0;
    for i in 1..=TERMS {
        let mean = f64::from(i) * load;
        let first = i * servers;
        let mut log_term = -mean + f64::from(first) * mean.ln() - log_factorial(first);
        let at = log_term.exp();
        let mut beyond = 0.0;
        for k in first + 1..first + 40 * servers + 400 {
            log_term += mean.ln() - f64::from(k).ln();
            beyond += log_term.exp();
        }
        wait += at + beyond - beyond * f64::from(servers) / load;
    }
    wait
}

fn log_factorial(n: u32) -> f64 {
    (2..=n).map(|k| f64::from(k).ln()).sum()
}

/// Mean wait and share of requests whose latency exceeds the target, service times of one second on average.
fn simulate(law: ServiceLaw, servers: u32, utilization: f64) -> (f64, f64) {
    let rate = utilization * f64::from(servers);
    let model = ServiceModel { law, timeout_secs: 1e9, ..ServiceModel::new(1, 1.0, 1.0 + TARGET) };
    let mut exact = Exact::new(model, SEED);
    let pods: Vec<_> = (0..u64::from(servers)).map(PodId).collect();
    exact.set_pods(0.0, &pods);
    let secs = REQUESTS / rate;
    exact.advance(0.05 * secs, rate);
    let tick = exact.advance(1.05 * secs, rate);
    let busy: f64 = tick.busy_worker_secs.iter().map(|(_, secs)| secs).sum();
    let mean_wait = (tick.latencies.sum_secs() - busy) / tick.served as f64;
    (mean_wait, tick.late as f64 / tick.served as f64)
}

#[test]
fn exponential_services_wait_as_erlang_says() {
    for (servers, utilization) in GRID {
        let load = utilization * f64::from(servers);
        let delayed = erlang_c(servers, load);
        let spare = f64::from(servers) - load;
        let (wait, late) = simulate(ServiceLaw::Exponential, servers, utilization);
        let expected = delayed / spare;
        assert!(
            (wait - expected).abs() <= 0.04 * expected + 0.001,
            "{servers} {utilization}: {wait} {expected} {SEED:?}"
        );
        // P(wait + service > t), service exponential of mean one: the convolution of both.
        let total = 1.0 + TARGET;
        let tail = (-total).exp() * (1.0 - delayed)
            + if (spare - 1.0).abs() < 1e-9 {
                delayed * (1.0 + total) * (-total).exp()
            } else {
                delayed * (spare * (-total).exp() - (-spare * total).exp()) / (spare - 1.0)
            };
        assert!((late - tail).abs() <= 0.01, "{servers} {utilization}: tail {late} {tail} {SEED:?}");
    }
}

#[test]
fn constant_services_wait_as_crommelin_says() {
    for (servers, utilization) in GRID {
        let load = utilization * f64::from(servers);
        let expected = crommelin(servers, load);
        if servers == 1 {
            let khinchin = 0.5 * utilization / (1.0 - utilization);
            assert!(
                (expected - khinchin).abs() < 1e-5 * (1.0 + khinchin),
                "{utilization}: {expected} {khinchin}"
            );
        }
        let (wait, _) = simulate(ServiceLaw::Deterministic, servers, utilization);
        assert!(
            (wait - expected).abs() <= 0.04 * expected + 0.001,
            "{servers} {utilization}: {wait} {expected} {SEED:?}"
        );
    }
}

/// The fast level's tail, at rest, against Erlang's. Tolerance: 0.04, that of the formula for the delay probability.
#[test]
fn the_fast_level_rests_where_erlang_says() {
    for (servers, utilization) in GRID {
        let load = utilization * f64::from(servers);
        let model = ServiceModel { law: ServiceLaw::Exponential, ..ServiceModel::new(1, 1.0, 1.0 + TARGET) };
        let fluid = Fluid::new(&model, 1.0);
        let mut queue = Queue::default();
        let capacity = Capacity { pods: f64::from(servers), speed: 1.0 };
        let flow = (0..2_000).map(|_| fluid.step(&mut queue, load, capacity, 0.0, 5.0)).last();
        let waits = flow.expect("two thousand steps").waits;
        let tail = waits.chance * (-TARGET / waits.mean_secs).exp();
        let expected = erlang_c(servers, load) * (-(f64::from(servers) - load) * TARGET).exp();
        assert!((tail - expected).abs() <= 0.04, "{servers} {utilization}: {tail} {expected}");
    }
}
