//! How much this thread has spilled for want of memory. A task runs on one thread, and what it
//! spills it spills there, however deep in its pipeline: so nobody has to pass a counter around.

use std::cell::Cell;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spilled {
    /// Bytes that the spilled records held in memory.
    pub memory_bytes: u64,
    /// Bytes written to disk instead.
    pub disk_bytes: u64,
}

thread_local! {
    static SPILLED: Cell<Spilled> = const { Cell::new(Spilled { memory_bytes: 0, disk_bytes: 0 }) };
}

pub(crate) fn note(memory_bytes: u64, disk_bytes: u64) {
    let before = SPILLED.get();
    SPILLED.set(Spilled {
        memory_bytes: before.memory_bytes + memory_bytes,
        disk_bytes: before.disk_bytes + disk_bytes,
    });
}

/// What this thread spilled since it was last asked.
pub fn take() -> Spilled {
    SPILLED.take()
}
