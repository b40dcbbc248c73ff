//! Applications in answers of the REST API, and which of them are asked for.

use firesteel_status::AppStatus;
use firesteel_types::Tick;
use serde::Serialize;

use super::json::{Date, parse_date};
use super::{Answer, Query};

/// An application and its attempts, the latest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplicationEntry {
    pub id: String,
    pub name: String,
    pub attempts: Vec<AttemptEntry>,
}

/// One attempt of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptEntry {
    pub id: Option<String>,
    pub started: Tick,
    /// `None` while it runs, or if its log has no end.
    pub ended: Option<Tick>,
    /// When its log was changed last; of a running application, when it started.
    pub updated: Tick,
    pub user: String,
    pub version: String,
    pub exit_code: Option<i32>,
    /// Whether it is over, as far as anybody can tell.
    pub completed: bool,
    /// The log's directory, if it comes from a log.
    pub source: Option<String>,
}

impl ApplicationEntry {
    /// Of a running application.
    pub fn live(status: &AppStatus) -> Self {
        let application = status.application();
        let attempt = AttemptEntry {
            id: application.attempt_id.clone(),
            started: application.started,
            ended: application.ended,
            updated: application.started,
            user: application.user.clone(),
            version: application.version.clone(),
            exit_code: application.exit_code,
            completed: application.ended.is_some(),
            source: None,
        };
        let (id, name) = (application.id.clone(), application.name.clone());
        ApplicationEntry { id, name, attempts: vec![attempt] }
    }
}

/// `ApplicationInfo`
#[derive(Serialize)]
pub(super) struct ApplicationData<'a> {
    id: &'a str,
    name: &'a str,
    attempts: Vec<AttemptData<'a>>,
}

/// `ApplicationAttemptInfo`
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AttemptData<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt_id: Option<&'a str>,
    start_time: Date,
    end_time: Date,
    last_updated: Date,
    duration: u64,
    spark_user: &'a str,
    completed: bool,
    app_spark_version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    log_source_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    log_source_full_path: Option<&'a str>,
    start_time_epoch: i64,
    end_time_epoch: i64,
    last_updated_epoch: i64,
}

impl<'a> ApplicationData<'a> {
    pub(super) fn of(entry: &'a ApplicationEntry, now: Tick) -> Self {
        let attempts = entry.attempts.iter().map(|attempt| AttemptData::of(attempt, now));
        ApplicationData { id: &entry.id, name: &entry.name, attempts: attempts.collect() }
    }
}

impl<'a> AttemptData<'a> {
    pub(super) fn of(attempt: &'a AttemptEntry, now: Tick) -> Self {
        let (start, updated) = (Date::of(attempt.started), Date::of(attempt.updated));
        let end = attempt.ended.map_or(Date(-1), Date::of);
        // Of a log without an end, what is known: until it was changed last.
        let until = match (&attempt.source, attempt.ended) {
            (_, Some(ended)) => ended,
            (Some(_), None) => attempt.updated,
            (None, None) => now,
        };
        AttemptData {
            attempt_id: attempt.id.as_deref(),
            start_time: start,
            end_time: end,
            last_updated: updated,
            duration: until.since_ms(attempt.started),
            spark_user: &attempt.user,
            completed: attempt.completed,
            app_spark_version: &attempt.version,
            exit_code: attempt.exit_code,
            log_source_name: attempt.source.as_deref(),
            log_source_full_path: attempt.source.as_deref(),
            start_time_epoch: start.0,
            end_time_epoch: end.0,
            last_updated_epoch: updated.0,
        }
    }
}

/// Which applications a request asks for.
pub(super) struct Wanted {
    completed: bool,
    running: bool,
    started: (i64, i64),
    ended: (i64, i64),
    limit: usize,
}

/// The first and last date that requests leave out.
const FIRST: &str = "2010-01-01";
const LAST: &str = "3000-01-01";

impl Wanted {
    pub(super) fn of(query: &Query) -> Result<Self, Answer> {
        let states = query.states("status", &["COMPLETED", "RUNNING"])?;
        let all = states.is_empty();
        let date = |name: &str, default: &str| {
            let text = query.get(name).unwrap_or(default);
            parse_date(text).ok_or_else(|| {
                let text = format!("Couldn't parse date: {text}");
                Answer { content_type: super::JSON, ..Answer::text(400, text) }
            })
        };
        Ok(Wanted {
            completed: all || states.iter().any(|state| state == "COMPLETED"),
            running: all || states.iter().any(|state| state == "RUNNING"),
            started: (date("minDate", FIRST)?, date("maxDate", LAST)?),
            ended: (date("minEndDate", FIRST)?, date("maxEndDate", LAST)?),
            limit: query.number("limit")?.unwrap_or(usize::MAX),
        })
    }

    fn includes(&self, entry: &ApplicationEntry, now: Tick) -> bool {
        let running = entry.attempts.first().is_none_or(|attempt| !attempt.completed);
        let in_state = if running { self.running } else { self.completed };
        in_state && entry.attempts.iter().any(|attempt| self.in_range(attempt, running, now))
    }

    fn in_range(&self, attempt: &AttemptEntry, running: bool, now: Tick) -> bool {
        let within = |date: i64, (first, last): (i64, i64)| (first..=last).contains(&date);
        let ended = attempt.ended.map_or(-1, |ended| Date::of(ended).0);
        let end_is_right = match running {
            true => self.ended.1 > Date::of(now).0,
            false => within(ended, self.ended),
        };
        within(Date::of(attempt.started).0, self.started) && end_is_right
    }

    pub(super) fn of_all<'a>(
        &self,
        all: &'a [ApplicationEntry],
        now: Tick,
    ) -> Vec<ApplicationData<'a>> {
        let wanted = all.iter().filter(|entry| self.includes(entry, now)).take(self.limit);
        wanted.map(|entry| ApplicationData::of(entry, now)).collect()
    }
}
