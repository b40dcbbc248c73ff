//! Numbers in as few bytes as they need, seven bits each.

/// The largest number of bytes of the quick forms.
pub(crate) const QUICK: usize = 8;
/// The first number that needs more than four bytes.
pub(crate) const SMALL: u64 = 1 << (7 * 4);
/// No number takes more.
pub(crate) const LONGEST: usize = 10;
/// The first number that needs more than [`QUICK`] bytes.
pub(crate) const TOO_LARGE: u64 = 1 << (7 * QUICK);
const MORE: u64 = 0x8080_8080_8080_8080;

/// The bytes of a number below [`TOO_LARGE`], the first ones of eight, and how many they are.
#[inline(always)]
pub(crate) fn spread(value: u64) -> ([u8; QUICK], usize) {
    let length = length(value);
    let groups = (value & 0x0fff_ffff) | ((value & 0x00ff_ffff_f000_0000) << 4);
    let groups = (groups & 0x0000_3fff_0000_3fff) | ((groups & 0x0fff_c000_0fff_c000) << 2);
    let groups = (groups & 0x007f_007f_007f_007f) | ((groups & 0x3f80_3f80_3f80_3f80) << 1);
    let more = MORE & ((1 << (8 * (length - 1))) - 1);
    ((groups | more).to_le_bytes(), length)
}

/// The same for a number below [`SMALL`]: half the work.
#[inline(always)]
pub(crate) fn spread_small(value: u32) -> ([u8; 4], usize) {
    let length = length(value.into());
    let groups = (value & 0x3fff) | ((value & 0x0fff_c000) << 2);
    let groups = (groups & 0x007f_007f) | ((groups & 0x3f80_3f80) << 1);
    let more = MORE as u32 & ((1 << (8 * (length - 1))) - 1);
    ((groups | more).to_le_bytes(), length)
}

/// How many bytes a number takes: a seventh of its bits, rounded up.
#[inline(always)]
fn length(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros();
    (bits * 9 + 64) as usize / 64
}

/// All eight bytes of the lowest 56 bits of a number that needs more.
#[inline(always)]
pub(crate) fn spread_low(value: u64) -> [u8; QUICK] {
    let (bytes, _) = spread(value & (TOO_LARGE - 1));
    (u64::from_le_bytes(bytes) | MORE).to_le_bytes()
}

/// The number at the start of `bytes` and how many of them it takes. Lengths repeat in most data, so that branches on
/// them are foreseen, where a computed length would have to be waited for.
#[inline(always)]
pub(crate) fn gather(bytes: &[u8; LONGEST]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (index, byte) in bytes.iter().enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if *byte < 0x80 {
            let fits = index + 1 < LONGEST || *byte <= 1;
            return fits.then_some((value, index + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_length_come_back() {
        let edges = (0..56).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1]);
        for value in edges.chain([TOO_LARGE - 1]) {
            let (quick, length) = spread(value);
            assert_eq!(length, (64 - (value | 1).leading_zeros() as usize).div_ceil(7));
            if value < SMALL {
                let (small, same) = spread_small(value as u32);
                assert_eq!((&small[..same], same), (&quick[..length], length));
            }
            let mut bytes = [0xff; LONGEST];
            bytes[..length].copy_from_slice(&quick[..length]);
            assert_eq!(gather(&bytes), Some((value, length)), "{value}");
        }
        for value in [TOO_LARGE, TOO_LARGE + 1, u64::MAX >> 1, 1 << 63, u64::MAX] {
            let low = spread_low(value);
            let high = [(value >> 56) as u8 | 0x80, (value >> 63) as u8];
            let bytes: Vec<u8> = low.into_iter().chain(high).collect();
            assert_eq!(gather(bytes[..].try_into().unwrap()), Some((value, 10)));
        }
        assert_eq!(gather(&[0xff; LONGEST]), None);
    }
}
