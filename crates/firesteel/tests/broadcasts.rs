//! Broadcasts and large environments: freed on executors when nobody on the driver has them any more, never
//! while a task uses them, and refused with their name once they are destroyed.

mod scratch;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use firesteel::prelude::*;
use scratch::{TRANSPORTS, fails_with, wait_until};

const MEGABYTE: usize = 1 << 20;

fn cluster() -> Context {
    let builder = Context::builder().master("local-cluster[2,1,1024]").app_name("broadcasts");
    builder
        .arguments([] as [&str; 0])
        .config("spark.ui.showConsoleProgress", false)
        .build()
        .unwrap()
}

fn with_transport(transport: &str) -> Context {
    scratch::builder().config("spark.firesteel.local.transport", transport).build().unwrap()
}

/// A context for each place where tasks can run.
fn everywhere() -> Vec<(String, Context)> {
    let local = TRANSPORTS.iter().map(|it| ((*it).to_owned(), with_transport(it)));
    local.chain([("local-cluster".to_owned(), cluster())]).collect()
}

/// Bytes of memory that a process occupies.
fn resident(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB"));
    kilobytes.map_or(0, |number| number.trim().parse::<u64>().unwrap() << 10)
}

/// Takes a while, so that no executor takes all tasks.
fn linger() {
    let until = Instant::now() + Duration::from_millis(10);
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

/// The processes that ran the tasks of a job with this environment.
fn use_once(ctx: &Context, table: &Broadcast<Vec<u8>>) -> Vec<u32> {
    let used = ctx.parallelize_in(6, 0..6u32).with(table.clone()).map(|table, n| {
        linger();
        assert!(table.len() == 20 * MEGABYTE && table[n as usize] == 7);
        std::process::id()
    });
    let mut processes = used.collect().unwrap();
    processes.sort_unstable();
    processes.dedup();
    processes
}

#[test]
fn executors_free_broadcasts_whose_handles_are_gone() {
    for master in ["local-cluster", "process"] {
        let ctx = if master == "process" { with_transport("process") } else { cluster() };
        let mut processes = Vec::new();
        for _ in 0..25 {
            let table = ctx.broadcast(vec![7u8; 20 * MEGABYTE]);
            processes = use_once(&ctx, &table);
        }
        assert!(!processes.is_empty(), "{master}");
        // All of them are gone, also the last, without another task. 25 of them would be 500 MB.
        for process in processes {
            wait_until_small(process, master);
        }
    }
}

#[test]
fn executors_free_the_values_that_code_was_sent_with() {
    let ctx = cluster();
    let mut processes = Vec::new();
    for _ in 0..15 {
        let used = ctx.parallelize_in(6, 0..6u32).with(vec![7u8; 20 * MEGABYTE]).map(|table, n| {
            linger();
            assert!(table.len() == 20 * MEGABYTE && table[n as usize] == 7);
            std::process::id()
        });
        processes = used.collect().unwrap();
    }
    for process in processes {
        wait_until_small(process, "local-cluster");
    }
}

#[test]
fn unpersist_frees_copies_that_are_fetched_again() {
    for (place, ctx) in everywhere() {
        let table = ctx.broadcast(vec![7u8; 20 * MEGABYTE]);
        let processes = use_once(&ctx, &table);
        table.unpersist();
        if place == "process" || place == "local-cluster" {
            for process in &processes {
                wait_until(&place, || resident(*process) < 40 << 20);
            }
        }
        assert!(!use_once(&ctx, &table).is_empty(), "{place}");
        assert_eq!(table.value().len(), 20 * MEGABYTE, "{place}");
    }
}

#[test]
fn nothing_is_freed_while_a_task_uses_it() {
    let ctx = cluster();
    let started = scratch::Scratch::new();
    let flags = (started.path("started"), started.path("freed"));
    let table = ctx.broadcast(vec![7u8; 20 * MEGABYTE]);
    let numbers = ctx.parallelize_in(1, 0..3u32).with((table.clone(), flags.clone()));
    let job = numbers.map(|(table, (started, freed)), n| {
        std::fs::write(started, "").unwrap();
        let deadline = Instant::now() + scratch::DEADLINE;
        while !std::path::Path::new(freed).exists() && Instant::now() < deadline {
            std::thread::yield_now();
        }
        table.iter().map(|byte| u64::from(*byte)).sum::<u64>() + u64::from(n)
    });
    let job = job.collect_async();
    wait_until("the task runs", || std::path::Path::new(&flags.0).exists());
    table.unpersist();
    drop(table);
    std::fs::write(&flags.1, "").unwrap();
    let sums = scratch::wait_for(job).unwrap();
    let all = 7 * 20 * MEGABYTE as u64;
    assert_eq!(sums, [all, all + 1, all + 2]);
}

#[test]
fn a_destroyed_broadcast_is_refused_everywhere_by_name_and_place() {
    for (place, ctx) in everywhere() {
        let table = ctx.broadcast(vec![7u8; 100]);
        let used = ctx.range_in(2, 0..4u64, 1).with(table.clone());
        let used = used.map(|table, n| u64::from(table[n as usize]));
        assert_eq!(used.collect().unwrap(), [7, 7, 7, 7], "{place}");
        table.clone().destroy();
        let name = format!("broadcast {}", table.id());
        fails_with(used.collect(), &[&name, "destroyed", "broadcasts.rs:"]);
        let panicked = catch_unwind(AssertUnwindSafe(|| table.value().len())).unwrap_err();
        let message = panicked.downcast::<String>().unwrap();
        assert!(message.contains(&name) && message.contains("broadcasts.rs:"), "{message}");
        table.destroy();
        scratch::assert_usable(&ctx);
    }
}

#[test]
fn a_broadcast_of_another_context_never_passes_for_one_of_this() {
    for transport in TRANSPORTS {
        let (one, other) = (with_transport(transport), with_transport(transport));
        let (theirs, ours) = (other.broadcast(vec![1u8; 10]), one.broadcast(vec![2u8; 10]));
        assert_ne!(theirs.id(), ours.id());
        let used = one.range_in(1, 0..1u64, 1).with(theirs).map(|table, _| table[0]);
        match used.collect() {
            Ok(values) => assert_eq!(values, [1], "{transport}"),
            Err(error) => assert!(error.to_string().contains("another context"), "{error}"),
        }
        drop(ours);
    }
}

#[test]
fn a_broadcast_of_a_stopped_context_is_an_error_when_it_is_used() {
    let ctx = with_transport("direct");
    ctx.stop();
    let table = ctx.broadcast(vec![7u8; 10]);
    let panicked = catch_unwind(AssertUnwindSafe(|| table.len())).unwrap_err();
    let message = panicked.downcast::<String>().unwrap();
    assert!(message.contains("stopped") && message.contains("broadcasts.rs:"), "{message}");
    let other = with_transport("encoded");
    let used = other.range_in(1, 0..1u64, 1).with(table).map(|table, _| table[0]);
    fails_with(used.collect(), &["stopped", "broadcasts.rs:"]);
}

#[test]
fn tasks_that_are_killed_late_leave_no_broadcast_behind() {
    let ctx = cluster();
    let executors = use_once(&ctx, &ctx.broadcast(vec![7u8; 20 * MEGABYTE]));
    for round in 0..20 {
        let table = ctx.broadcast(vec![7u8; 20 * MEGABYTE]);
        let endless = ctx.parallelize_in(2, 0..2u32).with(table.clone()).map(|table, n| {
            let task = TaskContext::current().unwrap();
            loop {
                task.check_killed();
                if table[n as usize] != 7 {
                    break 0u8;
                }
            }
        });
        let job = endless.collect_async();
        // Some are cancelled before their tasks have the value, some while they fetch it, some afterwards.
        let until = Instant::now() + Duration::from_millis(round * 5);
        while Instant::now() < until {
            std::thread::yield_now();
        }
        job.cancel();
        drop((endless, table));
        assert!(scratch::wait_for(job).is_err());
    }
    for process in executors {
        wait_until_small(process, "local-cluster");
    }
}

/// Whatever it had, little of it is left: two values of 20 MB, encoded and not, may still be on their way.
#[track_caller]
fn wait_until_small(process: u32, place: &str) {
    wait_until(place, || resident(process) < 100 << 20);
}
