//! Sizes in Spark's notation: a whole number and `b`, `k`, `m`, `g`, `t` or `p`, in powers of 1024.
//!
//! A fraction is refused, as Spark does: `1.5g` has to be written `1536m`.

use std::fmt;

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub u64);

/// What one step of a size counts; an entry has one of these for numbers without a suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteUnit {
    /// Written `b`.
    Byte,
    /// 1024 bytes, written `k` or `kb`.
    Kibi,
    /// 1024 `Kibi`, written `m` or `mb`.
    Mebi,
    /// 1024 `Mebi`, written `g` or `gb`.
    Gibi,
    /// 1024 `Gibi`, written `t` or `tb`.
    Tebi,
    /// 1024 `Tebi`, written `p` or `pb`.
    Pebi,
}

impl ByteUnit {
    /// From the largest to the smallest.
    const DESCENDING: [ByteUnit; 6] =
        [Self::Pebi, Self::Tebi, Self::Gibi, Self::Mebi, Self::Kibi, Self::Byte];

    /// How many bytes it is.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Byte => 1,
            Self::Kibi => 1 << 10,
            Self::Mebi => 1 << 20,
            Self::Gibi => 1 << 30,
            Self::Tebi => 1 << 40,
            Self::Pebi => 1 << 50,
        }
    }

    /// The suffix it is written with.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Byte => "b",
            Self::Kibi => "k",
            Self::Mebi => "m",
            Self::Gibi => "g",
            Self::Tebi => "t",
            Self::Pebi => "p",
        }
    }

    fn from_suffix(suffix: &str) -> Option<Self> {
        let suffix = suffix.to_ascii_lowercase();
        let names = |unit: ByteUnit| {
            let long = unit != Self::Byte && suffix.strip_suffix('b') == Some(unit.suffix());
            long || suffix == unit.suffix()
        };
        Self::DESCENDING.into_iter().find(|unit| names(*unit))
    }
}

impl ByteSize {
    /// Reads a size; `unit` is what a number without a suffix counts. `None` when it is not a size.
    ///
    /// ```
    /// use firesteel_conf::{ByteSize, ByteUnit};
    /// assert_eq!(ByteSize::parse("512m", ByteUnit::Byte), Some(ByteSize(512 << 20)));
    /// assert_eq!(ByteSize::parse("512", ByteUnit::Mebi), Some(ByteSize(512 << 20)));
    /// assert_eq!(ByteSize::parse("0.5g", ByteUnit::Byte), None);
    /// ```
    pub fn parse(text: &str, unit: ByteUnit) -> Option<Self> {
        let text = text.trim();
        let (digits, suffix) = text.split_at(digits_end(text));
        let number: u64 = digits.parse().ok()?;
        let unit = if suffix.is_empty() { unit } else { ByteUnit::from_suffix(suffix)? };
        number.checked_mul(unit.bytes()).map(Self)
    }
}

/// Where the leading digits of `text` end.
pub(crate) fn digits_end(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

impl fmt::Display for ByteSize {
    /// The shortest exact form: `128m`, `1g`, `100b`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = ByteUnit::DESCENDING
            .into_iter()
            .find(|unit| self.0 != 0 && self.0.is_multiple_of(unit.bytes()))
            .unwrap_or(ByteUnit::Byte);
        write!(f, "{}{}", self.0 / unit.bytes(), unit.suffix())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_are_read_in_sparks_notation() {
        for (text, bytes) in [
            ("100b", 100),
            ("64k", 64 << 10),
            ("64kb", 64 << 10),
            ("512m", 512 << 20),
            ("512MB", 512 << 20),
            ("1g", 1 << 30),
            ("1G", 1 << 30),
            ("1t", 1 << 40),
            ("2p", 2 << 50),
            ("0", 0),
            (" 7 ", 7 << 20),
        ] {
            assert_eq!(ByteSize::parse(text, ByteUnit::Mebi), Some(ByteSize(bytes)), "{text:?}");
        }
    }

    #[test]
    fn what_is_not_a_size_is_refused() {
        for text in
            ["", "m", "1.5g", "-1g", "+1", "1 g", "1x", "1gg", "1bb", "18446744073709551615k", "١m"]
        {
            assert_eq!(ByteSize::parse(text, ByteUnit::Byte), None, "{text:?}");
        }
    }

    #[test]
    fn a_size_is_written_in_its_largest_exact_unit() {
        for (bytes, text) in [(0, "0b"), (1023, "1023b"), (1536 << 20, "1536m"), (1 << 30, "1g")] {
            assert_eq!(ByteSize(bytes).to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".*") {
            let _ = ByteSize::parse(&text, ByteUnit::Mebi);
        }

        #[test]
        fn a_written_size_reads_back(bytes: u64, shift in 0u32..64) {
            let size = ByteSize(bytes << shift);
            prop_assert_eq!(ByteSize::parse(&size.to_string(), ByteUnit::Gibi), Some(size));
        }
    }
}
