//! A pod of the API as the allocator sees it: the few fields that decide.

use firesteel_backend::AppId;
use firesteel_kubernetes_core::claim::Claim;
use firesteel_kubernetes_core::pod::{Container, ContainerState, Phase, Pod, StatusReason};
use firesteel_kubernetes_core::{ClaimName, Generation, PodName, PodUid, Version, VolumeName};
use firesteel_types::{ExecutorId, Host};
use k8s_openapi::api::core::v1::{self, ContainerStatus, PodCondition, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::labels;

/// Reads an executor's pod; `container` is the name of the one its executor runs in. A pod without name or UID is none.
pub(crate) fn read(seen: &v1::Pod, container: &str) -> Option<Pod> {
    let about = &seen.metadata;
    let label = |name: &str| about.labels.as_ref().and_then(|labels| labels.get(name));
    let annotation = |name: &str| about.annotations.as_ref().and_then(|all| all.get(name));
    let app = label(labels::APPLICATION).or_else(|| annotation(labels::OWNER));
    let nothing = PodStatus::default();
    let status = seen.status.as_ref().unwrap_or(&nothing);
    let node = seen.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    Some(Pod {
        name: PodName::new(about.name.as_deref()?),
        uid: PodUid::new(about.uid.as_deref()?),
        version: version(about.resource_version.as_deref()),
        app: app.map(|app| AppId::new(app)),
        executor: label(labels::EXECUTOR_ID).and_then(|id| id.parse().ok()).map(ExecutorId),
        generation: label(labels::GENERATION).and_then(|it| it.parse().ok()).map(Generation),
        owner: owner(about),
        inactive: label(labels::INACTIVE).is_some_and(|inactive| inactive == "true"),
        phase: phase(status.phase.as_deref()),
        status: said(status.reason.as_ref(), status.message.as_ref()),
        node: node.filter(|node| !node.is_empty()).map(Host::new),
        unschedulable: unschedulable(status),
        disruption: condition(status, "DisruptionTarget", "True")
            .and_then(|found| said(found.reason.as_ref(), found.message.as_ref())),
        terminating: about.deletion_timestamp.is_some(),
        containers: containers(seen, status, container),
        claims: claims(seen),
    })
}

/// The pod that something belongs to.
pub(crate) fn owner(about: &ObjectMeta) -> Option<PodUid> {
    let owners = about.owner_references.as_deref().unwrap_or_default();
    let pod = owners.iter().find(|owner| owner.kind == "Pod" && owner.api_version == "v1");
    pod.map(|owner| PodUid::new(&owner.uid))
}

/// Reads a claim that was made on demand; `None` for any other.
pub(crate) fn read_claim(seen: &v1::PersistentVolumeClaim) -> Option<Claim> {
    let about = &seen.metadata;
    let volume = about.labels.as_ref()?.get(labels::VOLUME)?;
    let phase = seen.status.as_ref().and_then(|status| status.phase.as_deref());
    Some(Claim {
        name: ClaimName::new(about.name.as_deref()?),
        volume: VolumeName::new(volume),
        unusable: about.deletion_timestamp.is_some() || phase == Some("Lost"),
    })
}

fn claims(seen: &v1::Pod) -> Vec<ClaimName> {
    let volumes = seen.spec.as_ref().and_then(|spec| spec.volumes.as_deref());
    let claims = volumes.unwrap_or_default().iter().filter_map(|volume| {
        let claim = volume.persistent_volume_claim.as_ref()?;
        Some(ClaimName::new(&claim.claim_name))
    });
    claims.collect()
}

/// API servers number all changes of a cluster in one order.
pub(crate) fn version(text: Option<&str>) -> Version {
    Version(text.and_then(|text| text.parse().ok()).unwrap_or_default())
}

fn phase(text: Option<&str>) -> Phase {
    match text {
        Some("Running") => Phase::Running,
        Some("Succeeded") => Phase::Succeeded,
        Some("Failed") => Phase::Failed,
        Some("Unknown") => Phase::Unknown,
        _ => Phase::Pending,
    }
}

fn said(reason: Option<&String>, message: Option<&String>) -> Option<StatusReason> {
    let (reason, message) = (reason.map_or("", |text| text), message.map_or("", |text| text));
    (!reason.is_empty() || !message.is_empty()).then(|| StatusReason::new(reason, message))
}

fn condition<'a>(status: &'a PodStatus, kind: &str, is: &str) -> Option<&'a PodCondition> {
    let conditions = status.conditions.as_deref().unwrap_or_default();
    conditions.iter().find(|condition| condition.type_ == kind && condition.status == is)
}

fn unschedulable(status: &PodStatus) -> Option<String> {
    let condition = condition(status, "PodScheduled", "False")?;
    condition.message.clone().or(condition.reason.clone())
}

/// A sidecar that its kubelet starts again does not end an executor, whatever becomes of it: it can only keep it from starting.
fn containers(seen: &v1::Pod, status: &PodStatus, executor: &str) -> Vec<Container> {
    let planned = seen.spec.as_ref().and_then(|spec| spec.init_containers.as_deref());
    let is_sidecar = |name: &str| {
        let planned = planned.unwrap_or_default().iter().find(|one| one.name == name);
        planned.is_some_and(|one| one.restart_policy.as_deref() == Some("Always"))
    };
    let own = status.container_statuses.as_deref().unwrap_or_default();
    let first = status.init_container_statuses.as_deref().unwrap_or_default();
    let own =
        own.iter().map(|one| Container { is_executor: one.name == executor, state: state(one) });
    let first =
        first.iter().map(|one| (&one.name, Container { is_executor: false, state: state(one) }));
    let first = first.filter(|(name, container)| {
        !is_sidecar(name) || matches!(container.state, ContainerState::Waiting(_))
    });
    own.chain(first.map(|(_, container)| container)).collect()
}

fn state(container: &ContainerStatus) -> ContainerState {
    let state = container.state.as_ref();
    if let Some(ended) = state.and_then(|state| state.terminated.as_ref()) {
        let reason = ended.reason.clone().unwrap_or_default();
        let message = ended.message.clone().unwrap_or_default();
        return ContainerState::Terminated { exit_code: ended.exit_code, reason, message };
    }
    if state.is_some_and(|state| state.running.is_some()) {
        return ContainerState::Running;
    }
    let waits = state.and_then(|state| state.waiting.as_ref());
    let said = waits.and_then(|waits| said(waits.reason.as_ref(), waits.message.as_ref()));
    ContainerState::Waiting(said.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use firesteel_kubernetes_core::cause::Cause;
    use firesteel_kubernetes_core::pod::{Obstacle, Verdict};
    use serde_json::{Value, json};

    use super::*;

    fn pod(status: Value) -> Pod {
        let text = json!({
            "metadata": {
                "name": "pi-exec-7", "uid": "u-1", "resourceVersion": "42",
                "labels": {"spark-exec-id": "7", "firesteel-driver-generation": "3"},
                "annotations": {"firesteel.io/application": "spark-1"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "d", "uid": "u-d"}],
            },
            "spec": {"nodeName": "n1", "containers": []},
            "status": status,
        });
        read(&serde_json::from_value(text).unwrap(), "spark-kubernetes-executor").unwrap()
    }

    fn container(name: &str, state: Value) -> Value {
        json!({"name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state})
    }

    #[test]
    fn what_an_api_server_shows_of_a_pod_decides() {
        let own = |state| json!({"phase": "Running", "containerStatuses": [container("spark-kubernetes-executor", state)]});
        let running = pod(own(json!({"running": {}})));
        assert_eq!((running.version, running.executor), (Version(42), Some(ExecutorId(7))));
        assert_eq!(running.generation, Some(Generation(3)));
        assert_eq!(running.owner, Some(PodUid::new("u-d")));
        assert_eq!(running.app, Some(AppId::new("spark-1")), "though it lost its label");
        assert_eq!(running.verdict(true), Verdict::Running(Host::new("n1")));
        let killed = pod(own(json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}})));
        assert_eq!(killed.verdict(true), Verdict::Over(Cause::OutOfMemory));
        let waits = own(json!({"waiting": {"reason": "ErrImagePull", "message": "no such image"}}));
        let words = "ErrImagePull: no such image".to_owned();
        let obstacle = Some(Obstacle::Image(words));
        assert_eq!(pod(waits).verdict(true), Verdict::Scheduled(Host::new("n1"), obstacle));
    }

    #[test]
    fn claims_are_known_by_the_label_that_says_what_they_are_for() {
        let claim = |labels: Value, phase: &str| {
            let text = json!({"metadata": {"name": "pi-exec-7-pvc-0", "labels": labels}, "status": {"phase": phase}});
            read_claim(&serde_json::from_value(text).unwrap())
        };
        assert_eq!(claim(json!({}), "Bound"), None, "somebody else's");
        let own = json!({"firesteel-volume": "spark-local-dir-1"});
        let bound = claim(own.clone(), "Bound").unwrap();
        assert_eq!((bound.name.0.as_ref(), bound.unusable), ("pi-exec-7-pvc-0", false));
        assert!(claim(own, "Lost").unwrap().unusable);
        let volume =
            json!({"name": "a", "persistentVolumeClaim": {"claimName": "pi-exec-7-pvc-0"}});
        let pod = json!({"spec": {"containers": [], "volumes": [volume, {"name": "b"}]}});
        let pod: v1::Pod = serde_json::from_value(pod).unwrap();
        assert_eq!(claims(&pod), [ClaimName::new("pi-exec-7-pvc-0")]);
    }

    #[test]
    fn a_container_that_prepares_a_pod_may_be_what_keeps_it_from_starting() {
        let waits = |reason: &str| json!({"waiting": {"reason": reason}});
        let seen = pod(json!({
            "phase": "Pending",
            "initContainerStatuses": [container("fetch", waits("ImagePullBackOff"))],
            "containerStatuses": [container("spark-kubernetes-executor", waits("PodInitializing"))],
        }));
        let obstacle = Obstacle::Image("ImagePullBackOff: ImagePullBackOff".to_owned());
        assert_eq!(seen.verdict(true), Verdict::Scheduled(Host::new("n1"), Some(obstacle)));
    }

    #[test]
    fn a_sidecar_that_crashes_and_is_started_again_ends_no_executor() {
        let sidecar = |policy: Value, state: Value| {
            let own = container("spark-kubernetes-executor", json!({"running": {}}));
            let text = json!({
                "metadata": {"name": "pi-exec-7", "uid": "u-1"},
                "spec": {"nodeName": "n1", "containers": [],
                    "initContainers": [{"name": "proxy", "restartPolicy": policy}]},
                "status": {"phase": "Running", "containerStatuses": [own],
                    "initContainerStatuses": [container("proxy", state)]},
            });
            let pod = read(&serde_json::from_value(text).unwrap(), "spark-kubernetes-executor");
            pod.unwrap().verdict(true)
        };
        let runs = Verdict::Running(Host::new("n1"));
        let crashed = || json!({"terminated": {"exitCode": 1, "reason": "Error"}});
        assert_eq!(sidecar(json!("Always"), crashed()), runs);
        let loops = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        assert_eq!(sidecar(json!("Always"), loops), runs);
        assert!(matches!(sidecar(Value::Null, crashed()), Verdict::Over(_)), "it has to succeed");
    }

    #[test]
    fn words_of_the_scheduler_and_of_evictions_are_kept() {
        let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "reason": "R", "message": "0/2 nodes"});
        let mut waits = pod(json!({"conditions": [condition("PodScheduled", "False")]}));
        waits.node = None;
        assert_eq!(waits.verdict(true), Verdict::Pending(Some("0/2 nodes".to_owned())));
        let evicted =
            pod(json!({"phase": "Failed", "conditions": [condition("DisruptionTarget", "True")]}));
        assert_eq!(
            evicted.verdict(true),
            Verdict::Over(Cause::Disrupted(StatusReason::new("R", "0/2 nodes")))
        );
        let refused = pod(json!({"phase": "Failed", "reason": "OutOfcpu", "message": "no"}));
        assert_eq!(
            refused.verdict(true),
            Verdict::Over(Cause::NodeRefused(StatusReason::new("OutOfcpu", "no")))
        );
    }
}
