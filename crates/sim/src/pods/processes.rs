//! Executors: processes that register, send heartbeats, and end.

use std::collections::BTreeMap;

use firesteel_backend::executor::exit;
use firesteel_backend::protocol::{ToDriver, ToExecutor};
use firesteel_backend::registry::RegistryEvent;
use firesteel_backend::{AppId, Peer};
use firesteel_kubernetes_core::PodUid;
use firesteel_kubernetes_core::pod::Pod;
use firesteel_types::ExecutorId;

use super::plan::{HEARTBEAT_MS, REASON_WAIT_MS};
use super::{Event, World};

/// The process of an executor.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) executor: Option<ExecutorId>,
    pub(super) node: usize,
    pub(super) alive: bool,
    /// It stands still.
    pub(super) hung: bool,
    /// It never registers.
    mute: bool,
    /// The driver process it is connected to, and over which connection.
    pub(super) link: Option<(u64, Peer)>,
    pub(super) registered: bool,
    pub(super) exit: Option<(i32, &'static str)>,
}

impl Process {
    pub(super) fn new(pod: &Pod, node: usize, mute: bool) -> Self {
        let executor = pod.executor;
        Process {
            executor,
            node,
            alive: true,
            hung: false,
            mute,
            link: None,
            registered: false,
            exit: None,
        }
    }

    /// Whether it works for this driver process.
    pub(super) fn is_working(&self, generation: u64) -> bool {
        let linked = self.link.is_some_and(|(of, _)| of == generation);
        self.alive && !self.hung && self.registered && linked
    }
}

impl World {
    fn is_reachable(&self, uid: &PodUid) -> bool {
        let process = self.processes.get(uid);
        process.is_some_and(|process| {
            process.alive && !process.hung && self.nodes[process.node].reachable
        })
    }

    pub(super) fn process_registers(&mut self, uid: &PodUid) -> Result<(), String> {
        let Some(process) =
            self.processes.get(uid).filter(|process| process.alive && !process.mute)
        else {
            return Ok(());
        };
        if process.link.is_some() {
            return Ok(());
        }
        let reachable = self.is_reachable(uid);
        let Some(driver) = self.driver.as_mut().filter(|_| reachable) else {
            self.after(300, Event::ProcessRegisters(uid.clone()));
            return Ok(());
        };
        let (of, peer) = (driver.generation, driver.connect(uid));
        let executor = process.executor.unwrap_or(ExecutorId(0));
        let host = self.nodes[process.node].name.clone();
        if let Some(process) = self.processes.get_mut(uid) {
            process.link = Some((of, peer));
        }
        let message = ToDriver::RegisterExecutor {
            app: AppId::new("app"),
            executor,
            host,
            cores: 1,
            hash: None,
            log_urls: BTreeMap::new(),
            attributes: BTreeMap::new(),
        };
        self.say_to_driver(of, peer, message);
        self.after(HEARTBEAT_MS, Event::ProcessBeats(uid.clone()));
        Ok(())
    }

    fn say_to_driver(&mut self, of: u64, from: Peer, message: ToDriver) {
        let delay = self.rng.u64(1..20);
        let event = RegistryEvent::ReceivedExecutor { from, has_address: true, message };
        self.after(delay, Event::ToDriver(of, event));
    }

    pub(super) fn process_beats(&mut self, uid: &PodUid) -> Result<(), String> {
        let Some(process) = self.processes.get(uid).filter(|process| process.alive) else {
            return Ok(());
        };
        let Some((of, peer)) = process.link else { return Ok(()) };
        let executor = process.executor.unwrap_or(ExecutorId(0));
        if self.is_reachable(uid) {
            if self.driver.as_ref().is_none_or(|driver| driver.generation != of) {
                return self.process_exits(uid, exit::DRIVER_LOST, "Error");
            }
            self.say_to_driver(
                of,
                peer,
                ToDriver::ExecutorHeartbeat { executor, running: Vec::new() },
            );
        }
        self.after(HEARTBEAT_MS, Event::ProcessBeats(uid.clone()));
        Ok(())
    }

    pub(super) fn process_hears(
        &mut self,
        uid: &PodUid,
        message: ToExecutor,
    ) -> Result<(), String> {
        if !self.is_reachable(uid) {
            return Ok(());
        }
        match message {
            // The one may have been lost with its node's network, and says the same.
            ToExecutor::RegisteredExecutor
            | ToExecutor::HeartbeatResponse { reregister: false } => {
                if let Some(process) = self.processes.get_mut(uid) {
                    process.registered = true;
                }
                Ok(())
            }
            ToExecutor::RegisterExecutorFailed { .. } => {
                self.process_exits(uid, exit::REFUSED, "Error")
            }
            ToExecutor::StopExecutor => self.process_exits(uid, exit::STOPPED, "Completed"),
            _ => Ok(()),
        }
    }

    /// Its process ends by itself: its connection breaks, and its kubelet tells of it.
    pub(super) fn process_exits(
        &mut self,
        uid: &PodUid,
        code: i32,
        reason: &'static str,
    ) -> Result<(), String> {
        if self.processes.get(uid).is_some_and(|process| process.alive) {
            self.end_process(uid, code, reason);
        }
        Ok(())
    }

    fn end_process(&mut self, uid: &PodUid, code: i32, reason: &'static str) {
        let Some(process) = self.processes.get_mut(uid) else { return };
        (process.alive, process.exit) = (false, Some((code, reason)));
        let (link, reachable) = (process.link, self.nodes[process.node].reachable);
        if let Some((of, peer)) = link.filter(|_| reachable) {
            let delay = self.rng.u64(1..20);
            self.after(delay, Event::ToDriver(of, RegistryEvent::ExecutorDisconnected { peer }));
        }
        let late = self.rng.u8(..6) == 0;
        self.counters.kubelets_late += u64::from(late);
        let delay = self.rng.u64(if late { REASON_WAIT_MS..2 * REASON_WAIT_MS } else { 5..120 });
        self.after(delay, Event::ContainerEnded(uid.clone()));
    }

    /// Its kubelet kills it.
    pub(super) fn kill(&mut self, uid: &PodUid) {
        self.kill_for(uid, "Error");
    }

    pub(super) fn kill_for(&mut self, uid: &PodUid, reason: &'static str) {
        if self.processes.get(uid).is_some_and(|process| process.alive) {
            self.end_process(uid, 137, reason);
        }
    }
}
