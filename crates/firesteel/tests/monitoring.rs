//! The event log of a run gives the status that the run had (S18), and a running application answers the REST API.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use firesteel::prelude::*;
use firesteel::status::AppStatus;
use firesteel::{Builder, StorageLevel};
use firesteel_monitor::rest::Applications;
use firesteel_monitor::{History, HistoryOptions};
use firesteel_rpc::RpcOptions;
use firesteel_standalone::master::{self, MasterArgs};

fn builder(master: &str, directory: &Path) -> Builder {
    Context::builder()
        .arguments([""; 0])
        .master(master)
        .app_name("monitored")
        .config("spark.ui.port", 0)
        .config("spark.ui.showConsoleProgress", false)
        .config("spark.eventLog.enabled", true)
        .config("spark.eventLog.dir", directory.display())
        .config("spark.eventLog.logBlockUpdates.enabled", true)
        .config("spark.eventLog.logStageExecutorMetrics", true)
}

/// Jobs with a shuffle, a cached RDD, accumulators, a failure, properties.
fn run_jobs(ctx: &Context) {
    let seen = ctx.named_accumulator::<u64>("seen");
    let numbers = ctx.range_in(6, 0..600u64, 1).with(seen).map(|seen, n| {
        seen.add(1);
        (n % 10, n)
    });
    let cached = numbers.persist(StorageLevel::MEMORY_ONLY);
    assert_eq!(cached.count().unwrap(), 600);
    assert_eq!(cached.reduce_by_key_into(4, |a, b| a + b).count().unwrap(), 10);
    cached.unpersist();
    assert!(ctx.range_in(2, 0..4u64, 1).map(|n| 12 / (n % 2)).collect().is_err());
}

fn history(directory: &Path) -> History {
    let mut conf = firesteel::conf::Conf::default();
    conf.set("spark.history.fs.logDirectory", directory.display());
    History::open(HistoryOptions::from_conf(&conf).unwrap()).unwrap()
}

fn replayed(directory: &Path, id: &str) -> AppStatus {
    let mut status = None;
    let found = history(directory).with_status(id, None, &mut |it| status = Some(it.clone()));
    assert!(found, "no log of {id}");
    status.unwrap()
}

#[track_caller]
fn assert_same(replayed: &AppStatus, live: &AppStatus) {
    if replayed != live {
        let (ours, theirs) = (format!("{replayed:#?}"), format!("{live:#?}"));
        let lines = ours.lines().zip(theirs.lines()).filter(|(a, b)| a != b).take(20);
        let lines: Vec<String> = lines.map(|(a, b)| format!("log {a}\nlive {b}")).collect();
        panic!("S18: the log differs from what was live:\n{}", lines.join("\n"));
    }
}

fn replaying_gives_the_live_status(master: &str, settings: &[(&str, &str)]) {
    let directory = tempfile::tempdir().unwrap();
    let mut builder = builder(master, directory.path());
    for (key, value) in settings {
        builder = builder.config(key, value);
    }
    let ctx = builder.build().unwrap();
    run_jobs(&ctx);
    let (status, id) = (ctx.status_reader(), ctx.application_id().to_owned());
    ctx.stop();
    let live = status();
    assert_eq!(
        live.jobs(|_| true, firesteel::status::Order::Ascending, firesteel::status::Paging::ALL)
            .total,
        3
    );
    assert_same(&replayed(directory.path(), &id), &live);
}

#[test]
fn the_log_of_a_local_run_gives_its_status() {
    replaying_gives_the_live_status("local[2]", &[]);
    let single =
        [("spark.eventLog.rolling.enabled", "false"), ("spark.eventLog.compression.codec", "lz4")];
    replaying_gives_the_live_status("local[1,2]", &single);
}

#[test]
fn the_log_of_a_run_on_executors_gives_its_status() {
    replaying_gives_the_live_status(
        "local-cluster[2,1,512]",
        &[("spark.eventLog.compress", "false")],
    );
}

fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_running_application_answers_and_its_log_says_the_same_when_it_is_over() {
    let directory = tempfile::tempdir().unwrap();
    let ctx = builder("local[2]", directory.path()).build().unwrap();
    run_jobs(&ctx);
    let address = ctx.ui_address().unwrap();
    assert!(address.ip().is_loopback());
    let id = ctx.application_id().to_owned();
    let list = get(address, "/api/v1/applications");
    assert!(list.starts_with("HTTP/1.1 200") && list.contains(&id), "{list}");
    let jobs = get(address, &format!("/api/v1/applications/{id}/jobs"));
    assert!(jobs.contains("\"status\" : \"FAILED\"") && jobs.contains("\"jobId\" : 2"), "{jobs}");
    assert!(get(address, "/api/v1/applications/other/jobs").contains("no such app: other"));
    for path in ["/", "/jobs/", "/jobs/job/?id=2", "/stages/", "/storage/", "/executors/"] {
        assert!(get(address, path).starts_with("HTTP/1.1 200"), "{path}");
    }
    assert!(get(address, "/environment/").contains("spark.eventLog.dir"));
    assert!(get(address, "/nowhere/").starts_with("HTTP/1.1 404"));
    let threads = get(address, &format!("/api/v1/applications/{id}/executors/driver/threads"));
    assert!(threads.contains("\"threadName\" : \"firesteel-rest\""), "{threads}");
    let insights = get(address, &format!("/api/v1/applications/{id}/insights"));
    assert!(insights.starts_with("HTTP/1.1 200") && insights.ends_with("[ ]"), "{insights}");
    let json = get(address, "/metrics/json");
    assert!(
        json.contains(&format!("\"{id}.driver.DAGScheduler.job.allJobs\":{{\"value\":3}}")),
        "{json}"
    );
    let timer = format!("\"{id}.driver.DAGScheduler.messageProcessingTime\":{{\"count\":");
    assert!(json.contains(&timer) && !json.contains(&format!("{timer}0,")), "{json}");
    let lines = get(address, "/metrics/prometheus");
    for name in [
        "DAGScheduler_messageProcessingTime_999thPercentile{type=\"timers\"} ",
        "LiveListenerBus_queue_eventLog_listenerProcessingTime_Max{type=\"timers\"} ",
        "LiveListenerBus_listenerProcessingTime_org_apache_spark_status_AppStatusListener_OneMinuteRate",
    ] {
        assert!(lines.contains(&format!("_driver_{name}")), "{name}: {lines}");
    }
    let failed = "_driver_appStatus_jobs_failedJobs_Count{type=\"counters\"} 1\n";
    assert!(lines.contains(failed) && lines.contains("_driver_JVMCPU_jvmCpuTime_Value"), "{lines}");
    let executors = get(address, "/metrics/executors/prometheus");
    let labels = format!(
        "{{application_id=\"{id}\", application_name=\"monitored\", executor_id=\"driver\"}}"
    );
    assert!(executors.contains(&format!("metrics_executor_totalCores{labels} 2\n")), "{executors}");
    ctx.stop();
    assert!(ctx.ui_address().is_none() && TcpStream::connect(address).is_err());
    let entry = &history(directory.path()).list()[0];
    assert!(entry.id == id && entry.attempts[0].completed, "{entry:?}");
}

/// Waits until there is something.
#[track_caller]
fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(30), "{what} did not come");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

#[test]
fn a_master_shows_the_pages_of_an_application_below_its_own() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let mut conf = firesteel::conf::Conf::new();
    conf.set("spark.ui.reverseProxy", true);
    let args =
        MasterArgs { web_port: Some(0), ..MasterArgs::loopback(conf, RpcOptions::default()) };
    let master = runtime.block_on(master::start(args)).unwrap();
    let page: SocketAddr = master.web_address.as_ref().unwrap().to_string().parse().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let ctx = builder(&master.url(), directory.path())
        .config("spark.authenticate", false)
        .config("spark.ui.reverseProxy", true)
        .build()
        .unwrap();
    let app = wait_for("the application", || {
        master.view().active_apps.first().map(|it| it.app.0.to_string())
    });
    let base = format!("/proxy/{app}");
    let jobs = get(page, &format!("{base}/jobs/"));
    assert!(jobs.starts_with("HTTP/1.1 200"), "{jobs}");
    for link in [
        format!("href=\"{base}/stages/\""),
        format!("data-events=\"{base}/events\""),
        format!("href=\"{base}/\""),
    ] {
        assert!(jobs.contains(&link), "{link}: {jobs}");
    }
    let own = get(ctx.ui_address().unwrap(), "/jobs/");
    assert!(own.contains("href=\"/stages/\""), "its own address works as well: {own}");
    let overview = get(page, "/");
    assert!(overview.contains(&format!("href=\"{base}/\"")), "{overview}");
    assert!(get(page, &format!("{base}/api/v1/applications")).contains("monitored"));
    ctx.stop();
    let gone = wait_for("its end", || {
        let answer = get(page, &format!("{base}/jobs/"));
        answer.contains("is over").then_some(answer)
    });
    assert!(gone.starts_with("HTTP/1.1 404"), "{gone}");
    runtime.block_on(master.stop());
}

#[test]
fn lists_of_users_are_kept_by_the_pages_of_a_running_application() {
    let directory = tempfile::tempdir().unwrap();
    let with_filter = builder("local[1]", directory.path())
        .config("spark.ui.filters", "org.apache.spark.ui.JWSFilter")
        .build();
    let refused = with_filter.err().unwrap().to_string();
    assert!(refused.contains("JWSFilter.param.secretKey"), "{refused}");
    let ctx = builder("local[1]", directory.path()).config("spark.acls.enable", true);
    let ctx = ctx.build().unwrap();
    let address = ctx.ui_address().unwrap();
    for path in ["/", "/api/v1/applications", "/metrics/json"] {
        let answer = get(address, path);
        assert!(answer.starts_with("HTTP/1.1 401") && !answer.contains("monitored"), "{answer}");
    }
    ctx.stop();
    let ctx = builder("local[1]", directory.path()).config("spark.acls.enable", true);
    let ctx = ctx.config("spark.ui.view.acls", "*").build().unwrap();
    assert!(get(ctx.ui_address().unwrap(), "/").starts_with("HTTP/1.1 200"));
    ctx.stop();
}

#[test]
fn the_threads_of_an_executor_are_told_with_the_task_that_one_runs() {
    let directory = tempfile::tempdir().unwrap();
    let ctx = builder("local-cluster[1,1,512]", directory.path()).build().unwrap();
    let (address, id) = (ctx.ui_address().unwrap(), ctx.application_id().to_owned());
    let path = |executor: &str| format!("/api/v1/applications/{id}/executors/{executor}/threads");
    let running = ctx.clone();
    let job = std::thread::spawn(move || {
        let slow = running.range_in(1, 0..1u64, 1).map(|n| {
            std::thread::sleep(std::time::Duration::from_secs(1000));
            n
        });
        slow.count()
    });
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    loop {
        let threads = get(address, &path("0"));
        if threads.contains("\"Executor task launch worker for task 0.0 in stage 0.0 (TID 0)") {
            assert!(
                threads.contains("\"threadName\" : \"firesteel-signa\"")
                    || threads.contains("firesteel-rpc"),
                "{threads}"
            );
            break;
        }
        assert!(std::time::Instant::now() < deadline, "{threads}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(get(address, &path("7")).contains("Executor does not exist."));
    assert!(get(address, &path("x")).contains("neither 'driver' nor number"));
    ctx.cancel_all_jobs();
    assert!(job.join().unwrap().is_err());
    ctx.stop();
}

#[test]
fn secrets_are_hidden_in_the_log_in_the_rest_api_and_on_pages() {
    let directory = tempfile::tempdir().unwrap();
    let ctx = builder("local[1]", directory.path())
        .config("spark.my.password", "hunter-1")
        .config("spark.my.note", "the token is hunter-2")
        .config("spark.hadoop.fs.s3a.access.key", "hunter-3")
        .config("spark.my.plain", "hunted")
        .config("spark.eventLog.compress", false)
        .build()
        .unwrap();
    ctx.set_local_property("my.secret", Some("hunter-4"));
    ctx.set_job_description(Some("a job"));
    assert_eq!(ctx.range_in(2, 0..4u64, 1).count().unwrap(), 4);
    let (address, id) = (ctx.ui_address().unwrap(), ctx.application_id().to_owned());
    let api = |path: &str| format!("/api/v1/applications/{id}/{path}");
    let environment = [api("environment"), "/environment/".to_owned()];
    let more = ["/jobs/", "/jobs/job/?id=0", "/stages/", "/stages/stage/?id=0&attempt=0"];
    let more = more.map(str::to_owned).into_iter().chain([api("jobs"), api("stages?details=true")]);
    for path in environment.iter().cloned().chain(more) {
        let answer = get(address, &path);
        assert!(answer.starts_with("HTTP/1.1 200") && !answer.contains("hunter"), "{answer}");
        let shows_settings = answer.contains("hunted") && answer.contains("*********(redacted)");
        assert_eq!(shows_settings, environment.contains(&path), "{path}: {answer}");
    }
    ctx.stop();
    let log = directory.path().join(format!("eventlog_v2_{id}/events_1_{id}"));
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("hunted") && log.contains("a job") && !log.contains("hunter"), "{log}");
    // Nor does anybody who reads the log add any.
    let (history, mut seen) = (history(directory.path()), String::new());
    assert!(history.with_status(&id, None, &mut |status| seen = format!("{status:?}")));
    assert!(seen.contains("hunted") && !seen.contains("hunter"));
}

#[test]
fn a_directory_for_logs_that_is_missing_is_told_at_the_start() {
    let refused =
        builder("local[1]", Path::new("/no/such/place")).build().err().expect("it is refused");
    assert!(refused.to_string().contains("no such directory"), "{refused}");
}

#[test]
fn metrics_go_to_the_sinks_of_the_settings_until_the_end() {
    let (logs, metrics) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let ctx = builder("local[2]", logs.path())
        .config("spark.metrics.namespace", "nightly")
        .config("spark.metrics.conf.*.sink.csv.class", "org.apache.spark.metrics.sink.CsvSink")
        .config("spark.metrics.conf.driver.sink.csv.directory", metrics.path().display())
        .config("spark.metrics.conf.driver.sink.csv.period", "1000")
        .build()
        .unwrap();
    run_jobs(&ctx);
    ctx.stop();
    let file = metrics.path().join("nightly.driver.appStatus.jobs.succeededJobs.csv");
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.starts_with("t,count\n") && text.trim_end().ends_with(",2"), "{text}");
}

#[test]
fn a_sink_that_nobody_has_is_told_at_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let refused = builder("local[1]", directory.path())
        .config("spark.metrics.conf.*.sink.j.class", "org.apache.spark.metrics.sink.JmxSink");
    let refused = refused.build().err().expect("it is refused").to_string();
    assert!(refused.contains("JmxSink") && refused.contains("CsvSink"), "{refused}");
}
