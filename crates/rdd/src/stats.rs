//! Sums and statistics of numbers: one pass, numerically stable, mergeable.

use firesteel_closure::Data;
use serde::{Deserialize, Serialize};

/// Values that can be added up. Integers are added in 128 bits: a sum that its type cannot hold is noticed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be summed",
    note = "`sum` adds integers and floating-point numbers; for another type write `rdd.reduce(|a, b| a + b)`, or \
            implement `Summable` for it"
)]
pub trait Summable: Data {
    /// The sum of some values.
    type Partial: Data;

    /// The sum of no values.
    const ZERO: Self::Partial;

    /// `sum` with one more value in it.
    fn add(sum: Self::Partial, value: Self) -> Self::Partial;

    /// Two sums in one.
    fn merge(left: Self::Partial, right: Self::Partial) -> Self::Partial;

    /// The sum, if this type can hold it.
    fn total(sum: Self::Partial) -> Option<Self>;
}

macro_rules! summable {
    ($wide:ty: $($t:ty),*) => {$(
        impl Summable for $t {
            type Partial = $wide;
            const ZERO: $wide = 0;

            #[inline(always)]
            fn add(sum: $wide, value: $t) -> $wide {
                sum.wrapping_add(value as $wide) // 2^64 values at least until it wraps
            }

            fn merge(left: $wide, right: $wide) -> $wide {
                left.wrapping_add(right)
            }

            fn total(sum: $wide) -> Option<$t> {
                sum.try_into().ok()
            }
        }
    )*};
}
summable!(u128: u8, u16, u32, u64, usize);
summable!(i128: i8, i16, i32, i64, isize);

macro_rules! summable_float {
    ($($t:ty),*) => {$(
        impl Summable for $t {
            type Partial = $t;
            const ZERO: $t = 0.0;

            #[inline(always)]
            fn add(sum: $t, value: $t) -> $t {
                sum + value
            }

            fn merge(left: $t, right: $t) -> $t {
                left + right
            }

            fn total(sum: $t) -> Option<$t> {
                Some(sum)
            }
        }
    )*};
}
summable_float!(f32, f64);

/// A number that statistics can be taken of.
pub trait Number: Copy + 'static {
    /// The nearest double.
    fn to_f64(self) -> f64;
}

macro_rules! number {
    ($($t:ty),*) => {$(
        impl Number for $t {
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
        }
    )*};
}
number!(u8, i8, u16, i16, u32, i32, u64, i64, usize, isize, f32, f64);

/// Count, mean, variance and extremes (Welford; Chan's merge).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    count: u64,
    mean: f64,
    squares: f64,
    min: f64,
    max: f64,
}

impl Default for Stats {
    fn default() -> Self {
        Stats { count: 0, mean: 0.0, squares: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY }
    }
}

impl Stats {
    /// Takes one more number in.
    #[inline]
    pub fn add(&mut self, x: f64) {
        self.count += 1;
        let delta = x - self.mean;
        self.mean += delta / self.count as f64;
        self.squares += delta * (x - self.mean);
        self.min = lower(self.min, x);
        self.max = -lower(-self.max, -x);
    }

    /// The numbers of two.
    pub fn merge(self, other: Stats) -> Stats {
        if self.count == 0 {
            return other;
        }
        if other.count == 0 {
            return self;
        }
        let (n, m) = (self.count as f64, other.count as f64);
        let delta = other.mean - self.mean;
        Stats {
            count: self.count + other.count,
            mean: self.mean + delta * m / (n + m),
            squares: self.squares + other.squares + delta * delta * n * m / (n + m),
            min: lower(self.min, other.min),
            max: -lower(-self.max, -other.max),
        }
    }

    /// How many numbers they are, NaN among them.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their mean; NaN if there are none.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { f64::NAN } else { self.mean }
    }

    /// Their mean times their count: their sum but for rounding, and 0 if there are none.
    pub fn sum(&self) -> f64 {
        self.mean * self.count as f64
    }

    /// The smallest; infinity if there are none, NaN if one of them is.
    pub fn min(&self) -> f64 {
        self.min
    }

    /// The largest; negative infinity if there are none, NaN if one of them is.
    pub fn max(&self) -> f64 {
        self.max
    }

    /// Variance of the whole population; NaN if there are none.
    pub fn variance(&self) -> f64 {
        if self.count == 0 { f64::NAN } else { self.squares / self.count as f64 }
    }

    /// Variance as estimated from a sample; NaN if there are fewer than two.
    pub fn sample_variance(&self) -> f64 {
        if self.count < 2 { f64::NAN } else { self.squares / (self.count - 1) as f64 }
    }

    /// Standard deviation of the whole population.
    pub fn stdev(&self) -> f64 {
        self.variance().sqrt()
    }

    /// Standard deviation as estimated from a sample.
    pub fn sample_stdev(&self) -> f64 {
        self.sample_variance().sqrt()
    }
}

/// The lower of two, or NaN if one is: a number that is none must not vanish.
fn lower(a: f64, b: f64) -> f64 {
    if a.is_nan() || b < a || b.is_nan() { if a.is_nan() { a } else { b } } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(numbers: &[f64]) -> Stats {
        let mut stats = Stats::default();
        numbers.iter().for_each(|x| stats.add(*x));
        stats
    }

    #[test]
    fn merged_statistics_are_those_of_all_numbers() {
        let numbers: Vec<f64> = (0..100).map(|n| f64::from(n * n % 37)).collect();
        let whole = of(&numbers);
        for cut in [0, 1, 50, 100] {
            let merged = of(&numbers[..cut]).merge(of(&numbers[cut..]));
            assert_eq!(merged.count(), 100);
            assert!((merged.mean() - whole.mean()).abs() < 1e-9);
            assert!((merged.variance() - whole.variance()).abs() < 1e-9);
            assert_eq!((merged.min(), merged.max()), (whole.min(), whole.max()));
        }
    }

    #[test]
    fn what_is_not_a_number_shows_in_the_extremes() {
        for numbers in [[1.0, f64::NAN, 2.0], [f64::NAN, 1.0, 2.0], [1.0, 2.0, f64::NAN]] {
            assert!(of(&numbers).min().is_nan() && of(&numbers).max().is_nan());
            let merged = of(&numbers[..1]).merge(of(&numbers[1..]));
            assert!(merged.min().is_nan() && merged.max().is_nan());
        }
        assert_eq!((of(&[3.0, -1.0]).min(), of(&[3.0, -1.0]).max()), (-1.0, 3.0));
    }

    #[test]
    fn no_numbers_have_no_mean() {
        assert!(of(&[]).mean().is_nan());
        assert!(of(&[1.0]).sample_variance().is_nan());
        assert_eq!(of(&[2.0, 4.0]).sample_variance(), 2.0);
        assert_eq!(of(&[2.0, 4.0]).variance(), 1.0);
    }
}
