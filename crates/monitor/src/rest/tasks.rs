//! Tasks in answers of the REST API.

use std::collections::BTreeMap;

use firesteel_status::{AppStatus, TaskState, TaskStatus};
use firesteel_types::event::PushedShuffleMetrics;
use firesteel_types::{Accumulable, TaskInfo, TaskMetrics, Tick};
use serde::Serialize;

use super::json::Date;
use crate::spark;

/// `TaskData`
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TaskData<'a> {
    task_id: u64,
    index: u32,
    attempt: u32,
    /// -1: the log names none.
    partition_id: i64,
    launch_time: Date,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_fetch_start: Option<Date>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration: Option<u64>,
    executor_id: String,
    host: &'a str,
    status: &'static str,
    task_locality: &'static str,
    speculative: bool,
    accumulator_updates: Vec<AccumulableData<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_metrics: Option<MetricsData>,
    executor_logs: &'a BTreeMap<String, String>,
    scheduler_delay: u64,
    getting_result_time: u64,
}

/// `AccumulableInfo`
#[derive(Serialize)]
pub(crate) struct AccumulableData<'a> {
    id: u64,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    update: Option<&'a str>,
    value: &'a str,
}

impl<'a> AccumulableData<'a> {
    pub(crate) fn of(accumulable: &'a Accumulable) -> Self {
        let update = Some(accumulable.update.as_str()).filter(|update| !update.is_empty());
        let (name, value) = (accumulable.name.as_str(), accumulable.value.as_str());
        AccumulableData { id: accumulable.id.0, name, update, value }
    }
}

/// The state's name, as it is written and asked for.
pub(crate) fn state_name(state: TaskState) -> &'static str {
    match state {
        TaskState::Running | TaskState::GettingResult => "RUNNING",
        TaskState::Success => "SUCCESS",
        TaskState::Failed => "FAILED",
        TaskState::Killed => "KILLED",
    }
}

static NO_LOGS: BTreeMap<String, String> = BTreeMap::new();

/// How long a task took to be heard of again, besides what its executor did, in milliseconds.
pub(crate) fn scheduler_delay(duration_ms: u64, metrics: &TaskMetrics) -> u64 {
    let busy = [
        metrics.run_time_us / 1000,
        metrics.deserialize_time_us / 1000,
        metrics.result_serialize_time_us / 1000,
        metrics.getting_result_time_ms,
    ];
    busy.iter().fold(duration_ms, |left, busy| left.saturating_sub(*busy))
}

impl<'a> TaskData<'a> {
    pub(crate) fn of(status: &'a AppStatus, task: &'a TaskStatus, now: Tick) -> Self {
        let TaskInfo { executor, .. } = task.info;
        let metrics = task.metrics();
        let getting = metrics.as_ref().map_or(0, |metrics| metrics.getting_result_time_ms);
        let ended = task.duration_ms();
        let delay = metrics.as_ref().zip(ended).map(|(metrics, ms)| scheduler_delay(ms, metrics));
        let fetched = task.ended.filter(|_| getting > 0);
        let logs = status.executor(executor).map_or(&NO_LOGS, |executor| &executor.info.log_urls);
        let no_partition = task.info.partition == TaskInfo::NO_PARTITION;
        TaskData {
            task_id: task.info.task.0,
            index: task.info.index,
            attempt: task.info.attempt,
            partition_id: if no_partition { -1 } else { task.info.partition.into() },
            launch_time: Date::of(task.info.launched),
            result_fetch_start: fetched.map(|at| Date::of(Tick(at.0.saturating_sub(getting)))),
            // Spark leaves out less than a millisecond.
            duration: Some(ended.unwrap_or(now.since_ms(task.info.launched))).filter(|ms| *ms > 0),
            executor_id: status.executor_name(executor),
            host: &task.info.host.0,
            status: state_name(task.state),
            task_locality: task.info.locality.as_str(),
            speculative: task.info.speculative,
            accumulator_updates: task.accumulables.iter().map(AccumulableData::of).collect(),
            error_message: task.failure.as_deref().map(spark::message),
            task_metrics: metrics.as_ref().map(MetricsData::of),
            executor_logs: logs,
            scheduler_delay: delay.unwrap_or(0),
            getting_result_time: getting,
        }
    }
}

/// `TaskMetrics`
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MetricsData {
    executor_deserialize_time: u64,
    executor_deserialize_cpu_time: u64,
    executor_run_time: u64,
    executor_cpu_time: u64,
    result_size: u64,
    jvm_gc_time: u64,
    result_serialization_time: u64,
    memory_bytes_spilled: u64,
    disk_bytes_spilled: u64,
    peak_execution_memory: u64,
    input_metrics: InputData,
    output_metrics: OutputData,
    shuffle_read_metrics: ShuffleReadData,
    shuffle_write_metrics: ShuffleWriteData,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InputData {
    bytes_read: u64,
    records_read: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OutputData {
    bytes_written: u64,
    records_written: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShuffleReadData {
    remote_blocks_fetched: u64,
    local_blocks_fetched: u64,
    fetch_wait_time: u64,
    remote_bytes_read: u64,
    remote_bytes_read_to_disk: u64,
    local_bytes_read: u64,
    records_read: u64,
    remote_reqs_duration: u64,
    shuffle_push_read_metrics: PushedData,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PushedData {
    corrupt_merged_block_chunks: u64,
    merged_fetch_fallback_count: u64,
    remote_merged_blocks_fetched: u64,
    local_merged_blocks_fetched: u64,
    remote_merged_chunks_fetched: u64,
    local_merged_chunks_fetched: u64,
    remote_merged_bytes_read: u64,
    local_merged_bytes_read: u64,
    remote_merged_reqs_duration: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShuffleWriteData {
    bytes_written: u64,
    write_time: u64,
    records_written: u64,
}

impl PushedData {
    fn of(pushed: PushedShuffleMetrics) -> Self {
        PushedData {
            corrupt_merged_block_chunks: pushed.corrupt_chunks,
            merged_fetch_fallback_count: pushed.fallbacks,
            remote_merged_blocks_fetched: pushed.remote_blocks,
            local_merged_blocks_fetched: pushed.local_blocks,
            remote_merged_chunks_fetched: pushed.remote_chunks,
            local_merged_chunks_fetched: pushed.local_chunks,
            remote_merged_bytes_read: pushed.remote_bytes,
            local_merged_bytes_read: pushed.local_bytes,
            remote_merged_reqs_duration: pushed.remote_requests_ms,
        }
    }
}

impl MetricsData {
    fn of(metrics: &TaskMetrics) -> Self {
        MetricsData {
            executor_deserialize_time: metrics.deserialize_time_us / 1000,
            executor_deserialize_cpu_time: metrics.deserialize_cpu_time_ns,
            executor_run_time: metrics.run_time_us / 1000,
            executor_cpu_time: metrics.cpu_time_ns,
            result_size: metrics.result_bytes,
            jvm_gc_time: metrics.gc_time_ms,
            result_serialization_time: metrics.result_serialize_time_us / 1000,
            memory_bytes_spilled: metrics.memory_bytes_spilled,
            disk_bytes_spilled: metrics.disk_bytes_spilled,
            peak_execution_memory: metrics.peak_memory_bytes,
            input_metrics: InputData {
                bytes_read: metrics.input_bytes,
                records_read: metrics.input_records,
            },
            output_metrics: OutputData {
                bytes_written: metrics.output_bytes,
                records_written: metrics.output_records,
            },
            shuffle_read_metrics: ShuffleReadData {
                remote_blocks_fetched: metrics.shuffle_remote_blocks,
                local_blocks_fetched: metrics.shuffle_local_blocks,
                fetch_wait_time: metrics.shuffle_fetch_wait_us / 1000,
                remote_bytes_read: metrics.shuffle_remote_bytes,
                remote_bytes_read_to_disk: metrics.shuffle_remote_bytes_to_disk,
                local_bytes_read: metrics.shuffle_local_bytes,
                records_read: metrics.shuffle_read_records,
                remote_reqs_duration: metrics.shuffle_remote_requests_us / 1000,
                shuffle_push_read_metrics: PushedData::of(
                    metrics.pushed.as_deref().copied().unwrap_or_default(),
                ),
            },
            shuffle_write_metrics: ShuffleWriteData {
                bytes_written: metrics.shuffle_write_bytes,
                write_time: metrics.shuffle_write_time_ns,
                records_written: metrics.shuffle_write_records,
            },
        }
    }
}
