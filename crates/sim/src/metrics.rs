//! What a scaler sees of the world: delayed, averaged over a window, sometimes missing. In: what each tick really
//! brought. Out: `Seen`, as a controller would have it from Prometheus and the metrics API.

use rand::Rng;
use rlscaler_core::{Observation, Pods, Reading, Signal, Signals};

use crate::fault::{Channel, Fault, FaultKind};
use crate::fleet::Count;
use crate::scenario::{Metrics, Scenario};
use crate::seed::{Seed, Stream};

/// The largest delay a fault may add to a signal, seconds; the recorder keeps samples for so long.
pub const MAX_EXTRA_LAG_SECS: f64 = 600.0;

/// What one tick really brought.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sample {
    /// Requests that arrived, as counted.
    pub arrived: f64,
    /// Requests whose fate was decided: the base of the late share.
    pub offered: f64,
    /// Of those, late.
    pub late: f64,
    /// Of those, not answered.
    pub dropped: f64,
    /// Core-seconds used by ready pods.
    pub core_secs: f64,
    /// Ready pods, mean.
    pub pods: f64,
    /// Latency at the signal's percentile, seconds.
    pub latency_secs: f64,
}

/// What a scaler is given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seen {
    /// What an operator sees.
    pub observation: Observation,
    /// Pods the CPU sample covers: ready when it was taken. What the HPA divides by.
    pub cpu_pods: u32,
}

/// The last samples, and the luck of reading them.
#[derive(Debug, Clone)]
pub struct Recorder {
    samples: Vec<Sample>,
    /// Ticks recorded so far; the next goes to this place modulo the length.
    recorded: u64,
    tick_secs: f64,
    metrics: Metrics,
    luck: Stream,
}

/// The moment of an observation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment<'a> {
    pub(crate) time_secs: f64,
    pub(crate) replicas: u32,
    pub(crate) count: Count,
    pub(crate) price: f64,
    pub(crate) faults: &'a [Fault],
}

impl Recorder {
    /// An empty recorder of a scenario's metrics.
    #[must_use]
    pub fn new(scenario: &Scenario, seed: Seed) -> Self {
        let metrics = scenario.metrics;
        let late = scenario.faults.iter().any(|fault| matches!(fault.kind, FaultKind::SignalLate(..)));
        let extra_secs = if late { MAX_EXTRA_LAG_SECS } else { 0.0 };
        let ticks = (metrics.lag_secs + metrics.window_secs + extra_secs) / scenario.tick_secs;
        Self {
            samples: vec![Sample::default(); ticks.ceil() as usize + 2],
            recorded: 0,
            tick_secs: scenario.tick_secs,
            metrics,
            luck: seed.stream("missing"),
        }
    }

    /// Remembers a tick, forgetting the oldest.
    pub fn record(&mut self, sample: Sample) {
        let place = (self.recorded % self.samples.len() as u64) as usize;
        self.samples[place] = sample;
        self.recorded += 1;
    }

    /// The sums over the window that ends `lag_secs` ago, and the ticks in it.
    fn window(&self, lag_secs: f64) -> (Sample, f64) {
        let lag = (lag_secs / self.tick_secs).round() as u64;
        let length = (self.metrics.window_secs / self.tick_secs).round().max(1.0) as u64;
        let end = self.recorded.saturating_sub(lag);
        let kept = self.recorded.saturating_sub(self.samples.len() as u64);
        let start = end.saturating_sub(length).max(kept).min(end);
        let mut sum = Sample::default();
        let mut place = (start % self.samples.len() as u64) as usize;
        for _ in start..end {
            let Sample { arrived, offered, late, dropped, core_secs, pods, latency_secs } =
                self.samples[place];
            sum.arrived += arrived;
            sum.offered += offered;
            sum.late += late;
            sum.dropped += dropped;
            sum.core_secs += core_secs;
            sum.pods += pods;
            sum.latency_secs += latency_secs * offered;
            place = if place + 1 == self.samples.len() { 0 } else { place + 1 };
        }
        (sum, (end - start) as f64)
    }

    /// What a scaler sees now. Draws the same luck for every scaler of the same scenario and seed.
    pub(crate) fn observe(&mut self, moment: &Moment) -> Seen {
        let usual_secs = self.metrics.lag_secs;
        let (sum, ticks) = self.window(usual_secs);
        let luck = [self.luck.next_u64(), self.luck.next_u64()];
        let signals = if moment.faults.is_empty() {
            let read = |channel: Channel, value: Option<f64>| self.read(channel, value, usual_secs, luck);
            read_all(&sum, ticks, self.tick_secs, moment.price, read)
        } else {
            self.read_with_faults(moment, luck)
        };
        let Count { ready, starting, unschedulable, unhealthy } = moment.count;
        let cpu_pods = if 0.0 < ticks { (sum.pods / ticks).round() as u32 } else { 0 };
        let observation = Observation {
            time_secs: moment.time_secs,
            replicas: moment.replicas,
            pods: Pods { ready, starting, unschedulable, unhealthy },
            pod_cpu_request: None,
            signals,
            startup_secs: None,
            ..Observation::default()
        };
        Seen { observation, cpu_pods }
    }

    fn read_with_faults(&self, moment: &Moment, luck: [u64; 2]) -> Signals {
        let mut signals = Signals::default();
        for channel in
            [Channel::Qps, Channel::Latency, Channel::Sla, Channel::Errors, Channel::Cpu, Channel::Price]
        {
            let mut lag_secs = self.metrics.lag_secs;
            let mut factor = 1.0;
            let mut lost = false;
            for fault in moment.faults.iter().filter(|fault| fault.lasts(moment.time_secs)) {
                match fault.kind {
                    FaultKind::SignalLost(hit) if hit.hits(channel) => lost = true,
                    FaultKind::SignalLate(hit, secs) if hit.hits(channel) => {
                        lag_secs += secs.clamp(0.0, MAX_EXTRA_LAG_SECS);
                    }
                    FaultKind::SignalWrong(hit, by) if hit.hits(channel) => factor *= by,
                    _ => {}
                }
            }
            let (sum, ticks) = self.window(lag_secs);
            let read = |this: Channel, value: Option<f64>| match value {
                _ if lost => Signal::Missing,
                value => self.read(this, value.map(|value| value * factor), lag_secs, luck),
            };
            let all = read_all(&sum, ticks, self.tick_secs, moment.price, read);
            match channel {
                Channel::Qps => signals.qps = all.qps,
                Channel::Latency => signals.latency = all.latency,
                Channel::Sla => signals.sla = all.sla,
                Channel::Errors => signals.errors = all.errors,
                Channel::Cpu => signals.cpu = all.cpu,
                Channel::Price => signals.price = all.price,
                Channel::All => {}
            }
        }
        signals
    }

    fn read(&self, channel: Channel, value: Option<f64>, lag_secs: f64, luck: [u64; 2]) -> Signal {
        if unlucky(channel, luck, self.metrics.missing) {
            return Signal::Missing;
        }
        match value {
            None => Signal::NotApplicable,
            Some(value) if value.is_finite() && 0.0 <= value => {
                Signal::Fresh(Reading { value, age_secs: Some(lag_secs) })
            }
            Some(_) => Signal::Invalid,
        }
    }
}

/// Every signal, each by `read`; `None` stands for 0/0.
fn read_all(
    sum: &Sample,
    ticks: f64,
    tick_secs: f64,
    price: f64,
    read: impl Fn(Channel, Option<f64>) -> Signal,
) -> Signals {
    if ticks <= 0.0 {
        let nothing = Signal::Missing;
        let price = read(Channel::Price, Some(price));
        return Signals {
            qps: nothing,
            latency: nothing,
            sla: nothing,
            errors: nothing,
            cpu: nothing,
            price,
        };
    }
    let secs = ticks * tick_secs;
    let per_request = |sum_of: f64| (0.0 < sum.offered).then(|| sum_of / sum.offered);
    Signals {
        qps: read(Channel::Qps, Some(sum.arrived / secs)),
        latency: read(Channel::Latency, per_request(sum.latency_secs)),
        sla: read(Channel::Sla, per_request((sum.offered - sum.late).max(0.0))),
        errors: read(Channel::Errors, per_request(sum.dropped.min(sum.offered))),
        cpu: read(Channel::Cpu, Some(sum.core_secs / secs)),
        price: read(Channel::Price, Some(price)),
    }
}

/// Sixteen bits of luck for each signal.
fn unlucky(channel: Channel, luck: [u64; 2], missing: f64) -> bool {
    let (word, shift) = match channel {
        Channel::Qps => (0, 0),
        Channel::Latency => (0, 16),
        Channel::Sla => (0, 32),
        Channel::Errors => (0, 48),
        Channel::Cpu => (1, 0),
        Channel::Price | Channel::All => return false,
    };
    let draw = (luck[word] >> shift) & 0xffff;
    (draw as f64) < missing * 65_536.0
}
