//! Memory and processors of an executor over time, as small pictures in rows of a table. All of one page have the same axes, so that
//! they can be compared.

use std::fmt::Write;

use firesteel_status::{AppStatus, ExecutorStatus, UsageSample};
use firesteel_types::Tick;
use maud::{Markup, html};

use super::swatch;
use crate::text::bytes;

const WIDTH: u64 = 200;
const HEIGHT: f64 = 30.0;

/// The axes of all pictures.
pub(crate) struct Span {
    start: Tick,
    end: Tick,
    /// The most that any executor had resident.
    memory: u64,
    /// The most processors that any executor used at once, on the average of a sample.
    processors: f64,
}

/// Processors in use, on average since the sample before.
fn processors(before: Option<&UsageSample>, sample: &UsageSample, added: Tick) -> f64 {
    let (since, cpu_ns) = before.map_or((added, 0), |before| (before.at, before.cpu_ns));
    let ms = sample.at.since_ms(since);
    match ms {
        0 => 0.0,
        ms => sample.cpu_ns.saturating_sub(cpu_ns) as f64 / 1e6 / ms as f64,
    }
}

fn rates(executor: &ExecutorStatus) -> impl Iterator<Item = f64> {
    let samples = executor.usage.samples();
    samples.iter().enumerate().map(move |(index, sample)| {
        let before = index.checked_sub(1).and_then(|before| samples.get(before));
        processors(before, sample, executor.added)
    })
}

impl Span {
    pub(crate) fn of(status: &AppStatus, end: Tick) -> Self {
        let samples = || status.executors().flat_map(|it| it.usage.samples());
        let memory = samples().map(|sample| sample.resident_memory).max().unwrap_or(0);
        let processors = status.executors().flat_map(rates).fold(0.0, f64::max);
        let start = status.application().started;
        Span { start, end: end.max(start), memory, processors }
    }

    fn x(&self, at: Tick) -> u64 {
        let span = self.end.since_ms(self.start).max(1) as f64;
        ((at.since_ms(self.start) as f64 / span).min(1.0) * WIDTH as f64) as u64
    }

    /// What the colours are; nothing if nobody told anything.
    pub(crate) fn key(&self) -> Markup {
        html! {
            @if self.memory > 0 || self.processors > 0.0 {
                ul.key {
                    li { (swatch("c-write")) " resident memory, up to " strong { (bytes(self.memory)) } }
                    li { (swatch("c-capacity")) " processors in use, up to " strong { (format!("{:.1}", self.processors)) } }
                }
            }
        }
    }

    pub(crate) fn draw(&self, executor: &ExecutorStatus) -> Markup {
        let samples = executor.usage.samples();
        let Some(last) = samples.last() else { return html! { span.dim { "–" } } };
        let (most, busiest) = (
            samples.iter().map(|sample| sample.resident_memory).max().unwrap_or(0),
            rates(executor).fold(0.0, f64::max),
        );
        let label = format!(
            "Over time: resident memory {} at last and {} at most, {busiest:.1} processors at most",
            bytes(last.resident_memory),
            bytes(most)
        );
        html! {
            svg.usage width="100%" height=(HEIGHT) viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="none" role="img" aria-label=(label) {
                rect.rest width=(WIDTH) height=(HEIGHT) {}
                path.c-write d=(self.memory(executor)) {}
                path.capacity vector-effect="non-scaling-stroke" d=(self.processors(executor)) {}
            }
            span.numbers {
                (bytes(last.resident_memory)) @if executor.is_active() { " now" } @else { " at last" } ", at most " (bytes(most))
                @if busiest > 0.0 { " · " (format!("{busiest:.1}")) " processors at most" }
            }
        }
    }

    /// An area of steps: each reaches from the sample before to its own end.
    fn memory(&self, executor: &ExecutorStatus) -> String {
        let mut path = format!("M{} {HEIGHT}", self.x(executor.added));
        for sample in executor.usage.samples() {
            let part = sample.resident_memory as f64 / self.memory.max(1) as f64;
            let _ = write!(path, "V{:.1}H{}", HEIGHT * (1.0 - part), self.x(sample.at));
        }
        let _ = write!(path, "V{HEIGHT}z");
        path
    }

    fn processors(&self, executor: &ExecutorStatus) -> String {
        let mut path = String::new();
        let most = self.processors.max(0.001);
        for (sample, rate) in executor.usage.samples().iter().zip(rates(executor)) {
            // Not quite to the edges, where half of the line would be cut off.
            let y = 1.0 + (HEIGHT - 2.0) * (1.0 - rate / most);
            match path.is_empty() {
                true => drop(write!(path, "M{} {y:.1}", self.x(executor.added))),
                false => drop(write!(path, "V{y:.1}")),
            }
            let _ = write!(path, "H{}", self.x(sample.at));
        }
        path
    }
}
