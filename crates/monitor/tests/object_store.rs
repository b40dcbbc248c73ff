//! Logs in an object store: written while an application runs, read by a history server, removed by its cleaner.

#[allow(dead_code, unreachable_pub, reason = "this test needs less of it than others")]
#[path = "../../firesteel/tests/store/mod.rs"]
mod store;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use firesteel_conf::{Conf, entries};
use firesteel_monitor::rest::{Applications, Ask, answer};
use firesteel_monitor::{Access, EventLog, History, HistoryOptions, Server, ServerOptions};
use firesteel_types::{Event, ExecutorId, Tick};

use store::S3;

const DIRECTORY: &str = "s3a://bucket/logs/";

fn conf(s3: &S3, more: &[(&str, &str)]) -> Conf {
    let mut conf = Conf::new();
    conf.set("spark.eventLog.enabled", true).set("spark.eventLog.dir", DIRECTORY);
    conf.set("spark.history.fs.logDirectory", DIRECTORY);
    for (key, value) in s3.settings() {
        conf.set(key, value);
    }
    // What fails is to fail soon.
    conf.set("spark.hadoop.fs.s3a.attempts.maximum", 0);
    for (key, value) in more {
        conf.set(*key, value);
    }
    conf
}

fn start(id: &str) -> Event {
    Event::ApplicationStart {
        name: "n".to_owned(),
        app_id: id.to_owned(),
        attempt_id: None,
        user: "u".to_owned(),
        driver_log_urls: BTreeMap::new(),
        driver_attributes: BTreeMap::new(),
        at: Tick(1),
    }
}

fn removed(executor: u32) -> Event {
    Event::ExecutorRemoved { executor: ExecutorId(executor), reason: "r".to_owned(), at: Tick(2) }
}

fn end() -> Event {
    Event::ApplicationEnd { exit_code: Some(0), at: Tick(9) }
}

fn log(conf: &Conf) -> EventLog {
    EventLog::from_conf(conf).unwrap().unwrap()
}

fn history(conf: &Conf) -> History {
    History::open(HistoryOptions::from_conf(conf).unwrap()).unwrap()
}

fn executors(history: &History, id: &str) -> usize {
    let secrets = Conf::default().get(&entries::REDACTION_REGEX).unwrap();
    let path = format!("/api/v1/applications/{id}/allexecutors");
    let ask = Ask { path: &path, query: "", host: "h", now: Tick(10) };
    let body = answer(history, &secrets, &ask).body;
    serde_json::from_slice::<serde_json::Value>(&body).unwrap().as_array().map_or(0, Vec::len)
}

fn wait_for(s3: &S3, key: &str) {
    let begun = Instant::now();
    while !s3.keys().iter().any(|it| it == key) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{key}: {:?}", s3.keys());
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

#[test]
fn a_log_is_whole_when_its_application_is_over_and_opens_before() {
    for codec in ["zstd", "lz4"] {
        let s3 = S3::start();
        let conf = conf(&s3, &[("spark.eventLog.compression.codec", codec)]);
        let mut log = log(&conf);
        log.on_event(&Event::LogStart { version: "1".to_owned() });
        log.on_event(&start("App 1"));
        log.on_event(&Event::ExecutorAdded {
            executor: ExecutorId(1),
            info: firesteel_types::ExecutorInfo::new(firesteel_types::Host::new("h"), 2),
            at: Tick(1),
        });
        let root = "logs/eventlog_v2_app-1";
        wait_for(&s3, &format!("{root}/appstatus_app-1.inprogress"));
        let first = format!("{root}/events_1_app-1.{codec}");
        wait_for(&s3, &first);
        let history = history(&conf);
        let listed = history.list();
        assert_eq!((listed.len(), listed[0].attempts[0].completed), (1, false), "{listed:?}");
        assert_eq!(listed[0].attempts[0].source.as_deref(), Some("s3a://bucket/logs"));
        assert_eq!(executors(&history, "App 1"), 1, "{codec}");
        log.on_event(&removed(1));
        log.on_event(&end());
        let second = format!("{root}/events_2_app-1.{codec}");
        let expected = [format!("{root}/appstatus_app-1"), first.clone(), second];
        assert_eq!(s3.keys(), expected, "{codec}");
        history.refresh().unwrap();
        assert!(history.list()[0].attempts[0].completed);
        assert_eq!(executors(&history, "App 1"), 1);
        let mut why = None;
        let known = history.with_status("App 1", None, &mut |status| {
            why = status.executor(ExecutorId(1)).map(|it| it.is_active());
        });
        assert_eq!((known, why), (true, Some(false)), "what came later was read on");
        let archive = history.logs("App 1", None).unwrap().unwrap();
        let bytes: Vec<u8> = archive.chunks().flat_map(Result::unwrap).collect();
        let stored = s3.lock().objects[&first].clone();
        assert!(bytes.windows(stored.len()).any(|it| it == stored), "the archive has its objects");
    }
}

#[test]
fn logs_that_are_too_many_are_removed_from_the_store() {
    let s3 = S3::start();
    let plain = |id: &str| {
        format!(
            "{{\"Event\":\"SparkListenerApplicationStart\",\"App Name\":\"n\",\"App ID\":\"{id}\",\"Timestamp\":1,\"User\":\"u\"}}\n\
             {{\"Event\":\"SparkListenerApplicationEnd\",\"Timestamp\":2}}\n"
        )
    };
    s3.put("logs/app-1", plain("app-1"));
    s3.lock().minute = 5;
    s3.put("logs/eventlog_v2_app-2/appstatus_app-2", "");
    s3.put("logs/eventlog_v2_app-2/events_1_app-2", plain("app-2"));
    s3.lock().minute = 9;
    s3.put("logs/app-3", plain("app-3"));
    s3.put("logs/other/deep/app-4", plain("app-4"));
    s3.put("logs2/app-5", plain("app-5"));
    let cleaner = [
        ("spark.history.fs.cleaner.enabled", "true"),
        ("spark.history.fs.cleaner.maxNum", "1"),
        ("spark.history.fs.cleaner.maxAge", "10000d"),
    ];
    let history = history(&conf(&s3, &cleaner));
    let mut ids: Vec<String> = history.list().into_iter().map(|it| it.id).collect();
    ids.sort();
    assert_eq!(ids, ["app-1", "app-2", "app-3"], "directories of others are none of its logs");
    assert_eq!(history.clean(Tick(1_704_070_000_000)), 2);
    assert_eq!(s3.keys(), ["logs/app-3", "logs/other/deep/app-4", "logs2/app-5"]);
    assert_eq!(history.list().len(), 1);
}

#[test]
fn a_store_that_fails_for_a_moment_costs_no_application() {
    let s3 = S3::start();
    let log = |id: &str, more: &str| {
        format!(
            "{{\"Event\":\"SparkListenerApplicationStart\",\"App Name\":\"n\",\"App ID\":\"{id}\",\"Timestamp\":1,\"User\":\"u\"}}\n{more}"
        )
    };
    s3.put("logs/app-1", log("app-1", ""));
    let history = Arc::new(history(&conf(&s3, &[])));
    let before = history.list();
    s3.lock().minute = 5;
    s3.put("logs/app-1", log("app-1", "{}\n"));
    s3.lock().refused = Some("GET /bucket/logs/app-1".to_owned());
    history.refresh().unwrap();
    assert_eq!(history.list(), before, "it is there, as it was");
    let options = ServerOptions {
        host: "127.0.0.1".to_owned(),
        port: 0,
        retries: 0,
        allowed_hosts: Vec::new(),
        secrets: Conf::default().get(&entries::REDACTION_REGEX).unwrap(),
        access: Access::default(),
    };
    let server = Server::start(history.clone(), options).unwrap();
    let ask = |id: &str| {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let path = format!("/api/v1/applications/{id}/jobs");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let unread = ask("app-1");
    assert!(
        unread.starts_with("HTTP/1.1 503") && unread.contains("cannot be read now"),
        "{unread}"
    );
    assert!(ask("app-2").starts_with("HTTP/1.1 404"));
    s3.lock().refused = None;
    assert!(ask("app-1").starts_with("HTTP/1.1 200"));
    history.refresh().unwrap();
    assert_ne!(history.list(), before, "it is read again");
}

#[test]
fn a_store_that_refuses_costs_the_log_and_holds_nobody_up() {
    let s3 = S3::start();
    s3.lock().refused = Some("PUT".to_owned());
    let conf = conf(&s3, &[]);
    let begun = Instant::now();
    let mut log = log(&conf);
    log.on_event(&start("app-1"));
    (0..100).for_each(|number| log.on_event(&removed(number)));
    log.on_event(&end());
    drop(log);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert!(s3.keys().is_empty(), "{:?}", s3.keys());
}

#[test]
fn another_log_of_the_name_stays_unless_it_may_be_replaced() {
    let s3 = S3::start();
    let key = "logs/eventlog_v2_app-1/events_7_app-1";
    s3.put(key, "old");
    let write = |conf: &Conf| {
        let mut log = log(conf);
        log.on_event(&start("app-1"));
        log.on_event(&end());
    };
    write(&conf(&s3, &[]));
    assert_eq!(s3.keys(), [key]);
    write(&conf(
        &s3,
        &[("spark.eventLog.overwrite", "true"), ("spark.eventLog.compress", "false")],
    ));
    let root = "logs/eventlog_v2_app-1";
    let expected = [format!("{root}/appstatus_app-1"), format!("{root}/events_1_app-1")];
    assert_eq!(s3.keys(), expected);
}

#[test]
fn what_cannot_be_a_log_in_a_store_is_refused_before_anything_runs() {
    let s3 = S3::start();
    for (key, value, words) in [
        ("spark.eventLog.dir", "hdfs://host/logs", "hdfs:// is not supported"),
        ("spark.eventLog.dir", "https://host/logs", "can be read, not written"),
        ("spark.eventLog.rolling.enabled", "false", "objects cannot grow"),
    ] {
        let refused = EventLog::from_conf(&conf(&s3, &[(key, value)])).unwrap_err().to_string();
        assert!(refused.contains(words) && refused.contains("spark.eventLog.dir"), "{refused}");
    }
    let unknown = conf(&s3, &[("spark.history.fs.logDirectory", "hdfs://host/logs")]);
    let refused = HistoryOptions::from_conf(&unknown).unwrap_err().to_string();
    assert!(refused.contains("hdfs:// is not supported"), "{refused}");
}
