//! How the key of an item is found: computed, borrowed from the item, or the item itself.

use std::cmp::{Ordering, Reverse};

use firesteel_closure::{Call, Data, Wire, heap_bytes, wire};

/// Finds the key of an item to place and sort it by.
pub trait KeyOf<T, K: Ord>: Wire + Clone {
    /// What is computed once per item; nothing if the key lies in the item.
    type Computed: 'static;

    fn compute(&self, item: &T) -> Self::Computed;

    /// The key of an item, and what was computed of it.
    fn key<'a>(&self, computed: &'a Self::Computed, item: &'a T) -> &'a K;

    /// Bytes that sorting takes for each item, beside it.
    const SORTING: usize = size_of::<T>().div_ceil(2);

    /// What the computed key of an item owns on the heap.
    fn computed_heap(&self, _item: &T) -> usize {
        0
    }

    /// Sorts items by their keys; equal keys keep their order.
    fn sort(&self, items: &mut [T], descending: bool) {
        items.sort_by(|left, right| {
            let keys = (self.compute(left), self.compute(right));
            directed(self.key(&keys.0, left).cmp(self.key(&keys.1, right)), descending)
        });
    }

    /// Calls `f` with the key of an item.
    #[inline]
    fn with<R>(&self, item: &T, f: impl FnOnce(&K) -> R) -> R {
        f(self.key(&self.compute(item), item))
    }
}

pub(crate) fn directed(ordering: Ordering, descending: bool) -> Ordering {
    if descending { ordering.reverse() } else { ordering }
}

wire! {
    /// A function returns it.
    #[derive(Clone)]
    pub struct ComputedKey[F: Wire] {
        key: F,
    }

    /// The key is `key(item)`.
    pub fn new;
}

impl<T, K: Data + Ord, F: for<'a> Call<(&'a T,), K>> KeyOf<T, K> for ComputedKey<F> {
    type Computed = K;

    /// All keys, with the places of their items.
    const SORTING: usize = size_of::<(K, usize)>();

    fn computed_heap(&self, item: &T) -> usize {
        if std::mem::needs_drop::<K>() { heap_bytes(&self.compute(item)) } else { 0 }
    }

    #[inline]
    fn compute(&self, item: &T) -> K {
        self.key.call((item,))
    }

    #[inline]
    fn key<'a>(&self, computed: &'a K, _: &'a T) -> &'a K {
        computed
    }

    fn sort(&self, items: &mut [T], descending: bool) {
        if descending {
            items.sort_by_cached_key(|item| Reverse(self.compute(item)));
        } else {
            items.sort_by_cached_key(|item| self.compute(item));
        }
    }
}

wire! {
    /// A function finds it in the item.
    #[derive(Clone)]
    pub struct BorrowedKey[F: Wire] {
        key: F,
    }

    /// The key is `key(item)`.
    pub fn new;
}

impl<T, K, F> KeyOf<T, K> for BorrowedKey<F>
where
    K: Ord + 'static,
    F: for<'a> Call<(&'a T,), &'a K>,
{
    type Computed = ();

    #[inline]
    fn compute(&self, _: &T) {}

    #[inline]
    fn key<'a>(&self, (): &'a (), item: &'a T) -> &'a K {
        self.key.call((item,))
    }
}

#[derive(Clone)]
pub struct FirstOfPair;

wire!([] FirstOfPair {});

impl<K: Ord, V> KeyOf<(K, V), K> for FirstOfPair {
    type Computed = ();

    #[inline]
    fn compute(&self, _: &(K, V)) {}

    #[inline]
    fn key<'a>(&self, (): &'a (), (key, _): &'a (K, V)) -> &'a K {
        key
    }
}

/// The item is its own key.
#[derive(Clone)]
pub struct WholeItem;

wire!([] WholeItem {});

impl<T: Ord> KeyOf<T, T> for WholeItem {
    type Computed = ();

    #[inline]
    fn compute(&self, _: &T) {}

    #[inline]
    fn key<'a>(&self, (): &'a (), item: &'a T) -> &'a T {
        item
    }
}
