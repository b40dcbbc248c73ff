//! A session with an ensemble: one connection at a time, made again with the same session when it breaks.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::thread;
use std::time::{Duration, Instant};

use firesteel_rpc::Secret;

use super::wire::{AUTH_REQUEST, Code, Op, Owner, Reader, Writer, kind};

/// The largest answer that is read.
const LARGEST: usize = 64 << 20;
/// How long it waits until it asks for another connection.
const PAUSE: Duration = Duration::from_millis(100);
const PASSWORD: usize = 16;
/// So many nodes are asked for before the first answers: few enough that the requests fit into the buffers of any connection.
const PIPELINED: usize = 64;

/// Why something did not work.
#[derive(Debug)]
pub(super) enum SessionError {
    /// No server could be reached, or it went away.
    Connection(io::Error),
    /// A server answered, and this is why it did not do it.
    Refused(Code),
    /// The answer was none.
    Nonsense,
    NoSession,
    /// This master's candidate is gone.
    Deposed,
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionError::Connection(error) => write!(f, "{error}"),
            SessionError::Refused(Code::SESSION_EXPIRED) => f.write_str("the session is over"),
            SessionError::Refused(Code::NO_NODE) => f.write_str("a node that was there is gone"),
            SessionError::Refused(Code::NO_AUTH | Code::AUTH_FAILED) => f.write_str(
                "the nodes are those of masters with another secret (spark.authenticate.secret): give all masters the same, or \
                 another spark.deploy.zookeeper.dir",
            ),
            SessionError::Refused(Code(code)) => write!(f, "it refused a request with error {code}"),
            SessionError::Nonsense => f.write_str("it answered something else than ZooKeeper does"),
            SessionError::NoSession => f.write_str("there is no session"),
            SessionError::Deposed => f.write_str("this master's place in the election is gone"),
        }
    }
}

impl From<io::Error> for SessionError {
    fn from(error: io::Error) -> Self {
        SessionError::Connection(error)
    }
}

#[derive(Debug)]
pub(super) struct Session {
    servers: Vec<String>,
    timeout: Duration,
    id: i64,
    password: Vec<u8>,
    /// What this session proves, and who then owns what it creates; `None`: nothing, and everybody.
    credentials: Option<Secret>,
    connection: Option<TcpStream>,
    requests: i32,
    /// The last change that a server told of: one that does not know it yet would show what was before.
    seen: i64,
    /// When a server answered last.
    heard: Instant,
}

impl Session {
    /// A new session with the first server that takes it.
    pub(super) fn open(
        servers: &[String],
        timeout: Duration,
        credentials: Option<Secret>,
    ) -> Result<Self, SessionError> {
        let mut session = Session {
            servers: servers.to_vec(),
            timeout,
            id: 0,
            password: vec![0; PASSWORD],
            credentials,
            connection: None,
            requests: 0,
            seen: 0,
            heard: Instant::now(),
        };
        session.connect()?;
        Ok(session)
    }

    pub(super) fn id(&self) -> i64 {
        self.id
    }

    /// As the ensemble has it, which may allow less or more than was asked for.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// To any server; the last error if there is none.
    fn connect(&mut self) -> Result<(), SessionError> {
        let mut error = SessionError::NoSession;
        for server in self.servers.clone() {
            let addresses = server.to_socket_addrs().map_err(SessionError::from);
            match addresses.and_then(|addresses| self.connect_to_any(addresses)) {
                Ok(()) => return Ok(()),
                Err(SessionError::Refused(code)) => return Err(SessionError::Refused(code)),
                Err(other) => error = other,
            }
        }
        Err(error)
    }

    /// A name may have addresses at which the server does not listen: all are tried, one after the other.
    fn connect_to_any(
        &mut self,
        addresses: impl Iterator<Item = SocketAddr>,
    ) -> Result<(), SessionError> {
        let mut error = SessionError::Connection(io::Error::other("its name has no address"));
        for address in addresses {
            match self.connect_to(address) {
                Ok(()) => return Ok(()),
                Err(SessionError::Refused(code)) => return Err(SessionError::Refused(code)),
                Err(other) => error = other,
            }
        }
        Err(error)
    }

    fn connect_to(&mut self, address: SocketAddr) -> Result<(), SessionError> {
        let wait = (self.timeout / 3).max(Duration::from_millis(100));
        let mut connection = TcpStream::connect_timeout(&address, wait)?;
        connection.set_read_timeout(Some(wait))?;
        connection.set_write_timeout(Some(wait))?;
        connection.set_nodelay(true)?;
        let millis = i32::try_from(self.timeout.as_millis()).unwrap_or(i32::MAX);
        let hello = Writer::default().int(0).long(self.seen).int(millis).long(self.id);
        let hello = hello.bytes(&self.password).bool(false).framed();
        connection.write_all(&hello)?;
        let answer = read_frame(&mut connection)?;
        let mut answer = Reader(&answer);
        let (_, timeout) = (answer.int(), answer.int().ok_or(SessionError::Nonsense)?);
        let id = answer.long().ok_or(SessionError::Nonsense)?;
        let password = answer.bytes().ok_or(SessionError::Nonsense)?.to_vec();
        let Some(timeout) = u64::try_from(timeout).ok().filter(|timeout| *timeout > 0) else {
            return Err(SessionError::Refused(Code::SESSION_EXPIRED));
        };
        (self.id, self.password) = (id, password);
        (self.timeout, self.heard) = (Duration::from_millis(timeout), Instant::now());
        if let Some(credentials) = &self.credentials {
            authenticate(&mut connection, credentials.expose())?;
        }
        self.connection = Some(connection);
        Ok(())
    }

    /// Who owns what this session creates.
    fn owner(&self) -> Owner {
        self.credentials.as_ref().map_or(Owner::World, |_| Owner::Session)
    }

    /// Sends a request once and waits for its answer.
    fn call(
        &mut self,
        kind: i32,
        body: &dyn Fn(Writer) -> Writer,
    ) -> Result<Vec<u8>, SessionError> {
        self.over_connection(|session| {
            let number = session.send(kind, body)?;
            session.answer(number)
        })
    }

    /// Over the connection that there is or a new one, which is not used again once it broke.
    fn over_connection<T>(
        &mut self,
        exchange: impl FnOnce(&mut Self) -> Result<T, SessionError>,
    ) -> Result<T, SessionError> {
        if self.connection.is_none() {
            self.connect()?;
        }
        let exchanged = exchange(self);
        if matches!(exchanged, Err(SessionError::Connection(_) | SessionError::Nonsense)) {
            self.connection = None;
        }
        exchanged
    }

    /// The number of a request that was sent.
    fn send(&mut self, kind: i32, body: &dyn Fn(Writer) -> Writer) -> Result<i32, SessionError> {
        self.requests = self.requests.wrapping_add(1).max(1);
        let number = self.requests;
        let connection = self.connection.as_mut().ok_or(SessionError::NoSession)?;
        connection.write_all(&body(Writer::request(number, kind)).framed())?;
        Ok(number)
    }

    /// Answers come in the order of their requests.
    fn answer(&mut self, number: i32) -> Result<Vec<u8>, SessionError> {
        let connection = self.connection.as_mut().ok_or(SessionError::NoSession)?;
        loop {
            let frame = read_frame(connection)?;
            let mut answer = Reader(&frame);
            let (answered, change, code) = (answer.int(), answer.long(), answer.int());
            // Others are about things that nobody asked for.
            if answered.ok_or(SessionError::Nonsense)? != number {
                continue;
            }
            self.heard = Instant::now();
            self.seen = self.seen.max(change.ok_or(SessionError::Nonsense)?);
            let code = code.ok_or(SessionError::Nonsense)?;
            let rest = answer.0.to_vec();
            // A transaction says itself what was wrong with which part.
            return match code {
                0 => Ok(rest),
                code => Err(SessionError::Refused(Code(code))),
            };
        }
    }

    /// The same for requests that may be sent twice.
    fn ask(&mut self, kind: i32, body: &dyn Fn(Writer) -> Writer) -> Result<Vec<u8>, SessionError> {
        self.while_it_may_live(|session| session.call(kind, body))
    }

    /// Again and again while connections break and the session may live.
    fn while_it_may_live<T>(
        &mut self,
        call: impl Fn(&mut Self) -> Result<T, SessionError>,
    ) -> Result<T, SessionError> {
        loop {
            match call(self) {
                Err(SessionError::Connection(error)) => {
                    if self.heard.elapsed() + PAUSE > self.timeout * 3 / 4 {
                        return Err(SessionError::Connection(error));
                    }
                    thread::sleep(PAUSE);
                }
                called => return called,
            }
        }
    }

    pub(super) fn create(
        &mut self,
        path: &str,
        data: &[u8],
        flags: i32,
    ) -> Result<String, SessionError> {
        self.create_for(self.owner(), path, data, flags)
    }

    /// A node that stays, for everybody.
    pub(super) fn create_open(&mut self, path: &str) -> Result<String, SessionError> {
        self.create_for(Owner::World, path, b"", super::wire::PERSISTENT)
    }

    fn create_for(
        &mut self,
        owner: Owner,
        path: &str,
        data: &[u8],
        flags: i32,
    ) -> Result<String, SessionError> {
        let answer =
            self.call(kind::CREATE, &|request| request.create(path, data, flags, owner))?;
        Reader(&answer).text().ok_or(SessionError::Nonsense)
    }

    pub(super) fn exists(&mut self, path: &str) -> Result<bool, SessionError> {
        let answer = self.ask(kind::EXISTS, &|request| request.bytes(path.as_bytes()).bool(false));
        match answer {
            Ok(_) => Ok(true),
            Err(SessionError::Refused(Code::NO_NODE)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(super) fn data(&mut self, path: &str) -> Result<Vec<u8>, SessionError> {
        let request = |request: Writer| request.bytes(path.as_bytes()).bool(false);
        let answer = self.ask(kind::GET_DATA, &request)?;
        Reader(&answer).bytes().map(<[u8]>::to_vec).ok_or(SessionError::Nonsense)
    }

    /// What these nodes have, in their order. Many are asked for at a time: one after the other, thousands would take longer than a session
    /// lives.
    pub(super) fn data_of(&mut self, paths: &[String]) -> Result<Vec<Vec<u8>>, SessionError> {
        let mut found = Vec::with_capacity(paths.len());
        for paths in paths.chunks(PIPELINED) {
            found.extend(self.while_it_may_live(|session| session.data_of_some(paths))?);
        }
        Ok(found)
    }

    fn data_of_some(&mut self, paths: &[String]) -> Result<Vec<Vec<u8>>, SessionError> {
        self.over_connection(|session| {
            let numbers = paths.iter().map(|path| {
                session.send(kind::GET_DATA, &|request| request.bytes(path.as_bytes()).bool(false))
            });
            let numbers = numbers.collect::<Result<Vec<i32>, SessionError>>()?;
            let data = numbers.into_iter().map(|number| {
                let answer = session.answer(number)?;
                Reader(&answer).bytes().map(<[u8]>::to_vec).ok_or(SessionError::Nonsense)
            });
            data.collect()
        })
    }

    pub(super) fn children(&mut self, path: &str) -> Result<Vec<String>, SessionError> {
        let request = |request: Writer| request.bytes(path.as_bytes()).bool(false);
        let answer = self.ask(kind::GET_CHILDREN, &request)?;
        Reader(&answer).texts().ok_or(SessionError::Nonsense)
    }

    /// All or nothing. A connection that breaks leaves open which.
    pub(super) fn multi(&mut self, ops: &[Op]) -> Result<(), SessionError> {
        let owner = self.owner();
        let answer = self.call(kind::MULTI, &|request| request.multi(ops, owner))?;
        let done = Reader(&answer).multi().ok_or(SessionError::Nonsense)?;
        done.map_err(SessionError::Refused)
    }

    pub(super) fn close(mut self) {
        if self.connection.is_some() {
            let _ = self.call(kind::CLOSE_SESSION, &|request| request);
        }
    }
}

/// A connection proves anew who asks.
fn authenticate(connection: &mut TcpStream, credentials: &str) -> Result<(), SessionError> {
    connection.write_all(&Writer::auth(credentials).framed())?;
    loop {
        let frame = read_frame(connection)?;
        let mut answer = Reader(&frame);
        let (answered, _, code) = (answer.int(), answer.long(), answer.int());
        if answered.ok_or(SessionError::Nonsense)? == AUTH_REQUEST {
            return match code.ok_or(SessionError::Nonsense)? {
                0 => Ok(()),
                code => Err(SessionError::Refused(Code(code))),
            };
        }
    }
}

fn read_frame(connection: &mut TcpStream) -> Result<Vec<u8>, SessionError> {
    let mut length = [0; 4];
    connection.read_exact(&mut length)?;
    let length = usize::try_from(i32::from_be_bytes(length)).map_err(|_| SessionError::Nonsense)?;
    if length > LARGEST {
        return Err(SessionError::Nonsense);
    }
    let mut frame = vec![0; length];
    connection.read_exact(&mut frame)?;
    Ok(frame)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn answer(connection: &mut TcpStream, body: Writer) {
        connection.write_all(&body.framed()).unwrap();
    }

    /// What a client says last to have seen, when it introduces itself.
    fn welcome(listener: &TcpListener) -> (TcpStream, i64) {
        let mut connection = listener.accept().unwrap().0;
        let hello = read_frame(&mut connection).unwrap();
        let mut hello = Reader(&hello);
        let seen = hello.int().and_then(|_| hello.long()).unwrap();
        answer(&mut connection, Writer::default().int(0).int(10_000).long(5).bytes(&[0; PASSWORD]));
        (connection, seen)
    }

    #[test]
    fn all_addresses_of_a_name_are_tried() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let open = listener.local_addr().unwrap();
        let closed = SocketAddr::from(([127, 0, 0, 9], open.port()));
        let server = thread::spawn(move || (welcome(&listener), welcome(&listener)));
        let servers = [open.to_string()];
        let mut session = Session::open(&servers, Duration::from_secs(30), None).unwrap();
        session.connect_to_any([closed, open].into_iter()).unwrap();
        assert!(session.connect_to_any([closed].into_iter()).is_err());
        server.join().unwrap();
    }

    #[test]
    fn a_server_is_told_what_another_one_has_shown_so_that_it_shows_nothing_older() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let servers = [listener.local_addr().unwrap().to_string()];
        let server = thread::spawn(move || {
            let (mut connection, first) = welcome(&listener);
            let request = read_frame(&mut connection).unwrap();
            let number = Reader(&request).int().unwrap();
            answer(&mut connection, Writer::default().int(number).long(77).int(0));
            drop(connection);
            let (mut connection, second) = welcome(&listener);
            let request = read_frame(&mut connection).unwrap();
            let number = Reader(&request).int().unwrap();
            answer(&mut connection, Writer::default().int(number).long(78).int(-101));
            (first, second)
        });
        let mut session = Session::open(&servers, Duration::from_secs(10), None).unwrap();
        assert!(session.exists("/a").unwrap());
        assert!(!session.exists("/a").unwrap());
        assert_eq!(server.join().unwrap(), (0, 77));
    }

    #[test]
    fn many_nodes_are_asked_for_before_the_first_answers() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let servers = [listener.local_addr().unwrap().to_string()];
        let server = thread::spawn(move || {
            let (mut connection, _) = welcome(&listener);
            for count in [PIPELINED, 1] {
                let requests: Vec<Vec<u8>> =
                    (0..count).map(|_| read_frame(&mut connection).unwrap()).collect();
                for request in requests {
                    let mut request = Reader(&request);
                    let number = request.int().unwrap();
                    let path = request.int().and_then(|_| request.text()).unwrap();
                    let head = Writer::default().int(number).long(1).int(0);
                    answer(&mut connection, head.bytes(path.as_bytes()));
                }
            }
        });
        let mut session = Session::open(&servers, Duration::from_secs(10), None).unwrap();
        let paths: Vec<String> = (0..=PIPELINED).map(|number| format!("/{number}")).collect();
        let found = session.data_of(&paths).unwrap();
        let expected: Vec<&[u8]> = paths.iter().map(|path| path.as_bytes()).collect();
        assert_eq!(found, expected);
        server.join().unwrap();
    }
}
