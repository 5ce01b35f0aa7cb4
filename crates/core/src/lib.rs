//! The brain: from what was observed at one tick to how many replicas there should be, and why.
//!
//! In: [`Settings`] (a validated policy), an [`Observation`], and the brain's own bounded memory.
//! Out: a [`Decision`], whose only maker is [`guardrail::guard`].
//! Never: I/O, a clock, a random number, Kubernetes or a tensor. The simulator and the operator call the same functions.

pub mod observation;
pub mod reason;
pub mod settings;

pub use observation::{Observation, Reading, Signal};
pub use reason::{Driver, Reason};
pub use settings::Settings;
