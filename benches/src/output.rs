//! What a measured program printed: `BENCH name seconds s` and `RESULT name value`, among anything else.

use anyhow::{Context, Result};

/// Relative difference that two ways to sum the same floats may end up with.
const TOLERANCE: f64 = 1e-5;

/// Times and results in the order they were printed.
#[derive(Debug, Default)]
pub(crate) struct Output {
    times: Vec<(String, f64)>,
    results: Vec<(String, String)>,
}

impl Output {
    pub(crate) fn parse(stdout: &str) -> Self {
        let mut output = Self::default();
        for line in stdout.lines() {
            if let Some(time) = parse_time(line) {
                output.times.push(time);
            } else if let Some((name, value)) =
                line.strip_prefix("RESULT ").and_then(|rest| rest.split_once(' '))
            {
                output.results.push((name.to_owned(), value.to_owned()));
            }
        }
        output
    }

    /// The shortest time of `name`, or of `name runN` with N above `cold_runs`.
    pub(crate) fn best_seconds(&self, name: &str, cold_runs: usize) -> Result<f64> {
        self.warm_seconds(name, cold_runs)
            .min_by(f64::total_cmp)
            .with_context(|| format!("it printed no line `BENCH {name} SECONDS s`"))
    }

    /// The times of `name`, or of `name runN` with N above `cold_runs`, in the order they were printed.
    pub(crate) fn warm_seconds(&self, name: &str, cold_runs: usize) -> impl Iterator<Item = f64> {
        let counts = move |timed: &str| match timed.strip_prefix(name)?.strip_prefix(" run") {
            None => (timed == name).then_some(()),
            Some(run) => run.parse().is_ok_and(|run: usize| run > cold_runs).then_some(()),
        };
        let warm = self.times.iter().filter(move |(timed, _)| counts(timed).is_some());
        warm.map(|(_, seconds)| *seconds)
    }

    /// The last result called `name`.
    pub(crate) fn result(&self, name: &str) -> Result<&str> {
        let last = self.results.iter().rev().find(|(called, _)| called == name);
        last.map(|(_, value)| value.as_str())
            .with_context(|| format!("it printed no line `RESULT {name} VALUE`"))
    }
}

fn parse_time(line: &str) -> Option<(String, f64)> {
    let (name, seconds) = line.strip_prefix("BENCH ")?.strip_suffix(" s")?.rsplit_once(' ')?;
    let seconds: f64 = seconds.parse().ok()?;
    (seconds.is_finite() && seconds > 0.0).then(|| (name.to_owned(), seconds))
}

/// Are two results the same, up to rounding of the numbers after `=` that have a fraction?
pub(crate) fn agree(left: &str, right: &str) -> bool {
    let (left, right) = (left.split_whitespace(), right.split_whitespace());
    left.clone().count() == right.clone().count() && left.zip(right).all(|(l, r)| words_agree(l, r))
}

fn words_agree(left: &str, right: &str) -> bool {
    let numbers = |word: &str| {
        let (name, number) = word.split_once('=').filter(|(_, number)| number.contains('.'))?;
        Some((name.to_owned(), number.parse::<f64>().ok()?))
    };
    match (numbers(left), numbers(right)) {
        (Some((a, x)), Some((b, y))) => a == b && (x - y).abs() <= TOLERANCE * x.abs().max(y.abs()),
        _ => left == right,
    }
}

#[cfg(test)]
mod tests {
    use super::{Output, agree};

    #[test]
    fn the_best_warm_run_counts() {
        let output = Output::parse(
            "noise\nBENCH tasks run1 0.5 s\nBENCH tasks run2 3.5 s\nBENCH tasks run3 1.25 s\nBENCH rank 9 s\n",
        );
        assert_eq!(output.best_seconds("tasks", 1).unwrap(), 1.25);
        assert_eq!(output.best_seconds("tasks", 0).unwrap(), 0.5);
        assert_eq!(output.best_seconds("rank", 0).unwrap(), 9.0);
    }

    #[test]
    fn a_missing_or_broken_time_is_an_error() {
        for printed in
            ["", "BENCH other 1 s", "BENCH rank x s", "BENCH rank 0.000 s", "BENCH rank 1"]
        {
            let error = Output::parse(printed).best_seconds("rank", 0).unwrap_err().to_string();
            assert_eq!(error, "it printed no line `BENCH rank SECONDS s`", "{printed}");
        }
        let only_cold = Output::parse("BENCH tasks run1 0.5 s");
        only_cold.best_seconds("tasks", 1).unwrap_err();
    }

    #[test]
    fn a_result_is_the_rest_of_its_line() {
        let output = Output::parse("RESULT rank 1=2.5 2=1.5\nRESULT sum 7\n");
        assert_eq!(output.result("rank").unwrap(), "1=2.5 2=1.5");
        output.result("longs").unwrap_err();
    }

    #[test]
    fn results_agree_up_to_rounding_and_no_further() {
        assert!(agree("1=2.500001 2=1.5", "1=2.500000 2=1.5"));
        assert!(agree("1000", "1000"));
        for (left, right) in
            [("1000", "1001"), ("1=2.5", "2=2.5"), ("1=2.5", "1=2.6"), ("1=2.5", "")]
        {
            assert!(!agree(left, right), "{left} and {right}");
        }
    }

    #[test]
    fn whole_numbers_agree_to_the_last_digit() {
        assert!(agree("n=9007199254740993 sum=-1", "n=9007199254740993 sum=-1"));
        for (left, right) in
            [("n=9007199254740993", "n=9007199254740992"), ("the=1000000", "the=1000001")]
        {
            assert!(!agree(left, right), "{left} and {right}");
        }
    }
}
