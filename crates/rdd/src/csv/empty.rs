//! Tells a field that is quoted and empty, an empty text, from a field that holds nothing, which is `None`.
//!
//! Neither the parser nor the deserializer of the csv crate does. A row that may have such a field is parsed a second time,
//! field by field, and read through [`Marked`], which answers its `Option`s. No other row comes here. The crate
//! keeps everything else: how texts become values, and what is said of those that do not.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;

use csv::ByteRecord;
use csv_core::ReadFieldResult;
use serde::de::{
    self, Deserialize, DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess,
    Visitor,
};

/// Where the current row has empty texts.
pub(super) struct EmptyTexts {
    parser: csv_core::Reader,
    quote: u8,
    /// By field; none if no field is an empty text.
    marks: Vec<bool>,
    /// Columns of a type that refuses empty texts, such as `Option<u32>`: there they are `None`.
    refusing: Vec<usize>,
}

impl EmptyTexts {
    pub(super) fn new(parser: csv_core::Reader, quote: u8) -> Self {
        EmptyTexts { parser, quote, marks: Vec::new(), refusing: Vec::new() }
    }

    /// Before a row in which nothing is an empty text.
    pub(super) fn clear(&mut self) {
        self.marks.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// Looks for them in `row`, as it is in the file. What is not closed in there never comes here.
    pub(super) fn find(&mut self, row: &[u8]) {
        self.marks.clear();
        if !row.windows(2).any(|pair| pair == [self.quote, self.quote]) {
            return;
        }
        self.parser.reset();
        let mut rest = row;
        loop {
            let starts_quoted = rest.first() == Some(&self.quote);
            let (after, is_empty, is_last) = self.skip_field(rest);
            let column = self.marks.len();
            self.marks.push(starts_quoted && is_empty && !self.refusing.contains(&column));
            rest = after;
            if is_last {
                break;
            }
        }
        // A line of nothing is no row: with a single column, nothing is written in quotes, too.
        if self.marks.len() == 1 || !self.marks.contains(&true) {
            self.marks.clear();
        }
    }

    /// What follows the first field of `row`, whether that one is empty, and whether it is the last.
    fn skip_field<'r>(&mut self, mut row: &'r [u8]) -> (&'r [u8], bool, bool) {
        let (mut content, mut is_empty) = ([0; 256], true);
        loop {
            let (result, read, written) = self.parser.read_field(row, &mut content);
            row = &row[read..];
            is_empty &= written == 0;
            match result {
                ReadFieldResult::OutputFull => {}
                ReadFieldResult::Field { record_end } => return (row, is_empty, record_end),
                ReadFieldResult::InputEmpty | ReadFieldResult::End => return (row, is_empty, true),
            }
        }
    }

    /// The row as a value. A column that refuses an empty text is `None` there, and is remembered.
    pub(super) fn deserialize<T: DeserializeOwned>(
        &mut self,
        record: &ByteRecord,
        header: Option<&ByteRecord>,
    ) -> Result<T, csv::Error> {
        loop {
            ROW.with(|row| row.start(&self.marks));
            let error = match record.deserialize::<Reread<T>>(header) {
                Ok(Reread(value)) => return Ok(value),
                Err(error) => error,
            };
            let Some(column) = ROW.with(|row| row.refused.take()) else { return Err(error) };
            self.marks[column] = false;
            self.refusing.push(column);
        }
    }
}

/// The row that this thread reads: `Deserialize` takes no argument that could say which fields are empty texts.
struct Row {
    marks: RefCell<Vec<bool>>,
    /// The field that is read next.
    next: Cell<usize>,
    /// The column whose empty text was refused.
    refused: Cell<Option<usize>>,
}

thread_local! {
    static ROW: Row = const {
        Row { marks: RefCell::new(Vec::new()), next: Cell::new(0), refused: Cell::new(None) }
    };
}

impl Row {
    fn start(&self, marks: &[bool]) {
        self.marks.replace(marks.to_vec());
        self.next.set(0);
        self.refused.set(None);
    }

    /// Goes on to the next field; the one it was at, and whether that is an empty text.
    fn step(&self) -> (usize, bool) {
        let column = self.next.replace(self.next.get() + 1);
        (column, self.marks.borrow().get(column) == Some(&true))
    }
}

fn step() {
    ROW.with(Row::step);
}

/// A value that is read through [`Marked`].
struct Reread<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Reread<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(Marked(deserializer)).map(Reread)
    }
}

/// A deserializer of the csv crate, a visitor that it calls, or what it gives that visitor: counts fields, and answers for
/// those that are empty texts.
struct Marked<X>(X);

macro_rules! one_field {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            step();
            self.0.$method(visitor)
        }
    )*};
}

macro_rules! fields_inside {
    ($($method:ident($($name:ident: $type:ty),*);)*) => {$(
        fn $method<V: Visitor<'de>>(self, $($name: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method($($name,)* Marked(visitor))
        }
    )*};
}

macro_rules! no_field {
    ($($method:ident($($name:ident: $type:ty),*);)*) => {$(
        fn $method<V: Visitor<'de>>(self, $($name: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method($($name,)* visitor)
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Marked<D> {
    type Error = D::Error;

    one_field! {
        deserialize_any deserialize_ignored_any deserialize_bool deserialize_char
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
        deserialize_f32 deserialize_f64
        deserialize_str deserialize_string deserialize_bytes deserialize_byte_buf
    }

    fields_inside! {
        deserialize_option();
        deserialize_newtype_struct(name: &'static str);
        deserialize_seq();
        deserialize_tuple(len: usize);
        deserialize_tuple_struct(name: &'static str, len: usize);
        deserialize_map();
        deserialize_struct(name: &'static str, fields: &'static [&'static str]);
    }

    no_field! {
        deserialize_unit();
        deserialize_unit_struct(name: &'static str);
        deserialize_identifier();
    }

    /// Variants without data are all that a field can be.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        step();
        self.0.deserialize_enum(name, variants, visitor)
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Marked<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_none<E: de::Error>(self) -> Result<V::Value, E> {
        let (column, is_empty_text) = ROW.with(Row::step);
        if !is_empty_text {
            return self.0.visit_none();
        }
        let value = self.0.visit_some(EmptyText(PhantomData));
        value.inspect_err(|_| ROW.with(|row| row.refused.set(Some(column))))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(Marked(deserializer))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(Marked(deserializer))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(Marked(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Marked(entries))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Marked<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Marked(deserializer))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Marked<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(Marked(seed))
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Marked<A> {
    type Error = A::Error;

    /// Names are of the header, and no fields.
    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.0.next_key_seed(seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(Marked(seed))
    }
}

/// What is in an `Option` whose field is an empty text.
struct EmptyText<E>(PhantomData<E>);

impl<'de, E: de::Error> Deserializer<'de> for EmptyText<E> {
    type Error = E;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        visitor.visit_borrowed_str("")
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, E> {
        visitor.visit_newtype_struct(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}
