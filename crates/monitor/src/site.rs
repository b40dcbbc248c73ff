//! The hook for pages: what a server shows besides `/api/v1`. A [`Site`] is a function of a request; it never sees a socket.
//!
//! Updates are a stream of events to one browser. The server asks for the next one once a second, ends the stream after
//! `LASTS` (browsers connect again by themselves), drops a browser that does not read for `PATIENCE`, and has `READERS`
//! streams at once. An archive of logs goes out the same way, a chunk after the other, to `DOWNLOADS` clients at once. One address
//! gets three quarters of them at most.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use firesteel_conf::Redaction;
use firesteel_types::Tick;
use http_body_util::channel::{Channel, Sender};
use http_body_util::{Either, Full};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use tokio::sync::Notify;

use crate::archive::{Archive, Chunks};
use crate::places::{Place, Places};
use crate::rest::{Answer, Applications};
use crate::server::{Served, plain};

/// How many streams of updates there are at once.
const READERS: usize = 128;
/// How often something may be sent.
const EVERY: Duration = Duration::from_secs(1);
/// How long a stream lasts: less than a connection may.
const LASTS: u32 = 100;
/// How many archives are sent at once.
const DOWNLOADS: usize = 16;
/// How much longer than other connections one may take.
const DOWNLOAD: Duration = Duration::from_secs(3600);
/// How long a browser may leave an event unread that does not fit into its buffers.
const PATIENCE: Duration = Duration::from_secs(10);

/// A request for something else than the API.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    pub path: &'a str,
    /// What stands behind the question mark.
    pub query: &'a str,
    /// What a form sends; `None`: nothing is to be changed.
    pub form: Option<&'a str>,
    /// The versions that the browser has.
    pub known: Option<&'a str>,
    /// Where a proxy in front shows this server: `X-Forwarded-Context`.
    pub base: Option<&'a str>,
    pub now: Tick,
    pub served: &'a dyn Applications,
    /// What is not shown.
    pub secrets: &'a Redaction,
}

/// What a browser gets.
pub struct Shown {
    pub status: u16,
    pub content_type: &'static str,
    /// Names in lower case.
    pub headers: Vec<(&'static str, String)>,
    pub body: ShownBody,
}

pub enum ShownBody {
    Whole(Vec<u8>),
    Updates(UpdateSource),
    Archive(Archive),
}

/// Called once a second: what to send now, nothing if it is empty; `None`: the stream is over.
pub type UpdateSource = Box<dyn FnMut(&dyn Applications) -> Option<String> + Send>;

/// Renders the pages of applications.
pub trait Site: Send + Sync {
    fn show(&self, asked: &Asked<'_>) -> Shown;

    /// What somebody gets who may not see what was asked for: a status and a sentence.
    fn refuse(&self, _: &Asked<'_>, status: u16, why: &str) -> Shown {
        let body = ShownBody::Whole(why.as_bytes().to_vec());
        Shown { status, content_type: "text/plain;charset=utf-8", headers: Vec::new(), body }
    }
}

/// Of a server that has the API only.
pub(crate) struct NoSite;

impl Site for NoSite {
    fn show(&self, _: &Asked<'_>) -> Shown {
        let text = "there are no pages here: ask for /api/v1/applications\n";
        let body = ShownBody::Whole(text.as_bytes().to_vec());
        Shown { status: 404, content_type: "text/plain;charset=utf-8", headers: Vec::new(), body }
    }
}

impl From<Answer> for Shown {
    fn from(answer: Answer) -> Self {
        let headers = answer.attachment.iter().map(|name| {
            let is_clean = |it: &char| it.is_ascii_alphanumeric() || "._-".contains(*it);
            let clean: String = name.chars().filter(is_clean).collect();
            ("content-disposition", format!("attachment; filename=\"{clean}\""))
        });
        Shown {
            status: answer.status,
            content_type: answer.content_type,
            headers: headers.collect(),
            body: match answer.archive {
                Some(archive) => ShownBody::Archive(archive),
                None => ShownBody::Whole(answer.body),
            },
        }
    }
}

/// An error breaks the connection off: what was sent is not whole.
pub(crate) type Stream = Channel<Bytes, io::Error>;

/// The connection that a stream may take over.
#[derive(Clone)]
pub(crate) struct Updates {
    from: IpAddr,
    /// Its place among all connections, which a stream gives back: it has one among the streams.
    place: Arc<Mutex<Option<Place>>>,
    /// Its place among the downloads, until it is closed.
    download: Arc<Mutex<Option<Place>>>,
    stalled: Arc<Notify>,
}

impl Updates {
    pub(crate) fn new(place: Place, from: IpAddr) -> Self {
        let place = Arc::new(Mutex::new(Some(place)));
        Updates { from, place, download: Arc::default(), stalled: Arc::default() }
    }

    /// Gives the place among all connections back.
    fn leave(&self) {
        drop(lock(&self.place).take());
    }

    /// How much longer than others the connection may take.
    pub(crate) fn extension(&self) -> Option<Duration> {
        lock(&self.download).as_ref().map(|_| DOWNLOAD)
    }

    /// Returns when its reader does not read.
    pub(crate) async fn stalled(&self) {
        self.stalled.notified().await;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// All streams of a server.
pub(crate) struct Streams {
    readers: Places,
    downloads: Places,
}

impl Default for Streams {
    fn default() -> Self {
        let [readers, downloads] = [READERS, DOWNLOADS].map(|all| Places::new(all, all / 4 * 3));
        Streams { readers, downloads }
    }
}

fn too_many(text: &'static str) -> Response<Either<Full<Bytes>, Stream>> {
    let mut response = plain(StatusCode::SERVICE_UNAVAILABLE, text);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("30"));
    response
}

impl Streams {
    /// An answer that goes on, or a refusal if there are too many.
    pub(crate) fn response(
        &self,
        source: UpdateSource,
        served: Served,
        updates: &Updates,
    ) -> Response<Either<Full<Bytes>, Stream>> {
        let Some(place) = self.readers.try_take(updates.from) else {
            return too_many("too many pages are open: reload by hand");
        };
        updates.leave();
        let (sender, stream) = Channel::new(1);
        tokio::spawn(feed(sender, source, served, place, updates.stalled.clone()));
        let mut response = Response::new(Either::Right(stream));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }

    /// The body of an archive, or a refusal if there are too many.
    pub(crate) fn download(
        &self,
        archive: Archive,
        updates: &Updates,
    ) -> Response<Either<Full<Bytes>, Stream>> {
        let Some(place) = self.downloads.try_take(updates.from) else {
            return too_many("too many logs are being downloaded: try again later");
        };
        *lock(&updates.download) = Some(place);
        updates.leave();
        let (sender, stream) = Channel::new(1);
        tokio::spawn(send(sender, archive.chunks(), updates.stalled.clone()));
        Response::new(Either::Right(stream))
    }
}

/// Sends an archive as fast as it is read. Two chunks of it are in memory at once.
async fn send(mut to: Sender<Bytes, io::Error>, mut chunks: Chunks, stalled: Arc<Notify>) {
    loop {
        let made = tokio::task::spawn_blocking(move || {
            let chunk = chunks.next();
            (chunks, chunk)
        });
        let Ok((again, chunk)) = made.await else { return };
        chunks = again;
        let chunk = match chunk {
            Some(Ok(chunk)) => chunk,
            Some(Err(error)) => {
                tracing::warn!(%error, "an archive of logs was broken off");
                return to.abort(error);
            }
            None => return,
        };
        let sent = tokio::time::timeout(PATIENCE, to.send_data(Bytes::from(chunk))).await;
        match sent {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return,
            Err(_) => return stalled.notify_one(),
        }
    }
}

async fn feed(
    mut to: Sender<Bytes, io::Error>,
    mut source: UpdateSource,
    served: Served,
    _place: Place,
    stalled: Arc<Notify>,
) {
    for _ in 0..LASTS {
        let served = served.clone();
        let asked = tokio::task::spawn_blocking(move || {
            let text = source(&*served);
            (source, text)
        });
        let Ok((again, Some(text))) = asked.await else { return };
        source = again;
        if !text.is_empty() {
            let sent = tokio::time::timeout(PATIENCE, to.send_data(Bytes::from(text)));
            match sent.await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return,
                Err(_) => return stalled.notify_one(),
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use firesteel_status::AppStatus;

    use super::*;
    use crate::rest::ApplicationEntry;

    struct Nothing;

    impl Applications for Nothing {
        fn list(&self) -> Vec<ApplicationEntry> {
            Vec::new()
        }

        fn with_status(&self, _: &str, _: Option<&str>, _: &mut dyn FnMut(&AppStatus)) -> bool {
            false
        }

        fn is_live(&self) -> bool {
            true
        }

        fn logs(&self, _: &str, _: Option<&str>) -> Option<io::Result<Archive>> {
            None
        }
    }

    #[tokio::test]
    async fn one_address_does_not_take_the_streams_of_all_others() {
        let (streams, served) = (Streams::default(), Arc::new(Nothing));
        let connections = Places::new(1000, 1000);
        let ask = |from: &str| {
            let from: IpAddr = from.parse().unwrap();
            let updates = Updates::new(connections.try_take(from).unwrap(), from);
            let source: UpdateSource = Box::new(|_| Some(String::new()));
            streams.response(source, served.clone(), &updates)
        };
        let answers: Vec<_> = (0..READERS).map(|_| ask("10.0.0.1")).collect();
        let begun = answers.iter().filter(|it| it.status() == StatusCode::OK).count();
        assert_eq!(begun, READERS / 4 * 3);
        assert_eq!(ask("10.0.0.2").status(), StatusCode::OK);
        assert_eq!(ask("127.0.0.1").status(), StatusCode::OK);
    }

    #[tokio::test(start_paused = true)]
    async fn a_browser_that_never_reads_is_cut_off() {
        let (streams, from) = (Streams::default(), IpAddr::from([10, 0, 0, 1]));
        let updates = Updates::new(Places::new(1, 1).try_take(from).unwrap(), from);
        let source: UpdateSource = Box::new(|_| Some("event: changed\n\n".to_owned()));
        let unread = streams.response(source, Arc::new(Nothing), &updates);
        assert_eq!(unread.status(), StatusCode::OK);
        let waited = tokio::time::timeout(PATIENCE * 2, updates.stalled()).await;
        assert!(waited.is_ok(), "it holds its connection although it reads nothing");
    }
}
