//! Values as bytes: what travels comes back the same, or is refused.
//!
//! ```text
//! value := bytes in postcard's form | seal u32, unless the type is plain
//! ```
//! The form is positional and small, and says nothing about itself: a reader must ask for what was written.
//! Types derive both halves of serde, and attributes can make the two differ; then bytes of one field are
//! read as another. So nothing rests on users' types here:
//!
//! * **Plain** types ([`plain`]) consist of the library's own; serde's implementations agree, and
//!   nothing is added.
//! * All others are followed by a **seal**: a sum over what was written ([`structure`]: kinds, numbers,
//!   names of fields and variants, length). The reader makes its own sum; if they differ, the value is refused.
//! * A value that shows a new part of its type is read back at once, by the writer ([`mod@check`]), so that
//!   a type that cannot travel is refused where it starts, also where nothing is sent.

mod check;
mod de;
mod error;
mod heap;
mod plain;
mod ser;
mod structure;
#[cfg(test)]
mod tests;
mod varint;

use std::cell::Cell;

use serde::Serialize;

pub(crate) use check::check_anew;
pub use check::{check, is_checking};
pub use error::ValueError;
pub use heap::heap_bytes;

use crate::{Data, WireError};
use de::Deserializer;
use plain::is_plain;
use ser::{Counter, Serializer};
use structure::{Shapes, Structure, Unwatched, Written};

/// Deeper nesting is refused: both halves of serde go down on the stack.
const DEEPEST: u32 = 400;
const SEAL_BYTES: usize = 4;
/// Larger values are not read back as samples.
const LARGE: usize = 64 << 10;

/// Encodes values one behind the other, and checks those that show something new of their type.
#[derive(Clone, Debug, Default)]
pub struct Appender {
    form: Form,
    seen: Shapes,
    /// Values so far of a type that is not plain.
    values: u64,
}

impl Appender {
    /// Appends `value` to `out`. What `out` holds after an error is of no use.
    #[inline]
    pub fn append<T: Data>(&mut self, out: &mut Vec<u8>, value: &T) -> Result<(), WireError> {
        self.append_as::<T, T>(out, value)
    }

    /// Appends `value`, which is written as a `T` is, and will be read as one.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn append_as<T: Data, B: Serialize>(
        &mut self,
        out: &mut Vec<u8>,
        value: &B,
    ) -> Result<(), WireError> {
        if self.form.is_plain::<T>() {
            return write_plain(out, value).map_err(encode_error::<T>);
        }
        self.append_sealed::<T, B>(out, value)
    }

    #[inline]
    fn append_sealed<T: Data, B: Serialize>(
        &mut self,
        out: &mut Vec<u8>,
        value: &B,
    ) -> Result<(), WireError> {
        let start = out.len();
        let Written { structure, shapes, .. } = write(out, value).map_err(encode_error::<T>)?;
        seal(out, start, &structure);
        self.values += 1;
        match shapes.are_in(self.seen) && !self.values.is_power_of_two() {
            true => Ok(()),
            false => self.see::<T>(&out[start..], structure, shapes),
        }
    }

    /// Something new, or a sample: some differences show in some values only.
    #[cold]
    fn see<T: Data>(
        &mut self,
        bytes: &[u8],
        structure: Structure,
        shapes: Shapes,
    ) -> Result<(), WireError> {
        if bytes.len() < LARGE && shapes.are_in(self.seen) {
            return check::sample::<T>(bytes, structure);
        }
        self.seen.join(check::of_written::<T>(bytes, structure, shapes)?);
        Ok(())
    }
}

/// Whether the values of a type are plain; found out once and asked for every value.
#[derive(Clone, Copy, Debug, Default)]
struct Form {
    type_name: &'static str,
    is_plain: bool,
}

thread_local! {
    /// What was found out last.
    static FORM: Cell<Form> = const { Cell::new(Form { type_name: "", is_plain: false }) };
}

impl Form {
    fn of<T>() -> Self {
        let (type_name, last) = (std::any::type_name::<T>(), FORM.get());
        if std::ptr::eq(last.type_name, type_name) { last } else { Form::named(type_name) }
    }

    #[cold]
    fn named(type_name: &'static str) -> Self {
        let form = Form { type_name, is_plain: is_plain(type_name) };
        FORM.set(form);
        form
    }

    #[inline(always)]
    fn is_plain<T>(&mut self) -> bool {
        if !std::ptr::eq(self.type_name, std::any::type_name::<T>()) {
            *self = Form::of::<T>();
        }
        self.is_plain
    }
}

/// Decodes values one behind the other.
#[derive(Clone, Copy, Debug)]
pub struct Taker {
    is_plain: bool,
}

impl Taker {
    /// Of values of type `T`.
    pub fn of<T>() -> Self {
        Taker { is_plain: Form::of::<T>().is_plain }
    }

    /// The value at the start of `bytes`, and how many bytes it takes.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn take<T: Data>(self, bytes: &[u8]) -> Result<(T, usize), WireError> {
        if self.is_plain { take_plain(bytes) } else { take_sealed(bytes) }
    }
}

#[inline]
fn take_plain<T: Data>(bytes: &[u8]) -> Result<(T, usize), WireError> {
    let mut from = Deserializer::<Unwatched>::new(bytes);
    match T::deserialize(&mut from) {
        Ok(value) => Ok((value, bytes.len() - from.bytes.len())),
        Err(error) => Err(decode_error::<T>(error)),
    }
}

#[inline]
fn take_sealed<T: Data>(bytes: &[u8]) -> Result<(T, usize), WireError> {
    let mut from = Deserializer::<Structure>::new(bytes);
    let value = match T::deserialize(&mut from) {
        Ok(value) => value,
        Err(error) => return Err(decode_error::<T>(error.of_own_bytes())),
    };
    let length = bytes.len() - from.bytes.len();
    let seal = seal_in(from.bytes);
    if seal == Some(from.watch.seal(length)) {
        return Ok((value, length + SEAL_BYTES));
    }
    let read = Read { structure: from.watch, has_aliases: from.has_aliases, seal, length };
    Ok((read.again(value)?, length + SEAL_BYTES))
}

/// A value whose two sums differ, without the value: the compiler keeps in registers what no pointer leads to.
struct Read {
    structure: Structure,
    has_aliases: bool,
    seal: Option<u32>,
    length: usize,
}

impl Read {
    /// Names that the reader cannot know (aliases of fields, and variants behind some that have aliases) make the
    /// sums differ too: then what was read, written again, has the seal.
    #[cold]
    fn again<T: Serialize>(self, value: T) -> Result<T, WireError> {
        let written = write(&mut Counter::default(), &value).map_err(decode_error::<T>)?.structure;
        self.agrees_with(&written).map(|()| value).map_err(decode_error::<T>)
    }

    /// Whether it is what was written, if that is the sum of what it writes.
    fn agrees_with(&self, written: &Structure) -> Result<(), ValueError> {
        if self.seal == Some(self.structure.seal(self.length)) {
            return Ok(());
        }
        let fields_agree = self.has_aliases || written.fields == self.structure.fields;
        let body_agrees = written.body == self.structure.body;
        let what = match self.seal == Some(written.seal(self.length)) {
            true if fields_agree && body_agrees => return Ok(()),
            true if body_agrees => "it writes other fields than it reads",
            _ if body_agrees && fields_agree => "it read a variant as another",
            _ => "it did not read what it wrote",
        };
        Err(ValueError::asymmetric(what))
    }
}

fn write<T: Serialize>(out: &mut impl ser::Output, value: &T) -> Result<Written, ValueError> {
    let mut to = Serializer::<_, Written>::new(out);
    value.serialize(&mut to)?;
    Ok(to.watch)
}

#[inline]
fn write_plain<T: Serialize>(out: &mut Vec<u8>, value: &T) -> Result<(), ValueError> {
    value.serialize(&mut Serializer::<_, Unwatched>::new(out))
}

/// The seal that these bytes begin with.
#[inline(always)]
fn seal_in(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk::<SEAL_BYTES>().map(|seal| u32::from_le_bytes(*seal))
}

#[inline]
fn seal(out: &mut Vec<u8>, start: usize, structure: &Structure) {
    let seal = structure.seal(out.len() - start);
    out.extend_from_slice(&seal.to_le_bytes());
}

/// Encodes one value by itself.
pub fn to_bytes<T: Serialize>(value: &T) -> Result<Vec<u8>, WireError> {
    let mut out = Vec::new();
    append(&mut out, value)?;
    Ok(out)
}

/// Encodes one value that its reader could not refuse any more: it is read once by the writer.
pub fn to_readable_bytes<T: Data>(value: &T) -> Result<Vec<u8>, WireError> {
    let mut out = Vec::new();
    Appender::default().append(&mut out, value)?;
    match Form::of::<T>().is_plain {
        true => Ok(out),
        false => from_bytes::<T>(&out).map(|_| out),
    }
}

pub(crate) fn append<T: Serialize>(out: &mut Vec<u8>, value: &T) -> Result<(), WireError> {
    if Form::of::<T>().is_plain {
        return write_plain(out, value).map_err(encode_error::<T>);
    }
    let start = out.len();
    let written = write(out, value).map_err(encode_error::<T>)?;
    seal(out, start, &written.structure);
    Ok(())
}

/// Appends some of many items, to be read as a `Vec<T>`.
pub fn append_items<T: Data>(out: &mut Vec<u8>, items: &[T]) -> Result<(), WireError> {
    if Form::of::<Vec<T>>().is_plain {
        return write_plain(out, &items).map_err(encode_error::<T>);
    }
    let start = out.len();
    let written = write(out, &items).map_err(encode_error::<T>)?;
    seal(out, start, &written.structure);
    Ok(())
}

/// How many bytes a value takes when it is encoded, without encoding it.
pub fn encoded_len<T: Serialize>(value: &T) -> Result<usize, WireError> {
    let mut counter = Counter::default();
    write(&mut counter, value).map_err(encode_error::<T>)?;
    Ok(counter.0)
}

/// Decodes one value by itself, which must take all of `bytes`.
pub fn from_bytes<T: Data>(bytes: &[u8]) -> Result<T, WireError> {
    let (value, length) = Taker::of::<T>().take(bytes)?;
    match length == bytes.len() {
        true => Ok(value),
        false => Err(WireError::Unread { type_name: std::any::type_name::<T>() }),
    }
}

#[cold]
fn encode_error<T>(source: ValueError) -> WireError {
    WireError::Encode { type_name: std::any::type_name::<T>(), source }
}

#[cold]
fn decode_error<T>(source: ValueError) -> WireError {
    WireError::Decode { type_name: std::any::type_name::<T>(), source }
}
