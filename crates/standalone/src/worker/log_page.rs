//! The output of executors and drivers over HTTP, as Spark's workers have it: `/log` as text, `/logPage` as a page.
//!
//! ```text
//! /log?appId=APP&executorId=ID&logType=stderr                     the last 100 KiB
//! /log?driverId=ID&logType=stdout&offset=0&byteLength=1000        from a position on
//! ```

use std::borrow::Cow;
use std::fmt::Write;
use std::io::ErrorKind;
use std::path::PathBuf;

use firesteel_rpc::RpcAddress;
use hyper::StatusCode;
use hyper::header::{HeaderValue, WWW_AUTHENTICATE};

use super::log_files::{self, Part};
use super::order::ProcessKey;
use crate::page::Html;
use crate::web::{HttpRequest, HttpResponse, Query, answer_of, encoded};
use crate::{StartError, TokenKey};

/// What is read when nobody says how much: Spark's default.
const DEFAULT: u64 = 100 << 10;
/// What is read at most, whatever is asked for.
const MOST: u64 = 1 << 20;
/// The streams of a process.
pub(super) const STREAMS: [&str; 2] = ["stderr", "stdout"];

/// Who may read the output of processes.
#[derive(Debug)]
pub(super) enum Readers {
    All,
    /// Who has a token of one of these keys.
    WithToken(ReaderKeys),
    /// They, and processes of the worker's own user on this machine.
    OwnUser(ReaderKeys),
}

/// The keys of readers' tokens, each made for the address of one worker.
#[derive(Clone, Debug, Default)]
pub(super) struct ReaderKeys {
    pub(super) keys: Vec<TokenKey>,
    /// Where others are told that the worker is.
    pub(super) address: Option<RpcAddress>,
}

impl ReaderKeys {
    fn check(&self, asked: &HttpRequest) -> Result<(), &'static str> {
        let reached = asked.ends.map(|ends| ends.own);
        let authorization = asked.authorization.as_deref();
        let mut refusal = None;
        for key in &self.keys {
            match key.check_at(self.address.as_ref(), reached, authorization) {
                Ok(()) => return Ok(()),
                Err(why) => refusal = refusal.or(Some(why)),
            }
        }
        Err(refusal.unwrap_or("the worker has no key"))
    }
}

impl Readers {
    /// As the setting says, or, without a word, readers prove it where others could ask: other machines, or other users of this
    /// one.
    pub(super) fn of(
        asked: Option<bool>,
        keys: ReaderKeys,
        reaches_others: bool,
    ) -> Result<Self, StartError> {
        match asked {
            Some(true) if keys.keys.is_empty() => Err(StartError::LogsWithoutToken),
            Some(true) => Ok(Readers::WithToken(keys)),
            None if keys.keys.is_empty() => Ok(Readers::All),
            None if reaches_others => Ok(Readers::WithToken(keys)),
            None => Ok(Readers::OwnUser(keys)),
            Some(false) => Ok(Readers::All),
        }
    }

    /// Whether a request has a token of theirs, as `firesteel logs` sends.
    pub(super) fn have_token(&self, asked: &HttpRequest) -> bool {
        !matches!(self, Readers::All) && self.check_token(asked).is_ok()
    }

    fn check_token(&self, asked: &HttpRequest) -> Result<(), &'static str> {
        match self {
            Readers::All => Ok(()),
            Readers::WithToken(keys) | Readers::OwnUser(keys) => keys.check(asked),
        }
    }

    /// Or what is answered instead.
    pub(super) async fn check(&self, asked: &HttpRequest) -> Result<(), HttpResponse> {
        if matches!(self, Readers::OwnUser(_)) && asked.is_of_own_user().await {
            return Ok(());
        }
        self.check_token(asked).map_err(|refusal| {
            let text = format!(
                "{refusal}\nThe output of processes is for those who have the secret of the cluster, and its user on this machine: read it with `firesteel logs`, or \
                 set spark.firesteel.worker.logs.authenticate=false on the worker to show it to everybody who reaches this port.\n"
            );
            let mut refused = plain(StatusCode::UNAUTHORIZED, text);
            refused.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            refused
        })
    }
}

/// Answers requests for output.
#[derive(Debug)]
pub(super) struct Logs {
    pub(super) work: PathBuf,
    pub(super) readers: Readers,
}

/// The path and query of a stream's page.
pub(super) fn location(key: &ProcessKey, stream: &str) -> String {
    match key {
        ProcessKey::Executor(key) => format!(
            "/logPage/?appId={}&executorId={}&logType={stream}",
            encoded(key.app.0.as_bytes(), ""),
            key.executor
        ),
        ProcessKey::Driver(driver) => {
            format!("/logPage/?driverId={}&logType={stream}", encoded(driver.0.as_bytes(), ""))
        }
    }
}

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
struct Wanted<'a> {
    /// Directories below the work directory.
    parts: Vec<&'a str>,
    stream: &'static str,
    from: Option<u64>,
    length: u64,
}

fn number(query: &Query, name: &str) -> Result<Option<u64>, String> {
    let Some(text) = query.get(name) else { return Ok(None) };
    // Spark takes a position before the beginning for the beginning.
    let number =
        text.parse::<i128>().map_err(|_| format!("Error: {name}={text:?} is no number"))?;
    Ok(Some(u64::try_from(number.max(0)).unwrap_or(u64::MAX)))
}

impl<'a> Wanted<'a> {
    fn of(query: &'a Query) -> Result<Self, String> {
        let [app, executor, driver] =
            ["appId", "executorId", "driverId"].map(|name| query.get(name));
        let parts = match (app, executor, driver) {
            (Some(app), Some(executor), None) => vec![app, executor],
            (None, None, Some(driver)) => vec![driver],
            _ => {
                let text = "Request must specify either application or driver identifiers";
                return Err(text.to_owned());
            }
        };
        let asked = query.get("logType").unwrap_or_default();
        let stream = STREAMS.into_iter().find(|stream| *stream == asked);
        let stream = stream
            .ok_or_else(|| format!("Error: Log type must be one of {}", STREAMS.join(", ")))?;
        let length = number(query, "byteLength")?.unwrap_or(DEFAULT).min(MOST);
        Ok(Wanted { parts, stream, from: number(query, "offset")?, length })
    }

    fn name(&self) -> String {
        self.parts.iter().copied().chain([self.stream]).collect::<Vec<_>>().join("/")
    }

    /// The same stream from another position on.
    fn link(&self, root: &str, from: Option<u64>) -> String {
        let names: &[&str] = match self.parts.len() {
            1 => &["driverId"],
            _ => &["appId", "executorId"],
        };
        let mut link = format!("{root}/logPage/?");
        for (name, part) in names.iter().zip(&self.parts) {
            let _ = write!(link, "{name}={}&", encoded(part.as_bytes(), ""));
        }
        let _ = write!(link, "logType={}&byteLength={}", self.stream, self.length);
        if let Some(from) = from {
            let _ = write!(link, "&offset={from}");
        }
        link
    }
}

fn plain(status: StatusCode, text: impl Into<bytes::Bytes>) -> HttpResponse {
    answer_of(status, "text/plain;charset=utf-8", text)
}

impl Logs {
    /// Whether a path is one of these.
    pub(super) fn is_path(path: &str) -> bool {
        matches!(path, "/log" | "/log/" | "/logPage" | "/logPage/")
    }

    /// Answers one request of somebody who may read. Blocks: files are read.
    pub(super) fn answer(&self, asked: &HttpRequest) -> HttpResponse {
        let wanted = match Wanted::of(&asked.query) {
            Ok(wanted) => wanted,
            Err(refusal) => return plain(StatusCode::BAD_REQUEST, format!("{refusal}\n")),
        };
        let Wanted { parts, stream, from, length } = &wanted;
        match log_files::read(&self.work, parts, stream, *from, *length) {
            Ok(part) if asked.path.starts_with("/logPage") => page(&wanted, &part, &asked.root()),
            Ok(part) => plain(StatusCode::OK, text(&wanted, part)),
            Err(error) => {
                let status = match error.kind() {
                    ErrorKind::NotFound => StatusCode::NOT_FOUND,
                    _ => StatusCode::BAD_REQUEST,
                };
                let name = wanted.name();
                plain(status, format!("Error getting logs due to exception: {name:?}: {error}\n"))
            }
        }
    }
}

/// Spark's head, then the bytes as they are.
fn text(wanted: &Wanted<'_>, part: Part) -> Vec<u8> {
    let Part { from, to, end, bytes } = part;
    let mut text =
        format!("==== Bytes {from}-{to} of {end} of {} ====\n", wanted.name()).into_bytes();
    text.extend(bytes);
    text
}

/// `root` is where a proxy shows the worker.
fn page(wanted: &Wanted<'_>, part: &Part, root: &str) -> HttpResponse {
    let Part { from, to, end, bytes } = part;
    let said: Cow<'_, str> = String::from_utf8_lossy(bytes);
    let link = |from| wanted.link(root, from);
    let mut page = Html::new(&wanted.name())
        .below(root)
        .line(&format!("Bytes {from} to {to} of {end}."))
        .link("all processes", &format!("{root}/"));
    if *from > 0 {
        let before = link(Some(from.saturating_sub(wanted.length)));
        page = page.link("beginning", &link(Some(0))).link("before", &before);
    }
    if to < end {
        page = page.link("after", &link(Some(*to)));
    }
    let page = page.link("end", &link(None)).text(&said).finish();
    answer_of(StatusCode::OK, "text/html;charset=utf-8", page)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::reaches_others;

    /// Directories, stream, first byte and length.
    type Found = (Vec<String>, &'static str, Option<u64>, u64);

    fn wanted(query: &str) -> Result<Found, String> {
        let query = Query::parse(query);
        let wanted = Wanted::of(&query)?;
        let parts = wanted.parts.iter().map(|part| (*part).to_owned()).collect();
        Ok((parts, wanted.stream, wanted.from, wanted.length))
    }

    #[test]
    fn requests_are_sparks_and_no_range_is_too_large() {
        let parts =
            |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>();
        let app = parts(&["app-1", "0"]);
        let query = "appId=app-1&executorId=0&logType=stderr";
        assert_eq!(wanted(query), Ok((app.clone(), "stderr", None, 102_400)));
        let range = |range: &str| wanted(&format!("{query}&{range}")).map(|it| (it.2, it.3));
        assert_eq!(range("offset=7&byteLength=5"), Ok((Some(7), 5)));
        assert_eq!(range("offset=-7&byteLength=-5"), Ok((Some(0), 0)));
        let huge = "offset=99999999999999999999&byteLength=99999999999999999999";
        assert_eq!(range(huge), Ok((Some(u64::MAX), MOST)));
        assert!(range("offset=x").unwrap_err().contains("offset=\"x\" is no number"));
        let driver = wanted("driverId=driver%2D1&logType=stdout").unwrap();
        assert_eq!((driver.0, driver.1), (parts(&["driver-1"]), "stdout"));
        for query in
            ["", "appId=a&logType=stdout", "appId=a&executorId=0&driverId=d&logType=stdout"]
        {
            assert!(wanted(query).unwrap_err().contains("either application or driver"), "{query}");
        }
        for stream in ["out", "../../x", "stdout/../stderr", ""] {
            let refused = wanted(&format!("driverId=d&logType={stream}")).unwrap_err();
            assert!(refused.contains("must be one of stderr, stdout"), "{refused}");
        }
    }

    #[test]
    fn who_may_read_is_said_or_follows_from_who_reaches_the_port() {
        let key = || TokenKey::of([7; 32]);
        let needs = |asked, key: Option<TokenKey>, others| {
            let keys = ReaderKeys { keys: key.into_iter().collect(), address: None };
            let readers = Readers::of(asked, keys, others).unwrap();
            matches!(readers, Readers::WithToken(_))
        };
        let keys = ReaderKeys { keys: vec![key()], address: None };
        let here = Readers::of(None, keys, false).unwrap();
        assert!(matches!(here, Readers::OwnUser(_)), "others may be on this machine");
        assert!(needs(None, Some(key()), true));
        assert!(needs(Some(true), Some(key()), false) && !needs(Some(false), Some(key()), true));
        assert!(!needs(None, None, true));
        assert!(Readers::of(Some(true), ReaderKeys::default(), false).is_err());
        let hosts =
            ["localhost", "127.0.0.1", "127.1.2.3", "::1", "0.0.0.0", "::", "node-1", "10.0.0.1"];
        let reached = hosts.map(reaches_others);
        assert_eq!(reached, [false, false, false, false, true, true, true, true]);
    }
}
