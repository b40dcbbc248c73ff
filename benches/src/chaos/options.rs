//! What `./chaos` was asked for, or what is wrong with it.

use std::str::FromStr;

use super::applications::JOBS;

/// How long, and what the rest follows from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) minutes: u64,
    pub(crate) seed: u64,
    /// A job of which one answer is printed wrong, to see that it is noticed.
    pub(crate) spoil: Option<String>,
    /// Only the schedule is printed.
    pub(crate) only_schedule: bool,
}

const MINUTES: u64 = 5;

impl Options {
    /// Makes sense of the words after `./chaos`; `random` is the seed if none is given.
    pub(crate) fn parse(words: &[&str], random: u64) -> Result<Self, String> {
        let mut options =
            Self { minutes: MINUTES, seed: random, spoil: None, only_schedule: false };
        let mut words = words.iter().copied();
        while let Some(flag) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("`{flag}` wants a value"));
            match flag {
                "--minutes" => options.minutes = number(flag, value()?, 1..=1440)?,
                "--seed" => options.seed = number(flag, value()?, 0..=u64::MAX)?,
                "--spoil" => options.spoil = Some(job(value()?)?),
                "--schedule" => options.only_schedule = true,
                other => return Err(format!("`{other}` is no flag of ./chaos")),
            }
        }
        Ok(options)
    }
}

fn number<T: FromStr + PartialOrd + std::fmt::Display>(
    flag: &str,
    word: &str,
    allowed: std::ops::RangeInclusive<T>,
) -> Result<T, String> {
    let number = word.parse().ok().filter(|number| allowed.contains(number));
    let (least, most) = (allowed.start(), allowed.end());
    number.ok_or_else(|| format!("{flag} wants a number from {least} to {most}, not `{word}`"))
}

fn job(word: &str) -> Result<String, String> {
    let known = JOBS.contains(&word).then(|| word.to_owned());
    known.ok_or_else(|| format!("--spoil wants one of {}, not `{word}`", JOBS.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::Options;

    fn parsed(line: &str) -> Result<Options, String> {
        Options::parse(&line.split_whitespace().collect::<Vec<_>>(), 99)
    }

    #[test]
    fn a_run_has_five_minutes_and_any_seed_unless_told_otherwise() {
        let options = Options { minutes: 5, seed: 99, spoil: None, only_schedule: false };
        assert_eq!(parsed(""), Ok(options));
        let spoil = Some("pagerank".to_owned());
        let options = Options { minutes: 20, seed: 7, spoil, only_schedule: true };
        assert_eq!(parsed("--seed 7 --minutes 20 --spoil pagerank --schedule"), Ok(options));
    }

    #[test]
    fn wrong_arguments_are_refused_with_what_is_wanted() {
        for (line, words) in [
            ("--minutes", "`--minutes` wants a value"),
            ("--minutes 0", "from 1 to 1440, not `0`"),
            ("--seed x", "not `x`"),
            ("--spoil lunch", "wordcount, terasort, pagerank, repartition, iterate"),
            ("7", "`7` is no flag"),
        ] {
            let problem = parsed(line).unwrap_err();
            assert!(problem.contains(words), "{line}: {problem}");
        }
    }
}
