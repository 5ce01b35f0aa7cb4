//! The rules the project was asked to know hold with the shipped model driving.

use std::sync::Arc;

use rlscaler_core::policy::Policy;
use rlscaler_sim::rules::Rule;
use rlscaler_sim::seed::Seed;

#[test]
fn the_shipped_model_keeps_the_three_rules() {
    let model: Arc<dyn Policy> = Arc::new(rlscaler_rl::builtin());
    for rule in Rule::ALL {
        rule.check(&model, Seed(1)).expect("the rule holds");
    }
}
