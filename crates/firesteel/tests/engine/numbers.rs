//! Actions on numbers.

use firesteel::prelude::*;

use crate::rig::{context, on_every_transport};

fn close(found: f64, wanted: f64) {
    assert!((found - wanted).abs() <= 1e-9 * wanted.abs().max(1.0), "{found} instead of {wanted}");
}

#[test]
fn statistics_are_those_of_a_plain_loop() {
    on_every_transport(|ctx| {
        let numbers: Vec<f64> = (0..1000).map(|n| f64::from(n * n % 613) / 7.0 - 20.0).collect();
        let n = numbers.len() as f64;
        let mean = numbers.iter().sum::<f64>() / n;
        let squares: f64 = numbers.iter().map(|x| (x - mean).powi(2)).sum();
        for partitions in [1, 7, 2000] {
            let rdd = ctx.parallelize_in(partitions.min(100), numbers.clone());
            close(rdd.sum().unwrap(), numbers.iter().sum());
            close(rdd.mean().unwrap(), mean);
            close(rdd.variance().unwrap(), squares / n);
            close(rdd.stdev().unwrap(), (squares / n).sqrt());
            let stats = rdd.stats().unwrap();
            assert_eq!(stats.count(), 1000);
            close(stats.sum(), numbers.iter().sum());
            close(stats.sample_variance(), squares / (n - 1.0));
            assert_eq!(stats.min(), numbers.iter().copied().fold(f64::INFINITY, f64::min));
            assert_eq!(stats.max(), numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max));
        }
        let integers = ctx.range_in(3, -5..6i64, 1);
        assert_eq!(integers.sum().unwrap(), 0);
        close(integers.variance().unwrap(), 10.0);
        assert_eq!((integers.min().unwrap(), integers.max().unwrap()), (-5, 5));
    });
}

#[test]
fn the_extremes_of_anything_ordered_are_found() {
    on_every_transport(|ctx| {
        let texts = ctx.parallelize_in(4, ["b", "ä", "a", "z"].map(str::to_owned));
        assert_eq!(texts.min().unwrap(), "a");
        assert_eq!(texts.max().unwrap(), "ä");
        let floats = ctx.parallelize_in(2, [2.0, -1.0, 7.5]).map(Total);
        assert_eq!(floats.max().unwrap().0, 7.5);
    });
}

#[test]
fn no_numbers_have_a_sum_but_no_mean_and_no_extremes() {
    on_every_transport(|ctx| {
        for rdd in [ctx.empty::<u32>().boxed(), ctx.parallelize_in(3, Vec::<u32>::new()).boxed()] {
            assert_eq!(rdd.sum().unwrap(), 0);
            assert!(rdd.mean().unwrap().is_nan() && rdd.variance().unwrap().is_nan());
            assert!(matches!(rdd.min(), Err(Error::Empty { operation: "min", .. })));
            assert!(matches!(rdd.max(), Err(Error::Empty { operation: "max", .. })));
            assert!(matches!(rdd.histogram_of(3), Err(Error::Empty { .. })));
            assert_eq!(rdd.histogram(&[0.0, 1.0]).unwrap(), [0]);
        }
    });
}

#[test]
fn histograms_count_by_bounds_and_by_equal_steps() {
    on_every_transport(|ctx| {
        let rdd = ctx.range_in(3, 0..101u32, 1);
        assert_eq!(rdd.histogram(&[0.0, 10.0, 50.0, 100.0]).unwrap(), [10, 40, 51]);
        assert_eq!(rdd.histogram(&[-5.0, 0.0]).unwrap(), [1]);
        assert_eq!(rdd.histogram(&[90.5, 200.0]).unwrap(), [10]);
        let (bounds, counts) = rdd.histogram_of(4).unwrap();
        assert_eq!(bounds, [0.0, 25.0, 50.0, 75.0, 100.0]);
        assert_eq!(counts, [25, 25, 25, 26]);
        let same = ctx.parallelize_in(2, [3u8; 5]).histogram_of(4).unwrap();
        assert_eq!(same, (vec![3.0, 3.0], vec![5]));
    });
}

#[test]
fn a_histogram_of_numbers_nearer_than_floats_can_tell_still_counts_them_all() {
    let ctx = context();
    let near = ctx.parallelize_in(2, [1e16, 1e16 + 2.0, 1e16 + 4.0]);
    let (bounds, counts) = near.histogram_of(10).unwrap();
    assert!(bounds.is_sorted(), "{bounds:?}");
    assert_eq!(bounds.len(), counts.len() + 1);
    assert_eq!(counts.iter().sum::<u64>(), 3);
}

#[test]
fn bounds_that_do_not_ascend_are_refused() {
    let ctx = context();
    let rdd = ctx.range(0..10u32);
    for bounds in [&[][..], &[1.0], &[2.0, 1.0], &[1.0, 1.0], &[f64::NAN, 1.0]] {
        let error = rdd.histogram(bounds).unwrap_err().to_string();
        assert!(error.contains("strictly ascending"), "{error}");
    }
    assert!(rdd.histogram_of(0).unwrap_err().to_string().contains("buckets"));
    let infinite = ctx.parallelize([1.0, f64::INFINITY]).histogram_of(2).unwrap_err();
    assert!(infinite.to_string().contains("infinity"), "{infinite}");
}
