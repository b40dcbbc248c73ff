//! The way of a client to the gateway of a master: Spark's REST protocol over HTTP, or the same requests inside messages of
//! our own transport, which proves a secret first.

mod client;
mod http;

use std::time::Duration;

use firesteel_rpc::{Message, RpcAddress};
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;
use tokio::time::timeout;

pub use client::{DriverStatus, Gateway, GatewayError, Submission};
pub use http::{HttpError, get};

/// Whether an address is of this machine: then nobody else hears what is sent there. Also if nobody listens there.
pub async fn is_here(address: &RpcAddress) -> bool {
    let target = (address.host.as_str(), address.port);
    match timeout(PROBE, TcpStream::connect(target)).await {
        Ok(Ok(stream)) => match (stream.local_addr(), stream.peer_addr()) {
            (Ok(own), Ok(peer)) => own.ip().is_loopback() || own.ip() == peer.ip(),
            _ => false,
        },
        _ => true,
    }
}

/// How long it takes to learn that.
const PROBE: Duration = Duration::from_secs(10);

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
