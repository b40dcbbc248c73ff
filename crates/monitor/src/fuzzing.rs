//! What fuzz targets and tests run: bytes of strangers as a log, and every question about it.

use std::io::Read;

use firesteel_conf::{Conf, entries};
use firesteel_status::{AppStatus, Retention};
use firesteel_types::Tick;

use crate::Replay;
use crate::archive::Archive;
use crate::log::Codec;
use crate::rest::{ApplicationEntry, Applications, Ask, answer};

/// So much is read of what bytes decompress to.
const MOST: u64 = 1 << 20;

struct One(AppStatus);

impl Applications for One {
    fn list(&self) -> Vec<ApplicationEntry> {
        vec![ApplicationEntry::live(&self.0)]
    }

    fn with_status(&self, _: &str, _: Option<&str>, look: &mut dyn FnMut(&AppStatus)) -> bool {
        look(&self.0);
        true
    }

    fn is_live(&self) -> bool {
        true
    }

    fn logs(&self, _: &str, _: Option<&str>) -> Option<std::io::Result<Archive>> {
        None
    }
}

/// Reads the bytes as a log, as they are and as each codec takes them, and asks everything about what is in it.
pub fn log(bytes: &[u8]) {
    replay(bytes);
    for codec in [Codec::Zstd, Codec::Lz4, Codec::Snappy, Codec::Lzf] {
        let mut plain = Vec::new();
        let read = codec.reader(bytes).and_then(|from| from.take(MOST).read_to_end(&mut plain));
        if read.is_ok() {
            replay(&plain);
        }
    }
}

fn replay(bytes: &[u8]) {
    let mut replay = Replay::new(Retention { jobs: 5, stages: 5, tasks: 5, dead_executors: 5 });
    bytes.split(|byte| *byte == b'\n').for_each(|line| replay.line(line));
    let one = One(replay.status().clone());
    let secrets = Conf::default().get(&entries::REDACTION_REGEX).expect("the default is one");
    let text = String::from_utf8_lossy(bytes);
    let strange: String = text.chars().take(100).collect();
    let paths = [
        "jobs",
        "stages?details=true&withSummaries=true",
        "stages/0",
        "stages/0/0/taskSummary",
        "stages/0/0/taskList?sortBy=-runtime&length=3",
        "allexecutors",
        "storage/rdd",
        "storage/rdd/0",
        "environment",
        "insights",
        "executors/1/threads",
        &strange,
    ];
    for path in paths {
        let url = format!("/api/v1/applications/x/{path}");
        let (path, query) = url.split_once('?').unwrap_or((&url, ""));
        let answer = answer(&one, &secrets, &Ask { path, query, host: "h", now: Tick(9) });
        assert!(!answer.body.is_empty(), "{url}");
        if answer.status == 200 {
            let read = serde_json::from_slice::<serde_json::Value>(&answer.body);
            assert!(read.is_ok(), "{url}: {read:?}");
        }
    }
}
