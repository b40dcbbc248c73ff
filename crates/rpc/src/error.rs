//! What can go wrong, by the operation that failed. Each says what to do.
//!
//! [`SetupError`] ends the start of an environment, [`RpcError`] a send or an ask. How a failure is
//! to be treated is its variant; nobody reads the text.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use firesteel_conf::ConfError;
use serde::{Deserialize, Serialize};

use crate::address::{MAX_NAME, RpcAddress};
use crate::handshake::HandshakeError;
use crate::tls;

/// Why an environment could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// A setting is wrong.
    #[error(transparent)]
    Conf(#[from] ConfError),
    /// Anybody who reaches the port could use it.
    #[error(
        "{host} can be reached from other machines, and no secret is set: anybody there could run programs here. Make one with \
         `openssl rand -hex 32 > secret; chmod 600 secret` and set spark.authenticate=true and \
         spark.authenticate.secret.file=secret on every machine, or bind to 127.0.0.1, or accept the risk with --insecure \
         (spark.firesteel.insecure=true)"
    )]
    InsecureBind {
        /// What was to be bound.
        host: String,
    },
    /// `spark.authenticate` without any secret.
    #[error(
        "spark.authenticate is true, but there is no secret: make one with `openssl rand -hex 32` and set \
         spark.authenticate.secret, spark.authenticate.secret.file or the environment variable _SPARK_AUTH_SECRET"
    )]
    NoSecret,
    /// A secret of no characters.
    #[error("the secret {place} is empty: make one with `openssl rand -hex 32`")]
    EmptySecret {
        /// Where it was looked for.
        place: String,
    },
    /// The file of `spark.authenticate.secret.file`.
    #[error("could not read the secret in {} (spark.authenticate.secret.file): {source}", path.display())]
    ReadSecret {
        /// As the setting names it.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file for the secret of the user.
    #[error("could not make a secret in {} ({source}): set spark.authenticate=true and spark.authenticate.secret.file", path.display())]
    WriteSecret {
        /// Where the secret was to be written.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A name of an identity that cannot be sent.
    #[error("the identity {name:?} has to be 1 to {MAX_NAME} letters, digits, '-', '_' or '.'")]
    InvalidIdentity {
        /// The identity as it was given.
        name: String,
    },
    /// TLS without one of its files.
    #[error("TLS is on (spark.ssl.rpc.enabled), but {key} is not set: give it a PEM file")]
    TlsKeyMissing {
        /// The key to set.
        key: &'static str,
    },
    /// A file of TLS that cannot be used.
    #[error("{key}={}: {reason}", path.display())]
    TlsFile {
        /// The key that names the file.
        key: &'static str,
        /// As the setting names it.
        path: PathBuf,
        /// What is wrong, and what is expected.
        reason: String,
    },
    /// A host without an address.
    #[error(
        "could not find an address for the host {host:?}: {source}; give a name or an IP address of this machine"
    )]
    ResolveHost {
        /// The host as it was given to [`BindTo`](crate::BindTo).
        host: String,
        /// The error of the system.
        source: io::Error,
    },
    /// No port could be bound.
    #[error(
        "could not listen on {first} ({source}), nor on the {tries} ports tried after it: choose another port, 0 for any free \
         one, or raise spark.port.maxRetries"
    )]
    Bind {
        /// The first address that was tried.
        first: RpcAddress,
        /// How many more were tried.
        tries: u32,
        /// The error of the last port that was tried.
        source: io::Error,
    },
}

/// Why a message was not sent or not answered.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RpcError {
    /// A text that is no address.
    #[error(
        "{text:?} is not an address: write spark://Name@host:port, such as spark://Master@10.0.0.1:7077"
    )]
    InvalidAddress {
        /// The whole text as it was given.
        text: String,
    },
    /// A name no endpoint can have.
    #[error(
        "{name:?} cannot name an endpoint: use 1 to {MAX_NAME} letters, digits, '-', '_' or '.'"
    )]
    InvalidName {
        /// The name as it was given.
        name: String,
    },
    /// Two endpoints of one name.
    #[error("there is an endpoint {name} already: stop it first, or use another name")]
    DuplicateEndpoint {
        /// The name that both want.
        name: String,
    },
    /// The endpoint exists here but takes other messages.
    #[error("the endpoint {name} takes other messages: look it up with its own message type")]
    OtherMessageType {
        /// The name that was looked up.
        name: String,
    },
    /// The peer has no endpoint of this name.
    #[error(
        "{peer} has no endpoint {name}: it may have stopped or not started yet, or the name is wrong"
    )]
    UnknownEndpoint {
        /// The name that was looked up.
        name: String,
        /// The address that was asked, or "this process".
        peer: String,
    },
    /// The endpoint stopped before it answered.
    #[error("the endpoint {name} at {peer} stopped before it handled the message")]
    EndpointStopped {
        /// The name it was registered under.
        name: String,
        /// The address of its process, or "this process".
        peer: String,
    },
    /// This environment is shut down.
    #[error("the RPC environment of this process is shut down: messages can no longer be sent")]
    EnvStopped,
    /// No connection could be made.
    #[error("could not connect to {address}: {source}; is it running there, and is the port open?")]
    Unreachable {
        /// The address that was dialled.
        address: RpcAddress,
        /// The error of the system.
        source: Arc<io::Error>,
    },
    /// A connection was made, but the two sides do not trust or understand each other.
    #[error("{address}: {source}")]
    Handshake {
        /// The address that was dialled.
        address: RpcAddress,
        /// The step that failed.
        source: Arc<HandshakeError>,
    },
    /// The connection ended. Whether the message arrived is not known.
    #[error(
        "the connection to {address} ended before an answer came; the message may or may not have arrived"
    )]
    Disconnected {
        /// The address that was dialled, or where the peer dialled from.
        address: RpcAddress,
    },
    /// No reply in time.
    #[error("{endpoint} did not answer within {} (spark.rpc.askTimeout)", firesteel_conf::format_duration(*after))]
    Timeout {
        /// `spark://Name@host:port`, or the name alone inside this process.
        endpoint: String,
        /// The timeout that was in force.
        after: Duration,
    },
    /// The queue towards the receiver is full, and the caller did not want to wait.
    #[error(
        "{endpoint} takes messages more slowly than they are sent and its queue is full: wait with send, or send less"
    )]
    QueueFull {
        /// `spark://Name@host:port`, or the name alone inside this process.
        endpoint: String,
    },
    /// A message over the limit.
    #[error(
        "a message of {size} bytes is over the limit of {limit}: send large data as a stream, or raise spark.rpc.message.maxSize \
         on every machine"
    )]
    TooLarge {
        /// In bytes, encoded.
        size: usize,
        /// In bytes: `spark.rpc.message.maxSize` of the side that was to send it.
        limit: usize,
    },
    /// A value that cannot be encoded.
    #[error("the message cannot be encoded: {reason}")]
    Encode {
        /// The refusal of the `Serialize` of the message or its reply.
        reason: String,
    },
    /// Bytes that are no message: the other side was built from other sources.
    #[error(
        "{endpoint}: the bytes are not one of its messages ({reason}): run the same build on both sides"
    )]
    Decode {
        /// The endpoint whose message or reply it should be: `spark://Name@host:port`, or the name alone.
        endpoint: String,
        /// The refusal of the type's `Deserialize`.
        reason: String,
    },
    /// The handler failed or panicked.
    #[error("the endpoint {name} at {peer} failed: {message}")]
    HandlerFailed {
        /// The name it was registered under.
        name: String,
        /// The address of its process, or "this process".
        peer: String,
        /// The handler's error, or the message of its panic.
        message: String,
    },
    /// The handler let go of the question.
    #[error("the endpoint {name} at {peer} gave no answer to this message")]
    NoReply {
        /// The name it was registered under.
        name: String,
        /// The address of its process, or "this process".
        peer: String,
    },
}

impl RpcError {
    /// Whether the two sides are set up so that they will never trust or understand each other: waiting
    /// does not help.
    pub fn is_lasting(&self) -> bool {
        use HandshakeError::{
            MissingSecret, NotAuthenticating, NotTls, Refused, SpeaksTls, Tls, Unproven, Version,
        };
        let Self::Handshake { source, .. } = self else { return false };
        match &**source {
            Tls { source } => tls::is_lasting(source),
            MissingSecret | NotAuthenticating | Refused | Unproven => true,
            SpeaksTls | NotTls | Version { .. } => true,
            _ => false,
        }
    }
}

/// A failure as it travels to the asker. Names and addresses are added there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RemoteFailure {
    UnknownEndpoint,
    EndpointStopped,
    NoReply,
    Undecodable { reason: String },
    HandlerFailed { message: String },
    ReplyTooLarge { size: u64, limit: u64 },
    ReplyNotEncoded { reason: String },
}

impl RemoteFailure {
    /// The failure as the asker of `name` at `peer` sees it.
    pub(crate) fn at(self, name: &str, peer: &str) -> RpcError {
        let (name, peer) = (name.to_owned(), peer.to_owned());
        match self {
            Self::UnknownEndpoint => RpcError::UnknownEndpoint { name, peer },
            Self::EndpointStopped => RpcError::EndpointStopped { name, peer },
            Self::NoReply => RpcError::NoReply { name, peer },
            Self::Undecodable { reason } => RpcError::Decode { endpoint: name, reason },
            Self::HandlerFailed { message } => RpcError::HandlerFailed { name, peer, message },
            Self::ReplyTooLarge { size, limit } => {
                RpcError::TooLarge { size: size as usize, limit: limit as usize }
            }
            Self::ReplyNotEncoded { reason } => RpcError::Encode { reason },
        }
    }
}
