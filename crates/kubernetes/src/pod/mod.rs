//! Pods: built from settings and templates, and read as the allocator sees them. Never asks anybody for anything.

mod driver;
mod executor;
mod fetch;
mod parts;
mod read;
mod template;
mod volumes;

pub(crate) use driver::DriverPod;
pub(crate) use executor::{ExecutorPods, Owner};
pub(crate) use fetch::is_fetched;
pub(crate) use parts::{DRIVER_CONTAINER, EXECUTOR_CONTAINER};
pub(crate) use read::{owner, read, read_claim, version};
pub(crate) use volumes::owned_by_driver;
