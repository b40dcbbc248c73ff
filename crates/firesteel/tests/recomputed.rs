//! Map outputs that are lost after some of their readers are done, and come out in another order, or different,
//! when they are computed again: the answer is right, or the job says why there is none.

mod executors;

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use firesteel::prelude::*;
use firesteel::types::{Event, ExecutorId, StageInfo, TaskInfo};

use executors::{DEADLINE, Seen, alive, signal, started, wait_until, work};

/// Two executors of two cores with so little memory that tables spill when two tasks share it, and do not
/// when one has it alone.
fn cramped() -> (Context, Seen) {
    let builder = executors::builder(2).master("local-cluster[2,2,1024]");
    let builder = builder.config("spark.executor.memory", "20m");
    started(builder.config("spark.memory.fraction", "0.5"), 2)
}

/// The last reader waits for this file before it reads anything.
fn gate() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("open");
    (directory, path)
}

/// In a task: partition 0 goes on at once, the others when the gate is open.
fn pass(gate: &Path, partition: usize) {
    let begun = std::time::Instant::now();
    while partition > 0 && !gate.exists() {
        assert!(begun.elapsed() < DEADLINE, "the gate stays shut");
        TaskContext::current().unwrap().check_killed();
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// The tasks that succeeded after so many events.
fn succeeded(events: &[Event], before: usize) -> impl Iterator<Item = &TaskInfo> {
    events[before..].iter().filter_map(|event| match event {
        Event::TaskEnd { task, failure: None, .. } => Some(task),
        _ => None,
    })
}

/// Each executor's process.
fn processes(ctx: &Context, seen: &Seen) -> BTreeMap<ExecutorId, u32> {
    let before = seen.0.lock().unwrap().len();
    let ids = ctx.parallelize_in(8, 0..8u32).map(|_| {
        work();
        std::process::id()
    });
    let ids = ids.collect().unwrap();
    seen.wait(|events| succeeded(events, before).count() >= ids.len());
    let events = seen.0.lock().unwrap();
    let of = |task: &TaskInfo| (task.executor, ids[task.partition as usize]);
    succeeded(&events, before).map(of).collect()
}

/// In a map task: goes on when two executors have come here. So each of them has map outputs.
fn meet(directory: &Path) {
    static MET: AtomicBool = AtomicBool::new(false);
    if MET.load(Ordering::Relaxed) {
        return;
    }
    std::fs::write(directory.join(std::process::id().to_string()), "").unwrap();
    let begun = std::time::Instant::now();
    while std::fs::read_dir(directory).unwrap().count() < 2 {
        assert!(begun.elapsed() < DEADLINE, "nobody else comes");
        TaskContext::current().unwrap().check_killed();
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    MET.store(true, Ordering::Relaxed);
}

/// Kills the executor where partition 1 of the stage waits that `pick` takes out of those of the job, once partition 0 is done.
fn kill_who_waits(
    processes: &BTreeMap<ExecutorId, u32>,
    (seen, before): (&Seen, usize),
    pick: fn(&StageInfo, usize) -> bool,
) {
    let waits = |events: &[Event]| {
        let submitted = events[before..].iter().filter_map(|event| match event {
            Event::StageSubmitted { stage, .. } => Some(stage),
            _ => None,
        });
        let (_, stage) = submitted.enumerate().find(|(index, stage)| pick(stage, *index))?;
        let mut ended = succeeded(events, before).filter(|task| task.stage == stage.stage);
        ended.find(|task| task.partition == 0)?;
        events[before..].iter().find_map(|event| match event {
            Event::TaskStart { task, .. } => {
                (task.stage == stage.stage && task.partition == 1).then_some(task.executor)
            }
            _ => None,
        })
    };
    seen.wait(|events| waits(events).is_some());
    let waits = waits(&seen.0.lock().unwrap()).unwrap();
    signal("-9", processes[&waits]);
}

/// What `rdd` collects when an executor dies after its first partition was delivered and before any other was read.
fn collect_with_a_loss<T: Data + Clone>(
    ctx: &Context,
    seen: &Seen,
    rdd: &Rdd<T>,
) -> Result<Vec<T>> {
    let (_directory, path) = gate();
    let gated = rdd.with(path.clone()).map_partitions_with_index(|gate, index, items| {
        let (gate, mut items) = (gate.clone(), items);
        let mut shut = true;
        std::iter::from_fn(move || {
            if std::mem::take(&mut shut) {
                pass(&gate, index);
            }
            items.next()
        })
    });
    let processes = processes(ctx, seen);
    let before = seen.0.lock().unwrap().len();
    let collected = gated.collect_async();
    kill_who_waits(&processes, (seen, before), |stage, _| !stage.shuffle_map);
    seen.wait(|events| {
        events[before..].iter().any(|event| matches!(event, Event::ExecutorRemoved { .. }))
    });
    std::fs::write(&path, "").unwrap();
    let result = collected.wait();
    wait_until(|| alive(&seen.0.lock().unwrap()) == 2);
    result
}

/// How often stages were run beyond their first attempt.
fn reruns(seen: &Seen) -> usize {
    let events = seen.0.lock().unwrap();
    let rerun = |event: &&Event| matches!(event, Event::StageSubmitted { stage, .. } if stage.stage.attempt > 0);
    events.iter().filter(rerun).count()
}

#[test]
fn what_is_dealt_after_a_reduction_that_spills_is_neither_lost_nor_repeated() {
    let (ctx, seen) = cramped();
    let sums =
        ctx.range_in(4, 0..400_000u64, 1).map(|n| (n, n)).reduce_by_key_into(4, |a, b| a + b);
    let meeting = tempfile::tempdir().unwrap();
    let dealt = sums.with(meeting.path().to_owned()).map(|meeting, (key, _)| {
        meet(meeting);
        key
    });
    let dealt = dealt.repartition(2);
    let found = collect_with_a_loss(&ctx, &seen, &dealt).unwrap();
    assert_eq!(found.len(), 400_000);
    assert_eq!(found.into_iter().collect::<HashSet<_>>().len(), 400_000);
    assert!(reruns(&seen) > 0, "nothing was computed again");
}

#[test]
fn what_is_distributed_from_a_hash_set_of_the_users_is_neither_lost_nor_repeated() {
    let (ctx, seen) = started(executors::builder(2), 2);
    let meeting = tempfile::tempdir().unwrap();
    let numbers = ctx.range_in(4, 0..100_000u64, 1).with(meeting.path().to_owned());
    let distinct = numbers.map_partitions(|meeting, items| {
        meet(meeting);
        // Another order each time.
        items.collect::<HashSet<u64>>()
    });
    let found = collect_with_a_loss(&ctx, &seen, &distinct.repartition(2)).unwrap();
    assert_eq!(found.len(), 100_000);
    assert_eq!(found.into_iter().collect::<HashSet<_>>().len(), 100_000);
    assert!(reruns(&seen) > 0, "nothing was computed again");
}

/// Floating-point sums depend on the order of their terms, and so what they are dealt by.
#[test]
fn sums_of_fractions_are_dealt_right_or_the_job_says_that_they_came_out_different() {
    let (ctx, seen) = cramped();
    let terms = ctx.range_in(4, 0..800_000u64, 1).map(|n| (n % 200_000, 1.0 / (n + 1) as f64));
    let sums = terms.reduce_by_key_into(4, |a, b| a + b).repartition(2);
    match collect_with_a_loss(&ctx, &seen, &sums) {
        Ok(found) => {
            let keys: HashSet<u64> = found.iter().map(|(key, _)| *key).collect();
            assert_eq!((found.len(), keys.len()), (200_000, 200_000));
        }
        Err(error) => assert!(error.to_string().contains("other records"), "{error}"),
    }
    assert_eq!(ctx.range_in(2, 0..10u64, 1).count().unwrap(), 10, "the context goes on");
}

/// A value whose last digits differ in each attempt, as sums of fractions may, and a reader that is chosen by it.
#[test]
fn a_record_that_moves_to_another_reader_because_of_its_last_digits_is_noticed() {
    for combined in [false, true] {
        let (ctx, seen) = started(executors::builder(2), 2);
        let sums =
            ctx.range_in(4, 0..10_000u64, 1).map(|n| (n, 1u64)).reduce_by_key_into(4, |a, b| a + b);
        let meeting = tempfile::tempdir().unwrap();
        let inexact = sums.with(meeting.path().to_owned()).map(|meeting, (n, sum)| {
            meet(meeting);
            let task = TaskContext::current().unwrap();
            let digit = u64::from(task.stage().attempt > 0 || task.attempt() > 0) & (n & 1);
            (Total((n * 2 + sum + digit) as f64), n)
        });
        let placed = match combined {
            false => inexact.partition_by(2).values().boxed(),
            true => inexact.reduce_by_key_into(2, |a, _| a).values().boxed(),
        };
        let error = collect_with_a_loss(&ctx, &seen, &placed).unwrap_err().to_string();
        assert!(error.contains("other records"), "{error}");
    }
}

#[test]
fn records_placed_by_chance_are_refused_when_they_come_out_different() {
    let (ctx, seen) = started(executors::builder(2), 2);
    let meeting = tempfile::tempdir().unwrap();
    let numbers = ctx.range_in(4, 0..10_000u64, 1).with(meeting.path().to_owned());
    let drawn = numbers.map(|meeting, n| {
        meet(meeting);
        let chance = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        (u64::from(chance.subsec_nanos()).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7, n)
    });
    let placed = drawn.indeterminate().partition_by(2);
    let error = collect_with_a_loss(&ctx, &seen, &placed.values().boxed()).unwrap_err();
    assert!(error.to_string().contains("other records"), "{error}");
    assert!(error.to_string().contains("results were delivered"), "{error}");
}

/// The stage between is rolled back, and the job goes on: no result was delivered.
#[test]
fn records_placed_by_chance_are_computed_again_as_a_whole_when_nothing_was_delivered() {
    let (ctx, seen) = started(executors::builder(2), 2);
    let (_directory, path) = gate();
    let meeting = tempfile::tempdir().unwrap();
    let numbers = ctx.range_in(4, 0..10_000u64, 1).with(meeting.path().to_owned());
    let drawn = numbers.map(|meeting, n| {
        meet(meeting);
        let chance = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        (u64::from(chance.subsec_nanos()).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7, n)
    });
    let placed = drawn.indeterminate().partition_by(2).with(path.clone());
    let counted = placed.map_partitions_with_index(|gate, index, items| {
        pass(gate, index);
        items.map(|(_, n)| (n, 1u32)).collect::<Vec<_>>()
    });
    let counts = counted.reduce_by_key_into(2, |a, b| a + b);
    let processes = processes(&ctx, &seen);
    let before = seen.0.lock().unwrap().len();
    let collected = counts.collect_async();
    kill_who_waits(&processes, (&seen, before), |_, index| index == 1);
    std::fs::write(&path, "").unwrap();
    let counts = collected.wait().unwrap();
    assert_eq!(counts.len(), 10_000);
    assert!(counts.iter().all(|(_, count)| *count == 1), "a record was repeated");
}

#[test]
fn levels_of_determinism_follow_the_lineage() {
    use firesteel::Determinism::{Determinate, Indeterminate, Unordered};
    let ctx = Context::builder().master("local[1]").arguments([""; 0]).build().unwrap();
    let source = ctx.range_in(2, 0..10u64, 1).map(|n| (n % 3, n));
    assert_eq!(source.determinism(), Determinate);
    assert_eq!(source.repartition(3).determinism(), Determinate);
    assert_eq!(source.sort_by_key().determinism(), Determinate);
    assert_eq!(source.zip_with_index().determinism(), Determinate);
    assert_eq!(source.sample(false, 0.5, 1).determinism(), Determinate);
    let sums = source.reduce_by_key(|a, b| a + b);
    assert_eq!(sums.determinism(), Unordered);
    assert_eq!(sums.map_values(|n| n + 1).filter(|_| true).determinism(), Unordered);
    assert_eq!(source.group_by_key().determinism(), Unordered);
    assert_eq!(source.join(&sums).determinism(), Unordered);
    assert_eq!(source.map_partitions(|items| items).determinism(), Unordered);
    assert_eq!(sums.zip_with_index().determinism(), Indeterminate);
    assert_eq!(sums.sample(false, 0.5, 1).determinism(), Indeterminate);
    assert_eq!(sums.map_partitions(|items| items).determinism(), Indeterminate);
    assert_eq!(
        sums.zip_with_index().repartition(2).determinism(),
        Unordered,
        "rolled back if need be"
    );
    assert_eq!(source.indeterminate().determinism(), Indeterminate);
    let directory = tempfile::tempdir().unwrap();
    ctx.set_checkpoint_dir(directory.path().to_str().unwrap()).unwrap();
    let kept = source.indeterminate().checkpoint();
    kept.count().unwrap();
    assert_eq!(kept.determinism(), Determinate, "it is read, not computed");
}
