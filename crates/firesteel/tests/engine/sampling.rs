//! Random choice: the same by the same seed, and about as much as was asked for.

use crate::rig::{context, on_every_transport, sorted};

const ITEMS: u64 = 20_000;

fn about(found: u64, wanted: f64) {
    // More than six standard deviations of a binomial draw.
    let slack = 6.0 * wanted.sqrt() + 1.0;
    assert!((found as f64 - wanted).abs() < slack, "{found} instead of about {wanted}");
}

#[test]
fn a_sample_is_decided_by_its_seed_and_of_the_wanted_size() {
    on_every_transport(|ctx| {
        let rdd = ctx.range_in(5, 0..ITEMS, 1);
        for (with_replacement, fraction) in [(false, 0.1), (false, 0.9), (true, 0.5), (true, 3.0)] {
            let sample = |seed| rdd.sample(with_replacement, fraction, seed).collect().unwrap();
            let first = sample(1);
            assert_eq!(first, sample(1));
            assert_ne!(first, sample(2));
            about(first.len() as u64, fraction * ITEMS as f64);
            assert!(first.is_sorted());
            let twice = first.windows(2).any(|pair| pair[0] == pair[1]);
            assert_eq!(twice, with_replacement);
            let upper = first.iter().filter(|item| **item >= ITEMS / 2).count() as u64;
            about(upper, fraction * ITEMS as f64 / 2.0);
        }
        assert_eq!(rdd.sample(false, 0.0, 1).count().unwrap(), 0);
        assert_eq!(rdd.sample(false, 1.0, 1).count().unwrap(), ITEMS);
    });
}

#[test]
fn partitions_choose_independently() {
    let ctx = context();
    let rdd = ctx.range_in(2, 0..2000u64, 1).map(|n| n % 1000).sample(false, 0.5, 9);
    let parts = rdd.glom().collect().unwrap();
    assert_ne!(parts[0], parts[1]);
}

#[test]
fn a_random_split_deals_every_item_into_exactly_one_part() {
    on_every_transport(|ctx| {
        let rdd = ctx.range_in(4, 0..ITEMS, 1);
        let parts = rdd.random_split(&[1.0, 2.0, 0.0, 5.0], 42).unwrap();
        let found: Vec<Vec<u64>> = parts.iter().map(|part| part.collect().unwrap()).collect();
        for (part, share) in found.iter().zip([0.125, 0.25, 0.0, 0.625]) {
            about(part.len() as u64, share * ITEMS as f64);
        }
        assert_eq!(sorted(found.concat()), (0..ITEMS).collect::<Vec<_>>());
        let again = rdd.random_split(&[1.0, 2.0, 0.0, 5.0], 42).unwrap();
        assert_eq!(again[1].collect().unwrap(), found[1]);
        assert_ne!(rdd.random_split(&[1.0, 7.0], 43).unwrap()[0].collect().unwrap(), found[0]);
    });
}

#[test]
fn take_sample_takes_exactly_as_many_as_asked_for() {
    on_every_transport(|ctx| {
        let rdd = ctx.range_in(3, 0..500u64, 1);
        let sample = rdd.take_sample(false, 50, 3).unwrap();
        assert_eq!(sample.len(), 50);
        assert_eq!(sample, rdd.take_sample(false, 50, 3).unwrap());
        assert_ne!(sample, rdd.take_sample(false, 50, 4).unwrap());
        let mut distinct = sorted(sample.clone());
        assert_ne!(distinct, sample, "the order is random, too");
        distinct.dedup();
        assert_eq!(distinct.len(), 50);
        assert!(distinct[0] < 100 && distinct[49] > 400);
        assert_eq!(sorted(rdd.take_sample(false, 900, 3).unwrap()), (0..500).collect::<Vec<_>>());
        let drawn = rdd.take_sample(true, 900, 3).unwrap();
        assert_eq!(drawn.len(), 900);
        assert!(rdd.take_sample(true, 0, 1).unwrap().is_empty());
        assert!(ctx.empty::<u8>().take_sample(true, 5, 1).unwrap().is_empty());
    });
}

#[test]
fn sample_by_key_takes_each_keys_fraction() {
    on_every_transport(|ctx| {
        let pairs = ctx.range_in(4, 0..ITEMS, 1).map(|n| (n % 4, n));
        for with_replacement in [false, true] {
            let fractions = [(0, 0.1), (1, 0.5), (2, 1.0)];
            let sample = pairs.sample_by_key(with_replacement, fractions, 5);
            let counts = sample.count_by_key().unwrap();
            for (key, fraction) in fractions {
                about(counts[&key], fraction * ITEMS as f64 / 4.0);
            }
            assert!(!counts.contains_key(&3));
            assert_eq!(sample.collect().unwrap(), sample.collect().unwrap());
        }
    });
}

#[test]
fn impossible_fractions_and_weights_are_refused() {
    let ctx = context();
    let rdd = ctx.range(0..10u64);
    for (with_replacement, fraction) in
        [(false, 1.5), (false, -0.1), (true, -1.0), (true, f64::NAN)]
    {
        let error = rdd.sample(with_replacement, fraction, 1).count().unwrap_err().to_string();
        assert!(error.contains("fraction must"), "{error}");
    }
    for weights in [&[-1.0, 2.0][..], &[0.0], &[f64::NAN]] {
        let error = rdd.random_split(weights, 1).err().unwrap().to_string();
        assert!(error.contains("weights must"), "{error}");
    }
    let pairs = rdd.map(|n| (n, n));
    assert!(pairs.sample_by_key(false, [(1, 2.0)], 1).count().is_err());
}
