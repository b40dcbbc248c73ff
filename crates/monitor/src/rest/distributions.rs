//! How the tasks and executors of a stage spread: quantiles of each number.

use std::collections::BTreeMap;

use firesteel_status::{
    ExecutorTotals, Order, Paging, StageStatus, TaskSort, TaskState, TaskStatus,
};
use firesteel_types::event::PushedShuffleMetrics;
use firesteel_types::{ExecutorMetrics, TaskMetrics};
use serde::Serialize;

use super::tasks::scheduler_delay;
use crate::spark::metrics::PEAKS;

type Numbers = Vec<f64>;

/// `TaskMetricDistributions`
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TaskDistributions {
    quantiles: Numbers,
    duration: Numbers,
    executor_deserialize_time: Numbers,
    executor_deserialize_cpu_time: Numbers,
    executor_run_time: Numbers,
    executor_cpu_time: Numbers,
    result_size: Numbers,
    jvm_gc_time: Numbers,
    result_serialization_time: Numbers,
    getting_result_time: Numbers,
    scheduler_delay: Numbers,
    peak_execution_memory: Numbers,
    memory_bytes_spilled: Numbers,
    disk_bytes_spilled: Numbers,
    input_metrics: InputSpread,
    output_metrics: OutputSpread,
    shuffle_read_metrics: ShuffleReadSpread,
    shuffle_write_metrics: ShuffleWriteSpread,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InputSpread {
    bytes_read: Numbers,
    records_read: Numbers,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OutputSpread {
    bytes_written: Numbers,
    records_written: Numbers,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShuffleReadSpread {
    read_bytes: Numbers,
    read_records: Numbers,
    remote_blocks_fetched: Numbers,
    local_blocks_fetched: Numbers,
    fetch_wait_time: Numbers,
    remote_bytes_read: Numbers,
    remote_bytes_read_to_disk: Numbers,
    total_blocks_fetched: Numbers,
    remote_reqs_duration: Numbers,
    shuffle_push_read_metrics_dist: PushedSpread,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PushedSpread {
    corrupt_merged_block_chunks: Numbers,
    merged_fetch_fallback_count: Numbers,
    remote_merged_blocks_fetched: Numbers,
    local_merged_blocks_fetched: Numbers,
    remote_merged_chunks_fetched: Numbers,
    local_merged_chunks_fetched: Numbers,
    remote_merged_bytes_read: Numbers,
    local_merged_bytes_read: Numbers,
    remote_merged_reqs_duration: Numbers,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShuffleWriteSpread {
    write_bytes: Numbers,
    write_records: Numbers,
    write_time: Numbers,
}

/// The values at these quantiles, as Spark picks them: none is made up in between.
pub(crate) fn at_quantiles(mut values: Vec<u64>, quantiles: &[f64]) -> Numbers {
    values.sort_unstable();
    let count = values.len();
    let at = |quantile: &f64| ((quantile * count as f64) as usize).min(count.saturating_sub(1));
    quantiles.iter().map(|quantile| values.get(at(quantile)).map_or(0.0, |it| *it as f64)).collect()
}

/// Tasks that succeeded, with what they cost.
struct Costs<'a> {
    tasks: Vec<(&'a TaskStatus, TaskMetrics)>,
    quantiles: &'a [f64],
}

impl Costs<'_> {
    fn of(&self, number: impl Fn(&TaskMetrics) -> u64) -> Numbers {
        self.each(|_, metrics| number(metrics))
    }

    fn each(&self, number: impl Fn(&TaskStatus, &TaskMetrics) -> u64) -> Numbers {
        let values = self.tasks.iter().map(|(task, metrics)| number(task, metrics)).collect();
        at_quantiles(values, self.quantiles)
    }

    fn pushed(&self, number: impl Fn(&PushedShuffleMetrics) -> u64) -> Numbers {
        self.of(|metrics| metrics.pushed.as_deref().map_or(0, &number))
    }
}

impl TaskDistributions {
    /// `None`: no task that succeeded told what it cost.
    pub(crate) fn of(stage: &StageStatus, quantiles: &[f64]) -> Option<Self> {
        let succeeded = |task: &TaskStatus| task.state == TaskState::Success;
        let page = stage.tasks(succeeded, TaskSort::Id, Order::Ascending, Paging::ALL);
        let tasks: Vec<_> =
            page.items.into_iter().filter_map(|task| Some((task, task.metrics()?))).collect();
        let costs = Costs { tasks, quantiles };
        (!costs.tasks.is_empty()).then(|| Self::from_costs(&costs))
    }

    fn from_costs(costs: &Costs<'_>) -> Self {
        TaskDistributions {
            quantiles: costs.quantiles.to_vec(),
            duration: costs.each(|task, _| task.duration_ms().unwrap_or(0)),
            executor_deserialize_time: costs.of(|it| it.deserialize_time_us / 1000),
            executor_deserialize_cpu_time: costs.of(|it| it.deserialize_cpu_time_ns),
            executor_run_time: costs.of(|it| it.run_time_us / 1000),
            executor_cpu_time: costs.of(|it| it.cpu_time_ns),
            result_size: costs.of(|it| it.result_bytes),
            jvm_gc_time: costs.of(|it| it.gc_time_ms),
            result_serialization_time: costs.of(|it| it.result_serialize_time_us / 1000),
            getting_result_time: costs.of(|it| it.getting_result_time_ms),
            scheduler_delay: costs
                .each(|task, it| scheduler_delay(task.duration_ms().unwrap_or(0), it)),
            peak_execution_memory: costs.of(|it| it.peak_memory_bytes),
            memory_bytes_spilled: costs.of(|it| it.memory_bytes_spilled),
            disk_bytes_spilled: costs.of(|it| it.disk_bytes_spilled),
            input_metrics: InputSpread {
                bytes_read: costs.of(|it| it.input_bytes),
                records_read: costs.of(|it| it.input_records),
            },
            output_metrics: OutputSpread {
                bytes_written: costs.of(|it| it.output_bytes),
                records_written: costs.of(|it| it.output_records),
            },
            shuffle_read_metrics: ShuffleReadSpread::of(costs),
            shuffle_write_metrics: ShuffleWriteSpread {
                write_bytes: costs.of(|it| it.shuffle_write_bytes),
                write_records: costs.of(|it| it.shuffle_write_records),
                write_time: costs.of(|it| it.shuffle_write_time_ns),
            },
        }
    }
}

impl ShuffleReadSpread {
    fn of(costs: &Costs<'_>) -> Self {
        let blocks =
            |it: &TaskMetrics| it.shuffle_local_blocks.saturating_add(it.shuffle_remote_blocks);
        ShuffleReadSpread {
            read_bytes: costs.of(TaskMetrics::shuffle_read_bytes),
            read_records: costs.of(|it| it.shuffle_read_records),
            remote_blocks_fetched: costs.of(|it| it.shuffle_remote_blocks),
            local_blocks_fetched: costs.of(|it| it.shuffle_local_blocks),
            fetch_wait_time: costs.of(|it| it.shuffle_fetch_wait_us / 1000),
            remote_bytes_read: costs.of(|it| it.shuffle_remote_bytes),
            remote_bytes_read_to_disk: costs.of(|it| it.shuffle_remote_bytes_to_disk),
            total_blocks_fetched: costs.of(blocks),
            remote_reqs_duration: costs.of(|it| it.shuffle_remote_requests_us / 1000),
            shuffle_push_read_metrics_dist: PushedSpread {
                corrupt_merged_block_chunks: costs.pushed(|it| it.corrupt_chunks),
                merged_fetch_fallback_count: costs.pushed(|it| it.fallbacks),
                remote_merged_blocks_fetched: costs.pushed(|it| it.remote_blocks),
                local_merged_blocks_fetched: costs.pushed(|it| it.local_blocks),
                remote_merged_chunks_fetched: costs.pushed(|it| it.remote_chunks),
                local_merged_chunks_fetched: costs.pushed(|it| it.local_chunks),
                remote_merged_bytes_read: costs.pushed(|it| it.remote_bytes),
                local_merged_bytes_read: costs.pushed(|it| it.local_bytes),
                remote_merged_reqs_duration: costs.pushed(|it| it.remote_requests_ms),
            },
        }
    }
}

/// `ExecutorMetricsDistributions`
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExecutorDistributions {
    quantiles: Numbers,
    task_time: Numbers,
    failed_tasks: Numbers,
    succeeded_tasks: Numbers,
    killed_tasks: Numbers,
    input_bytes: Numbers,
    input_records: Numbers,
    output_bytes: Numbers,
    output_records: Numbers,
    shuffle_read: Numbers,
    shuffle_read_records: Numbers,
    shuffle_write: Numbers,
    shuffle_write_records: Numbers,
    memory_bytes_spilled: Numbers,
    disk_bytes_spilled: Numbers,
    peak_memory_metrics: BTreeMap<&'static str, Numbers>,
}

impl ExecutorDistributions {
    pub(crate) fn of(stage: &StageStatus, quantiles: &[f64]) -> Self {
        let spread = |number: &dyn Fn(&ExecutorTotals) -> u64| {
            at_quantiles(stage.executors.values().map(number).collect(), quantiles)
        };
        let peak = |number: fn(&ExecutorMetrics) -> u64| {
            spread(&|it: &ExecutorTotals| it.peak.as_ref().map_or(0, number))
        };
        ExecutorDistributions {
            quantiles: quantiles.to_vec(),
            task_time: spread(&|it| it.task_time_ms),
            failed_tasks: spread(&|it| it.tasks.failed.into()),
            succeeded_tasks: spread(&|it| it.tasks.completed.into()),
            killed_tasks: spread(&|it| it.tasks.killed.into()),
            input_bytes: spread(&|it| it.metrics.input_bytes),
            input_records: spread(&|it| it.metrics.input_records),
            output_bytes: spread(&|it| it.metrics.output_bytes),
            output_records: spread(&|it| it.metrics.output_records),
            shuffle_read: spread(&|it| it.metrics.shuffle_read_bytes()),
            shuffle_read_records: spread(&|it| it.metrics.shuffle_read_records),
            shuffle_write: spread(&|it| it.metrics.shuffle_write_bytes),
            shuffle_write_records: spread(&|it| it.metrics.shuffle_write_records),
            memory_bytes_spilled: spread(&|it| it.metrics.memory_bytes_spilled),
            disk_bytes_spilled: spread(&|it| it.metrics.disk_bytes_spilled),
            peak_memory_metrics: PEAKS
                .iter()
                .map(|(name, number)| (*name, peak(*number)))
                .collect(),
        }
    }
}
