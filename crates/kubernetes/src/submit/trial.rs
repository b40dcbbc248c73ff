//! Whether the API server would take the pods of executors: it is asked before there is a driver, which would find out where nobody
//! looks. Creates nothing.

use firesteel_kubernetes_core::api::ApiError;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;

use super::Cluster;
use crate::Error;
use crate::answer::within;

/// An error if it would not, in its words.
pub(super) async fn of_executor(cluster: &Cluster, pod: &Pod) -> Result<(), Error> {
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let namespace = &cluster.namespace;
    match within(cluster.limit, pods.create(&dry, pod)).await {
        Ok(_) => Ok(()),
        Err(error) if says_nothing(&error) => {
            tracing::debug!(%namespace, %error, "it is not known whether executors could be created");
            Ok(())
        }
        // What is asked next would wait in vain as well.
        Err(error @ ApiError::Unreachable(_)) => {
            let what = format!("say whether it would create pods in namespace {namespace}");
            Err(cluster.refused(what, error))
        }
        Err(error) => Err(Error::ExecutorsRefused {
            url: cluster.url.clone(),
            namespace: namespace.clone(),
            error,
        }),
    }
}

/// Executors wait for room in a quota. One that is there already, left for people to look at, was valid. A server that is busy, or
/// fails, says nothing of pods, nor does a webhook that has no dry run.
fn says_nothing(error: &ApiError) -> bool {
    match error {
        ApiError::Quota(_)
        | ApiError::Conflict
        | ApiError::Throttled { .. }
        | ApiError::Unavailable(_) => true,
        ApiError::Invalid(words) | ApiError::Denied(words) => {
            words.contains("does not support dry run")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use firesteel_conf::Conf;
    use serde_json::json;

    use super::*;
    use crate::fake::{Answer, ApiServer, refuses};
    use crate::submit::{Submission, prepare};

    fn submission(settings: &[(&str, &str)]) -> Submission {
        let mut conf = Conf::new();
        conf.set("spark.kubernetes.container.image", "pi:1");
        conf.set("spark.kubernetes.namespace", "jobs");
        conf.set("spark.kubernetes.submission.waitAppCompletion", "false");
        for (key, value) in settings {
            conf.set(*key, value);
        }
        Submission { program: "/pi".to_owned(), arguments: Vec::new(), conf }
    }

    fn created(body: &serde_json::Value) -> Answer {
        let mut object = body.clone();
        object["metadata"]["uid"] = "u".into();
        Some((201, object))
    }

    #[tokio::test(flavor = "current_thread")]
    async fn the_pod_of_an_executor_is_judged_before_anything_is_created() {
        let server = ApiServer::start(|(_, body)| created(body)).await;
        let told = submission(&[("spark.kubernetes.executor.limit.cores", "2")]);
        let prepared = prepare(&server.url, &told).await.unwrap();
        let asked = server.asked();
        let [(line, pod)] = &asked[..] else { panic!("{asked:?}") };
        assert!(line.starts_with("POST /api/v1/namespaces/jobs/pods?"), "{line}");
        assert!(line.contains("dryRun=All"), "nothing is created: {line}");
        assert_eq!(pod["metadata"]["labels"]["spark-role"], "executor");
        assert_eq!(pod["spec"]["containers"][0]["resources"]["limits"]["cpu"], "2");
        prepared.submit(&mut |_| ()).await.unwrap();
        let rest = server.asked().split_off(1);
        assert!(rest.len() == 4 && rest.iter().all(|(line, _)| !line.contains("dryRun")));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn what_an_api_server_refuses_of_executors_is_told_and_nothing_is_created() {
        let field = "Pod \"x-exec-1\" is invalid: spec.containers[0].resources.requests: Invalid value: \"2\"";
        let right = "pods is forbidden: User \"me\" cannot create resource \"pods\" in API group \"\" in the namespace \"jobs\"";
        let policy = "pods \"x\" is forbidden: violates PodSecurity \"restricted:latest\": runAsNonRoot != true";
        let words = |code: u16, message: &'static str| async move {
            let server = ApiServer::start(move |_| refuses(code, message)).await;
            let told = submission(&[]);
            let refused = prepare(&server.url, &told).await.err().unwrap();
            assert!(!refused.leaves_a_driver() && server.asked().len() == 1, "{refused}");
            refused.to_string()
        };
        for (code, message) in [
            (422, field),
            (403, right),
            (403, policy),
            (404, "namespaces \"jobs\" not found"),
            (401, "Unauthorized"),
        ] {
            let told = words(code, message).await;
            assert!(told.contains(message) && told.contains("namespace jobs"), "{told}");
            assert!(told.contains("no driver was created"), "{told}");
        }
        assert!(words(403, right).await.contains("lacks a right"));
        assert!(words(403, policy).await.contains("spark.firesteel.kubernetes.submission.dryRun"));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn what_says_nothing_of_executors_keeps_no_driver_from_being_created() {
        for (code, message) in [
            (403, "pods \"x\" is forbidden: exceeded quota: few, requested: pods=1"),
            (409, "pods \"x-exec-1\" already exists"),
            (429, "later"),
            (500, "etcdserver: no leader"),
            (400, "admission webhook \"a.b\" does not support dry run"),
        ] {
            let server = ApiServer::start(move |_| refuses(code, message)).await;
            let told = submission(&[]);
            assert!(prepare(&server.url, &told).await.is_ok(), "{message}");
            assert_eq!(server.asked().len(), 1, "{message}");
        }
        let server = ApiServer::start(|_| refuses(422, "never asked")).await;
        let off = [("spark.firesteel.kubernetes.submission.dryRun", "false")];
        assert!(prepare(&server.url, &submission(&off)).await.is_ok());
        assert!(server.asked().is_empty());
    }

    #[tokio::test(flavor = "current_thread")]
    async fn an_api_server_that_does_not_answer_is_asked_for_nothing_more() {
        let server = ApiServer::start(|_| None).await;
        let cluster = Cluster {
            client: server.client.clone(),
            namespace: "jobs".to_owned(),
            url: server.url.clone(),
            limit: Duration::from_secs(5),
        };
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "x-exec-1"}})).unwrap();
        let refused = of_executor(&cluster, &pod).await.unwrap_err().to_string();
        assert!(refused.contains("does not say whether"), "{refused}");
    }
}
