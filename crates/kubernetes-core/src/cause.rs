//! Why an executor on Kubernetes is over. A cause decides three things: how the driver's registry sees the end (and
//! with that who is blamed), whether it counts towards `spark.executor.maxNumFailures`, and whether the pod is kept.
//!
//! | cause | counts | pod |
//! |---|---|---|
//! | it exited, was out of memory, exceeded a limit of its own | yes | kept |
//! | it never registered, its image or its configuration is bad, it never started | while no other executor works | deleted |
//! | deleted, evicted, preempted, its node drained, gone or unwilling | no | deleted |
//! | the driver released it, or wants fewer; a volume of another pod did not come | no | deleted |

use std::fmt;

use firesteel_backend::blame::{Blame, End, ExitStatus, blame};
use firesteel_types::Host;

use crate::pod::StatusReason;

/// Why an executor is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Its process exited though nobody told it to.
    Exited(Option<ExitStatus>),
    /// The kernel killed it: it used more memory than its limit.
    OutOfMemory,
    /// The kubelet evicted it for a limit of its own, such as ephemeral storage; the kubelet's words.
    OwnLimit(String),
    /// Somebody deleted the pod.
    Deleted,
    /// The platform ended it: drained, preempted, evicted under pressure, node gone.
    Disrupted(StatusReason),
    /// The kubelet did not let the pod start, or ended it with its node.
    NodeRefused(StatusReason),
    /// The kubelet of this node did not take the pod in time.
    NodeSilent(Host),
    /// The API server does not know the pod any more, and its end was not seen.
    Vanished,
    /// It ran and did not register in time.
    NeverRegistered,
    /// Its image could not be pulled in time; the kubelet's words.
    ImagePull(String),
    /// Its image or what it refers to does not exist; the kubelet's words.
    BadConfig(String),
    /// It had a node and did not start in time; the kubelet's words if there are any.
    NeverStarted(Option<String>),
    /// No node had room for it in time; the scheduler's words.
    NeverScheduled(Option<String>),
    /// A volume that another pod had did not come to it; the words of scheduler or kubelet if there are any.
    NeverAttached(Option<String>),
    /// The driver's registry wants it to end.
    Released,
    /// Fewer are wanted, or it is to be placed elsewhere.
    Unwanted,
    /// Another one takes its place now and then, as its user wants.
    Rolled,
    /// A driver process that is gone had asked for it.
    PreviousGeneration,
}

impl Cause {
    /// How the driver's registry sees it.
    pub fn end(&self) -> End {
        match self {
            Cause::Exited(status) => End::Exited(*status),
            Cause::OutOfMemory => End::Exited(Some(ExitStatus::Signal(9))),
            Cause::OwnLimit(_) => End::Exited(None),
            Cause::Deleted
            | Cause::Disrupted(_)
            | Cause::NodeRefused(_)
            | Cause::NodeSilent(_)
            | Cause::Vanished => End::NodeLost,
            Cause::NeverRegistered => End::NeverRegistered,
            Cause::ImagePull(_) | Cause::BadConfig(_) | Cause::NeverStarted(_) => End::LaunchFailed,
            Cause::NeverScheduled(_)
            | Cause::NeverAttached(_)
            | Cause::Released
            | Cause::Unwanted
            | Cause::Rolled
            | Cause::PreviousGeneration => End::Told,
        }
    }

    /// Whether it counts towards the application's limit of failures.
    pub fn counts(&self, registered: bool) -> bool {
        blame(self.end(), registered) != Blame::Nobody
    }

    /// Whether the application ended it by itself: its pod says more than the driver knows.
    pub fn is_by_application(&self) -> bool {
        matches!(self, Cause::Exited(_) | Cause::OutOfMemory | Cause::OwnLimit(_))
    }

    /// Whether the platform took it.
    pub fn is_by_platform(&self) -> bool {
        self.end() == End::NodeLost
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Exited(Some(status)) => write!(f, "it ended with {status}"),
            Cause::Exited(None) => f.write_str("its pod failed without an exit code"),
            Cause::OutOfMemory => f.write_str(
                "it used more memory than its pod may (OOMKilled): raise spark.executor.memory or \
                 spark.executor.memoryOverhead",
            ),
            Cause::OwnLimit(words) => write!(f, "it was evicted for a limit of its own: {words}"),
            Cause::Deleted => f.write_str("its pod was deleted"),
            Cause::Disrupted(said) => {
                write!(f, "Kubernetes ended its pod ({}): {}", said.reason, said.words())
            }
            Cause::NodeRefused(said) => {
                write!(f, "its node refused its pod ({}): {}", said.reason, said.words())
            }
            Cause::NodeSilent(node) => {
                write!(
                    f,
                    "the kubelet of its node {node} did not take its pod: the node may be gone"
                )
            }
            Cause::Vanished => f.write_str("its pod does not exist any more"),
            Cause::NeverRegistered => f.write_str("it ran and never registered with the driver"),
            Cause::ImagePull(words) => write!(f, "its image could not be pulled: {words}"),
            Cause::BadConfig(words) => write!(f, "its container cannot be created: {words}"),
            Cause::NeverStarted(Some(words)) => {
                write!(f, "its container did not start in time: {words}")
            }
            Cause::NeverStarted(None) => f.write_str("its container did not start in time"),
            Cause::NeverScheduled(Some(words)) => write!(f, "no node could take its pod: {words}"),
            Cause::NeverScheduled(None) => f.write_str("its pod was not given a node in time"),
            Cause::NeverAttached(words) => {
                f.write_str("the volume of a pod before did not come to its pod")?;
                words.as_ref().map_or(Ok(()), |words| write!(f, ": {words}"))
            }
            Cause::Released => f.write_str("the driver removed it"),
            Cause::Rolled => {
                f.write_str("its time was over (spark.kubernetes.executor.rollInterval)")
            }
            Cause::Unwanted => f.write_str("it is not wanted any more"),
            Cause::PreviousGeneration => {
                f.write_str("a driver process that is gone had asked for it")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_platform_does_neither_counts_nor_blames_and_what_the_application_does_is_kept() {
        let said = StatusReason::new("PreemptionByScheduler", "");
        for cause in [
            Cause::Deleted,
            Cause::Disrupted(said.clone()),
            Cause::NodeRefused(said),
            Cause::NodeSilent(Host::new("n")),
            Cause::Vanished,
        ] {
            assert!(cause.is_by_platform() && !cause.is_by_application(), "{cause:?}");
            assert!(!cause.counts(true) && !cause.counts(false), "{cause:?}");
        }
        let own = Cause::OwnLimit(String::new());
        for cause in [Cause::Exited(Some(ExitStatus::Code(0))), Cause::OutOfMemory, own] {
            assert!(
                cause.is_by_application() && cause.counts(true) && cause.counts(false),
                "{cause:?}"
            );
        }
        for cause in [Cause::Released, Cause::Unwanted, Cause::Rolled, Cause::PreviousGeneration] {
            assert_eq!((cause.end(), cause.counts(true)), (End::Told, false), "{cause:?}");
        }
        assert!(Cause::NeverRegistered.counts(false) && Cause::NeverStarted(None).counts(false));
    }
}
