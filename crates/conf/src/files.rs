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
    pub source: FileSource,
}

/// Where a file is before it is copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileSource {
    /// On this machine: an absolute path, and there was a file.
    Local(PathBuf),
    /// Behind a URL, as it was written; nobody has looked yet.
    Url(String),
}

impl fmt::Display for FileSource {
    /// A URL without its query, which may be a credential.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileSource::Local(path) => write!(f, "{}", path.display()),
            FileSource::Url(url) => f.write_str(without_query(url)),
        }
    }
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

/// The files of a list, each looked for if it is of this machine: it must be there, and no two may have one name. The same
/// file twice is one.
pub fn shared_files<S: AsRef<str>>(list: &[S]) -> Result<Vec<SharedFile>, FileListError> {
    let mut files = BTreeMap::<String, FileSource>::new();
    for written in list.iter().map(|file| file.as_ref().trim()).filter(|file| !file.is_empty()) {
        let SharedFile { name, source } = shared_file(written)?;
        match files.get(&name) {
            Some(other) if *other != source => {
                let reason = format!(
                    "executors would find it as {name}, and {other} too: rename one of them"
                );
                return Err(FileListError { file: shown(written), reason });
            }
            _ => files.insert(name, source),
        };
    }
    Ok(files.into_iter().map(|(name, source)| SharedFile { name, source }).collect())
}

/// One such file: a path, a `file:` URL, or a URL of which only the name is known yet.
pub fn shared_file(written: &str) -> Result<SharedFile, FileListError> {
    let found = match url_scheme(written).filter(|scheme| !scheme.eq_ignore_ascii_case("file")) {
        Some(scheme) => {
            url_name(scheme, written).map(|name| (name, FileSource::Url(written.to_owned())))
        }
        None => find(written).map(|(name, path)| (name, FileSource::Local(path))),
    };
    let (name, source) = found.map_err(|reason| FileListError { file: shown(written), reason })?;
    if TAKEN.contains(&name.as_str()) {
        let reason = format!("{name} is the file of what an executor prints: rename it");
        return Err(FileListError { file: shown(written), reason });
    }
    Ok(SharedFile { name, source })
}

/// What stands before `://`, if that is the scheme of a URL.
pub fn url_scheme(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once("://")?;
    let is_valid = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let starts = scheme.starts_with(|c: char| c.is_ascii_alphabetic());
    (starts && scheme.chars().all(is_valid)).then_some(scheme)
}

/// As it was written, without the query of a URL.
fn shown(written: &str) -> String {
    let shown = if url_scheme(written).is_some() { without_query(written) } else { written };
    shown.to_owned()
}

/// Queries are for web servers: in a key of a store, these are letters like others.
fn without_query(url: &str) -> &str {
    if is_web(url_scheme(url).unwrap_or_default()) {
        url.split(['?', '#']).next().unwrap_or_default()
    } else {
        url
    }
}

fn is_web(scheme: &str) -> bool {
    scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
}

/// The name of what is behind a URL: the last part of its path.
fn url_name(scheme: &str, url: &str) -> Result<String, String> {
    let rest = &without_query(url)[scheme.len() + "://".len()..];
    let last = rest.split_once('/').and_then(|(_, path)| path.rsplit('/').next());
    let last = last.unwrap_or_default();
    let name = if is_web(scheme) { decoded(last) } else { Some(last.to_owned()) };
    let usable = |name: &String| !name.is_empty() && name != "." && name != "..";
    let plain = |name: &String| !name.contains(['/', '\0']);
    name.filter(usable).filter(plain).ok_or_else(|| {
        "the URL has no name for a file at its end: write one such as https://host/rules.txt"
            .to_owned()
    })
}

/// The text that was written with `%20` and the like; `None` if it is no text.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let pair = after.get(..2).and_then(|pair| std::str::from_utf8(pair).ok());
        let byte = pair.and_then(|pair| u8::from_str_radix(pair, 16).ok());
        match byte.filter(|_| first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

fn find(written: &str) -> Result<(String, PathBuf), String> {
    let text = written.strip_prefix("file:").unwrap_or(written);
    let path = std::path::absolute(Path::new(text)).map_err(|error| error.to_string())?;
    let about = std::fs::metadata(&path)
        .map_err(|error| format!("it cannot be used ({error}): give the path of a file"))?;
    if !about.is_file() {
        return Err("it is not a file: name files one by one".to_owned());
    }
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or("its name is not text: rename it")?;
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
        assert_eq!(found[0].source, FileSource::Local(b.clone().into()));
        for (list, needle) in [
            (vec![b, other.clone()], "rename one of them"),
            (vec![format!("{other}x")], "give the path of a file"),
            (vec![directory.path().to_str().unwrap().to_owned()], "is not a file"),
            (vec!["s3://bucket".to_owned()], "no name for a file"),
            (vec!["https://host/a/..".to_owned()], "no name for a file"),
            (vec!["https://host/a%2fb".to_owned()], "no name for a file"),
            (vec!["https://host/stdout".to_owned()], "rename it"),
            (vec![file("stdout")], "rename it"),
        ] {
            let error = shared_files(&list).unwrap_err().to_string();
            assert!(error.contains(needle) && error.contains(list.last().unwrap()), "{error}");
        }
        assert_eq!(shared_files::<&str>(&[]), Ok(Vec::new()));
    }

    #[test]
    fn a_url_names_the_file_at_its_end_and_its_query_is_not_shown() {
        for (url, name, shown) in [
            ("http://h/a/b.txt", "b.txt", "http://h/a/b.txt"),
            ("https://h/a%20b.txt?token=secret", "a b.txt", "https://h/a%20b.txt"),
            ("HTTPS://h/x#part", "x", "HTTPS://h/x"),
            ("s3://bucket/key?of%20it", "key?of%20it", "s3://bucket/key?of%20it"),
            ("hdfs://h/x", "x", "hdfs://h/x"),
        ] {
            let found = shared_file(url).unwrap();
            assert_eq!((found.name.as_str(), found.source.to_string().as_str()), (name, shown));
            assert_eq!(found.source, FileSource::Url(url.to_owned()));
        }
        let two = shared_files(&["http://h/a/x?secret", "http://h/b/x"]).unwrap_err().to_string();
        assert!(two.contains("rename one of them") && !two.contains("secret"), "{two}");
    }
}
