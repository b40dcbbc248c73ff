//! The sockets of `firesteel-rpc` on turmoil's network, in place of `src/net.rs`.

use std::io;
use std::net::SocketAddr;

pub(crate) use turmoil::net::tcp::OwnedWriteHalf;
pub(crate) use turmoil::net::{TcpListener, TcpStream, lookup_host};

/// Listens at the first of these addresses.
pub(crate) async fn listen(addresses: &[SocketAddr]) -> io::Result<TcpListener> {
    let first = addresses.first().ok_or(io::ErrorKind::AddrNotAvailable)?;
    TcpListener::bind(first).await
}
