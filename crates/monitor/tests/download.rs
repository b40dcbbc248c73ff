//! Logs that are downloaded over a socket take little memory, however large they are. Alone in its process: memory is measured.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use firesteel_conf::{Conf, entries};
use firesteel_monitor::{Access, History, HistoryOptions, Server, ServerOptions};

/// Kibibytes of a line of `/proc/self/status`.
fn memory(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// An answer: its lines, then the bytes of its chunks.
struct Chunked<R> {
    from: R,
    left: usize,
}

impl<R: Read> Chunked<R> {
    fn line(&mut self) -> String {
        let mut line = Vec::new();
        let mut byte = [0];
        while !line.ends_with(b"\r\n") {
            self.from.read_exact(&mut byte).unwrap();
            line.push(byte[0]);
        }
        String::from_utf8(line).unwrap().trim_end().to_owned()
    }

    /// Fills the buffer as far as one chunk goes; 0: that was all.
    fn read(&mut self, buffer: &mut [u8]) -> usize {
        if self.left == 0 {
            self.left = usize::from_str_radix(&self.line(), 16).unwrap();
            if self.left == 0 {
                return 0;
            }
        }
        let most = self.left.min(buffer.len());
        let read = self.from.read(&mut buffer[..most]).unwrap();
        assert!(read > 0, "it ends too early");
        self.left -= read;
        if self.left == 0 {
            assert_eq!(self.line(), "");
        }
        read
    }
}

#[test]
fn a_large_log_is_sent_without_being_held_in_memory() {
    const BYTES: u64 = 400 << 20;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app-1.inprogress");
    let start = "{\"Event\":\"SparkListenerLogStart\",\"Spark Version\":\"4\"}\n{\"Event\":\
                 \"SparkListenerApplicationStart\",\"App Name\":\"n\",\"App ID\":\"app-1\",\"Timestamp\":5,\"User\":\"u\"}\n";
    fs::write(&path, start).unwrap();
    OpenOptions::new().write(true).open(&path).unwrap().set_len(BYTES).unwrap();
    let mut conf = Conf::default();
    conf.set("spark.history.fs.logDirectory", directory.path().display());
    let history = History::open(HistoryOptions::from_conf(&conf).unwrap()).unwrap();
    let options = ServerOptions {
        host: "127.0.0.1".to_owned(),
        port: 0,
        retries: 0,
        allowed_hosts: Vec::new(),
        secrets: conf.get(&entries::REDACTION_REGEX).unwrap(),
        access: Access::default(),
    };
    let server = Server::start(Arc::new(history), options).unwrap();
    let before = memory("VmHWM:");
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let request = "GET /api/v1/applications/app-1/logs HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Chunked { from: std::io::BufReader::new(stream), left: 0 };
    assert_eq!(answer.line(), "HTTP/1.1 200 OK");
    let mut is_attached = false;
    loop {
        let line = answer.line();
        is_attached |= line.contains("eventLogs-app-1.zip");
        if line.is_empty() {
            break;
        }
    }
    assert!(is_attached);
    let (mut buffer, mut total, mut last) = (vec![0; 1 << 20], 0, Vec::new());
    loop {
        let read = answer.read(&mut buffer);
        if read == 0 {
            break;
        }
        total += read as u64;
        last.extend_from_slice(&buffer[..read]);
        let extra = last.len().saturating_sub(22);
        last.drain(..extra);
    }
    assert!(total > BYTES && last.starts_with(b"PK\x05\x06"), "{total} {last:?}");
    let more = memory("VmHWM:") - before;
    assert!(more < 64 << 10, "{more} KiB more for a log of {} KiB", BYTES >> 10);
}
