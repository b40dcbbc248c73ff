//! Claims of volumes: which pod mounts which, and which go.

use super::*;
use crate::claim::{Claim, ClaimList, Mount};
use crate::options::ClaimOptions;
use crate::{ClaimName, VolumeName};

const VOLUME: &str = "spark-local-dir-1";

fn with_claims(reuse: bool, wait_to_reuse: bool) -> AllocatorOptions {
    let volumes = vec![VolumeName::new(VOLUME)];
    AllocatorOptions { claims: ClaimOptions { volumes, reuse, wait_to_reuse }, ..options() }
}

fn claim(name: &str) -> Claim {
    Claim { name: ClaimName::new(name), volume: VolumeName::new(VOLUME), unusable: false }
}

impl Scene {
    fn lists_claims(&mut self, claims: Vec<Claim>) -> Vec<AllocatorEffect> {
        self.version += 1;
        let list = ClaimList { version: Version(self.version), claims };
        self.feed(AllocatorEvent::ClaimsListed { number: self.claims_list, answer: Ok(list) })
    }

    /// It wants so many executors, and knows that there are these claims and no pod.
    fn with_claims(
        options: AllocatorOptions,
        target: u32,
        claims: Vec<Claim>,
    ) -> (Self, Vec<Mount>) {
        let (mut scene, out) = Scene::wanting(options, target);
        assert_eq!(asked(&out), [] as [u32; 0], "before it is known which claims there are");
        let out = scene.lists_claims(claims);
        (scene, mounts(&out))
    }
}

/// What pods that are asked for mount.
fn mounts(out: &[AllocatorEffect]) -> Vec<Mount> {
    let mounts = out.iter().filter_map(|effect| match effect {
        AllocatorEffect::CreatePod(request) => Some(request.mounts.clone()),
        _ => None,
    });
    mounts.flatten().collect()
}

/// Names of claims, and whether they are new.
fn names(mounts: &[Mount]) -> Vec<(&str, bool)> {
    mounts.iter().map(|mount| (mount.claim.0.as_ref(), mount.is_new)).collect()
}

fn deleted_claims(out: &[AllocatorEffect]) -> Vec<String> {
    let deleted = out.iter().filter_map(|effect| match effect {
        AllocatorEffect::DeleteClaim { name } => Some(name.to_string()),
        _ => None,
    });
    deleted.collect()
}

#[test]
fn a_pod_mounts_a_claim_of_its_own_and_the_next_one_that_of_a_pod_that_is_gone() {
    let (mut scene, first) = Scene::with_claims(with_claims(true, false), 2, vec![]);
    assert_eq!(names(&first), [("a-exec-1-pvc-0", true), ("a-exec-2-pvc-0", true)]);
    scene.works(1);
    scene.works(2);
    // It is about to end: its claim is not free yet.
    let pod = Pod { terminating: true, ..scene.running(1) };
    let mut out = scene.sees(pod);
    out.extend(scene.wait(1000));
    assert_eq!(names(&mounts(&out)), [("a-exec-3-pvc-0", true)]);
    scene.works(3);
    let pod = scene.running(1);
    scene.sees_gone(pod);
    let pod = scene.running(2);
    let mut out = scene.sees_gone(pod);
    out.extend(scene.wait(1000));
    assert_eq!(names(&mounts(&out)), [("a-exec-1-pvc-0", false)], "it exists, and is free");
}

#[test]
fn a_request_that_is_made_again_asks_for_the_same_claims() {
    let (mut scene, first) = Scene::with_claims(with_claims(true, false), 1, vec![]);
    let mut out = scene.refuses(1, 1, ApiError::Unavailable("etcd".to_owned()));
    while asked(&out).is_empty() {
        out.extend(scene.wait(1000));
    }
    assert_eq!(mounts(&out), first);
}

#[test]
fn claims_are_not_reused_where_that_is_not_wanted() {
    let (mut scene, _) = Scene::with_claims(with_claims(false, false), 1, vec![]);
    scene.works(1);
    let pod = scene.running(1);
    let mut out = scene.sees_gone(pod);
    out.extend(scene.wait(1000));
    assert_eq!(names(&mounts(&out)), [("a-exec-2-pvc-0", true)]);
}

#[test]
fn where_claims_are_waited_for_there_are_no_more_than_executors_and_the_user_hears_of_it() {
    let (mut scene, _) = Scene::with_claims(with_claims(true, true), 1, vec![]);
    scene.works(1);
    let pod = Pod { terminating: true, ..scene.running(1) };
    let mut out = scene.sees(pod);
    out.extend(scene.wait(12_000));
    assert_eq!(asked(&out), [] as [u32; 0]);
    let told = scene.allocator.shortage(scene.now).unwrap_or_default();
    assert!(told.contains("waitToReusePersistentVolumeClaim"), "{told}");
    let pod = scene.running(1);
    let mut out = scene.sees_gone(pod);
    out.extend(scene.wait(1000));
    assert_eq!(names(&mounts(&out)), [("a-exec-1-pvc-0", false)]);
}

#[test]
fn s30_a_driver_that_was_started_again_reuses_claims_when_the_pods_that_had_them_are_gone() {
    let mut scene = Scene::new(with_claims(true, false));
    scene.command(ProviderCommand::SetTarget(1));
    let left = Pod {
        generation: Some(Generation(4)),
        claims: vec![ClaimName::new("a-exec-9-pvc-0")],
        ..scene.running(9)
    };
    scene.lists(vec![left]);
    let claims = vec![claim("a-exec-8-pvc-0"), claim("a-exec-9-pvc-0")];
    let out = scene.lists_claims(claims);
    assert_eq!(names(&mounts(&out)), [("a-exec-8-pvc-0", false)], "the other one is mounted");
    scene.works(10);
    scene.deleted(9, Err(ApiError::NotFound));
    let mut out = scene.command(ProviderCommand::SetTarget(2));
    out.extend(scene.wait(1000));
    assert_eq!(names(&mounts(&out)), [("a-exec-9-pvc-0", false)]);
}

#[test]
fn s28_a_pod_to_which_the_volume_of_another_does_not_come_is_replaced_with_another_claim() {
    let (mut scene, first) =
        Scene::with_claims(with_claims(true, false), 1, vec![claim("a-exec-0-pvc-0")]);
    assert_eq!(names(&first), [("a-exec-0-pvc-0", false)]);
    let pod = scene.waiting(1, "ContainerCreating", "");
    scene.sees(pod.clone());
    let mut out = Vec::new();
    while ends(&out).is_empty() {
        assert!(scene.now < Tick(1_200_000), "not in time");
        out.extend(scene.wait(1000));
        scene.lists(vec![pod.clone()]);
    }
    assert_eq!(ends(&out), [(1, End::Told)], "nobody's fault");
    assert!(reason(&out).contains("volume"), "{}", reason(&out));
    out.extend(scene.wait(1000));
    assert_eq!(deleted_claims(&out), ["a-exec-0-pvc-0"]);
    assert_eq!(names(&mounts(&out)), [("a-exec-2-pvc-0", true)]);
}

#[test]
fn claims_that_go_or_have_lost_their_volume_are_left_alone() {
    let lost = Claim { unusable: true, ..claim("a-exec-0-pvc-0") };
    let (_, first) = Scene::with_claims(with_claims(true, false), 1, vec![lost]);
    assert_eq!(names(&first), [("a-exec-1-pvc-0", true)]);
}

#[test]
fn s36_an_application_that_ends_deletes_its_claims_also_one_that_is_created_late() {
    let (mut scene, _) = Scene::with_claims(with_claims(true, false), 1, vec![]);
    scene.works(1);
    let out = scene.command(ProviderCommand::Stop);
    assert_eq!(deleted_claims(&out), ["a-exec-1-pvc-0"]);
    let name = ClaimName::new("a-exec-1-pvc-0");
    scene.feed(AllocatorEvent::ClaimDeleted { name, answer: Ok(()) });
    scene.deleted(1, Err(ApiError::NotFound));
    scene.lists(vec![]);
    assert!(!scene.allocator.is_over(), "nobody has looked for claims");
    let out = scene.lists_claims(vec![claim("a-exec-7-pvc-0")]);
    assert_eq!(deleted_claims(&out), ["a-exec-7-pvc-0"]);
    let name = ClaimName::new("a-exec-7-pvc-0");
    scene.feed(AllocatorEvent::ClaimDeleted { name, answer: Err(ApiError::NotFound) });
    assert!(scene.allocator.is_over());
}

#[test]
fn a_claim_that_was_made_after_it_was_found_missing_is_deleted_again() {
    let (mut scene, _) = Scene::with_claims(with_claims(true, false), 1, vec![]);
    scene.works(1);
    let out = scene.command(ProviderCommand::Stop);
    assert_eq!(deleted_claims(&out), ["a-exec-1-pvc-0"]);
    scene.deleted(1, Err(ApiError::NotFound));
    scene.lists(vec![]);
    scene.lists_claims(vec![claim("a-exec-1-pvc-0")]);
    let name = ClaimName::new("a-exec-1-pvc-0");
    let late = AllocatorEvent::ClaimDeleted { name: name.clone(), answer: Err(ApiError::NotFound) };
    scene.feed(late.clone());
    assert!(!scene.allocator.is_over(), "a list has shown it since");
    let out = scene.wait(1000);
    assert_eq!(deleted_claims(&out), ["a-exec-1-pvc-0"]);
    scene.feed(late);
    assert!(scene.allocator.is_over());
}

#[test]
fn the_claim_of_a_pod_that_may_be_there_is_not_free_before_a_list_has_shown_that_it_is_not() {
    let (mut scene, _) = Scene::with_claims(with_claims(true, false), 1, vec![]);
    scene.refuses(1, 1, ApiError::Unreachable("timeout".to_owned()));
    scene.command(ProviderCommand::SetTarget(0));
    scene.wait(25_000);
    let mut out = scene.command(ProviderCommand::SetTarget(1));
    out.extend(scene.wait(1000));
    assert_eq!(names(&mounts(&out)), [("a-exec-2-pvc-0", true)], "nobody has looked");
    scene.lists(vec![]);
    let mut out = scene.command(ProviderCommand::SetTarget(2));
    out.extend(scene.wait(1000));
    assert_eq!(names(&mounts(&out)), [("a-exec-1-pvc-0", true)]);
}

#[test]
fn a_pod_for_which_no_node_has_room_keeps_its_claim_and_one_whose_volume_is_elsewhere_does_not() {
    for (words, goes) in
        [("2 Insufficient cpu", false), ("2 had volume node affinity conflict", true)]
    {
        let (mut scene, _) =
            Scene::with_claims(with_claims(true, false), 1, vec![claim("a-exec-0-pvc-0")]);
        let pod = Pod { unschedulable: Some(words.to_owned()), ..scene.pod(1) };
        scene.answers(1, Ok(pod.clone()));
        scene.sees(pod.clone());
        let mut out = Vec::new();
        for _ in 0..200 {
            out.extend(scene.wait(1000));
            scene.lists(vec![pod.clone()]);
        }
        assert_eq!(deleted_claims(&out).is_empty(), !goes, "{words}");
        assert_eq!(ends(&out).is_empty(), !goes, "{words}");
    }
}

#[test]
fn s19_claims_that_nobody_may_list_end_an_application_without_executors() {
    let (mut scene, _) = Scene::wanting(with_claims(true, false), 1);
    let words = "cannot list resource \"persistentvolumeclaims\"";
    let answer = Err(ApiError::Forbidden(words.to_owned()));
    let out = scene.feed(AllocatorEvent::ClaimsListed { number: scene.claims_list, answer });
    assert!(failed(&out).is_some_and(|reason| reason.contains(words)));
}
