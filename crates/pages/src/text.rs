//! Numbers, durations, sizes and moments as people read them. Moments are UTC, everywhere.

use std::fmt::Write;

use firesteel_monitor::rest::date_text;
use firesteel_types::Tick;
use maud::{Markup, html};

/// `1,234,567`
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `3 tasks`, `1 task`
pub(crate) fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

/// Three digits at most: `1.25`, `12.5`, `125`.
fn digits(number: f64) -> String {
    let places = if number < 9.995 { 2 } else { usize::from(number < 99.95) };
    let text = format!("{number:.places$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// `1.5 MiB`
pub(crate) fn bytes(number: u64) -> String {
    let (mut value, mut unit) = (number as f64, "B");
    for larger in ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"] {
        if value < 1023.5 {
            break;
        }
        (value, unit) = (value / 1024.0, larger);
    }
    format!("{} {unit}", digits(value))
}

/// `850 ms`, `12.3 s`, `3 min 12 s`, `2 h 5 min`
pub(crate) fn millis(ms: u64) -> String {
    let seconds = ms / 1000;
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..60_000 => format!("{} s", digits(ms as f64 / 1000.0)),
        60_000..3_600_000 => two(seconds / 60, "min", seconds % 60, "s"),
        3_600_000..86_400_000 => two(seconds / 3600, "h", seconds / 60 % 60, "min"),
        _ => two(seconds / 86_400, "d", seconds / 3600 % 24, "h"),
    }
}

fn two(large: u64, unit: &str, small: u64, small_unit: &str) -> String {
    match small {
        0 => format!("{large} {unit}"),
        _ => format!("{large} {unit} {small} {small_unit}"),
    }
}

/// A duration in microseconds.
pub(crate) fn micros(us: u64) -> String {
    match us {
        0 => "0 ms".to_owned(),
        1..1000 => format!("{us} µs"),
        1000..1_000_000 => format!("{} ms", digits(us as f64 / 1000.0)),
        _ => millis(us / 1000),
    }
}

/// `12 %`, `< 1 %`
pub(crate) fn percent(part: u64, whole: u64) -> String {
    match (part as f64 * 100.0 / whole.max(1) as f64, part) {
        (_, 0) => "0 %".to_owned(),
        (share, _) if share < 1.0 => "< 1 %".to_owned(),
        (share, _) => format!("{share:.0} %"),
    }
}

/// `2026-11-15 18:46:21`
pub(crate) fn moment(at: Tick) -> String {
    let text = date_text(at);
    format!("{} {}", text.get(..10).unwrap_or_default(), text.get(11..19).unwrap_or_default())
}

pub(crate) fn time(at: Tick) -> Markup {
    let text = moment(at);
    html! { time datetime=(format!("{}Z", text.replace(' ', "T"))) { (text) } }
}

/// The first so many characters. Of a long text the rest is not looked at.
pub(crate) fn short(text: &str, at_most: usize) -> String {
    match text.chars().nth(at_most).is_some() {
        true => text.chars().take(at_most.saturating_sub(1)).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

/// Of what a reader can open, for the script: the same in every version of a page, whatever texts stand in it.
pub(crate) fn key(kind: &str, which: &str) -> String {
    format!("{kind}-{}", crate::assets::hash(which))
}

/// A coordinate, with as few characters as can be.
pub(crate) fn place(number: f64) -> String {
    let text = format!("{number:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A share of the width.
pub(crate) fn share(part: f64) -> String {
    format!("{}%", place(part * 100.0))
}

/// A part of an address, as it may stand behind a question mark.
pub(crate) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(byte));
            }
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_people_write_them() {
        assert_eq!([count(0), count(999), count(1_234_567)], ["0", "999", "1,234,567"]);
        assert_eq!(
            [bytes(0), bytes(1023), bytes(1536), bytes(5 << 30)],
            ["0 B", "1023 B", "1.5 KiB", "5 GiB"]
        );
        assert_eq!(bytes(u64::MAX), "16 EiB");
        assert_eq!([millis(0), millis(999), millis(12_345)], ["0 ms", "999 ms", "12.3 s"]);
        assert_eq!(
            [millis(192_000), millis(3_600_000), millis(90_000_000)],
            ["3 min 12 s", "1 h", "1 d 1 h"]
        );
        assert_eq!(
            [micros(0), micros(850), micros(8500), micros(1_500_000)],
            ["0 ms", "850 µs", "8.5 ms", "1.5 s"]
        );
        assert_eq!([percent(0, 0), percent(1, 1000), percent(1, 3)], ["0 %", "< 1 %", "33 %"]);
        assert_eq!(moment(Tick(1_422_981_780_906)), "2015-02-03 16:43:00");
        assert_eq!((short("abcdef", 4), short("äöü", 3)), ("abc…".to_owned(), "äöü".to_owned()));
        assert_eq!(encoded("a b&c=ä/"), "a%20b%26c%3D%C3%A4%2F");
    }
}
