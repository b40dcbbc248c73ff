//! The master's pages: `/` for operators, `/app/` of one application, `/json/` and `/metrics/` as Spark has them, and what ends an
//! application or a driver or decommissions a worker: forms of these pages, at Spark's paths.
//!
//! `overview` owns what the pages say.
//!
//! A form counts if the page that it comes from is of this very process (its token), if `spark.ui.killEnabled` allows it, and if it
//! is sent by a process of the master's own user on this machine or the settings allow it by name: nobody proves who they are to a
//! page. Where lists of users count, they decide instead.

mod overview;

use std::sync::Arc;

use firesteel_backend::AppId;
use firesteel_conf::{Conf, entries};
use firesteel_jws::Right;
use firesteel_standalone_core::DriverId;
use firesteel_standalone_core::json::master_json;
use firesteel_standalone_core::messages::{MasterReply, ToMaster};
use hyper::header::{ALLOW, HeaderValue, LOCATION};
use hyper::{Method, StatusCode};

use self::overview::Asked;
use super::shell::Shell;
use super::{metrics, proxy};
use crate::StartError;
use crate::access::Access;
use crate::page::{Html, Live};
use crate::updates::{self, Changes};
use crate::web::{
    Answering, HttpHandler, HttpRequest, HttpResponse, Page, Query, answer_of, plain,
};

/// The longest form that is read.
pub(super) const FORM: usize = 8 << 10;

const NOTHING: &str = "there is no such page: try / or /json/\n";

/// What the pages of a master may do.
pub(super) struct Operating {
    /// `spark.ui.killEnabled`
    kills: bool,
    /// It is set by name: those may kill as well who come from elsewhere.
    kills_for_all: bool,
    /// Known to pages of this process only. `None`: the system has no random bytes, and nothing can be killed.
    token: Option<String>,
    /// `spark.ui.reverseProxy`: links lead to pages of others below `/proxy/`.
    proxies: bool,
    /// Where a proxy in front shows the master, if it does not say so itself.
    base: String,
    /// Who may look, and who may kill.
    access: Access,
}

impl Operating {
    pub(super) fn from_conf(conf: &Conf) -> Result<Self, StartError> {
        let mut bytes = [0; 16];
        let drawn = getrandom::fill(&mut bytes).is_ok();
        Ok(Operating {
            kills: conf.get(&entries::UI_KILL_ENABLED)?,
            kills_for_all: conf.setting(entries::UI_KILL_ENABLED.key()).is_some(),
            token: drawn.then(|| format!("{:032x}", u128::from_le_bytes(bytes))),
            proxies: conf.get(&entries::UI_REVERSE_PROXY)?,
            base: proxy::base(conf)?,
            access: Access::from_conf(conf)?,
        })
    }

    /// In front of every link: where a proxy shows the master.
    fn root(&self, asked: &HttpRequest) -> String {
        asked.context.as_ref().map_or_else(|| self.base.clone(), |_| asked.root())
    }

    /// The token of forms, for who may use them.
    async fn token(&self, asked: &HttpRequest) -> Option<&str> {
        let token = self.token.as_deref().filter(|_| self.kills)?;
        let may = match self.access.has_lists() {
            true => self.access.check(asked.asker(), Right::Modify).await.is_ok(),
            false => self.kills_for_all || asked.is_of_own_user().await,
        };
        may.then_some(token)
    }
}

pub(super) fn handler(shell: Arc<Shell>, operating: Operating) -> HttpHandler {
    let operating = Arc::new(operating);
    let seen = shell.clone();
    let changes = Changes::new(move || overview::fingerprint(&seen.view().0));
    Arc::new(move |asked: HttpRequest| -> Answering {
        let (shell, operating, changes) = (shell.clone(), operating.clone(), changes.clone());
        Box::pin(async move {
            let is_asset = crate::page::asset(&asked.path).is_some();
            if !is_asset && let Err(why) = operating.access.check(asked.asker(), Right::View).await
            {
                return why.answer();
            }
            match asked.method {
                Method::POST => kill(&shell, &operating, &asked).await,
                Method::GET if asked.path == updates::PATH => changes.answer(),
                Method::GET | Method::HEAD => show(&shell, &operating, &changes, &asked).await,
                _ => not_allowed(),
            }
        })
    })
}

fn not_allowed() -> HttpResponse {
    let why = "only GET is answered here, and POST of forms\n";
    let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, why);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    response
}

async fn show(
    shell: &Shell,
    operating: &Operating,
    changes: &Changes,
    asked: &HttpRequest,
) -> HttpResponse {
    if let Some((content_type, text)) = crate::page::asset(&asked.path) {
        return answer_of(StatusCode::OK, content_type, text);
    }
    // Before the view: what is shown is never older.
    let state = changes.state();
    let (view, now) = shell.view();
    let live = Live { state, process: changes.process(), now };
    let (root, query) = (operating.root(asked), &asked.query);
    let page = match &*asked.path {
        "/json" | "/json/" => Some(Page::json(master_json(&view, now))),
        path if path.starts_with("/metrics/") => {
            metrics::page(path, &view, now, shell.longest_round())
        }
        "/" | "/app" | "/app/" => {
            let token = operating.token(asked).await;
            let proxies = operating.proxies;
            let of = Asked { view: &view, live, root: &root, query, token, proxies };
            let text = match &*asked.path {
                "/" => Some(overview::master(&of)),
                _ => query.get("appId").and_then(|id| overview::application(&of, id)),
            };
            text.map(Page::html)
        }
        _ => None,
    };
    match page {
        Some(page) => answer_of(StatusCode::OK, page.content_type, page.text),
        None => plain(StatusCode::NOT_FOUND, NOTHING),
    }
}

/// Carries out a form, and shows the first page again.
async fn kill(shell: &Shell, operating: &Operating, asked: &HttpRequest) -> HttpResponse {
    let root = operating.root(asked);
    let body = asked.body.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
    let form = Query::parse(&body);
    let refuse = |status, why: &str| {
        let text = Html::new("Nothing was killed").below(&root).line(why).finish();
        answer_of(status, "text/html;charset=utf-8", text)
    };
    type Order = fn(&str) -> ToMaster;
    let order: Order = match asked.path.trim_end_matches('/') {
        "/app/kill" => |id| ToMaster::RequestKillApplication { app: AppId(id.into()) },
        "/driver/kill" => |id| ToMaster::RequestKillDriver { driver: DriverId(id.into()) },
        "/workers/kill" => |id| ToMaster::RequestDecommissionWorkers { name: id.to_owned() },
        "" | "/app" | "/json" => return not_allowed(),
        _ => return plain(StatusCode::NOT_FOUND, NOTHING),
    };
    let token = operating.token(asked).await;
    if operating.access.has_lists()
        && let Err(why) = operating.access.check(asked.asker(), Right::Modify).await
    {
        return why.answer();
    }
    if token.is_none() {
        let why = "Nothing can be killed from here: spark.ui.killEnabled is false, or it is not set and you are not the master's user on \
                   its own machine. Set it to true in the master's settings, or use the page there as that user.";
        return refuse(StatusCode::FORBIDDEN, why);
    }
    if form.get("token") != token {
        let why =
            "This form was not made by a page of this master as it runs now. Load the page again.";
        return refuse(StatusCode::FORBIDDEN, why);
    }
    let Some(id) = form.get("id").filter(|id| !id.is_empty()) else {
        return refuse(StatusCode::BAD_REQUEST, "The form names nothing to kill.");
    };
    tracing::info!(id, path = asked.path, "somebody uses a form of the master's page");
    match shell.ask(order(id)).await {
        Some(MasterReply::DecommissionResponse { workers, .. }) => match workers.is_empty() {
            true => refuse(StatusCode::NOT_FOUND, "No worker that is alive is called that."),
            false => see_other(&format!("{root}/")),
        },
        Some(
            MasterReply::KillApplicationResponse { result: Ok(_), .. }
            | MasterReply::KillDriverResponse { result: Ok(_), .. },
        ) => see_other(&format!("{root}/")),
        Some(
            MasterReply::KillApplicationResponse { result: Err(why), .. }
            | MasterReply::KillDriverResponse { result: Err(why), .. },
        ) => refuse(StatusCode::NOT_FOUND, &format!("{why}.")),
        Some(MasterReply::MasterInStandby { leader }) => {
            let leader = leader.unwrap_or_else(|| "which one is not known".to_owned());
            refuse(StatusCode::CONFLICT, &format!("Another master leads: {leader}."))
        }
        _ => {
            let why = "The master's store has not answered yet: whether it is killed, the page will show.";
            refuse(StatusCode::SERVICE_UNAVAILABLE, why)
        }
    }
}

fn see_other(to: &str) -> HttpResponse {
    let mut response = plain(StatusCode::SEE_OTHER, "");
    if let Ok(to) = HeaderValue::try_from(to) {
        response.headers_mut().insert(LOCATION, to);
    }
    response
}

#[cfg(test)]
mod tests;
