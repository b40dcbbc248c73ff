//! Bars: a measured value, what it has to reach, and whether it does.
//!
//! A bar that could not be measured is short. Never decides what is measured.

use std::fmt;

use anyhow::Result;

/// What a value has to reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Target {
    AtMost(f64),
    AtLeast(f64),
}

impl Target {
    fn is_met_by(self, value: f64) -> bool {
        match self {
            Target::AtMost(limit) => value <= limit,
            Target::AtLeast(limit) => value >= limit,
        }
    }

    fn limit(self) -> f64 {
        let (Target::AtMost(limit) | Target::AtLeast(limit)) = self;
        limit
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::AtMost(limit) => write!(f, "<= {limit}"),
            Target::AtLeast(limit) => write!(f, ">= {limit}"),
        }
    }
}

/// Displays as `bar NAME VALUE TARGET ok|short`, with `-` for a value that could not be measured.
#[derive(Debug, Clone)]
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) value: Option<f64>,
    pub(crate) target: Target,
}

impl Bar {
    pub(crate) fn is_met(&self) -> bool {
        self.value.is_some_and(|value| value.is_finite() && self.target.is_met_by(value))
    }
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = match self.value {
            Some(value) if value.is_finite() => format!("{value:.3}"),
            _ => "-".to_owned(),
        };
        let verdict = if self.is_met() { "ok" } else { "short" };
        write!(f, "bar {} {value} {} {verdict}", self.name, self.target.limit())
    }
}

/// All bars of one command, in the order they were measured. Displays one line each.
#[derive(Debug, Default)]
pub(crate) struct Bars(Vec<Bar>);

impl Bars {
    pub(crate) fn push(&mut self, bar: Bar) {
        self.0.push(bar);
    }

    /// False for no bars at all: a run that measured nothing proved nothing.
    pub(crate) fn all_met(&self) -> bool {
        !self.0.is_empty() && self.0.iter().all(Bar::is_met)
    }
}

impl fmt::Display for Bars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|bar| writeln!(f, "{bar}"))
    }
}

/// What one run of several parts has measured so far.
#[derive(Debug, Default)]
pub(crate) struct Bench {
    bars: Bars,
    problems: Vec<String>,
}

impl Bench {
    pub(crate) fn bar(&mut self, name: &str, value: Option<f64>, target: Target) {
        self.bars.push(Bar { name: name.to_owned(), value, target });
    }

    /// What came out, or the reason why nothing did.
    pub(crate) fn tried<T>(&mut self, what: &str, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.problems.push(format!("{what}: {error:#}"))).ok()
    }

    /// Why parts could not be measured.
    pub(crate) fn problems(&self) -> &[String] {
        &self.problems
    }

    pub(crate) fn into_bars(self) -> Bars {
        self.bars
    }
}

#[cfg(test)]
mod tests {
    use super::{Bar, Bars, Target};

    fn bar(value: impl Into<Option<f64>>, target: Target) -> Bar {
        Bar { name: "speed".to_owned(), value: value.into(), target }
    }

    #[test]
    fn a_bar_prints_its_name_value_target_and_verdict() {
        for (value, target, expected) in [
            (1.3, Target::AtMost(1.3), "bar speed 1.300 1.3 ok"),
            (1.30001, Target::AtMost(1.3), "bar speed 1.300 1.3 short"),
            (25.0, Target::AtLeast(25.0), "bar speed 25.000 25 ok"),
            (24.999, Target::AtLeast(25.0), "bar speed 24.999 25 short"),
            (0.04, Target::AtMost(0.1), "bar speed 0.040 0.1 ok"),
        ] {
            assert_eq!(bar(value, target).to_string(), expected);
        }
    }

    #[test]
    fn a_bar_that_was_not_measured_is_short() {
        for value in [None, Some(f64::NAN), Some(f64::INFINITY)] {
            assert_eq!(bar(value, Target::AtLeast(15.0)).to_string(), "bar speed - 15 short");
            assert!(!bar(value, Target::AtMost(15.0)).is_met());
        }
    }

    #[test]
    fn one_short_bar_fails_the_command() {
        let mut bars = Bars::default();
        assert!(!bars.all_met(), "no bars prove nothing");
        bars.push(bar(2.0, Target::AtLeast(1.0)));
        assert!(bars.all_met());
        bars.push(bar(2.0, Target::AtMost(1.0)));
        assert!(!bars.all_met());
        assert_eq!(bars.to_string(), "bar speed 2.000 1 ok\nbar speed 2.000 1 short\n");
    }
}
