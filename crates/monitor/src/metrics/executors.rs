//! The executors of a running application for Prometheus, as Spark's `/metrics/executors/prometheus` has them.

use std::fmt::Write;

use firesteel_status::{AppStatus, ExecutorStatus};
use firesteel_types::ExecutorMetrics;

use crate::rest::{Applications, max_tasks, times};
use crate::server::now;
use crate::spark::metrics::PEAKS;

/// The metrics of an executor's processes, in Spark's order.
const MEMORY: usize = 16;
const COLLECTIONS: [&str; 3] = ["MinorGCCount", "MajorGCCount", "ConcurrentGCCount"];
const COLLECTION_TIMES: [&str; 3] = ["MinorGCTime", "MajorGCTime", "ConcurrentGCTime"];

/// `None`: there is no running application, or it shall not be told.
pub(super) fn prometheus(applications: &dyn Applications) -> Option<String> {
    if !applications.tells_executors() {
        return None;
    }
    let version = env!("CARGO_PKG_VERSION");
    let mut out = format!("spark_info{{version=\"{version}\", revision=\"\"}} 1.0\n");
    let application = applications.list().into_iter().next()?;
    let mut look = |status: &AppStatus| {
        let mut executors: Vec<_> = status.executors().filter(|it| it.is_active()).collect();
        executors
            .sort_by_key(|executor| std::cmp::Reverse(status.executor_name(executor.executor)));
        executors.into_iter().for_each(|executor| one(status, executor, &mut out));
    };
    applications.with_status(&application.id, None, &mut look).then_some(out)
}

/// A value of a label, as Prometheus reads it.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Milliseconds as seconds, with a digit behind the point.
fn seconds(ms: u64) -> String {
    let text = format!("{}.{:03}", ms / 1000, ms % 1000);
    let short = text.trim_end_matches('0');
    if short.ends_with('.') { format!("{short}0") } else { short.to_owned() }
}

fn one(status: &AppStatus, executor: &ExecutorStatus, out: &mut String) {
    let application = status.application();
    let labels = format!(
        "{{application_id=\"{}\", application_name=\"{}\", executor_id=\"{}\"}}",
        label(&application.id),
        label(&application.name),
        label(&status.executor_name(executor.executor))
    );
    let mut put = |name: &str, value: String| {
        writeln!(out, "metrics_executor_{name}{labels} {value}").expect("a string grows");
    };
    let (duration_ms, gc_ms) = times(status, executor, now());
    let tasks = executor.tasks;
    let all = tasks.active + tasks.failed + tasks.completed + tasks.killed;
    put("rddBlocks", executor.rdd_blocks.to_string());
    put("memoryUsed_bytes", executor.memory_used.to_string());
    put("diskUsed_bytes", executor.disk_used.to_string());
    put("totalCores", executor.info.cores.to_string());
    put("maxTasks", max_tasks(status, executor).to_string());
    put("activeTasks", tasks.active.to_string());
    put("failedTasks_total", tasks.failed.to_string());
    put("completedTasks_total", tasks.completed.to_string());
    put("totalTasks_total", all.to_string());
    put("totalDuration_seconds_total", seconds(duration_ms));
    put("totalGCTime_seconds_total", seconds(gc_ms));
    put("totalInputBytes_bytes_total", executor.metrics.input_bytes.to_string());
    put("totalShuffleRead_bytes_total", executor.metrics.shuffle_read_bytes().to_string());
    put("totalShuffleWrite_bytes_total", executor.metrics.shuffle_write_bytes.to_string());
    put("maxMemory_bytes", executor.max_memory.to_string());
    if let Some(off_heap) = executor.max_off_heap_memory {
        put("usedOnHeapStorageMemory_bytes", executor.memory_used.to_string());
        put("usedOffHeapStorageMemory_bytes", "0".to_owned());
        let on_heap = executor.max_memory.saturating_sub(off_heap);
        put("totalOnHeapStorageMemory_bytes", on_heap.to_string());
        put("totalOffHeapStorageMemory_bytes", off_heap.to_string());
    }
    if let Some(peak) = &executor.peak {
        peaks(peak, &mut put);
    }
}

fn peaks(peak: &ExecutorMetrics, put: &mut dyn FnMut(&str, String)) {
    for (name, number) in PEAKS.iter().take(MEMORY) {
        put(&format!("{name}_bytes"), number(peak).to_string());
    }
    let named = |name: &str| PEAKS.iter().find(|(known, _)| *known == name);
    for (name, number) in COLLECTIONS.iter().filter_map(|name| named(name)) {
        put(&format!("{name}_total"), number(peak).to_string());
    }
    for (name, number) in COLLECTION_TIMES.iter().filter_map(|name| named(name)) {
        put(&format!("{name}_seconds_total"), seconds(number(peak)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_labels_are_written_as_spark_writes_them() {
        assert_eq!([51_786, 0, 13_050].map(seconds), ["51.786", "0.0", "13.05"]);
        assert_eq!(label("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}
