//! What the real HorizontalPodAutoscaler controller was seen to decide, and whether ours decides the same.
//!
//! In: a recording as `cargo xtask differential` writes it, one JSON object a line. Out: how many decisions were
//! compared, what they covered, and every difference in words. Times are seconds since the recording began.
//!
//! A decision depends on the clock in three ways: pods older than the CPU initialization period, recommendations
//! within a window, scale events within a period. Where one of these was within the uncertainty of the clock the
//! recorder says so, and that answer is taken over instead of compared: the controller's memory goes on from what it
//! really did.

use std::collections::BTreeMap;

use rlscaler_core::hpa::{self, Hpa, PodClass, PodFacts, PodMetric, Readiness, Tolerances};
use rlscaler_core::settings::{Behavior, Bounds, Direction, Select, Step, StepKind};
use serde::{Deserialize, Serialize};

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// The first line.
    Controller(Controller),
    /// Before its decisions.
    Service(Service),
    /// One sync.
    Decision(Decision),
}

/// The controller manager and its flags.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Controller {
    /// Version of Kubernetes.
    pub kubernetes: String,
    /// Seed of the inputs.
    pub seed: u64,
    /// `--horizontal-pod-autoscaler-tolerance`.
    pub tolerance: f64,
    /// `--horizontal-pod-autoscaler-cpu-initialization-period`.
    pub cpu_initialization_secs: f64,
    /// `--horizontal-pod-autoscaler-initial-readiness-delay`.
    pub initial_readiness_secs: f64,
    /// `--horizontal-pod-autoscaler-downscale-stabilization`.
    pub down_window_secs: f64,
}

/// A service and the `spec` of its HPA.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Service {
    /// Number.
    pub service: usize,
    /// `minReplicas`.
    pub min: u32,
    /// `maxReplicas`.
    pub max: u32,
    /// `averageUtilization` of CPU, percent.
    pub target: u32,
    /// `behavior` as it was written, with gaps for the API server to fill.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behavior: Option<WrittenBehavior>,
}

/// `spec.behavior`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WrittenBehavior {
    /// Rising.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_up: Option<Rules>,
    /// Falling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_down: Option<Rules>,
}

/// `HPAScalingRules`, in the spelling of Kubernetes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rules {
    /// Window of recommendations, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stabilization_window_seconds: Option<u32>,
    /// `Max`, `Min` or `Disabled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub select_policy: Option<String>,
    /// Limits of the rate; empty where none were written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<Rate>,
    /// A quantity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<String>,
}

/// `HPAScalingPolicy`, in the spelling of Kubernetes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rate {
    /// `Pods` or `Percent`.
    #[serde(rename = "type")]
    pub kind: String,
    /// In that unit.
    pub value: u32,
    /// Seconds.
    pub period_seconds: u32,
}

/// One sync: what the controller saw and what it did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Whose.
    pub service: usize,
    /// When it normalised what the metrics asked for.
    pub time: f64,
    /// `spec.replicas` of the target as it read it.
    pub current: u32,
    /// The pods, each with its metric; empty where the controller did not ask for metrics.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<Pod>,
    /// What the metrics asked for; absent where it could not compute that or did not try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<u32>,
    /// `spec.replicas` of the target afterwards.
    pub desired: u32,
    /// When it had written a new `spec.replicas`; absent where it left it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaled: Option<f64>,
    /// Which answers hung on the clock.
    #[serde(default, skip_serializing_if = "Unsure::is_nothing")]
    pub unsure: Unsure,
}

/// Answers that the uncertainty of the clock could have turned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Unsure {
    /// `wanted`: a pod was about to leave the CPU initialization period.
    pub wanted: bool,
    /// `desired`: a recommendation or a scale event was about to leave its window.
    pub desired: bool,
}

impl Unsure {
    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// One pod. Kubernetes keeps these times in whole seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pod {
    /// CPU request, milli-cores; 0: a container has none.
    pub request: u64,
    /// `status.phase`.
    #[serde(default, skip_serializing_if = "Phase::is_running")]
    pub phase: Phase,
    /// Has a deletion timestamp.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleted: bool,
    /// `status.startTime`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<i64>,
    /// The Ready condition: its status and when it last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<(Ready, i64)>,
    /// CPU in milli-cores, the time of the sample, its window in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<(u64, i64, f64)>,
}

/// `status.phase`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Phase {
    /// The usual one.
    #[default]
    Running,
    /// Not started.
    Pending,
    /// Ended badly.
    Failed,
    /// Ended well.
    Succeeded,
}

impl Phase {
    fn is_running(&self) -> bool {
        *self == Phase::Running
    }
}

/// Status of the Ready condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ready {
    /// Ready.
    True,
    /// Not.
    False,
    /// The node is silent.
    Unknown,
}

impl Pod {
    /// As ours looks at it.
    #[must_use]
    pub fn facts(&self) -> PodFacts {
        let metric = self.metric.map(|(usage_millis, time, window_secs)| PodMetric {
            usage_millis,
            time_secs: time as f64,
            window_secs,
        });
        PodFacts {
            request_millis: self.request,
            metric,
            gone: self.deleted || self.phase == Phase::Failed,
            pending: self.phase == Phase::Pending,
            ready: self.ready.map(|(status, _)| status != Ready::False),
            ready_changed_secs: self.ready.map_or(0.0, |(_, changed)| changed as f64),
            started_secs: self.started.map(|started| started as f64),
        }
    }
}

impl WrittenBehavior {
    /// With the gaps filled as the API server and the controller fill them; `None` for a unit or a choice that
    /// Kubernetes does not have.
    #[must_use]
    pub fn filled(&self, down_window_secs: f64) -> Option<Behavior> {
        let mut defaults = hpa::default_behavior();
        defaults.down.window_secs = down_window_secs;
        let up = self.scale_up.as_ref();
        let down = self.scale_down.as_ref();
        Some(Behavior {
            up: up.map_or(Some(defaults.up.clone()), |rules| rules.filled(defaults.up))?,
            down: down.map_or(Some(defaults.down.clone()), |rules| rules.filled(defaults.down))?,
        })
    }
}

impl Rules {
    fn filled(&self, default: Direction) -> Option<Direction> {
        let select = match self.select_policy.as_deref() {
            None => default.select,
            Some("Max") => Select::Max,
            Some("Min") => Select::Min,
            Some("Disabled") => Select::Disabled,
            Some(_) => return None,
        };
        let step = |rate: &Rate| {
            let kind = match rate.kind.as_str() {
                "Pods" => StepKind::Pods,
                "Percent" => StepKind::Percent,
                _ => return None,
            };
            Some(Step { kind, value: rate.value, period_secs: f64::from(rate.period_seconds) })
        };
        let written: Vec<Step> = self.policies.iter().map(step).collect::<Option<_>>()?;
        let tolerance = match &self.tolerance {
            Some(quantity) => Some(quantity.parse().ok()?),
            None => default.tolerance,
        };
        Some(Direction {
            window_secs: self.stabilization_window_seconds.map_or(default.window_secs, f64::from),
            select,
            steps: if written.is_empty() { default.steps } else { written },
            tolerance,
        })
    }
}

/// What a replay came to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Replay {
    /// Decisions of which both answers were compared.
    pub compared: usize,
    /// Decisions that hung on the clock.
    pub unsure: usize,
    /// How many of the compared decisions there were of each kind; one may be of several.
    pub kinds: BTreeMap<&'static str, usize>,
    /// Every difference, with the line it is on.
    pub differences: Vec<String>,
}

/// Lets ours decide on the same inputs.
///
/// # Errors
/// Which line is not of a recording, and why.
pub fn replay(recording: &str) -> Result<Replay, String> {
    let mut replay = Replay::default();
    let mut controller = None;
    let mut services: BTreeMap<usize, (Service, Hpa)> = BTreeMap::new();
    for (number, text) in recording.lines().enumerate() {
        let at = |message: &str| format!("line {}: {message}", number + 1);
        let line = serde_json::from_str(text).map_err(|error| at(&error.to_string()))?;
        match line {
            Line::Controller(flags) => controller = Some(flags),
            Line::Service(service) => {
                let flags = controller.as_ref().ok_or_else(|| at("expected the controller first"))?;
                let hpa = ours(flags, &service).ok_or_else(|| at("no HPA can be like this"))?;
                services.insert(service.service, (service, hpa));
            }
            Line::Decision(decision) => {
                let flags = controller.as_ref().ok_or_else(|| at("expected the controller first"))?;
                let found = services.get_mut(&decision.service);
                let (service, hpa) = found.ok_or_else(|| at("expected its service first"))?;
                let difference = decide(flags, service, hpa, &decision, &mut replay);
                replay.differences.extend(difference.map(|difference| at(&difference)));
            }
        }
    }
    Ok(replay)
}

fn ours(flags: &Controller, service: &Service) -> Option<Hpa> {
    let mut hpa = Hpa::new(Bounds::new(service.min, service.max)?, service.target);
    hpa.down_window_secs = flags.down_window_secs;
    if let Some(written) = &service.behavior {
        hpa.behavior = Some(written.filled(flags.down_window_secs)?);
    }
    let own = |of: fn(&Behavior) -> &Direction| hpa.behavior.as_ref().and_then(|all| of(all).tolerance);
    let down = own(|behavior| &behavior.down).unwrap_or(flags.tolerance);
    let up = own(|behavior| &behavior.up).unwrap_or(flags.tolerance);
    hpa.tolerances = Tolerances { down, up };
    Some(hpa)
}

fn decide(
    flags: &Controller,
    service: &Service,
    hpa: &mut Hpa,
    real: &Decision,
    replay: &mut Replay,
) -> Option<String> {
    let readiness = Readiness {
        cpu_initialization_secs: flags.cpu_initialization_secs,
        initial_readiness_secs: flags.initial_readiness_secs,
    };
    let class = |pod: &Pod| (hpa::classify(&pod.facts(), readiness, real.time), pod.request);
    let pods: Vec<(PodClass, u64)> = real.pods.iter().map(class).collect();
    let wanted = hpa::utilization_replicas(&pods, service.target, real.current, hpa.tolerances);
    let desired = hpa.sync(real.time, real.current, real.wanted);
    if let Some(time) = real.scaled {
        hpa.record_scale(time, real.current, real.desired);
    }
    if real.unsure.is_nothing() {
        replay.compared += 1;
        for kind in kinds(service, real, &pods) {
            *replay.kinds.entry(kind).or_default() += 1;
        }
    } else {
        replay.unsure += 1;
    }
    if !real.unsure.wanted && wanted != real.wanted {
        let (theirs, pods) = (real.wanted, &real.pods);
        return Some(format!("metrics ask for {wanted:?}, the original said {theirs:?}: {pods:?}"));
    }
    let differs = !real.unsure.desired && desired != real.desired;
    differs.then(|| format!("desired {desired}, the original said {}: {real:?} of {service:?}", real.desired))
}

/// Of which kinds a decision is, for the tally.
fn kinds(service: &Service, real: &Decision, pods: &[(PodClass, u64)]) -> Vec<&'static str> {
    let any = |class: fn(&PodClass) -> bool| pods.iter().any(|(found, _)| class(found));
    let out_of_bounds = real.current < service.min || service.max < real.current;
    let rates = service.behavior.iter().flat_map(|all| [&all.scale_up, &all.scale_down]).flatten();
    let wished = real.wanted.unwrap_or(real.current);
    let all = [
        ("scaled up", real.current < real.desired),
        ("scaled down", real.desired < real.current),
        ("left alone though metrics ask for change", real.desired == real.current && wished != real.current),
        ("metrics ask for what is there", real.wanted == Some(real.current)),
        ("nothing to compute from", !real.pods.is_empty() && real.wanted.is_none()),
        ("scaling disabled at zero", real.current == 0),
        ("outside the bounds", out_of_bounds && real.current != 0),
        ("with an ignored pod", any(|class| *class == PodClass::Ignored)),
        ("with an unready pod", any(|class| *class == PodClass::Unready)),
        ("with a pod without metric", any(|class| *class == PodClass::Missing)),
        ("with a pod without request", pods.iter().any(|(_, request)| *request == 0)),
        ("held below what metrics ask for", real.wanted.is_some() && real.desired < wished),
        ("held above what metrics ask for", real.wanted.is_some() && wished < real.desired),
        ("with behavior", service.behavior.is_some()),
        ("without behavior", service.behavior.is_none()),
        ("with a tolerance of its own", rates.into_iter().any(|rules| rules.tolerance.is_some())),
    ];
    all.into_iter().filter(|(_, is_so)| *is_so).map(|(kind, _)| kind).collect()
}
