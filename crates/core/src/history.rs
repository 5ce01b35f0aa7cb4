//! To be filled in.

/// Slots that survive a restart without Prometheus.
pub const REMEMBERED_SLOTS: usize = 24;
