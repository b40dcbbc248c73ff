//! What a client asks of a gateway, whichever way the requests go.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use firesteel_rpc::{EndpointRef, RpcAddress, RpcEnv, RpcError, RpcOptions};
use serde::{Deserialize, Serialize};

use super::http::{self, HttpError};
use super::{Answer, Call, EXECUTABLE, FILES, GATEWAY};
use crate::{Content, TokenKey};

/// How many bytes of content a request carries.
const PIECE: usize = 1 << 20;
/// How often a piece is sent again after its connection broke.
const PIECE_TRIES: u32 = 5;

/// Why the gateway did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// Nobody answers at this address, in no protocol.
    #[error("{address} cannot be reached: {reason}")]
    Unreachable { address: RpcAddress, reason: String },
    /// Who answers is no REST server.
    #[error("{address} is not a REST server")]
    NotRest { address: RpcAddress },
    /// Another master leads, or none does yet.
    #[error("{address} does not lead: {reason}")]
    NotReady { address: RpcAddress, reason: String },
    /// The gateway wants a token that this process does not have.
    #[error(
        "{address} takes requests of those only who have its secret or key ({reason}): set spark.authenticate=true and \
         spark.authenticate.secret.file, or spark.master.rest.filters, as they are set there"
    )]
    Forbidden { address: RpcAddress, reason: String },
    /// The connection broke, or the other side broke down.
    #[error("{address} did not answer: {reason}")]
    Failed { address: RpcAddress, reason: String },
    /// The gateway says no.
    #[error("{message}")]
    Refused { message: String },
    /// There is no such worker.
    #[error("{message}")]
    NoWorker { message: String },
    /// A file that was to be uploaded.
    #[error("could not read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// A file that changed while it was uploaded.
    #[error("{} changed while it was uploaded: submit it again", path.display())]
    Changed { path: PathBuf },
}

impl GatewayError {
    /// Whether asking again may help.
    pub fn may_pass(&self) -> bool {
        use GatewayError::*;
        matches!(self, Unreachable { .. } | NotRest { .. } | NotReady { .. } | Failed { .. })
    }
}

/// A driver to be run.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Submission {
    action: &'static str,
    client_spark_version: &'static str,
    /// The path of its executable.
    pub app_resource: String,
    pub app_args: Vec<String>,
    /// The name it is listed by.
    pub main_class: String,
    pub environment_variables: BTreeMap<String, String>,
    pub spark_properties: BTreeMap<String, String>,
}

impl Submission {
    /// Of this executable, listed by this name.
    pub fn new(app_resource: String, main_class: String) -> Self {
        let (action, client_spark_version) = ("CreateSubmissionRequest", env!("CARGO_PKG_VERSION"));
        Self { action, client_spark_version, app_resource, main_class, ..Self::default() }
    }

    /// Its executable was uploaded.
    pub fn set_executable(&mut self, content: Content) {
        self.spark_properties.insert(EXECUTABLE.to_owned(), content.to_string());
    }

    /// A file of this name was uploaded for it.
    pub fn add_file(&mut self, name: &str, content: Content) {
        let list = self.spark_properties.entry(FILES.to_owned()).or_default();
        if !list.is_empty() {
            list.push(',');
        }
        list.push_str(&format!("{content}/{name}"));
    }
}

/// How far a driver is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverStatus {
    /// Spark's word for it.
    pub state: String,
    /// Its worker and that one's address, if it has one.
    pub worker: Option<(String, String)>,
    /// Why it ended without success, if it did and that is known.
    pub reason: Option<String>,
}

/// The fields of answers that mean something to a client.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reply {
    #[serde(default)]
    success: bool,
    #[serde(default)]
    message: String,
    submission_id: Option<String>,
    driver_state: Option<String>,
    worker_id: Option<String>,
    worker_host_port: Option<String>,
    length: Option<u64>,
}

/// A gateway that answers. Its master leads, or else it only takes what is uploaded.
pub struct Gateway {
    address: RpcAddress,
    way: Way,
    /// Why its master does not lead, if it does not.
    standby: Option<String>,
}

enum Way {
    Http { key: Option<TokenKey> },
    Messages { endpoint: EndpointRef<Call>, env: RpcEnv },
}

impl Gateway {
    /// Over HTTP, with tokens of this key. `NotRest` if the process that listens there does not speak it.
    pub async fn over_http(
        address: RpcAddress,
        key: Option<TokenKey>,
    ) -> Result<Self, GatewayError> {
        Self { address, way: Way::Http { key }, standby: None }.greeted().await
    }

    /// Inside messages, with the secret of `options`.
    pub async fn over_messages(
        address: RpcAddress,
        options: RpcOptions,
    ) -> Result<Self, GatewayError> {
        let env = RpcEnv::client(options);
        let endpoint = env.endpoint_ref(&address.endpoint(GATEWAY));
        let endpoint = endpoint.map_err(|error| unreachable(&address, error))?;
        Self { address, way: Way::Messages { endpoint, env }, standby: None }.greeted().await
    }

    pub async fn close(self) {
        if let Way::Messages { env, .. } = self.way {
            env.shutdown().await;
        }
    }

    pub fn address(&self) -> &RpcAddress {
        &self.address
    }

    /// An error unless its master leads.
    pub fn check_leads(&self) -> Result<(), GatewayError> {
        match &self.standby {
            None => Ok(()),
            Some(reason) => {
                let (address, reason) = (self.address.clone(), reason.clone());
                Err(GatewayError::NotReady { address, reason })
            }
        }
    }

    async fn greeted(mut self) -> Result<Self, GatewayError> {
        let address = self.address.clone();
        let answer = self.call("GET", "/v1/submissions/readyz", Vec::new()).await?;
        let Some(reply) = parse(&answer) else { return Err(GatewayError::NotRest { address }) };
        match answer.status {
            200 if reply.success => Ok(self),
            403 => Err(GatewayError::Forbidden { address, reason: reply.message }),
            503 => {
                self.standby = Some(reply.message);
                Ok(self)
            }
            _ => Err(GatewayError::Refused { message: reply.message }),
        }
    }

    /// Has the cluster run a driver; its id.
    pub async fn create(&self, submission: &Submission) -> Result<String, GatewayError> {
        let body = serde_json::to_vec(submission).expect("text becomes JSON");
        let reply = self.ask("POST", "/v1/submissions/create", body).await?;
        match (reply.success, reply.submission_id) {
            (true, Some(id)) => Ok(id),
            _ => Err(GatewayError::Refused { message: reply.message }),
        }
    }

    /// Has a driver ended; what the master says.
    pub async fn kill(&self, id: &str) -> Result<String, GatewayError> {
        let reply = self.ask("POST", &path("kill", id)?, Vec::new()).await?;
        match reply.success {
            true => Ok(reply.message),
            false => Err(GatewayError::Refused { message: reply.message }),
        }
    }

    /// Has workers of this id, host or address get nothing more to do; what the master says, and how many executors and drivers
    /// still run there. `NoWorker` if a master that leads knows none.
    pub async fn decommission(&self, name: &str) -> Result<(String, u64), GatewayError> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:[]".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_name) {
            let message =
                format!("{name:?} is no worker: write its id, its host, or its host and port");
            return Err(GatewayError::Refused { message });
        }
        let path = format!("/v1/workers/decommission/{name}");
        let reply = self.ask("POST", &path, Vec::new()).await?;
        let (address, message) = (self.address.clone(), reply.message);
        // Who does not lead counts nothing.
        match (reply.success, reply.length) {
            (true, Some(running)) => Ok((message, running)),
            (false, Some(_)) => Err(GatewayError::NoWorker { message }),
            (_, None) => Err(GatewayError::NotReady { address, reason: message }),
        }
    }

    /// How far a driver is.
    pub async fn status(&self, id: &str) -> Result<DriverStatus, GatewayError> {
        let reply = self.ask("GET", &path("status", id)?, Vec::new()).await?;
        let Some(state) = reply.driver_state.filter(|_| reply.success) else {
            let unknown = format!("the master knows no driver {id}");
            let message = if reply.message.is_empty() { unknown } else { reply.message };
            return Err(GatewayError::Refused { message });
        };
        let worker = reply.worker_id.zip(reply.worker_host_port);
        let reason = Some(reply.message).filter(|message| !message.is_empty());
        Ok(DriverStatus { state, worker, reason })
    }

    /// Sees to it that the master has the content of this file: sends what it does not have.
    pub async fn upload(&self, file: &Path, content: &Content) -> Result<(), GatewayError> {
        let failed = |source| GatewayError::Read { path: file.to_owned(), source };
        let mut source = File::open(file).map_err(failed)?;
        let held = self.ask("GET", &format!("/v1/content/{content}"), Vec::new()).await?;
        let (mut whole, mut length) = (held.success, held.length.unwrap_or(0));
        let mut tries = 0;
        while !whole {
            let piece = read_piece(&mut source, length).map_err(failed)?;
            if piece.is_empty() && length != content.bytes {
                return Err(GatewayError::Changed { path: file.to_owned() });
            }
            let path = format!("/v1/content/{content}/{length}");
            match self.ask("PUT", &path, piece).await {
                Ok(reply) => {
                    let before = length;
                    (whole, length) = (reply.success, reply.length.unwrap_or(0));
                    tries = if length > before { 0 } else { tries + 1 };
                }
                Err(error) if !error.may_pass() || tries == PIECE_TRIES => return Err(error),
                Err(_) => tries += 1, // what came of it stays there
            }
            if tries > PIECE_TRIES {
                let (address, reason) = (self.address.clone(), "an upload stands still".to_owned());
                return Err(GatewayError::Failed { address, reason });
            }
        }
        Ok(())
    }

    async fn ask(&self, method: &str, path: &str, body: Vec<u8>) -> Result<Reply, GatewayError> {
        let answer = self.call(method, path, body).await.map_err(|error| match error {
            // It was one when it was greeted.
            GatewayError::NotRest { address } => {
                let reason = "it broke off, or took too long".to_owned();
                GatewayError::Failed { address, reason }
            }
            other => other,
        })?;
        let Some(reply) = parse(&answer) else {
            let (address, reason) = (self.address.clone(), http::meaning(answer.status));
            return Err(GatewayError::Failed { address, reason });
        };
        match answer.status {
            200 => Ok(reply),
            _ => Err(GatewayError::Refused { message: reply.message }),
        }
    }

    async fn call(&self, method: &str, path: &str, body: Vec<u8>) -> Result<Answer, GatewayError> {
        let address = &self.address;
        let call = Call { method: method.to_owned(), path: path.to_owned(), body };
        match &self.way {
            Way::Http { key } => {
                let token = key.as_ref().map(TokenKey::sign);
                http::call(address, token.as_deref(), call).await.map_err(|error| match error {
                    HttpError::Connect(error) => unreachable(address, error),
                    HttpError::Speak(_) | HttpError::Late => {
                        GatewayError::NotRest { address: address.clone() }
                    }
                    other => failed(address, other),
                })
            }
            Way::Messages { endpoint, .. } => {
                endpoint.ask(call).await.map_err(|error| match error {
                    RpcError::Disconnected { .. } | RpcError::Timeout { .. } => {
                        failed(address, error)
                    }
                    error => unreachable(address, error),
                })
            }
        }
    }
}

fn parse(answer: &Answer) -> Option<Reply> {
    serde_json::from_str(&answer.body).ok()
}

fn failed(address: &RpcAddress, error: impl ToString) -> GatewayError {
    GatewayError::Failed { address: address.clone(), reason: error.to_string() }
}

fn unreachable(address: &RpcAddress, error: impl ToString) -> GatewayError {
    GatewayError::Unreachable { address: address.clone(), reason: error.to_string() }
}

/// An id is a word: no part of a path.
fn path(what: &str, id: &str) -> Result<String, GatewayError> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if id.is_empty() || !id.bytes().all(is_word) {
        let message =
            format!("{id:?} is no driver's id: write one such as driver-20260101120000-0001");
        return Err(GatewayError::Refused { message });
    }
    Ok(format!("/v1/submissions/{what}/{id}"))
}

fn read_piece(file: &mut File, offset: u64) -> io::Result<Vec<u8>> {
    let mut piece = Vec::new();
    file.seek(SeekFrom::Start(offset))?;
    file.take(PIECE as u64).read_to_end(&mut piece)?;
    Ok(piece)
}
