//! How many cores were used over time, as the status counted when tasks began and ended.

use std::fmt::Write;

use firesteel_status::AppStatus;
use firesteel_types::Tick;
use maud::{Markup, html};

use super::{swatch, time_axis};
use crate::text::place;

const STEPS: usize = 240;
const HEIGHT: u32 = 90;

/// Cores in use, and cores there were, at each step.
struct Load {
    used: [f64; STEPS],
    there: [f64; STEPS],
    start: Tick,
    span: u64,
}

impl Load {
    fn of(status: &AppStatus, until: Tick) -> Self {
        let start = status.application().started;
        let span = until.since_ms(start).max(1);
        let mut load = Load { used: [0.0; STEPS], there: [0.0; STEPS], start, span };
        let of_a_task = cores_of_a_task(status);
        for step in status.load(until) {
            let at =
                |moment: Tick| moment.since_ms(start).min(span) as f64 * STEPS as f64 / span as f64;
            let (from, to) = (at(step.from), at(step.to));
            for index in from as usize..(to.ceil() as usize).min(STEPS) {
                let covered = (to.min(index as f64 + 1.0) - from.max(index as f64)).clamp(0.0, 1.0);
                load.used[index] += step.running * of_a_task * covered;
                load.there[index] = load.there[index].max(step.cores as f64);
            }
        }
        load
    }
}

fn cores_of_a_task(status: &AppStatus) -> f64 {
    let settings = &status.application().properties;
    let cores = settings.iter().find(|(key, _)| key == "spark.task.cpus");
    cores.and_then(|(_, value)| value.parse::<u32>().ok()).unwrap_or(1).max(1).into()
}

/// An area below a line.
fn area(steps: &[f64; STEPS], most: f64, close: bool) -> String {
    let mut path = String::new();
    for (index, value) in steps.iter().enumerate() {
        let y = f64::from(HEIGHT) * (1.0 - value / most);
        let _ = write!(path, "{}{index} {}", if index == 0 { "M" } else { "L" }, place(y));
        let _ = write!(path, "H{}", index + 1);
    }
    if close {
        let _ = write!(path, "V{HEIGHT}H0z");
    }
    path
}

pub(crate) fn draw(status: &AppStatus, until: Tick) -> Markup {
    let load = Load::of(status, until);
    let there = load.there.iter().copied().fold(0.0, f64::max);
    let most = load.used.iter().copied().fold(there, f64::max).max(1.0) * 1.05;
    let average = load.used.iter().sum::<f64>() / STEPS as f64;
    let label = format!(
        "Cores in use since {}: {average:.1} on average, of up to {there:.0}",
        crate::text::moment(load.start)
    );
    html! {
        svg.load width="100%" height=(HEIGHT + 18) role="img" aria-label=(label) {
            (time_axis(load.span, HEIGHT))
            svg x="0" y="0" width="100%" height=(HEIGHT) viewBox=(format!("0 0 {STEPS} {HEIGHT}")) preserveAspectRatio="none" {
                path.c-cpu d=(area(&load.used, most, true)) {}
                path.capacity vector-effect="non-scaling-stroke" d=(area(&load.there, most, false)) {}
            }
        }
        ul.key {
            li { (swatch("c-cpu")) " cores in use, " strong { (format!("{average:.1}")) } " on average" }
            li { (swatch("c-capacity")) " cores there are, up to " strong { (format!("{there:.0}")) } }
        }
    }
}
