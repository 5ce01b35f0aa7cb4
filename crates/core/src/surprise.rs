//! How much of a load comes faster than a plain rule could follow it: what tells a service that needs reserves from one
//! that does not, before any request has come late.
//!
//! In: the load, slot by slot. Out: a share of requests. Bounded, O(1) per slot.

use crate::budget::USUAL_SURPRISE;
use crate::history::Ring;

/// The plain rule that surprises are counted by: this margin over the most of so many slots.
const SURPRISE_MARGIN: f64 = 1.2;
/// See [`SURPRISE_MARGIN`]: two minutes.
const SURPRISE_SLOTS: usize = 8;
/// Forgetting of surprises per slot: half-life of a day.
const SURPRISE_KEEP: f64 = 0.999_879_7;
/// Surprise that every service is expected to be until it has shown itself, and the weight of that: an hour.
const SURPRISE_PRIOR: f64 = USUAL_SURPRISE;
/// See [`SURPRISE_PRIOR`].
const SURPRISE_PRIOR_SLOTS: f64 = 240.0;

/// How much of the load came faster than a plain rule could have followed it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Surprises {
    late: f64,
    offered: f64,
    slots: f64,
}

impl Surprises {
    fn add(&mut self, load: f64, late: bool) {
        self.slots = self.slots * SURPRISE_KEEP + 1.0;
        self.offered = self.offered * SURPRISE_KEEP + load;
        self.late = self.late * SURPRISE_KEEP + if late { load } else { 0.0 };
    }

    /// Counts the slot that closed last; `horizon_slots`: how far behind its load a rule's pods are.
    pub(crate) fn note(&mut self, slots: &Ring, horizon_slots: usize) {
        let slots = slots.last(horizon_slots + SURPRISE_SLOTS + 1);
        let Some((&load, before)) = slots.split_last().filter(|(_, before)| SURPRISE_SLOTS <= before.len())
        else {
            return;
        };
        let most = before[..SURPRISE_SLOTS].iter().copied().fold(0.0_f32, f32::max);
        let load = f64::from(load);
        self.add(load, SURPRISE_MARGIN * f64::from(most) < load);
    }

    /// Share of the load that surprised, with the prior.
    pub(crate) fn share(&self) -> f64 {
        let mean = if 0.0 < self.slots { self.offered / self.slots } else { 0.0 };
        let prior = SURPRISE_PRIOR_SLOTS * if 0.0 < mean { mean } else { 1.0 };
        (self.late + prior * SURPRISE_PRIOR) / (self.offered + prior)
    }

    /// What must survive a restart.
    pub(crate) fn memory(&self) -> [f64; 3] {
        [self.late, self.offered, self.slots]
    }

    /// Goes on from what was remembered, unless more is known already.
    pub(crate) fn resume(&mut self, [late, offered, slots]: [f64; 3]) {
        if self.slots < slots {
            *self = Self { late, offered, slots };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(slots: i64, load: impl Fn(i64) -> f64) -> f64 {
        let mut ring = Ring::new(64);
        let mut surprises = Surprises::default();
        for slot in 0..slots {
            ring.push(load(slot) as f32);
            surprises.note(&ring, 6);
        }
        surprises.share()
    }

    #[test]
    fn a_load_that_never_jumps_surprises_less_by_the_hour_and_one_that_does_more() {
        let calm = |hours: i64| after(240 * hours, |_| 100.0);
        assert_eq!(after(1, |_| 100.0), USUAL_SURPRISE);
        assert!(calm(24) < 0.2 * calm(1) && calm(1) < USUAL_SURPRISE, "{} {}", calm(24), calm(1));
        // Every hour the load doubles for ten minutes: a horizon and the rule's two minutes of them are not followed.
        let jumping = |slot: i64| if slot % 240 < 40 { 200.0 } else { 100.0 };
        let found = after(24 * 240, jumping);
        let expected = 200.0 * 6.0 / (200.0 * 40.0 + 100.0 * 200.0);
        assert!((found - expected).abs() < 0.1 * expected, "{found} {expected}");
    }
}
