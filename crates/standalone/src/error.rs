//! Why a master or a worker could not be started. Each says what to do.

use std::io;
use std::path::PathBuf;

use firesteel_conf::ConfError;
use firesteel_rpc::{RpcAddress, RpcError, SetupError};

use crate::token::TokenKeyError;

/// Why a master or a worker could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting is wrong.
    #[error(transparent)]
    Conf(#[from] ConfError),
    /// Only applications and the history server ask which groups a user is in.
    #[error(
        "{key} counts for applications and the history server only: name the users at masters and workers \
         (spark.admin.acls, spark.ui.view.acls, spark.modify.acls), and leave it out of their settings"
    )]
    ListOfGroups { key: String },
    /// Its metrics cannot be reported.
    #[error(transparent)]
    Metrics(#[from] firesteel_metrics::MetricsError),
    /// Its port, its secret or its certificates.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// Its endpoint, or the address of its master.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// Its page's port.
    #[error(
        "could not listen for HTTP on {first} ({source}), nor on the {tries} ports tried after it: choose another port with \
         --webui-port for the page or spark.master.rest.port for submissions, 0 for any free one, or raise spark.port.maxRetries"
    )]
    BindWeb {
        /// The port that was asked for.
        first: RpcAddress,
        /// How many more were tried.
        tries: u32,
        /// What the system said last.
        source: io::Error,
    },
    /// Everybody could submit, and nobody has said that this is meant.
    #[error(
        "spark.master.rest.enabled=true lets everybody who reaches the port run programs, as there is no secret: leave \
         spark.authenticate out to have one, or, if that is meant, set spark.firesteel.master.rest.authenticate=false"
    )]
    RestWithoutToken,
    /// Readers of output are to prove something, and nothing is there to prove it with.
    #[error(
        "spark.firesteel.worker.logs.authenticate=true needs a secret: leave spark.authenticate out to have one, or set \
         spark.firesteel.worker.logs.authenticate=false"
    )]
    LogsWithoutToken,
    #[error(transparent)]
    TokenKey(#[from] TokenKeyError),
    /// Where its state is persisted.
    #[error(transparent)]
    Recovery(#[from] crate::master::recovery::RecoveryError),
    #[error("could not start a thread: {0}")]
    Thread(#[source] io::Error),
    /// Pages are served without TLS.
    #[error(
        "the pages of master and worker are served without TLS, which spark.ssl.standalone.enabled (or else spark.ssl.enabled) \
         promises: set spark.ssl.standalone.enabled=false to have them nevertheless; connections between processes keep TLS"
    )]
    PageWithTls,
    /// The process that ends a worker's processes when it is killed.
    #[error("could not start the process that looks after the worker's processes: {0}")]
    Reaper(#[source] io::Error),
    /// The directory of a worker.
    #[error("could not make the work directory {}: {source}; choose another with --work-dir", path.display())]
    WorkDirectory { path: PathBuf, source: io::Error },
}
