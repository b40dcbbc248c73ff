//! Drivers that the cluster runs: processes that only take capacity, for a while.

use std::sync::Arc;

use firesteel_backend::Peer;
use firesteel_backend::blame::ExitStatus;
use firesteel_backend::command::Command;
use firesteel_standalone_core::DriverId;
use firesteel_standalone_core::description::DriverDescription;
use firesteel_standalone_core::master::MasterEvent;
use firesteel_standalone_core::messages::ToMaster;

use crate::clock::Machine;
use crate::plan::{SUBMITTED_CORES, SUBMITTED_MB};
use crate::world::{Body, Event, Kind, ProcId, World};

impl World {
    pub(crate) fn spawn_submitted(
        &mut self,
        worker: ProcId,
        id: DriverId,
        DriverDescription { name, supervise, .. }: &DriverDescription,
    ) -> Result<(), String> {
        let Some(place) = self.place_of(worker) else { return Ok(()) };
        let body = Body::Submitted { worker, id: id.clone(), supervised: *supervise };
        let proc = self.add(Kind::Submitted, Machine::Worker(place), body);
        self.tell(|_| format!("{name} runs as {id}, process {proc}"));
        let before = supervise.then(|| self.supervised.insert(name.clone(), proc)).flatten();
        if before.is_some_and(|before| self.procs[before].alive) {
            return Err(format!("S36: {name} runs as {id} though it runs elsewhere"));
        }
        if let Some(Body::Worker(node)) = &mut self.procs[worker].body
            && node.submitted.insert(id.clone(), proc).is_some()
        {
            return Err(format!("S05: {id} runs twice"));
        }
        let fails = self.faulty() && self.rng.bool();
        self.counters.driver_restarts += u64::from(fails);
        // Some run for longer than it takes to declare a worker dead.
        let long = *supervise && self.aside.u8(..4) > 0;
        let longer = if long { self.aside.u64(..20_000) } else { 0 };
        let at = self.now + 50 + self.rng.u64(..1500) + longer;
        let status = ExitStatus::Code(i32::from(fails));
        self.push(at, Event::Dies { proc, status });
        self.check_room(worker)
    }

    /// Whatever its worker does.
    pub(crate) fn guard_is_due(&mut self, worker: ProcId) -> Result<(), String> {
        let Some(Body::Worker(node)) = &self.procs[worker].body else { return Ok(()) };
        if node.guard != self.now {
            return Ok(());
        }
        for child in node.submitted.values().copied().collect::<Vec<_>>() {
            if let Some(Body::Submitted { supervised: true, .. }) = &self.procs[child].body {
                self.counters.drivers_fenced += 1;
                self.die(child, ExitStatus::Signal(9), false)?;
            }
        }
        Ok(())
    }

    pub(crate) fn submit_driver(&mut self, supervise: bool) -> Result<(), String> {
        let Some(master) = self.acting_process() else { return Ok(()) };
        self.counters.submitted_drivers += 1;
        let description = Arc::new(DriverDescription {
            name: format!("submitted {}", self.counters.submitted_drivers),
            cores: SUBMITTED_CORES,
            memory_mb: SUBMITTED_MB,
            supervise,
            command: Command::default(),
        });
        let from = Peer(u64::MAX);
        let message = ToMaster::RequestSubmitDriver { description };
        self.feed_master(master, MasterEvent::Received { from, message })
    }
}
