//! Requests to the API server about executors' pods, each with its time. Nothing is asked for twice here.

use std::sync::Arc;
use std::time::Duration;

use firesteel_kubernetes_core::allocator::{Change, CreateAnswer, PodList, PodRequest};
use firesteel_kubernetes_core::api::ApiError;
use firesteel_kubernetes_core::claim::ClaimList;
use firesteel_kubernetes_core::pod::{LOG_BYTES, LOG_LINES};
use firesteel_kubernetes_core::{ClaimName, PodName, PodUid, Version};
use futures_util::{Stream, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference, PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff;
use kube::api::{
    DeleteParams, ListParams, LogParams, Patch, PatchParams, PostParams, Preconditions, WatchEvent,
    WatchParams,
};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};

use crate::answer::{classify, refusal, within};
use crate::labels;
use crate::pod::{self, ExecutorPods, Owner};

/// So many requests are under way at once; a watch does not count.
const AT_ONCE: usize = 32;
/// Who tells what happened, as others see it.
const COMPONENT: &str = "firesteel-driver";
/// API servers refuse events with more bytes than this, and longer names than what begins with so many.
const LONGEST_WORDS: usize = 1024;
const LONGEST_START: usize = 200;

/// Who asks for what.
#[derive(Clone)]
pub(super) struct Requests {
    /// With the credentials as they were read last; all clones have the same.
    client: Arc<watch::Sender<Client>>,
    namespace: String,
    /// Which pods are the application's and not over.
    selector: String,
    app: String,
    limit: Duration,
    pods: Option<Arc<ExecutorPods>>,
    turns: Arc<Semaphore>,
}

impl Requests {
    pub(super) fn new(client: Client, namespace: &str, app: &str, limit: Duration) -> Self {
        let (application, role, inactive) = (labels::APPLICATION, labels::ROLE, labels::INACTIVE);
        Requests {
            client: Arc::new(watch::Sender::new(client)),
            app: app.to_owned(),
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

    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Asks with these credentials from now on, and so do all clones.
    pub(super) fn use_client(&self, client: Client) {
        self.client.send_replace(client);
    }

    fn api(&self) -> Api<Pod> {
        Api::namespaced(self.client.borrow().clone(), &self.namespace)
    }

    fn claims(&self) -> Api<PersistentVolumeClaim> {
        Api::namespaced(self.client.borrow().clone(), &self.namespace)
    }

    fn events(&self) -> Api<Event> {
        Api::namespaced(self.client.borrow().clone(), &self.namespace)
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
        // All of it is one request to the allocator, and has the time of one.
        let made = tokio::time::timeout(self.limit, self.make(pods, request)).await;
        let late = || format!("no answer came within {} ms", self.limit.as_millis());
        match made.unwrap_or_else(|_| Err(ApiError::Unreachable(late()))) {
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

    /// Claims first: a pod whose claims do not exist is not placed.
    async fn make(&self, pods: &ExecutorPods, request: &PodRequest) -> Result<Pod, ApiError> {
        for claim in pods.claims(request) {
            self.make_claim(&claim).await?;
        }
        let pod = pods.pod(request);
        self.ask(self.api().create(&PostParams::default(), &pod)).await
    }

    /// Creates a claim, unless it is there.
    async fn make_claim(&self, claim: &PersistentVolumeClaim) -> Result<(), ApiError> {
        match self.ask(self.claims().create(&PostParams::default(), claim)).await {
            Ok(_) => Ok(()),
            Err(ApiError::Conflict) => self.check_claim(claim).await,
            Err(error) => Err(error),
        }
    }

    async fn check_claim(&self, claim: &PersistentVolumeClaim) -> Result<(), ApiError> {
        let name = claim.metadata.name.as_deref().unwrap_or_default();
        let found = self.ask(self.claims().get(name)).await?;
        let labels = found.metadata.labels.unwrap_or_default();
        match labels.get(labels::APPLICATION) == Some(&self.app) {
            true => Ok(()),
            false => Err(ApiError::Invalid(format!(
                "the claim {name} is there, and is not this application's"
            ))),
        }
    }

    /// All claims that the driver has made, from a quorum.
    pub(super) async fn list_claims(&self) -> Result<ClaimList, ApiError> {
        let selector = format!("{}={},{}", labels::APPLICATION, self.app, labels::VOLUME);
        let list = self.ask(self.claims().list(&ListParams::default().labels(&selector))).await?;
        let version = pod::version(list.metadata.resource_version.as_deref());
        // Another driver may have been given the same application id.
        let own = self.pods.as_ref().and_then(|pods| pods.owner());
        let is_own = |claim: &&PersistentVolumeClaim| {
            pod::owner(&claim.metadata).is_none_or(|owner| Some(owner) == own)
        };
        let claims = list.items.iter().filter(is_own).filter_map(pod::read_claim).collect();
        Ok(ClaimList { version, claims })
    }

    /// Deletes a claim; the API server waits for the pods that mount it.
    pub(super) async fn delete_claim(&self, name: &ClaimName) -> Result<(), ApiError> {
        let parameters = DeleteParams::default();
        self.ask(self.claims().delete(&name.to_string(), &parameters)).await.map(drop)
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
        self.ask(self.api().delete(&name.to_string(), &parameters)).await.map(drop)
    }

    /// Labels this very pod as one that is over.
    pub(super) async fn keep(&self, name: &PodName, uid: &PodUid) -> Result<(), ApiError> {
        let inactive =
            json!({"metadata": {"uid": uid.to_string(), "labels": {labels::INACTIVE: "true"}}});
        self.patch(&name.to_string(), &inactive).await.map(drop)
    }

    /// The end of the log of a pod's executor.
    pub(super) async fn log(&self, name: &PodName) -> Result<String, ApiError> {
        let container = self.pods.as_ref().map(|pods| pods.container().to_owned());
        let parameters = LogParams {
            container,
            tail_lines: i64::try_from(LOG_LINES).ok(),
            limit_bytes: i64::try_from(LOG_BYTES).ok(),
            ..LogParams::default()
        };
        self.ask(self.api().logs(&name.to_string(), &parameters)).await
    }

    pub(super) async fn get(&self, name: &str) -> Result<Pod, ApiError> {
        self.ask(self.api().get(name)).await
    }

    pub(super) async fn patch(&self, name: &str, change: &Value) -> Result<Pod, ApiError> {
        self.ask(self.api().patch(name, &PatchParams::default(), &Patch::Merge(change))).await
    }

    /// Tells people who look at a pod something about it. Needs a right of its own, which a driver can do without.
    pub(super) async fn set_condition(
        &self,
        name: &str,
        condition: &Value,
    ) -> Result<(), ApiError> {
        let change = json!({"status": {"conditions": [condition]}});
        let change = Patch::Strategic(&change);
        self.ask(self.api().patch_status(name, &PatchParams::default(), &change)).await.map(drop)
    }

    /// Tells people who look at a pod what happened to it. Needs a right of its own, which a driver can do without.
    pub(super) async fn tell(
        &self,
        pod: &Owner,
        kind: &str,
        reason: &str,
        words: &str,
    ) -> Result<(), ApiError> {
        let now = Time(jiff::Timestamp::now());
        let start = pod.name[..pod.name.len().min(LONGEST_START)].trim_end_matches(['-', '.']);
        let name = format!("{start}.{}", crate::unique());
        let about = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: Some(pod.name.clone()),
            namespace: Some(self.namespace.clone()),
            uid: Some(pod.uid.clone()),
            ..ObjectReference::default()
        };
        let source = EventSource { component: Some(COMPONENT.to_owned()), host: None };
        let event = Event {
            metadata: ObjectMeta { name: Some(name), ..ObjectMeta::default() },
            involved_object: about,
            type_: Some(kind.to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(words[..words.floor_char_boundary(LONGEST_WORDS)].to_owned()),
            source: Some(source),
            first_timestamp: Some(now.clone()),
            last_timestamp: Some(now),
            count: Some(1),
            ..Event::default()
        };
        self.ask(self.events().create(&PostParams::default(), &event)).await.map(drop)
    }

    /// All pods, from a quorum: no version is asked for.
    pub(super) async fn list(&self) -> Result<PodList, ApiError> {
        let list = self.ask(self.api().list(&ListParams::default().labels(&self.selector))).await?;
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
        let events = within(self.limit, self.api().watch(&parameters, &from)).await?;
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

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use firesteel_backend::command::Command;
    use firesteel_conf::Conf;
    use firesteel_engine::ApplicationSpec;
    use firesteel_kubernetes_core::claim::Mount;
    use firesteel_kubernetes_core::{Generation, VolumeName};
    use firesteel_types::ExecutorId;

    use super::*;
    use crate::fake::{Answer, ApiServer, Asked, refuses};
    use crate::manifests;

    const CLAIM: &str = "pi-exec-1-pvc-0";

    fn pods() -> ExecutorPods {
        let mut conf = Conf::new();
        let volume = "spark.kubernetes.executor.volumes.persistentVolumeClaim.data";
        conf.set("spark.kubernetes.container.image", "pi:1");
        conf.set(format!("{volume}.options.claimName"), "OnDemand");
        conf.set(format!("{volume}.options.sizeLimit"), "1Gi");
        conf.set(format!("{volume}.mount.path"), "/data");
        let (name, user) = ("Pi".to_owned(), "me".to_owned());
        let application = ApplicationSpec { name, user, conf, command: Command::default() };
        ExecutorPods::new(&application, "spark-1", Some(&Owner::new("d", "u"))).unwrap()
    }

    fn request() -> PodRequest {
        let mount = Mount {
            volume: VolumeName::new("data"),
            claim: ClaimName::new(CLAIM),
            is_new: true,
            reused: false,
        };
        PodRequest {
            executor: ExecutorId(1),
            name: PodName::new("pi-exec-1"),
            generation: Generation(1),
            attempt: 1,
            avoid: BTreeSet::new(),
            last_choice: BTreeSet::new(),
            mounts: vec![mount],
        }
    }

    async fn server(
        answers: impl FnMut(&Asked) -> Answer + Send + 'static,
    ) -> (ApiServer, Requests) {
        let server = ApiServer::start(answers).await;
        let limit = Duration::from_secs(5);
        let requests = Requests::new(server.client.clone(), "jobs", "spark-1", limit);
        (server, requests.for_pods(pods()))
    }

    /// What a request needs a right for: a resource and a verb.
    fn right(line: &str) -> (String, String) {
        let (method, path) = line.split_once(' ').unwrap();
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let rest = path.strip_prefix("/api/v1/namespaces/jobs/").unwrap();
        let parts: Vec<&str> = rest.split('/').collect();
        let (resource, name) = (parts[0], parts.get(1));
        let resource = match parts.get(2) {
            Some(part) => format!("{resource}/{part}"),
            None => resource.to_owned(),
        };
        let verb = match (method, name) {
            ("GET", None) if query.contains("watch=true") => "watch",
            ("GET", None) => "list",
            ("GET", Some(_)) => "get",
            ("POST", _) => "create",
            ("PATCH", _) => "patch",
            ("DELETE", _) => "delete",
            _ => panic!("{line}"),
        };
        (resource, verb.to_owned())
    }

    #[tokio::test(flavor = "current_thread")]
    async fn drivers_use_the_rights_that_the_manifests_give_them_and_no_others() {
        let pod = json!({"metadata": {"name": "pi-exec-1", "uid": "u", "resourceVersion": "7"}});
        let claim =
            json!({"metadata": {"name": CLAIM, "labels": {"spark-app-selector": "spark-1"}}});
        let (server, requests) = server(move |(line, _)| match line.as_str() {
            line if line.starts_with("POST") && line.contains("/events") => {
                Some((201, json!({"metadata": {}, "involvedObject": {}})))
            }
            // It is there already, and so is the claim.
            line if line.starts_with("POST") => refuses(409, "there"),
            line if line.contains(&format!("persistentvolumeclaims/{CLAIM}")) => {
                Some((200, claim.clone()))
            }
            line if line.contains("/pods/") => Some((200, pod.clone())),
            _ => Some((200, json!({"metadata": {"resourceVersion": "7"}, "items": []}))),
        })
        .await;
        let (name, uid) = (PodName::new("pi-exec-1"), PodUid::new("u"));
        assert!(requests.create(&request()).await.unwrap().existed);
        requests.delete(&name, &uid, 1000).await.unwrap();
        requests.keep(&name, &uid).await.unwrap();
        requests.set_condition("d", &json!({"type": "a"})).await.unwrap();
        let long = "word ".repeat(1000);
        requests.tell(&Owner::new("d", "u"), "Warning", "ExecutorsMissing", &long).await.unwrap();
        let _ = requests.log(&name).await;
        assert!(requests.list().await.unwrap().pods.is_empty());
        assert!(requests.list_claims().await.unwrap().claims.is_empty());
        requests.delete_claim(&ClaimName::new(CLAIM)).await.unwrap();
        let _ = requests.watch(Version(7)).await;
        let mut used: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (line, body) in server.asked() {
            if line.contains("/events") {
                assert_eq!(body["involvedObject"]["uid"], "u");
                assert_eq!(body["message"].as_str().unwrap().len(), 1024);
            }
            let (resource, verb) = right(&line);
            used.entry(resource).or_default().insert(verb);
        }
        assert_eq!(used, manifests::rights());
    }

    #[tokio::test(flavor = "current_thread")]
    async fn claims_of_another_driver_with_the_same_application_id_are_left_to_it() {
        let claim = |name: &str, owner: &str| {
            let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "d", "uid": owner});
            json!({"metadata": {"name": name, "labels": {labels::VOLUME: "data"}, "ownerReferences": [owner]}})
        };
        let all = [claim("own", "u"), claim("others", "u-2")];
        let (_, requests) = server(move |_| {
            Some((200, json!({"metadata": {"resourceVersion": "7"}, "items": all})))
        })
        .await;
        let claims = requests.list_claims().await.unwrap().claims;
        assert_eq!(claims.iter().map(|one| one.name.0.as_ref()).collect::<Vec<_>>(), ["own"]);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_claim_comes_before_its_pod_and_one_of_somebody_else_is_not_mounted() {
        let (server, requests) = server(|(line, body)| match line.as_str() {
            "POST /api/v1/namespaces/jobs/pods?" | "POST /api/v1/namespaces/jobs/pods" => {
                let mut pod = body.clone();
                pod["metadata"]["uid"] = "u".into();
                Some((201, pod))
            }
            _ => Some((201, body.clone())),
        })
        .await;
        assert!(!requests.create(&request()).await.unwrap().existed);
        let first = &server.asked()[0];
        assert!(first.0.contains("persistentvolumeclaims"), "{first:?}");
        assert_eq!(first.1["metadata"]["ownerReferences"][0]["uid"], "u");
        let other = json!({"metadata": {"name": CLAIM, "labels": {"spark-app-selector": "x"}}});
        let (_, requests) = self::server(move |(line, _)| match line.starts_with("POST") {
            true => refuses(409, "there"),
            false => Some((200, other.clone())),
        })
        .await;
        let refused = requests.create(&request()).await.unwrap_err();
        assert!(matches!(refused, ApiError::Invalid(words) if words.contains(CLAIM)));
    }

    /// Where `./test k8s` can make no cluster. No node has to take the pod.
    #[tokio::test(flavor = "current_thread")]
    #[ignore = "needs a cluster; part of ./test k8s where KUBECONFIG names one and none can be made"]
    async fn a_pod_comes_and_goes_at_the_api_server_of_the_cluster_that_kubeconfig_names() {
        let found = kube::Config::from_kubeconfig(&<_>::default()).await.unwrap();
        let namespace = found.default_namespace.clone();
        let app = format!("firesteel-test-{}", crate::unique());
        let mut conf = Conf::new();
        conf.set("spark.kubernetes.container.image", "localhost/none:1");
        conf.set("spark.kubernetes.node.selector.firesteel-test", "nowhere");
        let (name, user) = ("test".to_owned(), "me".to_owned());
        let application = ApplicationSpec { name, user, conf, command: Command::default() };
        let pods = ExecutorPods::new(&application, &app, None).unwrap();
        let client = crate::connect::client_of(found).unwrap();
        let requests = Requests::new(client, &namespace, &app, Duration::from_secs(30));
        let requests = requests.for_pods(pods);
        let request = PodRequest {
            name: PodName::new(&format!("{app}-exec-1")),
            mounts: vec![],
            ..request()
        };
        let before = requests.list().await.unwrap();
        let watched = requests.watch(before.version).await.unwrap();
        let mut watched = std::pin::pin!(watched);
        let created = requests.create(&request).await.unwrap();
        // What was made is removed again, whatever else is wrong.
        let again = requests.create(&request).await;
        let listed = requests.list().await;
        let uid = created.pod.uid.clone();
        requests.delete(&request.name, &uid, 0).await.unwrap();
        let mut seen = Vec::new();
        while !matches!(seen.last(), Some(Change::Deleted(_))) {
            let next = tokio::time::timeout(Duration::from_secs(60), watched.next()).await;
            seen.push(next.expect("the watch says nothing").expect("it ends").unwrap());
        }
        assert!(before.pods.is_empty() && !created.existed);
        assert!(again.is_ok_and(|again| again.existed && again.pod.uid == uid));
        let listed = listed.unwrap().pods;
        assert_eq!(listed.iter().map(|pod| &pod.uid).collect::<Vec<_>>(), [&uid]);
        let first = matches!(&seen[0], Change::Applied(pod) if pod.uid == uid && pod.executor == Some(ExecutorId(1)));
        assert!(first, "{seen:?}");
    }
}
