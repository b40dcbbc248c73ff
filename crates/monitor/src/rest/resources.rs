//! What can be asked of one application.

use std::cmp::Reverse;

use firesteel_conf::Redaction;
use firesteel_status::{AppStatus, Order, Paging, StageStatus, TaskSort};
use firesteel_types::{ExecutorId, JobId, RddId, StageId, StageRef, Tick};

use super::distributions::TaskDistributions;
use super::executors::{EnvironmentData, ExecutorData, ProcessData, RddData};
use super::insights::InsightData;
use super::query::Query;
use super::stages::{Detail, JobData, StageData, in_states, job_state, stage_state};
use super::tasks::TaskData;
use super::{Answer, Applications, Ask};
use crate::threads::ThreadData;

/// The first part of a path behind the application; anything else is an attempt.
pub(super) const NAMES: [&str; 11] = [
    "jobs",
    "stages",
    "executors",
    "allexecutors",
    "allmiscellaneousprocess",
    "storage",
    "environment",
    "sql",
    "streaming",
    "logs",
    "insights",
];

const JOB_STATES: [&str; 4] = ["RUNNING", "SUCCEEDED", "FAILED", "UNKNOWN"];
const STAGE_STATES: [&str; 5] = ["ACTIVE", "COMPLETE", "FAILED", "PENDING", "SKIPPED"];
const TASK_STATES: [&str; 5] = ["RUNNING", "KILLED", "FAILED", "SUCCESS", "UNKNOWN"];

/// So many tasks are listed unless a request says otherwise.
const TASKS: usize = 20;

/// A path, taken apart.
pub(super) struct Asked<'a> {
    pub(super) id: &'a str,
    pub(super) attempt: Option<&'a str>,
    pub(super) resource: &'a str,
    pub(super) rest: &'a [&'a str],
}

impl Asked<'_> {
    pub(super) fn answer(
        &self,
        applications: &dyn Applications,
        secrets: &Redaction,
        query: &Query,
        ask: &Ask<'_>,
    ) -> Result<Answer, Answer> {
        if (self.resource, self.rest) == ("logs", &[][..]) {
            return self.logs(applications);
        }
        if let ("executors", [executor, "threads"]) = (self.resource, self.rest) {
            return self.threads(applications, executor);
        }
        let mut answered = None;
        let mut look = |status: &AppStatus| {
            let about = About { status, secrets, query, ask, is_live: applications.is_live() };
            answered = Some(about.answer(self.resource, self.rest));
        };
        applications.with_status(self.id, self.attempt, &mut look);
        answered.unwrap_or_else(|| Err(Answer::text(404, format!("no such app: {}", self.key()))))
    }

    /// The texts are Spark's. An executor is waited for, and nobody waits for its status meanwhile.
    fn threads(&self, applications: &dyn Applications, executor: &str) -> Result<Answer, Answer> {
        let refused = |status, text: &str| Err(Answer::text(status, text.to_owned()));
        let is_number = !executor.is_empty() && executor.bytes().all(|byte| byte.is_ascii_digit());
        let id = executor.parse().map_or(ExecutorId::DRIVER, ExecutorId);
        let mut is_active = None;
        let mut look =
            |status: &AppStatus| is_active = status.executor(id).map(|it| it.is_active());
        if !applications.with_status(self.id, self.attempt, &mut look) {
            return refused(404, &format!("no such app: {}", self.key()));
        }
        if executor != "driver" && !is_number {
            return refused(400, "Invalid executorId: neither 'driver' nor number.");
        }
        if !applications.is_live() {
            return refused(503, "Thread dumps not available through the history server.");
        }
        match is_active {
            None => refused(404, "Executor does not exist."),
            Some(false) => refused(400, "Executor is not active."),
            Some(true) => match applications.threads(id) {
                Some(threads) => {
                    let data: Vec<_> = threads.into_iter().map(ThreadData::from).collect();
                    Ok(Answer::json(&data))
                }
                None => refused(404, "No thread dump is available."),
            },
        }
    }

    fn key(&self) -> String {
        let attempt = self.attempt.map(|attempt| format!("/{attempt}"));
        format!("{}{}", self.id, attempt.unwrap_or_default())
    }

    fn logs(&self, applications: &dyn Applications) -> Result<Answer, Answer> {
        let attempt = self.attempt.map(|attempt| format!("-{attempt}")).unwrap_or_default();
        match applications.logs(self.id, self.attempt) {
            Some(Ok(archive)) => Ok(Answer {
                attachment: Some(format!("eventLogs-{}{attempt}.zip", self.id)),
                archive: Some(archive),
                ..Answer::whole(200, "application/octet-stream", Vec::new())
            }),
            Some(Err(error)) => {
                let text = format!("Event logs are not available for app: {}: {error}", self.id);
                Err(Answer::text(503, text))
            }
            None => Err(Answer::text(404, format!("no such app: {}", self.key()))),
        }
    }
}

/// A status, and a request about it.
struct About<'a> {
    status: &'a AppStatus,
    secrets: &'a Redaction,
    query: &'a Query,
    ask: &'a Ask<'a>,
    is_live: bool,
}

impl About<'_> {
    fn answer(&self, resource: &str, rest: &[&str]) -> Result<Answer, Answer> {
        match (resource, rest) {
            ("jobs", []) => self.jobs(),
            ("jobs", [job]) => self.job(self.number(job)?),
            ("stages", []) => self.stages(),
            ("stages", [stage]) => self.stage(self.number(stage)?),
            ("stages", [stage, attempt]) => {
                self.stage_attempt(self.number(stage)?, self.number(attempt)?)
            }
            ("stages", [stage, attempt, "taskSummary"]) => {
                self.task_summary(self.number(stage)?, self.number(attempt)?)
            }
            ("stages", [stage, attempt, "taskList"]) => {
                self.task_list(self.number(stage)?, self.number(attempt)?)
            }
            ("executors", []) => Ok(self.executors(true)),
            ("allexecutors", []) => Ok(self.executors(false)),
            ("allmiscellaneousprocess", []) => Ok(Answer::json(&ProcessData::all(self.status))),
            ("sql", []) => Ok(Answer::json(&[(); 0])),
            ("storage", ["rdd"]) => Ok(self.rdds()),
            ("storage", ["rdd", rdd]) => self.rdd(self.number(rdd)?),
            ("environment", []) => {
                Ok(Answer::json(&EnvironmentData::of(self.status, self.secrets)))
            }
            ("insights", []) => self.insights(),
            ("streaming", [_, ..]) => {
                let name = &self.status.application().name;
                Err(Answer::text(404, format!("no streaming listener attached to {name}")))
            }
            _ => Err(self.no_such_path()),
        }
    }

    /// Ours. Of one job with `jobId`.
    fn insights(&self) -> Result<Answer, Answer> {
        let now = self.until();
        let insights = match self.query.number("jobId")? {
            None => self.status.insights(now),
            Some(job) => {
                let job = u32::try_from(job).unwrap_or(u32::MAX);
                let unknown = || Answer::text(404, format!("unknown job: {job}"));
                self.status.job(JobId(job)).ok_or_else(unknown)?;
                self.status.job_insights(JobId(job), now)
            }
        };
        Ok(Answer::json(&insights.iter().map(InsightData::of).collect::<Vec<_>>()))
    }

    fn now(&self) -> Tick {
        self.ask.now
    }

    /// Until when what has no end went on: a log that just ends says nothing of later.
    fn until(&self) -> Tick {
        let open = || if self.is_live { self.now() } else { self.status.last_moment() };
        self.status.application().ended.unwrap_or_else(open)
    }

    fn no_such_path(&self) -> Answer {
        Answer::text(404, self.ask.path.to_owned())
    }

    /// A number in the path.
    fn number(&self, text: &str) -> Result<u32, Answer> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // Too large a number is one that nothing has.
        if digits { Ok(text.parse().unwrap_or(u32::MAX)) } else { Err(self.no_such_path()) }
    }

    fn jobs(&self) -> Result<Answer, Answer> {
        let states = self.query.states("status", &JOB_STATES)?;
        let wanted = |state: &str| states.is_empty() || states.iter().any(|it| it == state);
        let jobs = self.status.jobs(|job| wanted(job_state(job)), Order::Descending, Paging::ALL);
        Ok(Answer::json(&jobs.items.into_iter().map(JobData::of).collect::<Vec<_>>()))
    }

    fn job(&self, job: u32) -> Result<Answer, Answer> {
        let found = self.status.job(JobId(job));
        let found = found.ok_or_else(|| Answer::text(404, format!("unknown job: {job}")))?;
        Ok(Answer::json(&JobData::of(found)))
    }

    fn detail(&self, tasks: bool) -> Result<Detail, Answer> {
        Ok(Detail {
            tasks: self.query.flag("details", tasks),
            states: self.query.states("taskStatus", &TASK_STATES)?,
            summaries: self.query.flag("withSummaries", false),
            quantiles: self.query.quantiles("0.0,0.25,0.5,0.75,1.0")?,
        })
    }

    fn data<'a>(&'a self, stage: &'a StageStatus, detail: &Detail) -> StageData<'a> {
        StageData::of(self.status, stage, detail, self.now())
    }

    fn stages(&self) -> Result<Answer, Answer> {
        let states = self.query.states("status", &STAGE_STATES)?;
        let wanted = |state: &str| states.is_empty() || states.iter().any(|it| it == state);
        let detail = self.detail(false)?;
        let wanted = |stage: &StageStatus| wanted(stage_state(stage.state));
        let stages = self.status.stages(wanted, Order::Descending, Paging::ALL);
        let data = stages.items.into_iter().map(|stage| self.data(stage, &detail));
        Ok(Answer::json(&data.collect::<Vec<_>>()))
    }

    fn stage(&self, stage: u32) -> Result<Answer, Answer> {
        let detail = self.detail(true)?;
        let attempts = self.status.attempts(StageId(stage));
        let data: Vec<_> = attempts.map(|attempt| self.data(attempt, &detail)).collect();
        match data.is_empty() {
            true => Err(Answer::text(404, format!("unknown stage: {stage}"))),
            false => Ok(Answer::json(&data)),
        }
    }

    fn attempt(&self, stage: u32, attempt: u32) -> Result<&StageStatus, Answer> {
        let id = StageId(stage);
        self.status.stage(StageRef { stage: id, attempt }).ok_or_else(|| {
            let known: Vec<String> =
                self.status.attempts(id).map(|it| it.info.stage.attempt.to_string()).collect();
            let known = known.join(",");
            Answer::text(
                404,
                match known.is_empty() {
                    true => format!("unknown stage: {stage}"),
                    false => {
                        format!("unknown attempt for stage {stage}.  Found attempts: [{known}]")
                    }
                },
            )
        })
    }

    fn stage_attempt(&self, stage: u32, attempt: u32) -> Result<Answer, Answer> {
        let detail = self.detail(true)?;
        let found = self.attempt(stage, attempt)?;
        Ok(Answer::json(&self.data(found, &detail)))
    }

    fn task_summary(&self, stage: u32, attempt: u32) -> Result<Answer, Answer> {
        let quantiles = self.query.quantiles("0.05,0.25,0.5,0.75,0.95")?;
        let found = self.status.stage(StageRef { stage: StageId(stage), attempt });
        let summary = found.and_then(|stage| TaskDistributions::of(stage, &quantiles));
        let none = || format!("No tasks reported metrics for {stage} / {attempt} yet.");
        Ok(Answer::json(&summary.ok_or_else(|| Answer::text(404, none()))?))
    }

    fn task_list(&self, stage: u32, attempt: u32) -> Result<Answer, Answer> {
        let states = self.query.states("status", &TASK_STATES)?;
        let offset = self.query.number("offset")?.unwrap_or(0);
        let length = self.query.number("length")?.unwrap_or(TASKS);
        let (sort, order) = self.sorting()?;
        let Some(found) = self.status.stage(StageRef { stage: StageId(stage), attempt }) else {
            return Ok(Answer::json(&[(); 0]));
        };
        let tasks = found.tasks(in_states(&states), sort, order, Paging { offset, length });
        let data = tasks.items.into_iter().map(|task| TaskData::of(self.status, task, self.now()));
        Ok(Answer::json(&data.collect::<Vec<_>>()))
    }

    fn sorting(&self) -> Result<(TaskSort, Order), Answer> {
        let by = self.query.get("sortBy").unwrap_or("ID").to_uppercase();
        let runtime = TaskSort::Metric(|metrics| metrics.run_time_us / 1000);
        Ok(match by.as_str() {
            "ID" => (TaskSort::Id, Order::Ascending),
            "RUNTIME" | "+RUNTIME" | "INCREASING_RUNTIME" => (runtime, Order::Ascending),
            "-RUNTIME" | "DECREASING_RUNTIME" => (runtime, Order::Descending),
            _ => return Err(Answer::not_found()),
        })
    }

    /// Spark sorts them as texts: those that live backwards, all of them forwards.
    fn executors(&self, only_active: bool) -> Answer {
        let all = self.status.executors().filter(|it| it.is_active() || !only_active);
        let mut data: Vec<_> =
            all.map(|executor| ExecutorData::of(self.status, executor, self.now())).collect();
        match only_active {
            true => data.sort_by(|a, b| Reverse(&a.id).cmp(&Reverse(&b.id))),
            false => data.sort_by(|a, b| a.id.cmp(&b.id)),
        }
        Answer::json(&data)
    }

    fn rdds(&self) -> Answer {
        let cached = self.status.rdds().filter(|rdd| !rdd.partitions.is_empty());
        Answer::json(&cached.map(|rdd| RddData::of(self.status, rdd)).collect::<Vec<_>>())
    }

    fn rdd(&self, rdd: u32) -> Result<Answer, Answer> {
        let found = self.status.rdd(RddId(rdd));
        let found = found.ok_or_else(|| Answer::text(404, format!("no rdd found w/ id {rdd}")))?;
        Ok(Answer::json(&RddData::of(self.status, found)))
    }
}
