//! Storage levels: where partitions are cached, how often they are computed, what happens when there is
//! no room or the disk rots, and that nothing is left behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use firesteel::prelude::*;
use firesteel::types::event::Locality;
use firesteel::types::{Event, TaskMetrics};
use firesteel::{Builder, types};

const LEVELS: [&str; 12] = [
    "DISK_ONLY",
    "DISK_ONLY_2",
    "DISK_ONLY_3",
    "MEMORY_ONLY",
    "MEMORY_ONLY_2",
    "MEMORY_ONLY_SER",
    "MEMORY_ONLY_SER_2",
    "MEMORY_AND_DISK",
    "MEMORY_AND_DISK_2",
    "MEMORY_AND_DISK_SER",
    "MEMORY_AND_DISK_SER_2",
    "OFF_HEAP",
];

fn builder(local_dir: &Path) -> Builder {
    Context::builder()
        .master("local[2]")
        .config("spark.local.dir", local_dir.display())
        .config("spark.ui.showConsoleProgress", false)
        .arguments([] as [&str; 0])
}

/// 4 MiB for tasks and cached partitions.
fn with_little_memory(builder: Builder) -> Builder {
    builder.config("spark.driver.memory", "8m").config("spark.memory.fraction", "0.5")
}

/// Runs `job` and finds nothing left on disk.
fn in_directory(configure: impl FnOnce(Builder) -> Builder, job: impl FnOnce(&Context, &Path)) {
    let directory = tempfile::tempdir().unwrap();
    let ctx = configure(builder(directory.path())).build().unwrap();
    job(&ctx, directory.path());
    ctx.stop();
    drop(ctx);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "files are left");
}

/// Texts that tell how often they were computed.
fn counted(ctx: &Context, calls: &Accumulator<u64>, count: u64) -> Rdd<String> {
    ctx.range_in(4, 0..count, 1)
        .with(calls.clone())
        .map(|calls, n| {
            calls.add(1);
            text(n)
        })
        .boxed()
}

fn text(n: u64) -> String {
    format!("{:0>60}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20)
}

/// The files of cached partitions.
fn cached_files(directory: &Path) -> Vec<PathBuf> {
    let own = fs::read_dir(directory).unwrap().flat_map(|dir| fs::read_dir(dir.unwrap().path()));
    let files = own.flatten().map(|file| file.unwrap().path());
    files.filter(|path| path.file_name().unwrap().to_string_lossy().contains("rdd_")).collect()
}

#[track_caller]
fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

#[test]
fn every_level_gives_the_same_items_over_every_transport_and_computes_them_once() {
    for transport in ["direct", "encoded", "process"] {
        for compress in [false, true] {
            let configure = |builder: Builder| {
                builder
                    .config("spark.firesteel.local.transport", transport)
                    .config("spark.rdd.compress", compress)
                    .config("spark.io.compression.codec", if compress { "zstd" } else { "lz4" })
            };
            in_directory(configure, |ctx, directory| {
                for name in LEVELS {
                    let level: StorageLevel = name.parse().unwrap();
                    let calls = ctx.accumulator::<u64>();
                    let cached = counted(ctx, &calls, 4_000).persist(level);
                    assert_eq!(cached.storage_level(), level);
                    for _ in 0..3 {
                        let found = cached.collect().unwrap();
                        assert!(found.into_iter().eq((0..4_000).map(text)), "{name}");
                    }
                    assert_eq!(cached.filter(|text| text.len() == 60).count().unwrap(), 4_000);
                    if transport == "process" {
                        // Each of two children keeps what it computed.
                        assert!(
                            (4_000..=8_000).contains(&calls.value()),
                            "{name}: {}",
                            calls.value()
                        );
                        continue;
                    }
                    assert_eq!(calls.value(), 4_000, "{name} {transport}");
                    let on_disk = if level.use_memory { 0 } else { 4 };
                    assert_eq!(cached_files(directory).len(), on_disk, "{name}");
                    cached.unpersist();
                    assert!(cached_files(directory).is_empty() && ctx.blocks().is_empty());
                    assert_eq!(cached.storage_level(), StorageLevel::NONE);
                    assert_eq!(cached.count().unwrap(), 4_000);
                    assert!(ctx.blocks().is_empty(), "unpersisted, it keeps nothing");
                }
            });
        }
    }
}

#[test]
fn partitions_that_do_not_fit_go_to_disk_and_are_computed_once() {
    for name in ["MEMORY_AND_DISK", "MEMORY_AND_DISK_SER", "OFF_HEAP", "DISK_ONLY"] {
        in_directory(with_little_memory, |ctx, directory| {
            let calls = ctx.accumulator::<u64>();
            let cached = counted(ctx, &calls, 300_000).persist(name.parse().unwrap());
            for _ in 0..3 {
                assert_eq!(cached.count().unwrap(), 300_000);
            }
            assert!(cached.collect().unwrap().into_iter().eq((0..300_000).map(text)));
            assert_eq!(calls.value(), 300_000, "{name}");
            assert!(!cached_files(directory).is_empty(), "{name}");
            drop(cached);
            wait_until("the files are gone", || cached_files(directory).is_empty());
        });
    }
}

#[test]
fn partitions_that_do_not_fit_and_have_no_disk_are_computed_again() {
    for name in ["MEMORY_ONLY", "MEMORY_ONLY_SER"] {
        in_directory(with_little_memory, |ctx, directory| {
            let calls = ctx.accumulator::<u64>();
            let cached = counted(ctx, &calls, 300_000).persist(name.parse().unwrap());
            for _ in 0..2 {
                assert!(cached.collect().unwrap().into_iter().eq((0..300_000).map(text)), "{name}");
            }
            assert!(calls.value() > 300_000, "{name}");
            assert!(cached_files(directory).is_empty());
        });
    }
}

#[test]
fn evicted_partitions_go_to_disk_and_come_back() {
    for name in ["MEMORY_AND_DISK", "MEMORY_AND_DISK_SER"] {
        in_directory(with_little_memory, |ctx, directory| {
            let level: StorageLevel = name.parse().unwrap();
            let calls = ctx.accumulator::<u64>();
            let first = counted(ctx, &calls, 20_000).persist(level);
            assert_eq!(first.count().unwrap(), 20_000);
            assert!(cached_files(directory).is_empty(), "{name}: it fits");
            let second = counted(ctx, &calls, 55_000).persist(level);
            assert_eq!(second.count().unwrap(), 55_000);
            assert!(!cached_files(directory).is_empty(), "{name}: the first made room");
            assert!(first.collect().unwrap().into_iter().eq((0..20_000).map(text)));
            assert!(second.collect().unwrap().into_iter().eq((0..55_000).map(text)));
            assert_eq!(calls.value(), 75_000, "{name}");
        });
    }
}

#[test]
fn what_rots_or_vanishes_on_disk_is_computed_again() {
    let flip: fn(&Path) = |path| {
        let mut bytes = fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0xff;
        fs::write(path, bytes).unwrap();
    };
    let cut: fn(&Path) = |path| {
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_len(fs::metadata(path).unwrap().len() / 2).unwrap();
    };
    let empty: fn(&Path) = |path| fs::write(path, "").unwrap();
    for spoil in [flip, cut, empty] {
        in_directory(std::convert::identity, |ctx, directory| {
            let calls = ctx.accumulator::<u64>();
            let cached = counted(ctx, &calls, 40_000).persist(StorageLevel::DISK_ONLY);
            assert_eq!(cached.count().unwrap(), 40_000);
            let files = cached_files(directory);
            assert_eq!(files.len(), 4);
            files[..2].iter().for_each(|path| spoil(path));
            assert!(cached.collect().unwrap().into_iter().eq((0..40_000).map(text)));
            assert_eq!(calls.value(), 60_000, "two of four partitions");
            assert_eq!(cached.count().unwrap(), 40_000);
            assert_eq!(calls.value(), 60_000, "cached again");
        });
    }
}

#[test]
fn a_level_cannot_be_changed_before_unpersist() {
    in_directory(std::convert::identity, |ctx, _| {
        let cached = ctx.range_in(2, 0..10u64, 1).cache();
        assert_eq!(cached.persist(StorageLevel::MEMORY_ONLY).id(), cached.id());
        let changed = cached.persist(StorageLevel::DISK_ONLY);
        let error = changed.map(|n| n + 1).count().unwrap_err().to_string();
        assert!(error.contains("cannot be changed") && error.contains("unpersist"), "{error}");
        assert!(error.contains("StorageLevel(memory, deserialized, 1 replicas)"), "{error}");
        assert_eq!(cached.count().unwrap(), 10, "the RDD itself is as it was");
        cached.unpersist();
        let again = cached.persist(StorageLevel::DISK_ONLY);
        assert_eq!((again.id(), again.storage_level()), (cached.id(), StorageLevel::DISK_ONLY));
        assert_eq!(again.count().unwrap(), 10);
        assert_eq!(ctx.blocks().len(), 2);
        let shown = again.to_debug_string();
        assert!(shown.contains("[Disk Serialized 1x Replicated]"), "{shown}");
        assert_eq!(ctx.range(0..3u64).persist(StorageLevel::NONE).count().unwrap(), 3);
    });
}

/// Everything that was heard.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<Event>>>);

impl Heard {
    fn listen(&self, builder: Builder) -> Builder {
        let events = self.0.clone();
        builder.listener(move |event: &Event| events.lock().unwrap().push(event.clone()))
    }

    fn all<R>(&self, ctx: &Context, pick: impl Fn(&Event) -> Option<R>) -> Vec<R> {
        ctx.wait_for_listeners();
        self.0.lock().unwrap().iter().filter_map(pick).collect()
    }
}

#[test]
fn listeners_and_schedulers_hear_where_partitions_come_to_lie_and_that_they_go() {
    let heard = Heard::default();
    in_directory(
        |builder| heard.listen(with_little_memory(builder)),
        |ctx, _| {
            let updates = |rdd: types::RddId| {
                heard.all(ctx, move |event| match event {
                    Event::BlockUpdated { block, memory_bytes, disk_bytes, level, .. } => block
                        .starts_with(&format!("rdd_{rdd}_"))
                        .then_some((*memory_bytes > 0, *disk_bytes > 0, *level)),
                    _ => None,
                })
            };
            let calls = ctx.accumulator::<u64>();
            let level = StorageLevel::MEMORY_AND_DISK;
            let first = counted(ctx, &calls, 20_000).persist(level);
            first.count().unwrap();
            assert_eq!(updates(first.id()), [(true, false, level); 4]);
            let plain = counted(ctx, &calls, 50_000).cache();
            plain.count().unwrap();
            let moved = updates(first.id());
            assert!(moved[4..].contains(&(false, true, level)), "{moved:?}");
            let localities = |heard: &Heard| {
                heard.all(ctx, |event| match event {
                    Event::TaskStart { task, .. } => Some(task.locality),
                    _ => None,
                })
            };
            let before = localities(&heard).len();
            first.count().unwrap();
            assert_eq!(localities(&heard)[before..], [Locality::ProcessLocal; 4]);
            first.unpersist();
            first.count().unwrap();
            assert_eq!(localities(&heard)[before + 4..], [Locality::NoPref; 4]);
            // What has no disk to go to is gone when others need its memory.
            let others = counted(ctx, &calls, 50_000).cache();
            others.count().unwrap();
            let gone = (false, false, StorageLevel::NONE);
            assert!(updates(plain.id()).contains(&gone), "{:?}", updates(plain.id()));
        },
    );
}

#[test]
fn tasks_tell_what_they_spilled_and_what_they_read_from_cached_partitions() {
    let heard = Heard::default();
    in_directory(
        |builder| heard.listen(with_little_memory(builder)),
        |ctx, _| {
            let total = |field: fn(&TaskMetrics) -> u64| -> u64 {
                let metrics = heard.all(ctx, |event| match event {
                    Event::TaskEnd { metrics, .. } => metrics.clone(),
                    _ => None,
                });
                metrics.iter().map(|metrics| field(metrics)).sum()
            };
            let calls = ctx.accumulator::<u64>();
            let cached = counted(ctx, &calls, 10_000).persist(StorageLevel::DISK_ONLY);
            cached.count().unwrap();
            let before = total(|metrics| metrics.input_bytes);
            cached.count().unwrap();
            assert!(total(|metrics| metrics.input_bytes) > before + 100_000);
            assert_eq!(total(|metrics| metrics.memory_bytes_spilled), 0);
            assert_eq!(
                counted(ctx, &calls, 300_000).sort_by(|t| t.clone()).count().unwrap(),
                300_000
            );
            assert!(total(|metrics| metrics.memory_bytes_spilled) > 1_000_000);
            assert!(total(|metrics| metrics.disk_bytes_spilled) > 100_000);
        },
    );
}

/// A partition whose computation waits until the test lets it go on.
static STARTED: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];
static RELEASED: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

fn gated<const GATE: usize>(ctx: &Context) -> Rdd<u64> {
    let waiting = ctx.range_in(1, 0..3u64, 1).map(|n| {
        if n == 0 && STARTED[GATE].fetch_add(1, Ordering::SeqCst) == 0 {
            wait_until("the test lets it go on", || {
                TaskContext::current().unwrap().check_killed();
                RELEASED[GATE].load(Ordering::SeqCst) > 0
            });
            assert!(GATE != 1, "the first of two fails on purpose");
        }
        n
    });
    waiting.cache()
}

/// Starts one job, waits until it computes, starts a second one and waits until its task runs.
fn two_jobs<const GATE: usize>(
    ctx: &Context,
    heard: &Heard,
    check: impl FnOnce(firesteel::JobFuture<u64>, firesteel::JobFuture<u64>),
) {
    let cached = gated::<GATE>(ctx);
    let first = cached.count_async();
    wait_until("the first job computes", || STARTED[GATE].load(Ordering::SeqCst) == 1);
    let second = cached.count_async();
    let tasks = |event: &Event| matches!(event, Event::TaskStart { .. }).then_some(());
    wait_until("the second job's task runs", || heard.all(ctx, tasks).len() == 2);
    check(first, second);
}

#[test]
fn of_two_tasks_that_want_a_partition_one_computes_it() {
    let heard = Heard::default();
    in_directory(
        |builder| heard.listen(builder),
        |ctx, _| {
            two_jobs::<0>(ctx, &heard, |first, second| {
                RELEASED[0].store(1, Ordering::SeqCst);
                assert_eq!((first.wait().unwrap(), second.wait().unwrap()), (3, 3));
                assert_eq!(STARTED[0].load(Ordering::SeqCst), 1);
            });
        },
    );
}

#[test]
fn a_task_computes_the_partition_itself_when_the_one_it_waited_for_fails() {
    let heard = Heard::default();
    in_directory(
        |builder| heard.listen(builder),
        |ctx, _| {
            two_jobs::<1>(ctx, &heard, |first, second| {
                RELEASED[1].store(1, Ordering::SeqCst);
                assert!(first.wait().unwrap_err().to_string().contains("on purpose"));
                assert_eq!(second.wait().unwrap(), 3);
                assert_eq!(STARTED[1].load(Ordering::SeqCst), 2);
            });
        },
    );
}

#[test]
fn a_task_that_waits_for_another_can_be_killed_and_so_can_the_one_it_waits_for() {
    let heard = Heard::default();
    in_directory(
        |builder| heard.listen(builder),
        |ctx, _| {
            two_jobs::<2>(ctx, &heard, |first, second| {
                second.cancel();
                assert!(second.wait().unwrap_err().to_string().contains("cancelled"));
                let ended = |event: &Event| matches!(event, Event::TaskEnd { .. }).then_some(());
                wait_until("its task is over", || heard.all(ctx, ended).len() == 1);
                assert!(!first.is_finished());
                first.cancel();
                assert!(first.wait().unwrap_err().to_string().contains("cancelled"));
                wait_until("nothing is cached", || ctx.blocks().is_empty());
            });
        },
    );
}

fn in_children(builder: Builder) -> Builder {
    builder.config("spark.firesteel.local.transport", "process").master("local[1]")
}

#[test]
fn what_nobody_needs_any_more_goes_from_child_processes_too() {
    in_directory(in_children, |ctx, directory| {
        let table = ctx.broadcast(vec![1u64]);
        let cached = ctx
            .range_in(1, 0..10u64, 1)
            .with(table.clone())
            .map(|table, n| n + table[0])
            .persist(StorageLevel::DISK_ONLY);
        assert_eq!(cached.sum().unwrap(), 55);
        let blocks_of_child = || {
            let look = ctx
                .range_in(1, 0..1u64, 1)
                .map(|_| TaskContext::current().unwrap().environment().blocks().len() as u64);
            look.first().unwrap()
        };
        assert_eq!(blocks_of_child(), 2, "the partition and the broadcast value");
        assert_eq!(cached_files(directory).len(), 1);
        cached.unpersist();
        assert_eq!(blocks_of_child(), 1);
        assert!(cached_files(directory).is_empty());
        drop((cached, table));
        wait_until("the broadcast is gone", || blocks_of_child() == 0);
    });
}

#[test]
fn child_processes_have_their_share_of_memory_and_put_the_rest_on_disk() {
    in_directory(
        |builder| in_children(with_little_memory(builder)),
        |ctx, directory| {
            let calls = ctx.accumulator::<u64>();
            let cached = counted(ctx, &calls, 300_000).persist(StorageLevel::MEMORY_AND_DISK);
            for _ in 0..2 {
                assert_eq!(cached.count().unwrap(), 300_000);
            }
            assert_eq!(calls.value(), 300_000);
            assert!(!cached_files(directory).is_empty());
            let sorted = cached.sort_by(|text| text.clone());
            assert_eq!(sorted.count().unwrap(), 300_000);
        },
    );
}
