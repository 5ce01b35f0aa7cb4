//! What one replica can serve: declared, or estimated from what an operator sees, and a factor that is slow to trust
//! and quick to doubt.
//!
//! In: load, cores, latency or late share, ready pods. Out: load one busy pod carries, or nothing while that is
//! unknown. Never looks at anything an operator could not see.
//!
//! Three sources, in this order: the declared capacity; cores per request (a pod is busy when it uses its CPU request);
//! the load per pod at which latency went over its target. Until then only the *proven* load per pod is known.

mod density;
mod past;

use crate::history::SLOT_SECS;
use crate::memory::CapacityMemory;
use crate::observation::History;
use crate::queue::{Service, late_share, late_share_below};
use crate::settings::Settings;

/// A supposedly safe slot that came out late by more than [`LATE`] raises the factor by this. Supposedly safe: at the
/// highest load per pod of the last minute; supposedly late: at the lowest.
const DOUBT: f64 = 1.02;
/// A supposedly late slot that came out in time lowers it by this.
const TRUST: f64 = 0.99;
/// Most such steps that one undone scale-down is worth: a tenth.
const UNDONE_STEPS: u32 = 5;
/// A doubt that CPU does not share fades, with this half-life: a load that jumps is late with pods that are as strong as
/// declared, and a doubt kept for good would pay for that for ever.
const DOUBT_HALF_LIFE_SECS: f64 = 1_800.0;
/// CPU contradicts a doubt where it says that a pod carries this share of what was declared.
const WITNESS_SHARE_MIN: f64 = 0.9;
/// Late share that contradicts "safe".
const LATE: f64 = 0.05;
/// Limits of the factor: a capacity misjudged by more than this is misdeclared, and needs a person.
pub const SCALE_MIN: f64 = 0.6;
/// See [`SCALE_MIN`].
pub const SCALE_MAX: f64 = 2.5;
/// Load per pod may differ by this much from its start while a stretch counts as steady.
const STEADY_RATIO: f64 = 0.1;
/// Seconds a stretch must be steady before its lateness says something: a window of rates and its lag.
const STEADY_SECS: f64 = 45.0;
/// Length of each of the two stretches whose extremes say what the last minute's load was: a window of rates, its lag,
/// and the time what waited needs to be gone.
const EXTREMES_SECS: f64 = 45.0;
/// CPU may say that a pod carries this share of what was declared, or more. Less says that the CPU request is not what a
/// busy pod uses.
const DECLARED_SHARE_MIN: f64 = 0.6;
/// Samples before CPU may contradict what was declared.
const CONTRADICTION_SAMPLES: f64 = 20.0;
/// Forgetting of the regression: half-life of a day at one sample per 15 s.
const KEEP_PER_SAMPLE: f64 = 0.999_88;
/// Samples before a regression is used.
const SAMPLES_MIN: f64 = 3.0;
/// A slope is trusted when the loads seen vary by this much (coefficient of variation), else the ratio is used, which
/// books the idle cost on the requests and so errs on the safe side.
const VARIATION_MIN: f64 = 0.1;
/// A sample this far from what is known is clipped to it: start-up storms, neighbours.
const OUTLIER_RATIO: f64 = 2.0;
/// Most of a pod's CPU that idling may explain.
const IDLE_SHARE_MAX: f64 = 0.5;

/// A pod that carries less than this, per second, was not measured but imagined.
const LOAD_PER_POD_MIN: f64 = 1e-6;

/// Where the capacity comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// `spec.capacity`.
    Declared,
    /// CPU request over cores per request.
    Cpu,
    /// Load per pod at which latency went over its target.
    Saturation,
}

/// What one pod carries.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PodCapacity {
    /// Where it comes from.
    pub source: Source,
    /// Load (requests/s or cores) of one fully busy pod, the learnt factor not applied.
    pub load_per_pod: f64,
    /// The queue it forms with its like.
    pub service: Service,
}

/// One tick, as far as pods are concerned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PodSample {
    /// Seconds.
    pub now_secs: f64,
    /// Seconds since the last tick.
    pub step_secs: f64,
    /// Load in the policy's unit, where fresh.
    pub load: Option<f64>,
    /// Cores used by the ready pods, where fresh and the load is not cores itself.
    pub cores: Option<f64>,
    /// CPU request of one pod, cores.
    pub pod_cpu_request: Option<f64>,
    /// Latency over target, where fresh.
    pub latency_ratio: Option<f64>,
    /// Measured late share (1 - sla), where fresh.
    pub late_share: Option<f64>,
    /// Ready pods.
    pub ready: u32,
    /// No pod is starting, pending or failing.
    pub all_ready: bool,
    /// CPU used over requested, where known.
    pub utilization: Option<f64>,
}

/// What has been learnt about one pod. O(1) per tick.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimator {
    memory: CapacityMemory,
    /// Cores per request in what Prometheus remembers: it need not be remembered here.
    past: Option<f64>,
}

impl Default for Estimator {
    fn default() -> Self {
        Self { memory: CapacityMemory { scale: 1.0, ..CapacityMemory::default() }, past: None }
    }
}

impl Estimator {
    /// As it was; an empty memory is a fresh estimator.
    #[must_use]
    pub fn restore(memory: &CapacityMemory) -> Self {
        let mut restored = Self { memory: *memory, past: None };
        if !(SCALE_MIN..=SCALE_MAX).contains(&restored.memory.scale) {
            restored.memory.scale = 1.0;
        }
        restored
    }

    /// What must survive.
    #[must_use]
    pub fn memory(&self) -> CapacityMemory {
        self.memory
    }

    /// What a request costs, as the past tells; believed until enough was seen live.
    pub fn backfill(&mut self, settings: &Settings, history: &History) {
        let is_asked = settings.declared.qps && settings.declared.cpu;
        self.past = is_asked.then(|| past::cores_per_load(history, settings.time_factor)).flatten();
    }

    /// Moves times after the clock was stepped.
    pub fn shift(&mut self, delta_secs: f64) {
        self.memory.steady_since_secs += delta_secs;
        self.memory.extremes_since_secs += delta_secs;
    }

    /// Factor on the load: above 1 where pods proved weaker than thought.
    #[must_use]
    pub fn scale(&self) -> f64 {
        self.memory.scale
    }

    /// Seconds load and pods have been steady.
    #[must_use]
    pub fn steady_secs(&self, now_secs: f64) -> f64 {
        now_secs - self.memory.steady_since_secs
    }

    /// Learns from one tick.
    pub fn learn(&mut self, settings: &Settings, sample: &PodSample) {
        let Some(load) = sample.load.filter(|_| 0 < sample.ready) else { return };
        let density = load / f64::from(sample.ready);
        if let Some(cores) = sample.cores.filter(|_| sample.all_ready && 0.0 < load) {
            self.regress(density, cores / f64::from(sample.ready));
        }
        self.note_density(settings, sample, density);
        self.note_steadiness(sample, density);
        self.note_extremes(settings, sample, density);
        let capacity = self.capacity(settings, sample.pod_cpu_request);
        if let Some(capacity) = capacity.filter(|_| settings.tuning.learns_capacity) {
            self.doubt_or_trust(settings, sample, &capacity);
        }
    }

    /// Raises the factor while it calls safe what was not, by a tenth at most.
    pub(crate) fn doubt_while(&mut self, is_safe: impl Fn(f64) -> bool) {
        for _ in 0..UNDONE_STEPS {
            if is_safe(self.memory.scale) {
                self.memory.scale = (self.memory.scale * DOUBT).min(SCALE_MAX);
            }
        }
    }

    /// Cores one unit of load costs and the idle cores of a pod, where known. The load of a CPU-only policy is cores.
    #[must_use]
    pub fn cores_per_load(&self) -> Option<(f64, f64)> {
        let [weight, x, y, xx, xy] = self.memory.sums;
        if weight < SAMPLES_MIN || x <= 0.0 {
            return None;
        }
        let (mean_x, mean_y) = (x / weight, y / weight);
        let variance = (xx / weight - mean_x * mean_x).max(0.0);
        if variance.sqrt() < VARIATION_MIN * mean_x {
            return Some((mean_y / mean_x, 0.0));
        }
        let slope = (xy / weight - mean_x * mean_y) / variance;
        let idle = (mean_y - slope * mean_x).clamp(0.0, IDLE_SHARE_MAX * mean_y);
        Some(((mean_y - idle) / mean_x, idle)).filter(|(slope, _)| 0.0 < *slope)
    }

    /// What one pod carries; `None` while neither declared nor estimable.
    #[must_use]
    pub fn capacity(&self, settings: &Settings, pod_cpu_request: Option<f64>) -> Option<PodCapacity> {
        let by_cores = !settings.declared.qps;
        let request = pod_cpu_request.filter(|&request| 0.0 < request);
        if by_cores {
            // A pod whose workers are all busy uses its CPU request.
            let load_per_pod = request?;
            let (source, service) = match settings.capacity {
                Some(_) => (Source::Declared, declared_service(settings)?),
                None => (Source::Cpu, unknown_service(settings, None)),
            };
            return Some(PodCapacity { source, load_per_pod, service });
        }
        if let Some(declared) = declared_service(settings) {
            let share = self.declared_share(settings, &declared, request);
            let service = Service { service_secs: declared.service_secs / share, ..declared };
            return Some(PodCapacity {
                source: Source::Declared,
                load_per_pod: service.rate_per_replica(),
                service,
            });
        }
        let by_cpu = request.zip(self.cores_per_load()).map(|(request, (slope, idle))| {
            let load_per_pod = (request - idle).max((1.0 - IDLE_SHARE_MAX) * request) / slope;
            (Source::Cpu, load_per_pod)
        });
        let saturated = (0.0 < self.memory.bad_density)
            .then(|| (Source::Saturation, self.memory.bad_density.max(self.memory.good_density)));
        let (source, load_per_pod) = by_cpu.or(saturated).filter(|(_, load)| LOAD_PER_POD_MIN < *load)?;
        Some(PodCapacity { source, load_per_pod, service: unknown_service(settings, Some(load_per_pod)) })
    }

    /// What CPU says of the declared capacity: its share that a pod really carries, at most 1. CPU may doubt, not trust:
    /// a pod that uses little CPU may wait for something else.
    fn declared_share(&self, settings: &Settings, declared: &Service, request: Option<f64>) -> f64 {
        let share = self.share_by_cpu(declared, request).filter(|_| settings.tuning.learns_capacity);
        share.filter(|share| DECLARED_SHARE_MIN <= *share).map_or(1.0, |share| share.min(1.0))
    }

    /// Share of the declared capacity at which a pod would use its CPU request; `None` while too little was seen.
    fn share_by_cpu(&self, declared: &Service, request: Option<f64>) -> Option<f64> {
        let enough = CONTRADICTION_SAMPLES <= self.memory.sums[0];
        let past = self.past.map(|cores| (cores, 0.0));
        let (slope, idle) = if enough { self.cores_per_load() } else { past }?;
        Some((request? - idle) / slope / declared.rate_per_replica())
    }

    /// CPU says that pods carry what was declared, or nearly so.
    fn is_denied_by_cpu(&self, settings: &Settings, sample: &PodSample) -> bool {
        let declared = declared_service(settings);
        let share = declared.and_then(|declared| self.share_by_cpu(&declared, sample.pod_cpu_request));
        share.is_some_and(|share| WITNESS_SHARE_MIN <= share)
    }

    fn regress(&mut self, density: f64, mut cores: f64) {
        if let Some((slope, idle)) = self.cores_per_load().filter(|_| 20.0 < self.memory.sums[0]) {
            let expected = idle + slope * density;
            cores = cores.clamp(expected / OUTLIER_RATIO, expected * OUTLIER_RATIO);
        }
        let terms = [1.0, density, cores, density * density, density * cores];
        for (sum, term) in self.memory.sums.iter_mut().zip(terms) {
            *sum = *sum * KEEP_PER_SAMPLE + term;
        }
    }

    fn note_steadiness(&mut self, sample: &PodSample, density: f64) {
        let memory = &mut self.memory;
        let same = (density - memory.steady_density).abs() <= STEADY_RATIO * memory.steady_density;
        if !same {
            memory.steady_since_secs = sample.now_secs;
            memory.steady_density = density;
        }
    }

    fn note_extremes(&mut self, settings: &Settings, sample: &PodSample, density: f64) {
        let memory = &mut self.memory;
        if settings.scaled(EXTREMES_SECS) <= sample.now_secs - memory.extremes_since_secs {
            memory.extremes_since_secs = sample.now_secs;
            memory.extremes_before = memory.extremes;
            memory.extremes = [density, density];
        }
        memory.extremes = [memory.extremes[0].min(density), memory.extremes[1].max(density)];
    }

    /// +2 % when a slot predicted safe came out late, -1 % on the reverse; a doubt that CPU denies fades.
    fn doubt_or_trust(&mut self, settings: &Settings, sample: &PodSample, capacity: &PodCapacity) {
        let late = match (sample.late_share, sample.latency_ratio) {
            (Some(share), _) => LATE < share,
            // The p-th percentile is over the target exactly when more than 1 - p of the requests are late.
            (None, Some(ratio)) => 1.0 < ratio,
            (None, None) => return,
        };
        let idle = sample.utilization.is_some_and(|utilization| utilization < 0.5);
        let workers = f64::from(capacity.service.workers);
        let scale = self.memory.scale;
        let busy = |density: f64| density * f64::from(sample.ready) / capacity.load_per_pod * scale * workers;
        let over = |density: f64, limit: f64| {
            !late_share_below(&capacity.service, busy(density), sample.ready, limit)
                && limit < late_share(&capacity.service, busy(density), sample.ready)
        };
        let [lowest, highest] = [
            self.memory.extremes[0].min(self.memory.extremes_before[0]),
            self.memory.extremes[1].max(self.memory.extremes_before[1]),
        ];
        let slots = (sample.step_secs / settings.scaled(SLOT_SECS)).min(1.0);
        if 1.0 < scale && self.is_denied_by_cpu(settings, sample) {
            let keep = (-sample.step_secs / settings.scaled(DOUBT_HALF_LIFE_SECS)).exp2();
            self.memory.scale = scale.powf(keep);
        }
        if late && !idle && 0.0 < lowest && !over(highest, settings.allowed_late().min(LATE)) {
            self.memory.scale = (self.memory.scale * DOUBT.powf(slots)).min(SCALE_MAX);
        } else if !late && over(lowest, LATE) {
            self.memory.scale = (self.memory.scale * TRUST.powf(slots)).max(SCALE_MIN);
        }
    }
}

/// The declared queue.
fn declared_service(settings: &Settings) -> Option<Service> {
    let declared = settings.capacity?;
    Some(Service {
        workers: declared.concurrency,
        service_secs: declared.service_secs,
        target_secs: settings.objective.target_secs,
        variability: variability(settings),
    })
}

/// One worker per pod: for the same capacity, fewer and faster workers wait longest, so this errs on the safe side.
/// A request takes what such a worker needs, at most half the target; half the target where nothing is known.
fn unknown_service(settings: &Settings, rate_per_pod: Option<f64>) -> Service {
    let target_secs = settings.objective.target_secs;
    let service_secs = rate_per_pod.map_or(0.5 * target_secs, |rate| (1.0 / rate).min(0.5 * target_secs));
    Service { workers: 1, service_secs, target_secs, variability: variability(settings) }
}

fn variability(settings: &Settings) -> f64 {
    0.5 * (settings.tuning.arrival_cv2 + settings.tuning.service_cv2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Bounds, Capacity, DeclaredSignals, Objective, Weights};

    fn settings(capacity: Option<Capacity>) -> Settings {
        let objective =
            Objective { target_secs: 0.25, sla: 0.99, latency_percentile: 0.95, weights: Weights::default() };
        let bounds = Bounds::new(1, 100).expect("1 <= 100");
        let declared = DeclaredSignals { qps: true, latency: true, cpu: true, ..DeclaredSignals::default() };
        Settings { capacity, declared, ..Settings::new(bounds, objective) }
    }

    const WEB: Capacity = Capacity { concurrency: 4, service_secs: 0.05 };

    fn sample(tick: u32, load: f64, ready: u32) -> PodSample {
        PodSample {
            now_secs: 15.0 * f64::from(tick + 4),
            step_secs: 15.0,
            load: Some(load),
            cores: None,
            pod_cpu_request: Some(1.0),
            latency_ratio: Some(0.3),
            late_share: None,
            ready,
            all_ready: true,
            utilization: None,
        }
    }

    #[test]
    fn a_declared_capacity_is_believed() {
        let capacity = Estimator::default().capacity(&settings(Some(WEB)), None).expect("declared");
        assert_eq!((capacity.source, capacity.load_per_pod), (Source::Declared, 80.0));
    }

    #[test]
    fn capacity_is_unknown_until_something_tells_it() {
        assert_eq!(Estimator::default().capacity(&settings(None), Some(1.0)), None);
        assert_eq!(Estimator::default().capacity(&settings(None), None), None);
    }

    #[test]
    fn cores_per_request_and_idle_cores_are_found_by_regression() {
        let (settings, mut estimator) = (settings(None), Estimator::default());
        for tick in 0..200 {
            let load = 200.0 + 150.0 * (f64::from(tick) / 10.0).sin();
            let cores = 5.0 * 0.1 + load / 100.0 + 0.02 * f64::from(tick % 3);
            estimator.learn(&settings, &PodSample { cores: Some(cores), ..sample(tick, load, 5) });
        }
        let found = estimator.capacity(&settings, Some(1.0)).expect("known by now");
        assert_eq!(found.source, Source::Cpu);
        assert!((found.load_per_pod - 90.0).abs() < 3.0, "{found:?}");
    }

    #[test]
    fn without_variation_the_idle_cost_is_booked_on_the_requests() {
        let (settings, mut estimator) = (settings(None), Estimator::default());
        for tick in 0..20 {
            estimator.learn(&settings, &PodSample { cores: Some(2.5), ..sample(tick, 200.0, 5) });
        }
        let found = estimator.capacity(&settings, Some(1.0)).expect("known by now");
        assert!((found.load_per_pod - 80.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn cores_of_pods_that_are_not_all_ready_are_not_learnt_from() {
        let (settings, mut estimator) = (settings(None), Estimator::default());
        for tick in 0..20 {
            let storm = PodSample { cores: Some(9.0), all_ready: false, ..sample(tick, 200.0, 5) };
            estimator.learn(&settings, &storm);
        }
        assert_eq!(estimator.cores_per_load(), None);
    }

    #[test]
    fn the_load_at_which_latency_breaks_is_what_a_pod_serves_when_cpu_tells_nothing() {
        let (settings, mut estimator) = (settings(None), Estimator::default());
        for tick in 0..20 {
            let late =
                PodSample { latency_ratio: Some(1.5), pod_cpu_request: None, ..sample(tick, 500.0, 5) };
            estimator.learn(&settings, &late);
        }
        let found = estimator.capacity(&settings, None).expect("saturation was seen");
        assert_eq!(found.source, Source::Saturation);
        assert!((found.load_per_pod - 95.0).abs() < 1e-9);
    }

    #[test]
    fn a_service_weaker_than_declared_is_doubted_quickly_and_trusted_slowly() {
        let (settings, mut estimator) = (settings(Some(WEB)), Estimator::default());
        for tick in 0..24 {
            estimator.learn(&settings, &PodSample { latency_ratio: Some(1.4), ..sample(tick, 280.0, 5) });
        }
        let doubted = estimator.scale();
        assert!(1.3 < doubted, "{doubted}");
        for tick in 24..48 {
            estimator.learn(&settings, &sample(tick, 300.0, 5));
        }
        let trusted = estimator.scale();
        assert!(trusted < doubted && 1.1 < trusted, "{trusted}");
    }

    #[test]
    fn a_doubt_that_cpu_does_not_share_fades_and_one_it_cannot_judge_stays() {
        let after_an_hour_in_time = |cores: Option<f64>| {
            let (settings, mut estimator) = (settings(Some(WEB)), Estimator::default());
            let tick =
                |at: u32, ratio: f64| PodSample { cores, latency_ratio: Some(ratio), ..sample(at, 280.0, 5) };
            (0..24).for_each(|at| estimator.learn(&settings, &tick(at, 1.4)));
            let doubted = estimator.scale();
            (24..264).for_each(|at| estimator.learn(&settings, &tick(at, 0.9)));
            (doubted, estimator.scale())
        };
        // 56 requests/s at 80 per busy pod are 0.7 cores of one.
        let (doubted, left) = after_an_hour_in_time(Some(0.7 * 5.0));
        assert!(1.2 < doubted && left < 1.0 + 0.4 * (doubted - 1.0), "{doubted} {left}");
        let (doubted, left) = after_an_hour_in_time(None);
        assert!(left == doubted, "{doubted} {left}");
    }

    #[test]
    fn lateness_at_idle_cpu_is_not_the_pods_fault() {
        let (settings, mut estimator) = (settings(Some(WEB)), Estimator::default());
        for tick in 0..50 {
            let slow =
                PodSample { latency_ratio: Some(3.0), utilization: Some(0.2), ..sample(tick, 280.0, 5) };
            estimator.learn(&settings, &slow);
        }
        assert_eq!(estimator.scale(), 1.0);
    }

    #[test]
    fn the_factor_stays_within_its_limits() {
        let (settings, mut estimator) = (settings(Some(WEB)), Estimator::default());
        for tick in 0..2_000 {
            let late = PodSample { late_share: Some(0.5), latency_ratio: None, ..sample(tick, 10.0, 5) };
            estimator.learn(&settings, &late);
        }
        assert_eq!(estimator.scale(), SCALE_MAX);
        assert_eq!(Estimator::restore(&CapacityMemory::default()).scale(), 1.0);
    }
}
