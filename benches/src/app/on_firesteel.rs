//! The jobs of `./bench engine` on Firesteel, in `local[2]` unless they were submitted elsewhere.
//!
//! What a real program only knows at run time (sizes, captured values) passes through `black_box`, as
//! in the hand-written loops.

use std::hint::black_box;
use std::mem::take;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use firesteel::prelude::*;
use firesteel::status::{AppStatus, Retention};
use firesteel::types::Event;

use crate::by_hand::{FACTOR, NUMBERS};
use crate::timing;

/// How long executors may take to come; then the job starts with those that came.
const EXECUTORS: Duration = Duration::from_secs(60);

/// Where `firesteel submit` says, else in `local[2]`.
pub(crate) fn builder(name: &str) -> firesteel::Builder {
    // Nothing is measured with a port open that nobody asks.
    let builder = Context::builder().app_name(name).config("spark.ui.enabled", false);
    let builder = builder.arguments([] as [&str; 0]);
    let submitted = std::env::var_os("FIRESTEEL_CONF").is_some();
    if submitted { builder } else { builder.master("local[2]") }
}

/// A context whose executors, of one core each, are all there: what is timed does not wait for them.
pub(crate) fn context(name: &str) -> Result<Context> {
    let (sender, added) = channel();
    let listener = move |event: &Event| {
        if matches!(event, Event::ExecutorAdded { .. }) {
            let _ = sender.send(());
        }
    };
    let ctx = builder(name).listener(listener).build()?;
    let wanted = ctx.conf().get_raw("spark.cores.max").and_then(|cores| cores.parse().ok());
    for _ in 0..wanted.unwrap_or(0) {
        let _ = added.recv_timeout(EXECUTORS);
    }
    Ok(ctx)
}

/// Start, one tiny job, exit.
pub(crate) fn trivial() -> Result<()> {
    let ctx = builder("trivial").build()?;
    println!("RESULT trivial {}", ctx.parallelize_in(2, 1..=1000u32).count()?);
    Ok(())
}

/// Collects records that hold a word.
pub(crate) fn collect(word: &str) -> Result<()> {
    let ctx = builder("collect").build()?;
    let numbers = ctx.parallelize_in(2, 1..=100u32).with(word.to_owned());
    let records = numbers.map(|word, number| format!("{word} {number}")).collect()?;
    println!("RESULT collect {}", records.len());
    Ok(())
}

/// 10,000 empty tasks, four times; the first run is the cold one, and waits for executors.
pub(crate) fn tasks() -> Result<()> {
    let ctx = builder("tasks").build()?;
    let numbers = ctx.parallelize_in(10_000, 1..=10_000u32);
    for run in 1..=4 {
        let count = timing::timed(&format!("tasks10000 run{run}"), || numbers.count())?;
        if run == 4 {
            println!("RESULT tasks10000 {count}");
        }
    }
    Ok(())
}

/// 10,000 empty tasks, and applying all their events to a status that has seen nothing yet, in turns.
pub(crate) fn status() -> Result<()> {
    let heard: Arc<Mutex<Vec<Event>>> = Arc::default();
    let listening = heard.clone();
    let listener = move |event: &Event| listening.lock().expect("no panic").push(event.clone());
    // Room for all of them: none is dropped.
    let builder =
        builder("events").config("spark.scheduler.listenerbus.eventqueue.capacity", 100_000);
    let ctx = builder.listener(listener).build()?;
    ctx.parallelize_in(10_000, 1..=10_000u32).count()?;
    ctx.stop();
    let events = take(&mut *heard.lock().expect("no panic"));
    let ctx = self::builder("tasks").build()?;
    let numbers = ctx.parallelize_in(10_000, 1..=10_000u32);
    // As by default.
    let retention = Retention { jobs: 1000, stages: 1000, tasks: 100_000, dead_executors: 100 };
    for run in 1..=16 {
        timing::timed(&format!("tasks10000 run{run}"), || numbers.count())?;
        let (mut status, events) = (AppStatus::new(retention), events.clone());
        timing::timed(&format!("status10000 run{run}"), || {
            events.into_iter().for_each(|event| status.take(event));
        });
        println!("RESULT status10000 {}", status.totals().tasks_completed);
    }
    Ok(())
}

/// 10,000 empty tasks again and again, for so many seconds, while pages of the application are at this port; what they took on average.
pub(crate) fn shown(seconds: u64, port: u16) -> Result<()> {
    let builder = builder("shown").config("spark.ui.enabled", true);
    let ctx = builder.config("spark.ui.port", port).build()?;
    let numbers = ctx.parallelize_in(10_000, 1..=10_000u32);
    numbers.count()?;
    let (start, mut runs) = (Instant::now(), 0u32);
    while start.elapsed().as_secs() < seconds {
        numbers.count()?;
        runs += 1;
    }
    println!("BENCH tasks_shown {:.6} s", start.elapsed().as_secs_f64() / f64::from(runs.max(1)));
    Ok(())
}

/// Ten iterations over the edges in `file`.
pub(crate) fn pagerank(file: &str) -> Result<()> {
    let ctx = context("pagerank")?;
    let top = timing::timed("pagerank10", || -> Result<_> {
        let links = ctx
            .text_file_with(file, &TextOptions::new().min_partitions(4))?
            .map(|line| {
                let (from, to) = line.split_once(' ').expect("two numbers");
                (from.parse::<u32>().expect("a node"), to.parse::<u32>().expect("a node"))
            })
            .distinct_into(4)
            .group_by_key_into(4)
            .cache();
        let mut ranks: Rdd<(u32, f64)> = links.map_values(|_| 1.0).boxed();
        for _ in 0..10 {
            ranks = links
                .join_into(4, &ranks)
                .flat_map(|(_, (targets, rank))| {
                    let share = rank / targets.len() as f64;
                    targets.into_iter().map(move |target| (target, share))
                })
                .reduce_by_key_into(4, |a, b| a + b)
                .map_values(|sum| 0.15 + 0.85 * sum)
                .boxed();
        }
        ranks.top_by(5, |(_, rank)| Total(*rank))
    })?;
    let top: Vec<String> = top.iter().map(|(node, rank)| format!("{node}={rank:.6}")).collect();
    println!("RESULT pagerank10 {}", top.join(" "));
    Ok(())
}

/// 100 M signed numbers: `3 x + 1`, the even ones, their sum.
pub(crate) fn longs(partitions: usize) -> Result<()> {
    let ctx = context("longs")?;
    let numbers = ctx.range_in(partitions, 0..black_box(NUMBERS) as i64, 1);
    timing::several("longs100M", || {
        numbers.map(|x| x * 3 + 1).filter(|x| x & 1 == 0).reduce(|a, b| a + b)
    })
}

/// 100 M numbers: xor, multiply with a captured value, filter, sum.
pub(crate) fn pipelines() -> Result<()> {
    let ctx = context("pipelines")?;
    let numbers = ctx.range(0..black_box(NUMBERS));
    let factor = black_box(FACTOR);
    timing::several("pipelines", || {
        numbers
            .map(|x| x ^ 0x5555)
            .with(factor)
            .map(|factor, x| x.wrapping_mul(*factor))
            .filter(|x| x & 3 != 0)
            .reduce(u64::wrapping_add)
    })
}

/// 100 M numbers through ten steps.
pub(crate) fn chain10() -> Result<()> {
    let ctx = context("chain10")?;
    let numbers = ctx.range(0..black_box(NUMBERS));
    let factor = black_box(FACTOR);
    timing::several("chain10", || {
        numbers
            .map(|x| x ^ 0x5555)
            .map(|x| x.wrapping_add(0x1234_5678))
            .with(factor)
            .map(|factor, x| x.wrapping_mul(*factor))
            .map(|x| x.rotate_left(13))
            .filter(|x| x & 7 != 0)
            .map(|x| x ^ 0x00ff_00ff)
            .map(|x| x.wrapping_add(0x0fed_cba9))
            .map(|x| x.wrapping_mul(0x9e37_79b9))
            .map(|x| x.rotate_left(31))
            .filter(|x| x & 24 != 0)
            .reduce(u64::wrapping_add)
    })
}
