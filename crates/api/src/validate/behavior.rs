//! HPA's `behavior`, checked as `autoscaling/v2` checks it, with the defaults of a policy filled in.

use rlscaler_core::settings::{Behavior, Direction, Select, Step, StepKind};

use super::Limits;
use super::checks::{Checks, shown};
use crate::limits::{MAX_PERIOD_SECS, MAX_SCALING_POLICIES, MAX_STABILIZATION_SECS};
use crate::policy::{BehaviorSpec, PolicyType, ScalingPolicy, ScalingRules, SelectPolicy};
use crate::scalar;

pub(super) fn behavior(wire: Option<&BehaviorSpec>, limits: Limits, checks: &mut Checks) -> Behavior {
    let Behavior { up, down } = Behavior::default();
    let (up, down) = (divided(up, limits.time_factor), divided(down, limits.time_factor));
    let Some(BehaviorSpec { scale_up, scale_down }) = wire else { return Behavior { up, down } };
    Behavior {
        up: direction("spec.behavior.scaleUp", scale_up.as_ref(), up, checks),
        down: direction("spec.behavior.scaleDown", scale_down.as_ref(), down, checks),
    }
}

/// The defaults are stated for real time.
fn divided(mut direction: Direction, time_factor: f64) -> Direction {
    direction.window_secs /= time_factor;
    direction.steps.iter_mut().for_each(|step| step.period_secs /= time_factor);
    direction
}

/// What is written replaces the default, field by field, as the HPA's defaulting does.
fn direction(
    field: &str,
    rules: Option<&ScalingRules>,
    default: Direction,
    checks: &mut Checks,
) -> Direction {
    let Some(ScalingRules { stabilization_window_seconds, select_policy, policies, tolerance }) = rules
    else {
        return default;
    };
    let window_secs = match stabilization_window_seconds {
        None => default.window_secs,
        Some(secs) => checks
            .whole(
                &format!("{field}.stabilizationWindowSeconds"),
                (*secs).into(),
                0,
                MAX_STABILIZATION_SECS.into(),
            )
            .map_or(default.window_secs, f64::from),
    };
    let select = match select_policy {
        None => default.select,
        Some(SelectPolicy::Max) => Select::Max,
        Some(SelectPolicy::Min) => Select::Min,
        Some(SelectPolicy::Disabled) => Select::Disabled,
    };
    let steps = match policies {
        None => default.steps,
        Some(policies) => steps(&format!("{field}.policies"), policies, checks),
    };
    let tolerance = tolerance.as_ref().and_then(|text| {
        let parsed = scalar::quantity(text);
        if parsed.is_none() {
            let message =
                format!("{:?} must be a quantity of at least 0, such as \"0.05\" or \"50m\"", shown(text));
            checks.fault(format!("{field}.tolerance"), message);
        }
        parsed
    });
    Direction { window_secs, select, steps, tolerance }
}

fn steps(field: &str, policies: &[ScalingPolicy], checks: &mut Checks) -> Vec<Step> {
    if policies.is_empty() || MAX_SCALING_POLICIES < policies.len() {
        checks.fault(
            field,
            format!("must have 1 to {MAX_SCALING_POLICIES} entries, but has {}", policies.len()),
        );
    }
    let mut steps = Vec::new();
    for (index, ScalingPolicy { type_, value, period_seconds }) in
        policies.iter().take(MAX_SCALING_POLICIES).enumerate()
    {
        let value = checks.whole(&format!("{field}[{index}].value"), (*value).into(), 1, i32::MAX.into());
        let period = checks.whole(
            &format!("{field}[{index}].periodSeconds"),
            (*period_seconds).into(),
            1,
            MAX_PERIOD_SECS.into(),
        );
        let kind = match type_ {
            PolicyType::Pods => StepKind::Pods,
            PolicyType::Percent => StepKind::Percent,
        };
        if let (Some(value), Some(period)) = (value, period) {
            steps.push(Step { kind, value, period_secs: period.into() });
        }
    }
    steps
}
