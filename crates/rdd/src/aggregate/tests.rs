//! Groups that are spilled: in bounded records, in order, and refused when they cannot fit.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use firesteel_closure::encoded_len;
use firesteel_shuffle::spilled;
use firesteel_storage::MemoryManager;
use firesteel_types::{TaskFailure, TaskId};
use proptest::prelude::*;

use super::*;
use crate::growth::PIECE_BYTES;
use crate::join::{CoGrouping, Side};
use crate::testing::TestTask;

const MIB: u64 = 1 << 20;

fn text(n: u64) -> String {
    format!("{n:0>90}")
}

/// With another task beside it, a task is refused before its key is too large for the budget.
fn with_company<R>(test: &TestTask, work: impl FnOnce() -> R) -> R {
    let company = test.memory().reserve(TaskId(2));
    let result = work();
    drop(company);
    test.memory().end_task(TaskId(2));
    result
}

#[test]
fn a_group_is_spilled_in_bounded_records_and_comes_together_in_order() {
    let test = TestTask::new(12 * MIB);
    // About 7 MiB: more than half of the budget.
    let values = 50_000;
    let filled = with_company(&test, || {
        fill((0..values).map(|n| (7u64, text(n))), &Grouping, "group_by_key", 0, &test.task)
    });
    let Filled::Parts(parts) = filled else { panic!("it fits into half of the budget") };
    let part = part_of_key(&7u64, 0);
    let pieces: Vec<(u64, Vec<String>)> = records(&parts, part, &test.task).collect();
    assert_eq!(pieces.len() as u64, parts.records(), "all of one key");
    let longest = pieces.iter().map(|piece| encoded_len(piece).unwrap()).max().unwrap();
    assert!(longest <= PIECE_BYTES + 200, "{longest}");
    let again = Grouping.again();
    let mut groups = fold_by_key(pieces.into_iter(), again, "group_by_key", 1, &test.task);
    let (key, group) = groups.next().unwrap();
    assert!(matches!(groups, Pairs::Held { .. }), "alone, it fits");
    assert!(key == 7 && group.into_iter().eq((0..values).map(text)));
    assert!(groups.next().is_none());
}

#[test]
fn both_sides_of_a_cogroup_are_spilled_in_bounded_records() {
    let test = TestTask::new(12 * MIB);
    let items = (0..100_000).map(|n| match n % 2 {
        0 => (7u64, Side::Left(text(n))),
        _ => (7, Side::Right(n)),
    });
    let filled = with_company(&test, || fill(items, &CoGrouping, "cogroup", 0, &test.task));
    let Filled::Parts(parts) = filled else { panic!("it fits into half of the budget") };
    type Groups = (Vec<String>, Vec<u64>);
    let pieces: Vec<(u64, Groups)> = records(&parts, part_of_key(&7u64, 0), &test.task).collect();
    let longest = pieces.iter().map(|piece| encoded_len(piece).unwrap()).max().unwrap();
    assert!(longest <= PIECE_BYTES + 200, "{longest}");
    let again = Fold::<Side<String, u64>, Groups>::again(&CoGrouping);
    let mut groups = fold_by_key(pieces.into_iter(), again, "cogroup", 1, &test.task);
    let (_, (left, right)) = groups.next().unwrap();
    assert!(left.into_iter().eq((0..100_000).step_by(2).map(text)));
    assert!(right.into_iter().eq((1..100_000).step_by(2)));
}

#[test]
fn a_key_that_cannot_fit_is_refused_as_soon_as_that_is_certain() {
    let test = TestTask::new(8 * MIB);
    let mut pulled = 0;
    spilled::take();
    let refused = catch_unwind(AssertUnwindSafe(|| {
        let items = (0..10_000_000).map(|n| {
            pulled += 1;
            (7u64, text(n))
        });
        fill(items, &Grouping, "group_by_key", 0, &test.task)
    }));
    let Err(payload) = refused else { panic!("ten million texts fit into 8 MiB") };
    let failure = payload.downcast::<TaskFailure>().unwrap();
    let TaskFailure::Fatal { message } = *failure else { panic!("{failure:?}") };
    let expected = ["group_by_key", "8 MiB", "spark.driver.memory"];
    assert!(expected.iter().all(|word| message.contains(word)), "{message}");
    let read = pulled * text(0).len() as u64;
    assert!((4 * MIB..8 * MIB).contains(&read), "after {read} bytes");
    assert_eq!(spilled::take(), spilled::Spilled::default(), "nothing was spilled");
    assert_eq!(test.memory().used(), (0, 0), "memory was given back");
}

/// A group of about 5 MiB, as another task makes it.
fn group_in_a_task(memory: &Arc<MemoryManager>, task: TaskId) -> Result<u64, TaskFailure> {
    let test = TestTask::sharing(memory.clone(), task);
    let items = (0..40_000).map(|n| (7u64, text(n)));
    let grouped = catch_unwind(AssertUnwindSafe(|| {
        let mut groups = fold_by_key(items, Grouping, "group_by_key", 0, &test.task);
        let (_, group) = groups.next().unwrap();
        assert!(group.iter().enumerate().all(|(n, value)| *value == text(n as u64)));
        group.len() as u64
    }));
    memory.end_task(task);
    grouped.map_err(|payload| *payload.downcast::<TaskFailure>().unwrap())
}

#[track_caller]
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::yield_now();
    }
}

/// Whether a task is in its last resort.
fn is_in_last_resort(memory: &Arc<MemoryManager>) -> bool {
    LastResort::take(memory, TaskId(99), Duration::ZERO).is_none()
}

#[test]
fn a_key_that_fits_waits_until_others_have_given_their_memory_back() {
    let memory = Arc::new(MemoryManager::new(16 * MIB, 0.5));
    let mut held = memory.reserve(TaskId(2));
    assert!(held.resize(16 * MIB), "alone for a while, it takes everything");
    let group = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| group_in_a_task(&memory, TaskId(1)));
        wait_until("the other one waits", || is_in_last_resort(&memory));
        assert!(!waiting.is_finished());
        drop(held);
        waiting.join().unwrap()
    });
    assert_eq!(group, Ok(40_000));
    assert_eq!(memory.used(), (0, 0));
}

#[test]
fn tasks_with_a_key_beyond_their_share_take_turns() {
    // Four of them; each needs more than a quarter, and more than a half while it grows.
    let memory = Arc::new(MemoryManager::new(14 * MIB, 0.5));
    std::thread::scope(|scope| {
        let tasks: Vec<_> = (1..=4)
            .map(|task| {
                let memory = &memory;
                scope.spawn(move || group_in_a_task(memory, TaskId(task)))
            })
            .collect();
        for task in tasks {
            assert_eq!(task.join().unwrap(), Ok(40_000));
        }
    });
    assert!(memory.peak() <= 14 * MIB);
    assert_eq!(memory.used(), (0, 0));
}

#[test]
fn a_key_that_cached_partitions_leave_no_memory_for_fails_its_task_and_not_the_job() {
    let memory = Arc::new(MemoryManager::new(16 * MIB, 1.0));
    assert!(memory.acquire_storage(14 * MIB), "cached, and no task may evict it");
    let failure = group_in_a_task(&memory, TaskId(1)).unwrap_err();
    let TaskFailure::Error { message } = failure else { panic!("{failure:?}") };
    let expected = ["group_by_key", "16 MiB", "14 MiB", "unpersist"];
    assert!(expected.iter().all(|word| message.contains(word)), "{message}");
}

#[test]
fn tasks_that_wait_for_each_other_do_not_wait_for_ever() {
    let memory = Arc::new(MemoryManager::new(16 * MIB, 0.5));
    let mut held = memory.reserve(TaskId(2));
    assert!(held.resize(15 * MIB));
    // It waits for a block that the other one computes.
    let _blocked = memory.blocked(TaskId(2));
    let failure = group_in_a_task(&memory, TaskId(1)).unwrap_err();
    assert!(matches!(failure, TaskFailure::Error { .. }), "{failure:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// The lower the key the more values it has; several runs are spilled, at several depths.
    #[test]
    fn groups_are_right_however_often_they_are_spilled(
        seed in any::<u64>(),
        keys in 20u64..400,
        length in 0usize..120,
        budget in 2 * MIB..6 * MIB,
    ) {
        let test = TestTask::new(budget);
        let mut rng = fastrand::Rng::with_seed(seed);
        let items: Vec<(u64, (u64, String))> = (0..40_000)
            .map(|n| (rng.u64(..keys).min(rng.u64(..keys)), (n, "x".repeat(rng.usize(..=length)))))
            .collect();
        let mut expected: BTreeMap<u64, Vec<(u64, String)>> = BTreeMap::new();
        for (key, value) in items.clone() {
            expected.entry(key).or_default().push(value);
        }
        let found = with_company(&test, || {
            let groups = fold_by_key(items.into_iter(), Grouping, "group_by_key", 0, &test.task);
            groups.collect::<Vec<_>>()
        });
        prop_assert_eq!(found.len(), expected.len(), "each key once");
        prop_assert!(found.into_iter().collect::<BTreeMap<_, _>>() == expected);
    }
}
