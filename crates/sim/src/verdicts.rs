//! Verdicts on others, held against what they did: who is declared dead for its silence (L10), and whose directories are
//! removed (S23).

use std::sync::Arc;

use firesteel_backend::AppId;
use firesteel_standalone_core::WorkerId;
use firesteel_standalone_core::master::{Master, RecoveryState};
use firesteel_types::ExecutorId;

use crate::check::is_counted;
use crate::network::SERVER;
use crate::nodes::WorkerNode;
use crate::plan::{HEARTBEAT_MS, NETWORK_TIMEOUT_MS, WORKER_TIMEOUT_MS};
use crate::world::{Body, ProcId, World};

/// S23: the directories of what runs are not removed.
pub(crate) fn check_kept(node: &WorkerNode, keep: &[Arc<str>]) -> Result<(), String> {
    let apps = node.executors.keys().map(|key| &key.app.0);
    let mut running = apps.chain(node.submitted.keys().map(|driver| &driver.0));
    match running.find(|name| !keep.contains(name)) {
        Some(name) => {
            Err(format!("S23: {} cleans up the directory of {name}, which runs", node.id))
        }
        None => Ok(()),
    }
}

/// S23: the files of an application are not removed while one of its executors runs.
pub(crate) fn check_files_unused(node: &WorkerNode, app: &AppId) -> Result<(), String> {
    match node.executors.keys().find(|key| key.app == *app) {
        Some(key) => Err(format!("S23: {} removes the files of {key}, which runs", node.id)),
        None => Ok(()),
    }
}

impl World {
    /// The process of a driver's executor.
    pub(crate) fn executor_of(&self, driver: ProcId, executor: ExecutorId) -> Option<ProcId> {
        let own = |body: &Body| matches!(body, Body::Executor(node) if node.driver == driver);
        let all = self.executors.iter().filter(|(key, _)| key.executor == executor);
        // One that was registered anew counts from the start again.
        let found = all.map(|(_, proc)| *proc);
        found.filter(|proc| self.procs[*proc].body.as_ref().is_some_and(own)).max()
    }

    /// L10: an executor that sent its heartbeats is not removed for its silence, whatever its driver did instead of
    /// reading them.
    pub(crate) fn check_silent_executor(
        &self,
        driver: ProcId,
        executor: ExecutorId,
        reason: &str,
    ) -> Result<(), String> {
        if !reason.starts_with("no heartbeat came") {
            return Ok(());
        }
        let Some(proc) = self.executor_of(driver, executor) else { return Ok(()) };
        let link = self.procs[proc].links.get(&0).copied();
        let sent = |link| self.sent_heartbeats(proc, driver, link, NETWORK_TIMEOUT_MS);
        if link.is_some_and(sent) {
            return Err(format!(
                "L10: executor {executor} sent heartbeats and was removed: {reason}"
            ));
        }
        Ok(())
    }

    pub(crate) fn counted_workers(&self, core: &Master) -> Vec<(WorkerId, ProcId)> {
        let workers = self.workers.iter().flatten().filter_map(|proc| {
            let Some(Body::Worker(node)) = &self.procs[*proc].body else { return None };
            let (status, _) = core.worker_status(&node.id)?;
            is_counted(status).then(|| (node.id.clone(), *proc))
        });
        workers.collect()
    }

    /// L10: the same for workers and their master, which has just looked at the clock.
    pub(crate) fn check_silent_workers(
        &self,
        master: ProcId,
        core: &Master,
        before: &[(WorkerId, ProcId)],
    ) -> Result<(), String> {
        // It leads no longer, and knows nobody.
        if core.status() == RecoveryState::Standby {
            return Ok(());
        }
        let faithful = [self.plan.loss, self.plan.repetition, self.plan.overtaking] == [0; 3];
        for (id, proc) in before {
            let dead = core.worker_status(id).is_none_or(|(status, _)| !is_counted(status));
            let number = self.masters.iter().position(|number| *number == Some(master));
            let link = number.and_then(|number| self.procs[*proc].links.get(&number));
            let sent = |link| self.sent_heartbeats(*proc, master, link, WORKER_TIMEOUT_MS);
            if dead && faithful && link.copied().is_some_and(sent) {
                return Err(format!(
                    "L10: {id} sent heartbeats and was declared dead for its silence"
                ));
            }
        }
        Ok(())
    }

    /// Whether a process was awake for that long, and with it the connection over which it sends heartbeats.
    pub(crate) fn sent_heartbeats(
        &self,
        proc: ProcId,
        to: ProcId,
        link: usize,
        timeout_ms: u64,
    ) -> bool {
        let Some(since) = self.now.checked_sub(timeout_ms + HEARTBEAT_MS) else { return false };
        let (process, connection) = (&self.procs[proc], &self.connections[link]);
        let awake = process.alive && process.paused_until < since;
        let open = !connection.broken && connection.stalled_until < since;
        let old = connection.made < since && connection.ends[SERVER] == to;
        awake && open && old
    }
}
