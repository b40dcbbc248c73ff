//! A driver's pod, its service, its settings and its secrets: all of them come to be, or none stays.
//!
//! The pod is first, because all others belong to it: what is left when it goes is collected.

use std::time::Duration;

use firesteel_kubernetes_core::api::ApiError;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Api;
use kube::api::{DeleteParams, PostParams, Preconditions};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Cluster;
use crate::answer::within;
use crate::pod::{DriverPod, Owner};
use crate::{Error, labels, unique};

/// How often what was created is tried to be removed again, and how long between two tries.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(500);

/// A driver that was created.
#[derive(Debug)]
pub(super) struct Driver {
    pub(super) name: String,
    pub(super) uid: String,
    /// The container it runs in.
    pub(super) container: String,
}

pub(super) async fn create(
    cluster: &Cluster,
    mut plan: DriverPod,
    name: &str,
) -> Result<Driver, Error> {
    let mark = unique();
    let annotations = plan.pod.metadata.annotations.get_or_insert_default();
    annotations.insert(labels::SUBMISSION.to_owned(), mark.clone());
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let created = within(cluster.limit, pods.create(&PostParams::default(), &plan.pod)).await;
    let uid = match created {
        Ok(created) => created.metadata.uid.unwrap_or_default(),
        Err(error) => return Err(not_created(cluster, &pods, name, &mark, error).await),
    };
    let owner = Owner::new(name, &uid).reference();
    if let Err(error) = furnish(cluster, &plan, &owner).await {
        let is_gone = roll_back(cluster, &pods, name, &uid).await;
        return Err(if is_gone { error } else { error.leaving(cluster.id(name)) });
    }
    Ok(Driver { name: name.to_owned(), uid, container: plan.container })
}

/// A request without an answer may have been carried out: what it created is removed again.
async fn not_created(
    cluster: &Cluster,
    pods: &Api<Pod>,
    name: &str,
    mark: &str,
    error: ApiError,
) -> Error {
    let namespace = &cluster.namespace;
    let what = format!("create the driver's pod {name} in namespace {namespace}");
    if error == ApiError::Conflict {
        return Error::value(
            "spark.kubernetes.driver.pod.name",
            format!(
                "there is a pod {name} already: choose another name, or end it with firesteel submit --kill {namespace}:{name}"
            ),
        );
    }
    if error.is_unanswered()
        && !was_not_sent(&error)
        && !is_withdrawn(cluster, pods, name, mark).await
    {
        let unsure = cluster.refused(format!("say whether it did {what}"), error);
        return unsure.leaving(cluster.id(name));
    }
    cluster.refused(what, error)
}

/// Whether there was no connection to send the request over.
fn was_not_sent(error: &ApiError) -> bool {
    matches!(error, ApiError::Unreachable(words) if words.contains("client error (Connect)"))
}

/// Whether it is sure that there is no pod of this submission.
async fn is_withdrawn(cluster: &Cluster, pods: &Api<Pod>, name: &str, mark: &str) -> bool {
    let is_own = |pod: &Pod| {
        let annotations = pod.metadata.annotations.as_ref();
        annotations.and_then(|all| all.get(labels::SUBMISSION)).is_some_and(|of| of == mark)
    };
    for round in 0..TRIES {
        match within(cluster.limit, pods.get(name)).await {
            Ok(pod) if is_own(&pod) => {
                let uid = pod.metadata.uid.unwrap_or_default();
                return roll_back(cluster, pods, name, &uid).await;
            }
            // It may be carried out late: it is looked for twice.
            Ok(_) | Err(ApiError::NotFound) if round > 0 => return true,
            Ok(_) | Err(ApiError::NotFound) => {}
            // Nobody is there who could have carried it out, or could be asked.
            Err(error) if error.is_unanswered() && round > 0 => return false,
            Err(_) => {}
        }
        tokio::time::sleep(PAUSE).await;
    }
    false
}

/// What goes with the pod: its kubelet waits for settings and secrets.
async fn furnish(cluster: &Cluster, plan: &DriverPod, owner: &OwnerReference) -> Result<(), Error> {
    let map: ConfigMap = plan.config_map(owner.clone());
    let secret: Secret = plan.secret(owner.clone());
    let service: Service = plan.service(owner.clone());
    let settings = add(cluster, "config map with the driver's settings", &map);
    let secrets = add(cluster, "secret with the driver's settings", &secret);
    let service = add(cluster, "driver's service", &service);
    let (settings, secrets, service) = tokio::join!(settings, secrets, service);
    settings.and(secrets).and(service)
}

async fn add<K>(cluster: &Cluster, what: &str, object: &K) -> Result<(), Error>
where
    K: Clone + DeserializeOwned + Serialize + std::fmt::Debug,
    K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
{
    let api: Api<K> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let name = object.meta().name.clone().unwrap_or_default();
    for _ in 0..TRIES {
        match within(cluster.limit, api.create(&PostParams::default(), object)).await {
            Ok(_) => return Ok(()),
            Err(ApiError::Conflict) => {}
            Err(error) => return Err(cluster.refused(format!("create the {what}"), error)),
        }
        // A driver of this name that is gone left it, and it is not collected yet.
        if !remove_leftover(cluster, &api, &name, object).await {
            break;
        }
    }
    let words = format!("there is another one called {name}");
    Err(cluster.refused(format!("create the {what}"), ApiError::Invalid(words)))
}

/// Removes an object whose owner was a driver of the same name. False if it is somebody else's.
async fn remove_leftover<K>(cluster: &Cluster, api: &Api<K>, name: &str, new: &K) -> bool
where
    K: Clone + DeserializeOwned + std::fmt::Debug + kube::Resource<DynamicType = ()>,
{
    let old = match within(cluster.limit, api.get(name)).await {
        Ok(old) => old,
        Err(error) => return error == ApiError::NotFound,
    };
    let owner = |object: &K| object.meta().owner_references.as_ref()?.first().cloned();
    let (Some(before), Some(now)) = (owner(&old), owner(new)) else { return false };
    if before.kind != now.kind || before.name != now.name || before.uid == now.uid {
        return false;
    }
    let parameters = only(old.meta().uid.clone());
    let deleted = within(cluster.limit, api.delete(name, &parameters)).await;
    matches!(deleted, Ok(_) | Err(ApiError::NotFound | ApiError::Conflict))
}

/// With a uid, the deletion is refused if the name belongs to another object by now.
fn only(uid: Option<String>) -> DeleteParams {
    let preconditions = Some(Preconditions { uid, resource_version: None });
    DeleteParams { preconditions, ..DeleteParams::default() }
}

/// Deletes the driver's pod if it is what it was at this version; what belongs to it goes with it.
pub(super) async fn withdraw(
    cluster: &Cluster,
    pods: &Api<Pod>,
    seen: &Pod,
) -> Result<(), ApiError> {
    let preconditions = Some(Preconditions {
        uid: seen.metadata.uid.clone(),
        resource_version: seen.metadata.resource_version.clone(),
    });
    let parameters = DeleteParams { preconditions, ..DeleteParams::default() };
    let name = seen.metadata.name.as_deref().unwrap_or_default();
    match within(cluster.limit, pods.delete(name, &parameters)).await {
        Ok(_) | Err(ApiError::NotFound) => Ok(()),
        Err(error) => Err(error),
    }
}

/// What belongs to the pod goes with it. Whether it is gone.
async fn roll_back(cluster: &Cluster, pods: &Api<Pod>, name: &str, uid: &str) -> bool {
    let at_once = only(Some(uid.to_owned())).grace_period(0);
    for _ in 0..TRIES {
        match within(cluster.limit, pods.delete(name, &at_once)).await {
            Ok(_) | Err(ApiError::NotFound | ApiError::Conflict) => return true,
            Err(error) => {
                tracing::warn!(pod = name, %error, "the driver's pod could not be removed again");
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    false
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use firesteel_conf::Conf;
    use serde_json::{Value, json};

    use super::*;
    use crate::fake::{Answer, ApiServer, Asked, refuses};

    async fn created(
        answers: impl FnMut(&Asked) -> Answer + Send + 'static,
    ) -> (Result<Driver, Error>, ApiServer) {
        let server = ApiServer::start(answers).await;
        let cluster = Cluster {
            client: server.client.clone(),
            namespace: "jobs".to_owned(),
            url: server.url.clone(),
            limit: Duration::from_secs(5),
        };
        let mut conf = Conf::new();
        conf.set("spark.kubernetes.container.image", "pi:1");
        let plan = DriverPod::new(&conf, ("spark-1", "pi-driver"), "/pi", &[]).unwrap();
        (create(&cluster, plan, "pi-driver").await, server)
    }

    fn with_uid(body: &Value, uid: &str) -> Answer {
        let mut object = body.clone();
        object["metadata"]["uid"] = uid.into();
        Some((201, object))
    }

    const PODS: &str = "/api/v1/namespaces/jobs/pods";

    #[tokio::test(flavor = "current_thread")]
    async fn a_pod_that_was_created_without_an_answer_is_removed_again() {
        let stored: Arc<Mutex<Option<Value>>> = Arc::default();
        let (result, server) = created(move |(line, body)| {
            let mut stored = stored.lock().unwrap();
            match line.split_once(' ').unwrap() {
                ("POST", _) => {
                    let mut pod = body.clone();
                    pod["metadata"]["uid"] = "u-1".into();
                    *stored = Some(pod);
                    None
                }
                ("GET", _) => stored.clone().map(|pod| (200, pod)),
                _ => Some((200, json!({"kind": "Status", "status": "Success"}))),
            }
        })
        .await;
        let refused = result.unwrap_err();
        assert!(!refused.leaves_a_driver(), "{refused}");
        let refused = refused.to_string();
        assert!(refused.contains("does not create the driver's pod pi-driver"), "{refused}");
        let (line, body) = server.asked().pop().unwrap();
        assert!(line.starts_with(&format!("DELETE {PODS}/pi-driver")), "{line}");
        assert_eq!(body["preconditions"]["uid"], "u-1", "this one, and no other");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn what_goes_with_a_pod_and_is_refused_takes_the_pod_with_it() {
        let (result, server) = created(|(line, body)| match line.as_str() {
            line if line.contains("/services") => {
                refuses(403, "services is forbidden: cannot create")
            }
            line if line.starts_with("POST") => with_uid(body, "u-2"),
            _ => Some((200, json!({"kind": "Status", "status": "Success"}))),
        })
        .await;
        let refused = result.unwrap_err().to_string();
        assert!(refused.contains("driver's service"), "{refused}");
        assert_eq!(server.lines().pop().unwrap(), format!("DELETE {PODS}/pi-driver"));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_driver_that_cannot_be_removed_again_may_run_on() {
        let (result, _server) = created(|(line, body)| match line.as_str() {
            line if line.contains("/services") || line.starts_with("DELETE") => {
                refuses(403, "User cannot do that")
            }
            _ => with_uid(body, "u-4"),
        })
        .await;
        let refused = result.unwrap_err();
        assert!(refused.leaves_a_driver(), "{refused}");
        let text = refused.to_string();
        assert!(text.contains("driver's service") && text.contains("jobs:pi-driver"), "{text}");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn settings_that_a_driver_of_the_same_name_left_are_replaced() {
        let mut there = true;
        let (result, server) = created(move |(line, body)| {
            let old = json!({"metadata": {"name": "x", "uid": "old", "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": "pi-driver", "uid": "gone"}]}});
            match line.split_once(' ').unwrap() {
                ("POST", path) if path.contains("/configmaps") && there => {
                    refuses(409, "already exists")
                }
                ("POST", _) => with_uid(body, "u-3"),
                ("GET", _) => Some((200, old)),
                _ => {
                    there = false;
                    Some((200, json!({"kind": "Status", "status": "Success"})))
                }
            }
        })
        .await;
        assert_eq!(result.unwrap().uid, "u-3");
        let deleted =
            server.asked().into_iter().find(|(line, _)| line.starts_with("DELETE")).unwrap();
        assert_eq!(deleted.1["preconditions"]["uid"], "old");
    }
}
