//! Requests to the API server about executors' pods, each with its time. Nothing is asked for twice here.

use std::sync::Arc;
use std::time::Duration;

use firesteel_kubernetes_core::allocator::{Change, CreateAnswer, PodList, PodRequest};
use firesteel_kubernetes_core::api::ApiError;
use firesteel_kubernetes_core::{PodName, PodUid, Version};
use futures_util::{Stream, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{
    DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions, WatchEvent,
    WatchParams,
};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::answer::{classify, refusal, within};
use crate::labels;
use crate::pod::{self, ExecutorPods};

/// So many requests are under way at once; a watch does not count.
const AT_ONCE: usize = 32;

/// Who asks for what.
#[derive(Clone)]
pub(super) struct Requests {
    api: Api<Pod>,
    namespace: String,
    /// Which pods are the application's and not over.
    selector: String,
    limit: Duration,
    pods: Option<Arc<ExecutorPods>>,
    turns: Arc<Semaphore>,
}

impl Requests {
    pub(super) fn new(client: Client, namespace: &str, app: &str, limit: Duration) -> Self {
        let (application, role, inactive) = (labels::APPLICATION, labels::ROLE, labels::INACTIVE);
        Requests {
            api: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
            selector: format!("{application}={app},{role}={},{inactive}!=true", labels::EXECUTOR),
            limit,
            pods: None,
            turns: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    pub(super) fn for_pods(mut self, pods: ExecutorPods) -> Self {
        self.pods = Some(Arc::new(pods));
        self
    }

    /// Asks with these credentials from now on.
    pub(super) fn use_client(&mut self, client: Client) {
        self.api = Api::namespaced(client, &self.namespace);
    }

    fn read(&self, seen: &Pod) -> Result<firesteel_kubernetes_core::pod::Pod, ApiError> {
        let container = self.pods.as_ref().map_or(pod::EXECUTOR_CONTAINER, |pods| pods.container());
        let unread = || ApiError::Unavailable("a pod came without a name or a UID".to_owned());
        pod::read(seen, container).ok_or_else(unread)
    }

    async fn ask<T>(&self, request: impl Future<Output = kube::Result<T>>) -> Result<T, ApiError> {
        // The wait for a turn is part of a request's time: the allocator counts on none being sent after it.
        within(self.limit, async {
            let _turn = self.turns.acquire().await;
            request.await
        })
        .await
    }

    /// Creates a pod, or finds the one of its name.
    pub(super) async fn create(&self, request: &PodRequest) -> Result<CreateAnswer, ApiError> {
        let pods = self.pods.as_ref().ok_or(ApiError::NotFound)?;
        let pod = pods.pod(request);
        match self.ask(self.api.create(&PostParams::default(), &pod)).await {
            Ok(created) => Ok(CreateAnswer { pod: self.read(&created)?, existed: false }),
            Err(ApiError::Conflict) => match self.get(&request.name.to_string()).await {
                Ok(found) => Ok(CreateAnswer { pod: self.read(&found)?, existed: true }),
                // Gone meanwhile: the same can be asked for again.
                Err(ApiError::NotFound) => Err(ApiError::Conflict),
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    /// Deletes this very pod.
    pub(super) async fn delete(
        &self,
        name: &PodName,
        uid: &PodUid,
        grace_ms: u64,
    ) -> Result<(), ApiError> {
        let parameters = DeleteParams {
            grace_period_seconds: Some(u32::try_from(grace_ms.div_ceil(1000)).unwrap_or(u32::MAX)),
            preconditions: Some(Preconditions {
                uid: Some(uid.to_string()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        self.ask(self.api.delete(&name.to_string(), &parameters)).await.map(drop)
    }

    /// Labels this very pod as one that is over.
    pub(super) async fn keep(&self, name: &PodName, uid: &PodUid) -> Result<(), ApiError> {
        let inactive =
            json!({"metadata": {"uid": uid.to_string(), "labels": {labels::INACTIVE: "true"}}});
        self.patch(&name.to_string(), &inactive).await.map(drop)
    }

    pub(super) async fn get(&self, name: &str) -> Result<Pod, ApiError> {
        self.ask(self.api.get(name)).await
    }

    pub(super) async fn patch(&self, name: &str, change: &Value) -> Result<Pod, ApiError> {
        self.ask(self.api.patch(name, &PatchParams::default(), &Patch::Merge(change))).await
    }

    /// Tells people who look at a pod something about it. Needs a right of its own, which a driver can do without.
    pub(super) async fn set_condition(
        &self,
        name: &str,
        condition: &Value,
    ) -> Result<(), ApiError> {
        let change = json!({"status": {"conditions": [condition]}});
        let change = Patch::Strategic(&change);
        self.ask(self.api.patch_status(name, &PatchParams::default(), &change)).await.map(drop)
    }

    /// All pods, from a quorum: no version is asked for.
    pub(super) async fn list(&self) -> Result<PodList, ApiError> {
        let list = self.ask(self.api.list(&ListParams::default().labels(&self.selector))).await?;
        let pods: Result<Vec<_>, ApiError> =
            list.items.iter().map(|seen| self.read(seen)).collect();
        let version = pod::version(list.metadata.resource_version.as_deref());
        Ok(PodList { version, pods: pods? })
    }

    /// What happens to them from a version on, until the server ends it.
    pub(super) async fn watch(
        &self,
        from: Version,
    ) -> Result<impl Stream<Item = Result<Change, ApiError>> + use<>, ApiError> {
        let parameters = WatchParams::default().labels(&self.selector);
        let from = from.to_string();
        let events = within(self.limit, self.api.watch(&parameters, &from)).await?;
        let own = self.clone();
        let events = events.map_err(|error| classify(&error));
        Ok(events.map(move |event| event.and_then(|event| own.change(event))).boxed())
    }

    fn change(&self, event: WatchEvent<Pod>) -> Result<Change, ApiError> {
        Ok(match event {
            WatchEvent::Added(seen) | WatchEvent::Modified(seen) => {
                Change::Applied(self.read(&seen)?)
            }
            WatchEvent::Deleted(seen) => Change::Deleted(self.read(&seen)?),
            WatchEvent::Bookmark(mark) => {
                Change::Bookmark(pod::version(Some(&mark.metadata.resource_version)))
            }
            WatchEvent::Error(status) => return Err(refusal(&status)),
        })
    }
}
