//! Random inputs for one HPA: its spec, its pods in every state that matters, metrics near every limit, and somebody who
//! changes replicas now and then. In: a seed. Out: the same choices for the same seed, as the times of the syncs allow.
//! Pure.

use rand::RngExt;
use rand::seq::IndexedRandom;
use rlscaler_sim::recorded_hpa::{
    Controller, Phase, Pod, Rate, Ready, Rules, Service, Unsure, WrittenBehavior,
};
use rlscaler_sim::seed::{Seed, Stream};

/// One service with its HPA and the state of its random choices.
pub(super) struct Scene {
    pub(super) service: Service,
    /// What the next sync shall find.
    pub(super) pods: Vec<Pod>,
    /// Containers of each pod; fixed, as pods cannot be changed.
    pub(super) containers: Vec<usize>,
    /// Whether the metrics server shall fail in the next sync.
    pub(super) outage: bool,
    flags: Controller,
    draws: Stream,
    /// Chance that a pod has no metric in a sync.
    missing: f64,
    /// Load jumps far up and down over healthy pods, against limits of the rate; otherwise the pods are what varies.
    jumpy: bool,
}

/// What must be written before the next sync.
pub(super) struct Change {
    /// Pods whose status changed, by index; of those `deleted`, deletion is what changed.
    pub(super) pods: Vec<usize>,
    /// Somebody sets `spec.replicas`.
    pub(super) replicas: Option<u32>,
}

impl Scene {
    /// A new service; `now` in whole seconds of the recording.
    pub(super) fn new(flags: &Controller, number: usize, now: i64) -> Self {
        let mut draws = Seed(flags.seed).stream(&format!("service {number}"));
        let jumpy = draws.random_bool(0.5);
        let (min, span) =
            (draws.random_range(1..=3), draws.random_range(if jumpy { 12..=30 } else { 3..=20 }));
        let target = [40, 50, 60, 70, 80, 95, 120, 150].choose(&mut draws).copied().unwrap_or(60);
        let behavior =
            draws.random_bool(if jumpy { 0.9 } else { 0.5 }).then(|| draw_behavior(&mut draws, jumpy));
        let service = Service { service: number, min, max: min + span, target, behavior };
        let count = draws.random_range(if jumpy { 3..=5 } else { 1..=6 });
        let request = draw_request(&mut draws);
        let mut pods = Vec::new();
        for _ in 0..count {
            let request = if draws.random_bool(0.15) { draw_request(&mut draws) } else { request };
            let state =
                if jumpy { healthy_pod(&mut draws, flags, now) } else { draw_pod(&mut draws, flags, now) };
            pods.push(Pod { request, ..state });
        }
        if draws.random_bool(0.04) {
            pods[0].request = 0;
        }
        let containers = (0..count).map(|_| if draws.random_bool(0.2) { 2 } else { 1 }).collect();
        let missing =
            if jumpy { 0.0 } else { [0.0, 0.0, 0.15, 0.4].choose(&mut draws).copied().unwrap_or(0.0) };
        let flags = flags.clone();
        let mut scene = Self { service, pods, containers, outage: false, flags, draws, missing, jumpy };
        scene.draw_metrics(now);
        scene
    }

    /// `spec.replicas` when the HPA is made.
    pub(super) fn first_replicas(&mut self) -> u32 {
        if self.draws.random_bool(0.1) {
            return self.outside();
        }
        self.draws.random_range(self.service.min..=self.service.max)
    }

    /// Chooses what the next sync shall find; `current`: replicas now.
    pub(super) fn next(&mut self, now: i64, current: u32) -> Change {
        let mut changed = Vec::new();
        if self.draws.random_bool(if self.jumpy { 0.05 } else { 0.3 }) {
            let index = self.draws.random_range(0..self.pods.len());
            let old = &self.pods[index];
            // Deletion is for ever.
            if !old.deleted {
                self.pods[index] =
                    Pod { request: old.request, ..draw_pod(&mut self.draws, &self.flags, now) };
                changed.push(index);
            }
        }
        self.outage = self.draws.random_bool(0.03);
        self.draw_metrics(now);
        let replicas = if current == 0 {
            Some(self.draws.random_range(self.service.min..=self.service.max))
        } else if self.draws.random_bool(if self.jumpy { 0.03 } else { 0.12 }) {
            Some(if self.draws.random_bool(0.3) {
                self.outside()
            } else {
                self.draws.random_range(self.service.min..=self.service.max)
            })
        } else {
            None
        };
        Change { pods: changed, replicas }
    }

    /// What the controller shall see when it asks for metrics.
    pub(super) fn seen(&self) -> Vec<Pod> {
        let hide = |pod: &Pod| Pod { metric: pod.metric.filter(|_| !self.outage), ..pod.clone() };
        self.pods.iter().map(hide).collect()
    }

    fn outside(&mut self) -> u32 {
        let Service { min, max, .. } = self.service;
        let above = max + self.draws.random_range(1..=5);
        [0, min - 1, above, above].choose(&mut self.draws).copied().unwrap_or(above)
    }

    fn draw_metrics(&mut self, now: i64) {
        let percent = self.draw_percent();
        let jitter = if self.draws.random_bool(0.6) { 0.2 } else { 0.0 };
        for pod in &mut self.pods {
            pod.metric = (!self.draws.random_bool(self.missing)).then(|| {
                let share = percent / 100.0 * (1.0 + jitter * self.draws.random_range(-1.0..1.0));
                let window = [10, 15, 30].choose(&mut self.draws).copied().unwrap_or(15);
                // The sample of a pod that just became ready covers it wholly, or not quite.
                let time = match pod.ready {
                    Some((_, changed)) if now < changed + 120 => {
                        changed + window + self.draws.random_range(-2..=2)
                    }
                    _ => now - self.draws.random_range(0..30),
                };
                ((pod.request.max(100) as f64 * share).round() as u64, time, window as f64)
            });
        }
    }

    /// Mean utilization: anything, or at the very limit of the tolerance.
    fn draw_percent(&mut self) -> f64 {
        let target = f64::from(self.service.target);
        if self.jumpy {
            let factor = if self.draws.random_bool(0.55) { 2.0..5.0 } else { 0.1..0.6 };
            return target * self.draws.random_range(factor);
        }
        let near = [-1.0, 0.0, 1.0].choose(&mut self.draws).copied().unwrap_or(0.0);
        match self.draws.random_range(0..10) {
            0 => 0.0,
            1 => target,
            2 => (target * 1.1).round() + near,
            3 => (target * 0.9).round() + near,
            4..=6 => target * self.draws.random_range(0.1..1.0),
            _ => target * self.draws.random_range(1.0..3.0),
        }
    }
}

fn draw_request(draws: &mut Stream) -> u64 {
    [100, 200, 250, 333, 500, 1000, 1501].choose(draws).copied().unwrap_or(100)
}

/// An old pod that is ready, without request and metric.
fn healthy_pod(draws: &mut Stream, flags: &Controller, now: i64) -> Pod {
    let started = now - flags.cpu_initialization_secs as i64 - draws.random_range(60..3000);
    let ready = Some((Ready::True, started + draws.random_range(1..20)));
    Pod { request: 0, phase: Phase::Running, deleted: false, started: Some(started), ready, metric: None }
}

/// A pod of some age and state, without request and metric.
fn draw_pod(draws: &mut Stream, flags: &Controller, now: i64) -> Pod {
    let (initialization, delay) = (flags.cpu_initialization_secs as i64, flags.initial_readiness_secs as i64);
    let old = now - initialization - draws.random_range(60..3000);
    let young = now - draws.random_range(10..initialization * 3 / 4);
    let leaving = now - initialization + draws.random_range(2..15);
    let soon = draws.random_range(1..20);
    let around_delay = [5, delay - 1, delay, delay + 1, delay + 30].choose(draws).copied().unwrap_or(delay);
    let pod = |started: Option<i64>, ready: Option<(Ready, i64)>| Pod {
        request: 0,
        phase: Phase::Running,
        deleted: false,
        started,
        ready,
        metric: None,
    };
    let ready = pod(Some(old), Some((Ready::True, old + soon)));
    match draws.random_range(0..100) {
        0..45 => ready,
        45..55 => pod(Some(young), Some((Ready::True, now - draws.random_range(0..10)))),
        55..60 => pod(Some(young), Some((Ready::False, young + soon.min(9)))),
        60..65 => pod(Some(leaving), Some((Ready::False, leaving + around_delay))),
        65..70 => pod(Some(leaving), Some((Ready::True, now))),
        70..80 => pod(Some(old), Some((Ready::False, old + around_delay))),
        80..84 => Pod { phase: Phase::Pending, ..pod(None, None) },
        84..86 => Pod { phase: Phase::Pending, ..ready },
        86..89 => Pod { phase: Phase::Failed, ..ready },
        89..91 => Pod { phase: Phase::Succeeded, ..ready },
        91..94 => Pod { deleted: true, ..ready },
        94..96 => pod(Some(old), None),
        96..98 => pod(None, Some((Ready::True, old))),
        _ => pod(Some(old), Some((Ready::Unknown, old + around_delay))),
    }
}

fn draw_behavior(draws: &mut Stream, jumpy: bool) -> WrittenBehavior {
    let mut rules = || draws.random_bool(0.8).then(|| draw_rules(draws, jumpy));
    WrittenBehavior { scale_up: rules(), scale_down: rules() }
}

/// Windows and periods of few seconds, so that they begin and end within a recording.
fn draw_rules(draws: &mut Stream, jumpy: bool) -> Rules {
    let some = |draws: &mut Stream, choices: &[&str]| choices.choose(draws).map(|text| (*text).to_owned());
    let mut policies = Vec::new();
    for _ in 0..[0, 1, 1, 2, 3].choose(draws).copied().unwrap_or(1) {
        let (kind, values) =
            if draws.random_bool(0.5) { ("Pods", [1, 2, 3, 6]) } else { ("Percent", [10, 30, 75, 250]) };
        policies.push(Rate {
            kind: kind.to_owned(),
            value: values.choose(draws).copied().unwrap_or(1),
            period_seconds: [1, 3, 6, 10, 20].choose(draws).copied().unwrap_or(6),
        });
    }
    Rules {
        stabilization_window_seconds: if jumpy && draws.random_bool(0.7) {
            Some(0)
        } else {
            [None, Some(0), Some(2), Some(4), Some(8)].choose(draws).copied().flatten()
        },
        select_policy: if draws.random_bool(0.5) {
            some(draws, &["Max", "Min", "Min", "Disabled"])
        } else {
            None
        },
        policies,
        tolerance: if draws.random_bool(0.4) { some(draws, &["0", "0.02", "0.05", "0.25"]) } else { None },
    }
}

/// Instants of one service's past that later decisions look back to, seconds of the recording.
#[derive(Default)]
pub(super) struct Past {
    recommended: Vec<f64>,
    scaled: Vec<f64>,
    /// Whether even the list of scale events hangs on the clock.
    lost: bool,
}

/// How far the controller's clock reading may be from what its log shows: microseconds when it is not interrupted.
const CLOCK_MARGIN_SECS: f64 = 0.01;

/// The first recommendation is made before the metrics are asked for.
const FIRST_MARGIN_SECS: f64 = 0.15;

impl Past {
    /// Which answers of a sync hang on the clock, the pods having been looked at between `served` and `time`.
    pub(super) fn unsure(&self, scene: &Scene, pods: &[Pod], served: Option<f64>, time: f64) -> Unsure {
        let served = served.unwrap_or(time) - CLOCK_MARGIN_SECS;
        let leaves = |pod: &Pod| {
            let end = pod.started.map(|started| started as f64 + scene.flags.cpu_initialization_secs);
            end.is_some_and(|end| served <= end && end <= time + CLOCK_MARGIN_SECS)
        };
        let near = |earlier: f64, span: f64, margin: f64| (time - earlier - span).abs() < margin;
        let (windows, periods) = scene.spans();
        let margin = |index| if index == 0 { FIRST_MARGIN_SECS } else { CLOCK_MARGIN_SECS };
        let mut recommended = self.recommended.iter().enumerate();
        let window_ends = recommended
            .any(|(index, &earlier)| windows.iter().any(|&span| near(earlier, span, margin(index))));
        let mut scaled = self.scaled.iter();
        let period_ends =
            scaled.any(|&earlier| periods.iter().any(|&span| near(earlier, span, CLOCK_MARGIN_SECS)));
        Unsure { wanted: pods.iter().any(leaves), desired: self.lost || window_ends || period_ends }
    }

    /// Remembers a sync.
    pub(super) fn remember(&mut self, scene: &Scene, time: f64, recommended: bool, scaled: Option<f64>) {
        if recommended || self.recommended.is_empty() {
            self.recommended.push(time);
        }
        if let Some(scaled) = scaled {
            let (_, periods) = scene.spans();
            let near = |earlier: &f64, span: &f64| (scaled - earlier - span).abs() < CLOCK_MARGIN_SECS;
            self.lost |= self.scaled.iter().any(|earlier| periods.iter().any(|span| near(earlier, span)));
            self.scaled.push(scaled);
        }
    }
}

impl Scene {
    /// Windows of recommendations and periods of policies, seconds.
    fn spans(&self) -> (Vec<f64>, Vec<f64>) {
        let Some(written) = &self.service.behavior else {
            return (vec![self.flags.down_window_secs], Vec::new());
        };
        let behavior =
            written.filled(self.flags.down_window_secs).expect("draw_behavior knows what Kubernetes has");
        let both = [&behavior.up, &behavior.down];
        let periods = both.iter().flat_map(|rules| rules.steps.iter().map(|step| step.period_secs));
        (both.iter().map(|rules| rules.window_secs).collect(), periods.collect())
    }
}
