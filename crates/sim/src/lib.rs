//! Deterministic service simulator over the brain's queue model.
