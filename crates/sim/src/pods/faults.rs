//! What goes wrong, at its moment.

use fastrand::Rng;
use firesteel_backend::executor::exit;
use firesteel_backend::registry::RegistryEvent;
use firesteel_kubernetes_core::PodUid;
use firesteel_kubernetes_core::pod::{Phase, StatusReason};

use super::plan::{EVICTED_MS, GONE, NOT_READY_MS};
use super::{Event, World};

/// One thing that goes wrong.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    Crash,
    ExitZero,
    OutOfMemory,
    OwnLimit,
    Hang,
    BreakConnection,
    DeletePod,
    ForceDeletePod,
    /// The newest pod, before anybody saw it.
    DeleteNewest,
    Disrupt,
    RebootNode,
    CutOffNode,
    KillKubelet,
    CloseWatch,
    StallWatch,
    Compact,
    ServerDown,
    Throttle,
    ExpireCredentials,
    Deny,
    Quota,
    RestartDriver,
    ChangeTarget,
    Release,
    /// The second node goes for good.
    LoseNode,
}

const ALL: [Fault; 24] = [
    Fault::Crash,
    Fault::ExitZero,
    Fault::OutOfMemory,
    Fault::OwnLimit,
    Fault::Hang,
    Fault::BreakConnection,
    Fault::DeletePod,
    Fault::ForceDeletePod,
    Fault::DeleteNewest,
    Fault::Disrupt,
    Fault::RebootNode,
    Fault::CutOffNode,
    Fault::KillKubelet,
    Fault::CloseWatch,
    Fault::StallWatch,
    Fault::Compact,
    Fault::ServerDown,
    Fault::Throttle,
    Fault::ExpireCredentials,
    Fault::Deny,
    Fault::Quota,
    Fault::RestartDriver,
    Fault::ChangeTarget,
    Fault::Release,
];

impl Fault {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        ALL[rng.usize(..ALL.len())]
    }
}

impl World {
    pub(super) fn fault(&mut self, fault: Fault) -> Result<(), String> {
        match fault {
            Fault::Crash | Fault::ExitZero | Fault::OutOfMemory | Fault::OwnLimit => {
                self.end_by_itself(fault)
            }
            Fault::Hang => {
                if let Some(uid) = self.some_process() {
                    self.counters.hung += 1;
                    self.processes.entry(uid).and_modify(|process| process.hung = true);
                }
                Ok(())
            }
            Fault::BreakConnection => self.break_connection(),
            Fault::DeletePod | Fault::ForceDeletePod | Fault::DeleteNewest | Fault::Disrupt => {
                self.end_by_others(fault)
            }
            Fault::RebootNode | Fault::CutOffNode | Fault::KillKubelet => self.lose_node(fault),
            Fault::CloseWatch => {
                self.counters.watches_closed += 1;
                self.end_watch(None)
            }
            Fault::StallWatch => {
                let stream = self.driver.as_mut().and_then(|driver| driver.stream.as_mut());
                if let Some(stream) = stream {
                    self.counters.watches_stalled += 1;
                    stream.stalled = true;
                }
                Ok(())
            }
            Fault::Compact => {
                self.server.compact();
                self.end_watch(None)
            }
            Fault::LoseNode => self.lose_second_node(),
            Fault::RestartDriver => self.restart_driver(),
            Fault::ChangeTarget => self.change_target(),
            Fault::Release => self.release_some(),
            _ => self.trouble_server(fault),
        }
    }

    fn trouble_server(&mut self, fault: Fault) -> Result<(), String> {
        let until = self.now + self.rng.u64(200..2500);
        let quota = self.rng.u32(..self.target + 1);
        let faults = self.server.faults();
        match fault {
            Fault::ServerDown => faults.down_until = until,
            Fault::Throttle => faults.throttled_until = until,
            Fault::ExpireCredentials => faults.credentials_expired = true,
            Fault::Deny => faults.denied_until = until,
            _ => faults.quota = Some(quota),
        }
        match fault {
            Fault::ServerDown => self.end_watch(None),
            _ => Ok(()),
        }
    }

    /// Some executor that runs.
    fn some_process(&mut self) -> Option<PodUid> {
        let alive = self.processes.iter().filter(|(_, process)| process.alive && !process.hung);
        let alive: Vec<&PodUid> = alive.map(|(uid, _)| uid).collect();
        (!alive.is_empty()).then(|| alive[self.rng.usize(..alive.len())].clone())
    }

    fn some_pod(&mut self, newest: bool) -> Option<PodUid> {
        let live: Vec<_> = self.server.live().filter(|pod| !pod.terminating).collect();
        let latest = live.iter().max_by_key(|pod| pod.version).map(|pod| pod.uid.clone());
        match newest {
            true => latest,
            false => (!live.is_empty())
                .then(|| self.rng.usize(..live.len()))
                .map(|at| live[at].uid.clone()),
        }
    }

    fn end_by_itself(&mut self, fault: Fault) -> Result<(), String> {
        let Some(uid) = self.some_process() else { return Ok(()) };
        self.book.failed_by_app(&uid);
        let (code, reason) = match fault {
            Fault::Crash => {
                self.counters.crashes += 1;
                ([1, 134, exit::UNFIT][self.rng.usize(..3)], "Error")
            }
            Fault::ExitZero => {
                self.counters.zero_exits += 1;
                (0, "Completed")
            }
            Fault::OutOfMemory => {
                self.counters.out_of_memory += 1;
                (137, "OOMKilled")
            }
            _ => {
                self.counters.own_limits += 1;
                let status = Some(StatusReason::new(
                    "Evicted",
                    "exceeded its local ephemeral storage limit",
                ));
                self.server.change(&uid, |pod| (pod.phase, pod.status) = (Phase::Failed, status));
                self.changed();
                (137, "Error")
            }
        };
        self.process_exits(&uid, code, reason)
    }

    fn end_by_others(&mut self, fault: Fault) -> Result<(), String> {
        let newest = matches!(fault, Fault::DeleteNewest);
        let Some(uid) = self.some_pod(newest) else { return Ok(()) };
        let said = match fault {
            Fault::Disrupt => {
                self.counters.pods_disrupted += 1;
                let reasons =
                    ["PreemptionByScheduler", "EvictionByEvictionAPI", "TerminationByKubelet"];
                Some(StatusReason::new(reasons[self.rng.usize(..3)], "the platform needs its room"))
            }
            Fault::DeletePod => {
                self.counters.pods_deleted += 1;
                None
            }
            Fault::ForceDeletePod => {
                self.counters.pods_forced += 1;
                None
            }
            _ => {
                self.counters.pods_deleted_unseen += 1;
                None
            }
        };
        let force = matches!(fault, Fault::ForceDeletePod | Fault::DeleteNewest);
        self.delete_by_platform(&uid, said, force)
    }

    fn break_connection(&mut self) -> Result<(), String> {
        let Some(uid) = self.some_process() else { return Ok(()) };
        let Some((of, peer)) = self.processes.get(&uid).and_then(|process| process.link) else {
            return Ok(());
        };
        self.counters.connections_broken += 1;
        self.book.failed_by_app(&uid);
        self.after(300, Event::ProcessExits(uid, exit::DRIVER_LOST, "Error"));
        self.feed_registry(of, RegistryEvent::ExecutorDisconnected { peer })
    }

    fn lose_node(&mut self, fault: Fault) -> Result<(), String> {
        let at = self.rng.usize(..self.nodes.len());
        let reboots = matches!(fault, Fault::RebootNode);
        self.nodes[at].kubelet = false;
        match fault {
            Fault::KillKubelet => self.counters.kubelets_dead += 1,
            Fault::RebootNode => self.counters.nodes_rebooted += 1,
            _ => self.counters.nodes_unreachable += 1,
        }
        if !matches!(fault, Fault::KillKubelet) {
            self.nodes[at].reachable = false;
        }
        self.book.node_lost(
            self.server.live().filter(|pod| pod.node.as_ref() == Some(&self.nodes[at].name)),
        );
        self.after(NOT_READY_MS, Event::NodeControllerActs(at));
        self.after(EVICTED_MS, Event::NodeControllerActs(at));
        let back = self.rng.u64(300..4000);
        self.after(back, Event::NodeReturns(at, reboots));
        Ok(())
    }

    fn lose_second_node(&mut self) -> Result<(), String> {
        self.counters.nodes_gone += 1;
        let node = &mut self.nodes[GONE];
        (node.kubelet, node.reachable) = (false, self.plan.gone == Some(true));
        let name = self.nodes[GONE].name.clone();
        self.book.node_lost(self.server.live().filter(|pod| pod.node.as_ref() == Some(&name)));
        self.after(NOT_READY_MS, Event::NodeControllerActs(GONE));
        self.after(EVICTED_MS, Event::NodeControllerActs(GONE));
        Ok(())
    }

    fn restart_driver(&mut self) -> Result<(), String> {
        if self.driver.is_none() || self.app_is_over() {
            return Ok(());
        }
        self.driver = None;
        self.counters.drivers_restarted += 1;
        let wait = self.rng.u64(20..1500);
        self.after(wait, Event::DriverStarts);
        Ok(())
    }

    fn change_target(&mut self) -> Result<(), String> {
        let Some(driver) = &self.driver else { return Ok(()) };
        let of = driver.generation;
        self.counters.targets_changed += 1;
        // What its obstacle is about depends on how many are wanted.
        let least = if self.plan.obstacle.words().is_empty() { 0 } else { self.plan.target };
        self.target = self.rng.u32(least..self.plan.target + 1);
        self.feed_registry(of, RegistryEvent::TargetChanged { total: self.target })
    }

    fn release_some(&mut self) -> Result<(), String> {
        let Some(driver) = &self.driver else { return Ok(()) };
        let (of, executors) =
            (driver.generation, driver.registry.executors().take(1).collect::<Vec<_>>());
        self.counters.executors_released += executors.len() as u64;
        self.feed_registry(of, RegistryEvent::KillRequested { executors })
    }
}
