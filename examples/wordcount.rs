//! Counts words.
//!
//! ```sh
//! cargo run --release --example wordcount -- [INPUT [OUTPUT]] [--master local[4]] [--conf key=value]
//! ```
//!
//! `INPUT` is a file, a directory or a glob such as `'data/*.txt'`, or several with commas between
//! them; without it the documents in the current directory (`*.md`) are counted. Shows `text_file`,
//! `flat_map_to`, `reduce_by_key`, `top_by`, and with `OUTPUT` also `sort_by_key` and
//! `save_as_text_file`.
//!
//! Prints the twenty most frequent words with their counts. With `OUTPUT`, all words and their counts
//! are written to that directory, which must not exist yet, in alphabetical order.

use firesteel::prelude::*;

fn main() -> Result<()> {
    let arguments = firesteel::arguments()?;
    let (input, output) = match &arguments[..] {
        [] => ("*.md", None),
        [input] => (input.as_str(), None),
        [input, output] => (input.as_str(), Some(output)),
        _ => usage("too many arguments"),
    };
    if input.starts_with('-') {
        usage(&format!("there is no option {input}"));
    }

    let ctx = Context::builder().app_name("wordcount").build()?;
    let counts = ctx
        .text_file(input)?
        .flat_map_to(|line, words| {
            let found = line.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
            words.extend(found.map(str::to_lowercase));
        })
        .map(|word| (word, 1u64))
        .reduce_by_key(|a, b| a + b);

    for (word, n) in counts.top_by(20, |(word, n)| (*n, word.clone()))? {
        println!("{n:>8} {word}");
    }
    if let Some(output) = output {
        counts.sort_by_key().map(|(word, n)| format!("{word} {n}")).save_as_text_file(output)?;
    }
    Ok(())
}

fn usage(problem: &str) -> ! {
    eprintln!("{problem}\nusage: wordcount [INPUT [OUTPUT]]");
    std::process::exit(2)
}
