//! Deterministic service simulator over the brain's queue model.

pub mod arrivals;
pub mod exact;
pub mod generators;
pub mod histogram;
pub mod model;
pub mod profile;
pub mod seed;
pub mod trace;
pub mod window;
