//! What the platform does to executors and drivers, and what it takes back. Tests begin with the number of their scenario.
//!
//! Scenarios that need what two kubelets on one machine cannot show are in the simulator (`crates/sim/src/pods`) and in the tables of the
//! allocator (`crates/kubernetes-core/src/allocator/tests`): 32 (fewer executors while others register, which drivers do not ask for
//! by themselves yet).

use std::time::{Duration, Instant};

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::Api;
use kube::api::{DeleteParams, EvictParams};
use serde_json::json;

use crate::application::{
    SILENCE, SUM, Seen, Tasks, anonymous, bounded, builder, print_times, start, sum,
};
use crate::client_mode::{Cut, number, recovered};
use crate::cluster::{Cordoned, IMAGE, Turn, name, turn, wait_for, wait_until};
use crate::refusals::{failure, impossible};

fn pods(turn: &Turn) -> Api<Pod> {
    turn.cluster.api(&turn.namespace)
}

fn node_of(pod: &Pod) -> String {
    pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default()
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn s03_an_executor_that_exits_with_code_0_is_replaced_and_its_task_runs_again() {
    let turn = turn("s03");
    let (ctx, seen) = start(builder(&turn), 2);
    let before = seen.active();
    let tasks = Tasks::listen();
    let exits = ctx.parallelize_in(1, [7u64]).with(tasks.address()).map(|address, x| {
        if firesteel::TaskContext::current().is_some_and(|context| context.attempt() == 0) {
            let _alive = std::net::TcpStream::connect(address.as_str());
            std::process::exit(0);
        }
        x
    });
    let job = std::thread::spawn(move || exits.sum());
    let since = tasks.next_ends();
    let victim =
        wait_for("a removal", || before.iter().copied().find(|one| seen.removal(*one).is_some()));
    let (reason, took) = recovered("3, exit code 0", &seen, victim, since);
    assert!(reason.contains("exit code 0") && took < seen.bar(), "{reason}, {took:?}");
    assert_eq!(bounded("the job", move || job.join().unwrap()).unwrap(), 7);
    ctx.stop();
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn s03_an_executor_that_exits_with_code_0_while_it_has_no_task_costs_none_of_them_an_attempt() {
    let turn = turn("s03-idle");
    let (ctx, seen) = start(builder(&turn).config("spark.task.maxFailures", 1), 2);
    let before = seen.active();
    let tasks = Tasks::listen();
    let leaves = ctx.parallelize_in(1, [7u64]).with(tasks.address()).map(|address, x| {
        let alive = std::net::TcpStream::connect(address.as_str());
        std::thread::spawn(|| {
            let _alive = alive;
            std::thread::sleep(Duration::from_secs(1));
            std::process::exit(0);
        });
        x
    });
    assert_eq!(leaves.sum().unwrap(), 7);
    let since = tasks.next_ends();
    let victim =
        wait_for("a removal", || before.iter().copied().find(|one| seen.removal(*one).is_some()));
    let (reason, took) = recovered("3, exit code 0 without a task", &seen, victim, since);
    assert!(reason.contains("exit code 0") && took < seen.bar(), "{reason}, {took:?}");
    assert_eq!(sum(&ctx), SUM, "the first failure of a task would end the job");
    ctx.stop();
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn s05_an_executor_that_exceeds_a_limit_of_its_own_is_replaced_and_its_pod_is_kept() {
    let turn = turn("s05");
    let volume = "spark.kubernetes.executor.volumes.emptyDir.small";
    let settings = builder(&turn)
        .config(&format!("{volume}.mount.path"), "/small")
        .config(&format!("{volume}.options.sizeLimit"), "1Mi");
    let (ctx, seen) = start(settings, 2);
    let before = seen.active();
    let tasks = Tasks::listen();
    let writes = ctx.parallelize_in(1, [0u64]).with(tasks.address()).map(|address, x| {
        // It is broken when the process ends.
        std::mem::forget(std::net::TcpStream::connect(address.as_str()));
        std::fs::write("/small/file", vec![7; 8 << 20]).unwrap();
        x
    });
    assert_eq!(writes.sum().unwrap(), 0);
    // Kubelets look at what is written now and then: the bar counts from the eviction on.
    let since = tasks.next_ends();
    let victim =
        wait_for("a removal", || before.iter().copied().find(|one| seen.removal(*one).is_some()));
    let (reason, took) = recovered("5, evicted for its own limit", &seen, victim, since);
    assert!(took < seen.bar(), "{took:?}");
    assert!(reason.contains("a limit of its own") && reason.contains("EmptyDir"), "{reason}");
    wait_until("the label of the pod that is kept", || turn.is_kept(victim));
    ctx.stop();
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn s06_an_executor_that_is_drained_from_its_node_is_replaced_and_nobody_is_blamed() {
    let turn = turn("s06");
    let settings = builder(&turn).config("spark.executor.maxNumFailures", 0);
    let (ctx, seen) = start(settings, 2);
    let victim = wait_for("a running pod", || turn.running().pop());
    let since = Instant::now();
    turn.cluster.block_on(pods(&turn).evict(&victim, &EvictParams::default())).unwrap();
    let (reason, took) = recovered("6, drained", &seen, number(&victim), since);
    assert!(reason.contains("EvictionByEvictionAPI") && took < seen.bar(), "{reason}, {took:?}");
    assert_eq!(sum(&ctx), SUM, "and no failure was counted");
    ctx.stop();
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn s07_a_preempted_executor_is_replaced_and_nobody_is_blamed() {
    let turn = turn("s07");
    let classes: Api<PriorityClass> = turn.cluster.all();
    turn.cluster.create(&classes, &json!({"metadata": {"name": "s07"}, "value": 1000}));
    let settings = builder(&turn)
        .config("spark.kubernetes.executor.request.cores", "300m")
        .config("spark.executor.maxNumFailures", 0);
    let (ctx, seen) = start(settings, 2);
    let victim = wait_for("a running pod", || turn.pods("executor").pop());
    let node = node_of(&victim);
    let nodes: Api<Node> = turn.cluster.all();
    let found = turn.cluster.block_on(nodes.get(&node)).unwrap();
    let cpu = found.status.unwrap().allocatable.unwrap()["cpu"].0.clone();
    let since = Instant::now();
    let container = json!({"name": "c", "image": "localhost/pause:1", "imagePullPolicy": "Never",
        "resources": {"requests": {"cpu": cpu}}});
    let spec = json!({"priorityClassName": "s07", "containers": [container],
        "nodeSelector": {"kubernetes.io/hostname": node}, "terminationGracePeriodSeconds": 0});
    turn.cluster.create(&pods(&turn), &json!({"metadata": {"name": "preemptor"}, "spec": spec}));
    let (reason, took) = recovered("7, preempted", &seen, number(&name(&victim)), since);
    assert!(
        reason.contains("PreemptionByScheduler") && took < 2 * seen.bar(),
        "{reason}, {took:?}"
    );
    assert_eq!(sum(&ctx), SUM);
    ctx.stop();
    let _ = turn.cluster.block_on(classes.delete("s07", &DeleteParams::default()));
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn s09_executors_of_a_node_without_a_kubelet_are_replaced_and_what_comes_back_is_over() {
    let turn = turn("s09");
    let (ctx, seen) = start(builder(&turn).config("spark.executor.instances", 4), 4);
    let there = turn.pods("executor").into_iter().filter(|pod| node_of(pod) == "n2");
    let lost: Vec<u32> = there.map(|pod| number(&name(&pod))).collect();
    assert!(!lost.is_empty(), "the scheduler spreads pods");
    let since = Instant::now();
    let held = turn.cluster.hold("kubelet-n2");
    turn.cluster.kill_server("kubelet-n2");
    let before = seen.active();
    wait_until("pods in their place", || {
        turn.pods("executor").iter().any(|pod| !before.contains(&number(&name(pod))))
    });
    let noticed = since.elapsed();
    // Their processes run on: they end what they do, and get no more.
    wait_until("other executors", || {
        let active = seen.active();
        active.iter().filter(|one| !lost.contains(one)).count() == 4
    });
    print_times("9, node without a kubelet", noticed, since.elapsed());
    drop(held);
    wait_until("the end of old pods", || {
        turn.running().iter().all(|pod| !lost.contains(&number(pod)))
    });
    wait_until("the end of old executors", || seen.active().iter().all(|one| !lost.contains(one)));
    assert_eq!((seen.active().len(), sum(&ctx)), (4, SUM));
    ctx.stop();
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn s10_an_executor_behind_a_partition_is_over_for_good_when_the_network_is_back() {
    let turn = turn("s10");
    let (ctx, seen) = start(builder(&turn), 2);
    let there = turn.pods("executor").pop().expect("two executors have registered");
    let victim = number(&name(&there));
    let since = Instant::now();
    let cut = Cut::new(&turn, &node_of(&there));
    let (_, noticed) = wait_for("its removal", || seen.removal(victim));
    seen.wait_for(2);
    let recovered = since.elapsed();
    print_times("10, partition", noticed.duration_since(since), recovered);
    drop(cut);
    wait_until("the end of its pod", || turn.running().iter().all(|pod| number(pod) != victim));
    assert!(recovered < SILENCE + seen.bar(), "{recovered:?}");
    assert!(!seen.active().contains(&victim), "there is one winner");
    assert_eq!(sum(&ctx), SUM);
    ctx.stop();
}

/// A template whose container ends as soon as it starts, with words in its log: the loader without a program.
fn false_start(turn: &Turn) -> String {
    let path = turn.cluster.directory.join("false-start.yaml");
    let text = "spec:\n  containers:\n  - name: spark-kubernetes-executor\n    command: [/lib64/ld-linux-x86-64.so.2]\n";
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn s13_s34_executors_that_crash_before_they_register_end_the_application_with_their_last_words() {
    let turn = turn("s13");
    let template = false_start(&turn);
    let settings = [
        ("spark.kubernetes.executor.podTemplateFile", template.as_str()),
        ("spark.executor.maxNumFailures", "2"),
    ];
    let failed = failure("13 and 34, crash loop", &turn, impossible(&turn, &settings));
    assert!(failed.contains("maxNumFailures") && failed.contains("it said last:"), "{failed}");
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn s17_pods_that_wait_for_a_node_for_long_become_executors_and_no_others_are_asked_for() {
    let turn = turn("s17");
    let cordoned = ["n1", "n2"].map(|node| Cordoned::new(&turn, node));
    let seen = Seen::default();
    let begun = Instant::now();
    let ctx = builder(&turn).listener(seen.clone()).build().unwrap();
    wait_until("two pods without a node", || turn.pods("executor").len() == 2);
    let noticed = seen.told("unschedulable").duration_since(begun);
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(5) {
        assert_eq!((turn.pods("executor").len(), seen.active().len()), (2, 0));
        std::thread::sleep(Duration::from_millis(200));
    }
    let since = Instant::now();
    drop(cordoned);
    seen.wait_for(2);
    print_times("17, pending for long", noticed, since.elapsed());
    assert_eq!(seen.active(), [1, 2], "the ones that were asked for");
    assert_eq!(turn.pods("executor").len(), 2);
    ctx.stop();
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn s20_a_token_that_is_refused_is_read_again_from_its_file() {
    let turn = turn("s20");
    let file = turn.cluster.directory.join("token-s20");
    std::fs::write(&file, "expired").unwrap();
    let settings =
        anonymous(&turn).config("spark.kubernetes.authenticate.oauthTokenFile", file.display());
    let seen = Seen::default();
    let ctx = settings.listener(seen.clone()).build().unwrap();
    let begun = Instant::now();
    let noticed = seen.told("credentials").duration_since(begun);
    assert!(seen.active().is_empty());
    std::fs::write(&file, "admin-token").unwrap();
    let since = Instant::now();
    seen.wait_for(2);
    print_times("20, expired token", noticed, since.elapsed());
    assert_eq!(sum(&ctx), SUM);
    ctx.stop();
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn s27_pods_that_a_policy_refuses_are_asked_for_again_until_it_is_gone() {
    let turn = turn("s27");
    let policies: Api<ValidatingAdmissionPolicy> = turn.cluster.all();
    let bindings: Api<ValidatingAdmissionPolicyBinding> = turn.cluster.all();
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]});
    let refuses =
        json!({"expression": "object.metadata.namespace != 's27'", "message": "no pods here"});
    let spec = json!({"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [rule]}, "validations": [refuses]});
    turn.cluster.create(&policies, &json!({"metadata": {"name": "s27"}, "spec": spec}));
    let binding = json!({"policyName": "s27", "validationActions": ["Deny"]});
    turn.cluster.create(&bindings, &json!({"metadata": {"name": "s27"}, "spec": binding}));
    let probe = json!({"metadata": {"name": "probe"}, "spec": {"containers": [{"name": "c", "image": "x"}]}});
    let probe: Pod = serde_json::from_value(probe).unwrap();
    wait_until("the policy", || {
        let dry = kube::api::PostParams { dry_run: true, ..Default::default() };
        turn.cluster.block_on(pods(&turn).create(&dry, &probe)).is_err()
    });
    let seen = Seen::default();
    let begun = Instant::now();
    let ctx = builder(&turn).listener(seen.clone()).build().unwrap();
    let noticed = seen.told("no pods here").duration_since(begun);
    assert!(seen.active().is_empty() && turn.pods("executor").is_empty());
    let since = Instant::now();
    turn.cluster.block_on(bindings.delete("s27", &DeleteParams::default())).unwrap();
    turn.cluster.block_on(policies.delete("s27", &DeleteParams::default())).unwrap();
    seen.wait_for(2);
    print_times("27, policy", noticed, since.elapsed());
    ctx.stop();
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn s33_a_task_that_outlives_the_grace_period_of_its_pod_runs_again_elsewhere() {
    let turn = turn("s33");
    let settings = builder(&turn)
        .config("spark.kubernetes.executor.terminationGracePeriodSeconds", "1s")
        .config("spark.task.maxFailures", 1);
    let (ctx, seen) = start(settings, 2);
    let victim = wait_for("a running pod", || turn.running().pop());
    // Each task connects before it is slow.
    let tasks = Tasks::listen();
    let rows = ctx.parallelize_in(2, 0..10u64);
    let slow = rows.with(tasks.address()).map_partitions(|address, items| {
        let _ = std::net::TcpStream::connect(address.as_str());
        std::thread::sleep(Duration::from_secs(8));
        items
    });
    let job = std::thread::spawn(move || slow.sum());
    (0..2).for_each(|_| drop(tasks.next()));
    let since = Instant::now();
    turn.delete(&victim);
    let (reason, took) = recovered("33, grace exceeded", &seen, number(&victim), since);
    assert!(
        reason.contains("deleted") && took < Duration::from_secs(1) + seen.bar(),
        "{reason}, {took:?}"
    );
    let job = bounded("the job", move || job.join().unwrap());
    assert_eq!(job.unwrap(), 45, "and the loss did not count against the task");
    ctx.stop();
}

/// The image is on one node only.
struct Unloaded<'a>(&'a Turn);

impl<'a> Unloaded<'a> {
    fn new(turn: &'a Turn) -> Self {
        let socket = turn.cluster.file("n2/containerd.sock");
        let mut command = std::process::Command::new("ctr");
        let arguments =
            ["--address", &socket, "--namespace", "k8s.io", "images", "rm", "--sync", IMAGE];
        assert!(command.args(arguments).status().unwrap().success());
        Unloaded(turn)
    }
}

impl Drop for Unloaded<'_> {
    fn drop(&mut self) {
        let loaded = self.0.cluster.try_load("application.tar");
        // A second panic would end all tests.
        assert!(loaded || std::thread::panicking(), "both nodes have the image again");
    }
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn s35_a_node_on_which_no_executor_starts_gets_none() {
    let turn = turn("s35");
    let (ctx, seen) = start(builder(&turn).config("spark.executor.instances", 4), 4);
    let _unloaded = Unloaded::new(&turn);
    let there: Vec<Pod> =
        turn.pods("executor").into_iter().filter(|pod| node_of(pod) == "n2").collect();
    assert!(!there.is_empty(), "the scheduler spreads pods");
    let since = Instant::now();
    there.iter().for_each(|pod| turn.delete(&name(pod)));
    for pod in &there {
        wait_for("its removal", || seen.removal(number(&name(pod))));
    }
    let noticed = since.elapsed();
    seen.wait_for(4);
    print_times("35, one bad node", noticed, since.elapsed());
    let works = turn.pods("executor").into_iter().filter(|pod| turn.running().contains(&name(pod)));
    assert!(works.map(|pod| node_of(&pod)).all(|node| node == "n1"));
    assert_eq!(sum(&ctx), SUM);
    ctx.stop();
}
