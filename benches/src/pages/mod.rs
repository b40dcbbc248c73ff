//! `./bench pages`, what needs other processes: when pages first show something, beside Spark's for the same log, and what open pages
//! cost the scheduler of a running application. How long pages take to be made is measured by tests of their own crate.
//!
//! | file | owns |
//! |---|---|
//! | `paint.mjs` | a real Chromium that opens pages |
//! | `followers` | pages that are open on a running application, as browsers would have them |

mod followers;

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::{
    bars::{Bar, Bars, Target},
    engine::machine,
    history::{HEAP, logs, servers::Server},
    output::Output,
    process,
    scratch::Scratch,
    spark::{self, Spark},
    table::{Row, Spread, Table, Unit},
};
use followers::{Followed, Followers};

/// What `--only` takes.
pub(crate) const NAMES: [&str; 2] = ["paint", "cost"];

/// Tasks of the log whose pages are opened: two stages of as many as both servers remember.
const TASKS: u64 = 200_000;
/// Bytes that it takes.
const SPACE: u64 = 1_000_000_000;
/// So many pages are open.
const OPEN: usize = 50;
/// How long the scheduler is watched at a time.
const SECONDS: u64 = 20;
/// A page that follows asks for itself so often at least, seconds: twice as long as it waits at least.
const LOADS_EVERY: u64 = 4;
/// A page, and its style sheet.
const REQUESTS: f64 = 2.0;
/// Nothing takes this long.
const LIMIT: Duration = Duration::from_secs(900);

/// Names of pages and where they are, on both servers.
const PAGES: [(&str, &str); 4] = [
    ("jobs", "jobs/"),
    ("stages", "stages/"),
    ("stage", "stages/stage/?id=0&attempt=0"),
    ("executors", "executors/"),
];

struct Bench {
    rounds: usize,
    table: Table,
    bars: Bars,
    problems: Vec<String>,
}

/// Measures what was selected and prints the table; the bars are for the caller to print.
pub(crate) fn run(rounds: usize, only: &[String]) -> Result<Bars> {
    println!("machine: {}", machine());
    let mut bench = Bench {
        rounds,
        table: Table::new(&Row::HEAD),
        bars: Bars::default(),
        problems: Vec::new(),
    };
    let is_wanted = |name: &str| only.is_empty() || only.iter().any(|it| it == name);
    if is_wanted("paint") {
        bench.paint();
    }
    if is_wanted("cost") {
        bench.cost();
    }
    println!("\n{}", bench.table);
    for problem in &bench.problems {
        println!("not measured: {problem}");
    }
    Ok(bench.bars)
}

/// Seconds of both sides: the other's and ours.
type Sides = [Vec<f64>; 2];

/// Of the medians of the other side and of ours.
type Ratio = fn(f64, f64) -> f64;

impl Bench {
    fn bar(
        &mut self,
        (name, bar): (&str, &str),
        other_name: &'static str,
        sides: &Sides,
        (ratio, target): (Ratio, Target),
    ) {
        let [other, ours] = sides.each_ref().map(|side| Spread::of(side.iter().copied()));
        let value = other.zip(ours).map(|(other, ours)| ratio(other.median, ours.median));
        let said = value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
        let verdict = format!("{said}, {target}");
        let (name, unit) = (name.to_owned(), Unit::Seconds);
        self.table.push(Row { name, unit, other_name, other, ours, verdict }.cells());
        self.bars.push(Bar { name: bar.to_owned(), value, target });
    }

    /// When a page first shows something, beside Spark's.
    fn paint(&mut self) {
        let painted = paint(self.rounds);
        if let Err(error) = &painted {
            self.problems.push(format!("paint: {error:#}"));
        }
        let painted = painted.unwrap_or_default();
        for (name, _) in PAGES {
            let of = |side: &str| {
                let lines = painted.iter().filter(|it| it.page == name && it.side == side);
                lines.map(|it| it.seconds).collect::<Vec<f64>>()
            };
            let sides = [of("spark"), of("firesteel")];
            let bar = format!("pages_paint_{name}_vs_spark");
            let faster = (ratio as Ratio, Target::AtLeast(10.0));
            self.bar((&format!("first paint of {name}"), &bar), "Spark", &sides, faster);
            let ours = painted.iter().filter(|it| it.page == name && it.side == "firesteel");
            let value = ours.map(|it| it.requests).max().map(f64::from);
            let target = Target::AtMost(REQUESTS);
            self.bars.push(Bar { name: format!("pages_requests_{name}"), value, target });
        }
    }

    /// 10,000 empty tasks with and without open pages, in turns.
    fn cost(&mut self) {
        let mut sides = Sides::default();
        for _ in 0..self.rounds.max(5) {
            for (open, side) in [0, OPEN].into_iter().zip(&mut sides) {
                match watched(open) {
                    Ok(seconds) => side.push(seconds),
                    Err(error) => self.problems.push(format!("{open} open pages: {error:#}")),
                }
            }
        }
        let name = format!("10,000 tasks, {OPEN} pages open");
        let cheap = (part as Ratio, Target::AtMost(1.03));
        self.bar((&name, "pages_open_50_cost"), "none open", &sides, cheap);
    }
}

/// How many times faster ours is.
fn ratio(other: f64, ours: f64) -> f64 {
    other / ours
}

/// How much of the other's ours is.
fn part(other: f64, ours: f64) -> f64 {
    ours / other
}

/// A page that was opened once.
#[derive(Debug, PartialEq)]
struct Painted {
    page: String,
    side: String,
    seconds: f64,
    /// Those that it took, with its own.
    requests: u32,
}

/// What `paint.mjs` prints, among anything else.
fn painted(printed: &str) -> Vec<Painted> {
    let line = |line: &str| {
        let mut words = line.strip_prefix("paint ")?.split(' ');
        let (page, side) = (words.next()?.to_owned(), words.next()?.to_owned());
        let ms: f64 = words.next()?.parse().ok()?;
        let requests = words.next()?.parse().ok()?;
        Some(Painted { page, side, seconds: ms / 1000.0, requests })
    };
    printed.lines().filter_map(line).collect()
}

/// Where playwright-core and Chromium are: as `benches/pages` says, which installs them.
fn browser() -> Result<(String, String)> {
    let told = |name: &str| std::env::var(name).with_context(|| format!("{name} is not set"));
    let found = told("FIRESTEEL_NODE_MODULES").and_then(|it| Ok((it, told("FIRESTEEL_CHROMIUM")?)));
    found.context(
        "no Chromium or no playwright-core: apt-get install chromium npm, then ./bench pages",
    )
}

fn paint(rounds: usize) -> Result<Vec<Painted>> {
    let (modules, chromium) = browser()?;
    let spark = Spark::prepare()?;
    let scratch = Scratch::with_space("pages", SPACE)?;
    logs::large(scratch.path(), TASKS)?;
    let servers = [
        ("spark", Server::spark(&spark, scratch.path(), HEAP)?),
        ("firesteel", Server::firesteel(&process::sibling("firesteel")?, scratch.path(), None)?),
    ];
    for (_, server) in &servers {
        server.wait_for_applications(1, LIMIT)?;
        // Reading the log is not what is measured here.
        server.open(logs::LARGE)?;
    }
    let sides = |path: &str| {
        let url =
            |server: &Server| format!("http://{}/history/{}/{path}", server.address(), logs::LARGE);
        let side = |(side, server): &(&str, Server)| {
            ((*side).to_owned(), serde_json::Value::from(url(server)))
        };
        serde_json::Value::Object(servers.iter().map(side).collect())
    };
    let pages: Vec<serde_json::Value> =
        PAGES.iter().map(|(name, path)| serde_json::json!([name, sides(path)])).collect();
    let config = serde_json::json!({
        "modules": modules,
        "chromium": chromium,
        "rounds": rounds.max(5),
        "pages": pages,
    });
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/pages/paint.mjs");
    let mut node = Command::new("node");
    let printed = process::run(node.arg(script).arg(config.to_string()), LIMIT)?.stdout;
    let painted = painted(&printed);
    ensure!(!painted.is_empty(), "nothing was painted: {}", process::tail(&printed));
    Ok(painted)
}

/// Seconds that 10,000 empty tasks took on average while so many pages were open.
fn watched(open: usize) -> Result<f64> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut command = Command::new(process::sibling("firesteel-bench-app")?);
    spark::remove_settings(&mut command);
    command.args(["shown", &SECONDS.to_string(), &port.to_string()]);
    let followers = Followers::start(open, ([127, 0, 0, 1], port).into());
    let finished = process::run(&mut command, LIMIT);
    let Followed { loaded, refused } = followers.stop();
    let seconds = Output::parse(&finished?.stdout).best_seconds("tasks_shown", 0)?;
    let least = open as u64 * SECONDS / LOADS_EVERY;
    ensure!(
        loaded >= least,
        "{open} pages were to follow, and loaded themselves {loaded} times, not {least}"
    );
    // One asks for a stage before it has heard of any, or as it is forgotten.
    ensure!(refused <= loaded / 50, "{refused} of {} answers were refusals", loaded + refused);
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_painted_is_read_among_anything_else() {
        let printed = "noise\npaint stage spark 812.500 17\npaint stage firesteel 40 2\npaint x\npaint a b 1 c\n";
        let of = |side: &str, seconds, requests| Painted {
            page: "stage".to_owned(),
            side: side.to_owned(),
            seconds,
            requests,
        };
        assert_eq!(painted(printed), [of("spark", 0.8125, 17), of("firesteel", 0.04, 2)]);
    }
}
