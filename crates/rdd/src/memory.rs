//! How much memory a collection of records takes: what is allocated is counted, what its records own
//! on the heap is learnt from samples.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use firesteel_closure::{Data, heap_bytes};
use firesteel_storage::{BlockId, LastResort, Reservation, Resort};
use firesteel_task::{Environment, TaskContext};

/// What every holder may use without asking: enough to make progress.
pub(crate) const FREE_BYTES: u64 = 1 << 20;
/// So many bytes may be held on top of what was asked for.
pub(crate) const CHECK_BYTES: f64 = 65_536.0;
/// At least one of so many records is looked at.
const WIDEST_GAP: u64 = 64;
/// So many records make up the average.
const WINDOW: u64 = 640;

/// Learns what records own on the heap, from the first ones and then from fewer and fewer. Large ones are all looked
/// at.
pub(crate) struct Meter {
    owns_heap: bool,
    seen: u64,
    sampled: u64,
    next_sample: u64,
    heap: f64,
    largest: usize,
}

impl Meter {
    /// For records of type `T`.
    pub(crate) fn of<T>() -> Self {
        let owns_heap = std::mem::needs_drop::<T>();
        Meter { owns_heap, seen: 0, sampled: 0, next_sample: 1, heap: 0.0, largest: 0 }
    }

    /// Looks at a record, if it is time to. Its heap bytes, about: a sample makes up for those before it that were
    /// passed over, so that the sum is right in whatever order records come.
    #[inline]
    pub(crate) fn see(&mut self, record: &impl Serialize) -> f64 {
        self.see_as(|| heap_bytes(record))
    }

    /// [`Meter::see`] of a record that is measured in another way.
    #[inline]
    pub(crate) fn see_as(&mut self, measure: impl FnOnce() -> usize) -> f64 {
        if !self.owns_heap {
            return 0.0;
        }
        self.seen += 1;
        if self.seen >= self.next_sample { self.sample(measure()) } else { self.heap }
    }

    #[cold]
    fn sample(&mut self, bytes: usize) -> f64 {
        self.largest = self.largest.max(bytes);
        let (size, gap) = (bytes as f64, (self.seen - self.sampled) as f64);
        let correction = size * gap - self.heap * (gap - 1.0);
        self.heap += (size - self.heap) * gap / self.seen.min(WINDOW) as f64;
        self.sampled = self.seen;
        let most = (1 + self.seen / 8).min(WIDEST_GAP);
        self.next_sample = self.seen + ((CHECK_BYTES / (1.0 + self.heap)) as u64).clamp(1, most);
        correction
    }

    /// Those that were seen are gone: nothing of theirs is made up for.
    pub(crate) fn forget(&mut self) {
        self.sampled = self.seen;
        self.next_sample = self.seen + 1;
    }

    /// Heap bytes of one of the last records, about.
    pub(crate) fn heap_each(&self) -> f64 {
        self.heap
    }
}

/// Learns what combiners own on the heap, which change as inputs are merged into them.
pub(crate) struct CombinerMeter {
    seen: u64,
    next_sample: u64,
    samples: f64,
    heap: f64,
}

impl CombinerMeter {
    pub(crate) fn new() -> Self {
        CombinerMeter { seen: 0, next_sample: 1, samples: 0.0, heap: 0.0 }
    }

    /// Looks at a combiner, if it is time to: less and less often, as a large one takes long to look at.
    #[inline]
    pub(crate) fn see(&mut self, combiner: &impl Serialize) {
        self.seen += 1;
        if self.seen >= self.next_sample {
            self.sample(combiner);
        }
    }

    #[cold]
    fn sample(&mut self, combiner: &impl Serialize) {
        self.next_sample = self.seen + 1 + self.seen / 8;
        self.samples += 1.0;
        // Later samples weigh at least a tenth: combiners grow.
        self.heap += (heap_bytes(combiner) as f64 - self.heap) / self.samples.min(10.0);
    }

    /// Heap bytes of one, about.
    pub(crate) fn heap_each(&self) -> f64 {
        self.heap
    }
}

/// An account that lets the first megabyte pass.
pub(crate) struct Account {
    reservation: Reservation,
}

impl Account {
    pub(crate) fn new(task: &TaskContext) -> Self {
        Account { reservation: task.reserve() }
    }

    /// Whether so many bytes in all may be held.
    pub(crate) fn allows(&mut self, bytes: u64) -> bool {
        bytes <= FREE_BYTES || self.reservation.resize(bytes)
    }

    /// Whether so many bytes in all may be held as a last resort, whatever the task's share. Waits no longer
    /// than `most`.
    pub(crate) fn resort(&mut self, right: &mut LastResort, bytes: u64, most: Duration) -> Resort {
        right.resize(&mut self.reservation, bytes, most)
    }

    pub(crate) fn clear(&mut self) {
        self.reservation.resize(0);
    }
}

/// Items within the task's memory, and what is to be made of each.
pub(crate) struct Hoard<T> {
    pub(crate) items: Vec<T>,
    heap: Heap,
    /// Bytes beside each item, when all are there.
    beside: usize,
    pub(crate) account: Account,
}

/// What items own on the heap, and how much of it was asked for.
struct Heap {
    meter: Meter,
    bytes: f64,
    asked: f64,
}

impl Heap {
    fn of<T>() -> Self {
        Heap { meter: Meter::of::<T>(), bytes: 0.0, asked: 0.0 }
    }

    /// Counts an item; whether it is time to ask.
    #[inline]
    fn see(&mut self, measure: impl FnOnce() -> usize) -> bool {
        self.bytes += self.meter.see_as(measure);
        self.bytes > self.asked + (self.asked / 16.0).clamp(CHECK_BYTES, FREE_BYTES as f64)
    }

    /// All of it, which is asked for now.
    fn ask(&mut self) -> u64 {
        self.asked = self.bytes;
        self.bytes as u64
    }

    fn clear(&mut self) {
        self.meter.forget();
        (self.bytes, self.asked) = (0.0, 0.0);
    }
}

impl<T: Data> Hoard<T> {
    /// With no memory for anything beside the items.
    pub(crate) fn new(task: &TaskContext) -> Self {
        Hoard::beside::<()>(0, task)
    }

    /// Of items that will each need so many bytes more, for something like a `B`.
    pub(crate) fn beside<B>(beside: usize, task: &TaskContext) -> Self {
        let (heap, account) = (Heap::of::<(T, B)>(), Account::new(task));
        Hoard { items: Vec::new(), heap, beside, account }
    }

    /// The most that one item takes, of those that were looked at, also of those that are gone.
    pub(crate) fn largest(&self) -> usize {
        size_of::<T>() + self.beside + self.heap.meter.largest
    }

    /// Takes an item; `false` when the hoard has outgrown its memory.
    #[inline]
    pub(crate) fn push(&mut self, item: T) -> bool {
        self.push_beside(item, |_| 0)
    }

    /// Takes an item that will need so many bytes of the heap besides its own.
    #[inline]
    pub(crate) fn push_beside(&mut self, item: T, heap: impl FnOnce(&T) -> usize) -> bool {
        let heavy = self.heap.see(|| heap_bytes(&item) + heap(&item));
        let grows = self.items.len() == self.items.capacity();
        let fits = !(grows || heavy) || self.allowed(grows);
        self.items.push(item);
        fits
    }

    /// Growing, the old and the new items are both there for a moment: half as much again as the new ones.
    #[cold]
    fn allowed(&mut self, grows: bool) -> bool {
        let held = self.items.capacity();
        let slots = if grows { (held * 2).max(16) } else { held };
        let besides = (slots * self.beside).max(held * size_of::<T>());
        self.account.allows((slots * size_of::<T>() + besides) as u64 + self.heap.ask())
    }

    pub(crate) fn clear(&mut self) {
        self.items = Vec::new();
        self.heap.clear();
        self.account.clear();
    }
}

/// Storage's memory for a partition that may come to be cached; given back when it is dropped.
pub(crate) struct UnrollMemory {
    environment: Arc<dyn Environment>,
    block: BlockId,
    bytes: u64,
}

impl UnrollMemory {
    pub(crate) fn new(block: BlockId, task: &TaskContext) -> Self {
        UnrollMemory { environment: task.environment().clone(), block, bytes: 0 }
    }

    /// Whether so many bytes in all may be held. Less gives the rest back.
    pub(crate) fn allows(&mut self, bytes: u64) -> bool {
        let blocks = self.environment.blocks();
        let fits = match bytes.checked_sub(self.bytes) {
            Some(more) => more == 0 || blocks.acquire(self.block, more),
            None => {
                blocks.release(self.bytes - bytes);
                true
            }
        };
        if fits {
            self.bytes = bytes;
        }
        fits
    }

    /// What it holds, which is somebody else's to give back now.
    pub(crate) fn into_bytes(mut self) -> u64 {
        std::mem::take(&mut self.bytes)
    }
}

impl Drop for UnrollMemory {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.environment.blocks().release(self.bytes);
        }
    }
}

/// The items of a partition that may come to be cached, within storage's memory.
pub(crate) struct Unrolled<T> {
    items: Vec<T>,
    heap: Heap,
    memory: UnrollMemory,
}

impl<T: Data> Unrolled<T> {
    pub(crate) fn new(block: BlockId, task: &TaskContext) -> Self {
        let memory = UnrollMemory::new(block, task);
        Unrolled { items: Vec::new(), heap: Heap::of::<T>(), memory }
    }

    /// Takes an item; `false` when memory does not allow more.
    #[inline]
    pub(crate) fn push(&mut self, item: T) -> bool {
        let heavy = self.heap.see(|| heap_bytes(&item));
        let grows = self.items.len() == self.items.capacity();
        let fits = !(grows || heavy) || self.allowed(grows);
        self.items.push(item);
        fits
    }

    /// Growing, the old and the new items are both there for a moment. When memory does not allow it to grow
    /// to double size, there may still be for a part of it.
    #[cold]
    fn allowed(&mut self, grows: bool) -> bool {
        let slots = self.items.capacity();
        if !grows {
            return self.ask(slots);
        }
        let fitting = [slots.max(4), slots / 4]
            .into_iter()
            .find(|more| *more > 0 && self.ask(slots * 2 + more));
        self.items.reserve_exact(fitting.unwrap_or(1));
        fitting.is_some()
    }

    fn ask(&mut self, slots: usize) -> bool {
        self.memory.allows((slots * size_of::<T>()) as u64 + self.heap.ask())
    }

    pub(crate) fn into_parts(self) -> (Vec<T>, UnrollMemory) {
        (self.items, self.memory)
    }

    /// The items without spare slots, and what they occupy.
    pub(crate) fn into_fitting_parts(mut self) -> (Vec<T>, UnrollMemory) {
        self.items.shrink_to_fit();
        // At least one byte: what is on the books can be evicted.
        let slots = (self.items.capacity() * size_of::<T>()) as u64;
        let _ = self.memory.allows((slots + self.heap.ask()).max(1));
        (self.items, self.memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestTask;

    fn total(meter: &mut Meter, lengths: impl Iterator<Item = usize>) -> f64 {
        lengths.map(|length| meter.see(&"x".repeat(length))).sum()
    }

    #[test]
    fn heap_is_learnt_and_plain_values_have_none() {
        let mut plain = Meter::of::<(u64, f64)>();
        assert_eq!((0..100u64).map(|n| plain.see(&(n, 1.0))).sum::<f64>(), 0.0);
        let mut text = Meter::of::<String>();
        let bytes = total(&mut text, (0..1000).map(|_| 100));
        assert!((100_000.0..120_000.0).contains(&bytes), "{bytes}");
    }

    #[test]
    fn the_sum_is_right_in_whatever_order_wide_records_come() {
        let mut meter = Meter::of::<String>();
        let small = total(&mut meter, (0..100_000).map(|_| 10));
        let wide = total(&mut meter, (0..200).map(|_| 1 << 20));
        // The first that is looked at stands for those before it, up to 63, which may be small.
        assert!((190.0..265.0).contains(&(wide / (1 << 20) as f64)), "{wide} after {small}");
        let mut mixed = Meter::of::<String>();
        let bytes = total(&mut mixed, (0..100_000).map(|n| if n % 97 == 0 { 100_000 } else { 10 }));
        let truth = 100_000.0 / 97.0 * 100_000.0;
        assert!((0.5..2.0).contains(&(bytes / truth)), "{bytes} of {truth}");
    }

    /// How many items are pushed until memory is refused.
    fn pushed<T>(mut items: impl Iterator<Item = T>, mut push: impl FnMut(T) -> bool) -> usize {
        items.position(|item| !push(item)).unwrap_or(usize::MAX)
    }

    #[test]
    fn wide_items_ask_for_memory_before_it_is_exceeded() {
        let wide = || (0..10_000).map(|_| "x".repeat(1 << 20));
        let test = TestTask::new(64 << 20);
        let mut hoard = Hoard::new(&test.task);
        let sorted = pushed(wide(), |item| hoard.push(item));
        assert!((60..=66).contains(&sorted), "{sorted}");
        drop(hoard);
        let block = BlockId::Rdd(firesteel_types::RddId(1), 0);
        let mut unrolled = Unrolled::new(block, &test.task);
        let cached = pushed(wide(), |item| unrolled.push(item));
        assert!((60..=66).contains(&cached), "{cached}");
    }

    #[test]
    fn small_numbers_in_vectors_are_as_large_as_any() {
        let test = TestTask::new(64 << 20);
        let mut hoard = Hoard::new(&test.task);
        // 840 bytes each, 24 of them in place.
        let sorted = pushed((0..1 << 20).map(|_| vec![1u64; 100]), |item| hoard.push(item));
        assert!((55_000..90_000).contains(&sorted), "{sorted}");
    }
}
