//! The driver's own pod, if it runs in one: executors belong to it, and it counts the processes of the driver.
//!
//! The count is an annotation. Two processes that take charge at once cannot get the same one: a change is refused of a pod that
//! changed meanwhile.

use std::time::Duration;

use firesteel_kubernetes_core::api::ApiError;
use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::json;

use super::requests::Requests;
use crate::APPLICATION_SECRET;
use crate::labels::PROCESSES;
use crate::pod::{DRIVER_CONTAINER, Owner};

/// How often the count is tried: others change the pod as well, and the API server may be away for a moment.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(500);

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
            last = match Home::take_charge(requests, name).await {
                Err(error @ ApiError::Conflict) => error,
                // A driver that starts while the API server does shall not end for it.
                Err(error) if error.is_unanswered() || error.is_throttled() => {
                    tokio::time::sleep(PAUSE).await;
                    error
                }
                found => return found,
            };
        }
        Err(last)
    }

    async fn take_charge(requests: &Requests, name: &str) -> Result<Self, ApiError> {
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
        let pod = requests.patch(name, &counted).await?;
        Ok(Home { owner: owner(&pod, name), process })
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
        image: own.and_then(|container| container.image.clone()),
        secret: own.and_then(application_secret),
        ..Owner::new(name, pod.metadata.uid.as_deref().unwrap_or_default())
    }
}

/// Where the driver's container has the application's secret from: a secret's name, and a key in it.
fn application_secret(container: &Container) -> Option<(String, String)> {
    let variables = container.env.as_deref().unwrap_or_default();
    let found = variables.iter().find(|variable| variable.name == APPLICATION_SECRET)?;
    let key = found.value_from.as_ref()?.secret_key_ref.as_ref()?;
    Some((key.name.clone(), key.key.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{ApiServer, refuses};

    #[tokio::test(flavor = "current_thread")]
    async fn a_driver_takes_charge_of_its_pod_though_the_api_server_is_away_for_a_moment() {
        let mut refusals = vec![refuses(503, "etcd has no leader"), None, refuses(409, "changed")];
        let server = ApiServer::start(move |(line, body)| {
            let variable = json!({"name": "FIRESTEEL_APPLICATION_SECRET",
                "valueFrom": {"secretKeyRef": {"name": "d-conf-secret", "key": "k"}}});
            let spec = json!({"containers": [{"name": "c", "image": "pi:1", "env": [variable]}]});
            let about = json!({"name": "d", "uid": "u", "resourceVersion": "1",
                "annotations": {"firesteel.io/driver-processes": "4"}});
            let answer = Some((200, json!({"metadata": about, "spec": spec})));
            let counts = body["metadata"]["annotations"]["firesteel.io/driver-processes"] == "5";
            assert!(line.starts_with("GET") || counts, "{line} {body}");
            refusals.pop().unwrap_or(answer)
        })
        .await;
        let requests =
            Requests::new(server.client.clone(), "jobs", "spark-1", Duration::from_secs(5));
        let home = Home::find(&requests, "d").await.unwrap();
        assert_eq!((home.process, home.owner.uid.as_str()), (5, "u"));
        assert_eq!(home.owner.secret, Some(("d-conf-secret".to_owned(), "k".to_owned())));
        assert_eq!(home.owner.image.as_deref(), Some("pi:1"));
    }
}
