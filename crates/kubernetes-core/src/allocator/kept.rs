//! Pods that are over and left for people to look at.

use std::collections::{BTreeSet, VecDeque};

use crate::cause::Cause;
use crate::mutant::{Mutant, Planted};
use crate::options::Keep;
use crate::{PodName, PodUid};

/// So many are remembered where all are kept. Their label keeps them out of lists; this is for the time until they have it.
const REMEMBERED: usize = 1000;

/// The latest pods that are kept, oldest first.
#[derive(Debug)]
pub(super) struct KeptPods {
    keep: Keep,
    pods: VecDeque<(PodName, PodUid)>,
    uids: BTreeSet<PodUid>,
}

impl KeptPods {
    pub(super) fn new(keep: Keep) -> Self {
        KeptPods { keep, pods: VecDeque::new(), uids: BTreeSet::new() }
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
        self.uids.insert(uid.clone());
        self.pods.push_back((name, uid));
        if self.pods.len() <= limit.min(REMEMBERED) {
            return None;
        }
        let oldest = self.pods.pop_front()?;
        self.uids.remove(&oldest.1);
        // One that is only forgotten stays.
        (limit <= REMEMBERED).then_some(oldest)
    }

    pub(super) fn contains(&self, uid: &PodUid) -> bool {
        self.uids.contains(uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_all_pods_are_kept_none_is_deleted_and_the_latest_are_remembered() {
        let pod = |id: usize| (PodName::new(&format!("p-{id}")), PodUid::new(&format!("u-{id}")));
        let mut kept = KeptPods::new(Keep::All(usize::MAX));
        for id in 0..3 * REMEMBERED {
            let (name, uid) = pod(id);
            assert_eq!(kept.add(name, uid), None);
        }
        assert_eq!((kept.pods.len(), kept.uids.len()), (REMEMBERED, REMEMBERED));
        assert!(kept.contains(&pod(3 * REMEMBERED - 1).1) && !kept.contains(&pod(0).1));
        let mut few = KeptPods::new(Keep::Failures(1));
        assert_eq!(few.add(pod(1).0, pod(1).1), None);
        assert_eq!(few.add(pod(2).0, pod(2).1), Some(pod(1)));
        assert!(few.contains(&pod(2).1) && !few.contains(&pod(1).1));
    }
}
