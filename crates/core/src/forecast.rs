//! To be filled in.

/// Longest horizon, in slots.
pub const MAX_HORIZON_SLOTS: usize = 64;
