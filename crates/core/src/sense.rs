//! What may be believed of an observation: unusable numbers out, lost signals named, the load found.
//!
//! In: the signals of one tick and what is remembered. Out: [`Senses`]. Not seeing is not zero.

use crate::capacity::Estimator;
use crate::guardrail::IDLE_QPS;
use crate::observation::{Observation, Reading, Signal, Signals};
use crate::reason::SignalName;
use crate::settings::Settings;

/// Requests per second (or cores) below this are zero.
const ZERO: f64 = 1e-9;
/// A fall to zero in one poll from at least this share of the usual level is not believed without confirmation.
const CLIFF_SHARE: f64 = 0.5;
/// CPU confirms idleness when it fell to at most this share of what it was under load, but not to nothing: real pods
/// never use exactly no CPU.
const CONFIRMED_SHARE: f64 = 0.5;
/// A zero that nothing can confirm or contradict, as CPU was never seen, is believed after this many seconds.
const CLIFF_SECS: f64 = 900.0;
/// Weight of a new sample in the mean of cores under load.
const CORES_WEIGHT: f64 = 0.1;

/// Values beyond these are no measurements: requests per second, seconds, cores, price of a replica-hour.
const QPS_MAX: f64 = 1e12;
const LATENCY_MAX_SECS: f64 = 1e6;
const CORES_MAX: f64 = 1e9;
const PRICE_MAX: f64 = 1e12;

/// The load as it may be believed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// In the policy's unit: requests per second where qps is declared, else cores.
    pub value: f64,
    /// True when it was read from CPU, or from a part of the data: rough.
    pub by_cpu: bool,
}

/// What may be believed at one tick.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Senses {
    /// The load.
    pub load: Option<Load>,
    /// Fresh requests per second.
    pub qps: Option<f64>,
    /// Cores used by the ready pods that gave a sample.
    pub cores: Option<f64>,
    /// How many those are.
    pub cpu_pods: u32,
    /// CPU used over requested.
    pub utilization: Option<f64>,
    /// Latency over target.
    pub latency_ratio: Option<f64>,
    /// Measured share of late requests.
    pub late_share: Option<f64>,
    /// Price of a replica-hour.
    pub price: Option<f64>,
    /// The first declared signal that cannot be acted on.
    pub lost: Option<SignalName>,
    /// The load is said to be zero, suddenly or while the pods work, and nothing confirms it.
    pub sudden_zero: bool,
}

/// What the senses remember.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SenseMemory {
    /// Since when load is zero without confirmation.
    pub sudden_zero_since_secs: Option<f64>,
    /// Cores used while there was load; 0 when CPU was never seen.
    pub busy_cores: f64,
}

/// The load of the last minutes, for telling a cliff from a slope.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usual {
    /// The last reading.
    pub last: f64,
    /// Mean of the last 5 minutes, or of the last minute where that is lower: after a step down, the lower level is the
    /// usual one.
    pub mean: f64,
}

/// What may be believed.
pub fn sense(
    settings: &Settings,
    seen: &Observation,
    now_secs: f64,
    usual: Usual,
    estimator: &Estimator,
    memory: &mut SenseMemory,
) -> Senses {
    let signals = cleaned(settings, seen.signals);
    let cpu_pods = seen.cpu_pods.map_or(seen.pods.ready, |pods| pods.min(seen.pods.ready));
    let cores = signals.cpu.usable().filter(|_| 0 < cpu_pods);
    let request = seen.pod_cpu_request;
    let all_gave = cpu_pods == seen.pods.ready;
    let raw = match cores {
        _ if settings.declared.qps => signals.qps.usable(),
        Some(cores) if !all_gave => Some(between(cores, cpu_pods, seen.pods.ready, usual.last)),
        cores => cores,
    };
    let others_lost = lost(settings, &signals, seen.replicas, memory);
    let sudden_zero = is_sudden_zero(settings, now_secs, raw, cores, usual, others_lost.is_some(), memory)
        || is_worked_at(settings, estimator, raw, cores, cpu_pods, memory);
    let read = raw.filter(|_| !sudden_zero).map(|value| Load { value, by_cpu: !settings.declared.qps });
    let load = read.or_else(|| {
        // What CPU, or a part of the data, tells of the requests: good enough to see that there are many more, not for
        // a forecast.
        let part = signals.qps.at_least().filter(|_| settings.declared.qps && !sudden_zero);
        let rough = by_cores(settings, estimator, cores, cpu_pods).into_iter().chain(part);
        Some(Load { value: rough.reduce(f64::max)?, by_cpu: true })
    });
    if let Some(cores) = cores.filter(|&cores| all_gave && ZERO < cores && raw.is_some_and(|raw| ZERO < raw))
    {
        let weight = if memory.busy_cores <= 0.0 { 1.0 } else { CORES_WEIGHT };
        memory.busy_cores += (cores - memory.busy_cores) * weight;
    }
    Senses {
        load,
        qps: signals.qps.usable().filter(|_| !sudden_zero),
        cores,
        cpu_pods,
        utilization: cores.zip(request).map(|(cores, request)| cores / (f64::from(cpu_pods) * request)),
        latency_ratio: signals.latency.at_least().map(|secs| secs / settings.objective.target_secs),
        late_share: signals.sla.usable().map(|sla| 1.0 - sla),
        price: signals.price.usable().filter(|&price| 0.0 < price).or(settings.price_per_replica_hour),
        lost: others_lost,
        sudden_zero,
    }
}

/// The requests per second behind the cores, where what one costs is known.
fn by_cores(settings: &Settings, estimator: &Estimator, cores: Option<f64>, cpu_pods: u32) -> Option<f64> {
    let (slope, idle) = estimator.cores_per_load().filter(|_| settings.declared.qps)?;
    let busy = cores.filter(|&cores| ZERO < cores)? - idle * f64::from(cpu_pods);
    Some(busy.max(0.0) / slope)
}

/// No requests, it is said, and yet the pods do more than half of the work they did under load, beyond what they use
/// idly: a zero that was believed before, when CPU confirmed it, is not believed while that lasts.
fn is_worked_at(
    settings: &Settings,
    estimator: &Estimator,
    raw: Option<f64>,
    cores: Option<f64>,
    cpu_pods: u32,
    memory: &SenseMemory,
) -> bool {
    let says_zero = settings.declared.qps && raw.is_some_and(|raw| raw <= ZERO);
    let idle = estimator.cores_per_load().map(|(_, idle)| idle * f64::from(cpu_pods));
    let worked = cores.zip(idle).map(|(cores, idle)| cores - idle);
    let most = CONFIRMED_SHARE * memory.busy_cores;
    says_zero && 0.0 < most && worked.is_some_and(|worked| most < worked)
}

/// The cores behind a sum that some ready pods are missing from: at least the sum, at most as if those pods used what
/// the others do. In between, what was known before is kept: a pod without a sample is neither idle nor busy.
fn between(cores: f64, cpu_pods: u32, ready: u32, before: f64) -> f64 {
    let most = cores * f64::from(ready) / f64::from(cpu_pods);
    before.max(cores).min(most)
}

/// Every number usable, every declared signal accounted for.
fn cleaned(settings: &Settings, signals: Signals) -> Signals {
    let declared = settings.declared;
    Signals {
        qps: clean(signals.qps, declared.qps, QPS_MAX),
        latency: clean(signals.latency, declared.latency, LATENCY_MAX_SECS),
        sla: clean(signals.sla, declared.sla, 1.0),
        errors: clean(signals.errors, declared.errors, 1.0),
        cpu: clean(signals.cpu, declared.cpu, CORES_MAX),
        price: clean(signals.price, declared.price, PRICE_MAX),
    }
}

fn clean(signal: Signal, declared: bool, most: f64) -> Signal {
    match signal {
        Signal::NotDeclared if declared => Signal::Missing,
        Signal::Fresh(reading) | Signal::Estimated(reading) | Signal::Partial(reading)
            if !(0.0..=most).contains(&reading.value) =>
        {
            Signal::Invalid
        }
        Signal::Fresh(Reading { value, age_secs }) if value <= ZERO => {
            Signal::Fresh(Reading { value: 0.0, age_secs })
        }
        other => other,
    }
}

/// The first declared signal that cannot be acted on. At idle latency, sla and errors are 0/0 and do not count. CPU is
/// read by default: a cluster that never had it has not lost it. Where nothing is to run, nothing is to be measured but
/// a load that is measured elsewhere, as it is with a minimum of 0.
fn lost(settings: &Settings, signals: &Signals, replicas: u32, memory: &SenseMemory) -> Option<SignalName> {
    let idle = signals.qps.usable().is_some_and(|qps| qps <= IDLE_QPS);
    let cpu_counts = 0.0 < memory.busy_cores || !settings.declared.qps;
    let declared = settings.declared;
    let runs = 0 < replicas;
    [
        (signals.qps, declared.qps && (runs || settings.bounds.min() == 0), SignalName::Qps),
        (signals.latency, declared.latency && !idle && runs, SignalName::Latency),
        (signals.sla, declared.sla && !idle && runs, SignalName::Sla),
        (signals.errors, declared.errors && !idle && runs, SignalName::Errors),
        (signals.cpu, declared.cpu && cpu_counts && runs, SignalName::Cpu),
    ]
    .into_iter()
    .find(|(signal, counts, _)| *counts && signal.is_lost())
    .map(|(_, _, name)| name)
}

/// A load that was there at the last poll and is exactly zero now, while CPU does not confirm it, is not believed: a
/// source that lost its data answers like that. While CPU contradicts it, because pods go on working, or because ready
/// pods seem to use nothing at all, it is never believed, however long it lasts: a declared fallback ends that.
fn is_sudden_zero(
    settings: &Settings,
    now_secs: f64,
    raw: Option<f64>,
    cores: Option<f64>,
    usual: Usual,
    others_lost: bool,
    memory: &mut SenseMemory,
) -> bool {
    let Some(raw) = raw else { return memory.sudden_zero_since_secs.is_some() };
    let by_qps = settings.declared.qps;
    let most = CONFIRMED_SHARE * memory.busy_cores;
    let confirmed =
        by_qps && cores.is_some_and(|cores| ZERO < cores && (memory.busy_cores <= 0.0 || cores <= most));
    if ZERO < raw || confirmed {
        memory.sudden_zero_since_secs = None;
        return false;
    }
    let contradicted = cores.is_some() && 0.0 < memory.busy_cores;
    match memory.sudden_zero_since_secs {
        Some(since) if !others_lost && !contradicted && settings.scaled(CLIFF_SECS) <= now_secs - since => {
            memory.sudden_zero_since_secs = None;
            return false;
        }
        None if IDLE_QPS < usual.last && CLIFF_SHARE * usual.mean < usual.last => {
            memory.sudden_zero_since_secs = Some(now_secs);
        }
        _ => {}
    }
    memory.sudden_zero_since_secs.is_some()
}
