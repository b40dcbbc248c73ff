//! How executors end, whose fault that is, and what comes in their place.

use firesteel_backend::blame::ExitStatus;

use super::reason as reason_of;
use super::*;
use crate::options::Keep;

#[test]
fn s01_a_deleted_pod_is_nobodys_fault_and_replaced_at_once() {
    let mut scene = Scene::working(options(), 2);
    let pod = Pod { terminating: true, ..scene.running(1) };
    let out = scene.sees_gone(pod);
    assert_eq!((ends(&out), asked(&out)), (vec![(1, End::NodeLost)], vec![3]));
    assert!(deletes(&out).is_empty(), "it is gone");
}

#[test]
fn s02_an_exit_is_the_applications_fault_and_its_pod_is_kept() {
    let mut scene = Scene::working(options(), 1);
    let pod = scene.ended(1, 7, "Error");
    let out = scene.sees(pod);
    assert_eq!(ends(&out), [(1, End::Exited(Some(ExitStatus::Code(7))))]);
    assert!(reason(&out).contains("exit code 7"));
    assert_eq!((keeps(&out), deletes(&out).len(), asked(&out)), (1, 0, vec![2]));
    let pod = scene.ended(1, 7, "Error");
    let out = scene.lists(vec![pod]);
    assert!(deletes(&out).is_empty(), "nor later");
}

#[test]
fn a_pod_of_which_something_runs_on_is_deleted_and_not_kept_once_its_log_is_fetched() {
    let running = || Container { is_executor: false, state: ContainerState::Running };
    let failed = |is_executor| Container {
        is_executor,
        state: ContainerState::Terminated {
            exit_code: 3,
            reason: "Error".to_owned(),
            message: String::new(),
        },
    };
    let own = Container { is_executor: true, state: ContainerState::Running };
    // What is beside the executor runs on, or has failed and the executor runs on.
    for containers in [vec![failed(true), running()], vec![own, failed(false)]] {
        let mut scene = Scene::working(options(), 1);
        let pod = Pod { containers, ..scene.running(1) };
        let out = scene.sees(pod);
        assert_eq!(ends(&out), [(1, End::Exited(Some(ExitStatus::Code(3))))]);
        assert_eq!((keeps(&out), deletes(&out)), (0, vec![("uid-1".to_owned(), false)]));
        assert!(out.iter().any(|effect| matches!(effect, AllocatorEffect::FetchLog { .. })));
    }
    let mut scene = Scene::working(options(), 1);
    let containers = vec![failed(true), failed(false)];
    let pod = Pod { containers, phase: Phase::Failed, ..scene.running(1) };
    assert_eq!(keeps(&scene.sees(pod)), 1);
}

#[test]
fn s03_an_exit_with_code_0_is_replaced_and_blamed_as_every_exit() {
    let mut scene = Scene::working(options(), 1);
    let pod = Pod { phase: Phase::Succeeded, ..scene.ended(1, 0, "Completed") };
    let out = scene.sees(pod);
    assert_eq!(ends(&out), [(1, End::Exited(Some(ExitStatus::Code(0))))]);
    assert_eq!(asked(&out), [2]);
}

#[test]
fn s04_memory_is_named_when_it_was_memory() {
    let mut scene = Scene::working(options(), 1);
    let pod = scene.ended(1, 137, "OOMKilled");
    let out = scene.sees(pod);
    assert!(reason(&out).contains("spark.executor.memoryOverhead"), "{}", reason(&out));
}

#[test]
fn s13_s34_what_failed_executors_said_last_is_told_and_ends_with_the_application() {
    let settings = AllocatorOptions { max_failures: Some(1), ..options() };
    let (mut scene, _) = Scene::wanting(settings, 1);
    let mut out = Vec::new();
    for id in 1..=2 {
        let pod = scene.pod(id);
        scene.answers(id, Ok(pod));
        let (reason, message) =
            ("Error".to_owned(), "starting\nno such file: /data/x\n".to_owned());
        let state = ContainerState::Terminated { exit_code: 1, reason, message };
        let pod = scene.on_node(id, Phase::Failed, state);
        out = scene.sees(pod);
        assert!(reason_of(&out).contains("no such file: /data/x"), "{}", reason_of(&out));
        let told = scene.allocator.shortage(scene.now).unwrap_or_default();
        assert!(told.contains("it said last: starting / no such file: /data/x"), "{told}");
        scene.wait(1000);
    }
    assert!(failed(&out).is_some_and(|words| words.contains("no such file: /data/x")));
}

#[test]
fn the_end_of_the_log_of_a_failed_executor_is_fetched_once_and_told() {
    let logs = |out: &[AllocatorEffect]| {
        out.iter().filter(|effect| matches!(effect, AllocatorEffect::FetchLog { .. })).count()
    };
    let mut scene = Scene::working(options(), 1);
    let pod = scene.ended(1, 134, "Error");
    let out = scene.sees(pod.clone());
    assert_eq!(logs(&out), 1);
    assert_eq!(logs(&scene.sees(pod)), 0, "it is over");
    let text: String = (0..30).map(|line| format!("line {line}\n")).collect();
    scene.feed(AllocatorEvent::LogFetched { executor: ExecutorId(1), text });
    let told = scene.allocator.shortage(scene.now).unwrap_or_default();
    assert!(told.contains("signal 6") && told.contains("line 20 / ") && told.ends_with("line 29"));
    assert!(!told.contains("line 19"), "ten lines: {told}");
    let pod = Pod { terminating: true, ..scene.running(2) };
    assert_eq!(
        logs(&scene.sees_gone(pod)),
        0,
        "nothing is to be said about what the platform does"
    );
}

#[test]
fn s05_an_eviction_for_its_own_limit_is_the_applications_fault() {
    let mut scene = Scene::working(options(), 1);
    let status = Some(StatusReason::new(
        "Evicted",
        "Container a exceeded its local ephemeral storage limit",
    ));
    let pod = Pod { phase: Phase::Failed, status, ..scene.running(1) };
    let out = scene.sees(pod);
    assert_eq!((ends(&out), keeps(&out)), (vec![(1, End::Exited(None))], 1));
}

#[test]
fn s06_s07_a_pod_that_is_drained_or_preempted_works_to_its_end_while_another_one_is_asked_for() {
    let mut scene = Scene::working(options(), 1);
    let disruption = Some(StatusReason::new("PreemptionByScheduler", "a pod of higher priority"));
    let pod = Pod { terminating: true, disruption: disruption.clone(), ..scene.running(1) };
    let out = scene.sees(pod);
    let told = out.iter().find_map(|effect| match effect {
        AllocatorEffect::Report(ProviderEvent::Decommissioning { executor, reason }) => {
            Some((*executor, reason.contains("a pod of higher priority")))
        }
        _ => None,
    });
    assert_eq!(told, Some((ExecutorId(1), true)), "{out:?}");
    assert_eq!((ends(&out), asked(&out)), (vec![], vec![2]));
    let pod = Pod { terminating: true, disruption, ..scene.ended(1, 143, "Error") };
    let out = scene.sees_gone(pod);
    assert_eq!(ends(&out), [(1, End::NodeLost)]);
    assert!(reason(&out).contains("higher priority") && keeps(&out) == 0);
}

#[test]
fn a_driver_that_stood_still_hears_what_happened_before_it_judges_by_the_time() {
    let stuck = || {
        let (mut scene, _) = Scene::wanting(options(), 1);
        let pod = scene.pod(1);
        scene.answers(1, Ok(pod));
        let pod = scene.waiting(1, "ErrImagePull", "try again");
        scene.sees(pod);
        // Stopped, or its machine was asleep: far beyond each deadline.
        scene.now = scene.now.plus_ms(3_600_000);
        scene
    };
    let mut scene = stuck();
    let mut out = scene.feed(AllocatorEvent::Ticked);
    assert_eq!(lists(&out), 1);
    let pod = scene.running(1);
    out.extend(scene.sees(pod));
    out.extend(scene.command(ProviderCommand::Registered(ExecutorId(1))));
    out.extend(scene.wait(10_000));
    assert_eq!((ends(&out), failed(&out), scene.allocator.healthy()), (vec![], None, 1));
    let mut scene = stuck();
    let mut out = scene.feed(AllocatorEvent::Ticked);
    assert_eq!(ends(&out), []);
    out.extend(scene.wait(5000));
    assert_eq!(ends(&out), [(1, End::LaunchFailed)], "nothing else was heard");
}

#[test]
fn s07_a_pod_that_is_to_be_disrupted_is_decommissioned_before_it_is_deleted() {
    let mut scene = Scene::working(options(), 1);
    let disruption = Some(StatusReason::new("PreemptionByScheduler", "a pod of higher priority"));
    let pod = Pod { disruption, ..scene.running(1) };
    let out = scene.sees(pod);
    let leaves = |effect: &AllocatorEffect| {
        matches!(effect, AllocatorEffect::Report(ProviderEvent::Decommissioning { reason, .. })
            if reason.contains("PreemptionByScheduler"))
    };
    assert_eq!((out.iter().filter(|one| leaves(one)).count(), asked(&out)), (1, vec![2]));
    // Its last state may come without the condition.
    let pod = Pod { terminating: true, ..scene.running(1) };
    let out = scene.sees_gone(pod);
    assert_eq!(ends(&out), [(1, End::NodeLost)]);
    assert!(reason(&out).contains("PreemptionByScheduler"), "{}", reason(&out));
}

#[test]
fn s07_a_preempted_executor_that_ends_before_its_pod_goes_is_still_said_to_have_been_preempted() {
    let mut scene = Scene::working(options(), 1);
    let disruption = Some(StatusReason::new("PreemptionByScheduler", "a pod of higher priority"));
    let pod = Pod { terminating: true, disruption, ..scene.running(1) };
    scene.sees(pod);
    // The kubelet's update may come without the condition.
    let pod = Pod { terminating: true, ..scene.ended(1, 143, "Error") };
    let out = scene.sees(pod);
    assert_eq!(ends(&out), [(1, End::NodeLost)]);
    assert!(reason(&out).contains("higher priority"), "{}", reason(&out));
}

#[test]
fn s08_a_node_of_which_nothing_is_heard_is_the_last_choice_until_an_executor_registers_there() {
    let mut scene = Scene::working(options(), 2);
    scene.command(ProviderCommand::Silent(ExecutorId(1)));
    let out = scene.command(ProviderCommand::Release(vec![ExecutorId(1)]));
    assert_eq!((asked(&out), last_choices(&out)), (vec![3], vec![Host::new("n")]));
    assert_eq!(avoided(&out), [], "where there is no other node, it may do");
    scene.works(3);
    scene.command(ProviderCommand::SetTarget(3));
    let out = scene.wait(1000);
    assert_eq!((asked(&out), last_choices(&out)), (vec![4], vec![]), "it was not the node");
}

#[test]
fn s08_a_pod_whose_kubelet_does_not_take_it_is_replaced_and_sooner_on_a_silent_node() {
    for (silent, seconds) in [(false, 30), (true, 2)] {
        let mut scene = Scene::working(options(), 1);
        scene.command(ProviderCommand::SetTarget(2));
        let assigned = Pod { node: Some(Host::new("n")), ..scene.pod(2) };
        scene.answers(2, Ok(assigned.clone()));
        let assigned = Pod { version: Version(scene.version + 1), ..assigned };
        scene.sees(assigned.clone());
        if silent {
            scene.command(ProviderCommand::Silent(ExecutorId(1)));
        }
        let mut waited = 0;
        let out = loop {
            let listed = scene.list;
            let out = scene.wait(1000);
            waited += 1;
            assert_eq!(ends(&out), [], "the watch may have left out that it was taken");
            assert!(waited < 40, "it is waited for");
            if scene.list == listed {
                continue;
            }
            let first = scene.running(1);
            let out = scene.lists(vec![first, assigned.clone()]);
            if !ends(&out).is_empty() {
                break out;
            }
        };
        assert_eq!(ends(&out), [(2, End::NodeLost)]);
        assert!((seconds..=seconds + 1).contains(&waited), "after {waited} s");
        assert!(reason(&out).contains("kubelet of its node n"), "{}", reason(&out));
        assert_eq!((asked(&out), last_choices(&out)), (vec![3], vec![Host::new("n")]));
    }
}

#[test]
fn a_pod_that_its_kubelet_took_while_the_watch_left_it_out_is_not_said_to_be_on_a_silent_node() {
    let mut scene = Scene::working(options(), 1);
    scene.command(ProviderCommand::SetTarget(2));
    let assigned = Pod { node: Some(Host::new("n")), ..scene.pod(2) };
    scene.answers(2, Ok(assigned.clone()));
    scene.sees(Pod { version: Version(scene.version + 1), ..assigned });
    let listed = scene.list;
    while scene.list == listed {
        scene.wait(1000);
    }
    let (first, second) = (scene.running(1), scene.ended(2, 1, "Error"));
    let out = scene.lists(vec![first, second]);
    assert_eq!(ends(&out), [(2, End::Exited(Some(ExitStatus::Code(1))))], "{}", reason(&out));
}

#[test]
fn s04_another_one_is_asked_for_when_the_connection_breaks_and_not_when_the_kubelet_tells_why() {
    let mut scene = Scene::working(options(), 2);
    let out = scene.command(ProviderCommand::Disconnected(ExecutorId(1)));
    assert_eq!((asked(&out), ends(&out), scene.allocator.healthy()), (vec![3], vec![], 1));
    let pod = scene.ended(1, 137, "OOMKilled");
    let out = scene.sees(pod);
    assert!(asked(&out).is_empty() && reason(&out).contains("OOMKilled"), "{}", reason(&out));
}

#[test]
fn s02_what_a_kubelet_tells_late_counts_and_is_kept_and_told_though_the_registry_waits_no_longer() {
    let options = AllocatorOptions { max_failures: Some(0), ..options() };
    let mut scene = Scene::working(options, 1);
    let out = scene.command(ProviderCommand::Disconnected(ExecutorId(1)));
    assert_eq!(asked(&out), [2]);
    scene.works(2);
    scene.wait(4000);
    let mut out = scene.command(ProviderCommand::Release(vec![ExecutorId(1)]));
    out.extend(scene.wait(14_000));
    assert_eq!((ends(&out), deletes(&out), scene.allocator.healthy()), (vec![], vec![], 1));
    let pod = scene.ended(1, 137, "OOMKilled");
    let out = scene.sees(pod);
    assert_eq!(ends(&out), [(1, End::Exited(Some(ExitStatus::Signal(9))))]);
    assert_eq!((keeps(&out), deletes(&out).len()), (1, 0));
    let logs = out.iter().any(|effect| matches!(effect, AllocatorEffect::FetchLog { .. }));
    let warned = out.iter().any(|effect| {
        matches!(effect, AllocatorEffect::Report(ProviderEvent::Warning { message })
        if message.contains("executor 1, whose connection broke: it used more memory"))
    });
    assert!(logs && warned, "{out:?}");
    assert!(failed(&out).is_some_and(|words| words.contains("OOMKilled")), "it counts");
}

#[test]
fn an_executor_whose_pod_does_not_tell_why_its_connection_broke_is_deleted_once_a_list_shows_that()
{
    let mut scene = Scene::working(options(), 1);
    scene.command(ProviderCommand::Disconnected(ExecutorId(1)));
    scene.works(2);
    scene.command(ProviderCommand::Release(vec![ExecutorId(1)]));
    let before = scene.list;
    let out = scene.wait(15_000);
    assert_eq!((ends(&out), lists(&out)), (vec![], 1), "the watch may have left it out");
    assert!(scene.list > before);
    let pods = [scene.running(1), scene.running(2)];
    let out = scene.lists(pods.into());
    assert_eq!(ends(&out), [(1, End::Told)]);
    assert_eq!(deletes(&out), [("uid-1".to_owned(), false)]);
}

#[test]
fn s07_executors_that_are_lost_again_and_again_are_replaced_more_and_more_slowly() {
    let mut scene = Scene::working(options(), 1);
    let mut waits = Vec::new();
    for id in 1..8 {
        let pod = Pod { terminating: true, ..scene.running(id) };
        let lost = scene.now;
        let mut out = scene.sees_gone(pod);
        while asked(&out).is_empty() {
            out = scene.wait(1000);
        }
        waits.push(scene.now.since_ms(lost) / 1000);
        scene.works(id + 1);
        scene.wait(2000);
    }
    assert!(waits[0] <= 1 && waits[6] >= 10, "{waits:?}");
    assert!(failed(&scene.wait(1000)).is_none(), "and nobody is blamed");
}

#[test]
fn s08_a_pod_on_a_node_that_is_gone_does_not_count_and_is_deleted_by_force_in_the_end() {
    let mut scene = Scene::working(options(), 1);
    let disruption = Some(StatusReason::new("DeletionByTaintManager", "node unreachable"));
    let pod = Pod { terminating: true, disruption, ..scene.running(1) };
    let out = scene.sees(pod);
    assert_eq!(asked(&out), [2], "its phase is Running still");
    scene.works(2);
    let out = scene.wait(41_000);
    assert_eq!(ends(&out), [(1, End::NodeLost)]);
    assert_eq!(deletes(&out), [("uid-1".to_owned(), true)]);
}

#[test]
fn s09_s10_an_executor_that_the_driver_removed_is_over_for_good_whatever_its_pod_does() {
    let mut scene = Scene::working(options(), 1);
    let out = scene.command(ProviderCommand::Release(vec![ExecutorId(1)]));
    assert_eq!((ends(&out), asked(&out)), (vec![(1, End::Told)], vec![2]));
    assert_eq!(deletes(&out), [("uid-1".to_owned(), false)]);
    let pod = scene.running(1);
    let out = scene.sees(pod);
    assert_eq!((ends(&out), asked(&out)), (vec![], vec![]));
    let out = scene.command(ProviderCommand::Registered(ExecutorId(1)));
    assert_eq!(ends(&out), [(1, End::Told)], "S05: no other executor ever has its number");
}

#[test]
fn s11_a_hung_executor_that_the_driver_removed_is_deleted_by_force_when_its_grace_is_over() {
    let mut scene = Scene::working(options(), 1);
    scene.command(ProviderCommand::Release(vec![ExecutorId(1)]));
    assert_eq!(deletes(&scene.deleted(1, Ok(()))), []);
    let pod = Pod { terminating: true, ..scene.running(1) };
    scene.sees(pod);
    assert_eq!(deletes(&scene.wait(41_000)), [("uid-1".to_owned(), true)]);
    scene.deleted(1, Err(ApiError::NotFound));
    assert_eq!((scene.allocator.to_delete(), deletes(&scene.wait(90_000))), (0, vec![]));
}

#[test]
fn s12_an_executor_that_runs_and_never_registers_is_deleted_and_counted() {
    let (mut scene, _) = Scene::wanting(AllocatorOptions { max_failures: Some(0), ..options() }, 1);
    let pod = scene.running(1);
    scene.sees(pod);
    let out = scene.wait(101_000);
    assert_eq!(ends(&out), [(1, End::NeverRegistered)]);
    assert_eq!(deletes(&out), [("uid-1".to_owned(), false)]);
    assert!(failed(&out).is_some_and(|reason| reason.contains("never registered")));
}

#[test]
fn s13_a_crash_before_registering_is_seen_from_the_pod() {
    let (mut scene, _) = Scene::wanting(options(), 1);
    let pod = scene.ended(1, 134, "Error");
    let out = scene.sees(pod);
    assert_eq!(ends(&out), [(1, End::Exited(Some(ExitStatus::Signal(6))))]);
    assert_eq!(asked(&scene.wait(1000)), [2]);
}

#[test]
fn s14_an_image_that_cannot_be_pulled_has_its_time_and_then_ends_the_application() {
    let (mut scene, _) = Scene::wanting(options(), 1);
    let pod = scene.waiting(1, "ErrImagePull", "not found: registry/pi:1");
    scene.sees(pod.clone());
    let mut out = scene.wait(29_000);
    for _ in 0..4 {
        scene.lists(vec![pod.clone()]);
        let again = scene.waiting(1, "ImagePullBackOff", "not found: registry/pi:1");
        scene.sees(again);
        assert!(ends(&out).is_empty());
        out = scene.wait(29_000);
    }
    out.extend(scene.wait(29_000));
    assert_eq!(ends(&out), [(1, End::LaunchFailed)]);
    assert!(failed(&out).is_some_and(|reason| reason.contains("not found: registry/pi:1")));
}

#[test]
fn s15_a_container_that_cannot_be_created_ends_the_application_at_once() {
    let (mut scene, _) = Scene::wanting(options(), 1);
    let pod = scene.waiting(1, "CreateContainerConfigError", "secret \"s\" not found");
    assert!(
        failed(&scene.sees(pod)).is_some_and(|reason| reason.contains("secret \"s\" not found"))
    );
    let mut scene = Scene::working(options(), 2);
    let pod = Pod { terminating: true, ..scene.running(1) };
    scene.sees_gone(pod);
    let pod = scene.waiting(3, "CreateContainerConfigError", "secret \"s\" not found");
    let out = scene.sees(pod);
    assert_eq!((failed(&out), ends(&out)), (None, vec![(3, End::LaunchFailed)]), "jobs go on");
}

#[test]
fn s28_a_pod_whose_volume_does_not_come_is_replaced_when_its_time_is_over() {
    let (mut scene, _) = Scene::wanting(options(), 1);
    let pod = scene.waiting(1, "ContainerCreating", "");
    scene.sees(pod.clone());
    let mut out = Vec::new();
    while ends(&out).is_empty() {
        assert!(scene.now < Tick(1_700_000), "not in time");
        out.extend(scene.wait(1000));
        scene.lists(vec![pod.clone()]);
    }
    assert_eq!(ends(&out), [(1, End::LaunchFailed)]);
    assert_eq!(asked(&out), [2], "under another name, and so with another volume");
}

#[test]
fn s34_a_crash_loop_ends_the_application_and_names_the_cause() {
    let (mut scene, _) = Scene::wanting(options(), 1);
    let (mut out, mut id) = (Vec::new(), 1);
    while failed(&out).is_none() {
        assert!(id < 10, "no limit");
        let pod = scene.ended(id, 3, "Error");
        out = scene.sees(pod);
        while failed(&out).is_none() && !asked(&out).contains(&(id + 1)) {
            out = scene.wait(1000);
        }
        id += 1;
    }
    let reason = failed(&out).unwrap_or_default();
    assert!(
        reason.contains("spark.executor.maxNumFailures") && reason.contains("exit code 3"),
        "{reason}"
    );
    assert_eq!(id, 5, "more than 3");
    assert_eq!(asked(&scene.wait(60_000)), [], "no more are asked for");
}

#[test]
fn s34_failures_that_lie_further_apart_than_their_window_do_not_add_up() {
    let failures_validity_ms = Some(60_000);
    let options = AllocatorOptions { max_failures: Some(1), failures_validity_ms, ..options() };
    let mut scene = Scene::working(options, 1);
    for id in 1..6 {
        let pod = scene.ended(id, 3, "Error");
        let mut out = scene.sees(pod);
        out.extend(scene.wait(70_000));
        assert!(failed(&out).is_none() && asked(&out).contains(&(id + 1)), "{out:?}");
        scene.works(id + 1);
    }
}

#[test]
fn s35_a_node_on_which_no_executor_starts_is_avoided_unless_there_is_no_other() {
    let (mut scene, _) = Scene::wanting(AllocatorOptions { max_failures: Some(9), ..options() }, 2);
    for id in [1, 2] {
        let pod = scene.ended(id, 1, "Error");
        scene.sees(pod);
    }
    let mut out = scene.wait(1000);
    assert_eq!((asked(&out), avoided(&out)), (vec![3, 4], vec![Host::new("n")]));
    let pod = Pod { unschedulable: Some("1 node did not match".to_owned()), ..scene.pod(3) };
    scene.sees(pod);
    out = scene.wait(12_000);
    assert_eq!(ends(&out), [(3, End::Told)], "it is asked for again");
    assert_eq!((asked(&out), avoided(&out)), (vec![5], vec![]));
}

#[test]
fn which_pods_are_kept_is_the_users_choice_and_has_a_limit() {
    for (keep, kept, deleted) in [
        (Keep::None, 0, 3),
        (Keep::Failures(2), 2, 2),
        (Keep::All(2), 3, 1),
        (Keep::Failures(0), 0, 3),
    ] {
        let options = AllocatorOptions { keep, max_failures: Some(9), ..options() };
        let mut scene = Scene::working(options, 3);
        let disruption = Some(StatusReason::new("TerminationByKubelet", "pressure"));
        let evicted = Pod { phase: Phase::Failed, disruption, ..scene.running(1) };
        let mut out = scene.sees(evicted);
        for id in [2, 3] {
            let pod = scene.ended(id, 1, "Error");
            out.extend(scene.sees(pod));
        }
        if keep == Keep::Failures(2) {
            scene.wait(2000);
            let pod = scene.ended(4, 1, "Error");
            out.extend(scene.sees(pod));
            assert!(deletes(&out).contains(&("uid-2".to_owned(), true)), "the oldest one goes");
            assert_eq!(keeps(&out), kept + 1);
        } else {
            assert_eq!(keeps(&out), kept, "{keep:?}");
        }
        assert_eq!(deletes(&out).len(), deleted, "{keep:?}");
    }
}
