//! What an API server refuses, and when it is asked again.

use super::*;

fn quota() -> ApiError {
    ApiError::Quota("exceeded quota: few".to_owned())
}

#[test]
fn s18_a_used_up_quota_is_waited_for_with_one_request_at_a_time_and_nobody_fails() {
    let (mut scene, out) = Scene::wanting(options(), 4);
    assert_eq!(asked(&out), [1, 2, 3, 4]);
    scene.works(1);
    let mut out: Vec<_> =
        [2, 3, 4].into_iter().flat_map(|id| scene.refuses(id, 1, quota())).collect();
    let mut requests = 0;
    for attempt in 2..60 {
        out.extend(scene.wait(10_000));
        let again = asked(&out);
        assert!(again.len() <= 1 && failed(&out).is_none(), "{again:?}");
        requests += again.len();
        for id in again {
            assert_eq!(id, 2, "by the same name");
            scene.refuses(id, attempt, quota());
        }
        let pod = scene.running(1);
        scene.lists(vec![pod]);
        out.clear();
    }
    assert!((10..25).contains(&requests), "{requests} requests in ten minutes");
    let told = scene.allocator.shortage(scene.now).unwrap_or_default();
    assert!(told.contains("exceeded quota: few"), "{told}");
}

#[test]
fn s18_room_in_the_quota_is_used_as_soon_as_a_pod_is_gone() {
    let mut scene = Scene::working(options(), 2);
    scene.wait(40_000);
    let out = scene.command(ProviderCommand::SetTarget(3));
    assert_eq!(asked(&out), [3]);
    for attempt in 1..6 {
        scene.refuses(3, attempt, quota());
        while asked(&scene.wait(1000)).is_empty() {}
    }
    scene.refuses(3, 6, quota());
    scene.command(ProviderCommand::SetTarget(2));
    scene.command(ProviderCommand::Release(vec![ExecutorId(1)]));
    let out = scene.deleted(1, Err(ApiError::NotFound));
    assert_eq!(asked(&out).len() + asked(&scene.wait(1000)).len(), 1, "{out:?}");
}

#[test]
fn s19_a_missing_right_ends_an_application_without_executors_with_the_servers_words() {
    let words = "User \"x\" cannot create resource \"pods\"";
    let (mut scene, _) = Scene::wanting(options(), 1);
    let out = scene.refuses(1, 1, ApiError::Forbidden(words.to_owned()));
    assert!(failed(&out).is_some_and(|reason| reason.contains(words)));
    let mut scene = Scene::working(options(), 1);
    scene.command(ProviderCommand::SetTarget(2));
    let out = scene.refuses(2, 1, ApiError::Forbidden(words.to_owned()));
    assert_eq!(failed(&out), None, "jobs go on with what there is");
    assert!(scene.allocator.shortage(scene.now).is_some_and(|told| told.contains(words)));
}

#[test]
fn s19_a_right_that_is_gone_is_waited_for_where_executors_have_worked_before_but_not_for_ever() {
    let forbidden = || ApiError::Forbidden("cannot create resource \"pods\"".to_owned());
    let lost = || {
        let mut scene = Scene::working(options(), 1);
        scene.wait(60_000);
        let pod = Pod { terminating: true, ..scene.running(1) };
        assert_eq!(asked(&scene.sees_gone(pod)), [2]);
        scene
    };
    for error in [forbidden(), ApiError::Invalid("spec".to_owned())] {
        let mut scene = lost();
        assert_eq!(failed(&scene.refuses(2, 1, error)), None);
        assert_eq!(asked(&scene.wait(3000)), [2], "it is asked for again");
        let pod = scene.pod(2);
        let answer = Ok(Box::new(CreateAnswer { pod, existed: false }));
        let created = AllocatorEvent::Created { executor: ExecutorId(2), attempt: 2, answer };
        assert_eq!(failed(&scene.feed(created)), None, "and had");
    }
    let mut scene = lost();
    let (number, answer) = (scene.list, Err(forbidden()));
    assert_eq!(failed(&scene.feed(AllocatorEvent::Listed { number, answer })), None);
    let mut scene = lost();
    let (mut attempt, mut ended) = (1, None);
    scene.refuses(2, attempt, forbidden());
    let since = scene.now;
    while ended.is_none() {
        let out = scene.wait(1000);
        ended = failed(&out);
        if !asked(&out).is_empty() {
            attempt += 1;
            ended = ended.or(failed(&scene.refuses(2, attempt, forbidden())));
        }
    }
    assert_eq!(scene.now.since_ms(since), 600_000);
    assert!(ended.is_some_and(|words| words.contains("cannot create resource")));
}

#[test]
fn s19_a_namespace_that_goes_or_a_pod_that_is_invalid_ends_it_too_and_so_do_pods_that_nobody_may_list()
 {
    for error in [ApiError::NoNamespace("gone".to_owned()), ApiError::Invalid("gone".to_owned())] {
        let (mut scene, _) = Scene::wanting(options(), 1);
        assert!(failed(&scene.refuses(1, 1, error)).is_some_and(|reason| reason.contains("gone")));
    }
    let mut scene = Scene::new(options());
    let (number, answer) = (scene.list, Err(ApiError::Forbidden("cannot list".to_owned())));
    let out = scene.feed(AllocatorEvent::Listed { number, answer });
    assert!(failed(&out).is_some_and(|reason| reason.contains("cannot list")));
}

#[test]
fn a_pod_that_may_not_be_deleted_is_tried_again_less_and_less_often_and_others_are_created_all_the_same()
 {
    let forbidden = || ApiError::Forbidden("User cannot delete resource \"pods\"".to_owned());
    let denied = || ApiError::Denied("denied the request: protected".to_owned());
    for refusal in [forbidden(), denied()] {
        let mut scene = Scene::working(options(), 2);
        scene.wait(60_000);
        let mut out = scene.command(ProviderCommand::Release(vec![ExecutorId(1)]));
        out.extend(scene.wait(1000));
        assert_eq!(asked(&out), [3], "its place is taken");
        scene.works(3);
        let (mut tries, mut open) = (0, deletes(&out).len());
        for _ in 0..600 {
            tries += open;
            if open > 0 {
                scene.deleted(1, Err(refusal.clone()));
            }
            open = deletes(&scene.wait(1000)).len();
        }
        assert!((15..30).contains(&tries), "{tries} tries in ten minutes: {refusal}");
        let out = scene.command(ProviderCommand::SetTarget(3));
        assert_eq!(asked(&[out, scene.wait(1000)].concat()), [4], "creating is another right");
    }
    let mut scene = Scene::working(options(), 2);
    let out = scene.command(ProviderCommand::Release(vec![ExecutorId(1)]));
    assert_eq!(deletes(&out).len(), 1);
    scene.deleted(1, Err(forbidden()));
    let out = scene.command(ProviderCommand::Release(vec![ExecutorId(2)]));
    assert_eq!(deletes(&out), [], "the right is missing for all of them");
    assert_eq!(deletes(&scene.wait(2000)).len(), 2);
}

#[test]
fn s20_credentials_that_expired_are_read_again() {
    let (mut scene, _) = Scene::wanting(options(), 1);
    let out = scene.refuses(1, 1, ApiError::Unauthorized("Unauthorized".to_owned()));
    let reads = |out: &[AllocatorEffect]| {
        out.iter().filter(|effect| matches!(effect, AllocatorEffect::RefreshCredentials)).count()
    };
    assert_eq!((reads(&out), asked(&out)), (1, vec![]));
    assert_eq!(asked(&scene.wait(2000)), [1]);
}

#[test]
fn s21_the_time_that_the_server_asks_for_is_waited_for_with_everything() {
    let mut scene = Scene::working(options(), 1);
    scene.command(ProviderCommand::SetTarget(2));
    let message = "slow down".to_owned();
    let error = ApiError::Throttled { retry_after_ms: Some(50_000), message };
    scene.refuses(2, 1, error);
    let out = scene.command(ProviderCommand::Release(vec![ExecutorId(1)]));
    assert_eq!(deletes(&out), []);
    let out = scene.wait(49_000);
    assert_eq!((asked(&out), deletes(&out), lists(&out)), (vec![], vec![], 0));
    let out = scene.wait(2000);
    assert_eq!((asked(&out), deletes(&out).len(), lists(&out)), (vec![2], 1, 1));
}

#[test]
fn s22_while_the_server_is_down_jobs_go_on_and_few_requests_are_made() {
    let mut scene = Scene::working(options(), 2);
    let mut requests = 0;
    for _ in 0..600 {
        let out = scene.wait(1000);
        requests += lists(&out) + asked(&out).len() + watches(&out).len();
        for effect in &out {
            let down = ApiError::Unreachable("connection refused".to_owned());
            match effect {
                AllocatorEffect::ListPods { number } => {
                    scene.feed(AllocatorEvent::Listed { number: *number, answer: Err(down) });
                }
                AllocatorEffect::WatchPods { number, .. } => {
                    scene.feed(AllocatorEvent::WatchEnded { number: *number, error: Some(down) });
                }
                _ => {}
            }
        }
        assert_eq!((ends(&out), failed(&out)), (vec![], None));
    }
    assert!((10..60).contains(&requests), "{requests} requests in ten minutes");
    scene.command(ProviderCommand::Release(vec![ExecutorId(1), ExecutorId(2)]));
    assert!(
        failed(&scene.wait(60_000)).is_some_and(|reason| reason.contains("connection refused"))
    );
}

#[test]
fn s26_a_request_without_an_answer_is_made_again_and_finds_the_pod_it_had_created() {
    let (mut scene, _) = Scene::wanting(options(), 1);
    scene.refuses(1, 1, ApiError::Unreachable("timeout".to_owned()));
    assert_eq!(asked(&scene.wait(3000)), [1], "the same one");
    let answer = Ok(Box::new(CreateAnswer { pod: scene.running(1), existed: true }));
    let out = scene.feed(AllocatorEvent::Created { executor: ExecutorId(1), attempt: 2, answer });
    assert_eq!((asked(&out), ends(&out)), (vec![], vec![]));
    scene.command(ProviderCommand::Registered(ExecutorId(1)));
    assert_eq!(scene.allocator.healthy(), 1);
}

#[test]
fn s26_a_request_that_nobody_ever_answers_has_a_deadline() {
    let (mut scene, _) = Scene::wanting(options(), 1);
    assert_eq!(asked(&scene.wait(19_000)), []);
    assert_eq!(asked(&scene.wait(4000)), [1]);
    let pod = scene.pod(1);
    let out = scene.answers(1, Ok(pod));
    assert!(ends(&out).is_empty(), "the first answer comes at last, and is as good");
}

#[test]
fn s27_an_admission_webhook_that_says_no_is_told_and_one_that_takes_labels_ends_the_application() {
    let (mut scene, _) = Scene::wanting(options(), 1);
    let out = scene.refuses(1, 1, ApiError::Denied("denied the request: no root".to_owned()));
    assert_eq!(failed(&out), None);
    assert!(scene.allocator.shortage(scene.now).is_some_and(|told| told.contains("no root")));
    let (mut scene, _) = Scene::wanting(options(), 1);
    let pod = Pod { executor: None, generation: None, ..scene.pod(1) };
    let out = scene.answers(1, Ok(pod));
    assert!(failed(&out).is_some_and(|reason| reason.contains("admission webhook")));
    assert_eq!(deletes(&out), [("uid-1".to_owned(), false)]);
}

#[test]
fn a_pod_of_another_application_with_the_same_name_is_left_alone_and_its_number_left_out() {
    for other in [Some(AppId::new("other")), None] {
        let (mut scene, _) = Scene::wanting(options(), 1);
        let generation = Some(Generation(9)).filter(|_| other.is_some());
        let pod = Pod { app: other, generation, ..scene.running(1) };
        let answer = Ok(Box::new(CreateAnswer { pod, existed: true }));
        let created = AllocatorEvent::Created { executor: ExecutorId(1), attempt: 1, answer };
        let out = scene.feed(created);
        assert_eq!((deletes(&out), failed(&out)), (vec![], None));
        assert_eq!(asked(&scene.wait(1000)), [2]);
    }
}

#[test]
fn executors_of_another_driver_with_the_same_application_id_are_none_of_this_ones_business() {
    let owned = |owner: &str| Some(PodUid::new(owner));
    let options = AllocatorOptions { owner: owned("own"), ..options() };
    let mut scene = Scene::working(options.clone(), 2);
    // Its name, owner and generation: what tells it from this one's, alone or together.
    for (name, owner, generation) in [
        ("b-exec-1", Some("other"), OWN),
        ("b-exec-1", None, OWN),
        ("a-exec-1", Some("other"), OWN),
        ("b-exec-3", Some("other"), Generation(4)),
        ("b-exec-1", Some("other"), Generation(9)),
    ] {
        let other = Pod {
            name: PodName::new(name),
            uid: PodUid::new("other-1"),
            owner: owner.and_then(owned),
            generation: Some(generation),
            ..scene.running(1)
        };
        let own = [1, 2].map(|id| Pod { owner: owned("own"), ..scene.running(id) });
        let mut out = scene.sees(other.clone());
        out.extend(scene.lists(own.into_iter().chain([other.clone()]).collect()));
        out.extend(scene.sees_gone(other));
        assert_eq!((ends(&out), deletes(&out), failed(&out)), (vec![], vec![], None), "{name}");
        assert_eq!(scene.allocator.healthy(), 2, "{name}");
    }
    let (mut scene, _) = Scene::wanting(options, 1);
    let pod = Pod { owner: owned("other"), ..scene.running(1) };
    let answer = Ok(Box::new(CreateAnswer { pod, existed: true }));
    let out = scene.feed(AllocatorEvent::Created { executor: ExecutorId(1), attempt: 1, answer });
    assert_eq!((ends(&out), deletes(&out)), (vec![], vec![]));
    assert_eq!(asked(&scene.wait(1000)), [2], "its name is taken");
}

#[test]
fn a_pod_that_a_process_before_this_one_created_is_deleted_and_its_number_is_left_out() {
    let (mut scene, _) = Scene::wanting(options(), 1);
    let pod = Pod { generation: Some(Generation(4)), ..scene.running(1) };
    let answer = Ok(Box::new(CreateAnswer { pod, existed: true }));
    let out = scene.feed(AllocatorEvent::Created { executor: ExecutorId(1), attempt: 1, answer });
    assert_eq!((ends(&out), deletes(&out).len()), (vec![(1, End::Told)], 1));
    assert_eq!(asked(&scene.wait(1000)), [2]);
}
