//! What a seed decides before a run begins. Some runs are calm, some savage; some clusters will never have what is wanted.

use fastrand::Rng;
use firesteel_backend::AppId;
use firesteel_kubernetes_core::mutant::Planted;
use firesteel_kubernetes_core::options::{
    AllocatorOptions, ClaimOptions, Deadlines, Keep, Unschedulable, Waits,
};
use firesteel_kubernetes_core::{Generation, PodUid, VolumeName};

use super::faults::Fault;
use super::first_number;

/// `spark.network.timeout` of every run.
pub(super) const NETWORK_TIMEOUT_MS: u64 = 3000;
/// How long the registry waits for why a connection broke.
pub(super) const REASON_WAIT_MS: u64 = 400;
pub(super) const HEARTBEAT_MS: u64 = 800;
/// After the last fault, everything must be as it is to be by then.
pub(super) const DEADLINE_MS: u64 = 60_000;
/// How often the world looks whether it is.
pub(super) const LOOK_MS: u64 = 500;
/// A deleted pod is replaced by an executor that works within this time.
pub(super) const NOTICE_MS: u64 = 3500;
/// Executors on a node that vanishes are replaced by others that work within the network timeout, a look of the registry, and this
/// time. Scheduler and node controller know nothing of it until then.
pub(super) const VANISHED_MS: u64 = NETWORK_TIMEOUT_MS * 9 / 8 + NOTICE_MS;
/// How long requests may take.
pub(super) const REQUEST_MS: u64 = 700;
/// How long it takes until nodes that are silent count as such, and until their pods are deleted.
pub(super) const NOT_READY_MS: u64 = 900;
pub(super) const EVICTED_MS: u64 = 1800;
/// The node that goes for good, if one does.
pub(super) const GONE: usize = 1;
/// The pod that driver processes run in.
pub(super) const DRIVER: &str = "driver";
/// After this time nobody counts on it any more.
pub(super) const GONE_MS: u64 = 8000;

/// What stands in the application's way from the beginning to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    None,
    /// Nobody may create pods.
    NoRight,
    InvalidPod,
    /// An admission webhook takes labels away.
    Relabels,
    /// The image does not exist.
    BadImage,
    /// The container's configuration refers to what does not exist.
    BadConfig,
    /// Every executor crashes before it registers.
    CrashLoop,
    /// No executor ever registers.
    Mute,
    /// Fewer pods than wanted are allowed.
    SmallQuota,
    /// Nodes have room for fewer pods than wanted.
    SmallNodes,
}

impl Obstacle {
    /// What the user has to read about it.
    pub(super) fn words(self) -> &'static str {
        match self {
            Obstacle::None => "",
            Obstacle::NoRight => "cannot create resource",
            Obstacle::InvalidPod => "spec is wrong",
            Obstacle::Relabels => "admission webhook",
            Obstacle::BadImage => "no such image",
            Obstacle::BadConfig => "secret not found",
            Obstacle::CrashLoop => "exit code 1",
            Obstacle::Mute => "never registered",
            Obstacle::SmallQuota => "exceeded quota",
            Obstacle::SmallNodes => "nodes are available",
        }
    }

    /// Whether the application has to end for it.
    pub(super) fn is_fatal(self) -> bool {
        !matches!(self, Obstacle::None | Obstacle::SmallQuota | Obstacle::SmallNodes)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct NodePlan {
    pub(super) slots: u32,
    /// No executor ever starts there.
    pub(super) bad: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) target: u32,
    pub(super) nodes: Vec<NodePlan>,
    pub(super) obstacle: Obstacle,
    pub(super) batch_size: u32,
    pub(super) batch_delay_ms: u64,
    pub(super) max_pending: u32,
    pub(super) max_failures: Option<u32>,
    pub(super) keep: Keep,
    /// Per cent.
    pub(super) request_loss: u8,
    pub(super) answer_loss: u8,
    /// Requests that nobody ever answers, that are carried out late, lists that are out of date, changes that a watch leaves
    /// out: per cent of them.
    pub(super) silence: u8,
    pub(super) late: u8,
    pub(super) stale: u8,
    pub(super) skipped: u8,
    pub(super) delay_ms: u64,
    pub(super) faults: Vec<(u64, Fault)>,
    /// The second node never comes back; whether its processes run on.
    pub(super) gone: Option<bool>,
    /// The executor whose name a pod of another application has.
    pub(super) stranger: Option<u32>,
    /// The executor whose number a pod has of another driver, whose application has the same id.
    pub(super) sibling: Option<u32>,
    pub(super) quiet_at: u64,
}

fn obstacle(rng: &mut Rng) -> Obstacle {
    match rng.u8(..40) {
        0 => Obstacle::NoRight,
        1 => Obstacle::InvalidPod,
        2 => Obstacle::Relabels,
        3 => Obstacle::BadImage,
        4 => Obstacle::BadConfig,
        5 => Obstacle::CrashLoop,
        6 => Obstacle::Mute,
        7..=8 => Obstacle::SmallQuota,
        9..=10 => Obstacle::SmallNodes,
        _ => Obstacle::None,
    }
}

impl Plan {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        let quiet_at = 1500 + rng.u64(..6000);
        let (target, obstacle) = (rng.u32(1..7), obstacle(rng));
        let savage = rng.u8(..3) == 0;
        let percent = |rng: &mut Rng| if savage { rng.u8(..4) * rng.u8(..10) } else { 0 };
        let faults = if rng.u8(..8) == 0 { 0 } else { rng.usize(..14) };
        let spare = if obstacle == Obstacle::SmallNodes { 0 } else { target + 3 };
        let slots = [spare.max(target - 1), spare / 2 + 1];
        let bad = rng.u8(..6) == 0 && obstacle == Obstacle::None;
        let mut nodes: Vec<_> =
            slots.iter().map(|slots| NodePlan { slots: *slots, bad: false }).collect();
        if obstacle == Obstacle::SmallNodes {
            nodes.truncate(1);
        }
        if bad {
            nodes.push(NodePlan { slots: 9, bad });
        }
        let few = rng.u8(..4) == 0;
        let loops = matches!(obstacle, Obstacle::CrashLoop | Obstacle::Mute);
        Plan {
            target,
            nodes,
            obstacle,
            batch_size: rng.u32(1..5),
            batch_delay_ms: 50 + rng.u64(..250),
            max_pending: if few { rng.u32(1..4) } else { u32::MAX },
            max_failures: (rng.bool() && !loops).then_some(40),
            keep: [Keep::None, Keep::Failures(3), Keep::Failures(10), Keep::All(4)][rng.usize(..4)],
            request_loss: percent(rng),
            answer_loss: percent(rng),
            silence: percent(rng) / 3,
            late: percent(rng) / 2,
            stale: percent(rng).saturating_mul(3).min(90),
            skipped: percent(rng),
            delay_ms: 2 + rng.u64(..3) * rng.u64(..30),
            faults: (0..faults).map(|_| (rng.u64(..quiet_at), Fault::draw(rng))).collect(),
            gone: (rng.u8(..8) == 0 && obstacle == Obstacle::None).then(|| rng.bool()),
            stranger: (rng.u8(..8) == 0).then(|| first_number(1) + rng.u32(..4)),
            sibling: (quiet_at % 8 == 1).then(|| first_number(1)),
            quiet_at,
        }
    }

    /// The rules of an allocator of this run.
    pub(super) fn options(&self, generation: u64, planted: Planted) -> AllocatorOptions {
        AllocatorOptions {
            owner: Some(PodUid::new(DRIVER)),
            first_number: first_number(generation),
            batch_size: self.batch_size,
            batch_delay_ms: self.batch_delay_ms,
            max_pending: self.max_pending,
            polling_ms: 6000,
            grace_ms: 800,
            keep: self.keep,
            unschedulable: Unschedulable::Wait,
            max_failures: self.max_failures,
            node_excluded_ms: 3000,
            short_lived_ms: 1000,
            shortage_ms: 1000,
            claims: self.claims(),
            deadlines: Deadlines {
                request_ms: REQUEST_MS,
                seen_ms: 1500,
                scheduled_ms: 4000,
                accepted_ms: 5000,
                doubted_ms: 400,
                started_ms: 7500,
                image_ms: 1500,
                attached_ms: 3000,
                registered_ms: 1500,
                explained_ms: 3 * REASON_WAIT_MS,
                terminated_ms: 700,
                watch_idle_ms: 2500,
                regression_ms: 20_000,
                api_ms: 40_000,
            },
            waits: Waits { first_ms: 100, longest_ms: 1500 },
            planted,
            ..AllocatorOptions::new(AppId::new("app"), "app", Generation(generation))
        }
    }

    /// In a quarter of all runs pods have a volume each, whose claims are reused.
    fn claims(&self) -> ClaimOptions {
        let volumes = match self.quiet_at % 4 {
            0 => vec![VolumeName::new("spark-local-dir-1")],
            _ => Vec::new(),
        };
        ClaimOptions { volumes, reuse: true, wait_to_reuse: false }
    }

    /// How many executors may fail.
    pub(super) fn failure_limit(&self, target: u32) -> u32 {
        self.max_failures.unwrap_or((2 * target).max(3))
    }
}
