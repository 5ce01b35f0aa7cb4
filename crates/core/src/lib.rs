//! The brain: from what was observed at one tick to how many replicas there should be, and why.
//!
//! In: [`Settings`] (a validated policy), an [`Observation`], and the brain's own bounded memory.
//! Out: a [`Decision`], whose only maker is [`guardrail::guard`].
//! Never: I/O, a clock, a random number, Kubernetes or a tensor. The simulator and the operator call the same functions.

pub mod behavior;
pub mod brain;
pub mod budget;
pub mod capacity;
pub mod decision;
pub mod driving;
pub mod features;
pub mod forecast;
pub mod guardrail;
pub mod history;
pub mod hpa;
pub mod influence;
mod lag;
pub mod memory;
pub mod observation;
pub mod planner;
pub mod policy;
pub mod queue;
pub mod reason;
pub mod regression;
pub mod reward;
pub mod sense;
pub mod settings;
pub mod shadow;
mod surprise;
pub mod text;

pub use brain::Brain;
pub use decision::Decision;
pub use features::Features;
pub use memory::Memory;
pub use observation::{History, Observation, Pods, Reading, Signal, Signals};
pub use policy::{Action, PlannerOnly, Policy, PolicyFault};
pub use reason::{Driver, Reason};
pub use settings::{Override, Settings};
