//! Metrics of applications by Spark's names: `/metrics/json`, `/metrics/prometheus`, `/metrics/executors/prometheus`.
//!
//! | file | owns |
//! |---|---|
//! | `application` | what the status of an application says: scheduler, blocks, tasks, shuffles |
//! | `executors` | the executors of an application, for Prometheus |

mod application;
mod executors;

use firesteel_metrics::{json, prometheus};

use crate::rest::{Answer, Applications};

pub use application::application;

const TEXT: &str = "text/plain;charset=utf-8";
const JSON: &str = "text/json;charset=utf-8";

/// The answer to a path below `/metrics`; `None`: nothing is there.
pub(crate) fn answer(applications: &dyn Applications, path: &str) -> Option<Answer> {
    let path = path.strip_suffix('/').unwrap_or(path);
    let (content_type, body) = match path {
        "/metrics/json" => (JSON, json(&applications.metrics()?)),
        "/metrics/prometheus" => (TEXT, prometheus(&applications.metrics()?)),
        "/metrics/executors/prometheus" => (TEXT, executors::prometheus(applications)?),
        _ => return None,
    };
    Some(Answer::whole(200, content_type, body.into_bytes()))
}
