//! Lists, watches, what they leave out, and the end of an application.

use super::*;

fn ended_watch(scene: &mut Scene, error: Option<ApiError>) -> Vec<AllocatorEffect> {
    let number = scene.watch;
    scene.feed(AllocatorEvent::WatchEnded { number, error })
}

#[test]
fn a_watch_begins_where_the_list_ended_and_goes_on_where_it_was() {
    let mut scene = Scene::new(options());
    let out = scene.lists(vec![]);
    assert_eq!(watches(&out), [scene.version]);
    scene.wait(5000);
    let number = scene.watch;
    let change = Change::Bookmark(Version(500));
    scene.feed(AllocatorEvent::Watched { number, change: Box::new(change) });
    assert_eq!(watches(&ended_watch(&mut scene, None)), [500]);
    assert_eq!(
        watches(&ended_watch(&mut scene, None)),
        [],
        "one that ends at once is not opened at once"
    );
    assert_eq!(watches(&scene.wait(1000)), [500]);
}

#[test]
fn a_created_pod_does_not_move_the_watch_past_what_it_has_not_told() {
    let (mut scene, _) = Scene::wanting(options(), 1);
    let resumes = scene.version;
    let pod = Pod { version: Version(900), ..scene.pod(1) };
    scene.answers(1, Ok(pod));
    scene.wait(5000);
    assert_eq!(watches(&ended_watch(&mut scene, None)), [resumes]);
}

#[test]
fn s23_a_watch_that_expired_is_followed_by_a_list_and_a_watch_and_none_is_lost() {
    let mut scene = Scene::working(options(), 2);
    let out = ended_watch(&mut scene, Some(ApiError::Expired));
    assert_eq!((lists(&out), watches(&out)), (1, vec![]));
    let pod = scene.running(2);
    let out = scene.lists(vec![pod]);
    assert_eq!((ends(&out), asked(&out)), (vec![(1, End::NodeLost)], vec![3]));
    scene.wait(1000);
    assert!(scene.watch > scene.list, "and watched again");
    let (number, answer) = (scene.list, Err(ApiError::Expired));
    scene.feed(AllocatorEvent::Listed { number, answer });
    assert_eq!(failed(&scene.wait(1000)), None);
}

#[test]
fn s24_what_the_watch_left_out_is_found_by_the_next_list() {
    let mut scene = Scene::working(options(), 1);
    assert_eq!(lists(&scene.wait(30_000)), 1);
    let pod = scene.ended(1, 9, "Error");
    let out = scene.lists(vec![pod]);
    assert_eq!(ends(&out).len(), 1);
    assert_eq!(lists(&scene.wait(30_000)), 1, "one list each");
}

#[test]
fn s25_a_list_that_is_older_than_what_was_seen_changes_nothing() {
    let mut scene = Scene::working(options(), 2);
    scene.wait(30_000);
    let (number, list) = (scene.list, PodList { version: Version(101), pods: vec![] });
    let out = scene.feed(AllocatorEvent::Listed { number, answer: Ok(list) });
    assert_eq!((ends(&out), scene.allocator.healthy()), (vec![], 2));
    assert_eq!(lists(&scene.wait(1000)), 1, "another one is asked for");
    let pods = vec![scene.running(1), scene.running(2)];
    assert_eq!(ends(&scene.lists(pods)), []);
    let old = Pod { version: Version(50), ..scene.ended(1, 1, "Error") };
    assert_eq!(ends(&scene.sees(old)), [], "nor does a pod that is");
}

#[test]
fn s25_a_cluster_whose_history_was_restored_is_believed_after_a_while() {
    let mut scene = Scene::working(options(), 1);
    let mut out = Vec::new();
    for _ in 0..120 {
        out.extend(scene.wait(1000));
        let (number, list) = (scene.list, PodList { version: Version(7), pods: vec![] });
        out.extend(scene.feed(AllocatorEvent::Listed { number, answer: Ok(list) }));
    }
    assert_eq!(ends(&out), [(1, End::NodeLost)], "the pod is not part of it");
    assert!(watches(&out).contains(&7), "{out:?}");
}

#[test]
fn a_list_asked_for_before_a_pod_was_created_does_not_end_it() {
    let (mut scene, _) = Scene::wanting(options(), 1);
    scene.wait(30_000);
    let pod = Pod { version: Version(900), ..scene.pod(1) };
    scene.answers(1, Ok(pod));
    assert_eq!(ends(&scene.lists(vec![])), [], "it is older than the pod");
}

#[test]
fn a_pod_that_is_gone_before_anybody_saw_it_is_found_missing_and_replaced() {
    let (mut scene, _) = Scene::wanting(AllocatorOptions { polling_ms: 900_000, ..options() }, 1);
    let pod = scene.pod(1);
    scene.answers(1, Ok(pod));
    assert_eq!(lists(&scene.wait(31_000)), 1, "it has not been seen in time");
    let out = scene.lists(vec![]);
    assert_eq!((ends(&out), asked(&out)), (vec![(1, End::NodeLost)], vec![2]));
}

#[test]
fn a_pod_deleted_before_the_answer_to_its_request_came_does_not_keep_its_place() {
    let (mut scene, _) = Scene::wanting(options(), 1);
    let pod = Pod { terminating: true, ..scene.pod(1) };
    let out = scene.sees_gone(pod.clone());
    assert_eq!(ends(&out), [(1, End::NodeLost)]);
    let out = scene.answers(1, Ok(pod));
    assert_eq!(deletes(&out).len(), 1, "by its UID, whatever is left");
    assert_eq!(asked(&scene.wait(1000)), [2]);
}

#[test]
fn a_watch_of_which_nothing_is_heard_is_opened_again() {
    let mut scene = Scene::working(options(), 1);
    let before = scene.watch;
    scene.wait(151_000);
    assert!(scene.watch > before);
    let (number, change) = (before, Change::Deleted(scene.running(1)));
    assert_eq!(
        ends(&scene.feed(AllocatorEvent::Watched { number, change: Box::new(change) })),
        [],
        "the old one is not heard"
    );
}

#[test]
fn s30_a_driver_that_was_started_again_deletes_what_the_process_before_left_and_goes_on_counting() {
    let mut scene = Scene::new(options());
    scene.command(ProviderCommand::SetTarget(1));
    let before =
        |scene: &mut Scene, id| Pod { generation: Some(Generation(4)), ..scene.running(id) };
    let kept = Pod { inactive: true, ..before(&mut scene, 3) };
    let pods = vec![before(&mut scene, 7), kept];
    let out = scene.lists(pods);
    assert_eq!(ends(&out), [(7, End::Told)], "the registry refuses it from now on");
    assert_eq!(deletes(&out), [("uid-7".to_owned(), false)]);
    assert_eq!(asked(&out), [8], "S05: no number is used twice");
    let out = scene.command(ProviderCommand::Registered(ExecutorId(7)));
    assert_eq!(ends(&out), [(7, End::Told)]);
}

#[test]
fn s30_a_driver_that_another_one_has_followed_ends_and_leaves_its_pods_alone() {
    let mut scene = Scene::working(options(), 1);
    let pod = Pod { generation: Some(Generation(6)), ..scene.running(9) };
    let out = scene.sees(pod);
    assert!(failed(&out).is_some_and(|reason| reason.contains("taken over")));
    let out = scene.command(ProviderCommand::Stop);
    assert_eq!(deletes(&out), [("uid-1".to_owned(), false)]);
}

#[test]
fn another_pod_of_the_same_name_is_not_the_executors() {
    let mut scene = Scene::working(options(), 1);
    let pod = Pod { uid: PodUid::new("other"), ..scene.running(1) };
    let out = scene.sees(pod);
    assert_eq!((ends(&out), asked(&out)), (vec![(1, End::NodeLost)], vec![2]));
    assert_eq!(deletes(&out), [("other".to_owned(), false)]);
}

#[test]
fn s36_an_application_that_ends_leaves_no_pod_behind_also_none_that_is_created_late() {
    let (mut scene, _) = Scene::wanting(options(), 2);
    scene.works(1);
    let finished = |out: &[AllocatorEffect]| {
        out.iter().any(|effect| matches!(effect, AllocatorEffect::Finish))
    };
    let out = scene.command(ProviderCommand::Stop);
    assert_eq!((deletes(&out).len(), lists(&out)), (1, 0), "the request for 2 is not answered yet");
    let out = scene.refuses(2, 1, ApiError::Unreachable("timeout".to_owned()));
    assert_eq!(lists(&out), 0, "it may yet be carried out");
    let out = scene.deleted(1, Err(ApiError::NotFound));
    assert!(!finished(&out));
    let out = scene.wait(20_000);
    assert_eq!(lists(&out), 1);
    let pod = scene.pod(2);
    let out = scene.lists(vec![pod]);
    assert_eq!(deletes(&out), [("uid-2".to_owned(), false)]);
    assert!(!finished(&out));
    let out = scene.deleted(2, Err(ApiError::NotFound));
    assert!(finished(&out) && scene.allocator.is_over());
    assert!(scene.wait(100_000).is_empty(), "S17");
}

#[test]
fn s36_requests_to_delete_are_made_until_they_are_heard() {
    let mut scene = Scene::working(options(), 1);
    assert_eq!(deletes(&scene.command(ProviderCommand::Stop)).len(), 1);
    scene.deleted(1, Err(ApiError::Unavailable("500".to_owned())));
    assert_eq!(deletes(&scene.wait(3000)).len(), 1);
    assert_eq!(deletes(&scene.wait(21_000)).len(), 1, "the answer was lost");
}

#[test]
fn s36_an_application_that_ends_asks_a_server_that_was_away_for_long_soon_again() {
    for (refusal, deleted) in [
        (ApiError::Unreachable("away".to_owned()), 1),
        (ApiError::Throttled { retry_after_ms: Some(60_000), message: "busy".to_owned() }, 0),
    ] {
        let mut scene = Scene::working(options(), 1);
        for _ in 0..90 {
            let number = scene.watch;
            let error = Some(refusal.clone());
            scene.feed(AllocatorEvent::WatchEnded { number, error });
            scene.wait(1000);
        }
        let now = deletes(&scene.command(ProviderCommand::Stop)).len();
        assert!(scene.allocator.may_leave_pods());
        let soon = deletes(&scene.wait(3000)).len();
        assert_eq!((now, soon), (0, deleted), "{refusal}");
    }
}

#[test]
fn s36_pods_may_be_left_until_the_server_says_that_it_ends_all_there_are() {
    let mut scene = Scene::working(options(), 1);
    scene.command(ProviderCommand::Stop);
    scene.deleted(1, Ok(()));
    assert!(scene.allocator.may_leave_pods(), "there may be others");
    let pods = vec![scene.running(1), scene.running(7)];
    scene.lists(pods);
    assert!(scene.allocator.may_leave_pods(), "there is another");
    scene.deleted(7, Ok(()));
    assert!(!scene.allocator.may_leave_pods() && !scene.allocator.is_over(), "they end");
}

fn finished(out: &[AllocatorEffect]) -> bool {
    out.iter().any(|effect| matches!(effect, AllocatorEffect::Finish))
}

#[test]
fn s36_an_application_whose_pods_were_refused_ends_at_once() {
    for (error, waits) in [
        (ApiError::NoNamespace("none".to_owned()), false),
        (ApiError::Quota("used up".to_owned()), false),
        (ApiError::Unavailable("504".to_owned()), true),
        (ApiError::Unreachable("timeout".to_owned()), true),
    ] {
        let (mut scene, _) = Scene::wanting(options(), 1);
        scene.refuses(1, 1, error.clone());
        let out = scene.command(ProviderCommand::Stop);
        assert_eq!(lists(&out) == 0, waits, "{error}: a request may yet be carried out");
        if !waits {
            assert!(finished(&scene.lists(vec![])), "{error}");
        }
    }
}

#[test]
fn s19_an_application_that_may_not_even_list_pods_ends_at_once() {
    let mut scene = Scene::new(options());
    scene.command(ProviderCommand::SetTarget(1));
    let forbidden = || ApiError::Forbidden("cannot list".to_owned());
    let answer = |scene: &mut Scene| {
        let number = scene.list;
        scene.feed(AllocatorEvent::Listed { number, answer: Err(forbidden()) })
    };
    answer(&mut scene);
    scene.command(ProviderCommand::Stop);
    scene.wait(5_000);
    assert!(finished(&answer(&mut scene)), "it never asked for a pod");
}
