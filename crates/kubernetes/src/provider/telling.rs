//! The driver's own pod says why executors are missing: `kubectl describe` shows its conditions and events.

use std::time::Duration;

use firesteel_kubernetes_core::api::ApiError;
use firesteel_types::Tick;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use tokio::sync::watch::Receiver;

use super::requests::Requests;
use crate::pod::Owner;

/// The pause after a first failure; twice as long after each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Why executors are missing, and since when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shortage {
    pub(super) words: String,
    pub(super) since: Tick,
}

/// Says it with each change, until nobody can change it any more. What could not be said is said later, if it still holds.
pub(super) async fn tell_driver_pod(
    requests: Requests,
    pod: Owner,
    mut shortage: Receiver<Option<Shortage>>,
) {
    let mut told = None;
    while shortage.changed().await.is_ok() {
        let mut pause = FIRST_PAUSE;
        loop {
            let now = shortage.borrow_and_update().clone();
            if tell(&requests, &pod, now, &mut told).await {
                break;
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                changed = shortage.changed() => if changed.is_err() {
                    return;
                },
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// False if it is to be said again. `told`: what the last event said.
async fn tell(
    requests: &Requests,
    pod: &Owner,
    shortage: Option<Shortage>,
    told: &mut Option<String>,
) -> bool {
    let since = shortage.as_ref().map_or_else(Timestamp::now, |shortage| moment(shortage.since));
    let words = shortage.map(|shortage| shortage.words);
    let (status, kind, reason) = match &words {
        None => ("True", "Normal", "AllExecutors"),
        Some(_) => ("False", "Warning", "ExecutorsMissing"),
    };
    let condition = json!({
        "type": "firesteel.io/ExecutorsReady",
        "status": status,
        "reason": reason,
        "message": words.as_deref().unwrap_or_default(),
        "lastTransitionTime": since.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    });
    if let Err(error) = requests.set_condition(&pod.name, &condition).await {
        tracing::debug!(%error, "the driver's pod could not be told why executors are missing");
        if may_succeed_later(&error) {
            return false;
        }
    }
    if words != *told {
        let text = words.as_deref().unwrap_or("all executors are there");
        if let Err(error) = requests.tell(pod, kind, reason, text).await {
            tracing::debug!(%error, "no event could tell why executors are missing");
        }
        *told = words;
    }
    true
}

/// Ticks are milliseconds since 1970.
fn moment(at: Tick) -> Timestamp {
    let milliseconds = i64::try_from(at.0).ok();
    milliseconds.and_then(|at| Timestamp::from_millisecond(at).ok()).unwrap_or_default()
}

/// A driver can do without the right to say it.
fn may_succeed_later(error: &ApiError) -> bool {
    error.is_unanswered()
        || error.is_throttled()
        || matches!(error, ApiError::Unauthorized(_) | ApiError::Conflict)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{ApiServer, refuses};

    async fn until(what: &str, holds: impl Fn() -> bool) {
        let waits = async {
            while !holds() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let limit = Duration::from_secs(60);
        tokio::time::timeout(limit, waits).await.unwrap_or_else(|_| panic!("never: {what}"));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn what_an_expired_token_could_not_tell_is_told_with_the_next_one_as_it_is_then() {
        let old = ApiServer::start(|_| refuses(401, "Unauthorized")).await;
        let mut away = true;
        let new = ApiServer::start(move |_| match std::mem::take(&mut away) {
            true => refuses(503, "etcd has no leader"),
            false => Some((200, json!({"metadata": {"name": "d"}, "involvedObject": {}}))),
        })
        .await;
        let limit = Duration::from_secs(5);
        let requests = Requests::new(old.client.clone(), "jobs", "spark-1", limit);
        let (sender, changes) = tokio::sync::watch::channel(None);
        tokio::spawn(tell_driver_pod(requests.clone(), Owner::new("d", "u"), changes));
        let short = |words: &str| {
            Some(Shortage { words: words.to_owned(), since: Tick(1_700_000_000_999) })
        };
        sender.send_replace(short("no room"));
        until("a refusal", || !old.asked().is_empty()).await;
        sender.send_replace(short("no node"));
        requests.use_client(new.client.clone());
        until("an event", || new.lines().iter().any(|line| line.contains("/events"))).await;
        let asked = new.asked();
        let (line, event) = asked.last().unwrap();
        assert!(line.starts_with("POST") && event["message"] == "no node", "{line} {event}");
        let condition = &asked[asked.len() - 2].1["status"]["conditions"][0];
        assert_eq!(
            (&condition["status"], &condition["message"]),
            (&json!("False"), &json!("no node"))
        );
        assert_eq!(condition["lastTransitionTime"], "2023-11-14T22:13:20Z");
        assert_eq!(asked.len(), 3, "the first one failed");
        sender.send_replace(None);
        until("all is well", || new.asked().len() == 5).await;
        assert_eq!(new.asked()[3].1["status"]["conditions"][0]["status"], "True");
    }
}
