//! The REST API, described: `/api/v1/openapi.json`. Fields of answers are those of Spark's documentation and are not repeated.

use serde_json::{Map, Value, json};

/// A path below `/applications/{appId}`, what it answers, and its parameters.
type Resource = (&'static str, &'static str, &'static [&'static str]);

const RESOURCES: [Resource; 20] = [
    ("", "one application", &[]),
    ("/{attemptId}", "one attempt of an application", &[]),
    ("/jobs", "jobs, the latest first", &["status"]),
    ("/jobs/{jobId}", "one job", &[]),
    (
        "/stages",
        "stage attempts, the latest first",
        &["status", "details", "taskStatus", "withSummaries", "quantiles"],
    ),
    (
        "/stages/{stageId}",
        "all attempts of a stage",
        &["details", "taskStatus", "withSummaries", "quantiles"],
    ),
    (
        "/stages/{stageId}/{stageAttemptId}",
        "one attempt of a stage",
        &["details", "taskStatus", "withSummaries", "quantiles"],
    ),
    (
        "/stages/{stageId}/{stageAttemptId}/taskSummary",
        "quantiles of what tasks cost",
        &["quantiles"],
    ),
    (
        "/stages/{stageId}/{stageAttemptId}/taskList",
        "tasks",
        &["offset", "length", "sortBy", "status"],
    ),
    ("/executors", "executors that live", &[]),
    ("/executors/{executorId}/threads", "what the threads of an executor do", &[]),
    ("/allexecutors", "all executors", &[]),
    ("/allmiscellaneousprocess", "processes that are neither its driver nor executors", &[]),
    ("/storage/rdd", "RDDs that are cached", &[]),
    ("/storage/rdd/{rddId}", "one of them, with its partitions", &[]),
    ("/environment", "settings, without secrets", &[]),
    ("/insights", "what could be better, in words", &["jobId"]),
    ("/sql", "always empty", &[]),
    ("/streaming/statistics", "there are no streams", &[]),
    ("/logs", "event logs as a zip archive", &[]),
];

/// Parameters of the list of applications.
const LISTED: [&str; 6] = ["status", "minDate", "maxDate", "minEndDate", "maxEndDate", "limit"];

fn kind(name: &str) -> &'static str {
    match name {
        "offset" | "length" | "limit" | "jobId" | "stageId" | "stageAttemptId" | "rddId" => {
            "integer"
        }
        "details" | "withSummaries" => "boolean",
        _ => "string",
    }
}

fn parameter(name: &str, place: &str) -> Value {
    json!({
        "name": name,
        "in": place,
        "required": place == "path",
        "schema": { "type": kind(name) },
    })
}

/// The names in braces.
fn named(path: &str) -> impl Iterator<Item = &str> {
    path.split('{').skip(1).filter_map(|rest| rest.split('}').next())
}

fn operation(path: &str, summary: &str, parameters: &[&str]) -> Value {
    let in_path = named(path).map(|name| parameter(name, "path"));
    let in_query = parameters.iter().map(|name| parameter(name, "query"));
    let media = match path.ends_with("/logs") {
        true => json!({ "application/octet-stream": {} }),
        false => json!({ "application/json": {} }),
    };
    json!({
        "get": {
            "summary": summary,
            "parameters": in_path.chain(in_query).collect::<Vec<_>>(),
            "responses": {
                "200": { "description": summary, "content": media },
                "400": { "description": "a parameter cannot be" },
                "404": { "description": "there is no such thing" },
            },
        },
    })
}

pub(super) fn describe() -> Value {
    let mut paths = Map::new();
    paths.insert("/version".into(), operation("/version", "the version of Firesteel", &[]));
    let all = operation("/applications", "all applications", &LISTED);
    paths.insert("/applications".into(), all);
    for (rest, summary, parameters) in RESOURCES {
        let path = format!("/applications/{{appId}}{rest}");
        let described = operation(&path, summary, parameters);
        paths.insert(path, described);
        if !rest.is_empty() && rest != "/{attemptId}" {
            let path = format!("/applications/{{appId}}/{{attemptId}}{rest}");
            let described = operation(&path, summary, parameters);
            paths.insert(path, described);
        }
    }
    json!({
        "openapi": "3.0.3",
        "info": { "title": "Firesteel: Spark's REST API", "version": env!("CARGO_PKG_VERSION") },
        "servers": [{ "url": "/api/v1" }],
        "paths": paths,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::resources::NAMES;

    #[test]
    fn every_resource_is_described_with_its_parameters() {
        let described = describe();
        let paths = described["paths"].as_object().unwrap();
        for name in NAMES {
            let prefix = format!("/applications/{{appId}}/{name}");
            assert!(paths.keys().any(|path| path.starts_with(&prefix)), "{name}");
        }
        let list = "/applications/{appId}/{attemptId}/stages/{stageId}/{stageAttemptId}/taskList";
        let parameters = paths[list]["get"]["parameters"].as_array().unwrap();
        let named: Vec<_> = parameters.iter().map(|it| it["name"].as_str().unwrap()).collect();
        assert_eq!(
            named,
            [
                "appId",
                "attemptId",
                "stageId",
                "stageAttemptId",
                "offset",
                "length",
                "sortBy",
                "status"
            ]
        );
        assert!(parameters.iter().take(4).all(|it| it["in"] == "path" && it["required"] == true));
    }
}
