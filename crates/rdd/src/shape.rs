//! The shape of a serde type, as text: `struct Word { word: str, count: u64 }`.
//!
//! A type's `Deserialize` asks for what it wants to read; here it is answered with made-up values, and
//! what it asks for is written down. Two types with one shape read the same bytes. Types that refuse the
//! made-up values are known as far as they got, which is the same each time.

use std::fmt::{self, Write};

use serde::de::value::{BorrowedStrDeserializer, StrDeserializer};
use serde::de::{self, DeserializeSeed, Deserializer, Visitor};

/// Types that contain themselves are followed so deep.
const DEEPEST: usize = 8;
/// No shape is longer.
const LONGEST: usize = 16 * 1024;

/// The shape that `T`'s `Deserialize` asks for, cut at [`LONGEST`] bytes.
pub(crate) fn shape_of<T: de::DeserializeOwned>() -> String {
    let mut text = String::new();
    // Refused values end it early, with what was asked for until then.
    let _ = T::deserialize(Probe { text: &mut text, depth: 0 });
    if text.len() > LONGEST {
        let cut = (0..=LONGEST).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(cut);
    }
    text
}

/// The fields of a struct with their shapes; `None` for other types.
#[cfg(feature = "parquet")]
pub(crate) fn fields_of<T: de::DeserializeOwned>() -> Option<Vec<(String, String)>> {
    let shape = shape_of::<T>();
    let (_, fields) = shape.strip_prefix("struct ")?.split_once('{')?;
    let (mut found, mut rest) = (Vec::new(), fields);
    while let Some((name, after)) = rest.split_once(": ") {
        let end = end_of_shape(after);
        found.push((name.to_owned(), after[..end].to_owned()));
        rest = after[end..].strip_prefix(", ").unwrap_or("");
    }
    Some(found)
}

/// Whether the whole of a struct's shape is known, and not just what comes before a refused value.
#[cfg(feature = "parquet")]
pub(crate) fn is_known<T: de::DeserializeOwned>() -> bool {
    let shape = shape_of::<T>();
    shape.matches('{').count() == shape.matches('}').count()
}

/// Where the first shape in a list of them ends: at a comma outside of all brackets.
#[cfg(feature = "parquet")]
fn end_of_shape(text: &str) -> usize {
    let mut depth = 0usize;
    let end = text.find(|c| {
        match c {
            '[' | '(' | '{' => depth += 1,
            ']' | ')' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    end.unwrap_or(text.len())
}

#[derive(Debug)]
struct Refused;

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a made-up value was refused")
    }
}

impl std::error::Error for Refused {}

impl de::Error for Refused {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Refused
    }
}

struct Probe<'a> {
    text: &'a mut String,
    depth: usize,
}

impl Probe<'_> {
    fn say(&mut self, words: &str) -> Result<(), Refused> {
        self.text.push_str(words);
        if self.text.len() > LONGEST { Err(Refused) } else { Ok(()) }
    }

    fn inner(&mut self) -> Probe<'_> {
        Probe { text: self.text, depth: self.depth + 1 }
    }

    fn is_too_deep(&self) -> bool {
        self.depth >= DEEPEST
    }
}

macro_rules! scalars {
    ($($method:ident $visit:ident $name:literal $value:expr;)*) => {$(
        fn $method<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
            self.say($name)?;
            visitor.$visit($value)
        }
    )*};
}

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = Refused;

    scalars! {
        deserialize_bool visit_bool "bool" false;
        deserialize_i8 visit_i8 "i8" 1;
        deserialize_i16 visit_i16 "i16" 1;
        deserialize_i32 visit_i32 "i32" 1;
        deserialize_i64 visit_i64 "i64" 1;
        deserialize_i128 visit_i128 "i128" 1;
        deserialize_u8 visit_u8 "u8" 1;
        deserialize_u16 visit_u16 "u16" 1;
        deserialize_u32 visit_u32 "u32" 1;
        deserialize_u64 visit_u64 "u64" 1;
        deserialize_u128 visit_u128 "u128" 1;
        deserialize_f32 visit_f32 "f32" 1.0;
        deserialize_f64 visit_f64 "f64" 1.0;
        deserialize_char visit_char "char" 'a';
        deserialize_str visit_str "str" "";
        deserialize_string visit_str "str" "";
        deserialize_bytes visit_bytes "bytes" b"";
        deserialize_byte_buf visit_bytes "bytes" b"";
    }

    fn deserialize_any<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        self.say("any")?;
        visitor.visit_unit()
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.deserialize_any(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.deserialize_any(visitor)
    }

    fn deserialize_unit<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        self.say("()")?;
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.say("struct ")?;
        self.say(name)?;
        visitor.visit_unit()
    }

    fn deserialize_option<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        self.say("option ")?;
        if self.is_too_deep() { visitor.visit_none() } else { visitor.visit_some(self.inner()) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.say(name)?;
        self.say(" ")?;
        visitor.visit_newtype_struct(self.inner())
    }

    fn deserialize_seq<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        self.say("[")?;
        let count = usize::from(!self.is_too_deep());
        let value = visitor.visit_seq(Items { probe: self.inner(), left: count, names: &[] })?;
        self.say("]")?;
        Ok(value)
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        mut self,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        write!(self.text, "{len}(").map_err(|_| Refused)?;
        let value = visitor.visit_seq(Items { probe: self.inner(), left: len, names: &[] })?;
        self.say(")")?;
        Ok(value)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.say(name)?;
        self.deserialize_tuple(len, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        self.say("map {")?;
        let count = usize::from(!self.is_too_deep());
        let value = visitor.visit_map(Items { probe: self.inner(), left: count, names: &[] })?;
        self.say("}")?;
        Ok(value)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.say("struct ")?;
        self.say(name)?;
        self.say(" {")?;
        if self.is_too_deep() {
            return Err(Refused);
        }
        let value =
            visitor.visit_map(Items { probe: self.inner(), left: fields.len(), names: fields })?;
        self.say("}")?;
        Ok(value)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.say("enum ")?;
        self.say(name)?;
        self.say(" {")?;
        self.say(&variants.join(", "))?;
        self.say("}")?;
        let first = variants.first().ok_or(Refused)?;
        // If the first variant holds something, this ends here: what the others hold is not known either.
        visitor.visit_enum(StrDeserializer::<Refused>::new(first))
    }
}

/// So many made-up items, or entries with these names.
struct Items<'a> {
    probe: Probe<'a>,
    left: usize,
    names: &'static [&'static str],
}

impl<'de> de::SeqAccess<'de> for Items<'_> {
    type Error = Refused;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Refused> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let item = seed.deserialize(self.probe.inner())?;
        self.probe.say(", ")?;
        Ok(Some(item))
    }
}

impl<'de> de::MapAccess<'de> for Items<'_> {
    type Error = Refused;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Refused> {
        if self.left == 0 {
            return Ok(None);
        }
        let name = self.names.len().checked_sub(self.left).and_then(|at| self.names.get(at));
        self.left -= 1;
        match name {
            None => seed.deserialize(self.probe.inner()).map(Some),
            Some(name) => {
                self.probe.say(name)?;
                seed.deserialize(BorrowedStrDeserializer::new(name)).map(Some)
            }
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Refused> {
        self.probe.say(": ")?;
        let value = seed.deserialize(self.probe.inner())?;
        self.probe.say(", ")?;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::{Deserialize, Serialize};
    use std::collections::BTreeMap;

    #[derive(Serialize, Deserialize)]
    struct Word {
        word: String,
        count: Option<u64>,
        #[serde(default)]
        places: Vec<(u32, f64)>,
    }

    #[derive(Serialize, Deserialize)]
    struct Tree {
        children: Vec<Tree>,
        parent: Option<Box<Tree>>,
    }

    #[derive(Serialize, Deserialize)]
    enum Either {
        Left(u64),
        Right,
    }

    #[cfg(feature = "parquet")]
    #[derive(Serialize, Deserialize)]
    struct Eithers {
        first: Either,
        second: u64,
    }

    #[test]
    fn a_shape_says_what_a_type_reads() {
        assert_eq!(shape_of::<u64>(), "u64");
        assert_eq!(shape_of::<(u64, String)>(), "2(u64, str, )");
        assert_eq!(
            shape_of::<Word>(),
            "struct Word {word: str, count: option u64, places: [2(u32, f64, ), ], }"
        );
        assert_eq!(shape_of::<BTreeMap<String, bool>>(), "map {str: bool, }");
        assert!(shape_of::<(Either, u8)>().starts_with("2(enum Either {Left, Right}"));
    }

    #[cfg(feature = "parquet")]
    #[test]
    fn the_fields_of_a_struct_are_told_with_their_shapes() {
        let expected = [("word", "str"), ("count", "option u64"), ("places", "[2(u32, f64, ), ]")];
        let expected = expected.map(|(name, shape)| (name.to_owned(), shape.to_owned()));
        assert_eq!(fields_of::<Word>().unwrap(), expected);
        assert_eq!(fields_of::<(u8, u8)>(), None);
        assert!(is_known::<Word>() && !is_known::<Eithers>());
    }

    #[test]
    fn types_that_differ_have_different_shapes_and_endless_ones_end() {
        assert_ne!(shape_of::<u32>(), shape_of::<i32>());
        assert_ne!(shape_of::<Option<u32>>(), shape_of::<u32>());
        assert!(shape_of::<Tree>().len() <= LONGEST);
        assert_eq!(shape_of::<Tree>(), shape_of::<Tree>());
        assert!(shape_of::<std::num::NonZeroU8>().contains("u8"));
    }
}
