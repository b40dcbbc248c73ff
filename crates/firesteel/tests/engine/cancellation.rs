//! Cancelling jobs, by group, by stage, by future, all of them, and with the context.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use firesteel::JobFuture;
use firesteel::prelude::*;
use firesteel::status::JobState;
use firesteel::types::{Event, JobError};

use crate::rig::{Heard, TRANSPORTS, builder, context, context_over, wait_until};

/// A job that would take years, and ends at the next item when it is asked to.
fn endless(ctx: &Context) -> JobFuture<u64> {
    ctx.range_in(2, 0..u64::MAX, 1).map(|n| std::hint::black_box(n) & 1).in_background(|r| r.sum())
}

fn reason_of(error: &Error) -> &str {
    match error {
        Error::Job(JobError::Cancelled { reason, .. }) => reason,
        other => panic!("not cancelled: {other}"),
    }
}

fn tasks_started(heard: &Heard) -> usize {
    heard.events().iter().filter(|event| matches!(event, Event::TaskStart { .. })).count()
}

#[test]
fn a_cancelled_group_ends_and_others_go_on() {
    for transport in TRANSPORTS {
        let over = builder("local[4]").config("spark.firesteel.local.transport", transport);
        let (ctx, heard) = Heard::attach(over);
        ctx.set_job_group("doomed", "will be cancelled");
        let doomed = endless(&ctx);
        ctx.set_job_group("spared", "runs on");
        let spared = endless(&ctx);
        ctx.clear_job_group();
        wait_until("both jobs run", || tasks_started(&heard) == 4);
        let canceller = ctx.clone();
        std::thread::spawn(move || canceller.cancel_job_group("doomed")).join().unwrap();
        let error = doomed.wait().unwrap_err();
        assert_eq!(reason_of(&error), "job group doomed was cancelled");
        assert!(!spared.is_finished());
        // Two of four cores are free again.
        assert_eq!(ctx.range(0..100u64).count().unwrap(), 100);
        ctx.cancel_job_group("nobody");
        ctx.cancel_job_group("spared");
        assert!(reason_of(&spared.wait().unwrap_err()).contains("spared"));
    }
}

#[test]
fn jobs_are_found_and_cancelled_by_their_tags_and_followed_to_their_end() {
    let (ctx, heard) = Heard::attach(builder("local[4]"));
    let tracker = ctx.status_tracker();
    ctx.add_job_tag("doomed").unwrap();
    ctx.add_job_tag("both").unwrap();
    let doomed = endless(&ctx);
    ctx.remove_job_tag("doomed");
    let spared = endless(&ctx);
    assert_eq!(ctx.job_tags(), ["both".to_owned()].into());
    ctx.clear_job_tags();
    wait_until("both jobs run", || tasks_started(&heard) == 4);
    let [first, second] = tracker.job_ids_for_tag("both")[..] else { panic!("two jobs") };
    assert_eq!(tracker.active_job_ids(), [first, second]);
    let doomed_job = tracker.job_ids_for_tag("doomed")[0];
    let running = tracker.job(doomed_job).unwrap();
    assert_eq!((running.tasks.active, running.tasks_total), (2, 2));
    assert_eq!(tracker.active_stage_ids().len(), 2);
    assert_eq!(tracker.stage(running.stages[0]).unwrap().tasks.active, 2);
    assert_eq!(tracker.executors()[0].running_tasks, 4);
    ctx.cancel_jobs_with_tag("doomed");
    assert_eq!(reason_of(&doomed.wait().unwrap_err()), "jobs with tag doomed were cancelled");
    let JobState::Failed { reason } = tracker.job(doomed_job).unwrap().state else { panic!() };
    assert!(reason.contains("doomed"), "{reason}");
    assert!(!spared.is_finished());
    ctx.cancel_jobs_with_tag("nobody's");
    ctx.cancel_jobs_with_tag("both");
    assert!(spared.wait().is_err());
    assert_eq!(tracker.active_job_ids(), []);
    ctx.set_local_property("spark.mine", Some("x"));
    ctx.range(0..4u64).count().unwrap();
    assert_eq!(ctx.local_property("spark.mine").as_deref(), Some("x"));
    let last = tracker.job_ids_for_group(None).pop().unwrap();
    assert_eq!(tracker.job(last).unwrap().state, JobState::Succeeded);
    for wrong in ["", "a,b"] {
        let error = ctx.add_job_tag(wrong).unwrap_err().to_string();
        assert!(error.contains("add_job_tag") && error.contains("comma"), "{error}");
    }
}

#[test]
fn cancelling_all_jobs_ends_all_and_new_ones_run() {
    let (ctx, heard) = Heard::attach(builder("local[2]"));
    let jobs: Vec<_> = (0..4).map(|_| endless(&ctx)).collect();
    let submitted = |event: &&Event| matches!(event, Event::JobStart { .. });
    wait_until("all are submitted", || heard.events().iter().filter(submitted).count() == 4);
    ctx.cancel_all_jobs();
    for job in jobs {
        assert_eq!(reason_of(&job.wait().unwrap_err()), "all jobs were cancelled");
    }
    assert_eq!(ctx.range(0..10u64).count().unwrap(), 10);
}

#[test]
fn cancelling_a_stage_ends_the_jobs_that_need_it() {
    let (ctx, heard) = Heard::attach(builder("local[2]"));
    let pairs = ctx.range_in(2, 0..u64::MAX, 1).map(|n| (n & 1, std::hint::black_box(n)));
    let job = pairs.reduce_by_key(|a, b| a ^ b).count_async();
    wait_until("the map stage runs", || tasks_started(&heard) > 0);
    let stage = heard.events().iter().find_map(|event| match event {
        Event::StageSubmitted { stage, .. } => Some(stage.stage.stage),
        _ => None,
    });
    ctx.cancel_stage(stage.unwrap());
    let error = job.wait().unwrap_err();
    assert!(reason_of(&error).starts_with("stage "), "{error}");
    assert_eq!(ctx.range(0..10u64).count().unwrap(), 10);
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The smallest runtime there is.
fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn futures_are_awaited_in_any_runtime() {
    let ctx = context();
    let total = block_on(async {
        let rdd = ctx.range_in(4, 0..100u64, 1);
        let (count, all) = (rdd.count_async(), rdd.collect_async());
        Result::<u64>::Ok(count.await? + all.await?.iter().sum::<u64>())
    });
    assert_eq!(total.unwrap(), 100 + 4950);
    let failed = ctx.range(0..4u64).map(|n| 1 / n).count_async();
    assert!(block_on(failed).unwrap_err().to_string().contains("divide by zero"));
}

#[test]
fn a_cancelled_future_ends_at_once_and_starts_no_further_job() {
    let (ctx, heard) = Heard::attach(builder("local[2]"));
    let job = endless(&ctx);
    wait_until("it runs", || tasks_started(&heard) == 2);
    assert!(!job.is_finished());
    job.cancel();
    assert_eq!(reason_of(&block_on(job).unwrap_err()), "the future was cancelled");
    // An action of several jobs, cancelled between two of them.
    let rdd = ctx.range(0..100u64);
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let several = rdd.in_background(move |rdd| {
        rdd.count()?;
        gone.recv().unwrap();
        rdd.count()
    });
    several.cancel();
    go.send(()).unwrap();
    assert_eq!(reason_of(&several.wait().unwrap_err()), "the future was cancelled");
    assert_eq!(ctx.range(0..10u64).count().unwrap(), 10);
}

#[test]
fn a_future_belongs_to_the_group_of_the_thread_that_started_it() {
    let (ctx, heard) = Heard::attach(builder("local[2]"));
    ctx.set_job_group("mine", "counts");
    ctx.range(0..4u64).count_async().wait().unwrap();
    ctx.clear_job_group();
    ctx.set_job_description(Some("described"));
    ctx.range(0..4u64).count().unwrap();
    ctx.wait_for_listeners();
    let labels: Vec<_> = heard
        .events()
        .into_iter()
        .filter_map(|event| match event {
            Event::JobStart { properties, .. } => {
                let owned = |text: Option<&str>| text.map(str::to_owned);
                Some((owned(properties.group()), owned(properties.description())))
            }
            _ => None,
        })
        .collect();
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(labels, [(text("mine"), text("counts")), (None, text("described"))]);
}

#[test]
fn a_stopped_context_refuses_jobs() {
    for transport in TRANSPORTS {
        let ctx = context_over(transport, "local[2]");
        let rdd = ctx.range(0..10u64);
        let shuffled = rdd.map(|n| (n, n)).reduce_by_key(|a, b| a + b);
        assert_eq!(shuffled.count().unwrap(), 10);
        assert!(!ctx.is_stopped());
        ctx.stop();
        ctx.stop();
        assert!(ctx.is_stopped());
        for error in [rdd.count().unwrap_err(), shuffled.sort_by_key().count().unwrap_err()] {
            assert!(matches!(error, Error::ContextStopped { .. }), "{error}");
        }
        assert!(matches!(rdd.count_async().wait(), Err(Error::ContextStopped { .. })));
        // Describing more, and dropping what is there, is harmless.
        drop((rdd.map(|n| n + 1), ctx.broadcast(1u8), shuffled));
    }
}

#[test]
fn stopping_a_context_ends_its_running_jobs() {
    for transport in TRANSPORTS {
        let over = builder("local[2]").config("spark.firesteel.local.transport", transport);
        let (ctx, heard) = Heard::attach(over);
        let job = endless(&ctx);
        wait_until("it runs", || tasks_started(&heard) == 2);
        ctx.stop();
        assert_eq!(reason_of(&job.wait().unwrap_err()), "the context is stopped");
        let ends = heard.events().iter().filter(|e| matches!(e, Event::JobEnd { .. })).count();
        assert_eq!(ends, 1);
        assert!(matches!(heard.events().last(), Some(Event::ApplicationEnd { .. })));
    }
}

#[test]
fn a_task_in_a_long_loop_of_its_own_sees_that_it_is_to_end() {
    for transport in ["direct", "process"] {
        let over = builder("local[1]").config("spark.firesteel.local.transport", transport);
        let (ctx, heard) = Heard::attach(over);
        let looping = ctx.range_in(1, 0..1u64, 1).map(|n| {
            let task = TaskContext::current().unwrap();
            loop {
                task.check_killed();
                if n > 1 {
                    break n;
                }
                std::thread::yield_now();
            }
        });
        let job = looping.count_async();
        wait_until("it runs", || tasks_started(&heard) == 1);
        job.cancel();
        reason_of(&job.wait().unwrap_err());
        assert_eq!(ctx.range(0..10u64).count().unwrap(), 10, "the core is free again");
    }
}

/// One job with two shuffles and a cached part; its error, if it is cancelled.
fn shuffled_job(ctx: &Context) -> Result<()> {
    let cached = ctx.range_in(4, 0..400u64, 1).map(|n| (n % 20, n)).cache();
    let sums = cached.reduce_by_key(|a, b| a + b).sort_by_key();
    assert_eq!(sums.values().sum()?, 79_800);
    Ok(())
}

#[test]
fn jobs_under_random_cancellation_are_right_or_cancelled_and_leave_nothing_behind() {
    for transport in ["direct", "process"] {
        let ctx = context_over(transport, "local[3]");
        let done = AtomicUsize::new(0);
        let cancelled = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for group in ["a", "b", "c"] {
                let (ctx, done, cancelled) = (&ctx, &done, &cancelled);
                scope.spawn(move || {
                    ctx.set_job_group(group, "");
                    for _ in 0..40 {
                        match shuffled_job(ctx) {
                            Ok(()) => {}
                            Err(Error::Job(JobError::Cancelled { .. })) => {
                                cancelled.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(other) => panic!("{other}"),
                        }
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                });
            }
            let mut groups = ["a", "b", "a", "c"].into_iter().cycle();
            while done.load(Ordering::Relaxed) < 3 {
                ctx.cancel_job_group(groups.next().unwrap());
                std::thread::park_timeout(Duration::from_millis(2));
            }
        });
        assert!(cancelled.load(Ordering::Relaxed) > 0, "{transport}: nothing was cancelled");
        // Tasks that were asked to end may still be on their way.
        wait_until("nothing is left in memory", || ctx.blocks().is_empty());
    }
}

#[test]
fn many_futures_share_some_threads_and_one_that_waits_for_others_is_not_stuck() {
    let ctx = context();
    let gate = Arc::new((std::sync::Mutex::new(false), std::sync::Condvar::new()));
    let rdd = ctx.range_in(1, 0..3u64, 1);
    let futures: Vec<_> = (0..600u64)
        .map(|n| {
            let gate = gate.clone();
            rdd.in_background(move |rdd| {
                let open = gate.0.lock().unwrap();
                drop(gate.1.wait_while(open, |open| !*open).unwrap());
                // None of these has a thread: all are taken, or wait as this one does.
                let inner: Vec<_> = (0..2).map(|_| rdd.in_background(|rdd| rdd.count())).collect();
                let counts = inner.into_iter().map(|inner| inner.wait());
                Ok(n + counts.sum::<firesteel::Result<u64>>()?)
            })
        })
        .collect();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let threads = status.lines().find_map(|line| line.strip_prefix("Threads:")).unwrap();
    assert!(threads.trim().parse::<usize>().unwrap() < 450, "{threads}");
    *gate.0.lock().unwrap() = true;
    gate.1.notify_all();
    for (n, future) in futures.into_iter().enumerate() {
        assert_eq!(future.wait().unwrap(), n as u64 + 6);
    }
}
