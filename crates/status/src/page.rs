//! A part of a long list, sorted.

use std::cmp::Ordering;

/// Which part of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paging {
    /// How many to leave out at the beginning.
    pub offset: usize,
    /// How many at most.
    pub length: usize,
}

impl Paging {
    /// The whole list.
    pub const ALL: Paging = Paging { offset: 0, length: usize::MAX };
}

/// Which end of a list comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The smallest first.
    Ascending,
    /// The largest first.
    Descending,
}

/// A part of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// In order.
    pub items: Vec<T>,
    /// How many there are in the whole list.
    pub total: usize,
}

impl<T> Page<T> {
    /// Cuts a page out of `all`, sorted by `compare`, without sorting the rest: in linear time, but for the page itself.
    pub(crate) fn cut(
        mut all: Vec<T>,
        compare: impl Fn(&T, &T) -> Ordering,
        order: Order,
        paging: Paging,
    ) -> Self {
        let compare = |a: &T, b: &T| match order {
            Order::Ascending => compare(a, b),
            Order::Descending => compare(b, a),
        };
        let total = all.len();
        let start = paging.offset.min(total);
        let end = start.saturating_add(paging.length).min(total);
        if end < total {
            all.select_nth_unstable_by(end, compare);
            all.truncate(end);
        }
        if start > 0 && start < all.len() {
            all.select_nth_unstable_by(start, compare);
        }
        let mut items = all.split_off(start);
        items.sort_unstable_by(compare);
        Page { items, total }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_what_sorting_everything_would_give() {
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..200 {
            let all: Vec<u32> = (0..rng.usize(..60)).map(|_| rng.u32(..20)).collect();
            let paging = Paging { offset: rng.usize(..70), length: rng.usize(..70) };
            for order in [Order::Ascending, Order::Descending] {
                let mut sorted = all.clone();
                sorted.sort_unstable();
                if order == Order::Descending {
                    sorted.reverse();
                }
                let wanted = sorted.into_iter().skip(paging.offset).take(paging.length);
                let page = Page::cut(all.clone(), u32::cmp, order, paging);
                assert_eq!((page.items, page.total), (wanted.collect(), all.len()));
            }
        }
        assert_eq!(Page::cut(vec![2, 1], i32::cmp, Order::Ascending, Paging::ALL).items, [1, 2]);
    }
}
