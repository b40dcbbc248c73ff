//! What keys must be able to do, and floating-point numbers as keys.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use firesteel_closure::Data;
use serde::{Deserialize, Serialize};

/// Keys that records are brought together by. Every type that travels and is `Hash + Eq` is one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a key",
    label = "needs a key that is hashed and compared",
    note = "add `#[derive(Hash, PartialEq, Eq, serde::Serialize, serde::Deserialize)]` to the key's type; a floating-point \
            number is a key as `Total(x)`"
)]
pub trait Key: Data + Hash + Eq {}

impl<K: Data + Hash + Eq> Key for K {}

/// Keys that records are sorted by. Every type that travels and is `Ord + Clone` is one.
#[diagnostic::on_unimplemented(
    message = "records cannot be sorted by `{Self}`",
    label = "needs a key that is ordered",
    note = "add `#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]` to the key's type; a \
            floating-point number is a key as `Total(x)`; for a key that lies in the item write `sort_by_ref(|item| &item.name)`"
)]
pub trait SortKey: Data + Ord + Clone {}

impl<K: Data + Ord + Clone> SortKey for K {}

/// A double with a total order, usable where keys must be ordered or hashed: NaN is above all
/// numbers and one key whatever its bits are, -0.0 is below 0.0.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Total(pub f64);

impl Total {
    /// The number; of the many NaNs always the same one.
    fn canonical(self) -> f64 {
        if self.0.is_nan() { f64::NAN } else { self.0 }
    }
}

impl Ord for Total {
    fn cmp(&self, other: &Self) -> Ordering {
        self.canonical().total_cmp(&other.canonical())
    }
}

impl PartialOrd for Total {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Total {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Total {}

impl Hash for Total {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.canonical().to_bits().hash(state);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn all_nans_are_one_key_above_all_numbers() {
        let nans = [f64::NAN, -f64::NAN, f64::from_bits(0x7ff8_0000_0000_0001)].map(Total);
        for nan in nans {
            assert!(nan == nans[0] && nan > Total(f64::INFINITY), "{nan:?}");
        }
        assert_eq!(nans.into_iter().collect::<HashSet<_>>().len(), 1);
        assert!(Total(-0.0) < Total(0.0) && Total(f64::NEG_INFINITY) < Total(f64::MIN));
    }
}
