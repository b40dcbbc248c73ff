//! Rules of the allocator: these events, those effects. Tests of a fault scenario begin with its number
//! (docs/internals/kubernetes.md).

mod api;
mod claims;
mod losses;
mod observing;
mod rounds;

use firesteel_backend::AppId;
use firesteel_backend::blame::End;
use firesteel_backend::jitter::Jitter;
use firesteel_backend::provider::{ProviderCommand, ProviderEvent};
use firesteel_types::{ExecutorId, Host, Tick};

use super::*;
use crate::api::ApiError;
use crate::names::pod_name;
use crate::options::AllocatorOptions;
use crate::pod::{Container, ContainerState, Phase, Pod, StatusReason};
use crate::{Generation, PodName, PodUid, Version};

const OWN: Generation = Generation(5);

/// An allocator, its clock, and an API server's versions.
struct Scene {
    allocator: Allocator,
    now: Tick,
    version: u64,
    /// The list and the watch that were asked for last.
    list: u64,
    watch: u64,
    claims_list: u64,
}

fn options() -> AllocatorOptions {
    AllocatorOptions { batch_size: 5, ..AllocatorOptions::new(AppId::new("app"), "a", OWN) }
}

impl Scene {
    /// Nothing was asked for but a list.
    fn new(options: AllocatorOptions) -> Self {
        let allocator = Allocator::new(options, Jitter::new(1));
        let mut scene = Scene {
            allocator,
            now: Tick(1_000_000),
            version: 100,
            list: 0,
            watch: 0,
            claims_list: 0,
        };
        scene.feed(AllocatorEvent::Ticked);
        scene
    }

    /// It wants so many executors and knows that there is no pod; its requests of the first round come with it.
    fn wanting(options: AllocatorOptions, target: u32) -> (Self, Vec<AllocatorEffect>) {
        let mut scene = Scene::new(options);
        scene.command(ProviderCommand::SetTarget(target));
        let out = scene.lists(vec![]);
        (scene, out)
    }

    /// It has so many executors that work.
    fn working(options: AllocatorOptions, target: u32) -> Self {
        let (mut scene, _) = Scene::wanting(options, target);
        while scene.allocator.healthy() < target {
            for id in 1..=target {
                scene.works(id);
            }
            scene.wait(1000);
        }
        scene
    }

    fn feed(&mut self, event: AllocatorEvent) -> Vec<AllocatorEffect> {
        let mut out = Vec::new();
        self.allocator.handle(self.now, event, &mut out);
        for effect in &out {
            match effect {
                AllocatorEffect::ListPods { number } => self.list = *number,
                AllocatorEffect::WatchPods { number, .. } => self.watch = *number,
                AllocatorEffect::ListClaims { number } => self.claims_list = *number,
                _ => {}
            }
        }
        out
    }

    fn command(&mut self, command: ProviderCommand) -> Vec<AllocatorEffect> {
        self.feed(AllocatorEvent::Command(command))
    }

    /// Time passes, second by second.
    fn wait(&mut self, ms: u64) -> Vec<AllocatorEffect> {
        let mut out = Vec::new();
        for _ in 0..ms.div_ceil(1000) {
            self.now = self.now.plus_ms(1000.min(ms));
            out.extend(self.feed(AllocatorEvent::Ticked));
        }
        out
    }

    fn lists(&mut self, pods: Vec<Pod>) -> Vec<AllocatorEffect> {
        self.version += 1;
        let list = PodList { version: Version(self.version), pods };
        self.feed(AllocatorEvent::Listed { number: self.list, answer: Ok(list) })
    }

    fn pod(&mut self, id: u32) -> Pod {
        self.version += 1;
        Pod {
            name: pod_name("a", ExecutorId(id)),
            uid: PodUid::new(&format!("uid-{id}")),
            version: Version(self.version),
            app: Some(AppId::new("app")),
            executor: Some(ExecutorId(id)),
            generation: Some(OWN),
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

    fn on_node(&mut self, id: u32, phase: Phase, state: ContainerState) -> Pod {
        let containers = vec![Container { is_executor: true, state }];
        Pod { phase, node: Some(Host::new("n")), containers, ..self.pod(id) }
    }

    fn running(&mut self, id: u32) -> Pod {
        self.on_node(id, Phase::Running, ContainerState::Running)
    }

    fn ended(&mut self, id: u32, exit_code: i32, reason: &str) -> Pod {
        let state = ContainerState::Terminated {
            exit_code,
            reason: reason.to_owned(),
            message: String::new(),
        };
        self.on_node(id, Phase::Failed, state)
    }

    fn waiting(&mut self, id: u32, reason: &str, message: &str) -> Pod {
        self.on_node(
            id,
            Phase::Pending,
            ContainerState::Waiting(StatusReason::new(reason, message)),
        )
    }

    fn sees(&mut self, pod: Pod) -> Vec<AllocatorEffect> {
        let (number, change) = (self.watch, Change::Applied(pod));
        self.feed(AllocatorEvent::Watched { number, change: Box::new(change) })
    }

    fn sees_gone(&mut self, pod: Pod) -> Vec<AllocatorEffect> {
        let (number, change) = (self.watch, Change::Deleted(pod));
        self.feed(AllocatorEvent::Watched { number, change: Box::new(change) })
    }

    fn answers(&mut self, id: u32, answer: Result<Pod, ApiError>) -> Vec<AllocatorEffect> {
        let answer = answer.map(|pod| Box::new(CreateAnswer { pod, existed: false }));
        self.feed(AllocatorEvent::Created { executor: ExecutorId(id), attempt: 1, answer })
    }

    fn refuses(&mut self, id: u32, attempt: u32, error: ApiError) -> Vec<AllocatorEffect> {
        self.feed(AllocatorEvent::Created { executor: ExecutorId(id), attempt, answer: Err(error) })
    }

    /// Its pod is created, runs, and its executor registers.
    fn works(&mut self, id: u32) -> Vec<AllocatorEffect> {
        let pod = self.pod(id);
        let mut out = self.answers(id, Ok(pod));
        let pod = self.running(id);
        out.extend(self.sees(pod));
        out.extend(self.command(ProviderCommand::Registered(ExecutorId(id))));
        out
    }

    fn deleted(&mut self, id: u32, answer: Result<(), ApiError>) -> Vec<AllocatorEffect> {
        self.feed(AllocatorEvent::Deleted { uid: PodUid::new(&format!("uid-{id}")), answer })
    }
}

/// Executors whose pods are asked for.
fn asked(out: &[AllocatorEffect]) -> Vec<u32> {
    let asked = out.iter().filter_map(|effect| match effect {
        AllocatorEffect::CreatePod(request) => Some(request.executor.0),
        _ => None,
    });
    asked.collect()
}

fn avoided(out: &[AllocatorEffect]) -> Vec<Host> {
    let asked = out.iter().find_map(|effect| match effect {
        AllocatorEffect::CreatePod(request) => Some(request.avoid.iter().cloned().collect()),
        _ => None,
    });
    asked.unwrap_or_default()
}

fn last_choices(out: &[AllocatorEffect]) -> Vec<Host> {
    let asked = out.iter().find_map(|effect| match effect {
        AllocatorEffect::CreatePod(request) => Some(request.last_choice.iter().cloned().collect()),
        _ => None,
    });
    asked.unwrap_or_default()
}

/// UIDs of pods to be deleted, and whether by force.
fn deletes(out: &[AllocatorEffect]) -> Vec<(String, bool)> {
    let deletes = out.iter().filter_map(|effect| match effect {
        AllocatorEffect::DeletePod { uid, grace_ms, .. } => Some((uid.to_string(), *grace_ms == 0)),
        _ => None,
    });
    deletes.collect()
}

fn keeps(out: &[AllocatorEffect]) -> usize {
    out.iter().filter(|effect| matches!(effect, AllocatorEffect::KeepPod { .. })).count()
}

fn ends(out: &[AllocatorEffect]) -> Vec<(u32, End)> {
    let ends = out.iter().filter_map(|effect| match effect {
        AllocatorEffect::Report(ProviderEvent::Ended { executor, end, .. }) => {
            Some((executor.0, *end))
        }
        _ => None,
    });
    ends.collect()
}

/// The reason of the only end there is.
fn reason(out: &[AllocatorEffect]) -> String {
    let reason = out.iter().find_map(|effect| match effect {
        AllocatorEffect::Report(ProviderEvent::Ended { reason, .. }) => Some(reason.clone()),
        _ => None,
    });
    reason.unwrap_or_default()
}

fn failed(out: &[AllocatorEffect]) -> Option<String> {
    out.iter().find_map(|effect| match effect {
        AllocatorEffect::Report(ProviderEvent::Failed { reason }) => Some(reason.clone()),
        _ => None,
    })
}

/// What the user heard last about missing executors.
fn shortage(out: &[AllocatorEffect]) -> Option<Option<String>> {
    out.iter().rev().find_map(|effect| match effect {
        AllocatorEffect::Report(ProviderEvent::Capacity(capacity)) => {
            Some(capacity.shortage.clone())
        }
        _ => None,
    })
}

fn lists(out: &[AllocatorEffect]) -> usize {
    out.iter().filter(|effect| matches!(effect, AllocatorEffect::ListPods { .. })).count()
}

/// Versions from which is watched.
fn watches(out: &[AllocatorEffect]) -> Vec<u64> {
    let watches = out.iter().filter_map(|effect| match effect {
        AllocatorEffect::WatchPods { from, .. } => Some(from.0),
        _ => None,
    });
    watches.collect()
}
