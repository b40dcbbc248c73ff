//! Pods that are over and left for people to look at.

use std::collections::VecDeque;

use crate::cause::Cause;
use crate::mutant::{Mutant, Planted};
use crate::options::Keep;
use crate::{PodName, PodUid};

/// The latest pods that are kept, oldest first.
#[derive(Debug)]
pub(super) struct KeptPods {
    keep: Keep,
    pods: VecDeque<(PodName, PodUid)>,
}

impl KeptPods {
    pub(super) fn new(keep: Keep) -> Self {
        KeptPods { keep, pods: VecDeque::new() }
    }

    /// Whether the pod of an executor whose process ended for this cause is left.
    pub(super) fn keeps(&self, cause: &Cause, planted: Planted) -> bool {
        match self.keep {
            _ if planted.is(Mutant::KeepsNoPods) => false,
            Keep::None | Keep::Failures(0) | Keep::All(0) => false,
            Keep::Failures(_) => cause.is_by_application(),
            Keep::All(_) => true,
        }
    }

    /// Keeps one more, and gives back the one that is one too many.
    pub(super) fn add(&mut self, name: PodName, uid: PodUid) -> Option<(PodName, PodUid)> {
        let limit = match self.keep {
            Keep::None => 0,
            Keep::Failures(limit) | Keep::All(limit) => limit,
        };
        self.pods.push_back((name, uid));
        if self.pods.len() > limit { self.pods.pop_front() } else { None }
    }

    pub(super) fn contains(&self, uid: &PodUid) -> bool {
        self.pods.iter().any(|(_, kept)| kept == uid)
    }
}
