//! Wrong arguments and unusable input: each a clear error, after which the context works as before.

mod scratch;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firesteel::prelude::*;
use firesteel::types::{Event, JobError, TaskFailure};
use scratch::{Scratch, TRANSPORTS, assert_usable, builder, context, fails_with};
use serde::{Deserialize, Serialize};

#[test]
fn a_missing_input_path_is_named() {
    let (ctx, scratch) = (context(), Scratch::new());
    let missing = scratch.path("missing.txt");
    fails_with(ctx.text_file(&missing).map(drop), &["missing.txt", "does not exist"]);
    let uri = format!("file://{missing}");
    fails_with(ctx.text_file(&uri).map(drop), &["missing.txt", "does not exist"]);
    fails_with(ctx.text_file("").map(drop), &["does not exist"]);
    let present = scratch.write("present.txt", "a\n");
    let both = format!("{present},{missing}");
    fails_with(ctx.text_file(&both).map(drop), &["missing.txt"]);
    assert_usable(&ctx);
}

/// The error names this call of this file as where it comes from.
fn fails_at<T: std::fmt::Debug>(result: Result<T>, operation: &str, words: &[&str]) {
    let place = format!("{operation} ({}:", file!());
    let words: Vec<&str> = words.iter().copied().chain([place.as_str()]).collect();
    fails_with(result, &words);
}

#[test]
fn input_and_output_that_cannot_be_used_are_told_with_the_call_that_names_them() {
    let (ctx, scratch) = (context(), Scratch::new());
    let missing = scratch.path("missing.txt");
    fails_at(ctx.text_file(&missing).map(drop), "text_file", &["matches no file"]);
    let whole = ctx.whole_text_files(&missing).map(drop);
    fails_at(whole, "whole_text_files", &["matches no file"]);
    fails_at(ctx.binary_files(&missing).map(drop), "binary_files", &["matches no file"]);
    fails_at(ctx.csv::<(u64,)>(&missing).map(drop), "csv", &["matches no file"]);
    fails_at(ctx.json_lines::<u64>(&missing).map(drop), "json_lines", &["matches no file"]);
    fails_at(ctx.object_file::<u64>(&missing).map(drop), "object_file", &["matches no file"]);
    let here = std::env::current_dir().unwrap().display().to_string();
    fails_at(ctx.text_file("no/such").map(drop), "text_file", &["looked for in", &here]);
    let absolute = ctx.text_file(&missing).map(drop).unwrap_err().to_string();
    assert!(!absolute.contains("looked for in"), "{absolute}");
    let absolute = ctx.text_file(&format!("file:{missing}")).map(drop).unwrap_err().to_string();
    assert!(!absolute.contains("looked for in"), "{absolute}");
    fails_at(ctx.text_file("a***").map(drop), "text_file", &["not a valid pattern"]);
    std::os::unix::fs::symlink("nowhere", scratch.path("dangling.txt")).unwrap();
    let dangling = scratch.path("*.txt");
    fails_at(ctx.text_file(&dangling).map(drop), "text_file", &["cannot be read"]);
    let (numbers, file) = (ctx.range(0..10u64), scratch.write("file", "a\n"));
    fails_at(numbers.save_as_text_file(&file), "save_as_text_file", &["already exists"]);
    let below = format!("{file}/out");
    fails_at(numbers.save_as_text_file(&below), "save_as_text_file", &["could not create"]);
    fails_at(ctx.set_checkpoint_dir(&below), "set_checkpoint_dir", &["could not create"]);
    fails_at(ctx.empty::<u64>().max(), "max", &["at least one item"]);
    ctx.stop();
    fails_at(numbers.count(), "count", &["the context is stopped"]);
    fails_at(numbers.take(1), "take", &["the context is stopped"]);
    let stopped = &["the context is stopped"];
    fails_at(numbers.count_async().wait(), "count_async", stopped);
    fails_at(numbers.collect_async().wait(), "collect_async", stopped);
    fails_at(numbers.take_async(1).wait(), "take_async", stopped);
    fails_at(numbers.for_each_async(drop).wait(), "for_each_async", stopped);
    let each = numbers.for_each_partition_async(|items| items.for_each(drop));
    fails_at(each.wait(), "for_each_partition_async", stopped);
}

#[test]
fn a_job_that_fails_or_is_cancelled_names_the_calls_that_its_stage_is_made_of() {
    let at = |operation: &str| format!("{operation} at {}:", file!());
    let ctx = context();
    let (few, many) = (ctx.range_in(2, 0..4u64, 1), ctx.range_in(2, 0..6u64, 1));
    let zipped = few.zip(&many).map(|(a, b)| a + b);
    let error = zipped.count().unwrap_err().to_string();
    for operation in ["count", "map", "zip", "range_in"] {
        assert!(error.contains(&at(operation)), "{operation} is missing in: {error}");
    }
    // What another stage computes is not where to look.
    let summed = few.map(|n| (n, n)).reduce_by_key(|a, b| a + b).filter(|(n, _)| 1 / n < 9);
    let error = summed.collect().unwrap_err().to_string();
    for operation in ["collect", "filter", "reduce_by_key"] {
        assert!(error.contains(&at(operation)), "{operation} is missing in: {error}");
    }
    assert!(!error.contains("range_in") && !error.contains("map at"), "{error}");
    let endless = ctx.range_in(2, 0..u64::MAX, 1).map(|n| std::hint::black_box(n) & 1);
    let job = endless.in_background(|numbers| numbers.sum());
    ctx.cancel_all_jobs();
    job.cancel();
    let error = job.wait().unwrap_err().to_string();
    assert!(error.contains(&at("sum")) && error.contains("cancelled"), "{error}");
    assert_usable(&ctx);
}

#[test]
fn a_glob_that_matches_nothing_or_is_malformed_is_named() {
    let (ctx, scratch) = (context(), Scratch::new());
    let nothing = scratch.path("*.csv");
    fails_with(ctx.text_file(&nothing).map(drop), &["*.csv", "matches no file"]);
    let alternatives = scratch.path("{a,b}.csv");
    fails_with(ctx.text_file(&alternatives).map(drop), &["{a,b}.csv", "matches no file"]);
    let malformed = scratch.path("a***");
    fails_with(ctx.text_file(&malformed).map(drop), &["a***", "not a valid pattern"]);
    assert_usable(&ctx);
}

#[test]
fn an_unreadable_file_in_a_glob_is_named_before_any_job_runs() {
    let (ctx, scratch) = (context(), Scratch::new());
    scratch.write("dangling/a.txt", "a\n");
    scratch.write("looping/a.txt", "a\n");
    scratch.write("piped/a.txt", "a\n");
    std::os::unix::fs::symlink("nowhere", scratch.path("dangling/b.txt")).unwrap();
    std::os::unix::fs::symlink("b.txt", scratch.path("looping/b.txt")).unwrap();
    let pipe = std::process::Command::new("mkfifo").arg(scratch.path("piped/b.txt")).status();
    assert!(pipe.unwrap().success());
    for (directory, why) in
        [("dangling", "No such file"), ("looping", "symbolic links"), ("piped", "not a regular")]
    {
        let glob = scratch.path(&format!("{directory}/*.txt"));
        fails_with(ctx.text_file(&glob).map(drop), &["b.txt", "cannot be read", why]);
        let whole = scratch.path(directory);
        fails_with(ctx.text_file(&whole).map(drop), &["b.txt", "cannot be read", why]);
    }
    assert_usable(&ctx);
}

#[test]
fn a_file_whose_reading_fails_is_named_with_the_offset() {
    let (ctx, scratch) = (context(), Scratch::new());
    let swapped = scratch.write("swapped.txt", "a\nb\n");
    let lines = ctx.text_file(&swapped).unwrap();
    std::fs::remove_file(&swapped).unwrap();
    // A directory can be opened like a file, and cannot be read like one.
    std::fs::create_dir(&swapped).unwrap();
    fails_with(lines.count(), &["could not read", "swapped.txt", "offset"]);
    assert_usable(&ctx);
}

#[test]
fn a_file_removed_or_cut_short_between_planning_and_running_fails_the_job() {
    for transport in TRANSPORTS {
        let ctx = builder().config("spark.firesteel.local.transport", transport).build().unwrap();
        let scratch = Scratch::new();
        let removed = scratch.write("removed.txt", "a\nb\n");
        let lines = ctx.text_file(&removed).unwrap();
        assert_eq!(lines.count().unwrap(), 2);
        std::fs::remove_file(&removed).unwrap();
        fails_with(lines.count(), &["could not open", "removed.txt", "No such file"]);
        let cut = scratch.write("cut.txt", "line\n".repeat(1000));
        let [one, many] = [1, 50].map(|partitions| {
            let options = TextOptions::new().min_partitions(partitions);
            ctx.text_file_with(&cut, &options).unwrap()
        });
        assert_eq!((one.count().unwrap(), many.count().unwrap()), (1000, 1000));
        scratch.write("cut.txt", "line\n".repeat(10));
        fails_with(one.count(), &["cut.txt", "offset 50,", "5000 bytes", "changed meanwhile"]);
        fails_with(many.count(), &["cut.txt", "changed meanwhile"]);
        assert_usable(&ctx);
    }
}

#[test]
fn invalid_utf_8_is_named_with_its_offset_in_any_split_and_replaced_on_request() {
    let (ctx, scratch) = (context(), Scratch::new());
    for bad_line in [0, 1, 499, 999] {
        let mut content = Vec::new();
        let mut offset = 0;
        for line in 0..1000 {
            if line == bad_line {
                offset = content.len() + "fine ".len();
            }
            content.extend_from_slice(if line == bad_line { b"fine \xff\n" } else { b"line\n" });
        }
        let path = scratch.write("bad.txt", &content);
        let options = TextOptions::new().max_split_bytes(64);
        let lines = ctx.text_file_with(&path, &options).unwrap();
        assert!(lines.partition_count() > 50);
        let wanted = format!("not valid UTF-8 at offset {offset};");
        let error = fails_with(lines.count(), &["bad.txt", &wanted, "lossy"]);
        let Error::Job(JobError::TaskFailed { failure, attempts, .. }) = error else { panic!() };
        assert!(matches!(failure, TaskFailure::Fatal { .. }) && attempts == 1);
        let lossy = ctx.text_file_with(&path, &options.lossy(true)).unwrap();
        assert_eq!(lossy.collect().unwrap()[bad_line], "fine \u{fffd}");
    }
    assert_usable(&ctx);
}

#[test]
fn partition_indices_out_of_range_or_given_twice_are_refused() {
    let ctx = context();
    let rdd = ctx.parallelize_in(3, 0..9u64);
    let of = |partitions: &[usize]| rdd.run_on_partitions(partitions, |items| items.count());
    fails_with(of(&[0, 3]), &["run_on_partitions", "bad_input.rs", "partition 3", "has 3"]);
    fails_with(of(&[2, 0, 2]), &["partition 2", "twice"]);
    assert_eq!(of(&[2, 0]).unwrap(), [3, 3]);
    assert_eq!(of(&[]).unwrap(), [0usize; 0]);
    assert_usable(&ctx);
}

#[test]
fn a_job_on_a_stopped_context_is_refused() {
    let (ctx, scratch) = (context(), Scratch::new());
    let rdd = ctx.range(0..10u64);
    ctx.stop();
    ctx.stop();
    let stopped = &["the context is stopped"][..];
    fails_with(rdd.count(), stopped);
    fails_with(rdd.take(0), stopped);
    fails_with(rdd.collect_async().wait(), stopped);
    fails_with(rdd.sort_by(|x| *x).collect(), stopped);
    fails_with(rdd.to_local_iterator().collect::<Result<Vec<_>>>(), stopped);
    fails_with(ctx.empty::<u64>().count(), stopped);
    fails_with(ctx.empty::<u64>().first(), stopped);
    fails_with(rdd.save_as_text_file(scratch.path("a/b/out")), stopped);
    assert!(scratch.names().is_empty(), "{:?}", scratch.names());
    assert_usable(&context());
}

#[test]
fn zero_partitions_are_refused_wherever_a_number_is_given() {
    let ctx = context();
    let numbers = ctx.range(0..10u64);
    let pairs = numbers.map(|x| (x % 2, x));
    // Partitioned as the stand-in for a wrong number would be: no shuffle hides the mistake.
    let placed = pairs.partition_by(1);
    let named = |operation| ["bad_input.rs", "must be", "but is 0", operation];
    fails_with(ctx.parallelize_in(0, [1u8]).count(), &named("parallelize_in"));
    fails_with(ctx.range_in(0, 0..9u64, 1).count(), &named("range_in"));
    fails_with(numbers.repartition(0).count(), &named("repartition"));
    fails_with(numbers.coalesce(0).count(), &named("coalesce"));
    fails_with(numbers.distinct_into(0).count(), &named("distinct_into"));
    fails_with(numbers.sort_by_into(0, |x| *x).count(), &named("sort_by_into"));
    for pairs in [pairs.boxed(), placed] {
        fails_with(pairs.sort_by_key_into(0).count(), &named("sort_by_key_into"));
        fails_with(pairs.reduce_by_key_into(0, |a, _| a).count(), &named("reduce_by_key_into"));
        fails_with(pairs.group_by_key_into(0).count(), &named("group_by_key_into"));
        fails_with(
            pairs.combine_by_key_into(0, |v| v, |a, _| a, |a, _| a).count(),
            &named("combine_by_key_into"),
        );
        fails_with(pairs.partition_by(0).count(), &named("partition_by"));
        fails_with(pairs.partition_by(HashPartitioner::new(0)).count(), &named("partition_by"));
        fails_with(pairs.partition_by(By(Constant(0, 0))).count(), &named("partition_by"));
        fails_with(
            pairs.repartition_and_sort_within_partitions(0).count(),
            &named("repartition_and_sort_within_partitions"),
        );
        fails_with(pairs.join_into(0, &pairs).count(), &named("join_into"));
        fails_with(pairs.cogroup_into(0, &pairs).count(), &named("cogroup_into"));
    }
    // The mistake is found through everything that is built on it, even if it reads nothing.
    let built = numbers.repartition(0).map(|x| x + 1).filter(|x| x % 2 == 0);
    for result in [built.take(0), built.take(3), built.collect(), built.sort_by(|x| *x).collect()] {
        fails_with(result, &named("repartition"));
    }
    let options = TextOptions::new().min_partitions(0);
    fails_with(ctx.text_file_with("x", &options).map(drop), &["must be positive"]);
    let options = TextOptions::new().max_split_bytes(0);
    fails_with(ctx.text_file_with("x", &options).map(drop), &["must be positive"]);
    assert_usable(&ctx);
}

#[test]
fn a_wrong_rdd_without_partitions_is_not_an_empty_one() {
    let ctx = context();
    let many = ctx.parallelize_in(70_000, [1u8]);
    let too_many = many.cartesian(&many);
    let words = &["cartesian", "70000 times 70000 partitions are too many"];
    fails_with(too_many.is_empty(), words);
    fails_with(too_many.first(), words);
    fails_with(too_many.take(5), words);
    fails_with(too_many.to_local_iterator().collect::<Result<Vec<_>>>(), words);
    assert_usable(&ctx);
}

#[test]
fn fractions_weights_steps_and_bounds_out_of_range_are_refused() {
    let ctx = context();
    let numbers = ctx.range(0..10i64);
    for fraction in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        let given = fraction.to_string();
        let words = &["sample", "bad_input.rs", "between 0 and 1", &given];
        fails_with(numbers.sample(false, fraction, 1).count(), words);
        let by_key = numbers.map(|x| (x % 2, x)).sample_by_key(false, [(0, fraction)], 1);
        fails_with(by_key.count(), &["sample_by_key", "between 0 and 1"]);
    }
    for fraction in [-0.1, f64::NAN, f64::INFINITY] {
        fails_with(numbers.sample(true, fraction, 1).count(), &["sample", "at least 0"]);
    }
    for weights in [&[][..], &[0.0, 0.0], &[1.0, -0.5], &[1.0, f64::NAN], &[f64::INFINITY, 1.0]] {
        let words = &["random_split", "bad_input.rs", "must not be negative", "positive"];
        fails_with(numbers.random_split(weights, 1).map(|parts| parts.len()), words);
    }
    fails_with(ctx.range_in(2, 0..9i64, 0).count(), &["range_in", "step must not be 0"]);
    fails_with(ctx.range_in(2, 0..9i64, 0).take(0), &["step must not be 0"]);
    for bounds in [&[][..], &[1.0], &[2.0, 1.0], &[1.0, 1.0], &[0.0, f64::NAN, 2.0]] {
        fails_with(numbers.histogram(bounds), &["histogram", "strictly ascending"]);
    }
    fails_with(numbers.histogram_of(0), &["histogram_of", "at least 1"]);
    let with_nan = ctx.parallelize([1.0, f64::NAN]);
    fails_with(with_nan.histogram_of(3), &["infinity or NaN"]);
    for deviation in [0.0, -1.0, f64::NAN, 0.5] {
        fails_with(numbers.count_approx_distinct(deviation), &["count_approx_distinct", "0.4"]);
    }
    fails_with(numbers.pipe([""; 0]).count(), &["pipe", "command is empty"]);
    fails_with(numbers.zip(&ctx.range_in(5, 0..10i64, 1)).count(), &["zip", "left has 2", "5"]);
    assert_usable(&ctx);
}

#[test]
fn what_needs_an_item_says_so_when_there_is_none() {
    let ctx = context();
    for empty in [ctx.range(0..0u64).boxed(), ctx.empty().boxed()] {
        let needs = |operation: &'static str| [operation, "at least one item"];
        fails_with(empty.reduce(|a, b| a + b), &needs("reduce"));
        fails_with(empty.with(1u64).reduce(|one, a, b| a + b * one), &needs("reduce"));
        fails_with(empty.tree_reduce(|a, b| a + b), &needs("tree_reduce"));
        fails_with(empty.min(), &needs("min"));
        fails_with(empty.max(), &needs("max"));
        fails_with(empty.first(), &needs("first"));
        fails_with(empty.map(|x| x as f64).histogram_of(2), &needs("histogram_of"));
        assert!(empty.is_empty().unwrap());
        assert_eq!(empty.take(3).unwrap(), [0u64; 0]);
        assert_eq!(empty.sum().unwrap(), 0);
    }
    assert_usable(&ctx);
}

/// Says that it has so many partitions, and puts every key into one.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Constant(usize, usize);

impl Partitioner<u64> for Constant {
    fn partitions(&self) -> usize {
        self.0
    }

    fn partition(&self, _: &u64) -> usize {
        self.1
    }
}

#[test]
fn a_partitioner_that_leaves_its_range_ends_the_job_at_once_in_every_transport() {
    for transport in TRANSPORTS {
        let attempts = Arc::new(AtomicU64::new(0));
        let counted = attempts.clone();
        let ctx = builder()
            .master("local[1,4]")
            .config("spark.firesteel.local.transport", transport)
            .listener(move |event: &Event| {
                if let Event::TaskStart { .. } = event {
                    counted.fetch_add(1, Ordering::SeqCst);
                }
            })
            .build()
            .unwrap();
        let pairs = ctx.range_in(1, 0..4u64, 1).map(|x| (x, x));
        let words = &["Constant", "returned partition 3", "has 3 partition(s)"][..];
        let wrong = By(Constant(3, 3));
        for result in [
            pairs.partition_by(wrong.clone()).count(),
            pairs.reduce_by_key_into(wrong.clone(), |a, b| a + b).count(),
            pairs.join_into(wrong.clone(), &pairs).count(),
            pairs.map(|(k, _)| k).distinct_into(wrong.clone()).count(),
        ] {
            let error = fails_with(result, words);
            let Error::Job(JobError::TaskFailed { failure, attempts, .. }) = error else {
                panic!("{error:?}")
            };
            assert!(matches!(failure, TaskFailure::Fatal { .. }), "{failure:?}");
            assert_eq!(attempts, 1, "{transport}");
        }
        ctx.wait_for_listeners();
        // One task of one map stage each; the join has two of them and may have started both.
        assert!((4..=5).contains(&attempts.load(Ordering::SeqCst)), "{attempts:?}");
        // The driver asks the partitioner too.
        fails_with(pairs.partition_by(wrong).lookup(&1), words);
        assert_usable(&ctx);
    }
}

#[test]
fn master_urls_that_cannot_be_used_say_what_can() {
    for (master, words) in [
        ("", &["spark.master", "empty", "local[*]"][..]),
        ("lokal[2]", &["spark.master", "lokal[2]", "not a master URL", "local[N]"]),
        ("local[0]", &["`0`", "1 or more"]),
        ("local[-1]", &["`-1`", "1 or more"]),
        ("local[x]", &["`x`", "1 or more"]),
        ("local[2,0]", &["`0`", "F is 1 or more"]),
        ("local-cluster[0,1,1024]", &["local-cluster[workers,cores,memoryMB]"]),
        ("spark://", &["spark://host:port"]),
        ("yarn", &["YARN is not supported", "local[*]"]),
        ("mesos://host:5050", &["not supported"]),
        ("spark://no.such.host.invalid:7077", &["no.such.host.invalid", "check the host"]),
        // With the feature `kubernetes` its host is looked for; without it the text says so.
        ("k8s://https://no.such.host.invalid:6443", &["k8s://", "not available"]),
        ("nomad://host", &["nomad://host", "no cluster manager", "local[N]"]),
    ] {
        fails_with(builder().master(master).build().map(drop), words);
    }
}

#[test]
fn wrong_settings_are_all_named_with_an_example() {
    let wrong = builder()
        .config("spark.task.cpus", 0)
        .config("spark.files.maxPartitionBytes", "12 bananas")
        .config("spark.hadoop.validateOutputSpecs", "maybe")
        .config("spark.speculation.quantile", 1.5)
        .config("spark.firesteel.local.transport", "pigeon")
        .config("spark.unknown.key", "is kept");
    let words = [
        "5 settings are refused",
        "spark.task.cpus = \"0\"",
        "for example spark.task.cpus=",
        "12 bananas",
        "spark.files.maxPartitionBytes=128m",
        "validateOutputSpecs = \"maybe\"",
        "spark.speculation.quantile=0.9",
        "pigeon",
    ];
    fails_with(wrong.build().map(drop), &words);
    let argument =
        |arguments: &[&str]| builder().arguments(arguments.iter().copied()).build().map(drop);
    fails_with(argument(&["--conf", "x"]), &["--conf \"x\" is not a setting", "key=value"]);
    fails_with(argument(&["--conf"]), &["--conf needs a value"]);
    fails_with(
        argument(&["--conf", "spark.task.cpus=x"]),
        &["spark.task.cpus = \"x\"", "--conf", "for example"],
    );
    fails_with(
        argument(&["--properties-file", "missing.conf"]),
        &["could not read the settings", "missing.conf", "No such file"],
    );
    let scratch = Scratch::new();
    let malformed = scratch.write("malformed.conf", "spark.task.cpus 1\nspark.a \\u12\n");
    fails_with(argument(&["--properties-file", &malformed]), &["malformed.conf", "line 2"]);
    let wrong = scratch.write("wrong.conf", "\nspark.task.cpus none\n");
    fails_with(
        argument(&["--properties-file", &wrong]),
        &["spark.task.cpus = \"none\"", "wrong.conf:2", "for example"],
    );
}

#[test]
fn an_allocation_file_that_cannot_be_used_is_named_with_its_setting() {
    let scratch = Scratch::new();
    let with = |path: &str| {
        let builder = builder().config("spark.scheduler.allocation.file", path);
        builder.config("spark.scheduler.mode", "FAIR").build().map(drop)
    };
    let setting = "spark.scheduler.allocation.file";
    fails_with(with(&scratch.path("no.xml")), &[setting, "no.xml", "No such file"]);
    let no_xml = scratch.write("broken.xml", "<allocations><pool");
    fails_with(with(&no_xml), &[setting, "broken.xml", "not valid XML"]);
    let weight = "<allocations>\n<pool name=\"x\"><weight>heavy</weight></pool></allocations>";
    let wrong = scratch.write("wrong.xml", weight);
    fails_with(with(&wrong), &[setting, "wrong.xml", "line 2", "heavy"]);
}
