//! Submissions as Spark's REST gateway takes them, `/v1/submissions/...`: over HTTP, and inside messages of our own transport,
//! which ask for proof of a secret.
//!
//! What a request means and what an answer looks like is in `protocol` and `submission`; here the master is asked.

mod protocol;
mod submission;

use std::collections::BTreeSet;
use std::sync::Arc;

use firesteel_rpc::{Caller, Context, Endpoint, HandlerError};
use firesteel_standalone_core::messages::{MasterReply, ToMaster};
use hyper::{Method, StatusCode};

pub(crate) use self::protocol::fuzz;
use self::protocol::{Reply, Request, read, refusal};
pub(super) use self::submission::Site;
use super::shell::Shell;
use crate::gateway::{Answer, Call};
use crate::store::{Content, Store};
use crate::token::TokenKey;
use crate::web::{HttpHandler, HttpRequest, HttpResponse, answer_of};

/// The longest body of a request: a piece of content, or more than a submission may have.
pub(super) const LONGEST: usize = 4 << 20;

/// Takes submissions for a master.
pub(super) struct Gateway {
    pub(super) shell: Arc<Shell>,
    pub(super) store: Arc<Store>,
    pub(super) site: Site,
}

/// Requests over HTTP. With a key, those that have a token of it.
pub(super) fn handler(gateway: Arc<Gateway>, key: Option<TokenKey>) -> HttpHandler {
    Arc::new(move |asked| {
        let checked = key.as_ref().map_or(Ok(()), |key| key.check(asked.authorization.as_deref()));
        let allowed = match asked.by_a_page {
            true => Err("Web pages cannot submit anything."),
            false => checked,
        };
        if let Err(why) = allowed {
            return respond(&Reply::refused(refusal(403, why)), &asked);
        }
        let reply = gateway.call(&asked.method, &asked.path, asked.body.as_deref());
        respond(&reply, &asked)
    })
}

fn respond(reply: &Reply, asked: &HttpRequest) -> HttpResponse {
    let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::BAD_REQUEST);
    if !status.is_success() {
        tracing::debug!(path = asked.path, %status, "refused a request over HTTP");
    }
    answer_of(status, "application/json;charset=utf-8", reply.json())
}

/// The endpoint of those who have the cluster's secret.
pub(super) struct GatewayEndpoint(pub(super) Arc<Gateway>);

impl Endpoint for GatewayEndpoint {
    type Message = Call;

    async fn receive(
        &mut self,
        call: Call,
        caller: Caller<Answer>,
        _: &Context<Call>,
    ) -> Result<(), HandlerError> {
        let gateway = self.0.clone();
        let answered = tokio::task::spawn_blocking(move || {
            let method = Method::from_bytes(call.method.as_bytes()).unwrap_or_default();
            let reply = gateway.call(&method, &call.path, Some(&call.body));
            Answer { status: reply.status, body: reply.json() }
        });
        caller.reply(answered.await?);
        Ok(())
    }
}

impl Gateway {
    /// Blocks while it writes content.
    fn call(&self, method: &Method, path: &str, body: Option<&[u8]>) -> Reply {
        match read(method, path, body, &self.site) {
            Ok(request) => self.answer(request, body),
            Err(refusal) => Reply::refused(refusal),
        }
    }

    fn answer(&self, request: Request, body: Option<&[u8]>) -> Reply {
        let shell = &self.shell;
        match request {
            Request::Create { description, contents, unknown } => {
                if !contents.iter().all(|content| self.store.touch(content)) {
                    let why = "What was uploaded for it is not here any more: submit it again.";
                    return Reply::refused(refusal(409, why));
                }
                match shell.ask(ToMaster::RequestSubmitDriver { description }) {
                    Some(MasterReply::SubmitDriverResponse { result }) => {
                        Reply::created(result, unknown)
                    }
                    _ => Reply::standby("CreateSubmissionResponse", "accept driver submissions"),
                }
            }
            Request::Kill(driver) => {
                match shell.ask(ToMaster::RequestKillDriver { driver: driver.clone() }) {
                    Some(MasterReply::KillDriverResponse { result, .. }) => {
                        Reply::killed(&driver, result.is_ok())
                    }
                    _ => Reply::standby("KillSubmissionResponse", "kill drivers"),
                }
            }
            Request::Status(driver) => {
                match shell.ask(ToMaster::RequestDriverStatus { driver: driver.clone() }) {
                    Some(MasterReply::DriverStatusResponse { state, worker, .. }) => {
                        Reply::status(&driver, state, worker)
                    }
                    _ => Reply::standby("SubmissionStatusResponse", "request driver statuses"),
                }
            }
            Request::KillAll => match shell.ask(ToMaster::RequestKillAllDrivers) {
                Some(MasterReply::Done) => {
                    let message = "Kill request for all drivers submitted";
                    Reply::done("KillAllSubmissionResponse", message)
                }
                _ => Reply::standby("KillAllSubmissionResponse", "kill drivers"),
            },
            Request::Clear => match shell.ask(ToMaster::RequestClearCompletedDriversAndApps) {
                Some(MasterReply::Done) => Reply::done("ClearResponse", ""),
                _ => Reply::standby("ClearResponse", "clear completed drivers and apps"),
            },
            Request::Readyz => match shell.ask(ToMaster::RequestReadyz) {
                Some(MasterReply::Done) => Reply::done("ReadyzResponse", ""),
                _ => Reply::not_ready(),
            },
            Request::Held(content) => Reply::held(self.store.held(&content)),
            Request::Put(content, offset) => self.put(&content, offset, body),
        }
    }

    fn put(&self, content: &Content, offset: u64, piece: Option<&[u8]>) -> Reply {
        let Some(piece) = piece else {
            return Reply::refused(refusal(413, "The piece is too long, or did not come whole."));
        };
        match self.store.put(content, offset, piece, &self.in_use()) {
            Ok(held) => Reply::held(held),
            Err(error) => Reply::refused(refusal(507, error.to_string())),
        }
    }

    /// Content of drivers that are not over: one that is supervised may be started elsewhere.
    fn in_use(&self) -> BTreeSet<[u8; 32]> {
        let (view, _) = self.shell.view();
        let commands = view.active_drivers.iter().map(|driver| &driver.description.command);
        commands
            .filter_map(|command| command.served.as_ref().map(|served| (command.hash, served)))
            .flat_map(|(hash, served)| hash.into_iter().chain(served.files.iter().map(|f| f.hash)))
            .collect()
    }
}
