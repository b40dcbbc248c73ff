//! Random choice: sample, sample_by_key, random_split. Seeded, so that a partition computed again
//! chooses the same items.

use std::hash::Hash;
use std::ops::Range;
use std::sync::Arc;

use firesteel_closure::{Data, Value, Wire, wire};
use firesteel_task::TaskContext;

use crate::{FixedMap, Pipe};

/// A generator for one partition: the same seed and partition give the same numbers.
fn rng(seed: u64, partition: u32) -> fastrand::Rng {
    let mut seeds = fastrand::Rng::with_seed(seed ^ u64::from(partition).rotate_left(32));
    fastrand::Rng::with_seed(seeds.u64(..))
}

/// How often an item is taken when each is taken `mean` times on average (Poisson).
fn times(rng: &mut fastrand::Rng, mean: f64) -> usize {
    if mean > 30.0 {
        // The sum of independent draws is the draw of the sum; keeps `exp(-mean)` off zero.
        return times(rng, mean / 2.0) + times(rng, mean / 2.0);
    }
    let limit = (-mean).exp();
    let mut product = rng.f64();
    let mut count = 0;
    while product > limit {
        product *= rng.f64();
        count += 1;
    }
    count
}

wire! {
    /// `sample`
    pub struct Sample[P: Wire] {
        parent: P,
        with_replacement: bool,
        fraction: f64,
        seed: u64,
    }

    /// Takes each item with probability `fraction`, or that many times on average.
    pub fn new;
}

impl<P: Pipe<Item: Clone>> Pipe for Sample<P> {
    type Item = P::Item;

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = P::Item> + use<P> + 'static {
        let (with_replacement, fraction) = (self.with_replacement, self.fraction);
        let mut rng = rng(self.seed, partition);
        self.parent.compute(partition, task).flat_map(move |item| {
            let count = match with_replacement {
                true => times(&mut rng, fraction),
                false => usize::from(rng.f64() < fraction),
            };
            std::iter::repeat_n(item, count)
        })
    }
}

wire! {
    /// One part of a `random_split`: the items whose random number falls into `part`.
    pub struct RandomPart[P: Wire] {
        parent: P,
        part: Value<Range<f64>>,
        seed: u64,
    }
}

impl<P> RandomPart<P> {
    /// Takes the items that draw a number in `part`; all parts of a split share the seed.
    pub fn new(parent: P, part: Range<f64>, seed: u64) -> Self {
        RandomPart { parent, part: Value(part), seed }
    }
}

impl<P: Pipe> Pipe for RandomPart<P> {
    type Item = P::Item;

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = P::Item> + use<P> + 'static {
        let part = self.part.0.clone();
        let mut rng = rng(self.seed, partition);
        self.parent.compute(partition, task).filter(move |_| part.contains(&rng.f64()))
    }
}

wire! {
    /// `sample_by_key`
    pub struct SampleByKey[P: Wire, K: Data] {
        parent: P,
        fractions: Value<Arc<Vec<(K, f64)>>>,
        with_replacement: bool,
        seed: u64,
    }
}

impl<P, K> SampleByKey<P, K> {
    /// Takes each pair with its key's fraction; keys without one are left out.
    pub fn new(parent: P, fractions: Vec<(K, f64)>, with_replacement: bool, seed: u64) -> Self {
        SampleByKey { parent, fractions: Value(Arc::new(fractions)), with_replacement, seed }
    }
}

impl<K, V, P> Pipe for SampleByKey<P, K>
where
    K: Data + Hash + Eq + Clone,
    V: Clone + 'static,
    P: Pipe<Item = (K, V)>,
{
    type Item = (K, V);

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = (K, V)> + use<P, K, V> + 'static {
        let fractions: FixedMap<K, f64> = self.fractions.0.iter().cloned().collect();
        let with_replacement = self.with_replacement;
        let mut rng = rng(self.seed, partition);
        self.parent.compute(partition, task).flat_map(move |pair| {
            let fraction = fractions.get(&pair.0).copied().unwrap_or(0.0);
            let count = match with_replacement {
                true => times(&mut rng, fraction),
                false => usize::from(rng.f64() < fraction),
            };
            std::iter::repeat_n(pair, count)
        })
    }
}

/// A uniform sample of at most `size` items and the number of items seen (reservoir, algorithm R).
pub fn reservoir<T, U>(
    items: impl Iterator<Item = T>,
    size: usize,
    seed: u64,
    keep: impl Fn(T) -> U,
) -> (Vec<U>, u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut kept = Vec::new();
    let mut seen = 0u64;
    for item in items {
        seen += 1;
        if kept.len() < size {
            kept.push(keep(item));
        } else {
            let slot = rng.u64(..seen);
            if slot < size as u64 {
                kept[slot as usize] = keep(item);
            }
        }
    }
    (kept, seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_of_poisson_draws_is_the_fraction() {
        let mut rng = rng(7, 0);
        for mean in [0.1, 1.0, 5.0, 100.0] {
            let total: usize = (0..10_000).map(|_| times(&mut rng, mean)).sum();
            let found = total as f64 / 10_000.0;
            assert!((found - mean).abs() < mean * 0.1 + 0.02, "{mean}: {found}");
        }
    }

    #[test]
    fn a_reservoir_keeps_what_was_asked_for_and_counts_all() {
        let (kept, seen) = reservoir(0..1000u32, 50, 3, |item| item);
        assert_eq!((kept.len(), seen), (50, 1000));
        assert!(kept.iter().any(|item| *item > 500));
        assert_eq!(reservoir(0..3u32, 50, 3, |item| item), (vec![0, 1, 2], 3));
    }
}
