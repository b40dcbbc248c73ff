//! The worker's pages: `/json/` and `/metrics/` with Spark's names, `/` for a quick look, and what its processes print. Commands
//! and their variables are never shown: they carry secrets.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use firesteel_conf::Conf;
use firesteel_jws::Right;
use firesteel_metrics::{Metrics, MetricsError, Reporter, SinkOptions, json, prometheus};
use hyper::{Method, StatusCode};
use serde_json::Value;

use super::log_page::{self, Logs, Readers};
use super::order::Order;
use super::shell::{Shell, View};
use crate::access::{Access, Admitted};
use crate::listing::{At, Key, List};
use crate::page::{Cell, Html, Live};
use crate::updates::{self, Changes};
use crate::web::{Answering, HttpHandler, HttpRequest, HttpResponse, Page, answer_of, respond};

/// Answers requests for pages, and for what processes print.
pub(super) fn handler(shell: Arc<Shell>, logs: Logs, access: Access) -> HttpHandler {
    let logs = Arc::new(logs);
    let seen = shell.clone();
    let changes = Changes::new(move || fingerprint(&seen.view()));
    Arc::new(move |asked: HttpRequest| -> Answering {
        let (shell, changes) = (shell.clone(), changes.clone());
        let (logs, access) = (logs.clone(), access.clone());
        Box::pin(async move {
            if let Err(refused) = admit(&access, &logs.readers, &asked).await {
                return refused;
            }
            let is_log =
                Logs::is_path(&asked.path) && [Method::GET, Method::HEAD].contains(&asked.method);
            if asked.path == updates::PATH && asked.method == Method::GET {
                return changes.answer();
            }
            if !is_log {
                let live = (changes.state(), changes.process());
                return respond(&asked.method, &asked.path, &|path| of(&shell, live, &asked, path));
            }
            // A disk may take its time; the worker has a thread for everything else.
            let read = tokio::task::spawn_blocking(move || logs.answer(&asked));
            read.await.unwrap_or_else(|_| {
                let (status, text) = (StatusCode::INTERNAL_SERVER_ERROR, "it could not be read\n");
                answer_of(status, "text/plain;charset=utf-8", text)
            })
        })
    })
}

/// Whether a request is answered, or what is answered instead.
async fn admit(
    access: &Access,
    readers: &Readers,
    asked: &HttpRequest,
) -> Result<(), HttpResponse> {
    let is_log = Logs::is_path(&asked.path);
    // Who may read output may see of which processes; where there is a filter, pages are for those who have its tokens.
    let is_reader = (is_log || !access.has_filter()) && readers.have_token(asked);
    if is_reader || crate::page::asset(&asked.path).is_some() {
        return Ok(());
    }
    match access.check(asked.asker(), Right::View).await {
        // A list that has everybody in it proves nothing of those who ask.
        Ok(Admitted::Anybody) if is_log => readers.check(asked).await,
        Ok(_) => Ok(()),
        Err(why) => Err(why.answer()),
    }
}

/// `live` are what the page shows, from before it is looked at, and whose it is.
fn of(shell: &Shell, live: (u64, u64), asked: &HttpRequest, path: &str) -> Option<Page> {
    match path {
        "/json" | "/json/" => Some(Page::json(state(&shell.view()))),
        path if path.starts_with("/metrics/") => metrics(path, &shell.view()),
        "/" => {
            let (state, process) = live;
            let live = Live { state, process, now: shell.now() };
            Some(Page::html(overview(&shell.view(), live, asked)))
        }
        _ => None,
    }
}

/// Another one whenever something that the page shows has changed.
fn fingerprint(view: &View) -> u64 {
    let mut hasher = DefaultHasher::new();
    (view.used, view.master.as_ref().map(|it| &it.url)).hash(&mut hasher);
    view.processes.iter().for_each(|order| name(order).hash(&mut hasher));
    hasher.finish()
}

/// Tells the sinks of the settings.
pub(super) fn reporter(conf: &Conf, shell: &Arc<Shell>) -> Result<Option<Reporter>, MetricsError> {
    let sinks = SinkOptions::from_conf(conf, "worker")?;
    let shell = shell.clone();
    Ok(Reporter::start(sinks, Arc::new(move || gauges(&shell.view()))))
}

/// Spark's gauges and the process.
fn gauges(view: &View) -> Metrics {
    let mut metrics = Metrics::new("worker");
    let (cores, memory) = view.used;
    let executors = view.processes.iter().filter(|it| matches!(it, Order::Executor { .. }));
    metrics.gauge("coresFree", view.worker.cores.saturating_sub(cores));
    metrics.gauge("coresUsed", cores);
    metrics.gauge("executors", executors.count() as u64);
    metrics.gauge("memFree_MB", view.worker.memory_mb.saturating_sub(memory));
    metrics.gauge("memUsed_MB", memory);
    firesteel_metrics::process(&mut metrics);
    metrics
}

/// At Spark's paths, and at those that name the worker.
fn metrics(path: &str, view: &View) -> Option<Page> {
    match path.strip_suffix('/').unwrap_or(path) {
        "/metrics/json" | "/metrics/worker/json" => Some(Page::json(json(&gauges(view)))),
        "/metrics/prometheus" | "/metrics/worker/prometheus" => {
            Some(Page::plain(prometheus(&gauges(view))))
        }
        _ => None,
    }
}

fn state(view: &View) -> String {
    let (cores_used, memory_used) = view.used;
    let master = view.master.as_ref();
    let page = serde_json::json!({
        "id": view.worker.id.0,
        "masterurl": master.map_or("", |master| &master.url),
        "masterwebuiurl": master.map_or("", |master| &master.web_ui),
        "cores": view.worker.cores,
        "coresused": cores_used,
        "memory": view.worker.memory_mb,
        "memoryused": memory_used,
        "resources": {},
        "resourcesused": {},
        "executors": view.processes.iter().filter_map(executor).collect::<Vec<_>>(),
        "finishedexecutors": [],
    });
    format!("{page:#}")
}

fn executor(order: &Order) -> Option<Value> {
    let Order::Executor { key, description, cores, memory_mb, .. } = order else { return None };
    Some(serde_json::json!({
        "id": key.executor.0,
        "memory": memory_mb,
        "resources": {},
        "appid": key.app.0,
        "appdesc": {
            "name": description.name,
            "cores": cores,
            "memoryperexecutor": description.memory_per_executor_mb,
            "user": description.user,
        },
    }))
}

fn overview(view: &View, live: Live, asked: &HttpRequest) -> String {
    let (cores, memory) = view.used;
    let master = view.master.as_ref().map_or("none yet", |master| &master.url);
    let (all_cores, all_memory) = (view.worker.cores, view.worker.memory_mb);
    let root = asked.root();
    let page = Html::new(&format!("Firesteel worker {}", view.worker.id))
        .below(&root)
        .live(live)
        .line(&format!("Master: {master}"))
        .line(&format!("Cores: {cores} of {all_cores} used"))
        .line(&format!("Memory: {memory} of {all_memory} MB used"));
    let path = format!("{root}/");
    let at = At { path: &path, query: &asked.query };
    PROCESSES.add(page, at, view.processes.iter(), key, |order| process(order, &root)).finish()
}

const PROCESSES: List<'static> = List {
    heading: "Processes",
    name: "processes",
    columns: &[
        ("What", "what"),
        ("Name", "name"),
        ("Cores", "cores"),
        ("Memory (MB)", "memory"),
        ("Output", ""),
    ],
};

fn name(order: &Order) -> String {
    match order {
        Order::Executor { key, .. } => format!("executor {key}"),
        Order::Driver { driver, .. } => driver.to_string(),
    }
}

/// What a process is part of is called so, and what it takes.
fn takes(order: &Order) -> (&str, u32, u64) {
    match order {
        Order::Executor { description, cores, memory_mb, .. } => {
            (&description.name, *cores, *memory_mb)
        }
        Order::Driver { description, .. } => {
            (&description.name, description.cores, description.memory_mb)
        }
    }
}

fn key(order: &&Order, by: &str) -> Key {
    let (called, cores, memory_mb) = takes(order);
    match by {
        "name" => Key::text(called),
        "cores" => cores.into(),
        "memory" => memory_mb.into(),
        _ => Key::text(name(order)),
    }
}

fn process(order: &Order, root: &str) -> Vec<Cell> {
    let (called, cores, memory_mb) = takes(order);
    let link = |stream: &str| {
        (stream.to_owned(), format!("{root}{}", log_page::location(&order.key(), stream)))
    };
    let links = log_page::STREAMS.map(link).into();
    vec![
        Cell::text(name(order)),
        Cell::text(called),
        Cell::text(cores),
        Cell::text(memory_mb),
        Cell { links, ..Cell::default() },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use firesteel_rpc::RpcAddress;

    use super::super::log_page::ReaderKeys;
    use crate::TokenKey;
    use crate::web::{Ends, Query};

    const LOG: &str = "/log";
    const KEY: &str =
        "VmlzaXQgaHR0cHM6Ly9zcGFyay5hcGFjaGUub3JnIHRvIGRvd25sb2FkIEFwYWNoZSBTcGFyay4=";

    /// A request of another machine, or one that a proxy takes along.
    fn asked(path: &str, token: Option<String>) -> HttpRequest {
        HttpRequest {
            method: Method::GET,
            path: path.to_owned(),
            query: Query::parse(""),
            ends: None,
            context: None,
            by_a_page: false,
            authorization: token.map(|token| format!("Bearer {token}")),
            body: None,
        }
    }

    #[tokio::test]
    async fn output_is_for_those_who_prove_something_whatever_lists_say_of_everybody() {
        let key = TokenKey::of([7; 32]);
        let filter = firesteel_jws::JwsKey::from_base64url(KEY).unwrap();
        let access = |settings: &[(&str, &str)]| {
            let mut conf = Conf::new();
            settings.iter().for_each(|(key, value)| {
                conf.set(*key, value);
            });
            Access::from_conf(&conf).unwrap()
        };
        let at = RpcAddress::new("node-1", 8081);
        let keys = ReaderKeys { keys: vec![key.clone()], address: Some(at.clone()) };
        let readers = |asked| Readers::of(asked, keys.clone(), true).unwrap();
        let listed = ("spark.acls.enable", "true");
        let (open, all) = (access(&[]), access(&[listed, ("spark.ui.view.acls", "*")]));
        let nobody = access(&[listed]);
        let filtered = access(&[
            ("spark.ui.filters", "org.apache.spark.ui.JWSFilter"),
            ("spark.org.apache.spark.ui.JWSFilter.param.secretKey", KEY),
        ]);
        let reader = || Some(key.at(&at).sign());
        let elsewhere = || Some(key.at(&RpcAddress::new("evil.org", 8081)).sign());
        let user = || Some(filter.sign(Some("ann")));
        for (access, authenticate, path, token, status) in [
            (&open, Some(true), LOG, None, 401),
            (&all, Some(true), LOG, None, 401),
            (&all, None, LOG, None, 401),
            (&all, Some(false), LOG, None, 200),
            (&all, Some(true), "/logPage/", reader(), 200),
            (&all, Some(true), LOG, elsewhere(), 401),
            (&open, Some(true), LOG, reader(), 200),
            (&open, Some(true), LOG, elsewhere(), 401),
            (&all, Some(true), "/", None, 200),
            (&nobody, Some(true), LOG, None, 401),
            (&nobody, Some(false), LOG, None, 401),
            (&nobody, Some(true), LOG, reader(), 200),
            (&nobody, Some(true), "/", None, 401),
            (&nobody, Some(true), "/", reader(), 200),
            (&nobody, Some(false), "/", reader(), 401),
            (&filtered, Some(true), LOG, user(), 200),
            (&filtered, Some(true), LOG, reader(), 200),
            (&filtered, Some(true), "/", reader(), 403),
            (&filtered, Some(true), LOG, None, 403),
        ] {
            let asked = asked(path, token);
            let found = admit(access, &readers(authenticate), &asked).await;
            let found = found.map_or_else(|refused| refused.status().as_u16(), |()| 200);
            assert_eq!(found, status, "{access:?} {authenticate:?} {asked:?}");
        }
    }

    #[tokio::test]
    async fn a_token_of_any_of_the_keys_reads_output_at_the_address_that_it_was_made_for() {
        let [secret, filter, other] = [[7; 32], [8; 32], [9; 32]].map(TokenKey::of);
        let at = RpcAddress::new("node-1", 8081);
        let keys = vec![secret.clone(), filter.clone()];
        let keys = ReaderKeys { keys, address: Some(at.clone()) };
        let readers = Readers::of(Some(true), keys, true).unwrap();
        let reached: std::net::SocketAddr = "10.0.0.7:8081".parse().unwrap();
        let ends = Ends { peer: "10.0.0.8:999".parse().unwrap(), own: reached };
        let by_number = RpcAddress::new("10.0.0.7", 8081);
        for (key, address, may) in [
            (&secret, &at, true),
            (&filter, &at, true),
            (&secret, &by_number, true),
            (&other, &at, false),
            (&secret, &RpcAddress::new("10.0.0.9", 8081), false),
        ] {
            let asked =
                HttpRequest { ends: Some(ends), ..asked(LOG, Some(key.at(address).sign())) };
            assert_eq!(readers.check(&asked).await.is_ok(), may, "{address}");
        }
        assert!(readers.check(&asked(LOG, Some(secret.sign()))).await.is_err(), "made for nobody");
        assert!(readers.check(&asked(LOG, None)).await.is_err());
    }
}
