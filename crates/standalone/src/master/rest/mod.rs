//! Submissions as Spark's REST gateway takes them, `/v1/submissions/...`: over HTTP, and inside messages of our own transport,
//! which ask for proof of a secret.
//!
//! What a request means and what an answer looks like is in `protocol` and `submission`, who may make it in `rights`; here the master
//! is asked.

mod protocol;
mod rights;
mod submission;

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use firesteel_rpc::{Caller, Context, DEFAULT_IDENTITY, Endpoint, HandlerError};
use firesteel_standalone_core::description::DriverDescription;
use firesteel_standalone_core::master::RecoveryState;
use firesteel_standalone_core::messages::{MasterReply, ToMaster};
use hyper::{Method, StatusCode};
use tokio::sync::Semaphore;

pub(crate) use self::protocol::fuzz;
use self::protocol::{Refusal, Reply, Request, read, refusal};
pub(super) use self::rights::Rights;
pub(super) use self::submission::Site;
use super::shell::Shell;
use crate::gateway::{Answer, Call};
use crate::store::{Content, Store};
use crate::token::Holder;
use crate::web::{Answering, HttpHandler, HttpRequest, HttpResponse, answer_of};

/// The longest body of a request: a piece of content, or more than a submission may have.
pub(super) const LONGEST: usize = 4 << 20;

/// How many requests inside messages are answered at once.
const CALLS: usize = 64;

/// Takes submissions for a master.
pub(super) struct Gateway {
    shell: Arc<Shell>,
    store: Arc<Store>,
    site: Site,
    calls: Arc<Semaphore>,
}

pub(super) fn handler(gateway: Arc<Gateway>, rights: Arc<Rights>) -> HttpHandler {
    Arc::new(move |asked: HttpRequest| -> Answering {
        let holder = match asked.by_a_page {
            true => Err("Web pages cannot submit anything."),
            false => rights.holder(asked.authorization.as_deref()),
        };
        let (gateway, rights) = (gateway.clone(), rights.clone());
        Box::pin(async move {
            let reply = match holder {
                Err(why) => Reply::refused(refusal(403, why)),
                Ok(holder) => {
                    let read = gateway.read(&asked.method, &asked.path, asked.body.as_deref());
                    let read = read.and_then(|it| rights.allow(it, &holder, &gateway.shell));
                    gateway.reply_to(read, asked.body.clone()).await
                }
            };
            respond(&reply, &asked)
        })
    })
}

fn respond(reply: &Reply, asked: &HttpRequest) -> HttpResponse {
    let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::BAD_REQUEST);
    if !status.is_success() {
        tracing::debug!(path = asked.path, %status, "refused a request over HTTP");
    }
    answer_of(status, "application/json;charset=utf-8", reply.json())
}

/// The same requests inside messages. Who has proven the cluster's secret may do everything, as with a token made of it; where there
/// is none to prove, nobody is anybody, and lists of users (`spark.acls.enable`) refuse what they refuse over HTTP.
pub(super) struct GatewayEndpoint {
    pub(super) gateway: Arc<Gateway>,
    pub(super) rights: Arc<Rights>,
}

impl Endpoint for GatewayEndpoint {
    type Message = Call;

    async fn receive(
        &mut self,
        call: Call,
        caller: Caller<Answer>,
        _: &Context<Call>,
    ) -> Result<(), HandlerError> {
        let (gateway, rights) = (self.gateway.clone(), self.rights.clone());
        let holder = match &*caller.peer().identity {
            DEFAULT_IDENTITY => Holder::OfSecret,
            _ => Holder::User(None),
        };
        // One after the other only when there are too many: none waits for what another one has to be written.
        let place = gateway.calls.clone().acquire_owned().await?;
        tokio::spawn(async move {
            let method = Method::from_bytes(call.method.as_bytes()).unwrap_or_default();
            let body = Bytes::from(call.body);
            let read = gateway.read(&method, &call.path, Some(&body));
            let read = read.and_then(|it| rights.allow(it, &holder, &gateway.shell));
            let reply = gateway.reply_to(read, Some(body)).await;
            caller.reply(Answer { status: reply.status, body: reply.json() });
            drop(place);
        });
        Ok(())
    }
}

impl Gateway {
    pub(super) fn new(shell: Arc<Shell>, store: Arc<Store>, site: Site) -> Self {
        Self { shell, store, site, calls: Arc::new(Semaphore::new(CALLS)) }
    }

    fn read(&self, method: &Method, path: &str, body: Option<&[u8]>) -> Result<Request, Refusal> {
        read(method, path, body, &self.site)
    }

    async fn reply_to(
        self: &Arc<Self>,
        read: Result<Request, Refusal>,
        body: Option<Bytes>,
    ) -> Reply {
        match read {
            Ok(request) => self.answer(request, body).await,
            Err(refusal) => Reply::refused(refusal),
        }
    }

    async fn answer(self: &Arc<Self>, request: Request, body: Option<Bytes>) -> Reply {
        match request {
            Request::Create { description, contents, unknown } => {
                self.create(description, contents, unknown).await
            }
            Request::Held(content) => {
                self.blocking(move |gateway| Reply::held(gateway.store.held(&content))).await
            }
            Request::Put(content, offset) => {
                self.blocking(move |gateway| gateway.put(&content, offset, body.as_deref())).await
            }
            asked => match self.shell.ask(message(&asked)).await {
                Some(reply) => told(&asked, reply),
                None => Reply::unknown(),
            },
        }
    }

    async fn create(
        self: &Arc<Self>,
        description: Arc<DriverDescription>,
        contents: Vec<Content>,
        unknown: Vec<String>,
    ) -> Reply {
        let touch =
            move |gateway: &Self| contents.iter().all(|content| gateway.store.touch(content));
        if !self.blocking(touch).await {
            let why = "What was uploaded for it is not here any more: submit it again.";
            return Reply::refused(refusal(409, why));
        }
        match self.shell.ask(ToMaster::RequestSubmitDriver { description }).await {
            Some(MasterReply::SubmitDriverResponse { result }) => Reply::created(result, unknown),
            Some(MasterReply::MasterInStandby { leader }) => {
                let what = "accept driver submissions";
                Reply::standby("CreateSubmissionResponse", what, leader)
            }
            _ => Reply::unknown(),
        }
    }

    /// On a thread that may wait for a disk.
    async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> T {
        let gateway = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&gateway)).await;
        done.expect("the store's books are in order")
    }

    fn put(&self, content: &Content, offset: u64, piece: Option<&[u8]>) -> Reply {
        let Some(piece) = piece else {
            return Reply::refused(refusal(413, "The piece is too long, or did not come whole."));
        };
        match self.store.put(content, offset, piece, self.in_use().as_ref()) {
            Ok(held) => Reply::held(held),
            Err(error) => Reply::refused(refusal(507, error.to_string())),
        }
    }

    /// Content of drivers that are not over: one that is supervised may be started elsewhere. `None`: only a master that leads, and has
    /// heard of all, knows.
    fn in_use(&self) -> Option<BTreeSet<[u8; 32]>> {
        let (view, _) = self.shell.view();
        if view.status != RecoveryState::Alive {
            return None;
        }
        let commands = view.active_drivers.iter().map(|driver| &driver.description.command);
        let served = commands
            .filter_map(|command| command.served.as_ref().map(|served| (command.hash, served)))
            .flat_map(|(hash, served)| hash.into_iter().chain(served.files.iter().map(|f| f.hash)));
        Some(served.collect())
    }
}

fn message(asked: &Request) -> ToMaster {
    match asked {
        Request::Kill(driver) => ToMaster::RequestKillDriver { driver: driver.clone() },
        Request::Status(driver) => ToMaster::RequestDriverStatus { driver: driver.clone() },
        Request::KillAll => ToMaster::RequestKillAllDrivers,
        Request::Clear => ToMaster::RequestClearCompletedDriversAndApps,
        Request::Decommission(name) => ToMaster::RequestDecommissionWorkers { name: name.clone() },
        _ => ToMaster::RequestReadyz,
    }
}

/// What the master said, in Spark's words.
fn told(asked: &Request, reply: MasterReply) -> Reply {
    let (action, what) = match asked {
        Request::Kill(_) => ("KillSubmissionResponse", "kill drivers"),
        Request::Status(_) => ("SubmissionStatusResponse", "request driver statuses"),
        Request::KillAll => ("KillAllSubmissionResponse", "kill drivers"),
        Request::Clear => ("ClearResponse", "clear completed drivers and apps"),
        Request::Decommission(_) => ("DecommissionResponse", "decommission workers"),
        _ => ("ReadyzResponse", "be ready"),
    };
    match (asked, reply) {
        (Request::Kill(driver), MasterReply::KillDriverResponse { result, .. }) => {
            Reply::killed(driver, result.is_ok())
        }
        (
            Request::Status(_),
            MasterReply::DriverStatusResponse { driver, state, worker, reason },
        ) => Reply::status(&driver, state, worker, reason),
        (Request::Decommission(name), MasterReply::DecommissionResponse { workers, running }) => {
            Reply::decommissioned(name, &workers, running)
        }
        (Request::KillAll, MasterReply::Done) => {
            Reply::done(action, "Kill request for all drivers submitted")
        }
        (_, MasterReply::Done) => Reply::done(action, ""),
        (Request::Readyz, _) => Reply::not_ready(),
        (_, MasterReply::MasterInStandby { leader }) => Reply::standby(action, what, leader),
        _ => Reply::unknown(),
    }
}
