//! The screen without a terminal, and against a server.

use std::path::Path;
use std::sync::Arc;

use firesteel_conf::{Conf, entries};
use firesteel_monitor::{Access, History, HistoryOptions, Server, ServerOptions};

use super::model::{Executor, Work};
use super::*;

fn drawn(screen: &Screen, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen.draw(frame)).unwrap();
    view::text(terminal.backend().buffer())
}

fn overview() -> Overview {
    let work = |id: &str, name: &str| Work {
        id: id.to_owned(),
        name: name.to_owned(),
        done: 40,
        active: 8,
        failed: 1,
        total: 100,
        read: 5 << 30,
        written: 3 << 20,
        spilled: 700,
    };
    let executor = |id: &str, lost: Option<&str>| Executor {
        id: id.to_owned(),
        host: format!("node-{id}:7078"),
        active: 4,
        cores: 4,
        tasks: 20,
        failed: 1,
        memory_used: 256 << 20,
        memory: 512 << 20,
        lost: lost.map(str::to_owned),
    };
    Overview {
        id: "app-1".to_owned(),
        name: "nightly join".to_owned(),
        user: "ada".to_owned(),
        is_over: false,
        duration_ms: 192_000,
        jobs: vec![work("7", "join of orders")],
        stages: vec![work("12", "reduce_by_key"), work("13.1", "sort")],
        executors: vec![
            executor("1", None),
            executor("2", None),
            executor("3", Some("killed by signal 9")),
        ],
        insights: vec!["skew in stage 12: partition 3 read 64 MiB. Try: salt".to_owned()],
    }
}

#[test]
fn the_screen_says_how_far_it_is_what_is_wrong_and_who_was_lost() {
    let screen = Screen::new("http://localhost:4040", overview());
    let text = drawn(&screen, 120, 30);
    for wanted in [
        "nightly join  app-1",
        "running for 3 min 12 s · user ada",
        "8 of 8 cores in use",
        "512 MiB of 1.0 GiB for blocks",
        "! skew in stage 12",
        "########=...........",
        "40/100",
        "join of orders",
        "13.1",
        "5.0 GiB",
        "LOST: killed by signal 9",
        "q quits",
    ] {
        assert!(text.contains(wanted), "{wanted}:\n{text}");
    }
}

#[test]
fn a_screen_of_any_size_is_drawn_and_a_failure_is_said_with_what_was_known() {
    let mut screen = Screen::new("http://localhost:4040", overview());
    screen.take(Err("connection refused".to_owned()));
    let text = drawn(&screen, 100, 30);
    assert!(
        text.contains("Not answering: connection refused") && text.contains("nightly join"),
        "{text}"
    );
    for (width, height) in [(1, 1), (20, 5), (40, 10), (400, 100)] {
        drawn(&screen, width, height);
    }
    screen.take(Ok(Overview::default()));
    assert!(drawn(&screen, 80, 24).contains("Running jobs (0)"));
    let many = Overview {
        jobs: vec![Work { done: u64::MAX, active: u64::MAX, ..Work::default() }; 900],
        ..overview()
    };
    screen.take(Ok(many));
    assert!(drawn(&screen, 80, 24).contains("Running jobs (900)"));
}

fn history(settings: &[(&str, &str)]) -> Server {
    let logs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../monitor/tests/spark/events");
    let mut conf = Conf::default();
    conf.set("spark.history.fs.logDirectory", logs.display());
    settings.iter().for_each(|(key, value)| {
        conf.set(*key, *value);
    });
    let history = History::open(HistoryOptions::from_conf(&conf).unwrap()).unwrap();
    let options = ServerOptions {
        host: "127.0.0.1".to_owned(),
        port: 0,
        retries: 0,
        allowed_hosts: Vec::new(),
        secrets: conf.get(&entries::REDACTION_REGEX).unwrap(),
        access: Access::of_history(&conf).unwrap(),
    };
    Server::start(Arc::new(history), options).unwrap()
}

#[test]
fn what_a_server_answers_is_shown() {
    let server = history(&[]);
    let address = format!("http://{}", server.address());
    let client = Client::of(&address).unwrap();
    let seen = model::look(&client, Some("app-20161116163331-0000")).unwrap();
    assert!(seen.is_over && seen.executors.len() > 1, "{seen:?}");
    let text = printed(&seen, &address).unwrap();
    assert!(text.contains("app-20161116163331-0000") && text.contains("over for"), "{text}");
    assert!(model::look(&client, None).is_ok(), "without an id it is one of them");
    let unknown = model::look(&client, Some("../nobody")).unwrap_err().to_string();
    assert!(unknown.contains("404") && unknown.contains("nobody"), "{unknown}");
}

#[test]
fn an_address_that_does_not_answer_is_named_with_what_to_look_at() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    drop(taken);
    let client = Client::of(&format!("127.0.0.1:{port}")).unwrap();
    let said = model::look(&client, None).unwrap_err().to_string();
    assert!(said.contains("does not answer") && said.contains("spark.ui.port"), "{said}");
}

#[test]
fn a_server_that_wants_to_know_who_asks_is_told_and_a_refusal_says_how() {
    const KEY: &str =
        "VmlzaXQgaHR0cHM6Ly9zcGFyay5hcGFjaGUub3JnIHRvIGRvd25sb2FkIEFwYWNoZSBTcGFyay4=";
    let filter = [
        ("spark.ui.filters", "org.apache.spark.ui.JWSFilter"),
        ("spark.org.apache.spark.ui.JWSFilter.param.secretKey", KEY),
    ];
    let lists = [("spark.history.ui.acls.enable", "true"), ("spark.history.ui.admin.acls", "ops")];
    let server = history(&[filter, lists].concat());
    let address = format!("http://{}", server.address());
    let look = |proof| {
        let client = Client::of(&address).unwrap().proving(proof);
        let app = Some("app-20161116163331-0000");
        model::look(&client, app).map_err(|failure| failure.to_string())
    };
    for proof in [Proof::None, Proof::Token("a.b.c".to_owned())] {
        let refused = look(proof).unwrap_err();
        assert!(refused.contains("403") && refused.contains("--token-file"), "{refused}");
        assert!(refused.contains("spark.ui.filters"), "{refused}");
    }
    let key = firesteel_jws::JwsKey::from_base64url(KEY).unwrap();
    let refused = look(Proof::Token(key.sign(Some("eve")))).unwrap_err();
    assert!(refused.contains("eve") && refused.contains("not authorized"), "{refused}");
    let seen = look(Proof::Token(key.sign(Some("ops")))).unwrap();
    assert!(seen.executors.len() > 1, "{seen:?}");
    // The user of this process, with the key of the settings.
    let user = std::env::var("USER").unwrap_or_default();
    let lists = [("spark.history.ui.acls.enable", "true"), ("spark.history.ui.admin.acls", &*user)];
    let server = history(&[filter, lists].concat());
    let client = Client::of(&format!("http://{}", server.address())).unwrap();
    let seen = model::look(&client.proving(Proof::Key(key)), None);
    assert_eq!(seen.is_ok(), !user.is_empty(), "{user}");
}

#[test]
fn a_token_goes_to_no_address_that_nobody_named() {
    let flags = |address: Option<&str>, file: Option<&str>| TopFlags {
        address: address.map(str::to_owned),
        app: None,
        interval: 2.0,
        once: true,
        token_file: file.map(Into::into),
        properties_file: Some("/dev/null".into()),
        settings: vec![
            "spark.ui.filters=org.apache.spark.ui.JWSFilter".to_owned(),
            format!("spark.org.apache.spark.ui.JWSFilter.param.secretKey={}", "A".repeat(44)),
        ],
    };
    let token = |flags| proof(&flags).map(|it| it.token()).map_err(|it| it.to_string());
    assert_eq!(token(flags(None, None)), Ok(None));
    assert!(token(flags(Some("driver:4040"), None)).unwrap().is_some());
    let refused = token(flags(None, Some("/dev/null"))).unwrap_err();
    assert!(refused.contains("needs the address"), "{refused}");
}
