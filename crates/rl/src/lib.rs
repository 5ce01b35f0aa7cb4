//! Networks, model files and learning.
//!
//! In: features and a price of lateness; or a model file; or simulated windows to learn from. Out: an
//! implementation of the brain's `Policy`; or a model file. Never: Kubernetes, HTTP, an async runtime.

pub mod actor_critic;
pub mod builtin;
pub mod checkpoint;
pub mod choosing;
pub mod episodes;
pub mod gate;
pub mod head;
mod layers;
pub mod left_out;
pub mod life;
pub mod limits;
pub mod manifest;
mod mlp;
pub mod model;
pub mod model_file;
pub mod muon;
pub mod network;
pub mod optimiser;
pub mod pathwise;
pub mod ppo;
mod scene;
pub mod settings_text;
mod tail;
pub mod tensors;
pub mod training;
pub mod validation;
pub mod weights;

pub use builtin::builtin;
pub use manifest::{Manifest, ModelKind};
pub use model::{Model, load_policy};
pub use model_file::ModelFault;
