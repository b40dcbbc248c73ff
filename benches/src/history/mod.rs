//! `./bench history`: event logs and the history server, against Spark's HistoryServer in the same run.
//!
//! | file | owns |
//! |---|---|
//! | `logs` | logs that are generated: one of a million tasks, ten thousand small ones |
//! | `servers` | history servers of both kinds as processes, what they answer |
//! | `agreement` | whether two servers say the same |
//! | `forms` | logs of ours in all forms |
//! | `overhead` | what writing a log costs a job, and keeping its status |

mod agreement;
mod forms;
pub(crate) mod logs;
mod overhead;
pub(crate) mod servers;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::{
    bars::{Bar, Bars, Target},
    engine::machine,
    process,
    scratch::Scratch,
    spark::Spark,
    table::{Row, Spread, Table, Unit},
};
use servers::{Kind, Server};

/// What `--only` takes.
pub(crate) const NAMES: [&str; 5] = ["suite", "open", "list", "agreement", "overhead"];

/// Tasks of the large log, and how many small logs there are.
const TASKS: u64 = 1_000_000;
const LOGS: u64 = 10_000;
/// Bytes that the logs of a whole run take, with what is stored of them.
const SPACE: u64 = 6_000_000_000;
/// Answers that are compared at least, of all applications together.
const ANSWERS: usize = 500;
/// The heap of Spark's server where its time counts, and those that are tried where its memory does: a JVM lets its heap grow as far as it
/// may, so its peak says little when that is more than it needs.
pub(crate) const HEAP: &str = "8g";
const HEAPS: [&str; 3] = ["2g", "4g", HEAP];
/// What a log may cost, and the status with it.
const MOST: f64 = 1.03;
/// No server takes this long.
const LIMIT: Duration = Duration::from_secs(900);

/// How much of everything is measured.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Selection {
    pub(crate) rounds: usize,
    pub(crate) only: Vec<String>,
    /// A hundredth of everything, to try the benchmark itself.
    pub(crate) small: bool,
}

struct Bench<'a> {
    selection: &'a Selection,
    firesteel: std::path::PathBuf,
    spark: Option<Spark>,
    scratch: Scratch,
    table: Table,
    bars: Bars,
    problems: Vec<String>,
}

/// Measures what was selected and prints the table; the bars are for the caller to print.
pub(crate) fn run(selection: &Selection) -> Result<Bars> {
    println!("machine: {}", machine());
    let space = if selection.small { SPACE / 50 } else { SPACE };
    let mut bench = Bench {
        selection,
        firesteel: process::sibling("firesteel")?,
        spark: None,
        scratch: Scratch::with_space("history", space)?,
        table: Table::new(&Row::HEAD),
        bars: Bars::default(),
        problems: Vec::new(),
    };
    match Spark::prepare() {
        Ok(spark) => bench.spark = Some(spark),
        Err(error) => bench.problems.push(format!("anything on Spark: {error:#}")),
    }
    for name in NAMES {
        if !selection.only.is_empty() && !selection.only.iter().any(|it| it == name) {
            continue;
        }
        let measured = match name {
            "suite" => bench.suite(),
            "open" => bench.open(),
            "list" => bench.list(),
            "agreement" => bench.agreement(),
            _ => bench.overhead(),
        };
        if let Err(error) = measured {
            bench.problems.push(format!("{name}: {error:#}"));
        }
    }
    println!("\n{}", bench.table);
    for problem in &bench.problems {
        println!("not measured: {problem}");
    }
    Ok(bench.bars)
}

/// Of the medians of the other side and of ours.
type Ratio = fn(f64, f64) -> f64;

/// Times in seconds and peaks in bytes of one side.
#[derive(Default)]
struct Measured {
    seconds: Vec<f64>,
    bytes: Vec<f64>,
}

impl Bench<'_> {
    fn sized(&self, whole: u64) -> u64 {
        if self.selection.small { whole / 100 } else { whole }
    }

    fn bar(&mut self, name: &str, value: Option<f64>, target: Target) {
        self.bars.push(Bar { name: name.to_owned(), value, target });
    }

    fn server(&self, kind: Kind, logs: &Path, store: Option<&Path>) -> Result<Server> {
        match kind {
            Kind::Firesteel => Server::firesteel(&self.firesteel, logs, store),
            Kind::Spark => match &self.spark {
                Some(spark) => Server::spark(spark, logs, HEAP),
                None => anyhow::bail!("Spark could not be set up"),
            },
        }
    }

    /// The smallest heap with which Spark's server opens the large log, and the peak of its memory then, in bytes.
    fn smallest_heap(&self, logs: &Path) -> Result<(&'static str, f64)> {
        let spark = self.spark.as_ref().context("Spark could not be set up")?;
        let open = |heap| -> Result<f64> {
            let server = Server::spark(spark, logs, heap)?;
            server.wait_for_applications(1, LIMIT)?;
            server.open(logs::LARGE)?;
            server.peak_bytes()
        };
        let mut last = Ok(f64::NAN);
        for heap in HEAPS {
            last = open(heap);
            if let Ok(bytes) = last {
                return Ok((heap, bytes));
            }
        }
        Err(last.err().context("no heap was tried")?)
    }

    /// Both sides in turns; one that fails is named and has no numbers.
    fn both(
        &mut self,
        what: &str,
        measure: impl Fn(&Self, Kind) -> Result<(f64, f64)>,
    ) -> [Measured; 2] {
        let mut sides = [Measured::default(), Measured::default()];
        for _ in 0..self.selection.rounds {
            for (kind, side) in [Kind::Spark, Kind::Firesteel].into_iter().zip(&mut sides) {
                match measure(self, kind) {
                    Ok((seconds, bytes)) => {
                        side.seconds.push(seconds);
                        side.bytes.push(bytes);
                    }
                    Err(error) => self.problems.push(format!("{what}, {kind}: {error:#}")),
                }
            }
        }
        sides
    }

    fn row(
        &mut self,
        name: &str,
        unit: Unit,
        [other, ours]: [&[f64]; 2],
        bar: Option<(&str, Ratio, Target)>,
    ) {
        let spread = |values: &[f64]| Spread::of(values.iter().copied());
        let (other, ours) = (spread(other), spread(ours));
        let mut verdict = String::new();
        if let Some((bar, ratio, target)) = bar {
            let value = other.zip(ours).map(|(other, ours)| ratio(other.median, ours.median));
            verdict =
                format!("{}, {target}", value.map_or("-".into(), |value| format!("{value:.3}")));
            self.bar(bar, value, target);
        }
        let (name, other_name) = (name.to_owned(), "Spark");
        self.table.push(Row { name, unit, other_name, other, ours, verdict }.cells());
    }

    /// The requests that Apache Spark tests its own server with.
    fn suite(&mut self) -> Result<()> {
        let folder = Path::new("crates/monitor/tests/spark");
        let answered = self
            .server(Kind::Firesteel, &folder.join("events"), None)
            .and_then(|server| agreement::suite(&server, folder));
        if let Err(error) = &answered {
            self.problems.push(format!("suite: {error:#}"));
        }
        let value = answered.ok().map(|(equal, _)| equal as f64);
        self.bar("history_suite_answers", value, Target::AtLeast(61.0));
        Ok(())
    }

    /// A log of a million tasks: how soon its jobs and stages are shown, with how much memory.
    fn open(&mut self) -> Result<()> {
        let logs = self.scratch.path().join("large");
        std::fs::create_dir_all(&logs)?;
        logs::large(&logs, self.sized(TASKS))?;
        let open = |bench: &Self, kind: Kind| -> Result<(f64, f64)> {
            let server = bench.server(kind, &logs, None)?;
            server.wait_for_applications(1, LIMIT)?;
            let seconds = server.open(logs::LARGE)?;
            Ok((seconds, server.peak_bytes()?))
        };
        let [spark, ours] = self.both("open", open);
        let faster = Some(("history_open_vs_spark", ratio as Ratio, Target::AtLeast(10.0)));
        self.row("open 1 M tasks", Unit::Seconds, [&spark.seconds, &ours.seconds], faster);
        let megabytes = |bytes: &[f64]| bytes.iter().map(|it| it / 1e6).collect::<Vec<_>>();
        let (heap, theirs) = match self.smallest_heap(&logs) {
            Ok((heap, bytes)) => (heap, vec![bytes]),
            Err(error) => {
                self.problems.push(format!("memory of Spark: {error:#}"));
                ("?", vec![])
            }
        };
        let (theirs, bytes) = (megabytes(&theirs), megabytes(&ours.bytes));
        let smaller = Some(("history_rss_vs_spark", part as Ratio, Target::AtMost(0.2)));
        let name = format!("open 1 M tasks, peak RSS (Spark with {heap}, its smallest heap)");
        self.row(&name, Unit::Megabytes, [&theirs, &bytes], smaller);
        let again = self.open_again(&logs);
        if let Err(error) = &again {
            self.problems.push(format!("second open: {error:#}"));
        }
        self.bar("history_second_open_s", again.ok(), Target::AtMost(1.0));
        Ok(())
    }

    /// The same by a server that finds what an earlier one stored.
    fn open_again(&self, logs: &Path) -> Result<f64> {
        let store = self.scratch.path().join("store");
        let first = self.server(Kind::Firesteel, logs, Some(&store))?;
        first.wait_for_applications(1, LIMIT)?;
        first.open(logs::LARGE)?;
        drop(first);
        let second = self.server(Kind::Firesteel, logs, Some(&store))?;
        second.wait_for_applications(1, LIMIT)?;
        second.open(logs::LARGE)
    }

    /// Ten thousand logs: how soon they are all listed.
    fn list(&mut self) -> Result<()> {
        let logs = self.scratch.path().join("many");
        std::fs::create_dir_all(&logs)?;
        let count = self.sized(LOGS);
        logs::many(&logs, count)?;
        let list = |bench: &Self, kind: Kind| -> Result<(f64, f64)> {
            let server = bench.server(kind, &logs, None)?;
            let seconds = server.wait_for_applications(count as usize, LIMIT)?;
            Ok((seconds, server.peak_bytes()?))
        };
        let [spark, ours] = self.both("list", list);
        let faster = Some(("history_list_vs_spark", ratio as Ratio, Target::AtLeast(10.0)));
        self.row("list 10,000 logs", Unit::Seconds, [&spark.seconds, &ours.seconds], faster);
        Ok(())
    }

    /// Logs of ours in Spark's server and in ours.
    fn agreement(&mut self) -> Result<()> {
        let logs = self.scratch.path().join("ours");
        std::fs::create_dir_all(&logs)?;
        let agreed = forms::write(&logs).and_then(|count| {
            let (spark, ours) = (
                self.server(Kind::Spark, &logs, None)?,
                self.server(Kind::Firesteel, &logs, None)?,
            );
            spark.wait_for_applications(count, LIMIT)?;
            ours.wait_for_applications(count, LIMIT)?;
            agreement::compare(&spark, &ours)
        });
        let agreed = agreed.and_then(|(answers, differences)| {
            println!("agreement: {answers} answers, {} differences", differences.len());
            ensure!(answers >= ANSWERS, "only {answers} answers were compared");
            Ok(differences)
        });
        match &agreed {
            Ok(differences) => {
                agreement::by_field(differences).iter().for_each(|it| println!("{it}"));
            }
            Err(error) => self.problems.push(format!("agreement: {error:#}")),
        }
        let value = agreed.ok().map(|differences| differences.len() as f64);
        self.bar("history_differences_from_spark", value, Target::AtMost(0.0));
        Ok(())
    }

    /// What a log costs a job, and what the status of 10,000 tasks does on top.
    fn overhead(&mut self) -> Result<()> {
        let status = overhead::status();
        if let Err(error) = &status {
            self.problems.push(format!("status: {error:#}"));
        }
        let status = status.unwrap_or_default();
        let share = status.ratio();
        for (name, job) in overhead::jobs(self.selection.small)? {
            let measured = overhead::measure(&job, self.selection.rounds, self.scratch.path());
            if let Err(error) = &measured {
                self.problems.push(format!("{name}: {error:#}"));
            }
            let turns = measured.unwrap_or_default();
            let cost = turns.ratio();
            self.turns(&format!("{name} with an event log"), "without", &turns);
            self.bar(&format!("eventlog_{name}"), cost, Target::AtMost(MOST));
            if name == "tasks10000" {
                self.turns("status of tasks10000", "the tasks", &status);
                // Without a log a job has its status, too.
                let both = cost.zip(share).map(|(cost, share)| cost / (1.0 - share));
                self.bar("eventlog_status_tasks10000", both, Target::AtMost(MOST));
            }
        }
        Ok(())
    }

    /// A row whose ratio is the median over turns.
    fn turns(&mut self, name: &str, other_name: &'static str, turns: &overhead::Turns) {
        let spread = |values: &[f64]| Spread::of(values.iter().copied());
        let (name, unit) = (name.to_owned(), Unit::Seconds);
        let (other, ours) = (spread(&turns.one), spread(&turns.other));
        let verdict = turns.ratio().map_or("-".into(), |ratio| format!("{ratio:.3}"));
        self.table.push(Row { name, unit, other_name, other, ours, verdict }.cells());
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
