//! Inputs of the benchmarks: written once by `data/gen.py`, kept in the cache.

use std::{fs, path::PathBuf, process::Command, time::Duration};

use anyhow::{Context, Result};

use crate::{cache, process};

const GENERATOR: &str = include_str!("../data/gen.py");

/// A file of `count` lines `source target`: the graph of the PageRank benchmark.
pub(crate) fn edges(count: usize) -> Result<PathBuf> {
    let directory = cache::directory("bench")?;
    let key = cache::fingerprint(&GENERATOR);
    let script = directory.join(format!("gen-{key}.py"));
    cache::file(&script, |path| Ok(fs::write(path, GENERATOR)?))?;
    let edges = directory.join(format!("edges-{count}-{key}.txt"));
    cache::file(&edges, |path| {
        let mut generate = Command::new("python3");
        generate.arg(&script).arg("edges").arg(path).arg(count.to_string());
        process::run(&mut generate, Duration::from_secs(300))
            .context("cannot write the graph of edges (python3 is needed)")?;
        Ok(())
    })?;
    Ok(edges)
}
