//! README's table of measured figures, made of what `./bench` wrote to `benches/results`.
//!
//! A results file has lines of `KEY<tab>VALUE` (machine, conditions, date, commit) and of
//! `bar<tab>NAME<tab>VALUE<tab>TARGET<tab>ok|short`. This module renders what it is given; it never invents, rounds up
//! or reads a file.

use std::collections::BTreeMap;

/// What one whole run of `./bench COMMAND` measured, and where.
#[derive(Debug, Clone, PartialEq)]
pub struct Results {
    command: String,
    about: BTreeMap<String, String>,
    bars: BTreeMap<String, f64>,
}

impl Results {
    /// Reads a results file. A bar without a value (`-`) was not measured and is left out.
    pub fn parse(command: &str, text: &str) -> Result<Self, String> {
        let (mut about, mut bars) = (BTreeMap::new(), BTreeMap::new());
        for (index, line) in text.lines().enumerate() {
            let wrong = || format!("benches/results/{command}.tsv:{}: `{line}`", index + 1);
            match line.split('\t').collect::<Vec<_>>()[..] {
                ["bar", _, "-", ..] => {}
                ["bar", name, value, ..] => {
                    let value = value.parse().map_err(|_| wrong())?;
                    bars.insert(name.to_owned(), value);
                }
                [key, value] => {
                    about.insert(key.to_owned(), value.to_owned());
                }
                _ => return Err(wrong()),
            }
        }
        Ok(Self { command: command.to_owned(), about, bars })
    }

    fn origin(&self) -> String {
        let about = |key| self.about.get(key).map_or("unknown", String::as_str);
        let [machine, date, commit] = ["machine", "date", "commit"].map(about);
        format!("`./bench {}` at {commit}, {date}: {machine}.", self.command)
    }
}

/// One line of the table: what ran, which command measures it, the bars that tell speed and memory.
struct Row {
    what: &'static str,
    command: &'static str,
    speed: &'static str,
    memory: &'static str,
}

const fn row(
    what: &'static str,
    command: &'static str,
    speed: &'static str,
    memory: &'static str,
) -> Row {
    Row { what, command, speed, memory }
}

const ROWS: &[Row] = &[
    row("start, count 1,000 numbers, exit", "engine", "startup_vs_spark", "rss_vs_spark"),
    row("10,000 empty tasks", "engine", "tasks10000_vs_spark", ""),
    row("PageRank, 10 rounds over 1 M edges", "engine", "pagerank_vs_spark", ""),
    row("wordcount of 1 GB", "rdd", "wordcount_vs_spark", "wordcount_rss_vs_spark"),
    row("sort of 10 M records of 100 bytes", "rdd", "sort_vs_spark", "sort_rss_vs_spark"),
    row("map, filter, reduce of 100 M integers", "rdd", "longs_vs_spark", "longs_rss_vs_spark"),
    row("join of 5 M with 5 M rows, skewed", "rdd", "join_vs_spark", "join_rss_vs_spark"),
    row("group 20 M pairs by key", "rdd", "group_vs_spark", "group_rss_vs_spark"),
    row("distinct of 20 M strings", "rdd", "distinct_vs_spark", "distinct_rss_vs_spark"),
    row("cluster: start, count 1,000 numbers, exit", "cluster", "start_vs_spark", ""),
    row("cluster: 10,000 empty tasks", "cluster", "tasks10000_vs_spark", ""),
    row("cluster: a killed executor is replaced", "cluster", "executor_kill_vs_spark", ""),
];

/// Times of a program written by hand: what ran, the command, the bar.
const BY_HAND: &[(&str, &str, &str)] = &[
    ("four fused steps", "engine", "pipelines"),
    ("ten fused steps", "engine", "chain10"),
    ("wordcount", "rdd", "wordcount_vs_limit"),
    ("sort", "rdd", "sort_vs_limit"),
];

const NOTHING: &str = "No run of `./bench` is recorded in `benches/results` yet.\n";

/// The table as markdown. What no results tell is not in it.
pub fn table(results: &[Results]) -> String {
    let value = |command: &str, bar: &str| {
        results.iter().find(|it| it.command == command)?.bars.get(bar).copied()
    };
    let rows: Vec<String> = ROWS.iter().filter_map(|row| row.cells(value)).collect();
    if rows.is_empty() {
        return NOTHING.to_owned();
    }
    let mut text =
        String::from("| | speed: times Spark's | peak memory: of Spark's |\n|---|---|---|\n");
    rows.iter().for_each(|row| text.push_str(row));
    let by_hand = BY_HAND
        .iter()
        .filter_map(|(what, command, bar)| Some(format!("{what} {:.2}", value(command, bar)?)));
    let by_hand: Vec<String> = by_hand.collect();
    if !by_hand.is_empty() {
        text += &format!("\nTimes as long as Rust written by hand: {}.\n", by_hand.join(", "));
    }
    let shown = results.iter().filter(|it| ROWS.iter().any(|row| row.command == it.command));
    let origins: Vec<String> = shown.map(Results::origin).collect();
    text + &format!("\n{}\n", origins.join("\n"))
}

impl Row {
    /// Nothing where the speed was not measured.
    fn cells(&self, value: impl Fn(&str, &str) -> Option<f64>) -> Option<String> {
        let speed = times(value(self.command, self.speed)?);
        let memory = value(self.command, self.memory);
        let memory = memory.map_or(String::new(), |share| format!("{:.0} %", share * 100.0));
        Some(format!("| {} | {speed} | {memory} |\n", self.what))
    }
}

/// Two digits tell enough of a ratio.
fn times(ratio: f64) -> String {
    if ratio < 10.0 { format!("{ratio:.1}") } else { format!("{ratio:.0}") }
}

#[cfg(test)]
mod tests {
    use super::{NOTHING, Results, table};

    const ENGINE: &str = "machine\t2 cores\ndate\t2026-01-02\ncommit\tabc1234\n\
                          bar\tstartup_vs_spark\t61.400\t50\tok\nbar\trss_vs_spark\t0.041\t0.1\tok\n\
                          bar\ttasks10000_vs_spark\t-\t25\tshort\nbar\tpipelines\t1.021\t1.3\tok\n";

    #[test]
    fn the_table_has_what_was_measured_and_where() {
        let results = Results::parse("engine", ENGINE).unwrap();
        assert_eq!(
            table(&[results]),
            "| | speed: times Spark's | peak memory: of Spark's |\n|---|---|---|\n\
             | start, count 1,000 numbers, exit | 61 | 4 % |\n\
             \nTimes as long as Rust written by hand: four fused steps 1.02.\n\
             \n`./bench engine` at abc1234, 2026-01-02: 2 cores.\n"
        );
    }

    #[test]
    fn without_results_the_table_says_so() {
        assert_eq!(table(&[]), NOTHING);
        assert_eq!(table(&[Results::parse("memory", "bar\tpeak\t1\t2\tok\n").unwrap()]), NOTHING);
    }

    #[test]
    fn a_line_that_is_no_result_is_named() {
        for line in ["bar\tspeed\tquick\t1\tok", "date", "a\tb\tc"] {
            let error = Results::parse("rdd", &format!("commit\tabc\n{line}\n")).unwrap_err();
            assert_eq!(error, format!("benches/results/rdd.tsv:2: `{line}`"));
        }
    }
}
