//! Pictures as SVG, made of numbers. Shares of the width are percentages and heights are pixels, so that a picture fits
//! any window and its text stays readable. Colours are classes of the style sheet.
//!
//! | file | draws |
//! |---|---|
//! | `spread` | how the tasks of a stage differ |
//! | `stream` | what ran when, in rows that are slots |
//! | `dag` | the stages of a job and what flows between them |
//! | `timeline` | jobs and executors over time |
//! | `load` | how many of the cores were used |
//! | `usage` | memory and processors of an executor over time |

pub(crate) mod dag;
pub(crate) mod load;
pub(crate) mod spread;
pub(crate) mod stream;
pub(crate) mod timeline;
pub(crate) mod usage;

use maud::{Markup, html};

use crate::text::{millis, percent, share};

/// A part of a bar.
pub(crate) struct Segment {
    pub(crate) label: &'static str,
    /// The CSS class that colours it.
    pub(crate) class: &'static str,
    pub(crate) value: u64,
    /// The value as people read it.
    pub(crate) text: String,
    /// What it is, for those who do not know.
    pub(crate) about: &'static str,
}

/// One bar of several parts, with its key below.
pub(crate) fn stacked(label: &str, segments: &[Segment]) -> Markup {
    let total = segments.iter().fold(0u64, |sum, it| sum.saturating_add(it.value));
    let shown: Vec<&Segment> = segments.iter().filter(|it| it.value > 0).collect();
    let words: Vec<String> =
        shown.iter().map(|it| format!("{} {}", it.label, percent(it.value, total))).collect();
    let mut from = 0.0;
    let places: Vec<(f64, f64, &Segment)> = shown
        .iter()
        .map(|it| {
            let (start, width) = (from, it.value as f64 / total.max(1) as f64);
            from += width;
            (start, width, *it)
        })
        .collect();
    html! {
        svg.stacked width="100%" height="28" role="img" aria-label=(format!("{label}: {}", words.join(", "))) {
            @for (start, width, segment) in &places {
                rect class=(format!("{} edge", segment.class)) x=(share(*start)) width=(share(*width)) height="28" {
                    title { (segment.label) ": " (segment.text) }
                }
            }
        }
        ul.key {
            @for segment in &shown {
                li title=(segment.about) {
                    (swatch(segment.class)) " " (segment.label) " "
                    strong { (percent(segment.value, total)) } " " span.dim { (segment.text) }
                }
            }
        }
    }
}

pub(crate) fn swatch(class: &str) -> Markup {
    html! { svg.swatch width="12" height="12" aria-hidden="true" { rect class=(class) width="12" height="12" {} } }
}

/// How much of something is used.
pub(crate) fn gauge(used: u64, whole: u64, label: &str) -> Markup {
    let part = if whole == 0 { 0.0 } else { (used as f64 / whole as f64).min(1.0) };
    html! {
        svg.bar width="100%" height="8" role="img" aria-label=(label) {
            rect.rest width="100%" height="8" {}
            rect.c-cpu width=(share(part)) height="8" {}
        }
    }
}

/// Tasks: done, running, failed, of so many.
pub(crate) fn progress(done: u64, running: u64, failed: u64, total: u64) -> Markup {
    let whole = total.max(done + running).max(1) as f64;
    let (done_part, running_part) = (done as f64 / whole, running as f64 / whole);
    let failed_word = if failed > 0 { format!(", {failed} failed") } else { String::new() };
    let label = format!("{done} of {total} tasks done, {running} running{failed_word}");
    html! {
        svg.bar width="100%" height="8" role="img" aria-label=(label) {
            rect.rest width="100%" height="8" {}
            rect.c-good width=(share(done_part)) height="8" {}
            rect.c-busy x=(share(done_part)) width=(share(running_part)) height="8" {}
        }
        span.numbers {
            (done) "/" (total)
            @if running > 0 { " · " (running) " running" }
            @if failed > 0 { " · " span.bad { "✕ " (failed) " failed" } }
        }
    }
}

/// Round moments of a span, as shares of it, with what to write there.
pub(crate) fn ticks(span_ms: u64) -> Vec<(f64, String)> {
    const STEPS: [u64; 22] = [
        1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 120_000,
        300_000, 600_000, 1_800_000, 3_600_000, 14_400_000, 86_400_000,
    ];
    let span = span_ms.max(1);
    let fits = |step: &&u64| span / **step <= 6;
    let step =
        STEPS.iter().find(fits).copied().unwrap_or_else(|| (span / 6).next_multiple_of(86_400_000));
    (0..=span / step)
        .map(|n| (n * step) as f64 / span as f64)
        .map(|at| (at, millis((at * span as f64).round() as u64)))
        .collect()
}

/// Lines at round moments, and their words at the height `bottom`.
pub(crate) fn time_axis(span_ms: u64, bottom: u32) -> Markup {
    html! {
        @for (at, words) in ticks(span_ms) {
            line.grid x1=(share(at)) x2=(share(at)) y1="0" y2=(bottom) {}
            @let anchor = if at < 0.02 { "start" } else if at > 0.95 { "end" } else { "middle" };
            text.tick x=(share(at)) y=(bottom + 13) text-anchor=(anchor) { (words) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_a_few_round_moments_whatever_its_length() {
        for span in [0, 1, 7, 999, 12_345, 3_600_000, 86_400_000, 10_000_000_000, u64::MAX / 2] {
            let ticks = ticks(span);
            assert!((1..=8).contains(&ticks.len()), "{span}: {ticks:?}");
            assert!(ticks.iter().all(|(at, _)| (0.0..=1.0).contains(at)), "{span}: {ticks:?}");
        }
    }
}
