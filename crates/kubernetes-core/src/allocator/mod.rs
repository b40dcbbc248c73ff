//! The pod allocator: a provider of executors that keeps the wanted number of them healthy.
//!
//! ```text
//!             SetTarget, Release, ...               CreatePod, DeletePod, ListPods, WatchPods
//!  registry ─────────────────────────► allocator ──────────────────────────────────────────► API server
//!           ◄─────────────────────────           ◄──────────────────────────────────────────
//!             Ordered, Started, Ended, ...          answers, lists, changes
//! ```
//!
//! An executor goes through stages, and has a deadline in each:
//!
//! ```text
//!  Requested ──► Created ──► Pending ──► Scheduled ──► Running ──► registered      counts towards the target
//!      └─────────────┴───────────┴────────────┴────────────┴───► Leaving, or over  is replaced
//! ```
//!
//! | file | decides |
//! |---|---|
//! | `core` | where events go, when to look at the clock, how the application ends |
//! | `creating` | when to ask for which pods, what an answer means |
//! | `seeing` | what lists and watches say about executors, and when one is over |
//! | `expiring` | deadlines of stages |
//! | `deleting` | pods that are to go, until they are gone |
//! | `rolling` | which executor is replaced so that none grows old |
//! | `observing` | when to list, where to watch from |
//! | `mounting` | which claims of volumes pods mount, and which are deleted |
//! | `why` | why executors are missing |
//!
//! `slots` keeps the executors, `claims` the claims of volumes, `observer` the list and the watch, `deletions` the pods to be deleted, `kept` those left for people, `backoff` what is not to be
//! tried before when, `failures` how many executors failed and where.

mod backoff;
mod claims;
mod core;
mod creating;
mod deleting;
mod deletions;
mod expiring;
mod failures;
mod kept;
mod mounting;
mod observer;
mod observing;
mod rolling;
mod seeing;
mod slots;
#[cfg(test)]
mod tests;
mod why;

pub use self::core::{
    Allocator, AllocatorEffect, AllocatorEvent, Change, CreateAnswer, PodList, PodRequest,
};
pub use why::{Missing, Why};
