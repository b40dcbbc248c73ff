//! Encoding of pipelines: [`Wire`] for structure and code, serde ([`crate::value`]) for values.
//!
//! ```text
//! value := length u64 (little-endian) | that many bytes
//! ```
//! Every value has its length in front and must be read to its last byte. A type whose `Deserialize` reads
//! more or less than its `Serialize` wrote is refused, and never shifts what stands behind it: the names
//! of code ([`crate::code`]) are read where they were written, whatever users' types do.

use std::marker::PhantomData;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::SameExecutable;
use crate::value::{self, ValueError, from_bytes};

/// Anything that can be a record, a key, a result or an environment: derive serde's traits.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot travel between the driver and executors",
    label = "needs a type that travels",
    note = "records, keys, results and environments are sent in serde's form: add \
            `#[derive(serde::Serialize, serde::Deserialize)]` to `{Self}`, or to the type in it that \
            has none"
)]
pub trait Data: Serialize + DeserializeOwned + Send + Sync + 'static {}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> Data for T {}

/// Why something could not be written to or read from its wire form.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// A value's `Serialize` refused.
    #[error("a value of type {type_name} cannot be encoded: {source}")]
    Encode {
        /// The type as the compiler names it.
        type_name: &'static str,
        /// The refusal of serde or of the check.
        source: ValueError,
    },
    /// A value's `Deserialize` refused, or the bytes are not what was written.
    #[error("a value of type {type_name} cannot be decoded: {source}")]
    Decode {
        /// The type as the compiler names it.
        type_name: &'static str,
        /// The refusal of serde or of the seal.
        source: ValueError,
    },
    /// Bytes are left after the last value.
    #[error(
        "values of type {type_name} have more bytes than were read: does its Deserialize read all that its Serialize writes?"
    )]
    Unread {
        /// The type as the compiler names it.
        type_name: &'static str,
    },
    /// A function's name points outside the executable's code.
    #[error(
        "function offset {offset:#x} lies outside this executable's code; both ends must run the same executable"
    )]
    OutsideCode {
        /// Offset from the anchor.
        offset: i64,
    },
    /// A function's name points to a function of another type.
    #[error(
        "function at offset {offset:#x} was sent as another type than {expected}; both ends must run the same executable"
    )]
    WrongType {
        /// Offset from the anchor.
        offset: i64,
        /// The type that this side wants, as the compiler names it.
        expected: &'static str,
    },
}

/// What stands before every value.
const LENGTH_BYTES: usize = 8;

/// Items that stay behind when the code that reads them is sent; each part goes to who asks for it.
pub trait Detached: Send + Sync {
    /// Appends the wire form of one part: of a `Vec` of its items.
    fn encode_part(&self, part: u32, out: &mut Vec<u8>) -> Result<(), WireError>;
}

/// Items of so many bytes in all are no reason for their reader to ask for them.
const ATTACHED_BYTES: usize = 64 << 10;

/// Grows the wire form of a task.
#[derive(Default)]
pub struct Encoder {
    bytes: Vec<u8>,
    only_checks: bool,
    /// What stays behind; `None`: all goes along.
    detached: Option<Vec<Arc<dyn Detached>>>,
    /// Bytes of items that go along.
    attached_bytes: usize,
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

impl Encoder {
    /// One that writes to an empty buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// One that writes nothing, and finds out whether the values could be sent.
    pub fn checking() -> Self {
        Encoder { only_checks: true, ..Self::default() }
    }

    /// One that leaves large sources behind, for readers that can ask for their parts.
    pub fn detaching() -> Self {
        Encoder { detached: Some(Vec::new()), ..Self::default() }
    }

    /// Leaves items behind that are too many to go along, after a check of the first; the number that their parts are
    /// asked for by. `None`: they go along.
    pub fn detach<T: Data>(
        &mut self,
        items: &[T],
        source: impl FnOnce() -> Arc<dyn Detached>,
    ) -> Result<Option<u32>, WireError> {
        let Some(detached) = &mut self.detached else { return Ok(None) };
        let mut bytes = self.attached_bytes;
        let mut measured = items.iter();
        while bytes <= ATTACHED_BYTES {
            let Some(item) = measured.next() else {
                self.attached_bytes = bytes;
                return Ok(None);
            };
            bytes += 1 + value::encoded_len(item)?;
        }
        items.first().map_or(Ok(()), value::check)?;
        let source = source();
        let known = detached.iter().position(|known| Arc::ptr_eq(known, &source));
        let number = known.unwrap_or_else(|| {
            detached.push(source);
            detached.len() - 1
        });
        Ok(u32::try_from(number).ok())
    }

    /// Appends a serde value, with its length in front.
    pub fn put<T: Data>(&mut self, value: &T) -> Result<(), WireError> {
        value::check(value)?;
        self.put_checked(value)
    }

    /// Appends items. Checks the first one beforehand.
    pub fn put_items<T: Data>(&mut self, items: &Vec<T>) -> Result<(), WireError> {
        items.first().map_or(Ok(()), value::check)?;
        self.put_checked(items)
    }

    pub(crate) fn put_checked<T: Data>(&mut self, value: &T) -> Result<(), WireError> {
        if self.only_checks {
            return Ok(());
        }
        let start = self.bytes.len() + LENGTH_BYTES;
        self.bytes.extend_from_slice(&[0; LENGTH_BYTES]);
        value::append(&mut self.bytes, value)?;
        let length = (self.bytes.len() - start) as u64;
        self.bytes[start - LENGTH_BYTES..start].copy_from_slice(&length.to_le_bytes());
        Ok(())
    }

    /// The wire form; empty for one that only checks.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The wire form, and what stays behind.
    pub fn into_parts(self) -> (Vec<u8>, Vec<Arc<dyn Detached>>) {
        (self.bytes, self.detached.unwrap_or_default())
    }
}

/// Reads the wire form of a task. Exists only for bytes from a process of the same executable.
#[derive(Debug)]
pub struct Decoder<'a> {
    bytes: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// Reads `bytes`, which came from a process for which `_peer` was established.
    pub fn new(bytes: &'a [u8], _peer: SameExecutable) -> Self {
        Decoder { bytes }
    }

    /// Takes the next serde value: all of its bytes, and no others.
    pub fn take<T: Data>(&mut self) -> Result<T, WireError> {
        from_bytes(self.next_value().ok_or_else(|| WireError::Decode {
            type_name: std::any::type_name::<T>(),
            source: ValueError::at_end(),
        })?)
    }

    fn next_value(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.bytes.split_first_chunk::<LENGTH_BYTES>()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let (value, rest) = rest.split_at_checked(length)?;
        self.bytes = rest;
        Some(value)
    }

    /// Whether all was read.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// A thing made of code and values that can be sent to another process of the same executable.
pub trait Wire: Sized + Send + Sync + 'static {
    /// Appends its wire form. Fails if a value in it cannot travel.
    fn encode(&self, out: &mut Encoder) -> Result<(), WireError>;
    /// Reads what [`Wire::encode`] of the same type wrote.
    fn decode(input: &mut Decoder<'_>) -> Result<Self, WireError>;
}

/// A serde value as a part of a [`Wire`] structure.
#[derive(Clone, Debug)]
pub struct Value<T>(pub T);

impl<T: Data> Wire for Value<T> {
    fn encode(&self, out: &mut Encoder) -> Result<(), WireError> {
        out.put(&self.0)
    }

    fn decode(input: &mut Decoder<'_>) -> Result<Self, WireError> {
        input.take().map(Value)
    }
}

macro_rules! plain_wire {
    ($($t:ty),*) => {$(
        impl Wire for $t {
            fn encode(&self, out: &mut Encoder) -> Result<(), WireError> {
                out.put(self)
            }
            fn decode(input: &mut Decoder<'_>) -> Result<Self, WireError> {
                input.take()
            }
        }
    )*};
}
plain_wire!(bool, u8, u16, u32, u64, usize, i32, i64, f64, String);

impl<T: ?Sized + 'static> Wire for PhantomData<fn() -> T> {
    fn encode(&self, _: &mut Encoder) -> Result<(), WireError> {
        Ok(())
    }

    fn decode(_: &mut Decoder<'_>) -> Result<Self, WireError> {
        Ok(PhantomData)
    }
}

impl<T: Wire> Wire for Arc<T> {
    fn encode(&self, out: &mut Encoder) -> Result<(), WireError> {
        T::encode(self, out)
    }

    fn decode(input: &mut Decoder<'_>) -> Result<Self, WireError> {
        T::decode(input).map(Arc::new)
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn encode(&self, out: &mut Encoder) -> Result<(), WireError> {
        self.len().encode(out)?;
        self.iter().try_for_each(|item| item.encode(out))
    }

    fn decode(input: &mut Decoder<'_>) -> Result<Self, WireError> {
        let len = usize::decode(input)?;
        (0..len).map(|_| T::decode(input)).collect()
    }
}

/// Implements [`Wire`] for a struct, field by field in the order given.
///
/// ```
/// use firesteel_closure::{wire, Wire};
/// struct Both<A, B> { left: A, right: B }
/// wire!([A: Wire, B: Wire] Both<A, B> { left, right });
/// ```
///
/// Or declares the struct with it, and the function that makes one of its fields; markers come last and are no arguments:
///
/// ```
/// use std::marker::PhantomData;
///
/// use firesteel_closure::{wire, Wire};
///
/// wire! {
///     pub struct Map[P: Wire, F: Wire, U: 'static] {
///         parent: P,
///         f: F;
///         out: PhantomData<fn() -> U>,
///     }
///
///     pub fn new;
/// }
/// let map: Map<u32, u8, String> = Map::new(1u32, 2u8);
/// ```
#[macro_export]
macro_rules! wire {
    (
        $(#[$about:meta])*
        $vis:vis struct $name:ident[$($of:ident: $bound:tt),*] {
            $( $(#[$note:meta])* $seen:vis $field:ident: $kind:ty ),+ $(,)?
            $(; $marker:ident: $marked:ty $(,)? )?
        }

        $(#[$made:meta])*
        $open:vis fn new;
    ) => {
        $crate::wire! {
            $(#[$about])*
            $vis struct $name[$($of: $bound),*] {
                $( $(#[$note])* $seen $field: $kind, )+
                $( $marker: $marked, )?
            }
        }

        impl<$($of),*> $name<$($of),*> {
            $(#[$made])*
            $open fn new($($field: $kind),+) -> Self {
                $name { $($field,)+ $( $marker: <$marked>::default(), )? }
            }
        }
    };
    (
        $(#[$about:meta])*
        $vis:vis struct $name:ident[$($of:ident: $bound:tt),*] {
            $( $(#[$note:meta])* $seen:vis $field:ident: $kind:ty ),+ $(,)?
        }
    ) => {
        $(#[$about])*
        $vis struct $name<$($of),*> {
            $( $(#[$note])* $seen $field: $kind, )+
        }

        $crate::wire!([$($of: $bound),*] $name<$($of),*> { $($field),+ });
    };
    ([$($generics:tt)*] $type:ty { $($field:ident),* $(,)? }) => {
        impl<$($generics)*> $crate::Wire for $type {
            fn encode(&self, out: &mut $crate::Encoder) -> Result<(), $crate::WireError> {
                $( $crate::Wire::encode(&self.$field, out)?; )*
                Ok(())
            }
            fn decode(input: &mut $crate::Decoder<'_>) -> Result<Self, $crate::WireError> {
                $( let $field = $crate::Wire::decode(input)?; )*
                Ok(Self { $($field),* })
            }
        }
    };
}
