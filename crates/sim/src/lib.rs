//! Deterministic service simulator over the brain's queue model.

pub mod arrivals;
pub mod exact;
pub mod histogram;
pub mod model;
pub mod seed;
