//! What this process uses: memory that tasks and blocks were granted, memory of the process and of those that it
//! started, as the system tells. Looked at with heartbeats and not for each task.

use std::fs;

use firesteel_shuffle::Scratch;
use firesteel_types::ExecutorMetrics;

/// Of more processes than this, the rest is not looked at.
const MOST_CHILDREN: usize = 1000;

/// What this process uses now.
pub fn usage(scratch: &Scratch) -> ExecutorMetrics {
    let (storage_memory, execution_memory) = scratch.memory().used();
    let own = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let (child_virtual_memory, child_resident_memory) = children();
    ExecutorMetrics {
        execution_memory,
        storage_memory,
        unified_memory: storage_memory + execution_memory,
        resident_memory: bytes(&own, "VmRSS:"),
        peak_resident_memory: bytes(&own, "VmHWM:"),
        virtual_memory: bytes(&own, "VmSize:"),
        child_resident_memory,
        child_virtual_memory,
        ..ExecutorMetrics::default()
    }
}

/// The number behind a name, in kilobytes there; 0 if it is not there.
fn bytes(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB"));
    kilobytes.and_then(|number| number.trim().parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Address space and resident memory of all processes that this one started, and of those that these started.
fn children() -> (u64, u64) {
    let (mut found, mut next) = (children_of("self"), 0);
    let (mut virtual_memory, mut resident_memory) = (0, 0);
    while let Some(child) = found.get(next).filter(|_| next < MOST_CHILDREN) {
        let status = fs::read_to_string(format!("/proc/{child}/status")).unwrap_or_default();
        virtual_memory += bytes(&status, "VmSize:");
        resident_memory += bytes(&status, "VmRSS:");
        let theirs = children_of(child);
        found.extend(theirs);
        next += 1;
    }
    (virtual_memory, resident_memory)
}

/// The processes that the threads of one started.
fn children_of(process: &str) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::process::{Command, Stdio};
    use std::sync::Arc;

    use firesteel_shuffle::Codec;
    use firesteel_storage::{LocalDirs, MemoryManager};

    use super::*;

    #[test]
    fn memory_is_that_of_the_process_its_children_and_what_was_granted() {
        let memory = Arc::new(MemoryManager::new(1 << 20, 0.5));
        let scratch =
            Scratch::new(memory.clone(), Arc::new(LocalDirs::new(Vec::new())), Codec::None);
        assert!(memory.acquire_storage(1000));
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let found = usage(&scratch);
        child.kill().and_then(|()| child.wait()).unwrap();
        assert_eq!((found.storage_memory, found.unified_memory), (1000, 1000));
        assert!(found.resident_memory > 100_000 && found.virtual_memory > found.resident_memory);
        assert!(found.peak_resident_memory >= found.resident_memory / 2, "{found:?}");
        assert!(found.child_virtual_memory > 0 || children_are_not_listed(), "{found:?}");
    }

    /// A kernel may be built without that.
    fn children_are_not_listed() -> bool {
        fs::read_to_string("/proc/thread-self/children").is_err()
    }

    #[test]
    fn numbers_that_are_not_there_are_none() {
        let status = "Name:\tx\nVmRSS:\t     12 kB\nVmSize:\tmany kB\n";
        assert_eq!((bytes(status, "VmRSS:"), bytes(status, "VmSize:")), (12 << 10, 0));
        assert_eq!(bytes("", "VmHWM:"), 0);
    }
}
