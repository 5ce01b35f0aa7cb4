//! From wire to brain: the only bridge. Checks everything the schema and its CEL rules check, again, and what they
//! cannot; reports all faults, each with its field; fills in the defaults. Pure.
//!
//! In: a spec as it was stored, and the operator's [`Limits`]. Out: [`Validated`], after which nothing is re-checked.

use std::fmt;

use rlscaler_core::settings::{
    Bounds, Capacity, DeclaredSignals, Fallback, Mode as CoreMode, Objective, Settings, Weights,
};

mod behavior;
mod checks;
mod queries;

pub use queries::{CpuQuery, HistogramQuery, Queries, Query};

use crate::limits::{
    MAX_CONCURRENCY, MAX_FAILURE_SECS, MAX_INTERVAL_SECS, MAX_LATENCY_MS, MAX_REASON_CHARS, MAX_REPLICAS,
    MAX_STARTUP_SECS, MAX_WEIGHT,
};
use crate::policy::{
    CapacitySpec, CostSpec, FallbackSpec, LatencyObjective, Mode, ObjectiveSpec, OverrideMode, OverrideSpec,
    RLReplicaPolicySpec, ScaleTargetRef, WeightsSpec,
};
use crate::scalar;
use checks::Checks;

/// `intervalSeconds` where a policy does not say.
pub const DEFAULT_INTERVAL_SECS: f64 = 15.0;
/// `fallback.failureDurationSeconds` where a policy does not say.
pub const DEFAULT_FAILURE_SECS: f64 = 180.0;
/// Delay of a signal whose age is unknown: one scrape.
pub const DEFAULT_METRIC_LAG_SECS: f64 = 15.0;
/// The operator's `--interval-min` where it is not given.
pub const DEFAULT_INTERVAL_MIN_SECS: f64 = 5.0;
/// Percentile of the latency where a policy does not say.
pub const DEFAULT_PERCENTILE: i32 = 95;

/// What the operator sets for all policies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Floor of `intervalSeconds`: `--interval-min`.
    pub interval_min_secs: f64,
    /// How many times faster than real time the world runs, 1 in a cluster; the demo divides every time by it. The
    /// times written in a policy are already divided; the defaults are divided here.
    pub time_factor: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { interval_min_secs: DEFAULT_INTERVAL_MIN_SECS, time_factor: 1.0 }
    }
}

/// A policy after validation.
#[derive(Debug, Clone, PartialEq)]
pub struct Validated {
    /// The workload.
    pub target: Target,
    /// For the brain.
    pub settings: Settings,
    /// What is to be read, and where.
    pub queries: Queries,
    /// ISO 4217 code the cost is reported in.
    pub currency: Option<String>,
    /// Name of the model; `None`: the one built in.
    pub model: Option<String>,
    /// What is allowed but not done as written, for example an interval below the operator's floor.
    pub warnings: Vec<Fault>,
}

/// The workload to scale.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    /// API group, empty for the core group.
    pub group: String,
    /// API version without the group.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
}

impl Target {
    /// Group and version as in `apiVersion`.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }
}

/// One thing wrong with a policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct Fault {
    /// Path of the field, for example `spec.minReplicas`.
    pub field: String,
    /// What is wrong and what would be right.
    pub message: String,
}

/// All faults in one text, one a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults<'a>(pub &'a [Fault]);

impl fmt::Display for Faults<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{fault}")?;
        }
        Ok(())
    }
}

/// Checks a policy and turns it into what the brain and the readers of signals need.
///
/// # Errors
/// Every fault, each with the path of its field.
pub fn validate(spec: &RLReplicaPolicySpec, limits: Limits) -> Result<Validated, Vec<Fault>> {
    let RLReplicaPolicySpec {
        scale_target_ref,
        min_replicas,
        max_replicas,
        mode,
        interval_seconds,
        objective,
        signals,
        capacity,
        startup_seconds,
        cost,
        behavior,
        fallback,
        override_,
        model,
    } = spec;
    let mut checks = Checks::default();

    let target = target(scale_target_ref, &mut checks);
    let bounds = bounds(*min_replicas, *max_replicas, &mut checks);
    if *min_replicas == 0 && signals.qps.is_none() {
        checks.fault(
            "spec.minReplicas",
            "can be 0 only with signals.qps, measured where requests arrive while no pod runs (a gateway)",
        );
    }
    let interval_secs = interval(*interval_seconds, limits, &mut checks);
    let percentile = queries::percentile(signals, &mut checks);
    let objective_of_brain = objective_of(objective, percentile, &mut checks);
    let mut queries = queries::queries(signals, limits, &mut checks);
    let capacity_of_brain = capacity.as_ref().and_then(|capacity| capacity_of(capacity, &mut checks));
    if let (Some(capacity), Some(objective)) = (&capacity_of_brain, &objective_of_brain)
        && objective.target_secs <= capacity.service_secs
    {
        checks.fault(
            "spec.objective.latency.targetMilliseconds",
            "must be greater than capacity.serviceMilliseconds: no number of replicas answers faster than one request takes",
        );
    }
    let startup_secs = startup_seconds
        .and_then(|secs| checks.whole("spec.startupSeconds", secs.into(), 1, MAX_STARTUP_SECS.into()))
        .map(f64::from);
    let price = cost.as_ref().and_then(|cost| price(cost, limits, &mut queries, &mut checks));
    let behavior = behavior::behavior(behavior.as_ref(), limits, &mut checks);
    let fallback =
        fallback.as_ref().and_then(|fallback| fallback_of(fallback, *max_replicas, limits, &mut checks));
    if let Some(will) = override_ {
        check_override(will, &mut checks);
    }
    if let Some(model) = model {
        checks.name("spec.model.name", "a model of the operator", &model.name);
    }

    let (Some(bounds), Some(objective), Some(interval_secs)) = (bounds, objective_of_brain, interval_secs)
    else {
        return Err(checks.into_faults());
    };
    let declared = queries.declared(signals);
    let (faults, warnings) = checks.finish();
    if !faults.is_empty() {
        return Err(faults);
    }
    let settings = Settings {
        mode: match mode {
            Mode::Shadow => CoreMode::Shadow,
            Mode::Auto => CoreMode::Auto,
        },
        interval_secs,
        capacity: capacity_of_brain,
        startup_secs,
        declared,
        metric_lag_secs: DEFAULT_METRIC_LAG_SECS / limits.time_factor,
        price_per_replica_hour: price,
        behavior,
        fallback,
        time_factor: limits.time_factor,
        ..Settings::new(bounds, objective)
    };
    Ok(Validated {
        target,
        settings,
        queries,
        currency: cost.as_ref().and_then(|cost| cost.currency.clone()),
        model: model.as_ref().map(|model| model.name.clone()),
        warnings,
    })
}

fn target(target: &ScaleTargetRef, checks: &mut Checks) -> Target {
    let ScaleTargetRef { api_version, kind, name } = target;
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let versioned = version.starts_with('v') && version[1..].starts_with(|c: char| c.is_ascii_digit());
    if !versioned
        || !version.bytes().all(|byte| byte.is_ascii_alphanumeric())
        || (api_version.contains('/') && group.is_empty())
    {
        checks.fault(
            "spec.scaleTargetRef.apiVersion",
            format!(
                "{:?} must be a version such as v1, or a group and a version such as apps/v1",
                checks::shown(api_version)
            ),
        );
    }
    if !kind.starts_with(|c: char| c.is_ascii_uppercase())
        || !kind.bytes().all(|byte| byte.is_ascii_alphanumeric())
    {
        checks.fault(
            "spec.scaleTargetRef.kind",
            format!(
                "{:?} must be the kind of an object in UpperCamelCase, such as Deployment",
                checks::shown(kind)
            ),
        );
    }
    checks.object_name("spec.scaleTargetRef.name", name);
    Target { group: group.to_owned(), version: version.to_owned(), kind: kind.clone(), name: name.clone() }
}

fn bounds(min: i32, max: i32, checks: &mut Checks) -> Option<Bounds> {
    let min_valid = checks.whole("spec.minReplicas", min.into(), 0, MAX_REPLICAS.into());
    let max_valid = checks.whole("spec.maxReplicas", max.into(), 1, MAX_REPLICAS.into());
    let (min, max) = (min_valid?, max_valid?);
    if max < min {
        checks.fault("spec.minReplicas", format!("must not be greater than maxReplicas, but {min} > {max}"));
    }
    Bounds::new(min, max)
}

fn interval(seconds: Option<i32>, limits: Limits, checks: &mut Checks) -> Option<f64> {
    const FIELD: &str = "spec.intervalSeconds";
    let Limits { interval_min_secs, time_factor } = limits;
    let wanted = match seconds {
        None => DEFAULT_INTERVAL_SECS / time_factor,
        Some(seconds) => f64::from(checks.whole(FIELD, seconds.into(), 1, MAX_INTERVAL_SECS.into())?),
    };
    if wanted < interval_min_secs {
        let message = format!(
            "{wanted} s is below the operator's --interval-min, deciding every {interval_min_secs} s"
        );
        checks.warning(FIELD, message);
    }
    Some(wanted.max(interval_min_secs))
}

fn objective_of(
    objective: &ObjectiveSpec,
    percentile: Option<f64>,
    checks: &mut Checks,
) -> Option<Objective> {
    let ObjectiveSpec { latency: LatencyObjective { target_milliseconds }, sla_percent, weights } = objective;
    let target =
        checks.whole("spec.objective.latency.targetMilliseconds", *target_milliseconds, 1, MAX_LATENCY_MS);
    let sla = scalar::decimal(sla_percent).filter(|percent| 0.0 < *percent && *percent < 100.0);
    if sla.is_none() {
        checks.fault(
            "spec.objective.slaPercent",
            format!(
                "{:?} must be a decimal above 0 and below 100, such as \"99.5\"",
                checks::shown(sla_percent)
            ),
        );
    }
    let weights = match weights {
        None => Some(Weights::default()),
        Some(WeightsSpec { latency, saving, sla }) => {
            let mut weight = |field: &str, value: i32, least: i64| {
                checks.whole(
                    &format!("spec.objective.weights.{field}"),
                    value.into(),
                    least,
                    MAX_WEIGHT.into(),
                )
            };
            let (latency, saving, sla) =
                (weight("latency", *latency, 0), weight("saving", *saving, 1), weight("sla", *sla, 0));
            latency.zip(saving).zip(sla).map(|((latency, saving), sla)| Weights {
                latency: latency.into(),
                saving: saving.into(),
                sla: sla.into(),
            })
        }
    };
    Some(Objective {
        target_secs: f64::from(target?) / 1000.0,
        sla: sla? / 100.0,
        latency_percentile: percentile?,
        weights: weights?,
    })
}

fn capacity_of(capacity: &CapacitySpec, checks: &mut Checks) -> Option<Capacity> {
    let CapacitySpec { concurrency, service_milliseconds } = capacity;
    let concurrency =
        checks.whole("spec.capacity.concurrency", (*concurrency).into(), 1, MAX_CONCURRENCY.into());
    let service = checks.whole("spec.capacity.serviceMilliseconds", *service_milliseconds, 1, MAX_LATENCY_MS);
    Some(Capacity { concurrency: concurrency?, service_secs: f64::from(service?) / 1000.0 })
}

/// The declared price. A query for it goes to `queries`.
fn price(cost: &CostSpec, limits: Limits, queries: &mut Queries, checks: &mut Checks) -> Option<f64> {
    let CostSpec { per_replica_hour, prometheus, currency } = cost;
    if per_replica_hour.is_some() == prometheus.is_some() {
        checks.fault("spec.cost", "needs either perReplicaHour or prometheus, not both");
    }
    if let Some(currency) = currency
        && (currency.len() != 3 || !currency.bytes().all(|byte| byte.is_ascii_uppercase()))
    {
        checks.fault(
            "spec.cost.currency",
            format!("{:?} must be three capital letters, such as USD", checks::shown(currency)),
        );
    }
    queries.price = prometheus.as_ref().map(|source| queries::price_query(source, limits, checks));
    let text = per_replica_hour.as_ref()?;
    let price = scalar::decimal(text).filter(|price| 0.0 < *price);
    if price.is_none() {
        checks.fault(
            "spec.cost.perReplicaHour",
            format!("{:?} must be a decimal above 0, such as \"0.096\"", checks::shown(text)),
        );
    }
    price
}

fn fallback_of(fallback: &FallbackSpec, max: i32, limits: Limits, checks: &mut Checks) -> Option<Fallback> {
    let FallbackSpec { failure_duration_seconds, replicas } = fallback;
    let failure_secs = match failure_duration_seconds {
        None => Some(DEFAULT_FAILURE_SECS / limits.time_factor),
        Some(secs) => checks
            .whole("spec.fallback.failureDurationSeconds", (*secs).into(), 1, MAX_FAILURE_SECS.into())
            .map(f64::from),
    };
    let count = checks.whole("spec.fallback.replicas", (*replicas).into(), 0, MAX_REPLICAS.into());
    if count.is_some() && max < *replicas {
        let message = format!("must not be greater than maxReplicas, but {replicas} > {max}");
        checks.fault("spec.fallback.replicas", message);
    }
    Some(Fallback { failure_secs: failure_secs?, replicas: count? })
}

fn check_override(will: &OverrideSpec, checks: &mut Checks) {
    let OverrideSpec { mode, replicas, reason, until } = will;
    match (mode, replicas) {
        (OverrideMode::Pin, None) => checks.fault("spec.override.replicas", "is needed with mode Pin"),
        (OverrideMode::Pin, Some(_)) | (_, None) => {}
        (_, Some(_)) => checks.fault("spec.override.replicas", "is allowed only with mode Pin"),
    }
    if let Some(replicas) = replicas {
        checks.whole("spec.override.replicas", (*replicas).into(), 0, MAX_REPLICAS.into());
    }
    if let Some(reason) = reason {
        checks.length("spec.override.reason", reason, 0, MAX_REASON_CHARS);
    }
    if let Some(until) = until
        && scalar::time(until).is_none()
    {
        checks.fault(
            "spec.override.until",
            format!("{:?} must be a time as in RFC 3339, such as 2027-01-01T00:00:00Z", checks::shown(until)),
        );
    }
}

impl Queries {
    fn declared(&self, signals: &crate::policy::SignalsSpec) -> DeclaredSignals {
        let requests = signals.requests.is_some();
        DeclaredSignals {
            qps: requests || signals.qps.is_some(),
            latency: requests || signals.latency.is_some(),
            sla: requests || signals.sla.is_some(),
            errors: signals.errors.is_some(),
            cpu: self.cpu.is_some(),
            price: self.price.is_some(),
        }
    }
}

#[cfg(test)]
mod tests;
