//! How much memory a collection of records takes: what is allocated is counted, what its records own
//! on the heap is learnt from samples.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use firesteel_closure::{Data, encoded_len};
use firesteel_storage::{BlockId, LastResort, Reservation, Resort};
use firesteel_task::{Environment, TaskContext};

/// What every holder may use without asking: enough to make progress.
pub(crate) const FREE_BYTES: u64 = 1 << 20;
/// What the allocator adds to a heap block, about.
const HEAP_BLOCK_BYTES: f64 = 16.0;

/// Learns what records own on the heap, from the first ones and then from fewer and fewer.
pub(crate) struct Meter {
    owns_heap: bool,
    seen: u64,
    next_sample: u64,
    heap: f64,
    samples: f64,
}

impl Meter {
    /// For records of type `T`.
    pub(crate) fn of<T>() -> Self {
        let owns_heap = std::mem::needs_drop::<T>();
        Meter { owns_heap, seen: 0, next_sample: 1, heap: 0.0, samples: 0.0 }
    }

    /// Looks at a record, if it is time to.
    #[inline]
    pub(crate) fn see(&mut self, record: &impl Serialize) {
        if !self.owns_heap {
            return;
        }
        self.seen += 1;
        if self.seen >= self.next_sample {
            self.sample(record);
        }
    }

    #[cold]
    fn sample(&mut self, record: &impl Serialize) {
        self.next_sample = self.seen + 1 + self.seen / 8;
        let size = encoded_len(record).unwrap_or(0) as f64 + HEAP_BLOCK_BYTES;
        self.samples += 1.0;
        // Later samples weigh at least a tenth: what comes may differ from what came.
        self.heap += (size - self.heap) / self.samples.min(10.0);
    }

    /// Heap bytes of one record, about.
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

    /// Releases everything.
    pub(crate) fn clear(&mut self) {
        self.reservation.resize(0);
    }
}

/// Items within the task's memory.
pub(crate) struct Hoard<T> {
    pub(crate) items: Vec<T>,
    meter: Meter,
    pub(crate) account: Account,
}

impl<T: Data> Hoard<T> {
    pub(crate) fn new(task: &TaskContext) -> Self {
        Hoard { items: Vec::new(), meter: Meter::of::<T>(), account: Account::new(task) }
    }

    /// Takes an item; `false` when the hoard has outgrown its memory.
    #[inline]
    pub(crate) fn push(&mut self, item: T) -> bool {
        self.meter.see(&item);
        let grows = self.items.len() == self.items.capacity();
        let fits = !(grows || self.items.len().is_multiple_of(1024)) || self.allowed(grows);
        self.items.push(item);
        fits
    }

    /// Growing, the old and the new items are both there for a moment; sorting takes half as much
    /// again.
    #[cold]
    fn allowed(&mut self, grows: bool) -> bool {
        let slots = self.items.capacity().max(16) * if grows { 3 } else { 1 };
        let sorting = self.items.len() / 2 * size_of::<T>();
        let bytes = self.bytes_with(slots) + sorting as u64;
        self.account.allows(bytes)
    }

    fn bytes_with(&self, slots: usize) -> u64 {
        let heap = self.items.len() as f64 * self.meter.heap_each();
        (slots * size_of::<T>()) as u64 + heap as u64
    }

    pub(crate) fn clear(&mut self) {
        self.items = Vec::new();
        self.account.clear();
    }
}

/// Storage's memory for a partition that may come to be kept; given back when it is dropped.
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

/// The items of a partition that may come to be kept, within storage's memory.
pub(crate) struct Unrolled<T> {
    items: Vec<T>,
    meter: Meter,
    memory: UnrollMemory,
}

impl<T: Data> Unrolled<T> {
    pub(crate) fn new(block: BlockId, task: &TaskContext) -> Self {
        Unrolled {
            items: Vec::new(),
            meter: Meter::of::<T>(),
            memory: UnrollMemory::new(block, task),
        }
    }

    /// Takes an item; `false` when memory does not allow more.
    #[inline]
    pub(crate) fn push(&mut self, item: T) -> bool {
        self.meter.see(&item);
        let grows = self.items.len() == self.items.capacity();
        let fits = !(grows || self.items.len().is_multiple_of(1024)) || self.allowed(grows);
        self.items.push(item);
        fits
    }

    /// Growing, the old and the new items are both there for a moment. When memory does not allow it to grow
    /// to double size, there may still be for a part of it.
    #[cold]
    fn allowed(&mut self, grows: bool) -> bool {
        let slots = self.items.capacity();
        if !grows {
            return self.memory.allows(self.bytes_with(slots));
        }
        let fitting = [slots.max(4), slots / 4]
            .into_iter()
            .find(|more| *more > 0 && self.memory.allows(self.bytes_with(slots * 2 + more)));
        self.items.reserve_exact(fitting.unwrap_or(1));
        fitting.is_some()
    }

    fn bytes_with(&self, slots: usize) -> u64 {
        let heap = self.items.len() as f64 * self.meter.heap_each();
        (slots * size_of::<T>()) as u64 + heap as u64
    }

    pub(crate) fn into_parts(self) -> (Vec<T>, UnrollMemory) {
        (self.items, self.memory)
    }

    /// The items without spare slots, and what they occupy.
    pub(crate) fn into_fitting_parts(mut self) -> (Vec<T>, UnrollMemory) {
        self.items.shrink_to_fit();
        // At least one byte: what is on the books can be evicted.
        let bytes = self.bytes_with(self.items.capacity()).max(1);
        let _ = self.memory.allows(bytes);
        (self.items, self.memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heap_is_learnt_and_plain_values_have_none() {
        let mut plain = Meter::of::<(u64, f64)>();
        (0..100).for_each(|n| plain.see(&(n, 1.0)));
        assert_eq!(plain.heap_each(), 0.0);
        let mut text = Meter::of::<String>();
        (0..1000).for_each(|_| text.see(&"x".repeat(100)));
        assert!((100.0..150.0).contains(&text.heap_each()), "{}", text.heap_each());
        (0..100_000).for_each(|_| text.see(&"x".repeat(1000)));
        assert!(text.heap_each() > 900.0, "{}", text.heap_each());
    }
}
