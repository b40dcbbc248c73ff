//! The master's pages: `/json/` and `/metrics/master/json` as Spark has them, and `/` for a quick look.

use std::sync::Arc;
use std::time::Duration;

use firesteel_standalone_core::date;
use firesteel_standalone_core::json::master_json;
use firesteel_standalone_core::master::{
    ApplicationState, ApplicationView, DriverView, MasterView, WorkerStatus, WorkerView,
};

use super::shell::Shell;
use crate::page::{Html, row};
use crate::web::{Page, Pages};

pub(super) fn of(shell: Arc<Shell>) -> Pages {
    Arc::new(move |path| match path {
        "/json" | "/json/" => {
            let (view, now) = shell.view();
            Some(Page::json(master_json(&view, now)))
        }
        "/metrics/master/json" | "/metrics/master/json/" => {
            let view = shell.view().0;
            Some(Page::json(metrics(&view, shell.longest_round())))
        }
        "/" => Some(Page::html(overview(&shell.view().0))),
        _ => None,
    })
}

/// Spark's gauges, and what the longest decision took.
fn metrics(view: &MasterView, longest_round: Duration) -> String {
    let alive = view.workers.iter().filter(|worker| worker.status == WorkerStatus::Alive).count();
    let waiting = |app: &&ApplicationView| app.state == ApplicationState::Waiting;
    let gauges = [
        ("master.aliveWorkers", alive as u128),
        ("master.apps", view.active_apps.len() as u128),
        ("master.longestRoundMicros", longest_round.as_micros()),
        ("master.waitingApps", view.active_apps.iter().filter(waiting).count() as u128),
        ("master.workers", view.workers.len() as u128),
    ];
    let gauges = gauges.map(|(name, value)| format!("\"{name}\":{{\"value\":{value}}}"));
    format!(
        "{{\"version\":\"4.0.0\",\"gauges\":{{{}}},\"counters\":{{}},\"histograms\":{{}},\"meters\":{{}},\"timers\":{{}}}}",
        gauges.join(",")
    )
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use firesteel_standalone_core::master::{Master, MasterOptions};

    use super::metrics;

    #[test]
    fn gauges_are_told_as_spark_tells_them_and_the_longest_decision_with_them() {
        let master = Master::new(MasterOptions::default());
        let text = metrics(&master.view(), Duration::from_micros(1234));
        assert!(text.starts_with(r#"{"version":"4.0.0","gauges":{"#), "{text}");
        for gauge in ["master.aliveWorkers", "master.apps", "master.waitingApps", "master.workers"]
        {
            assert!(text.contains(&format!(r#""{gauge}":{{"value":0}}"#)), "{gauge}: {text}");
        }
        assert!(text.contains(r#""master.longestRoundMicros":{"value":1234}"#), "{text}");
    }
}
