//! Every exchange that was captured with Spark's own REST server, replayed here: the same status, the same fields, and the same
//! words wherever Spark's are not those of its own inside. One field is more than Spark's: why a driver that ran has failed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::daemon::{Master, Worker, request, wait_until};

const CAPTURED: &str = include_str!("spark_rest.txt");
/// What is submitted for Spark's jar: it runs for as many seconds as its argument says.
const PROGRAM: &str = "file:/bin/sleep";
const JAR: &str = "file:/data/bench/lab.jar";

struct Exchange {
    head: &'static str,
    body: &'static str,
    status: &'static str,
    answer: Option<Map<String, Value>>,
}

/// All exchanges by name.
fn captured() -> BTreeMap<&'static str, Exchange> {
    let exchanges = CAPTURED.split("\n=== ").skip(1).map(|text| {
        let (title, text) = text.split_once('\n').unwrap();
        let name = title.split(' ').next().unwrap();
        let (asked, answered) = text.split_once("\n--- ").unwrap();
        let (head, body) = asked.split_once("\n\n").unwrap_or((asked.trim_end(), ""));
        let (status, answer) =
            answered.trim_end().split_once('\n').unwrap_or((answered.trim_end(), ""));
        let answer = serde_json::from_str(answer).ok();
        (name, Exchange { head, body, status, answer })
    });
    exchanges.collect()
}

struct Replay {
    master: Master,
    captured: BTreeMap<&'static str, Exchange>,
    done: BTreeSet<&'static str>,
}

impl Replay {
    /// Asks what was asked, about `driver` instead of the one it was about, and compares the answers. The id of a new driver.
    fn replay(&mut self, name: &'static str, driver: Option<&str>) -> Option<String> {
        let Exchange { head, body, status, answer } = &self.captured[name];
        let theirs = driver_in(head);
        let head = match (theirs, driver) {
            (Some(theirs), Some(driver)) => head.replace(theirs, driver),
            _ => (*head).to_owned(),
        };
        let body = body.replace(JAR, PROGRAM);
        let head = head.replace('\n', "\r\n");
        let (host, length) = (&self.master.rest, body.len());
        let text = format!("{head}\r\nHost: {host}\r\nContent-Length: {length}\r\n\r\n{body}");
        let (line, found) = request(host, &text);
        assert_eq!(line.split(' ').nth(1), Some(*status), "{name}: {line} {found}");
        self.done.insert(name);
        let expected = answer.as_ref()?;
        let found: Map<String, Value> = serde_json::from_str(&found).unwrap();
        compare(name, expected, &found);
        Some(found.get("submissionId")?.as_str()?.to_owned())
    }

    /// Has a driver run, by the submission of `spark-submit` with another program and these arguments; its id.
    fn submit(&self, program: &str, arguments: &str) -> String {
        let body = self.captured["spark-submit-create"].body.replace(JAR, program);
        let body = body.replace(r#"[ "4", "40" ]"#, arguments);
        let (host, length) = (&self.master.rest, body.len());
        let head = format!(
            "POST /v1/submissions/create HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}"
        );
        let (_, answer) = request(host, &format!("{head}\r\n\r\n{body}"));
        let answer: Value = serde_json::from_str(&answer).unwrap();
        answer["submissionId"].as_str().expect("it was taken").to_owned()
    }

    fn wait_for(&self, driver: &str, state: &str) {
        let host = &self.master.rest;
        let head = format!("GET /v1/submissions/status/{driver} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        wait_until(&format!("{driver} is {state}"), || {
            let answer: Value = serde_json::from_str(&request(host, &head).1).unwrap();
            answer["driverState"] == state
        });
    }
}

/// The driver that a text speaks of.
fn driver_in(text: &str) -> Option<&str> {
    let start = text.find("driver-")?;
    let end = text[start..].find(|c: char| c != '-' && !c.is_ascii_alphanumeric());
    Some(&text[start..end.map_or(text.len(), |end| start + end)])
}

fn compare(name: &str, expected: &Map<String, Value>, found: &Map<String, Value>) {
    let fields = |of: &Map<String, Value>| of.keys().cloned().collect::<BTreeSet<_>>();
    // Spark says why a driver could not be started, and nothing about one that ran.
    let ours = (name == "status-failed").then(|| "message".to_owned());
    let all: BTreeSet<String> = fields(expected).into_iter().chain(ours).collect();
    assert_eq!(all, fields(found), "{name}");
    for (field, value) in expected {
        let (theirs, ours) = (value.as_str().unwrap_or_default(), &found[field]);
        match field.as_str() {
            "submissionId" | "workerId" | "workerHostPort" => assert!(ours.is_string(), "{name}"),
            "message" if theirs.starts_with("Malformed request: ") => {
                let ours = ours.as_str().unwrap();
                assert!(ours.starts_with("Malformed request: ") && !ours.contains('\n'), "{ours}");
            }
            "message" => {
                let driver =
                    driver_in(theirs).zip(found.get("submissionId").and_then(Value::as_str));
                let expected = driver.map(|(theirs_id, id)| theirs.replace(theirs_id, id));
                assert_eq!(ours, expected.as_deref().unwrap_or(theirs), "{name}");
            }
            _ => assert_eq!(ours, value, "{name}: {field}"),
        }
    }
}

/// Exchanges about drivers in some state, replayed when there is such a one.
const IN_A_STATE: [&str; 15] = [
    "clear",
    "kill-already-finished",
    "kill-running",
    "killall-none-running",
    "killall-two-running-two-queued",
    "status-after-clear",
    "status-after-killall-2",
    "status-after-killall-3",
    "status-after-killall-4",
    "status-after-killall-5",
    "status-failed",
    "status-finished",
    "status-killed",
    "status-running",
    "status-submitted",
];

#[test]
fn every_captured_exchange_has_the_same_answer_here() {
    let master = Master::start(&[]);
    let mut replay = Replay { master, captured: captured(), done: BTreeSet::new() };
    assert_eq!(replay.captured.len(), 52, "what was captured is read");
    let names: Vec<&str> = replay.captured.keys().copied().collect();
    for name in names.iter().filter(|name| !IN_A_STATE.contains(name)) {
        if let Some(driver) = replay.replay(name, None).filter(|_| name.contains("create")) {
            replay.replay("status-submitted", Some(&driver));
        }
    }
    replay.replay("killall-none-running", None);
    drivers_in_their_states(&mut replay);
    assert_eq!(replay.done, names.into_iter().collect::<BTreeSet<_>>());
}

fn drivers_in_their_states(replay: &mut Replay) {
    let _worker = Worker::start(&replay.master, &[]);
    for (program, state, name) in [
        ("file:/bin/false", "FAILED", "status-failed"),
        ("file:/bin/true", "FINISHED", "status-finished"),
    ] {
        let driver = replay.submit(program, "[]");
        replay.wait_for(&driver, state);
        replay.replay(name, Some(&driver));
    }
    // The worker has room for two of them.
    let [one, two, three, four] = [(); 4].map(|()| replay.submit(PROGRAM, r#"["1000"]"#));
    replay.wait_for(&one, "RUNNING");
    replay.wait_for(&two, "RUNNING");
    replay.replay("status-running", Some(&one));
    replay.replay("status-submitted", Some(&four));
    replay.replay("kill-running", Some(&one));
    replay.wait_for(&one, "KILLED");
    replay.replay("status-killed", Some(&one));
    replay.replay("kill-already-finished", Some(&one));
    replay.wait_for(&three, "RUNNING");
    let five = replay.submit(PROGRAM, r#"["1000"]"#);
    replay.replay("killall-two-running-two-queued", None);
    for (driver, name) in [
        (&two, "status-after-killall-2"),
        (&three, "status-after-killall-3"),
        (&four, "status-after-killall-4"),
        (&five, "status-after-killall-5"),
    ] {
        replay.replay(name, Some(driver));
    }
    replay.replay("clear", None);
    replay.replay("status-after-clear", Some(&one));
}
