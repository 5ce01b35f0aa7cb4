//! The driver's number: the planner's answer times the policy's multiplier, or a careful one where no queue can be
//! computed.
//!
//! In: what was sensed and the outlook. Out: an [`Answer`]. The guardrails come after it.

use super::outlook::Outlook;
use super::{Brain, Tick};
use crate::budget::Budget;
use crate::capacity::{PodCapacity, Source};
use crate::decision::Reasons;
use crate::driving::{Doubt, Verdict};
use crate::features::{self, Facts, Features, WIDTH};
use crate::guardrail::{Proposal, STARTING_TIMES};
use crate::influence::Asked;
use crate::observation::Observation;
use crate::planner::{self, COMFORT, Plan, Unknown};
use crate::policy::{self, Action, Policy, multiplied};
use crate::reason::{Driver, Reason};
use crate::sense::Senses;

/// Seconds over which latency is measured, usually: until then it tells of the time before a raise, real time.
const WINDOW_SECS: f64 = 60.0;

/// A number, who gave it, and what it is made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer {
    pub(super) proposal: Proposal,
    pub(super) multiplier: f64,
}

impl Brain {
    /// The driver's number.
    pub(super) fn answer(
        &mut self,
        policy: &dyn Policy,
        seen: &Observation,
        tick: &Tick,
        senses: &Senses,
        outlook: &Outlook,
    ) -> Answer {
        self.asked = None;
        let mut reasons = self.seen_reasons(senses, outlook);
        let Some((capacity, plan)) = outlook.planned else {
            // Who would drive is told while nobody can, too: blindness is no calm.
            let standing = self.watch.standing(&self.settings).filter(|_| policy.reads_features());
            if let Some((doubt, calm_secs)) = standing {
                reasons.push(Reason::ModelSuspended { doubt, calm_secs });
            }
            return self.answer_unplanned(seen, tick, senses, outlook, reasons);
        };
        planner::explain(&plan, &outlook.demand, &mut reasons);
        let (driver, action) = self.drive(policy, tick, senses, outlook, (&capacity, &plan), &mut reasons);
        let proposal = Proposal {
            replicas: multiplied(plan.exact, action.multiplier),
            exact: Some(plan.exact * action.multiplier),
            planner: Some(plan.replicas),
            driver,
            value: (driver == Driver::Model).then_some(action.value),
            reasons,
        };
        Answer { proposal, multiplier: action.multiplier }
    }

    /// Asks the model, and says who drives.
    fn drive(
        &mut self,
        policy: &dyn Policy,
        tick: &Tick,
        senses: &Senses,
        outlook: &Outlook,
        (capacity, plan): (&PodCapacity, &Plan),
        reasons: &mut Reasons,
    ) -> (Driver, Action) {
        let alone = Action { multiplier: 1.0, value: 0.0 };
        if !policy.reads_features() {
            let empty = Features::new([0.0; WIDTH], 0.0, plan.exact, plan.level_busy_pods);
            let action = policy.act(&empty).and_then(policy::checked).unwrap_or(alone);
            return (Driver::Planner, action);
        }
        let price = self.budget.lateness_price(&self.settings, self.forecaster.surprise(), senses.price);
        let features = features::compute(&Facts {
            settings: &self.settings,
            capacity,
            forecaster: &self.forecaster,
            demand: &outlook.demand,
            plan,
            startup_secs: tick.startup_secs,
            price,
        });
        // Also asked while the planner drives: how else would it be known that all is calm?
        let answer = policy.act(&features).and_then(policy::checked);
        let drifted = self.watch.drifted().then_some(Doubt::ForecastDrift);
        let doubt = answer.err().map(Doubt::from).or(drifted);
        match self.watch.judge(&self.settings, tick.step_secs, doubt) {
            Verdict::Doubted(doubt) => reasons.push(Reason::ModelRejected { doubt }),
            Verdict::Calming { doubt, calm_secs } => {
                reasons.push(Reason::ModelSuspended { doubt, calm_secs });
            }
            Verdict::Model => {
                let action = answer.unwrap_or(alone);
                let factor = action.multiplier;
                reasons.push(Reason::Multiplier { factor, price });
                self.asked = Some(Asked {
                    features,
                    planner: plan.exact,
                    multiplier: factor,
                    usual_price: Budget::default().lateness_price(
                        &self.settings,
                        self.forecaster.surprise(),
                        None,
                    ),
                    budget: self.budget.report(&self.settings, self.forecaster.surprise(), senses.price),
                });
                return (Driver::Model, action);
            }
        }
        (Driver::Planner, alone)
    }

    /// The number where no queue can be computed: the load is unknown, or what a pod can serve is.
    fn answer_unplanned(
        &self,
        seen: &Observation,
        tick: &Tick,
        senses: &Senses,
        outlook: &Outlook,
        mut reasons: Reasons,
    ) -> Answer {
        let current = seen.replicas;
        let all_ready = self.has_settled(seen, tick);
        let forecast = outlook.demand.forecast;
        let margin = 1.0 + self.settings.tuning.safety * forecast.error;
        let (replicas, driver) = if senses.load.is_some() {
            reasons.push(Reason::CapacityUnknown);
            let unknown = Unknown {
                current,
                demand: Some(forecast.expected() * margin),
                proven_density: self.estimator.proven_density(),
                latency_ratio: senses.latency_ratio,
                utilization: senses.utilization,
                all_ready,
                steady_secs: self.estimator.steady_secs(tick.now_secs),
            };
            (planner::careful(&self.settings, &unknown), Driver::Planner)
        } else {
            reasons.push(Reason::NoLoadSignal);
            let up = planner::by_latency(current, senses.latency_ratio, senses.utilization, all_ready);
            match (up.filter(|&up| current < up), senses.latency_ratio) {
                (Some(up), Some(ratio)) => {
                    reasons.push(Reason::LatencyDriven { ratio });
                    (up, Driver::Planner)
                }
                _ => (current, Driver::Hold),
            }
        };
        let planner = (driver == Driver::Planner).then_some(replicas);
        Answer {
            proposal: Proposal { replicas, exact: None, planner, driver, value: None, reasons },
            multiplier: 1.0,
        }
    }

    /// Everything asked for is there, and has been for long enough to show in what is measured: latency that is still
    /// over its target then is worth a raise, latency of the time before is not. A pod that hangs while it starts (on a
    /// lost node, without its volume) is not waited for longer than pods take to start.
    fn has_settled(&self, seen: &Observation, tick: &Tick) -> bool {
        let pods = seen.pods;
        let startup_secs = seen.startup_secs.unwrap_or(0.0).max(tick.startup_secs);
        let shown_secs = startup_secs + self.settings.scaled(WINDOW_SECS) + self.lag.secs(&self.settings);
        let since_secs = tick.now_secs - self.rails.raised_secs.unwrap_or(self.started_secs);
        let hangs = 0 < pods.ready && STARTING_TIMES * startup_secs + shown_secs <= since_secs;
        let all_there = (pods.starting == 0 || hangs) && pods.unschedulable == 0 && pods.unhealthy == 0;
        all_there && self.rails.raised_secs.is_none_or(|raised| shown_secs <= tick.now_secs - raised)
    }

    fn seen_reasons(&self, senses: &Senses, outlook: &Outlook) -> Reasons {
        let mut reasons = Reasons::default();
        if let Some(load) = senses.load {
            let busy_pods = outlook.planned.map_or(0.0, |(_, plan)| plan.level_busy_pods);
            reasons.push(Reason::Load { value: load.value, busy_pods, cores: !self.settings.declared.qps });
        }
        if let Some(ratio) = senses.latency_ratio {
            let target_secs = self.settings.objective.target_secs;
            reasons.push(Reason::Latency { secs: ratio * target_secs, target_secs });
        }
        reasons
    }

    /// The answer without what only the prior of a fresh service, or a costlier request by CPU, adds to it; computed
    /// only where the guardrail may ask.
    pub(super) fn proven(
        &self,
        seen: &Observation,
        senses: &Senses,
        outlook: &Outlook,
        answer: &Answer,
    ) -> Option<u32> {
        let comfortable = senses.latency_ratio.is_some_and(|ratio| ratio <= COMFORT);
        if !comfortable || senses.utilization.is_none() || answer.proposal.replicas <= seen.replicas {
            return None;
        }
        let (capacity, _) = outlook.planned?;
        Some(match capacity.source {
            Source::Declared => {
                let proven = planner::plan_proven(&self.settings, &capacity, &outlook.demand);
                multiplied(proven, answer.multiplier)
            }
            Source::Cpu | Source::Saturation => {
                (f64::from(seen.replicas) * answer.multiplier.max(1.0)).round() as u32
            }
        })
    }
}
