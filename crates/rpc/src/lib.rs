//! Messages between processes.
//!
//! * [`RpcEnv`]: one per process, with a port or without. It has endpoints and connections.
//! * [`Endpoint`]: takes messages of one type, one at a time, in order; replies now or later.
//! * [`EndpointRef`]: sends to an endpoint, here (no encoding) or elsewhere (postcard over TCP).
//! * [`StreamClient`] and [`StreamSource`]: bulk bytes, over connections of their own.
//! * [`RpcOptions`], [`Keyring`], [`Secret`]: settings, and who may talk.
//!
//! Nothing is decoded before both sides have proved that they know a secret (`handshake.rs`), no queue is
//! without a bound (`link.rs`, `outbox.rs`, `mailbox.rs`), and a message arrives at most once.
//!
//! ```
//! use firesteel_rpc::*;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! enum Count { Add(u64), Total }
//!
//! impl Message for Count {
//!     type Reply = u64;
//! }
//!
//! struct Counter(u64);
//!
//! impl Endpoint for Counter {
//!     type Message = Count;
//!     async fn receive(&mut self, message: Count, caller: Caller<u64>, _: &Context<Count>) -> Result<(), HandlerError> {
//!         match message {
//!             Count::Add(number) => self.0 += number,
//!             Count::Total => caller.reply(self.0),
//!         }
//!         Ok(())
//!     }
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let server = RpcEnv::server(RpcOptions::default(), BindTo::loopback()).await?;
//! server.register("Counter", Counter(0))?;
//! let address = server.address().unwrap().endpoint("Counter");
//!
//! let client = RpcEnv::client(RpcOptions::default());
//! let counter = client.lookup::<Count>(&address).await?;
//! counter.send(Count::Add(2)).await?;
//! counter.send(Count::Add(3)).await?;
//! assert_eq!(counter.ask(Count::Total).await?, 5);
//! client.shutdown().await;
//! server.shutdown().await;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![warn(missing_docs)]

mod address;
mod endpoint;
mod env;
mod error;
mod frame;
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
mod limits;
mod link;
mod listener;
mod mailbox;
#[cfg_attr(firesteel_simulated, path = "../simulated/net.rs")]
mod net;
mod options;
mod outbox;
mod reference;
mod secret;
mod socket;
mod stream;
mod tls;
pub mod user_secret;

pub use address::{EndpointAddress, MAX_NAME, RpcAddress};
pub use endpoint::{Caller, Context, Endpoint, HandlerError, Held, Message, Peer, ReplyOf};
pub use env::RpcEnv;
pub use error::{RpcError, SetupError};
pub use handshake::{HandshakeError, PROTOCOL_VERSION};
pub use limits::{PeerLimits, PeerPlace};
pub use listener::{BindTo, outward_address};
pub use options::{Encryption, RpcOptions, SECRET_VARIABLE};
pub use reference::{EndpointRef, PendingReply};
pub use secret::{APPLICATION_IDENTITY, DEFAULT_IDENTITY, Identity, Keyring, Secret};
pub use stream::{
    IncomingStream, MAX_STREAM_ID, OpenError, StreamBody, StreamClient, StreamError, StreamSource,
};
pub use tls::Tls;
