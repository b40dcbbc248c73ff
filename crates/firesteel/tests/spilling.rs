//! Wide operations on more data than the memory they are given: right results, a bounded budget,
//! nothing left on disk.

use std::fs;
use std::path::{Path, PathBuf};

use firesteel::prelude::*;

const KEYS: u64 = 40_000;
const VALUES: u64 = 8;

/// 4 MiB for tasks; each operation below moves several times as much.
fn small(local_dir: &Path) -> Context {
    Context::builder()
        .master("local[2]")
        .config("spark.driver.memory", "8m")
        .config("spark.memory.fraction", "0.5")
        .config("spark.local.dir", local_dir.display())
        .arguments([] as [&str; 0])
        .build()
        .unwrap()
}

fn with_little_memory(job: impl FnOnce(&Context)) {
    with_files(|ctx, _| job(ctx));
}

fn with_files(job: impl FnOnce(&Context, &Path)) {
    let directory = tempfile::tempdir().unwrap();
    let ctx = small(directory.path());
    job(&ctx, directory.path());
    ctx.stop();
    drop(ctx);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "files are left");
}

/// Each key `VALUES` times, with a text of some length, in no particular order.
fn pairs(ctx: &Context) -> Rdd<(u64, String)> {
    ctx.range_in(4, 0..KEYS * VALUES, 1)
        .map(|n| {
            let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
            (n % KEYS, format!("{mixed:0>60}"))
        })
        .boxed()
}

#[test]
fn grouping_spills_and_keeps_every_value() {
    with_little_memory(|ctx| {
        let groups = pairs(ctx).group_by_key_into(3).map_values(|values| values.len() as u64);
        let counts = groups.values().count_by_value().unwrap();
        assert_eq!(counts.into_iter().collect::<Vec<_>>(), [(VALUES, KEYS)]);
    });
}

#[test]
fn reducing_many_keys_spills_on_both_sides_and_counts_right() {
    with_little_memory(|ctx| {
        let lengths = pairs(ctx).map(|(key, text)| (format!("{key:0>40}"), text.len() as u64));
        let sums = lengths.reduce_by_key_into(2, |a, b| a + b);
        assert_eq!(sums.count().unwrap(), KEYS);
        assert_eq!(sums.values().min().unwrap(), VALUES * 60);
        assert_eq!(sums.values().max().unwrap(), VALUES * 60);
    });
}

#[test]
fn sorting_spills_runs_and_merges_them_in_order() {
    with_little_memory(|ctx| {
        let sorted = pairs(ctx).map(|(key, text)| (text, key)).sort_by_key_into(2);
        let texts: Vec<(String, u64)> = sorted.collect().unwrap();
        assert_eq!(texts.len() as u64, KEYS * VALUES);
        assert!(texts.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        let descending = pairs(ctx).sort_by_desc(|(_, text)| text.clone()).collect().unwrap();
        assert!(descending.windows(2).all(|pair| pair[0].1 >= pair[1].1));
        assert_eq!(descending.len() as u64, KEYS * VALUES);
    });
}

#[test]
fn joins_and_cogroups_spill_and_find_every_partner() {
    with_little_memory(|ctx| {
        let left = pairs(ctx);
        let right = ctx.range_in(2, 0..KEYS * 2, 2).map(|key| (key, format!("{key:0>80}")));
        let partners = KEYS / 2 * VALUES;
        assert_eq!(right.join_into(2, &left).count().unwrap(), partners);
        assert_eq!(left.left_outer_join(&right).count().unwrap(), KEYS * VALUES);
        let outer = right.right_outer_join(&left);
        assert_eq!(outer.count().unwrap(), KEYS * VALUES);
        let alone = outer.filter(|(_, (left, _))| left.is_none()).count().unwrap();
        assert_eq!(alone, partners);
        let both = left.cogroup_into(2, &right);
        assert_eq!(both.count().unwrap(), KEYS + KEYS / 2);
        assert_eq!(both.map(|(_, (a, _))| a.len() as u64).sum().unwrap(), KEYS * VALUES);
        assert_eq!(left.subtract_by_key(&right).count().unwrap(), partners);
    });
}

#[test]
fn distinct_and_repartition_spill_and_lose_nothing() {
    with_little_memory(|ctx| {
        let texts = pairs(ctx).map(|(key, text)| format!("{key:0>40}{}", &text[..20]));
        let expected = KEYS; // the first twenty digits of all texts are zeros
        assert_eq!(texts.distinct_into(2).count().unwrap(), expected);
        assert_eq!(pairs(ctx).repartition(5).count().unwrap(), KEYS * VALUES);
    });
}

#[test]
fn a_group_that_cannot_fit_is_an_error_that_names_the_operation_and_the_setting() {
    with_little_memory(|ctx| {
        let one = pairs(ctx).map(|(_, text)| (0u8, text));
        let error = one.group_by_key_into(2).count().unwrap_err().to_string();
        assert!(error.contains("group_by_key"), "{error}");
        assert!(error.contains("spark.driver.memory"), "{error}");
        let folded = one.map_values(|text| text.len()).reduce_by_key(|a, b| a + b);
        assert_eq!(folded.values().sum().unwrap() as u64, KEYS * VALUES * 60);
    });
}

#[test]
fn cached_partitions_that_do_not_fit_pass_through_and_small_ones_stay() {
    with_little_memory(|ctx| {
        let seen = ctx.accumulator::<u64>();
        let counted = |rdd: &Rdd<(u64, String)>| {
            let seen = rdd.with(seen.clone());
            seen.map(|seen, pair| {
                seen.add(1);
                pair
            })
            .cache()
        };
        let large = counted(&pairs(ctx));
        assert_eq!(large.count().unwrap() + large.count().unwrap(), 2 * KEYS * VALUES);
        assert_eq!(seen.value(), 2 * KEYS * VALUES, "nothing was kept");
        seen.reset();
        let small = counted(&ctx.parallelize((0..100).map(|n| (n, n.to_string()))).boxed());
        assert_eq!(small.count().unwrap() + small.count().unwrap(), 200);
        assert_eq!(seen.value(), 100, "it was kept");
        assert_eq!(pairs(ctx).group_by_key_into(2).count().unwrap(), KEYS);
        assert_eq!(small.count().unwrap(), 100, "kept or computed again");
    });
}

/// The files of map outputs.
fn shuffle_files(directory: &Path) -> Vec<PathBuf> {
    let own = fs::read_dir(directory).unwrap().flat_map(|dir| fs::read_dir(dir.unwrap().path()));
    let files = own.flatten().map(|file| file.unwrap().path());
    files.filter(|path| path.file_name().unwrap().to_string_lossy().contains("shuffle")).collect()
}

#[test]
fn map_outputs_that_rot_on_disk_are_recomputed() {
    with_files(|ctx, directory| {
        let placed = pairs(ctx).partition_by(3);
        assert_eq!(placed.count().unwrap(), KEYS * VALUES);
        let files = shuffle_files(directory);
        assert_eq!(files.len(), 4, "one per map task");
        let flip: fn(&mut Vec<u8>, usize) = |bytes, middle| bytes[middle] ^= 0xff;
        for (path, spoil) in files.iter().zip([flip, Vec::truncate]) {
            let mut bytes = fs::read(path).unwrap();
            let middle = bytes.len() / 2;
            spoil(&mut bytes, middle);
            fs::write(path, bytes).unwrap();
        }
        let texts = placed.values().map(|text| text.len() as u64);
        assert_eq!(texts.sum().unwrap(), KEYS * VALUES * 60);
    });
}
