//! Output that cannot be written: refused or replaced as a whole, nothing half done beside it.

mod scratch;

use std::path::Path;

use firesteel::prelude::*;
use scratch::{
    Scratch, TRANSPORTS, assert_usable, builder, context, fails_with, names_in, wait_for,
    wait_until,
};

fn read(directory: &str) -> Vec<String> {
    let parts = names_in(directory).into_iter().filter(|name| name.starts_with("part-"));
    let text = parts.map(|part| std::fs::read_to_string(format!("{directory}/{part}")).unwrap());
    text.collect::<String>().lines().map(str::to_owned).collect()
}

#[test]
fn a_saved_directory_holds_one_file_per_partition_and_a_marker() {
    for transport in TRANSPORTS {
        let ctx = builder().config("spark.firesteel.local.transport", transport).build().unwrap();
        let scratch = Scratch::new();
        let out = scratch.path("deep/er/out");
        ctx.range_in(3, 0..10u64, 1).save_as_text_file(&out).unwrap();
        assert_eq!(names_in(&out), ["_SUCCESS", "part-00000", "part-00001", "part-00002"]);
        assert_eq!(read(&out), (0..10).map(|x| x.to_string()).collect::<Vec<_>>());
        assert_eq!(names_in(&scratch.path("deep/er")), ["out"]);
    }
}

#[test]
fn an_output_path_that_exists_is_refused_whatever_it_is() {
    let (ctx, scratch) = (context(), Scratch::new());
    scratch.write("directory/kept", "kept");
    scratch.write("file", "kept");
    std::fs::create_dir(scratch.path("empty")).unwrap();
    std::os::unix::fs::symlink("nowhere", scratch.path("dangling")).unwrap();
    let before = scratch.names();
    for name in ["directory", "file", "empty", "dangling", "directory/"] {
        let saved = ctx.range(0..10u64).save_as_text_file(scratch.path(name));
        fails_with(saved, &[name, "already exists", "choose another"]);
    }
    assert_eq!(scratch.names(), before);
    assert_eq!(std::fs::read(scratch.path("directory/kept")).unwrap(), b"kept");
    // Below a file there cannot be a directory.
    let saved = ctx.range(0..10u64).save_as_text_file(scratch.path("file/out"));
    fails_with(saved, &["could not create", "file"]);
    fails_with(ctx.range(0..10u64).save_as_text_file(""), &["could not resolve"]);
    fails_with(ctx.range(0..10u64).save_as_text_file("x/.."), &["no file name"]);
    assert_eq!(scratch.names(), before);
    assert_usable(&ctx);
}

/// Waits in each task until a file appears, then goes on; says that it waits by another file.
fn waiting(ctx: &Context, scratch: &Scratch) -> Rdd<u64> {
    let gate = (scratch.path("started"), scratch.path("go"));
    ctx.range_in(2, 0..10u64, 1)
        .with(gate)
        .map_partitions(|(started, go), items| {
            std::fs::write(started, "").unwrap();
            let task = TaskContext::current().unwrap();
            while !Path::new(go).exists() {
                task.check_killed();
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            items
        })
        .boxed()
}

#[test]
fn an_output_path_that_comes_into_being_while_the_job_runs_is_not_replaced() {
    let ctx = context();
    for kind in ["directory", "empty", "file", "dangling"] {
        let scratch = Scratch::new();
        let out = scratch.path("out");
        let target = out.clone();
        let saving =
            waiting(&ctx, &scratch).in_background(move |rdd| rdd.save_as_text_file(&target));
        wait_until("a task runs", || Path::new(&scratch.path("started")).exists());
        match kind {
            "directory" => drop(scratch.write("out/theirs", "theirs")),
            "empty" => std::fs::create_dir(&out).unwrap(),
            "file" => drop(scratch.write("out", "theirs")),
            _ => std::os::unix::fs::symlink("nowhere", &out).unwrap(),
        }
        scratch.write("go", "");
        fails_with(wait_for(saving), &["out", "already exists"]);
        assert_eq!(scratch.names(), ["go", "out", "started"], "{kind}");
        match kind {
            "directory" => assert_eq!(names_in(&out), ["theirs"]),
            "empty" => assert_eq!(names_in(&out), [""; 0]),
            "file" => assert_eq!(std::fs::read(&out).unwrap(), b"theirs"),
            _ => assert!(std::fs::read_link(&out).is_ok()),
        }
    }
    assert_usable(&ctx);
}

#[test]
fn a_job_that_fails_or_is_cancelled_leaves_nothing_beside_its_output() {
    for transport in TRANSPORTS {
        let ctx = builder().config("spark.firesteel.local.transport", transport).build().unwrap();
        let scratch = Scratch::new();
        let failing = ctx.range_in(4, 0..1_000_000u64, 1).map(|x| {
            assert!(x != 800_000, "on purpose");
            x
        });
        fails_with(failing.save_as_text_file(scratch.path("new/out")), &["on purpose"]);
        assert!(scratch.names().is_empty(), "{:?}", scratch.names());
        let out = scratch.path("out");
        let saving = waiting(&ctx, &scratch).in_background(move |rdd| rdd.save_as_text_file(&out));
        wait_until("a task runs", || Path::new(&scratch.path("started")).exists());
        saving.cancel();
        fails_with(wait_for(saving), &["cancelled"]);
        assert_eq!(scratch.names(), ["started"]);
        assert_usable(&ctx);
    }
}

#[test]
fn attempts_that_failed_leave_no_file_in_the_output() {
    let ctx = builder().master("local[2,3]").build().unwrap();
    let scratch = Scratch::new();
    let out = scratch.path("out");
    let flaky = ctx.range_in(2, 0..100_000u64, 1).map(|x| {
        let attempt = TaskContext::current().unwrap().attempt();
        assert!(x != 40_000 || attempt == 2, "on purpose");
        x
    });
    flaky.save_as_text_file(&out).unwrap();
    assert_eq!(names_in(&out), ["_SUCCESS", "part-00000", "part-00001"]);
    assert_eq!(read(&out).len(), 100_000);
    assert_eq!(scratch.names(), ["out"]);
}

#[test]
fn without_validation_the_old_output_is_replaced_as_a_whole_or_stays() {
    let replacing = || builder().config("spark.hadoop.validateOutputSpecs", false).build().unwrap();
    let (ctx, scratch) = (replacing(), Scratch::new());
    let out = scratch.path("out");
    ctx.range_in(5, 0..50u64, 1).save_as_text_file(&out).unwrap();
    ctx.range_in(2, 0..3u64, 1).save_as_text_file(&out).unwrap();
    assert_eq!(names_in(&out), ["_SUCCESS", "part-00000", "part-00001"]);
    assert_eq!(read(&out), ["0", "1", "2"]);
    // Read and replaced by the same job: the old one is there until the new one is complete.
    ctx.text_file(&out).unwrap().map(|line| line + "!").save_as_text_file(&out).unwrap();
    assert_eq!(read(&out), ["0!", "1!", "2!"]);
    let failing = ctx.range(0..10u64).map(|x| {
        assert!(x != 7, "on purpose");
        x
    });
    fails_with(failing.save_as_text_file(&out), &["on purpose"]);
    assert_eq!(read(&out), ["0!", "1!", "2!"]);
    // A file or a link is replaced too, and what a link points to is left alone.
    scratch.write("other/kept", "kept");
    std::os::unix::fs::symlink("other", scratch.path("link")).unwrap();
    scratch.write("file", "old");
    for name in ["link", "file"] {
        ctx.range_in(1, 0..1u64, 1).save_as_text_file(scratch.path(name)).unwrap();
        assert_eq!(read(&scratch.path(name)), ["0"]);
    }
    assert_eq!(names_in(&scratch.path("other")), ["kept"]);
    assert_eq!(scratch.names(), ["file", "link", "other", "out"]);
    assert_usable(&ctx);
}

#[test]
fn one_save_replaces_its_old_output_or_refuses_to_whatever_the_setting_says() {
    for validates in [true, false] {
        let ctx = builder().config("spark.hadoop.validateOutputSpecs", validates).build().unwrap();
        let scratch = Scratch::new();
        let (out, numbers) = (scratch.path("out"), ctx.range_in(2, 0..3u64, 1));
        ctx.range_in(5, 0..50u64, 1).save_as_text_file(&out).unwrap();
        let refusing = SaveOptions::new().overwrite(false);
        let refused = numbers.save_as_text_file_with(&out, &refusing);
        fails_with(refused, &["already exists", "SaveOptions::overwrite"]);
        assert_eq!(read(&out).len(), 50);
        let replacing = SaveOptions::new().overwrite(true);
        let failing = numbers.map(|x| {
            assert!(x != 2, "on purpose");
            x
        });
        fails_with(failing.save_as_text_file_with(&out, &replacing), &["on purpose"]);
        assert_eq!(read(&out).len(), 50);
        numbers.save_as_text_file_with(&out, &replacing).unwrap();
        assert_eq!(names_in(&out), ["_SUCCESS", "part-00000", "part-00001"]);
        assert_eq!(read(&out), ["0", "1", "2"]);

        let pairs = numbers.map(|n| (n, n));
        pairs.save_as_csv_with(&out, &CsvOptions::new(), &replacing).unwrap();
        assert_eq!(names_in(&out), ["_SUCCESS", "part-00000.csv", "part-00001.csv"]);
        pairs.save_as_json_lines_with(&out, &replacing).unwrap();
        assert_eq!(names_in(&out), ["_SUCCESS", "part-00000.json", "part-00001.json"]);
        #[cfg(feature = "parquet")]
        {
            let zstd = replacing.compression(Compression::Zstd);
            pairs.save_as_parquet_with(&out, &zstd).unwrap();
            assert_eq!(names_in(&out), ["_SUCCESS", "part-00000.parquet", "part-00001.parquet"]);
        }
        assert_eq!(scratch.names(), ["out"]);
    }
}
