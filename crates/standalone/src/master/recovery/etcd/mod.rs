//! `ETCD`: election and state of masters in an etcd cluster.
//!
//! ```text
//!   DIR/leader          the leader: there for as long as its lease
//!   DIR/last_write      which write was the last one
//!   DIR/state/KEY       a record
//! ```
//!
//! Every write is a transaction that also asks whether `leader` is still the one that this master created: the lease of a master
//! that stood still for too long is over, and nothing that it writes is taken. It asks for the write before it, too: one that was
//! not answered is sent again, and whichever of the two comes late changes nothing.

mod client;
mod tls;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use self::client::{Client, ClientError, Server, decoded, encoded, number};
pub(super) use self::tls::EtcdTls;
use super::{Elected, Entry, Recovery, RecoveryError, is_loopback, parts};

/// A transaction takes so many changes, and so many bytes: less than etcd does.
const MOST_CHANGES: usize = 100;
const LARGEST_WRITE: usize = 512 << 10;
/// How long it waits before it asks another server.
const PAUSE: Duration = Duration::from_millis(100);

/// A place in an etcd cluster.
#[derive(Debug)]
pub struct Etcd {
    client: Client,
    directory: String,
    /// How long a lease lasts that nobody renews.
    timeout: Duration,
    url: String,
    led: Option<Led>,
    /// The URL of the master that leads instead.
    leader: Option<String>,
}

/// A leadership.
#[derive(Debug)]
struct Led {
    lease: i64,
    /// What `leader` was created by: nobody else's is the same.
    revision: i64,
    timeout: Duration,
    /// How many writes there were.
    writes: u64,
}

impl Led {
    /// What `last_write` says after so many writes.
    fn mark(&self, writes: u64) -> String {
        encoded(&format!("{}-{writes}", self.revision))
    }

    /// That `leader` is this master's.
    fn condition(&self, key: &str) -> Value {
        let revision = self.revision.to_string();
        json!({ "key": key, "target": "CREATE", "result": "EQUAL", "create_revision": revision })
    }
}

impl Etcd {
    /// Servers as `http://host:2379`, separated by commas; a directory such as `/spark`.
    pub fn new(url: &str, directory: &str, timeout: Duration) -> Result<Self, RecoveryError> {
        let refused = || RecoveryError::EtcdUrl { url: url.to_owned() };
        let servers: Option<Vec<Server>> =
            url.split(',').map(str::trim).filter(|it| !it.is_empty()).map(client::server).collect();
        let servers = servers.filter(|servers| !servers.is_empty()).ok_or_else(refused)?;
        let directory = directory.trim_end_matches('/').to_owned();
        if !directory.starts_with('/') || directory.contains("//") {
            return Err(RecoveryError::EtcdDirectory { directory });
        }
        let client = Client::new(servers, timeout / 3);
        Ok(Self { client, directory, timeout, url: String::new(), led: None, leader: None })
    }

    /// How its servers are told from others, and what they are shown: for `https://`.
    pub(super) fn with_tls(mut self, tls: &EtcdTls) -> Result<Self, RecoveryError> {
        if let Some(config) = tls.config()? {
            self.client.set_tls(config);
        }
        match self.client.lacks_tls() {
            true => Err(tls.missing()),
            false => Ok(self),
        }
    }

    /// What people should know if others may listen.
    pub(super) fn clear_text(&self) -> Option<String> {
        let open = self.client.in_clear_text().find(|server| !is_loopback(server))?;
        Some(format!(
            "etcd at {open} is spoken to in clear text: who is on the way reads how the cluster stands and may change it, so write \
             https://{open} in spark.firesteel.deploy.etcd.url and set spark.firesteel.deploy.etcd.trustStore"
        ))
    }

    fn failed(&self, error: ClientError) -> RecoveryError {
        RecoveryError::Etcd { servers: self.client.servers(), error: error.to_string() }
    }

    fn leader_key(&self) -> String {
        format!("{}/leader", self.directory)
    }

    fn last_write_key(&self) -> String {
        format!("{}/last_write", self.directory)
    }

    fn state_prefix(&self) -> String {
        format!("{}/state/", self.directory)
    }

    fn lead(&mut self) -> Result<Option<Elected>, ClientError> {
        let key = encoded(&self.leader_key());
        let found = self.client.call("kv/range", &json!({ "key": key }))?;
        if let Some(leader) = found["kvs"].get(0) {
            self.leader = decoded(&leader["value"]).and_then(|url| String::from_utf8(url).ok());
            return Ok(None);
        }
        let ttl = self.timeout.as_secs().max(1).to_string();
        let granted = self.client.call("lease/grant", &json!({ "TTL": ttl }))?;
        let (lease, seconds) = (number(&granted["ID"])?, number(&granted["TTL"])?);
        let created = self.client.call(
            "kv/txn",
            &json!({
                "compare": [{ "key": key, "target": "CREATE", "result": "EQUAL", "create_revision": "0" }],
                "success": [{ "request_put": { "key": key, "value": encoded(&self.url), "lease": lease.to_string() } }],
            }),
        )?;
        if created["succeeded"] != true {
            self.revoke(lease);
            return Ok(None);
        }
        let timeout = Duration::from_secs(seconds.unsigned_abs());
        let revision = number(&created["header"]["revision"])?;
        self.led = Some(Led { lease, revision, timeout, writes: 0 });
        self.begin_writes()?;
        Ok(Some(Elected { entries: self.entries()?, lease: Some(timeout * 3 / 4) }))
    }

    /// All records, as of a moment when this master led.
    fn entries(&mut self) -> Result<Vec<(String, Vec<u8>)>, ClientError> {
        let prefix = self.state_prefix();
        let end = format!("{}0", prefix.trim_end_matches('/')); // what comes after every key that begins so
        let range = json!({ "key": encoded(&prefix), "range_end": encoded(&end) });
        let found = self.client.call("kv/range", &range)?;
        let records = found["kvs"].as_array().map_or(&[][..], Vec::as_slice);
        let record = |record: &Value| {
            let key = String::from_utf8(decoded(&record["key"])?).ok()?;
            let value = record.get("value").map_or(Some(Vec::new()), decoded)?;
            Some((key.strip_prefix(&prefix)?.to_owned(), value))
        };
        records.iter().map(|found| record(found).ok_or(ClientError::Nonsense)).collect()
    }

    /// From now on only writes of this leadership are taken.
    fn begin_writes(&mut self) -> Result<(), ClientError> {
        let (leader, last) = (encoded(&self.leader_key()), encoded(&self.last_write_key()));
        let led = self.led.as_ref().ok_or(ClientError::Deposed)?;
        let first = json!({ "request_put": { "key": last, "value": led.mark(0) } });
        let transaction = json!({ "compare": [led.condition(&leader)], "success": [first] });
        match self.client.call("kv/txn", &transaction)?["succeeded"] == true {
            true => Ok(()),
            false => Err(ClientError::Deposed),
        }
    }

    /// Does these things if this master leads, once.
    fn transact(&mut self, mut changes: Vec<Value>) -> Result<(), ClientError> {
        let (leader, last) = (encoded(&self.leader_key()), encoded(&self.last_write_key()));
        let led = self.led.as_mut().ok_or(ClientError::Deposed)?;
        let until = Instant::now() + led.timeout * 3 / 4;
        let (before, mark) = (led.mark(led.writes), led.mark(led.writes + 1));
        let follows = json!({ "key": last, "target": "VALUE", "result": "EQUAL", "value": before });
        changes.push(json!({ "request_put": { "key": last, "value": mark } }));
        let transaction = json!({
            "compare": [led.condition(&leader), follows],
            "success": changes,
            "failure": [{ "request_range": { "key": last } }],
        });
        loop {
            match self.client.call("kv/txn", &transaction) {
                Ok(done) => {
                    let found = &done["responses"][0]["response_range"]["kvs"][0]["value"];
                    // Or it was done before, and the answer was lost.
                    if done["succeeded"] != true && *found != mark {
                        return Err(ClientError::Deposed);
                    }
                    led.writes += 1;
                    return Ok(());
                }
                Err(ClientError::Connection(_)) if Instant::now() + PAUSE < until => {
                    std::thread::sleep(PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Renews the lease, and asks whether this master leads.
    fn prolong(&mut self) -> Result<Duration, ClientError> {
        let key = encoded(&self.leader_key());
        let led = self.led.as_ref().ok_or(ClientError::Deposed)?;
        let renewed =
            self.client.call("lease/keepalive", &json!({ "ID": led.lease.to_string() }))?;
        // A lease that is over has no time left.
        let lives = number(&renewed["result"]["TTL"])? > 0;
        let asked = self.client.call("kv/txn", &json!({ "compare": [led.condition(&key)] }))?;
        match lives && asked["succeeded"] == true {
            true => Ok(led.timeout * 3 / 4),
            false => Err(ClientError::Deposed),
        }
    }

    fn change(&self, Entry { key, value }: &Entry) -> Value {
        let key = encoded(&format!("{}{key}", self.state_prefix()));
        match value {
            Some(value) => {
                json!({ "request_put": { "key": key, "value": client::encoded_bytes(value) } })
            }
            None => json!({ "request_delete_range": { "key": key } }),
        }
    }

    fn revoke(&mut self, lease: i64) {
        // It ends by itself if nobody hears that.
        let _ = self.client.call("lease/revoke", &json!({ "ID": lease.to_string() }));
    }
}

impl Recovery for Etcd {
    fn has_rivals(&self) -> bool {
        true
    }

    fn try_lead(&mut self) -> Result<Option<Elected>, RecoveryError> {
        self.leader = None;
        self.lead().map_err(|error| self.failed(error))
    }

    fn write(&mut self, entries: &[Entry]) -> Result<(), RecoveryError> {
        for part in parts(entries, MOST_CHANGES, LARGEST_WRITE) {
            let changes = part.iter().map(|entry| self.change(entry)).collect();
            self.transact(changes).map_err(|error| self.failed(error))?;
        }
        Ok(())
    }

    fn renew(&mut self) -> Result<Option<Duration>, RecoveryError> {
        // A connection that breaks may be another one's in a moment, and a cluster elects a leader within seconds: the lease is
        // renewed long before its end.
        let asked = Instant::now();
        let until = asked + self.led.as_ref().map_or(Duration::ZERO, |led| led.timeout / 4);
        let renewed = loop {
            let begun = Instant::now();
            match self.prolong() {
                Err(ClientError::Connection(_)) if begun + PAUSE < until => {
                    std::thread::sleep(PAUSE)
                }
                // It counts from when this was asked.
                Ok(lease) => break Ok(lease + (begun - asked)),
                error => break error,
            }
        };
        renewed.map(Some).map_err(|error| self.failed(error))
    }

    fn resign(&mut self) {
        if let Some(led) = self.led.take() {
            self.revoke(led.lease);
        }
    }

    fn introduce(&mut self, url: &str) {
        self.url = url.to_owned();
    }

    fn leader(&self) -> Option<String> {
        self.leader.clone().filter(|leader| leader.starts_with("spark://"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_directories_that_cannot_be_are_refused_with_what_to_write() {
        let timeout = Duration::from_secs(10);
        for url in
            ["http://a:2379", "http://a:2379, b:2379", "http://[::1]:2379/", "https://a:2379"]
        {
            assert!(Etcd::new(url, "/spark/", timeout).is_ok(), "{url}");
        }
        for url in ["", "a", "http://a", "ftp://a:2379", "http://a:b", "https://a:1/path"] {
            let error = Etcd::new(url, "/spark", timeout).unwrap_err();
            assert!(error.to_string().contains("spark.firesteel.deploy.etcd.url"), "{error}");
        }
        for directory in ["", "spark", "/a//b"] {
            let error = Etcd::new("http://a:1", directory, timeout).unwrap_err();
            assert!(error.to_string().contains("spark.firesteel.deploy.etcd.dir"), "{error}");
        }
    }

    #[test]
    fn tls_without_somebody_to_trust_is_refused_with_what_to_set() {
        let store = |url| Etcd::new(url, "/spark", Duration::from_secs(10)).unwrap();
        let error = store("https://a:2379").with_tls(&EtcdTls::default()).unwrap_err();
        assert!(error.to_string().contains("spark.firesteel.deploy.etcd.trustStore"), "{error}");
        assert!(store("http://a:2379").with_tls(&EtcdTls::default()).is_ok());
        let tls = EtcdTls { trust_store: Some("/nowhere.pem".into()), ..EtcdTls::default() };
        let error = store("https://a:2379").with_tls(&tls).unwrap_err();
        assert!(error.to_string().contains("/nowhere.pem"), "{error}");
    }

    #[test]
    fn servers_of_other_machines_that_are_spoken_to_in_clear_text_are_named_with_what_to_do() {
        let told =
            |url: &str| Etcd::new(url, "/spark", Duration::from_secs(10)).unwrap().clear_text();
        for url in ["http://127.0.0.1:2379", "localhost:2379,http://[::1]:2379", "https://a:2379"] {
            assert_eq!(told(url), None, "{url}");
        }
        for url in ["http://a:2379", "https://b:2379,http://a:2379", "http://[::1]:2379,a:2379"] {
            let told = told(url).unwrap();
            assert!(told.contains("etcd at a:2379") && told.contains("https://a:2379"), "{told}");
        }
    }

    #[test]
    fn a_cluster_that_is_not_there_is_an_error_that_names_it() {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let timeout = Duration::from_millis(300);
        let mut store = Etcd::new(&format!("http://{closed}"), "/spark", timeout).unwrap();
        let error = store.try_lead().unwrap_err().to_string();
        assert!(error.contains(&closed.to_string()) && error.contains("refused"), "{error}");
        assert!(store.write(&[Entry { key: "term".into(), value: None }]).is_err());
    }
}
