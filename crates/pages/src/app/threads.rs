//! What the threads of an executor or of the driver do at a moment, at Spark's path. Each look asks the executor: the page does not
//! follow the application, it is loaded again by hand.

use std::cmp::{Ordering, Reverse};

use firesteel_monitor::rest::{Applications, Query};
use firesteel_status::{AppStatus, Order};
use firesteel_types::{ExecutorId, ThreadInfo};
use maud::{Markup, html};

use super::named;
use crate::badge::badge;
use crate::frame::{self, Frame, Tab};
use crate::list::{Column, Listing, Part, number_column, text_column};
use crate::text::{counted, millis, time};

/// Below the pages of an application.
pub(crate) const PATH: &str = "executors/threadDump";

const COLUMNS: [Column; 5] = [
    number_column("Id", "id"),
    text_column("Thread", "name"),
    text_column("State", "state"),
    text_column("Waits in", "waits"),
    number_column("Processor time", "time"),
];

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

/// What it says it does: its task, or else its own name.
fn name(thread: &ThreadInfo) -> &str {
    thread.task.as_deref().unwrap_or(&thread.name)
}

fn used_ms(thread: &ThreadInfo) -> u64 {
    thread.user_ms.saturating_add(thread.system_ms)
}

/// Those that run tasks first, and of all those that used most, unless it is asked for otherwise.
fn compare(sort: &str, a: &ThreadInfo, b: &ThreadInfo) -> Ordering {
    let by = match sort {
        "id" => Ordering::Equal,
        "name" => name(a).cmp(name(b)),
        "state" => a.state.cmp(&b.state),
        "waits" => a.waits_in.cmp(&b.waits_in),
        "time" => used_ms(a).cmp(&used_ms(b)),
        _ => (a.task.is_none(), Reverse(used_ms(a))).cmp(&(b.task.is_none(), Reverse(used_ms(b)))),
    };
    by.then(a.id.cmp(&b.id))
}

fn row(thread: &ThreadInfo) -> Vec<Markup> {
    vec![
        html! { (thread.id) },
        html! { @if let Some(task) = &thread.task { (named(task)) br; } span.dim { (named(&thread.name)) } },
        state(thread.state),
        html! { @match &thread.waits_in { Some(place) => code { (named(place)) }, None => span.dim { "–" } } },
        html! { (millis(used_ms(thread))) },
    ]
}

fn main(frame: &Frame<'_>, title: &str, dump: &Dump) -> Markup {
    let part = Part {
        listing: Listing::of(&frame.query, "", Order::Ascending),
        label: "Threads",
        search: "Thread, task or where it waits",
        columns: &COLUMNS,
        items: dump.threads.iter().collect(),
    };
    let is_found = |listing: &Listing, it: &&ThreadInfo| {
        let words = [&it.task, &it.waits_in].map(|text| text.as_deref().unwrap_or_default());
        listing.finds(&[&it.name, words[0], words[1]])
    };
    html! {
        h1 { (title) }
        p { (counted(dump.threads.len() as u64, "thread")) ", as of " (time(frame.now)) ", those that run tasks first. Load the page again for another look, or go back to "
            a href=(frame.executor(dump.executor)) { "the executor" } "." }
        p.dim { "Of each thread its state, its processor time and where in the system it waits. Its calls are not told: a process cannot look at its own; gdb -p can, on its machine." }
        (part.draw(frame, is_found, |sort, a, b| compare(sort, a, b), |it| row(it)))
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
