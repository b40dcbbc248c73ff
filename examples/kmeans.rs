//! K-means: finds the centres of clusters of points.
//!
//! ```sh
//! cargo run --release --example kmeans -- [K [POINTS]] [--master local[4]] [--conf key=value]
//! ```
//!
//! `K` is 4 if not given. `POINTS` are text files with one point per line, its coordinates with commas
//! between them, as many on each line. Without them, points are made up around (1, 5), (3, 1), (7, 9) and
//! (9, 3). Shows `cache` for data that every iteration reads, and a broadcast: each iteration's
//! centres go to the tasks with `with(broadcast)`, once per process.
//!
//! Prints one line per iteration with how far the centres moved, until they move less than 0.001 or 50
//! iterations are over; then the centres, each with the number of its points.

use firesteel::prelude::*;

type Point = Vec<f64>;

const ITERATIONS: u32 = 50;
const CONVERGED: f64 = 0.001;

fn main() -> Result<()> {
    let arguments = firesteel::arguments()?;
    let (k, input) = match &arguments[..] {
        [] => (4, None),
        [k] => (number(k), None),
        [k, input] => (number(k), Some(input)),
        _ => usage("too many arguments"),
    };

    let ctx = Context::builder().app_name("kmeans").build()?;
    let points = match input {
        Some(input) => ctx.text_file(input)?.map(point).cache(),
        None => ctx.range(0..4000u64).map(made_up).cache(),
    };
    let mut clusters: Vec<(Point, u64)> = first_centres(&points, k)?;
    for iteration in 1..=ITERATIONS {
        let centres: Vec<Point> = clusters.iter().map(|(centre, _)| centre.clone()).collect();
        for (i, (sum, count)) in assign(&ctx, &points, &centres)? {
            let mean = sum.into_iter().map(|x| x / count as f64).collect();
            clusters[i as usize] = (mean, count);
        }
        let moved = clusters.iter().zip(&centres).map(|((new, _), old)| distance(new, old));
        let moved = moved.fold(0.0, f64::max);
        println!("iteration {iteration}: moved {moved:.4}");
        if moved < CONVERGED {
            break;
        }
    }

    clusters.sort_by(|(a, _), (b, _)| a.partial_cmp(b).expect("coordinates are numbers"));
    for (centre, count) in clusters {
        let coordinates: Vec<String> = centre.iter().map(|x| format!("{x:.1}")).collect();
        println!("({}) with {count} points", coordinates.join(", "));
    }
    Ok(())
}

/// The sum and the number of the points that are nearest to each centre.
fn assign(
    ctx: &Context,
    points: &Rdd<Point>,
    centres: &[Point],
) -> Result<Vec<(u32, (Point, u64))>> {
    let centres = ctx.broadcast(centres.to_vec());
    let assigned =
        points.with(centres).map(|centres, point| (nearest(centres, &point), (point, 1)));
    assigned.reduce_by_key(|(a, n), (b, m)| (add(a, &b), n + m)).collect()
}

/// Of a sample, points that lie far from each other: the first, then always the one that is farthest
/// from those chosen.
fn first_centres(points: &Rdd<Point>, k: usize) -> Result<Vec<(Point, u64)>> {
    let sample = points.take_sample(false, 100 * k, 7)?;
    let mut chosen: Vec<Point> = sample.first().cloned().into_iter().collect();
    while chosen.len() < k && chosen.len() < sample.len() {
        let gap = |point: &Point| distance(point, &chosen[nearest(&chosen, point) as usize]);
        let farthest = sample.iter().max_by(|a, b| gap(a).total_cmp(&gap(b)));
        chosen.extend(farthest.cloned());
    }
    Ok(chosen.into_iter().map(|point| (point, 0)).collect())
}

fn nearest(centres: &[Point], point: &Point) -> u32 {
    let distances = centres.iter().map(|centre| distance(centre, point)).zip(0..);
    let least = distances.min_by(|a, b| a.0.total_cmp(&b.0));
    least.expect("there is at least one centre").1
}

fn distance(a: &Point, b: &Point) -> f64 {
    assert_eq!(a.len(), b.len(), "points of different dimensions: {a:?} and {b:?}");
    a.iter().zip(b).map(|(x, y)| (x - y).powi(2)).sum::<f64>().sqrt()
}

fn add(mut a: Point, b: &Point) -> Point {
    a.iter_mut().zip(b).for_each(|(x, y)| *x += y);
    a
}

fn point(line: String) -> Point {
    let coordinates: std::result::Result<Point, _> =
        line.split(',').map(|field| field.trim().parse()).collect();
    coordinates.unwrap_or_else(|error| panic!("not a point: {line:?}: {error}"))
}

fn made_up(number: u64) -> Point {
    let mut rng = fastrand::Rng::with_seed(number);
    let centres = [[1.0, 5.0], [3.0, 1.0], [7.0, 9.0], [9.0, 3.0]];
    let centre = centres[number as usize % centres.len()];
    centre.into_iter().map(|x| x + rng.f64() - 0.5).collect()
}

fn number(text: &str) -> usize {
    match text.parse() {
        Ok(k @ 1..) => k,
        _ => usage(&format!("{text:?} is not a number of clusters")),
    }
}

fn usage(problem: &str) -> ! {
    eprintln!("{problem}\nusage: kmeans [K [POINTS]]");
    std::process::exit(2)
}
