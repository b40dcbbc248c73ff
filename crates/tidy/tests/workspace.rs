//! Walks the workspace and applies the house rules to every text file in it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use firesteel_tidy::{PURE_CORES, Source, check, check_guides, check_settings, registered};

/// Built, fetched or owned by git: not ours to tidy.
const SKIPPED_DIRECTORIES: &[&str] = &["target", ".git"];

/// Endings of files that people write. Files without an ending (`test`, `bench`, `.ci/run`) count too.
const ENDINGS: &[&str] = &["rs", "toml", "md", "py", "scala", "sh", "yml", "yaml"];

fn workspace() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).expect("this package is two directories deep").to_owned()
}

fn is_written_by_people(path: &Path) -> bool {
    path.extension().is_none_or(|ending| ENDINGS.iter().any(|e| ending == *e))
}

fn files_under(directory: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(directory)
        .unwrap_or_else(|error| panic!("cannot list {}: {error}", directory.display()))
        .map(|entry| entry.expect("a directory entry can be read").path())
        .collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if SKIPPED_DIRECTORIES.contains(&name) || path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            files_under(&path, found);
        } else if is_written_by_people(&path) {
            found.push(path);
        }
    }
}

fn sources() -> Vec<Source> {
    let (root, mut files) = (workspace(), Vec::new());
    files_under(&root, &mut files);
    let read = |path: PathBuf| {
        let text = String::from_utf8(fs::read(&path).ok()?).ok()?; // not text: nothing to tidy
        let relative = path.strip_prefix(&root).expect("found under the root");
        Some(Source::new(relative.to_string_lossy().replace('\\', "/"), text))
    };
    files.into_iter().filter_map(read).collect()
}

#[test]
fn every_file_of_the_workspace_keeps_the_house_rules() {
    let complaints: Vec<String> =
        sources().iter().flat_map(check).map(|complaint| complaint.to_string()).collect();
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
}

#[test]
fn every_registered_setting_is_read_by_something() {
    let sources = sources();
    let entries = sources.iter().map(|source| registered(source).len()).sum::<usize>();
    assert!(entries > 100, "only {entries} entries were found");
    let complaints: Vec<String> = check_settings(&sources).iter().map(|c| c.to_string()).collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn the_guides_have_no_dead_links_and_keep_to_their_length() {
    let (root, sources) = (workspace(), sources());
    assert!(sources.iter().any(|source| source.path == "docs/SUMMARY.md"), "the book has contents");
    let complaints = check_guides(&sources, |path| root.join(path).exists());
    let complaints: Vec<String> = complaints.iter().map(|c| c.to_string()).collect();
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
}

#[test]
fn the_walk_reaches_the_cores_the_scripts_and_this_file() {
    let sources = sources();
    let is_found = |start: &str| sources.iter().any(|source| source.path.starts_with(start));
    for start in PURE_CORES.iter().chain(&["crates/tidy/tests/workspace.rs", "test", ".ci/run"]) {
        assert!(is_found(start), "no file {start}");
    }
    assert!(!is_found("target/") && !is_found(".git/"));
}
