//! What one stage attempt shows.

use firesteel_types::{ExecutorId, TaskMetrics, Tick};

use super::words::{count, percent, size, time};
use super::{Insight, InsightKind};
use crate::{AppStatus, ExecutorStatus, StageStatus, TaskState, TaskStatus};

/// Less waiting than this is nobody's concern.
const WORTH_MS: u64 = 1000;
/// Nor is less than this part of the stage.
const WORTH_PART: u64 = 5;
/// A task is far from most when it is so many times as much.
const FAR: u64 = 3;
/// Most of so few tasks says nothing.
const FEWEST_TASKS: usize = 4;
/// Spills of fewer bytes go through the system's page cache.
const SPILLED: u64 = 64 << 20;
/// So many tasks, each of so little work, are tiny.
const MANY_TASKS: u64 = 100;
const TINY_US: u64 = 10_000;
/// A stage that leaves cores idle for less is left alone.
const IDLE_MS: u64 = 5000;

/// A task that succeeded, or one that has run for long.
#[derive(Clone, Copy)]
struct Task {
    ms: u64,
    /// Then this is how long so far.
    is_running: bool,
    /// Bytes, or records where nobody counts bytes.
    input: u64,
    partition: u32,
    executor: ExecutorId,
}

impl Task {
    /// `took 4.0 s`, `has run for 4.0 s so far`
    fn took(self) -> String {
        match self.is_running {
            true => format!("has run for {} so far", time(self.ms)),
            false => format!("took {}", time(self.ms)),
        }
    }
}

/// What half of the tasks that have ended stay below.
struct Usual {
    tasks: usize,
    ms: u64,
    input: u64,
}

/// A stage attempt with what all rules need of it.
struct View<'a> {
    status: &'a AppStatus,
    stage: &'a StageStatus,
    wall_ms: u64,
    /// How many of its tasks could run at once.
    slots: u64,
    /// The shortest first, those that run among the others.
    tasks: Vec<Task>,
}

pub(super) fn insights(status: &AppStatus, stage: &StageStatus, now: Tick) -> Vec<Insight> {
    insights_of(&View::of(status, stage, now))
}

/// Without a look at each task: nothing of skew, stragglers and stages with too few tasks.
pub(super) fn insights_of_sums(status: &AppStatus, stage: &StageStatus, now: Tick) -> Vec<Insight> {
    insights_of(&View::of_sums(status, stage, now))
}

fn insights_of(view: &View<'_>) -> Vec<Insight> {
    let rules = [
        View::uneven,
        View::spilled,
        View::tiny,
        View::too_few,
        View::recomputed,
        View::large_results,
    ];
    rules.into_iter().filter_map(|rule| rule(view)).collect()
}

/// How many tasks run at once on the executors that were there from `begin` to `end`.
pub(super) fn slots(status: &AppStatus, begin: Tick, end: Tick) -> u64 {
    let there = |executor: &&ExecutorStatus| {
        executor.added <= end && executor.removed.as_ref().is_none_or(|(at, _)| *at >= begin)
    };
    let cores: u64 = status.executors().filter(there).map(|it| u64::from(it.info.cores)).sum();
    let settings = &status.application().properties;
    let each = settings.iter().find(|(key, _)| key == "spark.task.cpus");
    let each = each.and_then(|(_, value)| value.parse::<u64>().ok()).unwrap_or(1);
    (cores / each.max(1)).max(1)
}

fn input(metrics: &TaskMetrics) -> u64 {
    match metrics.input_bytes.saturating_add(metrics.shuffle_read_bytes()) {
        0 => metrics.input_records.saturating_add(metrics.shuffle_read_records),
        bytes => bytes,
    }
}

/// How long a task took that succeeded, or has run so far if that is worth anything, and whether it still runs.
fn counted_ms(stage: &StageStatus, task: &TaskStatus, now: Tick) -> Option<(u64, bool)> {
    match task.state {
        TaskState::Success => Some((task.duration_ms().unwrap_or(0), false)),
        TaskState::Running if stage.completed.is_none() => {
            let ms = now.since_ms(task.info.launched);
            (ms >= WORTH_MS).then_some((ms, true))
        }
        _ => None,
    }
}

impl<'a> View<'a> {
    fn of_sums(status: &'a AppStatus, stage: &'a StageStatus, now: Tick) -> Self {
        let begin = stage.first_task.or(stage.info.submitted).unwrap_or(now);
        let end = stage.completed.unwrap_or(now);
        let (wall_ms, slots) = (end.since_ms(begin), slots(status, begin, end));
        View { status, stage, wall_ms, slots, tasks: Vec::new() }
    }

    fn of(status: &'a AppStatus, stage: &'a StageStatus, now: Tick) -> Self {
        let sums = Self::of_sums(status, stage, now);
        let mut tasks = Vec::new();
        if sums.wall_ms >= WORTH_MS {
            let mut metrics = TaskMetrics::default();
            for task in stage.every_task() {
                let Some((ms, is_running)) = counted_ms(stage, task, now) else { continue };
                let is_told = task.read_metrics(&mut metrics);
                tasks.push(Task {
                    ms,
                    is_running,
                    input: if is_told { input(&metrics) } else { 0 },
                    partition: task.info.partition_or_index(),
                    executor: task.info.executor,
                });
            }
            tasks.sort_by_key(|task| task.ms);
        }
        View { tasks, ..sums }
    }

    fn insight(&self, kind: InsightKind, figure: String, advice: &str) -> Insight {
        Insight {
            kind,
            job: self.stage.jobs.first().copied(),
            stage: Some(self.stage.info.stage),
            place: self.stage.info.name.to_string(),
            figure,
            advice: advice.to_owned(),
            lost_ms: None,
        }
    }

    /// Where the data of the stage comes from: the call whose shuffle it reads, or the stage itself.
    fn source(&self) -> String {
        let rdds = &self.stage.info.rdds;
        let computed = |id| rdds.iter().any(|other| other.rdd.id == id);
        let reads_shuffle =
            |parents: &[_]| !parents.is_empty() && parents.iter().all(|parent| !computed(*parent));
        let first = rdds.iter().find(|rdd| reads_shuffle(&rdd.rdd.parents));
        match first.filter(|first| !first.rdd.call_site.is_empty()) {
            Some(first) => first.rdd.call_site.clone(),
            None => self.stage.info.name.to_string(),
        }
    }

    fn task_time_ms(&self) -> u64 {
        self.tasks.iter().fold(0, |sum, task| sum.saturating_add(task.ms))
    }

    /// How long it would take if tasks were even.
    fn even_ms(&self) -> u64 {
        let at_once = self.slots.min(self.tasks.len() as u64).max(1);
        self.task_time_ms() / at_once
    }

    fn is_worth(&self, lost_ms: u64) -> bool {
        lost_ms >= WORTH_MS && lost_ms.saturating_mul(WORTH_PART) >= self.wall_ms
    }

    /// Skew or a straggler: the stage waited, or waits, for one task. What tasks usually take, those tell that have ended.
    fn uneven(&self) -> Option<Insight> {
        let ended: Vec<Task> = self.tasks.iter().filter(|task| !task.is_running).copied().collect();
        if ended.len() < FEWEST_TASKS {
            return None;
        }
        let (median, longest) = (ended[ended.len() / 2], *self.tasks.last()?);
        let typical = self.even_ms().max(median.ms);
        let waited = self.wall_ms.saturating_sub(typical);
        let lost = waited.min(longest.ms.saturating_sub(median.ms));
        if !self.is_worth(lost) || longest.ms < median.ms.saturating_mul(FAR) {
            return None;
        }
        let mut inputs: Vec<u64> = ended.iter().map(|task| task.input).collect();
        inputs.sort_unstable();
        let usual = Usual { tasks: ended.len(), ms: median.ms, input: inputs[inputs.len() / 2] };
        let is_skewed =
            longest.input > 0 && longest.input >= usual.input.max(1).saturating_mul(FAR);
        let mut insight = match is_skewed {
            true => self.skew(longest, &usual),
            false => self.straggler(longest, &usual),
        };
        insight.lost_ms = Some(lost);
        Some(insight)
    }

    fn skew(&self, longest: Task, usual: &Usual) -> Insight {
        let metrics = &self.stage.metrics;
        let reads_shuffle = metrics.shuffle_read_records > 0 || metrics.shuffle_read_bytes() > 0;
        let counts_bytes = metrics.input_bytes > 0 || metrics.shuffle_read_bytes() > 0;
        let amount = |input| match counts_bytes {
            true => size(input),
            false => count(input, "record"),
        };
        let figure = format!(
            "partition {} {} {} and {}, where half of {} read {} or less and took {} or less",
            longest.partition,
            if longest.is_running { "has read" } else { "read" },
            amount(longest.input),
            longest.took(),
            count(usual.tasks as u64, "task"),
            amount(usual.input),
            time(usual.ms),
        );
        let advice = match reads_shuffle {
            true => {
                "a few keys have most records: combine them before the shuffle (reduce_by_key instead of group_by_key), or \
                 spread them by a number that you add to the key and take away again"
            }
            false => {
                "cut the input into even parts: files that can be split, or repartition after reading"
            }
        };
        let place = self.source();
        Insight { place, ..self.insight(InsightKind::Skew, figure, advice) }
    }

    fn straggler(&self, longest: Task, usual: &Usual) -> Insight {
        let executor = self.status.executor_name(longest.executor);
        let figure = format!(
            "the task of partition {} {} on executor {executor}, where half of {} took {} or less{}",
            longest.partition,
            longest.took(),
            count(usual.tasks as u64, "task"),
            time(usual.ms),
            // What one that runs has read by now is not told before its first heartbeat.
            if longest.is_running { "" } else { ", with as much data" },
        );
        let advice = "set spark.speculation=true, which runs copies of slow tasks elsewhere, and look at what else that \
                      machine does";
        self.insight(InsightKind::Straggler, figure, advice)
    }

    fn spilled(&self) -> Option<Insight> {
        let metrics = &self.stage.metrics;
        if metrics.disk_bytes_spilled < SPILLED {
            return None;
        }
        let figure = format!(
            "tasks spilled {} of memory to disk as {}; the largest held {} at once",
            size(metrics.memory_bytes_spilled),
            size(metrics.disk_bytes_spilled),
            size(metrics.peak_memory_bytes),
        );
        let advice = "use more partitions, so that each fits into memory, or give executors more spark.executor.memory, or \
                      fewer spark.executor.cores that share it";
        Some(self.insight(InsightKind::Spill, figure, advice))
    }

    fn tiny(&self) -> Option<Insight> {
        let (count_of, run_us) =
            (u64::from(self.stage.tasks.completed), self.stage.metrics.run_time_us);
        let each_us = run_us.checked_div(count_of)?;
        let busy_ms = run_us / 1000 / self.slots;
        let lost = self.wall_ms.saturating_sub(busy_ms);
        let is_tiny =
            count_of >= MANY_TASKS.max(self.slots.saturating_mul(10)) && each_us <= TINY_US;
        if !is_tiny || lost < WORTH_MS || lost.saturating_mul(2) < self.wall_ms {
            return None;
        }
        let figure = format!(
            "{} ran for {}.{} ms each, but the stage took {}: {} of it to start and end them",
            count(count_of, "task"),
            each_us / 1000,
            each_us % 1000 / 100,
            time(self.wall_ms),
            percent(lost, self.wall_ms),
        );
        let advice = "use fewer partitions: coalesce, a smaller number of partitions of the shuffle, or \
                      spark.default.parallelism";
        let insight = self.insight(InsightKind::TinyTasks, figure, advice);
        Some(Insight { lost_ms: Some(lost), ..insight })
    }

    fn too_few(&self) -> Option<Insight> {
        let tasks = u64::from(self.stage.info.tasks);
        let even_ms = self.task_time_ms() / self.slots;
        let lost = self.wall_ms.saturating_sub(even_ms);
        let is_idle = tasks < self.slots && lost.saturating_mul(2) >= self.wall_ms;
        // Tasks that have not ended tell nothing yet.
        let is_over = self.stage.completed.is_some() && !self.tasks.is_empty();
        if !is_idle || !is_over || self.wall_ms < IDLE_MS {
            return None;
        }
        let figure = format!(
            "{} for {} that could run at once, for {}",
            count(tasks, "task"),
            self.slots,
            time(self.wall_ms)
        );
        let advice = "use more partitions: repartition, a larger number of partitions of the source or the shuffle, or \
                      spark.default.parallelism";
        let insight = self.insight(InsightKind::IdleExecutors, figure, advice);
        Some(Insight { lost_ms: Some(lost), ..insight })
    }

    fn recomputed(&self) -> Option<Insight> {
        let stage = self.stage;
        let attempt = stage.info.stage.attempt;
        if attempt == 0 && stage.resubmitted == 0 {
            return None;
        }
        let again = match attempt {
            0 => stage.resubmitted,
            _ => stage.info.tasks,
        };
        let begin = stage.info.submitted.unwrap_or_default();
        let lost = self.status.executors().filter_map(|executor| {
            let (at, reason) = executor.removed.as_ref()?;
            (*at >= begin || attempt > 0).then_some((*at, executor.executor, reason))
        });
        let loss = lost.min_by_key(|(at, executor, _)| (*at, *executor));
        let why = loss.map(|(_, executor, reason)| {
            format!(": executor {} was lost ({reason})", self.status.executor_name(executor))
        });
        let figure = format!(
            "{} computed again{}",
            count(again.into(), "partition"),
            why.unwrap_or_else(|| ", because map outputs could not be fetched".to_owned()),
        );
        let advice = "see the executor's log for why it went; more spark.executor.memory if it was killed for its memory, \
                      cached partitions with replicas (MEMORY_AND_DISK_2) if machines come and go";
        let lost_ms = (attempt > 0 && self.wall_ms >= WORTH_MS).then_some(self.wall_ms);
        Some(Insight { lost_ms, ..self.insight(InsightKind::RecomputedStage, figure, advice) })
    }

    /// The driver fetched results one after the other while executors waited.
    fn large_results(&self) -> Option<Insight> {
        let metrics = &self.stage.metrics;
        let lost = metrics.getting_result_time_ms.min(self.wall_ms);
        if !self.is_worth(lost) {
            return None;
        }
        let figure = format!(
            "the driver took {} to fetch {} of results",
            time(metrics.getting_result_time_ms),
            size(metrics.result_bytes)
        );
        let advice = "bring less to the driver: reduce or take instead of collect, or save the results from the executors";
        let insight = self.insight(InsightKind::DriverBound, figure, advice);
        Some(Insight { lost_ms: Some(lost), ..insight })
    }
}
