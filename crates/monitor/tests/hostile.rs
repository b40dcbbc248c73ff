//! Logs of Spark with a few bytes changed, cut or repeated: nothing panics, and every answer is one.

use std::fs;
use std::path::Path;

/// A generator that needs no crate: the same numbers every time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below.max(1)
    }
}

const PIECES: [&[u8]; 8] = [
    b"null",
    b"-1",
    b"18446744073709551616",
    b"[]",
    b"{}",
    b"\"\"",
    b"1e400",
    b"{\"a\":{\"b\":[[[[]]]]}}",
];

/// Replaces a value, cuts a piece out, or repeats one.
fn mutate(bytes: &mut Vec<u8>, numbers: &mut Numbers) {
    let at = numbers.next(bytes.len());
    let end = (at + numbers.next(60)).min(bytes.len());
    match numbers.next(4) {
        0 => drop(bytes.splice(at..end, PIECES[numbers.next(PIECES.len())].iter().copied())),
        1 => drop(bytes.drain(at..end)),
        2 => bytes.truncate(at),
        _ => {
            let Some(colon) = bytes[at..].iter().position(|byte| *byte == b':') else { return };
            let value = at + colon + 1;
            let rest = bytes[value..].iter().position(|byte| *byte == b',').unwrap_or(0);
            let piece = PIECES[numbers.next(PIECES.len())];
            drop(bytes.splice(value..value + rest, piece.iter().copied()));
        }
    }
}

#[test]
fn mutated_logs_are_read_as_far_as_they_go() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/spark");
    let names = ["events/local-1426533911241", "events/application_1578436911597_0052"];
    let compressed =
        "captured/logs/eventlog_v2_local-1794765458595/events_1_local-1794765458595.zstd";
    let mut numbers = Numbers(7);
    for name in names.into_iter().chain([compressed]) {
        let whole = fs::read(folder.join(name)).unwrap();
        for _ in 0..40 {
            let mut bytes = whole.clone();
            (0..=numbers.next(6)).for_each(|_| mutate(&mut bytes, &mut numbers));
            firesteel_monitor::fuzzing::log(&bytes);
        }
    }
}
