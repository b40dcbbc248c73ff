//! How far a driver is, to its end: the exit code of the application is the submitter's.

use std::time::{Duration, Instant};

use firesteel_kubernetes_core::api::ApiError;
use firesteel_kubernetes_core::pod::last_lines;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Event, Pod};
use kube::Api;
use kube::api::ListParams;

use super::create::{Driver, withdraw};
use super::patience::{Patience, Waited, Waits};
use super::{Cluster, Outcome};
use crate::Error;
use crate::answer::within;

/// So long an API server may not answer before the submitter does not wait any more. The driver goes on.
const PATIENCE: Duration = Duration::from_secs(300);
/// It is not asked more often than this, whatever `spark.kubernetes.report.interval` says.
const LEAST_INTERVAL: Duration = Duration::from_millis(100);

/// Tells how far a driver is, whenever that changes.
pub(super) async fn to_the_end(
    cluster: &Cluster,
    driver: &Driver,
    interval: Duration,
    patience: &Patience,
    tell: &mut dyn FnMut(&str),
) -> Result<Outcome, Error> {
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let id = cluster.id(&driver.name);
    let (mut last, mut failing) = (None::<Look>, None::<Instant>);
    let mut waited = Waited::default();
    loop {
        let mut pause = interval.max(LEAST_INTERVAL);
        match within(cluster.limit, pods.get(&driver.name)).await {
            Ok(pod) if pod.metadata.uid.as_deref() != Some(&driver.uid) => {
                return Ok(gone(&id, last, tell));
            }
            Ok(pod) => {
                failing = None;
                let look = look(&pod, &driver.container);
                if last.as_ref().is_none_or(|last| last.words != look.words) {
                    tell(&format!("{id} {}", look.words));
                }
                if let Some(outcome) = look.outcome {
                    return Ok(outcome);
                }
                if look.ends {
                    // Its exit code is there for a moment only.
                    pause = LEAST_INTERVAL;
                }
                let words = look.words.clone();
                last = Some(look);
                let waits = Waits::of(&pod, &driver.container);
                if let Some(after) = waited.too_long(waits, patience)
                    && let Some(error) = give_up(cluster, &pod, &id, after, words).await
                {
                    return Err(error);
                }
            }
            Err(ApiError::NotFound) => return Ok(gone(&id, last, tell)),
            Err(error @ (ApiError::Forbidden(_) | ApiError::NoNamespace(_))) => {
                return Err(not_shown(cluster, driver, error));
            }
            Err(error) if failing.is_some_and(|since| since.elapsed() >= PATIENCE) => {
                return Err(not_shown(cluster, driver, error));
            }
            Err(error) => {
                failing.get_or_insert_with(Instant::now);
                pause = pause.max(asked_for(&error).min(PATIENCE));
            }
        }
        tokio::time::sleep(pause).await;
    }
}

/// How long the API server wants to be left alone.
fn asked_for(error: &ApiError) -> Duration {
    match error {
        ApiError::Throttled { retry_after_ms: Some(after), .. } => Duration::from_millis(*after),
        _ => Duration::ZERO,
    }
}

/// Nothing is known of it any more: it may run on.
fn not_shown(cluster: &Cluster, driver: &Driver, error: ApiError) -> Error {
    let refused = cluster.refused(format!("show the driver's pod {}", driver.name), error);
    refused.leaving(cluster.id(&driver.name))
}

/// A driver that does not start is removed, unless it changed meanwhile or the API server is away for a moment.
async fn give_up(
    cluster: &Cluster,
    pod: &Pod,
    id: &str,
    after: Duration,
    words: String,
) -> Option<Error> {
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let words = match last_warning(cluster, pod).await {
        Some(warning) if !words.contains(&warning) => format!("{words}; {warning}"),
        _ => words,
    };
    match withdraw(cluster, &pods, pod).await {
        Ok(()) => Some(Error::NeverStarted { id: id.to_owned(), after, words }),
        Err(ApiError::Conflict) => None,
        Err(error) if error.is_unanswered() || error.is_throttled() => None,
        Err(error) => {
            let what = format!("remove the driver's pod, which does not start ({words})");
            Some(cluster.refused(what, error).leaving(id.to_owned()))
        }
    }
}

/// What a kubelet says in events only, such as a volume that is not there. Needs a right that a submitter can do without.
async fn last_warning(cluster: &Cluster, pod: &Pod) -> Option<String> {
    let events: Api<Event> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let uid = pod.metadata.uid.as_deref()?;
    let about = ListParams::default().fields(&format!("involvedObject.uid={uid},type=Warning"));
    let found = within(cluster.limit, events.list(&about)).await.ok()?;
    let last = found.items.into_iter().max_by_key(|event| event.last_timestamp.clone());
    last.and_then(|event| event.message).filter(|message| !message.is_empty())
}

/// It is not there any more: what was seen of it last says more than that.
fn gone(id: &str, last: Option<Look>, tell: &mut dyn FnMut(&str)) -> Outcome {
    let (exit_code, why) = last.map_or((None, Vec::new()), |last| (last.exit_code, last.why));
    let words = described("was deleted before it ended", exit_code, &why);
    tell(&format!("{id} {words}"));
    Outcome { exit_code, succeeded: false, is_over: true }
}

/// A driver as its pod shows it.
pub(super) struct Look {
    pub(super) words: String,
    /// Once it is over.
    pub(super) outcome: Option<Outcome>,
    /// Of its own container.
    exit_code: Option<i32>,
    why: Vec<String>,
    /// Whether somebody told it to end.
    ends: bool,
}

fn described(state: &str, exit_code: Option<i32>, why: &[String]) -> String {
    let code = exit_code.map_or_else(String::new, |code| format!(", exit code {code}"));
    let why = if why.is_empty() { String::new() } else { format!(" ({})", why.join("; ")) };
    format!("{state}{code}{why}")
}

pub(super) fn look(pod: &Pod, container: &str) -> Look {
    let status = pod.status.clone().unwrap_or_default();
    let phase = status.phase.clone().unwrap_or_else(|| "Pending".to_owned());
    let all = status.container_statuses.unwrap_or_default();
    let runs =
        |one: &ContainerStatus| one.state.as_ref().is_some_and(|state| state.running.is_some());
    let others_run = all.iter().any(|one| one.name != container && runs(one));
    let own = all.into_iter().find(|one| one.name == container);
    let state = own.and_then(|one| one.state).unwrap_or_default();
    let exit_code = state.terminated.as_ref().map(|ended| ended.exit_code);
    let conditions = status.conditions.unwrap_or_default();
    let unscheduled =
        conditions.iter().find(|one| one.type_ == "PodScheduled" && one.status == "False");
    let before = status.init_container_statuses.unwrap_or_default();
    // Once the driver has started, those that are left run beside it.
    let started = state.running.is_some() || state.terminated.is_some();
    let before = before.into_iter().filter(|_| !started);
    let before = before.filter_map(|one| preparing(&one.name, &one.state?));
    let before: Vec<String> = before.collect();
    let disrupted =
        conditions.iter().find(|one| one.type_ == "DisruptionTarget" && one.status == "True");
    let why = [
        unscheduled.and_then(|condition| condition.message.clone()),
        (!before.is_empty()).then(|| before.join("; ")),
        obstacle(&state),
        disrupted.map(|condition| {
            let reason = condition.reason.clone().unwrap_or_default();
            format!("{reason}: {}", condition.message.clone().unwrap_or_default())
        }),
        status.reason.map(|reason| match status.message {
            Some(message) => format!("{reason}: {message}"),
            None => reason,
        }),
    ];
    let mut why: Vec<String> = why.into_iter().flatten().collect();
    let ends = pod.metadata.deletion_timestamp.is_some();
    let once =
        pod.spec.as_ref().is_some_and(|spec| spec.restart_policy.as_deref() == Some("Never"));
    let mut phase = phase;
    if let (Some(code), "Running", true) = (exit_code, phase.as_str(), once) {
        // One that ends because it is told to has not succeeded, whatever its code is.
        phase = if code == 0 && !ends { "Succeeded" } else { "Failed" }.to_owned();
        why.extend(others_run.then(|| "other containers of its pod run on".to_owned()));
    }
    let (succeeded, failed) = (phase == "Succeeded", phase == "Failed");
    let is_over = succeeded || failed;
    let outcome = is_over.then_some(Outcome { exit_code, succeeded, is_over });
    let state = if ends { format!("{phase}, ending") } else { phase };
    Look { words: described(&state, exit_code, &why), outcome, exit_code, why, ends }
}

/// What a container that runs before the driver does, or how it failed.
fn preparing(name: &str, state: &ContainerState) -> Option<String> {
    if state.running.is_some() {
        return Some(format!("{name} runs"));
    }
    let failed = state.terminated.as_ref().filter(|ended| ended.exit_code != 0);
    let words = obstacle(state);
    match (failed, words) {
        (Some(ended), Some(words)) => {
            Some(format!("{name} ended with exit code {}: {words}", ended.exit_code))
        }
        (Some(ended), None) => Some(format!("{name} ended with exit code {}", ended.exit_code)),
        (None, words) => words.map(|words| format!("{name}: {words}")),
    }
}

/// What keeps it from starting, or ended it.
fn obstacle(state: &ContainerState) -> Option<String> {
    let waiting = state.waiting.as_ref().filter(|waiting| {
        !matches!(waiting.reason.as_deref(), None | Some("ContainerCreating" | "PodInitializing"))
    });
    let waiting = waiting.map(|waiting| {
        let words = waiting.message.clone().unwrap_or_default();
        format!("{}: {words}", waiting.reason.clone().unwrap_or_default())
    });
    let ended = state.terminated.as_ref();
    let reason = ended.and_then(|ended| ended.reason.clone());
    let reason = reason.filter(|reason| reason != "Completed" && reason != "Error");
    let failed = ended.filter(|ended| ended.exit_code != 0);
    let words = failed.and_then(|ended| last_lines(ended.message.as_deref()?));
    let words = words.map(|words| format!("it said last: {words}"));
    let ended: Vec<String> = reason.into_iter().chain(words).collect();
    waiting.or((!ended.is_empty()).then(|| ended.join("; ")))
}

#[cfg(test)]
mod tests {
    use firesteel_conf::Conf;
    use serde_json::{Value, json};

    use super::*;
    use crate::fake::{ApiServer, refuses};

    fn driver_at(server: &ApiServer) -> (Cluster, Driver) {
        let cluster = Cluster {
            client: server.client.clone(),
            namespace: "jobs".to_owned(),
            url: server.url.clone(),
            limit: Duration::from_secs(5),
        };
        let [name, uid, container] = ["d", "u", "c"].map(str::to_owned);
        (cluster, Driver { name, uid, container })
    }

    /// Follows a driver whose pod is this one, with no patience at all.
    async fn followed(pod: Value, deletes: u16) -> (Result<Outcome, Error>, ApiServer) {
        let server = ApiServer::start(move |(line, _)| match line.as_str() {
            line if line.starts_with("DELETE") && deletes != 200 => refuses(deletes, "cannot do that"),
            line if line.contains("/events") => {
                let event = json!({"metadata": {}, "involvedObject": {}, "message": "secret \"s\" not found"});
                Some((200, json!({"metadata": {}, "items": [event]})))
            }
            _ => Some((200, pod.clone())),
        })
        .await;
        let (cluster, driver) = driver_at(&server);
        let mut tell = |_: &str| {};
        let none = Patience { image: Duration::ZERO, start: Duration::ZERO, node: None };
        let outcome = to_the_end(&cluster, &driver, LEAST_INTERVAL, &none, &mut tell).await;
        (outcome, server)
    }

    fn stuck(waiting: Value) -> Value {
        json!({"metadata": {"name": "d", "uid": "u", "resourceVersion": "7"}, "spec": {"nodeName": "n", "containers": []},
            "status": {"phase": "Pending", "containerStatuses": container(json!({"waiting": waiting}))}})
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_driver_that_does_not_start_is_removed_and_told_with_the_kubelets_words() {
        let waiting = json!({"reason": "ErrImagePull", "message": "no such image"});
        let (outcome, server) = followed(stuck(waiting), 200).await;
        let refused = outcome.unwrap_err();
        assert!(!refused.leaves_a_driver());
        let text = refused.to_string();
        for words in ["jobs:d", "ErrImagePull: no such image", "secret \"s\" not found"] {
            assert!(text.contains(words), "{text}");
        }
        let (line, body) = server.asked().pop().unwrap();
        assert!(line.starts_with("DELETE /api/v1/namespaces/jobs/pods/d"), "{line}");
        assert_eq!(body["preconditions"], json!({"uid": "u", "resourceVersion": "7"}));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_driver_that_may_not_be_removed_or_not_be_shown_may_run_on() {
        let waiting = json!({"reason": "ContainerCreating"});
        let (outcome, _server) = followed(stuck(waiting), 403).await;
        assert!(outcome.unwrap_err().leaves_a_driver());
        let server = ApiServer::start(|_| refuses(403, "User cannot get pods")).await;
        let cluster = Cluster {
            client: server.client.clone(),
            namespace: "jobs".to_owned(),
            url: server.url.clone(),
            limit: Duration::from_secs(5),
        };
        let driver = Driver { name: "d".to_owned(), uid: "u".to_owned(), container: String::new() };
        let patience = Patience::of(&Conf::new()).unwrap();
        let outcome =
            to_the_end(&cluster, &driver, LEAST_INTERVAL, &patience, &mut |_: &str| {}).await;
        assert!(outcome.unwrap_err().leaves_a_driver());
    }

    fn seen(status: Value) -> Look {
        let pod = json!({"metadata": {"name": "d", "uid": "u"}, "status": status});
        look(&serde_json::from_value(pod).unwrap(), "c")
    }

    fn container(state: Value) -> Value {
        json!([{"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state}])
    }

    #[test]
    fn the_end_of_a_driver_is_told_with_its_code_and_reason() {
        let failed = seen(
            json!({"phase": "Failed", "containerStatuses": container(json!({"terminated": {"exitCode": 3, "reason": "Error"}}))}),
        );
        let wanted = Outcome { exit_code: Some(3), succeeded: false, is_over: true };
        assert_eq!(failed.outcome, Some(wanted));
        assert_eq!(failed.words, "Failed, exit code 3");
        let killed = seen(
            json!({"phase": "Failed", "containerStatuses": container(json!({"terminated": {"exitCode": 137, "reason": "OOMKilled", "message": "a\nb\n"}}))}),
        );
        assert_eq!(killed.words, "Failed, exit code 137 (OOMKilled; it said last: a / b)");
        let done = seen(
            json!({"phase": "Succeeded", "containerStatuses": container(json!({"terminated": {"exitCode": 0, "reason": "Completed"}}))}),
        );
        assert_eq!(
            (done.words.as_str(), done.outcome.unwrap().succeeded),
            ("Succeeded, exit code 0", true)
        );
        let evicted =
            seen(json!({"phase": "Failed", "reason": "Evicted", "message": "node low on memory"}));
        assert_eq!(evicted.words, "Failed (Evicted: node low on memory)");
        assert_eq!(evicted.outcome.unwrap().exit_code, None);
    }

    #[test]
    fn containers_that_run_before_a_driver_are_told_with_what_keeps_it_from_starting() {
        let with = |phase: &str, state: Value| {
            let first = json!([{"name": "spark-fetch", "image": "", "imageID": "", "ready": false,
                "restartCount": 0, "state": state}]);
            let waits = container(json!({"waiting": {"reason": "PodInitializing"}}));
            let status =
                json!({"phase": phase, "initContainerStatuses": first, "containerStatuses": waits});
            seen(status).words
        };
        let ended = |code: i32, reason: &str, message: &str| json!({"terminated": {"exitCode": code, "reason": reason, "message": message}});
        for (phase, state, words) in [
            (
                "Failed",
                ended(1, "Error", "could not fetch s3a://b/pi\n"),
                "Failed (spark-fetch ended with exit code 1: it said last: could not fetch s3a://b/pi)",
            ),
            ("Failed", ended(2, "Error", ""), "Failed (spark-fetch ended with exit code 2)"),
            (
                "Pending",
                json!({"waiting": {"reason": "ErrImagePull", "message": "no such image"}}),
                "Pending (spark-fetch: ErrImagePull: no such image)",
            ),
            ("Pending", json!({"running": {}}), "Pending (spark-fetch runs)"),
            ("Pending", ended(0, "Completed", ""), "Pending"),
        ] {
            assert_eq!(with(phase, state), words);
        }
    }

    #[test]
    fn a_driver_is_over_when_its_own_container_is_and_not_when_a_sidecar_is() {
        let beside = |own: Value, policy: &str| {
            let mut containers = container(own);
            containers.as_array_mut().unwrap().push(json!({"name": "beside", "image": "",
                "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {}}}));
            let pod = json!({"metadata": {"name": "d", "uid": "u"},
                "spec": {"containers": [], "restartPolicy": policy},
                "status": {"phase": "Running", "containerStatuses": containers}});
            look(&serde_json::from_value(pod).unwrap(), "c")
        };
        let ended = |code: i32| json!({"terminated": {"exitCode": code, "reason": "Error"}});
        let failed = beside(ended(3), "Never");
        assert_eq!(failed.words, "Failed, exit code 3 (other containers of its pod run on)");
        let wanted = Outcome { exit_code: Some(3), succeeded: false, is_over: true };
        assert_eq!(failed.outcome, Some(wanted));
        assert!(beside(ended(0), "Never").outcome.is_some_and(|outcome| outcome.succeeded));
        assert_eq!(beside(json!({"running": {}}), "Never").outcome, None);
        assert_eq!(beside(ended(3), "OnFailure").outcome, None, "it is started again");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn what_was_seen_last_of_a_driver_that_is_evicted_is_told_when_its_pod_is_gone() {
        let mut looks = 0;
        let server = ApiServer::start(move |_| {
            looks += 1;
            let state = match looks {
                1 => json!({"running": {}}),
                2 => json!({"terminated": {"exitCode": 143, "reason": "Error"}}),
                _ => return refuses(404, "pods \"d\" not found"),
            };
            let mut pod = json!({"metadata": {"name": "d", "uid": "u"},
                "status": {"phase": "Running", "containerStatuses": container(state)}});
            if looks == 2 {
                pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
                pod["status"]["conditions"] = json!([{"type": "DisruptionTarget", "status": "True",
                    "reason": "EvictionByEvictionAPI", "message": "evicting"}]);
            }
            Some((200, pod))
        })
        .await;
        let (cluster, driver) = driver_at(&server);
        let patience = Patience::of(&Conf::new()).unwrap();
        let (mut told, begun) = (Vec::new(), Instant::now());
        let mut tell = |words: &str| told.push(words.to_owned());
        let interval = Duration::from_secs(1);
        let outcome = to_the_end(&cluster, &driver, interval, &patience, &mut tell).await.unwrap();
        assert_eq!(outcome, Outcome { exit_code: Some(143), succeeded: false, is_over: true });
        assert_eq!(
            told.last().unwrap(),
            "jobs:d was deleted before it ended, exit code 143 (EvictionByEvictionAPI: evicting)"
        );
        assert!(begun.elapsed() < 2 * interval, "it is looked at more often while it ends");
    }

    #[test]
    fn a_driver_that_the_platform_ends_is_told_with_its_reason() {
        let evicted = seen(json!({"phase": "Failed", "conditions": [{"type": "DisruptionTarget",
            "status": "True", "reason": "PreemptionByScheduler", "message": "for another"}]}));
        assert_eq!(evicted.words, "Failed (PreemptionByScheduler: for another)");
    }

    #[test]
    fn what_a_driver_waits_for_is_told_in_the_words_of_scheduler_and_kubelet() {
        let waits = seen(
            json!({"phase": "Pending", "containerStatuses": container(json!({"waiting": {"reason": "ErrImagePull", "message": "no such image"}}))}),
        );
        assert_eq!(waits.words, "Pending (ErrImagePull: no such image)");
        let nowhere = seen(
            json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/2 nodes"}]}),
        );
        assert_eq!(nowhere.words, "Pending (0/2 nodes)");
        assert!(nowhere.outcome.is_none());
    }
}
