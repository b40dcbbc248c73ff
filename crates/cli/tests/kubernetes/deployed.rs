//! What `deploy/` brings to a cluster: the chart as Helm renders it, created on a real API server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{
    PersistentVolume, PersistentVolumeClaim, Pod, Service, ServiceAccount,
};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};

use crate::cluster::{COMMAND_IMAGE, Turn, turn, wait_for};

/// Creates all that the chart has, with these values. The account of drivers has the least rights then.
pub(crate) fn install(turn: &Turn, values: &[&str]) {
    let kind_of = |manifest: &Value| manifest["kind"].as_str().unwrap_or_default().to_owned();
    for manifest in turn.cluster.chart(&turn.namespace, values) {
        match kind_of(&manifest).as_str() {
            "ServiceAccount" => create::<ServiceAccount>(turn, &manifest),
            "Role" => create::<Role>(turn, &manifest),
            "RoleBinding" => create::<RoleBinding>(turn, &manifest),
            "Service" => create::<Service>(turn, &manifest),
            "Deployment" => create::<Deployment>(turn, &manifest),
            other => panic!("the chart has a {other}"),
        }
    }
}

fn create<K>(turn: &Turn, manifest: &Value)
where
    K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    K: Clone + serde::de::DeserializeOwned + serde::Serialize + std::fmt::Debug,
{
    drop(turn.cluster.create::<K>(&turn.cluster.api(&turn.namespace), manifest));
}

/// A volume with an event log, and its claim; the volume goes with this.
struct Logs<'a>(&'a Turn);

impl<'a> Logs<'a> {
    fn new(turn: &'a Turn) -> Self {
        let path = turn.cluster.directory.join("event-logs");
        std::fs::create_dir_all(&path).unwrap();
        let start = r#"{"Event":"SparkListenerLogStart","Spark Version":"4.0.0"}"#;
        let application = r#"{"Event":"SparkListenerApplicationStart","App Name":"earlier","App ID":"app-1","Timestamp":1700000000000,"User":"u"}"#;
        let end = r#"{"Event":"SparkListenerApplicationEnd","Timestamp":1700000001000}"#;
        std::fs::write(path.join("app-1"), format!("{start}\n{application}\n{end}\n")).unwrap();
        let (name, modes) = (json!({"name": "logs"}), json!(["ReadWriteMany"]));
        let volume = json!({"capacity": {"storage": "1Gi"}, "accessModes": modes, "storageClassName": "",
            "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": path}});
        let volumes: Api<PersistentVolume> = turn.cluster.all();
        turn.cluster.create(&volumes, &json!({"metadata": name, "spec": volume}));
        let claim = json!({"accessModes": modes, "storageClassName": "", "volumeName": "logs",
            "resources": {"requests": {"storage": "1Gi"}}});
        create::<PersistentVolumeClaim>(turn, &json!({"metadata": name, "spec": claim}));
        Logs(turn)
    }
}

impl Drop for Logs<'_> {
    fn drop(&mut self) {
        let volumes: Api<PersistentVolume> = self.0.cluster.all();
        let _ = self.0.cluster.block_on(volumes.delete("logs", &DeleteParams::default()));
    }
}

/// What a pod says to a request, if it is there already.
fn get(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn the_charts_history_server_shows_the_logs_of_its_volume() {
    let turn = turn("chart");
    turn.cluster.load_command();
    let logs = Logs::new(&turn);
    let image = format!("history.image={COMMAND_IMAGE}");
    let values = ["history.enabled=true", "history.claim=logs", "history.imagePullPolicy=Never"];
    let since = Instant::now();
    install(&turn, &[&values[..], &[&image]].concat());
    let pods: Api<Pod> = turn.cluster.api(&turn.namespace);
    let of_history = ListParams::default().labels("app.kubernetes.io/name=firesteel-history");
    let ready = |pod: &Pod| {
        let status = pod.status.as_ref()?;
        let conditions = status.conditions.as_ref()?;
        let ready = conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True");
        status.pod_ip.clone().filter(|_| ready)
    };
    let address = wait_for("the history server's pod", || {
        turn.cluster.block_on(pods.list(&of_history)).ok()?.items.iter().find_map(ready)
    });
    let path = "/api/v1/applications";
    let shown = wait_for("the application of the log", || {
        get(&format!("{address}:18080"), path).filter(|answer| answer.contains("app-1"))
    });
    println!("chart to history server: {} ms", since.elapsed().as_millis());
    assert!(shown.contains("earlier"), "{shown}");
    drop(logs);
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn a_chart_without_the_image_of_its_history_server_says_what_is_missing() {
    let turn = turn("chartless");
    let refused = turn.cluster.rendered("x", &["history.enabled=true"]).unwrap_err();
    assert!(
        refused.contains("history.image: an image that has the command firesteel"),
        "{refused}"
    );
}
