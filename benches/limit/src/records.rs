//! Sort: records made in both halves, distributed by the sign of their key, each half sorted in a thread.

use std::thread;

use crate::{THREADS, in_threads};

const PADDING: &str =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789abcdefghijklmnopqrstuvwxyz";

type Record = (i64, String);

/// Makes and sorts `count` records of an 8-byte key and a 90-character value, then looks at each.
pub(crate) fn sort(count: u64) -> String {
    let half = count / THREADS;
    let made = in_threads(|i| (half * i..half * (i + 1)).map(record).collect::<Vec<_>>());
    let (mut negative, mut others) = (Vec::new(), Vec::new());
    for record in made.into_iter().flatten() {
        if record.0 < 0 { negative.push(record) } else { others.push(record) }
    }
    thread::scope(|scope| {
        scope.spawn(|| negative.sort_unstable_by_key(|record| record.0));
        scope.spawn(|| others.sort_unstable_by_key(|record| record.0));
    });
    check(negative.iter().chain(&others))
}

fn record(row: u64) -> Record {
    let key = mix(row);
    let mut value = format!("{key:x}");
    let length = value.len();
    value.push_str(&PADDING[..90 - length]);
    (key as i64, value)
}

/// splitmix64
fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn check<'a>(records: impl Iterator<Item = &'a Record>) -> String {
    let (mut count, mut sorted, mut digest, mut previous) = (0_u64, true, 0, i64::MIN);
    for (key, value) in records {
        count += 1;
        sorted &= previous <= *key;
        digest ^= key.wrapping_add(value.len() as i64);
        previous = *key;
    }
    format!("n={count} sorted={sorted} xor={digest}")
}
