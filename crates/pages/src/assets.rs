//! The style sheet, the script and the mark: a part of the program, with the hash of their text in their paths, so that
//! browsers ask for each of them once.

use std::hash::{DefaultHasher, Hasher};
use std::sync::LazyLock;

use maud::{Markup, html};

pub(crate) const STYLE: &str = include_str!("../assets/pages.css");
pub(crate) const SCRIPT: &str = include_str!("../assets/pages.js");

/// A spark, in a place that every browser asks for.
pub(crate) const ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath \
    fill='%23d55e00' d='M8 0l2 6 6 2-6 2-2 6-2-6-6-2 6-2z'/%3E%3C/svg%3E";

static STYLE_PATH: LazyLock<String> = LazyLock::new(|| format!("/static/{}.css", hash(STYLE)));
static SCRIPT_PATH: LazyLock<String> = LazyLock::new(|| format!("/static/{}.js", hash(SCRIPT)));

pub(crate) fn hash(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(text.as_bytes());
    format!("{:016x}", hasher.finish())
}

/// Another one for other bytes.
pub(crate) fn etag(bytes: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    format!("\"{:016x}\"", hasher.finish())
}

pub(crate) fn style_path() -> &'static str {
    &STYLE_PATH
}

pub(crate) fn script_path() -> &'static str {
    &SCRIPT_PATH
}

/// The text of a path and its type.
pub(crate) fn find(path: &str) -> Option<(&'static str, &'static str)> {
    match path {
        path if path == style_path() => Some(("text/css;charset=utf-8", STYLE)),
        path if path == script_path() => Some(("text/javascript;charset=utf-8", SCRIPT)),
        _ => None,
    }
}

pub(crate) fn mark() -> Markup {
    html! {
        svg.mark viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" {
            path d="M8 0l2 6 6 2-6 2-2 6-2-6-6-2 6-2z" {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// The colours of a part of the style sheet, by their names.
    fn colours(text: &str) -> BTreeMap<&str, [f64; 3]> {
        let pairs =
            text.split("--").skip(1).filter_map(|rest| rest.split(';').next()?.split_once(": #"));
        pairs
            .map(|(name, hex)| {
                let wide: String = match hex.len() {
                    3 => hex.chars().flat_map(|it| [it, it]).collect(),
                    _ => hex.to_owned(),
                };
                let part =
                    |at: usize| f64::from(u8::from_str_radix(&wide[at..at + 2], 16).unwrap());
                (name, [part(0), part(2), part(4)])
            })
            .collect()
    }

    /// As WCAG has it.
    fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
        let light = |colour: [f64; 3]| {
            let [red, green, blue] = colour.map(|part| match part / 255.0 {
                part if part <= 0.04045 => part / 12.92,
                part => ((part + 0.055) / 1.055).powf(2.4),
            });
            0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05
        };
        let (one, other) = (light(one), light(other));
        one.max(other) / one.min(other)
    }

    /// What is seen of a colour, in linear light, and by those who lack one kind of cones (Machado and others, 2009).
    const EYES: [(&str, [[f64; 3]; 3]); 4] = [
        ("all cones", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        (
            "no red cones",
            [
                [0.152286, 1.052583, -0.204868],
                [0.114503, 0.786281, 0.099216],
                [-0.003882, -0.048116, 1.051998],
            ],
        ),
        (
            "no green cones",
            [
                [0.367322, 0.860646, -0.227968],
                [0.280085, 0.672501, 0.047413],
                [-0.011820, 0.042940, 0.968881],
            ],
        ),
        (
            "no blue cones",
            [
                [1.255528, -0.076749, -0.178779],
                [-0.078411, 0.930809, 0.147602],
                [0.004733, 0.691367, 0.303900],
            ],
        ),
    ];

    /// In CIE Lab, where distances are as they are seen.
    fn seen(colour: [f64; 3], eyes: [[f64; 3]; 3]) -> [f64; 3] {
        let light = colour.map(|part| match part / 255.0 {
            part if part <= 0.04045 => part / 12.92,
            part => ((part + 0.055) / 1.055).powf(2.4),
        });
        let mix = |row: [f64; 3], of: [f64; 3]| row.iter().zip(of).map(|(a, b)| a * b).sum::<f64>();
        let light = eyes.map(|row| mix(row, light).clamp(0.0, 1.0));
        let curve = |part: f64| match part {
            part if part > 0.008856 => part.cbrt(),
            part => 7.787 * part + 16.0 / 116.0,
        };
        let x = curve(mix([0.4124, 0.3576, 0.1805], light) / 0.95047);
        let y = curve(mix([0.2126, 0.7152, 0.0722], light));
        let z = curve(mix([0.0193, 0.1192, 0.9505], light) / 1.08883);
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    #[test]
    fn parts_of_a_bar_are_told_apart_by_those_who_lack_a_colour() {
        // Any two may be neighbours: parts of nothing are left out.
        let parts = ["cpu", "block", "wait", "write", "gc", "over", "live"];
        let (light, dark) = STYLE.split_once("@media (prefers-color-scheme: dark)").unwrap();
        for (scheme, text) in [("light", light), ("dark", dark.split("* {").next().unwrap())] {
            let colours = colours(text);
            for (eyes, cones) in EYES {
                for (at, one) in parts.iter().enumerate() {
                    for other in &parts[..at] {
                        let [a, b] = [one, other].map(|name| seen(colours[*name], cones));
                        let apart = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
                        let apart = apart.sqrt();
                        assert!(apart >= 11.0, "{scheme}, {eyes}: {one}, {other}: {apart:.1}");
                    }
                }
            }
        }
    }

    #[test]
    fn text_can_be_read_on_what_it_stands_on_in_light_and_dark() {
        let pairs = [
            ("ink", "paper"),
            ("ink", "soft"),
            ("dim", "paper"),
            ("dim", "soft"),
            ("link", "paper"),
            ("link", "soft"),
            ("bad", "paper"),
            ("bad", "bad-soft"),
            ("dim", "bad-soft"),
            ("link", "bad-soft"),
            ("fine", "paper"),
            ("ink", "good-soft"),
            ("ink", "busy-soft"),
            ("ink", "bad-soft"),
            ("ink", "rest"),
            // Names in bars: those that are done, failed, far from others, running.
            ("on", "cpu"),
            ("on", "bad"),
            ("on-hot", "hot"),
            ("on-busy", "write"),
        ];
        let (light, dark) = STYLE.split_once("@media (prefers-color-scheme: dark)").unwrap();
        let dark = dark.split("* {").next().unwrap();
        for (part, text) in [("light", light), ("dark", dark)] {
            let colours = colours(text);
            for (front, back) in pairs {
                let ratio = contrast(colours[front], colours[back]);
                assert!(ratio >= 4.5, "{part}: {front} on {back} is {ratio:.2}");
            }
        }
        // What the style sheet says of those bars.
        assert!(STYLE.contains("svg .c-busy text.on { fill: var(--on-busy); }"));
        assert!(STYLE.contains("svg .c-hot text.on { fill: var(--on-hot); }"));
    }
}
