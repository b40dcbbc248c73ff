//! Generated data: every side of a benchmark makes the same values out of row numbers, bit for bit.

/// The characters that fill up texts.
const PADDING: &str =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789abcdefghijklmnopqrstuvwxyz";

/// Length of the texts that records carry.
pub(crate) const TEXT: usize = 90;

/// splitmix64: easy to write in any language.
pub(crate) fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// `number`, which has two digits or more, in hexadecimal, filled up to 90 characters.
pub(crate) fn padded(number: u64) -> String {
    // A `String` starts with what its first piece needs and would grow once more for the second.
    let mut text = format!("{number:x}");
    text.push_str(&PADDING[..TEXT - text.len()]);
    text
}

/// A text of 90 characters from which [`number_of`] reads `number` again.
pub(crate) fn numbered(number: u64) -> String {
    format!("{number:016x}{}", &PADDING[..TEXT - 16])
}

/// The number that [`numbered`] put into `text`.
pub(crate) fn number_of(text: &str) -> u64 {
    let digits = text.get(..16).filter(|_| text.len() == TEXT);
    let number = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    number.unwrap_or_else(|| panic!("not a text of this benchmark: {text:?}"))
}

/// A key below `rows` out of a random number. Half of the keys come evenly from all. The other half come from the first
/// thousandth, the lower the more often: each is the remainder by a number from 1 to that thousandth, itself a remainder of
/// the same random number. Of 5 M rows half have one of 5,000 keys, a quarter one of the first 1,000; the most frequent keys,
/// 39 and 199, have some 10,000 rows each, because the two remainders are not independent.
pub(crate) fn skewed(random: u64, rows: u64) -> u64 {
    let position = random >> 1;
    if random & 1 == 0 { position % rows } else { position % (1 + position % (rows / 1000).max(1)) }
}

#[cfg(test)]
mod tests {
    use super::{TEXT, mix, number_of, numbered, padded, skewed};

    #[test]
    fn mix_is_splitmix64() {
        // The first numbers of the reference implementation, seeded with 0.
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mix(0x9e37_79b9_7f4a_7c15), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn texts_have_their_length_and_give_their_number_back() {
        assert_eq!([16, mix(7), u64::MAX].map(|number| padded(number).len()), [TEXT; 3]);
        for number in [0, 1, mix(7), u64::MAX] {
            assert_eq!(numbered(number).len(), TEXT);
            assert_eq!(number_of(&numbered(number)), number);
        }
    }

    #[test]
    fn low_keys_are_drawn_more_often_and_no_key_is_too_high() {
        const ROWS: u64 = 100_000;
        let keys: Vec<u64> = (0..ROWS).map(|i| skewed(mix(i), ROWS)).collect();
        let below = |limit: u64| keys.iter().filter(|key| **key < limit).count();
        assert_eq!(below(ROWS), keys.len());
        assert!((49_500..51_000).contains(&below(100)), "{}", below(100));
        assert!(below(10) > 14_000, "{}", below(10));
        assert!(skewed(u64::MAX, 1) == 0, "few rows are no reason to divide by zero");
    }
}
