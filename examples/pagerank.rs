//! PageRank: which pages do many important pages link to?
//!
//! ```sh
//! cargo run --release --example pagerank -- [ITERATIONS [EDGES]] [--master local[4]] [--conf key=value]
//! ```
//!
//! `ITERATIONS` is 10 if not given. `EDGES` are text files with one link per line, `source target`, two
//! numbers; lines that start with `#` are comments. Without them a graph of 1000 pages is made up.
//! Shows a loop over an `Rdd`: `cache` keeps the links in memory, partitioned by page, so that each
//! iteration's `join` shuffles nothing but the shares of rank; `boxed` gives the pipeline of every
//! iteration the same type, `Rdd<(u32, f64)>`.
//!
//! Prints the ten pages with the highest ranks (the average is at most 1), and the number of pages.

use firesteel::Total;
use firesteel::prelude::*;

fn main() -> Result<()> {
    let arguments = firesteel::arguments()?;
    let (iterations, input) = match &arguments[..] {
        [] => (10, None),
        [iterations] => (number(iterations), None),
        [iterations, input] => (number(iterations), Some(input)),
        _ => usage("too many arguments"),
    };

    let ctx = Context::builder().app_name("pagerank").build()?;
    let edges: Rdd<(u32, u32)> = match input {
        Some(input) => {
            ctx.text_file(input)?.filter(|line| !line.starts_with('#')).map(edge).boxed()
        }
        None => made_up(&ctx),
    };
    // Every page has a list of targets; that of a page without links is empty.
    let links = edges
        .flat_map(|(source, target)| [(source, Some(target)), (target, None)])
        .distinct()
        .group_by_key()
        .map_values(|targets| targets.into_iter().flatten().collect::<Vec<u32>>())
        .cache();
    let mut ranks: Rdd<(u32, f64)> = links.map_values(|_| 1.0).boxed();
    for _ in 0..iterations {
        ranks = links
            .join(&ranks)
            .flat_map(|(page, (targets, rank))| {
                let share = rank / targets.len() as f64;
                // A page that nobody links to gets nothing, but stays.
                targets.into_iter().map(move |target| (target, share)).chain([(page, 0.0)])
            })
            .reduce_by_key(|a, b| a + b)
            .map_values(|sum| 0.15 + 0.85 * sum)
            .boxed();
    }

    for (page, rank) in ranks.top_by(10, |(page, rank)| (Total(*rank), *page))? {
        println!("{page:>8} {rank:.6}");
    }
    println!("{} pages, {iterations} iteration(s)", ranks.count()?);
    Ok(())
}

fn edge(line: String) -> (u32, u32) {
    let mut fields = line.split_whitespace().map(str::parse);
    match (fields.next(), fields.next(), fields.next()) {
        (Some(Ok(source)), Some(Ok(target)), None) => (source, target),
        _ => panic!("not an edge, which is two numbers: {line:?}"),
    }
}

/// Each page links to eight others, mostly to those with low numbers.
fn made_up(ctx: &Context) -> Rdd<(u32, u32)> {
    let edges = ctx.range(0..1000u32).flat_map(|page| {
        let mut rng = fastrand::Rng::with_seed(page.into());
        (0..8).map(move |_| {
            let bound = rng.u32(1..=1000);
            (page, rng.u32(..bound))
        })
    });
    edges.boxed()
}

fn number(text: &str) -> u32 {
    text.parse().unwrap_or_else(|_| usage(&format!("{text:?} is not a number of iterations")))
}

fn usage(problem: &str) -> ! {
    eprintln!("{problem}\nusage: pagerank [ITERATIONS [EDGES]]");
    std::process::exit(2)
}
