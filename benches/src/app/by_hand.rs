//! The jobs without a framework: two threads, one loop each. What a pipeline could cost at best.
//!
//! Sizes and captured values pass through `black_box`, on this side and on Firesteel's: the compiler must neither fold the
//! loop away nor specialise it for values that a real program only knows at run time.

use std::{convert::Infallible, hint::black_box, ops::Range, thread};

use crate::timing;

const THREADS: u64 = 2;

/// How many numbers go through the loops.
pub(crate) const NUMBERS: u64 = 100_000_000;

/// The value the pipelines capture.
pub(crate) const FACTOR: u64 = 2_654_435_761;

/// 100 M numbers: xor, multiply with a captured value, filter, sum.
pub(crate) fn pipelines() -> Result<(), Infallible> {
    let factor = black_box(FACTOR);
    timing::several("pipelines", || {
        in_two_threads(move |numbers| {
            let mut sum = 0_u64;
            for number in numbers {
                let x = (number ^ 0x5555).wrapping_mul(factor);
                if x & 3 != 0 {
                    sum = sum.wrapping_add(x);
                }
            }
            sum
        })
    })
}

/// 100 M numbers through ten steps: xor, add, multiply, rotate, filter, and those five again. `factor` is captured.
pub(crate) fn chain10() -> Result<(), Infallible> {
    let factor = black_box(FACTOR);
    timing::several("chain10", || {
        in_two_threads(move |numbers| {
            let mut sum = 0_u64;
            for number in numbers {
                let x = number ^ 0x5555;
                let x = x.wrapping_add(0x1234_5678);
                let x = x.wrapping_mul(factor);
                let x = x.rotate_left(13);
                if x & 7 == 0 {
                    continue;
                }
                let x = x ^ 0x00ff_00ff;
                let x = x.wrapping_add(0x0fed_cba9);
                let x = x.wrapping_mul(0x9e37_79b9);
                let x = x.rotate_left(31);
                if x & 24 == 0 {
                    continue;
                }
                sum = sum.wrapping_add(x);
            }
            sum
        })
    })
}

/// 100 M signed numbers: `3 x + 1`, the even ones, their sum. The job that Spark runs as `longs`.
pub(crate) fn longs() -> Result<(), Infallible> {
    timing::several("longs100M", || {
        in_two_threads(|numbers| {
            let mut sum = 0_i64;
            for number in numbers.start as i64..numbers.end as i64 {
                let x = number * 3 + 1;
                if x & 1 == 0 {
                    sum += x;
                }
            }
            sum as u64
        })
        .map(|sum| sum as i64)
    })
}

/// The wrapping sum of `half` over both halves of the numbers.
fn in_two_threads(half: impl Fn(Range<u64>) -> u64 + Copy + Send) -> Result<u64, Infallible> {
    let length = black_box(NUMBERS) / THREADS;
    thread::scope(|scope| {
        let halves: Vec<_> =
            (0..THREADS).map(|i| scope.spawn(move || half(length * i..length * (i + 1)))).collect();
        let sums = halves.into_iter().map(|half| half.join().expect("a loop does not panic"));
        Ok(sums.fold(0, u64::wrapping_add))
    })
}
