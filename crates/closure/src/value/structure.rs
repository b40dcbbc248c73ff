//! What a value is made of, as two sums: one taken while it is written, one while it is read.
//!
//! The wire form is positional: it names neither fields nor variants nor types. Whether a type's
//! `Deserialize` read what its `Serialize` wrote is found by comparing what both asked for. Every call
//! adds a constant, so that the compiler folds those of a whole record into few additions; sums do not
//! depend on the order, which differs between two `HashMap`s of equal content.

use std::num::Wrapping;

/// What one value showed of its type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Structure {
    /// Kinds and numbers of all that was written or read.
    pub(crate) body: Wrapping<u64>,
    /// Names of fields.
    pub(crate) fields: Wrapping<u64>,
    /// Names of variants.
    pub(crate) variants: Wrapping<u64>,
}

impl Structure {
    /// What stands behind a value of `length` bytes.
    #[inline]
    pub(crate) fn seal(&self, length: usize) -> u32 {
        let length = (length as u64).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
        let names = self.fields.0.rotate_left(17) ^ self.variants.0.rotate_left(41);
        (mix(self.body.0 ^ names ^ length) >> 32) as u32
    }
}

/// Watches what a value is made of, while it is written or read.
pub(crate) trait Watch: Default {
    fn add(&mut self, kind: Kind);
    fn add_field(&mut self, name: &'static str);
    fn add_variant(&mut self, name: &'static str);
}

impl Watch for Structure {
    #[inline(always)]
    fn add(&mut self, kind: Kind) {
        self.body += Wrapping((kind as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }

    #[inline(always)]
    fn add_field(&mut self, name: &'static str) {
        self.fields += Wrapping(hash(name));
    }

    #[inline(always)]
    fn add_variant(&mut self, name: &'static str) {
        self.variants += Wrapping(hash(name));
    }
}

/// Watches also where in a value its parts stand, while it is written.
pub(crate) trait WatchPlaces: Watch {
    /// A struct or a variant of this name is written.
    fn show(&mut self, name: &'static str);
    /// Something that may be empty is written at this place, and whether it is not.
    fn show_here(&mut self, is_some: bool, what: &'static str);
    fn place(&self) -> u64;
    fn go_to(&mut self, place: u64);
    fn go_to_field(&mut self, name: &'static str);
}

/// What a written value showed of its type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    pub(crate) structure: Structure,
    pub(crate) shapes: Shapes,
    /// Where in the value this is: mixed into the bits of `shapes`.
    place: u64,
}

impl Default for Written {
    #[inline(always)]
    fn default() -> Self {
        Written { structure: Structure::default(), shapes: Shapes::VALUE, place: 0 }
    }
}

impl Watch for Written {
    #[inline(always)]
    fn add(&mut self, kind: Kind) {
        self.structure.add(kind);
    }

    #[inline(always)]
    fn add_field(&mut self, name: &'static str) {
        self.structure.add_field(name);
    }

    #[inline(always)]
    fn add_variant(&mut self, name: &'static str) {
        self.structure.add_variant(name);
    }
}

impl WatchPlaces for Written {
    #[inline(always)]
    fn show(&mut self, name: &'static str) {
        self.shapes.add(hash(name));
    }

    #[inline(always)]
    fn show_here(&mut self, is_some: bool, what: &'static str) {
        self.shapes.add_if(is_some, self.place ^ hash(what));
    }

    #[inline(always)]
    fn place(&self) -> u64 {
        self.place
    }

    #[inline(always)]
    fn go_to(&mut self, place: u64) {
        self.place = place;
    }

    #[inline(always)]
    fn go_to_field(&mut self, name: &'static str) {
        self.place = hash(name);
    }
}

/// Nobody: values of plain types need no sum.
#[derive(Default)]
pub(crate) struct Unwatched;

impl Watch for Unwatched {
    #[inline(always)]
    fn add(&mut self, _: Kind) {}

    #[inline(always)]
    fn add_field(&mut self, _: &'static str) {}

    #[inline(always)]
    fn add_variant(&mut self, _: &'static str) {}
}

impl WatchPlaces for Unwatched {
    #[inline(always)]
    fn show(&mut self, _: &'static str) {}

    #[inline(always)]
    fn show_here(&mut self, _: bool, _: &'static str) {}

    #[inline(always)]
    fn place(&self) -> u64 {
        0
    }

    #[inline(always)]
    fn go_to(&mut self, _: u64) {}

    #[inline(always)]
    fn go_to_field(&mut self, _: &'static str) {}
}

/// What serde's two halves call alike. Numbers that have the same wire form are one kind.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Unit,
    Bool,
    U8,
    I8,
    Unsigned,
    Signed,
    F32,
    F64,
    Char,
    Bytes,
    None,
    Some,
    Seq,
    Map,
    /// An element of a sequence or an entry of a map.
    Item,
    /// An element of a tuple or a field of a struct.
    Element,
    UnitVariant,
    NewtypeVariant,
    TupleVariant,
    StructVariant,
}

fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (value ^ (value >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

/// A number for a name. Straight code, so that the compiler can compute it for names that it knows;
/// of names longer than 24 bytes, the start, the middle and the end count.
#[inline(always)]
pub(crate) fn hash(name: &str) -> u64 {
    let (bytes, length) = (name.as_bytes(), name.len());
    let (head, middle, tail) = if length >= 8 {
        (eight(bytes, 0), eight(bytes, length / 2 - 4), eight(bytes, length - 8))
    } else if length >= 4 {
        (four(bytes, 0), four(bytes, length - 4), 0)
    } else if length > 0 {
        (u64::from(bytes[0]), u64::from(bytes[length / 2]), u64::from(bytes[length - 1]))
    } else {
        (0, 0, 0)
    };
    let sum = head.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ middle.wrapping_mul(0xc2b2_ae3d_27d4_eb4f).rotate_left(21)
        ^ tail.wrapping_mul(0x1656_67b1_9e37_79f9).rotate_left(42);
    mix(sum ^ length as u64)
}

#[inline(always)]
fn eight(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[inline(always)]
fn four(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")))
}

/// Which parts of a type were seen: a bit for each variant, each struct, each `Some` and each collection that is not
/// empty, by the field it stands in. Two may share a bit; then the second is not noticed here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shapes(u128);

impl Shapes {
    /// That of any value.
    pub(crate) const VALUE: Shapes = Shapes(1);

    #[inline(always)]
    pub(crate) fn add(&mut self, hash: u64) {
        self.0 |= 1 << (hash & 127);
    }

    #[inline(always)]
    pub(crate) fn add_if(&mut self, shows: bool, hash: u64) {
        self.0 |= u128::from(shows) << (hash & 127);
    }

    pub(crate) fn join(&mut self, other: Shapes) {
        self.0 |= other.0;
    }

    /// Whether all of these are in `seen`.
    #[inline(always)]
    pub(crate) fn are_in(self, seen: Shapes) -> bool {
        self.0 & !seen.0 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_in_one_letter_have_different_hashes() {
        let names = ["", "a", "b", "ab", "ba", "abc", "acc", "abcd", "abcdefgh", "abcdefgi"];
        let longer = ["customer_name_first", "customer_name_extra", "customer_nbme_first"];
        let all: Vec<u64> = names.iter().chain(&longer).map(|name| hash(name)).collect();
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
    }
}
