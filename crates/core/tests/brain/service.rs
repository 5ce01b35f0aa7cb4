//! A service that is always as the brain wants it, with signals a test can spoil.

use rlscaler_core::observation::{Observation, Pods, Reading, Signal, Signals};
use rlscaler_core::settings::{
    Bounds, Capacity, DeclaredSignals, Fallback, Objective, Override, Settings, Weights,
};
use rlscaler_core::{Brain, Decision, PlannerOnly, Policy};

/// Requests per second one pod serves.
pub(crate) const PER_POD: f64 = 80.0;

pub(crate) fn fresh(value: f64) -> Signal {
    Signal::Fresh(Reading { value, age_secs: Some(15.0) })
}

/// 2..20 replicas, 4 workers of 50 ms, target 250 ms at 99 %, signals qps, latency and cpu.
pub(crate) fn settings() -> Settings {
    let objective =
        Objective { target_secs: 0.25, sla: 0.99, latency_percentile: 0.95, weights: Weights::default() };
    let declared = DeclaredSignals { qps: true, latency: true, cpu: true, ..DeclaredSignals::default() };
    let capacity = Some(Capacity { concurrency: 4, service_secs: 0.05 });
    let mut settings = Settings { capacity, declared, ..Settings::new(bounds(2, 20), objective) };
    // Every number is acted upon; the tests of the slack say what is not.
    settings.tuning.raise_slack = 0.0;
    settings.tuning.lower_slack = 0.0;
    settings
}

pub(crate) fn bounds(min: u32, max: u32) -> Bounds {
    Bounds::new(min, max).expect("min <= max")
}

pub(crate) fn with_fallback(replicas: u32) -> Settings {
    Settings { fallback: Some(Fallback { failure_secs: 180.0, replicas }), ..settings() }
}

pub(crate) struct Service {
    pub(crate) brain: Brain,
    pub(crate) time_secs: f64,
    pub(crate) replicas: u32,
    pub(crate) will: Override,
}

impl Service {
    pub(crate) fn new(settings: Settings, replicas: u32) -> Self {
        Self { brain: Brain::new(settings), time_secs: 1_000_000.0, replicas, will: Override::None }
    }

    /// What is seen at `qps` when all is well.
    pub(crate) fn healthy(&self, qps: f64) -> Observation {
        let most = PER_POD * f64::from(self.replicas);
        let signals = Signals {
            qps: fresh(qps),
            latency: fresh(if qps < most { 0.08 } else { 0.5 }),
            cpu: fresh(qps.min(most) / PER_POD + 0.01),
            ..Signals::default()
        };
        Observation {
            time_secs: self.time_secs,
            replicas: self.replicas,
            pods: Pods { ready: self.replicas, ..Pods::default() },
            pod_cpu_request: Some(1.0),
            signals,
            startup_secs: None,
            ..Observation::default()
        }
    }

    /// One tick, obeyed at once.
    pub(crate) fn tick(&mut self, qps: f64, spoil: impl FnOnce(&mut Observation)) -> Decision {
        self.tick_with(&PlannerOnly, qps, spoil)
    }

    pub(crate) fn tick_with(
        &mut self,
        policy: &dyn Policy,
        qps: f64,
        spoil: impl FnOnce(&mut Observation),
    ) -> Decision {
        let mut seen = self.healthy(qps);
        spoil(&mut seen);
        let decision = self.brain.decide(policy, self.will, &seen);
        if decision.changes() {
            self.brain.record_scale(self.time_secs, decision.from(), decision.replicas());
        }
        self.replicas = decision.replicas();
        self.time_secs += self.brain.settings().interval_secs;
        decision
    }

    /// Healthy ticks for this many seconds; the last decision.
    pub(crate) fn run(&mut self, secs: f64, qps: f64) -> Decision {
        self.run_spoiled(secs, qps, |_| {})
    }

    pub(crate) fn run_spoiled(&mut self, secs: f64, qps: f64, spoil: impl Fn(&mut Observation)) -> Decision {
        let end = self.time_secs + secs;
        let mut last = self.tick(qps, &spoil);
        while self.time_secs < end {
            last = self.tick(qps, &spoil);
        }
        last
    }
}

pub(crate) fn codes(decision: &Decision) -> Vec<&'static str> {
    decision.reasons().iter().map(|reason| reason.code()).collect()
}

pub(crate) fn says(decision: &Decision, code: &str) -> bool {
    codes(decision).contains(&code)
}
