//! Shared variables: broadcasts and accumulators.

use std::collections::BTreeMap;

use firesteel::types::{Event, StageId};
use firesteel::{Accumulate, prelude::*};
use serde::{Deserialize, Serialize};

use crate::rig::{Heard, TRANSPORTS, builder, context_over, on_every_transport, wait_until};

#[test]
fn a_broadcast_is_read_by_tasks_of_every_transport() {
    on_every_transport(|ctx| {
        let table: BTreeMap<u32, String> = (0..100).map(|n| (n, "é".repeat(n as usize))).collect();
        let (table, factor) = (ctx.broadcast(table), ctx.broadcast(2u64));
        let rdd = ctx.range_in(4, 0..100u32, 1);
        let lengths = rdd
            .with((table.clone(), factor))
            .map(|(table, factor), n| table[&n].chars().count() as u64 * **factor);
        assert_eq!(lengths.sum().unwrap(), 9900);
        // It is read on both sides of a shuffle, too.
        let named =
            lengths.map(|n| (n % 3, n)).with(table).map_values(|table, n| n + table.len() as u64);
        assert_eq!(named.reduce_by_key(|a, b| a + b).values().sum().unwrap(), 9900 + 100 * 100);
    });
}

#[test]
fn a_broadcast_of_a_megabyte_arrives_whole() {
    on_every_transport(|ctx| {
        let large = ctx.broadcast((0..1 << 20).map(|n| n as u8).collect::<Vec<u8>>());
        let sums = ctx
            .range_in(3, 0..3u32, 1)
            .with(large.clone())
            .map(|large, _| large.iter().map(|byte| u64::from(*byte)).sum::<u64>());
        let wanted = large.iter().map(|byte| u64::from(*byte)).sum::<u64>();
        assert_eq!(sums.collect().unwrap(), [wanted; 3]);
    });
}

#[test]
fn a_broadcast_lives_as_long_as_a_handle_or_an_rdd_that_reads_it() {
    let (ctx, heard) = Heard::attach(builder("local[2]"));
    let removed = |event: &Event| matches!(event, Event::BroadcastRemoved { .. });
    let value = ctx.broadcast(5u64);
    let (copy, id) = (value.clone(), value.id());
    let rdd = ctx.range(0..10u64).with(value).map(|value, n| n + **value);
    drop(copy);
    assert_eq!(heard.count(&ctx, removed), 0);
    assert!(ctx.blocks().contains(&format!("broadcast_{id}")));
    assert_eq!(rdd.sum().unwrap(), 95);
    drop(rdd);
    // The thread that ended the job may still hold the job's code for a moment.
    wait_until("the broadcast is gone", || heard.count(&ctx, removed) == 1);
    assert!(ctx.blocks().is_empty());
}

#[test]
fn an_accumulator_with_a_name_is_told_of_by_task_and_shown_with_its_stage() {
    let (ctx, heard) = Heard::attach(builder("local[2]"));
    let (named, unnamed) = (ctx.named_accumulator::<u64>("records"), ctx.accumulator::<u64>());
    let numbers =
        ctx.range_in(4, 0..100u64, 1).with((named.clone(), unnamed)).map(|(named, unnamed), n| {
            named.add(1);
            unnamed.add(1);
            n
        });
    assert_eq!((numbers.count().unwrap(), named.value()), (100, 100));
    ctx.wait_for_listeners();
    let told = heard.events().into_iter().filter_map(|event| match event {
        Event::AccumulableUpdated { accumulable, .. } => Some(accumulable),
        _ => None,
    });
    let told: Vec<_> = told.collect();
    assert_eq!(told.len(), 4, "{told:?}");
    assert!(told.iter().all(|told| told.id == named.id() && told.name == "records"));
    assert!(told.iter().all(|told| told.update == "25"), "{told:?}");
    let last = told.last().unwrap();
    assert_eq!(last.value, "100");
    let status = ctx.status_reader()();
    let stage = status.attempts(StageId(0)).next().unwrap();
    let total: Vec<_> = stage.accumulables.values().map(|it| (&it.name, &it.value)).collect();
    assert_eq!(total, [(&last.name, &last.value)]);
}

/// The longest word, and how many there were.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Longest {
    word: String,
    seen: u64,
}

impl Accumulate for Longest {
    type Input = String;

    fn add(&mut self, input: String) {
        self.merge(Longest { word: input, seen: 1 });
    }

    fn merge(&mut self, other: Longest) {
        self.seen += other.seen;
        if other.word.chars().count() > self.word.chars().count() {
            self.word = other.word;
        }
    }
}

#[test]
fn accumulators_of_all_kinds_gather_what_tasks_add() {
    on_every_transport(|ctx| {
        let words = ["a", "größte", "zz", "längstes Wort"].map(str::to_owned);
        let (longest, all) = (ctx.accumulator::<Longest>(), ctx.accumulator::<Vec<usize>>());
        let (sum, float) = (ctx.accumulator::<i64>(), ctx.accumulator::<f64>());
        let shared = (longest.clone(), all.clone(), sum.clone(), float.clone());
        let each = |(longest, all, sum, float): &(_, _, _, _), word: String| {
            let (longest, all): (&Accumulator<Longest>, &Accumulator<Vec<usize>>) = (longest, all);
            let (sum, float): (&Accumulator<i64>, &Accumulator<f64>) = (sum, float);
            all.add(word.len());
            sum.add(-1);
            float.add(0.5);
            longest.add(word);
        };
        ctx.parallelize_in(3, words).with(shared).for_each(each).unwrap();
        assert_eq!(longest.value(), Longest { word: "längstes Wort".into(), seen: 4 });
        let mut lengths = all.value();
        lengths.sort();
        assert_eq!((lengths, sum.value(), float.value()), (vec![1, 2, 8, 14], -4, 2.0));
        sum.add(10);
        assert_eq!(sum.value(), 6);
        sum.reset();
        assert_eq!(sum.value(), 0);
    });
}

#[test]
fn what_a_failed_attempt_added_is_not_counted() {
    for transport in TRANSPORTS {
        let ctx = context_over(transport, "local[2,3]");
        let (items, attempts) = (ctx.accumulator::<u64>(), ctx.accumulator::<u64>());
        let rdd = ctx.range_in(4, 0..40u64, 1).with((items.clone(), attempts.clone())).map(
            |(items, attempts), n| {
                let task = TaskContext::current().unwrap();
                items.add(1);
                // The last item of each partition: everything was added by then.
                if n % 10 == 9 {
                    attempts.add(u64::from(task.attempt()));
                    assert!(task.attempt() >= 1, "the first attempt fails");
                }
                n
            },
        );
        rdd.for_each(|_| ()).unwrap();
        assert_eq!((items.value(), attempts.value()), (40, 4), "{transport}: result stage");
        items.reset();
        // In a map stage, and once only although two jobs read the shuffle.
        let shuffled = rdd.map(|n| (n % 2, n)).reduce_by_key(|a, b| a + b);
        assert_eq!(shuffled.count().unwrap() + shuffled.count().unwrap(), 4);
        assert_eq!(items.value(), 40, "{transport}: map stage");
    }
}

#[test]
fn a_failed_job_leaves_accumulators_with_its_successful_partitions_at_most() {
    let ctx = context_over("direct", "local[1]");
    let sum = ctx.accumulator::<u64>();
    let rdd = ctx.range_in(3, 0..3u64, 1).with(sum.clone()).map(|sum, n| {
        sum.add(1);
        assert!(n < 1, "partitions 1 and 2 fail");
    });
    rdd.count().unwrap_err();
    assert_eq!(sum.value(), 1);
}

/// Refuses to be merged, as a user's mistake would.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Unmergeable(u64);

impl Accumulate for Unmergeable {
    type Input = u64;

    fn add(&mut self, input: u64) {
        self.0 += input;
    }

    fn merge(&mut self, _: Unmergeable) {
        panic!("cannot merge");
    }
}

#[test]
fn an_accumulator_that_panics_on_merge_fails_its_job_and_does_not_break_the_engine() {
    for transport in TRANSPORTS {
        let ctx = context_over(transport, "local[2]");
        let broken = ctx.accumulator::<Unmergeable>();
        let rdd = ctx.range_in(2, 0..4u64, 1);
        let added = rdd.with(broken.clone()).for_each(|broken, n| broken.add(n));
        let error = added.unwrap_err().to_string();
        assert!(error.contains("cannot merge"), "{error}");
        assert_eq!(rdd.count().unwrap(), 4);
    }
}
