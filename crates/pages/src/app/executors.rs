//! Who runs the tasks: what each executor has and does, who was lost and why, who was asked for and is not there.

use std::cmp::{Ordering, Reverse};

use firesteel_status::{AppStatus, ExecutorStatus, Order, Paging, StageStatus};
use firesteel_types::ExecutorId;
use maud::{Markup, html};

use super::{brief, executor_name, named, threads};
use crate::badge::badge;
use crate::chart::{gauge, usage};
use crate::frame::{Frame, Place, Tab};
use crate::list::{self, Column, Listing, number_column, text_column};
use crate::text::{bytes, count, counted, millis, percent, short, time};

/// So many characters of why executors were lost, or are missing.
const REASON: usize = 2000;
/// So many reasons, and executors of each, are named.
const NAMED: usize = 10;
/// So many devices and attributes of an executor are named, and links to its logs and tasks.
const ATTRIBUTES: usize = 20;
const LOGS: usize = 4;
const STAGES: usize = 3;
/// Of so many stages, those that were made last.
const RECENT: usize = 1000;

const COLUMNS: [Column; 8] = [
    text_column("Executor", "id"),
    text_column("State", "state"),
    text_column("Slots in use", "active"),
    number_column("Tasks", "tasks"),
    number_column("Task time", "time"),
    text_column("Memory", "memory"),
    text_column("Over time", "peak"),
    number_column("Data", "data"),
];

pub(crate) fn main(frame: &Frame<'_>, status: &AppStatus) -> Markup {
    let mut listing = Listing::of(&frame.query, "state", Order::Ascending);
    let all: Vec<&ExecutorStatus> = status
        .executors()
        .filter(|it| {
            let reason = it.removed.as_ref().map_or("", |(_, reason)| reason);
            let asked = frame.query.get("state").unwrap_or_default();
            (asked.is_empty() || asked == state_key(it))
                && listing.finds(&[&status.executor_name(it.executor), &it.info.host.0, reason])
        })
        .collect();
    let sort = listing.sort.clone();
    // A link to an executor leads to the page of the list that has it.
    let at = frame.query.get("at").filter(|_| frame.query.get("page").is_none());
    let is_it = |it: &&ExecutorStatus| at.is_some_and(|at| it.executor.to_string() == at);
    let (executors, total) = listing.cut_at(all, |a, b| compare(&sort, a, b), is_it);
    let span = usage::Span::of(status, frame.end);
    let recent = Paging { offset: 0, length: RECENT };
    let ran = |stage: &StageStatus| !stage.executors.is_empty();
    let stages = status.stages(ran, Order::Descending, recent).items;
    let rows = executors.iter().map(|it| row(frame, status, it, &span, &stages)).collect();
    html! {
        h1 { "Executors" }
        (missing(frame, status))
        (lost(status))
        (list::search(frame, &listing, "Executor, host or reason", &[("state", "State", &states(status))]))
        (list::pager(frame, &listing, total))
        (span.key())
        (list::table(frame, &listing, "Executors", &COLUMNS, rows))
        (list::pager(frame, &listing, total))
    }
}

fn state_key(executor: &ExecutorStatus) -> &'static str {
    match (&executor.removed, executor.is_excluded) {
        (Some(_), _) => "lost",
        (None, true) => "excluded",
        (None, false) => "alive",
    }
}

fn states(status: &AppStatus) -> Vec<(&'static str, String)> {
    let word = |key| {
        let number = status.executors().filter(|it| state_key(it) == key).count();
        (key, format!("{key} ({})", count(number as u64)))
    };
    ["alive", "excluded", "lost"].map(word).into()
}

/// The most memory that its process had.
fn peak(executor: &ExecutorStatus) -> u64 {
    executor.peak.map_or(0, |peak| peak.resident_memory.max(peak.managed.heap))
}

fn compare(sort: &str, a: &ExecutorStatus, b: &ExecutorStatus) -> Ordering {
    let number = |of: fn(&ExecutorStatus) -> u64| of(a).cmp(&of(b));
    let by = match sort {
        "active" => number(|it| it.tasks.active.into()),
        "tasks" => number(tasks),
        "time" => number(|it| it.task_time_ms),
        "memory" => number(|it| it.memory_used),
        "peak" => number(peak),
        "data" => {
            number(|it| it.metrics.input_bytes.saturating_add(it.metrics.shuffle_read_bytes()))
        }
        "state" => a.removed.is_some().cmp(&b.removed.is_some()),
        _ => Ordering::Equal,
    };
    by.then(a.executor.cmp(&b.executor))
}

fn tasks(executor: &ExecutorStatus) -> u64 {
    let counts = executor.tasks;
    [counts.active, counts.completed, counts.failed, counts.killed]
        .iter()
        .map(|it| u64::from(*it))
        .sum()
}

/// Why executors are missing, as the cluster says. While it says nothing, how many of those are there that settings ask for.
fn missing(frame: &Frame<'_>, status: &AppStatus) -> Markup {
    let application = status.application();
    let setting = |key: &str| {
        application
            .properties
            .iter()
            .find(|(known, _)| known == key)
            .and_then(|(_, value)| value.parse::<u64>().ok())
    };
    let alive = status.executors().filter(|it| it.is_active() && it.executor != ExecutorId::DRIVER);
    let (count_alive, cores) = alive
        .fold((0u64, 0u64), |(count, cores), it| (count + 1, cores + u64::from(it.info.cores)));
    let asked = setting("spark.executor.instances").filter(|asked| *asked > count_alive);
    let asked_cores = setting("spark.cores.max").filter(|asked| *asked > cores);
    let is_local = status.executor(ExecutorId::DRIVER).is_some_and(|it| it.info.cores > 0);
    html! {
        @if frame.place == Place::Live && application.ended.is_none() {
            @if let Some(why) = status.shortage() {
                section.alert aria-labelledby="missing" {
                    h2 #missing { "✕ Executors are missing" }
                    p { (short(why, REASON)) }
                }
            } @else if let (Some(asked), false) = (asked, is_local) {
                p.note { "spark.executor.instances asks for " (counted(asked, "executor")) ": " (count_alive) " are there." }
            } @else if let (Some(asked), false) = (asked_cores, is_local) {
                p.note { "spark.cores.max allows " (counted(asked, "core")) ": the executors have " (cores) "." }
            }
        }
    }
}

/// Why executors were lost, each reason once.
fn lost(status: &AppStatus) -> Markup {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for executor in status.executors() {
        let Some((_, reason)) = &executor.removed else { continue };
        let name = executor_name(status, executor.executor);
        match reasons.iter_mut().find(|(known, _)| known == reason) {
            Some((_, names)) => names.push(name),
            None => reasons.push((reason, vec![name])),
        }
    }
    let count_lost: usize = reasons.iter().map(|(_, names)| names.len()).sum();
    html! {
        @if count_lost > 0 {
            section.alert aria-labelledby="lost" {
                h2 #lost { "✕ " (counted(count_lost as u64, "executor")) " lost" }
                ul { @for (reason, names) in reasons.iter().take(NAMED) {
                    li { strong { (counted(names.len() as u64, "executor")) } " (" (names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ")) @if names.len() > NAMED { ", …" } "): " (short(reason, REASON)) }
                } }
                @if reasons.len() > NAMED { p.dim { (counted((reasons.len() - NAMED) as u64, "more reason")) ": see the table." } }
            }
        }
    }
}

fn row(
    frame: &Frame<'_>,
    status: &AppStatus,
    executor: &ExecutorStatus,
    span: &usage::Span,
    stages: &[&StageStatus],
) -> Vec<Markup> {
    vec![
        who(frame, status, executor),
        state(executor),
        slots(executor),
        work(frame, status, executor, stages),
        spent(executor),
        memory(executor),
        span.draw(executor),
        data(executor),
    ]
}

/// Where output can be read. A worker behind its master tells a path of the master: it leads somewhere from pages that are there too.
fn log_link(frame: &Frame<'_>, url: &str) -> Option<String> {
    if url.len() > REASON {
        return None;
    }
    if url.starts_with("http://") || url.starts_with("https://") {
        return Some(url.to_owned());
    }
    let (master, _) = frame.root.split_once("/proxy/")?;
    url.starts_with("/proxy/").then(|| format!("{master}{url}"))
}

fn who(frame: &Frame<'_>, status: &AppStatus, executor: &ExecutorStatus) -> Markup {
    let logs = executor.info.log_urls.iter();
    let logs = logs.filter_map(|(name, url)| Some((name, log_link(frame, url)?)));
    html! {
        strong #(format!("executor-{}", executor.executor)) { (executor_name(status, executor.executor)) } " "
        span.dim { (brief(&executor.info.host.0)) }
        @for (name, url) in logs.take(LOGS) {
            " " a href=(url) rel="noreferrer" { (brief(name)) }
        }
        @if let Some(link) = threads::link(frame, executor.executor).filter(|_| executor.is_active()) {
            " " a href=(link) aria-label=(format!("Threads of executor {}", executor_name(status, executor.executor))) { "threads" }
        }
        (equipment(frame, executor))
    }
}

/// Devices, the profile that it was asked for with, and what its cluster manager tells of it.
fn equipment(frame: &Frame<'_>, executor: &ExecutorStatus) -> Markup {
    let info = &executor.info;
    let addresses = |all: &[String]| all.iter().take(ATTRIBUTES).cloned().collect::<Vec<_>>();
    html! {
        @for (name, all) in info.resources.iter().take(ATTRIBUTES) {
            br; span.dim { (brief(name)) " " (brief(&addresses(all).join(", "))) }
        }
        @if info.resource_profile > 0 { br; a href=(frame.tab(Tab::Environment)) { "resource profile " (info.resource_profile) } }
        @if !info.attributes.is_empty() {
            details data-key=(format!("attributes-{}", executor.executor)) {
                summary { (counted(info.attributes.len() as u64, "attribute")) }
                ul { @for (name, value) in info.attributes.iter().take(ATTRIBUTES) {
                    li { (brief(name)) ": " code { (brief(frame.secrets.apply(name, value))) } }
                } }
            }
        }
    }
}

fn state(executor: &ExecutorStatus) -> Markup {
    html! {
        @match &executor.removed {
            Some((at, reason)) => { (badge("bad", "✕", "Lost")) " " (time(*at)) br; span.dim { (named(reason)) } }
            None if executor.is_excluded => { (badge("bad", "■", "Excluded")) " " (time(executor.added)) }
            None => { (badge("good", "✓", "Alive")) " " span.dim { "since " (time(executor.added)) } }
        }
        @if !executor.excluded_in.is_empty() { br; span.bad { "excluded from " (counted(executor.excluded_in.len() as u64, "stage")) } }
    }
}

fn slots(executor: &ExecutorStatus) -> Markup {
    let (active, cores) = (u64::from(executor.tasks.active), u64::from(executor.info.cores));
    html! {
        @if cores == 0 { span.dim { "runs no tasks" } } @else {
            (gauge(active, cores, &format!("{active} of {cores} cores in use"))) span.numbers { (active) "/" (cores) }
        }
    }
}

fn work(
    frame: &Frame<'_>,
    status: &AppStatus,
    executor: &ExecutorStatus,
    stages: &[&StageStatus],
) -> Markup {
    let of = |stage: &&StageStatus| {
        let totals = stage.executors.get(&executor.executor)?;
        Some((totals.tasks.active, totals.task_time_ms, stage.info.stage))
    };
    let mut places: Vec<_> = stages.iter().filter_map(of).collect();
    places.sort_by_key(|place| Reverse(*place));
    let name = executor_name(status, executor.executor);
    html! {
        (count(tasks(executor)))
        @for (_, _, stage) in places.iter().take(STAGES) {
            br; a href=(frame.tasks_on(*stage, &name)) aria-label=(format!("Tasks of executor {name} in stage {}", stage.stage)) { "in stage " (stage.stage) }
        }
        @if executor.tasks.failed > 0 { br; span.bad { "✕ " (executor.tasks.failed) " failed" } }
        @if executor.tasks.killed > 0 { br; span.dim { (executor.tasks.killed) " killed" } }
    }
}

fn spent(executor: &ExecutorStatus) -> Markup {
    let garbage = executor.metrics.gc_time_ms;
    html! {
        (millis(executor.task_time_ms))
        @if garbage > 0 { br; span.dim { (percent(garbage, executor.task_time_ms)) " garbage collection" } }
    }
}

fn memory(executor: &ExecutorStatus) -> Markup {
    let peak = peak(executor);
    html! {
        @if executor.max_memory > 0 {
            (gauge(executor.memory_used, executor.max_memory, "Memory of blocks"))
            span.numbers { (bytes(executor.memory_used)) " of " (bytes(executor.max_memory)) " for blocks" }
        }
        @if executor.disk_used > 0 { br; span.dim { (bytes(executor.disk_used)) " on disk" } }
        @if peak > 0 { br; span.dim { "at most " (bytes(peak)) " resident" } }
    }
}

fn data(executor: &ExecutorStatus) -> Markup {
    let words: Vec<(&str, u64)> = super::volumes(&executor.metrics);
    html! { @for (name, number) in words { span.dim { (name) } " " (bytes(number)) br; } }
}
