//! The rules the project was asked to know, with the model that ships driving. With the planner: `rlscaler-sim`'s own
//! tests of them.

use std::sync::Arc;

use rlscaler_core::Policy;
use rlscaler_sim::rules::Rule;
use rlscaler_sim::seed::Seed;

fn check(rule: Rule) {
    const SEED: Seed = Seed(1);
    let model: Arc<dyn Policy> = Arc::new(rlscaler_rl::builtin());
    assert_eq!(rule.check(&model, SEED), Ok(()), "{rule:?}, {SEED:?}");
}

#[test]
fn the_model_adds_nothing_to_a_spike_that_falls_back() {
    check(Rule::SpikeThatFallsBack);
}

#[test]
fn the_model_does_not_scale_up_on_high_cpu_with_good_latency() {
    check(Rule::HighCpuGoodLatency);
}

#[test]
fn the_model_does_not_scale_up_on_bad_latency_with_low_cpu_and_says_why() {
    check(Rule::LowCpuBadLatency);
}
