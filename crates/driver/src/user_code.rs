//! Code of the user's that runs on the driver: `Ord`, `Hash`, `Deserialize`, `Drop`, functions that merge results. A panic in
//! it is the error of the action that called it, as a panic in a task is.

use firesteel_types::{CallSite, TaskFailure};

use crate::{Error, Result};

/// Runs a part of an action that calls code of the user's. Its errors say which action it was.
pub(crate) fn on_driver<R>(site: &CallSite, work: impl FnOnce() -> Result<R>) -> Result<R> {
    match firesteel_engine::catch(work) {
        Ok(result) => result.map_err(|error| error.at(site)),
        Err(failure) => Err(user_code_failed(site, failure)),
    }
}

#[cold]
fn user_code_failed(site: &CallSite, failure: TaskFailure) -> Error {
    let (message, location) = match failure {
        TaskFailure::Panicked { message, location, .. } => (message, location),
        other => (other.to_string(), "unknown location".to_owned()),
    };
    let place = format!("{}:{}", site.file, site.line);
    Error::UserCode { operation: site.operation, place, message, location }
}
