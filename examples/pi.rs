//! Estimates pi by throwing darts at a square and counting those that hit the circle in it.
//!
//! ```sh
//! cargo run --release --example pi -- [DARTS] [--master local[4]] [--conf key=value]
//! ```
//!
//! `DARTS` is 10000000 if not given. Shows `range_in`, `map_partitions_with_index` and `sum`. Each
//! partition has a random generator of its own, seeded with the partition's number, and the number of
//! partitions is fixed: the answer is the same every time and on any number of cores.
//!
//! Prints one line: `pi is roughly 3.14...`.

use firesteel::prelude::*;

const PARTITIONS: usize = 64;

fn main() -> Result<()> {
    let arguments = firesteel::arguments()?;
    let darts = match &arguments[..] {
        [] => 10_000_000u64,
        [darts] => darts.parse().unwrap_or_else(|_| usage(&format!("{darts:?} is not a number"))),
        _ => usage("too many arguments"),
    };
    if darts == 0 {
        usage("at least one dart is needed");
    }

    let ctx = Context::builder().app_name("pi").build()?;
    let hits = ctx
        .range_in(PARTITIONS, 0..darts, 1)
        .map_partitions_with_index(|partition, darts| {
            let mut rng = fastrand::Rng::with_seed(partition as u64);
            let hits = darts.filter(|_| rng.f64().powi(2) + rng.f64().powi(2) <= 1.0).count();
            [hits as u64]
        })
        .sum()?;
    println!("pi is roughly {:.6}", 4.0 * hits as f64 / darts as f64);
    Ok(())
}

fn usage(problem: &str) -> ! {
    eprintln!("{problem}\nusage: pi [DARTS]");
    std::process::exit(2)
}
