//! Types of every make through the wire form: equal or refused, and refused when first written.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Debug;
use std::sync::Arc;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::*;

fn comes_back<T: Data + PartialEq + Debug>(values: impl IntoIterator<Item = T>) {
    let values: Vec<T> = values.into_iter().collect();
    let (mut appender, mut bytes) = (Appender::default(), Vec::new());
    for value in &values {
        appender.append(&mut bytes, value).unwrap();
        assert_eq!(from_bytes::<T>(&to_bytes(value).unwrap()).unwrap(), *value);
        check(value).unwrap();
    }
    let (taker, mut at) = (Taker::of::<T>(), 0);
    for value in &values {
        let (found, length) = taker.take::<T>(&bytes[at..]).unwrap();
        assert_eq!(found, *value);
        at += length;
    }
    assert_eq!(at, bytes.len());
}

/// Its writer refuses it, and so do readers that get it all the same.
fn is_refused<T: Data>(value: T, because: &str) {
    for _ in 0..2 {
        let error = check(&value).unwrap_err().to_string();
        assert!(error.contains(because), "{error}");
        assert!(error.contains("cannot be encoded"), "{error}");
        let mut bytes = Vec::new();
        assert!(Appender::default().append(&mut bytes, &value).is_err());
    }
    if let Ok(bytes) = to_bytes(&value) {
        assert!(from_bytes::<T>(&bytes).is_err());
        let many = bytes.repeat(3);
        assert!(Taker::of::<T>().take::<T>(&many).is_err());
    }
}

#[test]
fn the_librarys_types_come_back() {
    comes_back([(1u8, -2i8, 3u16, -4i16, 5u32, -6i32)]);
    comes_back([(u64::MAX, i64::MIN, u128::MAX, i128::MIN, usize::MAX, isize::MIN)]);
    comes_back([0u64, 127, 128, 16_383, 16_384, u64::MAX]);
    comes_back([0i64, -1, 63, -64, 64, i64::MAX, i64::MIN]);
    comes_back([i128::MIN, -1, 0, 1, i128::MAX]);
    comes_back([(f32::MIN, f64::MAX, true, 'ß'), (0.1, -0.0, false, '\u{10ffff}')]);
    comes_back([(String::from("text"), Some(()), None::<u8>), (String::new(), None, Some(9))]);
    comes_back([vec![Some(vec![1u8]), None], vec![]]);
    comes_back([HashMap::from([(1u8, HashSet::from(["a".to_owned(), "b".to_owned()]))])]);
    comes_back([BTreeMap::from([([1u8, 2], Box::new(3u8))]), BTreeMap::new()]);
    comes_back([Ok::<u8, String>(1), Err("no".into())]);
    comes_back([(Arc::new(1u8), Cow::<str>::Owned("x".into()), std::time::Duration::MAX)]);
    comes_back([std::net::IpAddr::from([1, 2, 3, 4])]);
    comes_back([(1..2u8, std::ops::Bound::Included(3u8), std::path::PathBuf::from("/a"))]);
    assert!(from_bytes::<f64>(&to_bytes(&f64::NAN).unwrap()).unwrap().is_nan());
}

#[derive(Serialize, Deserialize, PartialEq, Debug, Clone)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
enum Kind {
    Nothing,
    #[serde(rename = "one")]
    Wrapped(u8),
    Two(u8, String),
    Named {
        #[serde(alias = "was")]
        first: u8,
        second: Option<Box<Kind>>,
    },
    #[serde(alias = "former", alias = "before")]
    Aliased,
    Last(Record),
}

#[derive(Serialize, Deserialize, PartialEq, Debug, Clone, Default)]
#[serde(default)]
struct Record {
    #[serde(rename = "n", alias = "number", alias = "count")]
    number: u64,
    #[serde(skip)]
    left_out: (),
    wrapped: Wrapped,
    pair: Pair,
    unit: Unit,
    #[serde(with = "as_text")]
    shown: u32,
}

#[derive(Serialize, Deserialize, PartialEq, Debug, Clone, Default)]
struct Wrapped(f64);
#[derive(Serialize, Deserialize, PartialEq, Debug, Clone, Default)]
struct Pair(u8, #[serde(default)] String);
#[derive(Serialize, Deserialize, PartialEq, Debug, Clone, Default)]
struct Unit;
#[derive(Serialize, Deserialize, PartialEq, Debug, Clone, Default)]
#[serde(transparent)]
struct Tree(Vec<Tree>);

mod as_text {
    use super::*;

    pub(super) fn serialize<S: Serializer>(value: &u32, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<u32, D::Error> {
        String::deserialize(d)?.parse().map_err(D::Error::custom)
    }
}

#[test]
fn types_with_attributes_that_both_sides_keep_come_back() {
    let record = Record { number: 300, shown: 77, pair: Pair(1, "x".into()), ..Record::default() };
    let named = Kind::Named { first: 1, second: Some(Box::new(Kind::Aliased)) };
    let kinds = [
        Kind::Nothing,
        Kind::Wrapped(1),
        Kind::Two(2, "b".into()),
        named.clone(),
        Kind::Named { first: 0, second: None },
        Kind::Aliased,
        Kind::Last(record.clone()),
    ];
    comes_back(kinds.clone());
    comes_back([kinds.to_vec(), vec![], kinds[4..].to_vec()]);
    comes_back([HashMap::from([("a".to_owned(), (named, record))])]);
    comes_back([Tree(vec![Tree::default(), Tree(vec![Tree::default()])])]);
}

/// Written by a `filter`: its length is not known beforehand.
#[derive(Debug, PartialEq)]
struct Evens(Vec<u64>);

impl Serialize for Evens {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().filter(|n| **n % 2 == 0))
    }
}

impl<'de> Deserialize<'de> for Evens {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Evens)
    }
}

#[test]
fn a_sequence_that_does_not_know_its_length_comes_back() {
    comes_back([Evens(vec![2, 4, 600]), Evens(vec![]), Evens((0..300).map(|n| 2 * n).collect())]);
}

#[derive(Serialize, Deserialize, PartialEq, Debug)]
struct SkippedIf {
    #[serde(skip_serializing_if = "Option::is_none")]
    a: Option<u8>,
    b: u8,
}

#[derive(Serialize, Deserialize, PartialEq, Debug)]
enum SkippedIn {
    Named {
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        list: Vec<u8>,
    },
}

#[test]
fn a_field_left_out_is_refused_by_name_also_after_values_that_have_it() {
    comes_back([SkippedIf { a: Some(0), b: 7 }]);
    is_refused(SkippedIf { a: None, b: 0 }, "field `a` of `SkippedIf`");
    comes_back([SkippedIn::Named { list: vec![1] }]);
    is_refused(SkippedIn::Named { list: vec![] }, "field `list` of `Named`");
    let (mut appender, mut bytes) = (Appender::default(), Vec::new());
    appender.append(&mut bytes, &SkippedIf { a: Some(0), b: 7 }).unwrap();
    assert!(appender.append(&mut bytes, &SkippedIf { a: None, b: 7 }).is_err());
}

macro_rules! refused_types {
    ($($(#[$meta:meta])* $name:ident { $($(#[$field:meta])* $field_name:ident: $type:ty),* } = $because:literal;)*) => {
        #[test]
        fn attributes_that_one_side_alone_keeps_are_refused_also_inside_of_others() {$(
            #[allow(dead_code)]
            #[derive(Serialize, Deserialize, Default, Clone)]
            $(#[$meta])*
            struct $name { $($(#[$field])* $field_name: $type),* }
            is_refused($name::default(), $because);
            is_refused(vec![$name::default()], $because);
            is_refused(Some(($name::default(), 1u8)), $because);
            is_refused(HashMap::from([(1u8, $name::default())]), $because);
            is_refused(Ok::<$name, u8>($name::default()), $because);
            // Hidden in the first values.
            let (mut appender, mut bytes) = (Appender::default(), Vec::new());
            appender.append(&mut bytes, &None::<$name>).unwrap();
            assert!(appender.append(&mut bytes, &Some($name::default())).is_err());
            appender.append(&mut bytes, &Vec::<$name>::new()).unwrap();
            assert!(appender.append(&mut bytes, &vec![$name::default()]).is_err());
        )*}
    };
}

refused_types! {
    SkipSer { a: u64, #[serde(skip_serializing)] b: u8 } = "do not agree";
    SkipSerZero { a: u64, #[serde(skip_serializing)] b: () } = "do not agree";
    SkipDe { a: u64, #[serde(skip_deserializing)] b: u8 } = "do not agree";
    SkipDeZero { a: u64, #[serde(skip_deserializing)] b: () } = "do not agree";
    OneEach { #[serde(skip_serializing)] a: u8, #[serde(skip_deserializing)] b: u8 } = "do not agree";
    TwoEach { #[serde(skip_serializing)] a: u8, c: u8, #[serde(skip_deserializing)] b: u8 } = "do not agree";
    RenamedApart { #[serde(rename(serialize = "x"))] a: u8 } = "do not agree";
    #[serde(tag = "type")] Tagged { a: u8 } = "do not agree";
    Flattened { a: u8, #[serde(flatten)] rest: HashMap<String, u8> } = "flatten";
    SkipsIf { #[serde(skip_serializing_if = "Option::is_none")] a: Option<u8> } = "skip_serializing_if";
    DefaultBoth { #[serde(skip_serializing, default)] a: u8, b: u8 } = "do not agree";
}

#[derive(Serialize, Deserialize, Clone)]
#[serde(untagged)]
enum Untagged {
    Number(u64),
    Text(String),
}

#[derive(Serialize, Deserialize, Clone)]
#[serde(tag = "t")]
enum Internal {
    A { n: u8 },
}

#[derive(Serialize, Deserialize, Clone)]
#[serde(tag = "t", content = "c")]
enum Adjacent {
    A(u8),
    B,
}

#[derive(Serialize, Deserialize, Clone)]
enum HalfUntagged {
    A(u8),
    #[serde(untagged)]
    Other(String),
}

#[test]
fn self_describing_enums_are_refused_with_what_to_write_instead() {
    is_refused(Untagged::Number(1), "`#[serde(untagged)]`");
    is_refused(vec![Untagged::Text("a".into())], "send a `String` of JSON");
    is_refused(Internal::A { n: 1 }, "`#[serde(tag = ...)]`");
    is_refused(HalfUntagged::Other("x".into()), "");
    is_refused(HalfUntagged::A(1), "");
    let (mut appender, mut bytes) = (Appender::default(), Vec::new());
    appender.append(&mut bytes, &(None::<Untagged>, Some(1u8))).unwrap();
    assert!(appender.append(&mut bytes, &(Some(Untagged::Number(1)), Some(1u8))).is_err());
}

#[test]
fn an_adjacently_tagged_enum_comes_back_or_is_refused() {
    for value in [Adjacent::A(1), Adjacent::B] {
        let Ok(bytes) = to_bytes(&value) else { continue };
        let Ok(found) = from_bytes::<Adjacent>(&bytes) else { continue };
        assert_eq!(matches!(found, Adjacent::B), matches!(value, Adjacent::B));
    }
}

macro_rules! skipping_enum {
    ($test:ident, $(#[$skip:meta])* $name:ident) => {
        #[test]
        fn $test() {
            #[derive(Serialize, Deserialize, PartialEq, Debug, Clone)]
            enum $name {
                A,
                $(#[$skip])*
                B,
                C,
                D(u8),
                E(u8),
            }
            let all = [$name::A, $name::B, $name::C, $name::D(1), $name::E(1)];
            for value in all {
                let checked = check(&value);
                match to_bytes(&value).and_then(|bytes| from_bytes::<$name>(&bytes)) {
                    Ok(found) => assert_eq!(found, value),
                    Err(_) => assert!(checked.is_err()),
                }
                let mut bytes = Vec::new();
                let mut appender = Appender::default();
                if appender.append(&mut bytes, &vec![value.clone()]).is_ok() {
                    assert_eq!(from_bytes::<Vec<$name>>(&bytes).unwrap(), [value]);
                }
            }
        }
    };
}
skipping_enum!(
    a_variant_skipped_on_both_sides_moves_no_other,
    #[serde(skip)]
    SkipBoth
);
skipping_enum!(
    a_variant_skipped_when_written_moves_no_other,
    #[serde(skip_serializing)]
    SkipWritten
);
skipping_enum!(
    a_variant_skipped_when_read_moves_no_other,
    #[serde(skip_deserializing)]
    SkipRead
);
skipping_enum!(
    a_variant_with_aliases_is_itself,
    #[serde(alias = "X", alias = "Y")]
    Aliases
);
skipping_enum!(
    a_variant_renamed_on_one_side_is_itself,
    #[serde(rename(serialize = "Z"))]
    Renamed
);

#[derive(Serialize, Deserialize, PartialEq, Debug, Clone)]
enum WithOther {
    A,
    #[serde(skip_deserializing)]
    B,
    C,
    #[serde(other)]
    Other,
}

#[test]
fn an_enum_that_takes_anything_for_other_gives_no_other_variant() {
    for value in [WithOther::A, WithOther::B, WithOther::C, WithOther::Other] {
        if let Ok(found) = to_bytes(&value).and_then(|bytes| from_bytes::<WithOther>(&bytes)) {
            assert_eq!(found, value);
        }
    }
}

/// Writes a text and reads a number.
#[derive(PartialEq, Debug, Clone)]
struct Liar(String);

impl Serialize for Liar {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Liar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u64::deserialize(deserializer).map(|n| Liar(n.to_string()))
    }
}

/// Writes as many bytes as it reads, and two fields the other way round.
#[derive(PartialEq, Debug, Clone)]
struct Swapped(u8, u8);

impl Serialize for Swapped {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.0, self.1).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Swapped {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Two;
        impl<'de> Visitor<'de> for Two {
            type Value = Swapped;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("two")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Swapped, A::Error> {
                let one = seq.next_element()?.unwrap_or_default();
                Ok(Swapped(one, 0))
            }
        }
        deserializer.deserialize_tuple(2, Two)
    }
}

/// Says that there are more elements than it writes.
#[derive(PartialEq, Debug, Clone)]
struct Boaster(Vec<()>);

impl Serialize for Boaster {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeSeq;
        let mut seq = serializer.serialize_seq(Some(self.0.len() + 1))?;
        self.0.iter().try_for_each(|unit| seq.serialize_element(unit))?;
        seq.end()
    }
}

impl<'de> Deserialize<'de> for Boaster {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Boaster)
    }
}

#[test]
fn implementations_that_lie_are_refused() {
    is_refused(Liar(String::new()), "do not agree");
    is_refused(Liar("12".into()), "do not agree");
    is_refused(Swapped(1, 2), "do not agree");
    is_refused(Boaster(vec![(), ()]), "do not agree");
    let kept = Arc::new(1);
    let error = check(&Holder { weak: Arc::downgrade(&kept), _kept: kept }).unwrap_err();
    assert!(error.to_string().contains("another value"), "{error}");
}

/// A weak pointer comes back empty.
#[derive(Serialize, Deserialize)]
struct Holder {
    weak: std::sync::Weak<i32>,
    #[serde(skip)]
    _kept: Arc<i32>,
}

#[derive(Serialize, Deserialize, PartialEq, Debug, Clone)]
struct Refuses(#[serde(serialize_with = "refuse")] u8);

fn refuse<S: Serializer>(_: &u8, _: S) -> Result<S::Ok, S::Error> {
    Err(serde::ser::Error::custom("not on a Monday"))
}

#[test]
fn a_types_own_words_are_kept() {
    let error = to_bytes(&Refuses(1)).unwrap_err().to_string();
    assert!(error.contains("not on a Monday") && error.contains("Refuses"), "{error}");
    let error = from_bytes::<Record>(&to_bytes(&(1u64,)).unwrap()).unwrap_err().to_string();
    assert!(error.contains("the bytes end"), "{error}");
    let shown = Record { shown: 1, ..Record::default() };
    let mut bytes = to_bytes(&shown).unwrap();
    let digit = bytes.iter().rposition(|byte| *byte == b'1').unwrap();
    bytes[digit] = b'x';
    let error = from_bytes::<Record>(&bytes).unwrap_err().to_string();
    assert!(error.contains("invalid digit"), "{error}");
}

#[derive(Serialize, Deserialize, Default)]
struct Chain(Option<Box<Chain>>);

#[test]
fn nesting_without_end_is_refused_and_not_a_crash() {
    let chain = |length: u32| (0..length).fold(Chain(None), |next, _| Chain(Some(Box::new(next))));
    let deep = (DEEPEST - 2) / 2;
    std::thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(move || {
            check(&chain(deep)).unwrap();
            let error = check(&chain(DEEPEST)).unwrap_err().to_string();
            assert!(error.contains("levels deep"), "{error}");
            let hostile = vec![1u8; 100_000];
            assert!(from_bytes::<Chain>(&hostile).is_err());
            assert!(from_bytes::<Tree>(&hostile).is_err());
        })
        .unwrap()
        .join()
        .unwrap();
}

#[test]
fn cut_off_and_changed_bytes_are_errors_or_other_values_but_never_a_crash() {
    let value = vec![(Kind::Last(Record::default()), HashMap::from([(1u8, "a".to_owned())]))];
    let bytes = to_bytes(&value).unwrap();
    type Both = Vec<(Kind, HashMap<u8, String>)>;
    for end in 0..bytes.len() {
        assert!(from_bytes::<Both>(&bytes[..end]).is_err());
    }
    for (at, bit) in (0..bytes.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << bit;
        let _ = from_bytes::<Both>(&changed);
    }
    let mut longer = bytes;
    longer.push(0);
    assert!(matches!(from_bytes::<Both>(&longer), Err(WireError::Unread { .. })));
}

#[test]
fn plain_values_carry_nothing_and_others_four_bytes() {
    assert_eq!(to_bytes(&(1u8, "ab".to_owned())).unwrap().len(), 4);
    assert_eq!(to_bytes(&Wrapped(1.0)).unwrap().len(), 8 + SEAL_BYTES);
    assert_eq!(encoded_len(&(1u8, "ab".to_owned())).unwrap(), 4);
}

#[allow(dead_code)]
#[derive(Serialize, Deserialize, Clone, Default)]
struct TupleEach(#[serde(skip_serializing)] u8, #[serde(skip_deserializing)] u8, u8);

#[allow(dead_code)]
#[derive(Serialize, Deserialize, Clone, Default)]
struct AliasedEach {
    #[serde(skip_serializing)]
    a: u8,
    #[serde(skip_deserializing)]
    b: u8,
    #[serde(alias = "z")]
    c: u8,
}

#[allow(dead_code)]
#[derive(Serialize, Deserialize, Clone, Default)]
struct Trick {
    #[serde(skip_serializing, alias = "b")]
    a: u8,
    #[serde(skip_deserializing)]
    b: u8,
}

#[allow(dead_code)]
#[derive(Serialize, Deserialize, Clone, Default)]
struct OptionEach(
    #[serde(skip_serializing)] Option<String>,
    #[serde(skip_deserializing)] Option<String>,
    u8,
);

#[derive(Serialize, Deserialize, Clone)]
enum VariantEach {
    A(#[serde(skip_serializing)] u8, #[serde(skip_deserializing)] u8, u8),
}

#[test]
fn elements_without_names_that_each_side_skips_differently_are_refused_also_as_defaults() {
    fn refused<T: Data>(value: T) {
        let error = check(&value).unwrap_err().to_string();
        assert!(error.contains("never writes"), "{error}");
        assert!(Appender::default().append(&mut Vec::new(), &value).is_err());
    }
    refused(TupleEach::default());
    refused(TupleEach(1, 0, 0));
    refused(AliasedEach::default());
    refused(Trick { a: 1, b: 0 });
    refused(VariantEach::A(1, 0, 3));
    refused(OptionEach::default());
}
