//! What the core persists, as keys and values: a version, then bytes that nobody reads who has not the cluster's secret.
//!
//! Without a secret there is nothing to seal with, and so secrets are left out: the environment of executors, which their
//! driver brings again when it registers, and of drivers what `spark.redaction.regex` finds.

use std::collections::BTreeMap;
use std::sync::Arc;

use firesteel_backend::command::Command;
use firesteel_conf::{Conf, ConfError, REDACTED, Redaction, entries, url_scheme};
use firesteel_rpc::Secret;
use firesteel_standalone_core::Term;
use firesteel_standalone_core::master::{
    ApplicationRecord, Change, DriverRecord, Records, WorkerRecord,
};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Entry, RecoveryError};

const VERSION: u8 = 2;
const PLAIN: u8 = 0;
const SEALED: u8 = 1;

const TERM: &str = "term";
const WORKER: &str = "worker_";
const APP: &str = "app_";
const DRIVER: &str = "driver_";

/// What this key is for: another purpose has another one.
const PURPOSE: &str = "firesteel 2026-11-17 state of masters";

/// Makes values of records, and records of values.
pub(crate) struct Codec {
    key: Option<LessSafeKey>,
    redaction: Redaction,
}

impl Codec {
    pub(crate) fn new(conf: &Conf, secret: Option<&Secret>) -> Result<Self, ConfError> {
        let key = secret.map(|secret| {
            let bytes = blake3::derive_key(PURPOSE, secret.expose().as_bytes());
            LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, &bytes).expect("32 bytes"))
        });
        Ok(Self { key, redaction: conf.get(&entries::REDACTION_REGEX)? })
    }

    /// One entry for each key: the last change of a thing counts.
    pub(crate) fn entries(&self, changes: Vec<Change>) -> Vec<Entry> {
        let entries: Vec<Entry> = changes.into_iter().map(|change| self.entry(change)).collect();
        let last: BTreeMap<String, usize> =
            entries.iter().enumerate().map(|(at, entry)| (entry.key.clone(), at)).collect();
        let is_last = |(at, entry): &(usize, Entry)| last[&entry.key] == *at;
        entries.into_iter().enumerate().filter(is_last).map(|(_, entry)| entry).collect()
    }

    fn entry(&self, change: Change) -> Entry {
        let put = |key: String, bytes: Vec<u8>| Entry { value: Some(self.seal(&key, bytes)), key };
        let remove = |key: String| Entry { key, value: None };
        match change {
            Change::PutTerm(term) => put(TERM.to_owned(), encoded(&term)),
            Change::PutWorker(record) => {
                put(format!("{WORKER}{}", record.worker.id), encoded(&record))
            }
            Change::RemoveWorker(id) => remove(format!("{WORKER}{id}")),
            Change::PutApplication(record) => {
                let record = self.without_secrets_of_app(record);
                put(format!("{APP}{}", record.app), encoded(&record))
            }
            Change::RemoveApplication(id) => remove(format!("{APP}{id}")),
            Change::PutDriver(record) => {
                let record = self.without_secrets_of_driver(record);
                put(format!("{DRIVER}{}", record.driver), encoded(&record))
            }
            Change::RemoveDriver(id) => remove(format!("{DRIVER}{id}")),
        }
    }

    fn without_secrets_of_app(&self, mut record: ApplicationRecord) -> ApplicationRecord {
        if self.key.is_none() {
            let mut description = (*record.description).clone();
            description.command.environment.clear();
            record.description = Arc::new(description);
        }
        record
    }

    /// One secret is enough to leave all arguments and variables out: the word after `--password` does not look like one.
    fn without_secrets_of_driver(&self, mut record: DriverRecord) -> DriverRecord {
        let is_secret = |name: &str, value: &str| self.redaction.apply(name, value) == REDACTED;
        let Command { program, arguments, environment, .. } = &record.description.command;
        // The query of a URL may be what opens it.
        let url = url_scheme(program).and_then(|_| program.split_once('?'));
        let any = environment.iter().any(|(name, value)| is_secret(name, value))
            || arguments.iter().any(|argument| is_secret("", argument))
            || url.is_some();
        if self.key.is_none() && any {
            let mut description = (*record.description).clone();
            (description.command.arguments, description.command.environment) = Default::default();
            if let Some((before, _)) = url {
                description.command.program = before.to_owned();
            }
            (record.description, record.whole) = (Arc::new(description), false);
        }
        record
    }

    fn seal(&self, name: &str, mut bytes: Vec<u8>) -> Vec<u8> {
        let Some(key) = &self.key else {
            return [VERSION, PLAIN].into_iter().chain(bytes).collect();
        };
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).expect("the system has random numbers");
        let unique = Nonce::assume_unique_for_key(nonce);
        key.seal_in_place_append_tag(unique, Aad::from(name.as_bytes()), &mut bytes)
            .expect("less than 256 GB");
        [VERSION, SEALED].into_iter().chain(nonce).chain(bytes).collect()
    }

    fn unseal(&self, name: &str, value: Vec<u8>) -> Result<Vec<u8>, RecoveryError> {
        let cannot = |what| RecoveryError::Record { key: name.to_owned(), what };
        match (value.as_slice(), &self.key) {
            ([VERSION, PLAIN, bytes @ ..], None) => Ok(bytes.to_vec()),
            // Who can write to the store could have workers run anything.
            ([VERSION, PLAIN, ..], Some(_)) => Err(cannot(
                "it is not sealed, and this master has a secret (spark.authenticate): anybody may have written it; name a place where no \
                 master without a secret was, or remove what is there (workers and running applications register again)",
            )),
            ([VERSION, SEALED, ..], None) => Err(cannot(
                "it is sealed with the cluster's secret, and this master has none (spark.authenticate.secret)",
            )),
            ([VERSION, SEALED, sealed @ ..], Some(key)) if sealed.len() > NONCE_LEN => {
                let (nonce, sealed) = sealed.split_at(NONCE_LEN);
                let nonce = Nonce::try_assume_unique_for_key(nonce).expect("as long as a nonce");
                let mut bytes = sealed.to_vec();
                let opened = key.open_in_place(nonce, Aad::from(name.as_bytes()), &mut bytes);
                let opened = opened.map_err(|_| cannot("it was sealed with another secret than this master's (spark.authenticate.secret)"))?;
                Ok(opened.to_vec())
            }
            _ => Err(cannot("it is of another version")),
        }
    }

    /// All that is stored. Keys of others are refused: this is no place of a master's.
    pub(crate) fn records(
        &self,
        entries: Vec<(String, Vec<u8>)>,
    ) -> Result<Records, RecoveryError> {
        let mut records = Records::default();
        for (key, value) in entries {
            let bytes = self.unseal(&key, value)?;
            if let Some(change) = change(&key, &bytes)? {
                records.apply(change);
            }
        }
        Ok(records)
    }
}

fn encoded(record: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(record).expect("plain data into memory")
}

fn decoded<T: DeserializeOwned>(key: &str, bytes: &[u8]) -> Result<T, RecoveryError> {
    let what = "its bytes are no such record";
    postcard::from_bytes(bytes).map_err(|_| RecoveryError::Record { key: key.to_owned(), what })
}

fn change(key: &str, bytes: &[u8]) -> Result<Option<Change>, RecoveryError> {
    if key == TERM {
        return Ok(Some(Change::PutTerm(decoded::<Term>(key, bytes)?)));
    }
    if key.starts_with(WORKER) {
        // Those of a master before this version end before the last field: nothing was decommissioned then.
        let whole = decoded::<WorkerRecord>(key, bytes);
        let older =
            || decoded(key, bytes).map(|worker| WorkerRecord { worker, decommissioned: false });
        return Ok(Some(Change::PutWorker(whole.or_else(|_| older())?)));
    }
    if key.starts_with(APP) {
        return Ok(Some(Change::PutApplication(decoded(key, bytes)?)));
    }
    if key.starts_with(DRIVER) {
        let record: DriverRecord = decoded(key, bytes)?;
        if !record.whole && record.worker.is_none() {
            tracing::error!(
                driver = %record.driver,
                "this driver waited for a worker and is lost: its command holds secrets, which a cluster without a secret \
                 (spark.authenticate) does not persist; submit it again"
            );
            return Ok(None);
        }
        return Ok(Some(Change::PutDriver(record)));
    }
    Err(RecoveryError::Record { key: key.to_owned(), what: "nothing of that name is a master's" })
}

#[cfg(test)]
mod tests {
    use firesteel_backend::AppId;
    use firesteel_standalone_core::description::{ApplicationDescription, DriverDescription};
    use firesteel_standalone_core::{DriverId, Incarnation, WorkerId};
    use firesteel_types::{ExecutorId, Tick};

    use super::*;

    const SECRET: &str = "swordfish-swordfish";

    fn command() -> Command {
        let environment = [("APP_SECRET", SECRET), ("HOME", "/home/me")];
        let environment =
            environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let arguments = vec!["--input".to_owned(), "a.txt".to_owned()];
        Command { program: "/bin/app".into(), arguments, environment, ..Command::default() }
    }

    fn changes(worker: Option<WorkerId>) -> Vec<Change> {
        let description = ApplicationDescription {
            name: "app".into(),
            user: "somebody".into(),
            max_cores: Some(3),
            memory_per_executor_mb: 100,
            cores_per_executor: None,
            initial_executor_limit: None,
            command: command(),
            web_ui: String::new(),
        };
        let app = ApplicationRecord {
            app: AppId::new("app-1"),
            incarnation: Incarnation(7),
            description: Arc::new(description),
            submitted: Tick(5),
            next_executor: ExecutorId(9),
            order: 4,
            limit: Some(2),
            executors: Vec::new(),
        };
        let description = DriverDescription {
            name: "driver".into(),
            cores: 1,
            memory_mb: 10,
            supervise: true,
            command: command(),
        };
        let (driver, description) = (DriverId::new("driver-1"), Arc::new(description));
        let (submitted, fence, whole) = (Tick(6), None, true);
        let driver = DriverRecord { driver, description, submitted, worker, fence, whole };
        vec![
            Change::PutTerm(Term(3)),
            Change::PutApplication(app),
            Change::PutDriver(driver),
            Change::PutTerm(Term(4)),
        ]
    }

    fn codec(secret: Option<&str>) -> Codec {
        let secret = secret.map(|text| Secret::new(text, "here").unwrap());
        Codec::new(&Conf::default(), secret.as_ref()).unwrap()
    }

    fn stored(codec: &Codec, changes: Vec<Change>) -> Vec<(String, Vec<u8>)> {
        let entries = codec.entries(changes);
        let stored: BTreeMap<_, _> =
            entries.into_iter().map(|entry| (entry.key, entry.value.unwrap())).collect();
        stored.into_iter().collect()
    }

    fn holds(stored: &[(String, Vec<u8>)], needle: &str) -> bool {
        let has = |bytes: &[u8]| bytes.windows(needle.len()).any(|at| at == needle.as_bytes());
        stored.iter().any(|(_, value)| has(value))
    }

    #[test]
    fn records_come_back_as_they_were_with_the_secret_and_not_without() {
        let with = codec(Some("the cluster's own secret"));
        let stored = stored(&with, changes(None));
        assert!(!holds(&stored, SECRET) && !holds(&stored, "a.txt"), "sealed");
        let mut expected = Records::default();
        changes(None).into_iter().for_each(|change| expected.apply(change));
        assert_eq!(with.records(stored.clone()).unwrap(), expected);
        assert_eq!(expected.term, Term(4), "the last change counts");
        let error = codec(Some("another secret of another")).records(stored.clone()).unwrap_err();
        assert!(error.to_string().contains("another secret"), "{error}");
        let error = codec(None).records(stored.clone()).unwrap_err();
        assert!(error.to_string().contains("this master has none"), "{error}");
        let (plain, all) = (codec(None), changes(None));
        let error = with
            .records(plain.entries(all).into_iter().map(|e| (e.key, e.value.unwrap())).collect());
        let error = error.unwrap_err().to_string();
        assert!(error.contains("anybody may have written it"), "{error}");
        let mut swapped = stored;
        let value = swapped[0].1.clone();
        swapped[1].1 = value;
        assert!(with.records(swapped).is_err(), "a value belongs to its key");
    }

    #[test]
    fn without_a_secret_no_secret_is_stored_and_a_waiting_driver_that_has_one_is_not_started_without()
     {
        let plain = codec(None);
        let waiting = stored(&plain, changes(None));
        assert!(!holds(&waiting, SECRET));
        assert!(plain.records(waiting).unwrap().drivers.is_empty());
        let running = stored(&plain, changes(Some(WorkerId::new("w"))));
        let records = plain.records(running).unwrap();
        assert_eq!((records.drivers.len(), records.apps.len()), (1, 1));
        let driver = &records.drivers[&DriverId::new("driver-1")];
        assert!(!driver.whole, "its worker knows the rest");
        let app = &records.apps[&AppId::new("app-1")];
        assert!(app.description.command.environment.is_empty(), "its driver brings it again");
        assert_eq!((app.limit, app.order, app.next_executor), (Some(2), 4, ExecutorId(9)));
    }

    #[test]
    fn what_follows_the_name_of_a_secret_is_not_stored_either() {
        let arguments = vec!["--password".to_owned(), "hunter2".to_owned()];
        let after = Command { program: "/bin/app".into(), arguments, ..Command::default() };
        let program = "https://host/app?signature=hunter2".to_owned();
        let behind_url = Command { program, ..Command::default() };
        for command in [after, behind_url] {
            let mut all = changes(None);
            let Change::PutDriver(record) = &mut all[2] else { panic!() };
            let description = DriverDescription { command, ..(*record.description).clone() };
            record.description = Arc::new(description);
            assert!(!holds(&stored(&codec(None), all), "hunter2"));
        }
    }

    #[test]
    fn a_record_of_another_version_or_of_somebody_else_is_refused_by_name() {
        let plain = codec(None);
        for (key, value) in [("term", vec![1, 0, 1]), ("term", vec![]), ("app_1", vec![2, 0, 9])] {
            let error = plain.records(vec![(key.to_owned(), value)]).unwrap_err();
            assert!(error.to_string().contains(&format!("the record {key}")), "{error}");
        }
        assert!(plain.records(vec![("leader".to_owned(), vec![2, 0])]).is_err());
    }
}
