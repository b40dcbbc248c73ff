//! The messages of `messages.rs` as messages of the transport.
//!
//! Only [`ToMaster`] has replies: those of the requests about drivers. The answer to any other message is a
//! message too, and a lost one is sent again. The cores never see this file.

use firesteel_rpc::Message;

use crate::messages::{MasterReply, Stamped, ToApplication, ToMaster, ToWorker};

/// The name of the master's endpoint.
pub const MASTER: &str = "Master";
/// The name of the worker's endpoint.
pub const WORKER: &str = "Worker";
/// The name of the driver's endpoint for its master.
pub const APP_CLIENT: &str = "AppClient";

impl Message for ToMaster {
    type Reply = Stamped<MasterReply>;
}

impl Message for Stamped<ToWorker> {
    type Reply = ();
}

impl Message for Stamped<ToApplication> {
    type Reply = ();
}
