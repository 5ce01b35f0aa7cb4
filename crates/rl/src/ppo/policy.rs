//! A trained actor of PPO as the brain's policy, its likeliest answer, and its two files.
//!
//! In: a learner, or bytes. Out: bytes, or a policy. Never: the operator's model; only the judge reads such files.

use std::collections::BTreeMap;

use rlscaler_core::features::Features;
use rlscaler_core::policy::{self, Action, PolicyFault};
use rlscaler_sim::seed::Seed;

use super::rollout::log_multiplier;
use super::{ACTIONS, ACTOR, Learner, PpoSettings};
use crate::actor_critic::{excess, log_price};
use crate::builtin::schema;
use crate::head::{self, UNIT_FEATURE};
use crate::manifest::{Manifest, ModelKind, Versions, schema_hash_text};
use crate::mlp;
use crate::model::EXCESS_MAX;
use crate::model_file::{self, F32View, ModelFault};
use crate::network::{Layer, Network};
use crate::training::TrainingSettings;
use crate::weights::{RANGE_HIGH, RANGE_LOW, TensorShape};

/// The steps to choose from, in the file.
const STEPS: &str = "ppo.steps";

/// Everything a file holds.
fn layout(features: usize) -> Vec<TensorShape> {
    let shape = |name, len: usize| TensorShape { name, dims: vec![len] };
    let mut layout = mlp::shapes(&ACTOR, features + 1, ACTIONS).to_vec();
    layout.extend([shape(STEPS, ACTIONS), shape(RANGE_LOW, features), shape(RANGE_HIGH, features)]);
    layout
}

/// The two files of a trained learner: weights, then manifest.
///
/// # Panics
/// Never: settings are numbers under names.
#[must_use]
pub fn files(
    learner: &Learner,
    settings: &PpoSettings,
    training: &TrainingSettings,
    seed: Seed,
    commit: Option<String>,
) -> (Vec<u8>, String) {
    let mut values = as_shown(learner);
    values.extend([learner.steps.to_vec(), learner.low.clone(), learner.high.clone()]);
    let layout = layout(learner.low.len());
    let views = layout.iter().zip(&values).map(|(shape, values)| (shape.name, F32View::new(shape, values)));
    let bytes = safetensors::serialize(views, None).expect("shapes and lengths agree by construction");
    let json =
        |settings: serde_json::Result<serde_json::Value>| settings.expect("settings are numbers under names");
    let settings = BTreeMap::from([
        ("ppo".to_owned(), json(serde_json::to_value(settings))),
        ("training".to_owned(), json(serde_json::to_value(training))),
    ]);
    let manifest = Manifest {
        name: "ppo".into(),
        kind: ModelKind::Ppo,
        schema_hash: schema_hash_text(schema().hash),
        content_hash: model_file::content_hash(&bytes),
        versions: Versions::current(),
        settings,
        seed: seed.0,
        commit,
        scores: BTreeMap::new(),
        left_out: vec![],
    };
    (bytes, manifest.to_json())
}

/// The actor's numbers over features as they are.
fn as_shown(learner: &Learner) -> Vec<Vec<f32>> {
    let mut values = learner.actor.values.clone();
    let first = Layer { weight: std::mem::take(&mut values[0]), bias: std::mem::take(&mut values[1]) };
    let (centre, spread) = &learner.typical;
    let Layer { weight, bias } = first.over_standardised(centre, spread);
    (values[0], values[1]) = (weight, bias);
    values
}

/// Answers with the likeliest step.
#[derive(Debug, Clone)]
pub struct Policy {
    actor: Network,
    steps: [f32; ACTIONS],
    low: Vec<f32>,
    high: Vec<f32>,
    described: String,
}

impl Policy {
    /// Of a learner as it is.
    #[must_use]
    pub fn of(learner: &Learner) -> Self {
        let Learner { steps, low, high, .. } = learner;
        let described = "ppo (unsaved)".to_owned();
        Self {
            actor: mlp::network(&as_shown(learner)),
            steps: *steps,
            low: low.clone(),
            high: high.clone(),
            described,
        }
    }

    /// From its two files.
    ///
    /// # Errors
    /// The first thing wrong with either.
    pub fn load(weights: &[u8], manifest: &[u8]) -> Result<Self, ModelFault> {
        let manifest = model_file::checked_manifest(weights, manifest, schema())?;
        let tensors = model_file::parse(weights)?;
        let read = |shape: &TensorShape| model_file::read_tensor(&tensors, shape);
        let mut values = layout(schema().features).iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let [steps, low, high] = [6, 7, 8].map(|at| std::mem::take(&mut values[at]));
        Ok(Self {
            actor: mlp::network(&values[..6]),
            steps: steps.try_into().expect("the layout says how many there are"),
            low,
            high,
            described: format!(
                "{}@{:.12} (ppo)",
                model_file::printable(&manifest.name),
                manifest.content_hash
            ),
        })
    }

    /// Natural logarithm of the multiplier on the planner's number.
    #[must_use]
    pub fn log_multiplier(&self, features: &[f32], price: f64) -> f32 {
        let mut seen = features.to_vec();
        seen.push(log_price(price));
        let logits: [f32; ACTIONS] = self.actor.forward(&seen);
        // Of equally likely answers the one next to the planner's.
        let better = |a: &usize, b: &usize| {
            let by_step = self.steps[*b].abs().total_cmp(&self.steps[*a].abs());
            logits[*a].total_cmp(&logits[*b]).then(by_step)
        };
        let action = (0..ACTIONS).max_by(better).expect("there are actions");
        let planner_error = features[UNIT_FEATURE];
        log_multiplier(self.steps[action], planner_error, head::lowest(planner_error))
    }
}

impl rlscaler_core::Policy for Policy {
    fn act(&self, features: &Features) -> Result<Action, PolicyFault> {
        if EXCESS_MAX < excess(features.values(), &self.low, &self.high) {
            return Err(PolicyFault::OutOfDistribution);
        }
        let log_multiplier = self.log_multiplier(features.values(), features.price());
        policy::checked(Action { multiplier: f64::from(log_multiplier).exp(), value: 0.0 })
    }

    fn describe(&self) -> String {
        self.described.clone()
    }
}
