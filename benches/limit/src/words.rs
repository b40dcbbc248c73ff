//! Wordcount: the file mapped into memory, a table of borrowed words per half.

use std::{collections::HashMap, fs::File, io, thread};

use memmap2::Mmap;

type Counts<'a> = HashMap<&'a [u8], u64, ahash::RandomState>;

/// The twenty most frequent words of `file` with their numbers; of equally frequent ones the last by alphabet.
pub(crate) fn count(file: &str) -> io::Result<String> {
    let file = File::open(file)?;
    // SAFETY: the benchmark's own input, which nothing writes to once it lies in the cache under its final name.
    let text = unsafe { Mmap::map(&file)? };
    let (first, second) = text.split_at(middle(&text));
    let counts = thread::scope(|scope| {
        let halves = [first, second].map(|half| scope.spawn(|| count_half(half)));
        halves.map(|half| half.join().expect("counting does not panic"))
    });
    Ok(top(merged(counts)))
}

/// Where the first line after the middle starts.
fn middle(text: &[u8]) -> usize {
    let middle = text.len() / 2;
    memchr::memchr(b'\n', &text[middle..]).map_or(text.len(), |end| middle + end + 1)
}

fn count_half(text: &[u8]) -> Counts<'_> {
    let mut counts = Counts::default();
    for line in text.split(|byte| *byte == b'\n') {
        for word in line.split(|byte| *byte == b' ') {
            if !word.is_empty() {
                *counts.entry(word).or_default() += 1;
            }
        }
    }
    counts
}

fn merged<'a>([mut all, others]: [Counts<'a>; 2]) -> Counts<'a> {
    for (word, count) in others {
        *all.entry(word).or_default() += count;
    }
    all
}

fn top(counts: Counts<'_>) -> String {
    let mut counts: Vec<_> = counts.into_iter().map(|(word, count)| (count, word)).collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let shown = |(count, word): &(u64, &[u8])| format!("{}={count}", String::from_utf8_lossy(word));
    counts.iter().take(20).map(shown).collect::<Vec<_>>().join(" ")
}
