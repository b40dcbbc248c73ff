//! How many cores were used over time: what the tasks of each stage took, spread over the time that it ran.

use std::fmt::Write;

use firesteel_status::{AppStatus, Order, Paging, StageState};
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
    /// Adds `cores` between two moments.
    fn add(steps: &mut [f64; STEPS], (start, span): (Tick, u64), from: Tick, to: Tick, cores: f64) {
        let at =
            |moment: Tick| moment.since_ms(start).min(span) as f64 * STEPS as f64 / span as f64;
        let (from, to) = (at(from), at(to));
        let (first, last) = (from as usize, (to as usize).min(STEPS - 1));
        for (index, step) in steps.iter_mut().enumerate().take(last + 1).skip(first) {
            let covered = (to.min(index as f64 + 1.0) - from.max(index as f64)).clamp(0.0, 1.0);
            *step += cores * covered;
        }
    }

    fn of(status: &AppStatus, until: Tick) -> Self {
        let start = status.application().started;
        let mut load = Load {
            used: [0.0; STEPS],
            there: [0.0; STEPS],
            start,
            span: until.since_ms(start).max(1),
        };
        let over = (start, load.span);
        for stage in status.stages(|_| true, Order::Ascending, Paging::ALL).items {
            let Some(first) = stage.first_task else { continue };
            let end = stage.completed.unwrap_or(until);
            let took = crate::app::task_time_ms(stage);
            let average = took as f64 / end.since_ms(first).max(1) as f64;
            let active =
                if stage.state == StageState::Active { f64::from(stage.tasks.active) } else { 0.0 };
            Self::add(&mut load.used, over, first, end, average.max(active));
        }
        for executor in status.executors() {
            let gone = executor.removed.as_ref().map_or(until, |(at, _)| *at);
            Self::add(&mut load.there, over, executor.added, gone, f64::from(executor.info.cores));
        }
        load
    }
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
