//! What may answer with a multiplier on the planner's number. A policy sees [`Features`] and nothing else.

use crate::features::Features;

/// A policy's answer to one set of features.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Action {
    /// Factor on the planner's answer, in [`MULTIPLIER_MIN`]..=[`MULTIPLIER_MAX`].
    pub multiplier: f64,
    /// The critic's value of the state; any finite number, larger is better.
    pub value: f64,
}

/// Smallest multiplier that is believed: less is a broken model, and the planner drives.
pub const MULTIPLIER_MIN: f64 = 0.1;
/// Largest multiplier that is believed.
pub const MULTIPLIER_MAX: f64 = 10.0;

/// Why a policy gave no action. The planner then drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PolicyFault {
    /// The features are far outside what the model was trained on.
    #[error("the features are far outside what the model was trained on")]
    OutOfDistribution,
    /// The answer is NaN, infinite or out of range.
    #[error("the model's answer is not a usable number")]
    NotANumber,
    /// The model expects other features than this operator computes.
    #[error("the model was trained on another set of features")]
    SchemaMismatch,
    /// Anything else that went wrong inside.
    #[error("the model failed")]
    Failed,
}

/// Chooses a multiplier on the planner's answer.
pub trait Policy: Send + Sync {
    /// The answer for these features.
    ///
    /// # Errors
    /// When the policy cannot answer; the planner then drives and says why.
    fn act(&self, features: &Features) -> Result<Action, PolicyFault>;

    /// The multiplier alone, for asking "what if": as `act`, and cheaper where the value costs.
    ///
    /// # Errors
    /// As `act`.
    fn multiplier(&self, features: &Features) -> Result<f64, PolicyFault> {
        self.act(features).and_then(checked).map(|action| action.multiplier)
    }

    /// False when `act` does not look at its features: they are then not computed, and the planner is the driver.
    fn reads_features(&self) -> bool {
        true
    }

    /// Name and content hash, for people and status.
    fn describe(&self) -> String;
}

/// The planner alone: always answers 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlannerOnly;

impl Policy for PlannerOnly {
    fn act(&self, _features: &Features) -> Result<Action, PolicyFault> {
        Ok(Action { multiplier: 1.0, value: 0.0 })
    }

    fn reads_features(&self) -> bool {
        false
    }

    fn describe(&self) -> String {
        "planner".to_owned()
    }
}

/// The next whole number of replicas; at least 1 where any are needed.
#[must_use]
pub fn whole(replicas: f64) -> u32 {
    if 0.0 < replicas { replicas.ceil() as u32 } else { 0 }
}

/// The planner's answer as a real number times the multiplier, as a whole number.
#[must_use]
pub fn multiplied(exact: f64, multiplier: f64) -> u32 {
    whole(exact * multiplier)
}

/// The action, when it can be believed.
///
/// # Errors
/// [`PolicyFault::NotANumber`] when multiplier or value is not finite or the multiplier is out of range.
pub fn checked(action: Action) -> Result<Action, PolicyFault> {
    let Action { multiplier, value } = action;
    let usable = value.is_finite() && (MULTIPLIER_MIN..=MULTIPLIER_MAX).contains(&multiplier);
    if usable { Ok(action) } else { Err(PolicyFault::NotANumber) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unusable_answer_is_refused() {
        let check = |multiplier, value| checked(Action { multiplier, value }).is_ok();
        for (multiplier, value, usable) in [
            (1.0, 0.0, true),
            (MULTIPLIER_MIN, 0.0, true),
            (MULTIPLIER_MAX, 0.0, true),
            (0.09, 0.0, false),
            (10.1, 0.0, false),
            (-1.0, 0.0, false),
            (f64::NAN, 0.0, false),
            (f64::INFINITY, 0.0, false),
            (1.0, f64::NAN, false),
        ] {
            assert_eq!(check(multiplier, value), usable, "{multiplier} {value}");
        }
    }
}
