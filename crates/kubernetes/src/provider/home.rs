//! The driver's own pod, if it runs in one: executors belong to it, and it counts the processes of the driver.
//!
//! The count is an annotation. Two processes that take charge at once cannot get the same one: a change is refused of a pod that
//! changed meanwhile.

use firesteel_kubernetes_core::api::ApiError;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::requests::Requests;
use crate::labels::PROCESSES;
use crate::pod::{DRIVER_CONTAINER, Owner};

/// How often the count is tried: others change the pod as well.
const TRIES: u32 = 20;

/// The pod a driver runs in.
#[derive(Debug)]
pub(super) struct Home {
    pub(super) owner: Owner,
    /// The how-manieth process of the driver this is, beginning with 1.
    pub(super) process: u32,
}

impl Home {
    /// Finds the pod, and takes charge of it.
    pub(super) async fn find(requests: &Requests, name: &str) -> Result<Self, ApiError> {
        let mut last = ApiError::Conflict;
        for _ in 0..TRIES {
            let pod = requests.get(name).await?;
            let process = processes(&pod).saturating_add(1);
            let about = &pod.metadata;
            let counted = json!({
                "metadata": {
                    "uid": about.uid,
                    "resourceVersion": about.resource_version,
                    "annotations": {PROCESSES: process.to_string()},
                },
            });
            match requests.patch(name, &counted).await {
                Ok(pod) => return Ok(Home { owner: owner(&pod, name), process }),
                Err(ApiError::Conflict) => last = ApiError::Conflict,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }
}

fn processes(pod: &Pod) -> u32 {
    let annotations = pod.metadata.annotations.as_ref();
    let count = annotations.and_then(|all| all.get(PROCESSES)?.parse().ok());
    count.unwrap_or_default()
}

fn owner(pod: &Pod, name: &str) -> Owner {
    let containers = pod.spec.as_ref().map(|spec| &spec.containers[..]).unwrap_or_default();
    let own = containers.iter().find(|container| container.name == DRIVER_CONTAINER);
    let own = own.or(containers.first());
    Owner {
        name: name.to_owned(),
        uid: pod.metadata.uid.clone().unwrap_or_default(),
        image: own.and_then(|container| container.image.clone()),
    }
}
