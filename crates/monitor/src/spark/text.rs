//! Values of Spark's logs, taken as leniently as Spark takes them: a number beyond 64 bits is the largest one, a number
//! where a text should be is its text, `null` is nothing. What is a list where a number should be is an error of its line.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

/// A text that lies in the line, if nothing in it is escaped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Str<'a>(pub(crate) Cow<'a, str>);

impl<'a> Str<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Str(Cow::Borrowed(text))
    }

    pub(crate) fn owned(text: String) -> Self {
        Str(Cow::Owned(text))
    }

    pub(crate) fn into_owned(self) -> String {
        self.0.into_owned()
    }
}

impl std::ops::Deref for Str<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Serialize for Str<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0)
    }
}

struct StrVisitor;

impl<'de> Visitor<'de> for StrVisitor {
    type Value = Str<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Str<'de>, E> {
        Ok(Str(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Str<'de>, E> {
        Ok(Str::owned(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Str<'de>, E> {
        Ok(Str::owned(text))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Str<'de>, E> {
        Ok(Str::owned(number.to_string()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Str<'de>, E> {
        Ok(Str::owned(number.to_string()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Str<'de>, E> {
        Ok(Str::owned(number.to_string()))
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Str<'de>, E> {
        Ok(Str::owned(flag.to_string()))
    }

    fn visit_unit<E>(self) -> Result<Str<'de>, E> {
        Ok(Str::default())
    }

    /// Lists and objects are values of accumulators of a program's own kinds: nobody reads them.
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Str<'de>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Str::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Str<'de>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Str::default())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Str<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(StrVisitor)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Int(pub(crate) i64);

impl Int {
    pub(crate) fn of(number: u64) -> Self {
        Int(i64::try_from(number).unwrap_or(i64::MAX))
    }

    /// What is below zero is zero.
    pub(crate) fn u64(self) -> u64 {
        u64::try_from(self.0).unwrap_or(0)
    }

    /// What is out of range is at its end.
    pub(crate) fn u32(self) -> u32 {
        u32::try_from(self.0.max(0)).unwrap_or(u32::MAX)
    }
}

impl Serialize for Int {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_i64(self.0)
    }
}

struct IntVisitor;

impl<'de> Visitor<'de> for IntVisitor {
    type Value = Int;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_i64<E>(self, number: i64) -> Result<Int, E> {
        Ok(Int(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Int, E> {
        Ok(Int::of(number))
    }

    /// Beyond 64 bits, or a fraction: `as` stays in range.
    fn visit_f64<E>(self, number: f64) -> Result<Int, E> {
        Ok(Int(number as i64))
    }

    fn visit_unit<E>(self) -> Result<Int, E> {
        Ok(Int(0))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Int, E> {
        text.trim().parse().map(Int).map_err(|_| E::custom("this text is not a number"))
    }
}

impl<'de> Deserialize<'de> for Int {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(IntVisitor)
    }
}

/// Names and values in the order of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pairs<'a>(pub(crate) Vec<(Str<'a>, Str<'a>)>);

impl<'a> Pairs<'a> {
    pub(crate) fn of(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let pairs = pairs.into_iter().map(|(name, value)| (Str::new(name), Str::new(value)));
        Pairs(pairs.collect())
    }

    pub(crate) fn into_owned<T: FromIterator<(String, String)>>(self) -> T {
        self.0.into_iter().map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
    }
}

impl Serialize for Pairs<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

struct PairsVisitor;

impl<'de> Visitor<'de> for PairsVisitor {
    type Value = Pairs<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("names with texts")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<'de>, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(Pairs(pairs))
    }

    fn visit_unit<E>(self) -> Result<Pairs<'de>, E> {
        Ok(Pairs::default())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(PairsVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Option<i64> {
        serde_json::from_str::<Int>(text).ok().map(|number| number.0)
    }

    #[test]
    fn numbers_beyond_64_bits_are_the_largest_and_lists_are_no_numbers() {
        let texts = ["7", "-1", "18446744073709551616", "-1e300", "\"12\"", "null", "[1]", "{}"];
        let numbers = texts.map(number);
        let (most, least) = (Some(i64::MAX), Some(i64::MIN));
        assert_eq!(numbers, [Some(7), Some(-1), most, least, Some(12), Some(0), None, None]);
        assert_eq!((Int(-5).u64(), Int(-5).u32(), Int(i64::MAX).u32()), (0, 0, u32::MAX));
    }

    #[test]
    fn texts_are_borrowed_unless_escaped_and_other_values_become_texts() {
        let read = |text| serde_json::from_str::<Str<'_>>(text).unwrap();
        assert!(matches!(read("\"plain\"").0, Cow::Borrowed("plain")));
        assert_eq!((&*read("\"a\\nb\""), &*read("17"), &*read("[1,{}]")), ("a\nb", "17", ""));
    }
}
