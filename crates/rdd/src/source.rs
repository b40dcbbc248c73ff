//! Sources in memory: collections and ranges.
//!
//! A source looks at the kill switch after growing chunks of records: after the first record, then
//! two, four, up to 16,384. A slow record is followed by a check soon, a fast loop is not slowed.

use std::marker::PhantomData;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use firesteel_closure::{
    Data, Decoder, Detached, Encoder, Wire, WireError, append_items, from_bytes, heap_bytes, wire,
};
use firesteel_storage::Reservation;
use firesteel_task::{OrFail, TaskContext, fail};

use crate::Pipe;

const LARGEST_CHUNK: u64 = 16_384;

/// Cuts `0..len` into growing chunks, with a look at the kill switch before each.
struct Chunks {
    next: u64,
    len: u64,
    size: u64,
    task: TaskContext,
}

impl Chunks {
    fn new(len: u64, task: &TaskContext) -> Self {
        Chunks { next: 0, len, size: 1, task: task.clone() }
    }
}

impl Iterator for Chunks {
    type Item = Range<u64>;

    fn next(&mut self) -> Option<Range<u64>> {
        self.task.check_killed();
        if self.next == self.len {
            return None;
        }
        let start = self.next;
        self.next = self.len.min(start + self.size);
        self.size = LARGEST_CHUNK.min(self.size * 2);
        let read = self.next - start;
        self.task.count(|metrics| metrics.input_records += read);
        Some(start..self.next)
    }
}

/// The part of `len` items that partition `index` of `count` holds; parts differ by one at most.
pub fn part_of(len: u64, index: u32, count: u32) -> Range<u64> {
    let at = |i: u32| (u128::from(len) * u128::from(i) / u128::from(count.max(1))) as u64;
    at(index)..at(index + 1)
}

/// `parallelize`. An executor that is sent its code gets few items along; the partitions of many are fetched from the driver,
/// each by the task that reads it.
pub struct Parallelized<T> {
    items: Items<T>,
}

enum Items<T> {
    Here(Arc<Parts<T>>),
    /// The driver has them, under this number among the sources of the stage's code.
    Detached(u32),
}

struct Parts<T> {
    items: Vec<T>,
    partitions: u32,
}

impl<T> Parts<T> {
    fn part(&self, partition: u32) -> Range<u64> {
        part_of(self.items.len() as u64, partition, self.partitions)
    }
}

impl<T: Data> Detached for Parts<T> {
    fn encode_part(&self, part: u32, out: &mut Vec<u8>) -> Result<(), WireError> {
        let part = self.part(part);
        append_items(out, &self.items[part.start as usize..part.end as usize])
    }
}

impl<T> Parallelized<T> {
    /// `items` in `partitions` parts.
    pub fn new(items: Vec<T>, partitions: u32) -> Self {
        Parallelized { items: Items::Here(Arc::new(Parts { items, partitions })) }
    }
}

impl<T: Data> Wire for Parallelized<T> {
    fn encode(&self, out: &mut Encoder) -> Result<(), WireError> {
        let source = match &self.items {
            Items::Here(parts) => out.detach(&parts.items, || parts.clone())?,
            Items::Detached(source) => Some(*source),
        };
        out.put(&source)?;
        match &self.items {
            Items::Here(parts) if source.is_none() => {
                out.put_items(&parts.items)?;
                out.put(&parts.partitions)
            }
            _ => Ok(()),
        }
    }

    fn decode(input: &mut Decoder<'_>) -> Result<Self, WireError> {
        match input.take()? {
            Some(source) => Ok(Parallelized { items: Items::Detached(source) }),
            None => Ok(Parallelized::new(input.take()?, input.take()?)),
        }
    }
}

/// The items of one partition that the driver has, on the task's books as long as they are read.
fn fetch<T: Data>(source: u32, partition: u32, task: &TaskContext) -> (Parts<T>, Reservation) {
    let bytes = task.environment().fetch_items(source, partition);
    let bytes = bytes.unwrap_or_else(|failure| fail(failure));
    // Refused or not: the partition is the task's input, and there is nothing to spill.
    let mut held = task.reserve();
    let _ = held.resize(bytes.len() as u64);
    let items: Vec<T> = from_bytes(&bytes).or_fail();
    drop(bytes);
    // Small numbers take a byte on the way and eight here.
    let _ = held.resize(heap_bytes(&items) as u64);
    (Parts { items, partitions: 1 }, held)
}

impl<T: Data + Clone> Pipe for Parallelized<T> {
    type Item = T;

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = T> + use<T> + 'static {
        let (parts, held, part) = match &self.items {
            Items::Here(parts) => (parts.clone(), None, parts.part(partition)),
            Items::Detached(source) => {
                let (parts, held) = fetch(*source, partition, task);
                let part = parts.part(0);
                (Arc::new(parts), Some(held), part)
            }
        };
        Chunks::new(part.end - part.start, task).flat_map(move |chunk| {
            let (parts, _) = (parts.clone(), &held);
            (part.start + chunk.start..part.start + chunk.end)
                .map(move |i| parts.items[i as usize].clone())
        })
    }
}

/// The ranges that numbers are taken from: `a..b` and `a..=b`.
pub trait NumberRange<T> {
    /// The first number, the last bound, and whether that bound belongs to the range.
    fn bounds(self) -> (T, T, bool);
}

impl<T> NumberRange<T> for Range<T> {
    fn bounds(self) -> (T, T, bool) {
        (self.start, self.end, false)
    }
}

impl<T> NumberRange<T> for RangeInclusive<T> {
    fn bounds(self) -> (T, T, bool) {
        let (start, end) = self.into_inner();
        (start, end, true)
    }
}

/// An integer that [`RangeSource`] can count with.
pub trait RangeItem: Data + Copy + 'static {
    /// Numbers from `start` to `end` in steps of `step`; `None` if they are more than fit.
    fn count(start: Self, end: Self, inclusive: bool, step: i64) -> Option<u64>;
    /// `start + index * step`, known to be in range.
    fn at(start: Self, index: u64, step: i64) -> Self;
}

macro_rules! range_item {
    ($($t:ty),*) => {$(
        impl RangeItem for $t {
            fn count(start: Self, end: Self, inclusive: bool, step: i64) -> Option<u64> {
                let step = i128::from(step);
                let distance = (end as i128 - start as i128) * step.signum();
                if step == 0 || distance < 0 || (distance == 0 && !inclusive) {
                    return Some(0);
                }
                let steps = (distance - i128::from(!inclusive)) / step.abs();
                u64::try_from(steps + 1).ok()
            }

            #[inline(always)]
            fn at(start: Self, index: u64, step: i64) -> Self {
                start.wrapping_add((index as i64).wrapping_mul(step) as $t)
            }
        }
    )*};
}
range_item!(i8, u8, i16, u16, i32, u32, i64, u64, usize, isize);

/// `range`
#[derive(Clone, Serialize, Deserialize)]
pub struct RangeSpec<T> {
    start: T,
    step: i64,
    len: u64,
    partitions: u32,
}

/// `range`; `STEPPED` if not every number is taken. Known to the compiler, because a multiplication for
/// each number shows in a tight loop.
pub struct RangeSource<T, const STEPPED: bool = false> {
    spec: firesteel_closure::Value<RangeSpec<T>>,
    item: PhantomData<fn() -> T>,
}

impl<T: RangeItem> RangeSource<T> {
    /// All numbers of a range, in `partitions` parts; `None` if they are too many to count.
    pub fn every(start: T, end: T, inclusive: bool, partitions: u32) -> Option<Self> {
        let len = T::count(start, end, inclusive, 1)?;
        Some(Self::new(RangeSpec { start, step: 1, len, partitions }))
    }
}

impl<T: RangeItem> RangeSource<T, true> {
    /// A range in steps of `step`, in `partitions` parts; `None` if they are too many to count.
    pub fn stepped(start: T, end: T, inclusive: bool, step: i64, partitions: u32) -> Option<Self> {
        let len = T::count(start, end, inclusive, step)?;
        Some(Self::new(RangeSpec { start, step, len, partitions }))
    }
}

impl<T: RangeItem, const STEPPED: bool> RangeSource<T, STEPPED> {
    fn new(spec: RangeSpec<T>) -> Self {
        RangeSource { spec: firesteel_closure::Value(spec), item: PhantomData }
    }
}

wire!([T: RangeItem, const STEPPED: bool] RangeSource<T, STEPPED> { spec, item });

impl<T: RangeItem, const STEPPED: bool> Pipe for RangeSource<T, STEPPED> {
    type Item = T;

    #[inline]
    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = T> + use<T, STEPPED> + 'static {
        let RangeSpec { start, step, len, partitions } = self.spec.0;
        let step = if STEPPED { step } else { 1 };
        let part = part_of(len, partition, partitions);
        Chunks::new(part.end - part.start, task).flat_map(move |chunk| {
            (part.start + chunk.start..part.start + chunk.end)
                .map(move |index| T::at(start, index, step))
        })
    }
}

wire! {
    /// An RDD without partitions.
    pub struct Empty[T: 'static] {
        item: PhantomData<fn() -> T>,
    }
}

impl<T> Default for Empty<T> {
    fn default() -> Self {
        Empty { item: PhantomData }
    }
}

impl<T: 'static> Pipe for Empty<T> {
    type Item = T;

    fn compute(&self, _: u32, _: &TaskContext) -> impl Iterator<Item = T> + use<T> + 'static {
        std::iter::empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_everything_once_and_differ_by_one_at_most() {
        for (len, count) in [(0, 3), (1, 3), (10, 3), (u64::MAX, 7), (5, 1)] {
            let parts: Vec<_> = (0..count).map(|i| part_of(len, i, count)).collect();
            assert_eq!(parts[0].start, 0);
            assert_eq!(parts.last().unwrap().end, len);
            assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
            let sizes = parts.iter().map(|part| part.end - part.start);
            assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1);
        }
    }

    #[test]
    fn ranges_count_as_their_steps_say() {
        assert_eq!(i64::count(0, 10, false, 3), Some(4));
        assert_eq!(i64::count(0, 9, false, 3), Some(3));
        assert_eq!(i64::count(0, 9, true, 3), Some(4));
        assert_eq!(i64::count(10, 0, false, -3), Some(4));
        assert_eq!(i64::count(9, 0, true, -3), Some(4));
        assert_eq!(i64::count(0, 10, false, -1), Some(0));
        assert_eq!(i64::count(0, 10, true, -1), Some(0));
        assert_eq!(i64::count(5, 5, false, 1), Some(0));
        assert_eq!(i64::count(5, 5, true, 1), Some(1));
        assert_eq!(i64::count(5, 9, true, 0), Some(0));
        assert_eq!(i64::count(i64::MIN, i64::MAX, false, 1), Some(u64::MAX));
        assert_eq!(u64::count(0, u64::MAX, false, 1), Some(u64::MAX));
        assert_eq!(u64::count(0, u64::MAX, true, 1), None);
        assert_eq!(u8::count(0, u8::MAX, true, 1), Some(256));
        assert_eq!((u8::at(0, 255, 1), i8::at(i8::MIN, 255, 1)), (255, 127));
        assert_eq!(i64::at(10, 2, -3), 4);
        assert_eq!(u32::at(7, 3, -2), 1);
    }
}
