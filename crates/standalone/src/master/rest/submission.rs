//! What a submission says, and the driver that it describes: where it runs, with what, and as whose.

use std::collections::BTreeMap;
use std::sync::Arc;

use firesteel_backend::Address;
use firesteel_backend::command::{Command, Served, ServedFile};
use firesteel_conf::{Conf, FileSource, Origin, entries, shared_file, url_scheme};
use firesteel_standalone_core::description::DriverDescription;
use serde::Deserialize;
use serde_json::Value;

use super::protocol::{Refusal, Request, refusal};
use crate::gateway::{EXECUTABLE, FILES};
use crate::store::Content;

/// In bytes.
const LONGEST: usize = 1 << 20;
/// Memory of a driver that does not say.
const DRIVER_MEMORY_MB: u64 = 1024;
/// Settings of a submission that mean nothing to the driver it starts, or are the submitter's own: its secret, its key, its machine.
const NOT_FOR_THE_DRIVER: [&str; 9] = [
    "spark.jars",
    "spark.submit.pyFiles",
    "spark.submit.deployMode",
    "spark.app.submitTime",
    "spark.driver.host",
    "spark.authenticate",
    "spark.authenticate.secret",
    "spark.authenticate.secret.file",
    "spark.org.apache.spark.ui.JWSFilter.param.secretKey",
];
/// Variables of the submitting machine that are none of the worker's.
const NOT_FOR_THE_WORKER: [&str; 6] = [
    "SPARK_LOCAL_IP",
    "SPARK_LOCAL_HOSTNAME",
    "SPARK_HOME",
    "SPARK_CONF_DIR",
    "SPARK_ENV_LOADED",
    "_SPARK_AUTH_SECRET",
];

/// The master that takes submissions, as drivers and workers find it.
#[derive(Clone, Debug)]
pub(in super::super) struct Site {
    /// Its name: `spark://host:7077`.
    pub(in super::super) url: String,
    /// Where it serves content.
    pub(in super::super) address: Address,
    /// Its port for submissions over HTTP.
    pub(in super::super) rest_port: Option<u16>,
    /// Whether its cluster has a secret.
    pub(in super::super) authenticates: bool,
}

impl Site {
    /// The masters of a driver. One that was submitted to several, at their ports for HTTP, is told of all of them.
    fn masters(&self, submitted: Option<&String>) -> String {
        let list = submitted.and_then(|url| url.strip_prefix("spark://"));
        let Some(list) = list.filter(|list| list.contains(',')) else { return self.url.clone() };
        let rest = self.rest_port.map(|port| format!(":{port}"));
        let hosts = list.split(',').map(|host| {
            match rest.as_deref().and_then(|rest| host.strip_suffix(rest)) {
                Some(host) => format!("{host}:{}", self.address.port),
                None => host.to_owned(),
            }
        });
        format!("spark://{}", hosts.collect::<Vec<_>>().join(","))
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

/// Messages of Spark's protocol that are no submissions. Spark breaks down over any other.
const OTHER_ACTIONS: [&str; 8] = [
    "KillSubmissionRequest",
    "SubmissionStatusRequest",
    "CreateSubmissionResponse",
    "KillSubmissionResponse",
    "KillAllSubmissionResponse",
    "SubmissionStatusResponse",
    "ClearResponse",
    "ErrorResponse",
];

fn malformed(why: impl std::fmt::Display) -> Refusal {
    refusal(400, format!("Malformed request: {why}"))
}

/// Reads a submission for the master of this site.
pub(super) fn read(body: Option<&[u8]>, site: &Site) -> Result<Request, Refusal> {
    let Some(body) = body.filter(|body| body.len() <= LONGEST) else {
        return Err(refusal(413, "The submission is too long, or did not come whole."));
    };
    let value: Value = serde_json::from_slice(body).map_err(malformed)?;
    match value.get("action").and_then(Value::as_str) {
        Some("CreateSubmissionRequest") => {}
        Some(other) => {
            let why = format!("the action is {other:?}; a submission is a CreateSubmissionRequest");
            let known = OTHER_ACTIONS.contains(&other);
            return Err(if known { malformed(why) } else { refusal(500, why) });
        }
        None => return Err(malformed("Action field not found in JSON")),
    }
    let Value::Object(mut fields) = value else {
        return Err(malformed("a submission is an object"));
    };
    fields.retain(|_, value| !value.is_null());
    let is_strange = |name: &&String| !FIELDS.contains(&name.as_str());
    let unknown = fields.keys().filter(is_strange).cloned().collect();
    let submission: Submission =
        serde_json::from_value(Value::Object(fields)).map_err(malformed)?;
    let (description, contents) = describe(submission, site).map_err(malformed)?;
    Ok(Request::Create { description: Arc::new(description), contents, unknown })
}

/// The driver that a submission describes, and the content that it needs of this master.
fn describe(
    mut submission: Submission,
    site: &Site,
) -> Result<(DriverDescription, Vec<Content>), String> {
    let name = submission.main_class.take().filter(|class| !class.is_empty());
    let name = name.ok_or("Main class is missing: mainClass is the name of the driver here")?;
    let program = program(&submission.app_resource)?;
    let (executable, files) = uploaded(&mut submission.spark_properties)?;
    let contents = executable.into_iter().chain(files.iter().map(|(_, content)| *content));
    let contents: Vec<Content> = contents.collect();
    let served = (!contents.is_empty()).then(|| served(site, executable, &files));
    let conf = settings(&submission, site, &files)?;
    let read = |error: firesteel_conf::ConfError| error.to_string();
    let memory = conf.get(&entries::DRIVER_MEMORY).map_err(read)?;
    let ours = |name: &String| {
        !name.starts_with("FIRESTEEL_") && !NOT_FOR_THE_WORKER.contains(&name.as_str())
    };
    let mut environment = submission.environment_variables;
    environment.retain(|name, _| ours(name));
    environment.insert("FIRESTEEL_CONF".to_owned(), conf.to_properties());
    let (arguments, hash) = (submission.app_args, executable.map(|content| content.hash));
    let description = DriverDescription {
        name,
        cores: conf.get(&entries::DRIVER_CORES).map_err(read)?,
        memory_mb: memory.map_or(DRIVER_MEMORY_MB, |size| (size.0 >> 20).max(1)),
        supervise: conf.get(&entries::DRIVER_SUPERVISE).map_err(read)?,
        command: Command { program, arguments, environment, hash, served },
    };
    Ok((description, contents))
}

/// The settings of the driver.
fn settings(
    submission: &Submission,
    site: &Site,
    files: &[(String, Content)],
) -> Result<Conf, String> {
    let mut conf = Conf::new();
    for (key, value) in &submission.spark_properties {
        // A configuration takes names without the blanks around them.
        if !NOT_FOR_THE_DRIVER.contains(&key.trim()) {
            conf.insert(key, value, Origin::ConfArgument);
        }
    }
    let masters = site.masters(submission.spark_properties.get(entries::MASTER.key()));
    conf.insert(entries::MASTER.key(), masters, Origin::ConfArgument);
    if site.authenticates {
        // Its worker tells it the secret.
        conf.insert(entries::AUTHENTICATE.key(), true, Origin::ConfArgument);
    }
    if !files.is_empty() {
        // They lie where it is started, beside those that the workers have.
        let there = conf.get_raw(entries::FILES.key()).filter(|list| !list.is_empty());
        let names = files.iter().map(|(name, _)| name.as_str());
        let list = there.into_iter().chain(names).collect::<Vec<_>>().join(",");
        conf.insert(entries::FILES.key(), list, Origin::ConfArgument);
    }
    conf.validate().map_err(|error| error.to_string())?;
    Ok(conf)
}

type Uploaded = (Option<Content>, Vec<(String, Content)>);

/// What was uploaded for it, taken out of its settings: the executable, and files with their names.
fn uploaded(properties: &mut BTreeMap<String, String>) -> Result<Uploaded, String> {
    let parse = |text: &str| text.parse::<Content>().map_err(|error| error.to_string());
    let executable = properties.remove(EXECUTABLE).map(|text| parse(&text)).transpose()?;
    let list = properties.remove(FILES).unwrap_or_default();
    let file = |text: &str| {
        let (content, name) = text.rsplit_once('/').ok_or(format!("{text:?} has no name"))?;
        Ok::<_, String>((name.to_owned(), parse(content)?))
    };
    let files = list.split(',').filter(|text| !text.is_empty()).map(file);
    Ok((executable, files.collect::<Result<_, _>>()?))
}

fn served(site: &Site, executable: Option<Content>, files: &[(String, Content)]) -> Served {
    let file = |(name, content): &(String, Content)| ServedFile {
        name: name.clone(),
        bytes: content.bytes,
        hash: content.hash,
    };
    Served {
        address: site.address.clone(),
        program_bytes: executable.map_or(0, |content| content.bytes),
        files: files.iter().map(file).collect(),
    }
}

/// The path of the executable on the workers, or where it was when it was uploaded, or the URL that the worker fetches it from.
fn program(resource: &str) -> Result<String, String> {
    let instead = "appResource is an executable: the path of one that every worker has, such as file:/opt/app, or a URL, such as \
                   https://host/app or s3://bucket/app";
    let is_other = |name: &str| [".jar", ".py", ".sql", ".R"].iter().any(|end| name.ends_with(end));
    let path = ["file:", "local:"].iter().find_map(|scheme| resource.strip_prefix(scheme));
    if path.is_none() && url_scheme(resource).is_some() {
        let found = shared_file(resource).map_err(|error| format!("{error} ({instead})"))?;
        let FileSource::Url(url) = &found.source else { return Err(instead.to_owned()) };
        return match is_other(&found.name) {
            true => Err(format!("{} cannot be run: {instead}", found.source)),
            false => Ok(url.clone()),
        };
    }
    let path = path.unwrap_or(resource);
    let path = path.strip_prefix("//").unwrap_or(path);
    if is_other(path) {
        return Err(format!("{resource} cannot be run: {instead}"));
    }
    if !path.starts_with('/') {
        return Err(format!("{resource:?} is no path that can be run: {instead}"));
    }
    Ok(path.to_owned())
}
