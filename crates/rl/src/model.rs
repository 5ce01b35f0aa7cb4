//! A model: checked weights as an actor-critic, with the manifest they came with, as the brain's policy.

use std::sync::Arc;

use rlscaler_core::features::Features;
use rlscaler_core::policy::{self, Action, Policy, PolicyFault};

use crate::actor_critic::ActorCritic;
use crate::builtin::schema;
use crate::manifest::{Manifest, ModelKind};
use crate::model_file::{self, ModelFault, printable};
use crate::ppo;

/// How far outside of the range that training saw a feature may be: most are logarithms of ratios, so this is a
/// factor of 4.5 beyond the most extreme load that was trained on.
pub(crate) const EXCESS_MAX: f32 = 1.5;

/// Digits of the content hash that people are shown.
const HASH_CHARS_SHOWN: usize = 12;

/// Immutable; named by its content hash.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    actor_critic: ActorCritic,
    manifest: Manifest,
}

impl Model {
    /// Reads and checks a weights' file and its manifest against this build's features.
    ///
    /// # Errors
    /// The first thing wrong with either.
    pub fn load(weights: &[u8], manifest: &[u8]) -> Result<Self, ModelFault> {
        let (weights, manifest) = model_file::read(weights, manifest, schema())?;
        let actor_critic = ActorCritic::new(&weights).without(&manifest.left_out);
        Ok(Self { actor_critic, manifest })
    }

    /// What is known of it.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The networks.
    #[must_use]
    pub fn actor_critic(&self) -> &ActorCritic {
        &self.actor_critic
    }
}

impl Model {
    /// The features' values, when this model was made for such.
    fn familiar<'f>(&self, features: &'f Features) -> Result<&'f [f32], PolicyFault> {
        let values = features.values();
        if values.len() != schema().features {
            return Err(PolicyFault::SchemaMismatch);
        }
        if EXCESS_MAX < self.actor_critic.excess(values) {
            return Err(PolicyFault::OutOfDistribution);
        }
        Ok(values)
    }
}

impl Policy for Model {
    fn act(&self, features: &Features) -> Result<Action, PolicyFault> {
        let values = self.familiar(features)?;
        let answer = self.actor_critic.answer(values, features.price());
        // The critic counts costs, the brain wants larger to be better.
        policy::checked(Action {
            multiplier: f64::from(answer.log_multiplier).exp(),
            value: 0.0 - f64::from(answer.value),
        })
    }

    fn multiplier(&self, features: &Features) -> Result<f64, PolicyFault> {
        let values = self.familiar(features)?;
        let log_multiplier = self.actor_critic.log_multiplier(values, features.price());
        let multiplier = f64::from(log_multiplier).exp();
        policy::checked(Action { multiplier, value: 0.0 }).map(|action| action.multiplier)
    }

    fn describe(&self) -> String {
        let Manifest { name, kind, content_hash, left_out, .. } = &self.manifest;
        let hash: String = content_hash.chars().take(HASH_CHARS_SHOWN).collect();
        let name = printable(name);
        let without: String = left_out.iter().map(|part| format!(", without {}", part.as_str())).collect();
        format!("{name}@{hash} ({}{without})", kind.as_str())
    }
}

/// The policy in a weights' file and its manifest, whatever its kind: what competes, and is not served.
///
/// # Errors
/// The first thing wrong with either.
pub fn load_policy(weights: &[u8], manifest: &[u8]) -> Result<Arc<dyn Policy>, ModelFault> {
    Ok(match model_file::read_manifest(manifest)?.kind {
        ModelKind::ZeroInitialised | ModelKind::Trained => Arc::new(Model::load(weights, manifest)?),
        ModelKind::Ppo => Arc::new(ppo::Policy::load(weights, manifest)?),
    })
}

#[cfg(test)]
mod tests {
    use rlscaler_core::features::WIDTH;

    use super::*;
    use crate::builtin::{builtin, zero_initialised_files};

    fn untrained() -> Model {
        let (weights, manifest) = zero_initialised_files();
        Model::load(&weights, manifest.as_bytes()).unwrap()
    }

    #[test]
    fn the_untrained_model_answers_exactly_as_the_planner() {
        let model = untrained();
        for (step, price) in [1.0, 20.0, 1500.0].into_iter().enumerate() {
            let values = std::array::from_fn(|at| ((at + step) as f32).sin() * 4.0);
            let action = model.act(&Features::new(values, price, 12.0, 10.0)).unwrap();
            assert_eq!(action, Action { multiplier: 1.0, value: 0.0 });
            assert_eq!(model.multiplier(&Features::new(values, price, 12.0, 10.0)), Ok(1.0));
        }
    }

    #[test]
    fn features_far_outside_of_training_leave_the_decision_to_the_planner() {
        let mut model = untrained();
        let calm = Features::new([0.0; WIDTH], 20.0, 12.0, 10.0);
        model.actor_critic = model.actor_critic.with_range(vec![-1.0; WIDTH], vec![1.0; WIDTH]);
        assert!(model.act(&calm).is_ok());
        let mut values = [0.0; WIDTH];
        values[3] = 1.0 + EXCESS_MAX;
        assert!(model.act(&Features::new(values, 20.0, 12.0, 10.0)).is_ok());
        values[3] = 1.1 + EXCESS_MAX;
        let far = model.act(&Features::new(values, 20.0, 12.0, 10.0));
        assert_eq!(far, Err(PolicyFault::OutOfDistribution));
    }

    #[test]
    fn a_model_is_named_with_its_hash_and_how_it_came_to_be() {
        let shown = builtin().describe();
        assert!(shown.starts_with("base@") && shown.len() > "base@".len() + HASH_CHARS_SHOWN, "{shown}");
    }
}
