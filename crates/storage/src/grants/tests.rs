//! Random steps of a process's tasks and blocks, held against the rules S26 and L12.

use super::*;
use proptest::prelude::*;

const BUDGET: u64 = 1000;
const FLOOR: u64 = 300;
const TASKS: u64 = 4;

/// What may happen.
#[derive(Clone, Debug)]
enum Step {
    Ask(u64, u64),
    Resort(u64, u64),
    Release(u64, u64),
    End(u64),
    Store(u64),
    Unstore(u64),
    Pin(u64),
    Hold(u64),
    DropKept,
    Block(u64),
    Unblock(u64),
    /// Time goes by.
    Pass(u64),
    /// Blocks that are in use cannot be evicted, or can be again.
    Stick(bool),
}

fn step() -> impl Strategy<Value = Step> {
    let (task, bytes) = (|| 0..TASKS, || 0..BUDGET);
    prop_oneof![
        6 => (task(), bytes()).prop_map(|(task, bytes)| Step::Ask(task, bytes)),
        6 => (task(), 0..BUDGET / 8).prop_map(|(task, bytes)| Step::Ask(task, bytes)),
        1 => (task(), bytes()).prop_map(|(task, bytes)| Step::Resort(task, bytes)),
        4 => (task(), bytes()).prop_map(|(task, bytes)| Step::Release(task, bytes)),
        1 => task().prop_map(Step::End),
        2 => bytes().prop_map(Step::Store),
        1 => bytes().prop_map(Step::Unstore),
        1 => (0..200u64).prop_map(Step::Pin),
        1 => bytes().prop_map(Step::Hold),
        2 => Just(Step::DropKept),
        1 => task().prop_map(Step::Block),
        1 => task().prop_map(Step::Unblock),
        3 => (1..700u64).prop_map(Step::Pass),
        1 => any::<bool>().prop_map(Step::Stick),
    ]
}

/// A question that waits for its answer.
#[derive(Debug)]
struct Waiting {
    asked: Asked,
    /// In its last resort.
    last: bool,
    since: Duration,
    until: Duration,
}

/// A process whose tasks do what they are told, and what its books must say.
struct Process {
    grants: Grants,
    now: Duration,
    granted: BTreeMap<TaskId, u64>,
    waiting: BTreeMap<TaskId, Waiting>,
    /// How long tasks have waited in all.
    waited: BTreeMap<TaskId, Duration>,
    blocked: BTreeMap<TaskId, u32>,
    cached: u64,
    sticks: bool,
    pinned: Vec<u64>,
    held: Vec<u64>,
}

impl Process {
    fn new() -> Self {
        Process {
            grants: Grants::new(BUDGET, FLOOR, Planted::default()),
            now: Duration::ZERO,
            granted: BTreeMap::new(),
            waiting: BTreeMap::new(),
            waited: BTreeMap::new(),
            blocked: BTreeMap::new(),
            cached: 0,
            sticks: false,
            pinned: Vec::new(),
            held: Vec::new(),
        }
    }

    fn take(&mut self, step: Step) {
        let task = |n: u64| TaskId(n + 1);
        match step {
            Step::Ask(n, _) | Step::Resort(n, _) if self.waiting.contains_key(&task(n)) => {}
            Step::Ask(n, bytes) => {
                self.grants.begin_task(task(n));
                self.ask(Asked::new(task(n), bytes), false);
            }
            Step::Resort(n, bytes) => {
                self.grants.begin_task(task(n));
                if self.grants.take_last_resort(task(n)) {
                    self.ask(Asked::new(task(n), bytes), true);
                }
            }
            Step::Release(n, bytes) => {
                let held = self.granted.entry(task(n)).or_default();
                *held -= bytes.min(*held);
                let wake = self.grants.release(task(n), bytes);
                self.wake(wake);
            }
            Step::End(n) => self.end(task(n)),
            Step::Store(bytes) => {
                let fits = bytes <= self.grants.free();
                assert_eq!(self.grants.store(bytes), fits);
                self.cached += if fits { bytes } else { 0 };
            }
            Step::Unstore(bytes) => {
                let bytes = bytes.min(self.cached);
                self.cached -= bytes;
                let wake = self.grants.release_stored(bytes);
                self.wake(wake);
            }
            Step::Pin(bytes) => {
                if self.grants.pin(bytes) {
                    self.pinned.push(bytes);
                }
            }
            Step::Hold(bytes) => {
                let Counted { bytes, evict } = self.grants.hold(bytes);
                self.held.push(bytes);
                assert!(self.held.iter().sum::<u64>() <= BUDGET / 2);
                self.evict(evict);
                self.grants.made_room();
            }
            Step::DropKept => {
                if let Some(bytes) = self.pinned.pop() {
                    let wake = self.grants.release_pinned(bytes);
                    self.wake(wake);
                }
                if let Some(bytes) = self.held.pop() {
                    let wake = self.grants.release_held(bytes);
                    self.wake(wake);
                }
            }
            Step::Block(n) => {
                if self.grants.blocked(task(n)) {
                    *self.blocked.entry(task(n)).or_default() += 1;
                }
            }
            Step::Unblock(n) => {
                let blocked = self.blocked.entry(task(n)).or_default();
                if *blocked > 0 {
                    *blocked -= 1;
                    let wake = self.grants.unblocked(task(n));
                    self.wake(wake);
                }
            }
            Step::Pass(ms) => self.pass(Duration::from_millis(ms)),
            Step::Stick(sticks) => self.sticks = sticks,
        }
        self.check();
    }

    fn end(&mut self, task: TaskId) {
        if let Some(waiting) = self.waiting.remove(&task) {
            self.waited(waiting);
        }
        let (peak, wake) = self.grants.end_task(task);
        assert!(peak >= self.granted.remove(&task).unwrap_or(0));
        self.waited.remove(&task);
        self.blocked.remove(&task);
        self.wake(wake);
    }

    /// Blocks go, unless they are in use.
    fn evict(&mut self, bytes: u64) -> u64 {
        let freed = if self.sticks { 0 } else { bytes.min(self.cached) };
        self.cached -= freed;
        let wake = self.grants.evicted(freed);
        self.wake(wake);
        freed
    }

    fn ask(&mut self, mut asked: Asked, last: bool) {
        let task = asked.task;
        let mut evictions = 0;
        loop {
            let before = (self.grants.used(), self.grants.share(), self.grants.free());
            let others = self.grants.others_run(task);
            let answer = match last {
                true => self.grants.ask_last(self.now, &asked),
                false => self.grants.ask(&asked),
            };
            let (_, share, free) = before;
            let wanted = self.granted.get(&task).copied().unwrap_or(0) + asked.bytes;
            match answer {
                Answer::Granted => {
                    assert!(asked.bytes <= free, "what is free is granted, and nothing else");
                    assert!(last || wanted <= share);
                    self.granted.insert(task, wanted);
                    return;
                }
                Answer::Refused => {
                    let after = (self.grants.used(), self.grants.share(), self.grants.free());
                    assert_eq!(before, after, "nothing changes");
                    if last {
                        assert!(!others);
                    } else if wanted <= share / 2 {
                        let waited = self.waited.get(&task).copied().unwrap_or_default();
                        assert!(
                            waited >= PATIENCE || !others,
                            "L12: a task within its guarantee is refused, though it waited for {waited:?} only"
                        );
                    } else if wanted <= share {
                        let free = if self.sticks { free } else { free + self.beyond_floor() };
                        assert!(asked.bytes > free, "L12: refused what is there");
                    }
                    return;
                }
                Answer::Evict(lacking) => {
                    evictions += 1;
                    assert!(evictions < 3 && lacking > 0);
                    let freed = self.evict(lacking);
                    asked.evicted(lacking, freed);
                }
                Answer::Wait(most) => {
                    assert!(asked.bytes > free && (last || wanted <= share / 2));
                    let (since, until) = (self.now, self.now + most);
                    self.waiting.insert(task, Waiting { asked, last, since, until });
                    return;
                }
            }
        }
    }

    fn beyond_floor(&self) -> u64 {
        self.cached.saturating_sub(FLOOR)
    }

    /// Time goes by, and patience ends.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some((&task, next)) = self.waiting.iter().min_by_key(|(_, waiting)| waiting.until)
            && next.until <= end
        {
            self.now = next.until;
            self.ask_again(task);
        }
        self.now = end;
    }

    /// Tasks that wait ask again when they are woken; one that is not woken could not be granted anything.
    fn wake(&mut self, Wake(wake): Wake) {
        assert_eq!(wake, !self.waiting.is_empty() && wake, "nobody is woken who is not there");
        if wake {
            let waiting: Vec<TaskId> = self.waiting.keys().copied().collect();
            waiting.into_iter().for_each(|task| self.ask_again(task));
        }
    }

    fn ask_again(&mut self, task: TaskId) {
        let Some(waiting) = self.waiting.remove(&task) else { return };
        let (asked, last) = self.waited(waiting);
        self.ask(asked, last);
    }

    fn waited(&mut self, waiting: Waiting) -> (Asked, bool) {
        let Waiting { mut asked, last, since, .. } = waiting;
        if last {
            self.grants.waited_as_last_resort();
        } else {
            let waited = self.waited.entry(asked.task).or_default();
            *waited += self.now - since;
            assert!(*waited <= PATIENCE, "L12: the wait is bounded");
            self.grants.waited(&mut asked, self.now - since);
        }
        (asked, last)
    }

    fn check(&self) {
        self.grants.assert_invariants();
        assert_eq!(self.grants.waiting(), self.waiting.len());
        for (task, bytes) in &self.granted {
            assert_eq!(self.grants.granted(*task), *bytes, "S26: no grant is lost");
        }
        let kept = self.cached + self.pinned.iter().chain(&self.held).sum::<u64>();
        assert_eq!(self.grants.used(), (kept, self.granted.values().sum()));
        for (task, waiting) in &self.waiting {
            let fits = self.grants.granted(*task) + waiting.asked.bytes <= self.grants.share();
            let free = waiting.asked.bytes <= self.grants.free();
            assert!(!free || !fits && !waiting.last, "L12: {task} waits for what is free");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_tasks_do_the_books_balance_and_nobody_within_its_guarantee_is_refused_early(
        steps in prop::collection::vec(step(), 1..120)
    ) {
        let mut process = Process::new();
        steps.into_iter().for_each(|step| process.take(step));
        (0..TASKS).for_each(|n| process.end(TaskId(n + 1)));
        process.check();
        prop_assert_eq!(process.grants.used().1, 0);
    }

    #[test]
    fn every_task_gets_its_half_share_once_those_who_have_more_than_theirs_spill(
        others in 1..8u64, first in 1..=BUDGET, kept in 0..FLOOR
    ) {
        let mut process = Process::new();
        process.take(Step::Store(kept));
        let all = BUDGET - kept;
        process.grants.begin_task(TaskId(100));
        process.ask(Asked::new(TaskId(100), first.min(all)), false);
        (1..=others).for_each(|n| process.grants.begin_task(TaskId(n)));
        let sure = process.grants.share() / 2;
        (1..=others).for_each(|n| process.ask(Asked::new(TaskId(n), sure), false));
        // The first one asks for more when it has more, is refused, and spills.
        process.pass(Duration::from_millis(900));
        if process.grants.granted(TaskId(100)) > process.grants.share() {
            prop_assert_eq!(process.grants.ask(&Asked::new(TaskId(100), 1)), Answer::Refused);
        }
        process.granted.insert(TaskId(100), 0);
        let wake = process.grants.release(TaskId(100), BUDGET);
        process.wake(wake);
        for n in 1..=others {
            prop_assert_eq!(process.grants.granted(TaskId(n)), sure);
        }
    }
}

#[test]
fn two_who_count_what_stays_at_once_count_no_more_than_a_half() {
    let mut grants = Grants::new(1000, 500, Planted::default());
    assert!(grants.store(800));
    let first = grants.hold(400);
    assert_eq!(first, Counted { bytes: 400, evict: 200 });
    // Before any block is gone for the first one, a second one comes.
    assert_eq!(grants.hold(400), Counted { bytes: 100, evict: 100 });
}

#[test]
fn a_task_within_its_guarantee_waits_where_blocks_turn_out_to_be_in_use() {
    let mut grants = Grants::new(1000, 0, Planted::default());
    let (first, second) = (TaskId(1), TaskId(2));
    grants.begin_task(first);
    grants.begin_task(second);
    assert_eq!(grants.ask(&Asked::new(first, 500)), Answer::Granted);
    assert!(grants.store(500));
    let mut asked = Asked::new(second, 250);
    assert_eq!(grants.ask(&asked), Answer::Evict(250));
    assert_eq!(grants.evicted(0), Wake(false));
    asked.evicted(250, 0);
    assert_eq!(grants.ask(&asked), Answer::Wait(PATIENCE));
    assert_eq!(grants.release(first, 250), Wake(true));
    grants.waited(&mut asked, Duration::from_millis(10));
    assert_eq!(grants.ask(&asked), Answer::Granted);
}
