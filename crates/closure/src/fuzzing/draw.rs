//! Types and values, drawn from bytes.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

pub(super) struct Draw<'a>(pub(super) &'a [u8]);

impl Draw<'_> {
    fn byte(&mut self) -> u8 {
        let Some((byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *byte
    }

    fn below(&mut self, bound: u8) -> usize {
        usize::from(self.byte() % bound)
    }

    fn number(&mut self) -> u64 {
        let shift = self.byte() % 64;
        u64::from_le_bytes([(); 8].map(|()| self.byte())) >> shift
    }

    /// One time in so many.
    fn rarely(&mut self, one_in: u8) -> bool {
        self.byte() % one_in == 1
    }
}

#[derive(Debug)]
pub(super) enum Type {
    Unit,
    Bool,
    U8,
    I64,
    U128,
    F64,
    Text,
    Option(Box<Type>),
    Seq(Box<Type>),
    Map(Box<Type>),
    Tuple(Vec<Type>),
    TupleStruct(Vec<Field>),
    Struct(Fields),
    Enum(Vec<Variant>, &'static [&'static str]),
    /// Asks what comes next when it is read.
    Untagged(Box<Type>),
    /// Is written as one type and read as another.
    Liar(Box<Type>, Box<Type>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Skip {
    No,
    Both,
    Writing,
    Reading,
    /// When it is a default (`skip_serializing_if`).
    If,
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) skip: Skip,
    pub(super) of: Type,
}

#[derive(Debug)]
pub(super) struct Fields {
    pub(super) fields: Vec<Field>,
    /// `FIELDS`, with aliases.
    pub(super) names: &'static [&'static str],
}

#[derive(Debug)]
pub(super) struct Variant {
    pub(super) name: &'static str,
    pub(super) skip: Skip,
    pub(super) other: bool,
    pub(super) content: Content,
}

#[derive(Debug)]
pub(super) enum Content {
    Unit,
    Newtype(Type),
    Tuple(Vec<Field>),
    Struct(Fields),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Unit,
    Bool(bool),
    U8(u8),
    I64(i64),
    U128(u128),
    F64(u64),
    Text(String),
    Option(Option<Box<Value>>),
    Many(Vec<Value>),
    Map(Vec<(u64, Value)>),
    Variant(usize, Vec<Value>),
}

const NAMES: [&str; 8] =
    ["a", "b", "id", "name", "first_name", "count", "x1", "a_rather_long_name_of_a_field"];
const ALIASES: [&str; 3] = ["aa", "zz", "former"];

/// A slice that lives as long as the program: each content once.
fn lasting(names: Vec<&'static str>) -> &'static [&'static str] {
    type Kept = BTreeMap<Vec<&'static str>, &'static [&'static str]>;
    static KEPT: Mutex<Kept> = Mutex::new(BTreeMap::new());
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    kept.entry(names).or_insert_with_key(|names| Box::leak(names.clone().into_boxed_slice()))
}

/// What derive lists: the names of what is read, each with its aliases in order.
fn listed(all: &[(&'static str, Skip)], draw: &mut Draw<'_>) -> &'static [&'static str] {
    let mut names = Vec::new();
    let mut aliases = ALIASES.iter();
    for (name, skip) in all {
        if matches!(skip, Skip::Both | Skip::Reading) {
            continue;
        }
        let mut own = vec![*name];
        if draw.rarely(8) {
            own.extend(aliases.next());
        }
        own.sort_unstable();
        names.extend(own);
    }
    lasting(names)
}

impl Skip {
    fn draw(draw: &mut Draw<'_>) -> Self {
        match draw.byte() % 24 {
            1 => Skip::Both,
            2 => Skip::Writing,
            3 => Skip::Reading,
            4 => Skip::If,
            _ => Skip::No,
        }
    }

    pub(super) fn is_read(self) -> bool {
        !matches!(self, Skip::Both | Skip::Reading)
    }

    pub(super) fn is_written(self) -> bool {
        !matches!(self, Skip::Both | Skip::Writing)
    }
}

impl Type {
    pub(super) fn draw(draw: &mut Draw<'_>, depth: u8) -> Type {
        let kinds = if depth == 0 { 7 } else { 17 };
        let inner = |draw: &mut Draw<'_>| Box::new(Type::draw(draw, depth.saturating_sub(1)));
        match draw.below(kinds) {
            0 => Type::Unit,
            1 => Type::Bool,
            2 => Type::U8,
            3 => Type::I64,
            4 => Type::U128,
            5 => Type::F64,
            6 => Type::Text,
            7 => Type::Option(inner(draw)),
            8 => Type::Seq(inner(draw)),
            9 => Type::Map(inner(draw)),
            10 => Type::Tuple((0..=draw.below(3)).map(|_| *inner(draw)).collect()),
            11 => Type::TupleStruct(Field::draw_all(draw, depth, 2)),
            12 | 13 => Type::Struct(Fields::draw(draw, depth)),
            14 | 15 => Type::draw_enum(draw, depth),
            _ if draw.rarely(4) => Type::Untagged(inner(draw)),
            _ if draw.rarely(4) => Type::Liar(inner(draw), inner(draw)),
            _ => Type::Text,
        }
    }

    fn draw_enum(draw: &mut Draw<'_>, depth: u8) -> Type {
        let count = 1 + draw.below(4);
        let mut variants: Vec<Variant> = (0..count)
            .map(|index| Variant {
                name: NAMES[index],
                skip: Skip::draw(draw),
                other: false,
                content: Content::draw(draw, depth),
            })
            .collect();
        if draw.rarely(8)
            && let Some(last) = variants.last_mut()
        {
            (last.other, last.content) = (true, Content::Unit);
        }
        let all: Vec<_> = variants.iter().map(|variant| (variant.name, variant.skip)).collect();
        let names = listed(&all, draw);
        Type::Enum(variants, names)
    }

    pub(super) fn value(&self, draw: &mut Draw<'_>) -> Value {
        match self {
            Type::Unit => Value::Unit,
            Type::Bool => Value::Bool(draw.byte() & 1 == 1),
            Type::U8 => Value::U8(draw.byte()),
            Type::I64 => Value::I64(draw.number() as i64),
            Type::U128 => Value::U128(u128::from(draw.number()) * u128::from(draw.number())),
            Type::F64 => Value::F64(draw.number()),
            Type::Text => {
                Value::Text((0..draw.below(4)).map(|_| char::from(draw.byte())).collect())
            }
            Type::Option(of) => {
                Value::Option((draw.byte() & 1 == 1).then(|| Box::new(of.value(draw))))
            }
            Type::Seq(of) => Value::Many((0..draw.below(4)).map(|_| of.value(draw)).collect()),
            Type::Map(of) => {
                Value::Map((0..draw.below(3)).map(|_| (draw.number(), of.value(draw))).collect())
            }
            Type::Tuple(of) => Value::Many(of.iter().map(|of| of.value(draw)).collect()),
            Type::TupleStruct(fields) | Type::Struct(Fields { fields, .. }) => {
                Value::Many(values_of(fields, draw))
            }
            Type::Enum(variants, _) => {
                let index = draw.below(variants.len() as u8);
                Value::Variant(index, variants[index].content.values(draw))
            }
            Type::Untagged(of) | Type::Liar(of, _) => of.value(draw),
        }
    }

    /// What fields become that both sides skip.
    pub(super) fn default(&self) -> Value {
        let mut nothing = Draw(&[]);
        self.value(&mut nothing)
    }

    /// The value with defaults for what both sides skip.
    pub(super) fn as_it_arrives(&self, value: &Value) -> Value {
        match (self, value) {
            (Type::Option(of), Value::Option(Some(value))) => {
                Value::Option(Some(Box::new(of.as_it_arrives(value))))
            }
            (Type::Seq(of), Value::Many(values)) => {
                Value::Many(values.iter().map(|value| of.as_it_arrives(value)).collect())
            }
            (Type::Map(of), Value::Map(entries)) => Value::Map(
                entries.iter().map(|(key, value)| (*key, of.as_it_arrives(value))).collect(),
            ),
            (Type::Tuple(of), Value::Many(values)) => Value::Many(
                of.iter().zip(values).map(|(of, value)| of.as_it_arrives(value)).collect(),
            ),
            (
                Type::TupleStruct(fields) | Type::Struct(Fields { fields, .. }),
                Value::Many(values),
            ) => Value::Many(arriving(fields, values)),
            (Type::Enum(variants, _), Value::Variant(index, values)) => {
                let values = match &variants[*index].content {
                    Content::Unit => Vec::new(),
                    Content::Newtype(of) => vec![of.as_it_arrives(&values[0])],
                    Content::Tuple(fields) | Content::Struct(Fields { fields, .. }) => {
                        arriving(fields, values)
                    }
                };
                Value::Variant(*index, values)
            }
            _ => value.clone(),
        }
    }
}

fn arriving(fields: &[Field], values: &[Value]) -> Vec<Value> {
    let arrives = |(field, value): (&Field, &Value)| match field.skip {
        Skip::Both => field.of.default(),
        _ => field.of.as_it_arrives(value),
    };
    fields.iter().zip(values).map(arrives).collect()
}

fn values_of(fields: &[Field], draw: &mut Draw<'_>) -> Vec<Value> {
    fields.iter().map(|field| field.of.value(draw)).collect()
}

impl Field {
    fn draw_all(draw: &mut Draw<'_>, depth: u8, fewest: usize) -> Vec<Field> {
        let count = fewest + draw.below(4);
        let field = |index: usize| Field {
            name: NAMES[index],
            skip: Skip::draw(draw),
            of: Type::draw(draw, depth.saturating_sub(1)),
        };
        (0..count).map(field).collect()
    }

    pub(super) fn is_left_out(&self, value: &Value) -> bool {
        self.skip == Skip::If && *value == self.of.default()
    }
}

impl Fields {
    fn draw(draw: &mut Draw<'_>, depth: u8) -> Self {
        let fields = Field::draw_all(draw, depth, 0);
        let all: Vec<_> = fields.iter().map(|field| (field.name, field.skip)).collect();
        let names = listed(&all, draw);
        Fields { fields, names }
    }
}

impl Content {
    fn draw(draw: &mut Draw<'_>, depth: u8) -> Self {
        match draw.below(4) {
            0 => Content::Unit,
            1 => Content::Newtype(Type::draw(draw, depth.saturating_sub(1))),
            2 => Content::Tuple(Field::draw_all(draw, depth, 2)),
            _ => Content::Struct(Fields::draw(draw, depth)),
        }
    }

    fn values(&self, draw: &mut Draw<'_>) -> Vec<Value> {
        match self {
            Content::Unit => Vec::new(),
            Content::Newtype(of) => vec![of.value(draw)],
            Content::Tuple(fields) | Content::Struct(Fields { fields, .. }) => {
                values_of(fields, draw)
            }
        }
    }
}
