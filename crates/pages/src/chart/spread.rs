//! How tasks differ in one number: quantiles, and a picture in which the few that are far from the others are seen.

use maud::{Markup, html};

use crate::text::{count, counted, share};

/// Of up to so many tasks quantiles are exact; of more they are within half a percent.
const EXACT: usize = 20_000;
/// Values below are counted one by one; above, 128 counts lie between a number and its double.
const FINE: u64 = 128;
/// Bars of a picture.
const BARS: usize = 48;
const HEIGHT: f64 = 68.0;
/// Of these the highest bar leaves so much to what is written above it.
const ABOVE: f64 = 12.0;
/// A count has no other one beside it for so many bars.
const COUNTED: usize = 4;

/// Numbers of tasks, one each.
pub(crate) struct Spread {
    counts: Vec<u32>,
    exact: Vec<u64>,
    count: u64,
    min: u64,
    max: u64,
}

impl Default for Spread {
    fn default() -> Self {
        Spread { counts: Vec::new(), exact: Vec::new(), count: 0, min: u64::MAX, max: 0 }
    }
}

fn bucket(value: u64) -> usize {
    if value < FINE {
        return value as usize;
    }
    let power = value.ilog2();
    ((power as usize - 6) << 7) + ((value >> (power - 7)) - FINE) as usize
}

/// The number in the middle of a bucket.
fn middle(bucket: usize) -> u64 {
    if bucket < FINE as usize {
        return bucket as u64;
    }
    let power = (bucket >> 7) as u32 + 6;
    let low = ((bucket as u64 & (FINE - 1)) + FINE) << (power - 7);
    low + (1u64 << (power - 7)) / 2
}

impl Spread {
    pub(crate) fn add(&mut self, value: u64) {
        let index = bucket(value);
        if self.counts.len() <= index {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] += 1;
        self.count += 1;
        (self.min, self.max) = (self.min.min(value), self.max.max(value));
        if self.exact.len() < EXACT {
            self.exact.push(value);
        }
    }

    pub(crate) fn max(&self) -> u64 {
        self.max
    }

    fn is_exact(&self) -> bool {
        self.count as usize <= EXACT
    }

    /// The task at this share of all, sorted: as Spark picks it.
    fn quantile(&self, share: f64) -> u64 {
        let at = ((share * self.count as f64) as u64).min(self.count.saturating_sub(1));
        if self.is_exact() {
            let mut all = self.exact.clone();
            return match all.is_empty() {
                true => 0,
                false => *all.select_nth_unstable(at as usize).1,
            };
        }
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += u64::from(*count);
            seen > at
        });
        found.map_or(0, middle).clamp(self.min, self.max)
    }

    /// Minimum, quartiles, maximum.
    pub(crate) fn quartiles(&self) -> [u64; 5] {
        if self.count == 0 {
            return [0; 5];
        }
        [self.min, self.quantile(0.25), self.quantile(0.5), self.quantile(0.75), self.max]
    }

    /// Beyond this a task is far from the others: twice what three of four stay below.
    pub(crate) fn far(&self) -> u64 {
        self.quantile(0.75).saturating_mul(2)
    }

    fn beyond(&self, limit: u64) -> u64 {
        if self.is_exact() {
            return self.exact.iter().filter(|value| **value > limit).count() as u64;
        }
        let there = self.counts.iter().enumerate().skip(bucket(limit));
        there.filter(|(index, _)| middle(*index) > limit).map(|(_, count)| u64::from(*count)).sum()
    }

    /// Counts of `BARS` equal steps from 0 to the maximum.
    fn bars(&self) -> [u64; BARS] {
        let mut bars = [0; BARS];
        for (index, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let at = middle(index).min(self.max) as f64 / self.max.max(1) as f64;
            bars[((at * BARS as f64) as usize).min(BARS - 1)] += u64::from(*count);
        }
        bars
    }
}

/// A picture with its numbers; `unit` writes a value. `running`: the most that a task has come to that has not ended.
pub(crate) fn card(title: &str, spread: &Spread, running: u64, unit: fn(u64) -> String) -> Markup {
    let quartiles = spread.quartiles();
    let [_, _, median, _, max] = quartiles;
    let names = ["min", "25 %", "median", "75 %", "max"];
    let far = spread.far();
    let beyond = if spread.count >= 4 { spread.beyond(far) } else { 0 };
    let is_running_far = spread.count >= 4 && running > far;
    html! {
        section.card {
            h3 { (title) }
            (picture(title, spread, (median, far), unit))
            dl.quantiles {
                @for (name, value) in names.iter().zip(quartiles) {
                    div { dt { (name) } dd { (unit(value)) } }
                }
            }
            @if beyond > 0 && far > 0 {
                p.note {
                    strong.bad { (counted(beyond, "task")) } " beyond twice the 75 % mark"
                    @if median > 0 { "; the largest is " strong { (times(max, median)) } " the median" }
                    "."
                }
            } @else if beyond > 0 {
                p.note { strong.bad { (counted(beyond, "task")) } " of " (count(spread.count)) "; the others have none." }
            } @else if !is_running_far { p.note.dim { "No task is far from the others." } }
            @if is_running_far {
                p.note {
                    strong.bad { "A task that still runs" } " is already at " strong { (unit(running)) }
                    @if median > 0 { ", " strong { (times(running, median)) } " the median" }
                    "."
                }
            }
        }
    }
}

/// `50×`
fn times(large: u64, small: u64) -> String {
    let factor = large as f64 / small.max(1) as f64;
    if factor < 10.0 { format!("{factor:.1}×") } else { format!("{factor:.0}×") }
}

fn picture(
    title: &str,
    spread: &Spread,
    (median, far): (u64, u64),
    unit: fn(u64) -> String,
) -> Markup {
    let bars = spread.bars();
    let most = bars.iter().copied().max().unwrap_or(0).max(1) as f64;
    // One task of a million is to be seen: heights are logarithms.
    let room = HEIGHT - ABOVE - 4.0;
    let height = |count: u64| 4.0 + room * (1.0 + count as f64).ln() / (1.0 + most).ln();
    let mut free = 0;
    let counted_bars: Vec<usize> = (0..BARS)
        .filter(|index| {
            let has_room = bars[*index] > 0 && *index >= free;
            free = if has_room { index + COUNTED } else { free };
            has_room
        })
        .collect();
    let step = spread.max.max(1) as f64 / BARS as f64;
    let width = 1.0 / BARS as f64;
    let at = (median as f64 / spread.max.max(1) as f64).min(1.0);
    let label = format!(
        "{title} of {} tasks: median {}, largest {}",
        spread.count,
        unit(median),
        unit(spread.max)
    );
    html! {
        svg.spread width="100%" height="98" role="img" aria-label=(label) {
            @for (index, count_there) in bars.iter().enumerate().filter(|(_, count)| **count > 0) {
                @let low = index as f64 * step;
                @let is_far = if far > 0 { (low + step / 2.0) as u64 > far } else { index > 0 };
                rect class=(if is_far { "c-hot" } else { "c-cpu" }) x=(share(index as f64 * width)) width=(share(width * 0.9))
                    y=(format!("{:.1}", HEIGHT - height(*count_there))) height=(format!("{:.1}", height(*count_there))) {
                    title { (count(*count_there)) " tasks from " (unit(low as u64)) " to " (unit((low + step) as u64)) }
                }
            }
            @for index in &counted_bars {
                @let (index, count_there) = (*index, &bars[*index]);
                @let middle = (index as f64 + 0.45) * width;
                text.count x=(share(middle)) y=(format!("{:.1}", HEIGHT - height(*count_there) - 2.0)) text-anchor=(anchor(middle)) { (count(*count_there)) }
            }
            line.axis x1="0" x2="100%" y1=(HEIGHT) y2=(HEIGHT) {}
            line.median x1=(share(at)) x2=(share(at)) y1=(ABOVE) y2=(HEIGHT + 3.0) {}
            text.tick x="0" y="81" { "0" }
            text.tick x="100%" y="81" text-anchor="end" { (unit(spread.max)) }
            text.tick x=(share(at)) y="94" text-anchor=(anchor(at)) { "median " (unit(median)) }
        }
    }
}

/// Of a text at a place: at the edges it stays within the picture.
fn anchor(at: f64) -> &'static str {
    match at {
        at if at < 0.15 => "start",
        at if at > 0.85 => "end",
        _ => "middle",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_their_numbers_within_half_a_percent() {
        for value in
            (0..70).map(|power| 3u64.saturating_pow(power)).chain([0, 127, 128, 129, u64::MAX])
        {
            let near = middle(bucket(value));
            assert!(near.abs_diff(value) as f64 <= value as f64 * 0.005, "{value}: {near}");
        }
    }

    #[test]
    fn quantiles_are_exact_for_few_tasks_and_near_for_many() {
        let (mut few, mut many) = (Spread::default(), Spread::default());
        (0..200).for_each(|n| few.add(if n < 3 { 4000 } else { 80 }));
        assert_eq!(
            (few.quartiles(), few.far(), few.beyond(few.far())),
            ([80, 80, 80, 80, 4000], 160, 3)
        );
        // Just twice the 75 % mark is not beyond it.
        let mut even = Spread::default();
        (0..8).for_each(|n| even.add(if n < 7 { 1001 } else { 2002 }));
        assert_eq!((even.far(), even.beyond(even.far())), (2002, 0));
        (0..100_000).for_each(|n| many.add(n));
        let [min, low, median, high, max] = many.quartiles();
        assert_eq!((min, max), (0, 99_999));
        for (value, wanted) in [(low, 25_000u64), (median, 50_000), (high, 75_000)] {
            assert!(value.abs_diff(wanted) < 400, "{value}");
        }
        assert_eq!(Spread::default().quartiles(), [0; 5]);
    }
}
