//! One stage attempt: what its tasks cost and how they differ, when they ran and where, and what failed.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use firesteel_status::{
    AppStatus, CostReader, ExecutorTotals, Order, StageState, StageStatus, TaskCost, TaskState,
    TaskStatus,
};
use firesteel_types::{Accumulable, ExecutorId, Tick};
use maud::{Markup, html};

use super::tasks::Picked;
use super::times::Times;
use super::{
    LONGEST, brief, executor_name, facts, insights, kill, named, said, size, stages, task_time_ms,
    tasks, volumes,
};
use crate::album::{StageKey, StagePictures};
use crate::badge;
use crate::chart::spread::{self, Spread};
use crate::chart::stream::Stream;
use crate::chart::{gauge, progress, stacked};
use crate::frame::Frame;
use crate::list::{Column, Listing, Part, head_column, number_column, text_column};
use crate::text::{bytes, count, counted, key, micros, millis, short, time};

/// So many kinds of failures are shown.
const FAILURES: usize = 5;
/// Failures are told apart by so many characters.
const ALIKE: usize = 160;
/// So many jobs, other stages and attempts are named.
const NAMED: usize = 20;

/// All that one look at every task gives.
struct Look {
    duration: Spread,
    run: Spread,
    input: Spread,
    read: Spread,
    write: Spread,
    spill: Spread,
    stream: Stream,
    failures: BTreeMap<String, (u64, String)>,
    until: Tick,
    /// How long the longest of the tasks that run has run.
    running_ms: u64,
}

impl Look {
    /// `picked` gets every task as well: there may be a million of them.
    fn at<'a>(stage: &'a StageStatus, until: Tick, mut picked: Option<&mut Picked<'a>>) -> Self {
        let start = stage.first_task.or(stage.info.submitted).unwrap_or(until);
        let stream = Stream::new(start, stage.completed.unwrap_or(until).max(start));
        let [duration, run, input, read, write, spill] = std::array::from_fn(|_| Spread::default());
        let (failures, running_ms) = (BTreeMap::new(), 0);
        let mut look =
            Look { duration, run, input, read, write, spill, stream, failures, until, running_ms };
        let mut costs = CostReader::default();
        for task in stage.every_task() {
            look.add(task, task.cost(&mut costs));
            if let Some(picked) = &mut picked {
                picked.add(task);
            }
        }
        look
    }

    fn add(&mut self, task: &TaskStatus, cost: Option<TaskCost>) {
        self.stream.add(task);
        if let Some(failure) = &task.failure {
            let text = failure.to_string();
            let kind = short(text.lines().next().unwrap_or_default(), ALIKE);
            if self.failures.len() < 100 || self.failures.contains_key(&kind) {
                self.failures.entry(kind).or_insert((0, text)).0 += 1;
            }
        }
        if task.state == TaskState::Running {
            self.running_ms = self.running_ms.max(self.until.since_ms(task.info.launched));
        }
        if task.state != TaskState::Success {
            return;
        }
        self.duration.add(task.duration_ms().unwrap_or(0));
        let Some(cost) = cost else { return };
        self.run.add(cost.run_time_us);
        self.input.add(cost.input_bytes);
        self.read.add(cost.shuffle_read_bytes);
        self.write.add(cost.shuffle_write_bytes);
        self.spill.add(cost.disk_bytes_spilled);
    }
}

pub(crate) fn main(frame: &Frame<'_>, status: &AppStatus, stage: &StageStatus) -> Markup {
    let mut picked = Picked::of(frame, status);
    let pictures = drawn_or_draw(frame, status, stage, &mut picked);
    html! {
        h1 { "Stage " (stage.info.stage.stage) @if stage.info.stage.attempt > 0 { " (attempt " (stage.info.stage.attempt) ")" } ": " (named(&stage.info.name)) }
        (all_but_tasks(frame, status, stage, &pictures))
        (tasks::section(frame, stage, picked))
    }
}

/// The pictures of a stage, and the tasks that are asked for in `picked`.
fn drawn_or_draw<'a>(
    frame: &Frame<'_>,
    status: &AppStatus,
    stage: &'a StageStatus,
    picked: &mut Picked<'a>,
) -> Arc<StagePictures> {
    let (key, album) = (StageKey::of(status, stage), frame.known.album());
    if let Some(pictures) = key.as_ref().and_then(|key| album.find(key)) {
        stage.every_task().for_each(|task| picked.add(task));
        return pictures;
    }
    let look = Look::at(stage, frame.until(stage.completed), Some(picked));
    let pictures = Arc::new(draw(status, stage, look));
    if let Some(key) = key {
        album.add(key, pictures.clone());
    }
    pictures
}

/// Everything but the list of tasks.
pub(crate) fn pictures(frame: &Frame<'_>, status: &AppStatus, stage: &StageStatus) -> Markup {
    let look = Look::at(stage, frame.until(stage.completed), None);
    all_but_tasks(frame, status, stage, &draw(status, stage, look))
}

/// What needs a look at every task. Nothing else goes in here: it is shown again while the stage stays as it is.
fn draw(status: &AppStatus, stage: &StageStatus, look: Look) -> StagePictures {
    let far_ms = if look.duration.max() > 0 { look.duration.far() } else { 0 };
    StagePictures {
        failed: failed(stage, &look.failures),
        spreads: spreads(&look),
        stream: look.stream.draw(status, far_ms),
    }
}

fn all_but_tasks(
    frame: &Frame<'_>,
    status: &AppStatus,
    stage: &StageStatus,
    pictures: &StagePictures,
) -> Markup {
    html! {
        (summary(frame, status, stage))
        (insights::of_stage(frame, status, stage))
        (pictures.failed)
        @if stage.state == StageState::Active { (kill::form(frame, "stage", stage.info.stage.stage.0)) }
        @if task_time_ms(stage) > 0 {
            h2 { "What its tasks did" }
            (stacked("Task time", &Times::of_stage(stage).segments()))
        }
        (pictures.spreads)
        @if !stage.executors.is_empty() {
            h2 { "When its tasks ran" }
            p.dim { "Each row is a slot of an executor." }
            (pictures.stream)
            (by_executor(frame, status, stage))
        }
        (accumulables(frame, stage))
    }
}

fn summary(frame: &Frame<'_>, status: &AppStatus, stage: &StageStatus) -> Markup {
    let (mut tasks, mut data) = (Vec::new(), Vec::new());
    let mut time_of = vec![
        ("State", badge::stage(stage.state)),
        ("Duration", said(stages::duration(frame, stage).map_or_else(|| "–".to_owned(), millis))),
        ("Task time", said(millis(task_time_ms(stage)))),
    ];
    time_of.extend(stage.info.submitted.map(|at| ("Submitted", time(at))));
    tasks.push((
        "Tasks",
        progress(
            stage.completed_indices().into(),
            stage.tasks.active.into(),
            stage.tasks.failed.into(),
            stage.info.tasks.into(),
        ),
    ));
    data.extend(
        volumes(&stage.metrics).into_iter().map(|(name, number)| (name, said(bytes(number)))),
    );
    if stage.metrics.memory_bytes_spilled > 0 {
        data.push(("Spilled from memory", said(bytes(stage.metrics.memory_bytes_spilled))));
    }
    if stage.metrics.input_records > 0 {
        data.push(("Records read", said(count(stage.metrics.input_records))));
    }
    if stage.speculative > 0 {
        tasks.push(("Speculative copies", said(count(stage.speculative.into()))));
    }
    if stage.resubmitted > 0 {
        tasks.push(("Run again", said(counted(stage.resubmitted.into(), "task"))));
    }
    tasks.push((
        "Jobs",
        html! { @for job in stage.jobs.iter().take(NAMED) { a href=(frame.job(*job)) { (job) } " " } },
    ));
    if !stage.info.parents.is_empty() {
        let parents = &stage.info.parents;
        tasks.push(("Reads", html! { @for parent in parents.iter().take(NAMED) {
            @match status.last_attempt(*parent) {
                Some(parent) => a href=(frame.stage(parent.info.stage)) { "stage " (parent.info.stage.stage) },
                None => { "stage " (parent) }
            }
            " "
        } @if parents.len() > NAMED { "and " (counted((parents.len() - NAMED) as u64, "more stage")) } }));
    }
    let attempts: Vec<_> = status
        .attempts(stage.info.stage.stage)
        .filter(|it| it.info.stage != stage.info.stage)
        .collect();
    if !attempts.is_empty() {
        tasks.push(("Other attempts", html! { @for it in attempts.iter().rev().take(NAMED) { a href=(frame.stage(it.info.stage)) { (it.info.stage.attempt) } " " } }));
    }
    html! {
        div.groups { @for group in [&time_of, &tasks, &data].into_iter().filter(|it| !it.is_empty()) { (facts(group)) } }
        @if let Some(details) = &stage.info.details { details data-key="call-site" { summary { "Call site" } pre tabindex="0" { (short(details, LONGEST)) } } }
    }
}

fn failed(stage: &StageStatus, failures: &BTreeMap<String, (u64, String)>) -> Markup {
    let mut kinds: Vec<_> = failures.iter().collect();
    kinds.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
    html! {
        @if stage.failure.is_some() || !kinds.is_empty() {
            section.alert {
                @if let Some(failure) = &stage.failure { h2 { "✕ Why it failed" } pre tabindex="0" { (short(failure, LONGEST)) } }
                @if !kinds.is_empty() {
                    h2 { "Failures of tasks, by what they say" }
                    @for (kind, (count, text)) in kinds.iter().take(FAILURES) {
                        details data-key=(key("failure", kind)) { summary { strong { (counted(*count, "task")) } ": " (kind) } pre tabindex="0" { (short(text, LONGEST)) } }
                    }
                    @if kinds.len() > FAILURES { p.dim { (counted((kinds.len() - FAILURES) as u64, "more kind")) "." } }
                }
            }
        }
    }
}

fn spreads(look: &Look) -> Markup {
    let is_short = look.duration.quartiles()[2] < 10 && look.run.max() > 0;
    let others = [
        ("Input", &look.input),
        ("Shuffle read", &look.read),
        ("Shuffle write", &look.write),
        ("Spilled to disk", &look.spill),
    ];
    html! {
        @if look.duration.max() > 0 || look.run.max() > 0 {
            h2 { "How its tasks differ" }
            div.cards {
                @if is_short { (spread::card("Run time", &look.run, look.running_ms.saturating_mul(1000), micros)) }
                @else { (spread::card("Duration", &look.duration, look.running_ms, millis)) }
                @for (title, spread) in others.iter().filter(|(_, spread)| spread.max() > 0) {
                    (spread::card(title, spread, 0, bytes))
                }
            }
            p.dim { "Heights are logarithms: a single task shows. The line is the median; marked bars are beyond twice the 75 % mark." }
        }
    }
}

const EXECUTORS: [Column; 8] = [
    text_column("Executor", "id"),
    number_column("Task time", "time"),
    number_column("Tasks", "tasks"),
    number_column("Failed", "failed"),
    number_column("Input", "input"),
    number_column("Shuffle read", "read"),
    number_column("Shuffle write", "write"),
    number_column("Spill", "spill"),
];

type OnExecutor<'a> = (&'a ExecutorId, &'a ExecutorTotals);

fn tasks_on(totals: &ExecutorTotals) -> u64 {
    u64::from(totals.tasks.completed) + u64::from(totals.tasks.active)
}

fn compare_executors(sort: &str, a: &OnExecutor<'_>, b: &OnExecutor<'_>) -> Ordering {
    let number = |of: fn(&ExecutorTotals) -> u64| of(a.1).cmp(&of(b.1));
    let by = match sort {
        "id" => Ordering::Equal,
        "tasks" => number(tasks_on),
        "failed" => number(|it| it.tasks.failed.into()),
        "input" => number(|it| it.metrics.input_bytes),
        "read" => number(|it| it.metrics.shuffle_read_bytes()),
        "write" => number(|it| it.metrics.shuffle_write_bytes),
        "spill" => number(|it| it.metrics.disk_bytes_spilled),
        _ => number(|it| it.task_time_ms),
    };
    by.then(a.0.cmp(b.0))
}

/// Those that took most first.
fn by_executor(frame: &Frame<'_>, status: &AppStatus, stage: &StageStatus) -> Markup {
    let most = stage.executors.values().map(|it| it.task_time_ms).max().unwrap_or(0);
    let list = Part {
        listing: Listing::beside(&frame.query, "executors-", "time", Order::Descending),
        label: "By executor",
        search: "Executor or host",
        columns: &EXECUTORS,
        items: stage.executors.iter().collect(),
    };
    let is_found = |listing: &Listing, (executor, _): &OnExecutor<'_>| {
        let host = status.executor(**executor).map_or("", |it| &it.info.host.0);
        listing.finds(&[&executor_name(status, **executor), host])
    };
    let row = |part: &OnExecutor<'_>| executor_row(frame, status, stage, part, most);
    html! {
        @if stage.executors.len() > 1 {
            h2 { "By executor" }
            (list.draw(frame, is_found, compare_executors, row))
        }
    }
}

fn executor_row(
    frame: &Frame<'_>,
    status: &AppStatus,
    stage: &StageStatus,
    (executor, totals): &OnExecutor<'_>,
    most: u64,
) -> Vec<Markup> {
    let name = executor_name(status, **executor);
    let took = millis(totals.task_time_ms);
    vec![
        html! {
            a href=(frame.executor(**executor)) { (name) }
            @if let Some(it) = status.executor(**executor) { " " span.dim { (brief(&it.info.host.0)) } @if !it.is_active() { " " span.bad { "✕ lost" } } }
            @if totals.is_excluded { " " span.bad { "excluded" } }
        },
        html! { (gauge(totals.task_time_ms, most, &took)) span.numbers { (took) } },
        html! { a href=(frame.tasks_on(stage.info.stage, &name)) aria-label=(format!("{} tasks on executor {name}", count(tasks_on(totals)))) { (count(tasks_on(totals))) } },
        html! { @if totals.tasks.failed > 0 { span.bad { (totals.tasks.failed) } } @else { span.dim { "–" } } },
        size(totals.metrics.input_bytes),
        size(totals.metrics.shuffle_read_bytes()),
        size(totals.metrics.shuffle_write_bytes),
        size(totals.metrics.disk_bytes_spilled),
    ]
}

const ACCUMULATORS: [Column; 2] = [head_column("Name", "name"), number_column("Value", "value")];

/// By their values: as numbers where they are numbers.
fn compare_accumulables(sort: &str, a: &&Accumulable, b: &&Accumulable) -> Ordering {
    let number = |it: &Accumulable| it.value.parse::<f64>().ok();
    let by = match (sort, number(a), number(b)) {
        ("value", Some(a), Some(b)) => a.total_cmp(&b),
        // Texts come before numbers.
        ("value", a_number, b_number) => {
            a_number.is_some().cmp(&b_number.is_some()).then_with(|| a.value.cmp(&b.value))
        }
        _ => Ordering::Equal,
    };
    by.then_with(|| a.name.cmp(&b.name))
}

fn accumulables(frame: &Frame<'_>, stage: &StageStatus) -> Markup {
    let all = stage.accumulables.values().filter(|it| !it.name.starts_with("internal."));
    let list = Part {
        listing: Listing::beside(&frame.query, "accumulators-", "name", Order::Ascending),
        label: "Accumulators",
        search: "Accumulator",
        columns: &ACCUMULATORS,
        items: all.collect(),
    };
    let is_found = |listing: &Listing, it: &&Accumulable| listing.finds(&[&it.name]);
    let row = |it: &&Accumulable| vec![said(short(&it.name, 200)), said(short(&it.value, 200))];
    html! {
        @if !list.items.is_empty() {
            h2 { "Accumulators" }
            (list.draw(frame, is_found, compare_accumulables, row))
        }
    }
}
