//! Which page a path is. Paths and parameters of an application's pages are Spark's: `/jobs/job/?id=3`; a history server has
//! them below `/history/APP/`.

use firesteel_monitor::rest::{Query, decoded};
use firesteel_monitor::site::{Asked, Shown, ShownBody, Site};
use firesteel_status::AppStatus;
use firesteel_types::{JobId, RddId, StageId, StageRef};
use maud::{Markup, html};

use crate::app::{
    environment, executors, job, jobs, kill, overview, stage, stages, storage, threads,
};
use crate::frame::{self, Drawn, Frame, Place, Tab};
use crate::known::Known;
use crate::recent::Recent;
use crate::{assets, history, live};

/// No script and no style but ours, no frames around it, nothing from elsewhere.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; form-action 'self'; \
                      frame-ancestors 'none'; base-uri 'none'";

/// The pages of a server.
pub struct Pages {
    /// Known to pages of this server only: a form without it comes from elsewhere. `None`: the system has no random bytes, and
    /// nothing can be killed.
    token: Option<String>,
    /// Where a proxy shows these pages that does not say so itself.
    base: Option<String>,
    recent: Recent,
    known: Known,
}

impl Default for Pages {
    fn default() -> Self {
        let mut bytes = [0; 16];
        let token = getrandom::fill(&mut bytes).is_ok();
        let token = token.then(|| format!("{:032x}", u128::from_le_bytes(bytes)));
        Pages { token, base: None, recent: Recent::default(), known: Known::default() }
    }
}

/// A page, or a status and a sentence.
type Found = Result<Markup, (u16, String)>;

impl Site for Pages {
    fn show(&self, asked: &Asked<'_>) -> Shown {
        if let Some((content_type, text)) = assets::find(asked.path) {
            return asset(asked, content_type, text);
        }
        let root = root(asked.base.or(self.base.as_deref()));
        if let Some(form) = asked.form {
            return self.changed(asked, &root, form);
        }
        let path = asked.path.strip_suffix("/index.html").unwrap_or(asked.path);
        if path == "/events" && asked.served.is_live() {
            return Shown {
                status: 200,
                content_type: "text/event-stream",
                headers: Vec::new(),
                body: ShownBody::Updates(live::updates()),
            };
        }
        if !asked.served.is_live() {
            return answer(self.find(asked, &root, path).map(Markup::into_string), &root);
        }
        // Who may not kill anything gets pages without forms.
        let can_kill = asked.served.control().is_some();
        let key = format!("{root}\n{path}\n{}\n{can_kill}", asked.query);
        if let Some(text) = self.recent.get(&key, asked.now) {
            return answer(Ok(text), &root);
        }
        let found = self.find(asked, &root, path).map(Markup::into_string);
        if let Ok(text) = &found {
            self.recent.put(key, asked.now, text.clone());
        }
        answer(found, &root)
    }

    fn refuse(&self, asked: &Asked<'_>, status: u16, why: &str) -> Shown {
        answer(Err((status, why.to_owned())), &root(asked.base.or(self.base.as_deref())))
    }
}

impl Pages {
    /// Shown below this path by a proxy that does not say so in each request.
    #[must_use]
    pub fn below(mut self, base: Option<&str>) -> Self {
        self.base = base.map(str::to_owned);
        self
    }

    fn find(&self, asked: &Asked<'_>, root: &str, path: &str) -> Found {
        if asked.served.is_live() {
            return match asked.served.list().first() {
                Some(entry) => self.of_application(asked, root, root, (&entry.id, None), path),
                None => Err((404, "The application has not started yet, or is over.".to_owned())),
            };
        }
        let parts: Vec<String> =
            path.split('/').filter(|part| !part.is_empty()).map(decoded).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        match parts.as_slice() {
            [] | ["home"] => Ok(history::list::page(asked, root)),
            ["compare"] => history::compare::page(asked, root),
            ["history", id, rest @ ..] => {
                let known = asked.served.find(id);
                let attempt = rest.first().filter(|first| {
                    known
                        .iter()
                        .flat_map(|entry| &entry.attempts)
                        .any(|it| it.id.as_deref() == Some(**first))
                });
                let rest = if attempt.is_some() { &rest[1..] } else { rest };
                let latest = known
                    .iter()
                    .flat_map(|entry| &entry.attempts)
                    .next()
                    .and_then(|it| it.id.as_deref());
                let path =
                    if rest.is_empty() { "/".to_owned() } else { format!("/{}/", rest.join("/")) };
                let home = history::link(root, id, attempt.copied().or(latest));
                self.of_application(asked, root, &home, (id, attempt.copied().or(latest)), &path)
            }
            _ => Err(nothing_there()),
        }
    }

    fn of_application(
        &self,
        asked: &Asked<'_>,
        root: &str,
        home: &str,
        (id, attempt): (&str, Option<&str>),
        path: &str,
    ) -> Found {
        let place = if asked.served.is_live() { Place::Live } else { Place::History };
        let query = Query::parse(asked.query);
        let is_dump = path.trim_matches('/') == threads::PATH;
        // An executor is waited for: nobody waits for the status meanwhile.
        let dump = is_dump.then(|| threads::ask(asked.served, (id, attempt), &query));
        let mut found = Err((404, format!("There is no application {id} here.")));
        asked.served.with_status(id, attempt, &mut |status| {
            let frame = Frame {
                place,
                root: root.to_owned(),
                home: home.strip_suffix('/').unwrap_or(home).to_owned(),
                path: if path.ends_with('/') { path.to_owned() } else { format!("{path}/") },
                query: query.clone(),
                now: asked.now,
                end: frame::end(place, status, asked.now),
                known: &self.known,
                secrets: asked.secrets,
                token: asked.served.control().and(self.token.as_deref()),
                drawn: Drawn::default(),
            };
            found = match &dump {
                Some(dump) => threads::page(&frame, status, dump.as_ref()),
                None => of_status(&frame, status),
            };
        });
        found
    }

    fn changed(&self, asked: &Asked<'_>, root: &str, form: &str) -> Shown {
        let what = match asked.path {
            "/jobs/job/kill/" => "job",
            "/stages/stage/kill/" => "stage",
            _ => {
                return answer(Err((404, "There is nothing to be changed here.".to_owned())), root);
            }
        };
        match kill::carry_out(asked.served, root, what, &Query::parse(form), self.token.as_deref())
        {
            kill::Outcome::Done { to } => {
                self.recent.clear();
                let mut shown = answer(Ok(String::new()), root);
                shown.status = 303;
                shown.headers.push(("location", to));
                shown
            }
            kill::Outcome::Refused { status, why } => answer(Err((status, why.to_owned())), root),
        }
    }
}

/// A page of an application.
fn of_status(frame: &Frame<'_>, status: &AppStatus) -> Found {
    let page = |tab, title: &str, main: Markup| Ok(frame::page(frame, status, tab, title, &main));
    match frame.path.trim_matches('/') {
        "" => page(Tab::Overview, "Overview", overview::main(frame, status)),
        "jobs" => page(Tab::Jobs, "Jobs", jobs::main(frame, status)),
        "jobs/job" => {
            let id = JobId(number(frame, "id")?);
            let job = status.job(id).ok_or_else(|| forgotten("job", id.0))?;
            page(Tab::Jobs, &format!("Job {id}"), job::main(frame, status, job))
        }
        "stages" => page(Tab::Stages, "Stages", stages::main(frame, status)),
        "stages/stage" => {
            let id = StageId(number(frame, "id")?);
            let stage = match frame.query.get("attempt") {
                Some(_) => status.stage(StageRef { stage: id, attempt: number(frame, "attempt")? }),
                None => status.last_attempt(id),
            };
            let stage = stage.ok_or_else(|| forgotten("stage", id.0))?;
            page(Tab::Stages, &format!("Stage {id}"), stage::main(frame, status, stage))
        }
        "storage" => page(Tab::Storage, "Storage", storage::main(frame, status)),
        "storage/rdd" => {
            let id = RddId(number(frame, "id")?);
            let rdd = status.rdd(id).ok_or_else(|| (404, format!("RDD {id} is not cached.")))?;
            page(Tab::Storage, &format!("RDD {id}"), storage::rdd(frame, status, rdd))
        }
        "environment" => page(Tab::Environment, "Environment", environment::main(frame, status)),
        "executors" => page(Tab::Executors, "Executors", executors::main(frame, status)),
        _ => Err(nothing_there()),
    }
}

fn number<T: std::str::FromStr>(frame: &Frame<'_>, name: &str) -> Result<T, (u16, String)> {
    let text = frame.query.get(name).unwrap_or_default();
    text.parse().map_err(|_| (400, format!("The parameter {name} has to be a number.")))
}

fn forgotten(what: &str, id: u32) -> (u16, String) {
    (
        404,
        format!(
            "There is no {what} {id}, or it is forgotten: spark.ui.retained{}s says how many are remembered.",
            if what == "job" { "Job" } else { "Stage" }
        ),
    )
}

fn nothing_there() -> (u16, String) {
    (404, "There is no such page.".to_owned())
}

/// Where a proxy shows us, as far as that is a path that cannot be mistaken for something else.
fn root(base: Option<&str>) -> String {
    let is_plain = |base: &&str| {
        base.starts_with('/')
            && !base.starts_with("//")
            && base.len() < 200
            && base.bytes().all(|it| it.is_ascii_alphanumeric() || b"/-_.".contains(&it))
    };
    base.filter(is_plain).map_or_else(String::new, |base| base.trim_end_matches('/').to_owned())
}

fn answer(found: Result<String, (u16, String)>, root: &str) -> Shown {
    let (status, text) = match found {
        Ok(page) => (200, page),
        Err((status, why)) => {
            let title = if matches!(status, 401 | 403) { "Not allowed" } else { "Nothing to show" };
            let main = html! { h1 { (title) } p { (why) } p { a href=(format!("{root}/")) { "To the first page" } } };
            (status, frame::plain(root, "Firesteel", &[], &main).into_string())
        }
    };
    let headers = security().map(|(name, value)| (name, value.to_owned())).collect();
    let body = ShownBody::Whole(text.into_bytes());
    Shown { status, content_type: "text/html;charset=utf-8", headers, body }
}

/// What every answer says of itself.
fn security() -> impl Iterator<Item = (&'static str, &'static str)> {
    let all = [
        ("content-security-policy", POLICY),
        ("x-frame-options", "DENY"),
        // Not `no-referrer`: forms would name no origin then, and be refused.
        ("referrer-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ];
    all.into_iter()
}

/// The hash of a file is in its path: what a browser has stays right for ever.
fn asset(asked: &Asked<'_>, content_type: &'static str, text: &'static str) -> Shown {
    let etag = assets::etag(text.as_bytes());
    let is_known = asked.known.is_some_and(|known| known.split(',').any(|it| it.trim() == etag));
    let (status, body) = if is_known { (304, Vec::new()) } else { (200, text.as_bytes().to_vec()) };
    let mut headers: Vec<_> = security().map(|(name, value)| (name, value.to_owned())).collect();
    headers.push(("cache-control", "public, max-age=31536000, immutable".to_owned()));
    headers.push(("etag", etag));
    Shown { status, content_type, headers, body: ShownBody::Whole(body) }
}
