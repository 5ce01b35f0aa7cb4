//! The models that compete: the built-in one, and those from files named `rl:PATH`. In: names. Out: policies by number,
//! each read once.

use std::path::Path;
use std::sync::Arc;

use rlscaler_core::Policy;

use crate::models;

/// What the built-in model is called among scalers; a model from files is `rl:PATH`.
pub(crate) const RL: &str = "rl";

/// Models by number; the built-in one is number 0.
pub(crate) struct Competitors {
    models: Vec<Competitor>,
}

struct Competitor {
    name: String,
    policy: Arc<dyn Policy>,
}

impl Competitors {
    /// The built-in model alone.
    pub(crate) fn builtin() -> Self {
        let policy: Arc<dyn Policy> = Arc::new(rlscaler_rl::builtin());
        Self { models: vec![Competitor { name: RL.to_owned(), policy }] }
    }

    /// Number of the model of this scaler, `rl` or `rl:PATH`, read now where it was not yet; `None` for other scalers.
    /// What is wrong with the file where it cannot be used.
    pub(crate) fn number_of(&mut self, scaler: &str) -> Option<Result<usize, String>> {
        if let Some(known) = self.models.iter().position(|model| model.name == scaler) {
            return Some(Ok(known));
        }
        let path = scaler.strip_prefix(RL)?.strip_prefix(':')?;
        Some(match models::policy_from_files(Path::new(path)) {
            Ok(policy) => {
                self.models.push(Competitor { name: scaler.to_owned(), policy });
                Ok(self.models.len() - 1)
            }
            Err(fault) => Err(fault.to_string()),
        })
    }

    /// The policy of a model.
    pub(crate) fn policy(&self, number: usize) -> &Arc<dyn Policy> {
        &self.models[number].policy
    }

    /// The name of a model's scaler.
    pub(crate) fn name(&self, number: usize) -> &str {
        &self.models[number].name
    }

    /// Every model as `scaler` and what the model says of itself.
    pub(crate) fn described(&self) -> impl Iterator<Item = (&str, String)> {
        self.models.iter().map(|model| (model.name.as_str(), model.policy.describe()))
    }
}
