//! Jobs and stages in answers of the REST API.

use std::collections::BTreeMap;

use firesteel_status::{
    AppStatus, ExecutorTotals, JobState, JobStatus, Order, Paging, StageState, StageStatus,
    TaskSort, TaskStatus,
};
use firesteel_types::event::PushedShuffleMetrics;
use firesteel_types::{ExecutorMetrics, StageId, Tick};
use serde::Serialize;

use super::distributions::{ExecutorDistributions, TaskDistributions};
use super::json::Date;
use super::tasks::{AccumulableData, TaskData, state_name};
use crate::spark::metrics::PEAKS;

/// `JobData`
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JobData<'a> {
    job_id: u32,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    submission_time: Option<Date>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completion_time: Option<Date>,
    stage_ids: &'a [StageId],
    #[serde(skip_serializing_if = "Option::is_none")]
    job_group: Option<&'a str>,
    job_tags: Vec<&'a str>,
    status: &'static str,
    num_tasks: u32,
    num_active_tasks: u32,
    num_completed_tasks: u32,
    num_skipped_tasks: u32,
    num_failed_tasks: u32,
    num_killed_tasks: u32,
    num_completed_indices: u32,
    num_active_stages: u32,
    num_completed_stages: u32,
    num_skipped_stages: u32,
    num_failed_stages: u32,
    killed_tasks_summary: &'a BTreeMap<String, u32>,
}

/// Old logs do not tell when.
fn told(at: Tick) -> Option<Date> {
    (at.0 > 0).then(|| Date::of(at))
}

pub(crate) fn job_state(job: &JobStatus) -> &'static str {
    match job.state {
        JobState::Running => "RUNNING",
        JobState::Succeeded => "SUCCEEDED",
        JobState::Failed { .. } => "FAILED",
    }
}

impl<'a> JobData<'a> {
    pub(crate) fn of(job: &'a JobStatus) -> Self {
        JobData {
            job_id: job.job.0,
            name: &job.name,
            description: job.properties.description(),
            submission_time: told(job.submitted),
            completion_time: job.completed.and_then(told),
            stage_ids: &job.stages,
            job_group: job.properties.group(),
            job_tags: job.properties.tags().iter().map(String::as_str).collect(),
            status: job_state(job),
            num_tasks: job.tasks_total,
            num_active_tasks: job.tasks.active,
            num_completed_tasks: job.tasks.completed,
            num_skipped_tasks: job.skipped_tasks,
            num_failed_tasks: job.tasks.failed,
            num_killed_tasks: job.tasks.killed,
            num_completed_indices: job.completed_indices,
            num_active_stages: job.active_stages,
            num_completed_stages: job.completed_stages,
            num_skipped_stages: job.skipped_stages,
            num_failed_stages: job.failed_stages,
            killed_tasks_summary: &job.killed,
        }
    }
}

/// How much of a stage is asked for.
pub(crate) struct Detail {
    pub(crate) tasks: bool,
    /// Of tasks in these states; empty: of all.
    pub(crate) states: Vec<String>,
    pub(crate) summaries: bool,
    pub(crate) quantiles: Vec<f64>,
}

/// `StageData`
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StageData<'a> {
    status: &'static str,
    stage_id: u32,
    attempt_id: u32,
    num_tasks: u32,
    num_active_tasks: u32,
    num_complete_tasks: u32,
    num_failed_tasks: u32,
    num_killed_tasks: u32,
    num_completed_indices: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    submission_time: Option<Date>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_task_launched_time: Option<Date>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completion_time: Option<Date>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure_reason: Option<&'a str>,
    #[serde(flatten)]
    cost: StageCost,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    details: &'a str,
    scheduling_pool: &'a str,
    rdd_ids: Vec<u32>,
    accumulator_updates: Vec<AccumulableData<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tasks: Option<BTreeMap<u64, TaskData<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    executor_summary: Option<BTreeMap<String, ExecutorStageData>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    speculation_summary: Option<SpeculationData>,
    killed_tasks_summary: &'a BTreeMap<String, u32>,
    resource_profile_id: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_executor_metrics: Option<Peaks>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_metrics_distributions: Option<TaskDistributions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    executor_metrics_distributions: Option<ExecutorDistributions>,
    is_shuffle_push_enabled: bool,
    shuffle_mergers_count: u32,
}

/// What the tasks of a stage cost together.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StageCost {
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
    input_bytes: u64,
    input_records: u64,
    output_bytes: u64,
    output_records: u64,
    shuffle_remote_blocks_fetched: u64,
    shuffle_local_blocks_fetched: u64,
    shuffle_fetch_wait_time: u64,
    shuffle_remote_bytes_read: u64,
    shuffle_remote_bytes_read_to_disk: u64,
    shuffle_local_bytes_read: u64,
    shuffle_read_bytes: u64,
    shuffle_read_records: u64,
    shuffle_corrupt_merged_block_chunks: u64,
    shuffle_merged_fetch_fallback_count: u64,
    shuffle_merged_remote_blocks_fetched: u64,
    shuffle_merged_local_blocks_fetched: u64,
    shuffle_merged_remote_chunks_fetched: u64,
    shuffle_merged_local_chunks_fetched: u64,
    shuffle_merged_remote_bytes_read: u64,
    shuffle_merged_local_bytes_read: u64,
    shuffle_remote_reqs_duration: u64,
    shuffle_merged_remote_reqs_duration: u64,
    shuffle_write_bytes: u64,
    shuffle_write_time: u64,
    shuffle_write_records: u64,
}

impl StageCost {
    fn of(stage: &StageStatus) -> Self {
        let sum = &stage.metrics;
        let pushed: PushedShuffleMetrics = sum.pushed.as_deref().copied().unwrap_or_default();
        StageCost {
            executor_deserialize_time: sum.deserialize_time_us / 1000,
            executor_deserialize_cpu_time: sum.deserialize_cpu_time_ns,
            executor_run_time: sum.run_time_us / 1000,
            executor_cpu_time: sum.cpu_time_ns,
            result_size: sum.result_bytes,
            jvm_gc_time: sum.gc_time_ms,
            result_serialization_time: sum.result_serialize_time_us / 1000,
            memory_bytes_spilled: sum.memory_bytes_spilled,
            disk_bytes_spilled: sum.disk_bytes_spilled,
            peak_execution_memory: stage.peak_memory_sum,
            input_bytes: sum.input_bytes,
            input_records: sum.input_records,
            output_bytes: sum.output_bytes,
            output_records: sum.output_records,
            shuffle_remote_blocks_fetched: sum.shuffle_remote_blocks,
            shuffle_local_blocks_fetched: sum.shuffle_local_blocks,
            shuffle_fetch_wait_time: sum.shuffle_fetch_wait_us / 1000,
            shuffle_remote_bytes_read: sum.shuffle_remote_bytes,
            shuffle_remote_bytes_read_to_disk: sum.shuffle_remote_bytes_to_disk,
            shuffle_local_bytes_read: sum.shuffle_local_bytes,
            shuffle_read_bytes: sum.shuffle_read_bytes(),
            shuffle_read_records: sum.shuffle_read_records,
            shuffle_corrupt_merged_block_chunks: pushed.corrupt_chunks,
            shuffle_merged_fetch_fallback_count: pushed.fallbacks,
            shuffle_merged_remote_blocks_fetched: pushed.remote_blocks,
            shuffle_merged_local_blocks_fetched: pushed.local_blocks,
            shuffle_merged_remote_chunks_fetched: pushed.remote_chunks,
            shuffle_merged_local_chunks_fetched: pushed.local_chunks,
            shuffle_merged_remote_bytes_read: pushed.remote_bytes,
            shuffle_merged_local_bytes_read: pushed.local_bytes,
            shuffle_remote_reqs_duration: sum.shuffle_remote_requests_us / 1000,
            shuffle_merged_remote_reqs_duration: pushed.remote_requests_ms,
            shuffle_write_bytes: sum.shuffle_write_bytes,
            shuffle_write_time: sum.shuffle_write_time_ns,
            shuffle_write_records: sum.shuffle_write_records,
        }
    }
}

/// `ExecutorStageSummary`
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExecutorStageData {
    task_time: u64,
    failed_tasks: u32,
    succeeded_tasks: u32,
    killed_tasks: u32,
    input_bytes: u64,
    input_records: u64,
    output_bytes: u64,
    output_records: u64,
    shuffle_read: u64,
    shuffle_read_records: u64,
    shuffle_write: u64,
    shuffle_write_records: u64,
    memory_bytes_spilled: u64,
    disk_bytes_spilled: u64,
    is_blacklisted_for_stage: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_memory_metrics: Option<Peaks>,
    is_excluded_for_stage: bool,
}

impl ExecutorStageData {
    fn of(totals: &ExecutorTotals) -> Self {
        let sum = &totals.metrics;
        ExecutorStageData {
            task_time: totals.task_time_ms,
            failed_tasks: totals.tasks.failed,
            succeeded_tasks: totals.tasks.completed,
            killed_tasks: totals.tasks.killed,
            input_bytes: sum.input_bytes,
            input_records: sum.input_records,
            output_bytes: sum.output_bytes,
            output_records: sum.output_records,
            shuffle_read: sum.shuffle_read_bytes(),
            shuffle_read_records: sum.shuffle_read_records,
            shuffle_write: sum.shuffle_write_bytes,
            shuffle_write_records: sum.shuffle_write_records,
            memory_bytes_spilled: sum.memory_bytes_spilled,
            disk_bytes_spilled: sum.disk_bytes_spilled,
            is_blacklisted_for_stage: totals.is_excluded,
            peak_memory_metrics: totals.peak.as_ref().map(peaks),
            is_excluded_for_stage: totals.is_excluded,
        }
    }
}

/// `SpeculationStageSummary`
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SpeculationData {
    num_tasks: u32,
    num_active_tasks: u32,
    num_completed_tasks: u32,
    num_failed_tasks: u32,
    num_killed_tasks: u32,
}

impl SpeculationData {
    fn of(stage: &StageStatus) -> Option<Self> {
        let copies = stage.copies;
        let num_tasks = copies.active + copies.completed + copies.failed + copies.killed;
        (num_tasks > 0).then_some(SpeculationData {
            num_tasks,
            num_active_tasks: copies.active,
            num_completed_tasks: copies.completed,
            num_failed_tasks: copies.failed,
            num_killed_tasks: copies.killed,
        })
    }
}

/// The most of everything, by Spark's names.
pub(crate) type Peaks = BTreeMap<&'static str, u64>;

pub(crate) fn peaks(of: &ExecutorMetrics) -> Peaks {
    PEAKS.iter().map(|(name, number)| (*name, number(of))).collect()
}

pub(crate) fn stage_state(state: StageState) -> &'static str {
    match state {
        StageState::Pending => "PENDING",
        StageState::Active => "ACTIVE",
        StageState::Complete => "COMPLETE",
        StageState::Failed => "FAILED",
        StageState::Skipped => "SKIPPED",
    }
}

/// Whether a task is in one of these states; in any, if none is named.
pub(crate) fn in_states(states: &[String]) -> impl Fn(&TaskStatus) -> bool {
    move |task| states.is_empty() || states.iter().any(|state| state == state_name(task.state))
}

impl<'a> StageData<'a> {
    pub(crate) fn of(
        status: &'a AppStatus,
        stage: &'a StageStatus,
        detail: &Detail,
        now: Tick,
    ) -> Self {
        let info = &stage.info;
        let tasks = detail.tasks.then(|| {
            let wanted = in_states(&detail.states);
            let page = stage.tasks(wanted, TaskSort::Id, Order::Ascending, Paging::ALL);
            let tasks = page.items.into_iter();
            tasks.map(|task| (task.info.task.0, TaskData::of(status, task, now))).collect()
        });
        let executors = detail.tasks.then(|| {
            let all = stage.executors.iter();
            all.map(|(id, totals)| (status.executor_name(*id), ExecutorStageData::of(totals)))
                .collect()
        });
        StageData {
            status: stage_state(stage.state),
            stage_id: info.stage.stage.0,
            attempt_id: info.stage.attempt,
            num_tasks: info.tasks,
            num_active_tasks: stage.tasks.active,
            num_complete_tasks: stage.tasks.completed,
            num_failed_tasks: stage.tasks.failed,
            num_killed_tasks: stage.tasks.killed,
            num_completed_indices: stage.completed_indices(),
            submission_time: info.submitted.and_then(told),
            first_task_launched_time: stage.first_task.map(Date::of),
            completion_time: stage.completed.and_then(told),
            failure_reason: stage.failure.as_deref(),
            cost: StageCost::of(stage),
            name: &info.name,
            description: stage.properties.description(),
            details: info.details.as_deref().unwrap_or(&info.name),
            scheduling_pool: stage.properties.pool().unwrap_or("default"),
            rdd_ids: info.rdds.iter().map(|rdd| rdd.rdd.id.0).collect(),
            accumulator_updates: stage.accumulables.values().map(AccumulableData::of).collect(),
            tasks,
            executor_summary: executors,
            speculation_summary: SpeculationData::of(stage).filter(|_| detail.tasks),
            killed_tasks_summary: &stage.killed,
            resource_profile_id: info.resource_profile,
            peak_executor_metrics: stage.peak.as_ref().map(peaks),
            task_metrics_distributions: detail
                .summaries
                .then(|| TaskDistributions::of(stage, &detail.quantiles))
                .flatten(),
            executor_metrics_distributions: detail
                .summaries
                .then(|| ExecutorDistributions::of(stage, &detail.quantiles)),
            is_shuffle_push_enabled: false,
            shuffle_mergers_count: 0,
        }
    }
}
