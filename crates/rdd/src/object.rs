//! Object files: items in our own encoding, with the shape of their type in front.
//!
//! ```text
//! file := "FSTLOBJ2" | shape_len u32 | shape (text) | crc32 u32 | blocks of records | end
//! ```
//! Spark's object files hold Java's serialisation, which nothing but Java reads.

use std::io::{self, BufReader, Read, Write};
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use firesteel_closure::{Data, Value, wire};
use firesteel_io::{FileRef, Input, Location};
use firesteel_shuffle::{Codec, FramedReader, FramedWriter, ReadError, SpillError};
use firesteel_task::{TaskContext, fail_for_good};

use crate::Pipe;
use crate::malformed::shown;
use crate::shape::shape_of;
use crate::text::{fail_opening, fail_reading};
use crate::write::{RowFormat, WriteError};

const MAGIC: &[u8; 8] = b"FSTLOBJ2";
const LARGEST_SHAPE: u32 = 1 << 20;
const BUFFER_BYTES: usize = 256 * 1024;

/// The format of `save_as_object_file`.
#[derive(Clone, Copy)]
pub struct Objects;

wire!([] Objects {});

impl<T: Data> RowFormat<T> for Objects {
    const EXTENSION: &'static str = "";

    fn write<W: Write + Send>(
        &self,
        items: impl Iterator<Item = T>,
        mut out: W,
    ) -> Result<(W, u64), WriteError> {
        write_header::<T>(&mut out)?;
        let mut writer = FramedWriter::new(out, Codec::Lz4);
        let mut records = 0;
        for item in items {
            push(&mut writer, &item)?;
            records += 1;
        }
        Ok((writer.finish()?, records))
    }
}

fn push<W: Write, T: Data>(writer: &mut FramedWriter<W>, item: &T) -> Result<(), WriteError> {
    writer.push(item).map_err(|error| match error {
        SpillError::Wire(error) => WriteError::Row(error.to_string()),
        SpillError::Write { source } => WriteError::Io(source),
    })
}

fn write_header<T: DeserializeOwned>(out: &mut impl Write) -> io::Result<()> {
    let shape = shape_of::<T>();
    out.write_all(MAGIC)?;
    out.write_all(&(shape.len() as u32).to_le_bytes())?;
    out.write_all(shape.as_bytes())?;
    out.write_all(&crc32fast::hash(shape.as_bytes()).to_le_bytes())
}

wire! {
    /// `object_file`
    pub struct ObjectSource[T: 'static] {
        files: Value<Arc<Vec<FileRef>>>,
        item: PhantomData<fn() -> T>,
    }
}

impl<T> ObjectSource<T> {
    /// One partition per file.
    pub fn new(files: Vec<FileRef>) -> Self {
        ObjectSource { files: Value(Arc::new(files)), item: PhantomData }
    }
}

impl<T: Data> Pipe for ObjectSource<T> {
    type Item = T;

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = T> + use<T> + 'static {
        let file = self.files.0[partition as usize].clone();
        let input = Input::open_stored(&file.location)
            .unwrap_or_else(|error| fail_opening(&file.location, &error));
        let mut input = BufReader::with_capacity(BUFFER_BYTES, input);
        let offset = check_header::<T>(&mut input, &file.location);
        task.count(|metrics| metrics.input_bytes += file.len);
        let path = file.location.to_string();
        let records = FramedReader::<_, T>::new(input, Path::new(&path), offset);
        let counter = task.clone();
        task.interruptible(records).map(move |record| {
            counter.count(|metrics| metrics.input_records += 1);
            record.unwrap_or_else(|error| fail_reading_records(&file.location, error))
        })
    }
}

/// Damage stays; what could not be read may be read next time.
#[cold]
fn fail_reading_records(location: &Location, error: ReadError) -> ! {
    match error {
        ReadError::Io { source, offset, .. } => fail_reading(location, offset, &source),
        // Its checksum was right: the type is why.
        ReadError::Wire(error) => fail_for_good(format!("{location} cannot be read: {error}")),
        damage => fail_for_good(format!("{location} is damaged: {damage}")),
    }
}

/// Whether the file holds what is to be read; where its records start.
fn check_header<T: DeserializeOwned>(input: &mut impl Read, location: &Location) -> u64 {
    let written = read_shape(input).unwrap_or_else(|error| match error.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => fail_for_good(format!(
            "{location} is not an object file, or its start is damaged: {error}; object_file reads what \
             save_as_object_file wrote"
        )),
        _ => fail_reading(location, 0, &error),
    });
    let wanted = shape_of::<T>();
    if written != wanted {
        fail_for_good(format!(
            "{location} was written with items of another type than {}: it holds `{}`, and `{}` was asked \
             for",
            std::any::type_name::<T>(),
            shown(written.as_bytes()),
            shown(wanted.as_bytes())
        ));
    }
    (MAGIC.len() + 4 + written.len() + 4) as u64
}

fn read_shape(input: &mut impl Read) -> io::Result<String> {
    let invalid = |reason: &str| io::Error::new(io::ErrorKind::InvalidData, reason);
    let mut start = [0; 12];
    input.read_exact(&mut start)?;
    let (magic, len) = start.split_at(MAGIC.len());
    if magic != MAGIC {
        return Err(invalid("it starts with other bytes"));
    }
    let len = u32::from_le_bytes(len.try_into().expect("four bytes"));
    if len > LARGEST_SHAPE {
        return Err(invalid("the length of its type's description cannot be"));
    }
    let (mut shape, mut sum) = (vec![0; len as usize], [0; 4]);
    input.read_exact(&mut shape)?;
    input.read_exact(&mut sum)?;
    if crc32fast::hash(&shape) != u32::from_le_bytes(sum) {
        return Err(invalid("a wrong checksum"));
    }
    String::from_utf8(shape).map_err(|_| invalid("its type's description is no text"))
}
