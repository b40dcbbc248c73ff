//! Looks for numbers that JSON does not have. A NaN or an infinity would be written as `null`, and not be read as
//! what it was.

use std::fmt::{self, Display};

use serde::ser::{self, Serialize};

/// Whether every floating-point number in `value` is finite.
pub(crate) fn is_finite<T: Serialize>(value: &T) -> bool {
    // A value that cannot be written says why when it is.
    !matches!(value.serialize(Probe), Err(Found::NotFinite))
}

struct Probe;

#[derive(Debug)]
enum Found {
    NotFinite,
    Other,
}

impl Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number that is not finite")
    }
}

impl std::error::Error for Found {}

impl ser::Error for Found {
    fn custom<T: Display>(_: T) -> Self {
        Found::Other
    }
}

type Result<T = ()> = std::result::Result<T, Found>;

fn looked_at(value: f64) -> Result {
    if value.is_finite() { Ok(()) } else { Err(Found::NotFinite) }
}

macro_rules! nothing_in {
    ($($method:ident: $type:ty),* $(,)?) => {$(
        fn $method(self, _: $type) -> Result {
            Ok(())
        }
    )*};
}

macro_rules! many_in {
    ($($method:ident($($argument:ty),*)),* $(,)?) => {$(
        fn $method(self, $(_: $argument),*) -> Result<Probe> {
            Ok(Probe)
        }
    )*};
}

impl ser::Serializer for Probe {
    type Ok = ();
    type Error = Found;
    type SerializeSeq = Probe;
    type SerializeTuple = Probe;
    type SerializeTupleStruct = Probe;
    type SerializeTupleVariant = Probe;
    type SerializeMap = Probe;
    type SerializeStruct = Probe;
    type SerializeStructVariant = Probe;

    nothing_in!(
        serialize_bool: bool,
        serialize_i8: i8,
        serialize_i16: i16,
        serialize_i32: i32,
        serialize_i64: i64,
        serialize_i128: i128,
        serialize_u8: u8,
        serialize_u16: u16,
        serialize_u32: u32,
        serialize_u64: u64,
        serialize_u128: u128,
        serialize_char: char,
        serialize_str: &str,
        serialize_bytes: &[u8],
        serialize_unit_struct: &'static str,
    );

    many_in!(
        serialize_seq(Option<usize>),
        serialize_tuple(usize),
        serialize_tuple_struct(&'static str, usize),
        serialize_tuple_variant(&'static str, u32, &'static str, usize),
        serialize_map(Option<usize>),
        serialize_struct(&'static str, usize),
        serialize_struct_variant(&'static str, u32, &'static str, usize),
    );

    fn serialize_f32(self, value: f32) -> Result {
        looked_at(value.into())
    }

    fn serialize_f64(self, value: f64) -> Result {
        looked_at(value)
    }

    fn serialize_none(self) -> Result {
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result {
        value.serialize(Probe)
    }

    fn serialize_unit(self) -> Result {
        Ok(())
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Result {
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result {
        value.serialize(Probe)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> Result {
        value.serialize(Probe)
    }

    fn collect_str<T: Display + ?Sized>(self, _: &T) -> Result {
        Ok(())
    }
}

macro_rules! parts {
    ($($trait:ident $method:ident($($name:ty)?)),* $(,)?) => {$(
        impl ser::$trait for Probe {
            type Ok = ();
            type Error = Found;

            fn $method<T: Serialize + ?Sized>(&mut self, $(_: $name,)? value: &T) -> Result {
                value.serialize(Probe)
            }

            fn end(self) -> Result {
                Ok(())
            }
        }
    )*};
}
parts!(
    SerializeSeq serialize_element(),
    SerializeTuple serialize_element(),
    SerializeTupleStruct serialize_field(),
    SerializeTupleVariant serialize_field(),
    SerializeStruct serialize_field(&'static str),
    SerializeStructVariant serialize_field(&'static str),
);

impl ser::SerializeMap for Probe {
    type Ok = ();
    type Error = Found;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result {
        key.serialize(Probe)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result {
        value.serialize(Probe)
    }

    fn end(self) -> Result {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn numbers_that_are_not_finite_are_found_wherever_they_are() {
        #[derive(serde::Serialize)]
        enum Place {
            Wrapped(Option<f32>),
            Named { list: Vec<(u8, f64)> },
        }
        assert!(is_finite(&(1.0, "NaN", None::<f64>, f64::MAX)));
        assert!(!is_finite(&f64::NAN));
        assert!(!is_finite(&[1.0, f64::NEG_INFINITY]));
        assert!(!is_finite(&Place::Wrapped(Some(f32::INFINITY))));
        assert!(!is_finite(&Place::Named { list: vec![(1, 0.0), (2, f64::NAN)] }));
        assert!(is_finite(&Place::Wrapped(None)));
        assert!(!is_finite(&BTreeMap::from([("a", f64::NAN)])));
    }
}
