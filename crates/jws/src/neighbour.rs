//! Whose process is at the other end of a connection within this machine: Linux tells in `/proc/net/tcp`.
//!
//! So nobody has to prove anything to a server of their own, and other users of the machine are told apart from its owner.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Root, who can do everything anyway.
const ROOT: u32 = 0;
/// A connection of which neither side has been closed. Those that were have no user any more: the table says 0 then.
const ESTABLISHED: &str = "01";
/// A socket that no process has.
const NO_INODE: &str = "0";

/// Whether the process that made a connection to this one belongs to the same user, or to root. `false` where that cannot be told:
/// it comes from another machine, or is closed already.
pub fn is_own_user(peer: SocketAddr, own: SocketAddr) -> bool {
    if !is_within(peer, own) {
        return false;
    }
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let found = tables.iter().find_map(|path| {
        let table = std::fs::read_to_string(path).ok()?;
        user_in(&table, peer, own)
    });
    found.is_some_and(|user| user == ROOT || user == rustix::process::geteuid().as_raw())
}

/// Whether a connection can be one of this machine with itself: over the loopback interface, or from an address to the same one.
fn is_within(peer: SocketAddr, own: SocketAddr) -> bool {
    let [peer, own] = [peer, own].map(|it| it.ip().to_canonical());
    peer == own || peer.is_loopback() && own.is_loopback()
}

/// The user of the socket at the end `peer` of a connection to `own`.
fn user_in(table: &str, peer: SocketAddr, own: SocketAddr) -> Option<u32> {
    let is_same = |text: &str, address: SocketAddr| {
        let canonical = |it: SocketAddr| (it.ip().to_canonical(), it.port());
        parse(text).is_some_and(|found| canonical(found) == canonical(address))
    };
    table.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, local, remote, state, _, _, _, user, _, inode, ..] = words[..] else { return None };
        let is_it = state == ESTABLISHED && inode != NO_INODE;
        let is_it = is_it && is_same(local, peer) && is_same(remote, own);
        user.parse().ok().filter(|_| is_it)
    })
}

/// An address as the kernel writes it: words of 32 bits as they are in its memory, in hexadecimal.
fn parse(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let word = |text: &str| Some(u32::from_str_radix(text, 16).ok()?.to_ne_bytes());
    let address = match address.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(address)?)),
        32 => {
            let mut octets = [0; 16];
            for (at, octets) in octets.chunks_exact_mut(4).enumerate() {
                octets.copy_from_slice(&word(address.get(8 * at..8 * at + 8)?)?);
            }
            IpAddr::V6(Ipv6Addr::from(octets))
        }
        _ => return None,
    };
    Some(SocketAddr::new(address, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn connected(host: &str) -> Option<(TcpStream, TcpStream)> {
        let listener = TcpListener::bind((host, 0)).ok()?;
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        Some((client, listener.accept().unwrap().0))
    }

    #[test]
    fn connections_of_this_user_are_told_until_they_are_closed() {
        let mut told = 0;
        for (client, server) in
            ["127.0.0.1", "127.9.9.9", "::1"].iter().filter_map(|it| connected(it))
        {
            let (peer, own) = (server.peer_addr().unwrap(), server.local_addr().unwrap());
            assert!(is_own_user(peer, own), "{peer} {own}");
            assert!(!is_own_user(peer, SocketAddr::new(own.ip(), 1)), "no such connection");
            drop(client);
            assert!(!is_own_user(peer, own), "it is nobody's any more");
            told += 1;
        }
        assert!(told >= 2);
    }

    /// An address of this machine that others reach, if it has one. Nothing is sent.
    fn outer() -> Option<String> {
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
        socket.connect("192.0.2.1:9").ok()?;
        Some(socket.local_addr().ok()?.ip().to_string())
    }

    #[test]
    fn this_user_is_known_too_where_a_server_listens_at_an_address_that_others_reach() {
        let ends = |peer: &str, own: &str| (peer.parse().unwrap(), own.parse().unwrap());
        for (peer, own, within) in [
            ("10.0.0.5:4096", "10.0.0.5:8080", true),
            ("[::ffff:10.0.0.5]:4096", "10.0.0.5:8080", true),
            ("127.0.0.1:4096", "127.0.0.9:8080", true),
            ("10.0.0.6:4096", "10.0.0.5:8080", false),
            ("127.0.0.1:4096", "10.0.0.5:8080", false),
        ] {
            let (peer, own) = ends(peer, own);
            assert_eq!(is_within(peer, own), within, "{peer} {own}");
            assert!(!is_own_user(peer, own), "there is no such connection");
        }
        if let Some((client, server)) = outer().and_then(|host| connected(&host)) {
            let (peer, own) = (server.peer_addr().unwrap(), server.local_addr().unwrap());
            assert!(is_own_user(peer, own), "{peer} {own}");
            drop(client);
            assert!(!is_own_user(peer, own), "it is nobody's any more");
        }
    }

    #[test]
    fn other_users_other_machines_and_sockets_of_nobody_are_not_taken_for_this_user() {
        let (peer, own): (SocketAddr, SocketAddr) =
            ("127.0.0.1:4096".parse().unwrap(), "127.0.0.1:8080".parse().unwrap());
        let (at, to) = match cfg!(target_endian = "little") {
            true => ("0100007F:1000", "0100007F:1F90"),
            false => ("7F000001:1000", "7F000001:1F90"),
        };
        let line = |local: &str, remote: &str, state: &str, user: u32, inode: &str| {
            format!("   1: {local} {remote} {state} 0:0 00:0 0 {user:>8} 0 {inode} 1 0 20 4\n")
        };
        let table = line(to, at, "01", 7, "9") + &line(at, to, "01", 65534, "10");
        assert_eq!(user_in(&table, peer, own), Some(65534), "the other end is not asked for");
        assert_eq!(user_in(&line(at, to, "05", 0, "0"), peer, own), None, "it waits for its end");
        assert_eq!(user_in(&line(at, to, "01", 0, "0"), peer, own), None, "no process has it");
        let mapped = "[::ffff:127.0.0.1]:4096".parse().unwrap();
        assert_eq!(user_in(&table, mapped, own), Some(65534));
        for broken in ["", "x", "   1: zz:1 0100007F:1F90 01", "1: 01:02 03:04 01 a b c d e f"] {
            assert_eq!(user_in(broken, peer, own), None);
        }
        let elsewhere = "10.0.0.1:4096".parse().unwrap();
        assert!(!is_own_user(elsewhere, own) && !is_own_user(peer, elsewhere));
    }
}
