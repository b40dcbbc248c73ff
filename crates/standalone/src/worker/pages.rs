//! The worker's pages: `/json/` with Spark's names, and `/` for a quick look. Commands and their
//! variables are never shown: they carry secrets.

use std::sync::Arc;

use serde_json::{Value, json};

use super::order::Order;
use super::shell::{Shell, View};
use crate::page::{Html, row};
use crate::web::{Page, Pages};

pub(super) fn of(shell: Arc<Shell>) -> Pages {
    Arc::new(move |path| match path {
        "/json" | "/json/" => Some(Page::json(state(&shell.view()))),
        "/" => Some(Page::html(overview(&shell.view()))),
        _ => None,
    })
}

fn state(view: &View) -> String {
    let (cores_used, memory_used) = view.used;
    let master = view.master.as_ref();
    let page = json!({
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
    Some(json!({
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

fn overview(view: &View) -> String {
    let (cores, memory) = view.used;
    let master = view.master.as_ref().map_or("none yet", |master| &master.url);
    let (all_cores, all_memory) = (view.worker.cores, view.worker.memory_mb);
    Html::new(&format!("Firesteel worker {}", view.worker.id))
        .line(&format!("Master: {master}"))
        .line(&format!("Cores: {cores} of {all_cores} used"))
        .line(&format!("Memory: {memory} of {all_memory} MB used"))
        .table(
            "Processes",
            &["What", "Name", "Cores", "Memory (MB)"],
            view.processes.iter().map(process).collect(),
        )
        .finish()
}

fn process(order: &Order) -> Vec<String> {
    match order {
        Order::Executor { key, description, cores, memory_mb, .. } => {
            row![format!("executor {key}"), description.name, cores, memory_mb]
        }
        Order::Driver { driver, description } => {
            row![driver, description.name, description.cores, description.memory_mb]
        }
    }
}
