//! Counts words: `cargo run --release --example wordcount -- 'data/*.txt'`.
//!
//! Without an argument it counts the words of this repository's own documents.

use firesteel::prelude::*;

fn main() -> Result<()> {
    let arguments = firesteel::arguments()?;
    let input = arguments.first().map_or("*.md", String::as_str);
    let ctx = Context::builder().app_name("wordcount").build()?;
    let counts = ctx
        .text_file(input)?
        .flat_map_to(|line, words| words.extend(line.split_whitespace().map(str::to_owned)))
        .map(|word| (word, 1u64))
        .reduce_by_key(|a, b| a + b);
    for (word, n) in counts.top_by(20, |(word, n)| (*n, word.clone()))? {
        println!("{n:>8} {word}");
    }
    Ok(())
}
