//! Inputs of the benchmarks: written once by `data/gen.py`, kept in the cache.

use std::{fs, path::PathBuf, process::Command, time::Duration};

use anyhow::{Context, Result};

use crate::{cache, process};

/// Python writes a gigabyte in a few minutes, on a slow machine in several.
const TIME_LIMIT: Duration = Duration::from_secs(3600);

const GENERATOR: &str = include_str!("../data/gen.py");

/// A file of `count` lines `source target`: the graph of the PageRank benchmark.
pub(crate) fn edges(count: usize) -> Result<PathBuf> {
    generated("edges", count)
}

/// A file of about `bytes` of text: lines of ten words, some much more frequent than others.
pub(crate) fn words(bytes: usize) -> Result<PathBuf> {
    generated("words", bytes)
}

/// The file that gen.py writes for `kind` and `size`.
fn generated(kind: &str, size: usize) -> Result<PathBuf> {
    let directory = cache::directory("bench")?;
    let key = cache::fingerprint(&GENERATOR);
    let script = directory.join(format!("gen-{key}.py"));
    cache::file(&script, |path| Ok(fs::write(path, GENERATOR)?))?;
    let file = directory.join(format!("{kind}-{size}-{key}.txt"));
    cache::file(&file, |path| {
        eprintln!("writing {} (once; a gigabyte of words takes some minutes)", file.display());
        let mut generate = Command::new("python3");
        generate.arg(&script).arg(kind).arg(path).arg(size.to_string());
        process::run(&mut generate, TIME_LIMIT)
            .with_context(|| format!("cannot write the {kind} (python3 is needed)"))?;
        Ok(())
    })?;
    Ok(file)
}
