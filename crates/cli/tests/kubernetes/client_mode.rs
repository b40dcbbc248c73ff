//! Faults of executor pods, with the driver in this process. Tests begin with the number of their scenario.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use kube::Api;
use rustix::process::Signal;
use serde_json::json;

use crate::application::{SILENCE, SUM, Seen, Tasks, bounded, builder, print_times, start, sum};
use crate::cluster::{Turn, name, turn, wait_for, wait_until};

/// The number of an executor, from its pod's name.
pub(crate) fn number(pod: &str) -> u32 {
    pod.rsplit('-').next().unwrap().parse().unwrap()
}

/// Waits until an executor is removed and two others are there, and prints how long both took. The reason it was removed for.
pub(crate) fn recovered(
    scenario: &str,
    seen: &Seen,
    executor: u32,
    since: Instant,
) -> (String, Duration) {
    let (reason, noticed) = wait_for("the executor's removal", || seen.removal(executor));
    seen.wait_for(2);
    let recovered = since.elapsed();
    print_times(scenario, noticed.duration_since(since), recovered);
    println!("scenario {scenario}: bar {} ms ({reason})", seen.bar().as_millis());
    assert!(!seen.active().contains(&executor), "{scenario}");
    (reason, recovered)
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn s01_an_executor_pod_that_is_deleted_is_replaced_and_nobody_is_blamed() {
    let turn = turn("s01");
    let (ctx, seen) = start(builder(&turn), 2);
    assert_eq!(sum(&ctx), SUM);
    let victim = wait_for("a running pod", || turn.running().pop());
    let since = Instant::now();
    turn.delete(&victim);
    let (reason, took) = recovered("1, pod deleted", &seen, number(&victim), since);
    assert!(reason.contains("deleted") && took < seen.bar(), "{reason}, {took:?}");
    assert_eq!(sum(&ctx), SUM);
    ctx.stop();
    wait_until("the end of all pods", || turn.pods("executor").is_empty());
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn s02_an_executor_that_dies_is_replaced_and_its_pod_is_kept_for_people() {
    let turn = turn("s02");
    let (ctx, seen) = start(builder(&turn), 2);
    let victim = wait_for("a running pod", || turn.running().pop());
    let since = Instant::now();
    turn.signal(&victim, Signal::KILL);
    let (reason, took) = recovered("2, process killed", &seen, number(&victim), since);
    assert!(reason.contains("signal 9") && took < seen.bar(), "{reason}, {took:?}");
    wait_until("the label of the pod that is kept", || turn.is_kept(number(&victim)));
    assert_eq!(sum(&ctx), SUM);
    ctx.stop();
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn s04_an_executor_that_needs_too_much_memory_is_named_as_such() {
    let turn = turn("s04");
    let settings = builder(&turn)
        .config("spark.executor.memoryOverhead", "128m")
        .config("spark.task.maxFailures", 1);
    let (ctx, seen) = start(settings, 2);
    let before = seen.active();
    let tasks = Tasks::listen();
    let greedy = ctx.parallelize_in(1, [0u8]).with(tasks.address()).map(|address, _| {
        let _alive = std::net::TcpStream::connect(address.as_str());
        let mut hoard: Vec<Vec<u8>> = Vec::new();
        for _ in 0..64 {
            hoard.push(vec![7; 16 << 20]);
        }
        hoard.len() as u64
    });
    let job = std::thread::spawn(move || greedy.sum());
    let since = tasks.next_ends();
    let victim =
        wait_for("a removal", || before.iter().copied().find(|one| seen.removal(*one).is_some()));
    let (reason, took) = recovered("4, out of memory", &seen, victim, since);
    let failed = bounded("the job", move || job.join().unwrap());
    let failed = failed.map(|sum| format!("it had {sum}")).unwrap_err().to_string();
    assert!(reason.contains("OOMKilled") && reason.contains("spark.executor.memory"), "{reason}");
    assert!(failed.contains("OOMKilled") && took < seen.bar(), "{failed}, {took:?}");
    ctx.stop();
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn s11_an_executor_that_hangs_is_removed_and_replaced_after_the_heartbeat_timeout() {
    let turn = turn("s11");
    let (ctx, seen) = start(builder(&turn), 2);
    let victim = wait_for("a running pod", || turn.running().pop());
    let since = Instant::now();
    turn.signal(&victim, Signal::STOP);
    let (reason, took) = recovered("11, executor hangs", &seen, number(&victim), since);
    assert!(reason.contains("heartbeat") || reason.contains("connection"), "{reason}");
    assert!(took < SILENCE + seen.bar(), "{took:?}");
    wait_until("the end of its pod", || {
        turn.pods("executor").iter().all(|pod| name(pod) != victim)
    });
    assert_eq!(sum(&ctx), SUM);
    ctx.stop();
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn s18_a_used_up_quota_is_lived_with_and_more_executors_come_when_it_grows() {
    let turn = turn("s18");
    let quotas: Api<ResourceQuota> = turn.cluster.api(&turn.namespace);
    let quota = |pods: &str| json!({"metadata": {"name": "few"}, "spec": {"hard": {"pods": pods}}});
    turn.cluster.create(&quotas, &quota("1"));
    wait_until("the quota", || {
        let found = turn.cluster.block_on(quotas.get("few")).unwrap();
        found.status.and_then(|status| status.hard).is_some()
    });
    let begun = Instant::now();
    let (ctx, seen) = start(builder(&turn), 1);
    assert_eq!(sum(&ctx), SUM, "with what there is");
    let noticed = seen.told("exceeded quota").duration_since(begun);
    assert_eq!((seen.active().len(), turn.pods("executor").len()), (1, 1));
    let since = Instant::now();
    let patch = kube::api::Patch::Merge(quota("5"));
    turn.cluster.block_on(quotas.patch("few", &Default::default(), &patch)).unwrap();
    seen.wait_for(2);
    print_times("18, quota", noticed, since.elapsed());
    ctx.stop();
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn s08_executors_of_a_node_that_vanishes_are_replaced_on_others() {
    let turn = turn("s08");
    let settings = builder(&turn).config("spark.executor.instances", 4);
    let (ctx, seen) = start(settings, 4);
    let on =
        |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
    let lost: Vec<u32> = turn
        .pods("executor")
        .iter()
        .filter(|pod| on(pod) == "n2")
        .map(|pod| number(&name(pod)))
        .collect();
    assert!(!lost.is_empty(), "the scheduler spreads pods");
    let since = Instant::now();
    let cut = Cut::new(&turn, "n2");
    for executor in &lost {
        wait_for("the removal of what is on the node", || seen.removal(*executor));
    }
    let noticed = since.elapsed();
    seen.wait_for(4);
    let recovered = since.elapsed();
    print_times("8, node vanishes", noticed, recovered);
    assert!(recovered < SILENCE + seen.bar(), "{recovered:?}");
    assert_eq!(sum(&ctx), SUM);
    drop(cut);
    // Whatever comes back with the node is not taken in again.
    wait_until("the end of old pods", || {
        turn.running().iter().all(|pod| !lost.contains(&number(pod)))
    });
    assert_eq!(seen.active().len(), 4);
    ctx.stop();
}

/// A node whose network cable was pulled out.
pub(crate) struct Cut<'a>(&'a Turn, String);

impl<'a> Cut<'a> {
    pub(crate) fn new(turn: &'a Turn, node: &str) -> Self {
        link(node, "down");
        Cut(turn, node.to_owned())
    }
}

impl Drop for Cut<'_> {
    fn drop(&mut self) {
        link(&self.1, "up");
        // A second panic would end all tests.
        if std::thread::panicking() {
            return;
        }
        wait_until("the node's return", || self.0.cluster.is_ready(&self.1));
    }
}

fn link(node: &str, state: &str) {
    let mut command = std::process::Command::new("ip");
    let changed = command.args(["link", "set", &format!("fsk-{node}"), state]).status();
    assert!(changed.is_ok_and(|status| status.success()) || std::thread::panicking());
}
