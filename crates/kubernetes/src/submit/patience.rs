//! How long a driver may take to start, by what keeps it from starting. A submitter that waits for its end does not wait for one that
//! never begins.

use std::time::{Duration, Instant};

use firesteel_conf::{Conf, Unschedulable, entries};
use k8s_openapi::api::core::v1::{ContainerState, Pod};

use crate::Error;

/// No node takes it: so long, where that is not waited for; the allocator's for executors.
const UNSCHEDULED: Duration = Duration::from_secs(600);

/// The deadlines of executors' pods, which a driver's has, too.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Its image cannot be pulled, or what it refers to does not exist.
    pub(super) image: Duration,
    /// It has a node, and nothing of it runs.
    pub(super) start: Duration,
    /// No node takes it; `None`: it is waited for.
    pub(super) node: Option<Duration>,
}

impl Patience {
    pub(super) fn of(conf: &Conf) -> Result<Self, Error> {
        let waits = conf.get(&entries::KUBERNETES_UNSCHEDULABLE)? == Unschedulable::Wait;
        Ok(Patience {
            image: conf.get(&entries::KUBERNETES_IMAGE_TIMEOUT)?,
            start: conf.get(&entries::KUBERNETES_ALLOCATION_EXECUTOR_TIMEOUT)?,
            node: (!waits).then_some(UNSCHEDULED),
        })
    }
}

/// What a driver's pod waits for of which nothing runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    Node,
    /// Its image, or what its containers refer to.
    Image,
    Start,
}

impl Waits {
    /// Nothing, once one of its containers runs or the pod is about to end.
    pub(super) fn of(pod: &Pod, container: &str) -> Option<Self> {
        let status = pod.status.as_ref();
        let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or("Pending");
        if phase != "Pending" || pod.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        if node.is_none_or(str::is_empty) {
            return Some(Waits::Node);
        }
        let first = status.and_then(|status| status.init_container_statuses.as_deref());
        let own = status.and_then(|status| status.container_statuses.as_deref());
        let all = || first.unwrap_or_default().iter().chain(own.unwrap_or_default());
        let started = all().any(|one| {
            let state = one.state.as_ref();
            let ended = state.is_some_and(|state| state.terminated.is_some());
            state.is_some_and(|state| state.running.is_some()) || ended && one.name == container
        });
        if started {
            return None;
        }
        let lacks = all().any(|one| one.state.as_ref().is_some_and(lacks_something));
        Some(if lacks { Waits::Image } else { Waits::Start })
    }
}

fn lacks_something(state: &ContainerState) -> bool {
    let reason = state.waiting.as_ref().and_then(|waiting| waiting.reason.as_deref());
    let reasons = [
        "ErrImagePull",
        "ImagePullBackOff",
        "RegistryUnavailable",
        "InvalidImageName",
        "ErrImageNeverPull",
        "CreateContainerConfigError",
    ];
    reason.is_some_and(|reason| reasons.contains(&reason))
}

/// Since when a driver's pod waits for what.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waited {
    node: Option<Instant>,
    start: Option<Instant>,
    image: Option<Instant>,
}

impl Waited {
    /// How long it was waited for, if that is long enough.
    pub(super) fn too_long(
        &mut self,
        waits: Option<Waits>,
        patience: &Patience,
    ) -> Option<Duration> {
        let now = Instant::now();
        let since = |before: Option<Instant>, holds: bool| holds.then(|| before.unwrap_or(now));
        self.node = since(self.node, waits == Some(Waits::Node));
        self.start = since(self.start, matches!(waits, Some(Waits::Start | Waits::Image)));
        self.image = since(self.image, waits == Some(Waits::Image));
        let bounds = [
            (self.node, patience.node),
            (self.start, Some(patience.start)),
            (self.image, Some(patience.image)),
        ];
        bounds.into_iter().find_map(|(since, bound)| {
            bound.filter(|bound| since.is_some_and(|since| now - since >= *bound))
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn waits(node: Option<&str>, first: Value, own: Value) -> Option<Waits> {
        let status = |name: &str, state: Value| json!([{"name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state}]);
        let pod = json!({"metadata": {}, "spec": {"nodeName": node, "containers": []}, "status": {"phase": "Pending",
            "initContainerStatuses": status("first", first), "containerStatuses": status("c", own)}});
        Waits::of(&serde_json::from_value(pod).unwrap(), "c")
    }

    #[test]
    fn a_pod_of_which_something_runs_has_started() {
        let reason = |reason: &str| json!({"waiting": {"reason": reason}});
        let creating = || reason("PodInitializing");
        assert_eq!(waits(None, json!({}), json!({})), Some(Waits::Node));
        assert_eq!(waits(Some("n"), creating(), creating()), Some(Waits::Start));
        assert_eq!(waits(Some("n"), reason("ErrImagePull"), creating()), Some(Waits::Image));
        let lacks = reason("CreateContainerConfigError");
        assert_eq!(waits(Some("n"), creating(), lacks), Some(Waits::Image));
        assert_eq!(waits(Some("n"), json!({"running": {}}), creating()), None);
    }

    #[test]
    fn each_thing_that_is_waited_for_has_its_time() {
        let (none, long) = (Duration::ZERO, Duration::from_secs(3600));
        let patience = |image, start, node| Patience { image, start, node };
        let waited = |waits, patience: Patience| Waited::default().too_long(waits, &patience);
        assert_eq!(waited(Some(Waits::Image), patience(none, long, None)), Some(none));
        assert_eq!(waited(Some(Waits::Start), patience(none, long, None)), None);
        assert_eq!(waited(Some(Waits::Image), patience(long, none, None)), Some(none));
        assert_eq!(waited(Some(Waits::Node), patience(none, none, None)), None, "a node may come");
        assert_eq!(waited(Some(Waits::Node), patience(long, long, Some(none))), Some(none));
        assert_eq!(waited(None, patience(none, none, Some(none))), None);
        let mut conf = Conf::new();
        assert_eq!(Patience::of(&conf).unwrap().node, None);
        conf.set("spark.firesteel.kubernetes.unschedulable", "fail");
        assert_eq!(Patience::of(&conf).unwrap().node, Some(UNSCHEDULED));
    }
}
