//! Drivers by `namespace:name`, where the name may end with `*`.

use firesteel_conf::{Conf, entries};
use firesteel_kubernetes_core::api::ApiError;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, ListParams};

use super::{Cluster, Outcome, follow};
use crate::answer::within;
use crate::pod::DRIVER_CONTAINER;
use crate::{Error, labels};

/// Whose ids these are.
struct Wanted {
    name: String,
    /// Any name that begins so.
    is_prefix: bool,
}

impl Wanted {
    /// The namespace that an id names, and the rest of it.
    fn parse(id: &str) -> (Option<String>, Self) {
        let (namespace, name) = match id.split_once(':') {
            Some((namespace, name)) => (Some(namespace.to_owned()), name),
            None => (None, id),
        };
        let is_prefix = name.ends_with('*');
        (namespace, Wanted { name: name.trim_end_matches('*').to_owned(), is_prefix })
    }

    fn is(&self, pod: &Pod) -> bool {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        if self.is_prefix { name.starts_with(&self.name) } else { name == self.name }
    }
}

/// The drivers of an id; at least one.
async fn drivers(url: &str, conf: &Conf, id: &str) -> Result<(Cluster, Vec<Pod>), Error> {
    let (namespace, wanted) = Wanted::parse(id);
    let mut cluster = Cluster::connect(url, conf).await?;
    cluster.namespace = namespace.unwrap_or(cluster.namespace);
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let all = ListParams::default().labels(&format!("{}={}", labels::ROLE, labels::DRIVER));
    let listed = within(cluster.limit, pods.list(&all)).await;
    let what = || format!("list drivers in namespace {}", cluster.namespace);
    let listed = listed.map_err(|error| cluster.refused(what(), error))?;
    let found: Vec<Pod> = listed.items.into_iter().filter(|pod| wanted.is(pod)).collect();
    if found.is_empty() {
        let namespace = cluster.namespace.clone();
        return Err(Error::NoDriver { namespace, id: id.to_owned() });
    }
    Ok((cluster, found))
}

/// Tells how far drivers are. One of them that failed decides the outcome.
pub async fn status(
    url: &str,
    conf: &Conf,
    id: &str,
    tell: &mut dyn FnMut(&str),
) -> Result<Outcome, Error> {
    let (cluster, found) = drivers(url, conf, id).await?;
    let mut outcome = Outcome { exit_code: None, succeeded: true, is_over: false };
    for pod in found {
        let look = follow::look(&pod, &own_container(&pod));
        let name = pod.metadata.name.unwrap_or_default();
        tell(&format!("{}:{name} {}", cluster.namespace, look.words));
        if let Some(failed) = look.outcome.filter(|outcome| !outcome.succeeded) {
            outcome = failed;
        }
    }
    Ok(outcome)
}

/// The driver's container has a name of its own, unless a template gave it another: then it is the first.
fn own_container(pod: &Pod) -> String {
    let containers = pod.spec.as_ref().map(|spec| &spec.containers[..]).unwrap_or_default();
    let own = containers.iter().find(|container| container.name == DRIVER_CONTAINER);
    own.or(containers.first()).map(|container| container.name.clone()).unwrap_or_default()
}

/// Ends drivers; their executors go with them.
pub async fn kill(
    url: &str,
    conf: &Conf,
    id: &str,
    tell: &mut dyn FnMut(&str),
) -> Result<Outcome, Error> {
    let grace = conf.get(&entries::KUBERNETES_SUBMIT_GRACE_PERIOD)?;
    let grace = grace.map(|grace| u32::try_from(grace.as_secs()).unwrap_or(u32::MAX));
    let (cluster, found) = drivers(url, conf, id).await?;
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    for pod in found {
        let name = pod.metadata.name.unwrap_or_default();
        let parameters = DeleteParams { grace_period_seconds: grace, ..DeleteParams::default() };
        let deleted = within(cluster.limit, pods.delete(&name, &parameters)).await;
        match deleted {
            // It went meanwhile, and the others are yet to be told.
            Ok(_) | Err(ApiError::NotFound) => {}
            Err(error) => {
                return Err(cluster.refused(format!("delete the driver's pod {name}"), error));
            }
        }
        tell(&format!("{}:{name} is told to end", cluster.namespace));
    }
    Ok(Outcome { exit_code: None, succeeded: true, is_over: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_a_namespace_and_one_driver_or_all_that_begin_so() {
        let pod = |name: &str| {
            let mut pod = Pod::default();
            pod.metadata.name = Some(name.to_owned());
            pod
        };
        let (namespace, wanted) = Wanted::parse("jobs:pi-*");
        assert_eq!(namespace.as_deref(), Some("jobs"));
        assert!(wanted.is(&pod("pi-1-driver")) && !wanted.is(&pod("api-driver")));
        let (namespace, wanted) = Wanted::parse("pi-1-driver");
        assert!(
            namespace.is_none()
                && wanted.is(&pod("pi-1-driver"))
                && !wanted.is(&pod("pi-1-driver2"))
        );
        assert!(Wanted::parse("jobs:*").1.is(&pod("anything")));
    }
}
