//! A decision while the guardrails are at it: what stands so far, and who said what.
//!
//! In: the scene and the proposal. Out: a [`Decision`]. Only the guardrails make one.

use super::{IDLE, OVERLOADED, Proposal, Scene};
use crate::decision::{Active, Decision, HoldOff, Parts, Reasons};
use crate::reason::{Driver, Reason};
use crate::settings::Override;

/// A decision in the making.
pub(super) struct Draft {
    pub(super) from: u32,
    pub(super) replicas: u32,
    pub(super) proposed: u32,
    pub(super) exact: Option<f64>,
    pub(super) planner: u32,
    pub(super) driver: Driver,
    pub(super) active: Active,
    pub(super) value: Option<f64>,
    pub(super) reasons: Reasons,
    pub(super) fallback: bool,
    pub(super) told_lost: bool,
    pub(super) hold_off: Option<HoldOff>,
}

impl Draft {
    pub(super) fn new(scene: &Scene<'_>, proposal: Proposal) -> Self {
        let Proposal { replicas, exact, planner, driver, value, reasons } = proposal;
        let current = scene.seen.replicas;
        let seen = driver != Driver::Hold;
        let mut draft = Self {
            from: current,
            replicas: current,
            proposed: if seen { replicas } else { current },
            exact: exact.filter(|_| seen),
            planner: planner.unwrap_or(current),
            driver,
            active: if seen { Active::ValidMetricFound } else { Active::NoSignal },
            value,
            reasons,
            fallback: false,
            told_lost: false,
            hold_off: None,
        };
        if let (Some(ratio), Some(utilization)) = (scene.latency_ratio, scene.utilization)
            && 1.0 < ratio
            && utilization < IDLE
            && scene.busy_ratio.is_none_or(|busy| busy < OVERLOADED)
        {
            draft.reasons.push(Reason::ScalingWontHelp { ratio, utilization });
        }
        draft
    }

    pub(super) fn settle(&mut self, replicas: u32, driver: Driver, reason: Reason) {
        self.replicas = replicas;
        self.driver = driver;
        self.reasons.push(reason);
    }

    pub(super) fn pin(&mut self, scene: &Scene<'_>, asked: u32, allow_out_of_bounds: bool) {
        let replicas = if allow_out_of_bounds { asked } else { scene.settings.bounds.clamp(asked) };
        self.settle(replicas, Driver::Override, Reason::Pinned { replicas: asked });
        if replicas != asked {
            self.reasons.push(Reason::PinClamped { asked, replicas });
        }
    }

    /// The present count moved into the bounds: where a move starts. 0 of somebody else's stays 0 (see `automatic`).
    pub(super) fn standing(&mut self, scene: &Scene<'_>, zeroed_by_us: bool) {
        let bounds = scene.settings.bounds;
        self.replicas = bounds.clamp(self.from);
        if self.from == 0 && 0 < bounds.min() && zeroed_by_us {
            self.reasons.push(Reason::ResumedFromZero);
        } else if bounds.max() < self.from {
            self.reasons.push(Reason::TooManyReplicas { wanted: self.from, max: bounds.max() });
        } else if self.from < bounds.min() {
            self.reasons.push(Reason::TooFewReplicas { wanted: self.from, min: bounds.min() });
        }
    }

    pub(super) fn lost(&mut self, scene: &Scene<'_>) {
        if self.told_lost {
            return;
        }
        self.told_lost = true;
        if scene.sudden_zero {
            self.reasons.push(Reason::SuddenZero);
        }
        if let Some(signal) = scene.lost {
            self.reasons.push(Reason::SignalLost { signal });
        }
    }

    pub(super) fn one_direction(&mut self, scene: &Scene<'_>) {
        let (from, replicas) = (self.from, self.replicas);
        match scene.will {
            Override::PauseScaleDown if replicas < from => {
                self.settle(from, Driver::Override, Reason::ScaleDownPaused);
            }
            Override::PauseScaleUp if from < replicas => {
                self.settle(from, Driver::Override, Reason::ScaleUpPaused);
            }
            _ => {}
        }
    }

    pub(super) fn decide(mut self, scene: &Scene<'_>) -> Decision {
        if self.reasons.as_slice().is_empty() {
            self.reasons.push(Reason::DesiredWithinRange);
        }
        Decision::new(Parts {
            time_secs: scene.seen.time_secs,
            from: self.from,
            replicas: self.replicas,
            proposed: self.proposed,
            planner: self.planner,
            hpa_would_be: scene.hpa_would_be,
            driver: self.driver,
            active: self.active,
            value: self.value,
            budget: scene.budget,
            hold_off: self.hold_off,
            reasons: self.reasons,
        })
    }
}
