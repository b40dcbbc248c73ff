//! The check of a value by a round trip: written, read, written again.
//!
//! It is made for the first value of a type in this process, and again for values that show a part of the type that
//! no value before showed.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::error::ValueError;
use super::structure::{Shapes, Structure, Written};
use super::{Counter, Deserializer, Form, Read, SEAL_BYTES, seal, seal_in, write};
use crate::{Data, WireError};

/// Larger values are not read back before they are sent: there would be three of them in memory.
const LARGEST: usize = 64 << 20;
/// How many bytes of a value are changed, one after the other, to see whether they are ignored.
const MOST_BYTES: usize = 256;
const LONGEST_ELEMENT: usize = 8;
const ONES: [u8; LONGEST_ELEMENT] = [1; LONGEST_ELEMENT];

/// What was seen of each type, by its name.
static SEEN: Mutex<Option<HashMap<&'static str, Shapes>>> = Mutex::new(None);

thread_local! {
    static CHECKING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is reading a value back to check it: it came from this very thread a moment ago.
pub fn is_checking() -> bool {
    CHECKING.get()
}

/// A type, as far as a check needs to know it. The rest of a check is compiled once for all types, where it would be a
/// large part of every program of a user's.
#[derive(Clone, Copy)]
struct DataType {
    name: &'static str,
    rewrite: fn(&[u8], &mut Vec<u8>) -> Result<Rewritten, ValueError>,
}

/// A value that was read, and written again.
struct Rewritten {
    /// How many bytes were read.
    length: usize,
    read: Structure,
    has_aliases: bool,
    has_unnamed: bool,
    written: Structure,
}

fn rewrite<T: Data>(bytes: &[u8], again: &mut Vec<u8>) -> Result<Rewritten, ValueError> {
    let mut from = Deserializer::<Structure>::new(bytes);
    let value = T::deserialize(&mut from)?;
    let written = write(again, &value)?.structure;
    let (length, read) = (bytes.len() - from.bytes.len(), from.watch);
    let Deserializer { has_aliases, has_unnamed, .. } = from;
    Ok(Rewritten { length, read, has_aliases, has_unnamed, written })
}

/// Finds out whether a value would come back the same, if its type is not known to: for values that may or
/// may not be sent.
pub fn check<T: Data>(value: &T) -> Result<(), WireError> {
    if Form::of::<T>().is_plain {
        return Ok(());
    }
    let count = || {
        let mut length = Counter::default();
        write(&mut length, value).map(|written| (written, length.0))
    };
    DataType::of::<T>().check(&count, &|out| write(out, value))
}

/// [`check`] of a type that nobody has seen.
pub(crate) fn check_anew<T: Data>(value: &T) -> Result<(), WireError> {
    let (of, mut bytes) = (DataType::of::<T>(), Vec::new());
    let structure = write(&mut bytes, value).map_err(|error| of.refused(error))?.structure;
    seal(&mut bytes, 0, &structure);
    of.checking(&|| of.examine(&bytes, structure))
}

/// Checks an encoded value, if it shows something new; what is known of its type then.
pub(super) fn of_written<T: Data>(
    bytes: &[u8],
    structure: Structure,
    shapes: Shapes,
) -> Result<Shapes, WireError> {
    DataType::of::<T>().of_written(bytes, structure, shapes)
}

/// Checks an encoded value that shows nothing new.
pub(super) fn sample<T: Data>(bytes: &[u8], structure: Structure) -> Result<(), WireError> {
    let of = DataType::of::<T>();
    of.checking(&|| of.round_trip(bytes, structure).map(drop))
}

impl DataType {
    fn of<T: Data>() -> Self {
        DataType { name: std::any::type_name::<T>(), rewrite: rewrite::<T> }
    }

    fn check(
        self,
        count: &dyn Fn() -> Result<(Written, usize), ValueError>,
        encode: &dyn Fn(&mut Vec<u8>) -> Result<Written, ValueError>,
    ) -> Result<(), WireError> {
        let (Written { structure, shapes, .. }, length) =
            checking(count).map_err(|error| self.refused(error))?;
        let is_known = self.known().is_some_and(|known| shapes.are_in(known));
        if is_known || length > LARGEST {
            return Ok(());
        }
        let mut bytes = Vec::with_capacity(length + SEAL_BYTES);
        checking(|| encode(&mut bytes)).map_err(|error| self.refused(error))?;
        seal(&mut bytes, 0, &structure);
        self.of_written(&bytes, structure, shapes).map(drop)
    }

    fn of_written(
        self,
        bytes: &[u8],
        structure: Structure,
        shapes: Shapes,
    ) -> Result<Shapes, WireError> {
        if let Some(known) = self.known()
            && shapes.are_in(known)
        {
            return Ok(known);
        }
        self.checking(&|| self.examine(bytes, structure))?;
        Ok(with_seen(|seen| {
            let known = seen.entry(self.name).or_default();
            known.join(shapes);
            *known
        }))
    }

    fn known(self) -> Option<Shapes> {
        with_seen(|seen| seen.get(self.name).copied())
    }

    fn checking(self, work: &dyn Fn() -> Result<(), ValueError>) -> Result<(), WireError> {
        checking(work).map_err(|error| self.refused(error))
    }

    /// What was read back of a sealed value, and what was written again, without its seal.
    fn round_trip(
        self,
        bytes: &[u8],
        structure: Structure,
    ) -> Result<(Rewritten, Vec<u8>), ValueError> {
        let mut again = Vec::with_capacity(bytes.len());
        let value = (self.rewrite)(bytes, &mut again).map_err(ValueError::of_own_bytes)?;
        value.as_read(&bytes[value.length..]).agrees_with(&value.written)?;
        if value.length + SEAL_BYTES != bytes.len() {
            return Err(ValueError::asymmetric("it wrote more than it read"));
        }
        let length = again.len();
        seal(&mut again, 0, &value.written);
        if value.written != structure || !are_alike(bytes, &again) {
            return Err(ValueError::asymmetric(
                "what it read back is another value than was written",
            ));
        }
        again.truncate(length);
        Ok((value, again))
    }

    /// A round trip, and more: for a value that shows something new.
    fn examine(self, bytes: &[u8], structure: Structure) -> Result<(), ValueError> {
        let (value, again) = self.round_trip(bytes, structure)?;
        match value.has_aliases || value.has_unnamed {
            true => self.no_byte_is_ignored(&bytes[..again.len()], &again),
            false => Ok(()),
        }
    }

    /// Where names cannot be compared, two elements look like one that both sides have, if each side skips another. But
    /// then one is read that is never written: changing its bytes changes nothing of what is written again.
    fn no_byte_is_ignored(self, bytes: &[u8], again: &[u8]) -> Result<(), ValueError> {
        for place in 0..bytes.len().min(MOST_BYTES) {
            let written = changes(bytes, place).filter_map(|changed| self.written_again(&changed));
            let (mut ignored, mut noticed) = (false, false);
            written.for_each(|other| if other == again { ignored = true } else { noticed = true });
            if ignored && !noticed {
                return Err(ValueError::asymmetric("it reads something that it never writes"));
            }
        }
        Ok(())
    }

    /// What a value in these bytes, if there is one, looks like when it is written.
    fn written_again(self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let value = (self.rewrite)(bytes, &mut out).ok()?;
        (value.length == bytes.len()).then_some(out)
    }

    fn refused(self, source: ValueError) -> WireError {
        WireError::Encode { type_name: self.name, source }
    }
}

impl Rewritten {
    /// As its reader has it, if these bytes are behind it.
    fn as_read(&self, behind: &[u8]) -> Read {
        let Rewritten { read: structure, has_aliases, length, .. } = *self;
        Read { structure, has_aliases, seal: seal_in(behind), length }
    }
}

fn with_seen<R>(look: impl FnOnce(&mut HashMap<&'static str, Shapes>) -> R) -> R {
    look(SEEN.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

/// Restores what it found, also when a type's own code panics.
fn checking<R>(work: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            CHECKING.set(self.0);
        }
    }
    let _restore = Restore(CHECKING.replace(true));
    work()
}

/// These bytes with another one at `place`; and where a nothing may stand there (`None`, a text or list that is
/// empty), with a something.
fn changes(bytes: &[u8], place: usize) -> impl Iterator<Item = Vec<u8>> {
    let (before, after) = (&bytes[..place], &bytes[place + 1..]);
    let byte = bytes[place];
    let others = [1, 2, 4].into_iter().map(move |bit| [before, &[byte ^ bit], after].concat());
    let most = if byte == 0 { LONGEST_ELEMENT } else { 0 };
    let longer = (1..=most).map(move |more| [before, &[1], &ONES[..more], after].concat());
    others.chain(longer)
}

/// Whether these are the same bytes in any order: maps of equal content differ in theirs.
fn are_alike(one: &[u8], other: &[u8]) -> bool {
    let count = |bytes: &[u8]| {
        let mut counts = [0u64; 256];
        bytes.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        counts
    };
    one == other || (one.len() == other.len() && count(one) == count(other))
}
