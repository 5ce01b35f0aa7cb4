//! The rules the project was asked to know, with the planner driving. The model is held to the same in its own crate.

use std::sync::Arc;

use rlscaler_core::{PlannerOnly, Policy};
use rlscaler_sim::rules::Rule;
use rlscaler_sim::seed::Seed;

fn check(rule: Rule) {
    let planner: Arc<dyn Policy> = Arc::new(PlannerOnly);
    for seed in 1..=5 {
        if let Err(broken) = rule.check(&planner, Seed(seed)) {
            panic!("{broken}, seed {seed}");
        }
    }
}

#[test]
fn a_spike_that_falls_back_asks_for_no_more_than_latency_needs() {
    check(Rule::SpikeThatFallsBack);
}

#[test]
fn high_cpu_with_good_latency_does_not_scale_up() {
    check(Rule::HighCpuGoodLatency);
}

#[test]
fn bad_latency_with_low_cpu_does_not_scale_up_and_says_why() {
    check(Rule::LowCpuBadLatency);
}
