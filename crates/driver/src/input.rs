//! Finding input files: comma-separated paths, globs, directories; cutting them into splits.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firesteel_rdd::text::{Split, split_files};

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

/// The splits of all files that `paths` names.
pub(crate) fn plan(paths: &str, min_partitions: usize, max_bytes: u64) -> Result<Vec<Split>> {
    let files = find_files(paths)?;
    let total: u64 = files.iter().map(|(_, len)| len).sum();
    let goal = total.div_ceil(min_partitions.max(1) as u64).max(1);
    Ok(split_files(files, goal.min(max_bytes)))
}

fn find_files(paths: &str) -> Result<Vec<(PathBuf, u64)>> {
    let mut files = Vec::new();
    for pattern in split_paths(paths) {
        let pattern = pattern.trim();
        let local = pattern.strip_prefix("file://").or_else(|| pattern.strip_prefix("file:"));
        let found = expand(local.unwrap_or(pattern))?;
        if found.is_empty() {
            return Err(Error::NoInput { pattern: pattern.to_owned() });
        }
        for path in found {
            add_files(&path, true, &mut files)?;
        }
    }
    Ok(files)
}

/// Splits at commas outside of `{a,b}`.
fn split_paths(paths: &str) -> Vec<&str> {
    let mut depth = 0usize;
    paths
        .split(move |c| {
            match c {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            c == ',' && depth == 0
        })
        .collect()
}

/// The paths that a pattern matches, sorted. A path that exists as it is spelled is itself.
fn expand(pattern: &str) -> Result<Vec<PathBuf>> {
    if pattern.is_empty() {
        return Err(Error::NoInput { pattern: pattern.to_owned() });
    }
    if Path::new(pattern).exists() {
        return Ok(vec![pattern.into()]);
    }
    let options = glob::MatchOptions { require_literal_leading_dot: true, ..Default::default() };
    let mut found = Vec::new();
    for alternative in alternatives(pattern) {
        let matches = glob::glob_with(&alternative, options).map_err(|error| {
            Error::InputPattern { pattern: pattern.to_owned(), reason: error.to_string() }
        })?;
        for path in matches {
            found.push(path.map_err(|error| Error::UnreadableInput {
                path: error.path().to_owned(),
                source: Arc::new(error.into()),
            })?);
        }
    }
    found.retain(|path| !is_hidden(path) || names_hidden(pattern));
    found.sort();
    found.dedup();
    Ok(found)
}

/// Markers and what is not committed yet: `_SUCCESS`, `._temporary`, ...
fn is_hidden(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy());
    name.is_some_and(|name| name.starts_with('_') || name.starts_with('.'))
}

/// Whether a pattern asks for hidden files in so many words.
fn names_hidden(pattern: &str) -> bool {
    is_hidden(Path::new(pattern))
}

/// Expands the first `{a,b}` and, by recursion, the others.
fn alternatives(pattern: &str) -> Vec<String> {
    let Some((before, rest)) = pattern.split_once('{') else { return vec![pattern.to_owned()] };
    let Some((choices, after)) = rest.split_once('}') else { return vec![pattern.to_owned()] };
    choices
        .split(',')
        .flat_map(|choice| alternatives(&format!("{before}{choice}{after}")))
        .collect()
}

/// Adds a file, or the files of a directory: not those whose names start with `_` or `.`, which are
/// markers and temporary files. A directory inside a directory is refused, as in Spark.
fn add_files(path: &Path, top: bool, files: &mut Vec<(PathBuf, u64)>) -> Result<()> {
    let unreadable =
        |source| Error::UnreadableInput { path: path.to_owned(), source: Arc::new(source) };
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    if metadata.is_dir() {
        if !top {
            let inside = "it is a directory inside an input directory; name it, or use a glob";
            return Err(unreadable(io::Error::new(io::ErrorKind::IsADirectory, inside)));
        }
        for entry in sorted_entries(path).map_err(unreadable)? {
            add_files(&entry, false, files)?;
        }
        return Ok(());
    }
    if !metadata.is_file() {
        // A pipe or a device has no length to cut into splits, and opening it may wait for ever.
        let kind =
            std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is not a regular file");
        return Err(unreadable(kind));
    }
    File::open(path).map_err(unreadable)?;
    files.push((path.to_owned(), metadata.len()));
    Ok(())
}

fn sorted_entries(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries: std::io::Result<Vec<_>> = std::fs::read_dir(directory)?.collect();
    let mut paths: Vec<PathBuf> =
        entries?.into_iter().map(|entry| entry.path()).filter(|path| !is_hidden(path)).collect();
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_separate_paths_but_not_alternatives() {
        assert_eq!(split_paths("a,b/{c,d}/e,f"), ["a", "b/{c,d}/e", "f"]);
        assert_eq!(alternatives("x/{a,b}/{1,2}"), ["x/a/1", "x/a/2", "x/b/1", "x/b/2"]);
        assert_eq!(alternatives("x/{a"), ["x/{a"]);
    }
}
