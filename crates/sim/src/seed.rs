//! One seed, many named streams of random numbers. In: a number and a name. Out: a generator that gives the same
//! numbers for the same pair on every machine, so that two worlds can share arrivals and differ in nothing else.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// A generator of one named stream.
pub type Stream = ChaCha8Rng;

/// The seed of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Seed(pub u64);

impl Seed {
    /// The stream of this name: independent of every other name's.
    #[must_use]
    pub fn stream(self, name: &str) -> Stream {
        ChaCha8Rng::seed_from_u64(mix(self.0 ^ mix(fnv1a(name))))
    }
}

/// FNV-1a, 64 bits.
fn fnv1a(text: &str) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    text.bytes().fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

/// The finaliser of SplitMix64: every input bit reaches every output bit.
fn mix(mut value: u64) -> u64 {
    value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use rand::Rng;

    use super::*;

    #[test]
    fn a_stream_depends_on_seed_and_name_and_nothing_else() {
        let first = |seed: u64, name: &str| Seed(seed).stream(name).next_u64();
        assert_eq!(first(1, "arrivals"), first(1, "arrivals"));
        assert_ne!(first(1, "arrivals"), first(1, "service"));
        assert_ne!(first(1, "arrivals"), first(2, "arrivals"));
    }
}
