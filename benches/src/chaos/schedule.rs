//! What happens when: a pure function of the seed, the minutes, and the kinds of faults that this machine can bring about.
//!
//! Who is struck is only known when it happens. A fault carries a number that picks one of those that are there then.

use std::fmt;

use fastrand::Rng;

/// From one fault to the next, on average. The bar asks for one every four seconds.
const PAUSE_MS: u64 = 2700;

/// The kinds of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    ExecutorKill,
    ExecutorStop,
    WorkerKill,
    WorkerStop,
    DriverKill,
    DriverStop,
    MasterKill,
    MasterStop,
    NetworkCut,
    NetworkDelay,
    DiskFull,
    DiskSlow,
    BlockDamage,
    ClockJump,
}

impl Kind {
    pub(crate) const ALL: [Self; 14] = [
        Self::ExecutorKill,
        Self::ExecutorStop,
        Self::WorkerKill,
        Self::WorkerStop,
        Self::DriverKill,
        Self::DriverStop,
        Self::MasterKill,
        Self::MasterStop,
        Self::NetworkCut,
        Self::NetworkDelay,
        Self::DiskFull,
        Self::DiskSlow,
        Self::BlockDamage,
        Self::ClockJump,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::ExecutorKill => "executor_kill",
            Self::ExecutorStop => "executor_stop",
            Self::WorkerKill => "worker_kill",
            Self::WorkerStop => "worker_stop",
            Self::DriverKill => "driver_kill",
            Self::DriverStop => "driver_stop",
            Self::MasterKill => "master_kill",
            Self::MasterStop => "master_stop",
            Self::NetworkCut => "network_cut",
            Self::NetworkDelay => "network_delay",
            Self::DiskFull => "disk_full",
            Self::DiskSlow => "disk_slow",
            Self::BlockDamage => "block_damage",
            Self::ClockJump => "clock_jump",
        }
    }

    /// How often it comes, compared with the others.
    fn weight(self) -> u64 {
        match self {
            Self::ExecutorKill => 22,
            Self::BlockDamage | Self::ClockJump => 9,
            Self::ExecutorStop => 8,
            Self::WorkerKill | Self::NetworkCut | Self::NetworkDelay => 6,
            Self::WorkerStop | Self::DriverKill | Self::DriverStop => 5,
            Self::DiskFull | Self::DiskSlow => 5,
            Self::MasterKill | Self::MasterStop => 3,
        }
    }

    /// From when on it is over, at least and at most: until a process runs again, a disk has space, and so on. Stops and cuts
    /// are shorter or longer than the timeouts of the cluster.
    fn lasting_ms(self) -> (u64, u64) {
        match self {
            Self::ExecutorKill | Self::DriverKill | Self::BlockDamage => (0, 0),
            Self::WorkerKill | Self::MasterKill => (500, 3000),
            Self::ExecutorStop | Self::WorkerStop | Self::DriverStop => (300, 10_000),
            Self::MasterStop | Self::NetworkCut => (300, 8000),
            Self::NetworkDelay | Self::DiskFull => (1000, 5000),
            Self::DiskSlow => (300, 4000),
            Self::ClockJump => (1000, 10_000),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) at_ms: u64,
    pub(crate) kind: Kind,
    pub(crate) lasting_ms: u64,
    /// Picks who is struck, and how.
    pub(crate) pick: u64,
}

impl Planned {
    /// One of `candidates`.
    pub(crate) fn choose<'a, T>(&self, candidates: &'a [T]) -> Option<&'a T> {
        candidates.get(self.pick.checked_rem(candidates.len() as u64)? as usize)
    }
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |ms: u64| ms as f64 / 1e3;
        write!(f, "{:8.1} s  {:14}", seconds(self.at_ms), self.kind)?;
        if self.lasting_ms > 0 {
            write!(f, "for {:.1} s", seconds(self.lasting_ms))?;
        }
        Ok(())
    }
}

/// All faults of a run in the order of their time. Each of `kinds` comes once before any comes again, so that a short run has
/// them all.
pub(crate) fn schedule(seed: u64, minutes: u64, kinds: &[Kind]) -> Vec<Planned> {
    let mut rng = Rng::with_seed(seed);
    let mut first = kinds.to_vec();
    rng.shuffle(&mut first);
    let mut planned = Vec::new();
    let mut at_ms = PAUSE_MS;
    while at_ms < minutes * 60_000 && !kinds.is_empty() {
        let kind = first.pop().unwrap_or_else(|| draw(&mut rng, kinds));
        let (least, most) = kind.lasting_ms();
        let (lasting_ms, pick) = (rng.u64(least..=most), rng.u64(..));
        planned.push(Planned { at_ms, kind, lasting_ms, pick });
        at_ms += rng.u64(PAUSE_MS / 3..=PAUSE_MS * 5 / 3);
    }
    planned
}

fn draw(rng: &mut Rng, kinds: &[Kind]) -> Kind {
    let all: u64 = kinds.iter().map(|kind| kind.weight()).sum();
    let mut ticket = rng.u64(..all);
    let winner = kinds.iter().find(|kind| {
        let drawn = ticket < kind.weight();
        ticket = ticket.saturating_sub(kind.weight());
        drawn
    });
    *winner.expect("a ticket is below the sum of all weights")
}

#[cfg(test)]
mod tests {
    use super::{Kind, schedule};

    #[test]
    fn the_same_seed_gives_the_same_schedule_and_another_seed_another() {
        let plan = |seed| schedule(seed, 20, &Kind::ALL);
        assert_eq!(plan(7), plan(7));
        assert_ne!(plan(7), plan(8));
    }

    #[test]
    fn a_minute_has_every_kind_and_twenty_minutes_have_more_than_300_faults() {
        for seed in 0..50 {
            let minute = schedule(seed, 1, &Kind::ALL);
            for kind in Kind::ALL {
                assert!(minute.iter().any(|fault| fault.kind == kind), "{kind}, seed {seed}");
            }
            let long = schedule(seed, 20, &Kind::ALL);
            assert!(long.len() > 360, "{} faults, seed {seed}", long.len());
            assert!(long.is_sorted_by_key(|fault| fault.at_ms));
            assert!(long.last().unwrap().at_ms < 20 * 60_000);
        }
    }

    #[test]
    fn kinds_that_cannot_run_are_not_planned() {
        let kinds = [Kind::WorkerKill, Kind::ClockJump];
        let planned = schedule(3, 10, &kinds);
        assert!(planned.iter().all(|fault| kinds.contains(&fault.kind)));
        assert!(schedule(3, 10, &[]).is_empty());
    }

    #[test]
    fn a_fault_picks_one_of_those_that_are_there() {
        let fault = &schedule(1, 1, &Kind::ALL)[0];
        assert_eq!(fault.choose::<u8>(&[]), None);
        assert!(["a", "b", "c"].contains(fault.choose(&["a", "b", "c"]).unwrap()));
        assert_eq!(fault.choose(&["a"]), Some(&"a"));
    }
}
