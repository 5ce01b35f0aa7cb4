//! What training learns from: stretches of a made-up service's life, each with the features the brain itself
//! computed along them.
//!
//! In: settings, a seed, and load shapes. Out: [`Episode`]s. The features come out of `Brain::decide` through a
//! policy that only writes down what it is shown, so training and deciding cannot differ in them. Never: a trace
//! that models are chosen or reported on (see [`TRAINING_TRACES`]).

use std::sync::Mutex;

use rand::RngExt;
use rand_distr::{Distribution, Normal};
use rlscaler_core::features::{self, Features};
use rlscaler_core::policy::{Action, Policy, PolicyFault};
use rlscaler_core::queue::{self, Service};
use rlscaler_sim::generators::{self, Shape};
use rlscaler_sim::seed::{Seed, Stream};
use rlscaler_sim::trace::Trace;
use rlscaler_sim::window::{self, Scratch, Window};
use serde::{Deserialize, Serialize};

use crate::life::{Life, REPLICAS_MAX, SLOT_SECS, Stretch, World};
use crate::scene::whole;

/// Real traces that training may see. The others are for choosing and for reporting.
pub const TRAINING_TRACES: [&str; 3] = ["crane_input10", "autothrottle_noisy", "mooncake"];

/// First seed of the generators in training, far from those kept for choosing (8000..) and reporting (9000..).
const FIRST_GENERATOR_SEED: u64 = 1_000_000;

/// Ranges that services are drawn from. Pairs are (lowest, highest); those over more than one order of magnitude are
/// drawn log-uniformly.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EpisodeSettings {
    /// Slots recorded per episode: 75 minutes. Many short episodes teach more than few long ones.
    pub slots: usize,
    /// Share of episodes from a real trace.
    pub real_share: f64,
    /// Share of episodes without any history: a service on its first day.
    pub cold_share: f64,
    /// Share of episodes from the end of their trace, all of it before them being known: a service that has run for a
    /// week, as most have. A week's features are rare otherwise, and a net that has hardly seen them must guess.
    pub known_share: f64,
    /// Start-up, seconds, log-uniform.
    pub startup_secs: (f64, f64),
    /// Requests a pod works on at once.
    pub workers: (u32, u32),
    /// Service time, seconds, log-uniform.
    pub service_secs: (f64, f64),
    /// Target beyond the service time, in service times.
    pub slack: (f64, f64),
    /// Coefficient of variation of the service time.
    pub service_cv: (f64, f64),
    /// Load at the peak, busy pods, log-uniform: from services that a pod or two carry.
    pub peak_busy_pods: (f64, f64),
    /// History known, seconds, log-uniform.
    pub history_secs: (f64, f64),
    /// Exponent on the shape of the load: above 1 makes peaks sharper.
    pub load_power: (f64, f64),
    /// Declared capacity over real capacity, log-uniform.
    pub capacity_error: (f64, f64),
    /// Share of episodes whose load runs faster than its trace, and by how much, log-uniform.
    pub squeezed_share: f64,
    /// See `squeezed_share`.
    pub squeeze: (f64, f64),
    /// Share of episodes whose load drifts away from its shape, and by how much a day: the deviation of the logarithm.
    pub drifting_share: f64,
    /// See `drifting_share`.
    pub drift_per_day: f64,
    /// Share of episodes with the sum of two loads.
    pub blended_share: f64,
}

impl Default for EpisodeSettings {
    fn default() -> Self {
        Self {
            slots: 300,
            real_share: 0.3,
            cold_share: 0.15,
            known_share: 0.4,
            startup_secs: (10.0, 300.0),
            workers: (1, 8),
            service_secs: (0.01, 0.5),
            slack: (1.5, 6.2),
            service_cv: (0.3, 1.2),
            peak_busy_pods: (1.0, 80.0),
            history_secs: (300.0, 8.0 * 86_400.0),
            load_power: (0.7, 1.5),
            capacity_error: (1.0, 1.0),
            squeezed_share: 0.4,
            squeeze: (1.5, 20.0),
            drifting_share: 0.5,
            drift_per_day: 0.4,
            blended_share: 0.25,
        }
    }
}

/// A recorded stretch: everything per slot has the same number of slots.
#[derive(Debug, Clone, PartialEq)]
pub struct Episode {
    /// The service.
    pub world: World,
    /// Nothing of its past is known.
    pub fresh: bool,
    /// Features, slot after slot.
    pub features: Vec<f32>,
    /// The planner's answer that the multiplier is applied to.
    pub planner: Vec<f32>,
    /// Offered load, busy pods, as it really came.
    pub load: Vec<f64>,
    /// Fewest replicas that would have met the target, were they ready.
    pub need: Vec<f32>,
    /// Share of requests that come late with a plain rule over the whole trace, or some of the planner's where that is
    /// more: how hard this kind of load is to follow with this start-up time, whatever happens in a window.
    pub usual_late_share: f64,
}

impl Episode {
    /// Slots recorded.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.load.len()
    }

    /// Features of one slot.
    #[must_use]
    pub fn features(&self, slot: usize) -> &[f32] {
        &self.features[slot * features::WIDTH..(slot + 1) * features::WIDTH]
    }
}

/// Real traces that episodes are cut from.
#[must_use]
pub fn training_traces() -> Vec<Trace> {
    let open = |name: &&str| Trace::open(name).expect("the trace is bundled");
    TRAINING_TRACES.iter().map(open).collect()
}

/// The episode of this index: a function of its arguments.
#[must_use]
pub fn draw(settings: &EpisodeSettings, real: &[Trace], seed: Seed, index: u64) -> Episode {
    let mut rng = seed.stream(&format!("episode {index}"));
    let world = draw_world(settings, &mut rng);
    let peak = log_uniform(&mut rng, settings.peak_busy_pods);
    let power = uniform(&mut rng, settings.load_power);
    let mut trace = draw_trace(settings, real, &mut rng);
    if rng.random_bool(settings.squeezed_share) {
        trace = squeezed(&trace, log_uniform(&mut rng, settings.squeeze));
    }
    if rng.random_bool(settings.drifting_share) {
        trace = drifting(&trace, settings.drift_per_day, &mut rng);
    }
    if rng.random_bool(settings.blended_share) {
        let other = draw_trace(settings, real, &mut rng);
        trace = blended(&trace, &other, rng.random_range(0.2..0.8));
    }
    let recorded_secs = settings.slots as f64 * SLOT_SECS;
    let spare_secs = (trace.duration_secs() - recorded_secs).max(0.0);
    let known = rng.random_bool(settings.known_share);
    let start_secs = spare_secs * rng.random_range(if known { KNOWN_FROM } else { 0.0 }..1.0);
    let cold = !known && rng.random_bool((settings.cold_share / (1.0 - settings.known_share)).min(1.0));
    let wanted_secs = log_uniform(&mut rng, settings.history_secs);
    let history_secs = match (known, cold) {
        (true, _) => start_secs.min(settings.history_secs.1),
        (_, true) => 0.0,
        _ => wanted_secs.min(start_secs),
    };
    let slots = settings.slots.min((trace.duration_secs() / SLOT_SECS) as usize);
    let stretch = Stretch { trace: &trace, start_secs, history_secs, slots, peak, power };
    record(&world, &stretch, &mut rng)
}

/// Part of a trace after which episodes with a known past begin.
const KNOWN_FROM: f64 = 0.75;

fn draw_trace(settings: &EpisodeSettings, real: &[Trace], rng: &mut Stream) -> Trace {
    if rng.random_bool(settings.real_share) {
        return real[rng.random_range(0..real.len())].clone();
    }
    let shape = SHAPES[rng.random_range(0..SHAPES.len())];
    let generator_seed = FIRST_GENERATOR_SEED + rng.random_range(0..1_000_000);
    generators::generate(shape, Seed(generator_seed), generators::DEFAULT_SECS)
}

/// Shapes as often as they are drawn: loads that can be foreseen more often, since most services have such.
const SHAPES: [Shape; 12] = [
    Shape::Diurnal,
    Shape::Diurnal,
    Shape::Diurnal,
    Shape::Ramp,
    Shape::Ramp,
    Shape::Step,
    Shape::Step,
    Shape::FlashCrowd,
    Shape::FlashCrowd,
    Shape::OnOff,
    Shape::MarkovModulated,
    Shape::LlmTokens,
];

/// The same shape in a shorter time.
fn squeezed(trace: &Trace, factor: f64) -> Trace {
    let step_secs = trace.step_secs() / factor;
    Trace::new(trace.name(), step_secs, trace.rates().to_vec()).expect("a shorter step is a step")
}

/// The same load on a service that grows or shrinks, by a random walk: what was the most so far is no bound.
fn drifting(trace: &Trace, per_day: f64, rng: &mut Stream) -> Trace {
    const DAY_SECS: f64 = 86_400.0;
    const EDGE: f64 = 2.0;
    let step = per_day * (trace.step_secs() / DAY_SECS).sqrt();
    let normal = Normal::new(0.0, step).expect("a deviation");
    let mut logarithm: f64 = 0.0;
    let rates = trace
        .rates()
        .iter()
        .map(|rate| {
            logarithm = (logarithm + normal.sample(rng)).clamp(-EDGE, EDGE);
            rate * logarithm.exp()
        })
        .collect();
    Trace::new(trace.name(), trace.step_secs(), rates).expect("rates stay rates")
}

/// Two loads on one service: `share` of the second one's peak beside the rest of the first one's.
fn blended(first: &Trace, second: &Trace, share: f64) -> Trace {
    let step_secs = first.step_secs().max(SLOT_SECS);
    let (one, other) = (first.scaled_to_peak(1.0 - share), second.scaled_to_peak(share));
    let end_secs = first.duration_secs().min(second.duration_secs());
    let steps = (end_secs / step_secs).ceil() as usize;
    let rates = (0..steps)
        .map(|step| {
            let secs = (step as f64 + 0.5) * step_secs;
            one.rate_at(secs) + other.rate_at(secs)
        })
        .collect();
    Trace::new(first.name(), step_secs, rates).expect("both are traces")
}

fn draw_world(settings: &EpisodeSettings, rng: &mut Stream) -> World {
    let service_secs = log_uniform(rng, settings.service_secs);
    let cv = uniform(rng, settings.service_cv);
    let service = Service {
        workers: rng.random_range(settings.workers.0..=settings.workers.1),
        service_secs,
        target_secs: service_secs * (1.0 + uniform(rng, settings.slack)),
        variability: f64::midpoint(1.0, cv * cv),
    };
    World {
        service,
        capacity_error: log_uniform(rng, settings.capacity_error),
        startup_secs: log_uniform(rng, settings.startup_secs),
        timeout_secs: TIMEOUT_SECS,
        sla: if rng.random_bool(0.5) { 0.99 } else { 0.999 },
        safety: None,
    }
}

/// Requests give up after this long in the queue.
const TIMEOUT_SECS: f64 = 10.0;

/// Lets the brain live through a stretch under the planner and writes down what a policy would have been shown.
#[must_use]
pub fn record(world: &World, stretch: &Stretch<'_>, rng: &mut Stream) -> Episode {
    let recorder = Recorder::default();
    let mut life = Life::begin(world, stretch, rng);
    let mut features = Vec::with_capacity(stretch.slots * features::WIDTH);
    let mut planner = Vec::with_capacity(stretch.slots);
    for _ in 0..stretch.slots {
        let _ = life.step(&recorder, rng);
        let shown = recorder.take();
        features.extend_from_slice(shown.values());
        planner.push(shown.planner() as f32);
    }
    let load = life.loads().to_vec();
    let need = load.iter().map(|&load| need(world, load)).collect();
    let usual_late_share = usual_late_share(world, stretch)
        .max(PLANNER_LATE_WEIGHT * planner_late_share(world, &load, &planner));
    Episode {
        world: *world,
        fresh: stretch.history_secs <= 0.0,
        features,
        planner,
        load,
        need,
        usual_late_share,
    }
}

/// A policy that leaves everything to the planner and remembers what it was shown.
#[derive(Debug)]
struct Recorder {
    shown: Mutex<Features>,
}

impl Default for Recorder {
    fn default() -> Self {
        Self { shown: Mutex::new(Features::new([0.0; features::WIDTH], 0.0, 0.0, 0.0)) }
    }
}

impl Recorder {
    fn take(&self) -> Features {
        *self.shown.lock().expect("nobody panics while holding it")
    }
}

impl Policy for Recorder {
    fn act(&self, features: &Features) -> Result<Action, PolicyFault> {
        *self.shown.lock().expect("nobody panics while holding it") = *features;
        Ok(Action { multiplier: 1.0, value: 0.0 })
    }

    fn describe(&self) -> String {
        "recorder".into()
    }
}

/// What of the planner's late share counts as usual: a net is expected to avoid the rest.
const PLANNER_LATE_WEIGHT: f64 = 0.3;

/// Share of the requests of a whole trace that come while the load is above [`RULE_MARGIN`] times the largest load that
/// a rule had seen in [`RULE_SECS`] before the pods that serve now were ordered.
fn usual_late_share(world: &World, stretch: &Stretch<'_>) -> f64 {
    const STEP_SECS: f64 = 30.0;
    const RULE_MARGIN: f64 = 1.2;
    const RULE_SECS: f64 = 120.0;
    const LAG_SECS: f64 = 30.0;
    let Stretch { trace, power, .. } = *stretch;
    let steps = (trace.duration_secs() / STEP_SECS) as usize;
    let loads: Vec<f64> =
        (0..steps).map(|step| trace.rate_at((step as f64 + 0.5) * STEP_SECS).powf(power)).collect();
    let behind = ((world.startup_secs + LAG_SECS) / STEP_SECS).ceil() as usize;
    let seen_steps = (RULE_SECS / STEP_SECS) as usize;
    let (mut late, mut offered) = (0.0, 0.0);
    for step in behind + seen_steps..steps {
        let seen = &loads[step - behind - seen_steps..=step - behind];
        let carried = RULE_MARGIN * seen.iter().copied().fold(0.0, f64::max);
        offered += loads[step];
        if carried < loads[step] {
            late += loads[step];
        }
    }
    if 0.0 < offered { late / offered } else { 0.0 }
}

/// Share that came late under the planner in the recorded stretch.
fn planner_late_share(world: &World, load: &[f64], planner: &[f32]) -> f64 {
    let window = Window {
        service: world.service,
        load,
        slot_secs: SLOT_SECS,
        startup_slots: world.startup_slots(),
        timeout_secs: world.timeout_secs,
        burn_in: 0,
        softness: 0.0,
    };
    let orders: Vec<f64> = planner.iter().map(|&n0| whole(f64::from(n0))).collect();
    window::cost(&window, &orders, &mut Scratch::default()).late_share
}

/// Fewest replicas with which at most 1 % would have been late.
fn need(world: &World, load: f64) -> f32 {
    const ALLOWED: f64 = 0.01;
    let busy_workers = load * f64::from(world.service.workers);
    queue::smallest_replicas(&world.service, busy_workers, ALLOWED, REPLICAS_MAX) as f32
}

fn uniform(rng: &mut Stream, (lowest, highest): (f64, f64)) -> f64 {
    lowest + (highest - lowest) * rng.random_range(0.0..1.0)
}

fn log_uniform(rng: &mut Stream, (lowest, highest): (f64, f64)) -> f64 {
    uniform(rng, (lowest.ln(), highest.ln())).exp()
}
