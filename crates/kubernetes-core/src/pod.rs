//! A pod as the API server shows it, reduced to what decisions need, and what its state means.
//!
//! Types decide here, not texts: phases, conditions, reasons and exit codes are fields of the API. Messages of scheduler
//! and kubelet are passed on to people word for word.

use firesteel_backend::blame::ExitStatus;
use firesteel_backend::{AppId, named_id, numbered_id};
use firesteel_types::{ExecutorId, Host};

use crate::ClaimName;
use crate::cause::Cause;

named_id!(
    /// The name of a pod, unique in its namespace as long as the pod exists.
    PodName
);
named_id!(
    /// What tells a pod from another one that had its name before.
    PodUid
);
numbered_id!(
    /// A driver process: another one has a larger number. Pods carry it in a label.
    Generation
);
numbered_id!(
    /// A `resourceVersion`. API servers number all changes of a cluster in one order.
    Version
);

/// `status.phase`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
    /// Its node cannot be reached; API servers since 1.27 do not say so any more.
    Unknown,
}

/// A reason for programs and a message for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusReason {
    pub reason: String,
    pub message: String,
}

impl StatusReason {
    pub fn new(reason: &str, message: &str) -> Self {
        StatusReason { reason: reason.to_owned(), message: message.to_owned() }
    }

    /// For people: what was said, or at least why.
    pub fn words(&self) -> &str {
        if self.message.is_empty() { &self.reason } else { &self.message }
    }
}

/// What a container does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerState {
    Waiting(StatusReason),
    Running,
    Terminated {
        exit_code: i32,
        reason: String,
        /// What it left to be read: its termination message, or the end of its log.
        message: String,
    },
}

/// A container of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Whether the executor runs in it; others came with a template or by an admission webhook.
    pub is_executor: bool,
    pub state: ContainerState,
}

/// A pod of this application, or of another one that has a name this one wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    pub name: PodName,
    pub uid: PodUid,
    pub version: Version,
    /// Whose it is: label `spark-app-selector`, or the annotation that says the same, which admission webhooks leave alone.
    pub app: Option<AppId>,
    /// Label `spark-exec-id`.
    pub executor: Option<ExecutorId>,
    /// Which driver process created it.
    pub generation: Option<Generation>,
    /// The driver's pod that it belongs to, and goes with.
    pub owner: Option<PodUid>,
    /// Label `spark-exec-inactive`: it is over and kept for people to look at.
    pub inactive: bool,
    pub phase: Phase,
    /// `status.reason` and `status.message`: set when the kubelet ended or refused the pod as a whole.
    pub status: Option<StatusReason>,
    /// Once it is scheduled.
    pub node: Option<Host>,
    /// The scheduler's message while condition `PodScheduled` is false.
    pub unschedulable: Option<String>,
    /// Condition `DisruptionTarget`: the platform ends it.
    pub disruption: Option<StatusReason>,
    /// Whether it has a `deletionTimestamp`.
    pub terminating: bool,
    pub containers: Vec<Container>,
    /// Persistent volume claims that its volumes name.
    pub claims: Vec<ClaimName>,
}

/// What keeps a scheduled pod from starting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Its image cannot be pulled, so far.
    Image(String),
    /// Its image can never be pulled, or what its container refers to does not exist.
    Config(String),
    /// Something else that the kubelet said.
    Other(String),
}

/// What a pod's state means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It waits for a node; the scheduler's words if it looked for one in vain.
    Pending(Option<String>),
    /// It has a node, whose kubelet has not taken it: a kubelet that does says so of each container at once.
    Assigned(Host),
    /// It has a node and does not run yet.
    Scheduled(Host, Option<Obstacle>),
    /// The executor's process runs.
    Running(Host),
    /// It is about to end: its process may be there for a while, or for ever when its node is gone.
    Terminating(Cause),
    Over(Cause),
    /// Nothing can be said.
    Unknown,
}

impl Pod {
    /// What its state means. `all_containers`: any container that fails ends the executor
    /// (`spark.kubernetes.executor.checkAllContainers`).
    pub fn verdict(&self, all_containers: bool) -> Verdict {
        if let Some(ended) = self.ended(all_containers) {
            return Verdict::Over(self.cause(ended));
        }
        // The component that disrupts a pod says so before it deletes it.
        if self.terminating || self.disruption.is_some() {
            return Verdict::Terminating(self.disrupted().unwrap_or(Cause::Deleted));
        }
        match (&self.node, self.phase) {
            (_, Phase::Unknown) => Verdict::Unknown,
            (None, _) => Verdict::Pending(self.unschedulable.clone()),
            (Some(node), _) if self.executor_runs() => Verdict::Running(node.clone()),
            (Some(node), _) if self.containers.is_empty() => Verdict::Assigned(node.clone()),
            (Some(node), _) => Verdict::Scheduled(node.clone(), self.obstacle()),
        }
    }

    /// Whether nothing of it runs any more, and nothing ever will.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// Whether something of it runs, though its executor may be over: containers that came with a template or by an admission webhook,
    /// or the executor's own, which a container beside it has failed.
    pub fn runs_on(&self) -> bool {
        let runs = |container: &Container| container.state == ContainerState::Running;
        !self.is_over() && self.containers.iter().any(runs)
    }

    /// The last lines that a container said which failed, the executor's before all others, on one line.
    pub fn last_words(&self) -> Option<String> {
        let said = |container: &Container| match &container.state {
            ContainerState::Terminated { exit_code, message, .. } if *exit_code != 0 => {
                last_lines(message)
            }
            _ => None,
        };
        let executor = self.containers.iter().filter(|one| one.is_executor).find_map(said);
        executor.or_else(|| self.containers.iter().find_map(said))
    }

    fn executor_state(&self) -> Option<&ContainerState> {
        let executor = self.containers.iter().find(|container| container.is_executor);
        executor.map(|container| &container.state)
    }

    fn executor_runs(&self) -> bool {
        matches!(self.executor_state(), Some(ContainerState::Running))
    }

    /// The container that decided that the executor is over, if one did; `None` in it if the phase says so alone.
    fn ended(&self, all_containers: bool) -> Option<Option<(i32, &str)>> {
        let ends = |container: &&Container| {
            let ContainerState::Terminated { exit_code, .. } = &container.state else {
                return false;
            };
            container.is_executor || all_containers && *exit_code != 0
        };
        let mut ended: Vec<&Container> = self.containers.iter().filter(ends).collect();
        ended.sort_by_key(|container| !container.is_executor);
        let found = ended.first().and_then(|container| match &container.state {
            ContainerState::Terminated { exit_code, reason, .. } => {
                Some((*exit_code, reason.as_str()))
            }
            _ => None,
        });
        (found.is_some() || self.is_over()).then_some(found)
    }

    /// Condition `DisruptionTarget` speaks of the platform. Kubelets set no such condition when a pod exceeded a limit
    /// of its own.
    fn disrupted(&self) -> Option<Cause> {
        self.disruption.clone().map(Cause::Disrupted)
    }

    fn cause(&self, container: Option<(i32, &str)>) -> Cause {
        if let Some(disrupted) = self.disrupted() {
            return disrupted;
        }
        match &self.status {
            Some(said) if said.reason == "Evicted" => {
                return Cause::OwnLimit(said.words().to_owned());
            }
            Some(said) if !said.reason.is_empty() && container.is_none() => {
                return Cause::NodeRefused(said.clone());
            }
            _ => {}
        }
        match container {
            Some((_, "OOMKilled")) => Cause::OutOfMemory,
            // The kubelet was started again and finds no trace of it.
            Some((_, reason @ "ContainerStatusUnknown")) => {
                Cause::Disrupted(StatusReason::new(reason, "its node has lost its container"))
            }
            _ if self.terminating => Cause::Deleted,
            Some((code, _)) => Cause::Exited(Some(exit_status(code))),
            None => Cause::Exited(None),
        }
    }

    fn obstacle(&self) -> Option<Obstacle> {
        // A container waits for those before it: one of them may be what keeps the pod from starting.
        let harmless = ["", "ContainerCreating", "PodInitializing"];
        let said = self.containers.iter().find_map(|container| match &container.state {
            ContainerState::Waiting(said) if !harmless.contains(&said.reason.as_str()) => {
                Some(said)
            }
            _ => None,
        })?;
        let words = format!("{}: {}", said.reason, said.words());
        Some(match said.reason.as_str() {
            "ErrImagePull" | "ImagePullBackOff" | "RegistryUnavailable" => Obstacle::Image(words),
            "InvalidImageName" | "ErrImageNeverPull" | "CreateContainerConfigError" => {
                Obstacle::Config(words)
            }
            _ => Obstacle::Other(words),
        })
    }
}

/// So many lines and characters of a log are shown in a sentence.
const LAST_LINES: usize = 3;
const LAST_CHARACTERS: usize = 300;

/// So many of a log that was fetched.
pub const LOG_LINES: usize = 10;
pub const LOG_BYTES: usize = 4096;

/// The end of a text on one line, if it has any.
pub fn last_lines(text: &str) -> Option<String> {
    ending(text, LAST_LINES, LAST_CHARACTERS)
}

/// The same of a log that was fetched.
pub fn log_lines(text: &str) -> Option<String> {
    ending(text, LOG_LINES, LOG_BYTES)
}

fn ending(text: &str, most: usize, characters: usize) -> Option<String> {
    let lines = text.lines().rev().map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<&str> = lines.take(most).collect();
    let joined = lines.into_iter().rev().collect::<Vec<_>>().join(" / ");
    let plain: Vec<char> = joined.chars().filter(|c| !c.is_control()).collect();
    let end: String = plain[plain.len().saturating_sub(characters)..].iter().collect();
    (!end.is_empty()).then_some(end)
}

/// Container runtimes write a signal as 128 more than its number.
fn exit_status(code: i32) -> ExitStatus {
    match code {
        129..=159 => ExitStatus::Signal(code - 128),
        code => ExitStatus::Code(code),
    }
}

#[cfg(test)]
#[path = "pod_tests.rs"]
mod tests;
