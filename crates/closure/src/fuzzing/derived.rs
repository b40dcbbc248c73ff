//! Drawn types as serde's derive implements types: what each attribute makes of the two halves.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use serde::de::{self, DeserializeSeed, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor};
use serde::ser::{
    Error as _, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant,
    SerializeTuple, SerializeTupleStruct, SerializeTupleVariant,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::draw::{Content, Field, Fields, Type, Value, Variant};

thread_local! {
    /// The type of the values that this thread sends.
    pub(super) static TYPE: RefCell<Option<Rc<Type>>> = const { RefCell::new(None) };
}

fn current() -> Rc<Type> {
    TYPE.with_borrow(Clone::clone).expect("a type is drawn first")
}

pub(super) struct Drawn(pub(super) Value);

impl Serialize for Drawn {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Typed(&current(), &self.0).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Drawn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        current().deserialize(deserializer).map(Drawn)
    }
}

/// A value that is written as its type says.
struct Typed<'a>(&'a Type, &'a Value);

/// Writes fields as derive does.
macro_rules! put_fields {
    ($into:expr, $fields:expr, $values:expr, $put:ident, named) => {
        for (field, value) in $fields.iter().zip($values) {
            if field.is_left_out(value) {
                $into.skip_field(field.name)?;
            } else if field.skip.is_written() {
                $into.$put(field.name, &Typed(&field.of, value))?;
            }
        }
    };
    ($into:expr, $fields:expr, $values:expr, $put:ident) => {
        for (field, value) in $fields.iter().zip($values) {
            // A tuple's element that is left out is simply not there.
            if field.skip.is_written() && !field.is_left_out(value) {
                $into.$put(&Typed(&field.of, value))?;
            }
        }
    };
}

impl Serialize for Typed<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match (self.0, self.1) {
            (Type::Unit, _) => s.serialize_unit(),
            (Type::Bool, Value::Bool(value)) => s.serialize_bool(*value),
            (Type::U8, Value::U8(value)) => s.serialize_u8(*value),
            (Type::I64, Value::I64(value)) => s.serialize_i64(*value),
            (Type::U128, Value::U128(value)) => s.serialize_u128(*value),
            (Type::F64, Value::F64(bits)) => s.serialize_f64(f64::from_bits(*bits)),
            (Type::Text, Value::Text(value)) => s.serialize_str(value),
            (Type::Option(_), Value::Option(None)) => s.serialize_none(),
            (Type::Option(of), Value::Option(Some(value))) => s.serialize_some(&Typed(of, value)),
            (Type::Seq(of), Value::Many(values)) => {
                let mut seq = s.serialize_seq(Some(values.len()))?;
                values.iter().try_for_each(|value| seq.serialize_element(&Typed(of, value)))?;
                seq.end()
            }
            (Type::Map(of), Value::Map(entries)) => {
                let mut map = s.serialize_map(Some(entries.len()))?;
                let mut put =
                    |(key, value): &(u64, Value)| map.serialize_entry(key, &Typed(of, value));
                entries.iter().try_for_each(&mut put)?;
                map.end()
            }
            (Type::Tuple(of), Value::Many(values)) => {
                let mut tuple = s.serialize_tuple(of.len())?;
                let mut parts = of.iter().zip(values);
                parts.try_for_each(|(of, value)| tuple.serialize_element(&Typed(of, value)))?;
                tuple.end()
            }
            (Type::TupleStruct(fields), Value::Many(values)) => {
                let mut tuple = s.serialize_tuple_struct("Pair", fields.len())?;
                put_fields!(tuple, fields, values, serialize_field);
                tuple.end()
            }
            (Type::Struct(Fields { fields, .. }), Value::Many(values)) => {
                let mut out = s.serialize_struct("Record", fields.len())?;
                put_fields!(out, fields, values, serialize_field, named);
                out.end()
            }
            (Type::Enum(variants, _), Value::Variant(index, values)) => {
                match variants.get(*index) {
                    Some(variant) => write_variant(s, variant, *index as u32, values),
                    None => Err(S::Error::custom("a variant of another type")),
                }
            }
            (Type::Untagged(of) | Type::Liar(of, _), value) => Typed(of, value).serialize(s),
            // A liar reads what it does not write.
            _ => Err(S::Error::custom("a value of another type")),
        }
    }
}

fn write_variant<S: Serializer>(
    s: S,
    variant: &Variant,
    index: u32,
    values: &[Value],
) -> Result<S::Ok, S::Error> {
    let name = variant.name;
    if !variant.skip.is_written() {
        return Err(S::Error::custom(format_args!("the variant {name} cannot be serialized")));
    }
    match &variant.content {
        Content::Unit => s.serialize_unit_variant("Kind", index, name),
        Content::Newtype(of) => match values {
            [value] => s.serialize_newtype_variant("Kind", index, name, &Typed(of, value)),
            _ => Err(S::Error::custom("a variant of another type")),
        },
        Content::Tuple(fields) => {
            let mut out = s.serialize_tuple_variant("Kind", index, name, fields.len())?;
            put_fields!(out, fields, values, serialize_field);
            out.end()
        }
        Content::Struct(Fields { fields, .. }) => {
            let mut out = s.serialize_struct_variant("Kind", index, name, fields.len())?;
            put_fields!(out, fields, values, serialize_field, named);
            out.end()
        }
    }
}

impl<'de> DeserializeSeed<'de> for &Type {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Value, D::Error> {
        match self {
            Type::Unit => d.deserialize_unit(self),
            Type::Bool => d.deserialize_bool(self),
            Type::U8 => d.deserialize_u8(self),
            Type::I64 => d.deserialize_i64(self),
            Type::U128 => d.deserialize_u128(self),
            Type::F64 => d.deserialize_f64(self),
            Type::Text => d.deserialize_string(self),
            Type::Option(_) => d.deserialize_option(self),
            Type::Seq(_) => d.deserialize_seq(self),
            Type::Map(_) => d.deserialize_map(self),
            Type::Tuple(of) => d.deserialize_tuple(of.len(), self),
            Type::TupleStruct(fields) => d.deserialize_tuple_struct("Pair", read(fields), self),
            Type::Struct(of) => d.deserialize_struct("Record", of.names, self),
            Type::Enum(_, names) => d.deserialize_enum("Kind", names, self),
            Type::Untagged(_) => d.deserialize_any(self),
            Type::Liar(_, of) => of.deserialize(d),
        }
    }
}

/// How many fields are read.
fn read(fields: &[Field]) -> usize {
    fields.iter().filter(|field| field.skip.is_read()).count()
}

/// Reads fields as derive does.
fn take_fields<'de, A: SeqAccess<'de>>(
    fields: &[Field],
    mut seq: A,
) -> Result<Vec<Value>, A::Error> {
    let take = |field: &Field| match field.skip.is_read() {
        true => {
            seq.next_element_seed(&field.of)?.ok_or_else(|| de::Error::custom("too few fields"))
        }
        false => Ok(field.of.default()),
    };
    fields.iter().map(take).collect()
}

impl<'de> Visitor<'de> for &Type {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a drawn type")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Unit)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u8<E>(self, value: u8) -> Result<Value, E> {
        Ok(Value::U8(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::I64(value))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Value, E> {
        Ok(Value::U128(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::F64(value.to_bits()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Option(None))
    }

    fn visit_some<D: Deserializer<'de>>(self, d: D) -> Result<Value, D::Error> {
        let Type::Option(of) = self else { unreachable!("an option was asked for") };
        Ok(Value::Option(Some(Box::new(of.deserialize(d)?))))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let values = match self {
            Type::TupleStruct(fields) | Type::Struct(Fields { fields, .. }) => {
                take_fields(fields, seq)?
            }
            Type::Tuple(of) => {
                let missing = || de::Error::custom("too few elements");
                let take = |of| seq.next_element_seed(of)?.ok_or_else(missing);
                of.iter().map(take).collect::<Result<_, _>>()?
            }
            Type::Seq(of) => {
                let mut values = Vec::new();
                // Elements without bytes could be any number.
                while let Some(value) = seq.next_element_seed(&**of)? {
                    values.push(value);
                    if values.len() > 100_000 {
                        return Err(de::Error::custom("too many"));
                    }
                }
                values
            }
            _ => unreachable!("no sequence was asked for"),
        };
        Ok(Value::Many(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let Type::Map(of) = self else { unreachable!("a map was asked for") };
        let mut entries = Vec::new();
        while let Some(key) = map.next_key()? {
            entries.push((key, map.next_value_seed(&**of)?));
        }
        Ok(Value::Map(entries))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<Value, A::Error> {
        let Type::Enum(variants, _) = self else { unreachable!("an enum was asked for") };
        let (number, data) = data.variant::<u32>()?;
        let mut read = variants.iter().enumerate().filter(|(_, variant)| variant.skip.is_read());
        let found = read.clone().nth(number as usize).or_else(|| read.find(|(_, it)| it.other));
        let (index, variant) = found.ok_or_else(|| de::Error::custom("no such variant"))?;
        let values = match &variant.content {
            Content::Unit => data.unit_variant().map(|()| Vec::new())?,
            Content::Newtype(of) => vec![data.newtype_variant_seed(of)?],
            Content::Tuple(fields) => data.tuple_variant(self::read(fields), Taken(fields))?,
            Content::Struct(of) => data.struct_variant(of.names, Taken(&of.fields))?,
        };
        Ok(Value::Variant(index, values))
    }
}

/// Fields of a variant.
struct Taken<'a>(&'a [Field]);

impl<'de> Visitor<'de> for Taken<'_> {
    type Value = Vec<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the fields of a variant")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Vec<Value>, A::Error> {
        take_fields(self.0, seq)
    }
}
