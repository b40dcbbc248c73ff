//! Applications on a real Kubernetes cluster: two nodes with kubelets, real pods, real faults. Each test prints how long it took
//! until a fault was noticed, and until the wanted executors were there again.
//!
//! The application is this very executable, in an image that `firesteel image` packs.

mod apiserver;
mod application;
mod client_mode;
mod cluster;
mod cluster_mode;
mod deployed;
mod lies;
mod locality;
mod platform;
mod proxy;
mod refusals;
