//! All jobs: a timeline of those in the table, and the table.

use std::cmp::Ordering;

use firesteel_status::{AppStatus, JobState, JobStatus, Order, Paging};
use firesteel_types::{ExecutorId, Tick};
use maud::{Markup, html};

use super::{executor_name, job_name, named, said};
use crate::badge;
use crate::chart::progress;
use crate::chart::timeline::{self, Entry, Moment};
use crate::frame::Frame;
use crate::list::{self, Column, Listing, number_column, text_column};
use crate::text::{count, millis, time};

const COLUMNS: [Column; 7] = [
    number_column("Job", "id"),
    text_column("Description", "name"),
    text_column("State", "state"),
    text_column("Submitted", "submitted"),
    number_column("Duration", "duration"),
    text_column("Stages", "stages"),
    text_column("Tasks", "tasks"),
];

/// So many executors that came or were lost are drawn.
const MOMENTS: usize = 100;

pub(crate) fn main(frame: &Frame<'_>, status: &AppStatus) -> Markup {
    let mut listing = Listing::of(&frame.query, "id", Order::Descending);
    let state = frame.query.get("state").unwrap_or_default();
    let wanted = |job: &JobStatus| {
        let group = job.properties.group().unwrap_or_default();
        (state.is_empty() || state_key(job) == state)
            && listing.finds(&[job_name(job), &job.name, group, &job.job.to_string()])
    };
    let all = status.jobs(wanted, Order::Ascending, Paging::ALL).items;
    let sort = listing.sort.clone();
    let (jobs, total) = listing.cut(all, |a, b| compare(frame, &sort, a, b));
    let rows = jobs.iter().map(|job| row(frame, job)).collect();
    let entries = entries(frame, &jobs);
    html! {
        h1 { "Jobs" }
        (list::search(frame, &listing, "Description, group or id", &[("state", "State", &states(status))]))
        @if jobs.is_empty() { p.empty { "No job is like that." } } @else {
            figure { figcaption { "The jobs below, over time" } (timeline::draw("Jobs over time", &entries, &moments(status, timeline::window(&entries)))) }
            (list::pager(frame, &listing, total))
            (list::table(frame, &listing, "Jobs", &COLUMNS, rows))
            (list::pager(frame, &listing, total))
        }
    }
}

fn state_key(job: &JobStatus) -> &'static str {
    match job.state {
        JobState::Running => "running",
        JobState::Succeeded => "succeeded",
        JobState::Failed { .. } => "failed",
    }
}

fn states(status: &AppStatus) -> Vec<(&'static str, String)> {
    let mut counts = [("running", 0u64), ("succeeded", 0), ("failed", 0)];
    for job in status.jobs(|_| true, Order::Ascending, Paging::ALL).items {
        counts
            .iter_mut()
            .filter(|(key, _)| *key == state_key(job))
            .for_each(|(_, count)| *count += 1);
    }
    counts.iter().map(|(key, number)| (*key, format!("{key} ({})", count(*number)))).collect()
}

fn duration(frame: &Frame<'_>, job: &JobStatus) -> u64 {
    frame.until(job.completed).since_ms(job.submitted)
}

fn compare(frame: &Frame<'_>, sort: &str, a: &JobStatus, b: &JobStatus) -> Ordering {
    let by = match sort {
        "name" => job_name(a).cmp(job_name(b)),
        "state" => state_key(a).cmp(state_key(b)),
        "submitted" => a.submitted.cmp(&b.submitted),
        "duration" => duration(frame, a).cmp(&duration(frame, b)),
        "stages" => a.stages.len().cmp(&b.stages.len()),
        "tasks" => a.tasks_total.cmp(&b.tasks_total),
        _ => Ordering::Equal,
    };
    by.then(a.job.cmp(&b.job))
}

fn entries(frame: &Frame<'_>, jobs: &[&JobStatus]) -> Vec<Entry> {
    let entry = |job: &&JobStatus| Entry {
        from: job.submitted,
        to: frame.until(job.completed),
        name: format!("{}{} {}", sign(&job.state), job.job, named(job_name(job))),
        class: match job.state {
            JobState::Running => "c-busy",
            JobState::Succeeded => "c-cpu",
            JobState::Failed { .. } => "c-bad",
        },
        link: frame.job(job.job),
    };
    jobs.iter().map(entry).collect()
}

/// In front of its name: its colour alone says nothing.
fn sign(state: &JobState) -> &'static str {
    match state {
        JobState::Running => "▶ ",
        JobState::Failed { .. } => "✕ ",
        JobState::Succeeded => "",
    }
}

/// Executors that were lost between two moments, and that came: of many, the losses.
fn moments(status: &AppStatus, (from, to): (Tick, Tick)) -> Vec<Moment> {
    let executors = || status.executors().filter(|it| it.executor != ExecutorId::DRIVER);
    let is_within = |at: Tick| from <= at && at <= to;
    let lost = executors().filter_map(|it| {
        let (at, reason) = it.removed.as_ref().filter(|(at, _)| is_within(*at))?;
        let name = executor_name(status, it.executor);
        let words = format!("Executor {name} lost: {}", named(reason));
        Some(Moment { at: *at, words, is_bad: true })
    });
    let came = executors().filter(|it| is_within(it.added)).map(|it| Moment {
        at: it.added,
        words: format!("Executor {} added", executor_name(status, it.executor)),
        is_bad: false,
    });
    lost.chain(came).take(MOMENTS).collect()
}

fn row(frame: &Frame<'_>, job: &JobStatus) -> Vec<Markup> {
    let name = job_name(job);
    let tasks = job.tasks_total.saturating_sub(job.skipped_tasks);
    vec![
        html! { a href=(frame.job(job.job)) { (job.job) } },
        html! {
            a href=(frame.job(job.job)) { (named(name)) }
            @if *name != *job.name { br; span.dim { (named(&job.name)) } }
            @if let Some(group) = job.properties.group() { br; span.dim { "group " (named(group)) } }
        },
        badge::job(&job.state),
        time(job.submitted),
        said(millis(duration(frame, job))),
        html! {
            (job.completed_stages) "/" (job.stages.len() as u32 - job.skipped_stages.min(job.stages.len() as u32))
            @if job.failed_stages > 0 { " · " span.bad { "✕ " (job.failed_stages) " failed" } }
            @if job.skipped_stages > 0 { br; span.dim { (job.skipped_stages) " skipped" } }
        },
        progress(
            job.completed_indices.into(),
            job.tasks.active.into(),
            job.tasks.failed.into(),
            tasks.into(),
        ),
    ]
}
