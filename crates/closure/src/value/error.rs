//! Why a value cannot be encoded or decoded, in sentences that say what to write instead.

use std::fmt::{self, Display};

/// Why a value cannot be encoded or decoded: one sentence, a type's own message included.
pub struct ValueError(Box<Reason>);

/// Behind a pointer: results of this error are made for every number of every record.
struct Reason {
    text: String,
    /// The bytes are no value of the type.
    is_misread: bool,
}

impl ValueError {
    #[cold]
    pub(crate) fn new(text: impl Into<String>) -> Self {
        ValueError(Box::new(Reason { text: text.into(), is_misread: false }))
    }

    #[cold]
    pub(crate) fn misread(text: &str) -> Self {
        ValueError(Box::new(Reason { text: text.to_owned(), is_misread: true }))
    }

    /// The same for bytes that are known to be what was written: the type is why they cannot be read.
    #[cold]
    pub(crate) fn of_own_bytes(self) -> Self {
        if self.0.is_misread { Self::asymmetric(self) } else { self }
    }

    #[cold]
    pub(crate) fn skipped(type_name: &str, field: &str) -> Self {
        Self::new(format!(
            "field `{field}` of `{type_name}` was left out of this value, as \
             `#[serde(skip_serializing_if)]` asks for, and nobody could tell where it is missing; remove \
             that attribute (an `Option` that is `None` takes one byte)"
        ))
    }

    #[cold]
    pub(crate) fn map_of_unknown_length() -> Self {
        Self::new(
            "a map is written without saying its length, as `#[serde(flatten)]` does: a flattened \
             field cannot be told from its neighbours here; make it an ordinary field (a Serialize of \
             your own passes the length to `serialize_map`)",
        )
    }

    #[cold]
    pub(crate) fn not_self_describing(expected: impl Display) -> Self {
        Self::new(format!(
            "its Deserialize asks what comes next ({expected} is expected), and only formats like JSON \
             can answer; `#[serde(untagged)]`, `#[serde(tag = ...)]`, `#[serde(flatten)]` and types such \
             as `serde_json::Value` cannot travel; use an enum or struct without these attributes, or \
             send a `String` of JSON"
        ))
    }

    #[cold]
    pub(crate) fn asymmetric(what: impl Display) -> Self {
        Self::new(format!(
            "its Serialize and its Deserialize do not agree: {what}; look for `skip_serializing`, \
             `skip_deserializing`, `rename(serialize = ..)`, `tag` or a variant with `skip` before others, \
             on this type or one inside it, or for an implementation of its own, and make both sides the \
             same (`#[serde(skip)]` leaves a field out on both)"
        ))
    }

    #[cold]
    pub(crate) fn too_deep(limit: u32) -> Self {
        Self::new(format!(
            "it is nested more than {limit} levels deep; encoding follows the nesting on the stack, so \
             keep long chains in a `Vec` with indices"
        ))
    }

    #[cold]
    pub(crate) fn at_end() -> Self {
        Self::misread("the bytes end inside of a value")
    }
}

impl Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

impl fmt::Debug for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ValueError({:?})", self.0.text)
    }
}

impl std::error::Error for ValueError {}

impl serde::ser::Error for ValueError {
    fn custom<T: Display>(message: T) -> Self {
        ValueError::new(message.to_string())
    }
}

impl serde::de::Error for ValueError {
    fn custom<T: Display>(message: T) -> Self {
        ValueError::new(message.to_string())
    }
}
