//! A file of this machine as one object.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use object_store::{MultipartUpload, ObjectStoreExt, PutPayload};

use super::{Address, explain, wait};
use crate::StoreOptions;

/// Stores want parts of 5 MiB or more.
const PART_BYTES: u64 = 8 << 20;

/// Uploads it part by part: so many bytes. What is not finished is withdrawn.
pub(crate) fn put_file(url: &str, options: &Arc<StoreOptions>, from: &Path) -> io::Result<u64> {
    let address = Address::of(url, options)?;
    let scheme = address.store.scheme;
    let explained = |error| explain(scheme, url, error);
    let mut file = File::open(from)?;
    let (store, path) = (address.store.objects.clone(), address.path());
    let started = wait(async move { store.put_multipart(&path).await })?;
    let mut upload = started.map_err(explained)?;
    match send(&mut *upload, &mut file, explained) {
        Ok(bytes) => {
            wait(async move { upload.complete().await })?.map_err(explained)?;
            Ok(bytes)
        }
        Err(error) => {
            let _ = wait(async move { upload.abort().await });
            Err(error)
        }
    }
}

/// An empty file has one empty part.
fn send(
    upload: &mut dyn MultipartUpload,
    file: &mut File,
    explained: impl Fn(object_store::Error) -> io::Error + Copy,
) -> io::Result<u64> {
    let mut bytes = 0;
    loop {
        let mut part = Vec::new();
        file.by_ref().take(PART_BYTES).read_to_end(&mut part)?;
        let length = part.len() as u64;
        if length == 0 && bytes > 0 {
            return Ok(bytes);
        }
        bytes += length;
        let sent = upload.put_part(PutPayload::from(part));
        wait(sent)?.map_err(explained)?;
        if length < PART_BYTES {
            return Ok(bytes);
        }
    }
}
