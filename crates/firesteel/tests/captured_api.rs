//! Every answer of Spark's REST API that was captured of a program, against ours about the same program: the status, the kind of
//! content, the words of a refusal, and of everything else which fields there are with which kinds of values. Of the running application
//! on executors and in one process, and of its log.
//!
//! `shapes.tsv` has the captured answers, without what differs from run to run. In a shape, `"int"`, `"real"`, `"text"`, `"date"` and
//! `"bool"` are kinds of values, `[shape]` is a list of such, `[shape, "?"]` one that may be empty, `{"*": shape}` an object whose names are
//! data, and a name with a question mark is not in all of the objects of a list.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use firesteel::prelude::*;
use firesteel::{Builder, StorageLevel};
use firesteel_conf::{Conf, entries};
use firesteel_monitor::{Access, History, HistoryOptions, Server, ServerOptions};
use serde_json::Value;

/// What Spark has some of and we have none: settings of Hadoop, of a virtual machine and of its metrics, and a class path.
const MAY_BE_EMPTY: [&str; 4] =
    ["hadoopProperties", "systemProperties", "metricsProperties", "classpathEntries"];

/// An answer of Spark's.
struct Captured {
    path: String,
    status: u16,
    content_type: String,
    body: Body,
}

enum Body {
    /// It was not kept.
    Unknown,
    Text(String),
    Shape(Value),
}

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../monitor/tests/spark/captured")
}

/// All answers about `live`, `killed`, `local` or `history`.
fn captured(about: &str) -> Vec<Captured> {
    let text = fs::read_to_string(folder().join("shapes.tsv")).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    let shape = |name: &str| {
        let row = rows.iter().find(|row| row[..2] == ["shape", name])?;
        Some(serde_json::from_str::<Value>(row[2]).unwrap())
    };
    let answer = |row: &Vec<&str>| Captured {
        path: row[1].to_owned(),
        status: row[2].parse().unwrap(),
        content_type: row[3].to_owned(),
        body: match row[4] {
            "-" => Body::Unknown,
            text if text.starts_with('"') => Body::Text(serde_json::from_str(text).unwrap()),
            name => Body::Shape(shape(name).unwrap()),
        },
    };
    rows.iter().filter(|row| row[0] == about).map(answer).collect()
}

fn is_date(text: &str) -> bool {
    let pattern = "0000-00-00T00:00:00.000GMT";
    text.len() == pattern.len()
        && text.bytes().zip(pattern.bytes()).all(|(byte, like)| match like {
            b'0' => byte.is_ascii_digit(),
            like => byte == like,
        })
}

fn is_of(kind: &str, value: &Value) -> bool {
    match kind {
        "int" => value.is_u64() || value.is_i64(),
        "real" => value.is_f64(),
        "number" => value.is_number(),
        "bool" => value.is_boolean(),
        "date" => value.as_str().is_some_and(is_date),
        "text" => value.as_str().is_some_and(|text| !is_date(text)),
        kind => panic!("no kind of value: {kind}"),
    }
}

/// Where a value is not of the shape, a line each.
fn differences(shape: &Value, value: &Value, at: &str, out: &mut Vec<String>) {
    let short = || value.to_string().chars().take(100).collect::<String>();
    match (shape, value) {
        (Value::Null, _) => {}
        (Value::String(kind), value) if is_of(kind, value) => {}
        (Value::Array(of), Value::Array(items)) => {
            let Some(of) = of.first() else { return };
            let name = at.rsplit('.').next().unwrap_or_default();
            if items.is_empty() && shape.get(1).is_none() && !MAY_BE_EMPTY.contains(&name) {
                out.push(format!("{at}: nothing is in the list"));
            }
            items.iter().enumerate().for_each(|(index, item)| {
                differences(of, item, &format!("{at}[{index}]"), out);
            });
        }
        (Value::Object(of), Value::Object(fields)) if of.contains_key("*") => {
            for (name, value) in fields {
                differences(&of["*"], value, &format!("{at}.{name}"), out);
            }
        }
        (Value::Object(of), Value::Object(fields)) => {
            let plain = |name: &str| name.strip_suffix('?').unwrap_or(name).to_owned();
            for (name, shape) in of {
                match fields.get(&plain(name)) {
                    Some(value) => differences(shape, value, &format!("{at}.{}", plain(name)), out),
                    None if name.ends_with('?') => {}
                    // Of tasks that took less than a millisecond, as in Spark, whose tasks hardly ever do.
                    None if name == "duration" && fields.contains_key("taskId") => {}
                    None => out.push(format!("{at}.{name}: is not there")),
                }
            }
            let known: BTreeSet<String> = of.keys().map(|name| plain(name)).collect();
            let more = fields.keys().filter(|name| !known.contains(*name));
            out.extend(more.map(|name| format!("{at}.{name}: Spark has no such field")));
        }
        (shape, _) => {
            let shape: String = shape.to_string().chars().take(40).collect();
            out.push(format!("{at}: {} is no {shape}", short()));
        }
    }
}

/// Status, kind of content and body.
fn get(address: SocketAddr, path: &str) -> (u16, String, Vec<u8>) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let end = bytes.windows(4).position(|it| it == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let content_type = head.lines().find_map(|line| line.strip_prefix("content-type: "));
    (status, content_type.unwrap_or_default().to_owned(), bytes.split_off(end + 4))
}

/// Where an answer of ours differs from the captured one.
fn compare(captured: &Captured, address: SocketAddr, app: &str, out: &mut Vec<String>) {
    let path = captured.path.replace("APP", app);
    let (status, content_type, body) = get(address, &path);
    if (status, content_type.as_str()) != (captured.status, captured.content_type.as_str()) {
        let text = String::from_utf8_lossy(&body).chars().take(80).collect::<String>();
        let Captured { status: theirs, content_type: kind, .. } = captured;
        out.push(format!("{path}: {status} {content_type}, not {theirs} {kind}: {text}"));
        return;
    }
    match &captured.body {
        Body::Unknown if status == 200 => assert!(!body.is_empty(), "{path}"),
        Body::Unknown => {}
        Body::Text(theirs) => {
            let ours = String::from_utf8(body).unwrap();
            let ours = ours.replace(app, "APP").replace(&address.to_string(), "HOST");
            if ours != *theirs {
                out.push(format!("{path}: {ours:?}, not {theirs:?}"));
            }
        }
        Body::Shape(shape) => match serde_json::from_slice(&body) {
            Ok(value) => differences(shape, &value, &path, out),
            Err(error) => out.push(format!("{path}: {error}")),
        },
    }
}

/// The number of an RDD in a captured path is that of Spark's graph: ours is the one of the same place in the list.
fn with_our_rdds(captured: &mut [Captured], address: SocketAddr, app: &str) {
    let (_, _, body) = get(address, &format!("/api/v1/applications/{app}/storage/rdd"));
    let ours: Value = serde_json::from_slice(&body).unwrap();
    for (index, theirs) in ["/rdd/1", "/rdd/17"].into_iter().enumerate() {
        let it = captured.iter_mut().filter(|it| it.path.ends_with(theirs));
        it.for_each(|it| it.path = it.path.replace(theirs, &format!("/rdd/{}", ours[index]["id"])));
    }
}

#[track_caller]
fn assert_as_captured(about: &str, count: usize, address: SocketAddr, app: &str) {
    let mut captured = captured(about);
    assert_eq!(captured.len(), count, "answers about {about}");
    with_our_rdds(&mut captured, address, app);
    let mut found = Vec::new();
    captured.iter().for_each(|captured| compare(captured, address, app, &mut found));
    let (all, some) = (found.len(), found.iter().take(60).cloned().collect::<Vec<_>>());
    assert!(found.is_empty(), "{about}: {all} differences:\n{}", some.join("\n"));
}

fn builder(master: &str) -> Builder {
    Context::builder()
        .arguments([""; 0])
        .master(master)
        .app_name("api-capture")
        .config("spark.ui.port", 0)
        .config("spark.ui.showConsoleProgress", false)
}

/// The captured program: a cached RDD, shuffles, an accumulator, a broadcast, a task that fails once and a job that fails for good. What it
/// cached, which is held.
fn run(ctx: &Context) -> [Rdd<(u64, u64)>; 2] {
    let seen = ctx.named_accumulator::<u64>("rows seen");
    let table = ctx.broadcast((1..=1000).collect::<Vec<u32>>());
    let pairs = ctx.range_in(4, 0..100_000u64, 1).with((seen, table)).map(|(seen, table), n| {
        seen.add(1);
        (n % 100, n + table.len() as u64)
    });
    let base = pairs.persist(StorageLevel::MEMORY_ONLY);
    assert_eq!(base.count().unwrap(), 100_000);
    ctx.set_job_group("grp-1", "reduceByKey + collect");
    assert_eq!(base.reduce_by_key_into(3, |a, b| a + b).collect().unwrap().len(), 100);
    ctx.clear_job_group();
    ctx.set_job_description(Some("join + sortByKey"));
    let other = ctx.range_in(2, 0..100u64, 1).map(|n| (n, format!("v{n}")));
    let joined = base.join_into(3, &other).map_values(|(n, _)| n).reduce_by_key(|a, b| a + b);
    assert_eq!(joined.sort_by_key().take(5).unwrap().len(), 5);
    ctx.set_job_description(None);
    let flaky = ctx.range_in(4, 0..8u64, 1).map(|n| {
        let task = TaskContext::current().unwrap();
        assert!(task.partition() != 2 || task.attempt() > 0, "boom on purpose (attempt 0)");
        n
    });
    assert_eq!(flaky.count().unwrap(), 8);
    let failing = ctx.range_in(2, 0..4u64, 1).map(|n| {
        assert!(n != 2, "always fails");
        n
    });
    assert!(failing.count().is_err());
    let disk = base.map_values(|n| n * 2).persist(StorageLevel::DISK_ONLY);
    assert_eq!(disk.count().unwrap(), 100_000);
    let dropped = ctx.range_in(2, 0..1000u64, 1).cache();
    assert_eq!(dropped.count().unwrap(), 1000);
    dropped.unpersist();
    [base, disk]
}

/// The numbers that do not depend on how fast anything was are those of Spark, job by job and stage by stage.
#[track_caller]
fn assert_counts_are_sparks(address: SocketAddr, app: &str) {
    let ours = |path: &str| {
        let (_, _, body) = get(address, &format!("/api/v1/applications/{app}/{path}"));
        serde_json::from_slice::<Value>(&body).unwrap()
    };
    let theirs = |file: &str| {
        let text = fs::read_to_string(folder().join("answers").join(file)).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let of_jobs = [
        "jobId",
        "status",
        "description",
        "jobGroup",
        "stageIds",
        "numTasks",
        "numCompletedTasks",
        "numSkippedTasks",
        "numFailedTasks",
        "numCompletedIndices",
        "numCompletedStages",
        "numSkippedStages",
        "numFailedStages",
        "killedTasksSummary",
    ];
    let of_stages = ["attemptId", "status", "numTasks", "numFailedTasks", "description"];
    let only = |list: &Value, names: &[&str]| -> Vec<Vec<Value>> {
        let items = list.as_array().unwrap().iter();
        items.map(|item| names.iter().map(|name| item[*name].clone()).collect()).collect()
    };
    assert_eq!(only(&ours("jobs"), &of_jobs), only(&theirs("live-jobs.json"), &of_jobs));
    // Which of two parents comes first differs from run to run of Spark's.
    let sorted = |stages: &Value| {
        let mut stages: Vec<String> =
            only(stages, &of_stages).into_iter().map(|stage| format!("{stage:?}")).collect();
        stages.sort();
        stages
    };
    assert_eq!(sorted(&ours("stages")), sorted(&theirs("live-stages_withSummaries.json")));
}

#[track_caller]
fn wait_for(what: &str, is_there: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_there() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what} did not come");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

#[test]
fn a_running_application_on_executors_answers_as_captured() {
    let ctx = builder("local-cluster[2,1,512]")
        .config("spark.executor.heartbeatInterval", "200ms")
        .build()
        .unwrap();
    let _cached = run(&ctx);
    let (address, app) = (ctx.ui_address().unwrap(), ctx.application_id().to_owned());
    let executors = format!("/api/v1/applications/{app}/executors");
    wait_for("what the driver and executors use", || {
        let text = String::from_utf8(get(address, &executors).2).unwrap();
        text.matches("\"peakMemoryMetrics\" : ").count() == 3
    });
    assert_counts_are_sparks(address, &app);
    assert_as_captured("live", 112, address, &app);
    // The process of an executor is killed, as it was then.
    let lost = ctx.range_in(1, 0..1u64, 1).map(|n| {
        if TaskContext::current().unwrap().attempt() == 0 {
            std::process::abort();
        }
        n
    });
    assert_eq!(lost.count().unwrap(), 1);
    let all = format!("/api/v1/applications/{app}/allexecutors");
    wait_for("the end of an executor", || {
        String::from_utf8(get(address, &all).2).unwrap().contains("\"removeReason\" : ")
    });
    assert_as_captured("killed", 1, address, &app);
    ctx.stop();
}

#[test]
fn a_local_application_and_its_log_answer_as_captured() {
    let directory = tempfile::tempdir().unwrap();
    let ctx = builder("local[2,4]")
        .config("spark.eventLog.enabled", true)
        .config("spark.eventLog.dir", directory.path().display())
        .build()
        .unwrap();
    let cached = run(&ctx);
    let (address, app) = (ctx.ui_address().unwrap(), ctx.application_id().to_owned());
    assert_counts_are_sparks(address, &app);
    assert_as_captured("local", 6, address, &app);
    ctx.stop();
    drop(cached);
    let mut conf = Conf::default();
    conf.set("spark.history.fs.logDirectory", directory.path().display());
    let history = History::open(HistoryOptions::from_conf(&conf).unwrap()).unwrap();
    let options = ServerOptions {
        host: "127.0.0.1".to_owned(),
        port: 0,
        retries: 0,
        allowed_hosts: Vec::new(),
        secrets: conf.get(&entries::REDACTION_REGEX).unwrap(),
        access: Access::default(),
    };
    let server = Server::start(Arc::new(history), options).unwrap();
    assert_counts_are_sparks(server.address(), &app);
    assert_as_captured("history", 110, server.address(), &app);
}

#[test]
fn a_field_that_is_missing_or_of_another_kind_is_a_difference() {
    let shape: Value = serde_json::from_str(
        r#"[{"a":"int","b?":"real","c":{"*":"text"},"d":["date"],"e":"bool","g":["int","?"]}]"#,
    )
    .unwrap();
    let found = |value: &str| {
        let mut out = Vec::new();
        differences(&shape, &serde_json::from_str(value).unwrap(), "x", &mut out);
        out
    };
    let good =
        r#"{"a":1,"b":0.0,"c":{"k":"v"},"d":["2026-11-15T17:56:52.045GMT"],"e":true,"g":[]}"#;
    assert_eq!(found(&format!("[{good}]")), [""; 0]);
    let table = [
        ("\"a\":1", "\"a\":1.0", "x[0].a: 1.0 is no \"int\""),
        ("\"a\":1,", "", "x[0].a: is not there"),
        ("\"b\":0.0", "\"b\":0", "x[0].b: 0 is no \"real\""),
        ("\"v\"", "7", "x[0].c.k: 7 is no \"text\""),
        ("2026-11-15T17:56:52.045GMT", "2026", "x[0].d[0]: \"2026\" is no \"date\""),
        ("true", "\"true\"", "x[0].e: \"true\" is no \"bool\""),
        ("\"e\"", "\"f\":1,\"e\"", "x[0].f: Spark has no such field"),
        ("[\"2026-11-15T17:56:52.045GMT\"]", "[]", "x[0].d: nothing is in the list"),
        ("\"g\":[]", "\"g\":[7,true]", "x[0].g[1]: true is no \"int\""),
    ];
    for (from, to, difference) in table {
        assert!(good.contains(from), "{from}");
        assert_eq!(found(&format!("[{}]", good.replacen(from, to, 1))), [difference]);
    }
    assert_eq!(found(&format!("[{}]", good.replace("\"b\":0.0,", ""))), [""; 0]);
    assert_eq!(found("{}").len(), 1);
}
