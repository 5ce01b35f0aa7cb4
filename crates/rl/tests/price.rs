//! Dear hours, in the simulator: what costs more is asked for less, and the promise is kept all the same.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::sync::Arc;

use rlscaler_core::{Action, Features, Policy, PolicyFault};
use rlscaler_sim::fault::{Fault, FaultKind};
use rlscaler_sim::outcome::Outcome;
use rlscaler_sim::profile::Profile;
use rlscaler_sim::run::run;
use rlscaler_sim::scalers::brain::BrainScaler;
use rlscaler_sim::scenario::Scenario;
use rlscaler_sim::seed::Seed;
use rlscaler_sim::trace::Trace;

const SLA: f64 = 0.99;
const HOUR_SECS: f64 = 3_600.0;

/// Leans on the price of lateness: a quarter of it, and 15 % of the planner's replicas are left out.
struct Thrifty;

impl Policy for Thrifty {
    fn act(&self, features: &Features) -> Result<Action, PolicyFault> {
        let multiplier = (features.price() / 20.0).powf(0.12).clamp(0.85, 1.15);
        Ok(Action { multiplier, value: 0.0 })
    }

    fn describe(&self) -> String {
        "thrifty".to_owned()
    }
}

/// Four hours of a fixed load; a replica costs `factor` times as much from the second hour on.
fn outcome(policy: Arc<dyn Policy>, factor: f64, seed: Seed) -> Outcome {
    let profile = Profile::shipped("web").unwrap();
    let trace = Trace::new("fixed", HOUR_SECS, vec![0.7; 5]).unwrap();
    let mut scenario = Scenario::new(&profile, &trace).part(HOUR_SECS, 4.0 * HOUR_SECS);
    let per_replica_hour = profile.price_per_replica_hour * factor;
    let kind = FaultKind::Price { per_replica_hour };
    scenario.faults = vec![Fault { from_secs: HOUR_SECS, until_secs: 9.0 * HOUR_SECS, kind }];
    let settings = scenario.settings(SLA);
    run(&mut BrainScaler::new(settings, policy), &scenario, seed)
}

// Case 72.
#[test]
fn at_ten_times_the_price_the_sla_is_met_with_no_more_replicas() {
    for seed in (1..=3).map(Seed) {
        let drivers: [(&str, Arc<dyn Policy>); 2] =
            [("built in", Arc::new(rlscaler_rl::builtin())), ("thrifty", Arc::new(Thrifty))];
        for (name, driver) in drivers {
            let usual = outcome(driver.clone(), 1.0, seed);
            let dear = outcome(driver, 10.0, seed);
            let told = format!(
                "{name}, {seed:?}: {:.2} replica-hours with {:.3} % late, at ten times the price {:.2} with {:.3} %",
                usual.replica_hours(),
                100.0 * usual.late_share(),
                dear.replica_hours(),
                100.0 * dear.late_share()
            );
            println!("{told}");
            assert!(dear.replica_hours() <= usual.replica_hours() * 1.001, "{told}");
            assert!(dear.late_share() <= 1.0 - SLA, "{told}");
            if name == "thrifty" {
                assert!(dear.replica_hours() < usual.replica_hours(), "the price did nothing: {told}");
            }
        }
    }
}
