//! A stream of a worker, read piece by piece and printed as it is.

use std::io::{self, Write};

use firesteel_rpc::RpcAddress;
use firesteel_standalone::{TokenKey, gateway};

use super::find::{Stream, taken_apart};
use crate::Failure;

/// How many bytes are asked for at once: what a worker gives at most.
const PIECE: u64 = 1 << 20;
/// The longest head of an answer.
const HEAD: usize = 64 << 10;
/// How often in a row a worker may not answer, when a stream is followed.
const TRIES: u32 = 10;

/// Where in a stream the next piece begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// So many bytes before its end.
    Last(u64),
    At(u64),
}

/// A stream, read so far.
pub(super) struct Reader<'a> {
    stream: Stream,
    address: RpcAddress,
    /// With everything but the range.
    path: String,
    next: Position,
    key: Option<&'a TokenKey>,
    /// Whether something of it was read.
    is_known: bool,
    failures: u32,
}

/// Why no more of a stream is printed.
pub(super) enum Broken {
    /// It cannot be read.
    Stream(Failure),
    /// Nothing can be printed, whatever stream it is of.
    Output(io::Error),
}

/// From, to, and where the stream ends.
type Range = (u64, u64, u64);

/// The head of an answer, `==== Bytes 5-9 of 12 of NAME ====`, as from, to and end, and what follows it.
fn parsed(answer: &[u8]) -> Option<(Range, &[u8])> {
    let end = answer.iter().take(HEAD).position(|byte| *byte == b'\n')?;
    let head = std::str::from_utf8(&answer[..end]).ok()?.strip_prefix("==== Bytes ")?;
    let (range, rest) = head.split_once(" of ")?;
    let (from, to) = range.split_once('-')?;
    let numbers = (from.parse().ok()?, to.parse().ok()?, rest.split(' ').next()?.parse().ok()?);
    Some((numbers, &answer[end + 1..]))
}

/// Where the bytes are that a page of a worker shows: of its own, or below a proxy.
fn path_of_bytes(page: &str) -> Option<String> {
    let (path, query) = page.split_once('?')?;
    let prefix = path.strip_suffix("/logPage/").or(path.strip_suffix("/logPage"))?;
    Some(format!("{prefix}/log?{query}"))
}

fn write(heading: Option<&str>, text: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if let Some(heading) = heading {
        writeln!(out, "==> {heading} <==")?;
    }
    out.write_all(text)?;
    out.flush()
}

impl<'a> Reader<'a> {
    /// Of the last bytes, or of all if it is 0.
    pub(super) fn open(
        stream: Stream,
        bytes: u64,
        key: Option<&'a TokenKey>,
    ) -> Result<Self, Failure> {
        let (address, path) = taken_apart(&stream.url)?;
        let path = path_of_bytes(&path).ok_or_else(|| {
            let Stream { name, url, .. } = &stream;
            format!("the log of {name} is at {url}, which is no worker's")
        })?;
        let next = if bytes == 0 { Position::At(0) } else { Position::Last(bytes) };
        Ok(Reader { stream, address, path, next, key, is_known: false, failures: 0 })
    }

    pub(super) fn name(&self) -> &str {
        &self.stream.name
    }

    fn request(&self) -> String {
        match self.next {
            // As far as a worker goes back; of more, from where that begins.
            Position::Last(bytes) => format!("{}&byteLength={}", self.path, bytes.min(PIECE)),
            Position::At(position) => format!("{}&offset={position}&byteLength={PIECE}", self.path),
        }
    }

    async fn piece(&self) -> Result<Vec<u8>, Failure> {
        // What an application says of its logs may lead anywhere: the server there can use the token for nothing else.
        let token = self.key.map(|key| key.at(&self.address).sign());
        let (name, most) = (&self.stream.name, PIECE as usize + HEAD);
        let (status, body) = gateway::get(&self.address, &self.request(), token.as_deref(), most)
            .await
            .map_err(|error| {
                format!("the worker of {name} at {} does not answer: {error}", self.address)
            })?;
        match status {
            200 => Ok(body.to_vec()),
            401 => {
                let text = format!(
                    "the worker at {} shows output to those only who have the secret of the cluster: set spark.authenticate=true and \
                     spark.authenticate.secret.file as they are set there; if they are, it tells others another address, and takes \
                     tokens for that one",
                    self.address
                );
                Err(text.into())
            }
            other => {
                let text = String::from_utf8_lossy(&body);
                let hint = if other == 404 { self.hint() } else { String::new() };
                Err(format!("{name}: HTTP {other}: {}{hint}", text.trim_end()).into())
            }
        }
    }

    /// Where else the stream may be, if its server does not have it.
    fn hint(&self) -> String {
        if !self.stream.is_below_a_master {
            return String::new();
        }
        format!(
            "; its URL is below the pages of a master (spark.ui.reverseProxy): unless {} is that, ask the master with --url \
             http://MASTER:8080/proxy/APP while the application runs, or set spark.ui.reverseProxyUrl=http://MASTER:8080 on the workers",
            self.address
        )
    }

    /// Prints what there is by now, behind a heading if there is one; whether that was something. When it is followed, a worker that
    /// was there before may not answer for a while.
    pub(super) async fn print(
        &mut self,
        heading: Option<&str>,
        follows: bool,
    ) -> Result<bool, Broken> {
        let mut printed = false;
        loop {
            let answer = match self.piece().await {
                Ok(answer) => answer,
                Err(_) if follows && self.is_known && self.failures < TRIES => {
                    self.failures += 1;
                    return Ok(printed);
                }
                Err(error) => return Err(Broken::Stream(error)),
            };
            (self.failures, self.is_known) = (0, true);
            let ((from, to, end), said) = parsed(&answer).ok_or_else(|| {
                let Stream { name, url, .. } = &self.stream;
                Broken::Stream(format!("{url} is no worker's log: {name}").into())
            })?;
            // More than a piece is to be printed: from the beginning of it.
            if let Position::Last(bytes) = self.next
                && bytes > PIECE
                && from > 0
            {
                self.next = Position::At(end.saturating_sub(bytes));
                continue;
            }
            if !said.is_empty() {
                write(heading.filter(|_| !printed), said).map_err(Broken::Output)?;
                printed = true;
            }
            self.next = Position::At(to);
            if to >= end || said.is_empty() {
                return Ok(printed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_an_answer_tells_where_it_is_from() {
        let answer = b"==== Bytes 5-9 of 12 of app-1/0/stderr ====\nabc\n";
        assert_eq!(parsed(answer), Some(((5, 9, 12), &b"abc\n"[..])));
        for other in
            [&b"<html>"[..], b"==== Bytes 5 of 12 ====\n", b"==== Bytes a-b of c of d ====\n", b""]
        {
            assert_eq!(parsed(other), None);
        }
    }

    #[test]
    fn ranges_are_asked_for_and_other_urls_are_told() {
        let stream = |url: &str| Stream::new("executor 0".to_owned(), url.to_owned());
        let url = "http://h:1/logPage/?appId=a&executorId=0&logType=stderr";
        let mut reader = Reader::open(stream(url), 10, None).unwrap();
        assert_eq!(reader.request(), "/log?appId=a&executorId=0&logType=stderr&byteLength=10");
        reader.next = Position::At(7);
        let asked = "/log?appId=a&executorId=0&logType=stderr&offset=7&byteLength=1048576";
        assert_eq!(reader.request(), asked);
        let behind = "http://m:8080/spark/proxy/worker-1/logPage/?appId=a&logType=/logPage/";
        let reader = Reader::open(stream(behind), 10, None).unwrap();
        let asked = "/spark/proxy/worker-1/log?appId=a&logType=/logPage/&byteLength=10";
        assert_eq!(reader.request(), asked);
        let refused = |url: &str| Reader::open(stream(url), 10, None).err().unwrap().to_string();
        assert!(refused("http://logs.example.org/a/0").contains("which is no worker's"));
        assert!(refused("file://h/work/app/0/stderr").contains("only http://"));
    }
}
