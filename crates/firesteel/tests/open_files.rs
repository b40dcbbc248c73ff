//! Files of a job: few are open however many lie on disk, those that vanish are computed again, and a disk that
//! is full leaves the work to the others.
//!
//! A test that needs another process (`ulimit -n`, a disk of its own) runs itself again there, and fails if it
//! did not happen.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use firesteel::prelude::*;

const INSIDE: &str = "FIRESTEEL_TEST_INSIDE";
const HAPPENED: &str = "it happened inside";
/// More than any process of these tests may have open.
const MAPS: u64 = 1_100;
const MASTERS: [&str; 2] = ["local[2]", "local-cluster[2,1,1024]"];

/// Runs `scenario` in a process that a shell script prepares.
fn inside(test: &str, script: &str, scenario: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        scenario();
        println!("{HAPPENED}");
        return;
    }
    let script = format!("{script}; exec \"$0\" \"$@\"");
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

fn context(master: &str, local_dir: &str) -> Context {
    let builder = Context::builder().master(master).arguments([] as [&str; 0]);
    builder
        .config("spark.local.dir", local_dir)
        .config("spark.shuffle.compress", false)
        .config("spark.ui.showConsoleProgress", false)
        .build()
        .unwrap()
}

fn path(directory: &tempfile::TempDir) -> &str {
    directory.path().to_str().unwrap()
}

/// Pairs of more than a megabyte in each of `maps` partitions.
fn large_pairs(ctx: &Context, maps: u64) -> Rdd<(u64, String)> {
    let pairs = |map: u64| (0..18u64).map(move |n| (map * 18 + n, "x".repeat(60 << 10)));
    ctx.range_in(maps as usize, 0..maps, 1).flat_map(pairs).boxed()
}

/// Keys and lengths of all pairs, added up.
fn digest(pairs: &Rdd<(u64, String)>) -> (u64, u64) {
    let sums = pairs.map(|(key, text)| (key, text.len() as u64));
    sums.reduce(|a, b| (a.0 + b.0, a.1 + b.1)).unwrap()
}

fn expected(maps: u64) -> (u64, u64) {
    let pairs = maps * 18;
    (pairs * (pairs - 1) / 2, pairs * (60 << 10))
}

#[test]
fn a_shuffle_of_more_map_outputs_than_files_may_be_open() {
    let test = "a_shuffle_of_more_map_outputs_than_files_may_be_open";
    inside(test, "ulimit -n 256", || {
        for master in MASTERS {
            let directory = tempfile::tempdir().unwrap();
            let ctx = context(master, path(&directory));
            let shuffled = large_pairs(&ctx, MAPS).repartition(3).boxed();
            assert_eq!(digest(&shuffled), expected(MAPS), "{master}");
            ctx.stop();
            assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "{master}");
        }
    });
}

#[test]
fn more_partitions_cached_on_disk_than_files_may_be_open() {
    inside("more_partitions_cached_on_disk_than_files_may_be_open", "ulimit -n 256", || {
        for master in MASTERS {
            let directory = tempfile::tempdir().unwrap();
            let ctx = context(master, path(&directory));
            let computed = ctx.accumulator::<u64>();
            let counted = ctx.range_in(MAPS as usize, 0..MAPS * 10, 1);
            let counted = counted.with(computed.clone()).map(|computed, n| {
                computed.add(1);
                n
            });
            let cached = counted.persist(StorageLevel::DISK_ONLY);
            for _ in 0..3 {
                let sum = cached.reduce(|a, b| a + b).unwrap();
                assert_eq!(sum, MAPS * 10 * (MAPS * 10 - 1) / 2, "{master}");
            }
            assert_eq!(computed.value(), MAPS * 10, "{master}: each was computed once");
        }
    });
}

#[test]
fn a_sort_of_more_runs_than_files_may_be_open() {
    inside("a_sort_of_more_runs_than_files_may_be_open", "ulimit -n 64", || {
        let directory = tempfile::tempdir().unwrap();
        let ctx = Context::builder()
            .master("local[1]")
            .config("spark.driver.memory", "8m")
            .config("spark.memory.fraction", "0.25")
            .config("spark.local.dir", directory.path().display())
            .config("spark.ui.showConsoleProgress", false)
            .arguments([] as [&str; 0])
            .build()
            .unwrap();
        let spread = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let texts = ctx.range_in(1, 0..150_000u64, 1);
        let texts =
            texts.map(|n| format!("{:0>1000}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40));
        let sorted = texts.map(|text| (text, ())).sort_by_key().keys().collect().unwrap();
        let mut keys: Vec<u64> = (0..150_000).map(spread).collect();
        keys.sort_unstable();
        assert!(sorted.iter().map(|text| text.parse::<u64>().unwrap()).eq(keys));
    });
}

/// All files but locks below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false if path.file_name().is_some_and(|name| name == "owner.lock") => {}
            false => found.push(path),
        }
    }
    found.sort();
    found
}

#[test]
fn map_outputs_and_cached_partitions_whose_files_vanish_are_recomputed() {
    let directory = tempfile::tempdir().unwrap();
    let ctx = context("local[2]", path(&directory));
    let shuffled = large_pairs(&ctx, 4).repartition(3).boxed();
    assert_eq!(digest(&shuffled), expected(4));
    let outputs = files(directory.path());
    assert_eq!(outputs.len(), 4);
    // One is gone, one is cut off.
    fs::remove_file(&outputs[0]).unwrap();
    fs::File::options().write(true).open(&outputs[2]).unwrap().set_len(70_000).unwrap();
    assert_eq!(digest(&shuffled), expected(4));
    drop(shuffled);
    let cached = large_pairs(&ctx, 4).persist(StorageLevel::DISK_ONLY).boxed();
    assert_eq!(digest(&cached), expected(4));
    let blocks = files(directory.path());
    assert_eq!(blocks.len(), 4);
    fs::remove_file(&blocks[0]).unwrap();
    fs::write(&blocks[1], "something else").unwrap();
    assert_eq!(digest(&cached), expected(4));
}

/// Whether this machine lets us have a disk of our own.
fn can_mount() -> bool {
    let mounts =
        Command::new("unshare").args(["-rm", "mount", "-t", "tmpfs", "x", "/mnt"]).output();
    mounts.is_ok_and(|output| output.status.success())
}

#[test]
fn one_full_disk_of_two_leaves_the_work_to_the_other() {
    let test = "one_full_disk_of_two_leaves_the_work_to_the_other";
    if std::env::var_os(INSIDE).is_none() && !can_mount() {
        eprintln!("skipped: no disk can be mounted here");
        return;
    }
    if std::env::var_os(INSIDE).is_none() {
        let output = Command::new("unshare")
            .args(["-rm", "sh", "-c"])
            .arg("mount -t tmpfs -o size=2m full /mnt && exec \"$0\" \"$@\"")
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(INSIDE, "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains(HAPPENED), "{text}\n{errors}");
        return;
    }
    for master in MASTERS {
        let directory = tempfile::tempdir().unwrap();
        let ctx = context(master, &format!("/mnt,{}", directory.path().display()));
        // Local mode tries each task once: no attempt may end on the full disk.
        let shuffled = large_pairs(&ctx, 20).repartition(3).boxed();
        assert_eq!(digest(&shuffled), expected(20), "{master}");
        let cached = large_pairs(&ctx, 20).persist(StorageLevel::DISK_ONLY).boxed();
        for _ in 0..2 {
            assert_eq!(digest(&cached), expected(20), "{master}");
        }
        ctx.stop();
        assert_eq!(fs::read_dir("/mnt").unwrap().count(), 0, "{master}");
    }
    println!("{HAPPENED}");
}
