//! What requests say and answers look like: Spark's paths, fields and texts, without its stack traces.

use std::sync::Arc;

use firesteel_backend::Address;
use firesteel_backend::command::Command;
use firesteel_conf::{properties, url_scheme};
use firesteel_standalone_core::description::{DriverDescription, DriverState};
use firesteel_standalone_core::json::render;
use firesteel_standalone_core::{DriverId, WorkerId};
use hyper::Method;
use serde::Serialize;

use super::submission::{self, Site};
use crate::store::{Content, Held};

/// The version of Spark whose protocol this is.
const SPARK_VERSION: &str = "4.3.0";
const VERSION: &str = "v1";
/// Spark's status for a version that it does not know.
const OTHER_VERSION: u16 = 468;

/// What a client asks of the master.
#[derive(Debug)]
pub(super) enum Request {
    Create {
        description: Arc<DriverDescription>,
        contents: Vec<Content>,
        unknown: Vec<String>,
    },
    Kill(DriverId),
    Status(DriverId),
    KillAll,
    Clear,
    Readyz,
    /// Workers of this id, host or address get nothing more to do. Not of Spark's.
    Decommission(String),
    /// How much of this content is there?
    Held(Content),
    /// The body is a piece of this content, from this byte on.
    Put(Content, u64),
}

/// An answer, with the fields in the order in which Spark writes them.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Reply {
    #[serde(skip)]
    pub(super) status: u16,
    action: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    driver_state: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    highest_protocol_version: Option<&'static str>,
    /// How many bytes of a content are there, or how many processes. Not of Spark's.
    #[serde(skip_serializing_if = "Option::is_none")]
    length: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    server_spark_version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    submission_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    success: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unknown_fields: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    worker_host_port: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    worker_id: Option<String>,
}

/// Why a request is not carried out.
#[derive(Debug)]
pub(super) struct Refusal {
    status: u16,
    message: String,
}

pub(super) fn refusal(status: u16, message: impl Into<String>) -> Refusal {
    Refusal { status, message: message.into() }
}

impl Reply {
    fn new(action: &'static str, success: bool) -> Self {
        Reply {
            status: 200,
            action,
            server_spark_version: SPARK_VERSION,
            success: Some(success),
            ..Reply::default()
        }
    }

    pub(super) fn json(&self) -> String {
        render(self)
    }

    pub(super) fn refused(Refusal { status, message }: Refusal) -> Self {
        let highest_protocol_version = (status == OTHER_VERSION).then_some(VERSION);
        let (message, success) = (Some(message), None);
        let reply = Reply::new("ErrorResponse", false);
        Reply { status, highest_protocol_version, message, success, ..reply }
    }

    pub(super) fn done(action: &'static str, message: &str) -> Self {
        Reply { message: Some(message.to_owned()), ..Reply::new(action, true) }
    }

    /// Another master leads: this one, if it is known.
    pub(super) fn standby(action: &'static str, what: &str, leader: Option<String>) -> Self {
        let leads = leader.map(|leader| format!(" {leader} leads.")).unwrap_or_default();
        let message =
            format!("Current state is not alive: STANDBY. Can only {what} in ALIVE state.{leads}");
        Reply { message: Some(message), ..Reply::new(action, false) }
    }

    /// The master's store has not answered in time.
    pub(super) fn unknown() -> Self {
        let why = "The master's store has not answered yet, so it is not known whether this is done: look before asking again.";
        Reply::refused(refusal(503, why))
    }

    /// A load balancer is to try another master.
    pub(super) fn not_ready() -> Self {
        let message = "Master is not ready.".to_owned();
        Reply { status: 503, message: Some(message), ..Reply::new("ReadyzResponse", false) }
    }

    pub(super) fn created(result: Result<DriverId, String>, unknown_fields: Vec<String>) -> Self {
        let action = "CreateSubmissionResponse";
        match result {
            Ok(driver) => Reply {
                message: Some(format!("Driver successfully submitted as {driver}")),
                submission_id: Some(driver.to_string()),
                unknown_fields,
                ..Reply::new(action, true)
            },
            Err(reason) => Reply { message: Some(reason), ..Reply::new(action, false) },
        }
    }

    /// Success is that there are such workers; the length is what still runs there.
    pub(super) fn decommissioned(name: &str, workers: &[WorkerId], running: u32) -> Self {
        let named = workers.iter().map(WorkerId::to_string).collect::<Vec<_>>().join(", ");
        let message = match workers.is_empty() {
            true => format!("There is no worker of the id, host or address {name}"),
            false => {
                format!("{named} decommissioned: {running} executors and drivers still run there")
            }
        };
        let (message, length) = (Some(message), Some(running.into()));
        Reply { message, length, ..Reply::new("DecommissionResponse", !workers.is_empty()) }
    }

    /// Success is that all of it is there.
    pub(super) fn held(Held { length, whole }: Held) -> Self {
        Reply { length: Some(length), ..Reply::new("ContentResponse", whole) }
    }

    pub(super) fn killed(driver: &DriverId, success: bool) -> Self {
        let message = match success {
            true => format!("Kill request for {driver} submitted"),
            false => format!("Driver {driver} has already finished or does not exist"),
        };
        let submission_id = Some(driver.to_string());
        let reply = Reply::new("KillSubmissionResponse", success);
        Reply { message: Some(message), submission_id, ..reply }
    }

    /// The reason is why it ended without success. Spark tells it of drivers that could not be started only.
    pub(super) fn status(
        driver: &DriverId,
        state: Option<DriverState>,
        worker: Option<(WorkerId, Address)>,
        reason: Option<String>,
    ) -> Self {
        Reply {
            message: reason,
            driver_state: state.map(DriverState::name),
            submission_id: Some(driver.to_string()),
            worker_host_port: worker.as_ref().map(|(_, address)| address.to_string()),
            worker_id: worker.map(|(id, _)| id.to_string()),
            ..Reply::new("SubmissionStatusResponse", state.is_some())
        }
    }
}

/// What a request asks, or the answer to one that asks nothing that can be understood.
pub(super) fn read(
    method: &Method,
    path: &str,
    body: Option<&[u8]>,
    site: &Site,
) -> Result<Request, Refusal> {
    const THROUGH: &str = "Please submit requests through http://[host]:[port]/v1/submissions/...";
    let refused = |message: &str| refusal(400, format!("{message} {THROUGH}"));
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    match parts.next() {
        None => return Err(refused("Missing protocol version.")),
        Some(VERSION) => {}
        Some(other) => {
            let message = format!("Unknown protocol version '{other}'. {THROUGH}");
            return Err(refusal(OTHER_VERSION, message));
        }
    }
    match parts.next() {
        Some("submissions") => {}
        Some("content") => return content(method, parts.next(), parts.next()),
        Some("workers") => return decommission(method, parts.next(), parts.next()),
        _ => return Err(refused("Missing the /submissions prefix.")),
    }
    let (action, id) = (parts.next(), parts.next());
    let expected = match action {
        Some("create" | "kill" | "killall" | "clear") => Method::POST,
        Some("status" | "readyz") => Method::GET,
        _ => {
            return Err(refused(
                "Missing an action: please specify one of /create, /kill, /killall, /clear, /status, or /readyz.",
            ));
        }
    };
    if *method != expected {
        let message = format!("HTTP method {method} is not supported by this URL: use {expected}");
        return Err(refusal(405, message));
    }
    let driver = |what: &str| match id {
        Some(id) => Ok(DriverId(id.into())),
        None => Err(refusal(400, format!("Submission ID is missing in {what} request."))),
    };
    match action {
        Some("kill") => driver("kill").map(Request::Kill),
        Some("status") => driver("status").map(Request::Status),
        Some("killall") => Ok(Request::KillAll),
        Some("clear") => Ok(Request::Clear),
        Some("readyz") => Ok(Request::Readyz),
        _ => submission::read(body, site),
    }
}

/// `/v1/workers/decommission/NAME`. Not of Spark's.
fn decommission(
    method: &Method,
    action: Option<&str>,
    name: Option<&str>,
) -> Result<Request, Refusal> {
    match (action, name) {
        _ if *method != Method::POST => {
            let message = format!("HTTP method {method} is not supported by this URL: use POST");
            Err(refusal(405, message))
        }
        (Some("decommission"), Some(name)) => Ok(Request::Decommission(name.to_owned())),
        _ => Err(refusal(400, "Workers are decommissioned by /v1/workers/decommission/NAME.")),
    }
}

/// `/v1/content/HASH:BYTES` and, with a piece of it, `/v1/content/HASH:BYTES/OFFSET`. Not of Spark's.
fn content(method: &Method, which: Option<&str>, offset: Option<&str>) -> Result<Request, Refusal> {
    let which = which.unwrap_or_default().parse::<Content>();
    let which = which.map_err(|error| refusal(400, error.to_string()))?;
    match (method, offset.map(str::parse)) {
        (&Method::GET, None) => Ok(Request::Held(which)),
        (&Method::PUT, Some(Ok(offset))) => Ok(Request::Put(which, offset)),
        _ => Err(refusal(405, "Content is asked for by GET, and put by PUT from an offset on.")),
    }
}

/// A master for checks.
fn here() -> Site {
    Site {
        url: "spark://here:7077".to_owned(),
        address: Address { host: firesteel_types::Host::new("here"), port: 7077 },
        rest_port: Some(6066),
        authenticates: true,
    }
}

/// Bytes as a submission, and as the path of a request: a driver that comes of it is one of this master, and is
/// told nothing that only its worker may tell it.
pub(crate) fn fuzz(bytes: &[u8]) {
    let site = &here();
    let answer = read(&Method::POST, "/v1/submissions/create", Some(bytes), site);
    if let Ok(Request::Create { description, .. }) = answer {
        let Command { program, environment, .. } = &description.command;
        assert!(program.starts_with('/') || url_scheme(program).is_some());
        let ours = environment.keys().filter(|name| name.starts_with("FIRESTEEL_"));
        assert_eq!(ours.collect::<Vec<_>>(), ["FIRESTEEL_CONF"]);
        let settings = properties::parse(&environment["FIRESTEEL_CONF"]);
        let settings = settings.expect("what was written can be read");
        let of = |key: &'static str| settings.iter().filter(move |set| set.key == key);
        let masters: Vec<&str> = of("spark.master").map(|set| set.value.as_str()).collect();
        assert!(masters == [site.url.as_str()] || masters.len() == 1 && masters[0].contains(','));
        assert_eq!(of("spark.authenticate.secret").count(), 0);
        assert_eq!(of("spark.org.apache.spark.ui.JWSFilter.param.secretKey").count(), 0);
    }
    if let Ok(path) = std::str::from_utf8(bytes) {
        for method in [Method::GET, Method::POST] {
            if let Err(refusal) = read(&method, path, None, site) {
                assert!(!refusal.message.is_empty() && refusal.status >= 400);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_bytes_break_it_or_widen_what_a_submission_may_say(
            changes in prop::collection::vec((any::<prop::sample::Index>(), "\\PC{0,3}|FIRESTEEL_|spark\\.|\"|\\\\n|\\{"), 0..8),
            cut in any::<prop::sample::Index>(),
            bytes in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            fuzz(&bytes);
            let mut body = SUBMISSION.to_owned();
            for (place, text) in changes {
                let place = body.floor_char_boundary(place.index(body.len()));
                body.insert_str(place, &text);
            }
            fuzz(body.as_bytes());
            fuzz(&body.as_bytes()[..cut.index(body.len())]);
        }
    }

    fn asks(method: &str, path: &str, body: &str) -> Result<Request, (u16, String)> {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let refused = |refusal: Refusal| (refusal.status, refusal.message);
        read(&method, path, Some(body.as_bytes()), &here()).map_err(refused)
    }

    fn create(fields: &str) -> Result<Request, (u16, String)> {
        asks("POST", "/v1/submissions/create", fields)
    }

    /// What `spark-submit` sends, with an executable for the jar.
    const SUBMISSION: &str = r#"{
  "action" : "CreateSubmissionRequest",
  "appArgs" : [ "4", "40" ],
  "appResource" : "file:/opt/app",
  "clientSparkVersion" : "4.3.0",
  "environmentVariables" : {
    "SPARK_SCALA_VERSION" : "2.13",
    "SPARK_LOCAL_IP" : "10.0.0.7",
    "FIRESTEEL_ROLE" : "executor"
  },
  "mainClass" : "lab.Pi",
  "sparkProperties" : {
    "spark.driver.supervise" : "true",
    "spark.driver.host" : "submitter",
    "spark.authenticate.secret" : "swordfish",
    "spark.org.apache.spark.ui.JWSFilter.param.secretKey" : "dHJvdXQ",
    "spark.driver.memory" : "512m",
    "spark.submit.pyFiles" : "",
    "spark.submit.deployMode" : "cluster",
    "spark.master" : "spark://127.0.0.2:6066",
    "spark.executor.memory" : "512m",
    "spark.app.name" : "lab.Pi",
    "spark.cores.max" : "1",
    "spark.master.rest.enabled" : "true",
    "spark.app.submitTime" : "1794765185032"
  },
  "whatIsThis" : 1
}"#;

    #[test]
    fn a_submission_becomes_a_driver_of_this_master() {
        let Ok(Request::Create { description, contents, unknown }) = create(SUBMISSION) else {
            panic!("it is a submission");
        };
        assert_eq!((unknown, contents), (vec!["whatIsThis".to_owned()], Vec::new()));
        let DriverDescription { name, cores, memory_mb, supervise, command } = &*description;
        assert_eq!((name.as_str(), *cores, *memory_mb, *supervise), ("lab.Pi", 1, 512, true));
        assert_eq!((command.program.as_str(), command.arguments.len()), ("/opt/app", 2));
        let names: Vec<&str> = command.environment.keys().map(String::as_str).collect();
        assert_eq!(names, ["FIRESTEEL_CONF", "SPARK_SCALA_VERSION"]);
        let settings = &command.environment["FIRESTEEL_CONF"];
        assert!(settings.contains("7077") && !settings.contains("deployMode"), "{settings}");
        for of_the_submitter in ["submitter", "swordfish", "dHJvdXQ"] {
            assert!(!settings.contains(of_the_submitter), "{settings}");
        }
        assert!(
            settings.contains("spark.authenticate=true"),
            "its worker has a secret: {settings}"
        );
    }

    #[test]
    fn an_executable_may_be_behind_a_url_and_its_query_is_not_shown() {
        for url in ["https://host/a/app?token=hush", "s3://bucket/app", "http://host:1/app"] {
            let body = SUBMISSION.replace("file:/opt/app", url);
            let Ok(Request::Create { description, .. }) = create(&body) else { panic!("{body}") };
            assert_eq!(description.command.program, url);
            let shown = format!("{description:?}");
            assert!(shown.contains("/app") && !shown.contains("hush"), "{shown}");
        }
    }

    #[test]
    fn a_driver_is_told_of_all_masters_that_it_was_submitted_to() {
        for (submitted, told) in [
            ("spark://a:6066", "spark://here:7077"),
            ("spark://a:6066,b:6066", "spark://a:7077,b:7077"),
            ("spark://a:6066,b:7077", "spark://a:7077,b:7077"),
            ("local", "spark://here:7077"),
        ] {
            let body = SUBMISSION.replace("spark://127.0.0.2:6066", submitted);
            let Ok(Request::Create { description, .. }) = create(&body) else { panic!("{body}") };
            let settings = properties::parse(&description.command.environment["FIRESTEEL_CONF"]);
            let settings = settings.unwrap();
            let master = settings.iter().find(|set| set.key == "spark.master").unwrap();
            assert_eq!(master.value, told, "{submitted}");
        }
    }

    #[test]
    fn what_was_uploaded_is_served_by_the_master_and_files_lie_where_the_driver_starts() {
        let [program, file] = [7, 9].map(|byte| Content { hash: [byte; 32], bytes: byte.into() });
        let uploaded = format!(
            r#""spark.firesteel.submit.executable" : "{program}",
            "spark.firesteel.submit.files" : "{file}/words.txt","#
        );
        let from = r#""spark.driver.supervise" : "true","#;
        let Ok(Request::Create { description, contents, .. }) =
            create(&SUBMISSION.replace(from, &uploaded))
        else {
            panic!("it is a submission");
        };
        assert_eq!(contents, [program, file]);
        let Command { hash, served, environment, .. } = &description.command;
        let served = served.as_ref().unwrap();
        assert_eq!((*hash, served.program_bytes), (Some(program.hash), 7));
        assert_eq!((served.address.port, served.files[0].name.as_str()), (7077, "words.txt"));
        assert_eq!((served.files[0].hash, served.files[0].bytes), (file.hash, 9));
        let settings = &environment["FIRESTEEL_CONF"];
        assert!(settings.contains("spark.files=words.txt") && !settings.contains("submit."));
        let bad = create(&SUBMISSION.replace(from, &uploaded.replace("07", "x")));
        assert!(bad.unwrap_err().1.contains("names no content"));
    }

    #[test]
    fn what_is_left_out_has_defaults() {
        let least = r#"{"action":"CreateSubmissionRequest","appResource":"/a/b","mainClass":"b","appArgs":null,
            "clientSparkVersion":"x","sparkProperties":{}}"#;
        let Ok(Request::Create { description, unknown, .. }) = create(least) else {
            panic!("it is a submission");
        };
        let DriverDescription { name, cores, memory_mb, supervise, .. } = &*description;
        assert_eq!((name.as_str(), *cores, *memory_mb, *supervise), ("b", 1, 1024, false));
        assert!(unknown.is_empty());
    }

    #[test]
    fn what_is_no_submission_is_told_what_is_wrong() {
        let with = |from: &str, to: &str| {
            assert!(SUBMISSION.contains(from), "{from}");
            SUBMISSION.replace(from, to)
        };
        for (body, needle) in [
            (String::new(), "EOF"),
            ("x=1".to_owned(), "expected"),
            ("[]".to_owned(), "Action field not found"),
            ("{}".to_owned(), "Action field not found"),
            (with("CreateSubmissionRequest", "KillSubmissionResponse"), "KillSubmissionResponse"),
            (with("appResource", "else"), "appResource"),
            (with("sparkProperties", "else"), "sparkProperties"),
            (with("mainClass", "else"), "Main class is missing"),
            (with("clientSparkVersion", "else"), "clientSparkVersion"),
            (with("512m", "lots"), "spark.driver.memory"),
            (with("file:/opt/app", "file:/opt/app.jar"), "an executable"),
            (with("file:/opt/app", "s3://there/app.jar"), "an executable"),
            (
                with("file:/opt/app", "https://host/a/app.py?token=1"),
                "https://host/a/app.py cannot be run",
            ),
            (with("file:/opt/app", "https://host"), "no name for a file"),
            (with("file:/opt/app", "https://host/stdout"), "rename it"),
            (with("file:/opt/app", "app"), "an executable"),
        ] {
            let (status, message) = create(&body).unwrap_err();
            assert_eq!(status, 400, "{body}: {message}");
            assert!(message.starts_with("Malformed request: "), "{message}");
            assert!(message.contains(needle), "{needle:?} is not in {message:?}");
        }
        let (status, _) = create(&with("CreateSubmissionRequest", "NoSuchRequest")).unwrap_err();
        assert_eq!(status, 500, "as Spark has it");
        let long = read(&Method::POST, "/v1/submissions/create", None, &here()).unwrap_err();
        assert_eq!(long.status, 413);
    }

    #[test]
    fn paths_and_methods_are_those_of_spark() {
        for (method, path, status, start) in [
            ("GET", "/", 400, "Missing protocol version. Please"),
            ("GET", "/v1", 400, "Missing the /submissions prefix. Please"),
            ("GET", "/v1/submissions", 400, "Missing an action: please specify one of /create,"),
            ("POST", "/v1/submissions/nosuch", 400, "Missing an action: please"),
            ("GET", "/v2/submissions/status/x", 468, "Unknown protocol version 'v2'. Please"),
            ("POST", "/v1/submissions/kill", 400, "Submission ID is missing in kill request."),
            ("GET", "/v1/submissions/status/", 400, "Submission ID is missing in status request."),
            ("GET", "/v1/submissions/create", 405, "HTTP method GET is not supported by this URL"),
            ("POST", "/v1/submissions/status/x", 405, "HTTP method POST is not supported"),
            ("DELETE", "/v1/submissions/status/x", 405, "HTTP method DELETE is not supported"),
            ("POST", "/v1/submissions/readyz", 405, "HTTP method POST is not supported"),
        ] {
            let (found, message) = asks(method, path, "").unwrap_err();
            assert_eq!(found, status, "{method} {path}: {message}");
            assert!(message.starts_with(start), "{method} {path}: {message}");
        }
        assert!(
            matches!(asks("POST", "/v1/submissions/kill/a", ""), Ok(Request::Kill(id)) if &*id.0 == "a")
        );
        assert!(matches!(asks("GET", "/v1/submissions/status/a", ""), Ok(Request::Status(_))));
        assert!(matches!(asks("POST", "/v1/submissions/killall", ""), Ok(Request::KillAll)));
        assert!(matches!(asks("POST", "/v1/submissions/clear", ""), Ok(Request::Clear)));
        assert!(matches!(asks("GET", "/v1/submissions/readyz", ""), Ok(Request::Readyz)));
        let decommission = asks("POST", "/v1/workers/decommission/h:7", "");
        assert!(matches!(decommission, Ok(Request::Decommission(name)) if name == "h:7"));
        for (method, path, status) in [
            ("GET", "/v1/workers/decommission/h", 405),
            ("POST", "/v1/workers/decommission", 400),
            ("POST", "/v1/workers/kill/h", 400),
        ] {
            assert_eq!(asks(method, path, "").unwrap_err().0, status, "{method} {path}");
        }
    }

    #[test]
    fn answers_look_like_those_of_spark() {
        let id = DriverId("driver-1".into());
        let created = Reply::created(Ok(id.clone()), vec!["whatIsThis".to_owned()]).json();
        let expected = r#"{
  "action" : "CreateSubmissionResponse",
  "message" : "Driver successfully submitted as driver-1",
  "serverSparkVersion" : "4.3.0",
  "submissionId" : "driver-1",
  "success" : true,
  "unknownFields" : [ "whatIsThis" ]
}"#;
        assert_eq!(created, expected);
        let address = Address { host: firesteel_types::Host::new("h"), port: 7 };
        let worker = Some((WorkerId("worker-1".into()), address));
        let running = Reply::status(&id, Some(DriverState::Running), worker, None).json();
        let expected = r#"{
  "action" : "SubmissionStatusResponse",
  "driverState" : "RUNNING",
  "serverSparkVersion" : "4.3.0",
  "submissionId" : "driver-1",
  "success" : true,
  "workerHostPort" : "h:7",
  "workerId" : "worker-1"
}"#;
        assert_eq!(running, expected);
        let why = Some("its process ended with exit code 3".to_owned());
        let failed = Reply::status(&id, Some(DriverState::Failed), None, why).json();
        let expected = r#"{
  "action" : "SubmissionStatusResponse",
  "driverState" : "FAILED",
  "message" : "its process ended with exit code 3",
  "serverSparkVersion" : "4.3.0",
  "submissionId" : "driver-1",
  "success" : true
}"#;
        assert_eq!(failed, expected);
        let unknown = Reply::status(&id, None, None, None).json();
        assert!(unknown.contains(r#""success" : false"#) && !unknown.contains("driverState"));
        let killed = Reply::killed(&id, false).json();
        assert!(killed.contains("Driver driver-1 has already finished or does not exist"));
        let error = Reply::refused(refusal(400, "no")).json();
        let version = Reply::refused(refusal(468, "no")).json();
        assert!(version.contains(r#""highestProtocolVersion" : "v1""#), "{version}");
        assert!(!error.contains("success") && error.contains("\"ErrorResponse\""), "{error}");
    }
}
