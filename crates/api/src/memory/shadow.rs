//! The wire form of what would have been. Floats keep their bits.

use rlscaler_core::memory::{QueueMemory, ShadowMemory, ShadowSums};
use serde::{Deserialize, Serialize};

use super::ScalingWire;

/// In the order of [`ShadowSums`].
type SumsWire = [f64; 14];

#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ShadowWire {
    since: f64,
    wanted: u32,
    pub(super) scaling: ScalingWire,
    raised: f64,
    zeroed_by_us: bool,
    pub(super) orders: Vec<(f64, u32)>,
    pub(super) counts: Vec<(f64, u32, u32)>,
    queues: [(f64, f64); 2],
    calm: [f64; 2],
    whole: SumsWire,
    pub(super) buckets: Vec<(i64, SumsWire)>,
}

impl From<&ShadowMemory> for ShadowWire {
    fn from(memory: &ShadowMemory) -> Self {
        let ShadowMemory {
            since_secs,
            wanted,
            scaling,
            raised_secs,
            zeroed_by_us,
            orders,
            counts,
            queues,
            calm,
            whole,
            buckets,
        } = memory;
        Self {
            since: *since_secs,
            wanted: *wanted,
            scaling: scaling.into(),
            raised: *raised_secs,
            zeroed_by_us: *zeroed_by_us,
            orders: orders.clone(),
            counts: counts.clone(),
            queues: queues.map(|QueueMemory { backlog, spread }| (backlog, spread)),
            calm: *calm,
            whole: to_wire(whole),
            buckets: buckets.iter().map(|(index, sums)| (*index, to_wire(sums))).collect(),
        }
    }
}

impl From<ShadowWire> for ShadowMemory {
    fn from(wire: ShadowWire) -> Self {
        Self {
            since_secs: wire.since,
            wanted: wire.wanted,
            scaling: wire.scaling.into(),
            raised_secs: wire.raised,
            zeroed_by_us: wire.zeroed_by_us,
            orders: wire.orders,
            counts: wire.counts,
            queues: wire.queues.map(|(backlog, spread)| QueueMemory { backlog, spread }),
            calm: wire.calm,
            whole: from_wire(wire.whole),
            buckets: wire.buckets.into_iter().map(|(index, sums)| (index, from_wire(sums))).collect(),
        }
    }
}

fn to_wire(sums: &ShadowSums) -> SumsWire {
    let ShadowSums {
        secs,
        real,
        would_be,
        hpa,
        hpa_secs,
        offered,
        predicted_late,
        would_be_late,
        measured_offered,
        measured_late,
        measured_predicted,
        busy_secs,
        busy_seen,
        busy_declared,
    } = *sums;
    [
        secs,
        real,
        would_be,
        hpa,
        hpa_secs,
        offered,
        predicted_late,
        would_be_late,
        measured_offered,
        measured_late,
        measured_predicted,
        busy_secs,
        busy_seen,
        busy_declared,
    ]
}

fn from_wire(wire: SumsWire) -> ShadowSums {
    let [
        secs,
        real,
        would_be,
        hpa,
        hpa_secs,
        offered,
        predicted_late,
        would_be_late,
        measured_offered,
        measured_late,
        measured_predicted,
        busy_secs,
        busy_seen,
        busy_declared,
    ] = wire;
    ShadowSums {
        secs,
        real,
        would_be,
        hpa,
        hpa_secs,
        offered,
        predicted_late,
        would_be_late,
        measured_offered,
        measured_late,
        measured_predicted,
        busy_secs,
        busy_seen,
        busy_declared,
    }
}
