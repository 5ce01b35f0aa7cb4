//! The fast level against the exact one, request by request, over traces.
//!
//! Tolerances: late share within 0.5 points or 15 % of itself for the same orders, in every cell (where one draw of the
//! exact level is outside, the mean of sixteen draws of each level is compared); replica-time within
//! 1 % for the same orders in every cell, and within 1 % over all cells where each level closes its own loop (a single
//! HPA on a knife's edge orders a pod more or less by chance, at both levels).

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;

use rlscaler_core::PlannerOnly;
use rlscaler_sim::metrics::Seen;
use rlscaler_sim::outcome::Outcome;
use rlscaler_sim::profile::Profile;
use rlscaler_sim::run::{Scaler, run_watched};
use rlscaler_sim::scalers::{Kind, Setup};
use rlscaler_sim::scenario::Scenario;
use rlscaler_sim::seed::Seed;
use rlscaler_sim::trace::Trace;
use rlscaler_sim::world::Level;

const SEED: Seed = Seed(1);
const DAY_SECS: f64 = 86_400.0;

/// Trace, and the second of it at which an hour begins.
const TRACES: [(&str, f64); 8] = [
    ("autothrottle_bursty", 0.0),
    ("autothrottle_noisy", 0.0),
    ("azure_llm_2023", 0.0),
    ("mooncake", 0.0),
    ("crane_input6", 9.0 * DAY_SECS),
    ("crane_input13", 9.0 * DAY_SECS),
    ("gen:flash-crowd:8000", DAY_SECS),
    ("gen:on-off:8000", DAY_SECS),
];

/// Gives the orders another scaler gave.
struct Replay<'a> {
    orders: std::slice::Iter<'a, u32>,
}

impl Scaler for Replay<'_> {
    fn decide(&mut self, seen: &Seen) -> u32 {
        self.orders.next().copied().unwrap_or(seen.observation.replicas)
    }
}

struct Cell {
    name: String,
    scenario: Scenario,
    orders: Vec<u32>,
    exact: Outcome,
    same_orders: Outcome,
    own_loop: Outcome,
}

fn replay(scenario: &Scenario, orders: &[u32], level: Level, seed: Seed) -> Outcome {
    let mut scaler = Replay { orders: orders.iter() };
    run_watched(&mut scaler, scenario, seed, level, |_, _| {})
}

fn cells(profile: &str, secs: f64, scalers: &[&str]) -> Vec<Cell> {
    let profile = Profile::shipped(profile).unwrap();
    let mut cells = Vec::new();
    for (trace, start_secs) in TRACES {
        let trace = Trace::open(trace).unwrap();
        let scenario = Scenario::new(&profile, &trace).part(start_secs, secs);
        for name in scalers {
            let settings = scenario.settings(0.99);
            let kind = Kind::parse(name, &settings).unwrap();
            let setup = Setup { settings, model: Arc::new(PlannerOnly) };
            let build = || kind.build(&setup, &scenario, SEED);
            let exact = run_watched(build().as_mut(), &scenario, SEED, Level::Exact, |_, _| {});
            let orders: Vec<u32> = exact.points.iter().map(|point| point.wanted).collect();
            let same_orders = replay(&scenario, &orders, Level::Fast, SEED);
            let own_loop = run_watched(build().as_mut(), &scenario, SEED, Level::Fast, |_, _| {});
            let name = format!("{} {} {name}", profile.name, trace.name());
            cells.push(Cell { name, scenario: scenario.clone(), orders, exact, same_orders, own_loop });
        }
    }
    cells
}

/// Whether the late shares are within the tolerance: of one draw, or, where the load stands on the edge of what the
/// pods can serve and chance decides, of the mean over several draws.
fn late_shares_agree(cell: &Cell) -> bool {
    const LATE_POINTS: f64 = 0.005;
    const LATE_SHARE: f64 = 0.15;
    const DRAWS: u64 = 16;
    let close = |fast: f64, exact: f64| (fast - exact).abs() <= LATE_POINTS.max(LATE_SHARE * exact);
    if close(cell.same_orders.late_share(), cell.exact.late_share()) {
        return true;
    }
    let mean = |level| {
        let of = |seed| replay(&cell.scenario, &cell.orders, level, Seed(seed)).late_share();
        (1..=DRAWS).map(of).sum::<f64>() / DRAWS as f64
    };
    let (fast, exact) = (mean(Level::Fast), mean(Level::Exact));
    println!("{}: by {DRAWS} draws {:.2} % exact, {:.2} % fast", cell.name, exact * 100.0, fast * 100.0);
    close(fast, exact)
}

fn check(profile: &str, secs: f64, scalers: &[&str]) {
    const REPLICA_TIME: f64 = 0.01;
    let cells = cells(profile, secs, scalers);
    for cell in &cells {
        let Cell { name, exact, same_orders, own_loop, .. } = cell;
        let (fast, late) = (same_orders.late_share() * 100.0, exact.late_share() * 100.0);
        println!(
            "{name}: late exact {late:.2} % fast {fast:.2} %, own loop {:.2} %, replica-hours {:.2} {:.2}",
            own_loop.late_share() * 100.0,
            exact.replica_hours(),
            own_loop.replica_hours(),
        );
        assert!(late_shares_agree(cell), "{name}: late exact {late} % fast {fast} %, {SEED:?}");
        let ratio = same_orders.replica_secs / exact.replica_secs;
        assert!((ratio - 1.0).abs() <= REPLICA_TIME, "{name}: replica-time {ratio}, {SEED:?}");
    }
    let total = |of: fn(&Cell) -> &Outcome| cells.iter().map(|cell| of(cell).replica_secs).sum::<f64>();
    let ratio = total(|cell| &cell.own_loop) / total(|cell| &cell.exact);
    assert!(
        (ratio - 1.0).abs() <= REPLICA_TIME,
        "{profile}: closed loops differ by {ratio} in replica-time, {SEED:?}"
    );
}

#[test]
fn both_levels_agree_on_a_web_service() {
    check("web", 3_300.0, &["hpa:60", "hpa:90:60"]);
}

#[test]
fn both_levels_agree_on_long_requests_and_slow_starts() {
    check("llm", 3_300.0, &["hpa:60", "keda-rate:90", "clairvoyant"]);
    check("jvm", 1_800.0, &["hpa:80"]);
}

#[test]
fn both_levels_agree_on_a_quick_service() {
    check("edge", 900.0, &["hpa:80:60"]);
}
