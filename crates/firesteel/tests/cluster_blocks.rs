//! What moves between the executors of a cluster, and what becomes of it when they die: map outputs, cached
//! partitions and their copies, broadcast values in pieces, metrics of running tasks.

mod executors;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use executors::*;
use firesteel::prelude::*;
use firesteel::types::{Event, ExecutorId, TaskFailure};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

const DIRECTORY: &str = "FIRESTEEL_TEST_DIRECTORY";

/// Waits for a file.
fn await_file(path: &str) {
    wait_until(|| Path::new(path).exists());
}

/// A file that is not there yet.
fn flag() -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("flag").to_str().unwrap().to_owned();
    (directory, path)
}

#[test]
fn partitions_are_read_from_the_executor_that_keeps_them() {
    let (ctx, seen) = started(builder(2).config("spark.locality.wait", "0s"), 2);
    let (_directory, path) = flag();
    let blocked = ctx.parallelize_in(1, 0..1u32).with(path.clone()).map(|path, n| {
        await_file(path);
        n
    });
    let mut blocked = Some(blocked.count_async());
    seen.wait(|events| events.iter().any(|event| matches!(event, Event::TaskStart { .. })));
    let computed = ctx.accumulator::<u64>();
    let cached = ctx.parallelize_in(8, 0..800u64).with(computed.clone()).map(|computed, n| {
        computed.add(1);
        n
    });
    for level in [StorageLevel::MEMORY_ONLY, StorageLevel::MEMORY_ONLY_SER, StorageLevel::DISK_ONLY]
    {
        computed.reset();
        let cached = cached.persist(level);
        assert_eq!(cached.count().unwrap(), 800, "on the executor that is free");
        std::fs::write(&path, "").unwrap();
        if let Some(blocked) = blocked.take() {
            blocked.wait().unwrap();
        }
        let ids = cached.map_partitions(|items| {
            work();
            let sum: u64 = items.sum();
            std::iter::once((std::process::id(), sum))
        });
        let ids = ids.collect().unwrap();
        assert_eq!(ids.iter().map(|(_, sum)| sum).sum::<u64>(), 800 * 799 / 2);
        assert_eq!(computed.value(), 800, "{level}: nothing was computed twice");
        if level == StorageLevel::MEMORY_ONLY {
            let ids = distinct(ids.into_iter().map(|(id, _)| id).collect());
            assert_eq!(ids.len(), 2, "both executors read them");
        }
    }
}

/// Executors that keep each partition of an RDD.
fn holders(events: &[Event]) -> BTreeSet<(String, u32)> {
    let mut holders = BTreeSet::new();
    for event in events {
        if let Event::BlockUpdated { block, executor, memory_bytes, disk_bytes, .. } = event {
            match memory_bytes + disk_bytes {
                0 => holders.remove(&(block.clone(), executor.0)),
                _ => holders.insert((block.clone(), executor.0)),
            };
        }
        if let Event::ExecutorRemoved { executor, .. } = event {
            holders.retain(|(_, holder)| *holder != executor.0);
        }
    }
    holders
}

/// How many executors keep each partition.
fn copies(events: &[Event]) -> Vec<usize> {
    let mut copies = BTreeMap::<_, usize>::new();
    for (block, _) in holders(events) {
        *copies.entry(block).or_default() += 1;
    }
    copies.into_values().collect()
}

#[test]
fn partitions_with_two_replicas_outlive_an_executor_that_is_killed() {
    for level in [
        StorageLevel::MEMORY_ONLY_2,
        StorageLevel::DISK_ONLY_2,
        StorageLevel::MEMORY_AND_DISK_SER_2,
    ] {
        let (ctx, seen) = started(builder(2), 2);
        let computed = ctx.accumulator::<u64>();
        let cached = ctx.parallelize_in(6, 0..600u64).with(computed.clone()).map(|computed, n| {
            computed.add(1);
            n
        });
        let cached = cached.persist(level);
        assert_eq!(cached.sum().unwrap(), 600 * 599 / 2);
        seen.wait(|events| holders(events).len() == 12);
        signal("-9", processes(&ctx)[0]);
        seen.wait(|events| events.iter().any(|e| matches!(e, Event::ExecutorRemoved { .. })));
        assert_eq!(cached.sum().unwrap(), 600 * 599 / 2);
        assert_eq!(computed.value(), 600, "{level}: nothing was computed twice");
    }
}

#[test]
fn lost_replicas_are_re_replicated_until_none_of_the_first_executors_is_left() {
    let (ctx, seen) = started(builder(3), 3);
    let computed = ctx.accumulator::<u64>();
    // Large enough to go through a file, and small enough to go through memory.
    for length in [100_000, 10] {
        computed.reset();
        let cached = ctx.parallelize_in(6, 0..60u64).with((computed.clone(), length)).map(
            |(computed, length), n| {
                computed.add(1);
                vec![n; *length]
            },
        );
        let cached = cached.persist(StorageLevel::MEMORY_ONLY_2);
        let sum = || cached.map(|numbers| numbers[numbers.len() - 1]).sum().unwrap();
        assert_eq!(sum(), 60 * 59 / 2);
        let firsts = processes(&ctx);
        assert_eq!(firsts.len(), 3);
        let whole = |events: &[Event]| {
            let copies = copies(events);
            copies.len() == 6 && copies.iter().all(|copies| *copies >= 2) && alive(events) == 3
        };
        let removed = |events: &[Event]| {
            events.iter().filter(|e| matches!(e, Event::ExecutorRemoved { .. })).count()
        };
        for first in firsts {
            seen.wait(whole);
            let before = removed(&seen.0.lock().unwrap());
            signal("-9", first);
            seen.wait(|events| removed(events) > before);
        }
        seen.wait(whole);
        assert_eq!(sum(), 60 * 59 / 2);
        assert_eq!(computed.value(), 60, "nothing was computed twice");
        cached.unpersist();
        seen.wait(|events| events.iter().any(|e| matches!(e, Event::UnpersistRdd { .. })));
        seen.0.lock().unwrap().retain(|event| !matches!(event, Event::BlockUpdated { .. }));
    }
}

#[test]
fn missing_replicas_are_made_when_an_executor_can_hold_them() {
    for proactive in [true, false] {
        // Until the job is over before there is somebody, which a slow machine may miss.
        assert!((0..20).any(|_| copied_later(proactive)));
    }
}

/// Whether that could be seen: the job that keeps them was over before the second executor was there again.
fn copied_later(proactive: bool) -> bool {
    let builder = builder(2).config("spark.storage.replication.proactive", proactive);
    let (ctx, seen) = started(builder, 2);
    signal("-9", processes(&ctx)[1]);
    seen.wait(|events| events.iter().any(|e| matches!(e, Event::ExecutorRemoved { .. })));
    let cached = ctx.parallelize_in(2, 0..20u64).persist(StorageLevel::DISK_ONLY_2);
    assert_eq!(cached.count().unwrap(), 20);
    seen.wait(|events| alive(events) == 2);
    if proactive {
        seen.wait(|events| holders(events).len() == 4);
    }
    assert_eq!(cached.count().unwrap(), 20);
    let events = seen.0.lock().unwrap();
    let is_kept = |event: &Event| matches!(event, Event::BlockUpdated { .. });
    let kept_at = events.iter().position(is_kept).unwrap();
    let is_over = |event: &Event| matches!(event, Event::JobEnd { .. });
    let over_at = kept_at + events[kept_at..].iter().position(is_over).unwrap();
    let added_at = events.iter().rposition(|event| matches!(event, Event::ExecutorAdded { .. }));
    if added_at.unwrap() < over_at {
        return false;
    }
    assert_eq!(holders(&events).len(), if proactive { 4 } else { 2 });
    true
}

#[test]
fn a_partition_that_is_kept_after_its_rdd_was_unpersisted_is_dropped() {
    let builder = builder(1).config("spark.executor.heartbeatInterval", "100ms");
    let (ctx, seen) = started(builder, 1);
    let (_directory, path) = flag();
    let computed = ctx.accumulator::<u64>();
    let cached = ctx.parallelize_in(1, 0..100u64).with((path.clone(), computed.clone()));
    let cached = cached.map(|(path, computed), n| {
        await_file(path);
        computed.add(1);
        n
    });
    let cached = cached.persist(StorageLevel::MEMORY_ONLY);
    let job = cached.count_async();
    seen.wait(|events| events.iter().any(|event| matches!(event, Event::TaskStart { .. })));
    cached.unpersist();
    std::fs::write(&path, "").unwrap();
    assert_eq!(job.wait().unwrap(), 100);
    // The driver hears what is cached before the next heartbeat, and the executor that it is to drop it before
    // the tasks that come after.
    let beats = |events: &[Event]| {
        let beat = |event: &&Event| matches!(event, Event::ExecutorMetricsUpdate { executor, .. } if *executor != ExecutorId::DRIVER);
        events.iter().filter(beat).count()
    };
    let before = beats(&seen.0.lock().unwrap());
    seen.wait(|events| beats(events) > before + 3);
    assert!(holders(&seen.0.lock().unwrap()).is_empty());
    processes(&ctx);
    let cached = cached.persist(StorageLevel::MEMORY_ONLY);
    assert_eq!(cached.count().unwrap(), 100);
    assert_eq!(computed.value(), 200);
    seen.wait(|events| holders(events).len() == 1);
    assert_eq!(cached.count().unwrap(), 100);
    assert_eq!(computed.value(), 200);
}

#[test]
fn a_large_broadcast_leaves_the_driver_about_once_for_three_executors() {
    let (ctx, _) = started(builder(3).config("spark.broadcast.blockSize", "1m"), 3);
    let bytes: Vec<u8> =
        (0..24u32 << 20).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let sum = bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>();
    let length = bytes.len() as u64;
    let table = ctx.broadcast(bytes);
    let sums = ctx.parallelize_in(12, 0..12u64).with(table.clone()).map(|table, _| {
        work();
        (std::process::id(), table.iter().map(|byte| u64::from(*byte)).sum::<u64>())
    });
    let sums = sums.collect().unwrap();
    assert!(sums.iter().all(|(_, found)| *found == sum));
    assert_eq!(distinct(sums.into_iter().map(|(id, _)| id).collect()).len(), 3);
    let served = ctx.served_broadcast_bytes();
    assert!((length..length * 3 / 2).contains(&served), "{served} of {length}");
    let small = ctx.broadcast(7u64);
    let sevens = ctx.parallelize_in(6, 0..6u64).with(small).map(|small, _| **small);
    assert_eq!(sevens.sum().unwrap(), 42);
}

#[test]
fn thousands_of_small_map_outputs_arrive() {
    let (ctx, _) = started(builder(2), 2);
    let pairs = ctx.parallelize_in(3000, 0..30_000u64).map(|n| (n % 50, n));
    let sums = pairs.reduce_by_key_into(4, |a, b| a + b);
    assert_eq!(sums.map(|(_, sum)| sum).sum().unwrap(), 30_000 * 29_999 / 2);
}

#[test]
fn outputs_of_an_executor_that_dies_while_they_are_read_are_recomputed_at_once() {
    // A reader that did not ask the driver whether that executor is alive would wait an hour.
    let builder = builder(2).config("spark.shuffle.io.retryWait", "1h");
    let (ctx, seen) = started(builder.config("spark.reducer.maxSizeInFlight", "64k"), 2);
    let ids = processes(&ctx);
    assert_eq!(ids.len(), 2);
    let (_directory, path) = flag();
    let pairs = ctx.range_in(40, 0..40_000u64, 1).map(|n| (n % 3, format!("{n:0>30}")));
    let read = pairs.partition_by(3).with((ids, path)).map(|(ids, path), (_, text)| {
        let killed = std::fs::OpenOptions::new().write(true).create_new(true).open(path);
        if killed.is_ok() {
            let own = std::process::id();
            ids.iter().filter(|id| **id != own).for_each(|id| signal("-9", *id));
        }
        text.len() as u64
    });
    assert_eq!(read.sum().unwrap(), 40_000 * 30);
    let failed = |event: &Event| {
        matches!(event, Event::TaskEnd { failure: Some(TaskFailure::FetchFailed { .. }), .. })
    };
    seen.wait(|events| events.iter().any(failed));
}

/// Counts how often it was encoded.
#[derive(Clone, serde::Deserialize)]
struct Heavy(Vec<u8>);

static ENCODED: AtomicUsize = AtomicUsize::new(0);

impl serde::Serialize for Heavy {
    fn serialize<S: serde::Serializer>(
        &self,
        serializer: S,
    ) -> std::result::Result<S::Ok, S::Error> {
        let encoded = self.0.serialize(serializer);
        ENCODED.fetch_add(1, Ordering::SeqCst);
        encoded
    }
}

#[test]
fn a_queue_that_is_full_for_a_moment_costs_no_executor_and_no_request_to_end_a_task() {
    let builder = builder(1).master("local-cluster[1,8,256]");
    let (ctx, seen) = started(builder.config("spark.firesteel.rpc.outbox.size", "64k"), 1);
    let executor = processes(&ctx)[0];
    let endless = ctx.parallelize_in(1, [0u64]).map(|n| {
        loop {
            TaskContext::current().unwrap().check_killed();
            std::thread::sleep(Duration::from_millis(1));
            if n > 0 {
                break n;
            }
        }
    });
    let endless = endless.count_async();
    seen.wait(|events| events.iter().any(|e| matches!(e, Event::StageSubmitted { .. })));
    let is_launched = |event: &Event| matches!(event, Event::TaskStart { .. });
    let launched = |events: &[Event]| events.iter().filter(|event| is_launched(event)).count();
    seen.wait(|events| launched(events) == 9);
    // It takes nothing, while each of these has code that fills the queue alone.
    signal("-STOP", executor);
    let jobs: Vec<_> = (0..8u64)
        .map(|n| {
            let numbers = ctx.parallelize_in(1, [n]).with(Heavy(vec![1; 900_000]));
            numbers.map(|heavy, n| n + heavy.0.len() as u64).count_async()
        })
        .collect();
    // Each is encoded to be checked and to be sent, the first one also to be compared.
    wait_until(|| ENCODED.load(Ordering::SeqCst) >= 15);
    endless.cancel();
    assert!(endless.wait().is_err());
    signal("-CONT", executor);
    for job in jobs {
        assert_eq!(job.wait().unwrap(), 1);
    }
    let killed = |event: &Event| {
        matches!(event, Event::TaskEnd { failure: Some(TaskFailure::Killed { .. }), .. })
    };
    seen.wait(|events| events.iter().any(killed));
    assert_eq!(processes(&ctx), [executor]);
    ctx.stop();
    seen.wait(|events| events.iter().any(|e| matches!(e, Event::ApplicationEnd { .. })));
    seen.wait(|events| alive(events) == 1);
}

#[test]
fn heartbeats_tell_what_running_tasks_cost_so_far() {
    let builder = builder(2).config("spark.executor.heartbeatInterval", "100ms");
    let (ctx, seen) = started(builder.config("spark.executor.metrics.pollingInterval", "20ms"), 2);
    let (_directory, path) = flag();
    let pairs = ctx.parallelize_in(2, 0..100u64).map(|n| (n % 2, n)).partition_by(2);
    let waiting = pairs.with(path.clone()).map(|path, pair| {
        await_file(path);
        pair
    });
    let waiting = waiting.count_async();
    seen.wait(|events| {
        events.iter().any(|event| {
            let Event::ExecutorMetricsUpdate { tasks, .. } = event else { return false };
            let read = |task: &firesteel::types::RunningTask| {
                task.metrics.shuffle_read_records > 0 && task.metrics.run_time_us > 0
            };
            tasks.iter().any(read)
        })
    });
    std::fs::write(path, "").unwrap();
    assert_eq!(waiting.wait().unwrap(), 100);
    // What the executors used meanwhile is told with the stage's end, and the tasks brought it along.
    seen.wait(|events| events.iter().any(|event| matches!(event, Event::JobEnd { .. })));
    let events = seen.0.lock().unwrap();
    let told: BTreeSet<u32> = events.iter().filter_map(peak_of_an_executor).collect();
    assert!(!told.is_empty() && told.iter().all(|executor| *executor < 2), "{told:?}");
    let peaks = events.iter().filter_map(|event| match event {
        Event::TaskEnd { metrics: Some(metrics), .. } => metrics.executor.as_deref(),
        _ => None,
    });
    assert!(peaks.into_iter().any(|peak| peak.resident_memory > 1 << 20));
}

fn peak_of_an_executor(event: &Event) -> Option<u32> {
    match event {
        Event::StageExecutorMetrics { executor, metrics, .. } => {
            assert!(metrics.resident_memory > 1 << 20, "{metrics:?}");
            Some(executor.0)
        }
        _ => None,
    }
}

#[test]
fn an_executor_that_hangs_is_declared_dead_and_replaced() {
    let builder = builder(2).config("spark.network.timeout", "10s");
    let (ctx, seen) = started(builder.config("spark.executor.heartbeatInterval", "500ms"), 2);
    let stopped = processes(&ctx)[0];
    signal("-STOP", stopped);
    let sums =
        ctx.parallelize_in(8, 0..800u64).map(|n| (n % 5, n)).reduce_by_key_into(3, |a, b| a + b);
    assert_eq!(sums.map(|(_, sum)| sum).sum().unwrap(), 800 * 799 / 2);
    seen.wait(|events| {
        alive(events) == 2 && events.iter().any(|e| matches!(e, Event::ExecutorRemoved { .. }))
    });
    wait_until(|| is_gone(stopped));
    assert!(!processes(&ctx).contains(&stopped));
}

#[test]
#[ignore = "not a test: the driver that the next one kills"]
fn the_driver() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let (ctx, _) = started(builder(2), 2);
    let ids: Vec<String> = processes(&ctx).iter().map(ToString::to_string).collect();
    let directory = Path::new(&directory);
    std::fs::write(directory.join("part"), ids.join(" ")).unwrap();
    std::fs::rename(directory.join("part"), directory.join("flag")).unwrap();
    let endless = ctx.range_in(2, 0..u64::MAX / 4, 1).filter(|n| *n == u64::MAX);
    endless.count().unwrap();
}

#[test]
fn no_executor_outlives_a_driver_that_is_killed() {
    let (directory, path) = flag();
    let mut driver = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_driver", "--ignored"])
        .env(DIRECTORY, directory.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    await_file(&path);
    let ids: Vec<u32> =
        std::fs::read_to_string(&path).unwrap().split(' ').map(|id| id.parse().unwrap()).collect();
    assert!(ids.len() == 2 && !ids.iter().any(|id| is_gone(*id)));
    driver.kill().unwrap();
    driver.wait().unwrap();
    wait_until(|| ids.iter().all(|id| is_gone(*id)));
}

/// An authority in `directory`, with a certificate of its own for this machine.
fn certify(directory: &Path) {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let certificate = certificate.signed_by(&key, &authority).unwrap();
    let write = |name: &str, text: String| std::fs::write(directory.join(name), text).unwrap();
    write("ca.pem", authority.as_ref().pem());
    write("cert.pem", certificate.pem());
    write("key.pem", key.serialize_pem());
}

#[test]
fn everything_moves_over_tls_beside_the_secret() {
    let directory = tempfile::tempdir().unwrap();
    certify(directory.path());
    let file = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let builder = builder(2)
        .config("spark.ssl.rpc.enabled", true)
        .config("spark.ssl.rpc.certChain", file("cert.pem"))
        .config("spark.ssl.rpc.privateKey", file("key.pem"))
        .config("spark.ssl.rpc.trustStore", file("ca.pem"));
    let (ctx, _) = started(builder, 2);
    let table = ctx.broadcast(vec![3u8; 6 << 20]);
    let pairs = ctx
        .range_in(4, 0..200_000u64, 1)
        .with(table)
        .map(|table, n| (n % 3, (format!("{n:0>30}"), u64::from(table[n as usize]))));
    let cached = pairs.partition_by(3).persist(StorageLevel::MEMORY_ONLY_2);
    assert_eq!(cached.map(|(_, (text, n))| text.len() as u64 * n).sum().unwrap(), 200_000 * 90);
    assert_eq!(cached.count().unwrap(), 200_000);
}
