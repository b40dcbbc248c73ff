//! What an API server does wrong though it answers: it refuses for being busy, loses changes and answers, shows what was. Tests begin
//! with the number of their scenario.

use std::time::{Duration, Instant};

use firesteel::Builder;

use crate::apiserver::{after, unplaced};
use crate::application::{SUM, builder, print_times, start, sum};
use crate::client_mode::{number, recovered};
use crate::cluster::{Turn, turn, wait_for, wait_until};
use crate::proxy::Proxy;

/// An application that hears of the cluster what the proxy tells it.
fn through(turn: &Turn, proxy: &Proxy) -> Builder {
    builder(turn).master(&format!("k8s://{}", proxy.url))
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn s21_a_server_that_is_too_busy_is_left_alone_for_as_long_as_it_asks() {
    let turn = turn("s21");
    let proxy = Proxy::new(&turn);
    let (ctx, seen) = start(through(&turn, &proxy), 2);
    let victim = wait_for("a running pod", || turn.running().pop());
    proxy.change(|lies| lies.throttles_s = Some(3));
    let since = Instant::now();
    turn.delete(&victim);
    wait_for("the removal of the executor", || seen.removal(number(&victim)));
    while since.elapsed() < Duration::from_secs(8) {
        assert_eq!(seen.active().len(), 1, "a pod was created by a server that refuses");
        std::thread::sleep(Duration::from_millis(100));
    }
    let refused = proxy.fired();
    assert!((1..8).contains(&refused), "{refused} requests in 8 s to one that wants 3 s of peace");
    assert_eq!(sum(&ctx), SUM, "with what there is");
    proxy.change(|lies| lies.throttles_s = None);
    let lifted = Instant::now();
    recovered("21, throttled", &seen, number(&victim), since);
    let took = lifted.elapsed();
    println!(
        "scenario 21, throttled: {refused} requests refused, back {} ms later",
        took.as_millis()
    );
    assert!(took < Duration::from_secs(10) + seen.bar(), "{took:?}");
    ctx.stop();
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn s24_what_a_watch_leaves_out_is_found_by_the_next_list() {
    let turn = turn("s24");
    let proxy = Proxy::new(&turn);
    let settings =
        through(&turn, &proxy).config("spark.kubernetes.executor.apiPollingInterval", "2s");
    let (ctx, seen) = start(settings, 2);
    let (pending, cordoned) = unplaced(&turn, &seen);
    proxy.change(|lies| lies.blind = true);
    let since = Instant::now();
    turn.delete(&pending);
    wait_for("a pod in its place", || after(&turn, number(&pending)));
    let noticed = since.elapsed();
    assert!(proxy.fired() > 0, "no event was lost");
    proxy.change(|lies| lies.blind = false);
    drop(cordoned);
    seen.wait_for(2);
    print_times("24, lost events", noticed, since.elapsed());
    assert!(noticed < Duration::from_secs(2) + seen.bar(), "{noticed:?}");
    assert_eq!(sum(&ctx), SUM);
    ctx.stop();
    wait_until("the end of all pods", || turn.pods("executor").is_empty());
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn s25_a_list_of_an_older_replica_changes_nothing() {
    let turn = turn("s25");
    let proxy = Proxy::new(&turn);
    let settings =
        through(&turn, &proxy).config("spark.kubernetes.executor.apiPollingInterval", "1s");
    let (ctx, seen) = start(settings, 2);
    // The first list was of before there were pods.
    proxy.change(|lies| lies.stale = true);
    wait_until("some lists that are out of date", || proxy.fired() >= 3);
    assert_eq!((seen.active(), turn.pods("executor").len()), (vec![1, 2], 2));
    let victim = wait_for("a running pod", || turn.running().pop());
    let since = Instant::now();
    turn.delete(&victim);
    let (reason, took) = recovered("25, stale lists", &seen, number(&victim), since);
    assert!(reason.contains("deleted") && took < seen.bar(), "{reason}, {took:?}");
    proxy.change(|lies| lies.stale = false);
    assert_eq!(sum(&ctx), SUM);
    ctx.stop();
}

#[test]
#[ignore = "needs root, network namespaces and the servers of Kubernetes; part of ./test k8s"]
fn s26_a_pod_whose_creation_was_not_answered_is_adopted() {
    let turn = turn("s26");
    let proxy = Proxy::new(&turn);
    // A watch that showed the pods would answer in place of the requests.
    proxy.change(|lies| (lies.loses, lies.blind) = (2, true));
    let settings = through(&turn, &proxy).config("spark.kubernetes.driver.requestTimeout", "2000");
    let ((ctx, seen), (since, noticed)) = std::thread::scope(|scope| {
        let lost = scope.spawn(|| {
            wait_until("two answers that are lost", || proxy.lost() == 2);
            let since = Instant::now();
            wait_until("another request for a pod", || proxy.creations() > 2);
            proxy.change(|lies| lies.blind = false);
            (since, since.elapsed())
        });
        (start(settings, 2), lost.join().unwrap())
    });
    print_times("26, creation without an answer", noticed, since.elapsed());
    assert_eq!(proxy.lost(), 2, "answers that were lost");
    assert_eq!((seen.active(), turn.pods("executor").len()), (vec![1, 2], 2), "and no others");
    assert_eq!(sum(&ctx), SUM);
    ctx.stop();
}
