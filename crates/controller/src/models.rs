//! The models policies may name. Whoever starts the operator fills it; the controller never sees a tensor.

use std::collections::BTreeMap;
use std::sync::Arc;

use rlscaler_core::Policy;

/// A model that can be used.
#[derive(Clone)]
pub struct LoadedModel {
    /// Decides.
    pub policy: Arc<dyn Policy>,
    /// False for the zero-initialised one, which answers exactly as the planner.
    pub trained: bool,
}

/// By name; a model that was found but cannot be used says why.
#[derive(Clone, Default)]
pub struct Models {
    /// Name of the one used where a policy names none.
    pub default: String,
    /// All.
    pub by_name: BTreeMap<String, Result<LoadedModel, String>>,
}

/// What became of a policy's wish for a model.
pub enum Chosen<'a> {
    /// Usable.
    Loaded(&'a LoadedModel),
    /// No such model; the planner drives.
    NotFound(&'a str),
    /// Made for other features, or broken; the planner drives.
    Unusable(&'a str),
}

impl Models {
    /// The model of this name, or the default one.
    #[must_use]
    pub fn choose<'a>(&'a self, name: Option<&'a str>) -> Chosen<'a> {
        let name = name.unwrap_or(&self.default);
        match self.by_name.get(name) {
            Some(Ok(model)) => Chosen::Loaded(model),
            Some(Err(why)) => Chosen::Unusable(why),
            None => Chosen::NotFound(name),
        }
    }
}

impl Chosen<'_> {
    /// Name and content hash, for people.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Loaded(model) => model.policy.describe(),
            Self::NotFound(name) => format!("{name} (not found)"),
            Self::Unusable(_) => "planner".to_owned(),
        }
    }
}
