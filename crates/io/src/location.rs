//! Where a file is: a path of this machine, or a URL of a store.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Settings of object stores: what follows `spark.hadoop.`, e.g. `fs.s3a.endpoint`. They travel with the
/// locations they are for.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StoreOptions(BTreeMap<String, String>);

impl StoreOptions {
    /// These settings, without the prefix.
    pub fn new(settings: impl IntoIterator<Item = (String, String)>) -> Self {
        StoreOptions(settings.into_iter().collect())
    }

    /// The value of a key without its prefix, e.g. `fs.s3a.endpoint`; `None` if it is not set.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }
}

/// Some of the values are secrets.
impl fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Where a file or directory is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Location {
    /// A path of this machine.
    Local(PathBuf),
    /// A URL of an object store or a web server.
    Remote {
        /// As the user spelled it, or with a listed name at its end.
        url: String,
        /// How to reach it.
        options: Arc<StoreOptions>,
    },
}

impl Location {
    /// Reads a path or URL; `file:` URLs are paths.
    pub fn parse(text: &str, options: &Arc<StoreOptions>) -> Self {
        let local = text.strip_prefix("file://").or_else(|| text.strip_prefix("file:"));
        match local {
            Some(path) => Location::Local(path.into()),
            None if scheme(text).is_some() => {
                Location::Remote { url: text.to_owned(), options: options.clone() }
            }
            None => Location::Local(text.into()),
        }
    }

    /// What is called `name` in this directory.
    pub fn child(&self, name: &str) -> Self {
        match self {
            Location::Local(path) => Location::Local(path.join(name)),
            Location::Remote { url, options } => {
                let url = format!("{}/{name}", url.trim_end_matches('/'));
                Location::Remote { url, options: options.clone() }
            }
        }
    }

    /// Removes this directory and what is in it.
    pub fn remove_directory(&self) -> std::io::Result<()> {
        match self {
            Location::Local(path) => std::fs::remove_dir_all(path),
            #[cfg(feature = "object-store")]
            Location::Remote { url, options } => crate::store::remove_directory(url, options),
            #[cfg(not(feature = "object-store"))]
            Location::Remote { .. } => Err(crate::output::without_stores()),
        }
    }

    /// The path, if it is one of this machine.
    pub fn local(&self) -> Option<&Path> {
        match self {
            Location::Local(path) => Some(path),
            Location::Remote { .. } => None,
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Local(path) => write!(f, "{}", path.display()),
            Location::Remote { url, .. } => f.write_str(url),
        }
    }
}

/// What stands before `://`, if that is a scheme.
pub(crate) fn scheme(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once("://")?;
    let valid = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let starts = scheme.starts_with(|c: char| c.is_ascii_alphabetic());
    (starts && scheme.chars().all(valid)).then_some(scheme)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_told_from_paths() {
        let options = Arc::default();
        let of = |text| Location::parse(text, &options);
        for (text, path) in [("a/b", "a/b"), ("file:///a", "/a"), ("file:a", "a"), ("a://b/c*", "")]
        {
            assert_eq!(of(text).local(), (!path.is_empty()).then_some(Path::new(path)), "{text}");
        }
        assert_eq!(of("/x/a b://c").local(), Some(Path::new("/x/a b://c")));
        assert_eq!(of("s3a://bucket/key").to_string(), "s3a://bucket/key");
        assert_eq!(of("s3a://bucket/key/").child("x").to_string(), "s3a://bucket/key/x");
        assert_eq!(of("file:///a/").child("x").local(), Some(Path::new("/a/x")));
    }

    #[test]
    fn secrets_are_not_shown() {
        let options = StoreOptions::new([("fs.s3a.secret.key".to_owned(), "hush".to_owned())]);
        let shown = format!("{options:?}");
        assert!(shown.contains("fs.s3a.secret.key") && !shown.contains("hush"), "{shown}");
    }
}
