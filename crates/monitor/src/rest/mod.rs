//! The REST API `/api/v1`: an answer for each path, from the status of applications and from nothing else. Paths,
//! parameters, fields, dates and texts of errors are Spark's. No sockets here: [`answer`] is a function.
//!
//! | file | owns |
//! |---|---|
//! | `applications` | the list of applications, which of them are asked for |
//! | `resources` | what can be asked of one application |
//! | `stages`, `tasks`, `distributions`, `executors`, `insights` | the objects in answers |
//! | `query` | parameters |
//! | `openapi` | all of it, described |
//! | `json` | how JSON is laid out, dates |

mod applications;
mod distributions;
mod executors;
mod insights;
mod json;
mod openapi;
mod query;
mod resources;
mod stages;
mod tasks;

use std::io;

use firesteel_conf::Redaction;
use firesteel_metrics::Metrics;
use firesteel_status::AppStatus;
use firesteel_types::{ExecutorId, JobId, StageId, ThreadInfo, Tick};
use serde::Serialize;

use crate::archive::Archive;
use crate::metrics;
use applications::{ApplicationData, AttemptData, Wanted};

pub use applications::{ApplicationEntry, AttemptEntry};
pub(crate) use executors::{max_tasks, times};
pub use json::{date_text, parse_date};
pub use query::{Query, decoded};

/// Applications that can be asked for: one that runs, or many in logs.
pub trait Applications {
    /// All of them, in the order of the list.
    fn list(&self) -> Vec<ApplicationEntry>;

    /// `None`: there is no application of this id.
    fn find(&self, id: &str) -> Option<ApplicationEntry> {
        self.list().into_iter().find(|entry| entry.id == id)
    }

    /// Looks at the status of an attempt; `false`: there is none, or it cannot be read.
    fn with_status(
        &self,
        id: &str,
        attempt: Option<&str>,
        look: &mut dyn FnMut(&AppStatus),
    ) -> bool;

    /// The same; an error: there is one, and it cannot be read now.
    fn read_status(
        &self,
        id: &str,
        attempt: Option<&str>,
        look: &mut dyn FnMut(&AppStatus),
    ) -> io::Result<bool> {
        Ok(self.with_status(id, attempt, look))
    }

    /// Whether the application runs in this very process.
    fn is_live(&self) -> bool;

    /// The metrics of this process; `None`: it has none.
    fn metrics(&self) -> Option<Metrics> {
        None
    }

    /// Whether Prometheus is told of the executors of the application in this process.
    fn tells_executors(&self) -> bool {
        false
    }

    /// What the threads of an executor, or of the driver, do; `None`: nobody can tell. May wait for the executor's answer.
    fn threads(&self, _executor: ExecutorId) -> Option<Vec<ThreadInfo>> {
        None
    }

    /// Who ends jobs of the application that runs in this process; `None`: nobody may, or none runs here.
    fn control(&self) -> Option<&dyn Control> {
        None
    }

    /// The logs of an application, or of one attempt, as a zip archive; `None`: there is no such application.
    fn logs(&self, id: &str, attempt: Option<&str>) -> Option<io::Result<Archive>>;

    /// The same, if `may_see` says so of the status of every log of which there is something in the archive.
    fn logs_seen(
        &self,
        id: &str,
        attempt: Option<&str>,
        may_see: &mut dyn FnMut(&AppStatus) -> bool,
    ) -> Option<io::Result<Archive>> {
        let attempts = self.find(id)?.attempts;
        let is_asked_for = |it: Option<&str>| attempt.is_none() || it == attempt;
        for it in attempts.iter().map(|it| it.id.as_deref()).filter(|it| is_asked_for(*it)) {
            let mut is_seen = false;
            match self.read_status(id, it, &mut |status| is_seen = may_see(status)) {
                Ok(_) if is_seen => {}
                Ok(_) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
        self.logs(id, attempt)
    }
}

/// Ends what runs. Neither waits until it has ended.
pub trait Control {
    fn kill_job(&self, job: JobId, reason: &str);
    fn kill_stage(&self, stage: StageId, reason: &str);
}

/// A request for something.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// Begins with `/api/v1`.
    pub path: &'a str,
    /// What stands behind the question mark.
    pub query: &'a str,
    /// Where it was asked for, as pages of errors repeat it: `127.0.0.1:4040`.
    pub host: &'a str,
    pub now: Tick,
}

const JSON: &str = "application/json";
const TEXT: &str = "text/plain";
const HTML: &str = "text/html;charset=iso-8859-1";

/// What a client gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub content_type: &'static str,
    pub body: Vec<u8>,
    /// The name of a file to be saved.
    pub attachment: Option<String>,
    /// Made while it is sent, instead of the body.
    pub archive: Option<Archive>,
}

impl Answer {
    pub(crate) fn whole(status: u16, content_type: &'static str, body: Vec<u8>) -> Self {
        Answer { status, content_type, body, attachment: None, archive: None }
    }

    fn json(value: &impl Serialize) -> Self {
        Answer::whole(200, JSON, json::body(value))
    }

    pub(crate) fn text(status: u16, text: String) -> Self {
        Answer::whole(status, TEXT, text.into_bytes())
    }

    /// Of a parameter that cannot be, whatever the path: Spark's web server answers then, not its API.
    fn not_found() -> Self {
        Answer::whole(404, HTML, Vec::new())
    }

    /// The page that Spark's web server shows.
    fn with_page(self, ask: &Ask<'_>) -> Self {
        if self.content_type != HTML {
            return self;
        }
        let query = if ask.query.is_empty() { String::new() } else { format!("?{}", ask.query) };
        let uri = escape(&format!("http://{}{}{query}", ask.host, ask.path));
        let body = format!(
            "<html>\n<head>\n<meta http-equiv=\"Content-Type\" content=\"text/html;charset=ISO-8859-1\"/>\n\
             <title>Error 404 Not Found</title>\n</head>\n<body>\n<h2>HTTP ERROR 404 Not Found</h2>\n<table>\n\
             <tr><th>URI:</th><td>{uri}</td></tr>\n<tr><th>STATUS:</th><td>404</td></tr>\n\
             <tr><th>MESSAGE:</th><td>Not Found</td></tr>\n</table>\n\n</body>\n</html>\n"
        );
        Answer { body: body.into_bytes(), ..self }
    }
}

/// What was asked for is shown in a page: it must not become a part of it.
fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;")
}

/// The version that `/api/v1/version` tells.
#[derive(Serialize)]
struct Version<'a> {
    spark: &'a str,
}

/// Answers a GET, also of a path that does not exist.
pub fn answer(applications: &dyn Applications, secrets: &Redaction, ask: &Ask<'_>) -> Answer {
    if let Some(answer) = metrics::answer(applications, ask.path) {
        return answer;
    }
    let found = route(applications, secrets, ask);
    found.unwrap_or_else(|refusal| refusal).with_page(ask)
}

fn route(
    applications: &dyn Applications,
    secrets: &Redaction,
    ask: &Ask<'_>,
) -> Result<Answer, Answer> {
    let query = Query::parse(ask.query);
    let path = ask.path.strip_prefix("/api/v1").ok_or_else(Answer::not_found)?;
    let parts: Vec<String> = path.split('/').filter(|part| !part.is_empty()).map(decoded).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    match parts.as_slice() {
        ["version"] => Ok(Answer::json(&Version { spark: env!("CARGO_PKG_VERSION") })),
        ["openapi.json"] => Ok(Answer::json(&openapi::describe())),
        ["applications"] => {
            let wanted = Wanted::of(&query)?;
            Ok(Answer::json(&wanted.of_all(&applications.list(), ask.now)))
        }
        ["applications", id] => match applications.find(id) {
            Some(entry) => Ok(Answer::json(&ApplicationData::of(&entry, ask.now))),
            None => Err(Answer::text(404, format!("unknown app: {id}"))),
        },
        ["applications", id, resource, rest @ ..] if resources::NAMES.contains(resource) => {
            let asked = resources::Asked { id, attempt: None, resource, rest };
            asked.answer(applications, secrets, &query, ask)
        }
        ["applications", id, attempt] => one_attempt(applications, id, attempt, ask),
        ["applications", id, attempt, resource, rest @ ..]
            if resources::NAMES.contains(resource) =>
        {
            let asked = resources::Asked { id, attempt: Some(attempt), resource, rest };
            asked.answer(applications, secrets, &query, ask)
        }
        ["applications", ..] => Err(Answer::text(404, ask.path.to_owned())),
        _ => Err(Answer::not_found()),
    }
}

fn one_attempt(
    applications: &dyn Applications,
    id: &str,
    attempt: &str,
    ask: &Ask<'_>,
) -> Result<Answer, Answer> {
    let entry = applications.find(id);
    let mut attempts = entry.iter().flat_map(|entry| &entry.attempts);
    match attempts.find(|found| found.id.as_deref() == Some(attempt)) {
        Some(found) => Ok(Answer::json(&AttemptData::of(found, ask.now))),
        None => Err(Answer::text(404, format!("unknown app {id}, attempt {attempt}"))),
    }
}
