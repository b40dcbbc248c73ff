//! The tasks of a stage attempt: those that run and those that took longest first, unless it is asked for otherwise.

use firesteel_status::{
    AppStatus, Order, StageStatus, TaskSelection, TaskSort, TaskState, TaskStatus,
};
use firesteel_types::TaskMetrics;
use maud::{Markup, html};

use super::{brief, executor_name, said, size};
use crate::badge;
use crate::frame::Frame;
use crate::list::{self, Column, Listing, number_column, text_column};
use crate::text::{count, micros, millis, moment, short};

const COLUMNS: [Column; 11] = [
    number_column("Task", "index"),
    text_column("State", "state"),
    text_column("Executor", "executor"),
    text_column("Locality", "locality"),
    text_column("Launched", "launched"),
    number_column("Duration", "duration"),
    number_column("CPU", "cpu"),
    number_column("Input", "input"),
    number_column("Shuffle read", "read"),
    number_column("Shuffle write", "write"),
    number_column("Spill", "spill"),
];

const STATES: [(&str, TaskState); 5] = [
    ("running", TaskState::Running),
    ("getting-result", TaskState::GettingResult),
    ("success", TaskState::Success),
    ("failed", TaskState::Failed),
    ("killed", TaskState::Killed),
];

fn sort(key: &str) -> TaskSort {
    match key {
        "index" => TaskSort::Index,
        "id" => TaskSort::Id,
        "state" => TaskSort::State,
        "executor" => TaskSort::Executor,
        "locality" => TaskSort::Locality,
        "launched" => TaskSort::Launched,
        "cpu" => TaskSort::Metric(|it| it.cpu_time_ns),
        "input" => TaskSort::Metric(|it| it.input_bytes),
        "read" => TaskSort::Metric(TaskMetrics::shuffle_read_bytes),
        "write" => TaskSort::Metric(|it| it.shuffle_write_bytes),
        "spill" => TaskSort::Metric(|it| it.disk_bytes_spilled),
        _ => TaskSort::Duration,
    }
}

/// Which tasks are asked for.
struct Wanted<'a> {
    status: &'a AppStatus,
    listing: Listing,
    state: Option<TaskState>,
    executor: Option<&'a str>,
}

impl<'a> Wanted<'a> {
    fn of(frame: &'a Frame<'_>, status: &'a AppStatus) -> Self {
        let listing = Listing::of(&frame.query, "duration", Order::Descending);
        let state = frame.query.get("state");
        let state = state.and_then(|key| STATES.iter().find(|(known, _)| *known == key));
        let executor = frame.query.get("executor").filter(|text| !text.is_empty());
        Wanted { status, listing, state: state.map(|(_, state)| *state), executor }
    }

    fn includes(&self, task: &TaskStatus) -> bool {
        let name = || executor_name(self.status, task.info.executor);
        self.state.is_none_or(|state| task.state == state)
            && self.executor.is_none_or(|wanted| name() == wanted)
            && (self.listing.search.is_empty() || is_found(self.status, task, &self.listing))
    }
}

/// The page of tasks that is asked for: takes them one after the other, together with everything else that looks at all of them.
pub(crate) struct Picked<'a> {
    wanted: Wanted<'a>,
    selection: TaskSelection<'a>,
    /// Of one task after the other, where they sort.
    metrics: TaskMetrics,
}

impl<'a> Picked<'a> {
    pub(crate) fn of(frame: &'a Frame<'_>, status: &'a AppStatus) -> Self {
        let wanted = Wanted::of(frame, status);
        let listing = &wanted.listing;
        let selection = TaskSelection::new(sort(&listing.sort), listing.order, listing.paging());
        Picked { wanted, selection, metrics: TaskMetrics::default() }
    }

    pub(crate) fn add(&mut self, task: &'a TaskStatus) {
        if self.wanted.includes(task) {
            let is_told = self.selection.sorts_by_metrics() && task.read_metrics(&mut self.metrics);
            self.selection.add(task, is_told.then_some(&self.metrics));
        }
    }
}

pub(crate) fn section(frame: &Frame<'_>, stage: &StageStatus, picked: Picked<'_>) -> Markup {
    let Picked { wanted, selection, .. } = picked;
    let (status, mut shown) = (wanted.status, wanted.listing.clone());
    let mut page = selection.page();
    if page.items.is_empty() && page.total > 0 {
        shown.limit(page.total);
        let includes = |task: &TaskStatus| wanted.includes(task);
        page = stage.tasks(includes, sort(&shown.sort), shown.order, shown.paging());
    }
    let rows = page.items.iter().map(|task| row(frame, status, task)).collect();
    let states = STATES.map(|(key, _)| (key, key.replace('-', " ")));
    html! {
        section aria-labelledby="tasks" {
            h2 #tasks { "Tasks" }
            @if u64::from(stage.tasks.completed) + u64::from(stage.tasks.failed) > stage.remembered_tasks() as u64 {
                p.dim { "Those that ended last: spark.ui.retainedTasks." }
            }
            (list::search(frame, &shown, "Index, host or error", &[("state", "State", &states)]))
            @if let Some(executor) = wanted.executor {
                p { "Those on executor " strong { (brief(executor)) } ": " a href=(format!("{}#tasks", frame.with(&[("executor", None), ("page", None)]))) { "show all" } "." }
            }
            @if page.items.is_empty() { p.empty { "No task is like that." } } @else {
                (list::pager(frame, &shown, page.total))
                (list::table(frame, &shown, "Tasks", &COLUMNS, rows))
                (list::pager(frame, &shown, page.total))
            }
        }
    }
}

fn is_found(status: &AppStatus, task: &TaskStatus, listing: &Listing) -> bool {
    let failure = task.failure.as_ref().map(ToString::to_string).unwrap_or_default();
    let executor = executor_name(status, task.info.executor);
    task.info.index.to_string() == listing.search
        || listing.finds(&[&task.info.host.0, &failure])
        || executor == listing.search
}

fn row(frame: &Frame<'_>, status: &AppStatus, task: &TaskStatus) -> Vec<Markup> {
    let (info, metrics) = (&task.info, task.metrics().unwrap_or_default());
    // A log that just ends does not tell how long a task ran.
    let ended = task.ended.or(frame.is_live().then_some(frame.now));
    let took = ended.map(|ended| ended.since_ms(info.launched));
    vec![
        html! { (count(info.index.into())) @if info.attempt > 0 { " " span.dim { "attempt " (info.attempt) } } @if info.speculative { " " span.dim { "copy" } } },
        html! {
            (badge::task(task.state))
            @if let Some(failure) = &task.failure {
                @let text = failure.to_string();
                details data-key=(format!("task-{}", info.task)) { summary { (short(text.lines().next().unwrap_or_default(), 60)) } pre tabindex="0" { (short(&text, 4000)) } }
            }
        },
        html! { a href=(frame.executor(info.executor)) { (executor_name(status, info.executor)) } " " span.dim { (brief(&info.host.0)) } },
        said(info.locality.as_str().replace('_', " ").to_lowercase()),
        said(moment(info.launched).get(11..).unwrap_or_default()),
        took.map_or_else(|| html! { span.dim { "–" } }, |took| said(millis(took))),
        said(micros(metrics.cpu_time_ns / 1000)),
        size(metrics.input_bytes),
        size(metrics.shuffle_read_bytes()),
        size(metrics.shuffle_write_bytes),
        size(metrics.disk_bytes_spilled),
    ]
}
