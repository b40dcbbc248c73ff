//! `./bench memory`: what Firesteel does with more data than its budget of memory holds.
//!
//! Wide operations on four times the budget, some on records of shapes that are hard to count, a terasort on sixteen times the budget, the time that doubling its input takes,
//! and a group that cannot fit. Each runs in a process of its own; peak memory is the kernel's figure for that process.
//! Results are checked by the program that computes them ([`crate::scratch`] holds its files).

use std::{
    fs,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use crate::{
    bars::{Bar, Bars, Target},
    output::Output,
    process::{self, Ended, Ending, Finished},
    scratch::Scratch,
    spark,
    table::{Table, Unit},
};

const MIB: u64 = 1 << 20;

/// The budget, in MiB: `spark.driver.memory`.
const BUDGET: u64 = 512;

/// What a process may take at most, in MiB: a quarter more than its budget.
const PEAK: f64 = 1.25 * BUDGET as f64;

/// How many times as long twice the input may take.
const DOUBLING: f64 = 2.2;

/// Bytes of data, as they would lie in memory, for the operations other than terasort.
const DATA: u64 = 4 * BUDGET * MIB;

/// Bytes in the group that is larger than the budget.
const LARGE_GROUP: u64 = 2 * BUDGET * MIB;

const GIGABYTE: u64 = 1_000_000_000;

/// Bytes of one record of terasort.
const RECORD: u64 = 100;

/// Hours would be a bug; a slow disk is none.
const TIME_LIMIT: Duration = Duration::from_secs(3600);

/// Operations that run on [`DATA`], by their names in firesteel-bench-app.
const OPERATIONS: [&str; 10] = [
    "group_by_key",
    "join",
    "cogroup",
    "distinct",
    "cache",
    "wide",
    "hot_key",
    "long_texts",
    "small_partitions",
    "many_tasks",
];

/// The names that `--only` takes.
pub(crate) const NAMES: [&str; 13] = [
    "terasort",
    "scaling",
    "group_by_key",
    "join",
    "cogroup",
    "distinct",
    "cache",
    "one_group",
    "wide",
    "hot_key",
    "long_texts",
    "small_partitions",
    "many_tasks",
];

/// What to run.
#[derive(Debug, PartialEq)]
pub(crate) struct Selection {
    /// Nothing means everything.
    pub(crate) only: Vec<String>,
    /// Size of the largest terasort.
    pub(crate) gigabytes: u64,
}

impl Selection {
    fn has(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|wanted| wanted == name)
    }

    /// The sizes of terasorts in rows, each twice the one before.
    fn terasorts(&self) -> Vec<u64> {
        let largest = self.gigabytes * GIGABYTE / RECORD;
        match (self.has("scaling"), self.has("terasort")) {
            (true, _) => vec![largest / 8, largest / 4, largest / 2, largest],
            (false, true) => vec![largest],
            (false, false) => vec![],
        }
    }

    /// Bytes on disk: a terasort has its input, its map outputs, runs of a sort and its output there at once.
    fn disk_space(&self) -> u64 {
        let largest = self.terasorts().last().map_or(0, |rows| rows * RECORD);
        GIGABYTE + (largest * 7 / 2).max(3 * DATA)
    }
}

/// Runs what was selected and prints the table; the bars are for the caller to print.
pub(crate) fn run(selection: &Selection) -> Result<Bars> {
    let app = process::sibling("firesteel-bench-app")?;
    let scratch = Scratch::with_space("memory", selection.disk_space())?;
    let mut bench = Bench { app, scratch, table: Table::new(&HEAD), bars: Bars::default() };
    println!(
        "spark.driver.memory={BUDGET}m, peak RSS in MiB, files in {}",
        bench.scratch.path().display()
    );
    for name in OPERATIONS.iter().filter(|name| selection.has(name)) {
        bench.operation(name);
    }
    if selection.has("one_group") {
        bench.one_group();
    }
    bench.terasorts(selection)?;
    println!("\n{}", bench.table);
    Ok(bench.bars)
}

const HEAD: [&str; 6] = ["", "GB", "seconds", "seconds per GB", "peak RSS", "outcome"];

/// What one process did.
struct Measured {
    seconds: f64,
    peak_mib: f64,
}

struct Bench {
    app: PathBuf,
    scratch: Scratch,
    table: Table,
    bars: Bars,
}

impl Bench {
    /// firesteel-bench-app under the budget, with its temporary files in the scratch directory.
    fn app(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.app);
        spark::remove_settings(&mut command);
        command
            .env("SPARK_DRIVER_MEMORY", format!("{BUDGET}m"))
            .env("SPARK_LOCAL_DIRS", self.scratch.path())
            // Its allocator retains for a second what was freed: hundreds of megabytes, on a machine that allocates as much in it.
            .env("MIMALLOC_PURGE_DELAY", "10")
            .args(arguments);
        command
    }

    fn operation(&mut self, name: &'static str) {
        let mut command = self.app(&["bounded", name, &DATA.to_string()]);
        let measured =
            process::run(&mut command, TIME_LIMIT).and_then(|finished| measure(name, &finished));
        self.row(name, DATA, &measured);
        self.bounded(name, &measured);
    }

    fn one_group(&mut self) {
        let bytes = LARGE_GROUP.to_string();
        let ended = process::end(&mut self.app(&["bounded", "one_group", &bytes]), TIME_LIMIT);
        let (value, outcome) = match &ended {
            Ok(ended) => (judge_refusal(ended), refusal_words(ended)),
            Err(error) => (0.0, format!("{error:#}")),
        };
        let (seconds, peak) = match &ended {
            Ok(ended) => {
                let finished = &ended.finished;
                (Unit::Seconds.show(finished.wall.as_secs_f64()), show_peak(mib(finished)))
            }
            Err(_) => ("-".to_owned(), "-".to_owned()),
        };
        let size = gigabytes(LARGE_GROUP);
        self.push(vec!["one_group".to_owned(), size, seconds, "-".to_owned(), peak, outcome]);
        let target = Target::AtLeast(1.0);
        self.bars.push(Bar { name: "one_group_refused".to_owned(), value: Some(value), target });
        let (peak, target) = (ended.ok().map(|ended| mib(&ended.finished)), Target::AtMost(PEAK));
        self.bars.push(Bar { name: "one_group_peak_mib".to_owned(), value: peak, target });
    }

    fn terasorts(&mut self, selection: &Selection) -> Result<()> {
        let (mut inputs, mut done, mut seconds) = (Vec::new(), 0, Vec::new());
        let sizes = selection.terasorts();
        for rows in &sizes {
            inputs.push(self.generate(done, *rows)?);
            done = *rows;
            let measured = self.terasort(&inputs.join(","));
            self.row("terasort", rows * RECORD, &measured);
            seconds.push(measured.as_ref().ok().map(|measured| measured.seconds));
            if Some(rows) == sizes.last() && selection.has("terasort") {
                self.bounded("terasort", &measured);
            }
        }
        doublings(&seconds).into_iter().for_each(|bar| self.bars.push(bar));
        Ok(())
    }

    /// Writes the records of the rows from `first` up to `end`; returns where they are.
    fn generate(&self, first: u64, end: u64) -> Result<String> {
        let directory = self.scratch.path().join(format!("input-{end}"));
        let directory = directory.to_str().context("the path of the cache has to be UTF-8")?;
        eprintln!("writing the records {first} to {end}");
        let rows = [first, end].map(|row| row.to_string());
        let mut generate = self.app(&["terasort", "generate", &rows[0], &rows[1], directory]);
        process::run(&mut generate, TIME_LIMIT).context("cannot write terasort's input")?;
        Ok(directory.to_owned())
    }

    /// Sorts `input` into files, compares these with it, and removes them.
    ///
    /// Measured from disk to disk: `input` is not in the system's memory when it begins, nothing else
    /// waits to be written, and it ends when everything is. Otherwise small sizes would not meet the disk,
    /// and large ones would pay for the writing of their input too.
    fn terasort(&self, input: &str) -> Result<Measured> {
        let directory = self.scratch.path().join("output");
        let output = directory.to_str().context("the path of the cache has to be UTF-8")?;
        self.flush()?;
        input.split(',').try_for_each(forget)?;
        let sorted = process::run(&mut self.app(&["terasort", "sort", input, output]), TIME_LIMIT)
            .and_then(|finished| {
                let written = self.flush()?;
                process::run(&mut self.app(&["terasort", "validate", input, output]), TIME_LIMIT)?;
                let measured = measure("terasort", &finished)?;
                Ok(Measured { seconds: measured.seconds + written, ..measured })
            });
        if directory.exists() {
            fs::remove_dir_all(&directory).with_context(|| format!("cannot remove {output}"))?;
        }
        sorted
    }

    /// Waits until everything written is on the disk; returns the seconds that took.
    fn flush(&self) -> Result<f64> {
        let started = Instant::now();
        let directory = fs::File::open(self.scratch.path())?;
        rustix::fs::syncfs(directory).context("cannot write what is in memory to the disk")?;
        Ok(started.elapsed().as_secs_f64())
    }

    /// Two bars: did it end with the right result, and how much memory did it take.
    fn bounded(&mut self, name: &str, measured: &Result<Measured>) {
        let correct = f64::from(u8::from(measured.is_ok()));
        self.bars.push(Bar {
            name: format!("{name}_correct"),
            value: Some(correct),
            target: Target::AtLeast(1.0),
        });
        self.bars.push(Bar {
            name: format!("{name}_peak_mib"),
            value: measured.as_ref().ok().map(|measured| measured.peak_mib),
            target: Target::AtMost(PEAK),
        });
    }

    fn row(&mut self, name: &str, bytes: u64, measured: &Result<Measured>) {
        let mut cells = vec![name.to_owned(), gigabytes(bytes)];
        cells.extend(match measured {
            Ok(Measured { seconds, peak_mib }) => {
                let per_gigabyte = seconds / (bytes as f64 / GIGABYTE as f64);
                let seconds = [*seconds, per_gigabyte].map(|value| format!("{value:.2}"));
                let [seconds, per_gigabyte] = seconds;
                [seconds, per_gigabyte, show_peak(*peak_mib), "correct".to_owned()]
            }
            Err(error) => ["-", "-", "-", &format!("{error:#}")].map(str::to_owned),
        });
        self.push(cells);
    }

    /// Adds a row to the table, and shows it on stderr at once.
    fn push(&mut self, cells: Vec<String>) {
        eprintln!("{}", cells.join("  "));
        self.table.push(cells);
    }
}

/// Has the system forget the contents of a directory's files, which are on the disk.
fn forget(directory: &str) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let file = fs::File::open(entry?.path())?;
        rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed)?;
    }
    Ok(())
}

fn measure(name: &str, finished: &Finished) -> Result<Measured> {
    let seconds = Output::parse(&finished.stdout).best_seconds(name, 0)?;
    Ok(Measured { seconds, peak_mib: mib(finished) })
}

fn mib(finished: &Finished) -> f64 {
    finished.peak_rss_bytes as f64 / MIB as f64
}

fn show_peak(mib: f64) -> String {
    format!("{mib:.0} MiB")
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.2}", bytes as f64 / GIGABYTE as f64)
}

/// A bar for each size that has twice the rows of the one before.
fn doublings(seconds: &[Option<f64>]) -> Vec<Bar> {
    let ratio = |pair: &[Option<f64>]| Some(pair[1]? / pair[0]?);
    let bar = |(index, pair): (usize, &[Option<f64>])| Bar {
        name: format!("terasort_doubling_{}", index + 1),
        value: ratio(pair),
        target: Target::AtMost(DOUBLING),
    };
    seconds.windows(2).enumerate().map(bar).collect()
}

/// 1 for a process that ended by itself, with an error that names the operation and the setting.
fn judge_refusal(ended: &Ended) -> f64 {
    let ended_itself = ended.status.code().is_some_and(|code| code != 0);
    let says = |word: &str| ended.stderr.contains(word);
    f64::from(u8::from(ended_itself && says("group_by_key") && says("spark.driver.memory")))
}

fn refusal_words(ended: &Ended) -> String {
    let said = process::tail(&ended.stderr).replace('\n', " ");
    format!("{}: {said}", Ending(ended.status))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{
        DATA, GIGABYTE, LARGE_GROUP, NAMES, OPERATIONS, Selection, doublings, judge_refusal,
    };
    use crate::process;

    fn selection(only: &[&str], gigabytes: u64) -> Selection {
        Selection { only: only.iter().map(|name| (*name).to_owned()).collect(), gigabytes }
    }

    #[test]
    fn scaling_doubles_up_to_the_size_of_the_terasort() {
        let million = 1_000_000;
        let all = [10 * million, 20 * million, 40 * million, 80 * million];
        assert_eq!(selection(&[], 8).terasorts(), all);
        assert_eq!(selection(&["scaling"], 8).terasorts(), all);
        assert_eq!(selection(&["terasort", "join"], 2).terasorts(), [20 * million]);
        assert!(selection(&["join"], 8).terasorts().is_empty());
    }

    #[test]
    fn a_terasort_needs_room_for_its_files_and_the_others_for_theirs() {
        assert_eq!(selection(&[], 8).disk_space(), 29 * GIGABYTE);
        assert_eq!(selection(&["join"], 8).disk_space(), GIGABYTE + 3 * DATA);
    }

    #[test]
    fn all_names_are_known_and_the_data_is_larger_than_the_budget() {
        let all = selection(&[], 1);
        assert!(NAMES.iter().all(|name| all.has(name)));
        assert!(OPERATIONS.iter().all(|name| NAMES.contains(name)));
        assert_eq!((DATA, LARGE_GROUP), (2 << 30, 1 << 30));
    }

    #[test]
    fn each_doubling_is_a_bar_and_a_gap_is_short() {
        let lines = |seconds: &[Option<f64>]| {
            doublings(seconds).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(
            lines(&[Some(2.0), Some(4.4), Some(10.0), None]),
            [
                "bar terasort_doubling_1 2.200 2.2 ok",
                "bar terasort_doubling_2 2.273 2.2 short",
                "bar terasort_doubling_3 - 2.2 short",
            ]
        );
        assert!(lines(&[Some(2.0)]).is_empty());
    }

    #[test]
    fn only_an_error_that_names_operation_and_setting_is_a_refusal() {
        let text = "group_by_key: raise spark.driver.memory";
        for (script, expected) in [
            (format!("echo {text} >&2; exit 1"), 1.0),
            (format!("echo {text} >&2; exit 0"), 0.0),
            (format!("echo {text} >&2; kill -9 $$"), 0.0),
            ("echo group_by_key >&2; exit 1".to_owned(), 0.0),
            ("echo spark.driver.memory >&2; exit 1".to_owned(), 0.0),
        ] {
            let mut command = Command::new("sh");
            let ended = process::end(command.args(["-c", &script]), super::TIME_LIMIT).unwrap();
            assert_eq!(judge_refusal(&ended), expected, "{script}");
        }
    }
}
