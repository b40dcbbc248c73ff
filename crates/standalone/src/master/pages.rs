//! The master's pages: `/json/` and `/metrics/` as Spark has them, and `/` for a quick look.

use std::sync::Arc;

use firesteel_standalone_core::date;
use firesteel_standalone_core::json::master_json;
use firesteel_standalone_core::master::{ApplicationView, DriverView, MasterView, WorkerView};

use super::metrics;
use super::shell::Shell;
use crate::page::{Html, row};
use crate::web::{Page, Pages};

pub(super) fn of(shell: Arc<Shell>) -> Pages {
    Arc::new(move |path| match path {
        "/json" | "/json/" => {
            let (view, now) = shell.view();
            Some(Page::json(master_json(&view, now)))
        }
        path if path.starts_with("/metrics/") => {
            let (view, now) = shell.view();
            metrics::page(path, &view, now, shell.longest_round())
        }
        "/" => Some(Page::html(overview(&shell.view().0))),
        _ => None,
    })
}

fn status(view: &MasterView) -> String {
    match &view.leader {
        Some(leader) => format!("Status: {}, {leader} leads", view.status.name()),
        None => format!("Status: {}", view.status.name()),
    }
}

fn overview(view: &MasterView) -> String {
    Html::new(&format!("Firesteel master at {}", view.url))
        .line(&status(view))
        .table(
            "Workers",
            &["Id", "Address", "State", "Cores used", "Memory used (MB)"],
            view.workers.iter().map(worker).collect(),
        )
        .table("Running applications", &APPLICATION, applications(&view.active_apps))
        .table("Completed applications", &APPLICATION, applications(&view.completed_apps))
        .table("Running drivers", &DRIVER, drivers(&view.active_drivers))
        .table("Completed drivers", &DRIVER, drivers(&view.completed_drivers))
        .finish()
}

const APPLICATION: [&str; 8] = [
    "Id",
    "Name",
    "User",
    "Cores",
    "Memory per executor (MB)",
    "Submitted",
    "State",
    "Executors, or why it ended",
];
const DRIVER: [&str; 5] = ["Id", "Name", "Worker", "Submitted", "State"];

fn worker(view: &WorkerView) -> Vec<String> {
    let description = &view.worker;
    let cores = format!("{} of {}", view.cores_used, description.cores);
    let memory = format!("{} of {}", view.memory_used_mb, description.memory_mb);
    row![description.id, description.address, view.status.name(), cores, memory]
}

fn applications(views: &[ApplicationView]) -> Vec<Vec<String>> {
    let one = |view: &ApplicationView| {
        let description = &view.description;
        let executors = view.executors.iter().map(|executor| {
            format!("{} {} on {}", executor.executor, executor.state.name(), executor.worker)
        });
        let executors = executors.collect::<Vec<_>>().join(", ");
        let last = view.message.clone().unwrap_or(executors);
        let memory = description.memory_per_executor_mb;
        let (submitted, state) = (date::readable(view.submitted), view.state.name());
        row![
            view.app,
            description.name,
            description.user,
            view.cores,
            memory,
            submitted,
            state,
            last
        ]
    };
    views.iter().map(one).collect()
}

fn drivers(views: &[DriverView]) -> Vec<Vec<String>> {
    let one = |view: &DriverView| {
        let worker = view.worker.as_ref().map_or("none", |worker| &worker.0);
        let submitted = date::readable(view.submitted);
        row![view.driver, view.description.name, worker, submitted, view.state.name()]
    };
    views.iter().map(one).collect()
}
