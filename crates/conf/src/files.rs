//! The files of `spark.files`: which there are, and under which names executors find them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// A file that every executor gets a copy of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedFile {
    /// The name under which it is found.
    pub name: String,
    /// Where it is now.
    pub path: PathBuf,
}

/// A file that cannot be given to executors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileListError {
    /// As it was written.
    pub file: String,
    /// Why not, and what to do.
    pub reason: String,
}

impl fmt::Display for FileListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.reason)
    }
}

impl std::error::Error for FileListError {}

/// Where the output of executors goes, in the same directory.
const TAKEN: [&str; 2] = ["stdout", "stderr"];

/// The files of a list, each looked for: it must be there, and no two may have one name. The same file
/// twice is one.
pub fn shared_files<S: AsRef<str>>(list: &[S]) -> Result<Vec<SharedFile>, FileListError> {
    let mut files = BTreeMap::<String, PathBuf>::new();
    for written in list.iter().map(|file| file.as_ref().trim()).filter(|file| !file.is_empty()) {
        let refused = |reason: String| FileListError { file: written.to_owned(), reason };
        let (name, path) = find(written).map_err(refused)?;
        match files.get(&name) {
            Some(other) if *other != path => {
                let other = other.display();
                return Err(refused(format!(
                    "executors would find it as {name}, and {other} too: rename one of them"
                )));
            }
            _ => files.insert(name, path),
        };
    }
    Ok(files.into_iter().map(|(name, path)| SharedFile { name, path }).collect())
}

fn find(written: &str) -> Result<(String, PathBuf), String> {
    let text = written.strip_prefix("file:").unwrap_or(written);
    if let Some((scheme, _)) = text.split_once("://") {
        return Err(format!(
            "a file cannot be fetched by {scheme}: copy it here and give its path"
        ));
    }
    let path = std::path::absolute(Path::new(text)).map_err(|error| error.to_string())?;
    let about = std::fs::metadata(&path)
        .map_err(|error| format!("it cannot be used ({error}): give the path of a file"))?;
    if !about.is_file() {
        return Err("it is not a file: name files one by one".to_owned());
    }
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or("its name is not text: rename it")?;
    if TAKEN.contains(&name) {
        return Err(format!("{name} is the file of what an executor prints: rename it"));
    }
    Ok((name.to_owned(), path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_by_name_and_what_cannot_be_given_is_refused_with_what_to_do() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = directory.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, name).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let (a, b, other) = (file("b.txt"), file("a.txt"), file("x/a.txt"));
        let found = shared_files(&[a.as_str(), &format!("file://{b}"), " ", &b]).unwrap();
        let names: Vec<&str> = found.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["a.txt", "b.txt"]);
        assert_eq!(found[0].path, Path::new(&b));
        for (list, needle) in [
            (vec![b, other.clone()], "rename one of them"),
            (vec![format!("{other}x")], "give the path of a file"),
            (vec![directory.path().to_str().unwrap().to_owned()], "is not a file"),
            (vec!["s3://bucket/file".to_owned()], "copy it here"),
            (vec![file("stdout")], "rename it"),
        ] {
            let error = shared_files(&list).unwrap_err().to_string();
            assert!(error.contains(needle) && error.contains(list.last().unwrap()), "{error}");
        }
        assert_eq!(shared_files::<&str>(&[]), Ok(Vec::new()));
    }
}
