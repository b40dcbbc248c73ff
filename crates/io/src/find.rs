//! Finding input files: comma-separated paths and URLs, globs, directories.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Location, StoreOptions};

/// A file that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRef {
    /// A path, or a URL with the settings of its store.
    pub location: Location,
    /// How many bytes are stored.
    pub len: u64,
}

/// Why files could not be found.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// A path matches nothing.
    #[error("input path {pattern:?} does not exist or matches no file")]
    Nothing {
        /// The path or pattern.
        pattern: String,
    },
    /// A path is not a valid pattern.
    #[error("input path {pattern:?} is not a valid pattern: {reason}")]
    Pattern {
        /// The path or pattern.
        pattern: String,
        /// The mistake, and where in the pattern it is.
        reason: String,
    },
    /// A file is there but cannot be read, or a store cannot be asked.
    #[error("input file {path:?} cannot be read: {source}")]
    Unreadable {
        /// The file, or the pattern if its store did not answer.
        path: PathBuf,
        /// The error of the system or of the store.
        source: io::Error,
    },
}

/// The files that `paths` names, in the order given, those of one pattern sorted.
pub fn find(paths: &str, options: &Arc<StoreOptions>) -> Result<Vec<FileRef>, FindError> {
    let mut files = Vec::new();
    for pattern in split_paths(paths) {
        let pattern = pattern.trim();
        match Location::parse(pattern, options) {
            Location::Local(path) => find_local(pattern, &path.to_string_lossy(), &mut files)?,
            Location::Remote { url, .. } => {
                let found = find_remote(&url, options)
                    .map_err(|source| FindError::Unreadable { path: pattern.into(), source })?;
                if found.is_empty() {
                    return Err(FindError::Nothing { pattern: pattern.to_owned() });
                }
                files.extend(found);
            }
        }
    }
    Ok(files)
}

#[cfg(feature = "object-store")]
fn find_remote(url: &str, options: &Arc<StoreOptions>) -> io::Result<Vec<FileRef>> {
    let mut found = Vec::new();
    for alternative in alternatives(url) {
        found.extend(crate::store::find(&alternative, options)?);
    }
    Ok(found)
}

#[cfg(not(feature = "object-store"))]
fn find_remote(_: &str, _: &Arc<StoreOptions>) -> io::Result<Vec<FileRef>> {
    Err(crate::output::without_stores())
}

fn find_local(pattern: &str, path: &str, files: &mut Vec<FileRef>) -> Result<(), FindError> {
    let found = expand(path)?;
    if found.is_empty() {
        return Err(FindError::Nothing { pattern: pattern.to_owned() });
    }
    found.iter().try_for_each(|path| add_files(path, true, files))
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
fn expand(pattern: &str) -> Result<Vec<PathBuf>, FindError> {
    if pattern.is_empty() {
        return Err(FindError::Nothing { pattern: pattern.to_owned() });
    }
    if Path::new(pattern).exists() {
        return Ok(vec![pattern.into()]);
    }
    let options = glob::MatchOptions { require_literal_leading_dot: true, ..Default::default() };
    let mut found = Vec::new();
    for alternative in alternatives(pattern) {
        let matches = glob::glob_with(&alternative, options).map_err(|error| {
            FindError::Pattern { pattern: pattern.to_owned(), reason: error.to_string() }
        })?;
        for path in matches {
            found.push(path.map_err(|error| FindError::Unreadable {
                path: error.path().to_owned(),
                source: error.into(),
            })?);
        }
    }
    found.retain(|path| !is_hidden(path) || is_hidden(Path::new(pattern)));
    found.sort();
    found.dedup();
    Ok(found)
}

/// Markers and what is not committed yet: `_SUCCESS`, `._temporary`, ...
pub(crate) fn is_hidden(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy());
    name.is_some_and(|name| name.starts_with('_') || name.starts_with('.'))
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
fn add_files(path: &Path, top: bool, files: &mut Vec<FileRef>) -> Result<(), FindError> {
    let unreadable = |source| FindError::Unreadable { path: path.to_owned(), source };
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
        return Err(unreadable(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file",
        )));
    }
    File::open(path).map_err(unreadable)?;
    files.push(FileRef { location: Location::Local(path.to_owned()), len: metadata.len() });
    Ok(())
}

fn sorted_entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries: io::Result<Vec<_>> = std::fs::read_dir(directory)?.collect();
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
