//! Sources and sinks against a server that speaks S3, in this process: requests, commits, and what
//! happens when the store refuses, forgets or fails.

#![cfg(feature = "object-store")]

mod scratch;
mod store;

use std::sync::{Arc, Mutex};

use firesteel::prelude::*;
use firesteel::types::{Event, JobError, TaskFailure};
use scratch::{TRANSPORTS, assert_usable, builder, fails_with, wait_until};
use serde::{Deserialize, Serialize};
use store::S3;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Row {
    id: u64,
    name: String,
}

fn row(id: u64) -> Row {
    Row { id, name: format!("row {id}") }
}

/// Executors in processes of their own, with a master and workers: settings that may not be shown do not
/// reach them as settings.
const CLUSTER: &str = "cluster";

fn context_of(s3: &S3, transport: &str) -> Context {
    let mut builder = match transport {
        CLUSTER => builder().master("local-cluster[2,1,256]"),
        _ => builder().config("spark.firesteel.local.transport", transport),
    };
    for (key, value) in s3.settings() {
        builder = builder.config(key, value);
    }
    builder.build().unwrap()
}

#[test]
fn objects_are_listed_and_read_in_ranges_over_every_transport() {
    let s3 = S3::start();
    let lines: String = (0..50_000).map(|n| format!("line {n}\n")).collect();
    s3.put("logs/a.txt", &lines);
    s3.put("logs/b.txt", "last\n");
    s3.put("logs/_SUCCESS", "");
    s3.put("logs/_temporary/x", "not committed");
    s3.put("other/c.txt", "other\n");
    for transport in TRANSPORTS {
        let ctx = context_of(&s3, transport);
        let options = TextOptions::new().max_split_bytes(100_000);
        let text = ctx.text_file_with("s3a://bucket/logs", &options).unwrap();
        assert!(text.partition_count() > 5);
        let read = text.collect().unwrap();
        assert_eq!(read.len(), 50_001);
        assert!(read[..50_000].iter().enumerate().all(|(n, line)| *line == format!("line {n}")));
        let count = |paths: &str| ctx.text_file(paths).unwrap().count().unwrap();
        assert_eq!(count("s3://bucket/logs/b.txt"), 1);
        assert_eq!(count("s3://bucket/*/{b,c}.txt"), 2);
        assert_eq!(count("s3://bucket/o*"), 1);
        fails_with(ctx.text_file("s3://bucket/none").map(drop), &["none", "does not exist"]);
        fails_with(ctx.text_file("s3://bucket/").map(drop), &["is a directory inside of it"]);
    }
    let ranged = |request: &String| request.contains("logs/a.txt") && request.contains("bytes=");
    assert!(s3.lock().requests.iter().filter(|request| ranged(request)).count() > 10);
}

#[test]
fn every_format_is_saved_to_a_store_and_read_back() {
    let s3 = S3::start();
    let rows: Vec<Row> = (0..3_000).map(row).collect();
    for transport in TRANSPORTS.into_iter().chain([CLUSTER]) {
        let ctx = context_of(&s3, transport);
        let rdd = ctx.parallelize_in(3, rows.clone());
        let at = |name: &str| format!("s3://bucket/{transport}/{name}");
        let gzip = SaveOptions::new().compression(Compression::Gzip);
        rdd.map(|row| row.name).save_as_text_file_with(at("text"), &gzip).unwrap();
        rdd.save_as_json_lines(at("json")).unwrap();
        rdd.save_as_csv(at("csv")).unwrap();
        rdd.save_as_object_file(at("objects")).unwrap();
        let text = ctx.text_file(&at("text")).unwrap().collect().unwrap();
        assert_eq!(text, rows.iter().map(|row| row.name.clone()).collect::<Vec<_>>());
        assert_eq!(ctx.json_lines::<Row>(&at("json")).unwrap().collect().unwrap(), rows);
        assert_eq!(ctx.csv::<Row>(&at("csv")).unwrap().collect().unwrap(), rows);
        assert_eq!(ctx.object_file::<Row>(&at("objects")).unwrap().collect().unwrap(), rows);
        let (_, bytes) = ctx.binary_files(&at("csv")).unwrap().first().unwrap();
        assert!(bytes.to_vec().unwrap().starts_with(b"0,row 0\n"));
        #[cfg(feature = "parquet")]
        {
            rdd.save_as_parquet(at("parquet")).unwrap();
            let back = ctx.parquet::<Row>(&at("parquet")).unwrap();
            assert_eq!(back.collect().unwrap(), rows);
        }
    }
    let state = s3.lock();
    assert!(state.uploads.is_empty(), "no upload is left open");
    let left = state.objects.keys().filter(|key| key.contains("_temporary"));
    assert_eq!(left.count(), 0);
    assert!(state.objects.contains_key("direct/text/part-00000.gz"));
    assert!(state.objects.contains_key("direct/text/_SUCCESS"));
}

#[test]
fn checkpoints_are_kept_in_a_store_and_removed_when_that_is_asked_for() {
    let s3 = S3::start();
    for transport in TRANSPORTS {
        let mut builder = builder()
            .config("spark.firesteel.local.transport", transport)
            .config("spark.cleaner.referenceTracking.cleanCheckpoints", "true");
        for (key, value) in s3.settings() {
            builder = builder.config(key, value);
        }
        let ctx = builder.build().unwrap();
        ctx.set_checkpoint_dir("s3://bucket/checkpoints/").unwrap();
        let calls = ctx.accumulator::<u64>();
        let rows = ctx.range_in(3, 0..3_000u64, 1).with(calls.clone()).map(|calls, id| {
            calls.add(1);
            row(id)
        });
        let kept = rows.checkpoint();
        assert_eq!(kept.count().unwrap(), 3_000);
        assert!(kept.is_checkpointed());
        let file = kept.get_checkpoint_file().unwrap();
        assert!(file.starts_with("s3://bucket/checkpoints/"), "{file}");
        let computed = calls.value();
        assert_eq!(kept.collect().unwrap(), (0..3_000).map(row).collect::<Vec<_>>());
        assert_eq!(calls.value(), computed, "{transport}: nothing is computed again");
        let key = file.trim_start_matches("s3://bucket/").to_owned();
        assert!(s3.lock().objects.contains_key(&format!("{key}/part-00002")));
        s3.lock().objects.remove(&format!("{key}/part-00001"));
        fails_with(kept.count().map(drop), &["checkpoint", "part-00001"]);
        drop(kept);
        ctx.stop();
        assert!(!s3.lock().objects.keys().any(|name| name.starts_with(&key)), "{transport}");
    }
}

#[test]
fn large_files_are_uploaded_in_parts() {
    let s3 = S3::start();
    let ctx = context_of(&s3, "direct");
    let long = ctx.range_in(1, 0..20_000u64, 1).map(|n| format!("{n:01000}"));
    long.save_as_text_file("s3://bucket/long").unwrap();
    let parts = s3.lock().requests.iter().filter(|request| request.contains("partNumber")).count();
    assert_eq!(parts, 3);
    assert_eq!(s3.lock().objects["long/part-00000"].len(), 20_000 * 1001);
    let empty = ctx.range_in(2, 0..1u64, 1).filter(|_| false);
    empty.save_as_text_file("s3://bucket/empty").unwrap();
    assert_eq!(s3.lock().objects["empty/part-00001"], b"");
}

#[test]
fn wrong_credentials_say_which_settings_and_variables_to_set() {
    let s3 = S3::start();
    s3.put("a.txt", "a\n");
    let mut builder = builder().config("spark.hadoop.fs.s3a.endpoint", s3.url());
    for key in ["access.key", "secret.key"] {
        builder = builder.config(&format!("spark.hadoop.fs.s3a.{key}"), "wrong");
    }
    let ctx = builder.build().unwrap();
    let words = ["s3a://bucket/a.txt", "refused", "fs.s3a.access.key", "AWS_ACCESS_KEY_ID"];
    fails_with(ctx.text_file("s3a://bucket/a.txt").map(drop), &words);
    fails_with(ctx.text_file("s3a://bucket/*.txt").map(drop), &words[1..]);
    fails_with(ctx.text_file("s3a://bucket/").map(drop), &words[1..]);
    let saved = ctx.range(0..3u64).save_as_text_file("s3a://bucket/out");
    fails_with(saved, &["s3a://bucket/out", "refused", "fs.s3a.secret.key"]);
    assert_eq!(s3.keys(), ["a.txt"]);
    assert!(!s3.lock().requests.is_empty());
    assert_usable(&ctx);
}

#[test]
fn an_object_that_vanished_is_named_and_unknown_schemes_say_what_can_be_used() {
    let s3 = S3::start();
    s3.put("a.txt", "a\n");
    for transport in TRANSPORTS {
        let ctx = context_of(&s3, transport);
        let lines = ctx.text_file("s3://bucket/a.txt").unwrap();
        assert_eq!(lines.count().unwrap(), 1);
        let content = s3.lock().objects.remove("a.txt").unwrap();
        fails_with(lines.count(), &["could not open", "s3://bucket/a.txt", "no such object"]);
        s3.put("a.txt", content);
        fails_with(
            ctx.text_file("hdfs://host/a").map(drop),
            &["hdfs://", "not supported", "s3://"],
        );
        let saved = ctx.range(0..3u64).save_as_text_file("http://127.0.0.1:1/x");
        fails_with(saved, &["can be read, not written"]);
        assert_usable(&ctx);
    }
}

#[test]
fn requests_that_fail_are_tried_again() {
    let s3 = S3::start();
    s3.put("a.txt", "a\nb\n");
    let ctx = context_of(&s3, "direct");
    s3.lock().failing = 2;
    let lines = ctx.text_file("s3://bucket/a.txt").unwrap();
    s3.lock().failing = 2;
    assert_eq!(lines.count().unwrap(), 2);
    s3.lock().failing = 1;
    lines.save_as_text_file("s3://bucket/out").unwrap();
    assert_eq!(s3.lock().failed, 5, "the faults have fired");
    assert!(s3.keys().contains(&"out/_SUCCESS".to_owned()));
    // One that fails for good is told, after as many attempts as are set.
    let mut builder = builder().config("spark.hadoop.fs.s3a.attempts.maximum", 1);
    for (key, value) in s3.settings() {
        builder = builder.config(key, value);
    }
    let ctx = builder.build().unwrap();
    s3.lock().failing = 2;
    fails_with(ctx.text_file("s3://bucket/a.txt").map(drop), &["a.txt", "500", "endpoint"]);
    assert_eq!(ctx.text_file("s3://bucket/a.txt").unwrap().count().unwrap(), 2);
}

#[test]
fn a_job_that_fails_leaves_no_object_and_no_open_upload() {
    let s3 = S3::start();
    for transport in TRANSPORTS {
        let ctx = context_of(&s3, transport);
        let tasks = Arc::new(Mutex::new((0, 0)));
        let seen = tasks.clone();
        ctx.add_listener(move |event: &Event| match event {
            Event::TaskStart { .. } => seen.lock().unwrap().0 += 1,
            Event::TaskEnd { .. } => seen.lock().unwrap().1 += 1,
            _ => {}
        });
        let failing = ctx.range_in(4, 0..1000u64, 1).map(|x| {
            assert!(x != 800, "on purpose");
            x
        });
        fails_with(failing.save_as_text_file("s3://bucket/out"), &["on purpose"]);
        // A task that runs on for a moment clears up after itself.
        assert_usable(&ctx);
        wait_until("all tasks have ended", || {
            let (started, ended) = *tasks.lock().unwrap();
            started >= 4 && started == ended
        });
        assert_eq!(s3.keys(), [""; 0], "{transport}");
        assert!(s3.lock().uploads.is_empty(), "{transport}");
    }
    // Attempts that failed before the one that counts leave nothing either.
    let mut builder = builder().master("local[2,3]");
    for (key, value) in s3.settings() {
        builder = builder.config(key, value);
    }
    let ctx = builder.build().unwrap();
    let flaky = ctx.range_in(2, 0..1000u64, 1).map(|x| {
        assert!(x != 400 || TaskContext::current().unwrap().attempt() == 2, "on purpose");
        x
    });
    flaky.save_as_text_file("s3://bucket/out").unwrap();
    assert_eq!(s3.keys(), ["out/_SUCCESS", "out/part-00000", "out/part-00001"]);
    assert!(s3.lock().uploads.is_empty());
}

#[test]
fn a_directory_with_something_in_it_is_refused_or_replaced() {
    let s3 = S3::start();
    s3.put("out/theirs", "theirs");
    let ctx = context_of(&s3, "direct");
    let saved = ctx.range(0..3u64).save_as_text_file("s3://bucket/out");
    fails_with(saved, &["s3://bucket/out", "already exists"]);
    assert_eq!(s3.keys(), ["out/theirs"]);
    let mut replacing = builder().config("spark.hadoop.validateOutputSpecs", false);
    for (key, value) in s3.settings() {
        replacing = replacing.config(key, value);
    }
    let ctx = replacing.build().unwrap();
    for partitions in [3, 1] {
        ctx.range_in(partitions, 0..3u64, 1).save_as_text_file("s3://bucket/out").unwrap();
        let read = ctx.text_file("s3://bucket/out").unwrap().collect().unwrap();
        assert_eq!(read, ["0", "1", "2"]);
        assert_eq!(s3.keys().len(), partitions + 1);
    }
    // Somebody else commits at this moment.
    s3.put("out/_temporary/_commit", "another job");
    let saved = ctx.range(0..3u64).save_as_text_file("s3://bucket/out");
    fails_with(saved, &["another job is committing", "out/_temporary/_commit"]);
    assert_eq!(ctx.text_file("s3://bucket/out").unwrap().count().unwrap(), 3);
    assert!(s3.lock().uploads.is_empty());
}

#[test]
fn of_jobs_that_save_to_one_directory_of_a_store_exactly_one_wins() {
    let s3 = S3::start();
    let ctx = context_of(&s3, "direct");
    let saves: Vec<_> = (0..4u64)
        .map(|job| {
            let rdd = ctx.range_in(1, 0..100u64, 1).with(job).map(|job, n| job * 1000 + n).boxed();
            rdd.in_background(|rdd| rdd.save_as_text_file("s3://bucket/out"))
        })
        .collect();
    let results: Vec<Result<()>> = saves.into_iter().map(scratch::wait_for).collect();
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    let winner = results.iter().position(Result::is_ok).unwrap() as u64;
    let read = ctx.text_file("s3://bucket/out").unwrap().collect().unwrap();
    assert_eq!(read[7], (winner * 1000 + 7).to_string());
    assert_eq!(read.len(), 100);
    assert_eq!(s3.keys(), ["out/_SUCCESS", "out/part-00000"]);
    assert!(s3.lock().uploads.is_empty());
}

#[test]
fn files_of_web_servers_can_be_read() {
    let s3 = S3::start();
    let lines: String = (0..20_000).map(|n| format!("line {n}\n")).collect();
    s3.put("data/a.txt", &lines);
    let ctx = builder().build().unwrap();
    let options = TextOptions::new().max_split_bytes(50_000);
    let text = ctx.text_file_with(&format!("{}/web/data/a.txt", s3.url()), &options).unwrap();
    assert!(text.partition_count() > 2);
    assert_eq!(text.count().unwrap(), 20_000);
    let missing = format!("{}/web/data/b.txt", s3.url());
    fails_with(ctx.text_file(&missing).map(drop), &["b.txt", "does not exist"]);
}

#[test]
fn a_damaged_object_ends_the_job_at_once() {
    let s3 = S3::start();
    s3.put("bad.gz", "no gzip at all");
    let ctx = context_of(&s3, "direct");
    let error = fails_with(
        ctx.text_file("s3://bucket/bad.gz").unwrap().count(),
        &["s3://bucket/bad.gz", "is damaged"],
    );
    let Error::Job(JobError::TaskFailed { failure, .. }) = error else { panic!() };
    assert!(matches!(failure, TaskFailure::Fatal { .. }));
}

/// Without retries: what fails, fails at once.
fn impatient_context(s3: &S3, replace: bool) -> Context {
    let mut builder = builder()
        .config("spark.hadoop.fs.s3a.attempts.maximum", 0)
        .config("spark.hadoop.validateOutputSpecs", !replace);
    for (key, value) in s3.settings() {
        builder = builder.config(key, value);
    }
    builder.build().unwrap()
}

fn count_requests(s3: &S3, wanted: impl Fn(&str) -> bool) -> usize {
    s3.lock().requests.iter().filter(|request| wanted(request)).count()
}

#[test]
fn many_uploads_are_completed_at_a_time_and_none_of_them_aborted() {
    let s3 = S3::start();
    let ctx = context_of(&s3, "direct");
    s3.lock().completed_at_a_time = 64;
    ctx.range_in(100, 0..100u64, 1).save_as_text_file("s3://bucket/out").unwrap();
    assert_eq!(s3.lock().most_completed_at_a_time, 64, "many at a time, and no more than that");
    assert_eq!(s3.keys().len(), 101);
    assert!(s3.lock().uploads.is_empty());
    assert_eq!(
        count_requests(&s3, |line| line.starts_with("DELETE") && line.contains("upload")),
        0
    );
    let reads_marker = |line: &str| line.starts_with("GET") && line.contains(".attempt-");
    assert_eq!(count_requests(&s3, reads_marker), 0, "of committed uploads nothing is to be known");
    // A hundred files and as many markers go with a request each kind.
    assert!(count_requests(&s3, |line| line.contains("?delete")) < 10);
}

#[test]
fn a_commit_that_fails_leaves_no_object_and_no_open_upload() {
    let s3 = S3::start();
    for (refused, replace) in [
        ("POST /bucket/out/part-00002?uploadId", false),
        ("PUT /bucket/out/_SUCCESS", false),
        ("POST /bucket/out/part-00002?uploadId", true),
    ] {
        let ctx = impatient_context(&s3, replace);
        s3.lock().refused = Some(refused.to_owned());
        let saved = ctx.range_in(4, 0..4u64, 1).save_as_text_file("s3://bucket/out");
        fails_with(saved, &["s3://bucket/out", "400"]);
        assert!(count_requests(&s3, |line| line.contains(refused)) > 0, "the fault has fired");
        assert_eq!(s3.keys(), [""; 0], "{refused}");
        assert!(s3.lock().uploads.is_empty(), "{refused}");
        s3.lock().refused = None;
        ctx.range_in(4, 0..4u64, 1).save_as_text_file("s3://bucket/out").unwrap();
        assert_eq!(s3.keys().len(), 5);
        s3.lock().objects.clear();
    }
}

#[test]
fn what_a_killed_save_left_goes_with_the_next_save_of_its_directory() {
    for (last_request, times, visible) in [
        ("_temporary/_commit", 1, false),
        ("POST /bucket/out/part-0000", 7, true),
        ("PUT /bucket/out/_SUCCESS", 1, true),
    ] {
        let s3 = S3::start();
        // As if its driver had been killed at that moment: nothing it sends arrives any more.
        s3.lock().unreachable_from = Some((last_request.to_owned(), times));
        let killed = impatient_context(&s3, false);
        let saved = killed.range_in(4, 0..4u64, 1).save_as_text_file("s3://bucket/out");
        fails_with(saved, &["s3://bucket/out"]);
        killed.stop();
        s3.lock().unreachable_from = None;
        let left = s3.keys();
        assert!(left.iter().any(|key| key.contains("_temporary")), "{left:?}");
        assert_eq!(left.iter().any(|key| key.starts_with("out/part-")), visible, "{left:?}");
        let open = s3.lock().uploads.len();
        // It may live yet: it is left alone.
        s3.lock().minute = 5;
        let ctx = impatient_context(&s3, false);
        let saved = ctx.range_in(2, 0..2u64, 1).save_as_text_file("s3://bucket/out");
        assert_eq!(saved.is_err(), visible, "{saved:?}");
        if visible {
            assert_eq!(s3.keys(), left);
            assert_eq!(s3.lock().uploads.len(), open);
        }
        s3.lock().minute = 11;
        let ctx = impatient_context(&s3, !visible);
        ctx.range_in(2, 0..2u64, 1).save_as_text_file("s3://bucket/out").unwrap();
        assert_eq!(s3.keys(), ["out/_SUCCESS", "out/part-00000", "out/part-00001"]);
        assert!(s3.lock().uploads.is_empty());
    }
}

#[test]
fn the_lock_of_a_killed_save_that_was_replacing_is_taken_over_and_no_file_lost() {
    let s3 = S3::start();
    s3.put("out/theirs", "theirs");
    s3.lock().unreachable_from = Some(("POST /bucket/out/part-00000?uploadId".to_owned(), 1));
    let killed = impatient_context(&s3, true);
    let saved = killed.range_in(1, 0..4u64, 1).save_as_text_file("s3://bucket/out");
    fails_with(saved, &["s3://bucket/out"]);
    killed.stop();
    s3.lock().unreachable_from = None;
    assert!(s3.keys().contains(&"out/_temporary/_commit".to_owned()));
    s3.lock().minute = 11;
    let refused = impatient_context(&s3, false).range(0..3u64).save_as_text_file("s3://bucket/out");
    fails_with(refused, &["already exists"]);
    assert_eq!(s3.keys(), ["out/theirs"], "but for what nobody sees");
    assert!(s3.lock().uploads.is_empty());
}
