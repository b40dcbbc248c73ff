//! A sample of many values in which newer ones are likelier than older ones: Dropwizard's exponentially decaying reservoir, with its
//! size and its decay. Values of the last five minutes make most of it; memory stays the same.
//!
//! A value gets the priority `weight / uniform`, and those of the highest priorities stay (Efraimidis, Spirakis). Priorities are
//! logarithms here: weights grow for ever and priorities do not overflow, so that nothing has to be rescaled.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How many values there are at most.
const SIZE: usize = 1028;
/// How much more a value weighs that is a second newer, as a logarithm.
const ALPHA: f64 = 0.015;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Sampled {
    /// The bits of a number that is not negative: they have its order.
    priority: u64,
    value: u64,
    at_ms: u64,
}

#[derive(Clone)]
pub(crate) struct Reservoir {
    sample: BinaryHeap<Reverse<Sampled>>,
    random: u64,
}

impl Default for Reservoir {
    fn default() -> Self {
        Reservoir { sample: BinaryHeap::new(), random: 0x9e37_79b9_7f4a_7c15 }
    }
}

/// How the values of a sample lie.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distribution {
    /// Of all values, not of the sample.
    pub count: u64,
    pub max: u64,
    pub mean: f64,
    pub min: u64,
    pub stddev: f64,
    /// As `QUANTILES` has them.
    pub quantiles: [f64; 6],
}

/// Which quantiles are told.
pub(crate) const QUANTILES: [f64; 6] = [0.5, 0.75, 0.95, 0.98, 0.99, 0.999];

impl Reservoir {
    /// Above 0, up to 1.
    fn uniform(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((self.random >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Takes a value of a moment, in milliseconds since something.
    pub(crate) fn update(&mut self, at_ms: u64, value: u64) {
        let priority = (ALPHA * at_ms as f64 / 1000.0 - self.uniform().ln()).to_bits();
        let sampled = Sampled { priority, value, at_ms };
        if self.sample.len() < SIZE {
            return self.sample.push(Reverse(sampled));
        }
        if let Some(mut lowest) = self.sample.peek_mut()
            && lowest.0.priority < priority
        {
            *lowest = Reverse(sampled);
        }
    }

    /// How the values lie, of `count` in all.
    pub(crate) fn distribution(&self, count: u64) -> Distribution {
        let newest = self.sample.iter().map(|it| it.0.at_ms).max().unwrap_or(0);
        let weight = |at_ms: u64| (-ALPHA * (newest - at_ms) as f64 / 1000.0).exp();
        let mut values: Vec<(u64, f64)> =
            self.sample.iter().map(|it| (it.0.value, weight(it.0.at_ms))).collect();
        values.sort_by_key(|(value, _)| *value);
        let (Some((min, _)), Some((max, _))) = (values.first(), values.last()) else {
            return Distribution { count, ..Distribution::default() };
        };
        let total: f64 = values.iter().map(|(_, weight)| weight).sum();
        let mean = values.iter().map(|(value, weight)| *value as f64 * weight).sum::<f64>() / total;
        let square = |(value, weight): &(u64, f64)| weight * (*value as f64 - mean).powi(2);
        let variance = values.iter().map(square).sum::<f64>() / total;
        let quantiles = QUANTILES.map(|quantile| at(&values, quantile * total));
        Distribution { count, max: *max, mean, min: *min, stddev: variance.sqrt(), quantiles }
    }
}

/// The last value before which no more than so much weight lies.
fn at(values: &[(u64, f64)], wanted: f64) -> f64 {
    let mut before = 0.0;
    let mut found = 0;
    for (value, weight) in values {
        if before > wanted {
            break;
        }
        found = *value;
        before += weight;
    }
    found as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_sample_is_told_exactly() {
        let mut reservoir = Reservoir::default();
        assert_eq!(reservoir.distribution(0), Distribution::default());
        (1..=100).rev().for_each(|value| reservoir.update(0, value));
        let told = reservoir.distribution(100);
        assert_eq!((told.count, told.min, told.max), (100, 1, 100));
        assert!((told.mean - 50.5).abs() < 1e-9 && (told.stddev - 28.866).abs() < 1e-3, "{told:?}");
        assert_eq!(told.quantiles, [51.0, 76.0, 96.0, 99.0, 100.0, 100.0]);
    }

    #[test]
    fn a_large_one_stays_small_and_is_near_to_the_truth() {
        let mut reservoir = Reservoir::default();
        (0..200_000u64).for_each(|n| reservoir.update(n / 1000, n % 1000));
        assert_eq!(reservoir.sample.len(), SIZE);
        let told = reservoir.distribution(200_000);
        assert!((told.mean - 499.5).abs() < 50.0, "{told:?}");
        assert!((told.quantiles[1] - 750.0).abs() < 60.0, "{told:?}");
    }

    #[test]
    fn what_was_long_ago_is_forgotten() {
        let mut reservoir = Reservoir::default();
        (0..5000).for_each(|_| reservoir.update(0, 1_000_000));
        let hour = 3_600_000;
        (0..5000).for_each(|n| reservoir.update(hour + n, 7));
        let told = reservoir.distribution(10_000);
        assert_eq!((told.min, told.max), (7, 7), "{told:?}");
        let year = 366 * 24 * hour;
        (0..5000).for_each(|n| reservoir.update(year + n, 8));
        assert_eq!(reservoir.distribution(15_000).min, 8);
    }
}
