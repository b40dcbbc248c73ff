//! What a pod's state means, kind by kind.

use super::*;

fn pod() -> Pod {
    Pod {
        name: PodName::new("a-exec-1"),
        uid: PodUid::new("u"),
        version: Version(1),
        app: Some(AppId::new("app")),
        executor: Some(ExecutorId(1)),
        generation: Some(Generation(1)),
        owner: None,
        inactive: false,
        phase: Phase::Pending,
        status: None,
        node: None,
        unschedulable: None,
        disruption: None,
        terminating: false,
        containers: Vec::new(),
        claims: Vec::new(),
    }
}

fn on_node(phase: Phase, state: ContainerState) -> Pod {
    let containers = vec![Container { is_executor: true, state }];
    Pod { phase, node: Some(Host::new("n")), containers, ..pod() }
}

fn ended(exit_code: i32, reason: &str) -> Pod {
    let phase = if exit_code == 0 { Phase::Succeeded } else { Phase::Failed };
    on_node(
        phase,
        ContainerState::Terminated { exit_code, reason: reason.to_owned(), message: String::new() },
    )
}

fn waits(reason: &str, message: &str) -> Verdict {
    on_node(Phase::Pending, ContainerState::Waiting(StatusReason::new(reason, message)))
        .verdict(true)
}

fn cause(pod: &Pod) -> Cause {
    match pod.verdict(true) {
        Verdict::Over(cause) | Verdict::Terminating(cause) => cause,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_pod_waits_for_a_node_with_the_words_of_the_scheduler() {
    assert_eq!(pod().verdict(true), Verdict::Pending(None));
    let words = "0/3 nodes are available: 3 Insufficient cpu.".to_owned();
    let waiting = Pod { unschedulable: Some(words.clone()), ..pod() };
    assert_eq!(waiting.verdict(true), Verdict::Pending(Some(words)));
}

#[test]
fn the_end_of_a_log_is_shown_on_one_line_and_a_long_one_is_cut() {
    let said = |is_executor, exit_code, message: &str| Container {
        is_executor,
        state: ContainerState::Terminated {
            exit_code,
            reason: "Error".to_owned(),
            message: message.to_owned(),
        },
    };
    let words = |containers| Pod { containers, ..pod() }.last_words();
    let log = "one\ntwo\n\n  three\u{1b}[0m\nfour\n\n";
    let both = vec![said(false, 2, "of another"), said(true, 1, log)];
    assert_eq!(words(both).as_deref(), Some("two / three[0m / four"));
    assert_eq!(words(vec![said(true, 0, log)]), None, "it did not fail");
    assert_eq!(words(vec![said(true, 1, " \n")]), None);
    let long = words(vec![said(true, 1, &"ä".repeat(2000))]).unwrap();
    assert_eq!(long.chars().count(), 300);
}

#[test]
fn a_pod_is_its_kubelets_once_the_kubelet_says_something_of_its_containers() {
    let assigned = Pod { node: Some(Host::new("n")), ..pod() };
    assert_eq!(assigned.verdict(true), Verdict::Assigned(Host::new("n")));
}

#[test]
fn what_keeps_a_container_from_starting_has_a_kind_and_the_words_of_the_kubelet() {
    let node = Host::new("n");
    assert_eq!(waits("ContainerCreating", ""), Verdict::Scheduled(node.clone(), None));
    assert_eq!(waits("PodInitializing", ""), Verdict::Scheduled(node.clone(), None));
    let obstacle = |reason, message| match waits(reason, message) {
        Verdict::Scheduled(_, Some(obstacle)) => obstacle,
        other => panic!("{other:?}"),
    };
    let image = Obstacle::Image("ImagePullBackOff: no such image".to_owned());
    assert_eq!(obstacle("ImagePullBackOff", "no such image"), image);
    assert_eq!(obstacle("ErrImagePull", ""), Obstacle::Image("ErrImagePull: ErrImagePull".into()));
    for reason in ["InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError"] {
        assert!(matches!(obstacle(reason, "x"), Obstacle::Config(_)), "{reason}");
    }
    assert!(matches!(obstacle("CreateContainerError", "x"), Obstacle::Other(_)));
    let runs = on_node(Phase::Running, ContainerState::Running);
    assert_eq!(runs.verdict(true), Verdict::Running(node));
}

#[test]
fn an_exit_says_its_code_or_signal_and_memory_is_named_by_the_status() {
    assert_eq!(cause(&ended(3, "Error")), Cause::Exited(Some(ExitStatus::Code(3))));
    assert_eq!(cause(&ended(0, "Completed")), Cause::Exited(Some(ExitStatus::Code(0))));
    assert_eq!(cause(&ended(137, "Error")), Cause::Exited(Some(ExitStatus::Signal(9))));
    assert_eq!(cause(&ended(137, "OOMKilled")), Cause::OutOfMemory);
    let nothing = Pod { phase: Phase::Failed, ..pod() };
    assert_eq!(cause(&nothing), Cause::Exited(None));
}

#[test]
fn an_eviction_is_the_platforms_unless_the_pod_exceeded_a_limit_of_its_own() {
    let evicted = Some(StatusReason::new(
        "Evicted",
        "Pod ephemeral local storage usage exceeds the total limit",
    ));
    let own = Pod { phase: Phase::Failed, status: evicted.clone(), ..pod() };
    assert!(matches!(cause(&own), Cause::OwnLimit(words) if words.contains("ephemeral")));
    let disruption =
        Some(StatusReason::new("TerminationByKubelet", "The node was low on resource: memory."));
    let pressed = Pod { disruption: disruption.clone(), ..own };
    assert!(cause(&pressed).is_by_platform());
    let preempted = Pod { disruption, ..ended(143, "Error") };
    assert!(cause(&preempted).is_by_platform(), "its exit code is the platform's doing");
}

#[test]
fn a_pod_that_is_deleted_or_refused_by_its_node_is_nobodys_fault() {
    let running = on_node(Phase::Running, ContainerState::Running);
    let deleted = Pod { terminating: true, ..running };
    assert_eq!(deleted.verdict(true), Verdict::Terminating(Cause::Deleted));
    let drained =
        Pod { disruption: Some(StatusReason::new("EvictionByEvictionAPI", "")), ..deleted };
    assert!(matches!(drained.verdict(true), Verdict::Terminating(Cause::Disrupted(_))));
    assert_eq!(cause(&Pod { terminating: true, ..ended(143, "Error") }), Cause::Deleted);
    let oom = Pod { terminating: true, ..ended(137, "OOMKilled") };
    assert_eq!(cause(&oom), Cause::OutOfMemory, "whatever came after");
    assert!(
        cause(&ended(137, "ContainerStatusUnknown")).is_by_platform(),
        "its node was started again"
    );
    let status = Some(StatusReason::new("OutOfcpu", "Node didn't have enough resource: cpu"));
    let refused = Pod { phase: Phase::Failed, status, ..pod() };
    assert!(matches!(cause(&refused), Cause::NodeRefused(_)));
}

#[test]
fn another_container_that_fails_ends_the_executor_only_if_all_are_looked_at() {
    let mut pod = on_node(Phase::Running, ContainerState::Running);
    let state = ContainerState::Terminated {
        exit_code: 2,
        reason: "Error".to_owned(),
        message: String::new(),
    };
    pod.containers.insert(0, Container { is_executor: false, state });
    assert_eq!(cause(&pod), Cause::Exited(Some(ExitStatus::Code(2))));
    assert!(matches!(pod.verdict(false), Verdict::Running(_)));
    let done = ContainerState::Terminated {
        exit_code: 0,
        reason: "Completed".to_owned(),
        message: String::new(),
    };
    pod.containers[0].state = done;
    assert!(matches!(pod.verdict(true), Verdict::Running(_)), "it did what it was to do");
    let own = ContainerState::Terminated {
        exit_code: 7,
        reason: "Error".to_owned(),
        message: String::new(),
    };
    pod.containers[1].state = own;
    assert_eq!(cause(&pod), Cause::Exited(Some(ExitStatus::Code(7))), "though the pod runs on");
}

#[test]
fn nothing_is_said_of_a_pod_whose_phase_nobody_knows() {
    let lost = on_node(Phase::Unknown, ContainerState::Running);
    assert_eq!(lost.verdict(true), Verdict::Unknown);
}

#[test]
fn a_container_that_waits_for_another_one_does_not_hide_what_keeps_that_from_starting() {
    let waiting = |reason: &str| ContainerState::Waiting(StatusReason::new(reason, ""));
    let mut pod = on_node(Phase::Pending, waiting("PodInitializing"));
    assert!(matches!(pod.verdict(true), Verdict::Scheduled(_, None)));
    let first = Container { is_executor: false, state: waiting("ImagePullBackOff") };
    pod.containers.push(first);
    assert!(matches!(pod.verdict(true), Verdict::Scheduled(_, Some(Obstacle::Image(_)))));
}
