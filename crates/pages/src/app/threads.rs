//! What the threads of an executor or of the driver do at a moment, at Spark's path. Each look asks the executor: the page does not
//! follow the application, it is loaded again by hand.

use firesteel_monitor::rest::{Applications, Query};
use firesteel_status::AppStatus;
use firesteel_types::{ExecutorId, ThreadInfo};
use maud::{Markup, html};

use super::named;
use crate::badge::badge;
use crate::frame::{self, Frame, Tab};
use crate::list::{fixed_table, number_column, text_column};
use crate::text::{counted, millis, time};

/// Below the pages of an application.
pub(crate) const PATH: &str = "executors/threadDump";
/// So many threads are shown.
const ROWS: usize = 500;

type Refusal = (u16, String);

/// What an executor said.
pub(crate) struct Dump {
    executor: ExecutorId,
    threads: Vec<ThreadInfo>,
}

/// To the threads of an executor; `None`: nobody can be asked.
pub(crate) fn link(frame: &Frame<'_>, executor: ExecutorId) -> Option<String> {
    let id =
        if executor == ExecutorId::DRIVER { "driver".to_owned() } else { executor.to_string() };
    frame.is_live().then(|| format!("{}/{PATH}/?executorId={id}", frame.home))
}

/// Asks the executor that `query` names. Waits for its answer.
pub(crate) fn ask(
    served: &dyn Applications,
    (id, attempt): (&str, Option<&str>),
    query: &Query,
) -> Result<Dump, Refusal> {
    let refused = |status, why: &str| Err((status, why.to_owned()));
    if !served.is_live() {
        return refused(404, "Only a running application can say what its threads do.");
    }
    let executor = match query.get("executorId").unwrap_or_default() {
        "driver" => ExecutorId::DRIVER,
        text => match text.parse() {
            Ok(number) => ExecutorId(number),
            Err(_) => {
                return refused(400, "The parameter executorId has to be a number, or driver.");
            }
        },
    };
    let mut is_active = None;
    let mut look =
        |status: &AppStatus| is_active = status.executor(executor).map(|it| it.is_active());
    served.with_status(id, attempt, &mut look);
    match is_active {
        None => refused(404, "There is no such executor."),
        Some(false) => refused(404, "The executor is lost: its threads are gone."),
        Some(true) => match served.threads(executor) {
            Some(threads) => Ok(Dump { executor, threads }),
            None => refused(404, "The executor does not say what its threads do."),
        },
    }
}

pub(crate) fn page(
    frame: &Frame<'_>,
    status: &AppStatus,
    dump: Result<&Dump, &Refusal>,
) -> Result<Markup, Refusal> {
    let dump = dump.map_err(Clone::clone)?;
    let title = format!("Threads of executor {}", super::executor_name(status, dump.executor));
    let main = main(frame, &title, dump);
    Ok(frame::still_page(frame, status, Tab::Executors, &title, &main))
}

fn main(frame: &Frame<'_>, title: &str, dump: &Dump) -> Markup {
    let columns = [
        number_column("Id", ""),
        text_column("Thread", ""),
        text_column("State", ""),
        text_column("Waits in", ""),
        number_column("Processor time", ""),
    ];
    let used = |it: &ThreadInfo| it.user_ms.saturating_add(it.system_ms);
    let mut threads: Vec<&ThreadInfo> = dump.threads.iter().collect();
    threads.sort_by_key(|it| (it.task.is_none(), std::cmp::Reverse(used(it)), it.id));
    let rows = threads.iter().take(ROWS).map(|it| {
        vec![
            html! { (it.id) },
            html! { @if let Some(task) = &it.task { (named(task)) br; } span.dim { (named(&it.name)) } },
            state(it.state),
            html! { @match &it.waits_in { Some(place) => code { (named(place)) }, None => span.dim { "–" } } },
            html! { (millis(used(it))) },
        ]
    });
    html! {
        h1 { (title) }
        p { (counted(dump.threads.len() as u64, "thread")) ", as of " (time(frame.now)) ", those that run tasks first. Load the page again for another look, or go back to "
            a href=(frame.executor(dump.executor)) { "the executor" } "." }
        (fixed_table("Threads", &columns, rows.collect()))
        @if threads.len() > ROWS { p.dim { (counted((threads.len() - ROWS) as u64, "more thread")) " not shown." } }
    }
}

/// Of the system's letter.
fn state(letter: char) -> Markup {
    match letter {
        'R' => badge("busy", "▶", "Running"),
        'D' => badge("busy", "…", "Waiting for a disk"),
        'T' | 't' => badge("idle", "■", "Stopped"),
        'Z' | 'X' => badge("idle", "–", "Over"),
        _ => badge("idle", "…", "Waiting"),
    }
}
