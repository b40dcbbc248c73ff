//! The worker's pages: `/json/` and `/metrics/` with Spark's names, `/` for a quick look, and what its processes print. Commands
//! and their variables are never shown: they carry secrets.

use std::sync::Arc;

use firesteel_conf::Conf;
use firesteel_jws::Right;
use firesteel_metrics::{Metrics, MetricsError, Reporter, SinkOptions, json, prometheus};
use hyper::{Method, StatusCode};
use serde_json::Value;

use super::log_page::{self, Logs};
use super::order::Order;
use super::shell::{Shell, View};
use crate::access::Access;
use crate::page::{Html, row};
use crate::web::{Answering, HttpHandler, HttpRequest, Page, Pages, answer_of, respond};

/// Answers requests for pages, and for what processes print.
pub(super) fn handler(shell: Arc<Shell>, logs: Logs, access: Access) -> HttpHandler {
    let logs = Arc::new(logs);
    Arc::new(move |asked: HttpRequest| -> Answering {
        let is_free = crate::page::asset(&asked.path).is_some()
            || Logs::is_path(&asked.path) && logs.readers.have_token(&asked);
        if !is_free && let Err(why) = access.check(asked.asker(), Right::View) {
            return Box::pin(std::future::ready(why.answer()));
        }
        let is_checked = !is_free && !access.is_open();
        let is_log =
            Logs::is_path(&asked.path) && [Method::GET, Method::HEAD].contains(&asked.method);
        if !is_log {
            let pages = of(shell.clone(), asked.root());
            return Box::pin(std::future::ready(respond(&asked.method, &asked.path, &pages)));
        }
        let logs = logs.clone();
        Box::pin(async move {
            // A disk may take its time; the worker has a thread for everything else.
            let read = tokio::task::spawn_blocking(move || logs.answer(&asked, is_checked));
            read.await.unwrap_or_else(|_| {
                let (status, text) = (StatusCode::INTERNAL_SERVER_ERROR, "it could not be read\n");
                answer_of(status, "text/plain;charset=utf-8", text)
            })
        })
    })
}

/// `root` is where a proxy shows the worker, such as its master.
fn of(shell: Arc<Shell>, root: String) -> Pages {
    Arc::new(move |path| match path {
        "/json" | "/json/" => Some(Page::json(state(&shell.view()))),
        path if path.starts_with("/metrics/") => metrics(path, &shell.view()),
        "/" => Some(Page::html(overview(&shell.view(), &root))),
        _ => None,
    })
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

fn overview(view: &View, root: &str) -> String {
    let (cores, memory) = view.used;
    let master = view.master.as_ref().map_or("none yet", |master| &master.url);
    let (all_cores, all_memory) = (view.worker.cores, view.worker.memory_mb);
    let mut page = Html::new(&format!("Firesteel worker {}", view.worker.id)).below(root);
    for order in view.processes.iter().take(LINKED) {
        for stream in log_page::STREAMS {
            let name = format!("{stream} of {}", name(order));
            let location = log_page::location(&order.key(), stream);
            page = page.link(&name, &format!("{root}{location}"));
        }
    }
    page.line(&format!("Master: {master}"))
        .line(&format!("Cores: {cores} of {all_cores} used"))
        .line(&format!("Memory: {memory} of {all_memory} MB used"))
        .table(
            "Processes",
            &["What", "Name", "Cores", "Memory (MB)"],
            view.processes.iter().map(process).collect(),
        )
        .finish()
}

/// Of so many processes the output is linked to.
const LINKED: usize = 100;

fn name(order: &Order) -> String {
    match order {
        Order::Executor { key, .. } => format!("executor {key}"),
        Order::Driver { driver, .. } => driver.to_string(),
    }
}

fn process(order: &Order) -> Vec<String> {
    match order {
        Order::Executor { description, cores, memory_mb, .. } => {
            row![name(order), description.name, cores, memory_mb]
        }
        Order::Driver { description, .. } => {
            row![name(order), description.name, description.cores, description.memory_mb]
        }
    }
}
