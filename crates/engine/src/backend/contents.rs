//! What the driver serves to workers by its hash: its own executable, and the files of `spark.files`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use firesteel_backend::Address;
use firesteel_backend::command::{Served, ServedFile};
use firesteel_closure::{ExecutableHash, open_current};
use firesteel_rpc::{OpenError, RpcAddress, StreamBody};
use firesteel_types::Host;
use tokio::sync::Semaphore;

use crate::files::Files;

/// Everything that can be asked for; nothing else is opened.
pub(super) struct Contents {
    /// Held open: what is served is what runs, also after its file was replaced.
    executable: File,
    executable_hash: [u8; 32],
    files: BTreeMap<[u8; 32], PathBuf>,
    named: Vec<ServedFile>,
    /// One for each worker that is served at once.
    places: Arc<Semaphore>,
}

impl Contents {
    /// Reads the files once, for their hashes.
    pub(super) fn new(
        hash: ExecutableHash,
        shared: &Files,
        max_downloads: usize,
    ) -> io::Result<Self> {
        let mut contents = Contents {
            executable: open_current()?,
            executable_hash: hash.bytes(),
            files: BTreeMap::new(),
            named: Vec::new(),
            places: Arc::new(Semaphore::new(max_downloads)),
        };
        for (name, path) in shared.iter() {
            let file = File::open(&path)?;
            let bytes = file.metadata()?.len();
            let mut hasher = blake3::Hasher::new();
            hasher.update_reader(file)?;
            let hash = *hasher.finalize().as_bytes();
            contents.files.insert(hash, path);
            contents.named.push(ServedFile { name: name.to_owned(), bytes, hash });
        }
        Ok(contents)
    }

    /// What workers are told of it.
    pub(super) fn served_at(&self, address: &RpcAddress) -> io::Result<Served> {
        Ok(Served {
            address: Address { host: Host::new(&address.host), port: address.port },
            program_bytes: self.executable.metadata()?.len(),
            files: self.named.clone(),
        })
    }

    /// From this byte on, unless as many workers are served as may be at once: these serve others.
    pub(super) fn open(&self, hash: &[u8; 32], offset: u64) -> Result<StreamBody, OpenError> {
        let file = match self.files.get(hash) {
            Some(path) => File::open(path)?,
            None if *hash == self.executable_hash => self.executable.try_clone()?,
            None => return Err(OpenError::Missing),
        };
        let place = self.places.clone().try_acquire_owned().map_err(|_| OpenError::Busy)?;
        let length = file.metadata()?.len().saturating_sub(offset);
        Ok(StreamBody::File { file, offset, length }.holding(place))
    }
}
