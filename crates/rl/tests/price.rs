//! Dear hours, in the simulator: what costs more is asked for less, and the promise is kept all the same.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::sync::Arc;

use rlscaler_core::Policy;
use rlscaler_sim::fault::{Fault, FaultKind};
use rlscaler_sim::outcome::Outcome;
use rlscaler_sim::profile::Profile;
use rlscaler_sim::run::run;
use rlscaler_sim::scalers::brain::BrainScaler;
use rlscaler_sim::scenario::Scenario;
use rlscaler_sim::seed::Seed;
use rlscaler_sim::trace::Trace;

const SLA: f64 = 0.999;
const HOUR_SECS: f64 = 3_600.0;

/// Four hours of a load in waves; a replica costs `factor` times as much from the second hour on.
fn outcome(policy: Arc<dyn Policy>, factor: f64, seed: Seed) -> Outcome {
    let profile = Profile::shipped("web").unwrap();
    let rates = (0..5 * 60).map(|minute| 0.55 + 0.15 * (f64::from(minute) / 12.0).sin()).collect();
    let trace = Trace::new("waves", 60.0, rates).unwrap();
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
    let driver = Arc::new(rlscaler_rl::builtin());
    let mut saved = 0.0;
    for seed in (1..=3).map(Seed) {
        let usual = outcome(driver.clone(), 1.0, seed);
        let dear = outcome(driver.clone(), 10.0, seed);
        let told = format!(
            "{seed:?}: {:.2} replica-hours with {:.3} % late, at ten times the price {:.2} with {:.3} %",
            usual.replica_hours(),
            100.0 * usual.late_share(),
            dear.replica_hours(),
            100.0 * dear.late_share()
        );
        println!("{told}");
        assert!(dear.replica_hours() <= usual.replica_hours() * 1.001, "{told}");
        assert!(dear.late_share() <= 1.0 - SLA, "{told}");
        saved += usual.replica_hours() - dear.replica_hours();
    }
    assert!(0.0 < saved, "the price did nothing");
}
