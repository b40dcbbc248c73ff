//! The way of a client to the gateway of a master: Spark's REST protocol over HTTP, or the same requests inside messages of
//! our own transport, which proves a secret first.

mod client;
mod http;

use firesteel_rpc::Message;
use serde::{Deserialize, Serialize};

pub use client::{DriverStatus, Gateway, GatewayError, Submission};

/// The setting of a submission that names its uploaded executable, as [`Content`](crate::Content).
pub(crate) const EXECUTABLE: &str = "spark.firesteel.submit.executable";
/// The setting of a submission that names its uploaded files: each a content, a slash and its name, with commas between them.
pub(crate) const FILES: &str = "spark.firesteel.submit.files";

/// The name of the gateway's endpoint on a master.
pub(crate) const GATEWAY: &str = "Gateway";

/// A request as HTTP has it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Call {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) body: Vec<u8>,
}

/// What HTTP would have in the answer: a status, and a body that is JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Message for Call {
    type Reply = Answer;
}
