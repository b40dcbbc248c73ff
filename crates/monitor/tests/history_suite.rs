//! The requests that Apache Spark tests its own history server with, on its own logs of ten years: our answers are Spark's.

use std::fs;
use std::path::{Path, PathBuf};

use firesteel_conf::{Conf, entries};
use firesteel_monitor::rest::{Ask, answer};
use firesteel_monitor::{History, HistoryOptions};
use firesteel_types::Tick;
use serde_json::Value;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/spark").join(name)
}

fn history(name: &str) -> History {
    let mut conf = Conf::default();
    conf.set("spark.history.fs.logDirectory", folder(name).display());
    History::open(HistoryOptions::from_conf(&conf).unwrap()).unwrap()
}

fn get(history: &History, url: &str) -> (u16, String) {
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let secrets = Conf::default().get(&entries::REDACTION_REGEX).unwrap();
    let now = Tick(1_800_000_000_000);
    let ask = Ask { path, query, host: "127.0.0.1:18080", now };
    let answer = answer(history, &secrets, &ask);
    (answer.status, String::from_utf8(answer.body).unwrap())
}

/// When a file was changed, and where it lies, differs from machine to machine.
fn without_places(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(without_places),
        Value::Object(fields) => {
            let places = ["lastUpdated", "lastUpdatedEpoch", "logSourceName", "logSourceFullPath"];
            places.iter().for_each(|place| drop(fields.remove(*place)));
            fields.values_mut().for_each(without_places);
        }
        _ => {}
    }
}

/// Where two answers differ, a line each.
fn differences(ours: &Value, theirs: &Value, at: &str, out: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            let names: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
            for name in names {
                let (ours, theirs) = (a.get(name), b.get(name));
                let null = Value::Null;
                let (ours, theirs) = (ours.unwrap_or(&null), theirs.unwrap_or(&null));
                differences(ours, theirs, &format!("{at}.{name}"), out);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (ours, theirs)) in a.iter().zip(b).enumerate() {
                differences(ours, theirs, &format!("{at}[{index}]"), out);
            }
        }
        (Value::Number(a), Value::Number(b)) if a.as_f64() == b.as_f64() => {}
        (ours, theirs) if ours == theirs => {}
        (ours, theirs) => {
            let short = |value: &Value| value.to_string().chars().take(120).collect::<String>();
            out.push(format!("{at}: ours {} theirs {}", short(ours), short(theirs)));
        }
    }
}

fn compare(history: &History, url: &str, expected: &Path) -> Vec<String> {
    let (status, body) = get(history, url);
    if status != 200 {
        return vec![format!("{url}: {status} {body}")];
    }
    let mut ours: Value = serde_json::from_str(&body).unwrap();
    let mut theirs: Value = serde_json::from_str(&fs::read_to_string(expected).unwrap()).unwrap();
    without_places(&mut ours);
    without_places(&mut theirs);
    let mut found = Vec::new();
    differences(&ours, &theirs, url, &mut found);
    found
}

#[test]
fn every_request_of_sparks_suite_is_answered_as_spark_does() {
    let history = history("events");
    let cases = fs::read_to_string(folder("cases.tsv")).unwrap();
    let (mut count, mut wrong) = (0, Vec::new());
    for case in cases.lines() {
        let mut fields = case.split('\t').skip(1);
        let (url, file) = (fields.next().unwrap(), fields.next().unwrap());
        wrong.extend(compare(&history, url, &folder("expectations").join(file)));
        count += 1;
    }
    assert_eq!(count, 61);
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn captured_answers_of_spark_4_are_ours() {
    let history = history("captured/logs");
    let local = "/api/v1/applications/local-1794765458595";
    let cluster = "/api/v1/applications/app-20261115175617-0003";
    let cases = [
        (format!("{local}/jobs"), "jobs.json"),
        (format!("{local}/stages"), "stages.json"),
        (format!("{local}/executors"), "executors.json"),
        (local.to_owned(), "application.json"),
        ("/api/v1/applications".to_owned(), "applications.json"),
        (format!("{cluster}/jobs"), "live-jobs.json"),
        (format!("{cluster}/jobs/1"), "live-job-1.json"),
        (format!("{cluster}/stages/1/0"), "live-stage-1-0.json"),
        (format!("{cluster}/stages/7/0"), "live-stage-7-0.json"),
        (format!("{cluster}/stages/10/0"), "live-stage-10-0.json"),
        (
            format!("{cluster}/stages/0/0/taskSummary?quantiles=0.01,0.5,0.99"),
            "live-stage-0-0-taskSummary-q.json",
        ),
        (
            format!("{cluster}/stages/0/0/taskList?sortBy=runtime&offset=1&length=2"),
            "live-stage-0-0-taskList-page.json",
        ),
        (
            format!("{cluster}/stages/11/0/taskList?status=failed"),
            "live-stage-11-0-taskList_failed.json",
        ),
    ];
    let wrong: Vec<String> = cases
        .iter()
        .flat_map(|(url, file)| compare(&history, url, &folder("captured/answers").join(file)))
        .collect();
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn logs_are_read_whichever_codec_of_sparks_wrote_them() {
    let (plain, id) = (history("events"), "local-1422981759269");
    let url = format!("/api/v1/applications/{id}/stages?details=true");
    let expected = get(&plain, &url);
    assert!(expected.0 == 200 && expected.1.len() > 1000, "{expected:?}");
    for codec in ["zstd", "lz4", "snappy", "lzf"] {
        let directory = tempfile::tempdir().unwrap();
        let name = format!("{id}.{codec}");
        fs::copy(folder("codecs").join(&name), directory.path().join(&name)).unwrap();
        let mut conf = Conf::default();
        conf.set("spark.history.fs.logDirectory", directory.path().display());
        let history = History::open(HistoryOptions::from_conf(&conf).unwrap()).unwrap();
        assert_eq!(get(&history, &url), expected, "{codec}");
        // All but the last bytes: what came before them counts, but in zstd, which packed it all into one block.
        if codec == "zstd" {
            continue;
        }
        let whole = fs::read(directory.path().join(&name)).unwrap();
        fs::write(directory.path().join(&name), &whole[..whole.len() - 9]).unwrap();
        let history = History::open(HistoryOptions::from_conf(&conf).unwrap()).unwrap();
        let (status, jobs) = get(&history, &format!("/api/v1/applications/{id}/jobs"));
        assert!(status == 200 && jobs.contains("jobId"), "{codec}: {status} {jobs}");
    }
}

#[test]
fn mistakes_are_told_in_sparks_words() {
    let history = history("events");
    let app = "/api/v1/applications/local-1422981780767";
    let table = [
        ("/api/v1/applications/app-nosuch".to_owned(), 404, "unknown app: app-nosuch"),
        ("/api/v1/applications/../../etc/passwd".to_owned(), 404, "unknown app .., attempt .."),
        ("/api/v1/applications/%2e%2e%2fetc/jobs".to_owned(), 404, "no such app: ../etc"),
        ("/api/v1/applications?minDate=garbage".to_owned(), 400, "Couldn't parse date: garbage"),
        (format!("{app}/jobs/999"), 404, "unknown job: 999"),
        (format!("{app}/stages/999"), 404, "unknown stage: 999"),
        (format!("{app}/stages/0/9"), 404, "unknown attempt for stage 0.  Found attempts: [0]"),
        (format!("{app}/storage/rdd/999"), 404, "no rdd found w/ id 999"),
        (
            format!("{app}/stages/0/0/taskSummary?quantiles=x"),
            400,
            "Bad value for parameter \"quantiles\".  Expected a double, got \"x\"",
        ),
        (
            format!("{app}/executors/nosuch/threads"),
            400,
            "Invalid executorId: neither 'driver' nor number.",
        ),
        (
            format!("{app}/executors/driver/threads"),
            503,
            "Thread dumps not available through the history server.",
        ),
    ];
    for (url, status, text) in table {
        // What is a path with dots for a browser is three parts for us.
        let body = get(&history, &url);
        if url.contains("passwd") {
            assert_eq!(body.0, 404, "{url}: {}", body.1);
            continue;
        }
        assert_eq!(body, (status, text.to_owned()), "{url}");
    }
    let bad = format!("{app}/jobs/abc");
    assert_eq!(get(&history, &bad), (404, bad.clone()));
    let nosuch = format!("{app}/nosuch");
    let text = "unknown app local-1422981780767, attempt nosuch".to_owned();
    assert_eq!(get(&history, &nosuch), (404, text));
    let (status, page) = get(&history, &format!("{app}/jobs?status=bogus"));
    assert!(status == 404 && page.contains("<h2>HTTP ERROR 404 Not Found</h2>"), "{page}");
    let (_, page) = get(&history, "/api/v1/<script>?\"");
    assert!(page.contains("/api/v1/&lt;script&gt;?&quot;</td>"), "{page}");
}

#[test]
fn no_form_of_a_path_leads_out_of_the_directory() {
    let (history, known) = (history("events"), "local-1422981780767");
    let forms = [
        "..",
        "../..",
        "../../../../../../etc/passwd",
        "..%2f..%2f..%2fetc%2fpasswd",
        "%2e%2e/%2e%2e/etc/passwd",
        "%252e%252e%252fetc%252fpasswd",
        "..%5c..%5cetc%5cpasswd",
        "..\\..\\etc\\passwd",
        "%c0%ae%c0%ae%c0%afetc%c0%afpasswd",
        "....//....//etc/passwd",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "file:///etc/passwd",
        "passwd%00",
        "%00",
        ".",
        "./local-1422981780767/../../cases.tsv",
        "../cases.tsv",
        "..%2fcases.tsv",
        "eventlog_v2_local-1766844910796%2fappstatus_local-1766844910796",
    ];
    for form in forms {
        for path in [
            format!("/api/v1/applications/{form}"),
            format!("/api/v1/applications/{form}/jobs"),
            format!("/api/v1/applications/{form}/logs"),
            format!("/api/v1/applications/{known}/{form}"),
            format!("/api/v1/applications/{known}/{form}/logs"),
            format!("/api/v1/applications/{known}/executors/{form}/threads"),
            format!("/api/v1/applications/{known}/jobs/{form}"),
            format!("/api/v1/applications/{known}/stages/{form}"),
            format!("/api/v1/applications/{known}/stages/0/{form}"),
            format!("/api/v1/applications/{known}/storage/rdd/{form}"),
            format!("/api/v1/{form}"),
            format!("/metrics/{form}"),
        ] {
            let (status, body) = get(&history, &path);
            assert!((400..500).contains(&status), "{path}: {status} {body}");
            assert!(
                !body.contains("root:") && !body.contains("expectation.json"),
                "{path}: {body}"
            );
        }
    }
}

#[test]
fn parameters_that_cannot_be_are_refused_and_absurd_ones_harm_nobody() {
    let history = history("events");
    let stage = "/api/v1/applications/local-1422981780767/stages/0/0";
    let list = "/api/v1/applications";
    let table = [
        (format!("{list}?minDate="), 400),
        (format!("{list}?maxDate=2015-13-01"), 400),
        (format!("{list}?minEndDate=2015-02-10T25:00:00.000GMT"), 400),
        (format!("{list}?maxEndDate=99999999999999999999-01-01"), 400),
        (format!("{list}?minDate=2015-02-10%00"), 400),
        (format!("{list}?maxDate=9999-12-31"), 200),
        (format!("{list}?limit=-1"), 404),
        (format!("{list}?limit=18446744073709551616"), 404),
        (format!("{list}?limit=0"), 200),
        (format!("{list}?status=%ff"), 404),
        (format!("{stage}/taskSummary?quantiles="), 400),
        (format!("{stage}/taskSummary?quantiles=0.5,,1"), 400),
        (format!("{stage}/taskSummary?quantiles=0.5;1"), 400),
        (format!("{stage}/taskSummary?quantiles=-1,2,1e308,1e400,-1e400"), 200),
        (format!("{stage}/taskSummary?quantiles=NaN"), 200),
        (format!("{stage}/taskSummary?quantiles={}", vec!["0.5"; 100_000].join(",")), 200),
        (format!("{stage}/taskList?offset=18446744073709551615&length=18446744073709551615"), 200),
        (format!("{stage}/taskList?offset=-1"), 404),
        (format!("{stage}/taskList?sortBy=nothing"), 404),
        (format!("{stage}/taskList?{}", "&=&%".repeat(100_000)), 200),
    ];
    for (url, status) in table {
        let (found, body) = get(&history, &url);
        let short: String = url.chars().take(120).collect();
        assert_eq!(found, status, "{short}: {}", body.chars().take(200).collect::<String>());
        // However many quantiles are asked for, an answer has an end.
        assert!(body.len() < 1 << 20, "{short}: {}", body.len());
    }
}

#[test]
fn logs_are_handed_out_as_an_archive() {
    let history = history("events");
    let secrets = Conf::default().get(&entries::REDACTION_REGEX).unwrap();
    let path = "/api/v1/applications/local-1430917381535/1/logs";
    let ask = Ask { path, query: "", host: "h", now: Tick(0) };
    let answer = answer(&history, &secrets, &ask);
    assert_eq!(answer.attachment.as_deref(), Some("eventLogs-local-1430917381535-1.zip"));
    let log = fs::read(folder("events/local-1430917381535_1")).unwrap();
    let body: Vec<u8> = answer.archive.unwrap().chunks().flat_map(Result::unwrap).collect();
    // In blocks of 65,535 bytes, with a head of five before each.
    let blocks = log.chunks(65_535).all(|block| body.windows(block.len()).any(|it| it == block));
    assert!(blocks && body.starts_with(b"PK\x03\x04") && answer.body.is_empty());
}
