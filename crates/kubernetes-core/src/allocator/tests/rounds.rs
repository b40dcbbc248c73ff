//! How many pods are asked for, and when.

use super::*;
use crate::options::Unschedulable;
use crate::options::{Roll, RollPolicy};

#[test]
fn nothing_is_asked_for_before_the_pods_of_processes_before_are_known() {
    let mut scene = Scene::new(options());
    assert_eq!(asked(&scene.command(ProviderCommand::SetTarget(2))), []);
    assert_eq!(asked(&scene.wait(5000)), []);
    assert_eq!(asked(&scene.lists(vec![])), [1, 2]);
}

#[test]
fn pods_are_asked_for_in_batches_and_never_twice() {
    let (mut scene, out) = Scene::wanting(options(), 12);
    assert_eq!(asked(&out), [1, 2, 3, 4, 5]);
    assert_eq!(asked(&scene.feed(AllocatorEvent::Ticked)), [], "not before the delay is over");
    assert_eq!(asked(&scene.wait(1000)), [6, 7, 8, 9, 10]);
    assert_eq!(asked(&scene.wait(1000)), [11, 12]);
    assert_eq!(
        asked(&scene.wait(9000)),
        [],
        "what was asked for counts, though nobody has seen it"
    );
}

#[test]
fn no_more_pods_are_pending_than_allowed() {
    let (mut scene, out) = Scene::wanting(AllocatorOptions { max_pending: 2, ..options() }, 5);
    assert_eq!(asked(&out), [1, 2]);
    assert_eq!(asked(&scene.wait(5000)), []);
    let why = scene.allocator.missing(scene.now);
    assert_eq!(why.len(), 5);
    assert_eq!(why[4].why, Why::PendingLimit);
    let pod = scene.running(1);
    assert_eq!(asked(&scene.sees(pod)), [3], "one that runs is not pending");
}

#[test]
fn s17_pending_for_long_and_then_placed_is_one_executor_and_not_two() {
    let (mut scene, _) = Scene::wanting(options(), 1);
    let pod = scene.pod(1);
    scene.answers(1, Ok(pod));
    let words = Some("0/3 nodes are available".to_owned());
    for _ in 0..30 {
        let pod = Pod { unschedulable: words.clone(), ..scene.pod(1) };
        scene.sees(pod.clone());
        let out = scene.wait(60_000);
        assert_eq!((asked(&out), ends(&out)), (vec![], vec![]));
        scene.lists(vec![pod]);
    }
    scene.works(1);
    assert_eq!((scene.allocator.healthy(), asked(&scene.wait(60_000))), (1, vec![]));
}

#[test]
fn s16_unschedulable_is_told_in_the_schedulers_words_and_the_policy_decides() {
    let words = "0/3 nodes are available: 3 Insufficient cpu.";
    for policy in [Unschedulable::Wait, Unschedulable::Shrink, Unschedulable::Fail] {
        let options = AllocatorOptions { unschedulable: policy, ..options() };
        let (mut scene, _) = Scene::wanting(options, 1);
        let pod = Pod { unschedulable: Some(words.to_owned()), ..scene.pod(1) };
        scene.sees(pod.clone());
        let out = scene.wait(15_000);
        let told = shortage(&out).flatten().unwrap_or_default();
        assert!(told.contains(words) && told.contains("1 of 1 executors"), "{told}");
        scene.lists(vec![pod.clone()]);
        let mut out = Vec::new();
        for _ in 0..25 {
            out.extend(scene.wait(28_000));
            let pods =
                if out.is_empty() || deletes(&out).is_empty() { vec![pod.clone()] } else { vec![] };
            out.extend(scene.lists(pods));
        }
        match policy {
            Unschedulable::Wait => assert!(deletes(&out).is_empty() && failed(&out).is_none()),
            Unschedulable::Shrink => {
                assert_eq!(deletes(&out)[0].0, "uid-1");
                assert!(asked(&out).contains(&2) && failed(&out).is_none(), "and tried again");
            }
            Unschedulable::Fail => {
                assert!(failed(&out).is_some_and(|reason| reason.contains("Insufficient cpu")));
            }
        }
    }
}

#[test]
fn s32_fewer_executors_take_those_that_do_not_run_yet_and_never_one_that_works() {
    let (mut scene, _) = Scene::wanting(options(), 4);
    scene.works(1);
    let pod = scene.running(2);
    scene.sees(pod);
    let pod = scene.pod(3);
    scene.answers(3, Ok(pod));
    let out = scene.command(ProviderCommand::SetTarget(0));
    assert_eq!(
        ends(&out),
        [(4, End::Told), (3, End::Told)],
        "the registry refuses them from now on"
    );
    assert_eq!(deletes(&out), [("uid-3".to_owned(), false)], "4 has no UID yet");
    let pod = scene.pod(4);
    let late = scene.answers(4, Ok(pod));
    assert_eq!(deletes(&late), [("uid-4".to_owned(), false)], "it was created nevertheless");
    assert_eq!(scene.allocator.healthy(), 1);
}

#[test]
fn more_executors_are_asked_for_when_more_are_wanted() {
    let mut scene = Scene::working(options(), 2);
    assert_eq!(asked(&scene.command(ProviderCommand::SetTarget(4))), [3, 4]);
}

#[test]
fn nodes_that_the_driver_excludes_are_avoided() {
    let mut scene = Scene::working(options(), 1);
    scene.command(ProviderCommand::NodesExcluded([Host::new("x")].into()));
    let out = scene.command(ProviderCommand::SetTarget(2));
    assert_eq!(avoided(&out), [Host::new("x")]);
}

#[test]
fn every_missing_executor_has_its_own_reason_and_all_of_them_one_sentence() {
    let (mut scene, _) = Scene::wanting(AllocatorOptions { max_pending: 5, ..options() }, 7);
    scene.works(1);
    let pod = scene.running(2);
    scene.sees(pod);
    let pod = scene.waiting(3, "ImagePullBackOff", "no such image");
    scene.sees(pod);
    let pod = Pod { unschedulable: Some("no room".to_owned()), ..scene.pod(4) };
    scene.sees(pod);
    let why: Vec<Why> = scene.allocator.missing(scene.now).into_iter().map(|m| m.why).collect();
    assert_eq!(
        why,
        [
            Why::Registering,
            Why::Starting(Some("ImagePullBackOff: no such image".to_owned())),
            Why::Unscheduled(Some("no room".to_owned())),
            Why::Requested,
            Why::NextRound,
            Why::NextRound,
        ]
    );
    let sentence = scene.allocator.shortage(scene.now).unwrap_or_default();
    for words in [
        "6 of 7 executors are missing (2: its pod will be asked for in the next round; ",
        "1, executor 4, pending since 1970-01-01 00:16:40 UTC: no node can take its pod: no room; ",
        "1, executor 3, pending since 1970-01-01 00:16:40 UTC: its container cannot start: ImagePullBackOff: no such image",
    ] {
        assert!(sentence.contains(words), "{sentence}");
    }
    let since = scene.allocator.missing_since(scene.now);
    scene.wait(5000);
    assert_eq!(scene.allocator.missing_since(scene.now), since, "it is the oldest one's");
    assert_eq!(since, Some(Tick(1_000_000)));
}

#[test]
fn the_user_hears_of_a_shortage_that_lasts_and_of_its_end() {
    let (mut scene, out) = Scene::wanting(options(), 1);
    assert_eq!(shortage(&out), None);
    assert_eq!(shortage(&scene.wait(9000)), None, "it may come soon");
    assert!(shortage(&scene.wait(3000)).flatten().is_some_and(|words| words.contains("1 of 1")));
    assert_eq!(shortage(&scene.works(1)), Some(None));
}

#[test]
fn executors_roll_one_by_one_and_none_while_another_one_is_missing() {
    let roll = Some(Roll { interval_ms: 60_000, policy: RollPolicy::AddTime });
    let mut scene = Scene::working(AllocatorOptions { roll, ..options() }, 2);
    let quiet = scene.wait(50_000);
    assert_eq!((deletes(&quiet), asked(&quiet)), (vec![], vec![]));
    let out = scene.wait(10_000);
    assert_eq!((deletes(&out), asked(&out)), (vec![("uid-1".to_owned(), false)], vec![3]));
    assert_eq!((ends(&out), scene.allocator.healthy()), (vec![], 1), "it finishes its tasks");
    let pod = Pod { terminating: true, ..scene.ended(1, 0, "Completed") };
    let out = scene.sees_gone(pod);
    assert_eq!(ends(&out), [(1, End::Told)], "nobody's fault");
    assert!(reason(&out).contains("rollInterval") && failed(&out).is_none());
    assert!(
        deletes(&scene.wait(60_000)).is_empty(),
        "the one that is to take its place is not there"
    );
    scene.works(3);
    let out = scene.wait(60_000);
    assert_eq!((deletes(&out).len(), asked(&out)), (1, vec![4]));
    assert_eq!(deletes(&out)[0].0, "uid-2", "the one that has been there for longest");
}
