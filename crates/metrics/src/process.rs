//! What the system tells of this process. What it does not tell is left out.

use std::fs;

use crate::Metrics;

/// Adds processor time, memory, threads and file handles, in bytes and nanoseconds.
pub fn process(metrics: &mut Metrics) {
    // Spark's name for it, though nothing here is a JVM.
    if let Some(nanoseconds) = cpu_time_ns() {
        metrics.gauge("JVMCPU.jvmCpuTime", nanoseconds);
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let fields = [
        ("VmRSS:", "process.residentMemory_bytes", 1024),
        ("VmHWM:", "process.peakResidentMemory_bytes", 1024),
        ("VmSize:", "process.virtualMemory_bytes", 1024),
        ("Threads:", "process.threads", 1),
    ];
    for (field, name, unit) in fields {
        if let Some(value) = field_of(&status, field) {
            metrics.gauge(name, value.saturating_mul(unit));
        }
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        metrics.gauge("process.openFiles", open.count() as u64);
    }
}

/// The number behind a field of `/proc/self/status`.
fn field_of(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.split_whitespace().next()?.parse().ok()
}

/// User and system time of all threads.
fn cpu_time_ns() -> Option<u64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let ticks = ticks_of(&stat)?;
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Some(ticks.saturating_mul(1_000_000_000 / per_second))
}

/// Fields 14 and 15; the name of the process, which may have anything in it, ends with the last bracket.
fn ticks_of(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut numbers = fields.split_whitespace().skip(11).map_while(|it| it.parse::<u64>().ok());
    Some(numbers.next()?.saturating_add(numbers.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_threads() {
        let mut metrics = Metrics::new("");
        process(&mut metrics);
        let names: Vec<_> = metrics.iter().map(|metric| metric.name.as_str()).collect();
        assert!(names.contains(&"JVMCPU.jvmCpuTime") && names.contains(&"process.threads"));
        assert!(names.contains(&"process.residentMemory_bytes"), "{names:?}");
    }

    #[test]
    fn a_process_may_be_called_anything() {
        let stat = "7 (a ) R 1) S 1 7 7 0 -1 4194304 1 2 3 4 11 22 0 0 20 0 3 0 5";
        assert_eq!(ticks_of(stat), Some(33));
        assert_eq!((ticks_of(""), ticks_of("1 (x) S 1")), (None, None));
    }
}
