//! What is learnt from a tick, and what is expected after it: history, capacity, what waits, demand, n0, the budget.

use super::{Brain, Tick, mean};
use crate::budget::Spent;
use crate::capacity::{PodCapacity, PodSample};
use crate::forecast::Forecast;
use crate::guardrail::OVERLOADED;
use crate::history::BIN_SLOTS;
use crate::observation::Observation;
use crate::planner::{self, Demand, Plan};
use crate::queue::late_share_behind;
use crate::regression::{self, Lateness, Sight, Undone};
use crate::sense::{Load, Senses};
use crate::settings::Override;

/// Seconds of backlog a service can hold before its callers give up.
const BACKLOG_SECS: f64 = 10.0;

/// Late share from which on callers are taken to wait as long as they are willing to, where latency is beyond what its
/// histogram tells.
const MOSTLY_LATE: f64 = 0.5;

/// CPU is a rough measure of requests: it must show this much more than the level that is carried.
const CLEARLY_MORE: f64 = 1.25;

/// What is expected, and what the planner makes of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outlook {
    pub(super) demand: Demand,
    /// `None` while nobody knows what a pod can serve.
    pub(super) planned: Option<(PodCapacity, Plan)>,
    pub(super) load: Option<Load>,
}

impl Brain {
    /// History and capacity.
    pub(super) fn learn(&mut self, seen: &Observation, tick: &Tick, senses: &Senses) {
        // Another source for one tick is neither a trend nor a miss of the forecast: the last level is carried.
        let own = senses.load.filter(|load| load.by_cpu != self.settings.declared.qps);
        match own {
            Some(load) => {
                self.forecaster.observe(tick.slot, load.value);
                self.watch.learn(self.forecaster.judged());
            }
            None => self.forecaster.pass(tick.slot),
        }
        let pods = seen.pods;
        let sample = PodSample {
            now_secs: tick.now_secs,
            step_secs: tick.step_secs,
            load: own.map(|load| load.value),
            cores: senses.cores.filter(|_| self.settings.declared.qps && senses.cpu_pods == pods.ready),
            pod_cpu_request: seen.pod_cpu_request,
            latency_ratio: senses.latency_ratio,
            late_share: senses.late_share,
            ready: pods.ready,
            all_ready: pods.starting == 0 && pods.unschedulable == 0 && pods.unhealthy == 0,
            utilization: senses.utilization,
        };
        self.estimator.learn(&self.settings, &sample);
        self.backlog = self.backlog_after(seen, tick, senses);
    }

    /// What waits: by Little's law from latency beyond the target, or from the late share where latency is beyond its
    /// histogram; without a latency signal, by the fluid model.
    fn backlog_after(&self, seen: &Observation, tick: &Tick, senses: &Senses) -> f64 {
        let Some(load) = senses.load else { return 0.0 };
        let Some(capacity) = self.estimator.capacity(&self.settings, seen.pod_cpu_request) else {
            return 0.0;
        };
        let served = f64::from(seen.pods.ready) * capacity.load_per_pod / self.estimator.scale();
        let longest_secs = self.settings.scaled(BACKLOG_SECS);
        let beyond =
            |ratio: f64| ((ratio - 1.0).max(0.0) * self.settings.objective.target_secs).min(longest_secs);
        let mostly_late = senses.late_share.filter(|late| MOSTLY_LATE <= *late);
        let late_secs = senses.latency_ratio.map(beyond).or(mostly_late.map(|late| late * longest_secs));
        if let Some(late_secs) = late_secs {
            let busy = senses.utilization.is_none_or(|used| planner::IDLE <= used);
            return if busy && planner::IDLE * served <= load.value { load.value * late_secs } else { 0.0 };
        }
        if self.settings.declared.latency || load.by_cpu {
            return 0.0;
        }
        let waiting = self.backlog + (load.value - served) * tick.step_secs;
        waiting.clamp(0.0, longest_secs * served.max(load.value))
    }

    /// Demand at the horizon, and n0.
    pub(super) fn look_ahead(&self, seen: &Observation, senses: &Senses) -> Outlook {
        let uncomfortable = senses.latency_ratio.is_none_or(|ratio| planner::COMFORT < ratio);
        let by_cpu = senses.load.filter(|load| load.by_cpu);
        let demand = Demand {
            forecast: self.forecast_with(by_cpu.filter(|_| self.settings.declared.qps)),
            backlog: self.backlog,
            saturation: senses.utilization.filter(|_| by_cpu.is_some() && uncomfortable),
            scale: self.estimator.scale(),
        };
        let capacity = self.estimator.capacity(&self.settings, seen.pod_cpu_request);
        let planned = capacity
            .filter(|_| senses.load.is_some())
            .map(|capacity| (capacity, planner::plan(&self.settings, &capacity, &demand)));
        Outlook { demand, planned, load: senses.load }
    }

    /// The forecast; where the rate is lost, CPU may show that the load is well above the level that is carried.
    fn forecast_with(&self, by_cpu: Option<Load>) -> Forecast {
        let forecast = self.forecaster.forecast();
        match by_cpu {
            Some(Load { value, .. }) if CLEARLY_MORE * forecast.level < value => {
                Forecast { level: value, trend: value, seasonal: value, ..forecast }
            }
            Some(_) => Forecast { trend: forecast.level, seasonal: forecast.level, ..forecast },
            None => forecast,
        }
    }

    /// The error budget, and the price of a replica-hour.
    pub(super) fn book(&mut self, seen: &Observation, tick: &Tick, senses: &Senses, outlook: &Outlook) {
        let estimated = outlook.planned.map(|(capacity, plan)| {
            let busy_workers = plan.level_busy_pods * f64::from(capacity.service.workers);
            let share = late_share_behind(&capacity.service, busy_workers, seen.pods.ready, 0.0);
            // The p-th percentile is over the target when more than 1 - p of the requests are late.
            let by_latency = match senses.latency_ratio {
                Some(ratio) if 1.0 < ratio => 1.0 - self.settings.objective.latency_percentile,
                _ => 0.0,
            };
            if senses.latency_ratio.is_some() { by_latency } else { share }
        });
        let measured_lost = self.settings.declared.sla && senses.late_share.is_none();
        let spent = Spent {
            step_secs: tick.step_secs,
            offered: outlook.load.map_or(0.0, |load| load.value) * tick.step_secs,
            late_share: senses.late_share.or(estimated.filter(|_| !measured_lost)),
            price: senses.price,
        };
        self.budget.book(&self.settings, tick.now_secs, spent);
    }

    /// What the last scale-downs of ours did to the objective; what must be undone makes the pods doubted, too.
    pub(super) fn look_back(
        &mut self,
        seen: &Observation,
        tick: &Tick,
        will: Override,
        senses: &Senses,
        outlook: &Outlook,
    ) -> Option<Undone> {
        let capacity = outlook.planned.as_ref().map(|(capacity, _)| capacity);
        let estimated = outlook.planned.map(|(capacity, plan)| {
            let busy_workers = plan.level_busy_pods * f64::from(capacity.service.workers);
            late_share_behind(&capacity.service, busy_workers, seen.pods.ready, 0.0)
        });
        let lateness = Lateness {
            late_share: senses.late_share,
            latency_ratio: senses.latency_ratio,
            estimated,
            qps: senses.qps,
        };
        let overloaded = busy_ratio(seen, outlook).is_some_and(|busy| OVERLOADED <= busy);
        let sight = Sight {
            now_secs: tick.now_secs,
            lag_secs: self.lag.secs(&self.settings),
            replicas: seen.replicas,
            ready: seen.pods.ready,
            will,
            load: senses.load.map(|load| load.value),
            verdict: regression::judge(&self.settings, &lateness),
            idle: senses.utilization.is_some_and(|used| used < planner::IDLE) && !overloaded,
            capacity,
            scale: self.estimator.scale(),
        };
        let undone = self.rails.regression.look(&self.settings, &sight)?;
        self.estimator.doubt_undone(&self.settings, &undone, capacity);
        Some(undone)
    }

    /// Expected demand over the lower of the present level and that of the last minutes.
    pub(super) fn growth(&self, forecast: &Forecast) -> f64 {
        let slots = self.forecaster.history().slots().last(BIN_SLOTS);
        let before = if slots.is_empty() { forecast.level } else { mean(slots).min(forecast.level) };
        if before <= 0.0 {
            if 0.0 < forecast.level { f64::INFINITY } else { 1.0 }
        } else {
            forecast.expected() / before
        }
    }
}

/// Present load over what the ready pods carry.
pub(super) fn busy_ratio(seen: &Observation, outlook: &Outlook) -> Option<f64> {
    let (_, plan) = outlook.planned?;
    (0 < seen.pods.ready).then(|| plan.level_busy_pods / f64::from(seen.pods.ready))
}
