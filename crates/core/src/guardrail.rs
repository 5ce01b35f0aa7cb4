//! The guardrails: hard limits no policy can see or widen. [`guard`] is the only maker of a [`Decision`].
//!
//! In: what was seen, what the driver proposes, and what must be remembered ([`Rails`]). Out: the replicas allowed, with
//! every guardrail that spoke. Order: a person's will, zero, the fallback, what is held off, stabilization, what forbids up, what forbids
//! down, rate limits, one-directional pauses. Bounds hold at every step but for a pause and a pin that may leave them.

mod draft;

use self::draft::Draft;
use crate::behavior::{RateLimited, Stabilized, Track, Windows};
use crate::budget::BudgetReport;
use crate::decision::{Active, Decision, HoldOff, Reasons};
use crate::observation::Observation;
use crate::planner::{COMFORT, IDLE};
use crate::reason::{Driver, Reason, SignalName};
use crate::regression::{Regression, Undone};
use crate::settings::{Override, Settings};

/// Requests per second that wake a service from 0 replicas.
pub const ACTIVATION_QPS: f64 = 0.01;
/// Requests per second at or below which a service counts as idle; lower than [`ACTIVATION_QPS`], so that it does not
/// swing.
pub const IDLE_QPS: f64 = 0.002;
/// Seconds of idleness before 0 replicas.
const IDLE_SECS: f64 = 300.0;
/// CPU over request from which on it counts as high.
const CPU_HIGH: f64 = 0.7;
/// Pods less busy than this, by the queue model, are not overloaded: more of them would not help.
pub(crate) const OVERLOADED: f64 = 0.85;
/// Growth of demand that is reason enough to scale up however comfortable latency is.
const GROWTH: f64 = 1.1;
/// Demand is gone, and pods that are starting no longer needed, when the answer is at most this share of the replicas.
const DEMAND_GONE: f64 = 0.5;
/// A raise counts as starting for this many start-up times at most.
pub(crate) const STARTING_TIMES: f64 = 3.0;

/// What the guardrails remember.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rails {
    /// Recommendations and scale events.
    pub track: Track,
    /// The 0 replicas are ours.
    pub zeroed_by_us: bool,
    /// Since when signals are lost.
    pub failing_since_secs: Option<f64>,
    /// Since when the service is idle.
    pub idle_since_secs: Option<f64>,
    /// When the target's replicas were last seen to have been raised.
    pub raised_secs: Option<f64>,
    /// Scale-downs of ours that were, or may have to be, undone.
    pub regression: Regression,
}

/// What the driver proposes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Proposal {
    /// Replicas wanted, before bounds.
    pub replicas: u32,
    /// The same before it became a whole number; `None` where it was one from the start.
    pub exact: Option<f64>,
    /// n0; `None` where there is none.
    pub planner: Option<u32>,
    /// Who proposes.
    pub driver: Driver,
    /// The critic's value.
    pub value: Option<f64>,
    /// What was seen and the terms of the number.
    pub reasons: Reasons,
}

/// What the guardrails look at besides the proposal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scene<'a> {
    /// The policy.
    pub settings: &'a Settings,
    /// What was seen.
    pub seen: &'a Observation,
    /// Seconds, never going backwards.
    pub now_secs: f64,
    /// A person's will.
    pub will: Override,
    /// A signal that cannot be acted on.
    pub lost: Option<SignalName>,
    /// The load is said to be zero, suddenly or while the pods work, and nothing confirms it.
    pub sudden_zero: bool,
    /// The load can be read.
    pub load_known: bool,
    /// Fresh requests per second.
    pub qps: Option<f64>,
    /// Latency over target, where fresh.
    pub latency_ratio: Option<f64>,
    /// CPU used over requested, where known.
    pub utilization: Option<f64>,
    /// Present load over what the ready pods carry, where known.
    pub busy_ratio: Option<f64>,
    /// Expected demand over the lower of present level and that of the last minutes.
    pub growth: f64,
    /// The proposal without what only the prior of a fresh service, or CPU alone, asks for.
    pub proven: Option<u32>,
    /// The clock went backwards at this tick.
    pub clock_stepped: bool,
    /// Start-up time, seconds.
    pub startup_secs: f64,
    /// Seconds since the last tick; infinite at the first.
    pub gap_secs: f64,
    /// What an HPA would do.
    pub hpa_would_be: Option<u32>,
    /// After this tick.
    pub budget: BudgetReport,
    /// The scale-down that is undone at this tick.
    pub undone: Option<Undone>,
}

impl Scene<'_> {
    fn all_ready(&self) -> bool {
        let pods = self.seen.pods;
        pods.starting == 0 && pods.unschedulable == 0 && pods.unhealthy == 0
    }
}

/// The replicas allowed, and why.
pub fn guard(rails: &mut Rails, scene: &Scene<'_>, proposal: Proposal) -> Decision {
    note(rails, scene);
    let current = scene.seen.replicas;
    let mut draft = Draft::new(scene, proposal);
    draft.hold_off = hold_off(rails, scene);
    match scene.will {
        Override::Pin { replicas, allow_out_of_bounds } => {
            recommend_anyway(rails, scene, proposal);
            draft.pin(scene, replicas, allow_out_of_bounds);
            rails.zeroed_by_us = draft.replicas == 0;
        }
        Override::Pause => {
            recommend_anyway(rails, scene, proposal);
            draft.settle(current, Driver::Override, Reason::Paused);
        }
        Override::None | Override::PauseScaleDown | Override::PauseScaleUp => {
            automatic(rails, scene, &mut draft);
            draft.one_direction(scene);
        }
    }
    draft.decide(scene)
}

/// Marks since when things are as they are.
fn note(rails: &mut Rails, scene: &Scene<'_>) {
    let failing = scene.lost.is_some() || scene.sudden_zero;
    rails.failing_since_secs =
        if failing { Some(rails.failing_since_secs.unwrap_or(scene.now_secs)) } else { None };
    let idle = scene.load_known && scene.qps.is_some_and(|qps| qps <= IDLE_QPS);
    rails.idle_since_secs = if idle { Some(rails.idle_since_secs.unwrap_or(scene.now_secs)) } else { None };
    let pinned_to_zero = matches!(scene.will, Override::Pin { .. });
    if 0 < scene.seen.replicas && !pinned_to_zero {
        rails.zeroed_by_us = false;
    }
    // After the first look, and after a gap longer than the windows, what runs now is taken to have been wanted.
    if rails.track.is_empty() || windows(rails, scene).down_secs < scene.gap_secs {
        remember(rails, scene, Some(scene.seen.replicas));
    }
}

/// What is wanted before any limit, the fallback included; `None` while nothing is known.
fn wanted(rails: &Rails, scene: &Scene<'_>, draft: &mut Draft) -> Option<u32> {
    let known = draft.driver != Driver::Hold;
    let proposed = if known { Some(draft.proposed) } else { None };
    let Some(fallback) = scene.settings.fallback else { return proposed };
    let failing_secs = rails.failing_since_secs.map_or(0.0, |since| scene.now_secs - since);
    if rails.failing_since_secs.is_none() || failing_secs < fallback.failure_secs {
        return proposed;
    }
    draft.fallback = true;
    draft.reasons.push(Reason::FallbackActive { replicas: fallback.replicas, failing_secs });
    if proposed.unwrap_or(0) <= fallback.replicas {
        draft.driver = Driver::Fallback;
    }
    Some(proposed.unwrap_or(0).max(fallback.replicas))
}

/// What would have been wanted still fills the window while a person decides.
fn recommend_anyway(rails: &mut Rails, scene: &Scene<'_>, proposal: Proposal) {
    let wanted = wanted(rails, scene, &mut Draft::new(scene, proposal));
    remember(rails, scene, wanted);
}

fn remember(rails: &mut Rails, scene: &Scene<'_>, wanted: Option<u32>) {
    if let Some(wanted) = wanted {
        rails.track.recommend(windows(rails, scene), scene.now_secs, wanted);
    }
}

/// The windows of `behavior`, down at least as long as our own maximum, which grows with how often the count changes:
/// a restless load is followed upwards at once and downwards rarely.
fn windows(rails: &Rails, scene: &Scene<'_>) -> Windows {
    let settings = scene.settings;
    let asked = Windows::from(&settings.behavior);
    let hour_secs = settings.scaled(HOUR_SECS);
    let restless = rails.track.changes_per_hour(scene.now_secs, hour_secs) / RESTLESS_PER_HOUR;
    let own_secs = settings.scaled(settings.tuning.own_max_secs) * restless.clamp(1.0, RESTLESS_MAX);
    Windows { down_secs: asked.down_secs.max(own_secs), ..asked }
}

/// An hour of a service's life.
pub(crate) const HOUR_SECS: f64 = 3600.0;
/// Changes an hour from which on our own maximum looks back further. From 5 on, as their root, takes a tenth of the changes
/// and costs up to 2 % of replica-time.
const RESTLESS_PER_HOUR: f64 = 14.0;
/// It never looks back further than this many times.
const RESTLESS_MAX: f64 = 4.0;

fn automatic(rails: &mut Rails, scene: &Scene<'_>, draft: &mut Draft) {
    let settings = scene.settings;
    let current = scene.seen.replicas;
    if current == 0 && 0 < settings.bounds.min() && !rails.zeroed_by_us {
        draft.active = Active::ScalingDisabled;
        draft.settle(0, Driver::Hold, Reason::ScalingDisabled);
        return;
    }
    let wanted = wanted(rails, scene, draft);
    let Some(mut wanted) = wanted else {
        hold_blind(rails, scene, draft);
        return;
    };
    if draft.fallback {
        rails.track.release();
    }
    wanted = zero_or_not(rails, scene, draft, wanted);
    wanted = not_again(scene, draft, wanted);
    draft.standing(scene, rails.zeroed_by_us);
    let standing = draft.replicas;

    let stabilized = rails.track.stabilize(windows(rails, scene), scene.now_secs, standing, wanted);
    let mut target = stabilized.replicas();
    match stabilized {
        Stabilized::Free(_) => {}
        Stabilized::Up(replicas) => draft.reasons.push(Reason::ScaleUpStabilized { replicas }),
        Stabilized::Down(replicas) => draft.reasons.push(Reason::ScaleDownStabilized { replicas }),
    }
    if standing < target {
        target = up(scene, draft, target);
    } else {
        target = down(rails, scene, draft, target);
    }
    let from_zero = standing == 0 && 0 < target;
    let limited = rails.track.limit(&settings.behavior, settings.bounds, scene.now_secs, standing, target);
    match limited {
        RateLimited::WithinRange(_) => {}
        RateLimited::ScaleUpLimit(replicas) => draft.reasons.push(Reason::ScaleUpLimit { replicas }),
        RateLimited::ScaleDownLimit(replicas) => draft.reasons.push(Reason::ScaleDownLimit { replicas }),
        RateLimited::TooMany(max) => draft.reasons.push(Reason::TooManyReplicas { wanted: target, max }),
        RateLimited::TooFew(min) => draft.reasons.push(Reason::TooFewReplicas { wanted: target, min }),
    }
    draft.replicas = settings.bounds.clamp(limited.replicas());
    if from_zero && draft.replicas == 0 {
        // No policy of `scaleUp` may keep a service that is asked for at 0.
        draft.replicas = settings.bounds.clamp(1);
    }
}

/// Nothing is known and no fallback applies: as it is, within the bounds. The window of a scale-down begins when
/// something is known again: the first rates after a gap cover half of their window and are too low.
fn hold_blind(rails: &mut Rails, scene: &Scene<'_>, draft: &mut Draft) {
    draft.standing(scene, rails.zeroed_by_us);
    draft.driver = Driver::Hold;
    draft.lost(scene);
    rails.track.hold(windows(rails, scene), scene.now_secs, draft.replicas);
}

/// Only idleness that lasts leads to 0, and only a real load away from it.
fn zero_or_not(rails: &Rails, scene: &Scene<'_>, draft: &mut Draft, wanted: u32) -> u32 {
    if 0 < scene.settings.bounds.min() || draft.fallback {
        return wanted;
    }
    if scene.seen.replicas == 0 && !rails.zeroed_by_us && !scene.load_known {
        return 0;
    }
    let qps = scene.qps.unwrap_or(0.0);
    if scene.seen.replicas == 0 {
        if ACTIVATION_QPS < qps {
            draft.reasons.push(Reason::Activated { qps });
            return wanted.max(1);
        }
        return 0;
    }
    let idle_secs = rails.idle_since_secs.map_or(0.0, |since| scene.now_secs - since);
    if rails.idle_since_secs.is_some() && scene.settings.scaled(IDLE_SECS) <= idle_secs {
        draft.reasons.push(Reason::Idle);
        return 0;
    }
    wanted.max(1)
}

/// What is held off, within the bounds of today.
fn hold_off(rails: &Rails, scene: &Scene<'_>) -> Option<HoldOff> {
    let held = rails.regression.hold_off()?;
    let replicas = scene.settings.bounds.clamp(held.replicas);
    Some(HoldOff { replicas, since_secs: held.since_secs, until_secs: held.until_secs })
}

/// Not below the count from before a scale-down that had to be undone.
fn not_again(scene: &Scene<'_>, draft: &mut Draft, wanted: u32) -> u32 {
    let Some(HoldOff { replicas, until_secs, .. }) = draft.hold_off else { return wanted };
    let left_secs = until_secs - scene.now_secs;
    if let Some(undone) = scene.undone {
        let (from, to) = (undone.from, replicas.max(wanted));
        draft.reasons.push(Reason::ScaleDownUndone { from, to, held_off_secs: left_secs });
    } else if wanted < replicas {
        draft.reasons.push(Reason::ScaleDownHeldOff { replicas, left_secs });
    }
    wanted.max(replicas)
}

/// What forbids going up.
fn up(scene: &Scene<'_>, draft: &mut Draft, target: u32) -> u32 {
    let standing = draft.replicas;
    let pods = scene.seen.pods;
    if 0 < pods.unschedulable {
        draft.reasons.push(Reason::CapacityUnavailable { unschedulable: pods.unschedulable, room: None });
        return standing;
    }
    let mut target = target;
    if let Some(room) = scene.seen.room.filter(|&room| room < target) {
        draft.reasons.push(Reason::CapacityUnavailable { unschedulable: 0, room: Some(room) });
        if room <= standing {
            return standing;
        }
        target = room;
    }
    let overloaded = scene.busy_ratio.is_some_and(|busy| OVERLOADED <= busy);
    if 0 < pods.unhealthy && (pods.ready == 0 || !overloaded) {
        draft.reasons.push(Reason::RolloutUnhealthy { unhealthy: pods.unhealthy });
        return standing;
    }
    if let (Some(ratio), Some(utilization)) = (scene.latency_ratio, scene.utilization) {
        if 1.0 < ratio && utilization < IDLE && !overloaded && scene.growth <= GROWTH {
            return standing;
        }
        if let Some(proven) = scene.proven.filter(|&proven| proven < target) {
            let comfortable = ratio <= COMFORT && CPU_HIGH <= utilization && scene.growth <= GROWTH;
            if comfortable && scene.all_ready() && 0 < standing {
                draft.reasons.push(Reason::LatencyComfortable { ratio, utilization });
                target = standing.max(proven);
                if target == standing {
                    return standing;
                }
            }
        }
    }
    if let Some(tolerance) = scene.settings.behavior.up.tolerance {
        if f64::from(target - standing) <= tolerance * f64::from(standing) {
            draft.reasons.push(Reason::Tolerated { wanted: target });
            return standing;
        }
    } else if draft.driver == Driver::Model
        && target == draft.proposed
        && draft.hold_off.is_none_or(|held| held.replicas <= standing)
        && draft.exact.is_some_and(|exact| exact <= scene.settings.tuning.edge_above(f64::from(standing)))
    {
        draft.reasons.push(Reason::Tolerated { wanted: target });
        return standing;
    }
    target
}

/// What forbids going down.
fn down(rails: &Rails, scene: &Scene<'_>, draft: &mut Draft, target: u32) -> u32 {
    let standing = draft.replicas;
    let pods = scene.seen.pods;
    draft.lost(scene);
    if standing <= target {
        return standing;
    }
    let blind = scene.lost.is_some() || scene.sudden_zero;
    if blind && !draft.fallback {
        return standing;
    }
    if scene.clock_stepped {
        draft.reasons.push(Reason::ClockStepped);
        return standing;
    }
    // With a minimum of 0 the load is measured where no pod is needed for it.
    if pods.ready == 0 && 0 < scene.settings.bounds.min() {
        draft.reasons.push(Reason::NoPodReady);
        return standing;
    }
    let gone = f64::from(target) <= DEMAND_GONE * f64::from(standing);
    if 0 < pods.unhealthy && !gone {
        draft.reasons.push(Reason::RolloutUnhealthy { unhealthy: pods.unhealthy });
        return standing;
    }
    let raised_lately =
        rails.raised_secs.is_some_and(|raised| scene.now_secs - raised < STARTING_TIMES * scene.startup_secs);
    if 0 < pods.starting && raised_lately && !gone {
        draft.reasons.push(Reason::StillStarting { starting: pods.starting });
        return standing;
    }
    let tolerance = scene.settings.behavior.down.tolerance;
    let deadband = tolerance.unwrap_or(scene.settings.tuning.deadband);
    let near = tolerance.is_none()
        && 0 < target
        && draft.exact.is_some_and(|exact| scene.settings.tuning.edge_below(f64::from(standing)) < exact);
    if near || f64::from(standing - target) <= deadband * f64::from(standing) {
        draft.reasons.push(Reason::Deadband { wanted: target });
        return standing;
    }
    target
}
