//! Applications for `./bench cluster` that live until their input ends, and tell what happens to them.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use firesteel::prelude::*;
use firesteel::types::Event;

use crate::on_firesteel::builder;

/// Counts a thousand numbers and then does nothing.
pub(crate) fn hold() -> Result<()> {
    let ctx = builder("hold").build()?;
    println!("RESULT trivial {}", ctx.parallelize_in(2, 1..=1000u32).count()?);
    drain_input();
    Ok(())
}

/// The same job over and over: `tasks` that read a cached partition and sleep, a shuffle, one sum. Tells how many partitions were
/// computed for the cache so far.
pub(crate) fn survive(tasks: u64, millis: u64) -> Result<()> {
    let ctx = builder("survive").listener(tell).build()?;
    let over = Arc::new(AtomicBool::new(false));
    let flag = over.clone();
    std::thread::spawn(move || {
        drain_input();
        flag.store(true, Ordering::Relaxed);
    });
    let computed = ctx.accumulator::<u64>();
    let numbers = ctx.range_in(tasks as usize, 0..tasks, 1).with(computed.clone());
    let cached = numbers.map(|computed, i| {
        computed.add(1);
        i
    });
    let cached = cached.cache().with(millis);
    loop {
        let sum = cached
            .map(|millis, i| {
                std::thread::sleep(Duration::from_millis(*millis));
                (i % 7, i)
            })
            .reduce_by_key_into(2, |a, b| a + b)
            .map(|(_, sum)| sum)
            .reduce(|a, b| a + b)?;
        println!("CACHED {}", computed.value());
        println!("ROUND {sum}");
        if over.load(Ordering::Relaxed) {
            return Ok(());
        }
    }
}

fn drain_input() {
    // Whatever ends the input ends this.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

fn tell(event: &Event) {
    match event {
        Event::ExecutorAdded { executor, .. } => println!("EXECUTOR added {executor}"),
        Event::ExecutorRemoved { executor, .. } => println!("EXECUTOR removed {executor}"),
        Event::TaskEnd { failure: None, .. } => println!("TASK"),
        _ => {}
    }
}
