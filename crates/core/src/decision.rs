//! What was decided at one tick, and why. Plain data: whoever prints or stores it needs nothing else. Its only maker is
//! [`crate::guardrail::guard`].

use crate::budget::BudgetReport;
use crate::driving::Doubt;
use crate::influence::Influences;
use crate::reason::{Driver, Reason, Role};

/// Most reasons one decision carries; more than can speak at once. Further ones are dropped.
pub const MAX_REASONS: usize = 16;

/// Reasons in the order in which they spoke, without allocation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reasons {
    items: [Reason; MAX_REASONS],
    len: usize,
}

impl Default for Reasons {
    fn default() -> Self {
        Self { items: [Reason::DesiredWithinRange; MAX_REASONS], len: 0 }
    }
}

impl Reasons {
    /// Adds a reason.
    pub fn push(&mut self, reason: Reason) {
        if self.len < MAX_REASONS {
            self.items[self.len] = reason;
            self.len += 1;
        }
    }

    /// Adds what mattered behind the model's factor, as far as there is room: nothing that spoke is dropped for it.
    fn insert(&mut self, influences: &Influences) {
        let factor = self.as_slice().iter().position(|reason| matches!(reason, Reason::Multiplier { .. }));
        let Some(factor) = factor else { return };
        for (place, reason) in (factor + 1..).zip(influences.iter()) {
            if self.len < MAX_REASONS {
                self.items.copy_within(place..self.len, place + 1);
                self.items[place] = reason;
                self.len += 1;
            }
        }
    }

    /// All of them, in order.
    #[must_use]
    pub fn as_slice(&self) -> &[Reason] {
        &self.items[..self.len]
    }
}

/// What limited the answer: the reason of the condition `ScalingLimited`, HPA's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limited {
    /// `maxReplicas`.
    TooManyReplicas,
    /// `minReplicas`.
    TooFewReplicas,
    /// `behavior.scaleUp`.
    ScaleUpLimit,
    /// `behavior.scaleDown`.
    ScaleDownLimit,
    /// Pods cannot be placed.
    CapacityUnavailable,
}

impl Limited {
    /// As written in the condition.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Limited::TooManyReplicas => "TooManyReplicas",
            Limited::TooFewReplicas => "TooFewReplicas",
            Limited::ScaleUpLimit => "ScaleUpLimit",
            Limited::ScaleDownLimit => "ScaleDownLimit",
            Limited::CapacityUnavailable => "CapacityUnavailable",
        }
    }
}

/// Whether scaling works at all: the condition `ScalingActive`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Active {
    /// A load could be read.
    ValidMetricFound,
    /// No signal tells the load.
    NoSignal,
    /// 0 replicas by somebody else's hand.
    ScalingDisabled,
}

/// A scale-down that was undone and is held off.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HoldOff {
    /// The count that is not gone below, within the bounds.
    pub replicas: u32,
    /// When it was undone, seconds, as in the observation.
    pub since_secs: f64,
    /// Until when it is held off.
    pub until_secs: f64,
}

/// The number and what it came from, before it becomes a [`Decision`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Parts {
    pub(crate) time_secs: f64,
    pub(crate) from: u32,
    pub(crate) replicas: u32,
    pub(crate) proposed: u32,
    pub(crate) planner: u32,
    pub(crate) hpa_would_be: Option<u32>,
    pub(crate) driver: Driver,
    pub(crate) active: Active,
    pub(crate) value: Option<f64>,
    pub(crate) budget: BudgetReport,
    pub(crate) hold_off: Option<HoldOff>,
    pub(crate) reasons: Reasons,
}

/// Replicas allowed, with reasons.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decision {
    parts: Parts,
}

impl Decision {
    /// Only `guardrail::guard` calls this.
    pub(crate) fn new(parts: Parts) -> Self {
        Self { parts }
    }

    /// The same decision with what mattered most in the model's answer among its reasons; the number stands.
    pub(crate) fn explained(mut self, influences: &Influences) -> Self {
        self.parts.reasons.insert(influences);
        self
    }

    /// When, seconds, as in the observation.
    #[must_use]
    pub fn time_secs(&self) -> f64 {
        self.parts.time_secs
    }

    /// `spec.replicas` that was seen.
    #[must_use]
    pub fn from(&self) -> u32 {
        self.parts.from
    }

    /// What to write to `/scale`; equal to `from()` when it holds.
    #[must_use]
    pub fn replicas(&self) -> u32 {
        self.parts.replicas
    }

    /// True when `replicas()` differs from `from()`.
    #[must_use]
    pub fn changes(&self) -> bool {
        self.parts.replicas != self.parts.from
    }

    /// The driver's answer before the guardrails.
    #[must_use]
    pub fn proposed(&self) -> u32 {
        self.parts.proposed
    }

    /// The planner's answer n0; the present count where it has none.
    #[must_use]
    pub fn planner(&self) -> u32 {
        self.parts.planner
    }

    /// What a stock HPA on CPU 60 % would ask for; `None` without CPU or CPU request.
    #[must_use]
    pub fn hpa_would_be(&self) -> Option<u32> {
        self.parts.hpa_would_be
    }

    /// Who determined the number.
    #[must_use]
    pub fn driver(&self) -> Driver {
        self.parts.driver
    }

    /// Why the planner drives in place of the model, where it does.
    #[must_use]
    pub fn doubt(&self) -> Option<Doubt> {
        self.reasons().iter().find_map(|reason| match *reason {
            Reason::ModelRejected { doubt } | Reason::ModelSuspended { doubt, .. } => Some(doubt),
            _ => None,
        })
    }

    /// The model's factor on the planner's answer, where a model drives.
    #[must_use]
    pub fn multiplier(&self) -> Option<f64> {
        self.reasons().iter().find_map(|reason| match *reason {
            Reason::Multiplier { factor, .. } => Some(factor),
            _ => None,
        })
    }

    /// Whether scaling works at all.
    #[must_use]
    pub fn active(&self) -> Active {
        self.parts.active
    }

    /// The critic's value, where a model drives.
    #[must_use]
    pub fn value(&self) -> Option<f64> {
        self.parts.value
    }

    /// The error budget after this tick.
    #[must_use]
    pub fn budget(&self) -> BudgetReport {
        self.parts.budget
    }

    /// The scale-down that was undone and is held off, if any.
    #[must_use]
    pub fn hold_off(&self) -> Option<HoldOff> {
        self.parts.hold_off
    }

    /// What was seen, the terms, and every guardrail that spoke, in that order.
    #[must_use]
    pub fn reasons(&self) -> &[Reason] {
        self.parts.reasons.as_slice()
    }

    /// Why not more: the guardrail that had the last word against a larger number, else the term that made it.
    #[must_use]
    pub fn why_not_more(&self) -> Reason {
        self.binding(Role::HeldDown)
    }

    /// Why not fewer: the guardrail that had the last word against a smaller number, else the term that made it.
    #[must_use]
    pub fn why_not_fewer(&self) -> Reason {
        self.binding(Role::HeldUp)
    }

    /// The guardrail that had the last word in either direction; `None` when none spoke.
    #[must_use]
    pub fn held_by(&self) -> Option<Reason> {
        let held = |role| matches!(role, Role::HeldDown | Role::HeldUp | Role::Fixed);
        self.reasons().iter().rev().copied().find(|reason| held(reason.role()))
    }

    /// The measured signal nearest to (or farthest beyond) what the replicas seen can carry: load over the work of that
    /// many busy pods, latency over its target. `None` when nothing was read.
    #[must_use]
    pub fn strongest_signal(&self) -> Option<Reason> {
        let pressure = |reason: &Reason| match *reason {
            Reason::Load { busy_pods, .. } => Some(busy_pods / f64::from(self.parts.from.max(1))),
            Reason::Latency { secs, target_secs } => Some(secs / target_secs),
            _ => None,
        };
        let measured = self.reasons().iter().filter_map(|reason| Some((pressure(reason)?, *reason)));
        // While nobody knows what a pod can serve, the load has no measure but what latency does.
        let stronger = |one: (f64, Reason), other: (f64, Reason)| if one.0 < other.0 { other } else { one };
        let all: Option<(f64, Reason)> = measured.reduce(stronger);
        all.map(|(_, reason)| reason)
    }

    /// What limited the number, if anything did: the condition `ScalingLimited`.
    #[must_use]
    pub fn limited(&self) -> Option<Limited> {
        self.reasons().iter().rev().find_map(|reason| match reason {
            Reason::TooManyReplicas { .. } => Some(Limited::TooManyReplicas),
            Reason::TooFewReplicas { .. } => Some(Limited::TooFewReplicas),
            Reason::ScaleUpLimit { .. } => Some(Limited::ScaleUpLimit),
            Reason::ScaleDownLimit { .. } => Some(Limited::ScaleDownLimit),
            Reason::CapacityUnavailable { .. } => Some(Limited::CapacityUnavailable),
            _ => None,
        })
    }

    /// The advice that more replicas would not lower the latency: the condition `ScalingWontHelp`.
    #[must_use]
    pub fn scaling_wont_help(&self) -> Option<Reason> {
        self.reasons().iter().copied().find(|reason| matches!(reason, Reason::ScalingWontHelp { .. }))
    }

    /// The reason that best explains the number: a person's will, else the guardrail that had the last word, else the
    /// term that weighed most. Never absent, so that no event is blank.
    #[must_use]
    pub fn main_reason(&self) -> Reason {
        let reasons = self.reasons();
        // The last word counts: a pin outranks that nothing could be seen, and what holds explains no change.
        let explains = |reason: &&Reason| !(self.changes() && matches!(reason, Reason::NoLoadSignal));
        let fixed = reasons.iter().rev().filter(explains).find(|reason| reason.role() == Role::Fixed);
        let up = self.parts.from < self.parts.replicas;
        let term = reasons.iter().rev().find(|reason| match reason.role() {
            Role::Term => !matches!(reason, Reason::Multiplier { .. } | Reason::Influence { .. }),
            Role::HeldUp => up,
            Role::HeldDown => !up,
            Role::Seen | Role::Fixed => false,
        });
        fixed.or(term).or(reasons.first()).copied().unwrap_or(Reason::DesiredWithinRange)
    }

    /// Each guardrail speaks only when it limits further than those before it, so the last one binds.
    fn binding(&self, held: Role) -> Reason {
        let last = |wanted: &dyn Fn(Role) -> bool| {
            self.reasons().iter().rev().copied().find(|reason| wanted(reason.role()))
        };
        let guardrail = last(&|role| role == held || role == Role::Fixed);
        guardrail.or_else(|| last(&|role| role == Role::Term)).unwrap_or_else(|| self.main_reason())
    }
}
