//! Executors on Kubernetes, decided purely: which pods to create and to delete, how an executor ended and whose fault
//! that is, why one that is wanted is missing. Talking to an API server is the shell's business.
//!
//! | module | owns |
//! |---|---|
//! | [`allocator`] | the state machine: target and pods in, requests and ends out; a provider of executors |
//! | [`pod`] | a pod as the API server shows it, and what its state means |
//! | [`cause`] | why an executor is over: blame, whether it counts, whether its pod is kept |
//! | [`claim`] | claims of volumes that pods mount |
//! | [`api`] | what an API server's refusal means |
//! | [`names`] | pods by name: the same executor always has the same |
//! | [`options`] | what users may set |
//!
//! Architecture Invariant: a request may be lost, carried out without an answer, or carried out late, and nothing comes of
//! it. A pod's name says which executor it is, so that a request that is made again does nothing; a label says
//! which driver process asked for it; a pod is deleted by its UID.

pub mod allocator;
pub mod api;
pub mod cause;
pub mod claim;
pub mod mutant;
pub mod names;
pub mod options;
pub mod pod;

pub use claim::{ClaimName, VolumeName};
pub use pod::{Generation, PodName, PodUid, Version};
