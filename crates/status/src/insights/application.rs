//! What only all jobs together show.

use std::collections::{BTreeMap, BTreeSet};

use firesteel_types::event::StageRdd;
use firesteel_types::{ExecutorId, RddId, StageId, Tick};

use super::words::{count, percent, time};
use super::{Insight, InsightKind, has_run};
use crate::{AppStatus, JobStatus, Order, Paging, StageStatus};

/// Jobs that took less together tell nothing.
const JOBS_MS: u64 = 10_000;
/// An RDD that is computed again in less time is left alone.
const AGAIN_MS: u64 = 2000;

pub(super) fn insights(status: &AppStatus, now: Tick) -> Vec<Insight> {
    let jobs = status.jobs(|_| true, Order::Ascending, Paging::ALL).items;
    let busy = Busy::of(&jobs, now);
    let mut all: Vec<Insight> = busy.driver_bound().into_iter().collect();
    all.extend(missing_executors(status));
    all.extend(idle_executors(status, &busy, now));
    all.extend(recomputed_rdds(status, now));
    all
}

/// When jobs ran: from when to when, one after the other, none touching the next.
struct Busy<'a> {
    spans: Vec<(Tick, Tick)>,
    /// The longest time without a job, and the job that came after it.
    gap: Option<(u64, &'a JobStatus)>,
}

impl<'a> Busy<'a> {
    fn of(jobs: &[&'a JobStatus], now: Tick) -> Self {
        let mut sorted = jobs.to_vec();
        sorted.sort_by_key(|job| job.submitted);
        let mut spans: Vec<(Tick, Tick)> = Vec::new();
        let mut gap: Option<(u64, &JobStatus)> = None;
        for job in sorted {
            let end = job.completed.unwrap_or(now).max(job.submitted);
            match spans.last_mut() {
                Some((_, last)) if job.submitted <= *last => *last = end.max(*last),
                last => {
                    let waited = last.map_or(0, |(_, last)| job.submitted.since_ms(*last));
                    gap = gap.filter(|(longest, _)| *longest >= waited).or(Some((waited, job)));
                    spans.push((job.submitted, end));
                }
            }
        }
        Busy { spans, gap }
    }

    /// Milliseconds in which a job ran, within a time.
    fn within(&self, begin: Tick, end: Tick) -> u64 {
        let parts = self.spans.iter().map(|(from, to)| (*to).min(end).since_ms((*from).max(begin)));
        parts.fold(0, u64::saturating_add)
    }

    /// From the first job to the last, in which none ran for the most part.
    fn driver_bound(&self) -> Option<Insight> {
        let ((first, _), (_, last)) = (self.spans.first()?, self.spans.last()?);
        let whole = last.since_ms(*first);
        let idle = whole.saturating_sub(self.within(*first, *last));
        if idle < JOBS_MS || idle.saturating_mul(2) < whole {
            return None;
        }
        let (longest, next) = self.gap?;
        let figure = format!(
            "no job ran for {} of {} ({}); the longest pause, {}, was before this job",
            time(idle),
            time(whole),
            percent(idle, whole),
            time(longest)
        );
        let advice =
            "move what the program does between jobs into tasks, or run jobs from several threads";
        Some(Insight {
            kind: InsightKind::DriverBound,
            job: Some(next.job),
            stage: None,
            place: next.name.to_string(),
            figure,
            advice: advice.to_owned(),
            lost_ms: Some(idle),
        })
    }
}

/// What the cluster manager says of executors that do not come.
fn missing_executors(status: &AppStatus) -> Option<Insight> {
    let advice = "make room for them, or ask for fewer (spark.executor.instances)";
    let why = status.shortage()?;
    let figure = match status.application().ended {
        None => why.to_owned(),
        Some(_) => format!("they had not come when the application ended: {why}"),
    };
    Some(Insight {
        kind: InsightKind::MissingExecutors,
        job: None,
        stage: None,
        place: String::new(),
        figure,
        advice: advice.to_owned(),
        lost_ms: None,
    })
}

/// Executors that were there while jobs ran, and got no task.
fn idle_executors(status: &AppStatus, busy: &Busy<'_>, now: Tick) -> Option<Insight> {
    let (mut all, mut idle, mut idle_ms) = (0, Vec::new(), 0);
    for executor in status.executors().filter(|it| it.executor != ExecutorId::DRIVER) {
        let end = executor.removed.as_ref().map_or(now, |(at, _)| *at);
        let served = busy.within(executor.added, end);
        if served < JOBS_MS {
            continue;
        }
        all += 1;
        let tasks = executor.tasks;
        if tasks.active == 0 && tasks.completed == 0 && tasks.failed == 0 && tasks.killed == 0 {
            idle.push(status.executor_name(executor.executor));
            idle_ms = served.max(idle_ms);
        }
    }
    if idle.is_empty() {
        return None;
    }
    let named = idle.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
    let more = if idle.len() > 5 { ", ..." } else { "" };
    let figure = format!(
        "{} of {} executors ({named}{more}) ran no task while jobs ran for {}",
        idle.len(),
        all,
        time(idle_ms)
    );
    let advice = "ask for less (spark.cores.max, spark.executor.instances), or use more partitions than there are cores";
    Some(Insight {
        kind: InsightKind::IdleExecutors,
        job: None,
        stage: None,
        place: String::new(),
        figure,
        advice: advice.to_owned(),
        lost_ms: None,
    })
}

/// The stages that computed an RDD, each with the time its last attempt took.
type Computed = BTreeMap<StageId, u64>;

fn run_ms(stage: &StageStatus, now: Tick) -> u64 {
    let begin = stage.first_task.or(stage.info.submitted).unwrap_or(now);
    stage.completed.unwrap_or(now).since_ms(begin)
}

/// RDDs that several stages computed from scratch.
fn recomputed_rdds(status: &AppStatus, now: Tick) -> Vec<Insight> {
    let mut by_rdd: BTreeMap<RddId, (&StageRdd, Computed)> = BTreeMap::new();
    for stage in status.stages(has_run, Order::Ascending, Paging::ALL).items {
        // What is behind a cached RDD is computed once, whatever the lineage says.
        if stage.info.rdds.iter().any(|rdd| rdd.level.is_valid()) {
            continue;
        }
        for rdd in stage.info.rdds.iter() {
            let computed = &mut by_rdd.entry(rdd.rdd.id).or_insert((rdd, BTreeMap::new())).1;
            computed.insert(stage.info.stage.stage, run_ms(stage, now));
        }
    }
    by_rdd.retain(|_, (_, stages)| stages.len() > 1);
    // Of RDDs that the same stages computed, the one that was made last stands for all.
    let mut seen = BTreeSet::new();
    let mut found: Vec<_> = by_rdd.into_values().rev().collect();
    found.retain(|(_, stages)| seen.insert(stages.keys().copied().collect::<Vec<_>>()));
    found.into_iter().filter_map(|(rdd, stages)| recomputed_rdd(rdd, &stages)).collect()
}

fn recomputed_rdd(rdd: &StageRdd, stages: &Computed) -> Option<Insight> {
    let all_ms = stages.values().fold(0, |sum: u64, ms| sum.saturating_add(*ms));
    let again_ms = all_ms.saturating_sub(stages.values().copied().max().unwrap_or(0));
    if again_ms < AGAIN_MS {
        return None;
    }
    let figure = format!(
        "{} computed it from scratch, in {} together",
        count(stages.len() as u64, "stage"),
        time(all_ms)
    );
    let advice = "call cache, or persist(MEMORY_AND_DISK) if it is larger than memory, before the first job that needs it";
    Some(Insight {
        kind: InsightKind::RecomputedRdd,
        job: None,
        stage: None,
        place: rdd.rdd.call_site.clone(),
        figure,
        advice: advice.to_owned(),
        lost_ms: Some(again_ms),
    })
}
