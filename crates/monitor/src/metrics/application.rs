//! What the status of an application says, by the names of Spark's sources: `DAGScheduler`, `BlockManager`, `appStatus`,
//! `ExecutorMetrics` and `executor`, whose numbers are of all executors together.

use firesteel_metrics::Metrics;
use firesteel_status::{AppStatus, StageState};
use firesteel_types::ExecutorId;

use crate::spark::metrics::PEAKS;

/// Spark tells memory in these.
const MB: u64 = 1 << 20;

/// Adds all metrics of an application.
pub fn application(status: &AppStatus, metrics: &mut Metrics) {
    scheduler(status, metrics);
    blocks(status, metrics);
    totals(status, metrics);
    tasks(status, metrics);
    let driver = status.executor(ExecutorId::DRIVER).and_then(|driver| driver.peak);
    for (name, number) in PEAKS {
        metrics.gauge(&format!("ExecutorMetrics.{name}"), driver.as_ref().map_or(0, number));
    }
}

fn scheduler(status: &AppStatus, metrics: &mut Metrics) {
    let waiting = status.count_stages(|state| state == StageState::Pending);
    metrics.gauge("DAGScheduler.job.activeJobs", status.active_jobs().count() as u64);
    metrics.gauge("DAGScheduler.job.allJobs", status.totals().jobs_started);
    metrics.gauge("DAGScheduler.stage.runningStages", status.active_stages().count() as u64);
    metrics.gauge("DAGScheduler.stage.waitingStages", waiting);
    let failed = status.count_stages(|state| state == StageState::Failed);
    metrics.gauge("DAGScheduler.stage.failedStages", failed);
}

fn blocks(status: &AppStatus, metrics: &mut Metrics) {
    let active = || status.executors().filter(|executor| executor.is_active());
    let sum = |number: &dyn Fn(&firesteel_status::ExecutorStatus) -> u64| {
        active().fold(0, |sum: u64, executor| sum.saturating_add(number(executor)))
    };
    let (most, used) = (sum(&|it| it.max_memory), sum(&|it| it.memory_used));
    let off_heap = sum(&|it| it.max_off_heap_memory.unwrap_or(0));
    let on_heap = most.saturating_sub(off_heap);
    let numbers = [
        ("disk.diskSpaceUsed_MB", sum(&|it| it.disk_used)),
        ("memory.maxMem_MB", most),
        ("memory.maxOffHeapMem_MB", off_heap),
        ("memory.maxOnHeapMem_MB", on_heap),
        ("memory.memUsed_MB", used),
        ("memory.offHeapMemUsed_MB", 0),
        ("memory.onHeapMemUsed_MB", used),
        ("memory.remainingMem_MB", most.saturating_sub(used)),
        ("memory.remainingOffHeapMem_MB", off_heap),
        ("memory.remainingOnHeapMem_MB", on_heap.saturating_sub(used)),
    ];
    for (name, bytes) in numbers {
        metrics.gauge(&format!("BlockManager.{name}"), bytes / MB);
    }
    metrics.gauge("executors.active", active().filter(|it| it.info.cores > 0).count() as u64);
    metrics.gauge("executors.cores", sum(&|it| it.info.cores.into()));
    metrics.gauge("executors.activeTasks", sum(&|it| it.tasks.active.into()));
    metrics.gauge("executors.cachedPartitions", sum(&|it| it.rdd_blocks.into()));
}

fn totals(status: &AppStatus, metrics: &mut Metrics) {
    let totals = status.totals();
    metrics.gauge("appStatus.jobDuration", totals.last_job_ms);
    let counters = [
        ("jobs.failedJobs", totals.jobs_failed),
        ("jobs.succeededJobs", totals.jobs_succeeded),
        ("stages.completedStages", totals.stages_completed),
        ("stages.failedStages", totals.stages_failed),
        ("stages.skippedStages", totals.stages_skipped),
        ("tasks.blackListedExecutors", totals.executors_excluded),
        ("tasks.completedTasks", totals.tasks_completed),
        ("tasks.excludedExecutors", totals.executors_excluded),
        ("tasks.failedTasks", totals.tasks_failed),
        ("tasks.killedTasks", totals.tasks_killed),
        ("tasks.skippedTasks", totals.tasks_skipped),
        ("tasks.unblackListedExecutors", totals.executors_unexcluded),
        ("tasks.unexcludedExecutors", totals.executors_unexcluded),
    ];
    for (name, count) in counters {
        metrics.counter(&format!("appStatus.{name}"), count);
    }
    metrics.counter("executors.added", totals.executors_added);
    metrics.counter("executors.removed", totals.executors_removed);
    metrics.counter("tasks.resubmitted", totals.tasks_resubmitted);
    metrics.counter("tasks.speculative", totals.tasks_speculative);
}

/// What tasks that have ended cost, as Spark's executors count it.
fn tasks(status: &AppStatus, metrics: &mut Metrics) {
    let sum = &status.totals().metrics;
    let counters = [
        ("succeededTasks", status.totals().tasks_completed),
        ("runTime", sum.run_time_us / 1000),
        ("cpuTime", sum.cpu_time_ns),
        ("deserializeTime", sum.deserialize_time_us / 1000),
        ("deserializeCpuTime", sum.deserialize_cpu_time_ns),
        ("resultSerializationTime", sum.result_serialize_time_us / 1000),
        ("resultSize", sum.result_bytes),
        ("jvmGCTime", sum.gc_time_ms),
        ("bytesRead", sum.input_bytes),
        ("recordsRead", sum.input_records),
        ("bytesWritten", sum.output_bytes),
        ("recordsWritten", sum.output_records),
        ("diskBytesSpilled", sum.disk_bytes_spilled),
        ("memoryBytesSpilled", sum.memory_bytes_spilled),
        ("shuffleBytesWritten", sum.shuffle_write_bytes),
        ("shuffleRecordsWritten", sum.shuffle_write_records),
        ("shuffleWriteTime", sum.shuffle_write_time_ns),
        ("shuffleTotalBytesRead", sum.shuffle_read_bytes()),
        ("shuffleRecordsRead", sum.shuffle_read_records),
        ("shuffleLocalBytesRead", sum.shuffle_local_bytes),
        ("shuffleLocalBlocksFetched", sum.shuffle_local_blocks),
        ("shuffleRemoteBytesRead", sum.shuffle_remote_bytes),
        ("shuffleRemoteBytesReadToDisk", sum.shuffle_remote_bytes_to_disk),
        ("shuffleRemoteBlocksFetched", sum.shuffle_remote_blocks),
        ("shuffleFetchWaitTime", sum.shuffle_fetch_wait_us / 1000),
    ];
    for (name, count) in counters {
        metrics.counter(&format!("executor.{name}"), count);
    }
}
