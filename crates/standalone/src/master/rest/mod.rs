//! Submissions over HTTP, as Spark's REST gateway takes them: `/v1/submissions/...`.
//!
//! What a request means and what an answer looks like is in `protocol`; here the master is asked. Nobody
//! proves who they are, so a master with a secret has no such port.

mod protocol;

use std::sync::Arc;

use firesteel_standalone_core::messages::{MasterReply, ToMaster};
use hyper::StatusCode;

pub(crate) use self::protocol::fuzz;
use self::protocol::{Reply, Request, read, refusal};
use super::shell::Shell;
use crate::web::{HttpHandler, HttpRequest, HttpResponse, answer_of};

/// The longest submission.
pub(super) const LONGEST: usize = 1 << 20;

pub(super) fn handler(shell: Arc<Shell>, master: String) -> HttpHandler {
    Arc::new(move |asked| {
        if asked.by_a_page {
            let refusal = refusal(403, "Web pages cannot submit anything.");
            return respond(&Reply::refused(refusal), &asked);
        }
        let reply = match read(&asked.method, &asked.path, asked.body.as_deref(), &master) {
            Ok(request) => answer(&shell, request),
            Err(refusal) => Reply::refused(refusal),
        };
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

fn answer(shell: &Shell, request: Request) -> Reply {
    match request {
        Request::Create { description, unknown } => {
            let asked = ToMaster::RequestSubmitDriver { description };
            match shell.ask(asked) {
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
    }
}
