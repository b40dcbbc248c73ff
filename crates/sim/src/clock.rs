//! Clocks. Each machine has its own: it shows another time than the others, runs faster or slower, and somebody may set
//! it. A process reads it when it starts and counts from there, so it never sees its clock set while it runs.
//!
//! The world itself has one time, in which events happen and checks are made.

use fastrand::Rng;
use firesteel_backend::registry::RegistryEvent;
use firesteel_standalone_core::application::AppClientEvent;
use firesteel_types::Tick;

use crate::plan::Plan;
use crate::world::{Core, Event, Kind, ProcId, World};

/// What a clock that is right would show when a run begins.
const BEGIN_MS: i64 = 1_700_000_000_000;
/// A clock gains or loses at most so much, in millionths.
const MOST_DRIFT: i64 = 5000;
/// How wrong clocks are, at most, in the milliseconds of one of these.
const WRONG_MS: [i64; 4] = [0, 3000, 60_000, 3_600_000];

/// Where a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Machine {
    Master(usize),
    Worker(usize),
    Driver(usize),
}

/// A process's clock: what it showed at its start, and how fast it runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    started: u64,
    showed: u64,
    /// In millionths of the world's pace.
    pace: u64,
}

impl Clock {
    /// What it shows at a moment of the world.
    pub(crate) fn shows(&self, at: u64) -> Tick {
        let passed = at.saturating_sub(self.started);
        Tick(self.showed + passed * self.pace / 1_000_000)
    }

    /// The first moment of the world at which it shows that, or more.
    pub(crate) fn moment_of(&self, tick: Tick) -> u64 {
        let passed = tick.0.saturating_sub(self.showed);
        self.started.saturating_add(passed.saturating_mul(1_000_000).div_ceil(self.pace))
    }
}

#[derive(Clone, Copy, Debug)]
struct Wall {
    ahead_ms: i64,
    drift: i64,
}

/// The clocks of all machines.
#[derive(Debug)]
pub(crate) struct Walls {
    walls: Vec<Wall>,
    masters: usize,
    workers: usize,
}

impl Walls {
    pub(crate) fn draw(rng: &mut Rng, plan: &Plan) -> Self {
        let (masters, workers) = (plan.masters, plan.workers.len());
        let walls = (0..masters + workers + plan.apps.len()).map(|_| {
            let drift = rng.i64(-MOST_DRIFT..=MOST_DRIFT) * i64::from(rng.bool());
            Wall { ahead_ms: wrong_ms(rng), drift }
        });
        Walls { walls: walls.collect(), masters, workers }
    }

    fn at(&mut self, machine: Machine) -> &mut Wall {
        let place = match machine {
            Machine::Master(number) => number,
            Machine::Worker(place) => self.masters + place,
            Machine::Driver(app) => self.masters + self.workers + app,
        };
        &mut self.walls[place]
    }

    /// The clock of a process that starts now.
    pub(crate) fn start(&mut self, machine: Machine, now: u64) -> Clock {
        let Wall { ahead_ms, drift } = *self.at(machine);
        let showed = (BEGIN_MS + now as i64 + ahead_ms) as u64;
        Clock { started: now, showed, pace: (1_000_000 + drift) as u64 }
    }
}

fn wrong_ms(rng: &mut Rng) -> i64 {
    let most = WRONG_MS[rng.usize(..WRONG_MS.len())];
    rng.i64(-most..=most)
}

impl World {
    /// What the process's clock shows now.
    pub(crate) fn tick_of(&self, proc: ProcId) -> Tick {
        self.procs[proc].clock.shows(self.now)
    }

    /// When the process's clock showed that.
    pub(crate) fn moment_of(&self, proc: ProcId, tick: Tick) -> u64 {
        self.procs[proc].clock.moment_of(tick)
    }

    /// Carries out a core's `ArmTimer`.
    pub(crate) fn arm(&mut self, proc: ProcId, core: Core, at: Tick) {
        self.procs[proc].timers[core as usize].arm(at);
        self.push(self.moment_of(proc, at), Event::Rings(proc, core));
    }

    /// Wakes a core if this is the moment that it asked for last.
    pub(crate) fn ring(&mut self, proc: ProcId, core: Core) -> Result<(), String> {
        let now = self.tick_of(proc);
        if !self.procs[proc].timers[core as usize].rings(now) {
            return Ok(());
        }
        match (self.procs[proc].kind, core) {
            (Kind::Driver, Core::Main) => self.feed_driver(proc, RegistryEvent::Ticked),
            (Kind::Driver, Core::Client) => self.feed_client(proc, AppClientEvent::Ticked),
            _ => self.wake(proc),
        }
    }

    /// Somebody sets a machine's clock, right or wrong. Processes that start there from now on see it.
    pub(crate) fn set_clock(&mut self, machine: Machine) {
        let ahead_ms = wrong_ms(&mut self.rng);
        let before = std::mem::replace(&mut self.walls.at(machine).ahead_ms, ahead_ms);
        self.tell(|_| format!("{machine:?}: its clock is set by {} ms", ahead_ms - before));
        self.counters.clocks_set += 1;
        self.counters.clocks_set_back += u64::from(ahead_ms < before);
    }

    /// Somebody sets some clock.
    pub(crate) fn set_some_clock(&mut self) -> Result<(), String> {
        let machine = match self.rng.u8(..4) {
            0..=1 => Machine::Master(self.rng.usize(..self.plan.masters)),
            2 => Machine::Worker(self.rng.usize(..self.plan.workers.len())),
            _ => Machine::Driver(self.rng.usize(..self.plan.apps.len())),
        };
        self.set_clock(machine);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_rings_at_the_first_moment_at_which_its_clock_shows_the_time() {
        for pace in [995_000, 999_999, 1_000_000, 1_000_001, 1_005_000] {
            let clock = Clock { started: 700, showed: 1_000_000, pace };
            for tick in (999_000..1_009_000).step_by(7).map(Tick) {
                let at = clock.moment_of(tick);
                assert!(clock.shows(at) >= tick, "pace {pace}, {tick:?}");
                assert!(at == 700 || clock.shows(at - 1) < tick, "pace {pace}, {tick:?}");
            }
        }
    }
}
