//! What requests say and answers look like: Spark's paths, fields and texts, without its stack traces.

use std::collections::BTreeMap;
use std::sync::Arc;

use firesteel_backend::Address;
use firesteel_backend::command::Command;
use firesteel_conf::{Conf, Origin, entries, properties};
use firesteel_standalone_core::description::{DriverDescription, DriverState};
use firesteel_standalone_core::json::render;
use firesteel_standalone_core::{DriverId, WorkerId};
use hyper::Method;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of Spark whose protocol this is.
const SPARK_VERSION: &str = "4.3.0";
const VERSION: &str = "v1";
/// Spark's status for a version that it does not know.
const OTHER_VERSION: u16 = 468;
/// Memory of a driver that does not say.
const DRIVER_MEMORY_MB: u64 = 1024;
/// Settings of a submission that mean nothing to the driver it starts.
const NOT_FOR_THE_DRIVER: [&str; 4] =
    ["spark.jars", "spark.submit.pyFiles", "spark.submit.deployMode", "spark.app.submitTime"];
/// Variables of the submitting machine that are none of the worker's.
const NOT_FOR_THE_WORKER: [&str; 5] =
    ["SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME", "SPARK_HOME", "SPARK_CONF_DIR", "SPARK_ENV_LOADED"];

/// What a client asks of the master.
#[derive(Debug)]
pub(super) enum Request {
    Create { description: Arc<DriverDescription>, unknown: Vec<String> },
    Kill(DriverId),
    Status(DriverId),
    KillAll,
    Clear,
    Readyz,
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

    /// Another master leads.
    pub(super) fn standby(action: &'static str, what: &str) -> Self {
        let message =
            format!("Current state is not alive: STANDBY. Can only {what} in ALIVE state.");
        Reply { message: Some(message), ..Reply::new(action, false) }
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

    pub(super) fn killed(driver: &DriverId, success: bool) -> Self {
        let message = match success {
            true => format!("Kill request for {driver} submitted"),
            false => format!("Driver {driver} has already finished or does not exist"),
        };
        let submission_id = Some(driver.to_string());
        let reply = Reply::new("KillSubmissionResponse", success);
        Reply { message: Some(message), submission_id, ..reply }
    }

    pub(super) fn status(
        driver: &DriverId,
        state: Option<DriverState>,
        worker: Option<(WorkerId, Address)>,
    ) -> Self {
        Reply {
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
    master: &str,
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
    if parts.next() != Some("submissions") {
        return Err(refused("Missing the /submissions prefix."));
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
        _ => submission(body, master),
    }
}

/// The fields of a submission that mean something here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Submission {
    app_resource: String,
    #[serde(default)]
    app_args: Vec<String>,
    /// Spark insists on one; any will do.
    #[serde(rename = "clientSparkVersion")]
    _client_spark_version: String,
    #[serde(default)]
    environment_variables: BTreeMap<String, String>,
    main_class: Option<String>,
    spark_properties: BTreeMap<String, String>,
}

/// Fields of a submission, whether they mean something here or not; others are named in the answer.
const FIELDS: [&str; 8] = [
    "action",
    "message",
    "appResource",
    "appArgs",
    "clientSparkVersion",
    "environmentVariables",
    "mainClass",
    "sparkProperties",
];

fn submission(body: Option<&[u8]>, master: &str) -> Result<Request, Refusal> {
    let malformed = |why: String| refusal(400, format!("Malformed request: {why}"));
    let Some(body) = body else {
        return Err(refusal(413, "The submission is too long, or did not come whole."));
    };
    let value: Value = serde_json::from_slice(body).map_err(|e| malformed(e.to_string()))?;
    let action = value.get("action").and_then(Value::as_str);
    match action {
        Some("CreateSubmissionRequest") => {}
        Some(other) => {
            let why = format!("the action is {other:?}; a submission is a CreateSubmissionRequest");
            return Err(malformed(why));
        }
        None => return Err(malformed("Action field not found in JSON".to_owned())),
    }
    let Value::Object(mut fields) = value else {
        return Err(malformed("a submission is an object".to_owned()));
    };
    fields.retain(|_, value| !value.is_null());
    let is_strange = |name: &&String| !FIELDS.contains(&name.as_str());
    let unknown = fields.keys().filter(is_strange).cloned().collect();
    let submission: Submission =
        serde_json::from_value(Value::Object(fields)).map_err(|e| malformed(e.to_string()))?;
    let description = Arc::new(describe(submission, master).map_err(malformed)?);
    Ok(Request::Create { description, unknown })
}

/// The driver that a submission describes, for the master at this URL.
fn describe(submission: Submission, master: &str) -> Result<DriverDescription, String> {
    let program = program(&submission.app_resource)?;
    let mut conf = Conf::new();
    for (key, value) in submission.spark_properties {
        if !NOT_FOR_THE_DRIVER.contains(&key.as_str()) {
            conf.insert(key, value, Origin::ConfArgument);
        }
    }
    conf.insert(entries::MASTER.key(), master, Origin::ConfArgument);
    conf.validate().map_err(|error| error.to_string())?;
    let memory = conf.get(&entries::DRIVER_MEMORY).map_err(|error| error.to_string())?;
    let cores = conf.get(&entries::DRIVER_CORES).map_err(|error| error.to_string())?;
    let supervise = conf.get(&entries::DRIVER_SUPERVISE).map_err(|error| error.to_string())?;
    let ours = |name: &String| {
        !name.starts_with("FIRESTEEL_") && !NOT_FOR_THE_WORKER.contains(&name.as_str())
    };
    let mut environment = submission.environment_variables;
    environment.retain(|name, _| ours(name));
    environment.insert("FIRESTEEL_CONF".to_owned(), conf.to_properties());
    let file = program.rsplit('/').next().unwrap_or(&program).to_owned();
    Ok(DriverDescription {
        name: submission.main_class.filter(|class| !class.is_empty()).unwrap_or(file),
        cores,
        memory_mb: memory.map_or(DRIVER_MEMORY_MB, |size| (size.0 >> 20).max(1)),
        supervise,
        command: Command {
            program,
            arguments: submission.app_args,
            environment,
            ..Command::default()
        },
    })
}

/// The path of the executable on the workers.
fn program(resource: &str) -> Result<String, String> {
    let path = resource.strip_prefix("file:").unwrap_or(resource);
    let path = path.strip_prefix("//").unwrap_or(path);
    let instead =
        "appResource is the path of an executable that every worker has, such as file:/opt/app";
    if [".jar", ".py", ".sql", ".R"].iter().any(|ending| path.ends_with(ending)) {
        return Err(format!("{resource} cannot be run: {instead}"));
    }
    if !path.starts_with('/') {
        return Err(format!("{resource:?} is no path that can be run: {instead}"));
    }
    Ok(path.to_owned())
}

/// Bytes as a submission, and as the path of a request: a driver that comes of it is one of this master, and is
/// told nothing that only its worker may tell it.
pub(crate) fn fuzz(bytes: &[u8]) {
    const MASTER: &str = "spark://here:7077";
    let answer = read(&Method::POST, "/v1/submissions/create", Some(bytes), MASTER);
    if let Ok(Request::Create { description, .. }) = answer {
        let Command { program, environment, .. } = &description.command;
        assert!(program.starts_with('/'));
        let ours = environment.keys().filter(|name| name.starts_with("FIRESTEEL_"));
        assert_eq!(ours.collect::<Vec<_>>(), ["FIRESTEEL_CONF"]);
        let settings = properties::parse(&environment["FIRESTEEL_CONF"]);
        let settings = settings.expect("what was written can be read");
        let masters = settings.iter().filter(|set| set.key == entries::MASTER.key());
        assert!(masters.map(|set| set.value.as_str()).eq([MASTER]));
    }
    if let Ok(path) = std::str::from_utf8(bytes) {
        for method in [Method::GET, Method::POST] {
            if let Err(refusal) = read(&method, path, None, MASTER) {
                assert!(!refusal.message.is_empty() && refusal.status >= 400);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MASTER: &str = "spark://here:7077";

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
        read(&method, path, Some(body.as_bytes()), MASTER).map_err(refused)
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
        let Ok(Request::Create { description, unknown }) = create(SUBMISSION) else {
            panic!("it is a submission");
        };
        assert_eq!(unknown, ["whatIsThis"]);
        let DriverDescription { name, cores, memory_mb, supervise, command } = &*description;
        assert_eq!((name.as_str(), *cores, *memory_mb, *supervise), ("lab.Pi", 1, 512, true));
        assert_eq!((command.program.as_str(), command.arguments.len()), ("/opt/app", 2));
        let names: Vec<&str> = command.environment.keys().map(String::as_str).collect();
        assert_eq!(names, ["FIRESTEEL_CONF", "SPARK_SCALA_VERSION"]);
        let settings = &command.environment["FIRESTEEL_CONF"];
        assert!(settings.contains("7077") && !settings.contains("deployMode"), "{settings}");
    }

    #[test]
    fn what_is_left_out_has_defaults() {
        let least = r#"{"action":"CreateSubmissionRequest","appResource":"/a/b","mainClass":null,
            "clientSparkVersion":"x","sparkProperties":{}}"#;
        let Ok(Request::Create { description, unknown }) = create(least) else {
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
            (with("clientSparkVersion", "else"), "clientSparkVersion"),
            (with("512m", "lots"), "spark.driver.memory"),
            (with("file:/opt/app", "file:/opt/app.jar"), "an executable"),
            (with("file:/opt/app", "s3://there/app"), "an executable"),
            (with("file:/opt/app", "app"), "an executable"),
        ] {
            let (status, message) = create(&body).unwrap_err();
            assert_eq!(status, 400, "{body}: {message}");
            assert!(message.starts_with("Malformed request: "), "{message}");
            assert!(message.contains(needle), "{needle:?} is not in {message:?}");
        }
        let long = read(&Method::POST, "/v1/submissions/create", None, MASTER).unwrap_err();
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
        let running = Reply::status(&id, Some(DriverState::Running), worker).json();
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
        let unknown = Reply::status(&id, None, None).json();
        assert!(unknown.contains(r#""success" : false"#) && !unknown.contains("driverState"));
        let killed = Reply::killed(&id, false).json();
        assert!(killed.contains("Driver driver-1 has already finished or does not exist"));
        let error = Reply::refused(refusal(400, "no")).json();
        let version = Reply::refused(refusal(468, "no")).json();
        assert!(version.contains(r#""highestProtocolVersion" : "v1""#), "{version}");
        assert!(!error.contains("success") && error.contains("\"ErrorResponse\""), "{error}");
    }
}
