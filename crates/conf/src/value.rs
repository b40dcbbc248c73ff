//! The types a configuration value can have: how each is read, what it refuses, what it is called.
//!
//! A value arrives trimmed. What a type alone cannot say (a range, the unit of a bare number) is in
//! the entry's [`Rules`].

use std::time::Duration;

use crate::{ByteSize, ByteUnit, Master, TimeUnit, parse_duration};

/// A type that configuration values can be read as.
pub trait Value: Sized {
    /// Reads `text`, which has no spaces around it.
    fn parse(text: &str, rules: &Rules) -> Result<Self, Refusal>;

    /// What is accepted, as it stands in a message and on the documentation page.
    fn kind(rules: &Rules) -> String;

    /// The value of an entry without a default that nobody set; `None` when the type has no such
    /// value.
    fn unset() -> Option<Self> {
        None
    }
}

/// Why a text is not a value of an entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refusal {
    /// What is wrong or what is expected.
    pub reason: String,
}

impl Refusal {
    /// The usual reason: it is not of this kind.
    pub fn of_kind<T: Value>(rules: &Rules) -> Self {
        Self { reason: format!("expected {}", T::kind(rules)) }
    }
}

/// What an entry demands of its values beyond their type.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Which numbers, sizes and durations are allowed.
    pub range: Range,
    /// What a size without a suffix counts.
    pub byte_unit: ByteUnit,
    /// What a duration without a suffix counts.
    pub time_unit: TimeUnit,
}

impl Rules {
    /// Everything of the type; bytes and milliseconds.
    pub const NONE: Rules =
        Rules { range: Range::Any, byte_unit: ByteUnit::Byte, time_unit: TimeUnit::Millis };
}

/// Which numbers are allowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Range {
    /// All finite numbers.
    Any,
    /// More than zero.
    Positive,
    /// This one and more.
    AtLeast(u32),
    /// These two and what is between them.
    Between(f64, f64),
}

impl Range {
    fn contains(self, number: f64) -> bool {
        match self {
            Self::Any => number.is_finite(),
            Self::Positive => number.is_finite() && number > 0.0,
            Self::AtLeast(least) => number.is_finite() && number >= f64::from(least),
            Self::Between(least, most) => (least..=most).contains(&number),
        }
    }

    fn suffix(self) -> String {
        match self {
            Self::Any => String::new(),
            Self::Positive => " above 0".to_owned(),
            Self::AtLeast(least) => format!(" of at least {least}"),
            Self::Between(least, most) => format!(" from {least} to {most}"),
        }
    }
}

/// Keeps a value that its entry's range allows.
fn ranged<T: Value>(value: Option<T>, number: fn(&T) -> f64, rules: &Rules) -> Result<T, Refusal> {
    value
        .filter(|value| rules.range.contains(number(value)))
        .ok_or_else(|| Refusal::of_kind::<T>(rules))
}

macro_rules! number_values {
    ($($type:ty: $name:literal),*) => {$(
        impl Value for $type {
            fn parse(text: &str, rules: &Rules) -> Result<Self, Refusal> {
                ranged(text.parse().ok(), |number| *number as f64, rules)
            }

            fn kind(rules: &Rules) -> String {
                format!("{}{}", $name, rules.range.suffix())
            }
        }
    )*};
}

number_values!(u32: "a whole number", u64: "a whole number", i64: "a whole number", f64: "a number");

impl Value for bool {
    fn parse(text: &str, rules: &Rules) -> Result<Self, Refusal> {
        match text.to_ascii_lowercase().as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(Refusal::of_kind::<Self>(rules)),
        }
    }

    fn kind(_: &Rules) -> String {
        "true or false".to_owned()
    }
}

impl Value for String {
    fn parse(text: &str, _: &Rules) -> Result<Self, Refusal> {
        Ok(text.to_owned())
    }

    fn kind(_: &Rules) -> String {
        "a text".to_owned()
    }
}

impl Value for Vec<String> {
    /// Parts are trimmed and empty ones dropped.
    fn parse(text: &str, _: &Rules) -> Result<Self, Refusal> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        Ok(parts.map(str::to_owned).collect())
    }

    fn kind(_: &Rules) -> String {
        "a list separated by commas".to_owned()
    }
}

impl<T: Value> Value for Option<T> {
    fn parse(text: &str, rules: &Rules) -> Result<Self, Refusal> {
        T::parse(text, rules).map(Some)
    }

    fn kind(rules: &Rules) -> String {
        T::kind(rules)
    }

    fn unset() -> Option<Self> {
        Some(None)
    }
}

impl Value for ByteSize {
    fn parse(text: &str, rules: &Rules) -> Result<Self, Refusal> {
        ranged(ByteSize::parse(text, rules.byte_unit), |size| size.0 as f64, rules)
    }

    fn kind(rules: &Rules) -> String {
        let unit = rules.byte_unit.suffix();
        format!("a size{} in b, k, m, g, t or p ({unit} if not written)", rules.range.suffix())
    }
}

impl Value for Duration {
    fn parse(text: &str, rules: &Rules) -> Result<Self, Refusal> {
        ranged(parse_duration(text, rules.time_unit), Duration::as_secs_f64, rules)
    }

    fn kind(rules: &Rules) -> String {
        let unit = rules.time_unit.suffix();
        let range = rules.range.suffix();
        format!("a duration{range} in us, ms, s, min, h or d ({unit} if not written)")
    }
}

impl Value for Master {
    fn parse(text: &str, _: &Rules) -> Result<Self, Refusal> {
        text.parse().map_err(|error: crate::MasterError| Refusal { reason: error.to_string() })
    }

    fn kind(_: &Rules) -> String {
        "a master URL".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: Value>(text: &str, range: Range) -> Result<T, String> {
        T::parse(text, &Rules { range, ..Rules::NONE }).map_err(|refusal| refusal.reason)
    }

    #[test]
    fn numbers_outside_their_range_are_refused_with_the_range() {
        assert_eq!(read::<u32>("3", Range::Positive), Ok(3));
        assert_eq!(
            read::<u32>("0", Range::Positive),
            Err("expected a whole number above 0".to_owned())
        );
        assert_eq!(
            read::<u64>("1", Range::AtLeast(2)),
            Err("expected a whole number of at least 2".to_owned())
        );
        assert_eq!(
            read::<f64>("1.5", Range::Between(0.0, 1.0)),
            Err("expected a number from 0 to 1".to_owned())
        );
        assert_eq!(read::<i64>("-5", Range::Any), Ok(-5));
        assert_eq!(read::<u32>("-5", Range::Any), Err("expected a whole number".to_owned()));
        assert_eq!(read::<u32>("1.0", Range::Any), Err("expected a whole number".to_owned()));
        for text in ["NaN", "inf", "1e999", ""] {
            assert!(read::<f64>(text, Range::Any).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_and_durations_name_their_suffixes() {
        assert_eq!(
            read::<ByteSize>("0", Range::Positive),
            Err("expected a size above 0 in b, k, m, g, t or p (b if not written)".to_owned())
        );
        assert_eq!(
            read::<Duration>("soon", Range::Any),
            Err("expected a duration in us, ms, s, min, h or d (ms if not written)".to_owned())
        );
    }

    #[test]
    fn true_and_false_are_read_in_any_case() {
        assert_eq!(read::<bool>("TRUE", Range::Any), Ok(true));
        assert_eq!(read::<bool>("False", Range::Any), Ok(false));
        assert_eq!(read::<bool>("yes", Range::Any), Err("expected true or false".to_owned()));
    }

    #[test]
    fn lists_drop_empty_parts_and_spaces() {
        let list = |text| read::<Vec<String>>(text, Range::Any).unwrap();
        assert_eq!(list(" /a , /b,,"), ["/a", "/b"]);
        assert_eq!(list(""), [""; 0]);
    }
}
