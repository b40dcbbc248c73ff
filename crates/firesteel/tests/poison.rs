//! Tasks that end, freeze or silence their executor: each ends its job with the cause within
//! `spark.task.maxFailures`, and the application goes on with other jobs (L06).

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use firesteel::Listener;
use firesteel::prelude::*;
use firesteel::types::Event;

/// How long a job may take that ends at all.
const DEADLINE: Duration = Duration::from_secs(60);

/// Executors that were ever registered.
#[derive(Clone, Default)]
struct Registered(Arc<Mutex<u32>>);

impl Listener for Registered {
    fn on_event(&mut self, event: &Event) {
        if let Event::ExecutorAdded { .. } = event {
            *self.0.lock().unwrap() += 1;
        }
    }
}

fn builder(master: &str) -> firesteel::Builder {
    let builder = Context::builder().master(master).app_name("poison test");
    builder.arguments([] as [&str; 0]).config("spark.ui.showConsoleProgress", false)
}

fn context() -> (Context, Registered) {
    let registered = Registered::default();
    let builder = builder("local-cluster[2,1,256]").listener(registered.clone());
    (builder.build().unwrap(), registered)
}

/// The message with which a job ends. One that does not end in time hangs nothing but its thread.
fn error_of(what: &str, job: impl FnOnce() -> firesteel::Result<()> + Send + 'static) -> String {
    let (sender, result) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(job()));
    match result.recv_timeout(DEADLINE) {
        Ok(Err(error)) => error.to_string(),
        Ok(Ok(())) => panic!("{what}: the job succeeds"),
        Err(_) => panic!("{what}: the job does not end"),
    }
}

/// Holds a task until its process is ended from outside.
fn until_the_end() -> u8 {
    loop {
        std::thread::park();
    }
}

#[track_caller]
fn assert_usable(ctx: &Context) {
    let sum = ctx.range_in(4, 0..1000u64, 1).map(|i| (i % 7, i)).reduce_by_key(|a, b| a + b);
    let sum: u64 = sum.collect().unwrap().into_iter().map(|(_, sum)| sum).sum();
    assert_eq!(sum, 499_500);
}

#[test]
fn an_exit_with_any_code_ends_the_job_and_not_the_application() {
    let (ctx, registered) = context();
    for code in [0, 56, 60, 61, 62, 1] {
        let job =
            ctx.parallelize_in(2, [code, code]).map(|code| -> u8 { std::process::exit(code) });
        let error = error_of(&format!("exit({code})"), move || job.count().map(drop));
        assert!(error.contains("executor") && error.contains("failed 4 time(s)"), "{error}");
        assert!(error.contains(&format!("exit code {code}")), "{error}");
        assert_usable(&ctx);
    }
    ctx.stop();
    let started = *registered.0.lock().unwrap();
    assert!(started <= 80, "{started} executors for six jobs");
}

#[test]
fn an_abort_and_a_kill_in_a_reduce_task_end_the_job_though_map_outputs_go_with_the_executor() {
    let (ctx, _) = context();
    let pairs = ctx.range_in(4, 0..1000u64, 1).map(|i| (i % 10, i)).reduce_by_key(|a, b| a + b);
    let aborted = pairs.clone().map(|_| -> u8 { std::process::abort() });
    let error = error_of("abort", move || aborted.count().map(drop));
    assert!(error.contains("signal 6"), "{error}");
    assert_usable(&ctx);
    let killed = pairs.map(|pair| {
        let own = std::process::id().to_string();
        std::process::Command::new("kill").args(["-9", &own]).status().unwrap();
        std::hint::black_box(pair);
        until_the_end()
    });
    let error = error_of("kill -9", move || killed.count().map(drop));
    assert!(error.contains("signal 9 (killed by a user, or by the system"), "{error}");
    assert_usable(&ctx);
}

/// A recursion without an end.
fn deeper(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 64]);
    if frame[0] == u64::MAX { 0 } else { deeper(frame[1] + 1) + frame[2] }
}

#[test]
fn a_recursion_without_an_end_is_told_as_a_stack_overflow_and_ends_its_job_only() {
    for master in ["local-cluster[2,1,256]", "local[2]"] {
        let over = builder(master).config("spark.firesteel.local.transport", "process");
        let ctx = over.build().unwrap();
        let endless = ctx.parallelize_in(1, [0u64]).map(deeper);
        let error = error_of(master, move || endless.count().map(drop));
        assert!(error.contains("stack overflow") && error.contains("map at"), "{error}");
        assert_usable(&ctx);
    }
}

#[test]
fn a_task_that_stops_its_executor_ends_its_job() {
    let builder = builder("local-cluster[2,1,256]")
        .config("spark.network.timeout", "3s")
        .config("spark.executor.heartbeatInterval", "500ms");
    let ctx = builder.build().unwrap();
    let frozen = ctx.parallelize_in(1, [1u8]).map(|item| {
        let own = std::process::id().to_string();
        std::process::Command::new("kill").args(["-STOP", &own]).status().unwrap();
        // The signal stops one thread first, and may reach this one only after its task.
        std::hint::black_box(item);
        until_the_end()
    });
    let error = error_of("SIGSTOP", move || frozen.count().map(drop));
    assert!(error.contains("heartbeat") && error.contains("spark.network.timeout"), "{error}");
    assert_usable(&ctx);
}

#[test]
fn crashing_jobs_one_after_another_do_not_end_an_application_whose_other_jobs_succeed() {
    let (ctx, _) = context();
    for round in 0..6 {
        let crash = ctx.parallelize_in(2, [1u8, 2]).map(|_| -> u8 { std::process::abort() });
        let error = error_of(&format!("round {round}"), move || crash.count().map(drop));
        assert!(error.contains("signal 6"), "{error}");
        assert_usable(&ctx);
    }
}

#[test]
fn accumulator_updates_larger_than_a_message_reach_the_driver() {
    let builder = builder("local-cluster[2,1,512]").config("spark.rpc.message.maxSize", "2");
    let ctx = builder.build().unwrap();
    let bytes = ctx.accumulator::<Vec<u8>>();
    let all = ctx.range_in(2, 0..2u32, 1).with(bytes.clone());
    let counted = all.map(|bytes, _| (0..5_000_000u32).for_each(|i| bytes.add(i as u8))).count();
    assert_eq!(counted.unwrap(), 2);
    assert_eq!(bytes.value().len(), 10_000_000);
}

#[test]
fn results_and_updates_beyond_the_drivers_limit_are_refused_by_its_name() {
    let builder = builder("local-cluster[1,1,512]").config("spark.driver.maxResultSize", "1m");
    let ctx = builder.build().unwrap();
    let bytes = ctx.accumulator::<Vec<u8>>();
    let all = ctx.range_in(1, 0..1u32, 1).with(bytes);
    let large = all.map(|bytes, _| (0..5_000_000u32).for_each(|i| bytes.add(i as u8)));
    let error = error_of("5 MB", move || large.count().map(drop));
    assert!(error.contains("spark.driver.maxResultSize"), "{error}");
    assert_usable(&ctx);
}

#[test]
fn a_panic_with_a_text_of_any_length_is_told() {
    let builder = builder("local-cluster[1,1,512]").config("spark.rpc.message.maxSize", "1");
    let ctx = builder.build().unwrap();
    let long = ctx.parallelize_in(1, [1u8]).map(|_| -> u8 { panic!("{}", "x".repeat(3 << 20)) });
    let error = error_of("a long text", move || long.count().map(drop));
    assert!(error.contains("xxx") && error.contains("3145728 bytes in all"), "{}", error.len());
    assert_usable(&ctx);
}

#[test]
fn executors_live_on_with_a_master_that_wants_to_hear_of_drivers_often() {
    let registered = Registered::default();
    let builder = builder("local-cluster[2,1,256]").listener(registered.clone());
    let ctx = builder.config("spark.worker.timeout", "2").build().unwrap();
    let slow = ctx.parallelize_in(2, [1u8, 2]).map(|item| {
        // Time itself is what is tested: three times as long as the master waits for a silent driver.
        std::thread::sleep(Duration::from_secs(6));
        item
    });
    let begun = Instant::now();
    assert_eq!(slow.count().unwrap(), 2);
    assert!(begun.elapsed() < Duration::from_secs(12), "it was computed again");
    ctx.stop();
    assert_eq!(*registered.0.lock().unwrap(), 2, "executors were replaced");
}
