//! Reading: bytes into serde's calls.
//!
//! A type says what it wants next, and gets it if the bytes can be that. What only a self-describing form could
//! answer is refused.

use std::fmt;

use serde::de::{self, DeserializeSeed, IntoDeserializer, Visitor};

use super::error::ValueError;
use super::structure::{Kind, Watch};
use super::{DEEPEST, varint};

/// Reads one value from the start of its bytes.
pub(crate) struct Deserializer<'de, W> {
    pub(crate) bytes: &'de [u8],
    pub(crate) watch: W,
    /// A struct was read that has more names than fields: those written cannot be told.
    pub(crate) has_aliases: bool,
    /// A type's own tuple was read: its elements have no names.
    pub(crate) has_unnamed: bool,
    depth: u32,
}

type Result<T, E = ValueError> = std::result::Result<T, E>;

impl<'de, W: Watch> Deserializer<'de, W> {
    #[inline]
    pub(crate) fn new(bytes: &'de [u8]) -> Self {
        let (watch, has_aliases, has_unnamed) = (W::default(), false, false);
        Deserializer { bytes, watch, has_aliases, has_unnamed, depth: 0 }
    }

    #[inline(always)]
    fn byte(&mut self) -> Result<u8> {
        match self.bytes.split_first() {
            Some((byte, rest)) => {
                self.bytes = rest;
                Ok(*byte)
            }
            None => Err(ValueError::at_end()),
        }
    }

    #[inline(always)]
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        match self.bytes.split_first_chunk::<N>() {
            Some((bytes, rest)) => {
                self.bytes = rest;
                Ok(*bytes)
            }
            None => Err(ValueError::at_end()),
        }
    }

    #[inline(always)]
    fn varint(&mut self) -> Result<u64> {
        if let Some(bytes) = self.bytes.first_chunk()
            && let Some((value, length)) = varint::gather(bytes)
        {
            self.bytes = &self.bytes[length..];
            return Ok(value);
        }
        let (value, rest) = last_varint(self.bytes)?;
        self.bytes = rest;
        Ok(value)
    }

    fn varint_128(&mut self) -> Result<u128> {
        let mut value = 0u128;
        for index in 0..19 {
            let byte = self.byte()?;
            if index == 18 && byte > 3 {
                break;
            }
            value |= u128::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(no_number())
    }

    #[inline(always)]
    fn unsigned<T: TryFrom<u64>>(&mut self) -> Result<T> {
        self.watch.add(Kind::Unsigned);
        T::try_from(self.varint()?).map_err(|_| no_number())
    }

    #[inline(always)]
    fn signed<T: TryFrom<i64>>(&mut self) -> Result<T> {
        self.watch.add(Kind::Signed);
        let zigzag = self.varint()?;
        T::try_from((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64)).map_err(|_| no_number())
    }

    /// Bytes with their length before them.
    #[inline(always)]
    fn counted(&mut self, kind: Kind) -> Result<&'de [u8]> {
        self.watch.add(kind);
        let length = self.varint()?;
        let parts = usize::try_from(length).ok().and_then(|n| self.bytes.split_at_checked(n));
        let (bytes, rest) = parts.ok_or_else(ValueError::at_end)?;
        self.bytes = rest;
        Ok(bytes)
    }

    #[inline(always)]
    fn text(&mut self, kind: Kind) -> Result<&'de str> {
        let bytes = self.counted(kind)?;
        std::str::from_utf8(bytes).map_err(|_| ValueError::misread("a text is not UTF-8"))
    }

    #[inline(always)]
    fn inside<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(ValueError::too_deep(DEEPEST));
        }
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    #[inline(always)]
    fn elements<V: Visitor<'de>>(&mut self, length: usize, visitor: V) -> Result<V::Value> {
        visitor.visit_seq(Sequence { from: self, left: length, kind: Kind::Element })
    }

    /// Fields by position. Those of a type with aliases have more names than there are fields.
    #[inline(always)]
    fn fields<V: Visitor<'de>>(
        &mut self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        self.inside(|from| {
            let mut left = fields.len();
            let value = visitor.visit_seq(Fields { from, left: &mut left })?;
            match left {
                0 => fields.iter().for_each(|name| from.watch.add_field(name)),
                _ => from.has_aliases = true,
            }
            Ok(value)
        })
    }
}

/// One near the end of all bytes. Not a method: what a pointer leads to cannot stay in registers.
#[inline(never)]
fn last_varint(all: &[u8]) -> Result<(u64, &[u8])> {
    let mut bytes = [0x80; varint::LONGEST];
    let there = bytes.len().min(all.len());
    bytes[..there].copy_from_slice(&all[..there]);
    match varint::gather(&bytes) {
        Some((value, length)) if length <= there => Ok((value, &all[length..])),
        _ if there < bytes.len() => Err(ValueError::at_end()),
        _ => Err(no_number()),
    }
}

#[cold]
fn no_number() -> ValueError {
    ValueError::misread("a number is too large for its type")
}

#[cold]
fn not_self_describing<'de, V: Visitor<'de>>(visitor: &V) -> ValueError {
    struct Expected<'a, V>(&'a V);
    impl<'de, V: Visitor<'de>> fmt::Display for Expected<'_, V> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.expecting(f)
        }
    }
    ValueError::not_self_describing(Expected(visitor))
}

macro_rules! numbers {
    ($($method:ident $visit:ident $read:ident),* $(,)?) => {$(
        #[cfg_attr(not(debug_assertions), inline(always))]
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
            visitor.$visit(self.$read()?)
        }
    )*};
}

impl<'de, W: Watch> de::Deserializer<'de> for &mut Deserializer<'de, W> {
    type Error = ValueError;

    #[inline(always)]
    fn is_human_readable(&self) -> bool {
        false
    }

    numbers!(
        deserialize_i16 visit_i16 signed,
        deserialize_i32 visit_i32 signed,
        deserialize_i64 visit_i64 signed,
        deserialize_u16 visit_u16 unsigned,
        deserialize_u32 visit_u32 unsigned,
        deserialize_u64 visit_u64 unsigned,
    );

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        Err(not_self_describing(&visitor))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        Err(not_self_describing(&visitor))
    }

    #[inline]
    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.watch.add(Kind::Bool);
        match self.byte()? {
            0 => visitor.visit_bool(false),
            1 => visitor.visit_bool(true),
            _ => Err(ValueError::misread("a bool is neither true nor false")),
        }
    }

    #[inline]
    fn deserialize_i8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.watch.add(Kind::I8);
        visitor.visit_i8(self.byte()? as i8)
    }

    #[inline]
    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.watch.add(Kind::U8);
        visitor.visit_u8(self.byte()?)
    }

    fn deserialize_i128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.watch.add(Kind::Signed);
        let zigzag = self.varint_128()?;
        visitor.visit_i128((zigzag >> 1) as i128 ^ -((zigzag & 1) as i128))
    }

    fn deserialize_u128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.watch.add(Kind::Unsigned);
        visitor.visit_u128(self.varint_128()?)
    }

    #[inline]
    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.watch.add(Kind::F32);
        visitor.visit_f32(f32::from_bits(u32::from_le_bytes(self.array()?)))
    }

    #[inline]
    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.watch.add(Kind::F64);
        visitor.visit_f64(f64::from_bits(u64::from_le_bytes(self.array()?)))
    }

    #[inline]
    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let mut chars = self.text(Kind::Char)?.chars();
        match (chars.next(), chars.next()) {
            (Some(char), None) => visitor.visit_char(char),
            _ => Err(ValueError::misread("a char is none or several")),
        }
    }

    #[inline]
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_borrowed_str(self.text(Kind::Bytes)?)
    }

    #[inline]
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_str(visitor)
    }

    /// A name in a map that a type reads itself; variants of enums go by their index.
    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_str(visitor)
    }

    #[inline]
    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_borrowed_bytes(self.counted(Kind::Bytes)?)
    }

    #[inline]
    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_bytes(visitor)
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.byte()? {
            0 => {
                self.watch.add(Kind::None);
                visitor.visit_none()
            }
            1 => {
                self.watch.add(Kind::Some);
                self.inside(|from| visitor.visit_some(from))
            }
            _ => Err(ValueError::misread("an option is neither none nor some")),
        }
    }

    #[inline]
    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.watch.add(Kind::Unit);
        visitor.visit_unit()
    }

    #[inline]
    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value> {
        self.deserialize_unit(visitor)
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value> {
        self.inside(|from| visitor.visit_newtype_struct(from))
    }

    #[inline]
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.watch.add(Kind::Seq);
        let left = usize::try_from(self.varint()?).map_err(|_| no_number())?;
        self.inside(|from| visitor.visit_seq(Sequence { from, left, kind: Kind::Item }))
    }

    #[inline]
    fn deserialize_tuple<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value> {
        self.elements(length, visitor)
    }

    #[inline]
    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value> {
        self.has_unnamed = true;
        self.elements(length, visitor)
    }

    #[inline]
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.watch.add(Kind::Map);
        let left = usize::try_from(self.varint()?).map_err(|_| no_number())?;
        self.inside(|from| visitor.visit_map(Sequence { from, left, kind: Kind::Item }))
    }

    #[inline]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        self.fields(fields, visitor)
    }

    #[inline]
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        self.inside(|from| visitor.visit_enum(Variant { from, name, variants }))
    }
}

/// Elements of a sequence or a tuple, or entries of a map.
struct Sequence<'s, 'de, W> {
    from: &'s mut Deserializer<'de, W>,
    left: usize,
    kind: Kind,
}

impl<W: Watch> Sequence<'_, '_, W> {
    #[inline(always)]
    fn advance(&mut self) -> bool {
        let has_more = self.left > 0;
        if has_more {
            self.left -= 1;
            self.from.watch.add(self.kind);
        }
        has_more
    }
}

impl<'de, W: Watch> de::SeqAccess<'de> for Sequence<'_, 'de, W> {
    type Error = ValueError;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        if self.advance() { seed.deserialize(&mut *self.from).map(Some) } else { Ok(None) }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

impl<'de, W: Watch> de::MapAccess<'de> for Sequence<'_, 'de, W> {
    type Error = ValueError;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        if self.advance() { seed.deserialize(&mut *self.from).map(Some) } else { Ok(None) }
    }

    #[inline]
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value> {
        seed.deserialize(&mut *self.from)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

/// Fields of a struct; counts how many are not asked for.
struct Fields<'s, 'de, W> {
    from: &'s mut Deserializer<'de, W>,
    left: &'s mut usize,
}

impl<'de, W: Watch> de::SeqAccess<'de> for Fields<'_, 'de, W> {
    type Error = ValueError;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        if *self.left == 0 {
            return Ok(None);
        }
        *self.left -= 1;
        self.from.watch.add(Kind::Element);
        seed.deserialize(&mut *self.from).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(*self.left)
    }
}

/// A variant of an enum, by its index.
struct Variant<'s, 'de, W> {
    from: &'s mut Deserializer<'de, W>,
    name: &'static str,
    variants: &'static [&'static str],
}

impl<'s, 'de, W: Watch> de::EnumAccess<'de> for Variant<'s, 'de, W> {
    type Error = ValueError;
    type Variant = &'s mut Deserializer<'de, W>;

    #[inline]
    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self::Variant)> {
        let Variant { from, name, variants } = self;
        let index = u32::try_from(from.varint()?).map_err(|_| no_number())?;
        // Beyond them, `#[serde(other)]` would take whatever comes.
        let variant = variants.get(index as usize).ok_or_else(|| no_variant(name, index))?;
        from.watch.add_variant(variant);
        let value = seed.deserialize(index.into_deserializer())?;
        Ok((value, from))
    }
}

#[cold]
fn no_variant(name: &str, index: u32) -> ValueError {
    ValueError::asymmetric(format_args!(
        "`{name}` was written with a variant (number {index}) that it does not read"
    ))
}

impl<'de, W: Watch> de::VariantAccess<'de> for &mut Deserializer<'de, W> {
    type Error = ValueError;

    #[inline]
    fn unit_variant(self) -> Result<()> {
        self.watch.add(Kind::UnitVariant);
        Ok(())
    }

    #[inline]
    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value> {
        self.watch.add(Kind::NewtypeVariant);
        self.inside(|from| seed.deserialize(from))
    }

    #[inline]
    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value> {
        self.watch.add(Kind::TupleVariant);
        self.has_unnamed = true;
        self.elements(length, visitor)
    }

    #[inline]
    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        self.watch.add(Kind::StructVariant);
        self.fields(fields, visitor)
    }
}
