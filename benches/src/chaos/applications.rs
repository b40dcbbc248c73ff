//! The applications that run while things happen: several at once, one after the other, each with an answer that is known.
//!
//! An application whose driver was killed runs again. One that does not end within its deadline hangs.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use fastrand::Rng;

use super::{
    cluster::{Cluster, DRIVERS},
    recovery::Recoveries,
    tally::{Failure, Tally},
};
use crate::{
    cluster::{driver::Driver, site::Programs},
    output::Output,
    process::{self, tail},
};

/// The jobs, as firesteel-bench-app calls them.
pub(crate) const JOBS: [&str; 5] = ["wordcount", "terasort", "pagerank", "repartition", "iterate"];
/// Inputs of each.
const VARIANTS: u64 = 3;
/// Executors of an application.
const EXECUTORS: usize = 3;
/// How often an application computes its answer.
const ROUNDS: usize = 3;

/// Calm, an application ends in some seconds. No fault lasts longer than ten, but they come one after the other, and a busy machine takes its time.
pub(crate) const DEADLINE: Duration = Duration::from_secs(240);

/// Silence is noticed soon, retries are not used up by faults on purpose, and blocks go to disks, where faults find them.
const SETTINGS: [&str; 12] = [
    "spark.executor.cores=1",
    "spark.cores.max=3",
    "spark.executor.memory=64m",
    "spark.memory.fraction=0.03",
    "spark.network.timeout=5s",
    "spark.executor.heartbeatInterval=1s",
    "spark.rpc.io.connectionCreationTimeout=5s",
    "spark.network.auth.rpcTimeout=5s",
    "spark.shuffle.io.retryWait=1s",
    "spark.locality.wait=500ms",
    "spark.task.maxFailures=50",
    "spark.stage.maxConsecutiveAttempts=50",
];

/// What an application computes, and how.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Choice {
    job: &'static str,
    variant: u64,
    speculation: bool,
}

impl std::fmt::Display for Choice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let speculation = if self.speculation { " with speculation" } else { "" };
        write!(f, "{}/{}{speculation}", self.job, self.variant)
    }
}

/// The applications of one slot, by the seed: every job comes once before any comes again.
#[derive(Debug)]
struct Choices {
    rng: Rng,
    next: Vec<&'static str>,
}

impl Choices {
    fn of(seed: u64, slot: usize) -> Self {
        Self { rng: Rng::with_seed(seed ^ (slot as u64 + 1) << 32), next: Vec::new() }
    }

    fn next(&mut self) -> Choice {
        if self.next.is_empty() {
            self.next = JOBS.to_vec();
            self.rng.shuffle(&mut self.next);
        }
        let job = self.next.pop().unwrap_or(JOBS[0]);
        Choice { job, variant: self.rng.u64(..VARIANTS), speculation: self.rng.bool() }
    }
}

/// Answers that loops in one thread gave.
#[derive(Debug)]
pub(crate) struct Answers {
    inputs: PathBuf,
    answers: BTreeMap<(&'static str, u64), String>,
}

impl Answers {
    /// Computes them, and writes inputs into the directory.
    pub(crate) fn prepare(programs: &Programs, inputs: &Path) -> Result<Self> {
        fs::create_dir_all(inputs)?;
        let mut answers = BTreeMap::new();
        for (job, variant) in JOBS.iter().flat_map(|job| (0..VARIANTS).map(move |v| (*job, v))) {
            let mut command = Command::new(&programs.app);
            command.args(["chaos", "expect", job, &variant.to_string()]).arg(inputs);
            let printed = process::run(&mut command, DEADLINE)?.stdout;
            let answer = Output::parse(&printed).result(job).map(str::to_owned)?;
            answers.insert((job, variant), answer);
        }
        Ok(Self { inputs: inputs.to_owned(), answers })
    }
}

/// How an application ended.
#[derive(Debug, PartialEq)]
enum Verdict {
    Right,
    /// Its driver was killed on purpose; nothing it had said before was wrong.
    Killed,
    Wrong(String),
    Failed(String),
}

/// Judges what an application printed, all its answers one by one.
fn judge(answers: &[String], expected: &str, killed: bool, ended: &(bool, String)) -> Verdict {
    let (success, stderr) = ended;
    if let Some(wrong) = answers.iter().find(|answer| *answer != expected) {
        return Verdict::Wrong(format!("`{wrong}`, not `{expected}`"));
    }
    match (killed, success) {
        _ if stderr.contains("a wrong result") => Verdict::Wrong(tail(stderr)),
        (true, _) => Verdict::Killed,
        (false, false) => Verdict::Failed(tail(stderr)),
        (false, true) if answers.len() == ROUNDS => Verdict::Right,
        (false, true) => Verdict::Wrong(format!("{} answers, not {ROUNDS}", answers.len())),
    }
}

/// An application that runs.
#[derive(Debug)]
struct Application {
    number: usize,
    choice: Choice,
    driver: Driver,
    started: Instant,
    own: PathBuf,
    id: Option<String>,
    answers: Vec<String>,
    killed: bool,
}

/// One after the other on the host of a driver.
#[derive(Debug)]
struct Slot {
    choices: Choices,
    again: Option<Choice>,
    runs: Option<Application>,
}

/// A driver that something can happen to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Running {
    pub(crate) slot: usize,
    pub(crate) pid: i32,
    pub(crate) what: String,
}

#[derive(Debug)]
pub(crate) struct Applications {
    answers: Answers,
    spoil: Option<String>,
    directory: PathBuf,
    started: usize,
    slots: Vec<Slot>,
}

impl Applications {
    /// Ready to start; of the job `spoil`, one answer will be wrong.
    pub(crate) fn new(
        answers: Answers,
        directory: &Path,
        seed: u64,
        spoil: Option<String>,
    ) -> Result<Self> {
        let directory = directory.join("applications");
        fs::create_dir_all(&directory)?;
        let slot = |slot| Slot { choices: Choices::of(seed, slot), again: None, runs: None };
        let slots = (0..DRIVERS).map(slot).collect();
        Ok(Self { answers, spoil, directory, started: 0, slots })
    }

    /// Starts an application where none runs.
    pub(crate) fn start(
        &mut self,
        cluster: &Cluster<'_>,
        recoveries: &mut Recoveries,
    ) -> Result<()> {
        for slot in 0..self.slots.len() {
            if self.slots[slot].runs.is_none() {
                let application = self.launch(slot, cluster)?;
                recoveries.started(application.number, EXECUTORS);
                self.slots[slot].runs = Some(application);
            }
        }
        Ok(())
    }

    fn launch(&mut self, slot: usize, cluster: &Cluster<'_>) -> Result<Application> {
        let choice = match self.slots[slot].again.take() {
            Some(choice) => choice,
            None => self.slots[slot].choices.next(),
        };
        self.started += 1;
        let own = self.directory.join(self.started.to_string());
        fs::create_dir(&own)?;
        let mut settings = SETTINGS.map(str::to_owned).to_vec();
        settings.push(format!("spark.speculation={}", choice.speculation));
        let paths = [&self.answers.inputs, &own].map(|path| path.display().to_string());
        let mut words =
            ["chaos", "run", choice.job, &choice.variant.to_string()].map(str::to_owned).to_vec();
        words.extend(paths);
        words.extend(self.spoil.iter().filter(|job| *job == choice.job).map(|_| "spoil".into()));
        let driver = Driver::start(cluster.submit(slot, &settings, &words))?;
        let (number, started) = (self.started, Instant::now());
        let (id, answers, killed) = (None, vec![], false);
        Ok(Application { number, choice, driver, started, own, id, answers, killed })
    }

    /// Drivers that run.
    pub(crate) fn running(&self) -> Vec<Running> {
        let running = self.slots.iter().enumerate().filter_map(|(slot, state)| {
            let app = state.runs.as_ref().filter(|app| !app.killed)?;
            let what = format!("application {} ({})", app.number, app.choice);
            Some(Running { slot, pid: app.driver.pid(), what })
        });
        running.collect()
    }

    /// The number of the application with this id.
    pub(crate) fn number_of(&self, id: &str) -> Option<usize> {
        let mut applications = self.slots.iter().filter_map(|slot| slot.runs.as_ref());
        let found = applications.find(|app| app.id.as_deref() == Some(id))?;
        Some(found.number)
    }

    /// The driver of a slot is killed on purpose: it runs again.
    pub(crate) fn killed(&mut self, slot: usize) {
        let slot = &mut self.slots[slot];
        if let Some(app) = &mut slot.runs {
            app.killed = true;
            slot.again = Some(app.choice.clone());
        }
    }

    /// Takes up what applications said, and those that ended or hang.
    pub(crate) fn poll(&mut self, tally: &mut Tally, recoveries: &mut Recoveries) -> Result<()> {
        for slot in &mut self.slots {
            let Some(app) = &mut slot.runs else { continue };
            let (lines, ended) = app.driver.poll()?;
            for (at, line) in lines {
                app.hear(&line, tally.since_start(at), recoveries);
            }
            let expected = &self.answers.answers[&(app.choice.job, app.choice.variant)];
            if let Some(ended) = ended {
                recoveries.ended(app.number, tally.since_start(Instant::now()));
                app.end(expected, &ended, &self.directory, tally)?;
                slot.runs = None;
            }
        }
        Ok(())
    }

    /// Kills the applications that are beyond their deadline; what they were.
    pub(crate) fn take_hanging(
        &mut self,
        now: Duration,
        recoveries: &mut Recoveries,
    ) -> Result<Vec<String>> {
        let mut hanging = Vec::new();
        for slot in &mut self.slots {
            let late = slot.runs.take_if(|app| app.started.elapsed() > DEADLINE);
            let Some(app) = late else { continue };
            recoveries.ended(app.number, now);
            let (number, choice, id, answers) =
                (app.number, &app.choice, &app.id, app.answers.len());
            let what =
                format!("application {number} ({choice}, {id:?}), which gave {answers} answers");
            hanging.push(what);
            let stderr = app.driver.kill()?;
            fs::write(self.directory.join(format!("{}.stderr", app.number)), stderr)?;
        }
        Ok(hanging)
    }

    pub(crate) fn are_over(&self) -> bool {
        self.slots.iter().all(|slot| slot.runs.is_none())
    }
}

impl Application {
    fn hear(&mut self, line: &str, at: Duration, recoveries: &mut Recoveries) {
        if let Some(id) = line.strip_prefix("APPLICATION ") {
            self.id = Some(id.to_owned());
        } else if line.starts_with("EXECUTOR added") {
            recoveries.added(self.number, at);
        } else if line.starts_with("EXECUTOR removed") {
            recoveries.removed(self.number);
        } else if let Some(answer) = line.strip_prefix("RESULT ") {
            let answer = answer.split_once(' ').map_or(answer, |(_, answer)| answer);
            self.answers.push(answer.to_owned());
        }
    }

    /// Counts how it ended. Its directory has to be empty, unless it had no time to see to that.
    fn end(
        &mut self,
        expected: &str,
        ended: &(bool, String),
        directory: &Path,
        tally: &mut Tally,
    ) -> Result<()> {
        let what = format!("application {} ({}, {:?})", self.number, self.choice, self.id);
        fs::write(directory.join(format!("{}.stderr", self.number)), &ended.1)?;
        let verdict = judge(&self.answers, expected, self.killed, ended);
        let seconds = self.started.elapsed().as_secs_f64();
        match verdict {
            Verdict::Right => tally.right(&format!("{what} right in {seconds:.1} s")),
            Verdict::Killed => tally.restarted(),
            Verdict::Wrong(why) => tally.fail(Failure::WrongAnswer, &format!("{what}: {why}")),
            Verdict::Failed(why) => tally.fail(Failure::FailedJob, &format!("{what}: {why}")),
        }
        let left = fs::read_dir(&self.own).context("the directory of an application")?.count();
        if left > 0 && !self.killed && ended.0 {
            let text = format!("{what} left {left} entries in {}", self.own.display());
            tally.fail(Failure::Leak, &text);
            return Ok(());
        }
        // Executors whose driver was killed may still write into it.
        let _ = fs::remove_dir_all(&self.own);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Choices, JOBS, ROUNDS, Verdict, judge};

    fn judged(answers: &[&str], killed: bool, success: bool, stderr: &str) -> Verdict {
        let answers: Vec<String> = answers.iter().map(|answer| (*answer).to_owned()).collect();
        judge(&answers, "n=3", killed, &(success, stderr.to_owned()))
    }

    #[test]
    fn only_an_application_with_all_its_answers_is_right() {
        assert_eq!(judged(&["n=3"; ROUNDS], false, true, ""), Verdict::Right);
        assert!(matches!(judged(&["n=3"; ROUNDS - 1], false, true, ""), Verdict::Wrong(_)));
        assert!(matches!(judged(&["n=3", "n=3", "n=4"], false, true, ""), Verdict::Wrong(_)));
        assert_eq!(judged(&["n=3"], false, false, "why"), Verdict::Failed("why".to_owned()));
    }

    #[test]
    fn a_killed_driver_excuses_missing_answers_and_no_wrong_one() {
        assert_eq!(judged(&["n=3"], true, false, ""), Verdict::Killed);
        assert!(matches!(judged(&["n=4"], true, false, ""), Verdict::Wrong(_)));
        assert!(matches!(judged(&[], true, false, "a wrong result: 1"), Verdict::Wrong(_)));
    }

    #[test]
    fn applications_follow_from_the_seed_and_every_job_comes_in_turn() {
        let choices = |seed, slot| {
            let mut choices = Choices::of(seed, slot);
            (0..20).map(|_| choices.next()).collect::<Vec<_>>()
        };
        assert_eq!(choices(1, 0), choices(1, 0));
        assert_ne!(choices(1, 0), choices(1, 1));
        let mut first: Vec<_> = choices(1, 0)[..JOBS.len()].iter().map(|one| one.job).collect();
        first.sort_unstable();
        let mut all = JOBS;
        all.sort_unstable();
        assert_eq!(first, all);
    }
}
