//! Writes what a master decided, and only then lets out what follows from it.
//!
//! ```text
//!   core ── effects of an event ──► outbox: writes the changes of all that waits, in one go
//!    ▲                                 │        └─ failed: nothing of it is sent, the master is deposed
//!    └── Elected, LeaseRenewed, ───────┤
//!        Deposed                       └──► messages and replies, in order
//! ```
//!
//! One thread owns the store: it also asks it for the leader, and renews a lease. What a master decided while it led, and what
//! has not been written when it does not lead any more, never was.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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
/// So many may wait: a store that is so far behind is as good as none.
const MOST_WAITING: usize = 10_000;
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
    /// In which leadership it was decided, or after which.
    pub(crate) led: u64,
    /// Whether the master leads, after it.
    pub(crate) leads: bool,
}

impl Job {
    fn steps_down(&self) -> bool {
        self.effects.iter().any(|effect| matches!(effect, MasterEffect::StepDown { .. }))
    }

    /// What was decided never was.
    fn refuse(self) {
        if let Some(answer) = self.answer {
            answer(Stamped {
                term: Term(0),
                message: MasterReply::MasterInStandby { leader: None },
            });
        }
    }
}

enum Message {
    Job(Job),
    Stop,
}

/// The way to the thread.
pub(crate) struct Outbox {
    messages: Sender<Message>,
    waiting: Arc<AtomicUsize>,
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
    waiting: Arc<AtomicUsize>,
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
        url: &str,
    ) -> Result<(Self, Idle), RecoveryError> {
        store.introduce(url);
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
        let waiting = Arc::new(AtomicUsize::new(0));
        let idle = Idle { hears, waiting: waiting.clone(), store, codec, elected };
        Ok((Self { messages, waiting }, idle))
    }

    /// Has it carried out. What a master does that leads nobody is left out while too much waits: it is asked again.
    pub(crate) fn send(&self, job: Job) {
        if self.is_full() && !job.leads && !job.steps_down() {
            return job.refuse();
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let _ = self.messages.send(Message::Job(job));
    }

    /// The store is so far behind that its master cannot lead.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) >= MOST_WAITING
    }

    pub(crate) fn stop(&self) {
        let _ = self.messages.send(Message::Stop);
    }
}

impl Idle {
    pub(crate) fn run(self, shell: Arc<Shell>) -> std::io::Result<Running> {
        let Idle { hears, waiting, store, codec, elected } = self;
        let (pause, next) = (FIRST_PAUSE, Instant::now());
        let mut writer = Writer { shell, waiting, store, codec, led: None, count: 0, pause, next };
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

struct Led {
    number: u64,
    until: Option<Instant>,
}

struct Writer {
    shell: Arc<Shell>,
    waiting: Arc<AtomicUsize>,
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
                self.shell.leader_known(self.store.leader());
                self.pause = FIRST_PAUSE;
                self.next = asked + ASK;
            }
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&mut self, error: &RecoveryError) {
        self.shell.leader_known(None);
        tracing::warn!(again_in = ?self.pause, "this master cannot lead: {error}");
        self.store.resign();
        self.next = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    fn begin(&mut self, begun: Begun) {
        let Begun { elected, mut asked } = begun;
        let records: Records = match self.codec.records(elected.entries) {
            Ok(records) => records,
            Err(error) => return self.failed(&error),
        };
        let mut lease = elected.lease;
        // Much was stored: what is left of the lease would end before the master has begun. Who renews it has led all the time.
        if lease.is_some_and(|lease| asked.elapsed() > lease / 4) {
            asked = Instant::now();
            lease = match self.store.renew() {
                Ok(lease) => lease,
                Err(error) => return self.failed(&error),
            };
        }
        self.count += 1;
        self.led = Some(Led { number: self.count, until: None });
        self.renewed(asked, lease);
        let lease = lease.map(|lease| self.tick_after(asked, lease));
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
        let (mut decided, count) = (Vec::new(), jobs.len());
        for job in jobs {
            if job.leads {
                decided.push(job);
            } else {
                self.write(std::mem::take(&mut decided));
                self.become_standby(job);
            }
        }
        self.write(decided);
        self.waiting.fetch_sub(count, Ordering::Relaxed);
    }

    /// Of a master that does not lead: there is nothing to write. What ends the leadership before this one has ended it already.
    fn become_standby(&mut self, job: Job) {
        let is_this = self.led.as_ref().is_some_and(|led| led.number == job.led);
        if job.steps_down() && is_this {
            self.led = None;
            self.store.resign();
            self.next = Instant::now() + ASK;
        }
        self.shell.release(job.effects, job.answer);
    }

    fn write(&mut self, mut jobs: Vec<Job>) {
        let number = self.led.as_ref().map(|led| led.number);
        // What a leadership decided that is over never was.
        let (valid, void): (Vec<Job>, Vec<Job>) =
            jobs.into_iter().partition(|job| Some(job.led) == number);
        void.into_iter().for_each(Job::refuse);
        jobs = valid;
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
                return jobs.into_iter().for_each(Job::refuse);
            }
            self.pause = FIRST_PAUSE;
        }
        // Whatever held this process up meanwhile, another master may lead by now.
        if self.led.as_ref().is_some_and(|led| led.until.is_some_and(|at| Instant::now() >= at)) {
            self.depose("its lease ran out before the store answered");
            return jobs.into_iter().for_each(Job::refuse);
        }
        for job in jobs {
            self.shell.release(job.effects, job.answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use firesteel_conf::Conf;
    use firesteel_standalone_core::master::MasterOptions;

    use super::super::Entry;
    use super::*;

    /// A store that elects every master that asks, and counts who resigns.
    struct Willing(Arc<AtomicUsize>);

    impl Recovery for Willing {
        fn has_rivals(&self) -> bool {
            true
        }

        fn try_lead(&mut self) -> Result<Option<Elected>, RecoveryError> {
            Ok(Some(Elected { entries: Vec::new(), lease: Some(Duration::from_secs(600)) }))
        }

        fn write(&mut self, _: &[Entry]) -> Result<(), RecoveryError> {
            Ok(())
        }

        fn renew(&mut self) -> Result<Option<Duration>, RecoveryError> {
            Ok(Some(Duration::from_secs(600)))
        }

        fn resign(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A writer whose thread is this test, its master, and how often it resigned.
    fn writer() -> (Writer, Receiver<Message>, Arc<AtomicUsize>) {
        let resigned = Arc::new(AtomicUsize::new(0));
        let codec = Codec::new(&Conf::default(), None).unwrap();
        let (outbox, idle) =
            Outbox::new(Box::new(Willing(resigned.clone())), codec, "url").unwrap();
        let options = MasterOptions { elected: true, ..MasterOptions::default() };
        let shell = Arc::new(Shell::new(options, Some(outbox)));
        let Idle { hears, waiting, store, codec, .. } = idle;
        let (pause, next) = (FIRST_PAUSE, Instant::now());
        let writer = Writer { shell, waiting, store, codec, led: None, count: 0, pause, next };
        (writer, hears, resigned)
    }

    fn jobs(hears: &Receiver<Message>) -> Vec<Job> {
        let jobs = hears.try_iter().filter_map(|message| match message {
            Message::Job(job) => Some(job),
            Message::Stop => None,
        });
        jobs.collect()
    }

    /// The process stood still between the two: what ended the first leadership is read in the second.
    #[test]
    fn the_end_of_one_leadership_does_not_end_the_next() {
        let (mut writer, hears, resigned) = writer();
        writer.ask_store();
        let first = jobs(&hears);
        writer.carry_out(first);
        writer.depose("a write failed");
        assert_eq!(resigned.load(Ordering::Relaxed), 1);
        writer.ask_store();
        let rest = jobs(&hears);
        assert!(rest.iter().any(Job::steps_down), "it has yet to be read");
        writer.carry_out(rest);
        assert_eq!(writer.led.as_ref().map(|led| led.number), Some(2));
        assert_eq!(resigned.load(Ordering::Relaxed), 1, "it leads");
        assert_eq!(writer.waiting.load(Ordering::Relaxed), 0);
    }

    /// Reading all that was stored took longer than the lease.
    #[test]
    fn a_lease_that_ran_out_while_much_was_read_is_renewed_before_it_counts() {
        let (mut writer, hears, resigned) = writer();
        let elected = Elected { entries: Vec::new(), lease: Some(Duration::from_secs(8)) };
        writer.begin(Begun { elected, asked: Instant::now() - Duration::from_secs(9) });
        let all = jobs(&hears);
        assert!(!all.is_empty(), "its term is persisted");
        writer.carry_out(all);
        assert_eq!(writer.led.as_ref().map(|led| led.number), Some(1), "it leads");
        assert_eq!(writer.shell.view().0.status.name(), "ALIVE");
        assert_eq!(resigned.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_waits_for_a_store_is_bounded_and_its_master_steps_down() {
        let (mut writer, hears, _) = writer();
        writer.ask_store();
        writer.waiting.store(MOST_WAITING - 1, Ordering::Relaxed);
        let shell = writer.shell.clone();
        shell.renewed(shell.now().plus_ms(1));
        assert_eq!(shell.view().0.status.name(), "ALIVE");
        let refused = Arc::new(Mutex::new(0));
        let asks = |refused: &Arc<Mutex<u32>>| {
            let refused = refused.clone();
            let answer: Answer = Box::new(move |_| *refused.lock().unwrap() += 1);
            shell.asked_for_test(answer);
        };
        asks(&refused);
        assert_eq!(shell.view().0.status.name(), "STANDBY", "its store is as good as none");
        assert!(jobs(&hears).iter().any(Job::steps_down));
        asks(&refused);
        assert_eq!(*refused.lock().unwrap(), 1, "and others are told at once");
    }
}
