//! A contest: one job on several sides in turns, until each has run as often as was asked for.
//!
//! A side that fails is out, with its reason; the others go on. Results have to agree: a fast wrong answer is no answer.

use anyhow::Result;

use crate::{
    job::{Job, Sample, Side},
    output::agree,
    table::Spread,
};

/// The runs of one job on every side.
#[derive(Debug)]
pub(crate) struct Contest {
    pub(crate) job: Job,
    pub(crate) runs: Vec<Runs>,
    /// Why sides are out, in words for people.
    pub(crate) problems: Vec<String>,
}

/// The runs of one side.
#[derive(Debug)]
pub(crate) struct Runs {
    pub(crate) side: &'static str,
    pub(crate) samples: Vec<Sample>,
}

impl Runs {
    /// The spread of what `value` takes from each run; none if there was none.
    pub(crate) fn spread(&self, value: fn(&Sample) -> f64) -> Option<Spread> {
        Spread::of(self.samples.iter().map(value))
    }
}

impl Contest {
    /// Runs `job` in turns on every side that has a program for it, `rounds` times.
    pub(crate) fn hold(job: &Job, sides: &[&Side<'_>], rounds: usize) -> Self {
        Self::take_turns(job, sides, rounds, |side| side.run(job))
    }

    fn take_turns(
        job: &Job,
        sides: &[&Side<'_>],
        rounds: usize,
        mut run: impl FnMut(&Side<'_>) -> Result<Sample>,
    ) -> Self {
        let mut contest = Self::without_runs(job, sides);
        let mut racing: Vec<_> = sides.iter().filter(|side| side.runs(job)).enumerate().collect();
        for round in 1..=rounds {
            racing.retain(|(index, side)| match run(side) {
                Ok(sample) => {
                    report(job, side, round, rounds, &sample);
                    contest.runs[*index].samples.push(sample);
                    true
                }
                Err(error) => {
                    contest.problems.push(format!("{job}, {}: {error:#}", side.name()));
                    false
                }
            });
        }
        contest.reject_disagreement();
        contest
    }

    /// The contest before its first round.
    pub(crate) fn without_runs(job: &Job, sides: &[&Side<'_>]) -> Self {
        let runs = sides.iter().filter(|side| side.runs(job));
        let runs = runs.map(|side| Runs { side: side.name(), samples: vec![] }).collect();
        Self { job: job.clone(), runs, problems: vec![] }
    }

    /// The runs of the side called `name`, if it takes part.
    pub(crate) fn of(&self, name: &str) -> Option<&Runs> {
        self.runs.iter().find(|runs| runs.side == name)
    }

    /// The median of what `value` takes from each run of the side called `name`.
    pub(crate) fn median(&self, name: &str, value: fn(&Sample) -> f64) -> Option<f64> {
        Some(self.of(name)?.spread(value)?.median)
    }

    /// Without agreement, Firesteel's runs do not count.
    fn reject_disagreement(&mut self) {
        let mut all = self.runs.iter().flat_map(|runs| &runs.samples).map(|sample| &sample.result);
        let first = all.next().cloned().unwrap_or_default();
        if let Some(different) = all.find(|result| !agree(&first, result)) {
            let job = &self.job;
            self.problems.push(format!("{job}: results differ: `{first}`, `{different}`"));
            self.runs
                .iter_mut()
                .filter(|runs| runs.side.starts_with(Side::OURS))
                .for_each(Runs::clear);
        }
    }
}

impl Runs {
    fn clear(&mut self) {
        self.samples.clear();
    }
}

fn report(job: &Job, side: &Side<'_>, round: usize, rounds: usize, sample: &Sample) {
    let (seconds, megabytes) = (sample.seconds, sample.megabytes());
    eprintln!("{job} {round}/{rounds} {}: {seconds:.4} s, {megabytes:.1} MB", side.name());
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{Contest, Job, Runs, Sample, Side};

    fn runs(side: &'static str, results: &[&str]) -> Runs {
        let sample = |result: &&str| Sample {
            seconds: 1.0,
            peak_rss_bytes: 1,
            result: (*result).to_owned(),
        };
        Runs { side, samples: results.iter().map(sample).collect() }
    }

    fn judged(runs: Vec<Runs>) -> Contest {
        let mut contest = Contest { job: Job::Tasks, runs, problems: vec![] };
        contest.reject_disagreement();
        contest
    }

    #[test]
    fn runs_with_another_result_do_not_count() {
        for (spark, limit, ours) in [("1", "1", "2"), ("1", "2", "1")] {
            let contest = judged(vec![
                runs("Spark", &[spark, spark]),
                runs("limit", &[limit]),
                runs("Firesteel", &["1", ours]),
            ]);
            assert_eq!(contest.problems, ["tasks10000: results differ: `1`, `2`"]);
            assert_eq!(contest.median("Firesteel", |sample| sample.seconds), None);
            assert_eq!(contest.median("Spark", |sample| sample.seconds), Some(1.0));
        }
    }

    #[test]
    fn runs_that_agree_count() {
        let contest = judged(vec![runs("Spark", &["1"]), runs("Firesteel", &["1", "1"])]);
        assert!(contest.problems.is_empty());
        assert_eq!(contest.of("Firesteel").unwrap().samples.len(), 2);
        assert!(contest.of("limit").is_none());
    }

    #[test]
    fn a_side_that_fails_fails_once_and_the_others_go_on() {
        let app = PathBuf::from("no-such-app");
        let sides = [Side::NoSpark, Side::Firesteel(app)];
        let contest = Contest::hold(&Job::Tasks, &sides.each_ref(), 3);
        assert_eq!(contest.problems[0], "tasks10000, Spark: could not be set up");
        assert!(contest.problems[1].starts_with("tasks10000, Firesteel: cannot start no-such-app"));
        assert_eq!(contest.problems.len(), 2);
    }

    #[test]
    fn sides_take_turns_and_one_without_a_program_for_the_job_takes_no_part() {
        let path = || PathBuf::from("no-such-program");
        let sides = [Side::NoSpark, Side::Limit(path()), Side::Firesteel(path())];
        let mut turns = vec![];
        let job = Job::Join { rows: 1, partitions: 1 };
        let contest = Contest::take_turns(&job, &sides.each_ref(), 2, |side| {
            turns.push(side.name());
            Ok(Sample { seconds: turns.len() as f64, peak_rss_bytes: 1, result: String::new() })
        });
        assert_eq!(turns, ["Spark", "Firesteel", "Spark", "Firesteel"]);
        assert_eq!(contest.runs.len(), 2);
        assert_eq!(contest.median("Firesteel", |sample| sample.seconds), Some(3.0));
        assert!(contest.problems.is_empty());
    }
}
