//! The rule of the HorizontalPodAutoscaler (`autoscaling/v2`, Kubernetes 1.36) for CPU utilization: which pods count,
//! how many replicas they ask for, and how that is normalised. For `hpaWouldBe`, savings, and the simulator's baseline.
//!
//! Sources: kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale, "Algorithm details", and what
//! `replica_calculator.go` and `horizontal.go` of v1.36.3 are seen to do. Integers as there: milli-units and whole
//! percents, both cut off.

use crate::behavior::{RateLimited, Track, Windows};
use crate::memory::ScalingMemory;
use crate::settings::{Behavior, Bounds, Direction, Select, Step, StepKind};

/// `--horizontal-pod-autoscaler-tolerance`.
pub const TOLERANCE: f64 = 0.1;
/// `--horizontal-pod-autoscaler-downscale-stabilization`, seconds.
pub const DOWN_WINDOW_SECS: f64 = 300.0;
/// `--horizontal-pod-autoscaler-cpu-initialization-period`, seconds.
pub const CPU_INITIALIZATION_SECS: f64 = 300.0;
/// `--horizontal-pod-autoscaler-initial-readiness-delay`, seconds.
pub const INITIAL_READINESS_SECS: f64 = 30.0;
/// Target utilization of the stock HPA we compare with, percent.
pub const STOCK_TARGET_PERCENT: u32 = 60;

/// Facts about one pod the HPA looks at. Times in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PodFacts {
    /// CPU request, milli-cores; 0 where a container has none.
    pub request_millis: u64,
    /// Metric, if the metrics API has one for this pod.
    pub metric: Option<PodMetric>,
    /// Has a deletion timestamp, or failed.
    pub gone: bool,
    /// Phase Pending.
    pub pending: bool,
    /// Status of the Ready condition, `Unknown` counting as true; `None`: no such condition.
    pub ready: Option<bool>,
    /// When the Ready condition last changed.
    pub ready_changed_secs: f64,
    /// `status.startTime`.
    pub started_secs: Option<f64>,
}

/// One pod's sample.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PodMetric {
    /// CPU used, milli-cores.
    pub usage_millis: u64,
    /// End of the sample's window, seconds.
    pub time_secs: f64,
    /// Length of the window, seconds.
    pub window_secs: f64,
}

/// Periods that decide whether a young pod's CPU counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Readiness {
    /// CPU initialization period, seconds.
    pub cpu_initialization_secs: f64,
    /// Initial readiness delay, seconds.
    pub initial_readiness_secs: f64,
}

impl Default for Readiness {
    fn default() -> Self {
        Self {
            cpu_initialization_secs: CPU_INITIALIZATION_SECS,
            initial_readiness_secs: INITIAL_READINESS_SECS,
        }
    }
}

/// How the HPA treats a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodClass {
    /// Deleted or failed.
    Ignored,
    /// Pending, or too young for its CPU to mean anything.
    Unready,
    /// No metric.
    Missing,
    /// Counts, using this many milli-cores.
    Ready(u64),
}

/// Relative deviations from the target that cause no change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerances {
    /// Below the target.
    pub down: f64,
    /// Above the target.
    pub up: f64,
}

impl Default for Tolerances {
    fn default() -> Self {
        Self { down: TOLERANCE, up: TOLERANCE }
    }
}

impl Tolerances {
    fn covers(self, ratio: f64) -> bool {
        1.0 - self.down <= ratio && ratio <= 1.0 + self.up
    }
}

/// Which class a pod is in.
#[must_use]
pub fn classify(pod: &PodFacts, readiness: Readiness, now_secs: f64) -> PodClass {
    if pod.gone {
        return PodClass::Ignored;
    }
    if pod.pending {
        return PodClass::Unready;
    }
    let Some(metric) = pod.metric else { return PodClass::Missing };
    let unready = match (pod.ready, pod.started_secs) {
        (None, _) | (_, None) => true,
        (Some(ready), Some(started)) if now_secs < started + readiness.cpu_initialization_secs => {
            !ready || metric.time_secs < pod.ready_changed_secs + metric.window_secs
        }
        (Some(ready), Some(started)) => {
            !ready && pod.ready_changed_secs < started + readiness.initial_readiness_secs
        }
    };
    if unready { PodClass::Unready } else { PodClass::Ready(metric.usage_millis) }
}

/// Sums over the pods of each class; requests of pods that are ignored do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Sums {
    ready: u64,
    usage: u64,
    request: u64,
    unready: u64,
    unready_request: u64,
    missing: u64,
    missing_request: u64,
    /// What pods without metric are taken to use where that speaks against going down.
    missing_usage: u64,
}

/// Replicas the utilization rule asks for; `None` where it cannot compute: no pod with a usable metric, or a pod, even an
/// ignored one, without a request (0).
#[must_use]
pub fn utilization_replicas(
    pods: &[(PodClass, u64)],
    target_percent: u32,
    current: u32,
    tolerances: Tolerances,
) -> Option<u32> {
    let mut sums = Sums::default();
    for &(class, request) in pods {
        if request == 0 {
            return None;
        }
        match class {
            PodClass::Ignored => {}
            PodClass::Unready => {
                sums.unready += 1;
                sums.unready_request += request;
            }
            PodClass::Missing => {
                sums.missing += 1;
                sums.missing_request += request;
                // Cut off for each pod, as there.
                sums.missing_usage += request * u64::from(target_percent.max(100)) / 100;
            }
            PodClass::Ready(usage) => {
                sums.ready += 1;
                sums.usage += usage;
                sums.request += request;
            }
        }
    }
    by_sums(sums, target_percent, current, tolerances)
}

fn by_sums(sums: Sums, target_percent: u32, current: u32, tolerances: Tolerances) -> Option<u32> {
    if sums.ready == 0 || sums.request == 0 {
        return None;
    }
    let target = f64::from(target_percent);
    let ratio_of = |usage: u64, request: u64| (usage * 100 / request) as f64 / target;
    let ratio = ratio_of(sums.usage, sums.request);
    let up_with_unready = 0 < sums.unready && 1.0 < ratio;
    if !up_with_unready && sums.missing == 0 {
        let replicas = (ratio * sums.ready as f64).ceil() as u32;
        return Some(if tolerances.covers(ratio) { current } else { replicas });
    }
    let (mut usage, mut request, mut pods) = (sums.usage, sums.request, sums.ready);
    if 0 < sums.missing && ratio < 1.0 {
        // Going down, a pod without metric is taken to use all of its request, or the target where that is more.
        usage += sums.missing_usage;
    }
    if 0 < sums.missing && ratio != 1.0 {
        // Going up, to use nothing.
        request += sums.missing_request;
        pods += sums.missing;
    }
    if up_with_unready {
        request += sums.unready_request;
        pods += sums.unready;
    }
    let again = ratio_of(usage, request);
    let turned = (ratio < 1.0 && 1.0 < again) || (1.0 < ratio && again < 1.0);
    if tolerances.covers(again) || turned {
        return Some(current);
    }
    let replicas = (again * pods as f64).ceil() as u32;
    let against = (again < 1.0 && current < replicas) || (1.0 < again && replicas < current);
    Some(if against { current } else { replicas })
}

/// A horizontal pod autoscaler: what its controller remembers.
#[derive(Debug, Clone, PartialEq)]
pub struct Hpa {
    /// `minReplicas` (at least 1) and `maxReplicas`.
    pub bounds: Bounds,
    /// Target utilization, percent.
    pub target_percent: u32,
    /// `behavior` with defaults filled in; `None`: absent, which is not the same as the defaults.
    pub behavior: Option<Behavior>,
    /// `--horizontal-pod-autoscaler-downscale-stabilization`, used where `behavior` is absent. Seconds.
    pub down_window_secs: f64,
    /// Tolerances.
    pub tolerances: Tolerances,
    track: Track,
}

impl Hpa {
    /// As `kubectl autoscale` makes it, remembering every recommendation as the original does.
    #[must_use]
    pub fn new(bounds: Bounds, target_percent: u32) -> Self {
        Self {
            bounds,
            target_percent,
            behavior: None,
            down_window_secs: DOWN_WINDOW_SECS,
            tolerances: Tolerances::default(),
            track: Track::exact(),
        }
    }

    /// The stock HPA, in bounded memory, in a world `time_factor` times faster.
    #[must_use]
    pub fn stock(bounds: Bounds, time_factor: f64, memory: &ScalingMemory) -> Self {
        Self {
            down_window_secs: DOWN_WINDOW_SECS / time_factor,
            track: Track::restore(memory),
            ..Self::new(bounds, STOCK_TARGET_PERCENT)
        }
    }

    /// What must survive.
    #[must_use]
    pub fn memory(&self) -> ScalingMemory {
        self.track.memory()
    }

    /// Moves times after the clock was stepped.
    pub fn shift(&mut self, delta_secs: f64) {
        self.track.shift(delta_secs);
    }

    /// One sync: the replicas it would write. `wanted`: what the metrics ask for, the largest over all metrics, `None`
    /// where none could be computed.
    pub fn sync(&mut self, now_secs: f64, current: u32, wanted: Option<u32>) -> u32 {
        if self.track.is_empty() {
            self.track.recommend(self.windows(), now_secs, current);
        }
        if current == 0 {
            return 0;
        }
        if self.bounds.max() < current {
            return self.bounds.max();
        }
        if current < self.bounds.min() {
            return self.bounds.min();
        }
        let Some(wanted) = wanted else { return current };
        let windows = self.windows();
        match &self.behavior {
            Some(behavior) => {
                let stabilized = self.track.stabilize(windows, now_secs, current, wanted).replicas();
                self.track.limit(behavior, self.bounds, now_secs, current, stabilized).replicas()
            }
            None => {
                let stabilized = self.highest_of_window(now_secs, wanted);
                without_behavior(self.bounds, current, stabilized).replicas()
            }
        }
    }

    /// A scaling of its own really happened.
    pub fn record_scale(&mut self, now_secs: f64, from: u32, to: u32) {
        if let Some(behavior) = &self.behavior {
            self.track.record(behavior, now_secs, from, to);
        }
    }

    fn highest_of_window(&mut self, now_secs: f64, wanted: u32) -> u32 {
        let highest =
            self.track.highest_since(now_secs - self.down_window_secs).unwrap_or(wanted).max(wanted);
        self.track.recommend(self.windows(), now_secs, wanted);
        highest
    }

    fn windows(&self) -> Windows {
        let absent = Windows { up_secs: 0.0, down_secs: self.down_window_secs };
        self.behavior.as_ref().map_or(absent, Windows::from)
    }
}

/// Without `behavior` the controller allows doubling, or 4, and looks at no scale events.
fn without_behavior(bounds: Bounds, current: u32, desired: u32) -> RateLimited {
    const FACTOR: u32 = 2;
    const AT_LEAST: u32 = 4;
    let limit = current.saturating_mul(FACTOR).max(AT_LEAST);
    if desired < bounds.min() {
        RateLimited::TooFew(bounds.min())
    } else if limit < bounds.max() && limit < desired {
        RateLimited::ScaleUpLimit(limit)
    } else if bounds.max() < desired {
        RateLimited::TooMany(bounds.max())
    } else {
        RateLimited::WithinRange(desired)
    }
}

/// `autoscaling/v2`'s default of one direction, which the apiserver fills in where `behavior` is given but a direction
/// is not: up as our own default, down 300 s and 100 % per 15 s.
#[must_use]
pub fn default_behavior() -> Behavior {
    const PERIOD_SECS: f64 = 15.0;
    let percent = Step { kind: StepKind::Percent, value: 100, period_secs: PERIOD_SECS };
    let pods = Step { kind: StepKind::Pods, value: 4, period_secs: PERIOD_SECS };
    Behavior {
        up: Direction { window_secs: 0.0, select: Select::Max, steps: vec![pods, percent], tolerance: None },
        down: Direction {
            window_secs: DOWN_WINDOW_SECS,
            select: Select::Max,
            steps: vec![percent],
            tolerance: None,
        },
    }
}

/// What a stock HPA's metrics ask for, from sums as an observation has them: ready pods count, starting ones are
/// unready. `None` without CPU, request or ready pods.
#[must_use]
pub fn stock_wish(cores: f64, pod_cpu_request: f64, ready: u32, starting: u32, current: u32) -> Option<u32> {
    let millis = |cores: f64| (cores * 1000.0).round() as u64;
    let request = millis(pod_cpu_request);
    let sums = Sums {
        ready: u64::from(ready),
        usage: millis(cores),
        request: request * u64::from(ready),
        unready: u64::from(starting),
        unready_request: request * u64::from(starting),
        ..Sums::default()
    };
    by_sums(sums, STOCK_TARGET_PERCENT, current, Tolerances::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(usage: &[Option<u64>], unready: usize, current: u32, expected: Option<u32>) {
        let mut pods: Vec<(PodClass, u64)> =
            usage.iter().map(|usage| (usage.map_or(PodClass::Missing, PodClass::Ready), 1000)).collect();
        pods.extend(std::iter::repeat_n((PodClass::Unready, 1000), unready));
        assert_eq!(
            utilization_replicas(&pods, 60, current, Tolerances::default()),
            expected,
            "{usage:?} {unready}"
        );
    }

    #[test]
    fn the_utilization_rule_is_the_documented_one() {
        check(&[Some(600); 3], 0, 3, Some(3));
        check(&[Some(900); 3], 0, 3, Some(5));
        check(&[Some(659); 3], 0, 3, Some(3));
        check(&[Some(670); 3], 0, 3, Some(4));
        check(&[Some(300); 3], 0, 3, Some(2));
        check(&[], 3, 3, None);
        check(&[None; 3], 0, 3, None);
    }

    #[test]
    fn a_pod_without_metric_dampens_both_directions() {
        check(&[Some(900), Some(900), None], 0, 3, Some(3));
        check(&[Some(100), Some(100), None], 0, 3, Some(2));
        check(&[Some(500), Some(500), None], 0, 3, Some(3));
    }

    #[test]
    fn what_a_pod_without_metric_is_taken_to_use_is_cut_off_for_each_pod() {
        let mut pods = vec![(PodClass::Missing, 1); 4];
        pods.push((PodClass::Ready(0), 1));
        // 150 % of one milli-core is one, not one and a half: 4 of 5 make 80 %, and 5 * 80 / 150 is 2.7.
        assert_eq!(utilization_replicas(&pods, 150, 5, Tolerances::default()), Some(3));
    }

    #[test]
    fn a_pod_without_request_makes_it_incomputable() {
        let pods = [(PodClass::Ready(900), 1000), (PodClass::Ignored, 0)];
        assert_eq!(utilization_replicas(&pods, 60, 2, Tolerances::default()), None);
        assert_eq!(utilization_replicas(&pods[..1], 60, 2, Tolerances::default()), Some(2));
    }

    #[test]
    fn an_unready_pod_dampens_a_scale_up_only() {
        check(&[Some(900), Some(900)], 1, 3, Some(3));
        check(&[Some(1200), Some(1200)], 1, 3, Some(4));
        check(&[Some(100), Some(100)], 1, 3, Some(1));
    }

    #[test]
    fn a_young_pods_cpu_does_not_count() {
        let metric = PodMetric { usage_millis: 900, time_secs: 100.0, window_secs: 15.0 };
        let pod = PodFacts {
            request_millis: 1000,
            metric: Some(metric),
            ready: Some(true),
            ready_changed_secs: 90.0,
            started_secs: Some(50.0),
            ..PodFacts::default()
        };
        let check =
            |pod: PodFacts, now, expected| assert_eq!(classify(&pod, Readiness::default(), now), expected);
        check(pod, 110.0, PodClass::Unready);
        check(PodFacts { ready_changed_secs: 85.0, ..pod }, 110.0, PodClass::Ready(900));
        check(PodFacts { ready: Some(false), ..pod }, 110.0, PodClass::Unready);
        check(PodFacts { ready: Some(false), ready_changed_secs: 70.0, ..pod }, 400.0, PodClass::Unready);
        check(PodFacts { ready: Some(false), ready_changed_secs: 300.0, ..pod }, 400.0, PodClass::Ready(900));
        check(PodFacts { metric: None, ..pod }, 400.0, PodClass::Missing);
        check(PodFacts { pending: true, ..pod }, 400.0, PodClass::Unready);
        check(PodFacts { gone: true, ..pod }, 400.0, PodClass::Ignored);
        check(PodFacts { started_secs: None, ..pod }, 400.0, PodClass::Unready);
    }

    #[test]
    fn without_behavior_it_doubles_at_most_and_holds_the_highest_of_five_minutes() {
        let bounds = Bounds::new(1, 50).expect("1 <= 50");
        let mut hpa = Hpa::new(bounds, 60);
        assert_eq!(hpa.sync(0.0, 3, Some(30)), 6);
        assert_eq!(hpa.sync(15.0, 6, Some(8)), 12);
        assert_eq!(hpa.sync(290.0, 12, Some(8)), 24);
        assert_eq!(hpa.sync(301.0, 24, Some(8)), 8);
        assert_eq!(hpa.sync(316.0, 60, Some(8)), 50);
        assert_eq!(hpa.sync(331.0, 0, Some(8)), 0);
        assert_eq!(hpa.sync(346.0, 5, None), 5);
    }
}
