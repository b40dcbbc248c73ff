//! `pipe`: partitions through external programs.

use crate::rig::{builder, context, context_over, on_every_transport, wait_until};

#[test]
fn a_program_sees_each_partition_as_lines() {
    on_every_transport(|ctx| {
        let rdd = ctx.parallelize_in(3, ["a", "ü ☃", "", "dd"].map(str::to_owned));
        assert_eq!(rdd.pipe(["cat"]).collect().unwrap(), ["a", "ü ☃", "", "dd"]);
        let counts = ctx.range_in(3, 0..10u32, 1).pipe(["wc", "-l"]);
        let counts: Vec<u32> =
            counts.collect().unwrap().iter().map(|line| line.trim().parse().unwrap()).collect();
        assert_eq!(counts, [3, 3, 4]);
        let none = ctx.parallelize_in(2, Vec::<u8>::new()).pipe(["wc", "-l"]).count();
        assert_eq!(none.unwrap(), 2);
        // No shell: what looks like one is an argument.
        let echoed = ctx.range_in(1, 0..1u8 as u32, 1).pipe(["echo", "$HOME; ls | wc"]);
        assert_eq!(echoed.collect().unwrap(), ["$HOME; ls | wc"]);
    });
}

#[test]
fn a_program_that_fails_or_is_missing_is_named_with_its_words() {
    on_every_transport(|ctx| {
        let rdd = ctx.range_in(2, 0..10u32, 1);
        let failing = rdd.pipe(["sh", "-c", "echo no luck today >&2; exit 3"]);
        let error = failing.count().unwrap_err().to_string();
        assert!(error.contains("no luck today") && error.contains("exit status: 3"), "{error}");
        let error = rdd.pipe(["no-such-program-anywhere"]).count().unwrap_err().to_string();
        assert!(error.contains("could not start `no-such-program-anywhere`"), "{error}");
        let nothing: [&str; 0] = [];
        assert!(rdd.pipe(nothing).count().unwrap_err().to_string().contains("command is empty"));
    });
}

#[test]
fn a_program_that_does_not_read_its_input_is_no_error() {
    on_every_transport(|ctx| {
        // Far more than the pipe holds, so that writing fails while there is more to write.
        let rdd = ctx.range_in(2, 0..200_000u64, 1);
        assert_eq!(rdd.pipe(["true"]).count().unwrap(), 0);
        assert_eq!(
            rdd.pipe(["head", "-n", "2"]).collect().unwrap(),
            ["0", "1", "100000", "100001"]
        );
    });
}

#[test]
fn more_than_the_pipes_hold_goes_through_both_ways() {
    on_every_transport(|ctx| {
        let rdd = ctx.range_in(2, 0..60_000u64, 1);
        let through = rdd.pipe(["cat"]).map(|line| line.parse::<u64>().unwrap());
        assert_eq!(through.sum().unwrap(), 59_999 * 30_000);
        // Writes all its output, and a lot of noise, before it reads.
        let script = "seq 1 100000; seq 1 100000 >&2; exec cat";
        assert_eq!(rdd.pipe(["sh", "-c", script]).count().unwrap(), 260_000);
        let long = ctx.range_in(1, 0..3u32, 1).map(|n| n.to_string().repeat(1 << 20)).pipe(["cat"]);
        assert_eq!(long.map(|line| line.len()).collect().unwrap(), [1 << 20; 3]);
    });
}

#[test]
fn taking_a_few_lines_does_not_wait_for_the_program() {
    on_every_transport(|ctx| {
        let endless = ctx.range_in(1, 0..1u32, 1).pipe(["sh", "-c", "echo one; exec sleep 600"]);
        assert_eq!(endless.take(1).unwrap(), ["one"]);
    });
}

#[test]
fn cancelling_ends_a_program_that_says_nothing() {
    for transport in ["direct", "process"] {
        let ctx = context_over(transport, "local[1]");
        let directory = tempfile::tempdir().unwrap();
        let marker = directory.path().join("runs");
        let script = format!("touch {marker:?}; exec sleep 600");
        let silent = ctx.range_in(1, 0..1u32, 1).pipe(["sh", "-c", &script]).count_async();
        wait_until("the program runs", || marker.exists());
        ctx.cancel_all_jobs();
        assert!(silent.wait().unwrap_err().to_string().contains("cancelled"));
        // The only core is free again.
        assert_eq!(ctx.range(0..10u32).count().unwrap(), 10);
    }
}

#[test]
fn a_failing_program_is_tried_again() {
    let ctx = builder("local[2,3]").build().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let marker = directory.path().join("tried");
    let script = format!("if mkdir {0:?} 2>/dev/null; then exit 1; fi; exec cat", marker);
    let rdd = ctx.range_in(1, 0..5u32, 1).pipe(["sh", "-c", &script]);
    assert_eq!(rdd.count().unwrap(), 5);
    assert!(marker.exists());
    assert_eq!(context().range_in(1, 0..5u32, 1).pipe(["cat"]).count().unwrap(), 5);
}
