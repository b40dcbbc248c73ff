//! Checkpoints: written once, read back, parents let go of; clear errors when they cannot be.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use firesteel::prelude::*;

fn context(configure: impl FnOnce(firesteel::Builder) -> firesteel::Builder) -> Context {
    let builder = Context::builder()
        .master("local[2]")
        .config("spark.ui.showConsoleProgress", false)
        .arguments([] as [&str; 0]);
    configure(builder).build().unwrap()
}

fn over(transport: &str) -> Context {
    context(|builder| builder.config("spark.firesteel.local.transport", transport))
}

#[track_caller]
fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

/// Sums by key through a shuffle; `calls` counts what is computed.
fn sums(ctx: &Context, calls: &Accumulator<u64>) -> Rdd<(u64, u64)> {
    let counted = ctx.range_in(3, 0..3_000u64, 1).with(calls.clone()).map(|calls, n| {
        calls.add(1);
        (n % 7, n)
    });
    counted.reduce_by_key_into(2, |a, b| a + b).map_values(|sum| sum + 1).boxed()
}

fn sorted(rdd: &Rdd<(u64, u64)>) -> Vec<(u64, u64)> {
    let mut items = rdd.collect().unwrap();
    items.sort();
    items
}

fn expected() -> Vec<(u64, u64)> {
    (0..7).map(|key| (key, (0..3_000).filter(|n| n % 7 == key).sum::<u64>() + 1)).collect()
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_checkpoint_is_written_after_the_first_job_and_everything_behind_it_is_let_go_of() {
    for transport in ["direct", "encoded", "process"] {
        let root = tempfile::tempdir().unwrap();
        let ctx = over(transport);
        ctx.set_checkpoint_dir(root.path().to_str().unwrap()).unwrap();
        let calls = ctx.accumulator::<u64>();
        let checkpointed = sums(&ctx, &calls).checkpoint();
        let older = checkpointed.map(|(key, sum)| (key, sum * 2));
        assert!(!checkpointed.is_checkpointed());
        assert_eq!(checkpointed.get_checkpoint_file(), None);
        assert!(checkpointed.to_debug_string().contains("ShuffledRDD"));
        assert_eq!(sorted(&checkpointed), expected());
        assert!(checkpointed.is_checkpointed(), "{transport}");
        let directory = PathBuf::from(checkpointed.get_checkpoint_file().unwrap());
        assert_eq!(directory, Path::new(&ctx.get_checkpoint_dir().unwrap()).join("rdd-4"));
        assert_eq!(names(&directory), ["_SUCCESS", "part-00000", "part-00001"]);
        assert_eq!(names(directory.parent().unwrap()), ["rdd-4"], "nothing beside it");
        let lineage = checkpointed.to_debug_string();
        assert!(lineage.contains("ReliableCheckpointRDD"), "{lineage}");
        assert!(!lineage.contains("ShuffledRDD"), "{lineage}");
        wait_until("the shuffle is forgotten", || ctx.blocks().is_empty());
        let computed = calls.value();
        assert_eq!(sorted(&checkpointed), expected());
        assert_eq!(older.values().sum().unwrap(), expected().iter().map(|p| p.1 * 2).sum::<u64>());
        assert_eq!(checkpointed.reduce_by_key(|a, b| a + b).count().unwrap(), 7);
        assert_eq!(calls.value(), computed, "{transport}: nothing is computed again");
        ctx.stop();
        assert!(directory.exists(), "it stays");
    }
}

#[test]
fn the_partitions_that_a_job_did_not_read_are_written_too_and_cached_ones_are_not_computed_again() {
    let root = tempfile::tempdir().unwrap();
    let ctx = context(|builder| builder.config("spark.checkpoint.dir", root.path().display()));
    let calls = ctx.accumulator::<u64>();
    let cached = sums(&ctx, &calls).cache();
    let checkpointed = cached.checkpoint().checkpoint();
    assert_eq!(checkpointed.take(1).unwrap().len(), 1);
    assert!(checkpointed.is_checkpointed());
    assert_eq!(sorted(&checkpointed), expected());
    assert_eq!(calls.value(), 3_000);
    assert_eq!(ctx.empty::<u64>().checkpoint().count().unwrap(), 0);
}

#[test]
fn without_a_directory_or_with_a_wrong_one_there_is_a_clear_error() {
    let ctx = over("direct");
    let error = ctx.range(0..3u64).checkpoint().count().unwrap_err().to_string();
    assert!(error.contains("set_checkpoint_dir") && error.contains("checkpoint.rs"), "{error}");
    let error = ctx.set_checkpoint_dir("").unwrap_err().to_string();
    assert!(error.contains("needs a name"), "{error}");
    let file = tempfile::NamedTempFile::new().unwrap();
    let below = file.path().join("below");
    let error = ctx.set_checkpoint_dir(below.to_str().unwrap()).unwrap_err().to_string();
    assert!(error.contains("could not create the checkpoint directory"), "{error}");
    assert!(ctx.get_checkpoint_dir().is_none());
}

#[test]
fn a_checkpoint_that_cannot_be_written_fails_the_action_and_is_tried_again() {
    let root = tempfile::tempdir().unwrap();
    let ctx = over("direct");
    ctx.set_checkpoint_dir(&format!("file://{}", root.path().display())).unwrap();
    let own = PathBuf::from(ctx.get_checkpoint_dir().unwrap());
    let calls = ctx.accumulator::<u64>();
    let checkpointed = sums(&ctx, &calls).checkpoint();
    fs::remove_dir(&own).unwrap();
    fs::write(&own, "in the way").unwrap();
    let error = checkpointed.count().unwrap_err().to_string();
    assert!(error.contains(own.to_str().unwrap()), "{error}");
    assert!(!checkpointed.is_checkpointed());
    fs::remove_file(&own).unwrap();
    assert_eq!(checkpointed.count().unwrap(), 7);
    assert!(checkpointed.is_checkpointed());
}

#[test]
fn a_spoilt_checkpoint_file_is_an_error_that_names_it() {
    let cut: fn(&Path) = |path| {
        let bytes = fs::read(path).unwrap();
        fs::write(path, &bytes[..bytes.len() - 3]).unwrap();
    };
    let flip: fn(&Path) = |path| {
        let mut bytes = fs::read(path).unwrap();
        bytes[20] ^= 1;
        fs::write(path, bytes).unwrap();
    };
    let remove: fn(&Path) = |path| fs::remove_file(path).unwrap();
    for spoil in [cut, flip, remove] {
        let root = tempfile::tempdir().unwrap();
        let ctx = context(|builder| builder.config("spark.checkpoint.dir", root.path().display()));
        let checkpointed = ctx.range_in(2, 0..1_000u64, 1).map(|n| n.to_string()).checkpoint();
        assert_eq!(checkpointed.count().unwrap(), 1_000);
        let directory = PathBuf::from(checkpointed.get_checkpoint_file().unwrap());
        spoil(&directory.join("part-00001"));
        let error = checkpointed.count().unwrap_err().to_string();
        assert!(error.contains("part-00001") && error.contains("checkpoint"), "{error}");
        assert_eq!(checkpointed.first().unwrap(), "0", "the other partition is as it was");
    }
}

#[test]
fn checkpoints_are_compressed_and_cleaned_up_on_demand() {
    let mut sizes = Vec::new();
    for demand in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let ctx = context(|builder| {
            builder
                .config("spark.checkpoint.dir", root.path().display())
                .config("spark.checkpoint.compress", demand)
                .config("spark.io.compression.codec", "zstd")
                .config("spark.cleaner.referenceTracking.cleanCheckpoints", demand)
        });
        let checkpointed = ctx.range_in(1, 0..20_000u64, 1).map(|n| n.to_string()).checkpoint();
        assert_eq!(checkpointed.count().unwrap(), 20_000);
        let directory = PathBuf::from(checkpointed.get_checkpoint_file().unwrap());
        sizes.push(fs::metadata(directory.join("part-00000")).unwrap().len());
        let derived = checkpointed.map(|text| text.len() as u64);
        drop(checkpointed);
        assert_eq!(derived.sum().unwrap(), 88_890);
        assert!(directory.exists());
        drop(derived);
        match demand {
            true => wait_until("the files are gone", || !directory.exists()),
            false => assert!(directory.exists()),
        }
    }
    assert!(sizes[1] * 2 < sizes[0], "{sizes:?}");
}

#[test]
fn a_long_loop_stays_short_with_checkpoints() {
    let root = tempfile::tempdir().unwrap();
    let ctx = over("direct");
    ctx.set_checkpoint_dir(root.path().to_str().unwrap()).unwrap();
    let mut numbers = ctx.range_in(2, 0..10u64, 1).boxed();
    for _ in 0..8 {
        for _ in 0..1_000 {
            numbers = numbers.map(|n| n + 1).boxed();
        }
        numbers = numbers.checkpoint();
        assert_eq!(numbers.count().unwrap(), 10);
    }
    assert_eq!(numbers.to_debug_string().lines().count(), 2, "{}", numbers.to_debug_string());
    assert_eq!(numbers.collect().unwrap(), (8_000..8_010).collect::<Vec<_>>());
}

#[test]
fn a_local_checkpoint_keeps_partitions_and_forgets_where_they_came_from() {
    for transport in ["direct", "encoded"] {
        let ctx = over(transport);
        let calls = ctx.accumulator::<u64>();
        let kept = sums(&ctx, &calls).local_checkpoint();
        assert_eq!(kept.storage_level(), StorageLevel::MEMORY_AND_DISK);
        assert_eq!(kept.take(1).unwrap().len(), 1);
        assert!(kept.is_checkpointed());
        assert_eq!(kept.get_checkpoint_file(), None);
        assert!(kept.to_debug_string().contains("LocalCheckpointRDD"));
        assert!(!kept.to_debug_string().contains("ShuffledRDD"));
        assert_eq!(sorted(&kept), expected());
        assert_eq!(calls.value(), 3_000, "{transport}");
        wait_until("the shuffle is forgotten", || ctx.blocks().len() == 2);
        assert!(ctx.lose_block(&format!("rdd_{}_1", kept.id())));
        let error = kept.collect().unwrap_err().to_string();
        assert!(error.contains(&format!("rdd_{}_1", kept.id())), "{error}");
        assert!(error.contains("local_checkpoint"), "{error}");
        drop(kept);
        wait_until("nothing is left", || ctx.blocks().is_empty());
    }
}

#[test]
fn a_local_checkpoint_in_child_processes_keeps_its_lineage() {
    let ctx = over("process");
    let calls = ctx.accumulator::<u64>();
    let kept = sums(&ctx, &calls).local_checkpoint();
    for _ in 0..4 {
        assert_eq!(sorted(&kept), expected());
    }
    assert!(!kept.is_checkpointed());
}

static GATE: AtomicUsize = AtomicUsize::new(0);

#[test]
fn a_job_that_began_before_the_lineage_was_cut_reads_what_it_began_with() {
    for transport in ["direct", "encoded"] {
        GATE.store(0, Ordering::SeqCst);
        let root = tempfile::tempdir().unwrap();
        let ctx = over(transport);
        ctx.set_checkpoint_dir(root.path().to_str().unwrap()).unwrap();
        let calls = ctx.accumulator::<u64>();
        let checkpointed = sums(&ctx, &calls).checkpoint();
        let gated = checkpointed.map_partitions_with_index(|index, items| {
            if index == 0 {
                GATE.fetch_max(1, Ordering::SeqCst);
                wait_until("the lineage is cut", || GATE.load(Ordering::SeqCst) == 2);
            }
            items
        });
        let further = gated.reduce_by_key(|a, b| a + b).values();
        let job = further.in_background(|rdd| rdd.sum());
        wait_until("the job runs", || GATE.load(Ordering::SeqCst) == 1);
        assert_eq!(checkpointed.count().unwrap(), 7);
        assert!(checkpointed.is_checkpointed());
        GATE.store(2, Ordering::SeqCst);
        assert_eq!(job.wait().unwrap(), expected().iter().map(|pair| pair.1).sum::<u64>());
        assert_eq!(further.sum().unwrap(), expected().iter().map(|pair| pair.1).sum::<u64>());
    }
}
