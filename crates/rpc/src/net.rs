//! The sockets of this crate. `simulated/net.rs` stands in for this file where the network is simulated.

use std::io;
use std::net::SocketAddr;

pub(crate) use tokio::net::tcp::OwnedWriteHalf;
pub(crate) use tokio::net::{TcpListener, TcpStream, lookup_host};

/// Listens at the first of these addresses that can be bound.
pub(crate) async fn listen(addresses: &[SocketAddr]) -> io::Result<TcpListener> {
    TcpListener::bind(addresses).await
}
