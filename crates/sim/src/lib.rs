//! Deterministic service simulator over the brain's queue model.
//!
//! In: a [`scenario::Scenario`] (profile, trace, faults), a seed and a [`run::Scaler`]. Out: an
//! [`outcome::Outcome`]. Never: a wall clock, a thread, or a random number that does not come from the seed.

pub mod arrivals;
pub mod exact;
pub mod fault;
pub mod fleet;
pub mod fluid;
pub mod generators;
pub mod histogram;
pub mod metrics;
pub mod model;
pub mod outcome;
pub mod profile;
pub mod recorded_hpa;
pub mod rules;
pub mod run;
pub mod scalers;
pub mod scenario;
pub mod seed;
pub mod trace;
pub mod window;
pub mod world;
