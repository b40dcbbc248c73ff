//! The check of a value by a round trip: written, read, written again.
//!
//! It is made for the first value of a type in this process, and again for values that show a part of the type that
//! no value before showed.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::error::ValueError;
use super::structure::{Shapes, Structure, Written};
use super::{Counter, Deserializer, Form, SEAL_BYTES, Taker, seal, write};
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

/// Finds out whether a value would come back the same, if its type is not known to: for values that may or
/// may not be sent.
pub fn check<T: Data>(value: &T) -> Result<(), WireError> {
    if Form::of::<T>().is_plain {
        return Ok(());
    }
    let mut length = Counter::default();
    let Written { structure, shapes, .. } =
        checking(|| write(&mut length, value)).map_err(refused::<T>)?;
    let is_known = known::<T>().is_some_and(|known| shapes.are_in(known));
    if is_known || length.0 > LARGEST {
        return Ok(());
    }
    let mut bytes = Vec::with_capacity(length.0 + SEAL_BYTES);
    checking(|| write(&mut bytes, value)).map_err(refused::<T>)?;
    seal(&mut bytes, 0, &structure);
    of_written::<T>(&bytes, structure, shapes).map(drop)
}

/// [`check`] of a type that nobody has seen.
pub(crate) fn check_anew<T: Data>(value: &T) -> Result<(), WireError> {
    let mut bytes = Vec::new();
    let structure = write(&mut bytes, value).map_err(refused::<T>)?.structure;
    seal(&mut bytes, 0, &structure);
    checking(|| examine::<T>(&bytes, structure)).map_err(refused::<T>)
}

/// Checks an encoded value, if it shows something new; what is known of its type then.
pub(super) fn of_written<T: Data>(
    bytes: &[u8],
    structure: Structure,
    shapes: Shapes,
) -> Result<Shapes, WireError> {
    if let Some(known) = known::<T>()
        && shapes.are_in(known)
    {
        return Ok(known);
    }
    checking(|| examine::<T>(bytes, structure)).map_err(refused::<T>)?;
    Ok(with_seen(|seen| {
        let known = seen.entry(std::any::type_name::<T>()).or_default();
        known.join(shapes);
        *known
    }))
}

/// Checks an encoded value that shows nothing new.
pub(super) fn sample<T: Data>(bytes: &[u8], structure: Structure) -> Result<(), WireError> {
    checking(|| round_trip::<T>(bytes, structure)).map_err(refused::<T>).map(drop)
}

fn known<T>() -> Option<Shapes> {
    with_seen(|seen| seen.get(std::any::type_name::<T>()).copied())
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

/// What was written again, without its seal.
fn round_trip<T: Data>(bytes: &[u8], structure: Structure) -> Result<Vec<u8>, ValueError> {
    let (value, length) = Taker::of::<T>().take::<T>(bytes).map_err(inner)?;
    if length != bytes.len() {
        return Err(ValueError::asymmetric("it wrote more than it read"));
    }
    let mut again = Vec::with_capacity(bytes.len());
    let same = write(&mut again, &value)?.structure;
    seal(&mut again, 0, &same);
    if same != structure || !are_alike(bytes, &again) {
        return Err(ValueError::asymmetric("what it read back is another value than was written"));
    }
    again.truncate(again.len() - SEAL_BYTES);
    Ok(again)
}

/// A round trip, and more: for a value that shows something new.
fn examine<T: Data>(bytes: &[u8], structure: Structure) -> Result<(), ValueError> {
    let again = round_trip::<T>(bytes, structure)?;
    no_byte_is_ignored::<T>(&bytes[..again.len()], &again)
}

/// Where names cannot be compared, two elements look like one that both sides have, if each side skips another. But
/// then one is read that is never written: changing its bytes changes nothing of what is written again.
fn no_byte_is_ignored<T: Data>(bytes: &[u8], again: &[u8]) -> Result<(), ValueError> {
    let mut from = Deserializer::<Structure>::new(bytes);
    T::deserialize(&mut from)?;
    if !from.has_aliases && !from.has_unnamed {
        return Ok(());
    }
    for place in 0..bytes.len().min(MOST_BYTES) {
        let written = changes(bytes, place).filter_map(|changed| written_again::<T>(&changed));
        let (mut ignored, mut noticed) = (false, false);
        written.for_each(|other| if other == again { ignored = true } else { noticed = true });
        if ignored && !noticed {
            return Err(ValueError::asymmetric("it reads something that it never writes"));
        }
    }
    Ok(())
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

/// What a value in these bytes, if there is one, looks like when it is written.
fn written_again<T: Data>(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut from = Deserializer::<Structure>::new(bytes);
    let value = T::deserialize(&mut from).ok()?;
    let mut out = Vec::new();
    (from.bytes.is_empty() && write(&mut out, &value).is_ok()).then_some(out)
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

fn inner(error: WireError) -> ValueError {
    match error {
        WireError::Decode { source, .. } => source,
        other => ValueError::new(other.to_string()),
    }
}

fn refused<T>(source: ValueError) -> WireError {
    WireError::Encode { type_name: std::any::type_name::<T>(), source }
}
