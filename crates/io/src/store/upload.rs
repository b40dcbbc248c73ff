//! What one attempt of a task writes: an upload that stays out of sight until the job is committed.
//!
//! Beside it lies a marker, `_temporary/JOB/NAME.attempt-N`, with the upload's path and id: by that it is aborted if its
//! attempt and its executor are gone.

use std::io::{self, Write};
use std::sync::Arc;

use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};

use super::directory::{Directory, or_gone};
use super::{object_path, wait};
use crate::{StoreOptions, WrittenAt};

/// Stores want parts of 5 MiB or more, and all but the last alike; 10,000 of them are 80 GB.
const PART_BYTES: usize = 8 << 20;

/// What is written by one attempt.
pub(crate) struct Upload {
    directory: Directory,
    path: Path,
    marker: Path,
    id: String,
    parts: Vec<String>,
    buffer: Vec<u8>,
    bytes: u64,
    finished: bool,
}

impl Upload {
    pub(crate) fn start(
        directory: &str,
        options: &Arc<StoreOptions>,
        job: &str,
        name: &str,
        attempt: u64,
    ) -> io::Result<Self> {
        let directory = Directory::of(directory, options)?;
        let path = directory.path(name);
        let marker = directory.path(&format!("_temporary/{job}/{name}.attempt-{attempt}"));
        let id = begin(&directory, path.clone(), marker.clone())?;
        let (parts, buffer) = (Vec::new(), Vec::new());
        Ok(Upload { directory, path, marker, id, parts, buffer, bytes: 0, finished: false })
    }

    fn send_part(&mut self) -> io::Result<()> {
        let data = PutPayload::from(std::mem::take(&mut self.buffer));
        let (store, path, id) = (self.directory.uploads(), self.path.clone(), self.id.clone());
        let index = self.parts.len();
        self.bytes += data.content_length() as u64;
        let sent = async move { store.put_part(&path, &id, index, data).await };
        self.parts.push(self.directory.run(sent)?.content_id);
        Ok(())
    }

    /// Sends what is left; the upload waits for the commit then. An empty file has one empty part.
    pub(crate) fn finish(mut self) -> io::Result<(u64, WrittenAt)> {
        if !self.buffer.is_empty() || self.parts.is_empty() {
            self.send_part()?;
        }
        self.finished = true;
        let parts = std::mem::take(&mut self.parts);
        let (upload, marker) = (self.id.clone(), self.marker.to_string());
        Ok((self.bytes, WrittenAt::Remote { upload, parts, marker }))
    }
}

/// Starts an upload and says where to find it.
fn begin(directory: &Directory, path: Path, marker: Path) -> io::Result<String> {
    let (store, objects) = (directory.uploads(), directory.objects());
    directory.run(async move {
        let id = store.create_multipart(&path).await?;
        let named = PutPayload::from(format!("{path}\n{id}"));
        if let Err(error) = objects.put(&marker, named).await {
            let _ = store.abort_multipart(&path, &id).await;
            return Err(error);
        }
        Ok(id)
    })
}

/// The path and id of the upload that a marker names.
pub(super) fn named_upload(marker: &[u8]) -> Option<(Path, String)> {
    let text = String::from_utf8_lossy(marker);
    let (path, id) = text.split_once('\n')?;
    Some((object_path(path), id.to_owned()))
}

impl Write for Upload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(PART_BYTES - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..taken]);
        if self.buffer.len() == PART_BYTES {
            self.send_part()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An attempt that failed gives its upload up, as far as it can; what it cannot, the job's end does.
impl Drop for Upload {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let (store, path, id) = (self.directory.uploads(), self.path.clone(), self.id.clone());
        let (objects, marker) = (self.directory.objects(), self.marker.clone());
        let _ = wait(async move {
            if or_gone(store.abort_multipart(&path, &id).await).is_ok() {
                let _ = objects.delete(&marker).await;
            }
        });
    }
}
