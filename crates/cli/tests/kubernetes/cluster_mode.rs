//! Drivers that the cluster runs: `firesteel submit --deploy-mode cluster`.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Instant;

use k8s_openapi::api::core::v1::{
    ConfigMap, Event, Node, PersistentVolume, PersistentVolumeClaim, Pod, Service,
};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch};
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use crate::application::{bounded, print_times};
use crate::cluster::{
    COMMAND_IMAGE, Cordoned, HOST, IMAGE, Turn, URL, name, process, turn, wait_for, wait_until,
};
use crate::deployed::install;

/// The account of drivers with the least rights: that of deploy/helm.
fn account(turn: &Turn) {
    install(turn, &[]);
}

/// The command with nothing of the surroundings' settings.
fn plain(master: &str, kubeconfig: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_firesteel"));
    command.args(["submit", "--master", master]).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.contains("SPARK") || name.starts_with("FIRESTEEL") {
            command.env_remove(name.as_ref());
        }
    }
    command.env("KUBECONFIG", kubeconfig);
    command
}

fn command(turn: &Turn, arguments: &[&str]) -> Command {
    let mut command = plain(&format!("k8s://{URL}"), &turn.cluster.file("kubeconfig"));
    command.args(["--conf", &format!("spark.kubernetes.namespace={}", turn.namespace)]);
    command.args(arguments);
    command
}

/// A driver with two executors; further settings.
fn submit(turn: &Turn, settings: &[&str]) -> Command {
    submit_program(turn, settings, "local:///opt/app/application")
}

fn submit_program(turn: &Turn, settings: &[&str], program: &str) -> Command {
    let all = [
        format!("spark.kubernetes.container.image={IMAGE}"),
        "spark.kubernetes.container.image.pullPolicy=Never".to_owned(),
        "spark.kubernetes.authenticate.driver.serviceAccountName=spark".to_owned(),
        "spark.kubernetes.driver.request.cores=100m".to_owned(),
        "spark.kubernetes.executor.request.cores=100m".to_owned(),
        "spark.executor.memory=128m".to_owned(),
        "spark.driver.memory=128m".to_owned(),
        "spark.ui.showConsoleProgress=false".to_owned(),
        "spark.executor.instances=2".to_owned(),
    ];
    let mut command = command(turn, &["--deploy-mode", "cluster", "--name", "Sum"]);
    for setting in all.iter().map(String::as_str).chain(settings.iter().copied()) {
        command.args(["--conf", setting]);
    }
    command.args([program, "the_application_of_these_tests", "--ignored", "--nocapture"]);
    command
}

fn output(mut command: Command) -> (String, String, Option<i32>) {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    end_of(child)
}

/// What it printed, once it is over.
fn end_of(child: Child) -> (String, String, Option<i32>) {
    let output = bounded("a command", move || child.wait_with_output());
    let Output { stdout, stderr, status } = output.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(stdout), text(stderr), status.code())
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn a_driver_in_a_pod_runs_on_its_executors_and_its_exit_code_is_the_submitters() {
    let turn = turn("submit");
    account(&turn);
    let since = Instant::now();
    let (told, errors, code) = output(submit(&turn, &[]));
    println!("submit to exit code: {} ms\n{told}{errors}", since.elapsed().as_millis());
    assert_eq!(code, Some(0), "{told}{errors}");
    assert!(
        told.contains("submitted as spark-") && told.contains("Succeeded, exit code 0"),
        "{told}"
    );
    let pods: Api<Pod> = turn.cluster.api(&turn.namespace);
    let driver = name(&turn.pods("driver")[0]);
    let log = turn.cluster.block_on(pods.logs(&driver, &Default::default())).unwrap();
    assert!(log.contains("the sum is"), "{log}");
    wait_until("the end of executors", || turn.running().is_empty());
    let (told, _, code) = output(submit(&turn, &["spark.kubernetes.driverEnv.TEST_EXIT_CODE=3"]));
    assert!(code == Some(3) && told.contains("Failed, exit code 3"), "{code:?}: {told}");
    let (told, _, code) =
        output(command(&turn, &["--status", &format!("{}:sum-*", turn.namespace)]));
    assert!(code == Some(3) && told.lines().count() == 2, "{code:?}: {told}");
    let (_, refused, code) = output(command(&turn, &["--status", "none-*"]));
    assert!(code == Some(1) && refused.contains("there is no driver none-*"), "{refused}");
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn a_driver_whose_image_cannot_be_had_is_removed_and_told_with_the_kubelets_words() {
    let turn = turn("unstarted");
    account(&turn);
    let settings = [
        "spark.kubernetes.container.image=localhost:1/none:1",
        "spark.kubernetes.container.image.pullPolicy=IfNotPresent",
        "spark.firesteel.kubernetes.imageTimeout=4s",
    ];
    let since = Instant::now();
    let (told, errors, code) = output(submit(&turn, &settings));
    println!("driver without an image: failed after {} ms ({errors})", since.elapsed().as_millis());
    assert!(code == Some(1) && errors.contains("localhost:1/none:1"), "{code:?} {told}{errors}");
    assert!(errors.contains("did not start within 4 s"), "{errors}");
    wait_until("the end of the driver's pod", || turn.pods("driver").is_empty());
}

/// Whether not all executors are there any more, or some are about to end.
fn executors_end(turn: &Turn, all: usize) -> bool {
    turn.running().len() < all || !turn.ending().is_empty()
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn s36_a_driver_that_is_killed_leaves_nothing() {
    let turn = turn("s36");
    account(&turn);
    let settings = [
        "spark.kubernetes.driverEnv.TEST_STAYS=1",
        "spark.kubernetes.submission.waitAppCompletion=false",
    ];
    let (told, errors, code) = output(submit(&turn, &settings));
    assert_eq!(code, Some(0), "{told}{errors}");
    wait_until("two executors", || turn.running().len() == 2);
    let since = Instant::now();
    let (told, _, code) = output(command(&turn, &["--kill", "sum-*"]));
    assert!(code == Some(0) && told.contains("is told to end"), "{told}");
    wait_until("executors are told to end", || executors_end(&turn, 2));
    let noticed = since.elapsed();
    wait_until("the end of all pods", || {
        turn.pods("executor").is_empty() && turn.pods("driver").is_empty()
    });
    print_times("36, driver killed", noticed, since.elapsed());
    let maps: Api<ConfigMap> = turn.cluster.api(&turn.namespace);
    let services: Api<Service> = turn.cluster.api(&turn.namespace);
    let own = ListParams::default().labels("spark-app-selector");
    wait_until("the end of settings and service", || {
        turn.cluster.block_on(maps.list(&own)).unwrap().items.is_empty()
            && turn.cluster.block_on(services.list(&own)).unwrap().items.is_empty()
    });
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn s31_a_driver_that_is_evicted_ends_its_submitter_which_says_so() {
    let turn = turn("s31");
    account(&turn);
    let mut command = submit(&turn, &["spark.kubernetes.driverEnv.TEST_STAYS=1"]);
    let submitted = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("two executors", || turn.running().len() == 2);
    let pods: Api<Pod> = turn.cluster.api(&turn.namespace);
    let driver = name(&turn.pods("driver")[0]);
    let since = Instant::now();
    turn.cluster.block_on(pods.evict(&driver, &Default::default())).unwrap();
    let (told, errors, code) = end_of(submitted);
    let noticed = since.elapsed();
    println!("scenario 31: exit code {code:?}\n{told}{errors}");
    let ends = told.contains("was deleted before it ended") || told.contains("Failed");
    assert!(ends && told.contains("ending") && told.contains("EvictionByEvictionAPI"), "{told}");
    assert!(code.is_some_and(|code| code != 0), "{code:?}: {told}");
    // One that exits with 0 because it is told to has not succeeded.
    let last = told.lines().last().and_then(|last| last.split_once("exit code "));
    let last = last.map(|(_, rest)| rest.split(' ').next().unwrap_or_default().to_owned());
    let same = last.is_none_or(|last| last == "0" || last == code.unwrap().to_string());
    assert!(same, "{code:?}: {told}");
    wait_until("the end of executors", || turn.pods("executor").is_empty());
    print_times("31, driver evicted", noticed, since.elapsed());
}

/// A web server that has one file, for as long as the tests run. Its URL, and how often it was asked.
fn web_server(file: &str) -> (String, Arc<AtomicU32>) {
    let listener = TcpListener::bind((HOST, 0)).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (asked, path) = (Arc::new(AtomicU32::new(0)), file.to_owned());
    let count = asked.clone();
    let answer = move |mut stream: TcpStream| -> std::io::Result<()> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            head.extend(byte);
        }
        count.fetch_add(1, Relaxed);
        let mut file = std::fs::File::open(&path)?;
        let length = file.metadata()?.len();
        let head =
            format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes())?;
        std::io::copy(&mut file, &mut stream).map(drop)
    };
    std::thread::spawn(move || {
        listener.incoming().filter_map(Result::ok).for_each(|stream| drop(answer(stream)));
    });
    (url, asked)
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn an_executable_behind_a_url_is_fetched_by_driver_and_executors() {
    let turn = turn("web");
    account(&turn);
    turn.cluster.load_command();
    let (url, asked) = web_server(&turn.cluster.file("images/application"));
    let image = format!("spark.kubernetes.container.image={COMMAND_IMAGE}");
    let since = Instant::now();
    let (told, errors, code) =
        output(submit_program(&turn, &[&image], &format!("{url}/application")));
    println!("URL to exit code: {} ms\n{told}{errors}", since.elapsed().as_millis());
    assert_eq!(code, Some(0), "{told}{errors}");
    // Executors that came too late for the sum may not have got as far.
    assert!(asked.load(Relaxed) >= 2, "driver and executors fetched it");
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn an_executable_that_is_uploaded_is_fetched_by_driver_and_executors() {
    let turn = turn("upload");
    account(&turn);
    turn.cluster.load_command();
    // A directory that nodes and submitter share.
    let uploads = turn.cluster.directory.join("uploads");
    std::fs::create_dir_all(&uploads).unwrap();
    let shared = uploads.display().to_string();
    let mut settings = vec![
        format!("spark.kubernetes.container.image={COMMAND_IMAGE}"),
        format!("spark.kubernetes.file.upload.path=file://{shared}"),
    ];
    for role in ["driver", "executor"] {
        let volume = format!("spark.kubernetes.{role}.volumes.hostPath.uploads");
        settings.push(format!("{volume}.mount.path={shared}"));
        settings.push(format!("{volume}.options.path={shared}"));
    }
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let since = Instant::now();
    let application = turn.cluster.file("images/application");
    let (told, errors, code) = output(submit_program(&turn, &settings, &application));
    println!("upload to exit code: {} ms\n{told}{errors}", since.elapsed().as_millis());
    assert!(code == Some(0) && told.contains("uploaded to"), "{told}{errors}");
    assert_eq!(std::fs::read_dir(&uploads).unwrap().count(), 0, "nothing is left of it");
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn s29_executors_of_a_driver_that_is_gone_are_collected() {
    let turn = turn("s29");
    account(&turn);
    let settings = [
        "spark.kubernetes.driverEnv.TEST_STAYS=1",
        "spark.kubernetes.submission.waitAppCompletion=false",
    ];
    assert_eq!(output(submit(&turn, &settings)).2, Some(0));
    wait_until("two executors", || turn.running().len() == 2);
    let since = Instant::now();
    let driver = name(&turn.pods("driver")[0]);
    let pods: Api<Pod> = turn.cluster.api(&turn.namespace);
    let at_once = kube::api::DeleteParams::default().grace_period(0);
    turn.cluster.block_on(pods.delete(&driver, &at_once)).unwrap();
    wait_until("executors are told to end", || executors_end(&turn, 2));
    let noticed = since.elapsed();
    wait_until("the end of executors", || turn.pods("executor").is_empty());
    print_times("29, driver's pod deleted by force", noticed, since.elapsed());
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn s30_a_driver_that_is_started_again_replaces_the_executors_of_the_process_before() {
    let turn = turn("s30");
    account(&turn);
    let template = turn.cluster.directory.join("restarts.yaml");
    std::fs::write(&template, "spec:\n  restartPolicy: OnFailure\n  containers: []\n").unwrap();
    let template = format!("spark.kubernetes.driver.podTemplateFile={}", template.display());
    let settings = [
        template.as_str(),
        "spark.kubernetes.driverEnv.TEST_STAYS=1",
        "spark.kubernetes.submission.waitAppCompletion=false",
    ];
    let (told, errors, code) = output(submit(&turn, &settings));
    assert_eq!(code, Some(0), "{told}{errors}");
    wait_until("two executors", || turn.running().len() == 2);
    let since = Instant::now();
    let driver = wait_for("the driver's process", || process("TEST_STAYS=1"));
    kill_process(driver, Signal::KILL).unwrap();
    wait_until("the end of executors of the process before", || executors_end(&turn, 2));
    let noticed = since.elapsed();
    let numbers = || {
        turn.running()
            .iter()
            .map(|pod| pod.rsplit('-').next().unwrap().parse::<u32>().unwrap())
            .collect::<Vec<_>>()
    };
    wait_until("two executors of the second process", || {
        numbers().len() == 2 && numbers().iter().all(|number| *number > 100_000)
    });
    print_times("30, driver started again", noticed, since.elapsed());
    assert_eq!(
        turn.pods("executor")
            .iter()
            .filter(|pod| pod.metadata.deletion_timestamp.is_none())
            .count(),
        2
    );
}

/// A volume of a node, for claims of this class.
fn volume(turn: &Turn, node: &str) {
    let path = turn.cluster.file(&format!("{}-{node}", turn.namespace));
    let this = json!([{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]);
    let affinity = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": this}]}});
    let spec = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
        "storageClassName": turn.namespace, "persistentVolumeReclaimPolicy": "Retain",
        "hostPath": {"path": path, "type": "DirectoryOrCreate"}, "nodeAffinity": affinity});
    let volumes: Api<PersistentVolume> = turn.cluster.all();
    let name = format!("{}-{node}", turn.namespace);
    turn.cluster.create(&volumes, &json!({"metadata": {"name": name}, "spec": spec}));
}

/// Volumes of nodes, which go with this.
struct Volumes<'a>(&'a Turn);

impl Drop for Volumes<'_> {
    fn drop(&mut self) {
        let Volumes(turn) = self;
        let volumes: Api<PersistentVolume> = turn.cluster.all();
        for node in ["n1", "n2"] {
            let name = format!("{}-{node}", turn.namespace);
            let _ = turn.cluster.block_on(volumes.delete(&name, &DeleteParams::default()));
        }
        let classes: Api<StorageClass> = turn.cluster.all();
        let _ = turn.cluster.block_on(classes.delete(&turn.namespace, &DeleteParams::default()));
    }
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn s28_a_volume_whose_node_is_gone_is_waited_for_and_then_replaced() {
    let turn = turn("s28");
    account(&turn);
    let classes: Api<StorageClass> = turn.cluster.all();
    let class = json!({"metadata": {"name": "s28"}, "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer"});
    turn.cluster.create(&classes, &class);
    let volumes = Volumes(&turn);
    volume(&turn, "n2");
    let claim = "spark.kubernetes.executor.volumes.persistentVolumeClaim.spark-local-dir-1";
    let settings = [
        format!("{claim}.options.claimName=OnDemand"),
        format!("{claim}.options.storageClass=s28"),
        format!("{claim}.options.sizeLimit=1Gi"),
        format!("{claim}.mount.path=/data"),
        "spark.kubernetes.legacy.useReadWriteOnceAccessMode=true".to_owned(),
        "spark.kubernetes.driver.waitToReusePersistentVolumeClaim=true".to_owned(),
        "spark.firesteel.kubernetes.claimTimeout=5s".to_owned(),
        "spark.executor.instances=1".to_owned(),
        "spark.kubernetes.driverEnv.TEST_STAYS=1".to_owned(),
        "spark.kubernetes.submission.waitAppCompletion=false".to_owned(),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    assert_eq!(output(submit(&turn, &settings)).2, Some(0));
    let first = wait_for("an executor", || turn.running().pop());
    let claims = || {
        let api: Api<PersistentVolumeClaim> = turn.cluster.api(&turn.namespace);
        let list = turn.cluster.block_on(api.list(&ListParams::default())).unwrap().items;
        list.into_iter().filter_map(|claim| claim.metadata.name).collect::<Vec<_>>()
    };
    assert_eq!(claims(), [format!("{first}-pvc-0")]);
    volume(&turn, "n1");
    let cordoned = Cordoned::new(&turn, "n2");
    let since = Instant::now();
    turn.delete(&first);
    // The next one has the claim of the first, which belongs to a node that takes no pods.
    let second = wait_for("the pod that cannot be placed", || {
        turn.pods("executor").iter().map(name).find(|pod| *pod != first)
    });
    let noticed = since.elapsed();
    let third = wait_for("an executor", || turn.running().into_iter().find(|pod| *pod != first));
    print_times("28, volume does not come", noticed, since.elapsed());
    assert_ne!(second, third);
    wait_until("the end of the first claim", || claims() == [format!("{third}-pvc-0")]);
    drop((cordoned, volumes));
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn s16_the_drivers_pod_says_in_the_schedulers_words_why_executors_are_missing() {
    let turn = turn("s16");
    account(&turn);
    let settings = [
        "spark.kubernetes.executor.node.selector.scenario=s16",
        "spark.kubernetes.driverEnv.TEST_STAYS=1",
        "spark.kubernetes.submission.waitAppCompletion=false",
    ];
    assert_eq!(output(submit(&turn, &settings)).2, Some(0));
    wait_until("two pods without a node", || turn.pods("executor").len() == 2);
    let since = Instant::now();
    let condition = |pod: &Pod| {
        let conditions = pod.status.as_ref()?.conditions.as_ref()?;
        conditions.iter().find(|one| one.type_ == "firesteel.io/ExecutorsReady")?.message.clone()
    };
    let words = wait_for("the condition", || turn.pods("driver").first().and_then(condition));
    let noticed = since.elapsed();
    println!("scenario 16, unschedulable: {words}");
    let tells = |words: &str| {
        words.contains("2 of 2 executors are missing") && words.contains("node affinity/selector")
    };
    assert!(tells(&words), "{words}");
    let events: Api<Event> = turn.cluster.api(&turn.namespace);
    let missing = ListParams::default().fields("reason=ExecutorsMissing");
    wait_until("an event that says the same", || {
        let found = turn.cluster.block_on(events.list(&missing)).unwrap().items;
        found.iter().any(|event| event.message.as_deref().is_some_and(tells))
    });
    let nodes: Api<Node> = turn.cluster.all();
    let label = |value: Value| {
        let change = json!({"metadata": {"labels": {"scenario": value}}});
        turn.cluster.block_on(nodes.patch("n1", &Default::default(), &Patch::Merge(change)))
    };
    let since = Instant::now();
    label("s16".into()).unwrap();
    wait_until("two executors", || turn.running().len() == 2);
    print_times("16, unschedulable", noticed, since.elapsed());
    let is_well = |pod: &Pod| {
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref());
        let mut own = conditions.unwrap_or_default().iter();
        own.any(|one| one.type_ == "firesteel.io/ExecutorsReady" && one.status == "True")
    };
    wait_until("the condition says so", || turn.pods("driver").iter().any(is_well));
    label(Value::Null).unwrap();
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn what_cannot_be_submitted_is_refused_and_nothing_is_left() {
    let turn = turn("refused");
    let config = |file: &str| turn.cluster.file(file);
    for (settings, words) in [
        (vec!["spark.kubernetes.namespace=nowhere"], "nowhere"),
        (vec!["spark.kubernetes.context=nosuch"], "nosuch"),
        (vec!["spark.kubernetes.driver.pod.name=Not_A_Name"], "is not a name of Kubernetes"),
        (vec!["spark.kubernetes.driver.label.spark-role=executor"], "label.spark-role"),
        (vec!["spark.kubernetes.driver.limit.cores=lots"], "limit.cores"),
        (vec!["spark.kubernetes.executor.podTemplateFile=/nowhere.yaml"], "/nowhere.yaml"),
        // What only the API server knows of executors' pods.
        (
            vec!["spark.kubernetes.executor.limit.cores=50m"],
            "spec.containers[0].resources.requests",
        ),
        (vec!["spark.kubernetes.executor.annotation.no/such/name=x"], "metadata.annotations"),
        (
            vec![
                "spark.kubernetes.executor.volumes.emptyDir.a.mount.path=/twice",
                "spark.kubernetes.executor.volumes.emptyDir.b.mount.path=/twice",
            ],
            "must be unique",
        ),
        (
            vec!["spark.kubernetes.authenticate.executor.serviceAccountName=nosuch"],
            "serviceaccount \"nosuch\" not found",
        ),
    ] {
        let (told, refused, code) = output(submit(&turn, &settings));
        assert_eq!(code, Some(1), "{told}{refused}");
        assert!(refused.contains(words), "{words} is not in {refused}");
    }
    let mut by_nobody = submit(&turn, &[]);
    by_nobody.env("KUBECONFIG", config("kubeconfig-nobody"));
    let (_, refused, code) = output(by_nobody);
    assert!(code == Some(1) && refused.contains("cannot create resource \"pods\""), "{refused}");
    assert!(turn.pods("driver").is_empty(), "nothing was created");
    assert!(turn.pods("executor").is_empty(), "nor was what was only tried");
}

#[test]
fn what_no_cluster_is_needed_for_is_refused_before_one_is_asked() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let context = "{name: here, context: {cluster: here, user: me}}";
    let cluster = "{name: here, cluster: {server: 'https://127.0.0.1:1'}}";
    let good = file(
        "good",
        &format!("clusters: [{cluster}]\ncontexts: [{context}]\ncurrent-context: here\n"),
    );
    let bad = file("bad", "clusters: 7\n");
    let image = ["--conf", "spark.kubernetes.container.image=pi:1"];
    let refused = |kubeconfig: &str, flags: &[&str], program: &str| {
        let mut command = plain("k8s://https://127.0.0.1:1", kubeconfig);
        command.args(["--deploy-mode", "cluster"]).args(flags).arg(program);
        let (told, refused, code) = output(command);
        assert!(code == Some(1) && told.is_empty(), "{told}{refused}");
        refused
    };
    let there = "local:///opt/app/pi";
    for (text, words) in [
        (refused(&good, &[], there), "set spark.kubernetes.container.image"),
        (
            refused(&good, &image, there),
            "https://127.0.0.1:1 does not say whether it would create pods",
        ),
        (refused(&bad, &image, there), "the kubeconfig file cannot be used"),
        (refused("/nowhere", &image, there), "/nowhere"),
        (refused(&good, &image, "/bin/sh"), "firesteel image --app /bin/sh"),
        (
            refused(&good, &[image[0], image[1], "--supervise"], there),
            "--supervise is for standalone",
        ),
        (refused(&good, &["--conf", "spark.kubernetes.context=other"], there), "other"),
    ] {
        assert!(text.contains(words), "{words} is not in {text}");
    }
}
