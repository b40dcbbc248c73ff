//! Faults of the control plane in the middle of a job.

use std::process::Command;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;

use crate::application::{SUM, Seen, builder, print_times, start, sum};
use crate::client_mode::number;
use crate::cluster::{Turn, name, turn, wait_for, wait_until};

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
    let etcdctl = |arguments: &[&str]| {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(["--endpoints", "http://127.0.0.1:12379"]);
        command.args(arguments).output().unwrap()
    };
    let status = etcdctl(&["endpoint", "status", "--write-out=json"]);
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    let revision = status[0]["Status"]["header"]["revision"].to_string();
    assert!(etcdctl(&["compact", "--physical=true", &revision]).status.success());
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn s23_a_watch_that_expired_is_followed_by_a_list_and_nothing_is_missed() {
    let turn = turn("s23");
    // The list that comes every half minute shall not be what repairs it.
    let settings = builder(&turn).config("spark.kubernetes.executor.apiPollingInterval", "600s");
    let (ctx, seen) = start(settings, 2);
    let held = turn.cluster.hold("apiserver");
    turn.cluster.kill_server("apiserver");
    // A pod ends while nobody watches.
    let before = seen.active();
    compact();
    drop(held);
    let victim = wait_for("the API server's return", || turn.running().pop());
    let since = Instant::now();
    turn.delete(&victim);
    compact();
    replaced("23, history compacted", &turn, &seen, &before, since);
    assert_eq!(sum(&ctx), SUM);
    ctx.stop();
}
