//! `ZOOKEEPER`: election and state of masters in a ZooKeeper ensemble.
//!
//! ```text
//!   DIR/leader_election/candidate-0000000007   ephemeral: who has the smallest number leads
//!   DIR/master_status/KEY                      a record
//!   DIR/last_write                             which write was the last one
//! ```
//!
//! Every write is one transaction that also asks whether this master's candidate is still there: the session of a master that
//! stood still for too long is over, its candidate gone, and nothing that it writes is taken. A connection that breaks is made
//! again with the same session as long as the lease lasts; `last_write` tells whether a write arrived that was not answered.

mod session;
mod wire;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use firesteel_rpc::Secret;

use self::session::{Session, SessionError};
use self::wire::{Code, Op};
use super::{Elected, Entry, Recovery, RecoveryError, is_loopback, parts};

/// More bytes than this go in several transactions: an ensemble refuses more than `jute.maxbuffer`, 1 MiB.
const LARGEST_WRITE: usize = 512 << 10;

/// What the password is made for of a secret.
const PURPOSE: &str = "firesteel 2026-11-18 nodes of masters";

/// A place in a ZooKeeper ensemble.
#[derive(Debug)]
pub struct ZooKeeper {
    servers: Vec<String>,
    directory: String,
    /// How long a session lives without a word.
    timeout: Duration,
    session: Option<Session>,
    /// The node of this master in the election.
    candidate: Option<String>,
    /// Records that are there.
    keys: BTreeSet<String>,
    writes: u64,
    /// What this master is called: what its candidate says.
    url: String,
    /// The first candidate, if that is another one's, and what it says.
    first: Option<(String, String)>,
    /// What masters of this cluster prove: nobody else may read or change their nodes.
    credentials: Option<Secret>,
}

impl ZooKeeper {
    /// Servers as `host:port`, separated by commas; a directory such as `/spark`.
    pub fn new(url: &str, directory: &str, timeout: Duration) -> Result<Self, RecoveryError> {
        let servers: Vec<String> =
            url.split(',').map(str::trim).filter(|s| !s.is_empty()).map(str::to_owned).collect();
        let is_server = |server: &String| {
            server.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok())
        };
        if servers.is_empty() || !servers.iter().all(is_server) {
            return Err(RecoveryError::ZooKeeperUrl { url: url.to_owned() });
        }
        let directory = directory.trim_end_matches('/').to_owned();
        if !directory.starts_with('/') || directory.contains("//") {
            return Err(RecoveryError::ZooKeeperDirectory { directory });
        }
        let (session, candidate, keys) = (None, None, BTreeSet::new());
        let (url, first, writes, credentials) = (String::new(), None, 0, None);
        Ok(Self {
            servers,
            directory,
            timeout,
            session,
            candidate,
            keys,
            writes,
            url,
            first,
            credentials,
        })
    }

    /// Its nodes are for those who have this secret. A password made of it crosses the network, and not the secret itself.
    pub fn owned_by(mut self, secret: &Secret) -> Self {
        let key = blake3::derive_key(PURPOSE, secret.expose().as_bytes());
        let text = format!("firesteel:{}", blake3::Hash::from_bytes(key).to_hex());
        self.credentials = Secret::new(&text, "of ZooKeeper").ok();
        self
    }

    /// What people should know if others may listen.
    pub(super) fn clear_text(&self) -> Option<String> {
        let open = self.servers.iter().find(|server| !is_loopback(server))?;
        Some(format!(
            "ZooKeeper at {open} is spoken to in clear text: who is on the way reads how the cluster stands and the password of its nodes, \
             and may change them, so lead the traffic through a tunnel (such as stunnel on 127.0.0.1, or WireGuard), or use \
             spark.deploy.recoveryMode=ETCD with https://"
        ))
    }

    fn election(&self) -> String {
        format!("{}/leader_election", self.directory)
    }

    fn status(&self) -> String {
        format!("{}/master_status", self.directory)
    }

    fn last_write(&self) -> String {
        format!("{}/last_write", self.directory)
    }

    fn failed(&self, error: SessionError) -> RecoveryError {
        RecoveryError::ZooKeeper { servers: self.servers.join(","), error: error.to_string() }
    }

    fn session(&mut self) -> Result<&mut Session, SessionError> {
        if self.session.is_none() {
            self.candidate = None;
            let credentials = self.credentials.clone();
            self.session = Some(Session::open(&self.servers, self.timeout, credentials)?);
        }
        Ok(self.session.as_mut().expect("just opened"))
    }

    /// A node that stays, with all above it. Those above the directory are not ours alone.
    fn ensure(&mut self, path: &str) -> Result<(), SessionError> {
        for (at, _) in path.char_indices().filter(|(at, letter)| *at > 0 && *letter == '/') {
            self.ensure_one(&path[..at])?;
        }
        self.ensure_one(path)
    }

    fn ensure_one(&mut self, path: &str) -> Result<(), SessionError> {
        let above = path.len() < self.directory.len();
        let created = match above {
            true => self.session()?.create_open(path),
            false => self.session()?.create(path, b"", wire::PERSISTENT),
        };
        match created {
            Ok(_) | Err(SessionError::Refused(Code::NODE_EXISTS)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Whether this master's candidate has the smallest number.
    fn is_first(&mut self) -> Result<bool, SessionError> {
        self.session()?;
        if let Some(candidate) = self.candidate.clone()
            && !self.session()?.exists(&candidate)?
        {
            self.candidate = None;
        }
        let election = self.election();
        if self.candidate.is_none() {
            for path in [election.clone(), self.status(), self.last_write()] {
                self.ensure(&path)?;
            }
            let path = format!("{election}/candidate-");
            let url = self.url.clone();
            let made = self.session()?.create(&path, url.as_bytes(), wire::EPHEMERAL_SEQUENTIAL)?;
            self.candidate = Some(made);
        }
        let candidates = self.session()?.children(&election)?;
        let own = self.candidate.as_deref().and_then(|path| path.rsplit('/').next());
        let first = candidates.iter().min();
        if first.map(String::as_str) == own {
            return Ok(true);
        }
        self.look_at(first)?;
        Ok(false)
    }

    /// Asks a candidate that comes before this one who it is, once.
    fn look_at(&mut self, first: Option<&String>) -> Result<(), SessionError> {
        if first == self.first.as_ref().map(|(name, _)| name) {
            return Ok(());
        }
        self.first = None;
        let Some(name) = first else { return Ok(()) };
        let path = format!("{}/{name}", self.election());
        match self.session()?.data(&path) {
            Ok(url) => {
                self.first = Some((name.clone(), String::from_utf8_lossy(&url).into_owned()))
            }
            Err(SessionError::Refused(Code::NO_NODE)) => {} // gone meanwhile
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn lead(&mut self) -> Result<Option<Elected>, SessionError> {
        if !self.is_first()? {
            return Ok(None);
        }
        let status = self.status();
        let keys = self.session()?.children(&status)?;
        let paths: Vec<String> = keys.iter().map(|key| format!("{status}/{key}")).collect();
        let values = self.session()?.data_of(&paths)?;
        self.keys = keys.iter().cloned().collect();
        let entries = keys.into_iter().zip(values).collect();
        Ok(Some(Elected { entries, lease: Some(self.lease()) }))
    }

    /// Less than the session lives, for clocks that gain or lose.
    fn lease(&self) -> Duration {
        let timeout = self.session.as_ref().map_or(self.timeout, Session::timeout);
        timeout * 3 / 4
    }

    /// One transaction; a connection that breaks in the middle is made again, and it is seen whether it arrived.
    fn transact(&mut self, entries: &[Entry]) -> Result<(), SessionError> {
        let until = Instant::now() + self.lease();
        self.writes += 1;
        let id = self.session.as_ref().map_or(0, Session::id);
        let mark = format!("{id:x}-{}", self.writes).into_bytes();
        loop {
            let ops = self.ops(entries, &mark)?;
            let sent = self.session.as_mut().ok_or(SessionError::NoSession)?.multi(&ops);
            match sent {
                Err(SessionError::Connection(_)) if Instant::now() < until => {
                    let path = self.last_write();
                    let session = self.session.as_mut().ok_or(SessionError::NoSession)?;
                    if session.data(&path)? == mark {
                        break;
                    }
                }
                done => {
                    done?;
                    break;
                }
            }
        }
        for Entry { key, value } in entries {
            match value {
                Some(_) => self.keys.insert(key.clone()),
                None => self.keys.remove(key),
            };
        }
        Ok(())
    }

    fn ops(&self, entries: &[Entry], mark: &[u8]) -> Result<Vec<Op>, SessionError> {
        let candidate = self.candidate.clone().ok_or(SessionError::NoSession)?;
        let mut ops = vec![
            Op::Check { path: candidate },
            Op::Set { path: self.last_write(), data: mark.to_vec() },
        ];
        for Entry { key, value } in entries {
            let path = format!("{}/{key}", self.status());
            match (value.clone(), self.keys.contains(key)) {
                (Some(data), true) => ops.push(Op::Set { path, data }),
                (Some(data), false) => ops.push(Op::Create { path, data }),
                (None, true) => ops.push(Op::Delete { path }),
                (None, false) => {}
            }
        }
        Ok(ops)
    }
}

impl Recovery for ZooKeeper {
    fn has_rivals(&self) -> bool {
        true
    }

    fn try_lead(&mut self) -> Result<Option<Elected>, RecoveryError> {
        self.lead().map_err(|error| {
            self.session = None;
            self.failed(error)
        })
    }

    fn write(&mut self, entries: &[Entry]) -> Result<(), RecoveryError> {
        for part in parts(entries, usize::MAX, LARGEST_WRITE) {
            self.transact(part).map_err(|error| self.failed(error))?;
        }
        Ok(())
    }

    fn renew(&mut self) -> Result<Option<Duration>, RecoveryError> {
        let lease = self.lease();
        let candidate = self.candidate.clone();
        let there = match (&mut self.session, candidate) {
            (Some(session), Some(candidate)) => session.exists(&candidate),
            _ => Err(SessionError::NoSession),
        };
        match there {
            Ok(true) => Ok(Some(lease)),
            Ok(false) => Err(self.failed(SessionError::Deposed)),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn introduce(&mut self, url: &str) {
        self.url = url.to_owned();
    }

    fn leader(&self) -> Option<String> {
        let (_, url) = self.first.as_ref()?;
        url.starts_with("spark://").then(|| url.clone())
    }

    /// Closes the session: the next candidate leads at once.
    fn resign(&mut self) {
        (self.candidate, self.first) = (None, None);
        if let Some(session) = self.session.take() {
            session.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_directories_that_cannot_be_are_refused_with_what_to_write() {
        let timeout = Duration::from_secs(10);
        assert!(ZooKeeper::new("a:2181, b:2181", "/spark/", timeout).is_ok());
        for url in ["", "a", "a:b", "a:2181,b"] {
            let error = ZooKeeper::new(url, "/spark", timeout).unwrap_err();
            assert!(error.to_string().contains("spark.deploy.zookeeper.url"), "{error}");
        }
        for directory in ["", "spark", "/a//b"] {
            let error = ZooKeeper::new("a:1", directory, timeout).unwrap_err();
            assert!(error.to_string().contains("spark.deploy.zookeeper.dir"), "{error}");
        }
    }

    #[test]
    fn an_ensemble_beyond_this_machine_is_named_with_what_to_do_about_its_clear_text() {
        let told =
            |url| ZooKeeper::new(url, "/spark", Duration::from_secs(10)).unwrap().clear_text();
        assert_eq!(told("127.0.0.1:2181,localhost:2182"), None);
        let told = told("127.0.0.1:2181,zk-2:2181").unwrap();
        assert!(told.contains("ZooKeeper at zk-2:2181") && told.contains("a tunnel"), "{told}");
    }

    #[test]
    fn an_ensemble_that_is_not_there_is_an_error_that_names_it() {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let timeout = Duration::from_millis(300);
        let mut store = ZooKeeper::new(&closed.to_string(), "/spark", timeout).unwrap();
        let error = store.try_lead().unwrap_err().to_string();
        assert!(error.contains(&closed.to_string()) && error.contains("refused"), "{error}");
        assert!(store.write(&[Entry { key: "term".into(), value: None }]).is_err());
    }
}
