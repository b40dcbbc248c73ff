//! Requests to a REST API: one connection each, within limits of time and size. No more of HTTP than that takes.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use serde_json::Value;

use crate::proof::Proof;

/// How long it may take to reach the address, and to get an answer.
const CONNECT: Duration = Duration::from_secs(3);
const ANSWER: Duration = Duration::from_secs(15);
/// The longest answer that is read.
const LONGEST: u64 = 32 << 20;

/// Somebody who answers.
#[derive(Clone, Debug)]
pub(super) struct Client {
    host: String,
    port: u16,
    /// In front of every path. No slash at its end.
    prefix: String,
    proof: Proof,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum ClientError {
    #[error("{address} is no address: give it as http://HOST:PORT")]
    Address { address: String },
    #[error(
        "{address} does not answer ({source}). Does the application still run, and is this its port? Its pages are at spark.ui.port, 4040 unless that is taken"
    )]
    Unreachable { address: String, source: io::Error },
    #[error("{address} answers no HTTP")]
    NoHttp { address: String },
    #[error(
        "{address}{path} answers with {status}: {said}. Prove who asks: name its address, and set spark.ui.filters and \
         spark.org.apache.spark.ui.JWSFilter.param.secretKey as they are set there, or give a token with --token-file"
    )]
    Unproven { address: String, path: String, status: u16, said: String },
    #[error("{address}{path} answers with {status}: {said}")]
    Refused { address: String, path: String, status: u16, said: String },
    #[error(
        "{address}{path} answers with something else than JSON: is that a REST API of Spark's or Firesteel's?"
    )]
    NoJson { address: String, path: String, source: serde_json::Error },
}

impl Client {
    pub(super) fn of(address: &str) -> Result<Self, ClientError> {
        let wrong = || ClientError::Address { address: address.to_owned() };
        let rest = address.strip_prefix("http://").unwrap_or(address);
        let (place, prefix) =
            rest.split_once('/').map_or((rest, ""), |(place, path)| (place, path));
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !host.ends_with(':') => {
                (host, port.parse().map_err(|_| wrong())?)
            }
            _ => (place, 4040),
        };
        let is_plain = |text: &str| text.bytes().all(|it| it.is_ascii_graphic());
        if host.is_empty() || rest.contains("://") || !is_plain(rest) {
            return Err(wrong());
        }
        let prefix = prefix.trim_end_matches('/');
        let prefix = if prefix.is_empty() { String::new() } else { format!("/{prefix}") };
        Ok(Client { host: host.to_owned(), port, prefix, proof: Proof::None })
    }

    /// Says who asks.
    pub(super) fn proving(self, proof: Proof) -> Self {
        Client { proof, ..self }
    }

    fn address(&self) -> String {
        format!("http://{}:{}{}", self.host, self.port, self.prefix)
    }

    /// Asks for a path below `/api/v1`.
    pub(super) fn get(&self, path: &str) -> Result<Value, ClientError> {
        let path = format!("/api/v1{path}");
        let source = |source| ClientError::Unreachable { address: self.address(), source };
        let answer = self.ask(&path).map_err(source)?;
        let (status, body) =
            parted(&answer).ok_or_else(|| ClientError::NoHttp { address: self.address() })?;
        let address = self.address();
        if status != 200 {
            let said: String = String::from_utf8_lossy(body).chars().take(200).collect();
            let said = said.replace(char::is_control, " ");
            let (401 | 403) = status else {
                return Err(ClientError::Refused { address, path, status, said });
            };
            let said = said.trim_end_matches(['.', ' ']).to_owned();
            return Err(ClientError::Unproven { address, path, status, said });
        }
        serde_json::from_slice(body).map_err(|source| ClientError::NoJson { address, path, source })
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in (host, self.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECT) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// With HTTP 1.0, an answer ends with its connection and is in one piece.
    fn ask(&self, path: &str) -> io::Result<Vec<u8>> {
        let mut stream = self.connect()?;
        stream.set_read_timeout(Some(ANSWER))?;
        stream.set_write_timeout(Some(ANSWER))?;
        let (host, port, prefix) = (&self.host, self.port, &self.prefix);
        let proof = self.proof.token();
        let proof = proof.map_or_else(String::new, |it| format!("Authorization: Bearer {it}\r\n"));
        write!(
            stream,
            "GET {prefix}{path} HTTP/1.0\r\nHost: {host}:{port}\r\nAccept: application/json\r\n{proof}\r\n"
        )?;
        let mut answer = Vec::new();
        stream.take(LONGEST).read_to_end(&mut answer)?;
        Ok(answer)
    }
}

/// The status and the body of an answer.
fn parted(answer: &[u8]) -> Option<(u16, &[u8])> {
    let end = answer.windows(4).position(|it| it == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let status = head.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
    Some((status, &answer[end + 4..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_people_write_them() {
        let of = |text: &str| Client::of(text).map(|it| it.address()).unwrap_or_default();
        assert_eq!(of("http://localhost:4040"), "http://localhost:4040");
        assert_eq!(of("localhost:4041/"), "http://localhost:4041");
        assert_eq!(of("driver.example.org"), "http://driver.example.org:4040");
        assert_eq!(of("http://master:8080/proxy/app-1/"), "http://master:8080/proxy/app-1");
        assert_eq!(of("http://[::1]:4040"), "http://[::1]:4040");
        for wrong in ["", "https://a:1", "ftp://a", "a:b", "a b:1", "http://:1", "a:1\r\nX: y"] {
            assert!(Client::of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn answers_are_taken_apart_and_what_is_no_http_is_refused() {
        assert_eq!(parted(b"HTTP/1.1 404 Not Found\r\nA: b\r\n\r\nno"), Some((404, &b"no"[..])));
        for wrong in [&b""[..], b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 200", b"HTTP/1.1 x\r\n\r\n"] {
            assert_eq!(parted(wrong), None);
        }
    }
}
