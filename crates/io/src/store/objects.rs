//! Objects of a directory, put, listed, read and removed one by one.

use std::io;
use std::sync::Arc;

use object_store::{ObjectMeta, ObjectStoreExt, PutPayload};

use super::directory::Directory;
use crate::{Input, Location, ObjectEntry, StoreOptions};

/// So many objects of others are passed over before directories are listed one by one.
const OTHERS: usize = 10_000;

/// A directory of an object store.
pub(crate) struct Objects {
    directory: Directory,
    options: Arc<StoreOptions>,
}

impl Objects {
    pub(crate) fn open(url: &str, options: &Arc<StoreOptions>) -> io::Result<Self> {
        Ok(Objects { directory: Directory::of(url, options)?, options: options.clone() })
    }

    pub(crate) fn put(&self, name: &str, bytes: Vec<u8>) -> io::Result<()> {
        let (objects, path) = (self.directory.objects(), self.directory.path(name));
        let put = async move { objects.put(&path, PutPayload::from(bytes)).await.map(drop) };
        self.directory.run(put)
    }

    pub(crate) fn read(&self, name: &str, start: u64) -> io::Result<Input> {
        let url = self.directory.url_of(&self.directory.path(name));
        let location = Location::Remote { url, options: self.options.clone() };
        Input::open_at(&location, start, u64::MAX)
    }

    /// What is below a name, or all there is.
    pub(crate) fn list(&self, below: Option<&str>) -> io::Result<Vec<ObjectEntry>> {
        let found = match below {
            Some(name) => self.directory.list_below(name)?,
            None => self.directory.list()?,
        };
        Ok(self.entries(found))
    }

    /// What is directly in it, and everything in its directories whose names begin with `prefix`.
    pub(crate) fn list_chosen(&self, prefix: &str) -> io::Result<Vec<ObjectEntry>> {
        Ok(self.entries(self.directory.list_chosen(prefix, OTHERS)?))
    }

    fn entries(&self, found: Vec<ObjectMeta>) -> Vec<ObjectEntry> {
        let root = self.directory.root();
        let entry = |meta: ObjectMeta| {
            let name = meta.location.as_ref().strip_prefix(root.as_ref())?.trim_start_matches('/');
            let modified_ms = u64::try_from(meta.last_modified.timestamp_millis()).unwrap_or(0);
            Some(ObjectEntry { name: name.to_owned(), len: meta.size, modified_ms })
        };
        found.into_iter().filter_map(entry).collect()
    }

    pub(crate) fn remove(&self, names: &[&str]) -> io::Result<()> {
        self.directory.delete(names.iter().map(|name| self.directory.path(name)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_other_directories_is_not_listed_however_much_it_is() {
        let (directory, options) = (Directory::in_memory(), Arc::new(StoreOptions::default()));
        let objects = Objects { directory, options };
        let logs = ["app-1", "log_a/deep/2", "log_a/events_1", "log_b/events_1"];
        let others = ["a/1", "other/2", "other/deep/3", "z/log_c/4"];
        for name in logs.iter().chain(&others) {
            objects.put(name, Vec::new()).unwrap();
        }
        for most_others in [0, others.len() - 1, others.len()] {
            let found = objects.directory.list_chosen("log_", most_others).unwrap();
            let mut names: Vec<_> =
                objects.entries(found).into_iter().map(|entry| entry.name).collect();
            names.sort();
            assert_eq!(names, logs, "{most_others}");
        }
    }
}
