//! Planning input: which files, cut into which splits.

use std::sync::Arc;

use firesteel_conf::{Conf, entries};
use firesteel_io::{FileRef, FindError, StoreOptions};
use firesteel_rdd::text::{Split, TO_THE_END, split_files};
use firesteel_types::CallSite;

use crate::{Error, Result};

/// How a text file is read.
#[derive(Clone, Debug, Default)]
pub struct TextOptions {
    pub(crate) lossy: bool,
    pub(crate) min_partitions: Option<usize>,
    pub(crate) max_split_bytes: Option<u64>,
}

impl TextOptions {
    /// Spark's defaults: invalid UTF-8 is an error, at least two partitions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces invalid UTF-8 by U+FFFD instead of failing.
    #[must_use]
    pub fn lossy(mut self, lossy: bool) -> Self {
        self.lossy = lossy;
        self
    }

    /// Aims at no fewer partitions than this.
    #[must_use]
    pub fn min_partitions(mut self, partitions: usize) -> Self {
        self.min_partitions = Some(partitions);
        self
    }

    /// Cuts files into parts of at most about this size (`spark.files.maxPartitionBytes`).
    #[must_use]
    pub fn max_split_bytes(mut self, bytes: u64) -> Self {
        self.max_split_bytes = Some(bytes);
        self
    }
}

/// How input is cut: fewest partitions and largest part, where the user said so.
pub(crate) type Cut = (Option<usize>, Option<u64>);

/// The files that `paths` names.
pub(crate) fn find(site: &CallSite, conf: &Conf, paths: &str) -> Result<Vec<FileRef>> {
    let found = firesteel_io::find(paths, &store_options(conf));
    found.map_err(|error| refusal(error).at(site))
}

#[cold]
fn refusal(error: FindError) -> Error {
    let place = None;
    match error {
        FindError::Nothing { pattern } => {
            let hint = looked_for_in(&pattern);
            Error::NoInput { place, pattern, hint }
        }
        FindError::Pattern { pattern, reason } => Error::InputPattern { place, pattern, reason },
        FindError::Unreadable { path, source } => {
            Error::UnreadableInput { place, path, source: Arc::new(source) }
        }
    }
}

/// From where a path leads that does not begin at the root, whichever way it is written.
fn looked_for_in(pattern: &str) -> String {
    let path = pattern.strip_prefix("file:").unwrap_or(pattern);
    match std::env::current_dir() {
        Ok(directory) if !path.starts_with(['/', '{']) && !pattern.contains("://") => {
            format!(" (looked for in {})", directory.display())
        }
        _ => String::new(),
    }
}

/// The settings of object stores: Hadoop's, with Spark's prefix.
pub(crate) fn store_options(conf: &Conf) -> Arc<StoreOptions> {
    let settings = conf.iter().filter_map(|(key, value)| {
        let key = key.strip_prefix("spark.hadoop.")?;
        key.starts_with("fs.").then(|| (key.to_owned(), value.to_owned()))
    });
    Arc::new(StoreOptions::new(settings))
}

/// Refuses what cannot be aimed at.
pub(crate) fn check_cut(site: &CallSite, cut: Cut) -> Result<()> {
    if cut.0 == Some(0) || cut.1 == Some(0) {
        return Err(Error::invalid(site, "partitions and split sizes must be positive"));
    }
    Ok(())
}

/// Cuts files at lines; `default` is the fewest partitions if the user did not say.
pub(crate) fn split(
    conf: &Conf,
    files: Vec<FileRef>,
    cut: Cut,
    default: usize,
) -> Result<Vec<Split>> {
    let max_bytes = match cut.1 {
        Some(bytes) => bytes,
        None => conf.get(&entries::FILES_MAX_PARTITION_BYTES)?.0,
    };
    let total: u64 = files.iter().map(|file| file.len).sum();
    let goal = total.div_ceil(cut.0.unwrap_or(default).max(1) as u64).max(1);
    Ok(split_files(files, goal.min(max_bytes)))
}

/// One split per file.
pub(crate) fn whole(files: Vec<FileRef>) -> Vec<Split> {
    let split = |file: FileRef| Split { location: file.location, start: 0, end: TO_THE_END };
    files.into_iter().map(split).collect()
}
