//! Traces of jobs, stages and tasks for a collector of OpenTelemetry: OTLP over HTTP, in JSON, to `spark.firesteel.otlp.endpoint`.
//!
//! | file | owns |
//! |---|---|
//! | `spans` | which spans there are: a function of events |
//! | `export` | the requests that tell them |
//!
//! No job waits for a collector. Spans are gathered and handed to a thread through a queue that is bounded: what does not fit is
//! dropped and counted. A collector that does not answer delays the end of an application by `PATIENCE` at most.

mod export;
mod spans;

use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

use firesteel_conf::{Conf, ConfError, entries};
use firesteel_types::Event;

use export::Collector;
use spans::{Span, Spans};

/// A request has so many spans at most.
const BATCH: usize = 512;
/// So many requests wait for the collector.
const QUEUE: usize = 16;
/// Spans wait no longer for others, while events come.
const EVERY: Duration = Duration::from_secs(5);
/// How long the end of the application waits for the rest.
const PATIENCE: Duration = Duration::from_secs(3);

/// Why there are no traces.
#[derive(Debug, thiserror::Error)]
pub enum TracesError {
    #[error(transparent)]
    Conf(#[from] ConfError),
    #[error(
        "spark.firesteel.otlp.endpoint={endpoint} is no address of a collector: give it as http://HOST:PORT, such as http://127.0.0.1:4318"
    )]
    Endpoint { endpoint: String },
    #[error(
        "spark.firesteel.otlp.endpoint={endpoint}: spans are told over http:// only; run a collector on this machine that passes them on"
    )]
    Https { endpoint: String },
    #[error("the thread that tells spans cannot be started: {0}")]
    Thread(#[source] std::io::Error),
}

/// Tells what an application does as spans, until it is dropped.
pub struct Traces {
    spans: Spans,
    batch: Vec<Span>,
    flushed: Instant,
    /// `None` when no more is told.
    to: Option<SyncSender<Vec<u8>>>,
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
    dropped: u64,
}

impl Traces {
    /// As the settings say; `None`: nobody is told.
    pub fn from_conf(conf: &Conf) -> Result<Option<Self>, TracesError> {
        let Some(endpoint) = conf.get(&entries::OTLP_ENDPOINT)? else { return Ok(None) };
        Collector::of(&endpoint).and_then(Self::start).map(Some)
    }

    fn start(collector: Collector) -> Result<Self, TracesError> {
        let (to, requests) = sync_channel::<Vec<u8>>(QUEUE);
        let (ending, ended) = channel::<()>();
        let thread = std::thread::Builder::new().name("firesteel-otlp".to_owned());
        let told = move || {
            let _ending = ending;
            collector.tell_all(&requests);
        };
        thread.spawn(told).map_err(TracesError::Thread)?;
        Ok(Traces {
            spans: Spans::default(),
            batch: Vec::new(),
            flushed: Instant::now(),
            to: Some(to),
            ended,
            dropped: 0,
        })
    }

    /// Takes an event of the application, in order. Never waits.
    pub fn on_event(&mut self, event: &Event) {
        self.batch.extend(self.spans.take(event));
        let is_end = matches!(event, Event::JobEnd { .. } | Event::ApplicationEnd { .. });
        if is_end || self.batch.len() >= BATCH || self.flushed.elapsed() >= EVERY {
            self.flush();
        }
    }

    fn flush(&mut self) {
        self.flushed = Instant::now();
        let batch = std::mem::take(&mut self.batch);
        let Some(to) = self.to.as_ref().filter(|_| !batch.is_empty()) else { return };
        if to.try_send(self.spans.request(&batch)).is_err() {
            if self.dropped == 0 {
                tracing::warn!("the collector of spans is too slow: spans are dropped");
            }
            self.dropped += batch.len() as u64;
        }
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        self.flush();
        drop(self.to.take());
        // An error is what it waits for: the thread has ended, or time is over.
        let _ = self.ended.recv_timeout(PATIENCE);
        if self.dropped > 0 {
            tracing::warn!(dropped = self.dropped, "spans did not reach their collector");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;

    use firesteel_types::{JobId, Tick};

    use super::*;

    fn jobs(traces: &mut Traces, count: u32) {
        for job in (0..count).map(JobId) {
            let (properties, stages) = (Default::default(), Vec::new());
            traces.on_event(&Event::JobStart { job, properties, stages, at: Tick(5) });
            traces.on_event(&Event::JobEnd { job, result: Ok(()), at: Tick(9) });
        }
    }

    fn conf(endpoint: &str) -> Conf {
        let mut conf = Conf::new();
        conf.set("spark.firesteel.otlp.endpoint", endpoint);
        conf
    }

    #[test]
    fn a_collector_gets_requests_of_otlp() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}/base/", listener.local_addr().unwrap());
        let collector = std::thread::spawn(move || {
            let mut stream = BufReader::new(listener.accept().unwrap().0);
            let (mut head, mut length) = (Vec::new(), 0);
            loop {
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                let name = line.to_lowercase();
                length = name
                    .strip_prefix("content-length: ")
                    .map_or(length, |text| text.trim().parse::<usize>().unwrap());
                if line.trim().is_empty() {
                    break;
                }
                head.push(line.trim().to_owned());
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").unwrap();
            (head, serde_json::from_slice::<serde_json::Value>(&body).unwrap())
        });
        let mut traces = Traces::from_conf(&conf(&endpoint)).unwrap().unwrap();
        jobs(&mut traces, 1);
        drop(traces);
        let (head, body) = collector.join().unwrap();
        assert_eq!(head[0], "POST /base/v1/traces HTTP/1.1");
        assert!(head.contains(&"Content-Type: application/json".to_owned()), "{head:?}");
        let spans = &body["resourceSpans"][0]["scopeSpans"][0]["spans"];
        assert_eq!(spans.as_array().unwrap().len(), 1);
    }

    #[test]
    fn a_collector_that_never_answers_costs_spans_and_a_moment_at_the_end() {
        // Connections are made and nobody reads.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let mut traces = Traces::from_conf(&conf(&endpoint)).unwrap().unwrap();
        let begun = Instant::now();
        jobs(&mut traces, 200);
        assert!(begun.elapsed() < PATIENCE, "events never wait");
        assert!(traces.dropped > 100, "{}", traces.dropped);
        drop(traces);
        assert!(begun.elapsed() < PATIENCE * 3);
    }

    #[test]
    fn an_endpoint_that_is_none_is_refused_with_what_to_write() {
        assert!(Traces::from_conf(&Conf::new()).unwrap().is_none());
        for (endpoint, words) in [
            ("https://collector.example.org", "http:// only"),
            ("collector:4318", "http://127.0.0.1:4318"),
            ("http://", "http://127.0.0.1:4318"),
            ("http://host:port", "http://127.0.0.1:4318"),
            ("http://a b", "http://127.0.0.1:4318"),
        ] {
            let refused = Traces::from_conf(&conf(endpoint)).err().unwrap().to_string();
            assert!(refused.contains(words), "{endpoint}: {refused}");
        }
    }
}
