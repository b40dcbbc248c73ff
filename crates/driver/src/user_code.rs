//! Code of the user's that runs on the driver: `Ord`, `Hash`, `Deserialize`, `Drop`, functions that merge results. A panic in
//! it is the error of the action that called it, as a panic in a task is.

use firesteel_types::{CallSite, TaskFailure};

use crate::{Error, Result};

/// Runs a part of an action that calls code of the user's.
pub(crate) fn on_driver<R>(site: &CallSite, work: impl FnOnce() -> Result<R>) -> Result<R> {
    let failure = match firesteel_engine::catch(work) {
        Ok(result) => return result,
        Err(failure) => failure,
    };
    let (message, location) = match failure {
        TaskFailure::Panicked { message, location, .. } => (message, location),
        other => (other.to_string(), "unknown location".to_owned()),
    };
    let place = format!("{}:{}", site.file, site.line);
    Err(Error::UserCode { operation: site.operation, place, message, location })
}
