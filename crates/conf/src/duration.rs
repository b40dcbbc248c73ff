//! Durations in Spark's notation: a whole number and `us`, `ms`, `s`, `m`, `min`, `h` or `d`.

use std::time::Duration;

use crate::size::digits_end;

/// What one step of a duration counts; an entry has one of these for numbers without a suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// Written `us`.
    Micros,
    /// Written `ms`.
    Millis,
    /// Written `s`.
    Seconds,
    /// Written `m` or `min`.
    Minutes,
    /// Written `h`.
    Hours,
    /// Of 24 hours, written `d`.
    Days,
}

impl TimeUnit {
    /// From the largest to the smallest.
    const DESCENDING: [TimeUnit; 6] =
        [Self::Days, Self::Hours, Self::Minutes, Self::Seconds, Self::Millis, Self::Micros];

    /// How many microseconds it is.
    const fn micros(self) -> u64 {
        match self {
            Self::Micros => 1,
            Self::Millis => 1_000,
            Self::Seconds => 1_000_000,
            Self::Minutes => 60_000_000,
            Self::Hours => 3_600_000_000,
            Self::Days => 86_400_000_000,
        }
    }

    /// The suffix it is written with.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Micros => "us",
            Self::Millis => "ms",
            Self::Seconds => "s",
            Self::Minutes => "min",
            Self::Hours => "h",
            Self::Days => "d",
        }
    }

    fn from_suffix(suffix: &str) -> Option<Self> {
        let suffix = suffix.to_ascii_lowercase();
        let suffix = if suffix == "m" { "min" } else { &suffix };
        Self::DESCENDING.into_iter().find(|unit| unit.suffix() == suffix)
    }
}

/// Reads a duration; `unit` is what a number without a suffix counts. `None` when it is not one.
///
/// ```
/// use std::time::Duration;
/// use firesteel_conf::{TimeUnit, parse_duration};
/// assert_eq!(parse_duration("5min", TimeUnit::Millis), Some(Duration::from_secs(300)));
/// assert_eq!(parse_duration("5", TimeUnit::Millis), Some(Duration::from_millis(5)));
/// ```
pub fn parse_duration(text: &str, unit: TimeUnit) -> Option<Duration> {
    let text = text.trim();
    let (digits, suffix) = text.split_at(digits_end(text));
    let number: u64 = digits.parse().ok()?;
    let unit = if suffix.is_empty() { unit } else { TimeUnit::from_suffix(suffix)? };
    number.checked_mul(unit.micros()).map(Duration::from_micros)
}

/// Writes a duration in its largest exact unit (`5min`, `100ms`); what is finer than a microsecond
/// is cut off, because the notation has no unit for it.
pub fn format_duration(duration: Duration) -> String {
    let micros = duration.as_micros();
    let unit = TimeUnit::DESCENDING
        .into_iter()
        .find(|unit| micros != 0 && micros.is_multiple_of(u128::from(unit.micros())))
        .unwrap_or(TimeUnit::Millis);
    format!("{}{}", micros / u128::from(unit.micros()), unit.suffix())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_read_in_sparks_notation() {
        for (text, micros) in [
            ("10us", 10),
            ("100ms", 100_000),
            ("10s", 10_000_000),
            ("10S", 10_000_000),
            ("5m", 300_000_000),
            ("5min", 300_000_000),
            ("2h", 7_200_000_000),
            ("1d", 86_400_000_000),
            ("0", 0),
            (" 3 ", 3_000),
        ] {
            let expected = Some(Duration::from_micros(micros));
            assert_eq!(parse_duration(text, TimeUnit::Millis), expected, "{text:?}");
        }
    }

    #[test]
    fn what_is_not_a_duration_is_refused() {
        for text in ["", "s", "1.5s", "-1s", "1 s", "1y", "1sec", "18446744073709551615d"] {
            assert_eq!(parse_duration(text, TimeUnit::Seconds), None, "{text:?}");
        }
    }

    #[test]
    fn a_duration_is_written_in_its_largest_exact_unit() {
        for (millis, text) in
            [(0, "0ms"), (90_000, "90s"), (120_000, "2min"), (86_400_000, "1d"), (1, "1ms")]
        {
            assert_eq!(format_duration(Duration::from_millis(millis)), text);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".*") {
            let _ = parse_duration(&text, TimeUnit::Seconds);
        }

        #[test]
        fn a_written_duration_reads_back(micros: u64) {
            let duration = Duration::from_micros(micros);
            prop_assert_eq!(
                parse_duration(&format_duration(duration), TimeUnit::Days),
                Some(duration)
            );
        }
    }
}
