//! Writes what a master decided, and only then lets out what follows from it.
//!
//! ```text
//!   core ── effects of an event ──► outbox: writes the changes of all that waits, in one go
//!    ▲                                 │        └─ failed: nothing of it is sent, the master is deposed
//!    └── Elected, LeaseRenewed, ───────┤
//!        Deposed                       └──► messages and replies, in order
//! ```
//!
//! One thread owns the store: it also asks it who leads, and renews that. What a master decided while it led, and what
//! has not been written when it does not lead any more, never was.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use firesteel_standalone_core::Term;
use firesteel_standalone_core::master::{MasterEffect, Records};
use firesteel_standalone_core::messages::{MasterReply, Stamped};
use firesteel_types::Tick;

use super::super::shell::{Answer, Shell, note};
use super::{Codec, Elected, Recovery, RecoveryError};

/// So many events are written at once.
const BATCH: usize = 256;
/// How often a master that shares its store asks whether it leads.
const ASK: Duration = Duration::from_millis(250);
/// How long it waits after the store failed: twice as long each time.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The effects of one event.
pub(crate) struct Job {
    pub(crate) effects: Vec<MasterEffect>,
    /// Who waits for a reply.
    pub(crate) answer: Option<Answer>,
    /// Which leadership decided it; `None`: it did not lead.
    pub(crate) led: Option<u64>,
}

enum Message {
    Job(Job),
    Stop,
}

/// The way to the thread.
pub(crate) struct Outbox {
    messages: Sender<Message>,
}

/// The thread, to wait for.
#[derive(Debug)]
pub(crate) struct Running(JoinHandle<()>);

impl Running {
    pub(crate) fn join(self) {
        let _ = self.0.join();
    }
}

/// The thread before it runs.
pub(crate) struct Idle {
    hears: Receiver<Message>,
    store: Box<dyn Recovery>,
    codec: Codec,
    /// It leads already.
    elected: Option<Begun>,
}

/// What the store said, and when it was asked.
struct Begun {
    elected: Elected,
    asked: Instant,
}

impl Outbox {
    /// With a store that no other master shares, what is wrong with it is known at once, and is an error.
    pub(crate) fn new(
        mut store: Box<dyn Recovery>,
        codec: Codec,
    ) -> Result<(Self, Idle), RecoveryError> {
        let asked = Instant::now();
        let elected = match store.has_rivals() {
            true => None,
            false => store.try_lead()?,
        };
        if let Some(elected) = &elected {
            codec.records(elected.entries.clone())?;
        }
        let elected = elected.map(|elected| Begun { elected, asked });
        let (messages, hears) = channel();
        Ok((Self { messages }, Idle { hears, store, codec, elected }))
    }

    pub(crate) fn send(&self, job: Job) {
        let _ = self.messages.send(Message::Job(job));
    }

    pub(crate) fn stop(&self) {
        let _ = self.messages.send(Message::Stop);
    }
}

impl Idle {
    pub(crate) fn run(self, shell: Arc<Shell>) -> std::io::Result<Running> {
        let Idle { hears, store, codec, elected } = self;
        let pause = FIRST_PAUSE;
        let mut writer =
            Writer { shell, store, codec, led: None, count: 0, pause, next: Instant::now() };
        let thread = std::thread::Builder::new().name("firesteel-recovery".into());
        let thread = thread.spawn(move || {
            if let Some(begun) = elected {
                writer.begin(begun);
            }
            writer.run(&hears);
        })?;
        Ok(Running(thread))
    }
}

/// One leadership.
struct Led {
    number: u64,
    until: Option<Instant>,
}

struct Writer {
    shell: Arc<Shell>,
    store: Box<dyn Recovery>,
    codec: Codec,
    led: Option<Led>,
    /// How often it has led.
    count: u64,
    /// How long it waits after the next failure.
    pause: Duration,
    /// When it asks its store next.
    next: Instant,
}

impl Writer {
    fn run(&mut self, hears: &Receiver<Message>) {
        loop {
            let wait = self.next.saturating_duration_since(Instant::now());
            match hears.recv_timeout(wait) {
                Ok(Message::Job(job)) => {
                    let mut jobs = vec![job];
                    while jobs.len() < BATCH {
                        match hears.try_recv() {
                            Ok(Message::Job(job)) => jobs.push(job),
                            Ok(Message::Stop) => {
                                self.carry_out(jobs);
                                return self.store.resign();
                            }
                            Err(_) => break,
                        }
                    }
                    self.carry_out(jobs);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => {
                    return self.store.resign();
                }
            }
            if Instant::now() >= self.next {
                self.ask_store();
            }
        }
    }

    fn ask_store(&mut self) {
        let asked = Instant::now();
        if self.led.is_some() {
            return match self.store.renew() {
                Ok(lease) => self.renewed(asked, lease),
                Err(error) => self.depose(&error.to_string()),
            };
        }
        match self.store.try_lead() {
            Ok(Some(elected)) => self.begin(Begun { elected, asked }),
            Ok(None) => {
                self.pause = FIRST_PAUSE;
                self.next = asked + ASK;
            }
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&mut self, error: &RecoveryError) {
        tracing::warn!(again_in = ?self.pause, "this master cannot lead: {error}");
        self.store.resign();
        self.next = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    fn begin(&mut self, begun: Begun) {
        let Begun { elected, asked } = begun;
        let records: Records = match self.codec.records(elected.entries) {
            Ok(records) => records,
            Err(error) => return self.failed(&error),
        };
        self.count += 1;
        self.led = Some(Led { number: self.count, until: None });
        self.renewed(asked, elected.lease);
        let lease = elected.lease.map(|lease| self.tick_after(asked, lease));
        self.shell.elected(records, lease, self.count);
    }

    /// A moment as the core counts them.
    fn tick_after(&self, asked: Instant, lease: Duration) -> Tick {
        let left = lease.saturating_sub(asked.elapsed());
        self.shell.now().plus_ms(left.as_millis() as u64)
    }

    fn renewed(&mut self, asked: Instant, lease: Option<Duration>) {
        let Some(led) = &mut self.led else { return };
        led.until = lease.map(|lease| asked + lease);
        self.next = asked + lease.map_or(LONGEST_PAUSE, |lease| lease / 4);
        if let Some(lease) = lease {
            self.shell.renewed(self.tick_after(asked, lease));
        }
    }

    fn depose(&mut self, reason: &str) {
        if self.led.take().is_some() {
            self.shell.deposed(reason.to_owned());
        }
        self.store.resign();
        self.next = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    /// In order: what was decided by a leader is written first, and what is void is not done.
    fn carry_out(&mut self, jobs: Vec<Job>) {
        let mut decided = Vec::new();
        for job in jobs {
            match job.led {
                Some(_) => decided.push(job),
                None => {
                    self.write(std::mem::take(&mut decided));
                    self.stand_by(job);
                }
            }
        }
        self.write(decided);
    }

    /// Of a master that does not lead: there is nothing to write.
    fn stand_by(&mut self, job: Job) {
        let steps_down =
            job.effects.iter().any(|effect| matches!(effect, MasterEffect::StepDown { .. }));
        if steps_down && self.led.take().is_some() {
            self.store.resign();
            self.next = Instant::now() + ASK;
        }
        self.shell.release(job.effects, job.answer);
    }

    fn write(&mut self, mut jobs: Vec<Job>) {
        let number = self.led.as_ref().map(|led| led.number);
        jobs = jobs.into_iter().filter_map(|job| valid(job, number)).collect();
        let mut changes = Vec::new();
        for job in &mut jobs {
            if let Some(MasterEffect::Persist(persist)) = job.effects.first_mut() {
                changes.append(persist);
            }
        }
        if !changes.is_empty() {
            changes.iter().for_each(note);
            let entries = self.codec.entries(changes);
            if let Err(error) = self.store.write(&entries) {
                self.depose(&error.to_string());
                return jobs.into_iter().for_each(refuse);
            }
            self.pause = FIRST_PAUSE;
        }
        // Whatever held this process up meanwhile, another master may lead by now.
        if self.led.as_ref().is_some_and(|led| led.until.is_some_and(|at| Instant::now() >= at)) {
            self.depose("its lease ran out before the store answered");
            return jobs.into_iter().for_each(refuse);
        }
        for job in jobs {
            self.shell.release(job.effects, job.answer);
        }
    }
}

/// What a leadership decided that is over never was.
fn valid(job: Job, number: Option<u64>) -> Option<Job> {
    if job.led == number {
        return Some(job);
    }
    refuse(job);
    None
}

fn refuse(job: Job) {
    if let Some(answer) = job.answer {
        answer(Stamped { term: Term(0), message: MasterReply::MasterInStandby });
    }
}
