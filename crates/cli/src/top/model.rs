//! What the screen shows, out of what the REST API answers: of Firesteel, and of Spark, which tells less.

use serde_json::Value;

use super::client::Client;
use crate::Failure;

/// How an application stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Overview {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) user: String,
    pub(super) is_over: bool,
    pub(super) duration_ms: u64,
    pub(super) jobs: Vec<Work>,
    pub(super) stages: Vec<Work>,
    pub(super) executors: Vec<Executor>,
    /// What could be better, a sentence each.
    pub(super) insights: Vec<String>,
}

/// A running job or stage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Work {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) done: u64,
    pub(super) active: u64,
    pub(super) failed: u64,
    pub(super) total: u64,
    /// What went in and out of a stage, and what it spilled, in bytes.
    pub(super) read: u64,
    pub(super) written: u64,
    pub(super) spilled: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Executor {
    pub(super) id: String,
    pub(super) host: String,
    pub(super) active: u64,
    pub(super) cores: u64,
    pub(super) tasks: u64,
    pub(super) failed: u64,
    pub(super) memory_used: u64,
    pub(super) memory: u64,
    /// Why it was lost, if it was.
    pub(super) lost: Option<String>,
}

/// So many executors and sentences are taken over: no screen shows more.
const MOST: usize = 1000;

/// Text of an application, without what a terminal would obey.
fn text(value: &Value, name: &str) -> String {
    let text = value[name].as_str().unwrap_or_default();
    text.chars().take(300).map(|it| if it.is_control() { ' ' } else { it }).collect()
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or(0)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten().take(MOST)
}

/// Asks for everything. Without an id it is the application that runs, or else the first of the list.
pub(super) fn look(client: &Client, app: Option<&str>) -> Result<Overview, Failure> {
    let found = match app {
        Some(id) => client.get(&format!("/applications/{}", encoded(id)))?,
        None => {
            let all = client.get("/applications")?;
            let runs = |it: &&Value| it["attempts"][0]["completed"] == Value::Bool(false);
            let first = list(&all).find(runs).or_else(|| list(&all).next()).cloned();
            first
                .ok_or("no application is there yet: start one, or wait until its log is listed")?
        }
    };
    let id = found["id"].as_str().ok_or("the answer names no application")?.to_owned();
    let attempt = &found["attempts"][0];
    let path = match attempt["attemptId"].as_str() {
        Some(attempt) => format!("/applications/{}/{}", encoded(&id), encoded(attempt)),
        None => format!("/applications/{}", encoded(&id)),
    };
    let jobs = client.get(&format!("{path}/jobs?status=running"))?;
    let stages = client.get(&format!("{path}/stages?status=active"))?;
    let executors = client.get(&format!("{path}/allexecutors"))?;
    // Spark has none.
    let insights = client.get(&format!("{path}/insights")).unwrap_or_default();
    Ok(Overview {
        name: text(&found, "name"),
        user: text(attempt, "sparkUser"),
        is_over: attempt["completed"] == Value::Bool(true),
        duration_ms: number(attempt, "duration"),
        jobs: list(&jobs).map(job).collect(),
        stages: list(&stages).map(stage).collect(),
        executors: list(&executors).map(executor).collect(),
        insights: list(&insights).map(insight).collect(),
        id,
    })
}

fn job(value: &Value) -> Work {
    let name = Some(text(value, "description")).filter(|it| !it.trim().is_empty());
    let total = number(value, "numTasks").saturating_sub(number(value, "numSkippedTasks"));
    Work {
        id: number(value, "jobId").to_string(),
        name: name.unwrap_or_else(|| text(value, "name")),
        done: number(value, "numCompletedIndices"),
        active: number(value, "numActiveTasks"),
        failed: number(value, "numFailedTasks"),
        total,
        ..Work::default()
    }
}

fn stage(value: &Value) -> Work {
    let (id, attempt) = (number(value, "stageId"), number(value, "attemptId"));
    let sum =
        |names: [&str; 2]| names.iter().fold(0u64, |sum, it| sum.saturating_add(number(value, it)));
    Work {
        id: if attempt == 0 { id.to_string() } else { format!("{id}.{attempt}") },
        name: text(value, "name"),
        done: number(value, "numCompletedIndices"),
        active: number(value, "numActiveTasks"),
        failed: number(value, "numFailedTasks"),
        total: number(value, "numTasks"),
        read: sum(["inputBytes", "shuffleReadBytes"]),
        written: sum(["outputBytes", "shuffleWriteBytes"]),
        spilled: number(value, "diskBytesSpilled"),
    }
}

fn executor(value: &Value) -> Executor {
    let is_lost = value["isActive"] == Value::Bool(false);
    Executor {
        id: text(value, "id"),
        host: text(value, "hostPort"),
        active: number(value, "activeTasks"),
        cores: number(value, "totalCores"),
        tasks: number(value, "totalTasks"),
        failed: number(value, "failedTasks"),
        memory_used: number(value, "memoryUsed"),
        memory: number(value, "maxMemory"),
        lost: is_lost.then(|| text(value, "removeReason")),
    }
}

fn insight(value: &Value) -> String {
    let place = value["stageId"].as_u64().map(|stage| format!(" in stage {stage}"));
    let place = place.unwrap_or_default();
    format!(
        "{}{place}: {}. Try: {}",
        text(value, "title"),
        text(value, "figure"),
        text(value, "advice")
    )
}

/// A part of a path.
fn encoded(text: &str) -> String {
    let is_plain = |it: u8| it.is_ascii_alphanumeric() || b"-_.~".contains(&it);
    let parts = text.bytes().map(|byte| match is_plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    });
    parts.collect()
}
