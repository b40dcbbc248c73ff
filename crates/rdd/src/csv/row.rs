//! Rows as they are written: a field per simple value, and an empty text in quotes, so that it is told from `None`.
//!
//! The csv crate writes both as nothing.

use std::fmt::{self, Display, Write};
use std::mem;

use serde::ser::{self, Impossible, Serialize};

/// Why an item is no row.
#[derive(Debug)]
pub(crate) struct NoRow(String);

impl Display for NoRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoRow {}

impl ser::Error for NoRow {
    fn custom<T: Display>(message: T) -> Self {
        NoRow(message.to_string())
    }
}

type Result<T = ()> = std::result::Result<T, NoRow>;

const ONLY_AN_EMPTY_TEXT: &str = "its only field is an empty text in an `Option`, which would come back as `None`: \
                                  a line of nothing is no row, so `None` is written in quotes, too";

/// Turns items into lines of CSV.
pub(crate) struct RowEncoder {
    form: csv_core::Writer,
    /// Whether the names of the fields go before the first row.
    header: bool,
    /// How many fields each row has, once one is written.
    width: Option<usize>,
    /// The row so far.
    line: Vec<u8>,
    fields: usize,
    /// The names of its fields, as far as they have some; those of structs inside of structs are too many.
    names: Vec<&'static str>,
    /// Whether the value that is being written is in an `Option`.
    is_optional: bool,
    /// Whether an `Option` holds an empty text.
    has_optional_empty: bool,
    number: String,
}

impl RowEncoder {
    pub(super) fn new(form: csv_core::Writer, header: bool) -> Self {
        RowEncoder {
            form,
            header,
            width: None,
            line: Vec::new(),
            fields: 0,
            names: Vec::new(),
            is_optional: false,
            has_optional_empty: false,
            number: String::new(),
        }
    }

    /// The item as a line, behind the header if it is the first.
    pub(crate) fn encode<T: Serialize>(&mut self, item: &T) -> Result<&[u8]> {
        self.start();
        item.serialize(&mut *self)?;
        self.end()?;
        if self.width.replace(self.fields).is_none() && self.header && !self.names.is_empty() {
            self.put_header_before()?;
        }
        Ok(&self.line)
    }

    fn start(&mut self) {
        self.line.clear();
        self.names.clear();
        (self.fields, self.is_optional, self.has_optional_empty) = (0, false, false);
    }

    fn end(&mut self) -> Result {
        if let Some(width) = self.width.filter(|width| *width != self.fields) {
            let found = self.fields;
            return refuse(format!("it has {found} field(s), but the row before has {width}"));
        }
        if self.fields == 1 && self.has_optional_empty {
            return refuse(ONLY_AN_EMPTY_TEXT);
        }
        if self.line.is_empty() {
            self.line.extend([self.form.get_quote(); 2]);
        }
        self.line.push(b'\n');
        Ok(())
    }

    fn put_header_before(&mut self) -> Result {
        let (names, fields) = (mem::take(&mut self.names), self.fields);
        if names.len() != fields {
            let found = names.len();
            return refuse(format!("it has {fields} field(s), but {found} name(s) for the header"));
        }
        let row = mem::take(&mut self.line);
        self.fields = 0;
        names.iter().for_each(|name| self.field(name.as_bytes()));
        self.line.push(b'\n');
        self.line.extend(row);
        Ok(())
    }

    fn field(&mut self, text: &[u8]) {
        self.separate();
        match self.form.should_quote(text) {
            true => self.quoted(text),
            false => self.line.extend_from_slice(text),
        }
    }

    fn text(&mut self, text: &[u8]) -> Result {
        if !text.is_empty() {
            self.field(text);
            return Ok(());
        }
        self.has_optional_empty |= self.is_optional;
        self.separate();
        self.quoted(text);
        Ok(())
    }

    fn separate(&mut self) {
        if self.fields > 0 {
            self.line.push(self.form.get_delimiter());
        }
        self.fields += 1;
    }

    fn quoted(&mut self, text: &[u8]) {
        let (quote, escape) = (self.form.get_quote(), self.form.get_escape());
        let doubles = self.form.get_double_quote();
        self.line.push(quote);
        for byte in text {
            if *byte == quote || !doubles && *byte == escape {
                self.line.push(if doubles { quote } else { escape });
            }
            self.line.push(*byte);
        }
        self.line.push(quote);
    }

    fn number(&mut self, number: fmt::Arguments<'_>) -> Result {
        let mut text = mem::take(&mut self.number);
        text.clear();
        text.write_fmt(number).map_err(|error| NoRow(error.to_string()))?;
        self.field(text.as_bytes());
        self.number = text;
        Ok(())
    }
}

#[cold]
fn refuse<T>(reason: impl Into<String>) -> Result<T> {
    Err(NoRow(reason.into()))
}

macro_rules! numbers {
    ($($method:ident($type:ty) $format:literal;)*) => {$(
        fn $method(self, value: $type) -> Result {
            self.number(format_args!($format, value))
        }
    )*};
}

impl ser::Serializer for &mut RowEncoder {
    type Ok = ();
    type Error = NoRow;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Impossible<(), NoRow>;
    type SerializeMap = Impossible<(), NoRow>;
    type SerializeStruct = Self;
    type SerializeStructVariant = Impossible<(), NoRow>;

    numbers! {
        serialize_bool(bool) "{}";
        serialize_i8(i8) "{}";
        serialize_i16(i16) "{}";
        serialize_i32(i32) "{}";
        serialize_i64(i64) "{}";
        serialize_i128(i128) "{}";
        serialize_u8(u8) "{}";
        serialize_u16(u16) "{}";
        serialize_u32(u32) "{}";
        serialize_u64(u64) "{}";
        serialize_u128(u128) "{}";
        serialize_f32(f32) "{:?}";
        serialize_f64(f64) "{:?}";
    }

    fn serialize_char(self, value: char) -> Result {
        self.text(value.encode_utf8(&mut [0; 4]).as_bytes())
    }

    fn serialize_str(self, value: &str) -> Result {
        self.text(value.as_bytes())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result {
        self.text(value)
    }

    fn serialize_none(self) -> Result {
        self.separate();
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result {
        let outside = mem::replace(&mut self.is_optional, true);
        value.serialize(&mut *self)?;
        self.is_optional = outside;
        Ok(())
    }

    fn serialize_unit(self) -> Result {
        self.separate();
        Ok(())
    }

    fn serialize_unit_struct(self, name: &'static str) -> Result {
        self.text(name.as_bytes())
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result {
        self.text(variant.as_bytes())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> Result {
        value.serialize(self)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self> {
        Ok(self)
    }

    fn serialize_tuple(self, _: usize) -> Result<Self> {
        Ok(self)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self> {
        Ok(self)
    }

    fn serialize_tuple_variant(
        self,
        name: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant> {
        refuse(format!("{name}::{variant} holds data"))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap> {
        refuse("it has a map")
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self> {
        Ok(self)
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant> {
        refuse(format!("{name}::{variant} holds data"))
    }
}

macro_rules! parts {
    ($($trait:ident $method:ident),*) => {$(
        impl ser::$trait for &mut RowEncoder {
            type Ok = ();
            type Error = NoRow;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result {
                value.serialize(&mut **self)
            }

            fn end(self) -> Result {
                Ok(())
            }
        }
    )*};
}
parts!(
    SerializeSeq serialize_element,
    SerializeTuple serialize_element,
    SerializeTupleStruct serialize_field
);

impl ser::SerializeStruct for &mut RowEncoder {
    type Ok = ();
    type Error = NoRow;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result {
        let before = self.fields;
        value.serialize(&mut **self)?;
        if self.header && self.fields != before + 1 {
            return refuse(format!("with a header, each field is a simple value; `{name}` is not"));
        }
        self.names.push(name);
        Ok(())
    }

    fn end(self) -> Result {
        Ok(())
    }
}
