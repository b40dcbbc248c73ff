//! What a run could have done better, in words: [`AppStatus::insights`], a function of the status. Pages, the REST API and
//! the console say the same.
//!
//! | file | owns |
//! |---|---|
//! | `stages` | what one stage attempt shows: skew, stragglers, spills, tiny tasks, idle cores, recomputation, results |
//! | `application` | what only all jobs together show: idle executors, a busy driver, RDDs that are computed again |
//! | `words` | times, sizes and counts as people read them |
//!
//! A healthy job has no insights: each rule has a threshold below which nobody would gain by knowing, a second of waiting or
//! more. Nothing here reads a clock, and nothing here changes what is scheduled.

mod application;
mod stages;
#[cfg(test)]
mod tests;
mod words;

use firesteel_types::{JobId, StageRef, Tick};

use crate::{AppStatus, Order, Paging, StageState, StageStatus};

/// What kind of thing an insight is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum InsightKind {
    /// Executors that were asked for are not there.
    MissingExecutors,
    /// One partition has far more data than most.
    Skew,
    /// One task took far longer than most, with as much data.
    Straggler,
    /// Tasks wrote to disk what did not fit into memory.
    Spill,
    /// Starting tasks took longer than running them.
    TinyTasks,
    /// Partitions were computed again because their outputs were lost.
    RecomputedStage,
    /// Several stages computed an RDD that is not cached.
    RecomputedRdd,
    /// Cores had nothing to do.
    IdleExecutors,
    /// The driver was busy while no task ran.
    DriverBound,
}

impl InsightKind {
    /// Its name in answers of the REST API.
    pub fn as_str(self) -> &'static str {
        match self {
            InsightKind::MissingExecutors => "MISSING_EXECUTORS",
            InsightKind::Skew => "SKEW",
            InsightKind::Straggler => "STRAGGLER",
            InsightKind::Spill => "SPILL",
            InsightKind::TinyTasks => "TINY_TASKS",
            InsightKind::RecomputedStage => "RECOMPUTED_STAGE",
            InsightKind::RecomputedRdd => "RECOMPUTED_RDD",
            InsightKind::IdleExecutors => "IDLE_EXECUTORS",
            InsightKind::DriverBound => "DRIVER_BOUND",
        }
    }

    /// Its name for people.
    pub fn title(self) -> &'static str {
        match self {
            InsightKind::MissingExecutors => "missing executors",
            InsightKind::Skew => "skewed partitions",
            InsightKind::Straggler => "straggler",
            InsightKind::Spill => "spilling",
            InsightKind::TinyTasks => "tiny tasks",
            InsightKind::RecomputedStage => "recomputed stage",
            InsightKind::RecomputedRdd => "recomputed RDD",
            InsightKind::IdleExecutors => "idle executors",
            InsightKind::DriverBound => "busy driver",
        }
    }
}

/// One thing that could be better.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Insight {
    pub kind: InsightKind,
    /// The job it is about, if it is about one.
    pub job: Option<JobId>,
    /// The stage attempt it is about, if it is about one.
    pub stage: Option<StageRef>,
    /// Operation, file and line in the user's program.
    pub place: String,
    /// The measured figure, as text with its unit.
    pub figure: String,
    /// A sentence: what to try.
    pub advice: String,
    /// How much sooner it could have been over, roughly; `None`: that cannot be told.
    pub lost_ms: Option<u64>,
}

/// `skewed partitions in stage 3 (reduce_by_key at main.rs:7): FIGURE; ADVICE`
impl std::fmt::Display for Insight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.kind.title())?;
        match (self.stage, self.job) {
            (Some(stage), _) => write!(f, " in stage {stage} ({})", self.place)?,
            (None, Some(job)) => write!(f, " at job {job} ({})", self.place)?,
            (None, None) if !self.place.is_empty() => write!(f, " ({})", self.place)?,
            (None, None) => {}
        }
        write!(f, ": {}; {}", self.figure, self.advice)
    }
}

/// So many of one kind are told, and so many altogether.
const OF_A_KIND: usize = 5;
const AT_MOST: usize = 20;

/// Of each kind those that cost the most; the costliest first, after what keeps the application from its executors.
fn worst_first(mut all: Vec<Insight>) -> Vec<Insight> {
    let first = |insight: &Insight| insight.kind == InsightKind::MissingExecutors;
    let costs = |insight: &Insight| (first(insight), insight.lost_ms);
    all.sort_by(|a, b| costs(b).cmp(&costs(a)).then(a.kind.cmp(&b.kind)));
    let mut kept: Vec<Insight> = Vec::new();
    for insight in all {
        let alike = kept.iter().filter(|other| other.kind == insight.kind).count();
        if alike < OF_A_KIND && kept.len() < AT_MOST {
            kept.push(insight);
        }
    }
    kept
}

fn has_run(stage: &StageStatus) -> bool {
    !matches!(stage.state, StageState::Pending | StageState::Skipped)
}

impl AppStatus {
    /// What could be better, the costliest first; nothing, if all is well. Of what still runs, until `now`.
    pub fn insights(&self, now: Tick) -> Vec<Insight> {
        let stages = self.stages(has_run, Order::Ascending, Paging::ALL).items;
        let mut all: Vec<Insight> =
            stages.into_iter().flat_map(|stage| stages::insights(self, stage, now)).collect();
        all.extend(application::insights(self, now));
        worst_first(all)
    }

    /// What one stage attempt shows, the costliest first.
    pub fn stage_insights(&self, stage: &StageStatus, now: Tick) -> Vec<Insight> {
        if has_run(stage) { worst_first(stages::insights(self, stage, now)) } else { Vec::new() }
    }

    /// What one stage attempt shows without a look at each of its tasks, of which there may be millions: no skew, no stragglers.
    pub fn stage_insights_of_sums(&self, stage: &StageStatus, now: Tick) -> Vec<Insight> {
        let found = has_run(stage).then(|| stages::insights_of_sums(self, stage, now));
        worst_first(found.unwrap_or_default())
    }

    /// What the stages of one job show, the costliest first.
    pub fn job_insights(&self, job: JobId, now: Tick) -> Vec<Insight> {
        let of_job = |stage: &StageStatus| has_run(stage) && stage.jobs.contains(&job);
        let stages = self.stages(of_job, Order::Ascending, Paging::ALL).items;
        worst_first(stages.into_iter().flat_map(|it| stages::insights(self, it, now)).collect())
    }

    /// What only all jobs together show.
    pub fn application_insights(&self, now: Tick) -> Vec<Insight> {
        worst_first(application::insights(self, now))
    }
}
