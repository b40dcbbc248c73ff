//! What this machine has: cores and memory.

use std::num::NonZeroUsize;

/// Left to the system and to the worker itself, as Spark does.
const LEFT_OVER_MB: u64 = 1024;
/// Offered at least.
const LEAST_MB: u64 = 512;

pub(crate) fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get) as u32
}

/// What a worker offers when nobody says: all but a gigabyte.
pub(crate) fn memory_mb() -> u64 {
    let all = [physical_mb(), allowed_mb()].into_iter().flatten().min();
    all.unwrap_or(0).saturating_sub(LEFT_OVER_MB).max(LEAST_MB)
}

#[cfg(target_os = "linux")]
fn physical_mb() -> Option<u64> {
    let system = rustix::system::sysinfo();
    Some((system.totalram as u64).saturating_mul(u64::from(system.mem_unit)) >> 20)
}

#[cfg(not(target_os = "linux"))]
fn physical_mb() -> Option<u64> {
    None
}

/// The limit of the container this runs in, if it has one.
fn allowed_mb() -> Option<u64> {
    let text = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok()?;
    text.trim().parse::<u64>().ok().map(|bytes| bytes >> 20)
}
