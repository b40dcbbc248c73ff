//! Logs that come, grow and go.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use super::*;

fn options(directory: &Path) -> HistoryOptions {
    HistoryOptions {
        directory: crate::log::LogDirectory::local(directory.to_owned()),
        update_interval: Duration::from_secs(10),
        retained: 2,
        retained_bytes: usize::MAX,
        store: None,
        store_bytes: u64::MAX,
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
fn a_log_that_is_written_anew_and_longer_is_read_from_its_beginning() {
    let directory = tempfile::tempdir().unwrap();
    let history = History::open(options(directory.path())).unwrap();
    let path = directory.path().join("app-1");
    fs::write(&path, start("app-1") + &removed(1) + END).unwrap();
    history.refresh().unwrap();
    assert_eq!(executors(&history, "app-1"), Some(1));
    let made = |path: &Path| fs::metadata(path).unwrap().created().ok();
    let before = made(&path).map(|it| it + Duration::from_millis(1));
    // As `spark.eventLog.overwrite` has it; a file system that tells no times of making is none that this can be tested on.
    while before.is_some() && made(&path) <= before {
        fs::remove_file(&path).unwrap();
        let anew = [2, 3, 4].map(removed).concat();
        fs::write(&path, start("app-1") + &anew + END).unwrap();
    }
    let expected = if before.is_some() { 3 } else { 1 };
    assert_eq!(executors(&history, "app-1"), Some(expected));
}

#[test]
fn insights_of_a_log_that_just_ends_know_of_nothing_behind_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let stage = r#""Stage ID":0,"Stage Attempt ID":0,"Stage Name":"s","Number of Tasks":300,"RDD Info":[],"Parent IDs":[],"Details":"","Accumulables":[]"#;
    let mut log = start("app-1") + &removed(1);
    log += &format!(
        r#"{{"Event":"SparkListenerJobStart","Job ID":0,"Submission Time":7,"Stage Infos":[{{{stage}}}],"Stage IDs":[0]}}"#
    );
    log += &format!(
        "\n{{\"Event\":\"SparkListenerStageSubmitted\",\"Stage Info\":{{{stage},\"Submission Time\":8}}}}\n"
    );
    for task in 0..150 {
        let info = |end: u64| {
            format!(
                r#""Stage ID":0,"Stage Attempt ID":0,"Task Info":{{"Task ID":{task},"Index":{task},"Attempt":0,"Launch Time":{},"Executor ID":"1","Host":"h","Locality":"ANY","Speculative":false,"Getting Result Time":0,"Finish Time":{end},"Failed":false,"Killed":false}}"#,
                9 + 3 * task
            )
        };
        log += &format!("{{\"Event\":\"SparkListenerTaskStart\",{}}}\n", info(0));
        log += &format!(
            "{{\"Event\":\"SparkListenerTaskEnd\",\"Task Type\":\"ResultTask\",\"Task End Reason\":{{\"Reason\":\"Success\"}},{},\"Task \
             Metrics\":{{\"Executor Run Time\":3}}}}\n",
            info(12 + 3 * task)
        );
    }
    fs::write(directory.path().join("app-1.inprogress"), log).unwrap();
    let history = History::open(options(directory.path())).unwrap();
    // Two days later.
    let now = Tick(2 * 86_400_000);
    let redaction = firesteel_conf::entries::REDACTION_REGEX.default_value();
    let (path, host) = ("/api/v1/applications/app-1/insights", "h");
    let ask = crate::rest::Ask { path, query: "", host, now };
    let answer = crate::rest::answer(&history, &redaction, &ask);
    assert_eq!(String::from_utf8(answer.body).unwrap().trim(), "[ ]");
    let mut of_days = 0;
    history.with_status("app-1", None, &mut |status| of_days = status.insights(now).len());
    assert!(of_days > 0, "two days would be worth a word");
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
    let json = firesteel_metrics::json(&history.metrics().unwrap());
    let read: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(read["timers"]["history.cache.load.timer"]["count"], 5, "one was read twice");
    let bytes = (start("a") + &removed(1) + END).len();
    assert_eq!(read["histograms"]["history.cache.load.bytes"]["max"], bytes);
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
        max_bytes: None,
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
fn files_that_are_no_logs_of_applications_take_no_place_of_those_that_are() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["notes", "more-notes"] {
        fs::write(directory.path().join(name), "x".repeat(10_000)).unwrap();
    }
    fs::write(directory.path().join("a"), start("a") + END).unwrap();
    let cleaner = CleanerOptions {
        interval: Duration::from_secs(1),
        max_age: Duration::from_secs(3600),
        max_number: 1,
        max_bytes: Some(1000),
    };
    let options = HistoryOptions { cleaner: Some(cleaner), ..options(directory.path()) };
    let history = History::open(options).unwrap();
    let now = lock(&history.listing).logs()[0].modified;
    assert_eq!(history.clean(now), 0);
    assert_eq!(history.clean(now.plus_ms(3_700_000)), 3, "as with Spark, by their age");
}

#[test]
fn a_pipe_in_place_of_a_log_holds_nobody_up_and_costs_no_application() {
    let directory = tempfile::tempdir().unwrap();
    let rolling = directory.path().join("eventlog_v2_b");
    fs::create_dir(&rolling).unwrap();
    fs::write(rolling.join("events_1_b"), start("b") + END).unwrap();
    fs::write(directory.path().join("a"), start("a") + END).unwrap();
    let found = crate::log::discover(directory.path()).unwrap();
    for path in [directory.path().join("a"), rolling.join("events_1_b")] {
        let log = found.iter().find(|log| log.files().any(|file| file == path)).unwrap();
        assert!(log.open(&path, 0).is_ok());
        fs::remove_file(&path).unwrap();
        let mode = rustix::fs::Mode::RWXU;
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert!(log.open(&path, 0).is_err(), "nobody writes to it, for ever");
    }
    let moved = directory.path().join("moved");
    fs::rename(&rolling, &moved).unwrap();
    fs::remove_file(moved.join("events_1_b")).unwrap();
    fs::write(moved.join("events_1_b"), "of somebody else").unwrap();
    std::os::unix::fs::symlink(&moved, &rolling).unwrap();
    let log = found.iter().find(|log| log.path == rolling).unwrap();
    assert!(log.open(&rolling.join("events_1_b"), 0).is_err(), "its directory is a link now");
}

#[test]
fn a_log_that_cannot_be_read_for_a_moment_stays_in_the_list_and_is_no_missing_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.zstd.inprogress");
    fs::write(&path, zstd::encode_all((start("a") + &removed(1)).as_bytes(), 1).unwrap()).unwrap();
    let history = History::open(options(directory.path())).unwrap();
    assert_eq!(executors(&history, "a"), Some(1));
    let before = history.list();
    let log = lock(&history.listing).logs()[0].clone();
    let mut grown = log.clone();
    grown.bytes += 1;
    let failed = io::Error::new(io::ErrorKind::ConnectionAborted, "503");
    assert!(!lock(&history.listing).take(grown.clone(), Err(failed)));
    assert!(lock(&history.listing).knows(&path) && history.list() == before);
    assert!(lock(&history.listing).see(&grown), "it is retried");
    let gone = io::Error::new(io::ErrorKind::NotFound, "404");
    assert!(!lock(&history.listing).take(grown, Err(gone)));
    assert!(!lock(&history.listing).knows(&path));
}

/// The log of an application that somebody may have made up.
fn of_user(id: &str, user: &str, viewers: &str) -> String {
    format!(
        "{{\"Event\":\"SparkListenerLogStart\",\"Spark Version\":\"4\"}}\n{{\"Event\":\"SparkListenerEnvironmentUpdate\",\"Spark \
         Properties\":{{\"spark.ui.view.acls\":\"{viewers}\"}}}}\n{{\"Event\":\"SparkListenerApplicationStart\",\"App \
         Name\":\"{user}s\",\"App ID\":\"{id}\",\"Timestamp\":5,\"User\":\"{user}\"}}\n{END}"
    )
}

#[test]
fn a_log_that_names_the_application_of_another_user_opens_none_of_theirs() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("victim-app"), of_user("app-1", "vic", "")).unwrap();
    let history = History::open(options(directory.path())).unwrap();
    // Before the other one by its name, and after it by when it was made.
    let path = directory.path().join("a");
    fs::write(&path, of_user("app-1", "eve", "*")).unwrap();
    history.refresh().unwrap();
    let known = |listing: &Listing| {
        let mut entries = listing.entries().into_iter();
        let (log, listed) = entries.find(|(log, _)| log.path == path).unwrap();
        (log.clone(), listed.clone())
    };
    let (mut log, listed) = known(&lock(&history.listing));
    log.made = Tick(u64::MAX);
    lock(&history.listing).insert(log, listed);
    let mut conf = Conf::new();
    conf.set("spark.history.ui.acls.enable", true);
    let access = crate::Access::of_history(&conf).unwrap();
    let guard = |user| crate::guard::Guard::new(&history, &access, Some(user), false);
    let eve = guard("eve");
    assert!(eve.logs("app-1", None).is_none() && eve.refused().is_some());
    assert!(!guard("eve").with_status("app-1", None, &mut |_| panic!("that is the victim's")));
    let mut name = String::new();
    let vic = guard("vic");
    let look = &mut |status: &AppStatus| name.clone_from(&status.application().name);
    assert!(vic.with_status("app-1", None, look));
    assert_eq!(name, "vics", "no other log takes its place");
    assert_eq!(history.find("app-1").unwrap().name, "vics");
    // Who may see both gets both, as they were looked at.
    let archive = vic.logs("app-1", None).unwrap().unwrap();
    let bytes: Vec<u8> = archive.chunks().flat_map(Result::unwrap).collect();
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.contains("victim-app") && text.contains("eves"));
}

#[test]
fn the_end_of_a_compressed_log_is_read_when_it_is_over_and_not_before() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = zstd::encode_all((start("a") + END).as_bytes(), 1).unwrap();
    fs::write(directory.path().join("a.zstd.inprogress"), &bytes).unwrap();
    fs::write(directory.path().join("b.inprogress"), start("b") + END).unwrap();
    let history = History::open(options(directory.path())).unwrap();
    let is_over = |id: &str| history.find(id).unwrap().attempts[0].completed;
    assert!(!is_over("a"), "its end takes the whole of it");
    assert!(is_over("b"), "its end takes its last bytes");
    let [from, to] = ["a.zstd.inprogress", "a.zstd"].map(|name| directory.path().join(name));
    fs::rename(from, to).unwrap();
    history.refresh().unwrap();
    assert!(is_over("a"));
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
        directory: crate::log::LogDirectory::local("/no/where".into()),
        ..options(directory.path())
    });
    assert!(missing.unwrap_err().to_string().contains("/no/where"));
}

#[test]
fn of_too_many_bytes_the_oldest_logs_go() {
    let directory = tempfile::tempdir().unwrap();
    for id in ["a", "b", "c"] {
        fs::write(directory.path().join(id), start(id) + END).unwrap();
    }
    let each = fs::metadata(directory.path().join("a")).unwrap().len();
    let cleaner = CleanerOptions {
        interval: Duration::from_secs(1),
        max_age: Duration::from_secs(3600),
        max_number: 10,
        max_bytes: Some(2 * each + each / 2),
    };
    let options = HistoryOptions { cleaner: Some(cleaner), ..options(directory.path()) };
    let history = History::open(options).unwrap();
    let now = lock(&history.listing).logs()[0].modified;
    assert_eq!((history.clean(now), history.clean(now), history.list().len()), (1, 0, 2));
}

#[test]
fn large_applications_are_forgotten_when_they_take_too_much_memory_together() {
    let directory = tempfile::tempdir().unwrap();
    for id in ["a", "b"] {
        fs::write(directory.path().join(id), start(id) + &removed(1) + END).unwrap();
    }
    let history =
        History::open(HistoryOptions { retained_bytes: 0, ..options(directory.path()) }).unwrap();
    for id in ["a", "b", "a"] {
        assert_eq!(executors(&history, id), Some(1));
        assert_eq!(history.opened.held(), 1);
    }
    let stage = "{\"Event\":\"SparkListenerStageSubmitted\",\"Stage Info\":{\"Stage ID\":1}}\n";
    for id in ["c", "d"] {
        fs::write(directory.path().join(id), start(id) + stage + END).unwrap();
    }
    history.refresh().unwrap();
    for id in ["c", "d", "c"] {
        assert_eq!(executors(&history, id), Some(0));
        assert_eq!(history.opened.held(), 1);
    }
}

fn with_store(logs: &Path, store: &Path) -> History {
    let index = Index::open(store, 1 << 30).unwrap().of_everything();
    History::with_index(options(logs), Some(index)).unwrap()
}

#[test]
fn what_was_read_is_stored_and_a_log_that_changed_is_read_again() {
    let (logs, store) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = logs.path().join("a");
    fs::write(&path, start("a") + &removed(1) + END).unwrap();
    let first = with_store(logs.path(), store.path());
    assert_eq!(executors(&first, "a"), Some(1));
    let before = first.list();
    // Bytes of the log that were read already make no difference any more: it is not opened.
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    let garbled = vec![b'x'; fs::metadata(&path).unwrap().len() as usize];
    fs::write(&path, garbled).unwrap();
    fs::File::open(&path).unwrap().set_modified(modified).unwrap();
    let second = with_store(logs.path(), store.path());
    assert_eq!((second.list(), executors(&second, "a")), (before, Some(1)));
    fs::write(&path, start("a") + &removed(1) + &removed(2) + END).unwrap();
    second.refresh().unwrap();
    assert_eq!(executors(&second, "a"), Some(2), "while it is held");
    let third = with_store(logs.path(), store.path());
    assert_eq!(executors(&third, "a"), Some(2), "and when it is opened anew");
}

#[test]
fn a_damaged_store_is_as_good_as_none() {
    let (logs, store) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(logs.path().join("a"), start("a") + &removed(1) + END).unwrap();
    assert_eq!(executors(&with_store(logs.path(), store.path()), "a"), Some(1));
    let stored = fs::read_dir(store.path().join("apps")).unwrap().next().unwrap().unwrap().path();
    for file in [stored, store.path().join("listing")] {
        let mut bytes = fs::read(&file).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        fs::write(&file, bytes).unwrap();
    }
    assert_eq!(executors(&with_store(logs.path(), store.path()), "a"), Some(1));
}

#[test]
fn a_store_holds_so_many_bytes_and_what_is_being_written_is_not_stored() {
    let (logs, store) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for id in ["a", "b", "c", "d.inprogress"] {
        fs::write(logs.path().join(id), start(id) + &removed(1)).unwrap();
    }
    let history = with_store(logs.path(), store.path());
    let stored = || fs::read_dir(store.path().join("apps")).unwrap().count();
    assert_eq!((executors(&history, "d.inprogress"), stored()), (Some(1), 0));
    assert_eq!((executors(&history, "a"), stored()), (Some(1), 1));
    let index = Index::open(store.path(), 1).unwrap().of_everything();
    let small = History::with_index(options(logs.path()), Some(index)).unwrap();
    assert_eq!((executors(&small, "b"), stored()), (Some(1), 0));
}
