//! Drivers that the cluster runs: submitted, placed, ended, and started elsewhere when their worker goes.

use std::sync::Arc;

use firesteel_backend::Peer;
use firesteel_backend::command::Command;
use firesteel_backend::mutant::Mutant;
use firesteel_types::Tick;

use super::core::{Master, Turn};
use super::driver_table::Driver;
use super::records::{DriverRecord, Fence};
use super::recovery::Unknown;
use crate::description::{DriverDescription, DriverReport, DriverState, WorkerDescription};
use crate::messages::{MasterReply, ToWorker};
use crate::{DriverId, WorkerId};

/// So many bytes a command may have, with its environment: a store has to take it in one piece.
const LARGEST_COMMAND: usize = 256 << 10;
/// So many bytes what else is told as text may have, with it: names, users, addresses.
const LARGEST_TEXT: usize = 16 << 10;
/// So many drivers may wait for a worker.
pub(super) const MOST_WAITING: usize = 10_000;

/// Why what is told beside a command cannot be persisted, if it cannot. `what` it is, `text` by text.
pub(super) fn too_long(what: &str, texts: &[&str]) -> Option<String> {
    let bytes = texts.iter().map(|text| text.len()).sum::<usize>();
    (bytes > LARGEST_TEXT).then(|| {
        format!("it has {bytes} bytes of {what}, and a master takes {LARGEST_TEXT}: shorten that")
    })
}

/// Why a command cannot be persisted, if it cannot.
pub(super) fn too_large(command: &Command) -> Option<String> {
    let served = command.served.as_ref().map_or("", |served| &*served.address.host.0);
    if let Some(why) = too_long("hosts", &[served]) {
        return Some(why);
    }
    let texts = command.arguments.iter().chain(command.environment.keys());
    let texts = texts.chain(command.environment.values()).map(String::len);
    let files = command.served.iter().flat_map(|served| &served.files);
    let bytes = texts.chain(files.map(|file| file.name.len() + 40)).sum::<usize>();
    let bytes = bytes + command.program.len();
    (bytes > LARGEST_COMMAND).then(|| {
        format!(
            "its arguments, variables and settings have {bytes} bytes, and a master takes {LARGEST_COMMAND}: put them into a file \
             (--files)"
        )
    })
}

impl Master {
    pub(super) fn submit_driver(
        &mut self,
        turn: &mut Turn<'_>,
        from: Peer,
        description: Arc<DriverDescription>,
    ) {
        let result = if description.cores == 0 || description.memory_mb == 0 {
            let name = &description.name;
            Err(format!(
                "{name} asks for nothing: a driver takes at least 1 core and 1 MB of memory"
            ))
        } else if let Some(why) = too_large(&description.command) {
            Err(why)
        } else if let Some(why) = too_long("name", &[&description.name]) {
            Err(why)
        } else if self.drivers.waiting().len() >= MOST_WAITING {
            Err(format!(
                "{MOST_WAITING} drivers wait for a worker already, and a master takes no more: submit it again when some of them have \
                 started or were killed, or start workers"
            ))
        } else {
            Ok(self.add_driver(turn, description, None))
        };
        turn.reply(from, MasterReply::SubmitDriverResponse { result });
    }

    /// With a fence, it waits so long for the one whose place it takes.
    fn add_driver(
        &mut self,
        turn: &mut Turn<'_>,
        description: Arc<DriverDescription>,
        fence: Option<(Fence, u64)>,
    ) -> DriverId {
        // A clock that was set back shows a second once more.
        let id = loop {
            let id = self.ids.next_driver(turn.now);
            if self.drivers.find(&id).is_none() {
                break id;
            }
        };
        let (fence, fence_ms) = fence.unzip();
        let (submitted, worker) = (turn.now, None);
        let record =
            DriverRecord { driver: id.clone(), description, submitted, worker, fence, whole: true };
        self.drivers.insert(record, turn.now, fence_ms.unwrap_or(0));
        turn.touch_driver(&id);
        self.agenda.reschedule();
        id
    }

    /// Ends a driver. What it holds on its worker is free when the worker says so.
    pub(super) fn kill_driver(&mut self, turn: &mut Turn<'_>, from: Peer, id: DriverId) {
        let result = match self.end_running_driver(turn, &id) {
            false => Err(format!("{id} is not running: it has ended, or its id is wrong")),
            true => Ok(format!("kill request for {id} submitted")),
        };
        turn.reply(from, MasterReply::KillDriverResponse { driver: id, result });
    }

    pub(super) fn kill_all_drivers(&mut self, turn: &mut Turn<'_>) {
        let all: Vec<DriverId> = self.drivers.active().map(|(id, _)| id.clone()).collect();
        for id in all {
            self.end_running_driver(turn, &id);
        }
    }

    /// Whether there was such a driver.
    fn end_running_driver(&mut self, turn: &mut Turn<'_>, id: &DriverId) -> bool {
        let Some(driver) = self.drivers.get(id) else { return false };
        let worker = driver.worker();
        if let Some(worker) = worker.and_then(|worker| self.workers.get(worker)) {
            let registration = worker.registration();
            let kill = ToWorker::KillDriver { registration, driver: id.clone() };
            turn.tell_worker(worker.peer(), kill);
        }
        self.end_driver(turn, id, DriverState::Killed, None);
        true
    }

    pub(super) fn driver_status(&mut self, turn: &mut Turn<'_>, from: Peer, id: DriverId) {
        let driver = self.drivers.find(&id);
        let worker = driver.and_then(Driver::worker);
        let worker = worker
            .and_then(|worker| self.workers.get(worker))
            .map(|worker| (worker.id().clone(), worker.description().address.clone()));
        let state = driver.map(Driver::state);
        let reason =
            driver.and_then(|driver| driver.reason().cloned().or_else(|| self.shortage_of(driver)));
        turn.reply(from, MasterReply::DriverStatusResponse { driver: id, state, worker, reason });
    }

    /// Why a driver that waits will wait for ever: no worker is large enough, however little it runs. While there is none at all, it
    /// waits for the first one, and for those of the master before this one that have not answered yet.
    fn shortage_of(&self, driver: &Driver) -> Option<String> {
        if self.workers.unknown().next().is_some() {
            return None;
        }
        let DriverDescription { cores, memory_mb, .. } = **driver.description();
        let usable = || self.workers.alive().filter(|worker| !worker.is_decommissioned());
        let fits = |it: &WorkerDescription| it.cores >= cores && it.memory_mb >= memory_mb;
        let is_hopeless = driver.state() == DriverState::Submitted
            && usable().next().is_some()
            && !usable().any(|worker| fits(worker.description()));
        let most_cores = usable().map(|worker| worker.description().cores).max().unwrap_or(0);
        let most_mb = usable().map(|worker| worker.description().memory_mb).max().unwrap_or(0);
        is_hopeless.then(|| {
            format!(
                "no worker is large enough: it takes {cores} core(s) and {memory_mb} MB, and of {} live worker(s) none has more \
                 than {most_cores} core(s) and none more than {most_mb} MB. Start a larger one, or submit it again with less \
                 (spark.driver.cores, spark.driver.memory)",
                usable().count()
            )
        })
    }

    /// A worker tells of a driver. One that nobody counts on there is to end.
    pub(super) fn driver_reported(
        &mut self,
        turn: &mut Turn<'_>,
        worker: &WorkerId,
        report: DriverReport,
    ) {
        let (id, state) = (report.driver.clone(), report.state);
        let entry = self.workers.get_mut(worker).expect("a registered worker reports");
        let (peer, registration) = (entry.peer(), entry.registration());
        let driver = self.drivers.on_mut(worker, &id);
        if state.is_finished() {
            entry.free_driver(&id);
            turn.tell_worker(peer, ToWorker::DriverEndKnown { registration, driver: id.clone() });
            self.agenda.reschedule();
            if driver.is_some() {
                self.end_driver(turn, &id, state, report.end.map(|end| end.message));
            }
            return;
        }
        if let Some(driver) = driver {
            if driver.started(report.description) {
                turn.touch_driver(&id);
            }
            return;
        }
        match self.adopt_driver(turn, worker, &report) {
            Unknown::Adopted => {
                self.drivers.on_mut(worker, &id).expect("just adopted").started(None);
            }
            Unknown::Waits => {}
            Unknown::Unwanted => {
                turn.tell_worker(peer, ToWorker::KillDriver { registration, driver: id });
            }
        }
    }

    /// A worker tells, under its present registration, which drivers may run there: others surely do not, and will not. Those that
    /// do may go on for as long as if it had never been lost.
    pub(super) fn move_fences(
        &mut self,
        turn: &mut Turn<'_>,
        worker: &WorkerId,
        running: &[DriverId],
    ) {
        let until = turn.now.plus_ms(self.options.fence_ms());
        for id in self.drivers.move_fences(worker, running, until) {
            turn.touch_driver(&id);
            self.agenda.reschedule();
        }
    }

    /// As with executors: orders that did not reach the worker are repeated.
    pub(super) fn reconcile_drivers(
        &mut self,
        turn: &mut Turn<'_>,
        worker: &WorkerId,
        reports: Vec<DriverReport>,
    ) {
        let known: Vec<DriverId> = reports.iter().map(|report| report.driver.clone()).collect();
        for report in reports {
            self.driver_reported(turn, worker, report);
        }
        let entry = &self.workers[worker];
        let (peer, registration) = (entry.peer(), entry.registration());
        for id in entry.driver_ids() {
            let Some(driver) = self.drivers.on(worker, id) else {
                if self.adopts() && self.drivers.find(id).is_none() {
                    continue;
                }
                turn.tell_worker(peer, ToWorker::KillDriver { registration, driver: id.clone() });
                continue;
            };
            let overdue = driver.is_overdue(turn.now, self.options.heartbeat_ms());
            if overdue && !known.contains(id) {
                let (driver, description) = (id.clone(), driver.description().clone());
                let launch = ToWorker::LaunchDriver { registration, driver, description };
                turn.tell_worker(peer, launch);
            }
        }
    }

    /// Its worker is gone: another one of it takes its place, if it is supervised. Not before it has surely ended: the worker may
    /// only have been cut off, and ends it when it has not been answered for long enough (S36). One of which this master knows only
    /// what may be read by anybody cannot be started.
    pub(super) fn driver_lost(
        &mut self,
        turn: &mut Turn<'_>,
        id: &DriverId,
        heard: Tick,
        why: &str,
    ) {
        let Some(driver) = self.drivers.get(id) else { return };
        let (description, worker) = (driver.description().clone(), driver.worker().cloned());
        if description.supervise && driver.is_whole() {
            let over = heard.plus_ms(self.options.fence_ms());
            let fenced = self.options.driver_lease_ms > 0 && over > turn.now;
            let fences = fenced && !self.options.planted.is(Mutant::RelaunchesDriversAtOnce);
            let fence = worker
                .filter(|_| fences)
                .map(|worker| (Fence { driver: id.clone(), worker }, over.since_ms(turn.now)));
            self.end_driver(turn, id, DriverState::Relaunching, None);
            self.add_driver(turn, description, fence);
        } else {
            let unknown = match description.supervise {
                true => "; it is not started elsewhere, as its secrets were not stored with it",
                false => "",
            };
            let end = format!("it went with its worker: {why}{unknown}");
            self.end_driver(turn, id, DriverState::Error, Some(end));
        }
    }

    fn end_driver(
        &mut self,
        turn: &mut Turn<'_>,
        id: &DriverId,
        state: DriverState,
        end: Option<String>,
    ) {
        if self.drivers.end(id, state, end) {
            turn.touch_driver(id);
        }
    }
}
