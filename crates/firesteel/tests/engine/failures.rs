//! What goes wrong in users' code, and what becomes of the job and the context.

use firesteel::prelude::*;
use firesteel::types::{Event, JobError, TaskFailure};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::rig::{Heard, TRANSPORTS, builder, context_over};

fn attempt() -> u32 {
    TaskContext::current().unwrap().attempt()
}

#[test]
fn a_panic_is_tried_again_as_often_as_the_master_says() {
    for transport in TRANSPORTS {
        let over = builder("local[2,3]").config("spark.firesteel.local.transport", transport);
        let (ctx, heard) = Heard::attach(over);
        let rdd = ctx.range_in(4, 0..40u64, 1).map(|n| {
            assert!(n != 25 || attempt() == 2, "attempt {} fails", attempt());
            n
        });
        assert_eq!(rdd.sum().unwrap(), 780, "{transport}");
        let failed = heard.count(&ctx, |event| {
            matches!(event, Event::TaskEnd { failure: Some(TaskFailure::Panicked { .. }), .. })
        });
        assert_eq!((failed, heard.tasks(&ctx)), (2, 6), "{transport}");
    }
}

#[test]
fn a_job_that_fails_says_where_and_why_and_the_context_goes_on() {
    for transport in TRANSPORTS {
        for (master, attempts) in [("local[2]", 1), ("local[2,3]", 3)] {
            let ctx = context_over(transport, master);
            let rdd = ctx.range_in(4, 0..40u64, 1).map(|n| {
                assert!(n != 25, "no item {n} please");
                n
            });
            let line = line!() - 3;
            let error = rdd.count().unwrap_err();
            let Error::Job(JobError::TaskFailed { partition, attempts: tried, failure, .. }) =
                &error
            else {
                panic!("{error:?}")
            };
            assert_eq!((*partition, *tried), (2, attempts));
            assert!(matches!(failure, TaskFailure::Panicked { .. }), "{failure:?}");
            let text = error.to_string();
            let place = format!("failures.rs:{line}");
            for part in ["partition 2", "stage 0.0", "count at ", "no item 25 please", &place] {
                assert!(text.contains(part), "{part} is not in: {text}");
            }
            assert!(text.contains(&format!("failed {attempts} time(s)")), "{text}");
            // Everything works afterwards: results, shuffles, the very same RDD's good parts.
            assert_eq!(rdd.filter(|_| true).take(5).unwrap(), [0, 1, 2, 3, 4]);
            let pairs = ctx.range(0..10u64).map(|n| (n % 2, n));
            assert_eq!(pairs.group_by_key().count().unwrap(), 2);
        }
    }
}

#[test]
fn a_panic_in_a_map_stage_names_that_stage_and_partition() {
    for transport in TRANSPORTS {
        let ctx = context_over(transport, "local[2]");
        let pairs = ctx.range_in(3, 0..9u64, 1).map(|n| {
            assert!(n != 4, "in the map stage");
            (n, n)
        });
        let shuffled = pairs.reduce_by_key(|a, b| a + b);
        for _ in 0..2 {
            let text = shuffled.count().unwrap_err().to_string();
            assert!(text.contains("partition 1") && text.contains("in the map stage"), "{text}");
        }
        let reduced = ctx.range_in(3, 0..9u64, 1).map(|n| (n % 2, n)).reduce_by_key(|a, b| {
            assert!(a + b < 10, "on the reduce side");
            a + b
        });
        let text = reduced.collect().unwrap_err().to_string();
        assert!(text.contains("on the reduce side"), "{text}");
    }
}

#[test]
fn panics_with_any_payload_are_reported() {
    let ctx = context_over("direct", "local[2]");
    let odd = ctx.range(0..4u64).map(|_| std::panic::panic_any(17u8)).count().unwrap_err();
    assert!(odd.to_string().contains("not text"), "{odd}");
    let divided = ctx.range(0..4u64).map(|n| 1 / n).sum().unwrap_err();
    assert!(divided.to_string().contains("divide by zero"), "{divided}");
    let indexed = ctx.range(0..4u64).with(vec![1u8]).map(|all, n| all[n as usize + 1]);
    assert!(indexed.count().unwrap_err().to_string().contains("out of bounds"));
}

#[test]
fn a_child_process_that_dies_in_the_middle_of_a_task_is_replaced() {
    let ctx = context_over("process", "local[2,3]");
    let rdd = ctx.range_in(4, 0..40u64, 1).map(|n| {
        if n % 20 == 11 && attempt() == 0 {
            std::process::abort();
        }
        n
    });
    assert_eq!(rdd.sum().unwrap(), 780);
    assert_eq!(rdd.map(|n| (n % 3, n)).reduce_by_key(|a, b| a + b).count().unwrap(), 3);
    let dying = ctx.range_in(2, 0..2u64, 1).map(|n| if n == 1 { std::process::exit(7) } else { n });
    let text = dying.count().unwrap_err().to_string();
    assert!(text.contains("failed 3 time(s)") && text.contains("exit status: 7"), "{text}");
    assert_eq!(ctx.range(0..10u64).count().unwrap(), 10);
}

/// Cannot be written, or not without a panic.
#[derive(Clone, Debug)]
struct Stubborn {
    panics: bool,
}

impl Serialize for Stubborn {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        assert!(!self.panics, "serialize panics");
        Err(serde::ser::Error::custom("stubborn"))
    }
}

impl<'de> Deserialize<'de> for Stubborn {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(serde::de::Error::custom("stubborn"))
    }
}

#[test]
fn values_that_cannot_be_encoded_fail_their_job_and_nothing_else() {
    for transport in TRANSPORTS {
        for panics in [false, true] {
            let ctx = context_over(transport, "local[2]");
            let captured = ctx.range_in(2, 0..4u64, 1).with(Stubborn { panics }).map(|_, n| n);
            let text = captured.count().unwrap_err().to_string();
            let is_told = text.contains("Stubborn") && text.contains("stubborn");
            assert!(is_told || text.contains("serialize panics"), "{text}");
            let shuffled = ctx
                .range_in(2, 0..4u64, 1)
                .with(panics)
                .map(|panics, n| (n, Stubborn { panics: *panics }));
            let text = shuffled.group_by_key().count().unwrap_err().to_string();
            assert!(text.contains("Stubborn") || text.contains("serialize panics"), "{text}");
            assert_eq!(ctx.range(0..10u64).count().unwrap(), 10, "{transport}");
        }
    }
}

#[test]
fn many_tasks_that_fail_at_once_end_the_job_once() {
    let (ctx, heard) = Heard::attach(builder("local[4]"));
    let rdd = ctx.range_in(100, 0..100u64, 1).map(|n| assert!(n > 1000, "all fail"));
    assert!(rdd.count().is_err());
    assert_eq!(ctx.range_in(50, 0..50u64, 1).count().unwrap(), 50);
    assert_eq!(heard.count(&ctx, |event| matches!(event, Event::JobEnd { .. })), 2);
}
