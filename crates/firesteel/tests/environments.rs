//! Environments whose two serde halves differ: whatever they read, no misread byte is ever taken for the name of code.
//! A job gives the right answer or an error; neither the driver nor an executor crashes.

use firesteel::prelude::*;
use serde::{Deserialize, Serialize};

/// Reads one byte more than it writes.
#[derive(Serialize, Deserialize, Clone)]
#[expect(dead_code, reason = "it is read by serde only")]
struct Longer {
    a: u64,
    #[serde(skip_serializing)]
    pad: u8,
}

/// Reads one byte less than it writes.
#[derive(Serialize, Deserialize, Clone)]
struct Shorter {
    a: u64,
    #[serde(skip_deserializing)]
    pad: u8,
}

/// Writes a byte less when there is nothing to write.
#[derive(Serialize, Deserialize, Clone)]
struct Sometimes {
    #[serde(skip_serializing_if = "Option::is_none")]
    pad: Option<u8>,
    a: u64,
}

fn contexts() -> Vec<(&'static str, Context)> {
    let context = |master: &str, transport: &str| {
        let builder = Context::builder().master(master).app_name("environments");
        let builder =
            builder.arguments([] as [&str; 0]).config("spark.ui.showConsoleProgress", false);
        builder.config("spark.firesteel.local.transport", transport).build().unwrap()
    };
    vec![
        ("direct", context("local[2]", "direct")),
        ("encoded", context("local[2]", "encoded")),
        ("process", context("local[2]", "process")),
        ("cluster", context("local-cluster[2,1,256]", "direct")),
    ]
}

/// Jobs whose code lies behind the environment on the wire: a partitioner, boxed pipelines.
macro_rules! jobs {
    ($ctx:expr, $env:expr) => {{
        let numbers = $ctx.range(0..100u64).with($env).map(|env, n| (n % 7, n + env.a));
        let direct: Vec<(u64, u64)> = (0..100).map(|n| (n % 7, n + 5)).collect();
        let mut sums = std::collections::BTreeMap::new();
        direct.iter().for_each(|(key, n)| *sums.entry(*key).or_insert(0) += n);
        let sorted = |result: Result<Vec<(u64, u64)>>| {
            result.map(|mut pairs| {
                pairs.sort_unstable();
                pairs
            })
        };
        let boxed = numbers.clone().boxed();
        let mut twice = [direct.clone(), direct.clone()].concat();
        twice.sort_unstable();
        let zipped = boxed.zip(&numbers).map(|(left, _)| left).collect();
        let united = $ctx.union(&[boxed.clone(), boxed.clone()]).coalesce(1).collect();
        let products = boxed.cartesian(&numbers).map(|(left, _)| left).distinct().collect();
        [
            (sorted(numbers.reduce_by_key(|a, b| a + b).collect()), sums.into_iter().collect()),
            (sorted(zipped), {
                let mut d = direct.clone();
                d.sort_unstable();
                d
            }),
            (sorted(united), twice),
            (sorted(products), {
                let mut d = direct;
                d.sort_unstable();
                d
            }),
        ]
    }};
}

type Pairs = Vec<(u64, u64)>;

/// How many were refused; the others are right.
fn check(place: &str, results: [(Result<Pairs>, Pairs); 4]) -> usize {
    let answers = results.into_iter().map(|(found, expected)| match found {
        Ok(found) => {
            assert_eq!(found, expected, "{place}");
            0
        }
        Err(_) => 1,
    });
    answers.sum()
}

#[test]
fn an_environment_that_reads_other_bytes_than_it_wrote_crashes_nothing() {
    for (place, ctx) in contexts() {
        for _ in 0..3 {
            assert_eq!(check(place, jobs!(ctx, Longer { a: 5, pad: 1 })), 4, "{place}");
            assert_eq!(check(place, jobs!(ctx, Shorter { a: 5, pad: 1 })), 4, "{place}");
            assert_eq!(check(place, jobs!(ctx, Sometimes { a: 5, pad: None })), 4, "{place}");
            assert_eq!(check(place, jobs!(ctx, Sometimes { a: 5, pad: Some(1) })), 0, "{place}");
        }
        assert_eq!(ctx.range(0..10u64).sum().unwrap(), 45, "{place} still works");
        ctx.stop();
    }
}
