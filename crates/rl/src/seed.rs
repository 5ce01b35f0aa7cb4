//! Random streams by name: one seed gives as many independent streams as there are names, and adding a stream
//! changes no other. In: a seed and a name. Out: a generator. Never: the operating system's randomness.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};

/// The seed of a whole run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed(pub u64);

impl Seed {
    /// The stream of this name.
    #[must_use]
    pub fn stream(self, name: &str) -> ChaCha8Rng {
        let mut hash = Sha256::new();
        hash.update(self.0.to_le_bytes());
        hash.update(name.as_bytes());
        ChaCha8Rng::from_seed(hash.finalize().into())
    }
}

/// Uniform in `[-bound, bound)`, from 24 bits, so that the bytes of a model do not depend on a library's sampling.
pub(crate) fn symmetric(rng: &mut ChaCha8Rng, bound: f32) -> f32 {
    const STEPS: f32 = 16_777_216.0;
    let unit = (rng.next_u32() >> 8) as f32 / STEPS;
    bound * (2.0 * unit - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_different_names_differ_and_each_repeats() {
        let draw = |name: &str| Seed(7).stream(name).next_u64();
        assert_eq!(draw("weights"), draw("weights"));
        assert_ne!(draw("weights"), draw("windows"));
        assert_ne!(draw("weights"), Seed(8).stream("weights").next_u64());
    }
}
