//! The cluster of these tests: `deploy/test-cluster/cluster` runs it as long as this process lives.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{LazyLock, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Namespace, Node, Pod, ServiceAccount};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client, Config};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

pub(crate) const URL: &str = "https://10.177.0.1";
/// Where pods reach this machine.
pub(crate) const HOST: &str = "10.177.0.1";
pub(crate) const IMAGE: &str = "localhost/application:1";
/// An image with the command `firesteel`, which is what init containers fetch with and history servers run.
pub(crate) const COMMAND_IMAGE: &str = "localhost/firesteel:1";
const DEADLINE: Duration = Duration::from_secs(120);

pub(crate) fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(start.elapsed() < DEADLINE, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    wait_for(what, || holds().then_some(()));
}

pub(crate) struct Cluster {
    pub(crate) directory: PathBuf,
    client: Client,
    runtime: Runtime,
    _script: Child,
}

static CLUSTER: LazyLock<Cluster> = LazyLock::new(Cluster::start);
/// Tests measure time: one at a time.
static TURN: Mutex<()> = Mutex::new(());

/// The cluster, for one test, with a namespace of its own.
pub(crate) struct Turn {
    pub(crate) cluster: &'static Cluster,
    pub(crate) namespace: String,
    _turn: MutexGuard<'static, ()>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let api: Api<Namespace> = Api::all(self.cluster.client.clone());
        let _ =
            self.cluster.runtime.block_on(api.delete(&self.namespace, &DeleteParams::default()));
    }
}

pub(crate) fn turn(namespace: &str) -> Turn {
    let turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let cluster = &*CLUSTER;
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    let made = json!({"metadata": {"name": namespace}});
    cluster.create(&namespaces, &made);
    // The test before may have taken a node away, and its pods may take the room of others.
    wait_until("both nodes", || ["n1", "n2"].iter().all(|node| cluster.is_ready(node)));
    let pods: Api<Pod> = cluster.all();
    let left = || cluster.block_on(pods.list(&ListParams::default()));
    wait_until("the end of other pods", || left().is_ok_and(|left| left.items.is_empty()));
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client.clone(), namespace);
    wait_until("the namespace's account", || {
        cluster.runtime.block_on(accounts.get("default")).is_ok()
    });
    Turn { cluster, namespace: namespace.to_owned(), _turn: turn }
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/test-cluster/cluster")
}

impl Cluster {
    fn start() -> Self {
        let directory = std::env::temp_dir().join(format!("fsk-{}", std::process::id()));
        let mut command = Command::new(script());
        command.arg("run").arg(&directory).arg(env!("CARGO_BIN_EXE_firesteel"));
        let mut script = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(script.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(
            line.trim(),
            "ready",
            "the cluster does not come up: see {}",
            directory.display()
        );
        let runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = { runtime }.worker_threads(1).enable_all().build().unwrap();
        let mut config = Config::new(URL.parse().unwrap());
        config.root_cert_file = Some(directory.join("pki/ca.crt"));
        config.auth_info.token = Some("admin-token".to_owned().into());
        let client = runtime.block_on(async { Client::try_from(config).unwrap() });
        let cluster = Cluster { directory, client, runtime, _script: script };
        cluster.load_application();
        cluster
    }

    fn load_application(&self) {
        let (own, archive) =
            (std::env::current_exe().unwrap(), self.directory.join("images/application.tar"));
        // Under a name of its own: the test executable's has a hash in it.
        let app = self.directory.join("images/application");
        std::fs::copy(own, &app).unwrap();
        let mut pack = Command::new(env!("CARGO_BIN_EXE_firesteel"));
        pack.args(["image", "--tag", IMAGE, "--app"]).arg(&app).arg("--output").arg(&archive);
        assert!(pack.stdout(Stdio::null()).status().unwrap().success());
        self.load_image("application.tar");
    }

    /// Has both nodes know an image.
    pub(crate) fn load_image(&self, archive: &str) {
        assert!(self.try_load(archive), "both nodes have the image {archive}");
    }

    pub(crate) fn try_load(&self, archive: &str) -> bool {
        let archive = self.directory.join("images").join(archive);
        let mut load = Command::new(script());
        let loaded = load.arg("load").arg(&self.directory).arg(&archive).status();
        loaded.is_ok_and(|status| status.success())
    }

    /// Has both nodes know the command's image.
    pub(crate) fn load_command(&self) {
        let archive = self.directory.join("images/firesteel.tar");
        if archive.exists() {
            return;
        }
        let program = env!("CARGO_BIN_EXE_firesteel");
        let mut pack = Command::new(program);
        pack.args(["image", "--tag", COMMAND_IMAGE, "--app", program, "-o"]).arg(&archive);
        assert!(pack.stdout(Stdio::null()).status().unwrap().success());
        self.load_image("firesteel.tar");
    }

    /// The manifests of the chart for a namespace, with these values.
    pub(crate) fn chart(&self, namespace: &str, values: &[&str]) -> Vec<Value> {
        let lines = self.rendered(namespace, values).unwrap_or_else(|error| panic!("{error}"));
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// As it is printed, or why it cannot be rendered.
    pub(crate) fn rendered(&self, namespace: &str, values: &[&str]) -> Result<String, String> {
        let mut chart = Command::new(script());
        chart.args(["chart", "test", namespace]).args(values);
        let Output { stdout, stderr, status } = chart.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        if status.success() { Ok(text(stdout)) } else { Err(text(stderr)) }
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    pub(crate) fn create<K>(&self, api: &Api<K>, object: &Value) -> K
    where
        K: Clone + serde::de::DeserializeOwned + serde::Serialize + std::fmt::Debug,
    {
        let object: K = serde_json::from_value(object.clone()).unwrap();
        self.runtime.block_on(api.create(&PostParams::default(), &object)).unwrap()
    }

    pub(crate) fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    pub(crate) fn all<K: kube::Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.client.clone())
    }

    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        drop(self.runtime.spawn(future));
    }

    /// Whether a node is there, and pods are placed on it.
    pub(crate) fn is_ready(&self, node: &str) -> bool {
        let nodes: Api<Node> = self.all();
        let Ok(node) = self.block_on(nodes.get(node)) else { return false };
        let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
        let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
        let ready = conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True");
        ready && taints.is_empty()
    }

    /// A server of the cluster, by its name in the script.
    pub(crate) fn kill_server(&self, name: &str) {
        let pid = std::fs::read_to_string(self.directory.join(format!("{name}.pid"))).unwrap();
        let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
    }

    /// While it is held, a server that dies is not started again.
    pub(crate) fn hold(&self, name: &str) -> Held {
        let file = self.directory.join(format!("hold-{name}"));
        std::fs::write(&file, "").unwrap();
        Held(file)
    }
}

/// A node that gets no more pods while this lives.
pub(crate) struct Cordoned(&'static Cluster, &'static str);

impl Cordoned {
    pub(crate) fn new(turn: &Turn, node: &'static str) -> Self {
        let nodes: Api<Node> = turn.cluster.all();
        turn.cluster.block_on(nodes.cordon(node)).unwrap();
        Cordoned(turn.cluster, node)
    }
}

impl Drop for Cordoned {
    fn drop(&mut self) {
        let nodes: Api<Node> = self.0.all();
        // The API server may be away, and all tests need both nodes.
        let since = Instant::now();
        while self.0.block_on(nodes.uncordon(self.1)).is_err() && since.elapsed() < DEADLINE {
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

pub(crate) struct Held(PathBuf);

impl Drop for Held {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Turn {
    /// Pods of a role. An API server that is away says nothing about them: it is asked until it answers.
    pub(crate) fn pods(&self, role: &str) -> Vec<Pod> {
        let api: Api<Pod> = self.cluster.api(&self.namespace);
        let of_role = ListParams::default().labels(&format!("spark-role={role}"));
        let list = || self.cluster.block_on(api.list(&of_role)).ok();
        wait_for("a list of pods", list).items
    }

    /// Names of executors' pods whose container runs and that are not ending.
    pub(crate) fn running(&self) -> Vec<String> {
        let runs = |pod: &Pod| {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            phase == Some("Running") && pod.metadata.deletion_timestamp.is_none()
        };
        self.pods("executor").iter().filter(|pod| runs(pod)).map(name).collect()
    }

    /// Names of executors' pods that may yet run, or do: those that are over may be kept for people.
    pub(crate) fn unfinished(&self) -> Vec<String> {
        let is_over = |pod: &Pod| {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            matches!(phase, Some("Failed" | "Succeeded"))
        };
        self.pods("executor").iter().filter(|pod| !is_over(pod)).map(name).collect()
    }

    /// Names of executors' pods that somebody told to end.
    pub(crate) fn ending(&self) -> Vec<String> {
        let ends = |pod: &&Pod| pod.metadata.deletion_timestamp.is_some();
        self.pods("executor").iter().filter(ends).map(name).collect()
    }

    /// Whether the pod of an executor that is over is there for people to look at.
    pub(crate) fn is_kept(&self, executor: u32) -> bool {
        let is_its = |pod: &Pod| name(pod).ends_with(&format!("-exec-{executor}"));
        let kept = self.pods("executor").into_iter().find(is_its);
        let labels = kept.and_then(|pod| pod.metadata.labels).unwrap_or_default();
        labels.get("spark-exec-inactive").is_some_and(|inactive| inactive == "true")
    }

    pub(crate) fn delete(&self, pod: &str) {
        let api: Api<Pod> = self.cluster.api(&self.namespace);
        self.cluster.block_on(api.delete(pod, &DeleteParams::default())).unwrap();
    }

    /// The process of a pod's executor.
    pub(crate) fn signal(&self, pod: &str, signal: Signal) {
        let pid = wait_for("the executor's process", || {
            process(&format!("SPARK_EXECUTOR_POD_NAME={pod}"))
        });
        kill_process(pid, signal).unwrap();
    }
}

pub(crate) fn name(pod: &Pod) -> String {
    pod.metadata.name.clone().unwrap()
}

/// The process that has this variable.
pub(crate) fn process(variable: &str) -> Option<Pid> {
    let has = |path: &Path| {
        let environment = std::fs::read(path.join("environ")).unwrap_or_default();
        let executable = std::fs::read_link(path.join("exe")).unwrap_or_default();
        executable.ends_with("application")
            && environment.split(|byte| *byte == 0).any(|one| one == variable.as_bytes())
    };
    let processes =
        std::fs::read_dir("/proc").unwrap().filter_map(Result::ok).map(|entry| entry.path());
    let found = processes
        .filter(|path| has(path))
        .find_map(|path| path.file_name()?.to_str()?.parse().ok());
    found.and_then(Pid::from_raw)
}
