//! The load of the past in bounded memory: slots of 15 s for an hour, means of 5 minutes for 8 days.
//!
//! In: one sample per tick, in the unit of the load (requests/s or cores). Out: contiguous windows of the past. All
//! lengths are in slots, so a world that runs K times faster only has K times shorter slots.

/// Seconds of a slot in real time.
pub const SLOT_SECS: f64 = 15.0;
/// Slots of a bin: 5 minutes.
pub const BIN_SLOTS: usize = 20;
/// Slots of an hour.
pub const HOUR_SLOTS: usize = 240;
/// Slots of a day.
pub const DAY_SLOTS: i64 = 5_760;
/// Bins kept: 8 days and the bins around.
pub const MAX_BINS: usize = 2_308;
/// Slots kept: an hour and what slopes need beyond.
pub const MAX_SLOTS: usize = 256;
/// Slots that survive a restart without Prometheus: the last 6 minutes.
pub const REMEMBERED_SLOTS: usize = 24;

/// The last N values, every window of them contiguous: each value is kept twice, N apart.
#[derive(Debug, Clone, PartialEq)]
pub struct Ring {
    values: Box<[f32]>,
    next: usize,
    len: usize,
}

impl Ring {
    /// Room for `capacity` values.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { values: vec![0.0; 2 * capacity].into_boxed_slice(), next: 0, len: 0 }
    }

    /// Adds the newest value, forgetting the oldest when full.
    pub fn push(&mut self, value: f32) {
        let capacity = self.capacity();
        self.values[self.next] = value;
        self.values[self.next + capacity] = value;
        self.next = if self.next + 1 == capacity { 0 } else { self.next + 1 };
        self.len = (self.len + 1).min(capacity);
    }

    /// Values held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when nothing is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The newest `count` values, oldest first; fewer when fewer are held.
    #[must_use]
    pub fn last(&self, count: usize) -> &[f32] {
        let end = self.next + self.capacity();
        &self.values[end - count.min(self.len)..end]
    }

    /// The value `back` places before the newest.
    #[must_use]
    pub fn back(&self, back: usize) -> Option<f32> {
        (back < self.len).then(|| self.values[self.next + self.capacity() - 1 - back])
    }

    fn capacity(&self) -> usize {
        self.values.len() / 2
    }
}

/// Slots and bins of one load.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadHistory {
    slots: Ring,
    bins: Ring,
    /// Index of the last complete slot since time 0; `None` before the first sample.
    last_slot: Option<i64>,
    open_sum: f64,
    open_count: u32,
    bin_sum: f64,
    bin_count: u32,
}

impl Default for LoadHistory {
    fn default() -> Self {
        Self {
            slots: Ring::new(MAX_SLOTS),
            bins: Ring::new(MAX_BINS),
            last_slot: None,
            open_sum: 0.0,
            open_count: 0,
            bin_sum: 0.0,
            bin_count: 0,
        }
    }
}

impl LoadHistory {
    /// How many slots a sample of slot `slot` will complete; each is then closed by [`LoadHistory::close_slot`].
    #[must_use]
    pub fn slots_before(&self, slot: i64) -> usize {
        /// A longer gap is not filled beyond what is kept.
        const LONGEST_GAP: i64 = (MAX_BINS * BIN_SLOTS) as i64;
        match self.last_slot {
            None => 0,
            Some(last) => (slot - 1 - last).clamp(0, LONGEST_GAP) as usize,
        }
    }

    /// Completes one slot with the mean of its samples, or with the last level where it had none, and returns it.
    pub fn close_slot(&mut self) -> f32 {
        let value = self.level_now() as f32;
        self.open_sum = 0.0;
        self.open_count = 0;
        self.push_slot(value);
        value
    }

    /// Adds a sample to the open slot, whose index is `slot`.
    pub fn add(&mut self, slot: i64, value: f64) {
        // After a gap longer than what is kept, and at the first sample, the count of slots is set, not filled.
        let before = slot - 1;
        self.last_slot = Some(self.last_slot.map_or(before, |last| last.max(before)));
        self.open_sum += value;
        self.open_count += 1;
    }

    /// The newest value: the open slot's mean, else the last complete one; 0 when nothing is known.
    #[must_use]
    pub fn level_now(&self) -> f64 {
        if 0 < self.open_count {
            self.open_sum / f64::from(self.open_count)
        } else {
            self.slots.back(0).map_or(0.0, f64::from)
        }
    }

    /// Mean of the newest value and the last complete slot: the present level of 30 s.
    #[must_use]
    pub fn level(&self) -> f64 {
        match (self.open_count, self.slots.back(0)) {
            (0, _) | (_, None) => self.level_now(),
            (_, Some(last)) => 0.5 * (self.level_now() + f64::from(last)),
        }
    }

    /// Complete slots, newest last.
    #[must_use]
    pub fn slots(&self) -> &Ring {
        &self.slots
    }

    /// Complete bins, newest last.
    #[must_use]
    pub fn bins(&self) -> &Ring {
        &self.bins
    }

    /// Index of the last complete slot.
    #[must_use]
    pub fn last_slot(&self) -> Option<i64> {
        self.last_slot
    }

    /// Load at `slot`, a place in the past, by interpolation between the centres of bins.
    #[must_use]
    pub fn at(&self, slot: f64) -> Option<f64> {
        let place = slot / BIN_SLOTS as f64 - 0.5;
        let left = place.floor();
        let right_share = place - left;
        let left_value = f64::from(self.bin(left as i64)?);
        let right_value = self.bin(left as i64 + 1).map_or(left_value, f64::from);
        Some(left_value + (right_value - left_value) * right_share)
    }

    /// Largest load between two places of the past, ends included.
    #[must_use]
    pub fn peak(&self, from_slot: f64, to_slot: f64) -> Option<f64> {
        let mut peak = self.at(from_slot)?.max(self.at(to_slot)?);
        let bin = |slot: f64| (slot / BIN_SLOTS as f64 - 0.5).floor() as i64;
        for inner in bin(from_slot) + 1..=bin(to_slot) {
            peak = peak.max(f64::from(self.bin(inner)?));
        }
        Some(peak)
    }

    /// The slot being filled: sum and number of its samples.
    #[must_use]
    pub fn open(&self) -> (f64, u32) {
        (self.open_sum, self.open_count)
    }

    /// Puts back the slot being filled, and which it is.
    pub fn reopen(&mut self, last_slot: i64, (sum, count): (f64, u32)) {
        self.last_slot = Some(last_slot);
        self.open_sum = sum;
        self.open_count = count;
    }

    fn push_slot(&mut self, value: f32) {
        let Some(last) = self.last_slot.as_mut() else { return };
        *last += 1;
        let ends_bin = last.rem_euclid(BIN_SLOTS as i64) == BIN_SLOTS as i64 - 1;
        self.slots.push(value);
        self.bin_sum += f64::from(value);
        self.bin_count += 1;
        if ends_bin {
            self.bins.push((self.bin_sum / f64::from(self.bin_count)) as f32);
            self.bin_sum = 0.0;
            self.bin_count = 0;
        }
    }

    fn bin(&self, index: i64) -> Option<f32> {
        let newest = (self.last_slot? + 1).div_euclid(BIN_SLOTS as i64) - 1;
        let back = newest - index;
        (0 <= back).then(|| self.bins.back(back as usize)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(slots: i64, load: impl Fn(i64) -> f64) -> LoadHistory {
        let mut history = LoadHistory::default();
        for slot in 0..slots {
            for _ in 0..history.slots_before(slot) {
                history.close_slot();
            }
            history.add(slot, load(slot));
        }
        history
    }

    #[test]
    fn a_window_is_contiguous_wherever_the_ring_stands() {
        let mut ring = Ring::new(4);
        assert_eq!(ring.last(3), &[] as &[f32]);
        for value in 0..11 {
            ring.push(value as f32);
        }
        assert_eq!(ring.last(3), &[8.0, 9.0, 10.0]);
        assert_eq!(ring.last(9), &[7.0, 8.0, 9.0, 10.0]);
        assert_eq!(ring.back(1), Some(9.0));
        assert_eq!(ring.back(4), None);
    }

    #[test]
    fn several_samples_of_a_slot_are_averaged_and_a_gap_keeps_the_last_level() {
        let mut history = LoadHistory::default();
        history.add(10, 1.0);
        history.add(10, 3.0);
        for _ in 0..history.slots_before(13) {
            history.close_slot();
        }
        history.add(13, 5.0);
        assert_eq!(history.slots().last(9), &[2.0, 2.0, 2.0]);
        assert_eq!(history.level_now(), 5.0);
        assert_eq!(history.level(), 3.5);
    }

    #[test]
    fn the_past_is_found_again_at_its_lag() {
        let history = filled(2 * DAY_SLOTS, |slot| slot as f64);
        let place = (DAY_SLOTS / 2) as f64 + 7.0;
        let found = history.at(place).expect("a day and a half ago is kept");
        assert!((found - (place - 0.5)).abs() < 1e-3, "{found}");
        assert!((history.peak(place, place + 50.0).expect("kept") - (place + 49.5)).abs() < 1e-3);
        assert_eq!(history.at(-100.0), None);
        assert_eq!(history.at(3.0 * DAY_SLOTS as f64), None);
    }

    #[test]
    fn the_memory_is_bounded() {
        let history = filled(10 * DAY_SLOTS, |_| 1.0);
        assert_eq!(history.bins().len(), MAX_BINS);
        assert_eq!(history.slots().len(), MAX_SLOTS);
        assert!(history.at((2 * DAY_SLOTS + 200) as f64).is_some());
        assert!(history.at(DAY_SLOTS as f64).is_none());
    }
}
