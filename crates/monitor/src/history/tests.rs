//! Logs that come, grow and go.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use super::*;

fn options(directory: &Path) -> HistoryOptions {
    HistoryOptions {
        directory: directory.to_owned(),
        update_interval: Duration::from_secs(10),
        retained: 2,
        retention: Retention { jobs: 10, stages: 10, tasks: 10, dead_executors: 10 },
        cleaner: None,
    }
}

fn start(id: &str) -> String {
    format!(
        "{{\"Event\":\"SparkListenerLogStart\",\"Spark Version\":\"4\"}}\n{{\"Event\":\"SparkListenerApplicationStart\",\"App \
         Name\":\"n\",\"App ID\":\"{id}\",\"Timestamp\":5,\"User\":\"u\"}}\n"
    )
}

fn removed(executor: u32) -> String {
    format!(
        "{{\"Event\":\"SparkListenerExecutorAdded\",\"Timestamp\":6,\"Executor ID\":\"{executor}\",\"Executor Info\":{{}}}}\n"
    )
}

const END: &str = "{\"Event\":\"SparkListenerApplicationEnd\",\"Timestamp\":9}\n";

fn executors(history: &History, id: &str) -> Option<usize> {
    let mut count = None;
    history.with_status(id, None, &mut |status| count = Some(status.executors().count()));
    count
}

#[test]
fn a_log_that_grows_is_read_on_and_one_that_is_renamed_is_the_same_application() {
    let directory = tempfile::tempdir().unwrap();
    let history = History::open(options(directory.path())).unwrap();
    assert!(history.list().is_empty());
    let path = directory.path().join("app-1.inprogress");
    fs::write(&path, start("app-1")).unwrap();
    history.refresh().unwrap();
    assert_eq!(
        (executors(&history, "app-1"), history.list()[0].attempts[0].completed),
        (Some(0), false)
    );
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    // The second line comes in two pieces.
    let second = removed(2);
    file.write_all((removed(1) + &second[..20]).as_bytes()).unwrap();
    assert_eq!(executors(&history, "app-1"), Some(1));
    file.write_all((second[20..].to_owned() + END).as_bytes()).unwrap();
    assert_eq!(executors(&history, "app-1"), Some(2));
    fs::rename(&path, directory.path().join("app-1")).unwrap();
    history.refresh().unwrap();
    assert_eq!(
        (executors(&history, "app-1"), history.list()[0].attempts[0].completed),
        (Some(2), true)
    );
    fs::remove_file(directory.path().join("app-1")).unwrap();
    assert_eq!(executors(&history, "app-1"), None);
    history.refresh().unwrap();
    assert!(history.list().is_empty());
}

#[test]
fn only_so_many_applications_are_held_and_all_can_be_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    for id in ["a", "b", "c", "d"] {
        fs::write(directory.path().join(id), start(id) + &removed(1) + END).unwrap();
    }
    let history = History::open(options(directory.path())).unwrap();
    for id in ["a", "b", "c", "d", "a"] {
        assert_eq!(executors(&history, id), Some(1));
    }
    assert_eq!(history.opened.held(), 2);
}

#[test]
fn old_logs_and_those_that_are_too_many_are_removed_and_others_stay() {
    let directory = tempfile::tempdir().unwrap();
    for id in ["a", "b", "c.inprogress"] {
        fs::write(directory.path().join(id), start(id) + END).unwrap();
    }
    fs::write(directory.path().join(".other"), "x").unwrap();
    let cleaner = CleanerOptions {
        interval: Duration::from_secs(1),
        max_age: Duration::from_secs(3600),
        max_number: 2,
    };
    let options = HistoryOptions { cleaner: Some(cleaner), ..options(directory.path()) };
    let history = History::open(options).unwrap();
    let now = lock(&history.listing).logs()[0].modified;
    assert_eq!(history.clean(now), 1);
    assert!(directory.path().join("c.inprogress").exists());
    assert_eq!(history.clean(now), 0);
    assert_eq!(history.clean(now.plus_ms(3_700_000)), 2);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn what_is_no_log_is_left_out_and_harms_nobody() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("noise"), vec![0xff; 100_000]).unwrap();
    fs::write(directory.path().join("empty"), "").unwrap();
    fs::write(directory.path().join("text.zstd"), "not zstd").unwrap();
    fs::write(directory.path().join("text.lz4"), "not lz4 at all, but long enough").unwrap();
    fs::create_dir(directory.path().join("eventlog_v2_empty")).unwrap();
    fs::write(directory.path().join("good"), start("good") + END).unwrap();
    let history = History::open(options(directory.path())).unwrap();
    let ids: Vec<String> = history.list().into_iter().map(|entry| entry.id).collect();
    assert_eq!(ids, ["good"]);
    let missing = History::open(HistoryOptions {
        directory: "/no/where".into(),
        ..options(directory.path())
    });
    assert!(missing.unwrap_err().to_string().contains("/no/where"));
}
