//! Disks that are full, cannot be written or are not there: clear errors or no error at all, and memory
//! and files given back.
//!
//! A full disk is a process whose files may not grow (`ulimit -f`, its signal ignored): a write beyond
//! the limit fails as one to a full disk does. Each such test runs itself again in that process, and
//! fails if the fault did not happen there.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use firesteel::prelude::*;

const INSIDE: &str = "FIRESTEEL_TEST_FULL_DISK";
const HAPPENED: &str = "the disk was full";
/// Of 512 or 1024 bytes, as the shell likes.
const FILE_BLOCKS: u32 = 200;

/// Runs `scenario` in a process whose files stay small.
fn on_a_full_disk(test: &str, scenario: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        scenario();
        println!("{HAPPENED}");
        return;
    }
    let script = format!("trap '' XFSZ; ulimit -f {FILE_BLOCKS}; exec \"$0\" \"$@\"");
    let output = Command::new("sh")
        .args(["-c", &script])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    assert!(text.contains(HAPPENED), "{text}\n{errors}");
}

/// 4 MiB for tasks and cached partitions, files as large as what is in them.
fn context(local_dir: &str) -> Context {
    Context::builder()
        .master("local[2]")
        .config("spark.driver.memory", "8m")
        .config("spark.memory.fraction", "0.5")
        .config("spark.local.dir", local_dir)
        .config("spark.shuffle.compress", false)
        .config("spark.ui.showConsoleProgress", false)
        .arguments([] as [&str; 0])
        .build()
        .unwrap()
}

fn text(n: u64) -> String {
    format!("{:0>60}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20)
}

fn texts(ctx: &Context, count: u64) -> Rdd<String> {
    ctx.range_in(4, 0..count, 1).map(text).boxed()
}

#[track_caller]
fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

/// Nothing but the lock in the application's directory.
fn files_are_gone(local_dir: &Path) -> bool {
    fs::read_dir(local_dir).unwrap().all(|own| {
        let own = own.unwrap().path();
        fs::read_dir(own).unwrap().all(|file| file.unwrap().file_name() == "owner.lock")
    })
}

#[track_caller]
fn everything_is_given_back(ctx: &Context, local_dir: &Path) {
    wait_until("memory is given back", || ctx.memory_used() == (0, 0));
    wait_until("files are given back", || files_are_gone(local_dir));
    assert_eq!(texts(ctx, 100).sort_by(|text| text.clone()).count().unwrap(), 100);
}

#[test]
fn operations_that_spill_to_a_full_disk_fail_clearly_and_give_everything_back() {
    on_a_full_disk(
        "operations_that_spill_to_a_full_disk_fail_clearly_and_give_everything_back",
        || {
            let directory = tempfile::tempdir().unwrap();
            let ctx = context(directory.path().to_str().unwrap());
            type Operation = fn(&Context) -> Result<u64>;
            let sort: Operation = |ctx| texts(ctx, 300_000).sort_by(|text| text.clone()).count();
            let group: Operation =
                |ctx| texts(ctx, 300_000).map(|text| (text, 1u64)).group_by_key().count();
            let distinct: Operation = |ctx| texts(ctx, 300_000).distinct().count();
            let repartition: Operation = |ctx| texts(ctx, 300_000).repartition(3).count();
            for operation in [sort, group, distinct, repartition] {
                let error = operation(&ctx).unwrap_err().to_string();
                assert!(error.contains("could not write a temporary file"), "{error}");
                assert!(error.contains("spark.local.dir"), "{error}");
                assert!(error.contains(directory.path().to_str().unwrap()), "{error}");
                everything_is_given_back(&ctx, directory.path());
            }
        },
    );
}

#[test]
fn partitions_that_a_full_disk_does_not_take_are_computed_again() {
    on_a_full_disk("partitions_that_a_full_disk_does_not_take_are_computed_again", || {
        let directory = tempfile::tempdir().unwrap();
        let ctx = context(directory.path().to_str().unwrap());
        for name in ["DISK_ONLY", "MEMORY_AND_DISK", "MEMORY_AND_DISK_SER"] {
            let calls = ctx.accumulator::<u64>();
            let counted = texts(&ctx, 300_000).with(calls.clone()).map(|calls, text| {
                calls.add(1);
                text
            });
            let kept = counted.persist(name.parse().unwrap());
            for _ in 0..2 {
                assert!(kept.collect().unwrap().into_iter().eq((0..300_000).map(text)), "{name}");
            }
            assert!(calls.value() > 600_000, "{name}: {}", calls.value());
            drop(kept);
            drop(counted);
            everything_is_given_back(&ctx, directory.path());
        }
    });
}

#[test]
fn partitions_that_are_evicted_for_others_while_the_disk_is_full_are_dropped() {
    on_a_full_disk(
        "partitions_that_are_evicted_for_others_while_the_disk_is_full_are_dropped",
        || {
            let directory = tempfile::tempdir().unwrap();
            let ctx = context(directory.path().to_str().unwrap());
            let level = StorageLevel::MEMORY_AND_DISK;
            let first = texts(&ctx, 25_000).persist(level);
            assert_eq!(first.count().unwrap(), 25_000);
            assert_eq!(ctx.blocks().len(), 4);
            let second = texts(&ctx, 25_000).persist(level);
            assert_eq!(second.count().unwrap(), 25_000);
            let of_first = format!("rdd_{}_", first.id());
            let left = ctx.blocks().iter().filter(|block| block.starts_with(&of_first)).count();
            assert!(left < 4, "{:?}", ctx.blocks());
            assert!(files_are_gone(directory.path()));
            assert!(first.collect().unwrap().into_iter().eq((0..25_000).map(text)));
            assert!(second.collect().unwrap().into_iter().eq((0..25_000).map(text)));
            drop((first, second));
            everything_is_given_back(&ctx, directory.path());
        },
    );
}

#[test]
fn a_checkpoint_to_a_full_disk_fails_and_leaves_nothing() {
    on_a_full_disk("a_checkpoint_to_a_full_disk_fails_and_leaves_nothing", || {
        let directory = tempfile::tempdir().unwrap();
        let target = tempfile::tempdir().unwrap();
        let ctx = context(directory.path().to_str().unwrap());
        ctx.set_checkpoint_dir(target.path().to_str().unwrap()).unwrap();
        let checkpointed = texts(&ctx, 100_000).checkpoint();
        let error = checkpointed.count().unwrap_err().to_string();
        assert!(error.contains("could not write") && error.contains("part-0000"), "{error}");
        assert!(!checkpointed.is_checkpointed());
        let own = ctx.get_checkpoint_dir().unwrap();
        assert_eq!(fs::read_dir(own).unwrap().count(), 0);
        everything_is_given_back(&ctx, directory.path());
    });
}

#[test]
fn a_local_directory_that_cannot_be_written_is_named_and_others_are_used_instead() {
    // Nobody can make directories there, not even root.
    let refused = "/proc/firesteel-cannot-be-here";
    let file = tempfile::NamedTempFile::new().unwrap();
    for wrong in [refused, file.path().to_str().unwrap()] {
        let ctx = context(wrong);
        let error = texts(&ctx, 300_000).sort_by(|text| text.clone()).count().unwrap_err();
        assert!(error.to_string().contains("spark.local.dir"), "{error}");
        assert!(error.to_string().contains(wrong), "{error}");
        wait_until("memory is given back", || ctx.memory_used() == (0, 0));
        let kept = texts(&ctx, 1_000).persist(StorageLevel::DISK_ONLY);
        assert_eq!(kept.count().unwrap(), 1_000, "computed, not kept");
        assert!(ctx.blocks().is_empty());
    }
    let directory = tempfile::tempdir().unwrap();
    let ctx = context(&format!("{refused},{}", directory.path().display()));
    assert_eq!(texts(&ctx, 300_000).sort_by(|text| text.clone()).count().unwrap(), 300_000);
    ctx.stop();
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_codec_that_does_not_exist_is_refused_with_those_that_do() {
    let builder = Context::builder().master("local").arguments([] as [&str; 0]);
    let error = builder.config("spark.io.compression.codec", "snapy").build().err().unwrap();
    let error = error.to_string();
    assert!(
        error.contains("spark.io.compression.codec") && error.contains("lz4 or zstd"),
        "{error}"
    );
}
