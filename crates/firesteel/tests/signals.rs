//! Signals and a full disk, with real processes: how a program ends, and what it leaves behind.
//!
//! The program is this test's own executable, told by a variable which scenario to be.

mod scratch;

use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use firesteel::prelude::*;
use scratch::{Scratch, names_in, wait_until};

const SCENARIO: &str = "FIRESTEEL_TEST_SCENARIO";
const DIRECTORY: &str = "FIRESTEEL_TEST_DIRECTORY";
const CONF: &str = "FIRESTEEL_CONF";

#[test]
#[ignore = "not a test: the program that the tests of this file start"]
fn the_program() {
    let Ok(scenario) = std::env::var(SCENARIO) else { return };
    let at = |name: &str| format!("{}/{name}", std::env::var(DIRECTORY).unwrap());
    let ctx = Context::builder().master("local[2]").arguments([""; 0]).build().unwrap();
    let result = match scenario.as_str() {
        "endless" => endless(&ctx, at("started")).save_as_text_file(at("out")),
        "stuck" => stuck(&ctx, at("started")).save_as_text_file(at("out")),
        "piped" => piped(&ctx, at("started")).save_as_text_file(at("out")),
        "failing" => failing(&ctx, at("started")).save_as_text_file(at("out")),
        "idle" => idle(&at("started")),
        large if LARGE.contains(&large) => save_large(&ctx, large, &at("full/out")),
        other => panic!("no scenario {other}"),
    };
    // What a `main` that returns an error does.
    if let Err(error) = result {
        eprintln!("Error: {error}");
        std::process::exit(1);
    }
}

/// Programs that write more than fits, by their formats.
const LARGE: [&str; 6] =
    ["large text", "large gzip", "large json", "large csv", "large objects", "large parquet"];

#[derive(Clone, serde::Serialize, serde::Deserialize)]
struct Row {
    id: u64,
    text: String,
}

fn save_large(ctx: &Context, format: &str, out: &str) -> Result<()> {
    let rows = ctx.range_in(2, 0..1_000_000u64, 1).map(|id| {
        // Nothing that a compressor could make small.
        let text = (0..4).map(|n| (id ^ n << 20).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_string());
        Row { id, text: text.collect() }
    });
    match format {
        "large json" => rows.save_as_json_lines(out),
        "large csv" => rows.save_as_csv(out),
        "large objects" => rows.save_as_object_file(out),
        #[cfg(feature = "parquet")]
        "large parquet" => rows.save_as_parquet(out),
        "large gzip" => {
            let gzip = SaveOptions::new().compression(Compression::Gzip);
            rows.map(|row| row.text).save_as_text_file_with(out, &gzip)
        }
        _ => rows.map(|row| row.text).save_as_text_file(out),
    }
}

/// Runs for ages, and notices when it is asked to end.
fn endless(ctx: &Context, started: String) -> Rdd<u64> {
    let numbers = ctx.range_in(2, 0..u64::MAX / 2, 1).with(started);
    let announced = numbers.map_partitions(|started, items| {
        std::fs::write(started, "").unwrap();
        items
    });
    announced.filter(|x| x % 1_000_000_000 == 0).boxed()
}

/// Never looks at its source again, and so never notices.
fn stuck(ctx: &Context, started: String) -> Rdd<u64> {
    let numbers = ctx.range_in(2, 0..10u64, 1).with(started);
    let never = numbers.map(|started, _| -> u64 {
        std::fs::write(started, "").unwrap();
        loop {
            std::thread::park();
        }
    });
    never.boxed()
}

/// Waits for a program that says nothing and reads nothing.
fn piped(ctx: &Context, started: String) -> Rdd<String> {
    let numbers = ctx.range_in(2, 0..10_000_000u64, 1);
    numbers.pipe(["sh".into(), "-c".into(), format!("touch {started}; sleep 1000")]).boxed()
}

/// Panics in one of its tasks.
fn failing(ctx: &Context, started: String) -> Rdd<u64> {
    let numbers = ctx.range_in(4, 0..1000u64, 1).with(started);
    let never = numbers.map(|started, x| {
        std::fs::write(started, "").unwrap();
        assert!(x != 900, "on purpose");
        x
    });
    never.boxed()
}

fn idle(started: &str) -> Result<()> {
    std::fs::write(started, "").unwrap();
    loop {
        std::thread::park();
    }
}

/// A program that runs a scenario in a directory of its own.
struct Program {
    process: Child,
    scratch: Scratch,
}

impl Program {
    fn command(scenario: &str, conf: &str, scratch: &Scratch) -> Command {
        std::fs::create_dir(scratch.path("tmp")).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "the_program", "--ignored", "--nocapture"]);
        command.env(SCENARIO, scenario).env(DIRECTORY, scratch.path("")).env(CONF, conf);
        command.env("TMPDIR", scratch.path("tmp"));
        // A group of its own, as a shell gives it: the test is not hit by signals to the group.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    /// Starts it, and waits until it does what it is to be disturbed in.
    fn start(scenario: &str, conf: &str) -> Self {
        let scratch = Scratch::new();
        let process = Self::command(scenario, conf, &scratch).spawn().unwrap();
        let program = Program { process, scratch };
        let started = program.scratch.path("started");
        wait_until("the program's task runs", || Path::new(&started).exists());
        program
    }

    /// Sends a signal to it alone, or as a terminal does, to its whole group.
    fn signal(&self, signal: &str, group: bool) {
        let target = format!("{}{}", if group { "-" } else { "" }, self.process.id());
        let sent = Command::new("kill").args([signal, "--", &target]).status();
        assert!(sent.unwrap().success());
    }

    /// How it ended, and what it said.
    fn end(&mut self) -> (ExitStatus, String) {
        wait_until("the program ends", || self.process.try_wait().unwrap().is_some());
        let mut said = String::new();
        self.process.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.process.wait().unwrap(), said)
    }
}

/// A test that fails does not leave its program behind.
impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Nothing of the output is visible, no temporary file is left, and no process either.
#[track_caller]
fn assert_clean(scratch: &Scratch) {
    assert_eq!(scratch.names(), ["started", "tmp"]);
    assert_eq!(names_in(&scratch.path("tmp")), [""; 0]);
    assert_no_process_left(scratch);
}

/// Children inherit the scenario's directory in their environment; that is how they are found.
#[track_caller]
fn assert_no_process_left(scratch: &Scratch) {
    let mark = format!("{DIRECTORY}={}", scratch.path(""));
    let of_program = |name: &String| {
        let environment = std::fs::read(format!("/proc/{name}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    wait_until("all processes of the program are gone", || {
        !names_in("/proc").iter().filter(|name| name.parse::<u32>().is_ok()).any(of_program)
    });
}

const TRANSPORTS: [&str; 2] = ["", "spark.firesteel.local.transport=process"];

#[test]
fn ctrl_c_cancels_the_job_and_exits_with_130_and_leaves_nothing() {
    for conf in TRANSPORTS {
        for group in [false, true] {
            let mut program = Program::start("endless", conf);
            program.signal("-INT", group);
            let (status, said) = program.end();
            assert_eq!(status.code(), Some(130), "{said}");
            assert!(said.contains("interrupted: cancelling jobs and cleaning up"), "{said}");
            assert!(!said.contains("Error:"), "{said}");
            assert_clean(&program.scratch);
        }
    }
}

#[test]
fn termination_does_the_same_and_exits_with_143() {
    for conf in TRANSPORTS {
        let mut program = Program::start("endless", conf);
        program.signal("-TERM", false);
        let (status, said) = program.end();
        assert_eq!(status.code(), Some(143), "{said}");
        assert!(said.contains("terminated: cancelling jobs"), "{said}");
        assert_clean(&program.scratch);
    }
}

#[test]
fn a_task_that_does_not_notice_holds_up_the_exit_for_seconds_only() {
    for conf in TRANSPORTS {
        let mut program = Program::start("stuck", conf);
        program.signal("-INT", false);
        let (status, said) = program.end();
        assert_eq!(status.code(), Some(130), "{said}");
        assert!(said.contains("did not end within 5 s"), "{said}");
        assert_clean(&program.scratch);
    }
}

#[test]
fn a_second_ctrl_c_ends_at_once() {
    for conf in TRANSPORTS {
        let mut program = Program::start("stuck", conf);
        program.signal("-INT", false);
        // It has heard the first one when it says so: two at once would count as one.
        let mut said = [0; 11];
        program.process.stderr.as_mut().unwrap().read_exact(&mut said).unwrap();
        assert_eq!(&said, b"interrupted");
        program.signal("-INT", false);
        let (status, said) = program.end();
        assert!(!said.contains("did not end within"), "{said}");
        assert_eq!(status.code(), Some(130), "{said}");
        assert!(!Path::new(&program.scratch.path("out")).exists());
        assert_no_process_left(&program.scratch);
    }
}

#[test]
fn a_program_whose_job_fails_leaves_nothing_either() {
    for conf in TRANSPORTS {
        let mut program = Program::start("failing", conf);
        let (status, said) = program.end();
        assert_eq!(status.code(), Some(1), "{said}");
        assert!(said.contains("Error: job 0 aborted") && said.contains("on purpose"), "{said}");
        assert_clean(&program.scratch);
    }
}

#[test]
fn ctrl_c_while_no_job_runs_exits_with_130_too() {
    let mut program = Program::start("idle", "");
    program.signal("-INT", false);
    let (status, said) = program.end();
    assert_eq!(status.code(), Some(130), "{said}");
    assert_clean(&program.scratch);
}

#[test]
fn ctrl_c_ends_external_programs_that_are_silent() {
    for group in [false, true] {
        let mut program = Program::start("piped", "");
        program.signal("-INT", group);
        let (status, said) = program.end();
        assert_eq!(status.code(), Some(130), "{said}");
        assert!(!said.contains("did not end within"), "{said}");
        assert_clean(&program.scratch);
    }
}

#[test]
fn a_program_that_does_not_want_signals_handled_is_killed_by_them() {
    let mut program = Program::start("idle", "spark.firesteel.handleInterrupt=false");
    // Not an interrupt: a shell that starts the tests in the background has those ignored.
    program.signal("-TERM", false);
    let (status, said) = program.end();
    assert_eq!(status.signal(), Some(15), "{status} {said}");
    assert!(!said.contains("cancelling"), "{said}");
}

#[test]
fn a_driver_that_is_killed_takes_its_child_processes_along() {
    for scenario in ["endless", "stuck"] {
        let mut program = Program::start(scenario, "spark.firesteel.local.transport=process");
        program.signal("-KILL", false);
        let (status, _) = program.end();
        assert_eq!(status.signal(), Some(9));
        assert!(!Path::new(&program.scratch.path("out")).exists());
        assert_no_process_left(&program.scratch);
    }
}

/// Runs the program that writes more than fits, by a shell in which `limit` makes the place small;
/// what it leaves there is the last line that is said.
fn write_too_much(
    scenario: &str,
    shell: &[&str],
    limit: &str,
) -> std::io::Result<(Option<i32>, String)> {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("full")).unwrap();
    let program = Program::command(scenario, "", &scratch);
    let script = r#"; "$0" "$@"; code=$?; echo "left:" $(ls -A "$FULL") >&2; exit $code"#;
    let mut command = Command::new(shell[0]);
    command.args(&shell[1..]).arg("-c").arg(format!("{limit}{script}"));
    command.arg(program.get_program()).args(program.get_args());
    command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command.env("FULL", scratch.path("full")).stdin(Stdio::null()).output()?;
    Ok((output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned()))
}

#[track_caller]
fn assert_refused((code, said): (Option<i32>, String), reason: &str) {
    assert_eq!(code, Some(1), "{said}");
    for part in ["could not write", "part-0000", reason, "make room"] {
        assert!(said.contains(part), "{part:?} is missing in: {said}");
    }
    assert_eq!(said.lines().last(), Some("left:"), "{said}");
}

#[test]
fn a_full_disk_is_a_clear_error_and_nothing_is_visible() {
    const NO_MOUNT: i32 = 77;
    // The mount is of that shell alone, and gone with it.
    let mount = format!(r#"mount -t tmpfs -o size=256k tmpfs "$FULL" || exit {NO_MOUNT}"#);
    for scenario in LARGE {
        match write_too_much(scenario, &["unshare", "--mount", "sh"], &mount) {
            Ok((Some(code), said)) if code != NO_MOUNT && !said.contains("unshare failed") => {
                assert_refused((Some(code), said), "No space left on device");
            }
            // Past the harness, which would keep it to itself.
            other => {
                let mut out = std::io::stderr();
                writeln!(out, "NOT TESTED: a full disk; none can be mounted here: {other:?}")
                    .unwrap();
            }
        }
    }
}

#[test]
fn a_file_that_may_not_grow_is_a_clear_error_and_nothing_is_visible() {
    let limit = "trap '' XFSZ; ulimit -f 64";
    for scenario in LARGE {
        assert_refused(write_too_much(scenario, &["sh"], limit).unwrap(), "File too large");
    }
}
