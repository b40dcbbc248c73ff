//! Who runs the tasks: what each executor has and does, who was lost and why, who was asked for and is not there.

use std::cmp::Ordering;

use firesteel_status::{AppStatus, ExecutorStatus, Order};
use firesteel_types::ExecutorId;
use maud::{Markup, html};

use crate::badge::badge;
use crate::chart::{gauge, usage};
use crate::frame::Frame;
use crate::list::{self, Column, Listing, number_column, text_column};
use crate::text::{bytes, count, counted, millis, percent, time};

const COLUMNS: [Column; 8] = [
    text_column("Executor", "id"),
    text_column("State", "state"),
    text_column("Slots in use", "active"),
    number_column("Tasks", "tasks"),
    number_column("Task time", "time"),
    text_column("Memory", "memory"),
    text_column("Over time", ""),
    number_column("Data", "data"),
];

pub(crate) fn main(frame: &Frame<'_>, status: &AppStatus) -> Markup {
    let mut listing = Listing::of(&frame.query, "state", Order::Ascending);
    let all: Vec<&ExecutorStatus> = status
        .executors()
        .filter(|it| {
            let reason = it.removed.as_ref().map_or("", |(_, reason)| reason);
            listing.finds(&[&status.executor_name(it.executor), &it.info.host.0, reason])
        })
        .collect();
    let sort = listing.sort.clone();
    let (executors, total) = listing.cut(all, |a, b| compare(&sort, a, b));
    let span = usage::Span::of(status, frame.end);
    let rows = executors.iter().map(|it| row(frame, status, it, &span)).collect();
    html! {
        h1 { "Executors" }
        (missing(status))
        (lost(status))
        (list::search(frame, "Executor, host or reason", &[]))
        (list::pager(frame, &listing, total))
        (span.key())
        (list::table(frame, &listing, "Executors", &COLUMNS, rows))
        (list::pager(frame, &listing, total))
    }
}

fn compare(sort: &str, a: &ExecutorStatus, b: &ExecutorStatus) -> Ordering {
    let number = |of: fn(&ExecutorStatus) -> u64| of(a).cmp(&of(b));
    let by = match sort {
        "active" => number(|it| it.tasks.active.into()),
        "tasks" => number(tasks),
        "time" => number(|it| it.task_time_ms),
        "memory" => number(|it| it.memory_used),
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

/// A sentence if fewer executors are there than the settings ask for.
fn missing(status: &AppStatus) -> Markup {
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
        @if application.ended.is_none() && !is_local {
            @if let Some(asked) = asked {
                section.alert { h2 { (counted(asked - count_alive, "executor")) " of " (asked) " missing" }
                    p { "spark.executor.instances asks for " (asked) ", and " (count_alive) " registered. The cluster has no room for more, or refuses or fails to start them: its own page says which, and the reasons below say why others were lost." } }
            } @else if let Some(asked) = asked_cores {
                section.note { p { "spark.cores.max allows " (asked) " cores, and the executors have " (cores) ": the cluster has no more for this application." } }
            }
        }
    }
}

/// Why executors were lost, each reason once.
fn lost(status: &AppStatus) -> Markup {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for executor in status.executors() {
        let Some((_, reason)) = &executor.removed else { continue };
        let name = status.executor_name(executor.executor);
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
                ul { @for (reason, names) in reasons.iter().take(10) {
                    li { strong { (counted(names.len() as u64, "executor")) } " (" (names.iter().take(10).cloned().collect::<Vec<_>>().join(", ")) @if names.len() > 10 { ", …" } "): " (reason) }
                } }
            }
        }
    }
}

fn row(
    frame: &Frame<'_>,
    status: &AppStatus,
    executor: &ExecutorStatus,
    span: &usage::Span,
) -> Vec<Markup> {
    vec![
        who(frame, status, executor),
        state(executor),
        slots(executor),
        work(executor),
        spent(executor),
        memory(executor),
        span.draw(executor),
        data(executor),
    ]
}

/// Where output can be read. A worker behind its master tells a path of the master: it leads somewhere from pages that are there too.
fn log_link(frame: &Frame<'_>, url: &str) -> Option<String> {
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
        strong #(format!("executor-{}", executor.executor)) { (status.executor_name(executor.executor)) } " "
        span.dim { (executor.info.host.0) }
        @for (name, url) in logs.take(4) {
            " " a href=(url) rel="noreferrer" { (name) }
        }
    }
}

fn state(executor: &ExecutorStatus) -> Markup {
    html! {
        @match &executor.removed {
            Some((at, reason)) => { (badge("bad", "✕", "Lost")) " " (time(*at)) br; span.dim { (reason) } }
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

fn work(executor: &ExecutorStatus) -> Markup {
    html! {
        (count(tasks(executor)))
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
    let peak = executor.peak.map_or(0, |peak| peak.resident_memory.max(peak.managed.heap));
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
