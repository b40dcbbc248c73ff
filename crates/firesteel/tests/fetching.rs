//! Map outputs that an executor which goes on living cannot serve: found together, named, and computed again
//! without ending the job (invariant L07).

mod executors;

use std::fs;
use std::path::{Path, PathBuf};

use firesteel::prelude::*;
use firesteel::types::{Event, TaskFailure};

use executors::{Seen, processes, signal, started};

const MAPS: u32 = 12;
const RECORDS: u64 = 240_000;

/// Map outputs of this go to files: each has more than a MiB.
fn placed(ctx: &Context) -> Rdd<(u64, String)> {
    let pairs = ctx.range_in(MAPS as usize, 0..RECORDS, 1);
    let pairs = pairs.map(|n| (n, format!("{:0>80}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))));
    pairs.partition_by(6)
}

fn total(placed: &Rdd<(u64, String)>) -> Result<u64> {
    placed.values().map(|text| text.len() as u64).sum()
}

/// Two executors that write below this directory.
fn on_disk(directory: &Path) -> (Context, Seen) {
    let builder = executors::builder(2).config("spark.local.dir", directory.display());
    started(builder.config("spark.shuffle.compress", false), 2)
}

/// The files of map outputs, by executor.
fn files_by_executor(directory: &Path) -> Vec<Vec<PathBuf>> {
    let mut found = std::collections::BTreeMap::<PathBuf, Vec<PathBuf>>::new();
    let mut todo = vec![directory.to_owned()];
    while let Some(path) = todo.pop() {
        for entry in fs::read_dir(&path).unwrap().flatten() {
            let is_output = entry.file_name().to_string_lossy().contains("shuffle");
            match entry.file_type().unwrap().is_dir() {
                true => todo.push(entry.path()),
                false if is_output => found.entry(path.clone()).or_default().push(entry.path()),
                false => {}
            }
        }
    }
    found.into_values().collect()
}

fn truncate(path: &PathBuf) {
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(fs::metadata(path).unwrap().len() / 2).unwrap();
}

/// Fetch failures, as the map partitions that each names first, and attempts of stages beyond the first.
fn failures(seen: &Seen) -> (Vec<u32>, usize) {
    let events = seen.0.lock().unwrap();
    let named = events.iter().filter_map(|event| match event {
        Event::TaskEnd {
            failure: Some(TaskFailure::FetchFailed { map_partition, .. }), ..
        } => Some(*map_partition),
        _ => None,
    });
    let rerun = |event: &&Event| matches!(event, Event::StageSubmitted { stage, .. } if stage.stage.attempt > 0 && !stage.shuffle_map);
    (named.collect(), events.iter().filter(rerun).count())
}

#[test]
fn one_truncated_output_is_named_by_readers_elsewhere_and_computed_again_alone() {
    let directory = tempfile::tempdir().unwrap();
    let (ctx, seen) = on_disk(directory.path());
    let placed = placed(&ctx);
    assert_eq!(total(&placed).unwrap(), RECORDS * 80);
    let files = files_by_executor(directory.path());
    truncate(&files[0][files[0].len() / 2]);
    assert_eq!(total(&placed).unwrap(), RECORDS * 80);
    let (named, attempts) = failures(&seen);
    assert!(!named.is_empty(), "nothing was found broken");
    assert!(named.iter().all(|map| *map == named[0]), "one output is broken: {named:?}");
    assert!(attempts <= 2, "{attempts} attempts for one output");
}

#[test]
fn all_outputs_of_an_executor_with_a_bad_disk_are_found_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let (ctx, seen) = on_disk(directory.path());
    let placed = placed(&ctx);
    assert_eq!(total(&placed).unwrap(), RECORDS * 80);
    let files = files_by_executor(directory.path());
    assert!(files[0].len() >= 4, "{files:?}");
    files[0].iter().for_each(truncate);
    assert_eq!(total(&placed).unwrap(), RECORDS * 80);
    let (named, attempts) = failures(&seen);
    assert!(!named.is_empty() && attempts <= 3, "{attempts} attempts, {named:?}");
}

#[test]
fn outputs_that_are_all_spoilt_on_every_executor_are_computed_again() {
    let directory = tempfile::tempdir().unwrap();
    let (ctx, _) = on_disk(directory.path());
    let placed = placed(&ctx);
    assert_eq!(total(&placed).unwrap(), RECORDS * 80);
    for path in files_by_executor(directory.path()).iter().flatten() {
        let mut bytes = fs::read(path).unwrap();
        let places = (0..bytes.len()).step_by(5000);
        places.for_each(|place| bytes[place] ^= 0xff);
        fs::write(path, bytes).unwrap();
    }
    assert_eq!(total(&placed).unwrap(), RECORDS * 80);
}

#[test]
fn many_lost_outputs_of_this_process_end_no_job() {
    let ctx = Context::builder().master("local[2]").arguments([""; 0]);
    let ctx = ctx.config("spark.ui.showConsoleProgress", false).build().unwrap();
    let sums =
        ctx.range_in(12, 0..1200u64, 1).map(|n| (n % 7, n)).reduce_by_key_into(3, |a, b| a + b);
    let right = sums.values().sum().unwrap();
    let blocks = ctx.blocks();
    let outputs: Vec<_> = blocks.iter().filter(|name| name.starts_with("shuffle_")).collect();
    assert_eq!(outputs.len(), 12);
    assert!(outputs[..10].iter().all(|block| ctx.lose_block(block)));
    assert_eq!(sums.values().sum().unwrap(), right);
}

/// The system takes connections for a process that is stopped, and nobody answers: that is no reason to end
/// the job.
#[test]
fn an_executor_that_stands_still_between_two_stages_costs_its_outputs_and_not_the_job() {
    let builder = executors::builder(2).config("spark.network.auth.rpcTimeout", "1s");
    let builder = builder.config("spark.shuffle.io.retryWait", "100ms");
    // New tasks may go to it, and wait until it is declared dead.
    let builder = builder.config("spark.network.timeout", "8s");
    let builder = builder.config("spark.executor.heartbeatInterval", "1s");
    let (ctx, seen) = started(builder.config("spark.locality.wait", "0"), 2);
    let processes = processes(&ctx);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("stopped");
    let pairs = ctx.range_in(8, 0..8000u64, 1).map(|n| {
        if n % 1000 == 0 {
            executors::work();
        }
        (n % 11, n)
    });
    // The reader stops the other executor before it reads the first record.
    let sums =
        pairs.partition_by(1).with((processes, path)).map_partitions(|(processes, path), items| {
            let mut items = items;
            let first = fs::OpenOptions::new().write(true).create_new(true).open(path).is_ok();
            if first {
                let own = std::process::id();
                processes.iter().filter(|id| **id != own).for_each(|id| signal("-STOP", *id));
            }
            items.by_ref().map(|(_, n)| n).collect::<Vec<u64>>()
        });
    let sum = sums.sum();
    stopped_children().iter().for_each(|id| signal("-CONT", *id));
    assert_eq!(sum.unwrap(), 8000 * 7999 / 2);
    assert!(!failures(&seen).0.is_empty(), "nothing was read from the executor that stood still");
}

/// Processes that this one started and that stand still.
fn stopped_children() -> Vec<u32> {
    let own = std::process::id();
    let all = fs::read_dir("/proc").unwrap().flatten();
    let ids = all.filter_map(|entry| entry.file_name().to_string_lossy().parse::<u32>().ok());
    let stopped = ids.filter(|id| {
        let Ok(stat) = fs::read_to_string(format!("/proc/{id}/stat")) else { return false };
        let Some(rest) = stat.rsplit(") ").next() else { return false };
        let mut fields = rest.split(' ');
        fields.next() == Some("T") && fields.next() == Some(&own.to_string())
    });
    stopped.collect()
}
