//! Applications on Kubernetes: the shell around the pod allocator, and the client that submits drivers.
//!
//! | module | owns |
//! |---|---|
//! | [`provider`] | executors for a driver: carries out what the allocator of `firesteel-kubernetes-core` decides |
//! | [`submit`] | drivers that the cluster runs: creates them, waits for them, ends them |
//! | `pod` | pods as they are asked for, and as the API server shows them |
//! | `connect` | how to reach an API server, and who asks |
//! | `answer` | what became of a request |
//! | `retry_after` | how long an API server wants to be left alone |
//!
//! Nothing is decided here about which pods there are to be: that is the allocator's.

mod answer;
mod connect;
mod error;
#[cfg(test)]
mod fake;
mod labels;
#[cfg(test)]
mod manifests;
mod pod;
pub mod provider;
mod retry_after;
pub mod submit;

pub use error::Error;
pub use provider::Kubernetes;

/// What the driver's pod tells its process of its address; Spark's name.
pub(crate) const DRIVER_ADDRESS: &str = "SPARK_DRIVER_BIND_ADDRESS";

/// What the driver's pod tells its process of the secret that it shares with its executors. It is kept where pods are not: who may look
/// at pods does not see it.
pub(crate) const APPLICATION_SECRET: &str = "FIRESTEEL_APPLICATION_SECRET";

/// The version of the engine.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A name that no other application has.
pub fn unique() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let millis = since.map_or(0, |since| since.as_millis() as u64);
    format!("{millis:x}{:08x}", fastrand::u32(..))
}
