//! Whether two servers say the same, and whether ours says what Spark's own tests expect.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::iter;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::servers::Server;

/// When a file was changed, and where it lies.
const OF_FILES: [&str; 4] =
    ["lastUpdated", "lastUpdatedEpoch", "logSourceName", "logSourceFullPath"];
/// What Spark makes up for executors whose heartbeats it has not.
const MADE_UP: [&str; 3] =
    ["peakMemoryMetrics", "peakExecutorMetrics", "executorMetricsDistributions"];
/// What goes on counting while an application has no end: until the moment of the request.
const UNTIL_NOW: [&str; 2] = ["duration", "totalDuration"];

/// Times of a stage: Spark adds up whole milliseconds of its tasks, ours what the log has besides, microseconds.
const ROUNDED: [&str; 5] = [
    "executorRunTime",
    "executorDeserializeTime",
    "resultSerializationTime",
    "shuffleFetchWaitTime",
    "shuffleRemoteReqsDuration",
];

/// Whether a sum of ours is above Spark's by less than a millisecond of each task.
fn is_rounded(spark: &Value, ours: &Value, tasks: Option<&Value>) -> bool {
    let number = |value: Option<&Value>| value.and_then(Value::as_f64);
    let difference = number(Some(ours)).zip(number(Some(spark))).map(|(ours, spark)| ours - spark);
    difference.zip(number(tasks)).is_some_and(|(more, tasks)| more >= 0.0 && more <= tasks)
}

/// Where two values differ, a line each.
fn differences(one: &Value, other: &Value, at: &str, out: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(a), Value::Object(b)) => {
            let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for name in names {
                let (one, other) = (a.get(name), b.get(name));
                let null = Value::Null;
                let (one, other) = (one.unwrap_or(&null), other.unwrap_or(&null));
                // Spark's quantiles of it have failed tasks in them, unlike those of everything else.
                if name == "schedulerDelay" && one.is_array() && other.is_array() {
                    continue;
                }
                if ROUNDED.contains(&name.as_str()) && is_rounded(one, other, a.get("numTasks")) {
                    continue;
                }
                differences(one, other, &format!("{at}.{name}"), out);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (one, other)) in a.iter().zip(b).enumerate() {
                differences(one, other, &format!("{at}[{index}]"), out);
            }
        }
        (Value::Number(a), Value::Number(b)) if a.as_f64() == b.as_f64() => {}
        (one, other) if one == other => {}
        (one, other) => {
            let short = |value: &Value| value.to_string().chars().take(100).collect::<String>();
            out.push(format!("{at}: {} and {}", short(one), short(other)));
        }
    }
}

/// How many requests of Spark's suite are answered as expected, and where others differ.
pub(super) fn suite(server: &Server, folder: &Path) -> Result<(usize, Vec<String>)> {
    server.wait_for_applications(1, super::LIMIT)?;
    let (mut equal, mut wrong) = (0, Vec::new());
    for case in fs::read_to_string(folder.join("cases.tsv"))?.lines() {
        let mut fields = case.split('\t').skip(1);
        let (url, file) = fields.next().zip(fields.next()).context("a case has three fields")?;
        let (_, body) = server.get(url)?;
        let mut ours: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let text = fs::read_to_string(folder.join("expectations").join(file))?;
        let mut theirs: Value = serde_json::from_str(&text)?;
        [&mut ours, &mut theirs].into_iter().for_each(|value| without(value, &OF_FILES));
        let before = wrong.len();
        differences(&ours, &theirs, url, &mut wrong);
        equal += usize::from(wrong.len() == before);
    }
    Ok((equal, wrong))
}

fn without(value: &mut Value, names: &[&str]) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(|value| without(value, names)),
        Value::Object(fields) => {
            names.iter().for_each(|name| drop(fields.remove(*name)));
            fields.values_mut().for_each(|value| without(value, names));
        }
        _ => {}
    }
}

/// What is asked about an application: of each stage what its tasks were like, too, and what is not there.
fn paths(server: &Server, id: &str) -> Result<Vec<String>> {
    let lists = ["", "/jobs", "/stages", "/stages?details=true", "/executors", "/allexecutors"];
    let more = ["/storage/rdd", "/jobs/0", "/jobs?status=running", "/jobs?status=failed", "/sql"];
    let others = ["/environment", "/stages?withSummaries=true", "/jobs/999", "/stages/999"];
    let stages = server.json(&format!("/applications/{id}/stages"))?;
    let of_stage = |stage: &Value| {
        let (id, attempt) = (&stage["stageId"], &stage["attemptId"]);
        let attempts =
            ["", "/taskSummary", "/taskList?offset=1&length=3", "/taskList?status=failed"];
        let attempts = attempts.map(|it| format!("/stages/{id}/{attempt}{it}"));
        iter::once(format!("/stages/{id}")).chain(attempts)
    };
    let of_stages = stages.as_array().into_iter().flatten().flat_map(of_stage);
    let of_all = lists.into_iter().chain(more).chain(others);
    Ok(of_all.map(str::to_owned).chain(of_stages).collect())
}

/// The status and what is said: JSON, or the words of a refusal.
fn answer(server: &Server, path: &str) -> Result<Value> {
    let (status, body) = server.get(&format!("/api/v1{path}"))?;
    let said: Value = match status {
        200 => serde_json::from_slice(&body)?,
        _ => String::from_utf8_lossy(&body).into_owned().into(),
    };
    Ok(serde_json::json!({ "status": status, "said": said }))
}

/// Whether all attempts of an application have ended.
fn is_completed(server: &Server, id: &str) -> Result<bool> {
    let application = server.json(&format!("/applications/{id}"))?;
    let attempts = application["attempts"].as_array().context("no attempts")?;
    Ok(attempts.iter().all(|it| it["completed"] == true))
}

/// Compares everything that two servers say of the same logs: how many answers, and where they differ.
pub(super) fn compare(spark: &Server, ours: &Server) -> Result<(usize, Vec<String>)> {
    let (mut count, mut wrong) = (0, Vec::new());
    for id in ours.applications()? {
        let mut left_out = [&OF_FILES[..], &MADE_UP[..]].concat();
        if !is_completed(ours, &id)? {
            left_out.extend(UNTIL_NOW);
        }
        for path in paths(ours, &id)? {
            let path = format!("/applications/{id}{path}");
            let (mut theirs, mut own) = (answer(spark, &path)?, answer(ours, &path)?);
            without(&mut theirs, &left_out);
            without(&mut own, &left_out);
            differences(&theirs, &own, &path, &mut wrong);
            count += 1;
        }
    }
    Ok((count, wrong))
}

/// A line for each field in which answers differ: how often, and the first time.
pub(super) fn by_field(differences: &[String]) -> Vec<String> {
    let mut fields: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for difference in differences {
        let place = difference.split(": ").next().unwrap_or(difference);
        let (_, field) = place.rsplit_once('.').unwrap_or(("", place));
        fields.entry(field).or_insert((0, difference)).0 += 1;
    }
    let line = |(field, (count, first)): (&str, (usize, &str))| {
        format!("{count} differences of {field}, such as {first}")
    };
    fields.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_may_be_above_sparks_by_a_millisecond_a_task() {
        let stage = |time: u64| serde_json::json!({"numTasks": 2, "executorRunTime": time});
        for (theirs, ours, count) in [(7, 9, 0), (7, 10, 1), (7, 6, 1)] {
            let mut found = Vec::new();
            differences(&stage(theirs), &stage(ours), "x", &mut found);
            assert_eq!(found.len(), count, "{theirs} {ours}");
        }
    }

    #[test]
    fn a_field_that_differs_often_is_told_once() {
        let found = [
            "/stages.said[0].time: 1 and 2",
            "/jobs.said.name: a and b",
            "/jobs.said[1].time: 3 and 2",
        ];
        assert_eq!(
            by_field(&found.map(str::to_owned)),
            [
                "1 differences of name, such as /jobs.said.name: a and b",
                "2 differences of time, such as /stages.said[0].time: 1 and 2"
            ]
        );
    }

    #[test]
    fn values_differ_where_they_differ_and_what_is_left_out_does_not_count() {
        let mut one = serde_json::json!({"a": [1, {"b": 2, "duration": 7}], "c": 1.0});
        let mut other = serde_json::json!({"a": [1, {"b": 3}], "c": 1, "d": null});
        without(&mut one, &UNTIL_NOW);
        without(&mut other, &UNTIL_NOW);
        let mut found = Vec::new();
        differences(&one, &other, "x", &mut found);
        assert_eq!(found, ["x.a[1].b: 2 and 3"]);
    }
}
