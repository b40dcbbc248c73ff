//! What a log says may take any memory, as far as it goes: the history server does not. Alone in its process: memory is measured.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;

use firesteel_conf::Conf;
use firesteel_monitor::rest::Applications;
use firesteel_monitor::{History, HistoryOptions};

/// Kibibytes of a line of `/proc/self/status`.
fn memory(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// Lines that say much about what never ends: a job of many stages, tasks and executors that are only ever started, texts.
fn lines(number: u64, out: &mut String) {
    out.clear();
    let ids: Vec<String> = (0..9000).map(|stage| (number * 9000 + stage).to_string()).collect();
    let ids = ids.join(",");
    writeln!(
        out,
        r#"{{"Event":"SparkListenerJobStart","Job ID":{number},"Submission Time":1,"Stage Infos":[],"Stage IDs":[{ids}],"Properties":{{}}}}"#
    )
    .unwrap();
    writeln!(
        out,
        r#"{{"Event":"SparkListenerStageSubmitted","Stage Info":{{"Stage ID":{number},"Number of Tasks":9}},"Properties":{{"k":"{number:0>9000}"}}}}"#
    )
    .unwrap();
    for task in number * 200..(number + 1) * 200 {
        writeln!(
            out,
            r#"{{"Event":"SparkListenerTaskStart","Stage ID":{number},"Stage Attempt ID":0,"Task Info":{{"Task ID":{task},"Executor ID":"e{task}","Host":"h{task:0>300}"}}}}"#
        )
        .unwrap();
        writeln!(
            out,
            r#"{{"Event":"SparkListenerExecutorAdded","Timestamp":1,"Executor ID":"{task}","Executor Info":{{"Host":"h","Log Urls":{{"stdout":"{task:0>500}"}}}}}}"#
        )
        .unwrap();
    }
}

#[test]
fn a_small_file_that_tells_of_very_much_takes_no_more_memory_than_an_application_may() {
    const ROUNDS: u64 = 500;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app-1.zstd");
    let mut to = zstd::stream::write::Encoder::new(File::create(&path).unwrap(), 1).unwrap();
    let start = "{\"Event\":\"SparkListenerLogStart\",\"Spark Version\":\"4\"}\n{\"Event\":\
                 \"SparkListenerApplicationStart\",\"App Name\":\"n\",\"App ID\":\"app-1\",\"Timestamp\":5,\"User\":\"u\"}\n";
    to.write_all(start.as_bytes()).unwrap();
    let (mut round, mut bytes) = (String::new(), 0);
    for number in 0..ROUNDS {
        lines(number, &mut round);
        bytes += round.len();
        to.write_all(round.as_bytes()).unwrap();
    }
    to.write_all(b"{\"Event\":\"SparkListenerApplicationEnd\",\"Timestamp\":9}\n").unwrap();
    to.finish().unwrap();
    assert!(bytes > 100 << 20, "{bytes}");
    let mut conf = Conf::default();
    conf.set("spark.history.fs.logDirectory", directory.path().display());
    conf.set("spark.history.store.hybridStore.maxMemoryUsage", "64m");
    let history = History::open(HistoryOptions::from_conf(&conf).unwrap()).unwrap();
    let before = memory("VmHWM:");
    let mut seen = None;
    let look = &mut |status: &firesteel_status::AppStatus| {
        let ended = status.application().ended.is_some();
        seen = Some((ended, status.weight(), status.totals().jobs_started));
    };
    assert!(history.with_status("app-1", None, look));
    let (ended, weight, jobs) = seen.unwrap();
    assert_eq!((ended, jobs), (true, ROUNDS), "it was read to its end");
    assert!(weight < 96 << 20, "{weight}");
    let more = memory("VmHWM:") - before;
    assert!(more < 224 << 10, "{more} KiB more for a log of {} KiB", bytes >> 10);
}
