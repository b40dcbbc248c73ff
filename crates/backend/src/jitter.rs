//! Chance for cores: a small generator seeded from outside, so that many retry at different moments
//! and a run can still be repeated.

/// A stream of numbers that its seed alone decides (SplitMix64).
#[derive(Clone, Debug)]
pub struct Jitter(u64);

impl Jitter {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Self {
        Jitter(seed)
    }

    pub fn next_number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Below `bound`; zero if that is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next_number() % bound.max(1)
    }

    /// Between half of `ms` and one and a half times as much.
    pub fn around_ms(&mut self, ms: u64) -> u64 {
        ms / 2 + self.below(ms.saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_waits_within_their_bounds() {
        let (mut one, mut other) = (Jitter::new(7), Jitter::new(7));
        for _ in 0..1000 {
            let wait = one.around_ms(100);
            assert!((50..=150).contains(&wait), "{wait}");
            assert_eq!(wait, other.around_ms(100));
        }
        assert_eq!(one.below(0), 0);
    }
}
