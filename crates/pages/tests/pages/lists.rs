//! Every list of every page: sorted both ways by each of its headings, searched, and paged, by parameters of the address.

use std::collections::{BTreeMap, BTreeSet};

use firesteel_status::AppStatus;
use firesteel_types::event::Accumulable;
use firesteel_types::{AccumulatorId, Event, ResourceProfile, StageId, StageRef, Tick};

use crate::made::{Fixed, Made, START};
use crate::{between, get, words};

/// Tables that are no lists: a few rows that say how something is, or the first ones of a list that has a page of its own.
const FIXED: [&str; 2] = ["Both runs", "Stages that took most"];

/// A list, where it is, and what finds some of its rows.
struct List {
    is_live: bool,
    path: &'static str,
    label: &'static str,
    /// In front of its parameters.
    prefix: &'static str,
    /// The parameter that searches it, its text, and how many rows that finds.
    search: (&'static str, &'static str, usize),
}

const fn list(
    path: &'static str,
    label: &'static str,
    prefix: &'static str,
    search: (&'static str, &'static str, usize),
) -> List {
    List { is_live: true, path, label, prefix, search }
}

const fn of_history(
    path: &'static str,
    label: &'static str,
    prefix: &'static str,
    search: (&'static str, &'static str, usize),
) -> List {
    List { is_live: false, path, label, prefix, search }
}

const COMPARE: &str = "/compare/?app=app-first&app=app-second";
const STAGE: &str = "/stages/stage/?id=0";
const THREADS: &str = "/executors/threadDump/?executorId=0";

const LISTS: [List; 19] = [
    list("/jobs/", "Jobs", "", ("q", "number 7", 1)),
    list("/jobs/job/?id=3", "Stages of the job", "", ("q", "main.rs:7", 1)),
    list("/stages/", "Stages", "", ("q", "main.rs:23", 1)),
    list(STAGE, "Tasks", "", ("q", "node-2", 48)),
    list(STAGE, "By executor", "executors-", ("executors-q", "node-2", 1)),
    list(STAGE, "Accumulators", "accumulators-", ("accumulators-q", "counter 1", 3)),
    list("/storage/", "Cached RDDs", "", ("q", "20", 1)),
    list("/storage/rdd/?id=0", "Partitions", "", ("q", "1", 1)),
    list("/storage/rdd/?id=0", "By executor", "executors-", ("executors-q", "node-1", 1)),
    list(
        "/environment/",
        "Settings that differ from their defaults",
        "settings-",
        ("q", "mine.a", 1),
    ),
    list("/environment/", "Settings at their defaults", "same-", ("q", "ui.port", 1)),
    list("/environment/", "Runtime", "runtime-", ("q", "machine", 1)),
    list("/environment/", "Files", "files-", ("q", "b.jar", 1)),
    list("/environment/", "Hadoop", "other0-", ("q", "fs.two", 1)),
    list("/environment/", "Resource profiles", "profiles-", ("profiles-q", "gpu", 1)),
    list("/executors/", "Executors", "", ("q", "node-2", 1)),
    list(THREADS, "Threads", "", ("q", "futex", 1)),
    of_history("/", "Applications", "", ("q", "second", 1)),
    of_history(COMPARE, "Stages", "", ("q", "main.rs:23", 1)),
];
const SETTINGS: List =
    of_history(COMPARE, "Settings that differ", "settings-", ("settings-q", "app.name", 1));

fn running() -> AppStatus {
    let mut status = Made { tail: "", ..Made::SMALL }.status();
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let map = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(name, value)| pair(name, value)).collect::<BTreeMap<_, _>>()
    };
    status.take(Event::EnvironmentUpdate {
        properties: vec![
            pair("spark.ui.port", "4040"),
            pair("spark.task.maxFailures", "4"),
            pair("spark.executor.instances", "6"),
            pair("spark.mine.a", "7"),
            pair("spark.mine.b", "3"),
        ],
        runtime: map(&[("Machine", "x86_64"), ("Version", "1")]),
        resources: map(&[("/a.jar", "user"), ("/b.jar", "added"), ("/c.jar", "by")]),
        others: [("Hadoop".to_owned(), vec![pair("fs.one", "b"), pair("fs.two", "a")])].into(),
    });
    for (number, value) in ["10", "9", "a text", "1000"].into_iter().enumerate() {
        let id = AccumulatorId(number as u64);
        let name = format!("counter {}", if number == 0 { 2 } else { 1 });
        let accumulable =
            Accumulable { id, name, update: value.to_owned(), value: value.to_owned() };
        let stage = StageRef { stage: StageId(0), attempt: 0 };
        status.take(Event::AccumulableUpdated { stage, task: None, accumulable, at: Tick(START) });
    }
    for id in 0..3 {
        let name = if id == 1 { "gpu" } else { "memory" };
        let executor = [(name.to_owned(), u64::from(id) * 3)].into();
        let (task, devices) = ([("cpus".to_owned(), f64::from(id))].into(), BTreeMap::new());
        let profile = ResourceProfile { id, executor, task, devices };
        status.take(Event::ResourceProfileAdded { profile });
    }
    status
}

fn over() -> Fixed {
    let runs = ["first", "second"].map(|name| {
        let slower_ms = name.len() as u64 * 9;
        let mut status = Made { name, is_over: true, slower_ms, tail: "", ..Made::SMALL }.status();
        let properties = vec![
            ("spark.app.name".to_owned(), name.to_owned()),
            ("spark.mine.a".to_owned(), (10 - name.len()).to_string()),
        ];
        let (runtime, resources, others) = Default::default();
        status.take(Event::EnvironmentUpdate { properties, runtime, resources, others });
        status
    });
    Fixed::new(runs.into(), false)
}

/// Of a table: what its headings sort by, beside their titles, and the words of its cells.
#[derive(Debug, PartialEq)]
struct Table {
    headings: Vec<(String, Option<String>)>,
    rows: Vec<Vec<String>>,
}

fn tables(page: &str) -> Vec<(String, Table)> {
    let table = |part: &str| {
        let label = between(part, " aria-label=\"", "\"").to_owned();
        let head = between(part, "<thead>", "</thead>");
        let heading = |part: &str| {
            let part = part.split("</th>").next().unwrap();
            let link = between(part, "href=\"", "\"").replace("&amp;", "&");
            let sort = link.split(['?', '&']).find_map(|it| {
                let (name, key) = it.split_once('=')?;
                name.ends_with("sort").then(|| key.to_owned())
            });
            (words(&format!("<x{part}")).trim_end_matches([' ', '▲', '▼']).to_owned(), sort)
        };
        let headings = head.split("<th").skip(1).map(heading).collect();
        let body = between(part, "<tbody>", "</table>");
        let cells = |row: &str| {
            let row = row.replace("<th ", "<td ");
            row.split("<td").skip(1).map(|cell| words(&format!("<td{cell}"))).collect()
        };
        let rows = body.split("<tr>").skip(1).map(cells).collect();
        (label, Table { headings, rows })
    };
    // Tables do not stand in each other.
    page.split("<table").skip(1).map(|part| table(part.split("</table>").next().unwrap())).collect()
}

struct Servers {
    live: Fixed,
    over: Fixed,
}

impl Servers {
    fn page(&self, list: &List, more: &str) -> String {
        let served = if list.is_live { &self.live } else { &self.over };
        let sign = if list.path.contains('?') { '&' } else { '?' };
        let url = format!("{}{sign}{more}", list.path);
        let got = get(served, &url);
        assert_eq!(got.status, 200, "{url}");
        got.text
    }

    /// The list with these parameters; `None`: the page does not show it.
    fn ask(&self, list: &List, more: &str) -> Option<Table> {
        let page = self.page(list, more);
        tables(&page).into_iter().find(|(label, _)| label == list.label).map(|(_, table)| table)
    }
}

/// `3 min 12 s`, `1.5 KiB`, `1,234`, a dash for nothing: as one number. `None`: it is something else.
fn number(text: &str) -> Option<f64> {
    if text == "–" {
        return Some(0.0);
    }
    let mut sum = 0.0;
    let words: Vec<&str> = text.split(' ').collect();
    for pair in words.chunks(2) {
        let value: f64 = pair[0].replace(',', "").parse().ok()?;
        sum += value
            * match pair.get(1).copied() {
                None | Some("ms" | "B") => 1.0,
                Some("µs") => 0.001,
                Some("s") => 1000.0,
                Some("min") => 60_000.0,
                Some("KiB") => 1024.0,
                Some("MiB") => 1_048_576.0,
                Some("GiB") => 1_073_741_824.0,
                Some(_) => return None,
            };
    }
    Some(sum)
}

fn sorted(list: &List, servers: &Servers) {
    let List { path, label, prefix, .. } = list;
    let whole = servers.ask(list, "size=200").unwrap_or_else(|| panic!("{path} has no {label}"));
    assert!(whole.rows.len() > 1, "{path} {label}: {whole:?}");
    let mut moved = 0;
    for (at, (title, key)) in whole.headings.iter().enumerate() {
        let Some(key) = key else { continue };
        let column = |order: &str| {
            let more = format!("size=200&{prefix}sort={key}&{prefix}order={order}");
            let rows = servers.ask(list, &more).unwrap().rows;
            assert_eq!(rows.len(), whole.rows.len(), "{path} {label} {title}");
            rows.into_iter().map(|row| row[at].clone()).collect::<Vec<_>>()
        };
        let (up, mut down) = (column("asc"), column("desc"));
        down.reverse();
        assert_eq!(up, down, "{path} {label}: {title} down is not the reverse of up");
        moved += usize::from(up.first() != up.last());
        let numbers: Option<Vec<f64>> = up.iter().map(|it| number(it)).collect();
        if let Some(numbers) = numbers {
            assert!(numbers.is_sorted(), "{path} {label}: {title} up is {up:?}");
        }
    }
    assert!(moved > 0, "{path} {label}: no heading sorts anything");
    let unsorted: Vec<&String> =
        whole.headings.iter().filter(|(_, key)| key.is_none()).map(|(title, _)| title).collect();
    assert!(
        unsorted.iter().all(|title| ["Compare", "What it does"].contains(&&***title)),
        "{path} {label}: {unsorted:?} sort nothing"
    );
}

fn searched(list: &List, servers: &Servers) {
    let List { path, label, search: (name, text, count), .. } = list;
    let text = text.replace(' ', "+");
    let whole = servers.ask(list, "size=200").unwrap();
    let found = servers.ask(list, &format!("size=200&{name}={text}")).unwrap();
    assert_eq!(found.rows.len(), *count, "{path} {label}: {found:?}");
    assert!(found.rows.len() < whole.rows.len(), "{path} {label}: all of it is found");
    assert!(found.rows.iter().all(|row| whole.rows.contains(row)), "{path} {label}");
    let nothing = servers.ask(list, &format!("{name}=not+to+be+found"));
    assert!(nothing.is_none_or(|it| it.rows.is_empty()), "{path} {label}");
}

fn paged(list: &List, servers: &Servers) {
    let List { path, label, prefix, .. } = list;
    let whole = servers.ask(list, "size=200").unwrap();
    let page = |number: usize| {
        let more = format!("{prefix}size=1&{prefix}page={number}");
        servers.ask(list, &more).unwrap().rows
    };
    assert_eq!(page(2), whole.rows[1..2], "{path} {label}");
    let last = whole.rows.len();
    assert_eq!(page(last + 7), whole.rows[last - 1..], "{path} {label}: behind the last page");
    let more = format!("{prefix}size=1&{prefix}page=2");
    let link = format!("{prefix}page=1\"");
    assert!(servers.page(list, &more).contains(&link), "{path} {label}: no way to other pages");
}

fn servers() -> Servers {
    Servers { live: Fixed::new(vec![running()], true), over: over() }
}

#[test]
fn every_list_is_sorted_both_ways_by_each_heading() {
    let servers = servers();
    LISTS.iter().chain([&SETTINGS]).for_each(|list| sorted(list, &servers));
}

#[test]
fn every_list_is_searched() {
    let servers = servers();
    LISTS.iter().chain([&SETTINGS]).for_each(|list| searched(list, &servers));
}

#[test]
fn every_list_is_paged() {
    let servers = servers();
    LISTS.iter().chain([&SETTINGS]).for_each(|list| paged(list, &servers));
}

#[test]
fn no_page_has_a_list_that_is_not_looked_at_here() {
    let servers = servers();
    let known: BTreeSet<&str> =
        LISTS.iter().chain([&SETTINGS]).map(|it| it.label).chain(FIXED).collect();
    let mut seen = BTreeSet::new();
    let history = ["/", COMPARE, "/history/app-first/", "/history/app-first/environment/"];
    let live = crate::PATHS.iter().map(|path| (&servers.live, *path));
    for (served, path) in live.chain(history.map(|path| (&servers.over, path))) {
        for (label, _) in tables(&get(served, path).text) {
            assert!(known.contains(&*label), "{path}: {label:?} is in no table of this test");
            seen.insert(label);
        }
    }
    assert_eq!(seen.len(), known.len(), "{seen:?}");
}
