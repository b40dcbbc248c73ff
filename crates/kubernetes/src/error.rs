//! What can go wrong before executors are asked for, in sentences for users. Nothing is retried here.

use std::path::PathBuf;
use std::time::Duration;

use firesteel_conf::ConfError;
use firesteel_kubernetes_core::api::ApiError;
use thiserror::Error;

/// Why an application cannot run on Kubernetes, or be submitted to it.
#[derive(Debug, Error)]
pub enum Error {
    #[error(transparent)]
    Setting(#[from] ConfError),
    /// A setting whose value means nothing.
    #[error("{key}: {reason}")]
    Value { key: String, reason: String },
    #[error(
        "the kubeconfig file cannot be used: {reason}; set KUBECONFIG to another one, or spark.kubernetes.context to one of its contexts"
    )]
    Kubeconfig { reason: String },
    #[error("the API server {url} cannot be asked: {reason}")]
    Client { url: String, reason: String },
    #[error("the file {path} ({key}) cannot be read: {source}")]
    File { key: &'static str, path: PathBuf, source: std::io::Error },
    /// A pod template that is none.
    #[error("the pod template {path} ({key}) is not a pod: {reason}")]
    Template { key: &'static str, path: PathBuf, reason: String },
    #[error(
        "there is no image: set spark.kubernetes.container.image to one that has the application's executable (firesteel image makes one)"
    )]
    NoImage,
    #[error("the API server {url} does not {what}: {error}")]
    Refused { url: String, what: String, error: ApiError },
    /// Asked before there was a driver.
    #[error(
        "the API server {url} would not create the pods of executors in namespace {namespace}, and no driver was created: {error}{}",
        way_out(.error)
    )]
    ExecutorsRefused { url: String, namespace: String, error: ApiError },
    /// Nobody waits for it any more, though it may run on.
    #[error(
        "{source}; the driver {id} may run all the same: firesteel submit --status '{id}' shows it, --kill '{id}' ends it"
    )]
    DriverLeft { id: String, source: Box<Error> },
    /// It was waited for in vain, and removed again.
    #[error("the driver {id} did not start within {} s, and was removed: {words}", .after.as_secs())]
    NeverStarted { id: String, after: Duration, words: String },
    /// A driver that is asked about.
    #[error(
        "there is no driver {id} in namespace {namespace}: firesteel submit --status '{namespace}:*' lists them"
    )]
    NoDriver { namespace: String, id: String },
}

/// A policy may judge by who asks, and the driver may be another one than who submits it.
fn way_out(error: &ApiError) -> &'static str {
    match error {
        ApiError::Denied(_) => {
            "; if it would not say so to the driver's account, set spark.firesteel.kubernetes.submission.dryRun to false"
        }
        _ => "",
    }
}

impl Error {
    /// Whether there may be a driver, so that what it and its executors need has to stay.
    pub fn leaves_a_driver(&self) -> bool {
        matches!(self, Error::DriverLeft { .. })
    }

    pub(crate) fn leaving(self, id: String) -> Self {
        Error::DriverLeft { id, source: Box::new(self) }
    }

    pub(crate) fn value(key: impl Into<String>, reason: impl Into<String>) -> Self {
        Error::Value { key: key.into(), reason: reason.into() }
    }
}
