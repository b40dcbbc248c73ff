//! `./chaos`: a standalone cluster of real processes, applications with known answers, and faults, random by a seed.
//!
//! ```text
//! options ── schedule            what happens when, from the seed alone
//! machine ── disks, clock        what the cluster stands on; networks are those of `./bench cluster`
//! cluster                        master and workers, started again when they were killed
//! applications                   several at once, restarted when their driver was killed, judged when they end
//! strike                         brings faults about and undoes them
//! recovery, leaks, tally         what is measured, what is left, what that makes of the bars
//! ```
//!
//! After the faults everything is healed; then all applications have to end, one more of each slot has to be right, and
//! nothing may be left of any of them.

mod applications;
pub(crate) mod clock;
mod cluster;
mod disks;
mod leaks;
mod leftovers;
mod machine;
mod options;
mod recovery;
mod schedule;
mod strike;
mod tally;

use std::{
    collections::VecDeque,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

use crate::{
    bars::Bars,
    cache,
    cluster::{site::Programs, wait::until},
};
use applications::{Answers, Applications};
use cluster::Cluster;
use leaks::{Baseline, Memory};
use machine::Machine;
pub(crate) use options::Options;
use recovery::Recoveries;
use schedule::{Planned, schedule};
use strike::{Faults, Scene};
use tally::{Failure, Tally};

/// How often to look at everything.
const LOOK: Duration = Duration::from_millis(10);
/// How often to look at memory.
const MEMORY: Duration = Duration::from_secs(3);
/// A fault that finds nobody to strike tries again for so long.
const PATIENCE_MS: u64 = 2000;
/// How long a healed cluster may take to be whole, and an ended application to leave nothing behind.
const SETTLING: Duration = Duration::from_secs(45);

/// Runs it, and prints what happens; the bars are for the caller to print.
pub(crate) fn run(options: &Options) -> Result<Bars> {
    let programs = Programs::find()?;
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, interrupted.clone())?;
    }
    leftovers::remove()?;
    let directory = directory()?;
    println!(
        "seed {}, {} minute(s), logs in {}",
        options.seed,
        options.minutes,
        directory.display()
    );
    let machine = Machine::make(&directory)?;
    for note in machine.notes() {
        println!("note: {note}");
    }
    let planned = schedule(options.seed, options.minutes, &machine.kinds());
    write_schedule(&directory, &planned)?;
    let result = Run::start(options, &programs, machine, &directory, interrupted)
        .and_then(|run| run.finish(options, planned));
    // A bar that is short keeps the logs. So does an error, which nobody would understand without them.
    if result.as_ref().is_ok_and(Bars::all_met) {
        fs::remove_dir_all(&directory)?;
    } else {
        println!("logs: {}", directory.display());
    }
    result
}

/// Prints the faults that a run would have, if everything can run here.
pub(crate) fn print_schedule(options: &Options) {
    for planned in schedule(options.seed, options.minutes, &schedule::Kind::ALL) {
        println!("{planned}");
    }
}

fn directory() -> Result<PathBuf> {
    let directory = cache::directory("chaos")?.join(leftovers::directory(std::process::id()));
    for name in ["drivers", "temporary"] {
        fs::create_dir_all(directory.join(name))?;
    }
    Ok(directory)
}

fn write_schedule(directory: &Path, planned: &[Planned]) -> Result<()> {
    let lines: Vec<String> = planned.iter().map(Planned::to_string).collect();
    let path = directory.join("schedule.txt");
    println!("{} faults are planned: {}", planned.len(), path.display());
    Ok(fs::write(path, lines.join("\n") + "\n")?)
}

/// A run that is under way. Applications end before the cluster does.
struct Run<'a> {
    applications: Applications,
    cluster: Cluster<'a>,
    faults: Faults,
    recoveries: Recoveries,
    memory: Memory,
    baseline: Baseline,
    tally: Tally,
    interrupted: Arc<AtomicBool>,
    sampled: Instant,
}

impl<'a> Run<'a> {
    fn start(
        options: &Options,
        programs: &'a Programs,
        machine: Machine,
        directory: &Path,
        interrupted: Arc<AtomicBool>,
    ) -> Result<Self> {
        let answers = Answers::prepare(programs, &directory.join("inputs"))?;
        let mark = leftovers::mark(std::process::id());
        let cluster = Cluster::start(programs, machine, directory, &mark)?;
        let baseline = Baseline::of(&cluster);
        let (seed, spoil) = (options.seed, options.spoil.clone());
        Ok(Self {
            applications: Applications::new(answers, directory, seed, spoil)?,
            cluster,
            faults: Faults::default(),
            recoveries: Recoveries::default(),
            memory: Memory::default(),
            baseline,
            tally: Tally::new(seed, directory.to_owned()),
            interrupted,
            sampled: Instant::now(),
        })
    }

    fn finish(mut self, options: &Options, planned: Vec<Planned>) -> Result<Bars> {
        self.tally.begin();
        self.strike_all(planned, Duration::from_secs(options.minutes * 60))?;
        self.heal()?;
        self.look_for_leaks();
        let growing = self.memory.report();
        growing.iter().for_each(|text| self.tally.fail(Failure::Leak, text));
        let impossible = self.cluster.machine().impossible().clone();
        for process in self.cluster.stop() {
            let text = format!("left running: {} ({})", process.command, process.pid);
            self.tally.fail(Failure::Leak, &text);
        }
        self.tally.report(&self.recoveries, &impossible);
        Ok(self.tally.bars(options.minutes, &self.recoveries, &impossible))
    }

    /// Brings all faults about, while applications come and go.
    fn strike_all(&mut self, planned: Vec<Planned>, length: Duration) -> Result<()> {
        let mut planned = VecDeque::from(planned);
        while self.now() < length {
            self.applications.start(&self.cluster, &mut self.recoveries)?;
            self.look()?;
            let now_ms = self.now().as_millis() as u64;
            if let Some(next) = planned.front().filter(|next| next.at_ms <= now_ms).cloned()
                && (self.strike(&next)? || self.give_up(&next, now_ms))
            {
                planned.pop_front();
            }
        }
        Ok(())
    }

    fn now(&self) -> Duration {
        self.tally.since_start(Instant::now())
    }

    /// Tries to bring a fault about.
    fn strike(&mut self, planned: &Planned) -> Result<bool> {
        let now = self.now();
        let (cluster, applications) = (&mut self.cluster, &mut self.applications);
        let mut scene = Scene { cluster, applications, recoveries: &mut self.recoveries, now };
        let struck = self.faults.strike(planned, &mut scene)?;
        if let Some(what) = &struck {
            self.tally.fired(planned.kind, what);
        }
        Ok(struck.is_some())
    }

    fn give_up(&mut self, planned: &Planned, now_ms: u64) -> bool {
        let late = now_ms > planned.at_ms + PATIENCE_MS;
        if late {
            self.tally.missed(planned.kind, "nobody is there whom it could strike");
        }
        late
    }

    /// One look at everything but the schedule.
    fn look(&mut self) -> Result<()> {
        if self.interrupted.load(Ordering::Relaxed) {
            bail!("interrupted; everything is cleaned up");
        }
        self.faults.undo(&self.cluster, false)?;
        if self.faults.disturb() {
            self.recoveries.disturbed();
        }
        for (host, status) in self.cluster.supervise(Instant::now())? {
            let text = format!("{} ended by itself: {status}", cluster::host_name(host));
            self.tally.fail(Failure::Crash, &text);
        }
        self.applications.poll(&mut self.tally, &mut self.recoveries)?;
        let now = self.now();
        for what in self.applications.take_hanging(now, &mut self.recoveries)? {
            let page =
                self.cluster.page().map_or_else(|error| error.to_string(), |page| page.to_string());
            let text = format!("{what} did not end; the master says: {page}");
            self.tally.fail(Failure::Hang, &text);
        }
        if self.sampled.elapsed() >= MEMORY {
            self.memory.sample(&self.cluster);
            self.sampled = Instant::now();
        }
        thread::sleep(LOOK);
        Ok(())
    }

    /// Ends all faults. Then everything has to end, and the cluster has to be as it was.
    fn heal(&mut self) -> Result<()> {
        self.faults.undo(&self.cluster, true)?;
        self.tally.say("healed: all applications have to end, and one more each");
        self.until_over()?;
        let healed = Instant::now();
        while !self.cluster.is_whole() {
            self.look()?;
            if healed.elapsed() > SETTLING {
                let page = self.cluster.page()?;
                let text = format!("not all workers came back; the master says: {page}");
                self.tally.fail(Failure::Hang, &text);
                break;
            }
        }
        self.applications.start(&self.cluster, &mut self.recoveries)?;
        self.until_over()
    }

    fn until_over(&mut self) -> Result<()> {
        while !self.applications.are_over() {
            self.look()?;
        }
        Ok(())
    }

    fn look_for_leaks(&mut self) {
        let find = || leaks::find(&self.cluster, &self.baseline);
        let _ = until("an end without leaks", SETTLING, || {
            thread::sleep(LOOK * 20);
            find().is_empty().then_some(())
        });
        for leak in find() {
            self.tally.fail(Failure::Leak, &leak);
        }
    }
}
