//! Requests to a collector: one connection each, every wait with an end. No more of HTTP than that takes.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use super::TracesError;

/// How long a collector may take to be reached, and to take or answer a request.
const TIME: Duration = Duration::from_secs(2);
/// A failing collector is told of so often.
const TOLD_EVERY: Duration = Duration::from_secs(600);
/// Where collectors listen unless an address says otherwise.
const PORT: u16 = 4318;
/// So much of an answer is read.
const ANSWER: usize = 1024;

/// The collector's address, and the path that spans are posted to.
pub(super) struct Collector {
    host: String,
    port: u16,
    path: String,
}

impl Collector {
    /// `http://HOST:PORT`, with a path in front of `/v1/traces` or without.
    pub(super) fn of(endpoint: &str) -> Result<Self, TracesError> {
        let wrong = || TracesError::Endpoint { endpoint: endpoint.to_owned() };
        if endpoint.starts_with("https://") {
            return Err(TracesError::Https { endpoint: endpoint.to_owned() });
        }
        let rest = endpoint.strip_prefix("http://").ok_or_else(wrong)?;
        let (place, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                (host, port.parse().map_err(|_| wrong())?)
            }
            _ => (place, PORT),
        };
        if host.is_empty() || !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong());
        }
        let path = path.trim_matches('/');
        let path = if path.is_empty() { String::new() } else { format!("/{path}") };
        Ok(Collector { host: host.to_owned(), port, path: format!("{path}/v1/traces") })
    }

    /// Sends requests until nobody has any more.
    pub(super) fn tell_all(&self, requests: &Receiver<Vec<u8>>) {
        let mut complained = None::<Instant>;
        for request in requests {
            if let Err(error) = self.tell(&request)
                && complained.is_none_or(|before| before.elapsed() >= TOLD_EVERY)
            {
                complained = Some(Instant::now());
                let (host, port) = (&self.host, self.port);
                tracing::warn!(%error, host, port, "spans could not be told");
            }
        }
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in (host, self.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, TIME) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn tell(&self, request: &[u8]) -> io::Result<()> {
        let mut stream = self.connect()?;
        stream.set_read_timeout(Some(TIME))?;
        stream.set_write_timeout(Some(TIME))?;
        let (host, port, path, length) = (&self.host, self.port, &self.path, request.len());
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(request)?;
        let mut answer = Vec::new();
        // The first line is enough. A collector may leave the connection open.
        let mut piece = [0; ANSWER];
        while !answer.contains(&b'\n') && answer.len() < ANSWER {
            match stream.read(&mut piece)? {
                0 => break,
                count => answer.extend_from_slice(&piece[..count]),
            }
        }
        let line = String::from_utf8_lossy(&answer);
        let line = line.lines().next().unwrap_or_default();
        let status = line.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1));
        match status.and_then(|status| status.parse::<u16>().ok()) {
            Some(200..=299) => Ok(()),
            Some(status) => Err(io::Error::other(format!("it answers with {status}"))),
            None => Err(io::Error::other("it answers no HTTP")),
        }
    }
}
