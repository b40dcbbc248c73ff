//! A driver's pod, its service, its settings and its secrets: all of them come to be, or none stays.
//!
//! The pod is first, because all others belong to it: what is left when it goes is collected.

use firesteel_kubernetes_core::api::ApiError;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Cluster, Submission};
use crate::Error;
use crate::answer::within;
use crate::pod::{DriverPod, Owner};

/// A driver that was created.
pub(super) struct Driver {
    pub(super) name: String,
    pub(super) uid: String,
    /// The container it runs in.
    pub(super) container: String,
}

pub(super) async fn create(
    cluster: &Cluster,
    submission: &Submission,
    app: &str,
    name: &str,
) -> Result<Driver, Error> {
    let Submission { program, arguments, conf } = submission;
    let plan = DriverPod::new(conf, (app, name), program, arguments)?;
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let what = || format!("create the driver's pod {name} in namespace {}", cluster.namespace);
    let created = within(cluster.limit, pods.create(&PostParams::default(), &plan.pod)).await;
    let created = created.map_err(|error| match error {
        ApiError::Conflict => Error::value(
            "spark.kubernetes.driver.pod.name",
            format!("there is a pod {name} already: choose another name, or end it with firesteel submit --kill {}:{name}", cluster.namespace),
        ),
        error => cluster.refused(what(), error),
    })?;
    let uid = created.metadata.uid.unwrap_or_default();
    let owner = Owner { name: name.to_owned(), uid: uid.clone(), image: None }.reference();
    if let Err(error) = furnish(cluster, &plan, &owner).await {
        roll_back(cluster, &pods, name).await;
        return Err(error);
    }
    Ok(Driver { name: name.to_owned(), uid, container: plan.container })
}

/// What goes with the pod: its kubelet waits for settings and secrets.
async fn furnish(cluster: &Cluster, plan: &DriverPod, owner: &OwnerReference) -> Result<(), Error> {
    let map: ConfigMap = plan.config_map(owner.clone());
    let secret: Option<Secret> = plan.secret(owner.clone());
    let service: Service = plan.service(owner.clone());
    let settings = add(cluster, "config map with the driver's settings", &map);
    let secrets = async {
        match &secret {
            Some(secret) => add(cluster, "secret with the driver's settings", secret).await,
            None => Ok(()),
        }
    };
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
    let created = within(cluster.limit, api.create(&PostParams::default(), object)).await;
    created.map(drop).map_err(|error| cluster.refused(format!("create the {what}"), error))
}

/// What belongs to the pod goes with it.
async fn roll_back(cluster: &Cluster, pods: &Api<Pod>, name: &str) {
    let at_once = DeleteParams::default().grace_period(0);
    if let Err(error) = within(cluster.limit, pods.delete(name, &at_once)).await {
        tracing::warn!(pod = name, %error, "the driver's pod could not be removed again");
    }
}
