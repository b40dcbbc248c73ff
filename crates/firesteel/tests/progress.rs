//! What a program's user sees: console progress on a real terminal (a pseudo terminal that `script` of util-linux makes), and
//! what tasks print.
//!
//! The program is this test's own executable, told by a variable which scenario to be.

use std::process::{Command, Stdio};
use std::time::Duration;

use firesteel::prelude::*;

const SCENARIO: &str = "FIRESTEEL_TEST_SCENARIO";

#[test]
#[ignore = "not a test: the program that the tests of this file start"]
fn the_program() {
    let Ok(scenario) = std::env::var(SCENARIO) else { return };
    let (tasks, millis) = match scenario.as_str() {
        "many tasks" => (30, 100),
        "long tasks" => (2, 1500),
        "quick tasks" => (30, 1),
        "talking tasks" => return talk(),
        "nothing at all" => return leave(),
        "uneven tasks" => return uneven(),
        other => panic!("no scenario {other}"),
    };
    let ctx = Context::builder().master("local[2]").arguments([""; 0]).build().unwrap();
    let working = ctx.range_in(tasks, 0..tasks as u64, 1).with(millis).map(|millis, x| {
        std::thread::sleep(Duration::from_millis(*millis));
        x
    });
    let sum = working.reduce(|a, b| a + b).unwrap();
    println!("the sum is {sum}");
}

/// One task of five takes thirty times as long as the others, with as much data.
fn uneven() {
    let ctx = Context::builder().master("local[5]").arguments([""; 0]).build().unwrap();
    let working = ctx.range_in(5, 0..5u64, 1).map(|n| {
        std::thread::sleep(Duration::from_millis(if n == 3 { 3000 } else { 100 }));
        n
    });
    println!("the sum is {}", working.sum().unwrap());
}

/// On executors that are processes of their own.
fn talk() {
    let ctx = Context::builder().master("local-cluster[2,1,512]").arguments([""; 0]);
    let ctx = ctx.build().unwrap();
    let talking = ctx.range_in(4, 0..4u64, 1).map(|n| {
        println!("task {n} says this");
        // Standard error has no buffer: what a format is made of is written piece by piece, and two processes write at once.
        let line = format!("task {n} complains\n");
        eprint!("{line}");
        n
    });
    println!("the sum is {}", talking.sum().unwrap());
}

/// The context ends while its executors start.
fn leave() {
    for _ in 0..4 {
        let ctx = Context::builder().master("local-cluster[3,1,512]").arguments([""; 0]);
        ctx.build().unwrap().stop();
    }
    println!("the sum is 0");
}

fn program() -> String {
    let executable = std::env::current_exe().unwrap();
    format!("{} --exact the_program --ignored --nocapture", executable.display())
}

/// All that a scenario writes to a terminal.
fn on_a_terminal(scenario: &str, conf: &str) -> String {
    let command = format!("stty cols 160 rows 50; {}", program());
    let mut script = Command::new("script");
    script.args(["-q", "-e", "-c", &command, "/dev/null"]).env("TERM", "xterm");
    run(script, scenario, conf).0
}

fn run(mut command: Command, scenario: &str, conf: &str) -> (String, String) {
    command.env(SCENARIO, scenario).env("FIRESTEEL_CONF", conf).stdin(Stdio::null());
    let output = command.output().expect("script of util-linux is installed");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let (out, err) = (text(output.stdout), text(output.stderr));
    assert!(output.status.success(), "{out}{err}");
    assert!(out.contains("the sum is"), "{out}{err}");
    (out, err)
}

/// Tasks done of each line that was drawn, e.g. 7 of `Stage 0.0 [==>  ] 7/30  ...`.
fn drawn(output: &str, tasks: &str) -> Vec<u32> {
    let lines = output.split(['\r', '\n', '\x1b']).filter(|line| line.contains("Stage 0.0 ["));
    let lines = lines.filter(|line| line.contains("eta ") && line.contains("running"));
    let counts =
        lines.filter_map(|line| line.split("] ").nth(1)?.split(&format!("/{tasks}")).next());
    counts.map(|count| count.trim().parse().unwrap()).collect()
}

#[test]
fn stages_are_shown_on_a_terminal_with_tasks_done_and_time_left() {
    let output = on_a_terminal("many tasks", "");
    let done = drawn(&output, "30");
    assert!(done.len() >= 3, "{output:?}");
    assert!(done.is_sorted() && done.first() < done.last(), "{done:?}");
    assert!(done.iter().all(|done| *done <= 30), "{done:?}");
    // Two tasks of a tenth of a second at a time: twenty in a second, a second and a half in all.
    let rates = output.split_whitespace().filter_map(|word| word.strip_suffix("/s")?.parse().ok());
    let rates: Vec<f64> = rates.collect();
    assert!(!rates.is_empty() && rates.iter().all(|rate| (0.0..40.0).contains(rate)), "{rates:?}");
    assert!(output.contains(" eta 1s "), "{output:?}");
    assert!(output.contains("reduce at") || output.contains("progress.rs"), "{output:?}");
    // The line is gone when the program goes on.
    let last = output.rsplit("Stage 0.0").next().unwrap();
    assert!(last.contains("\x1b[2K"), "{last:?}");
}

#[test]
fn a_job_that_waited_for_one_task_is_told_with_what_to_try() {
    let output = on_a_terminal("uneven tasks", "");
    let told: Vec<&str> =
        output.split(['\r', '\n']).filter(|it| it.contains("insight: ")).collect();
    assert_eq!(told.len(), 1, "{output:?}");
    let (figure, place) = ("the task of partition 3 took 3.", "progress.rs:");
    assert!(told[0].contains(figure) && told[0].contains(place), "{told:?}");
    assert!(told[0].contains("spark.speculation=true"), "{told:?}");
    assert!(!on_a_terminal("many tasks", "").contains("insight"));
}

#[test]
fn a_stage_whose_tasks_all_take_long_is_shown_before_the_first_ends() {
    let output = on_a_terminal("long tasks", "");
    assert!(drawn(&output, "2").contains(&0), "{output:?}");
    assert!(output.contains("2 running"), "{output:?}");
}

#[test]
fn quick_jobs_leave_the_terminal_alone() {
    // On a machine that stands still for a moment, a quick job is none.
    let quietly = || drawn(&on_a_terminal("quick tasks", ""), "30").is_empty();
    assert!((0..5).any(|_| quietly()));
}

#[test]
fn nothing_is_shown_when_it_is_switched_off_or_there_is_no_terminal() {
    let output = on_a_terminal("many tasks", "spark.ui.showConsoleProgress=false");
    assert!(!output.contains("Stage") && !output.contains('\x1b'), "{output:?}");
    let mut plain = Command::new("sh");
    plain.args(["-c", &program()]);
    let (out, err) = run(plain, "many tasks", "");
    assert!(!out.contains("Stage") && !out.contains('\x1b'), "{out:?}");
    assert_eq!(err, "");
}

#[test]
fn what_tasks_print_on_a_local_cluster_appears_where_the_driver_prints() {
    let mut shell = Command::new("sh");
    shell.args(["-c", &program()]);
    let (out, err) = run(shell, "talking tasks", "");
    for n in 0..4 {
        assert_eq!(out.matches(&format!("task {n} says this\n")).count(), 1, "{out}");
        assert_eq!(err.matches(&format!("task {n} complains\n")).count(), 1, "{err}");
    }
    assert!(out.find("says this").unwrap() < out.find("the sum is 6").unwrap(), "{out}");
    assert!(!err.contains("firesteel"), "nothing else is told of executors that end well: {err}");
}

#[test]
fn executors_that_start_while_the_context_ends_say_nothing() {
    let mut shell = Command::new("sh");
    shell.args(["-c", &program()]);
    let (_, err) = run(shell, "nothing at all", "");
    assert_eq!(err, "");
}
