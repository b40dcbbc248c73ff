//! The port of an environment: where it is bound, and who is let in.
//!
//! At most so many connections are in their handshake at once; while all places are taken, nobody
//! new is accepted. Each place is free again when the handshake's time is over. One address has half of these places
//! at most: its newest connection cuts the oldest one off, which is the one that says nothing. So many connections that
//! are past their handshake one address may have, and no more are let in.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::address::RpcAddress;
use crate::env::Inner;
use crate::handshake::{Channel, HandshakeError};
use crate::limits::{PeerLimits, PeerPlace};
use crate::net::{TcpListener, TcpStream, listen, lookup_host};
use crate::options::{Encryption, RpcOptions};
use crate::{SetupError, outbox, socket, stream};

/// The address to listen at, and the one to tell others.
#[derive(Clone, Debug)]
pub struct BindTo {
    /// A name or address of this machine; `0.0.0.0` for all of them.
    pub host: String,
    /// The first port to try; 0 for any that is free.
    pub port: u16,
    /// The host others are told; `host` when it is `None`.
    pub advertise: Option<String>,
}

impl BindTo {
    /// Any free port that only this machine reaches.
    pub fn loopback() -> Self {
        Self::new("127.0.0.1", 0)
    }

    /// This host and port.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port, advertise: None }
    }
}

/// Binds the first free port.
pub(crate) async fn bind(
    bind: &BindTo,
    options: &RpcOptions,
) -> Result<(TcpListener, RpcAddress), SetupError> {
    if options.tls.as_ref().is_some_and(|tls| tls.acceptor.is_none()) {
        let key = firesteel_conf::entries::SSL_RPC_CERT_CHAIN.key();
        return Err(SetupError::TlsKeyMissing { key });
    }
    let addresses = resolve(&bind.host).await?;
    let guarded = options.keyring.is_some() || options.insecure;
    if !guarded && !addresses.iter().all(IpAddr::is_loopback) {
        return Err(SetupError::InsecureBind { host: bind.host.clone() });
    }
    let clear = options.keyring.is_some() && options.tls.is_none();
    let clear = clear && options.encryption == Encryption::Never;
    if clear && !addresses.iter().all(IpAddr::is_loopback) {
        tracing::warn!(
            "spark.network.crypto.enabled is false: what is sent between machines can be read and changed by others on the network"
        );
    }
    let listener = first_free(&addresses, bind, options.port_retries).await?;
    let bound = listener.local_addr().map_err(|source| failed(bind, 0, source))?;
    let host = match &bind.advertise {
        Some(host) => host.clone(),
        None if addresses.iter().any(IpAddr::is_unspecified) => own_name().await,
        None => bind.host.clone(),
    };
    Ok((listener, RpcAddress::new(host, bound.port())))
}

async fn resolve(host: &str) -> Result<Vec<IpAddr>, SetupError> {
    let failed = |source| SetupError::ResolveHost { host: host.to_owned(), source };
    let found = lookup_host((host, 0)).await.map_err(failed)?;
    let found: Vec<IpAddr> = found.map(|socket| socket.ip()).collect();
    if found.is_empty() {
        return Err(failed(io::Error::other("it has none")));
    }
    Ok(found)
}

/// A name of this machine that others can use: its own, unless that stands for this machine only, as it does on many
/// systems (`127.0.1.1`); then the address from which it reaches others.
async fn own_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let found = resolve(&name).await.unwrap_or_default();
    usable_name(name, &found, outward_address)
}

fn usable_name(name: String, found: &[IpAddr], outward: impl FnOnce() -> Option<IpAddr>) -> String {
    if found.iter().any(|address| !address.is_loopback()) {
        return name;
    }
    outward().map_or(name, |address| address.to_string())
}

/// The address of this machine that packets to others have. The system says without sending any. `None` if it reaches none.
pub fn outward_address() -> Option<IpAddr> {
    // Addresses for documentation: nobody has them.
    let others = [("0.0.0.0:0", "192.0.2.1:9"), ("[::]:0", "[2001:db8::1]:9")];
    others.into_iter().find_map(|(any, other)| {
        let socket = std::net::UdpSocket::bind(any).ok()?;
        socket.connect(other).ok()?;
        let own = socket.local_addr().ok()?.ip();
        (!own.is_loopback() && !own.is_unspecified()).then_some(own)
    })
}

async fn first_free(
    addresses: &[IpAddr],
    bind: &BindTo,
    retries: u32,
) -> Result<TcpListener, SetupError> {
    let mut attempt = 0;
    loop {
        let port = port_of(bind.port, attempt);
        let sockets: Vec<SocketAddr> =
            addresses.iter().map(|ip| SocketAddr::new(*ip, port)).collect();
        match listen(&sockets).await {
            Ok(listener) => return Ok(listener),
            Err(error)
                if error.kind() == io::ErrorKind::AddrInUse
                    && attempt < retries
                    && bind.port != 0 =>
            {
                attempt += 1;
            }
            Err(error) => return Err(failed(bind, attempt, error)),
        }
    }
}

/// The port of an attempt; after the last one come those above the reserved ones.
fn port_of(first: u16, attempt: u32) -> u16 {
    match u32::from(first) + attempt {
        _ if first == 0 => 0,
        port @ 0..=0xffff => port as u16,
        beyond => (beyond - 0x1_0000 + 1024) as u16,
    }
}

fn failed(bind: &BindTo, tries: u32, source: io::Error) -> SetupError {
    SetupError::Bind { first: RpcAddress::new(&bind.host, bind.port), tries, source }
}

/// Accepts connections until the environment is deaf.
pub(crate) async fn serve(listener: TcpListener, env: Arc<Inner>) {
    let places = Arc::new(Semaphore::new(env.options.pending_handshakes));
    let pending = PeerLimits::new(env.options.pending_handshakes / 2);
    let connected = PeerLimits::new(env.options.connections_per_address);
    let accepting = async {
        loop {
            let place = places.clone().acquire_owned().await.expect("never closed");
            match listener.accept().await {
                Ok((stream, from)) => {
                    let Some(stays) = connected.try_take(from.ip()) else {
                        let task =
                            turn_away(stream, from.into(), place, connected.most(), env.clone());
                        env.tasks.spawn_on(task, &env.runtime);
                        continue;
                    };
                    let entry = Entry { _place: place, pending: pending.take(from.ip()) };
                    let task = admit(stream, from.into(), entry, stays, env.clone());
                    env.tasks.spawn_on(task, &env.runtime);
                }
                Err(error) => {
                    // Out of file handles, or the dialler is gone again: neither is for ever.
                    tracing::warn!(%error, "could not accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    };
    env.deaf.run_until_cancelled(accepting).await;
}

/// The places of a connection that is in its handshake.
struct Entry {
    _place: OwnedSemaphorePermit,
    pending: PeerPlace,
}

/// Takes a new connection through its handshake and serves it.
async fn admit(
    stream: TcpStream,
    from: RpcAddress,
    entry: Entry,
    _stays: PeerPlace,
    env: Arc<Inner>,
) {
    let limit = env.options.pending_handshakes / 2;
    let accepted = tokio::select! {
        accepted = socket::accept(stream, &env.options) => accepted,
        () = entry.pending.evicted() => Err(HandshakeError::TooManyAtOnce { limit }),
        () = env.deaf.cancelled() => return,
    };
    drop(entry);
    match accepted {
        Ok(accepted) if accepted.channel == Channel::Streams => {
            stream::serve(accepted, from, env).await
        }
        Ok(accepted) => outbox::serve(accepted, from, env).await,
        Err(error) => tracing::warn!(%from, %error, "a connection was refused"),
    }
}

/// Tells a dialler whose address has as many connections as it may have so.
async fn turn_away(
    stream: TcpStream,
    from: RpcAddress,
    _place: OwnedSemaphorePermit,
    limit: usize,
    env: Arc<Inner>,
) {
    let error = HandshakeError::TooManyConnections;
    tracing::warn!(%from, limit, %error, "a connection was refused");
    let telling = socket::turn_away(stream, &env.options);
    tokio::select! {
        () = telling => {}
        () = env.deaf.cancelled() => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_stands_for_this_machine_only_is_not_told_to_others() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let outward = || Some(ip("10.0.0.7"));
        let usable = |found: &[IpAddr]| usable_name("node".to_owned(), found, outward);
        assert_eq!(usable(&[ip("10.0.0.7")]), "node");
        assert_eq!(usable(&[ip("127.0.1.1"), ip("fe80::1")]), "node");
        assert_eq!(usable(&[ip("127.0.1.1"), ip("::1")]), "10.0.0.7");
        assert_eq!(usable(&[]), "10.0.0.7", "nobody knows the name");
        assert_eq!(usable_name("node".to_owned(), &[ip("127.0.0.1")], || None), "node");
    }

    #[test]
    fn ports_are_tried_one_after_the_other_and_wrap_above_the_reserved_ones() {
        let tried = |first| [0, 1, 2].map(|attempt| port_of(first, attempt));
        assert_eq!(tried(7077), [7077, 7078, 7079]);
        assert_eq!(tried(65535), [65535, 1024, 1025]);
        assert_eq!(tried(0), [0, 0, 0]);
        assert_eq!(tried(80), [80, 81, 82]);
    }
}
