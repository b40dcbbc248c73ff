//! Times jobs and prints the lines that the harness reads.

use std::{fmt::Display, hint::black_box, time::Instant};

/// Short jobs run this often in one process; the best run counts.
const RUNS: usize = 5;

/// Runs `job` several times and prints every time, and the result of the last.
pub(crate) fn several<R: Display, E>(name: &str, job: impl Fn() -> Result<R, E>) -> Result<(), E> {
    for run in 1..=RUNS {
        let result = timed(&format!("{name} run{run}"), &job)?;
        if run == RUNS {
            println!("RESULT {name} {result}");
        }
    }
    Ok(())
}

/// Runs `job` and prints its time.
pub(crate) fn timed<R>(name: &str, job: impl FnOnce() -> R) -> R {
    let start = Instant::now();
    let result = black_box(job());
    println!("BENCH {name} {:.6} s", start.elapsed().as_secs_f64());
    result
}
