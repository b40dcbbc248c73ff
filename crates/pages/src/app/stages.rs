//! All stage attempts.

use std::cmp::Ordering;

use firesteel_status::{AppStatus, Order, Paging, StageState, StageStatus};
use maud::{Markup, html};

use super::{named, said, size, task_time_ms};
use crate::badge;
use crate::chart::progress;
use crate::frame::Frame;
use crate::list::{self, Column, Listing, number_column, text_column};
use crate::text::{count, millis};

const COLUMNS: [Column; 11] = [
    number_column("Stage", "id"),
    text_column("Name", "name"),
    text_column("State", "state"),
    number_column("Duration", "duration"),
    number_column("Task time", "time"),
    text_column("Tasks", "tasks"),
    number_column("Input", "input"),
    number_column("Output", "output"),
    number_column("Shuffle read", "read"),
    number_column("Shuffle write", "write"),
    number_column("Spill", "spill"),
];

pub(crate) fn main(frame: &Frame<'_>, status: &AppStatus) -> Markup {
    let mut listing = Listing::of(&frame.query, "id", Order::Descending);
    let every = status.stages(|_| true, Order::Ascending, Paging::ALL).items;
    let wanted = every.iter().copied().filter(|stage| is_wanted(frame, &listing, stage)).collect();
    let sort = listing.sort.clone();
    let (stages, total) = listing.cut(wanted, |a, b| compare(frame, &sort, a, b));
    let rows = stages.iter().map(|stage| row(frame, stage)).collect();
    html! {
        h1 { "Stages" }
        (list::search(frame, &listing, "Name or id", &[("state", "State", &states(&every))]))
        @if stages.is_empty() { p.empty { "No stage is like that." } } @else {
            (list::pager(frame, &listing, total))
            (list::table(frame, &listing, "Stages", &COLUMNS, rows))
            (list::pager(frame, &listing, total))
        }
    }
}

/// Whether a stage is searched for, and in the state that is asked for.
fn is_wanted(frame: &Frame<'_>, listing: &Listing, stage: &StageStatus) -> bool {
    let state = frame.query.get("state").unwrap_or_default();
    let id = stage.info.stage.stage.to_string();
    (state.is_empty() || key(stage.state) == state) && listing.finds(&[&stage.info.name, &id])
}

/// The stages of a job, in the order of their ids unless it is asked for otherwise.
pub(crate) fn of_job(frame: &Frame<'_>, every: &[&StageStatus]) -> Markup {
    let mut listing = Listing::of(&frame.query, "id", Order::Ascending);
    let wanted = every.iter().copied().filter(|stage| is_wanted(frame, &listing, stage)).collect();
    let sort = listing.sort.clone();
    let (stages, total) = listing.cut(wanted, |a, b| compare(frame, &sort, a, b));
    let rows = stages.iter().map(|stage| row(frame, stage)).collect();
    html! {
        (list::search(frame, &listing, "Name or id", &[("state", "State", &states(every))]))
        @if stages.is_empty() { p.empty { "No stage is like that." } } @else {
            (list::table(frame, &listing, "Stages of the job", &COLUMNS, rows))
            (list::pager(frame, &listing, total))
        }
    }
}

fn key(state: StageState) -> &'static str {
    match state {
        StageState::Pending => "pending",
        StageState::Active => "active",
        StageState::Complete => "complete",
        StageState::Failed => "failed",
        StageState::Skipped => "skipped",
    }
}

fn states(every: &[&StageStatus]) -> Vec<(&'static str, String)> {
    let all = [
        StageState::Active,
        StageState::Pending,
        StageState::Complete,
        StageState::Failed,
        StageState::Skipped,
    ];
    let mut counts = all.map(|state| (key(state), 0u64));
    for stage in every {
        counts
            .iter_mut()
            .filter(|(known, _)| *known == key(stage.state))
            .for_each(|(_, count)| *count += 1);
    }
    counts.iter().map(|(known, number)| (*known, format!("{known} ({})", count(*number)))).collect()
}

/// From its submission to its end, or until now; `None` if it never ran.
pub(crate) fn duration(frame: &Frame<'_>, stage: &StageStatus) -> Option<u64> {
    let ran = !matches!(stage.state, StageState::Pending | StageState::Skipped);
    let from = stage.info.submitted.or(stage.first_task).filter(|_| ran)?;
    Some(frame.until(stage.completed).since_ms(from))
}

fn compare(frame: &Frame<'_>, sort: &str, a: &StageStatus, b: &StageStatus) -> Ordering {
    let number = |of: fn(&StageStatus) -> u64| of(a).cmp(&of(b));
    let by = match sort {
        "name" => a.info.name.cmp(&b.info.name),
        "state" => a.state.cmp(&b.state),
        "duration" => duration(frame, a).cmp(&duration(frame, b)),
        "time" => number(task_time_ms),
        "tasks" => number(|stage| stage.info.tasks.into()),
        "input" => number(|stage| stage.metrics.input_bytes),
        "output" => number(|stage| stage.metrics.output_bytes),
        "read" => number(|stage| stage.metrics.shuffle_read_bytes()),
        "write" => number(|stage| stage.metrics.shuffle_write_bytes),
        "spill" => number(|stage| stage.metrics.disk_bytes_spilled),
        _ => Ordering::Equal,
    };
    by.then(a.info.stage.cmp(&b.info.stage))
}

fn row(frame: &Frame<'_>, stage: &StageStatus) -> Vec<Markup> {
    let (metrics, info) = (&stage.metrics, &stage.info);
    vec![
        html! { a href=(frame.stage(info.stage)) { (info.stage.stage) @if info.stage.attempt > 0 { "." (info.stage.attempt) } } },
        html! { a href=(frame.stage(info.stage)) { (named(&info.name)) } },
        badge::stage(stage.state),
        duration(frame, stage).map_or_else(|| html! { span.dim { "–" } }, |ms| said(millis(ms))),
        said(millis(task_time_ms(stage))),
        progress(
            stage.completed_indices().into(),
            stage.tasks.active.into(),
            stage.tasks.failed.into(),
            info.tasks.into(),
        ),
        size(metrics.input_bytes),
        size(metrics.output_bytes),
        size(metrics.shuffle_read_bytes()),
        size(metrics.shuffle_write_bytes),
        size(metrics.disk_bytes_spilled),
    ]
}
