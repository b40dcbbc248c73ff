//! Where masters persist their state, and who of them leads.
//!
//! One store for all: a directory of one master, or a service with sessions that several masters share. It answers a visit
//! of each master every so often: renews the leader's session, or elects the first that comes after it ran out. It goes
//! down, loses all that it has, and a master may die in the middle of a write.

use std::collections::BTreeMap;

use firesteel_backend::blame::ExitStatus;
use firesteel_standalone_core::Term;
use firesteel_standalone_core::master::{
    Change, Master, MasterEffect, MasterEvent, Records, RecoveryState,
};
use firesteel_standalone_core::messages::{Stamped, ToWorker};

use crate::plan::Recovery;
use crate::world::{Body, Event, ProcId, World};

/// How long a leader may be silent before another one is elected.
pub(crate) const SESSION_MS: u64 = 2000;
/// How long a leader acts without an answer: less, since clocks gain and lose.
const LEASE_MS: u64 = SESSION_MS * 3 / 4;
/// How often masters ask.
const VISIT_MS: u64 = 300;

#[derive(Debug, Default)]
pub(crate) struct Store {
    records: Records,
    down_until: u64,
    /// The leader, and when its session ends.
    session: Option<(ProcId, u64)>,
    /// The next write is the last thing its master does.
    tears: bool,
    /// Who used which term.
    terms: BTreeMap<Term, ProcId>,
}

impl Store {
    /// Whether somebody else may not lead at this moment.
    fn is_led_by(&self, proc: ProcId, now: u64) -> bool {
        self.session.is_some_and(|(leader, until)| leader == proc && now < until)
    }
}

impl World {
    pub(crate) fn is_elected(&self) -> bool {
        self.plan.recovery == Recovery::Elected
    }

    /// A master has started, or lost the lead.
    pub(crate) fn stand_for_election(&mut self, proc: ProcId) -> Result<(), String> {
        let at = self.now + if self.is_elected() { self.rng.u64(..VISIT_MS) } else { 0 };
        self.push(at, Event::VisitsStore(proc));
        Ok(())
    }

    /// A master asks its store whether it leads.
    pub(crate) fn visit_store(&mut self, proc: ProcId) -> Result<(), String> {
        let leads = self.leads(proc);
        if self.is_elected() || !leads {
            self.push(self.now + VISIT_MS, Event::VisitsStore(proc));
        }
        let down = self.now < self.store.down_until && self.plan.recovery != Recovery::None;
        if down {
            self.counters.store_unavailable += 1;
            return Ok(());
        }
        match self.plan.recovery {
            Recovery::None | Recovery::FileSystem if leads => Ok(()),
            Recovery::None => self.elect(proc, Records::default()),
            Recovery::FileSystem => self.elect(proc, self.store.records.clone()),
            Recovery::Elected => self.visit_service(proc, leads),
        }
    }

    fn visit_service(&mut self, proc: ProcId, leads: bool) -> Result<(), String> {
        if self.store.is_led_by(proc, self.now) && leads {
            self.store.session = Some((proc, self.now + SESSION_MS));
            let until = self.tick_of(proc).plus_ms(LEASE_MS);
            return self.feed_master(proc, MasterEvent::LeaseRenewed { until });
        }
        if leads {
            self.counters.leaders_deposed += 1;
            let reason = "its session is over".to_owned();
            return self.feed_master(proc, MasterEvent::Deposed { reason });
        }
        if self.store.session.is_some_and(|(_, until)| self.now < until) {
            return Ok(());
        }
        self.store.session = Some((proc, self.now + SESSION_MS));
        self.elect(proc, self.store.records.clone())
    }

    fn elect(&mut self, proc: ProcId, records: Records) -> Result<(), String> {
        self.tell(|_| format!("process {proc} leads, after {}", records.term));
        self.counters.elections += 1;
        self.counters.recoveries += u64::from(!records.is_new());
        if self.acting_process().is_none_or(|acting| acting == proc) {
            self.master_away = self.now;
        }
        let lease = self.is_elected().then(|| self.tick_of(proc).plus_ms(LEASE_MS));
        self.feed_master(proc, MasterEvent::Elected { records, lease })
    }

    fn leads(&self, proc: ProcId) -> bool {
        let Some(Body::Master(node)) = &self.procs[proc].body else { return false };
        node.core.status() != RecoveryState::Standby
    }

    pub(crate) fn steps_down(&mut self, proc: ProcId, reason: &str) {
        self.tell(|_| format!("process {proc} steps down: {reason}"));
        self.counters.steps_down += 1;
        if self.store.session.is_some_and(|(leader, _)| leader == proc) {
            self.store.session = None;
        }
        if !self.is_elected() {
            self.push(self.now + VISIT_MS, Event::VisitsStore(proc));
        }
    }

    /// Writes, all or nothing. False: nothing was, and nothing that follows is done.
    pub(crate) fn persist(&mut self, proc: ProcId, changes: Vec<Change>) -> Result<bool, String> {
        if self.plan.recovery == Recovery::None {
            return Ok(true);
        }
        let fenced = self.is_elected() && !self.store.is_led_by(proc, self.now);
        let down = self.now < self.store.down_until;
        let torn = std::mem::take(&mut self.store.tears) && self.faulty();
        if fenced || down || torn && self.rng.bool() {
            self.counters.writes_refused += u64::from(!torn);
            self.counters.writes_torn += u64::from(torn);
            match torn && !fenced && !down {
                true => self.die(proc, ExitStatus::Signal(9), false)?,
                false => {
                    let reason = "the store did not take a write".to_owned();
                    self.feed_master(proc, MasterEvent::Deposed { reason })?;
                }
            }
            return Ok(false);
        }
        changes.into_iter().for_each(|change| self.store.records.apply(change));
        if torn {
            // It was written, and nobody hears of it.
            self.counters.writes_torn += 1;
            self.die(proc, ExitStatus::Signal(9), false)?;
        }
        Ok(!torn)
    }

    /// S15: what is persisted comes before what follows from it.
    pub(crate) fn check_order(effects: &[MasterEffect]) -> Result<(), String> {
        let late = effects.iter().skip(1).any(|effect| matches!(effect, MasterEffect::Persist(_)));
        match late {
            true => Err("S15: a master sends before it persists".to_owned()),
            false => Ok(()),
        }
    }

    /// S15: a leader's state is what is persisted, but for what it has just decided.
    pub(crate) fn check_persisted(&self, proc: ProcId, core: &Master) -> Result<(), String> {
        let stores =
            self.plan.recovery != Recovery::None && core.status() != RecoveryState::Standby;
        let led = !self.is_elected() || self.store.is_led_by(proc, self.now);
        if stores && led && core.records() != self.store.records {
            let (has, stored) = (core.records(), &self.store.records);
            return Err(format!("S15: a master has {has:?} and {stored:?} is persisted"));
        }
        Ok(())
    }

    /// S15: a term is one master's. S24: a term that was superseded launches and kills nothing.
    pub(crate) fn check_term(
        &mut self,
        proc: ProcId,
        stamped: &Stamped<ToWorker>,
    ) -> Result<(), String> {
        if self.plan.recovery == Recovery::None || stamped.term == Term(0) {
            return Ok(());
        }
        let term = stamped.term;
        let orders = matches!(
            stamped.message,
            ToWorker::LaunchExecutor { .. }
                | ToWorker::KillExecutor { .. }
                | ToWorker::LaunchDriver { .. }
                | ToWorker::KillDriver { .. }
        );
        let owner = *self.store.terms.entry(term).or_insert(proc);
        if owner != proc {
            return Err(format!("S15: two masters lead in term {term}"));
        }
        let newest = self.store.records.term;
        if orders && newest > term {
            return Err(format!("S24: term {term} gives orders, and {newest} leads"));
        }
        if orders && self.is_elected() && !self.store.is_led_by(proc, self.now) {
            return Err(format!("S24: term {term} gives orders after its session"));
        }
        Ok(())
    }

    pub(crate) fn lose_store(&mut self) -> Result<(), String> {
        // What workers and drivers tell one leader is not there for the next: with masters only, no executor may be lost.
        if self.is_elected() && !self.plan.masters_only && self.aside.bool() {
            return self.lose_contents();
        }
        if self.plan.recovery != Recovery::None {
            self.counters.stores_lost += 1;
            let until = self.now + 100 + self.rng.u64(..5000);
            self.store.down_until = until.min(self.plan.quiet_at.max(self.now + 100));
        }
        Ok(())
    }

    /// Somebody deletes all that the service has, the election with it. Its leader learns of that at once.
    fn lose_contents(&mut self) -> Result<(), String> {
        let leader = self.store.session.map(|(leader, _)| leader);
        if leader.is_some_and(|leader| self.procs[leader].paused_until > self.now) {
            return Ok(());
        }
        self.counters.contents_lost += u64::from(!self.store.records.is_new());
        (self.store.records, self.store.session) = (Records::default(), None);
        match leader.filter(|leader| self.procs[*leader].alive && self.leads(*leader)) {
            Some(leader) => {
                let reason = "all that was stored is gone".to_owned();
                self.feed_master(leader, MasterEvent::Deposed { reason })
            }
            None => Ok(()),
        }
    }

    pub(crate) fn tear_write(&mut self) -> Result<(), String> {
        self.store.tears = self.plan.recovery != Recovery::None && self.faulty();
        Ok(())
    }
}
