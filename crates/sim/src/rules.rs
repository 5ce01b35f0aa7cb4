//! The rules the project was asked to know, as named scenarios for whatever drives the brain: the planner or a model.
//!
//! In: a policy and a seed. Out: nothing, or in words how the rule was broken.

use std::sync::Arc;

use rlscaler_core::{Decision, Policy, queue};

use crate::fault::{Channel, Fault, FaultKind};
use crate::profile::Profile;
use crate::run::run_watched;
use crate::scalers::brain::BrainScaler;
use crate::scenario::Scenario;
use crate::seed::Seed;
use crate::trace::Trace;
use crate::world::Level;

/// SLA of the scenarios.
const SLA: f64 = 0.99;

/// Steady load before anything happens, and when it does, seconds.
const CALM_SECS: f64 = 3_600.0;

/// Step of the traces, seconds.
const STEP_SECS: f64 = 5.0;

/// What a forecast may add to what the top of a spike needs: metrics are late, so the fall is not yet seen when the
/// rise is.
const MARGIN: f64 = 1.1;

/// A rule with its scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The rate rises fast, but its trend falls back: no scale-up beyond what latency needs.
    SpikeThatFallsBack,
    /// CPU is high while latency is comfortably inside its target: no scale-up.
    HighCpuGoodLatency,
    /// Latency is over its target while CPU is low: no scale-up, and the advice that code or a dependency is the
    /// cause.
    LowCpuBadLatency,
}

/// What a decision came to, as the rules look at it.
struct Seen {
    time_secs: f64,
    wanted: u32,
    decision: Decision,
}

impl Rule {
    /// All rules.
    pub const ALL: [Rule; 3] = [Rule::SpikeThatFallsBack, Rule::HighCpuGoodLatency, Rule::LowCpuBadLatency];

    /// The scenario.
    #[must_use]
    pub fn scenario(self) -> Scenario {
        let profile = Profile::shipped("web").expect("it ships");
        let capacity = profile.service.pod_capacity();
        let (busy_pods, min_replicas) = match self {
            Rule::SpikeThatFallsBack => (8.0, 1),
            // CPU shows 88 % and an HPA at 60 % would want 15, yet the noise of the load alone never needs an 11th.
            Rule::HighCpuGoodLatency => (8.0, 10),
            // Room for every request at once, so that pods are not the reason.
            Rule::LowCpuBadLatency => (2.0, 20),
        };
        let spike = |secs: f64| match self {
            // Up by an eighth within 30 seconds, and back within 45: what was there can just serve it.
            Rule::SpikeThatFallsBack => {
                let since = secs - CALM_SECS;
                let share = if since < 30.0 { since / 30.0 } else { 1.0 - (since - 30.0) / 45.0 };
                1.0 + 0.12 * share.clamp(0.0, 1.0)
            }
            Rule::HighCpuGoodLatency | Rule::LowCpuBadLatency => 1.0,
        };
        let steps = (1.5 * CALM_SECS / STEP_SECS) as u32;
        let rates =
            (0..steps).map(|step| busy_pods * capacity * spike(f64::from(step) * STEP_SECS)).collect();
        let trace = Trace::new("rule", STEP_SECS, rates).expect("rates are positive");
        let kind = match self {
            Rule::SpikeThatFallsBack => None,
            Rule::HighCpuGoodLatency => Some(FaultKind::SignalWrong(Channel::Cpu, 1.1)),
            Rule::LowCpuBadLatency => Some(FaultKind::SlowDependency { factor: 6.0 }),
        };
        let until_secs = 1.5 * CALM_SECS;
        let fault = |kind| Fault { from_secs: CALM_SECS, until_secs, kind };
        let profile = Profile { min_replicas, ..profile };
        let mut scenario = Scenario::new(&profile, &trace);
        scenario.trace = Arc::new(trace);
        scenario.faults = kind.map(fault).into_iter().collect();
        // A sample that goes missing is another matter.
        scenario.metrics.missing = 0.0;
        scenario
    }

    /// Runs the scenario with a policy.
    ///
    /// # Errors
    /// Says at which second what was wanted instead.
    pub fn check(self, policy: &Arc<dyn Policy>, seed: Seed) -> Result<(), String> {
        let scenario = self.scenario();
        let mut seen = Vec::new();
        let mut scaler = BrainScaler::new(scenario.settings(SLA), Arc::clone(policy));
        run_watched(&mut scaler, &scenario, seed, Level::Fast, |moment, scaler| {
            if let Some(decision) = scaler.last_decision() {
                let time_secs = moment.observation.time_secs;
                seen.push(Seen { time_secs, wanted: decision.replicas(), decision: *decision });
            }
        });
        let (before, after): (Vec<Seen>, Vec<Seen>) =
            seen.into_iter().partition(|seen| seen.time_secs < CALM_SECS);
        // What the same driver wanted at most of the calm load once it had settled.
        let settled = before.iter().filter(|seen| CALM_SECS / 2.0 <= seen.time_secs);
        let usual = settled.map(|seen| seen.wanted).max().unwrap_or(0);
        let allowed = match self {
            Rule::SpikeThatFallsBack => {
                (f64::from(needed_at_peak(&scenario).max(usual)) * MARGIN).ceil() as u32
            }
            Rule::HighCpuGoodLatency | Rule::LowCpuBadLatency => usual,
        };
        if let Some(wrong) = after.iter().find(|seen| allowed < seen.wanted) {
            let Seen { time_secs, wanted, decision } = wrong;
            let reasons: Vec<_> = decision.reasons().iter().map(ToString::to_string).collect();
            return Err(format!(
                "{self:?}: {wanted} replicas wanted at {time_secs} s, {allowed} allowed: {reasons:?}"
            ));
        }
        let advised = after.iter().any(|seen| seen.decision.scaling_wont_help().is_some());
        match self {
            Rule::LowCpuBadLatency if !advised => {
                Err(format!("{self:?}: no advice that scaling will not help"))
            }
            _ => Ok(()),
        }
    }
}

/// Replicas at which even the top of the load meets the target.
fn needed_at_peak(scenario: &Scenario) -> u32 {
    let peak = scenario.trace.rates().iter().copied().fold(0.0, f64::max);
    let profile = &scenario.profile;
    let busy_workers = peak * profile.service.service_secs;
    queue::smallest_replicas(&profile.station(), busy_workers, 1.0 - SLA, profile.max_replicas)
}
