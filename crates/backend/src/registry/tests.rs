//! Rules of the registry: these events, those effects.

use std::collections::BTreeMap;

use firesteel_scheduler::SchedulerInput;
use firesteel_types::{ExecutorId, Host, TaskId, Tick};

use super::*;
use crate::blame::{End, ExitStatus};
use crate::protocol::{Refusal, ToDriver, ToExecutor};
use crate::provider::{Capacity, Preparing, ProviderCommand, ProviderEvent};
use crate::{AppId, Peer};

struct Scene {
    registry: Registry,
    now: Tick,
}

fn provider(event: ProviderEvent) -> RegistryEvent {
    RegistryEvent::Provider(event)
}

fn ordered(executor: u32) -> RegistryEvent {
    provider(ProviderEvent::Ordered { executor: ExecutorId(executor) })
}

fn started(executor: u32) -> RegistryEvent {
    let (executor, node) = (ExecutorId(executor), Host::new("h"));
    provider(ProviderEvent::Started { executor, node })
}

fn ended(executor: u32, end: End) -> RegistryEvent {
    let (executor, reason) = (ExecutorId(executor), "ended".to_owned());
    provider(ProviderEvent::Ended { executor, end, reason })
}

fn introduces(from: u64, executor: u32) -> RegistryEvent {
    introduces_with(from, executor, Some([1; 32]))
}

fn named(name: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(name.to_owned(), value.to_owned())])
}

fn introduces_with(from: u64, executor: u32, hash: Option<[u8; 32]>) -> RegistryEvent {
    let message = ToDriver::RegisterExecutor {
        app: AppId::new("app"),
        executor: ExecutorId(executor),
        host: Host::new("h"),
        cores: 1,
        hash,
        log_urls: named("stdout", "file://h/out"),
        attributes: named("zone", "z"),
    };
    RegistryEvent::ReceivedExecutor { from: Peer(from), has_address: true, message }
}

impl Scene {
    fn new() -> Self {
        let options = RegistryOptions { hash: Some([1; 32]), ..RegistryOptions::default() };
        Scene { registry: Registry::new(options), now: Tick(1000) }
    }

    fn ready() -> Self {
        let mut scene = Scene::new();
        scene.feed(RegistryEvent::Ticked);
        scene.feed(provider(ProviderEvent::Accepted { app: AppId::new("app") }));
        scene
    }

    fn feed(&mut self, event: RegistryEvent) -> Vec<RegistryEffect> {
        let mut out = Vec::new();
        self.registry.handle(self.now, event, &mut out);
        out
    }

    fn tick_after(&mut self, ms: u64) -> Vec<RegistryEffect> {
        self.now = self.now.plus_ms(ms);
        let mut out = self.feed(RegistryEvent::Ticked);
        if out.iter().any(|effect| matches!(effect, RegistryEffect::Drain)) {
            out.extend(self.feed(RegistryEvent::Drained));
        }
        out
    }

    /// Time passes, and it is awake.
    fn wait(&mut self, ms: u64) -> Vec<RegistryEffect> {
        (0..ms / 1000).flat_map(|_| self.tick_after(1000)).collect()
    }
}

fn refusal(out: &[RegistryEffect]) -> Option<Refusal> {
    out.iter().find_map(|effect| match effect {
        RegistryEffect::SendExecutor {
            message: ToExecutor::RegisterExecutorFailed { refusal, .. },
            ..
        } => Some(*refusal),
        _ => None,
    })
}

fn lost(out: &[RegistryEffect]) -> Option<bool> {
    out.iter().find_map(|effect| match effect {
        RegistryEffect::Schedule(SchedulerInput::ExecutorLost { caused_by_app, .. }) => {
            Some(*caused_by_app)
        }
        _ => None,
    })
}

fn end_of_application(out: &[RegistryEffect]) -> Option<&str> {
    out.iter().find_map(|effect| match effect {
        RegistryEffect::EndApplication { reason } => Some(reason.as_str()),
        _ => None,
    })
}

fn commands(out: &[RegistryEffect]) -> Vec<ProviderCommand> {
    let commands = out.iter().filter_map(|effect| match effect {
        RegistryEffect::Provider(command) => Some(command.clone()),
        _ => None,
    });
    commands.collect()
}

fn released(out: &[RegistryEffect]) -> Vec<ExecutorId> {
    let released = commands(out).into_iter().filter_map(|command| match command {
        ProviderCommand::Release(executors) => Some(executors),
        _ => None,
    });
    released.flatten().collect()
}

#[test]
fn the_schedulers_hear_where_an_executor_logs_and_what_its_cluster_manager_tells_of_it() {
    let out = Scene::ready().feed(introduces(9, 0));
    let info = out.iter().find_map(|effect| match effect {
        RegistryEffect::Schedule(SchedulerInput::ExecutorAdded { info, .. }) => Some(info),
        _ => None,
    });
    let info = info.expect("it is added");
    assert_eq!(info.log_urls, named("stdout", "file://h/out"));
    assert_eq!((&info.attributes, info.cores), (&named("zone", "z"), 1));
}

#[test]
fn executors_are_refused_for_what_they_are() {
    let mut scene = Scene::ready();
    assert_eq!(refusal(&scene.feed(introduces(9, 0))), None);
    assert_eq!(refusal(&scene.feed(introduces(9, 0))), None, "it may say it twice");
    assert_eq!(refusal(&scene.feed(introduces(8, 0))), Some(Refusal::Duplicate));
    let other = scene.feed(introduces_with(7, 1, Some([2; 32])));
    assert_eq!(refusal(&other), Some(Refusal::OtherExecutable));
    scene.feed(ended(2, End::NodeLost));
    assert_eq!(refusal(&scene.feed(introduces(6, 2))), Some(Refusal::Lost), "S04");
    scene.feed(RegistryEvent::Stopped);
    assert_eq!(refusal(&scene.feed(introduces(5, 3))), Some(Refusal::Stopping));
}

#[test]
fn how_an_executor_ended_says_whose_fault_it_was() {
    for (end, by_app) in [
        (End::Exited(Some(ExitStatus::Code(134))), true),
        (End::Exited(Some(ExitStatus::Signal(9))), true),
        (End::Exited(Some(ExitStatus::Code(0))), true),
        (End::Exited(Some(ExitStatus::Code(60))), true),
        (End::Exited(None), true),
        (End::Told, false),
        (End::NodeLost, false),
    ] {
        let mut scene = Scene::ready();
        scene.feed(introduces(9, 0));
        let out = scene.feed(ended(0, end));
        assert_eq!(lost(&out), Some(by_app), "{end:?}");
        assert_eq!(lost(&scene.feed(ended(0, end))), None, "once");
        assert_eq!(scene.registry.stale_messages(), 1);
    }
}

#[test]
fn a_broken_connection_bars_the_executor_and_waits_for_the_reason() {
    let mut scene = Scene::ready();
    scene.feed(introduces(9, 0));
    scene.feed(introduces(8, 1));
    for peer in [9, 8] {
        let out = scene.feed(RegistryEvent::ExecutorDisconnected { peer: Peer(peer) });
        assert!(
            matches!(out[0], RegistryEffect::Schedule(SchedulerInput::Task(_)))
                && lost(&out).is_none()
        );
    }
    let crashed = ended(0, End::Exited(Some(ExitStatus::Code(1))));
    assert_eq!(lost(&scene.feed(crashed)), Some(true), "the reason came");
    let out = scene.wait(2000);
    assert_eq!(lost(&out), Some(true), "no reason came");
    assert_eq!(released(&out), [ExecutorId(1)]);
}

fn decommissioning(executor: u32, reason: &str) -> RegistryEvent {
    let (executor, reason) = (ExecutorId(executor), reason.to_owned());
    provider(ProviderEvent::Decommissioning { executor, reason })
}

#[test]
fn an_executor_that_its_cluster_manager_ends_gets_no_more_tasks_and_blames_nobody() {
    let decommissioning = |id| decommissioning(id, "its worker leaves");
    for how in 0..3 {
        let mut scene = Scene::ready();
        scene.feed(introduces(9, 0));
        let out = scene.feed(decommissioning(0));
        assert!(matches!(out[0], RegistryEffect::Schedule(SchedulerInput::Task(_))), "{out:?}");
        scene.feed(decommissioning(0));
        scene.feed(decommissioning(5));
        assert_eq!(scene.registry.stale_messages(), 2, "once, and of those that are registered");
        let out = match how {
            0 => scene.feed(ended(0, End::Exited(Some(ExitStatus::Signal(15))))),
            1 => {
                scene.feed(RegistryEvent::ExecutorDisconnected { peer: Peer(9) });
                scene.wait(3_000)
            }
            _ => scene.wait(140_000),
        };
        assert_eq!(lost(&out), Some(false), "{how}");
    }
}

#[test]
fn a_decommissioned_executor_is_let_go_when_a_heartbeat_says_that_its_last_task_has_ended() {
    let decommissioning = decommissioning(0, "its pod was deleted");
    let heartbeat = |running| RegistryEvent::ReceivedExecutor {
        from: Peer(9),
        has_address: true,
        message: ToDriver::ExecutorHeartbeat { executor: ExecutorId(0), running },
    };
    for first in [true, false] {
        let mut scene = Scene::ready();
        let out = if first {
            scene.feed(introduces(9, 0));
            scene.feed(heartbeat(vec![]));
            assert!(!scene.registry.is_lost(ExecutorId(0)), "it may only have nothing to do");
            scene.feed(decommissioning.clone())
        } else {
            scene.feed(ordered(0));
            scene.feed(decommissioning.clone());
            scene.feed(introduces(9, 0))
        };
        let barred = |effect: &RegistryEffect| {
            matches!(effect, RegistryEffect::Schedule(SchedulerInput::Task(_)))
        };
        assert!(out.iter().any(barred), "{first}: {out:?}");
        assert_eq!(lost(&scene.feed(heartbeat(vec![TaskId(7)]))), None);
        let out = scene.feed(heartbeat(vec![]));
        assert_eq!((lost(&out), released(&out)), (Some(false), vec![ExecutorId(0)]));
        let tells = |effect: &RegistryEffect| {
            format!("{effect:?}").contains("its pod was deleted, and its last task has ended")
        };
        assert!(out.iter().any(tells), "{out:?}");
    }
}

#[test]
fn an_executor_that_is_silent_or_never_comes_is_declared_dead_and_replaced() {
    let mut scene = Scene::ready();
    scene.feed(introduces(9, 0));
    scene.feed(ordered(1));
    assert_eq!(lost(&scene.wait(120_000)), None);
    let out = scene.wait(15_000);
    assert_eq!(lost(&out), Some(true), "what it ran silenced it");
    assert_eq!(released(&out), [ExecutorId(0), ExecutorId(1)]);
    assert!(scene.registry.is_lost(ExecutorId(1)), "S04: it is too late for it");
}

#[test]
fn a_driver_that_stood_still_reads_what_came_meanwhile_before_it_judges_silence() {
    let mut scene = Scene::ready();
    scene.feed(introduces(9, 0));
    scene.feed(introduces(8, 1));
    let out = scene.tick_after(300_000);
    assert!(
        lost(&out).is_none() && !out.iter().any(|effect| matches!(effect, RegistryEffect::Drain))
    );
    let heartbeat = ToDriver::ExecutorHeartbeat { executor: ExecutorId(0), running: vec![] };
    scene.feed(RegistryEvent::ReceivedExecutor {
        from: Peer(9),
        has_address: true,
        message: heartbeat,
    });
    scene.wait(15_000);
    assert!(!scene.registry.is_lost(ExecutorId(0)), "it was only the driver that was silent");
    assert!(scene.registry.is_lost(ExecutorId(1)), "nothing of it had come");
}

#[test]
fn silence_is_judged_after_all_that_had_arrived_was_read() {
    let mut scene = Scene::ready();
    scene.feed(introduces(9, 0));
    scene.wait(119_000);
    scene.now = scene.now.plus_ms(14_000);
    let out = scene.feed(RegistryEvent::Ticked);
    assert!(out.iter().any(|effect| matches!(effect, RegistryEffect::Drain)), "{out:?}");
    let heartbeat = ToDriver::ExecutorHeartbeat { executor: ExecutorId(0), running: vec![] };
    scene.feed(RegistryEvent::ReceivedExecutor {
        from: Peer(9),
        has_address: true,
        message: heartbeat,
    });
    assert_eq!(lost(&scene.feed(RegistryEvent::Drained)), None);
}

#[test]
fn what_arrived_while_a_backlog_was_read_counts_as_heard() {
    let mut scene = Scene::ready();
    scene.feed(introduces(9, 0));
    scene.feed(introduces(8, 1));
    // Reading took longer than anybody may be silent, and heartbeats stand behind what was read.
    scene.now = scene.now.plus_ms(400_000);
    let arrived = [(Peer(9), Tick(scene.now.0 - 5_000))].into();
    scene.feed(RegistryEvent::Heard { arrived });
    scene.feed(RegistryEvent::Drained);
    assert!(!scene.registry.is_lost(ExecutorId(0)), "its heartbeats wait to be read");
    assert!(scene.registry.is_lost(ExecutorId(1)), "nothing of it had come");
}

#[test]
fn an_executor_that_did_not_say_where_it_serves_its_blocks_is_refused() {
    let mut scene = Scene::ready();
    let RegistryEvent::ReceivedExecutor { from, message, .. } = introduces(9, 0) else {
        panic!("another one")
    };
    let out = scene.feed(RegistryEvent::ReceivedExecutor { from, has_address: false, message });
    assert_eq!(refusal(&out), Some(Refusal::NoAddress));
    assert_eq!(scene.registry.executors().count(), 0);
}

#[test]
fn when_the_provider_fails_every_job_hears_why_and_everything_is_let_go() {
    let mut scene = Scene::ready();
    scene.feed(introduces(9, 0));
    let reason = "10 executors in a row".to_owned();
    let out = scene.feed(provider(ProviderEvent::Failed { reason }));
    let position = |is: fn(&RegistryEffect) -> bool| out.iter().position(is);
    let told =
        position(|effect| matches!(effect, RegistryEffect::Schedule(SchedulerInput::Dag(_))));
    let refuses = position(|effect| matches!(effect, RegistryEffect::EndApplication { .. }));
    assert!(refuses < told, "a job that comes between the two would wait for ever: {out:?}");
    let stopped = out.iter().any(|effect| {
        matches!(effect, RegistryEffect::SendExecutor { message: ToExecutor::StopExecutor, .. })
    });
    assert!(told.is_some() && stopped, "{out:?}");
    assert_eq!(commands(&out), [ProviderCommand::Stop]);
    assert!(end_of_application(&out).is_some_and(|reason| reason.contains("in a row")));
    assert!(scene.registry.is_over());
    assert_eq!(commands(&scene.feed(RegistryEvent::Stopped)), [], "once");
}

#[test]
fn the_provider_hears_what_is_wanted_who_came_and_which_nodes_are_excluded() {
    let options = RegistryOptions { target: Some(4), ..RegistryOptions::default() };
    let mut scene = Scene { registry: Registry::new(options), now: Tick(1000) };
    assert_eq!(commands(&scene.feed(RegistryEvent::Ticked)), [ProviderCommand::SetTarget(4)]);
    assert_eq!(commands(&scene.feed(RegistryEvent::Ticked)), []);
    let out = scene.feed(RegistryEvent::TargetChanged { total: 2 });
    assert_eq!(commands(&out), [ProviderCommand::SetTarget(2)]);
    let out = scene.feed(introduces(9, 7));
    let named = ProviderCommand::Named(AppId::new("app"));
    assert_eq!(commands(&out), [named, ProviderCommand::Registered(ExecutorId(7))]);
    assert_eq!(commands(&scene.feed(introduces(9, 7))), [], "it said so twice");
    let exclude =
        |node: &str, excluded| RegistryEvent::NodeExcluded { node: Host::new(node), excluded };
    scene.feed(exclude("a", true));
    let out = scene.feed(exclude("b", true));
    let both = ["a", "b"].map(Host::new).into();
    assert_eq!(commands(&out), [ProviderCommand::NodesExcluded(both)]);
    assert_eq!(commands(&scene.feed(exclude("b", true))), []);
    scene.feed(exclude("a", false));
    let out = scene.feed(exclude("b", false));
    assert_eq!(commands(&out), [ProviderCommand::NodesExcluded([].into())]);
    let out = scene.feed(RegistryEvent::KillRequested { executors: vec![ExecutorId(7)] });
    assert_eq!((released(&out), lost(&out)), (vec![ExecutorId(7)], Some(false)));
}

#[test]
fn what_a_provider_says_of_executors_that_are_over_or_unknown_is_counted_and_does_no_harm() {
    let mut scene = Scene::ready();
    scene.feed(introduces(9, 0));
    scene.feed(ended(0, End::Told));
    for event in [started(0), ended(0, End::Told), started(5), ended(6, End::Told)] {
        let before = scene.registry.stale_messages();
        let out = scene.feed(event.clone());
        assert!(lost(&out).is_none() && commands(&out).is_empty(), "{event:?}: {out:?}");
        assert_eq!(scene.registry.stale_messages(), before + 1, "{event:?}");
    }
    assert_eq!(
        refusal(&scene.feed(introduces(8, 6))),
        Some(Refusal::Lost),
        "it was said to be over"
    );
    scene.feed(ordered(7));
    scene.feed(ordered(7));
    scene.feed(introduces(7, 7));
    scene.feed(started(7));
    scene.feed(ordered(7));
    assert_eq!(scene.registry.stale_messages(), 4, "late, and true");
    assert_eq!(scene.registry.executors().collect::<Vec<_>>(), [ExecutorId(7)]);
}

#[test]
fn an_executor_that_starts_late_has_its_time_to_register() {
    let mut scene = Scene::ready();
    scene.feed(ordered(0));
    scene.wait(110_000);
    scene.feed(started(0));
    assert_eq!(released(&scene.wait(119_000)), []);
    assert_eq!(released(&scene.wait(20_000)), [ExecutorId(0)]);
}

#[test]
fn a_shortage_is_told_once_and_again_after_it_was_over() {
    let mut scene = Scene::ready();
    let mut told = |shortage: Option<&str>| {
        let shortage = shortage.map(str::to_owned);
        let out = scene.feed(provider(ProviderEvent::Capacity(Capacity { shortage })));
        let is_told =
            |effect: &&RegistryEffect| matches!(effect, RegistryEffect::TellShortage { .. });
        out.iter().filter(is_told).count()
    };
    let all = [Some("full"), Some("full"), None, None, Some("full"), Some("gone")];
    assert_eq!(all.map(&mut told), [1, 0, 1, 0, 1, 1]);
    assert_eq!(scene.registry.shortage(), Some("gone"));
}

#[test]
fn an_executor_is_not_late_while_its_node_fetches_what_it_needs_and_one_that_stands_still_is() {
    let mut scene = Scene::ready();
    scene.feed(ordered(1));
    scene.feed(started(1));
    let prepares = |bytes, waits| {
        let (executor, preparing) = (ExecutorId(1), Preparing { bytes, of: 1000, waits });
        provider(ProviderEvent::Preparing { executor, preparing })
    };
    for step in 1..=5 {
        assert!(!scene.wait(110_000).iter().any(|effect| releases(effect, 1)), "{step}");
        scene.feed(if step < 4 { prepares(10 * step, 0) } else { prepares(30, step) });
    }
    scene.wait(60_000);
    scene.feed(prepares(30, 5));
    assert!(scene.wait(80_000).iter().any(|effect| releases(effect, 1)), "it said nothing new");
    assert!(scene.registry.is_lost(ExecutorId(1)));
}

#[test]
fn an_executor_that_was_declared_dead_while_it_was_prepared_is_said_to_have_been() {
    let preparing = Preparing { bytes: 5, of: 7, waits: 0 };
    let reason = super::executors::never(Some(preparing), 120_000);
    assert!(
        reason.contains("5 of 7 bytes") && reason.contains("spark.network.timeout"),
        "{reason}"
    );
    let ready = Preparing { bytes: 7, ..preparing };
    assert_eq!(super::executors::never(Some(ready), 1), super::executors::never(None, 1));
}

#[test]
fn a_provider_that_orders_a_lost_executor_once_more_is_told_to_end_it() {
    let mut scene = Scene::ready();
    scene.feed(ordered(1));
    scene.feed(introduces(31, 1));
    assert!(lost(&scene.feed(ended(1, End::Exited(None)))).is_some());
    // A master that was started since adopts it: it knows nothing of the loss.
    assert_eq!(released(&scene.feed(ordered(1))), [ExecutorId(1)]);
    assert_eq!(released(&scene.feed(ordered(2))), []);
}

fn releases(effect: &RegistryEffect, executor: u32) -> bool {
    let released = |ids: &[ExecutorId]| ids.contains(&ExecutorId(executor));
    matches!(effect, RegistryEffect::Provider(ProviderCommand::Release(ids)) if released(ids))
}
