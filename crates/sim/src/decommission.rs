//! Workers whose machines are to be taken away: an operator decommissions them, and puts others in their place later.

use firesteel_backend::Peer;
use firesteel_backend::blame::ExitStatus;
use firesteel_standalone_core::master::{Master, MasterEffect, MasterEvent};
use firesteel_standalone_core::messages::{ToMaster, ToWorker};

use crate::network::CLIENT;
use crate::plan::SETTLE_MS;
use crate::world::{Body, Event, Kind, World};

/// Some machines come back only so long after everything has settled.
pub(crate) const RETURNS_MS: u64 = 60_000;

impl World {
    /// Decommissions a worker. Another one takes its place soon, or when everything has settled.
    pub(crate) fn decommission_some_worker(&mut self) -> Result<(), String> {
        let Some(worker) = self.some(Kind::Worker) else { return Ok(()) };
        let (Some(master), Some(Body::Worker(node))) =
            (self.acting_process(), &self.procs[worker].body)
        else {
            return Ok(());
        };
        let name = node.id.to_string();
        self.counters.workers_decommissioned += 1;
        let soon = self.now + 500 + self.aside.u64(..5000);
        let late = self.plan.quiet_at + SETTLE_MS + RETURNS_MS;
        let at = if self.aside.bool() { soon } else { late };
        self.push(at, Event::Dies { proc: worker, status: ExitStatus::Signal(15) });
        let (from, message) = (Peer(u64::MAX), ToMaster::RequestDecommissionWorkers { name });
        self.feed_master(master, MasterEvent::Received { from, message })
    }

    /// S37: a master orders nothing of a worker that it knows to be decommissioned. What it ordered before it repeats until it
    /// hears of it: that may run.
    pub(crate) fn check_launches(
        &mut self,
        core: &Master,
        out: &[MasterEffect],
    ) -> Result<(), String> {
        for effect in out {
            let MasterEffect::SendWorker { to, stamped } = effect else { continue };
            let what = match &stamped.message {
                ToWorker::LaunchExecutor { key, .. } => key.to_string(),
                ToWorker::LaunchDriver { driver, .. } => driver.to_string(),
                _ => continue,
            };
            let Some(connection) = self.connections.get(to.0 as usize) else { continue };
            let worker = connection.ends[CLIENT];
            let Some(Body::Worker(node)) = &self.procs[worker].body else { continue };
            let id = node.id.clone();
            if self.ordered.insert((worker, what)) && core.is_decommissioned(&id) {
                return Err(format!("S37: {id} is decommissioned and gets work"));
            }
        }
        Ok(())
    }

    /// L13: what a worker knows of its end, its master knows too.
    pub(crate) fn check_decommissioned(&self) -> Result<(), String> {
        let Some(master) = self.acting_master() else { return Ok(()) };
        for worker in self.workers.iter().flatten().filter(|worker| self.procs[**worker].alive) {
            let Some(Body::Worker(node)) = &self.procs[*worker].body else { continue };
            let (told, knows) =
                (node.core.is_decommissioned(), master.core.is_decommissioned(&node.id));
            if told != knows && node.core.is_registered() {
                let id = &node.id;
                return Err(format!("L13: {id} is decommissioned: {told}, to its master: {knows}"));
            }
        }
        Ok(())
    }
}
