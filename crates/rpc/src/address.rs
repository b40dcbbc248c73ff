//! Where environments and endpoints are: `host:port` and `spark://Name@host:port`.
//!
//! Addresses are text that users write and messages carry. Nothing here looks a host up.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::RpcError;

/// The longest name an endpoint may have, in bytes.
pub const MAX_NAME: usize = 128;

/// Host and port of one side of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RpcAddress {
    /// A name or an IP address, without brackets.
    pub host: String,
    /// Where it listens; for a peer that dialled, the port of its socket.
    pub port: u16,
}

impl RpcAddress {
    /// Resolves nothing: `host` is a name or an address, IPv6 without brackets.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port }
    }

    /// The endpoint of this name there.
    pub fn endpoint(&self, name: impl Into<String>) -> EndpointAddress {
        EndpointAddress { name: name.into(), address: self.clone() }
    }
}

impl From<std::net::SocketAddr> for RpcAddress {
    fn from(socket: std::net::SocketAddr) -> Self {
        Self::new(socket.ip().to_canonical().to_string(), socket.port())
    }
}

impl fmt::Display for RpcAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for RpcAddress {
    type Err = RpcError;

    /// `host:port` or `[v6]:port`, with or without `spark://` before it.
    fn from_str(text: &str) -> Result<Self, RpcError> {
        let bare = text.strip_prefix("spark://").unwrap_or(text);
        host_and_port(bare)
            .map(|(host, port)| Self::new(host, port))
            .ok_or_else(|| RpcError::InvalidAddress { text: text.to_owned() })
    }
}

fn host_and_port(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let bracketed = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let host = match bracketed {
        Some(v6) => v6.parse::<std::net::Ipv6Addr>().is_ok().then_some(v6)?,
        None => host,
    };
    let strange = |c: char| c.is_whitespace() || c.is_control() || "/@?#[]".contains(c);
    let sound = !host.is_empty() && !host.contains(strange);
    let digits = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    let plain = bracketed.is_some() || !host.contains(':');
    let port = port.parse().ok().filter(|port| *port > 0)?;
    (sound && digits && plain).then_some((host, port))
}

/// A named endpoint of an environment: `spark://Name@host:port`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EndpointAddress {
    /// The name it was registered under, at most [`MAX_NAME`] bytes.
    pub name: String,
    /// Where its environment is.
    pub address: RpcAddress,
}

impl fmt::Display for EndpointAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "spark://{}@{}", self.name, self.address)
    }
}

impl FromStr for EndpointAddress {
    type Err = RpcError;

    fn from_str(text: &str) -> Result<Self, RpcError> {
        let parts = text.strip_prefix("spark://").and_then(|rest| rest.split_once('@'));
        let invalid = || RpcError::InvalidAddress { text: text.to_owned() };
        let (name, place) = parts.ok_or_else(invalid)?;
        let (host, port) = host_and_port(place).ok_or_else(invalid)?;
        check_name(name)?;
        Ok(RpcAddress::new(host, port).endpoint(name))
    }
}

/// Refuses names that could not stand in an address.
pub(crate) fn check_name(name: &str) -> Result<(), RpcError> {
    let sound = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(sound) {
        return Err(RpcError::InvalidName { name: name.chars().take(MAX_NAME).collect() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for text in
            ["spark://Master@host:7077", "spark://a.b-c_1@10.0.0.1:1", "spark://x@[::1]:65535"]
        {
            assert_eq!(text.parse::<EndpointAddress>().unwrap().to_string(), text);
        }
        assert_eq!("spark://h:1".parse::<RpcAddress>().unwrap(), RpcAddress::new("h", 1));
        assert_eq!("[::1]:9".parse::<RpcAddress>().unwrap(), RpcAddress::new("::1", 9));
    }

    #[test]
    fn what_is_no_address_is_refused_with_the_form_it_should_have() {
        for text in [
            "", "h", "h:", ":1", "h:0", "h:65536", "h:+1", "h:1x", "::1:9", "[x]:1", "a b:1",
            "a/b:1", "a@b:1",
        ] {
            let error = text.parse::<RpcAddress>().unwrap_err().to_string();
            assert!(error.contains("spark://Name@host:port"), "{text}: {error}");
        }
        for text in ["Master@h:1", "spark://h:1", "spark://@h:1", "spark://a b@h:1", "http://a@h:1"]
        {
            assert!(text.parse::<EndpointAddress>().is_err(), "{text}");
        }
        let long = format!("spark://{}@h:1", "x".repeat(MAX_NAME + 1));
        assert!(long.parse::<EndpointAddress>().is_err());
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_reader(text in ".{0,60}") {
            if let Ok(address) = text.parse::<EndpointAddress>() {
                prop_assert_eq!(address.to_string().parse::<EndpointAddress>().unwrap(), address);
            }
        }
    }
}
