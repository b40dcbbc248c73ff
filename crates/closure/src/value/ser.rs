//! Writing: serde's calls into bytes.
//!
//! The form is postcard's: varints, lengths before text and sequences, the index of a variant, no names. What a
//! positional form cannot say is refused: a field left out, a map of unknown length.

use serde::ser::{self, Serialize};

use super::error::ValueError;
use super::structure::{Kind, WatchPlaces};
use super::{DEEPEST, varint};

pub(crate) trait Output {
    fn push(&mut self, byte: u8);
    fn extend(&mut self, bytes: &[u8]);
    /// Appends the first `length` of these bytes.
    fn extend_some<const N: usize>(&mut self, bytes: [u8; N], length: usize);
    fn position(&self) -> usize;
    /// Writes over what is there.
    fn replace(&mut self, at: usize, bytes: &[u8]);
}

impl Output for Vec<u8> {
    #[inline(always)]
    fn push(&mut self, byte: u8) {
        Vec::push(self, byte);
    }

    #[inline(always)]
    fn extend(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    /// A copy of known length and a step back are quicker than a copy of any length.
    #[inline(always)]
    fn extend_some<const N: usize>(&mut self, bytes: [u8; N], length: usize) {
        let end = self.len() + length;
        self.extend_from_slice(&bytes);
        self.truncate(end);
    }

    fn position(&self) -> usize {
        self.len()
    }

    fn replace(&mut self, at: usize, bytes: &[u8]) {
        self[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

/// Counts bytes instead of keeping them.
#[derive(Default)]
pub(crate) struct Counter(pub(crate) usize);

impl Output for Counter {
    #[inline(always)]
    fn push(&mut self, _: u8) {
        self.0 += 1;
    }

    #[inline(always)]
    fn extend(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }

    #[inline(always)]
    fn extend_some<const N: usize>(&mut self, _: [u8; N], length: usize) {
        self.0 += length;
    }

    fn position(&self) -> usize {
        self.0
    }

    fn replace(&mut self, _: usize, _: &[u8]) {}
}

pub(crate) struct Serializer<'a, O, W> {
    out: &'a mut O,
    pub(crate) watch: W,
    depth: u32,
}

type Result<T = (), E = ValueError> = std::result::Result<T, E>;

/// Bytes kept free for the length of a sequence that does not say it.
const LENGTH_BYTES: usize = 5;

impl<'a, O: Output, W: WatchPlaces> Serializer<'a, O, W> {
    #[inline]
    pub(crate) fn new(out: &'a mut O) -> Self {
        Serializer { out, watch: W::default(), depth: 0 }
    }

    #[inline(always)]
    fn varint(&mut self, value: u64) {
        if value < 0x80 {
            self.out.push(value as u8);
        } else if value < varint::SMALL {
            let (bytes, length) = varint::spread_small(value as u32);
            self.out.extend_some(bytes, length);
        } else if value < varint::TOO_LARGE {
            let (bytes, length) = varint::spread(value);
            self.out.extend_some(bytes, length);
        } else {
            self.long_varint(value);
        }
    }

    #[inline(never)]
    fn long_varint(&mut self, value: u64) {
        self.out.extend(&varint::spread_low(value));
        let high = (value >> (7 * varint::QUICK)) as u8;
        if high < 0x80 {
            self.out.push(high);
        } else {
            self.out.extend(&[high, high >> 7]);
        }
    }

    fn varint_128(&mut self, mut value: u128) {
        while value >= 0x80 {
            self.out.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }

    #[inline(always)]
    fn unsigned(&mut self, value: u64) -> Result {
        self.watch.add(Kind::Unsigned);
        self.varint(value);
        Ok(())
    }

    #[inline(always)]
    fn signed(&mut self, value: i64) -> Result {
        self.watch.add(Kind::Signed);
        self.varint(((value << 1) ^ (value >> 63)) as u64);
        Ok(())
    }

    #[inline(always)]
    fn byte(&mut self, kind: Kind, byte: u8) -> Result {
        self.watch.add(kind);
        self.out.push(byte);
        Ok(())
    }

    #[inline(always)]
    fn bytes(&mut self, kind: Kind, bytes: &[u8]) -> Result {
        self.watch.add(kind);
        self.varint(bytes.len() as u64);
        self.out.extend(bytes);
        Ok(())
    }

    #[inline(always)]
    fn enter(&mut self) -> Result {
        self.depth += 1;
        if self.depth > DEEPEST { Err(ValueError::too_deep(DEEPEST)) } else { Ok(()) }
    }

    /// Writes what stands in another value.
    #[inline(always)]
    fn inside<T: Serialize + ?Sized>(&mut self, value: &T) -> Result {
        self.enter()?;
        value.serialize(&mut *self)?;
        self.depth -= 1;
        Ok(())
    }

    #[inline(always)]
    fn variant(&mut self, kind: Kind, index: u32, variant: &'static str) {
        self.watch.add(kind);
        self.watch.add_variant(variant);
        self.watch.show(variant);
        self.varint(u64::from(index));
    }

    #[inline(always)]
    fn compound(&mut self, name: &'static str) -> Result<Compound<'_, 'a, O, W>> {
        self.enter()?;
        Ok(Compound { is_tuple: false, ..self.tuple(name) })
    }

    /// Whatever nests without end has something else than tuples between them: their depth does not count.
    #[inline(always)]
    fn tuple(&mut self, name: &'static str) -> Compound<'_, 'a, O, W> {
        let outside = self.watch.place();
        Compound { to: self, name, is_tuple: true, unknown_length: None, elements: 0, outside }
    }
}

impl<'s, 'a, O: Output, W: WatchPlaces> ser::Serializer for &'s mut Serializer<'a, O, W> {
    type Ok = ();
    type Error = ValueError;
    type SerializeSeq = Compound<'s, 'a, O, W>;
    type SerializeTuple = Compound<'s, 'a, O, W>;
    type SerializeTupleStruct = Compound<'s, 'a, O, W>;
    type SerializeTupleVariant = Compound<'s, 'a, O, W>;
    type SerializeMap = Compound<'s, 'a, O, W>;
    type SerializeStruct = Compound<'s, 'a, O, W>;
    type SerializeStructVariant = Compound<'s, 'a, O, W>;

    #[inline(always)]
    fn is_human_readable(&self) -> bool {
        false
    }

    #[inline]
    fn serialize_bool(self, value: bool) -> Result {
        self.byte(Kind::Bool, u8::from(value))
    }

    #[inline]
    fn serialize_i8(self, value: i8) -> Result {
        self.byte(Kind::I8, value as u8)
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn serialize_i16(self, value: i16) -> Result {
        self.signed(value.into())
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn serialize_i32(self, value: i32) -> Result {
        self.signed(value.into())
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn serialize_i64(self, value: i64) -> Result {
        self.signed(value)
    }

    fn serialize_i128(self, value: i128) -> Result {
        self.watch.add(Kind::Signed);
        self.varint_128(((value << 1) ^ (value >> 127)) as u128);
        Ok(())
    }

    #[inline]
    fn serialize_u8(self, value: u8) -> Result {
        self.byte(Kind::U8, value)
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn serialize_u16(self, value: u16) -> Result {
        self.unsigned(value.into())
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn serialize_u32(self, value: u32) -> Result {
        self.unsigned(value.into())
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn serialize_u64(self, value: u64) -> Result {
        self.unsigned(value)
    }

    fn serialize_u128(self, value: u128) -> Result {
        self.watch.add(Kind::Unsigned);
        self.varint_128(value);
        Ok(())
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn serialize_f32(self, value: f32) -> Result {
        self.watch.add(Kind::F32);
        self.out.extend(&value.to_bits().to_le_bytes());
        Ok(())
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn serialize_f64(self, value: f64) -> Result {
        self.watch.add(Kind::F64);
        self.out.extend(&value.to_bits().to_le_bytes());
        Ok(())
    }

    #[inline]
    fn serialize_char(self, value: char) -> Result {
        self.bytes(Kind::Char, value.encode_utf8(&mut [0; 4]).as_bytes())
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn serialize_str(self, value: &str) -> Result {
        self.bytes(Kind::Bytes, value.as_bytes())
    }

    #[inline]
    fn serialize_bytes(self, value: &[u8]) -> Result {
        self.bytes(Kind::Bytes, value)
    }

    #[inline]
    fn serialize_none(self) -> Result {
        self.byte(Kind::None, 0)
    }

    #[inline]
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result {
        self.byte(Kind::Some, 1)?;
        self.watch.show_here(true, "Some");
        self.inside(value)
    }

    #[inline]
    fn serialize_unit(self) -> Result {
        self.watch.add(Kind::Unit);
        Ok(())
    }

    #[inline]
    fn serialize_unit_struct(self, _: &'static str) -> Result {
        self.serialize_unit()
    }

    #[inline]
    fn serialize_unit_variant(self, _: &'static str, index: u32, variant: &'static str) -> Result {
        self.variant(Kind::UnitVariant, index, variant);
        Ok(())
    }

    #[inline]
    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result {
        self.inside(value)
    }

    #[inline]
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result {
        self.variant(Kind::NewtypeVariant, index, variant);
        self.inside(value)
    }

    #[inline]
    fn serialize_seq(self, length: Option<usize>) -> Result<Self::SerializeSeq> {
        self.watch.add(Kind::Seq);
        self.watch.show_here(length != Some(0), "Seq");
        let unknown_length = match length {
            Some(length) => {
                self.varint(length as u64);
                None
            }
            None => {
                let at = self.out.position();
                self.out.extend(&[0; LENGTH_BYTES]);
                Some(at)
            }
        };
        Ok(Compound { unknown_length, ..self.compound("")? })
    }

    #[inline]
    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple> {
        Ok(self.tuple(""))
    }

    #[inline]
    fn serialize_tuple_struct(
        self,
        name: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleStruct> {
        Ok(self.tuple(name))
    }

    #[inline]
    fn serialize_tuple_variant(
        self,
        _: &'static str,
        index: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant> {
        self.variant(Kind::TupleVariant, index, variant);
        self.compound(variant)
    }

    #[inline]
    fn serialize_map(self, length: Option<usize>) -> Result<Self::SerializeMap> {
        let length = length.ok_or_else(ValueError::map_of_unknown_length)?;
        self.watch.add(Kind::Map);
        self.watch.show_here(length > 0, "Map");
        self.varint(length as u64);
        self.compound("")
    }

    #[inline]
    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Self::SerializeStruct> {
        self.watch.show(name);
        self.compound(name)
    }

    #[inline]
    fn serialize_struct_variant(
        self,
        _: &'static str,
        index: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant> {
        self.variant(Kind::StructVariant, index, variant);
        self.compound(variant)
    }

    fn collect_str<T: std::fmt::Display + ?Sized>(self, value: &T) -> Result {
        self.serialize_str(&value.to_string())
    }
}

/// A value made of others, on its way.
pub(crate) struct Compound<'s, 'a, O, W> {
    to: &'s mut Serializer<'a, O, W>,
    /// Of the struct or variant.
    name: &'static str,
    is_tuple: bool,
    /// Where its length goes, if serde was not told it.
    unknown_length: Option<usize>,
    elements: u64,
    /// The place it stands in.
    outside: u64,
}

impl<O: Output, W: WatchPlaces> Compound<'_, '_, O, W> {
    #[inline(always)]
    fn put<T: Serialize + ?Sized>(&mut self, value: &T) -> Result {
        value.serialize(&mut *self.to)
    }

    #[inline(always)]
    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result {
        self.elements += 1;
        self.to.watch.add(Kind::Element);
        self.to.watch.go_to(self.outside.wrapping_add(self.elements));
        self.put(value)
    }

    #[inline(always)]
    fn field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result {
        self.to.watch.add(Kind::Element);
        self.to.watch.add_field(name);
        self.to.watch.go_to_field(name);
        self.put(value)
    }

    #[inline(always)]
    fn close(self) -> Result {
        self.to.depth -= u32::from(!self.is_tuple);
        self.to.watch.go_to(self.outside);
        match self.unknown_length {
            Some(at) => close_unknown(self.to.out, at, self.elements),
            None => Ok(()),
        }
    }
}

/// Writes the length of a sequence that did not say it, as a varint of a fixed number of bytes.
#[cold]
fn close_unknown(out: &mut impl Output, at: usize, elements: u64) -> Result {
    if elements >> (7 * LENGTH_BYTES) != 0 {
        return Err(ValueError::new("a sequence of unknown length has too many elements"));
    }
    let byte = |index: usize| {
        let more = if index + 1 < LENGTH_BYTES { 0x80 } else { 0 };
        (elements >> (7 * index)) as u8 & 0x7f | more
    };
    let bytes: [u8; LENGTH_BYTES] = std::array::from_fn(byte);
    out.replace(at, &bytes);
    Ok(())
}

impl<O: Output, W: WatchPlaces> ser::SerializeSeq for Compound<'_, '_, O, W> {
    type Ok = ();
    type Error = ValueError;

    #[inline]
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result {
        self.elements += 1;
        self.to.watch.add(Kind::Item);
        self.put(value)
    }

    #[inline]
    fn end(self) -> Result {
        self.close()
    }
}

impl<O: Output, W: WatchPlaces> ser::SerializeMap for Compound<'_, '_, O, W> {
    type Ok = ();
    type Error = ValueError;

    #[inline]
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result {
        self.to.watch.add(Kind::Item);
        self.put(key)
    }

    #[inline]
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result {
        self.put(value)
    }

    #[inline]
    fn end(self) -> Result {
        self.close()
    }
}

macro_rules! elements {
    ($($trait:ident $method:ident),*) => {$(
        impl<O: Output, W: WatchPlaces> ser::$trait for Compound<'_, '_, O, W> {
            type Ok = ();
            type Error = ValueError;

            #[inline]
            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result {
                self.element(value)
            }

            #[inline]
            fn end(self) -> Result {
                self.close()
            }
        }
    )*};
}
elements!(
    SerializeTuple serialize_element,
    SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field
);

macro_rules! fields {
    ($($trait:ident),*) => {$(
        impl<O: Output, W: WatchPlaces> ser::$trait for Compound<'_, '_, O, W> {
            type Ok = ();
            type Error = ValueError;

            #[inline]
            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                key: &'static str,
                value: &T,
            ) -> Result {
                self.field(key, value)
            }

            #[cold]
            fn skip_field(&mut self, key: &'static str) -> Result {
                Err(ValueError::skipped(self.name, key))
            }

            #[inline]
            fn end(self) -> Result {
                self.close()
            }
        }
    )*};
}
fields!(SerializeStruct, SerializeStructVariant);
