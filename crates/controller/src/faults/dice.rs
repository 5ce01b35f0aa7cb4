//! Random choices of one schedule, all from its seed. In: a seed and the name of a stream. Out: choices.

use rand::Rng;
use rlscaler_sim::seed::{Seed, Stream};

/// One named stream of choices.
pub(crate) struct Dice(Stream);

impl Dice {
    pub(crate) fn new(seed: u64, stream: &str) -> Self {
        Self(Seed(seed).stream(stream))
    }

    /// 0 <= x < 1.
    pub(crate) fn unit(&mut self) -> f64 {
        const BITS: u32 = 53;
        (self.0.next_u64() >> (64 - BITS)) as f64 / (1_u64 << BITS) as f64
    }

    pub(crate) fn chance(&mut self, share: f64) -> bool {
        self.unit() < share
    }

    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Both ends included.
    pub(crate) fn count(&mut self, low: u32, high: u32) -> u32 {
        low + (self.unit() * f64::from(high - low + 1)) as u32
    }

    pub(crate) fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        among[(self.unit() * among.len() as f64) as usize]
    }
}
