//! Writing: each attempt of a task writes a file of its own, which nobody sees until it is committed.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use bzip2::write::BzEncoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};

use crate::{Compression, StoreOptions};

/// Where attempts write.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Target {
    /// A directory that exists and nobody reads.
    Local(PathBuf),
    /// The directory as it shall be in the end: what is uploaded stays out of sight until it is
    /// completed.
    Remote {
        /// With its scheme, e.g. `s3://bucket/directory`.
        url: String,
        /// How to reach it.
        options: Arc<StoreOptions>,
        /// Tells apart the jobs that write there.
        job: String,
    },
}

/// What an attempt wrote.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Written {
    /// The file's name when it is committed, e.g. `part-00000.gz`.
    pub name: String,
    /// How many bytes are stored.
    pub bytes: u64,
    /// Where they are meanwhile.
    pub at: WrittenAt,
}

/// Where an attempt's bytes are until they are committed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum WrittenAt {
    /// A file in the directory of [`Target::Local`].
    Local(PathBuf),
    /// An upload that is not completed.
    Remote {
        /// The store's name for it.
        upload: String,
        /// The store's names for its parts, in order.
        parts: Vec<String>,
        /// The object that names the upload until the job is over.
        marker: String,
    },
}

/// The file of one attempt. What is written into it counts only after [`Output::finish`]. Writes go
/// through as they come: wrap it in a `BufWriter`.
pub struct Output {
    name: String,
    kind: Option<Kind>,
}

enum Kind {
    Plain(Sink),
    Gzip(GzEncoder<Sink>),
    Zstd(zstd::stream::write::Encoder<'static, Sink>),
    Bzip2(BzEncoder<Sink>),
}

enum Sink {
    Local(File, PathBuf),
    #[cfg(feature = "object-store")]
    Remote(Box<crate::store::Upload>),
}

impl Target {
    /// Starts a file that is to be called `name`, with the ending of its compression.
    pub fn create(
        &self,
        name: &str,
        attempt: u64,
        compression: Option<Compression>,
    ) -> io::Result<Output> {
        let ending = compression.map_or(String::new(), |c| format!(".{}", c.extension()));
        let name = format!("{name}{ending}");
        let sink = self.open(&name, attempt)?;
        let kind = match compression {
            None => Kind::Plain(sink),
            Some(Compression::Gzip) => Kind::Gzip(GzEncoder::new(sink, Default::default())),
            Some(Compression::Zstd) => {
                let mut encoder = zstd::stream::write::Encoder::new(sink, 0)?;
                // Without it, bytes that rot in a plain part of a frame would not be noticed.
                encoder.include_checksum(true)?;
                Kind::Zstd(encoder)
            }
            Some(Compression::Bzip2) => Kind::Bzip2(BzEncoder::new(sink, Default::default())),
        };
        Ok(Output { name, kind: Some(kind) })
    }

    fn open(&self, name: &str, attempt: u64) -> io::Result<Sink> {
        match self {
            Target::Local(directory) => {
                let path = directory.join(format!("{name}.attempt-{attempt}"));
                Ok(Sink::Local(File::create_new(&path)?, path))
            }
            #[cfg(feature = "object-store")]
            Target::Remote { url, options, job } => {
                crate::store::Upload::start(url, options, job, name, attempt)
                    .map(|upload| Sink::Remote(Box::new(upload)))
            }
            #[cfg(not(feature = "object-store"))]
            Target::Remote { .. } => Err(without_stores()),
        }
    }
}

impl Output {
    /// Writes what is left and makes it last.
    pub fn finish(mut self) -> io::Result<Written> {
        let sink = match self.kind.take().expect("it is finished once") {
            Kind::Plain(sink) => sink,
            Kind::Gzip(encoder) => encoder.finish()?,
            Kind::Zstd(encoder) => encoder.finish()?,
            Kind::Bzip2(encoder) => encoder.finish()?,
        };
        let name = std::mem::take(&mut self.name);
        match sink {
            Sink::Local(file, path) => {
                file.sync_data()?;
                Ok(Written { name, bytes: file.metadata()?.len(), at: WrittenAt::Local(path) })
            }
            #[cfg(feature = "object-store")]
            Sink::Remote(upload) => {
                let (bytes, at) = upload.finish()?;
                Ok(Written { name, bytes, at })
            }
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.kind.as_mut().expect("it is not finished") {
            Kind::Plain(sink) => sink.write(bytes),
            Kind::Gzip(encoder) => encoder.write(bytes),
            Kind::Zstd(encoder) => encoder.write(bytes),
            Kind::Bzip2(encoder) => encoder.write(bytes),
        }
    }

    /// Flushing a compressor in the middle only makes the file larger.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::Local(file, _) => file.write(bytes),
            #[cfg(feature = "object-store")]
            Sink::Remote(upload) => upload.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(not(feature = "object-store"))]
pub(crate) fn without_stores() -> io::Error {
    crate::fault::Fault::refused(
        "this program was built without object stores and URLs: enable the feature `object-store` of firesteel",
    )
}
