//! A directory of very many files costs a history server little, whatever is in them. Alone in its process: memory is measured.

use std::fs;
use std::path::Path;

use firesteel_conf::Conf;
use firesteel_metrics::json;
use firesteel_monitor::rest::Applications;
use firesteel_monitor::{History, HistoryOptions};
use firesteel_types::Tick;

const EMPTY: usize = 100_000;
const NOISE: usize = 20_000;

/// Kibibytes of a line of `/proc/self/status`.
fn memory(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

fn log(directory: &Path, id: &str) {
    let text = format!(
        "{{\"Event\":\"SparkListenerLogStart\",\"Spark Version\":\"4\"}}\n{{\"Event\":\"SparkListenerApplicationStart\",\"App \
         Name\":\"n\",\"App ID\":\"{id}\",\"Timestamp\":5,\"User\":\"u\"}}\n{{\"Event\":\"SparkListenerApplicationEnd\",\"Timestamp\":9}}\n"
    );
    fs::write(directory.join(id), text).unwrap();
}

/// How many logs and applications the server says there are.
fn counts(history: &History) -> [u64; 2] {
    let metrics: serde_json::Value =
        serde_json::from_str(&json(&history.metrics().unwrap())).unwrap();
    ["logs", "applications"]
        .map(|name| metrics["gauges"][format!("history.{name}")]["value"].as_u64().unwrap())
}

#[test]
fn files_that_are_no_logs_take_next_to_nothing_however_many_there_are() {
    let directory = tempfile::tempdir().unwrap();
    // Names as long as those of logs, which is most of what each would take.
    let name = |kind: &str, number: usize| directory.path().join(format!("{kind}{number:0>100}"));
    (0..EMPTY).for_each(|number| drop(fs::File::create(name("empty", number)).unwrap()));
    (0..NOISE).for_each(|number| fs::write(name("noise", number), "x\n").unwrap());
    log(directory.path(), "app-1");
    let mut conf = Conf::default();
    conf.set("spark.history.fs.logDirectory", directory.path().display());
    conf.set("spark.history.fs.cleaner.enabled", true);
    conf.set("spark.history.fs.cleaner.maxAge", "1h");
    let before = memory("VmHWM:");
    let history = History::open(HistoryOptions::from_conf(&conf).unwrap()).unwrap();
    history.refresh().unwrap();
    let more = memory("VmHWM:") - before;
    // What is new is held ten thousand at a time.
    assert!(more < 24 << 10, "{more} KiB for {} files", EMPTY + NOISE);
    assert_eq!(counts(&history), [NOISE as u64 + 1, 1], "of an empty file nothing is held");
    // A file that becomes a log is one.
    fs::remove_file(name("empty", 7)).unwrap();
    log(directory.path(), "app-2");
    history.refresh().unwrap();
    assert_eq!(counts(&history), [NOISE as u64 + 2, 2]);
    // All are old one day.
    let changed = fs::metadata(name("noise", 0)).unwrap().modified().unwrap();
    let changed = changed.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64;
    let later = Tick(changed).plus_ms(7_200_000);
    assert_eq!(history.clean(later), EMPTY - 1 + NOISE + 2);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    assert_eq!(counts(&history), [0, 0]);
}
