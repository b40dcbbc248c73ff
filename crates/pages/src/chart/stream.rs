//! The task stream of a stage: what ran when. A row is a slot: what stands in one row never ran at once. Of many tasks, those
//! that follow each other are drawn as one, and those that took longest by themselves on top.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt::Write;

use firesteel_status::{AppStatus, TaskState, TaskStatus};
use firesteel_types::{ExecutorId, TaskMetrics, Tick};
use maud::{Markup, html};

use super::{swatch, time_axis};
use crate::app::{brief, executor_name};
use crate::text::{counted, millis, share};

/// Up to so many tasks are drawn one by one, with what they did.
const ONE_BY_ONE: usize = 300;
/// So many of those that took longest, or failed, are drawn by themselves.
const MARKED: usize = 40;
/// The width of the chart, in steps of time.
const STEPS: u64 = 1000;
/// So many rows are drawn.
const ROWS: usize = 48;
/// So many stretches are drawn in all rows together.
const STRETCHES: usize = 3000;
/// An executor has no more slots than this, whatever a log says.
const SLOTS: usize = 256;
const ROW: u32 = 13;
const LABEL: u32 = 15;

/// One task, by itself.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Bar {
    took_ms: u64,
    from: u64,
    to: u64,
    executor: ExecutorId,
    slot: usize,
    index: u32,
    attempt: u32,
    is_bad: bool,
    /// Milliseconds until it computed, waiting for map outputs, writing map outputs, and returning its result.
    phases: [u64; 4],
}

#[derive(Default)]
struct Slot {
    free_at: u64,
    /// Stretches of time, in steps, in which something ran.
    busy: Vec<(u16, u16)>,
}

/// Of each executor that is drawn, where its rows begin and how many there are.
type Tops = BTreeMap<ExecutorId, (u32, usize)>;

/// Gathers the tasks of a stage, one after the other.
pub(crate) struct Stream {
    start: u64,
    span: u64,
    /// Steps of a millisecond.
    scale: f64,
    slots: BTreeMap<ExecutorId, Vec<Slot>>,
    bars: Vec<Bar>,
    longest: BinaryHeap<Reverse<Bar>>,
    bad: Vec<Bar>,
    tasks: usize,
}

impl Stream {
    pub(crate) fn new(start: Tick, end: Tick) -> Self {
        let span = end.since_ms(start).max(1);
        Stream {
            start: start.0,
            span,
            scale: STEPS as f64 / span as f64,
            slots: BTreeMap::new(),
            bars: Vec::new(),
            longest: BinaryHeap::new(),
            bad: Vec::new(),
            tasks: 0,
        }
    }

    pub(crate) fn add(&mut self, task: &TaskStatus) {
        let from = task.info.launched.0.saturating_sub(self.start).min(self.span);
        let to = task
            .ended
            .map_or(self.span, |at| at.0.saturating_sub(self.start))
            .clamp(from, self.span);
        let slot = self.place(task.info.executor, from, to);
        self.tasks += 1;
        let took_ms = to - from;
        let is_bad = matches!(task.state, TaskState::Failed | TaskState::Killed);
        let is_long = self.longest.len() < MARKED
            || self.longest.peek().is_some_and(|it| it.0.took_ms < took_ms);
        if self.tasks > ONE_BY_ONE && !is_long && !is_bad {
            return;
        }
        // What it did is drawn of few tasks, and looked for only of these.
        let metrics = task.metrics();
        let (info, phases) =
            (&task.info, metrics.map_or([0; 4], |metrics| phases(took_ms, &metrics)));
        let bar = Bar {
            took_ms,
            from,
            to,
            executor: info.executor,
            slot,
            index: info.index,
            attempt: info.attempt,
            is_bad,
            phases,
        };
        if is_long {
            self.longest.push(Reverse(bar.clone()));
            if self.longest.len() > MARKED {
                self.longest.pop();
            }
        }
        if is_bad && self.bad.len() < MARKED {
            self.bad.push(bar.clone());
        }
        if self.tasks <= ONE_BY_ONE {
            self.bars.push(bar);
        }
    }

    /// The slot that it ran in: the first one that is free by then.
    fn place(&mut self, executor: ExecutorId, from: u64, to: u64) -> usize {
        let slots = self.slots.entry(executor).or_default();
        let free = slots.iter().position(|slot| slot.free_at <= from);
        let index = free.unwrap_or_else(|| {
            if slots.len() < SLOTS {
                slots.push(Slot::default());
                slots.len() - 1
            } else {
                let soonest = slots.iter().enumerate().min_by_key(|(_, slot)| slot.free_at);
                soonest.map_or(0, |(index, _)| index)
            }
        });
        let slot = &mut slots[index];
        slot.free_at = slot.free_at.max(to);
        // No division: this is done for every task.
        let step = |at: u64| (at as f64 * self.scale) as u16;
        let (first, last) = (step(from), step(to).max(step(from) + 1));
        match slot.busy.last_mut() {
            Some(open) if first <= open.1 => open.1 = open.1.max(last),
            _ => slot.busy.push((first, last)),
        }
        index
    }

    fn is_one_by_one(&self) -> bool {
        self.tasks <= ONE_BY_ONE
    }

    /// Joins stretches with small gaps until there are few enough.
    fn coarsen(&mut self) {
        let mut gap = 1;
        while self.slots.values().flatten().map(|slot| slot.busy.len()).sum::<usize>() > STRETCHES
            && gap < 1000
        {
            gap *= 2;
            for slot in self.slots.values_mut().flatten() {
                slot.busy.dedup_by(|next, open| {
                    let near = next.0 <= open.1.saturating_add(gap);
                    if near {
                        open.1 = open.1.max(next.1);
                    }
                    near
                });
            }
        }
    }

    /// Where each executor's rows begin and how many of them are drawn, the height of all, and how many rows that are.
    fn rows(&self) -> (Tops, u32, usize) {
        let (mut tops, mut height, mut drawn) = (BTreeMap::new(), 0, 0);
        for (executor, slots) in &self.slots {
            if drawn >= ROWS {
                break;
            }
            let shown = slots.len().min(ROWS - drawn);
            tops.insert(*executor, (height + LABEL, shown));
            drawn += shown;
            height += LABEL + ROW * shown as u32 + 4;
        }
        (tops, height, drawn)
    }

    /// `far_ms`: what takes longer is far from the other tasks; 0: none is.
    pub(crate) fn draw(mut self, status: &AppStatus, far_ms: u64) -> Markup {
        self.coarsen();
        let (tops, height, drawn) = self.rows();
        let all: usize = self.slots.values().map(Vec::len).sum();
        let in_rows =
            |bar: &&Bar| tops.get(&bar.executor).is_some_and(|(_, shown)| bar.slot < *shown);
        let far: Vec<&Bar> = self
            .longest
            .iter()
            .map(|bar| &bar.0)
            .filter(|bar| far_ms > 0 && bar.took_ms > far_ms)
            .filter(in_rows)
            .collect();
        let label = format!(
            "{} in {} of {}",
            counted(self.tasks as u64, "task"),
            counted(all as u64, "slot"),
            counted(self.slots.len() as u64, "executor")
        );
        html! {
            svg.stream width="100%" height=(height + 18) role="group" aria-label=(label) {
                (time_axis(self.span, height))
                @for (executor, (top, _)) in &tops {
                    text.label x="0" y=(top - 4) { "Executor " (executor_name(status, *executor)) @if let Some(it) = status.executor(*executor) { " · " (brief(&it.info.host.0)) } }
                }
                @if self.is_one_by_one() {
                    @for bar in self.bars.iter().filter(in_rows) { (self.one(bar, &tops, far_ms)) }
                } @else {
                    svg x="0" y="0" width="100%" height=(height) viewBox=(format!("0 0 {STEPS} {height}")) preserveAspectRatio="none" {
                        path.c-cpu d=(self.path(&tops)) {}
                    }
                    @for bar in far { (self.marked(bar, &tops, "c-hot")) }
                    @for bar in self.bad.iter().filter(in_rows) { (self.marked(bar, &tops, "c-bad")) }
                }
            }
            (self.key(all - drawn))
        }
    }

    fn key(&self, left_out: usize) -> Markup {
        let phases = [
            ("c-over", "scheduling and decoding"),
            ("c-wait", "waiting for map outputs"),
            ("c-cpu", "computing"),
            ("c-write", "writing map outputs"),
        ];
        html! {
            ul.key {
                @if self.is_one_by_one() { @for (class, word) in phases { li { (swatch(class)) " " (word) } } }
                @else { li { (swatch("c-cpu")) " tasks run" } }
                li { (swatch("c-hot")) " far longer than the others" }
                li { (swatch("c-bad")) " failed or killed" }
                @if left_out > 0 { li.dim { (counted(left_out as u64, "more slot")) " not drawn" } }
            }
        }
    }

    fn path(&self, tops: &Tops) -> String {
        let mut path = String::new();
        for (executor, (top, shown)) in tops {
            let slots = self.slots[executor].iter().take(*shown);
            for (slot, y) in slots.zip((*top..).step_by(ROW as usize)) {
                for (from, to) in &slot.busy {
                    let width = to - from;
                    let _ = write!(path, "M{from} {y}h{width}v11h-{width}z");
                }
            }
        }
        path
    }

    fn y(&self, bar: &Bar, tops: &Tops) -> u32 {
        tops.get(&bar.executor).map_or(0, |(top, _)| *top) + ROW * bar.slot as u32
    }

    fn marked(&self, bar: &Bar, tops: &Tops, class: &str) -> Markup {
        let (x, y) = (bar.from as f64 / self.span as f64, self.y(bar, tops));
        let width = bar.took_ms as f64 / self.span as f64;
        html! {
            g class=(class) {
                title { (words(bar)) }
                rect x=(share(x)) y=(y) width="2" height="11" {}
                rect x=(share(x)) y=(y) width=(share(width)) height="11" {}
                @if width > 0.12 { text.on x=(share(x + 0.005)) y=(y + 9) { "task " (bar.index) " · " (millis(bar.took_ms)) } }
            }
        }
    }

    /// A task with what it did, in that order.
    fn one(&self, bar: &Bar, tops: &Tops, far_ms: u64) -> Markup {
        if bar.is_bad || far_ms > 0 && bar.took_ms > far_ms {
            return self.marked(bar, tops, if bar.is_bad { "c-bad" } else { "c-hot" });
        }
        let y = self.y(bar, tops);
        let part = |ms: u64| ms as f64 / self.span as f64;
        let width = part(bar.took_ms);
        let [over, wait, write, _] = bar.phases;
        let parts = [
            ("c-over", 0, over),
            ("c-wait", over, wait),
            ("c-write", bar.took_ms.saturating_sub(write), write),
        ];
        html! {
            g {
                title { (words(bar)) }
                rect.c-cpu x=(share(part(bar.from))) y=(y) width="1" height="11" {}
                rect.c-cpu.edge x=(share(part(bar.from))) y=(y) width=(share(width)) height="11" {}
                @if width > 0.006 { @for (class, after, ms) in parts.iter().filter(|(_, _, ms)| part(*ms) > 0.001) {
                    rect class=(class) x=(share(part(bar.from + after))) y=(y) width=(share(part(*ms))) height="11" {}
                } }
            }
        }
    }
}

fn words(bar: &Bar) -> String {
    let attempt =
        if bar.attempt > 0 { format!(", attempt {}", bar.attempt) } else { String::new() };
    format!("Task {}{attempt}: {}", bar.index, millis(bar.took_ms))
}

fn phases(took_ms: u64, metrics: &TaskMetrics) -> [u64; 4] {
    let run = metrics.run_time_us / 1000;
    let result = metrics.result_serialize_time_us / 1000 + metrics.getting_result_time_ms;
    let over = took_ms.saturating_sub(run).saturating_sub(result);
    let wait = (metrics.shuffle_fetch_wait_us / 1000).min(run);
    let write = (metrics.shuffle_write_time_ns / 1_000_000).min(run - wait);
    [over, wait, write, result]
}

#[cfg(test)]
mod tests {
    use firesteel_status::Retention;
    use firesteel_types::event::Locality;
    use firesteel_types::{
        Event, ExecutorInfo, Host, StageId, StageInfo, StageRef, TaskId, TaskInfo,
    };

    use super::*;

    /// A stage whose tasks all run at once, on executors of `slots` each.
    fn at_once(executors: u32, slots: u32) -> AppStatus {
        let limit = 100_000;
        let retention = Retention { jobs: limit, stages: limit, tasks: limit, dead_executors: 9 };
        let mut status = AppStatus::new(retention);
        let stage = StageRef { stage: StageId(0), attempt: 0 };
        let info = StageInfo {
            stage,
            name: "map".into(),
            tasks: executors * slots,
            parents: Vec::new(),
            rdds: Vec::new().into(),
            shuffle_map: false,
            submitted: None,
            completed: None,
            details: None,
            resource_profile: 0,
        };
        status.take(Event::StageSubmitted {
            stage: info,
            properties: Default::default(),
            at: Tick(0),
        });
        for index in 0..executors * slots {
            let executor = ExecutorId(index / slots);
            let host = Host::new("localhost");
            status.take(Event::ExecutorAdded {
                executor,
                info: ExecutorInfo::new(host.clone(), slots),
                at: Tick(0),
            });
            let task = TaskInfo {
                task: TaskId(index.into()),
                stage,
                partition: index,
                index,
                attempt: 0,
                executor,
                host,
                speculative: false,
                locality: Locality::Any,
                launched: Tick(10),
            };
            status.take(Event::TaskStart { task: task.clone(), at: Tick(10) });
            let failure = None;
            status.take(Event::TaskEnd { task, failure, metrics: None, at: Tick(900) });
        }
        status
    }

    fn drawn(status: &AppStatus) -> String {
        let mut stream = Stream::new(Tick(0), Tick(1000));
        let stage = status.last_attempt(StageId(0)).unwrap();
        stage.every_task().for_each(|task| stream.add(task));
        stream.draw(status, 100).into_string()
    }

    /// The lowest edge of everything, and the height of the picture.
    fn lowest(text: &str) -> (u32, u32) {
        let first = |text: &str, mark: &str| -> Option<u32> {
            text.split(mark).nth(1)?.split('"').next()?.parse().ok()
        };
        let rects = text.split("<rect").skip(1).filter_map(|rest| first(rest, " y=\""));
        let paths = text
            .split('M')
            .skip(1)
            .filter_map(|rest| rest.split('h').next()?.split(' ').nth(1)?.parse::<u32>().ok());
        let lowest = rects.chain(paths).max().unwrap();
        (lowest + 11, first(text, "<svg class=\"stream\" width=\"100%\" height=\"").unwrap())
    }

    #[test]
    fn rows_that_do_not_fit_are_left_out_and_drawn_over_nothing() {
        // Few tasks, one by one; many tasks, as stretches; 48 rows are drawn of 64 and of 400.
        for (executors, slots) in [(2, 32), (4, 100)] {
            let text = drawn(&at_once(executors, slots));
            let (lowest, height) = lowest(&text);
            assert!(lowest <= height, "{lowest} of {height}");
            assert!(text.contains("more slots not drawn"), "{text}");
        }
    }
}
