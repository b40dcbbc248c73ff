//! Scheduler, kubelets and node controller.

use firesteel_kubernetes_core::PodUid;
use firesteel_kubernetes_core::pod::{Container, ContainerState, Phase, Pod, StatusReason};
use firesteel_types::Host;

use super::plan::{GONE, NodePlan, Obstacle};
use super::processes::Process;
use super::{Event, Part, World};

/// A machine of the cluster.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) name: Host,
    pub(super) slots: u32,
    pub(super) bad: bool,
    /// Its processes run and can be reached.
    pub(super) reachable: bool,
    /// Its kubelet works and can be reached.
    pub(super) kubelet: bool,
    /// The scheduler gives it pods.
    pub(super) ready: bool,
}

impl Node {
    pub(super) fn new(at: usize, plan: NodePlan) -> Self {
        let name = Host::new(&format!("node-{at}"));
        let NodePlan { slots, bad } = plan;
        Node { name, slots, bad, reachable: true, kubelet: true, ready: true }
    }
}

fn container(state: ContainerState) -> Vec<Container> {
    vec![Container { is_executor: true, state }]
}

impl World {
    fn node_of(&self, pod: &Pod) -> Option<usize> {
        let name = pod.node.as_ref()?;
        self.nodes.iter().position(|node| node.name == *name)
    }

    fn load(&self, node: &Host) -> u32 {
        self.server.live().filter(|pod| pod.node.as_ref() == Some(node)).count() as u32
    }

    /// Whether a pod waits though a node has room for it: it avoids that one, until the allocator pardons it.
    pub(super) fn waits_for_pardon(&self) -> bool {
        let has_room =
            self.nodes.iter().any(|node| node.ready && self.load(&node.name) < node.slots);
        has_room && self.server.live().any(|pod| pod.node.is_none())
    }

    pub(super) fn schedule(&mut self, uid: &PodUid) -> Result<(), String> {
        let Some(pod) = self.server.get(uid) else { return Ok(()) };
        if pod.node.is_some() || pod.is_over() {
            return Ok(());
        }
        let fits = self.nodes.iter().filter(|node| {
            node.ready
                && self.load(&node.name) < node.slots
                && self.server.may_be_on(uid, &node.name)
        });
        let fits: Vec<Host> = fits.map(|node| node.name.clone()).collect();
        if fits.is_empty() {
            let words = format!("0/{} nodes are available", self.nodes.len());
            self.counters.pods_unschedulable += 1;
            self.book.found_no_node(self.now);
            self.server.change(uid, |pod| pod.unschedulable = Some(words));
            self.changed();
            self.after(250, Event::SchedulerLooks(uid.clone()));
            return Ok(());
        }
        let (last, rather): (Vec<Host>, Vec<Host>) =
            fits.into_iter().partition(|node| self.server.is_last_choice(uid, node));
        self.counters.nodes_last_choice += last.len() as u64;
        let fits = if rather.is_empty() { last } else { rather };
        let node = fits[self.rng.usize(..fits.len())].clone();
        self.server.change(uid, |pod| (pod.node, pod.unschedulable) = (Some(node), None));
        self.changed();
        let delay = self.rng.u64(5..150);
        self.after(delay, Event::ContainerStarts(uid.clone()));
        Ok(())
    }

    /// The kubelet of the pod's node starts its container, if nothing is in the way.
    pub(super) fn start_container(&mut self, uid: &PodUid) -> Result<(), String> {
        let Some(pod) = self.server.get(uid).cloned() else { return Ok(()) };
        let Some(node) = self.node_of(&pod).filter(|node| self.nodes[*node].kubelet) else {
            return Ok(());
        };
        let runs = self.processes.contains_key(uid);
        if pod.terminating || pod.is_over() || runs {
            return Ok(());
        }
        if self.is_kept_from_starting(uid, &pod) {
            return Ok(());
        }
        let bad_luck = self.part == Part::Faults && self.rng.u8(..100) < 4;
        let mute = bad_luck || self.plan.obstacle == Obstacle::Mute;
        self.counters.mute_executors += u64::from(mute);
        self.server.change(uid, |pod| {
            (pod.phase, pod.containers) = (Phase::Running, container(ContainerState::Running));
        });
        self.changed();
        self.processes.insert(uid.clone(), Process::new(&pod, node, mute));
        let false_start = self.nodes[node].bad || self.plan.obstacle == Obstacle::CrashLoop;
        if false_start || self.part == Part::Faults && self.rng.u8(..100) < 3 {
            self.counters.false_starts += 1;
            self.book.failed_by_app(uid);
            self.after(20, Event::ProcessExits(uid.clone(), 1, "Error"));
        } else {
            let delay = self.rng.u64(20..300);
            self.after(delay, Event::ProcessRegisters(uid.clone()));
        }
        Ok(())
    }

    fn is_kept_from_starting(&mut self, uid: &PodUid, pod: &Pod) -> bool {
        let obstacle = self.plan.obstacle;
        let bad_luck = self.part == Part::Faults;
        let luck = self.rng.u8(..100);
        let waits = |reason: &str, words: &str| {
            container(ContainerState::Waiting(StatusReason::new(reason, words)))
        };
        let had_image_error = !pod.containers.is_empty();
        let (waiting, again) = match luck {
            _ if obstacle == Obstacle::BadConfig => {
                self.counters.config_errors += 1;
                (Some(waits("CreateContainerConfigError", obstacle.words())), false)
            }
            _ if obstacle == Obstacle::BadImage => {
                self.counters.image_errors += 1;
                (Some(waits("ErrImagePull", obstacle.words())), false)
            }
            0..=3 if bad_luck && !had_image_error => {
                self.counters.image_errors += 1;
                (Some(waits("ImagePullBackOff", "registry is down")), true)
            }
            4..=6 if bad_luck => {
                self.counters.stuck_starts += 1;
                (Some(waits("ContainerCreating", "")), false)
            }
            7..=8 if bad_luck => {
                self.counters.pods_refused += 1;
                self.book.ended_by_platform(uid);
                let status =
                    Some(StatusReason::new("OutOfcpu", "Node didn't have enough resource"));
                self.server.change(uid, |pod| (pod.phase, pod.status) = (Phase::Failed, status));
                self.changed();
                return true;
            }
            _ => return false,
        };
        if let Some(containers) = waiting {
            self.server.change(uid, |pod| pod.containers = containers);
            self.changed();
        }
        if again {
            self.after(500, Event::ContainerStarts(uid.clone()));
        }
        true
    }

    /// A pod is deleted at the API server: at once, or when its node says that it is gone.
    pub(super) fn delete_pod(&mut self, uid: &PodUid, grace_ms: u64) -> Result<(), String> {
        let Some(pod) = self.server.get(uid).cloned() else { return Ok(()) };
        let node = self.node_of(&pod);
        if grace_ms == 0 || pod.is_over() || node.is_none() {
            self.server.remove(uid);
            self.changed();
            if node.is_some_and(|node| self.nodes[node].kubelet) {
                self.kill(uid);
            }
            return Ok(());
        }
        if !pod.terminating {
            self.server.change(uid, |pod| pod.terminating = true);
            self.changed();
            self.end_softly(uid, grace_ms);
        }
        Ok(())
    }

    /// The kubelet asks the process to end, and kills it when its grace is over.
    fn end_softly(&mut self, uid: &PodUid, grace_ms: u64) {
        let obeys = self.processes.get(uid).is_some_and(|process| process.alive && !process.hung);
        let kubelet = self.server.get(uid).and_then(|pod| self.node_of(pod));
        if obeys && kubelet.is_some_and(|node| self.nodes[node].kubelet) {
            let delay = self.rng.u64(20..500);
            self.after(delay, Event::ProcessExits(uid.clone(), 143, "Error"));
        }
        let runs = self.processes.get(uid).is_some_and(|process| process.alive);
        self.after(if runs { grace_ms } else { 30 }, Event::GraceEnds(uid.clone()));
    }

    pub(super) fn end_grace(&mut self, uid: &PodUid) -> Result<(), String> {
        let Some(pod) = self.server.get(uid).filter(|pod| pod.terminating) else { return Ok(()) };
        if self.node_of(pod).is_some_and(|node| self.nodes[node].kubelet) {
            self.kill(uid);
            self.server.remove(uid);
            self.changed();
        }
        Ok(())
    }

    /// The kubelet tells how a container ended.
    pub(super) fn report_container(&mut self, uid: &PodUid) -> Result<(), String> {
        let Some(pod) = self.server.get(uid).cloned() else { return Ok(()) };
        let Some((exit_code, reason)) = self.processes.get(uid).and_then(|process| process.exit)
        else {
            return Ok(());
        };
        let works = self.node_of(&pod).is_some_and(|node| self.nodes[node].kubelet);
        if !works || pod.is_over() {
            return Ok(());
        }
        let phase = if exit_code == 0 { Phase::Succeeded } else { Phase::Failed };
        let state = ContainerState::Terminated {
            exit_code,
            reason: reason.to_owned(),
            message: String::new(),
        };
        self.server.change(uid, |pod| (pod.phase, pod.containers) = (phase, container(state)));
        if pod.terminating {
            self.server.remove(uid);
        }
        self.changed();
        Ok(())
    }

    /// The node controller deletes the pods of a node that has been silent for too long.
    pub(super) fn evict_node(&mut self, at: usize) -> Result<(), String> {
        if self.nodes[at].kubelet {
            return Ok(());
        }
        self.nodes[at].ready = false;
        let name = self.nodes[at].name.clone();
        let there = self.server.live().filter(|pod| pod.node.as_ref() == Some(&name));
        let there: Vec<PodUid> = there.map(|pod| pod.uid.clone()).collect();
        for uid in there {
            let said = StatusReason::new("DeletionByTaintManager", "node is gone");
            self.delete_by_platform(&uid, Some(said), false)?;
        }
        Ok(())
    }

    /// A node that was gone is there again, with its processes or without.
    pub(super) fn return_node(&mut self, at: usize, rebooted: bool) -> Result<(), String> {
        if self.plan.gone.is_some() && at == GONE && self.now >= self.plan.quiet_at - 1 {
            return Ok(());
        }
        let node = &mut self.nodes[at];
        if node.kubelet && node.reachable {
            node.ready = true;
            return Ok(());
        }
        (node.reachable, node.kubelet, node.ready) = (true, true, true);
        let name = node.name.clone();
        let mine = self.processes.iter().filter(|(_, process)| process.node == at);
        let processes: Vec<PodUid> = mine.map(|(uid, _)| uid.clone()).collect();
        for uid in processes {
            if rebooted || self.server.get(&uid).is_none_or(|pod| pod.terminating) {
                let reason = if rebooted { "ContainerStatusUnknown" } else { "Error" };
                self.kill_for(&uid, reason);
            }
            self.report_container(&uid)?;
        }
        let there = self.server.live().filter(|pod| pod.node.as_ref() == Some(&name));
        let there: Vec<_> = there.map(|pod| (pod.uid.clone(), pod.terminating)).collect();
        for (uid, terminating) in there {
            match terminating {
                true => self.end_grace(&uid)?,
                false => self.after(10, Event::ContainerStarts(uid)),
            }
        }
        Ok(())
    }

    /// Somebody who is not the driver deletes a pod.
    pub(super) fn delete_by_platform(
        &mut self,
        uid: &PodUid,
        disruption: Option<StatusReason>,
        force: bool,
    ) -> Result<(), String> {
        self.book.ended_by_platform(uid);
        if disruption.is_some() {
            self.server.change(uid, |pod| pod.disruption = disruption);
        }
        self.delete_pod(uid, if force { 0 } else { 800 })
    }
}
