//! Two runs side by side: stages matched by what they compute, those that got slower first; settings that differ.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use firesteel_monitor::rest::Query;
use firesteel_monitor::site::Asked;
use firesteel_status::{AppStatus, Order, Paging, StageState, StageStatus};
use firesteel_types::{StageId, StageRef, TaskMetrics};
use maud::{Markup, html};

use super::link;
use crate::app::{named, sum, task_time_ms};
use crate::chart::gauge;
use crate::frame::{self, Frame, Place};
use crate::known::Known;
use crate::list::{Column, Listing, Part, head_column, number_column, text_column};
use crate::text::{bytes, count, millis, moment, short};

/// So many characters of a setting are shown.
const VALUE: usize = 300;

const STAGES: [Column; 4] = [
    head_column("Stage", "name"),
    text_column("Before", "before"),
    text_column("After", "after"),
    number_column("Change", "change"),
];
const SETTINGS: [Column; 3] = [
    head_column("Setting", "name"),
    text_column("Before", "before"),
    text_column("After", "after"),
];

/// What is compared of a stage.
#[derive(Clone)]
struct Stage {
    stage: StageRef,
    name: String,
    duration_ms: u64,
    tasks: u32,
    metrics: TaskMetrics,
}

/// What is compared of a run. Taken out of one status before the other is looked at: no two are ever held at once.
struct Run {
    id: String,
    link: String,
    name: String,
    started: String,
    duration_ms: u64,
    executors: usize,
    cores: u64,
    metrics: TaskMetrics,
    /// Of all attempts of all stages.
    task_time_ms: u64,
    /// The last attempt of each.
    stages: Vec<Stage>,
    settings: BTreeMap<String, String>,
}

impl Run {
    fn of(asked: &Asked<'_>, root: &str, id: &str) -> Option<Self> {
        let entry = asked.served.find(id)?;
        let attempt = entry.attempts.first().and_then(|it| it.id.clone());
        let place = link(root, id, attempt.as_deref());
        let mut run = None;
        asked.served.with_status(id, attempt.as_deref(), &mut |status| {
            run = Some(Self::of_status(asked, status, id, place.clone()))
        });
        run
    }

    fn of_status(asked: &Asked<'_>, status: &AppStatus, id: &str, link: String) -> Self {
        let application = status.application();
        let end = frame::end(Place::History, status, asked.now);
        let ran =
            |stage: &StageStatus| !matches!(stage.state, StageState::Pending | StageState::Skipped);
        let stages = status.stages(ran, Order::Ascending, Paging::ALL).items;
        let stage = |it: &&StageStatus| Stage {
            stage: it.info.stage,
            name: named(&it.info.name),
            duration_ms: it
                .info
                .submitted
                .or(it.first_task)
                .map_or(0, |from| it.completed.unwrap_or(end).since_ms(from)),
            tasks: it.info.tasks,
            metrics: TaskMetrics { executor: None, pushed: None, ..it.metrics.clone() },
        };
        let metrics = sum(stages.iter().map(|stage| &stage.metrics));
        let shown = |(key, value): &(String, String)| {
            (key.clone(), asked.secrets.apply(key, value).to_owned())
        };
        Run {
            id: id.to_owned(),
            link,
            name: application.name.clone(),
            started: moment(application.started),
            duration_ms: end.since_ms(application.started),
            executors: status.executors().filter(|it| it.info.cores > 0).count(),
            cores: status.executors().map(|it| u64::from(it.info.cores)).sum(),
            metrics,
            task_time_ms: stages.iter().fold(0, |sum, it| sum.saturating_add(task_time_ms(it))),
            stages: last_attempts(stages.iter().map(stage)),
            settings: application.properties.iter().map(shown).collect(),
        }
    }

    fn stage(&self, stage: &Stage) -> String {
        let StageRef { stage, attempt } = stage.stage;
        format!("{}stages/stage/?id={stage}&attempt={attempt}", self.link)
    }
}

pub(crate) fn page(asked: &Asked<'_>, root: &str) -> Result<Markup, (u16, String)> {
    let query = Query::parse(asked.query);
    let ids: Vec<&str> = query.all("app").collect();
    let [first, second] = ids[..] else {
        return Err((
            400,
            format!("Mark two applications to compare them; these are {}.", ids.len()),
        ));
    };
    let run = |id: &str| {
        Run::of(asked, root, id).ok_or_else(|| (404, format!("There is no application {id} here.")))
    };
    let (mut before, mut after) = (run(first)?, run(second)?);
    if before.started > after.started {
        std::mem::swap(&mut before, &mut after);
    }
    let known = Known::default();
    let frame = super::frame(asked, root, "/compare/", &known);
    let main = html! {
        h1 { "Two runs compared" }
        (totals(&before, &after))
        (stages(&frame, &before, &after))
        (settings(&frame, &before, &after))
    };
    Ok(frame::plain(root, "Compare", &[("All applications", format!("{root}/"))], &main))
}

/// `+1.2 s (+20 %)`
fn change(before: u64, after: u64, unit: fn(u64) -> String) -> Markup {
    let sign = if after >= before { "+" } else { "−" };
    let by = after.abs_diff(before);
    let share = if before > 0 {
        format!(" ({sign}{:.0} %)", by as f64 * 100.0 / before as f64)
    } else {
        String::new()
    };
    let class = if by == 0 || before > 0 && by.saturating_mul(20) < before {
        "dim"
    } else if after > before {
        "bad"
    } else {
        "fine"
    };
    let arrow = match class {
        "bad" => "▲ ",
        "fine" => "▼ ",
        _ => "",
    };
    if by == 0 {
        return html! { span.dim { "–" } };
    }
    html! { span class=(class) { (arrow) (sign) (unit(by)) (share) } }
}

fn totals(before: &Run, after: &Run) -> Markup {
    type Number = (&'static str, fn(&Run) -> u64, fn(u64) -> String);
    let numbers: [Number; 7] = [
        ("Duration", |run| run.duration_ms, millis),
        ("Task time", |run| run.task_time_ms, millis),
        ("Executors", |run| run.executors as u64, count),
        ("Cores", |run| run.cores, count),
        ("Input", |run| run.metrics.input_bytes, bytes),
        ("Shuffle write", |run| run.metrics.shuffle_write_bytes, bytes),
        ("Spilled to disk", |run| run.metrics.disk_bytes_spilled, bytes),
    ];
    html! {
        table aria-label="Both runs" {
            thead { tr { th scope="col" { "" span.hidden { "Number" } } @for run in [before, after] { th.num scope="col" { a href=(run.link) { (named(&run.name)) } br; span.dim { (named(&run.id)) br; (run.started) } } } th.num scope="col" { "Change" } } }
            tbody { @for (name, of, unit) in numbers {
                tr { th scope="row" data-label="Number" { (name) } td.num data-label="Before" { (unit(of(before))) } td.num data-label="After" { (unit(of(after))) } td.num data-label="Change" { (change(of(before), of(after), unit)) } }
            } }
        }
    }
}

/// How much longer a stage took in the second run, milliseconds: all of it where the first one has none.
fn slower_ms((before, after): &Pair<'_>) -> i128 {
    let time = |it: &Option<&Stage>| it.map_or(0, |it| i128::from(it.duration_ms));
    time(after) - time(before)
}

/// Of each stage what it came to at last: what an earlier attempt lost is no stage of its own. By their ids.
fn last_attempts(stages: impl Iterator<Item = Stage>) -> Vec<Stage> {
    let mut last: BTreeMap<StageId, Stage> = BTreeMap::new();
    for stage in stages {
        let is_newer = last
            .get(&stage.stage.stage)
            .is_none_or(|known| known.stage.attempt <= stage.stage.attempt);
        if is_newer {
            last.insert(stage.stage.stage, stage);
        }
    }
    last.into_values().collect()
}

/// A name without the numbers of lines in it: `map at main.rs`.
fn without_lines(name: &str) -> String {
    let mut parts = name.split(':');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|it: char| it.is_ascii_digit());
        if rest.len() == part.len() {
            text.push(':');
        }
        text.push_str(rest);
    }
    text
}

/// Stages that compute the same, in the order in which they were made; then those of one run only. Lines move when a program is
/// changed: the same operation in the same file is the same stage, in order, where both runs have as many of it. Where one has
/// more, first those are matched whose lines did not move.
fn matched<'a>(before: &'a Run, after: &'a Run) -> Vec<Pair<'a>> {
    type Queues<'a> = [VecDeque<&'a Stage>; 2];
    let mut alike: BTreeMap<String, Queues<'a>> = BTreeMap::new();
    for (side, run) in [before, after].into_iter().enumerate() {
        for stage in &run.stages {
            alike.entry(without_lines(&stage.name)).or_default()[side].push_back(stage);
        }
    }
    let mut pairs = Vec::new();
    for [mut old, mut new] in alike.into_values() {
        let names = |stages: &VecDeque<&'a Stage>| {
            let mut names: Vec<&'a str> = stages.iter().map(|it| it.name.as_str()).collect();
            names.sort_unstable();
            names
        };
        if old.len() != new.len() || names(&old) == names(&new) {
            new.retain(|stage| match old.iter().position(|it| it.name == stage.name) {
                Some(at) => {
                    pairs.push((old.remove(at), Some(*stage)));
                    false
                }
                None => true,
            });
        }
        while !old.is_empty() || !new.is_empty() {
            pairs.push((old.pop_front(), new.pop_front()));
        }
    }
    pairs
}

/// A stage of each run.
type Pair<'a> = (Option<&'a Stage>, Option<&'a Stage>);

fn compare_pairs(sort: &str, a: &Pair<'_>, b: &Pair<'_>) -> Ordering {
    let name = |pair: &Pair<'_>| pair.1.or(pair.0).map(|it| it.name.clone());
    let ms = |stage: Option<&Stage>| stage.map(|it| it.duration_ms);
    let by = match sort {
        "name" => name(a).cmp(&name(b)),
        "before" => ms(a.0).cmp(&ms(b.0)),
        "after" => ms(a.1).cmp(&ms(b.1)),
        _ => slower_ms(a).cmp(&slower_ms(b)),
    };
    let id = |pair: &Pair<'_>| pair.1.or(pair.0).map(|it| it.stage);
    by.then(id(a).cmp(&id(b)))
}

fn stages(frame: &Frame<'_>, before: &Run, after: &Run) -> Markup {
    let longest =
        before.stages.iter().chain(&after.stages).map(|it| it.duration_ms).max().unwrap_or(0);
    let cell = |run: &Run, stage: Option<&Stage>| {
        html! {
            @match stage {
                Some(it) => {
                    (gauge(it.duration_ms, longest, &millis(it.duration_ms)))
                    span.numbers { a href=(run.stage(it)) { "stage " (it.stage.stage) } " · " (millis(it.duration_ms)) " · " (count(it.tasks.into())) " tasks"
                        @if it.metrics.disk_bytes_spilled > 0 { " · spill " (bytes(it.metrics.disk_bytes_spilled)) } }
                }
                None => span.dim { "not in this run" }
            }
        }
    };
    let part = Part {
        listing: Listing::of(&frame.query, "change", Order::Descending),
        label: "Stages",
        search: "Stage",
        columns: &STAGES,
        items: matched(before, after),
    };
    let is_found = |listing: &Listing, (old, new): &Pair<'_>| {
        listing.finds(&[new.or(*old).map_or("", |it| &it.name)])
    };
    let row = |(old, new): &Pair<'_>| {
        vec![
            html! { (new.or(*old).map_or("", |it| &it.name)) },
            cell(before, *old),
            cell(after, *new),
            html! { @if let (Some(old), Some(new)) = (old, new) { (change(old.duration_ms, new.duration_ms, millis)) } },
        ]
    };
    html! {
        h2 { "Stages, those that got slower first" }
        (part.draw(frame, is_found, compare_pairs, row))
    }
}

fn settings(frame: &Frame<'_>, before: &Run, after: &Run) -> Markup {
    let keys: BTreeSet<&String> = before.settings.keys().chain(after.settings.keys()).collect();
    let of = |run: &Run, key: &String| run.settings.get(key).cloned();
    let differ = keys.into_iter().filter(|key| of(before, key) != of(after, key));
    let part = Part {
        listing: Listing::long(&frame.query, "settings-", "name", Order::Ascending),
        label: "Settings that differ",
        search: "Setting or value",
        columns: &SETTINGS,
        items: differ.collect(),
    };
    let is_found = |listing: &Listing, key: &&String| {
        let values = [before, after].map(|run| of(run, key).unwrap_or_default());
        listing.finds(&[key, &values[0], &values[1]])
    };
    let compare = |sort: &str, a: &&String, b: &&String| match sort {
        "before" => of(before, a).cmp(&of(before, b)),
        "after" => of(after, a).cmp(&of(after, b)),
        _ => a.cmp(b),
    };
    let value = |run: &Run, key: &String| {
        html! { @match run.settings.get(key) { Some(value) => code { (short(value, VALUE)) }, None => span.dim { "not set" } } }
    };
    let row =
        |key: &&String| vec![html! { (short(key, VALUE)) }, value(before, key), value(after, key)];
    html! {
        h2 { "Settings that differ" }
        @if part.items.is_empty() { p.empty { "None." } } @else { (part.draw(frame, is_found, compare, row)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(stages: &[(u32, u32, &str)]) -> Run {
        let stage = |(id, attempt, name): &(u32, u32, &str)| Stage {
            stage: StageRef { stage: StageId(*id), attempt: *attempt },
            name: (*name).to_owned(),
            duration_ms: 0,
            tasks: 1,
            metrics: TaskMetrics::default(),
        };
        Run {
            id: String::new(),
            link: String::new(),
            name: String::new(),
            started: String::new(),
            duration_ms: 0,
            executors: 0,
            cores: 0,
            metrics: TaskMetrics::default(),
            task_time_ms: 0,
            stages: last_attempts(stages.iter().map(stage)),
            settings: BTreeMap::new(),
        }
    }

    /// The ids of stages before and after, `-` where there is none.
    fn pairs(before: &[(u32, u32, &str)], after: &[(u32, u32, &str)]) -> Vec<String> {
        let (before, after) = (run(before), run(after));
        let id = |stage: Option<&Stage>| match stage {
            Some(it) => format!("{}.{}", it.stage.stage, it.stage.attempt),
            None => "-".to_owned(),
        };
        let mut pairs: Vec<String> = matched(&before, &after)
            .into_iter()
            .map(|(old, new)| format!("{} {}", id(old), id(new)))
            .collect();
        pairs.sort();
        pairs
    }

    #[test]
    fn a_line_on_top_of_the_program_changes_no_stage() {
        let before = [
            (0, 0, "map at main.rs:10"),
            (1, 0, "map at main.rs:11"),
            (2, 0, "count at main.rs:12"),
        ];
        let after = [
            (0, 0, "map at main.rs:11"),
            (1, 0, "map at main.rs:12"),
            (2, 0, "count at main.rs:13"),
        ];
        assert_eq!(pairs(&before, &after), ["0.0 0.0", "1.0 1.0", "2.0 2.0"]);
    }

    #[test]
    fn an_attempt_that_failed_is_no_stage_of_its_own() {
        let before =
            [(0, 0, "map at main.rs:10"), (0, 1, "map at main.rs:10"), (3, 0, "map at main.rs:10")];
        let after = [(0, 0, "map at main.rs:10"), (1, 0, "map at main.rs:10")];
        assert_eq!(pairs(&before, &after), ["0.1 0.0", "3.0 1.0"]);
    }

    #[test]
    fn a_stage_that_one_run_has_not_leaves_the_others_matched() {
        let before =
            [(0, 0, "map at main.rs:10"), (1, 0, "map at main.rs:30"), (2, 0, "sort at lib.rs:7")];
        let after =
            [(0, 0, "map at main.rs:10"), (1, 0, "map at main.rs:20"), (2, 0, "map at main.rs:30")];
        assert_eq!(pairs(&before, &after), ["- 1.0", "0.0 0.0", "1.0 2.0", "2.0 -"]);
    }

    #[test]
    fn names_lose_the_numbers_of_lines_and_nothing_else() {
        for (name, wanted) in [
            ("map at src/main.rs:10", "map at src/main.rs"),
            ("map at src/main.rs:10:5", "map at src/main.rs"),
            ("a::b at x.rs:7 with 8", "a::b at x.rs with 8"),
            ("10:30", "10"),
            ("", ""),
        ] {
            assert_eq!(without_lines(name), wanted);
        }
    }
}
