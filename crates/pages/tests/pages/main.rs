//! Pages as a browser gets them: every page of a made application, of Spark's logs and of a server over a socket.

mod access;
mod browser;
mod flat;
mod lists;
mod made;
mod open;
mod pictures;
mod serving;

use std::path::{Path, PathBuf};

use firesteel_conf::{Conf, Redaction, entries};
use firesteel_monitor::rest::Applications;
use firesteel_monitor::site::{Asked, Shown, ShownBody, Site};
use firesteel_monitor::{History, HistoryOptions};
use firesteel_pages::{Pages, report};
use firesteel_status::{AppStatus, Order, Paging, Retention};
use firesteel_types::event::{Locality, RddDescription, RddScope, StageRdd};
use firesteel_types::{
    Determinism, Event, ExecutorId, ExecutorInfo, Host, JobId, Properties, RddId, StageId,
    StageRef, StorageLevel, TaskId, TaskInfo, TaskMetrics, Tick,
};

use made::{Fixed, Made, START};

const PATHS: [&str; 16] = [
    "/",
    "/jobs/",
    "/jobs/?q=number&state=failed&sort=duration&order=asc&size=20",
    "/jobs/job/?id=0",
    "/jobs/job/?id=4",
    "/stages/",
    "/stages/stage/?id=0&attempt=0",
    "/stages/stage/?id=1&sort=input&state=success&page=2",
    "/stages/stage/?id=9",
    "/storage/",
    "/storage/rdd/?id=0",
    "/environment/",
    "/executors/",
    "/stages/?sort=spill&order=desc",
    "/executors/?at=2",
    "/executors/threadDump/?executorId=0",
];

fn secrets() -> Redaction {
    Conf::default().get(&entries::REDACTION_REGEX).unwrap()
}

struct Got {
    status: u16,
    headers: Vec<(&'static str, String)>,
    text: String,
}

impl Got {
    fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value)
    }
}

fn ask(pages: &Pages, served: &dyn Applications, url: &str, form: Option<&str>) -> Got {
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let secrets = secrets();
    let now = Tick(START + 60_000);
    let asked =
        Asked { path, query, form, known: None, base: None, now, served, secrets: &secrets };
    let Shown { status, headers, body, .. } = pages.show(&asked);
    let text = match body {
        ShownBody::Whole(bytes) => String::from_utf8(bytes).unwrap(),
        ShownBody::Updates(_) | ShownBody::Archive(_) => String::new(),
    };
    Got { status, headers, text }
}

fn get(served: &dyn Applications, url: &str) -> Got {
    ask(&Pages::default(), served, url, None)
}

/// The text between two marks.
fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let rest = text.split_once(from).map_or("", |(_, rest)| rest);
    rest.split(to).next().unwrap_or_default()
}

/// What a reader sees of HTML: its text, a space for every tag.
fn words(html: &str) -> String {
    let parts = html.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text));
    let all = parts.flat_map(str::split_whitespace);
    all.collect::<Vec<_>>().join(" ")
}

fn added(status: &mut AppStatus, executor: u32, at: u64) {
    let info = ExecutorInfo::new(Host::new("many"), 1);
    status.take(Event::ExecutorAdded { executor: ExecutorId(executor), info, at: Tick(at) });
}

fn lost(status: &mut AppStatus, executor: u32, reason: &str, at: u64) {
    let (executor, reason) = (ExecutorId(executor), reason.to_owned());
    status.take(Event::ExecutorRemoved { executor, reason, at: Tick(at) });
}

#[test]
fn a_task_that_runs_far_longer_than_others_took_is_told_where_they_differ() {
    let live = Fixed::new(vec![Made::SMALL.status()], true);
    let page = words(&get(&live, "/stages/stage/?id=23").text);
    assert!(page.contains("A task that still runs is already at"), "{page}");
    assert!(page.contains("× the median.") && page.contains("so far on executor"), "{page}");
    let over = words(&get(&live, "/stages/stage/?id=21").text);
    assert!(over.contains("No task is far from the others."), "{over}");
}

#[test]
fn what_can_be_opened_has_a_key_of_its_own_that_stays() {
    let mut status = Made::SMALL.status();
    let (list, at) = (vec![("spark.a".to_owned(), "x".repeat(400))], Tick(START + 9000));
    let others = ["Hadoop", "Metrics"].map(|name| (name.to_owned(), list.clone()));
    status.take(Event::EnvironmentUpdate {
        properties: list.clone(),
        runtime: Default::default(),
        resources: Default::default(),
        others: others.into(),
    });
    let live = Fixed::new(vec![status], true);
    let keys = |path: &str| -> Vec<String> {
        let page = get(&live, path).text;
        let details = page.split("<details").skip(1).map(|rest| between(rest, "", ">"));
        details.map(|tag| between(tag, "data-key=\"", "\"").to_owned()).collect()
    };
    let mut count = 0;
    for path in PATHS {
        let all = keys(path);
        let own: std::collections::BTreeSet<&String> = all.iter().collect();
        assert!(own.len() == all.len() && all.iter().all(|key| !key.is_empty()), "{path}: {all:?}");
        count += all.len();
    }
    assert!(count > 10, "{count}");
    // Those of failures are not told apart by how many there are.
    let before = keys("/stages/stage/?id=9");
    let failure = Some(firesteel_types::TaskFailure::Error {
        message: format!("no such file {}", made::EVIL),
    });
    let task = TaskInfo {
        task: TaskId(99_999),
        stage: StageRef { stage: StageId(9), attempt: 0 },
        partition: 7,
        index: 7,
        attempt: 1,
        executor: ExecutorId(0),
        host: Host::new("late"),
        speculative: false,
        locality: Locality::Any,
        launched: at,
    };
    let mut applications = live.applications.lock().unwrap();
    applications[0].take(Event::TaskStart { task: task.clone(), at });
    applications[0].take(Event::TaskEnd { task, failure, metrics: None, at });
    drop(applications);
    let after = keys("/stages/stage/?id=9");
    assert!(before.iter().all(|key| after.contains(key)), "{before:?} {after:?}");
    assert!(get(&live, "/stages/stage/?id=9").text.contains("<strong>2 tasks</strong>"));
}

#[test]
fn a_page_says_of_which_application_it_is_and_whether_that_is_over() {
    let of = |made: Made| get(&Fixed::new(vec![made.status()], true), "/jobs/").text;
    let number = |page: &str| between(page, "data-application=\"", "\"").to_owned();
    let (first, other) = (of(Made::SMALL), of(Made { name: "other", ..Made::SMALL }));
    let (again, over) =
        (of(Made { start: START + 1, ..Made::SMALL }), of(Made { is_over: true, ..Made::SMALL }));
    assert_eq!(number(&first).len(), 16);
    assert_eq!(number(&first), number(&over));
    assert!(number(&first) != number(&other) && number(&first) != number(&again));
    // The script takes the sign of the head out of it.
    let sign = |page: &str| words(between(page, "id=\"state\">", "</div>"));
    assert!(sign(&first).starts_with("▶ Running"), "{}", sign(&first));
    assert!(sign(&over).starts_with("✓ Completed"), "{}", sign(&over));
    assert!(first.contains("data-events=") && !over.contains("data-events="));
}

#[test]
fn links_to_executors_lead_to_the_page_of_the_list_that_has_them() {
    let mut status = Made::SMALL.status();
    (10..200).for_each(|id| added(&mut status, id, START + 100));
    let live = Fixed::new(vec![status], true);
    let row =
        |path: &str, id: u32| get(&live, path).text.contains(&format!("id=\"executor-{id}\""));
    assert!(!row("/executors/", 120) && row("/executors/?at=120", 120));
    assert!(row("/executors/?at=120&sort=id&order=desc&size=20", 120), "in any order");
    assert!(!row("/executors/?at=120&page=1", 120), "pages can be turned from there");
    assert!(get(&live, "/executors/?at=nobody").status == 200);
    let stage = get(&live, "/stages/stage/?id=0").text;
    assert!(stage.contains("href=\"/executors/?at=2#executor-2\""), "{stage}");
}

#[test]
fn executors_that_are_lost_late_are_drawn_over_the_jobs_of_their_time() {
    let mut status = Made { is_over: true, ..Made::SMALL }.status();
    // They came and went before the first job.
    for id in 10..300 {
        added(&mut status, id, START + 100);
        lost(&mut status, id, "early", START + 200);
    }
    added(&mut status, 900, START + 4000);
    lost(&mut status, 900, "it was late", START + 5000);
    let page = get(&Fixed::new(vec![status], true), "/jobs/").text;
    let picture = between(&page, "class=\"timeline\"", "</figure>");
    assert!(picture.contains("Executor 900 lost: it was late"), "{picture}");
    assert!(picture.contains("Executor 900 added") && !picture.contains("early"));
    assert!(page.contains("class=\"scroll\" role=\"region\" aria-label=\"Jobs over time"));
}

#[test]
fn why_executors_are_missing_is_what_the_cluster_says_and_open_pages_hear_of_it() {
    let live = Fixed::new(vec![Made::SMALL.status()], true);
    let state = || between(&get(&live, "/executors/").text, "data-state=\"", "\"").to_owned();
    let before = state();
    let page = get(&live, "/executors/").text;
    assert!(page.contains("asks for 6 executors: 3 are there.") && !page.contains("are missing"));
    let why = format!("3 of 6 executors are missing (3: no node has 4 cores) {}", made::EVIL);
    let missing = Event::ExecutorsMissing { shortage: Some(why), at: Tick(START + 9000) };
    live.applications.lock().unwrap()[0].take(missing);
    let page = get(&live, "/executors/").text;
    assert!(page.contains("Executors are missing") && page.contains("no node has 4 cores"));
    assert!(!page.contains("asks for 6 executors"), "the cluster knows better");
    assert_ne!(state(), before);
    let end = Event::ApplicationEnd { exit_code: Some(0), at: Tick(START + 10_000) };
    live.applications.lock().unwrap()[0].take(end);
    assert!(!get(&live, "/executors/").text.contains("Executors are missing"));
}

#[test]
fn an_executor_shows_what_it_has_its_tasks_and_its_threads() {
    let mut status = Made::SMALL.status();
    let mut info = ExecutorInfo::new(Host::new("gpus"), 1);
    info.resources.insert("gpu".to_owned(), vec!["0".to_owned(), "3".to_owned()]);
    info.attributes.insert("ZONE".to_owned(), "b".to_owned());
    info.attributes.insert("PASSWORD".to_owned(), "hunter2".to_owned());
    info.resource_profile = 4;
    status.take(Event::ExecutorAdded { executor: ExecutorId(7), info, at: Tick(START + 5000) });
    let live = Fixed::new(vec![status], true);
    let page = get(&live, "/executors/").text;
    let seen = words(&page);
    for wanted in ["gpu 0, 3", "resource profile 4", "2 attributes", "ZONE: b"] {
        assert!(seen.contains(wanted), "{wanted}: {seen}");
    }
    assert!(!page.contains("hunter2"));
    // It runs tasks of stage 23, and took most of its time for stage 0.
    let link = "href=\"/stages/stage/?id=23&amp;attempt=0&amp;executor=0#tasks\"";
    assert!(page.contains(link) && page.contains("Tasks of executor 0 in stage 0"), "{page}");
    let tasks = get(&live, "/stages/stage/?id=0&attempt=0&executor=2&size=200").text;
    let list = between(&tasks, "id=\"tasks\"", "</section>");
    assert!(words(list).contains("Those on executor 2 : show all ."), "{list}");
    let rows = list.matches("/executors/?at=").count();
    assert_eq!((rows, list.matches("/executors/?at=2#executor-2").count()), (rows, rows));
    assert!((1..200).contains(&rows), "{rows}");
    // The threads of those that are there.
    let link = |id: u32| format!("href=\"/executors/threadDump/?executorId={id}\"");
    assert!(page.contains(&link(0)) && !page.contains(&link(3)), "3 is lost");
    let threads = get(&live, "/executors/threadDump/?executorId=0").text;
    let seen = words(between(&threads, "<tbody>", "</tbody>"));
    assert!(seen.starts_with("8 task 2.0 in stage 23.0 (TID 376)"), "{seen}");
    assert!(seen.contains("futex_wait") && !threads.contains("data-events"), "{seen}");
    let over = Fixed::new(vec![Made { is_over: true, ..Made::SMALL }.status()], false);
    let home = "/history/app-skewed-join/executors/";
    assert!(!get(&over, home).text.contains("threadDump"));
    assert_eq!(get(&over, &format!("{home}threadDump/?executorId=0")).status, 404);
}

#[test]
fn of_the_executors_of_a_stage_those_that_took_most_come_first() {
    let mut status = Made::SMALL.status();
    let at = Tick(START + 9000);
    for id in 0..120 {
        let task = TaskInfo {
            task: TaskId(90_000 + u64::from(id)),
            stage: StageRef { stage: StageId(23), attempt: 0 },
            partition: 0,
            index: 0,
            attempt: id,
            executor: ExecutorId(100 + id),
            host: Host::new("many"),
            speculative: false,
            locality: Locality::Any,
            launched: at,
        };
        status.take(Event::TaskStart { task: task.clone(), at });
        let at = at.plus_ms(1000 + u64::from(id));
        status.take(Event::TaskEnd { task, failure: None, metrics: None, at });
    }
    let live = Fixed::new(vec![status], true);
    let rows = |more: &str| {
        let page = get(&live, &format!("/stages/stage/?id=23{more}")).text;
        let table = between(&page, "aria-label=\"By executor\"", "</table>").to_owned();
        let rows = table.split("/executors/?at=").skip(1);
        rows.map(|rest| between(rest, "", "#").parse::<u32>().unwrap()).collect::<Vec<_>>()
    };
    let first = rows("");
    assert_eq!((first.len(), &first[..3]), (50, &[219, 218, 217][..]));
    assert_eq!(rows("&executors-sort=id&executors-order=asc")[..3], [0, 1, 100]);
    assert_eq!(rows("&executors-page=2")[0], 169);
    assert_eq!(rows("&page=2&sort=index&order=asc")[0], 219, "the tasks' own order");
}

#[test]
fn refusals_are_shown_below_the_path_that_the_settings_tell_of() {
    let live = Fixed::new(vec![Made::SMALL.status()], true);
    let pages = Pages::default().below(Some("/gateway/mine"));
    let secrets = secrets();
    let asked = |base| Asked {
        path: "/jobs/",
        query: "",
        form: None,
        known: None,
        base,
        now: Tick(START),
        served: &live,
        secrets: &secrets,
    };
    for (base, wanted) in [(None, "/gateway/mine/"), (Some("/other"), "/other/")] {
        let ShownBody::Whole(bytes) = pages.refuse(&asked(base), 403, "no").body else { panic!() };
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.contains(&format!("href=\"{wanted}static/")), "{text}");
        assert!(!text.contains("href=\"/\"") && !text.contains("href=\"/static"), "{text}");
    }
}

#[test]
fn every_page_escapes_what_applications_say_and_runs_nothing_inline() {
    let live = Fixed::new(vec![Made::SMALL.status()], true);
    for path in PATHS {
        let got = get(&live, path);
        assert_eq!(got.status, 200, "{path}: {}", got.text);
        for evil in ["<script>window", "<img", "onerror=\"", "javascript:", " style=", "<style"] {
            assert!(!got.text.contains(evil), "{path} has {evil}");
        }
        assert!(got.text.contains("&lt;script&gt;"), "{path} shows no name");
        // What threads do is a moment: nothing keeps that page up to date.
        let ours = usize::from(!path.contains("threadDump"));
        assert_eq!(got.text.matches("<script").count(), ours, "{path}: only ours");
        assert!(!got.text.contains("hunter2"), "{path} tells a secret");
        assert!(
            got.text.contains("<h1")
                && got.text.contains("<main")
                && got.text.contains("lang=\"en\""),
            "{path}"
        );
        let policy = got.header("content-security-policy");
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(
            (got.header("x-frame-options"), got.header("referrer-policy")),
            ("DENY", "same-origin")
        );
    }
}

#[test]
fn what_is_not_there_is_refused_with_a_sentence_and_never_repeated_as_markup() {
    let live = Fixed::new(vec![Made::SMALL.status()], true);
    let cases = [
        ("/jobs/job/?id=999", 404),
        ("/jobs/job/?id=<script>", 400),
        ("/jobs/job/", 400),
        ("/stages/stage/?id=-1", 400),
        ("/stages/stage/?id=0&attempt=99999999999", 400),
        ("/stages/stage/?id=0&attempt=7", 404),
        ("/storage/rdd/?id=77", 404),
        ("/executors/threadDump/", 400),
        ("/executors/threadDump/?executorId=<script>", 400),
        ("/executors/threadDump/?executorId=99", 404),
        ("/executors/threadDump/?executorId=3", 404),
        ("/executors/threadDump/?executorId=1", 404),
        ("/nowhere/<script>alert(1)</script>", 404),
        ("/history/app/", 404),
        ("/compare/?app=a", 404),
    ];
    for (path, status) in cases {
        let got = get(&live, path);
        assert_eq!(got.status, status, "{path}");
        assert!(
            got.text.contains("Nothing to show") && !got.text.contains("<script>"),
            "{path}: {}",
            got.text
        );
    }
    for odd in [
        "/jobs/?page=0&size=0",
        "/jobs/?page=99999999999999999999",
        "/jobs/?page=18446744073709551615&size=200",
        "/jobs/?sort=%ff&order=%00&q=%3Cscript%3E",
        "/stages/stage/?id=0&page=5000&sort=nothing",
    ] {
        let got = get(&live, odd);
        assert!(got.status == 200 && !got.text.contains("<script>"), "{odd}");
    }
}

#[test]
fn a_kill_needs_the_token_of_the_page_and_a_reason() {
    let live = Fixed::new(vec![Made::SMALL.status()], true);
    let pages = Pages::default();
    let page = ask(&pages, &live, "/jobs/job/?id=11", None).text;
    let token = page
        .split("name=\"token\" value=\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .unwrap()
        .to_owned();
    assert_eq!(token.len(), 32);
    let kill = |path: &str, form: &str| ask(&pages, &live, path, Some(form)).status;
    assert_eq!(kill("/jobs/job/kill/", "id=11&reason=why"), 403);
    assert_eq!(kill("/jobs/job/kill/", &format!("id=11&reason=why&token={}", "0".repeat(32))), 403);
    assert_eq!(kill("/jobs/job/kill/", &format!("id=11&reason=+&token={token}")), 400);
    assert_eq!(kill("/jobs/job/kill/", &format!("id=x&reason=why&token={token}")), 400);
    assert_eq!(kill("/jobs/", &format!("id=11&reason=why&token={token}")), 404);
    for (path, id, status) in [
        ("jobs/job", 999, 404),
        ("jobs/job", 0, 409),
        ("stages/stage", 999, 404),
        ("stages/stage", 0, 409),
    ] {
        let form = format!("id={id}&reason=why&token={token}");
        assert_eq!(kill(&format!("/{path}/kill/"), &form), status, "{path} {id}");
    }
    assert!(live.killed.lock().unwrap().is_empty(), "nothing so far");
    assert_eq!(kill("/jobs/job/kill/", &format!("id=11&reason=too+slow&token={token}")), 303);
    assert_eq!(kill("/stages/stage/kill/", &format!("id=23&reason=too+slow&token={token}")), 303);
    assert_eq!(
        *live.killed.lock().unwrap(),
        ["job 11: killed from its page: too slow", "stage 23: killed from its page: too slow"]
    );
    let over = Fixed::new(vec![Made::SMALL.status()], false);
    let page = get(&over, "/history/app-skewed-join/jobs/job/?id=11");
    assert!(page.status == 200 && !page.text.contains("token"), "history kills nothing");
    assert_eq!(
        ask(&pages, &over, "/jobs/job/kill/", Some(&format!("id=11&reason=why&token={token}")))
            .status,
        403
    );
}

#[test]
fn skew_is_said_in_words_and_the_slow_tasks_stand_out() {
    let live = Fixed::new(vec![Made::SMALL.status()], true);
    let page = get(&live, "/stages/stage/?id=0").text;
    assert!(page.contains("3 tasks</strong> beyond twice the 75 % mark"), "{page}");
    assert!(page.contains("Task 33: 4 s") && page.contains("c-hot"));
    // Sixteen slots, as sixteen cores ran them.
    assert!(page.contains("200 tasks in 16 slots of 4 executors"), "rows are slots");
}

#[test]
fn a_history_lists_searches_and_compares() {
    let slower = Made { name: "second run", slower_ms: 30, is_over: true, ..Made::SMALL };
    let first = Made { is_over: true, ..Made::SMALL };
    let history = Fixed::new(vec![first.status(), slower.status()], false);
    let list = get(&history, "/").text;
    assert!(list.contains("/history/app-second-run/") && list.contains("Compare two"));
    assert!(!get(&history, "/?q=second").text.contains("app-skewed-join"));
    assert!(
        get(&history, "/?from=2001-01-01&to=2002-01-01")
            .text
            .contains("No application is like that")
    );
    let both = get(&history, "/compare/?app=app-skewed-join&app=app-second-run").text;
    assert!(both.contains("those that got slower first") && both.contains("▲ +"), "{both}");
    assert!(both.matches("▲ +").count() > 10, "every stage took longer");
    assert!(!both.contains("<img") && !both.contains("hunter2"));
    assert_eq!(get(&history, "/compare/?app=app-skewed-join&app=app-skewed-join").status, 200);
    assert_eq!(get(&history, "/compare/?app=app-skewed-join").status, 400);
    assert_eq!(get(&history, "/compare/?app=a&app=b").status, 404);
    assert_eq!(get(&history, "/history/nobody/").status, 404);
}

fn spark(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../monitor/tests/spark").join(name)
}

#[test]
fn logs_of_spark_have_all_pages_and_links_lead_somewhere() {
    let mut conf = Conf::default();
    conf.set("spark.history.fs.logDirectory", spark("events").display());
    let history = History::open(HistoryOptions::from_conf(&conf).unwrap()).unwrap();
    let mut todo = vec!["/".to_owned()];
    let mut seen = std::collections::BTreeSet::new();
    while let Some(url) = todo.pop() {
        // Sorting and paging lead to the same lists: not each way is gone.
        let is_other_order =
            ["sort=", "page=", "size=", "?at=", "&executor="].iter().any(|it| url.contains(it));
        if is_other_order || !seen.insert(url.clone()) || seen.len() > 600 {
            continue;
        }
        let got = get(&history, &url);
        assert_eq!(got.status, 200, "{url}");
        assert!(got.text.len() < 200 << 10, "{url}: {} bytes", got.text.len());
        let links = got.text.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
        let ours = links.filter(|link| {
            link.starts_with('/') && !link.starts_with("/static") && !link.starts_with("/api")
        });
        todo.extend(
            ours.map(|link| link.split('#').next().unwrap_or_default().replace("&amp;", "&")),
        );
    }
    assert!(seen.len() > 200, "{} pages", seen.len());
}

#[test]
fn a_report_is_one_file_without_scripts_that_asks_nobody_for_anything() {
    let text =
        report(&Made { is_over: true, ..Made::SMALL }.status(), &secrets(), Tick(START + 100_000));
    for evil in ["<script", "<img", "javascript:", "hunter2", " src=\""] {
        assert!(!text.contains(evil), "{evil}");
    }
    assert!(
        text.contains("id=\"stage-0-0\"")
            && text.contains("id=\"executors\"")
            && text.contains("<style>")
    );
    let anchors: Vec<&str> =
        text.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let missing: Vec<&&str> =
        anchors.iter().filter(|anchor| !text.contains(&format!("id=\"{anchor}\""))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn a_proxy_in_front_is_linked_through_and_a_strange_one_is_not_believed() {
    let live = Fixed::new(vec![Made::SMALL.status()], true);
    let secrets = secrets();
    let show = |base: &str| {
        let asked = Asked {
            path: "/jobs/",
            query: "",
            form: None,
            known: None,
            base: Some(base),
            now: Tick(START),
            served: &live,
            secrets: &secrets,
        };
        match Pages::default().show(&asked).body {
            ShownBody::Whole(bytes) => String::from_utf8(bytes).unwrap(),
            ShownBody::Updates(_) | ShownBody::Archive(_) => String::new(),
        }
    };
    let through = show("/proxy/app-1/");
    assert!(
        through.contains("href=\"/proxy/app-1/jobs/job/?id=0\"")
            && !through.contains("href=\"/jobs")
    );
    for strange in ["//evil.org", "javascript:alert(1)", "/a\"><script>", "http://evil.org"] {
        assert!(show(strange).contains("href=\"/jobs/job/?id=0\""), "{strange}");
    }
}

#[test]
fn numbers_at_their_limits_are_shown_and_break_nothing() {
    let mut status = Made { is_over: true, tasks: 20, jobs: 2, ..Made::SMALL }.status();
    let info = TaskInfo {
        task: TaskId(u64::MAX),
        stage: StageRef { stage: StageId(0), attempt: 0 },
        partition: u32::MAX,
        index: u32::MAX,
        attempt: u32::MAX,
        executor: ExecutorId(0),
        host: Host::new(""),
        speculative: true,
        locality: Locality::Any,
        launched: Tick(0),
    };
    let mut most =
        TaskMetrics { run_time_us: u64::MAX, cpu_time_ns: u64::MAX, ..TaskMetrics::default() };
    (most.input_bytes, most.shuffle_remote_bytes, most.shuffle_local_bytes) =
        (u64::MAX, u64::MAX, u64::MAX);
    (most.shuffle_write_bytes, most.disk_bytes_spilled, most.gc_time_ms) =
        (u64::MAX, u64::MAX, u64::MAX);
    for _ in 0..2 {
        status.take(Event::TaskStart { task: info.clone(), at: Tick(0) });
        let metrics = Some(Box::new(most.clone()));
        status.take(Event::TaskEnd {
            task: info.clone(),
            failure: None,
            metrics,
            at: Tick(u64::MAX),
        });
    }
    let added = ExecutorInfo::new(Host::new(""), u32::MAX);
    for id in 7..10 {
        status.take(Event::ExecutorAdded {
            executor: ExecutorId(id),
            info: added.clone(),
            at: Tick(0),
        });
    }
    status.take(Event::ApplicationEnd { exit_code: Some(i32::MIN), at: Tick(u64::MAX) });
    let text = report(&status, &secrets(), Tick(u64::MAX));
    assert!(text.contains("EiB"));
    let served = Fixed::new(vec![status], true);
    for path in ["/", "/jobs/", "/jobs/job/?id=0", "/stages/", "/stages/stage/?id=0", "/executors/"]
    {
        assert_eq!(get(&served, path).status, 200, "{path}");
    }
}

#[test]
fn a_page_behind_the_last_one_is_the_last_one() {
    let live = Fixed::new(vec![Made::SMALL.status()], true);
    for (path, rows) in [
        ("/executors/?page=18446744073709551615", "executor-0"),
        ("/storage/?page=18446744073709551615&size=200", "/storage/rdd/?id=0"),
        ("/jobs/?page=99&size=20", "/jobs/job/?id=0"),
        ("/stages/?page=99&size=20&order=asc", "/stages/stage/?id=23"),
        ("/stages/stage/?id=0&page=5000&sort=index&order=asc", "data-label=\"Task\">199"),
    ] {
        let got = get(&live, path);
        assert!(got.status == 200 && got.text.contains(rows), "{path}: {}", got.text);
        assert!(!got.text.contains("is like that"), "{path}");
    }
}

fn anchors_without_a_place(text: &str) -> Vec<&str> {
    let anchors = text.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next());
    anchors.filter(|anchor| !text.contains(&format!("id=\"{anchor}\""))).collect()
}

#[test]
fn a_report_of_many_jobs_says_what_it_leaves_out_and_links_to_nothing_that_is_not_there() {
    let mut status = Made { is_over: true, jobs: 250, ..Made::SMALL }.status();
    (10..300).for_each(|id| added(&mut status, id, START));
    let text = report(&status, &secrets(), Tick(START + 100_000));
    assert_eq!(anchors_without_a_place(&text), Vec::<&str>::new());
    for said in ["1–200 of 250:", "1–200 of 500:", "1–200 of 294:", "230 shorter jobs not drawn"]
    {
        assert!(text.contains(said), "{said}");
    }
}

/// Of the application, of executors, why they were lost, and of an RDD that two hundred of them hold.
fn long_names(status: &mut AppStatus, long: &str, mut stage: firesteel_types::StageInfo) {
    status.take(Event::LogStart { version: long.to_owned() });
    status.take(Event::ApplicationStart {
        name: long.to_owned(),
        app_id: "app-skewed-join".to_owned(),
        attempt_id: None,
        user: long.to_owned(),
        driver_log_urls: Default::default(),
        driver_attributes: Default::default(),
        at: Tick(START),
    });
    let rdd = RddDescription {
        id: RddId(888),
        name: long.to_owned(),
        scope: RddScope { id: 888, name: long.to_owned(), parent: None },
        call_site: long.to_owned(),
        parents: Vec::new(),
        partitions: 200,
        determinism: Determinism::Determinate,
    };
    let level = StorageLevel::MEMORY_AND_DISK;
    stage.stage.stage = StageId(888);
    stage.rdds = vec![StageRdd { rdd: std::sync::Arc::new(rdd), level }].into();
    let at = Tick(START + 4000);
    let properties = Default::default();
    status.take(Event::JobStart { job: JobId(78), properties, stages: vec![stage], at });
    let (host, list) = (Host::new(long), vec![long[..1000].to_owned(); 100]);
    for id in 500..700 {
        let mut info = ExecutorInfo::new(host.clone(), 1);
        if id == 500 {
            let names = |count| (0..count).map(|n| format!("{n}{}", &long[..12_000]));
            info.log_urls = [("stdout".to_owned(), format!("http://{long}"))].into();
            info.resources = names(50).map(|name| (name, list.clone())).collect();
            info.attributes = names(100).map(|name| (name.clone(), name)).collect();
        }
        status.take(Event::ExecutorAdded { executor: ExecutorId(id), info, at });
        for block in [id - 500, 199] {
            status.take(Event::BlockUpdated {
                block: format!("rdd_888_{block}"),
                executor: ExecutorId(id),
                memory_bytes: 1 << 20,
                disk_bytes: 0,
                level,
            });
        }
    }
    (600..650).for_each(|id| lost(status, id, &format!("{id} {long}"), START + 4000));
}

#[test]
fn many_settings_and_long_texts_do_not_make_a_large_page() {
    let mut status = Made { is_over: true, ..Made::SMALL }.status();
    // Longer than a page may be.
    let long = "x".repeat(1 << 18);
    let mut properties: Vec<_> =
        (0..5000).map(|n| (format!("spark.mine.{n}"), "value".to_owned())).collect();
    properties.push((format!("spark.{long}"), long.clone()));
    let others = std::collections::BTreeMap::from([("Hadoop".to_owned(), properties.clone())]);
    status.take(Event::EnvironmentUpdate {
        properties,
        runtime: Default::default(),
        resources: Default::default(),
        others,
    });
    let failed = firesteel_types::JobError::Told { message: long.clone() };
    let stage = status.stages(|_| true, Order::Ascending, Paging::ALL).items[0].info.clone();
    let mut properties = Properties::default().with(Properties::DESCRIPTION, &long);
    properties = properties.with(Properties::GROUP, &long).with(Properties::POOL, &long);
    properties.tags_mut().extend((0..500).map(|n| format!("{n}{}", &long[..10_000])));
    let (properties, at) = (std::sync::Arc::new(properties), Tick(START + 4000));
    long_names(&mut status, &long, stage.clone());
    status.take(Event::JobStart { job: JobId(77), properties, stages: vec![stage.clone()], at });
    status.take(Event::StageCompleted { stage, failure: Some(long), at });
    status.take(Event::JobEnd { job: JobId(77), result: Err(failed), at });
    let history = Fixed::new(vec![status], false);
    let paths = [
        "environment/",
        "jobs/",
        "jobs/job/?id=77",
        "stages/",
        "stages/stage/?id=0",
        "storage/",
        "storage/rdd/?id=888",
        "executors/",
        "",
    ];
    for path in paths {
        let got = get(&history, &format!("/history/app-skewed-join/{path}"));
        assert!(got.status == 200 && got.text.len() < 200 << 10, "{path}: {}", got.text.len());
    }
    let list = get(&history, "/").text;
    assert!(list.contains("app-skewed-join") && list.len() < 200 << 10, "{}", list.len());
    let rdd = words(&get(&history, "/history/app-skewed-join/storage/rdd/?id=888").text);
    assert!(rdd.contains("1–50 of 150"), "the holders: {rdd}");
    let page = get(&history, "/history/app-skewed-join/environment/").text;
    assert_eq!(
        words(&page).matches("1–200 of 5,001").count(),
        2,
        "those that differ, and Hadoop's"
    );
    let both = get(&history, "/compare/?app=app-skewed-join&app=app-skewed-join");
    assert!(both.status == 200 && both.text.len() < 200 << 10, "{}", both.text.len());
}

#[test]
fn a_log_that_just_ends_ends_with_the_last_that_it_says_of_a_task() {
    let limit = 1000;
    let mut status =
        AppStatus::new(Retention { jobs: limit, stages: limit, tasks: limit, dead_executors: 9 });
    Made { jobs: 1, tasks: 8, ..Made::SMALL }.events(&mut |event| match event {
        Event::ExecutorRemoved { .. } => {}
        event => status.take(event),
    });
    let history = Fixed::new(vec![status], false);
    let page = get(&history, "/history/app-skewed-join/stages/stage/?id=1").text;
    assert!(page.contains("<dt>Duration</dt><dd>103 ms</dd>"), "{page}");
    assert!(
        !page.contains("data-label=\"Duration\">0 ms"),
        "how long those ran that never ended is not known"
    );
}

#[test]
fn executors_show_memory_and_processors_over_time_on_axes_of_their_own_page() {
    let live = Fixed::new(vec![Made::SMALL.status()], true);
    let page = get(&live, "/executors/").text;
    assert_eq!(page.matches("svg class=\"usage\"").count(), 4, "{page}");
    assert!(
        page.contains("resident memory, up to <strong>") && page.contains("2.0 processors at most"),
        "{page}"
    );
    assert!(page.len() < 60_000, "{}", page.len());
}

#[test]
fn a_large_stage_that_is_over_is_drawn_once_and_shown_the_same() {
    let made = Made { tasks: 12_000, jobs: 1, is_over: true, ..Made::SMALL };
    let (over, pages) = (Fixed::new(vec![made.status()], false), Pages::default());
    let home = "/history/app-skewed-join/stages/stage/?id=0";
    let again = ["", "", "&sort=input&order=desc", "&page=3", "&attempt=0", "&page=99999"];
    for more in again {
        let url = format!("{home}{more}");
        let (first, second) = (get(&over, &url), ask(&pages, &over, &url, None));
        assert_eq!(first.status, 200, "{url}: {}", first.text);
        assert!(first.text == second.text, "{url}");
    }
    // Another run of the same id.
    let slower = Fixed::new(vec![Made { slower_ms: 900, ..made }.status()], false);
    let (first, second) = (get(&slower, home), ask(&pages, &slower, home, None));
    assert!(first.text == second.text && first.text != get(&over, home).text);
}

#[test]
fn the_ten_questions_of_the_guide_are_answered_where_it_says() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pages.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let table = guide.split("## Ten questions").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows: Vec<&str> = table.lines().filter(|line| line.contains("? |")).collect();
    let live = Fixed::new(vec![Made { tail: "", ..Made::SMALL }.status()], true);
    let runs = ["first", "second"].map(|name| {
        let slower_ms = name.len() as u64 * 9;
        Made { name, is_over: true, slower_ms, tail: "", ..Made::SMALL }.status()
    });
    let over = Fixed::new(runs.into(), false);
    // As a reader sees them: what is asked for and its figures beside it.
    let answers: [(&str, &Fixed, &str, &[&str]); 13] = [
        (
            "Which stage is slow?",
            &live,
            "/",
            &["Stages that took most", "Data Stage 0 reduce_by_key at src/main.rs:0 4.89 s 27.8 s"],
        ),
        (
            "Is it skew?",
            &live,
            "/stages/stage/?id=0",
            &[
                "How its tasks differ",
                "3 tasks beyond twice the 75 % mark; the largest is 50× the median.",
                "3 tasks beyond twice the 75 % mark; the largest is 52× the median.",
            ],
        ),
        (
            "Which executor was lost, and why?",
            &live,
            "/executors/",
            &[
                "1 executor lost",
                "1 executor (3): the worker lost it: killed by signal 9, out of memory",
            ],
        ),
        ("What was read?", &live, "/", &["Input 1.04 GiB Shuffle read 354 MiB"]),
        ("What spilled?", &live, "/", &["Spilled to disk 96 MiB"]),
        (
            "What spilled?",
            &live,
            "/stages/?sort=spill&order=desc",
            &["1 reduce_by_key at src/main.rs:1 ✓ Complete", "144 MiB 216 MiB 48 MiB"],
        ),
        (
            "What spilled?",
            &live,
            "/stages/stage/?id=0",
            &["Spilled to disk", "max 16 MiB", "3 tasks of 200; the others have none."],
        ),
        (
            "What is cached?",
            &live,
            "/storage/",
            &[
                "Cached partitions",
                "In memory",
                "On disk",
                "src/main.rs:0 Disk Memory Deserialized 1x Replicated 3/200 3 MiB 768 KiB",
            ],
        ),
        (
            "What is cached?",
            &live,
            "/storage/rdd/?id=0",
            &[
                "By executor",
                "In memory On disk 0 node-0.example.org 2.5 MiB 2 2 MiB 512 KiB",
                "1 node-1.example.org 1.25 MiB 1 1 MiB 256 KiB",
            ],
        ),
        (
            "What is it waiting for?",
            &live,
            "/",
            &[
                "Where the time went",
                "Waiting for map outputs 4 % 6.84 s",
                "Scheduling and decoding 1 % 2.3 s",
                "Cores were idle 79 % of the time: 10 min 4 s of 12 min 40 s",
            ],
        ),
        (
            "How far is it?",
            &live,
            "/",
            &[
                "Running Job 11 join number 11",
                "13/16 · 2 running · ✕ 1 failed",
                "Stage 23 reduce_by_key at src/main.rs:23 6/8 · 2 running",
            ],
        ),
        (
            "What changed since yesterday?",
            &over,
            "/compare/?app=app-first&app=app-second",
            &[
                "Stages, those that got slower first",
                "Task time 1 min 34 s 1 min 39 s ▲ +5.18 s (+5 %)",
                "stage 2 · 154 ms · 8 tasks ▲ +9 ms (+6 %)",
                "Settings that differ",
                "spark.app.name first second",
            ],
        ),
        (
            "Whose fault is it?",
            &live,
            "/stages/stage/?id=9",
            &[
                "Failures of tasks, by what they say 1 task : no such file",
                "By executor",
                "1 node-1.example.org 312 ms 3 1 4.84 MiB",
            ],
        ),
    ];
    assert_eq!(rows.len(), 10, "{table}");
    for row in &rows {
        assert!(answers.iter().any(|(question, ..)| row.contains(question)), "{row}");
    }
    for (question, served, path, answers) in answers {
        assert!(
            rows.iter().any(|row| row.contains(question)),
            "the guide does not ask: {question}"
        );
        let page = words(&get(served, path).text);
        for answer in answers {
            assert!(page.contains(answer), "{question} {path} does not say {answer}: {page}");
        }
    }
}

#[test]
fn a_proxy_that_says_nothing_is_linked_through_where_the_settings_tell_of_it() {
    let live = Fixed::new(vec![Made::SMALL.status()], true);
    let pages = Pages::default().below(Some("/gateway/mine"));
    let page = ask(&pages, &live, "/jobs/", None).text;
    assert!(page.contains("href=\"/gateway/mine/stages/\""), "{page}");
    assert!(page.contains("data-events=\"/gateway/mine/events\""), "{page}");
    assert!(!page.contains("href=\"/stages/"), "{page}");
}

#[test]
fn logs_of_a_worker_behind_its_master_are_linked_to_from_pages_that_are_there_too() {
    let mut status = Made::SMALL.status();
    let mut info = ExecutorInfo::new(Host::new("behind"), 1);
    let url = "/proxy/worker-1/logPage/?appId=a&executorId=7&logType=stdout";
    info.log_urls.insert("stdout".to_owned(), url.to_owned());
    status.take(Event::ExecutorAdded { executor: ExecutorId(7), info, at: Tick(START + 5000) });
    let live = Fixed::new(vec![status], true);
    let at =
        |base: Option<&str>| ask(&Pages::default().below(base), &live, "/executors/", None).text;
    let link = "/proxy/worker-1/logPage/?appId=a&amp;executorId=7&amp;logType=stdout\"";
    assert!(at(Some("/proxy/app-1")).contains(&format!("href=\"{link}")));
    assert!(at(Some("/cluster/proxy/app-1")).contains(&format!("href=\"/cluster{link}")));
    assert!(!at(None).contains(link), "at the driver's own address it leads nowhere");
}

/// How long pages of large applications take, and what they weigh: for `./bench pages`, which runs this optimised.
#[test]
#[ignore = "a measurement: ./bench pages runs it optimised"]
fn large_applications_have_small_pages_soon() {
    let tasks = Fixed::new(
        vec![Made { tasks: 1_000_000, jobs: 1, is_over: true, ..Made::SMALL }.status()],
        true,
    );
    let jobs = Fixed::new(
        vec![Made { tasks: 8, jobs: 10_000, is_over: true, ..Made::SMALL }.status()],
        true,
    );
    let cases: [(&str, &Fixed, &str); 5] = [
        ("stage_of_1m_tasks", &tasks, "/stages/stage/?id=0"),
        ("stage_of_1m_tasks_by_input", &tasks, "/stages/stage/?id=0&sort=input&order=desc"),
        ("overview_of_1m_tasks", &tasks, "/"),
        ("jobs_of_10k_jobs", &jobs, "/jobs/"),
        ("overview_of_10k_jobs", &jobs, "/"),
    ];
    for (name, served, path) in cases {
        let (mut best, mut busy) = (u128::MAX, u64::MAX);
        let mut bytes = 0;
        for _ in 0..5 {
            let (start, before) = (std::time::Instant::now(), busy_us());
            let got = get(served, path);
            best = best.min(start.elapsed().as_micros());
            busy = busy.min(busy_us() - before);
            bytes = got.text.len();
            assert_eq!(got.status, 200);
        }
        println!("page {name} {best} us {bytes} bytes {busy} us of a processor");
    }
}

/// Processor time of this thread so far: what a page takes where nothing else runs.
fn busy_us() -> u64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    told.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0) / 1000
}
