//! A directory of an object store whose objects come and go one by one: for what is neither input nor output of jobs, such as event
//! logs. Objects are replaced whole and never grow.

use std::fmt;
use std::io;
use std::sync::Arc;

use crate::{Input, StoreOptions};

/// An object of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectEntry {
    /// What follows the directory, with slashes.
    pub name: String,
    /// In bytes.
    pub len: u64,
    /// When it was put, in milliseconds since 1970, as the store says.
    pub modified_ms: u64,
}

#[cfg(feature = "object-store")]
use crate::store::Objects;

/// Without object stores there is none.
#[cfg(not(feature = "object-store"))]
enum Objects {}

/// A directory of an object store.
pub struct ObjectDirectory {
    /// Without a slash at its end.
    url: String,
    objects: Objects,
}

impl fmt::Debug for ObjectDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ObjectDirectory").field(&self.url).finish()
    }
}

#[cfg(feature = "object-store")]
impl ObjectDirectory {
    /// The directory of a URL. Nothing is asked of the store yet: an error is one of the URL or of the settings.
    pub fn open(url: &str, options: &Arc<StoreOptions>) -> io::Result<Self> {
        let objects = Objects::open(url, options)?;
        Ok(ObjectDirectory { url: url.trim_end_matches('/').to_owned(), objects })
    }

    /// Puts an object, whether or not there is one of this name.
    pub fn put(&self, name: &str, bytes: Vec<u8>) -> io::Result<()> {
        self.objects.put(name, bytes)
    }

    /// The bytes of an object from `start` on.
    pub fn read(&self, name: &str, start: u64) -> io::Result<Input> {
        self.objects.read(name, start)
    }

    /// All objects however deep, or those below a name.
    pub fn list(&self, below: Option<&str>) -> io::Result<Vec<ObjectEntry>> {
        self.objects.list(below)
    }

    /// What is directly in it, and everything in its directories whose names begin with `prefix`: what else lies below is not listed,
    /// however much it is.
    pub fn list_chosen(&self, prefix: &str) -> io::Result<Vec<ObjectEntry>> {
        self.objects.list_chosen(prefix)
    }

    /// Removes objects; those that are gone already do no harm.
    pub fn remove(&self, names: &[&str]) -> io::Result<()> {
        self.objects.remove(names)
    }
}

#[cfg(not(feature = "object-store"))]
impl ObjectDirectory {
    pub fn open(_: &str, _: &Arc<StoreOptions>) -> io::Result<Self> {
        Err(crate::output::without_stores())
    }

    pub fn put(&self, _: &str, _: Vec<u8>) -> io::Result<()> {
        match self.objects {}
    }

    pub fn read(&self, _: &str, _: u64) -> io::Result<Input> {
        match self.objects {}
    }

    pub fn list(&self, _: Option<&str>) -> io::Result<Vec<ObjectEntry>> {
        match self.objects {}
    }

    pub fn list_chosen(&self, _: &str) -> io::Result<Vec<ObjectEntry>> {
        match self.objects {}
    }

    pub fn remove(&self, _: &[&str]) -> io::Result<()> {
        match self.objects {}
    }
}

impl ObjectDirectory {
    /// As the user spelled it, without a slash at its end.
    pub fn url(&self) -> &str {
        &self.url
    }
}
