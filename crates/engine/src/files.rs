//! The files of `spark.files` in the driver: copied when the context starts, so that everybody gets the
//! same bytes whatever becomes of the originals, and removed when it stops.
//!
//! What is behind a URL is downloaded here, once: executors get it from the driver, as they get the others.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firesteel_conf::{ByteSize, Conf, FileSource, SharedFile, entries, shared_files};
use firesteel_io::{DownloadLimits, Location, StoreOptions, download};
use firesteel_storage::LocalDirs;
use firesteel_task::SparkFiles;

use crate::{Error, Result};

/// The copies.
pub(crate) struct Files(Option<Copies>);

struct Copies {
    root: PathBuf,
    names: Vec<String>,
    directories: LocalDirs,
}

impl Files {
    /// Copies what `spark.files` names; nothing is made if that is nothing.
    pub(crate) fn gather(conf: &Conf) -> Result<Self> {
        let list = conf.get(&entries::FILES)?;
        let refused = |file: &str, reason: String| Error::File { file: file.to_owned(), reason };
        let files = shared_files(&list).map_err(|error| refused(&error.file, error.reason))?;
        if files.is_empty() {
            return Ok(Files(None));
        }
        let roots = conf.get(&entries::LOCAL_DIR)?;
        let directories = LocalDirs::new(roots.into_iter().map(PathBuf::from).collect());
        let root = directories.create_directory("files").map_err(|source| Error::Start {
            what: "the context: the directory of spark.files".to_owned(),
            source: Arc::new(source),
        })?;
        for file in &files {
            let copied = copy(conf, file, &root)?;
            copied.map_err(|error| refused(&file.source.to_string(), error.to_string()))?;
        }
        let names = files.into_iter().map(|file| file.name).collect();
        SparkFiles::set_root_directory(root.clone());
        Ok(Files(Some(Copies { root, names, directories })))
    }

    /// Where they are, if there are any.
    pub(crate) fn root(&self) -> Option<&Path> {
        self.0.as_ref().map(|copies| &*copies.root)
    }

    /// Names and places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, PathBuf)> {
        let copies = self.0.iter();
        copies.flat_map(|copies| {
            copies.names.iter().map(|name| (name.as_str(), copies.root.join(name)))
        })
    }

    /// The executable and the files, with who handed them over: what listeners hear of them.
    pub(crate) fn resources(&self) -> BTreeMap<String, String> {
        let shown = |path: PathBuf| path.display().to_string();
        let executable = std::env::current_exe().ok().map(|path| (shown(path), "Executable"));
        let files = self.iter().map(|(_, path)| (shown(path), "Added By User"));
        let all = executable.into_iter().chain(files);
        all.map(|(path, whose)| (path, whose.to_owned())).collect()
    }

    /// Removes the copies.
    pub(crate) fn remove(&self) {
        if let Some(copies) = &self.0 {
            SparkFiles::unset_root_directory(&copies.root);
            copies.directories.remove();
        }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        self.remove();
    }
}

/// As executors have it: theirs to read, write and run.
fn copy(conf: &Conf, file: &SharedFile, root: &Path) -> Result<io::Result<()>> {
    let ByteSize(max_bytes) = conf.get(&entries::FILES_MAX_SIZE)?;
    let limits = DownloadLimits { max_bytes, silence: conf.get(&entries::FILES_FETCH_TIMEOUT)? };
    let target = root.join(&file.name);
    let copied = match &file.source {
        FileSource::Path(path) => std::fs::copy(path, &target),
        FileSource::Url(url) => download(&Location::parse(url, &stores(conf)), &target, &limits),
    };
    let permissions = std::fs::Permissions::from_mode(0o700);
    Ok(copied.and_then(|_| std::fs::set_permissions(&target, permissions)))
}

/// The settings of object stores: Hadoop's, with Spark's prefix.
fn stores(conf: &Conf) -> Arc<StoreOptions> {
    let settings = conf.iter().filter_map(|(key, value)| {
        let key = key.strip_prefix("spark.hadoop.")?;
        key.starts_with("fs.").then(|| (key.to_owned(), value.to_owned()))
    });
    Arc::new(StoreOptions::new(settings))
}
