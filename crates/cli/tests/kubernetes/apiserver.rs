//! Faults of the control plane in the middle of a job.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use crate::application::{SUM, Seen, builder, print_times, start, sum};
use crate::client_mode::number;
use crate::cluster::{Cordoned, Turn, name, turn, wait_for, wait_until};

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn s22_an_api_server_that_is_away_for_a_while_costs_no_task_and_no_executor() {
    let turn = turn("s22");
    let (ctx, seen) = start(builder(&turn), 2);
    let before = seen.active();
    let since = Instant::now();
    let held = turn.cluster.hold("apiserver");
    turn.cluster.kill_server("apiserver");
    // Longer than any request waits, and than the time between two lists.
    while since.elapsed() < Duration::from_secs(35) {
        assert_eq!(sum(&ctx), SUM, "jobs go on");
    }
    drop(held);
    let victim = wait_for("the API server's return", || turn.running().pop());
    assert_eq!((seen.active(), seen.failed_tasks()), (before.clone(), 0), "nothing was lost");
    let since = Instant::now();
    turn.delete(&victim);
    replaced("22, API server restarted", &turn, &seen, &before, since);
    assert_eq!(sum(&ctx), SUM);
    ctx.stop();
    wait_until("the end of all pods", || turn.pods("executor").is_empty());
}

/// Waits for another pod, which is the driver's doing, and then for its executor, which scheduler and kubelets have to look for an
/// API server that was away for.
fn replaced(scenario: &str, turn: &Turn, seen: &Seen, before: &[u32], since: Instant) {
    let is_new = |pod: &Pod| !before.contains(&number(&name(pod)));
    wait_until("another pod", || turn.pods("executor").iter().any(is_new));
    let asked = since.elapsed();
    wait_until("another executor", || seen.active().len() == 2 && seen.active() != before);
    print_times(&format!("{scenario}, and a pod deleted then"), asked, since.elapsed());
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn s36_a_driver_that_ends_while_the_api_server_is_away_leaves_no_pod_once_that_is_back() {
    let turn = turn("s36-away");
    let (ctx, _seen) = start(builder(&turn), 2);
    let held = turn.cluster.hold("apiserver");
    turn.cluster.kill_server("apiserver");
    // So long that requests are made half a minute after each other only.
    let away = Instant::now();
    while away.elapsed() < Duration::from_secs(40) {
        assert_eq!(sum(&ctx), SUM, "jobs go on");
    }
    let since = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| ctx.stop());
        drop(held);
    });
    let noticed = since.elapsed();
    let ending = turn.ending();
    let left: Vec<String> =
        turn.pods("executor").iter().map(name).filter(|pod| !ending.contains(pod)).collect();
    assert!(left.is_empty(), "nobody told them to end: {left:?}");
    wait_until("the end of all pods", || turn.pods("executor").is_empty());
    print_times("36, API server away at the end", noticed, since.elapsed());
}

/// Forgets what happened before now, so that no watch can go on from before.
fn compact() {
    let status = etcdctl(&["endpoint", "status", "--write-out=json"]);
    let status: Value = serde_json::from_str(&status).unwrap();
    let revision = status[0]["Status"]["header"]["revision"].to_string();
    etcdctl(&["compact", "--physical=true", &revision]);
}

fn etcdctl(arguments: &[&str]) -> String {
    let mut command = Command::new("etcdctl");
    command.env("ETCDCTL_API", "3").args(["--endpoints", "http://127.0.0.1:12379"]);
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "etcdctl {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn s23_a_watch_that_expired_is_followed_by_a_list_and_nothing_is_missed() {
    let turn = turn("s23");
    // The list that comes every half minute shall not be what repairs it.
    let settings = builder(&turn).config("spark.kubernetes.executor.apiPollingInterval", "600s");
    // The API server writes down what this one asks for.
    let settings = settings.config("spark.kubernetes.authenticate.oauthToken", "bench-token");
    let (ctx, seen) = start(settings, 2);
    let (pending, cordoned) = unplaced(&turn, &seen);
    let held = turn.cluster.hold("apiserver");
    turn.cluster.kill_server("apiserver");
    let audit = turn.cluster.file("audit.log");
    let told = std::fs::metadata(&audit).unwrap().len() as usize;
    // It is gone while nobody watches, and nobody knows any more that it ever was there.
    let key = format!("/registry/pods/{}/{pending}", turn.namespace);
    assert_eq!(etcdctl(&["del", &key]).trim(), "1", "{key}");
    compact();
    drop(held);
    let since = Instant::now();
    wait_for("a pod in its place", || after(&turn, number(&pending)));
    let noticed = since.elapsed();
    drop(cordoned);
    seen.wait_for(2);
    print_times("23, history compacted", noticed, since.elapsed());
    let asked = requests(&audit, told, &turn.namespace);
    let found = asked.iter().filter(|verb| ["watch", "list"].contains(&verb.as_str()));
    let found: Vec<&str> = found.map(String::as_str).collect();
    let relisted = found.windows(3).any(|three| three == ["watch", "list", "watch"]);
    assert!(relisted, "the watch expired, and a list and another watch followed: {asked:?}");
    assert_eq!(sum(&ctx), SUM);
    ctx.stop();
}

/// The verbs of requests about pods of a namespace, from a place in the audit log on.
fn requests(audit: &str, from: usize, namespace: &str) -> Vec<String> {
    let bytes = std::fs::read(audit).unwrap();
    let text = String::from_utf8_lossy(&bytes[from..]);
    let entries = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let (mut known, mut verbs) = (BTreeSet::new(), Vec::new());
    for entry in entries {
        let about = &entry["objectRef"];
        let of_pods = about["resource"] == "pods" && about["namespace"] == namespace;
        // A watch is written down when it begins and when it ends.
        if of_pods && known.insert(entry["auditID"].to_string()) {
            verbs.extend(entry["verb"].as_str().map(str::to_owned));
        }
    }
    verbs
}

/// The pod of an executor that came after that of this number.
pub(crate) fn after(turn: &Turn, number_before: u32) -> Option<String> {
    turn.pods("executor").iter().map(name).find(|pod| number(pod) > number_before)
}

/// No node takes pods any more, and one that runs is deleted: the pod in its place, once the driver knows that no node takes it.
/// Nobody but the API server knows what becomes of that one.
pub(crate) fn unplaced(turn: &Turn, seen: &Seen) -> (String, [Cordoned; 2]) {
    let cordoned = ["n1", "n2"].map(|node| Cordoned::new(turn, node));
    let latest = seen.active().into_iter().max().expect("executors have registered");
    let victim = wait_for("a running pod", || turn.running().pop());
    turn.delete(&victim);
    let pending = wait_for("a pod without a node", || after(turn, latest));
    seen.told("unschedulable");
    (pending, cordoned)
}
