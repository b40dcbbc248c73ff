//! What a web server's log tells: statuses, pages, clients, traffic, errors per hour.
//!
//! ```sh
//! cargo run --release --example log_analytics -- [LOGS] [--master local[4]] [--conf key=value]
//! ```
//!
//! `LOGS` are text files in the Common Log Format (or the Combined one, which begins like it); without
//! them a day of requests is made up. Shows parsing into a type of our own, `cache` for data that
//! several jobs read, an accumulator that counts the lines that could not be read, `count_by_value`,
//! `reduce_by_key`, `top_by`, `stats` and `sort_by_key`.
//!
//! An accumulator counts once for each partition that a job computes. Here each is computed once,
//! because it is kept: so is each malformed line counted once, whatever the number of jobs.
//!
//! Prints one paragraph per question.

use std::collections::BTreeMap;

use firesteel::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize)]
struct Request {
    client: String,
    /// `2026-03-01 13h`: sorts as it should.
    hour: String,
    url: String,
    status: u16,
    bytes: u64,
}

fn main() -> Result<()> {
    let arguments = firesteel::arguments()?;
    let input = match &arguments[..] {
        [] => None,
        [input] if !input.starts_with('-') => Some(input),
        _ => usage("cannot make sense of the arguments"),
    };

    let ctx = Context::builder().app_name("log analytics").build()?;
    let lines: Rdd<String> = match input {
        Some(input) => ctx.text_file_with(input, &TextOptions::new().lossy(true))?.boxed(),
        None => ctx.range(0..10_000u32).map(made_up).boxed(),
    };
    let malformed = ctx.accumulator::<u64>();
    let requests = lines.with(malformed.clone()).flat_map(|malformed, line| {
        let request = parse(&line);
        if request.is_none() {
            malformed.add(1);
        }
        request
    });
    let requests = requests.cache();

    println!("requests by status:");
    let by_status = requests.map(|request| request.status).count_by_value()?;
    for (status, count) in BTreeMap::from_iter(by_status) {
        println!("{count:>8} {status}");
    }
    println!("malformed lines: {}", malformed.value());

    let bytes = requests.map(|request| request.bytes).stats()?;
    println!("bytes per answer: mean {:.1}, stdev {:.1}", bytes.mean(), bytes.stdev());
    println!("                  min {}, max {}, sum {:.0}", bytes.min(), bytes.max(), bytes.sum());

    print_top("URLs", &requests.map(|request| request.url).boxed())?;
    print_top("clients", &requests.map(|request| request.client).boxed())?;

    println!("server errors by hour:");
    let errors = requests.filter(|request| request.status >= 500).map(|request| (request.hour, 1));
    for (hour, count) in errors.reduce_by_key(|a: u64, b| a + b).sort_by_key().collect()? {
        println!("{count:>8} {hour}");
    }
    Ok(())
}

fn print_top(what: &str, values: &Rdd<String>) -> Result<()> {
    println!("top {what}:");
    let counts = values.map(|value| (value, 1u64)).reduce_by_key(|a, b| a + b);
    for (value, count) in counts.top_by(5, |(value, count)| (*count, value.clone()))? {
        println!("{count:>8} {value}");
    }
    Ok(())
}

/// Reads `client ident user [10/Oct/2026:13:55:36 -0700] "GET /page HTTP/1.1" 200 2326`.
fn parse(line: &str) -> Option<Request> {
    let (before, rest) = line.split_once(" [")?;
    let (time, rest) = rest.split_once("] \"")?;
    let (request, rest) = rest.split_once("\" ")?;
    let mut numbers = rest.split(' ');
    Some(Request {
        client: before.split(' ').next()?.to_owned(),
        hour: hour(time)?,
        url: request.split(' ').nth(1)?.to_owned(),
        status: numbers.next()?.parse().ok()?,
        bytes: match numbers.next()? {
            "-" => 0,
            bytes => bytes.parse().ok()?,
        },
    })
}

/// `10/Oct/2026:13:55:36 -0700` is in hour `2026-10-10 13h`.
fn hour(time: &str) -> Option<String> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let mut parts = time.split(['/', ':']);
    let (day, month, year, hour) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let month = MONTHS.find(month)? / 3 + 1;
    Some(format!("{year}-{month:02}-{day} {hour}h"))
}

/// The `i`th line of a day's log: one in 500 is damaged.
fn made_up(i: u32) -> String {
    let mut rng = fastrand::Rng::with_seed(i.into());
    if i % 500 == 499 {
        return "GET / -- truncated".to_owned();
    }
    let (client, page) = (1 + (rng.u8(..20) & rng.u8(..)), rng.u8(..50) & rng.u8(..));
    let (hour, minute) = (i * 24 / 10_000, rng.u8(..60));
    let (status, bytes) = match rng.u8(..100) {
        0..3 => (500, "-".to_owned()),
        3..10 => (404, "310".to_owned()),
        _ => (200, rng.u32(200..20_000).to_string()),
    };
    format!(
        "10.0.0.{client} - - [01/Mar/2026:{hour:02}:{minute:02}:00 +0000] \"GET /page/{page} HTTP/1.1\" {status} {bytes}"
    )
}

fn usage(problem: &str) -> ! {
    eprintln!("{problem}\nusage: log_analytics [LOGS]");
    std::process::exit(2)
}
