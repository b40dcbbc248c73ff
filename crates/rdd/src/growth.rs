//! How combiners take memory as they grow, and how they are taken apart when they are spilled.
//!
//! A group may become as large as memory. So its table asks before a large vector moves to a larger
//! place, while both are there; and a group leaves the table in pieces, so that nobody has to encode,
//! pack and read back all of it at once. Whether memory is granted is not decided here.

use std::mem::needs_drop;

use firesteel_closure::{Data, encoded_len};

use crate::memory::Meter;

/// Vectors up to this size grow without asking, by doubling.
const SMALL_BYTES: usize = 64 << 10;
/// Pieces are closed when their values are this long: about a block on disk.
pub(crate) const PIECE_BYTES: usize = 64 << 10;

/// How many values are to come, on either of two sides.
#[derive(Clone, Copy)]
pub(crate) struct More(pub(crate) usize, pub(crate) usize);

/// What combiners of a kind do as inputs come.
pub(crate) trait Growth<C>: 'static {
    /// Whether they grow with every input (a group), rather than stay as they are (a sum).
    const GROWS: bool;

    /// Learns what values own on the heap.
    fn meter() -> Meter;
    /// What all values of a combiner own on the heap, about.
    fn weigh(combiner: &C, meter: &mut Meter) -> f64;
    /// Bytes of memory for the values themselves, those to come included.
    fn slots(combiner: &C) -> u64;
    fn len(combiner: &C) -> More;
    fn has_room(combiner: &C, more: More) -> bool;
    /// Makes room by doubling where that takes little memory; whether there is room now.
    fn stretch_small(combiner: &mut C, more: More) -> bool;
    /// Makes room. Asks `allows` for the bytes of a new place, which is there besides the old one for a
    /// moment; `false` when that is refused.
    fn stretch(combiner: &mut C, more: More, allows: &mut dyn FnMut(u64) -> bool) -> bool;
    /// Hands a combiner on in pieces of bounded size that make up the same when they are merged in this
    /// order. Only a single value can be larger.
    fn in_pieces(combiner: C, take: &mut impl FnMut(&C));
}

/// Combiners that stay about as large as they are.
pub(crate) struct Steady;

impl<C: 'static> Growth<C> for Steady {
    const GROWS: bool = false;

    fn meter() -> Meter {
        Meter::of::<()>()
    }

    fn weigh(_: &C, _: &mut Meter) -> f64 {
        0.0
    }

    fn slots(_: &C) -> u64 {
        0
    }

    fn len(_: &C) -> More {
        More(0, 0)
    }

    fn has_room(_: &C, _: More) -> bool {
        true
    }

    fn stretch_small(_: &mut C, _: More) -> bool {
        true
    }

    fn stretch(_: &mut C, _: More, _: &mut dyn FnMut(u64) -> bool) -> bool {
        true
    }

    #[inline]
    fn in_pieces(combiner: C, take: &mut impl FnMut(&C)) {
        take(&combiner);
    }
}

/// Groups of values.
pub(crate) struct Groups;

impl<V: Data> Growth<Vec<V>> for Groups {
    const GROWS: bool = true;

    fn meter() -> Meter {
        Meter::of::<V>()
    }

    #[inline]
    fn weigh(group: &Vec<V>, meter: &mut Meter) -> f64 {
        weigh(group, meter)
    }

    #[inline]
    fn slots(group: &Vec<V>) -> u64 {
        slots(group)
    }

    #[inline]
    fn len(group: &Vec<V>) -> More {
        More(group.len(), 0)
    }

    #[inline]
    fn has_room(group: &Vec<V>, more: More) -> bool {
        has_room(group, more.0)
    }

    #[inline]
    fn stretch_small(group: &mut Vec<V>, more: More) -> bool {
        stretch_small(group, more.0)
    }

    fn stretch(group: &mut Vec<V>, more: More, allows: &mut dyn FnMut(u64) -> bool) -> bool {
        stretch(group, more.0, allows)
    }

    fn in_pieces(group: Vec<V>, take: &mut impl FnMut(&Vec<V>)) {
        match fits_a_piece(&group) {
            true => take(&group),
            false => cut(group, |piece| take(&piece)),
        }
    }
}

/// Groups of the values of two sides.
pub(crate) struct TwoGroups;

impl<V: Data, W: Data> Growth<(Vec<V>, Vec<W>)> for TwoGroups {
    const GROWS: bool = true;

    fn meter() -> Meter {
        Meter::of::<(V, W)>()
    }

    #[inline]
    fn weigh(groups: &(Vec<V>, Vec<W>), meter: &mut Meter) -> f64 {
        weigh(&groups.0, meter) + weigh(&groups.1, meter)
    }

    #[inline]
    fn slots(groups: &(Vec<V>, Vec<W>)) -> u64 {
        slots(&groups.0) + slots(&groups.1)
    }

    #[inline]
    fn len(groups: &(Vec<V>, Vec<W>)) -> More {
        More(groups.0.len(), groups.1.len())
    }

    #[inline]
    fn has_room(groups: &(Vec<V>, Vec<W>), more: More) -> bool {
        has_room(&groups.0, more.0) && has_room(&groups.1, more.1)
    }

    #[inline]
    fn stretch_small(groups: &mut (Vec<V>, Vec<W>), more: More) -> bool {
        stretch_small(&mut groups.0, more.0) && stretch_small(&mut groups.1, more.1)
    }

    fn stretch(
        groups: &mut (Vec<V>, Vec<W>),
        more: More,
        allows: &mut dyn FnMut(u64) -> bool,
    ) -> bool {
        stretch(&mut groups.0, more.0, allows) && stretch(&mut groups.1, more.1, allows)
    }

    fn in_pieces(groups: (Vec<V>, Vec<W>), take: &mut impl FnMut(&(Vec<V>, Vec<W>))) {
        if fits_a_piece(&groups.0) && fits_a_piece(&groups.1) {
            return take(&groups);
        }
        cut(groups.0, |piece| take(&(piece, Vec::new())));
        cut(groups.1, |piece| take(&(Vec::new(), piece)));
    }
}

/// What values own on the heap, about.
#[inline]
pub(crate) fn weigh<T: Data>(values: &[T], meter: &mut Meter) -> f64 {
    if !needs_drop::<T>() {
        return 0.0;
    }
    values.iter().map(|value| meter.see(value)).sum()
}

#[inline]
fn slots<T>(values: &Vec<T>) -> u64 {
    match size_of::<T>() {
        0 => 0,
        each => (values.capacity() * each) as u64,
    }
}

#[inline]
fn has_room<T>(values: &Vec<T>, more: usize) -> bool {
    values.capacity() - values.len() >= more
}

#[inline]
fn stretch_small<T>(values: &mut Vec<T>, more: usize) -> bool {
    let is_small = (values.len() + more) * size_of::<T>() <= SMALL_BYTES;
    if is_small {
        values.reserve(more);
    }
    is_small || has_room(values, more)
}

/// Asks for twice the place; if that is refused, for a little more: there may still be room for it.
fn stretch<T>(values: &mut Vec<T>, more: usize, allows: &mut dyn FnMut(u64) -> bool) -> bool {
    if stretch_small(values, more) {
        return true;
    }
    let (len, least) = (values.len(), values.len() + more);
    let steps = [len, len / 4, len / 16].map(|step| least.max(len + step));
    let granted = steps.into_iter().find(|slots| allows((slots * size_of::<T>()) as u64));
    if let Some(slots) = granted {
        values.reserve_exact(slots - len);
    }
    granted.is_some()
}

fn fits_a_piece<T: Data>(values: &[T]) -> bool {
    let mut bytes = 0;
    let mut fits = |value: &T| {
        bytes += length(value);
        bytes < PIECE_BYTES
    };
    values.len() < 2 || values.iter().all(&mut fits)
}

/// Values are gone as soon as their piece was taken.
fn cut<T: Data>(values: Vec<T>, mut take: impl FnMut(Vec<T>)) {
    let (mut piece, mut bytes) = (Vec::new(), 0);
    for value in values {
        bytes += length(&value);
        piece.push(value);
        if bytes >= PIECE_BYTES {
            take(std::mem::take(&mut piece));
            bytes = 0;
        }
    }
    if !piece.is_empty() {
        take(piece);
    }
}

/// The larger of what a value takes in memory, without its heap, and encoded.
#[inline]
fn length<T: Data>(value: &T) -> usize {
    let encoded = if needs_drop::<T>() { encoded_len(value).unwrap_or(0) } else { 0 };
    encoded.max(size_of::<T>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces<C: Clone>(combiner: &C, cut: impl FnOnce(C, &mut dyn FnMut(C))) -> Vec<C> {
        let mut pieces = Vec::new();
        cut(combiner.clone(), &mut |piece| pieces.push(piece));
        pieces
    }

    fn of_group<V: Data + Clone>(group: &Vec<V>) -> Vec<Vec<V>> {
        pieces(group, |group, push| Groups::in_pieces(group, &mut |piece| push(piece.clone())))
    }

    #[test]
    fn a_large_group_leaves_in_bounded_pieces_that_keep_the_order() {
        let group: Vec<String> = (0..30_000).map(|n| format!("{n:0>90}")).collect();
        let pieces = of_group(&group);
        assert!(pieces.len() > 30, "{}", pieces.len());
        let longest = pieces.iter().map(|piece| encoded_len(piece).unwrap()).max();
        assert!(longest.unwrap() <= PIECE_BYTES + 200, "{longest:?}");
        assert_eq!(pieces.concat(), group);
    }

    #[test]
    fn values_of_uneven_length_do_not_make_a_piece_long() {
        let value = |n: usize| "x".repeat(if n < 10_000 { 2 } else { 50_000 });
        let group: Vec<String> = (0..10_050).map(value).collect();
        let longest = of_group(&group).iter().map(|piece| encoded_len(piece).unwrap()).max();
        assert!(longest.unwrap() <= PIECE_BYTES + 50_100, "{longest:?}");
    }

    #[test]
    fn small_groups_stay_whole_and_values_of_no_size_are_kept() {
        assert_eq!(of_group(&vec![1u64, 2, 3]), [[1, 2, 3]]);
        assert_eq!(of_group(&vec!["x".repeat(1 << 20)]).len(), 1);
        assert_eq!(of_group(&vec![(); 1 << 20]).concat().len(), 1 << 20);
    }

    #[test]
    fn both_sides_of_two_groups_are_cut_and_come_together_again() {
        let groups: (Vec<u64>, Vec<String>) =
            ((0..50_000).collect(), (0..5000).map(|n| format!("{n:0>50}")).collect());
        let pieces = pieces(&groups, |groups, push| {
            TwoGroups::in_pieces(groups, &mut |piece| push(piece.clone()));
        });
        assert!(pieces.iter().all(|piece| encoded_len(piece).unwrap() <= PIECE_BYTES + 100));
        let (left, right): (Vec<_>, Vec<_>) = pieces.into_iter().unzip();
        assert_eq!((left.concat(), right.concat()), groups);
    }

    #[test]
    fn a_large_vector_grows_as_far_as_it_is_allowed_and_asks_before() {
        let full = || vec![0u64; 1 << 20];
        for (limit, slots) in [(3 << 20, 2 << 20), (5 << 18, 5 << 18), (9 << 17, 17 << 16)] {
            let mut values = full();
            assert!(stretch(&mut values, 1, &mut |bytes| bytes <= limit * 8));
            assert_eq!(values.capacity(), slots);
        }
        let mut values = full();
        assert!(!stretch(&mut values, 1, &mut |_| false));
        assert_eq!(values.capacity(), 1 << 20, "nothing grows without leave");
        let mut small = vec![0u64; 16];
        assert!(stretch(&mut small, 1, &mut |_| false), "small ones do not ask");
    }
}
