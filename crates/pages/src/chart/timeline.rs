//! Jobs over time: bars with their names beside them, so that a short job is as readable as a long one; executors that
//! came and went.

use firesteel_types::Tick;
use maud::{Markup, html};

use super::{swatch, time_axis};
use crate::text::{millis, share, short};

/// One bar of the timeline.
pub(crate) struct Entry {
    pub(crate) from: Tick,
    pub(crate) to: Tick,
    pub(crate) name: String,
    pub(crate) class: &'static str,
    pub(crate) link: String,
}

/// Drawn as a line over all lanes.
pub(crate) struct Moment {
    pub(crate) at: Tick,
    pub(crate) words: String,
    pub(crate) is_bad: bool,
}

/// Above the lanes, where signs of moments stand.
const SIGNS: u32 = 14;
const LANE: u32 = 22;
/// The width of a character as a share of a picture of usual width.
const CHARACTER: f64 = 0.0066;
const NAME: usize = 34;

/// From when to when a picture of these entries is.
pub(crate) fn window(entries: &[Entry]) -> (Tick, Tick) {
    let start = entries.iter().map(|entry| entry.from).min().unwrap_or_default();
    (start, entries.iter().map(|entry| entry.to).max().unwrap_or(start))
}

/// Entries in lanes in which nothing overlaps, names included. On a narrow screen the picture keeps the width that its names need,
/// and can be scrolled. Moments outside of its [`window`] are left out.
pub(crate) fn draw(label: &str, entries: &[Entry], moments: &[Moment]) -> Markup {
    let (start, end) = window(entries);
    let span = end.since_ms(start).max(1);
    let at = |moment: Tick| moment.since_ms(start).min(span) as f64 / span as f64;
    let (mut lanes, mut placed) = (Vec::<f64>::new(), Vec::new());
    for entry in sorted(entries) {
        let (from, to) = (at(entry.from), at(entry.to));
        let name = short(&entry.name, NAME);
        let room = name.chars().count() as f64 * CHARACTER + 0.01;
        let side = Side::of(from, to, room);
        let (left, right) = side.extent(from, to, room);
        let lane = lanes.iter().position(|end| *end <= left).unwrap_or_else(|| {
            lanes.push(0.0);
            lanes.len() - 1
        });
        lanes[lane] = right + 0.004;
        placed.push((entry, from, to, lane as u32 * LANE, name, side));
    }
    let seen: Vec<&Moment> =
        moments.iter().filter(|moment| moment.at >= start && moment.at <= end).collect();
    let top = if seen.is_empty() { 0 } else { SIGNS };
    let height = top + lanes.len() as u32 * LANE + 4;
    html! {
        div.scroll role="region" aria-label=(format!("{label}, a picture")) tabindex="0" { svg.timeline width="100%" height=(height + 18) role="group" aria-label=(label) {
            (time_axis(span, height))
            @for moment in &seen {
                @let (class, sign) = moment.sign();
                g { title { (moment.words) }
                    line class=(class) x1=(share(at(moment.at))) x2=(share(at(moment.at))) y1=(SIGNS - 2) y2=(height) {}
                    text.sign x=(share(at(moment.at))) y=(SIGNS - 4) text-anchor="middle" { (sign) }
                }
            }
            @for (entry, from, to, y, name, side) in placed {
                @let y = y + top;
                a class=(entry.class) href=(entry.link) {
                    title { (entry.name) ": " (millis(entry.to.since_ms(entry.from))) }
                    rect class=(entry.class) x=(share(from)) y=(y + 3) width="3" height="16" rx="2" {}
                    rect class=(entry.class) x=(share(from)) y=(y + 3) width=(share(to - from)) height="16" rx="2" {}
                    (side.text(from, to, y + 15, &name))
                }
            }
        } }
        (key(entries, &seen))
    }
}

impl Moment {
    /// Its class, and what stands above its line.
    fn sign(&self) -> (&'static str, &'static str) {
        if self.is_bad { ("moment bad", "✕") } else { ("moment", "+") }
    }
}

/// What colours and signs are, of those that are there.
fn key(entries: &[Entry], moments: &[&Moment]) -> Markup {
    let states = [("c-cpu", "succeeded"), ("c-busy", "▶ running"), ("c-bad", "✕ failed")];
    let has = |is_bad: bool| moments.iter().any(|it| it.is_bad == is_bad);
    html! {
        ul.key {
            @for (class, words) in states {
                @if entries.iter().any(|it| it.class == class) { li { (swatch(class)) " " (words) } }
            }
            @if has(false) { li { strong.fine { "+" } " executor added" } }
            @if has(true) { li { strong.bad { "✕" } " executor lost" } }
        }
    }
}

fn sorted(entries: &[Entry]) -> Vec<&Entry> {
    let mut sorted: Vec<&Entry> = entries.iter().collect();
    sorted.sort_by_key(|entry| entry.from);
    sorted
}

/// Where the name stands.
#[derive(Clone, Copy)]
enum Side {
    Inside,
    Behind,
    Before,
}

impl Side {
    fn of(from: f64, to: f64, room: f64) -> Self {
        match (to - from > room, to + room < 1.0) {
            (true, _) => Side::Inside,
            (false, true) => Side::Behind,
            (false, false) => Side::Before,
        }
    }

    fn extent(self, from: f64, to: f64, room: f64) -> (f64, f64) {
        match self {
            Side::Inside => (from, to),
            Side::Behind => (from, to.max(from + 0.003) + room),
            Side::Before => ((from - room).max(0.0), to.max(from + 0.003)),
        }
    }

    fn text(self, from: f64, to: f64, y: u32, name: &str) -> Markup {
        let (class, x, shift, anchor) = match self {
            Side::Inside => ("on", from, "6", "start"),
            Side::Behind => ("beside", to, "6", "start"),
            Side::Before => ("beside", from, "-4", "end"),
        };
        html! { text class=(class) x=(share(x)) dx=(shift) y=(y) text-anchor=(anchor) { (name) } }
    }
}
