//! Requests to etcd's JSON gateway, `/v3/...`: one connection each, to the first server that answers.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, StreamOwned};

/// The largest answer that is read.
const LARGEST: u64 = 256 << 20;

/// Codes of gRPC that say that a server cannot answer now, such as while the cluster elects a leader: deadline exceeded, unavailable.
const PASSING: [i64; 2] = [4, 14];

/// Why something did not work.
#[derive(Debug)]
pub(super) enum ClientError {
    /// No server could be reached, it went away, or it has lost the others for now.
    Connection(io::Error),
    /// A server answered, and this is why it did not do it.
    Refused(String),
    /// The answer was none.
    Nonsense,
    /// This master does not lead any more.
    Deposed,
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Connection(error) => write!(f, "{error}"),
            ClientError::Refused(message) => write!(f, "it refused a request: {message}"),
            ClientError::Nonsense => f.write_str("it answered something else than etcd does"),
            ClientError::Deposed => {
                f.write_str("this master's lease is over, or another one leads")
            }
        }
    }
}

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> Self {
        ClientError::Connection(error)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Server {
    /// `host:port`
    address: String,
    /// What its certificate names; `None`: it does not speak TLS.
    name: Option<String>,
}

/// A server of an address such as `http://host:2379`; `None` if it is none.
pub(super) fn server(url: &str) -> Option<Server> {
    let (speaks_tls, address) = match url.split_once("://") {
        Some(("http", rest)) => (false, rest.trim_end_matches('/')),
        Some(("https", rest)) => (true, rest.trim_end_matches('/')),
        Some(_) => return None,
        None => (false, url),
    };
    let (host, port) = address.rsplit_once(':')?;
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    let is_one = !host.is_empty() && port.parse::<u16>().is_ok();
    let name = speaks_tls.then(|| bare.to_owned());
    is_one.then(|| Server { address: address.to_owned(), name })
}

#[derive(Debug)]
pub(super) struct Client {
    /// The one that answered last comes first.
    servers: Vec<Server>,
    /// How long each may take for each step.
    wait: Duration,
    /// Whom to trust, and what to prove, where a server speaks TLS.
    tls: Option<Arc<ClientConfig>>,
}

/// A connection, whatever is around its bytes.
trait Connection: Read + Write {}
impl<T: Read + Write> Connection for T {}

impl Client {
    pub(super) fn new(servers: Vec<Server>, wait: Duration) -> Self {
        Self { servers, wait: wait.max(Duration::from_millis(100)), tls: None }
    }

    pub(super) fn set_tls(&mut self, tls: Arc<ClientConfig>) {
        self.tls = Some(tls);
    }

    /// Whether a server speaks TLS, and nothing says whom to trust.
    pub(super) fn lacks_tls(&self) -> bool {
        self.tls.is_none() && self.servers.iter().any(|server| server.name.is_some())
    }

    /// The servers that do not speak TLS.
    pub(super) fn in_clear_text(&self) -> impl Iterator<Item = &str> {
        let plain = self.servers.iter().filter(|server| server.name.is_none());
        plain.map(|server| server.address.as_str())
    }

    pub(super) fn servers(&self) -> String {
        let addresses: Vec<&str> =
            self.servers.iter().map(|server| server.address.as_str()).collect();
        addresses.join(",")
    }

    /// Asks the first server that answers. A server that has lost the others refuses: then another one is asked, too.
    pub(super) fn call(&mut self, what: &str, body: &Value) -> Result<Value, ClientError> {
        let mut error = ClientError::Nonsense;
        for at in 0..self.servers.len() {
            match self.ask(&self.servers[at], what, body) {
                Ok(answer) => {
                    self.servers[..=at].rotate_right(1);
                    return Ok(answer);
                }
                Err(other) => error = other,
            }
        }
        Err(error)
    }

    fn connect(&self, server: &Server) -> io::Result<Box<dyn Connection>> {
        let connection = connect_to_any(server.address.to_socket_addrs()?, self.wait)?;
        connection.set_read_timeout(Some(self.wait))?;
        connection.set_write_timeout(Some(self.wait))?;
        let Some((name, tls)) = server.name.as_ref().zip(self.tls.clone()) else {
            return Ok(Box::new(connection));
        };
        let name = ServerName::try_from(name.clone()).map_err(io::Error::other)?;
        let session = ClientConnection::new(tls, name).map_err(io::Error::other)?;
        Ok(Box::new(StreamOwned::new(session, connection)))
    }

    fn ask(&self, server: &Server, what: &str, body: &Value) -> Result<Value, ClientError> {
        let mut connection = self.connect(server)?;
        let (server, body) = (&server.address, body.to_string());
        // In this version of HTTP an answer ends with its connection.
        let head = format!(
            "POST /v3/{what} HTTP/1.0\r\nHost: {server}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        connection.write_all(format!("{head}{body}").as_bytes())?;
        let mut answer = Vec::new();
        match connection.take(LARGEST).read_to_end(&mut answer) {
            // Without a last word of TLS: an answer that was cut off is none.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && !answer.is_empty() => {}
            read => drop(read?),
        }
        read(&answer)
    }
}

/// A name may have addresses at which nobody listens: all are tried, one after the other.
fn connect_to_any(
    addresses: impl Iterator<Item = SocketAddr>,
    wait: Duration,
) -> io::Result<TcpStream> {
    let mut error = io::Error::other("its name has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, wait) {
            Ok(connection) => return Ok(connection),
            Err(other) => error = other,
        }
    }
    Err(error)
}

fn read(answer: &[u8]) -> Result<Value, ClientError> {
    let text = std::str::from_utf8(answer).map_err(|_| ClientError::Nonsense)?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| {
        ClientError::Connection(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the answer was cut off",
        ))
    })?;
    let status = head.split_whitespace().nth(1).ok_or(ClientError::Nonsense)?;
    let value: Option<Value> = serde_json::from_str(body.trim()).ok();
    match (status, value) {
        ("200", Some(value)) if value.get("error").is_none() => Ok(value),
        ("200", None) => {
            let cut = io::Error::new(io::ErrorKind::UnexpectedEof, "the answer was cut off");
            Err(ClientError::Connection(cut))
        }
        (_, Some(value)) => {
            let error = value["message"].as_str().or(value["error"].as_str());
            let nested = value["error"]["message"].as_str();
            let why = error.or(nested).unwrap_or(status).to_owned();
            let code = value["code"].as_i64().or(value["error"]["grpc_code"].as_i64());
            match code.is_some_and(|code| PASSING.contains(&code)) {
                true => Err(ClientError::Connection(io::Error::other(why))),
                false => Err(ClientError::Refused(why)),
            }
        }
        (_, None) => Err(ClientError::Nonsense),
    }
}

pub(super) fn encoded(text: &str) -> String {
    encoded_bytes(text.as_bytes())
}

pub(super) fn encoded_bytes(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

pub(super) fn decoded(value: &Value) -> Option<Vec<u8>> {
    STANDARD.decode(value.as_str()?).ok()
}

/// Numbers are texts there; one that is 0 is left out.
pub(super) fn number(value: &Value) -> Result<i64, ClientError> {
    match value {
        Value::Null => Ok(0),
        value => value.as_str().and_then(|text| text.parse().ok()).ok_or(ClientError::Nonsense),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_addresses_of_a_name_are_tried() {
        let open = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = open.local_addr().unwrap().port();
        let closed = SocketAddr::from(([127, 0, 0, 9], port));
        let wait = Duration::from_secs(30);
        let connected = connect_to_any([closed, open.local_addr().unwrap()].into_iter(), wait);
        assert_eq!(connected.unwrap().peer_addr().unwrap(), open.local_addr().unwrap());
        assert!(connect_to_any([closed].into_iter(), wait).is_err());
        assert!(connect_to_any(std::iter::empty(), wait).is_err());
    }

    #[test]
    fn answers_are_told_from_refusals_and_from_what_was_cut_off() {
        let answer = |text: &str| read(text.as_bytes());
        assert_eq!(answer("HTTP/1.0 200 OK\r\nA: b\r\n\r\n{\"ID\":\"7\"}\n").unwrap()["ID"], "7");
        let cut = ["", "HTTP/1.0 200 OK\r\nA", "HTTP/1.0 200 OK\r\n\r\n{\"ID\":"];
        assert!(cut.iter().all(|text| matches!(answer(text), Err(ClientError::Connection(_)))));
        let refused = answer(
            "HTTP/1.0 400 Bad Request\r\n\r\n{\"error\":\"no\",\"message\":\"not so\",\"code\":3}",
        );
        assert!(matches!(refused, Err(ClientError::Refused(why)) if why == "not so"));
        let nested = answer("HTTP/1.0 200 OK\r\n\r\n{\"error\":{\"message\":\"no leader\"}}");
        assert!(matches!(nested, Err(ClientError::Refused(why)) if why == "no leader"));
        let passing = answer(
            "HTTP/1.0 503 Service Unavailable\r\n\r\n{\"error\":\"etcdserver: leader changed\",\"code\":14}",
        );
        assert!(
            matches!(passing, Err(ClientError::Connection(why)) if why.to_string().contains("leader changed"))
        );
        assert!(matches!(
            answer("HTTP/1.0 404 Not Found\r\n\r\nno such page"),
            Err(ClientError::Nonsense)
        ));
        assert_eq!(number(&Value::Null).unwrap(), 0);
        assert!(number(&Value::Bool(true)).is_err());
    }
}
