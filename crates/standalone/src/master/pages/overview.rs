//! What the master's pages say: workers, applications and drivers, with what they use as bars, where their own pages and logs are,
//! and a button for those that can be killed.

use std::hash::{DefaultHasher, Hash, Hasher};

use firesteel_standalone_core::date;
use firesteel_standalone_core::master::{
    ApplicationView, DriverView, ExecutorView, MasterView, WorkerStatus, WorkerView,
};

use crate::listing::{At, Key, List};
use crate::master::proxy;
use crate::page::{Cell, Html, KillForm, Live};
use crate::web::{Query, encoded};

/// What a page is made of.
pub(super) struct Asked<'a> {
    pub(super) view: &'a MasterView,
    pub(super) live: Live,
    /// In front of every link to a page of the master. No slash at its end.
    pub(super) root: &'a str,
    pub(super) query: &'a Query,
    /// Of forms that kill; `None`: who asks may not.
    pub(super) token: Option<&'a str>,
    /// Whether pages of others are shown below the master's own.
    pub(super) proxies: bool,
}

/// Another one whenever something that the pages show has changed.
pub(super) fn fingerprint(view: &MasterView) -> u64 {
    let mut hasher = DefaultHasher::new();
    (view.status.name(), &view.leader).hash(&mut hasher);
    for it in &view.workers {
        let used = (it.cores_used, it.memory_used_mb);
        (&it.worker.id, it.status.name(), used, it.last_heartbeat).hash(&mut hasher);
    }
    for it in view.active_apps.iter().chain(&view.completed_apps) {
        (&it.app, it.state.name(), it.cores, it.ended).hash(&mut hasher);
        for executor in &it.executors {
            (executor.executor, executor.state.name()).hash(&mut hasher);
        }
    }
    for it in view.active_drivers.iter().chain(&view.completed_drivers) {
        (&it.driver, it.state.name(), &it.worker).hash(&mut hasher);
    }
    hasher.finish()
}

impl Asked<'_> {
    fn worker_page(&self, worker: &WorkerView) -> Option<String> {
        self.page_of(&worker.worker.id.0, &worker.worker.web_ui)
    }

    /// Where others see it: at its own address, or through the master.
    fn page_of(&self, id: &str, web_ui: &str) -> Option<String> {
        let page = || match self.proxies {
            true => format!("{}/", proxy::path(self.root, id)),
            false => web_ui.to_owned(),
        };
        (!web_ui.is_empty()).then(page)
    }

    /// Of the application itself, while it runs.
    fn own_page(&self, app: &ApplicationView) -> Option<String> {
        let page = self.page_of(&app.app.0, &app.description.web_ui);
        page.filter(|_| app.ended.is_none())
    }

    fn app_page(&self, app: &ApplicationView) -> String {
        format!("{}/app/?appId={}", self.root, encoded(app.app.0.as_bytes(), ""))
    }

    fn kill(&self, what: &'static str, path: &str, id: &str) -> Cell {
        let verb = if what == "worker" { "Decommission" } else { "Kill" };
        let kill = self.token.map(|token| KillForm {
            verb,
            what,
            id: id.to_owned(),
            action: format!("{}{path}", self.root),
            token: token.to_owned(),
        });
        Cell { kill, ..Cell::default() }
    }

    fn html(&self, title: &str) -> Html {
        Html::new(title).below(self.root).live(self.live)
    }
}

/// How the master stands, and which one leads if it does not.
fn status(html: Html, view: &MasterView) -> Html {
    let html = html.line(&format!("Status: {}", view.status.name()));
    match &view.leader {
        Some(leader) => html.line(&format!("Leader: {leader}")),
        None => html,
    }
}

pub(super) fn master(asked: &Asked<'_>) -> String {
    let view = asked.view;
    let alive: Vec<&WorkerView> =
        view.workers.iter().filter(|it| it.status == WorkerStatus::Alive).collect();
    let sum =
        |of: fn(&WorkerView) -> u64| alive.iter().fold(0u64, |sum, it| sum.saturating_add(of(it)));
    let (cores, cores_used) = (sum(|it| it.worker.cores.into()), sum(|it| it.cores_used.into()));
    let (memory, memory_used) = (sum(|it| it.worker.memory_mb), sum(|it| it.memory_used_mb));
    let html = status(asked.html(&format!("Firesteel master at {}", view.url)), view)
        .line(&format!("Workers: {} alive", alive.len()))
        .line(&format!("Cores: {cores_used} of {cores} used"))
        .line(&format!("Memory: {memory_used} of {memory} MB used"));
    let (path, over) = (format!("{}/", asked.root), view.completed_drivers.iter().rev());
    let at = At { path: &path, query: asked.query };
    let html = workers(html, asked, at);
    let list = |heading, name| List { heading, name, columns: &APPLICATIONS };
    let html = applications(
        html,
        asked,
        at,
        &list("Running applications", "apps"),
        view.active_apps.iter(),
    );
    let list = |heading, name| List { heading, name, columns: &DRIVERS };
    let html =
        drivers(html, asked, at, &list("Running drivers", "drivers"), view.active_drivers.iter());
    let ended = List {
        heading: "Completed applications",
        name: "completedApps",
        columns: &COMPLETED_APPLICATIONS,
    };
    // The last one first.
    let html = applications(html, asked, at, &ended, view.completed_apps.iter().rev());
    drivers(html, asked, at, &list("Completed drivers", "completedDrivers"), over).finish()
}

const WORKERS: [(&str, &str); 7] = [
    ("Id", "id"),
    ("Address", "address"),
    ("State", "state"),
    ("Cores used", "cores"),
    ("Memory used (MB)", "memory"),
    ("Last heartbeat", "heartbeat"),
    ("", ""),
];

fn workers(html: Html, asked: &Asked<'_>, at: At<'_>) -> Html {
    let silent_ms = |view: &WorkerView| asked.live.now.since_ms(view.last_heartbeat);
    let key = |view: &&WorkerView, by: &str| match by {
        "address" => Key::text(&view.worker.address),
        "state" => Key::text(view.status.name()),
        "cores" => view.cores_used.into(),
        "memory" => view.memory_used_mb.into(),
        "heartbeat" => silent_ms(view).into(),
        _ => Key::text(&view.worker.id),
    };
    let row = |view: &&WorkerView| {
        let worker = &view.worker;
        vec![
            Cell::linked(&worker.id, asked.worker_page(view)),
            Cell::text(&worker.address),
            Cell::text(view.status.name()),
            Cell::text(format!("{} of {}", view.cores_used, worker.cores)),
            Cell::text(format!("{} of {}", view.memory_used_mb, worker.memory_mb)),
            Cell::text(format!("{} s ago", silent_ms(view) / 1000)),
            match view.status {
                WorkerStatus::Alive => asked.kill("worker", "/workers/kill/", &worker.id.0),
                _ => Cell::default(),
            },
        ]
    };
    let list = List { heading: "Workers", name: "workers", columns: &WORKERS };
    list.add(html, at, asked.view.workers.iter(), key, row)
}

const APPLICATIONS: [(&str, &str); 9] = applications_with(("", ""));
const COMPLETED_APPLICATIONS: [(&str, &str); 9] = applications_with(("Why it ended", "why"));

const fn applications_with(
    last: (&'static str, &'static str),
) -> [(&'static str, &'static str); 9] {
    [
        ("Id", "id"),
        ("Name", "name"),
        ("User", "user"),
        ("Cores", "cores"),
        ("Memory per executor (MB)", "memory"),
        ("Submitted", "submitted"),
        ("Duration", "duration"),
        ("State", "state"),
        last,
    ]
}

fn applications<'a>(
    html: Html,
    asked: &Asked<'_>,
    at: At<'_>,
    list: &List<'_>,
    all: impl Iterator<Item = &'a ApplicationView>,
) -> Html {
    let duration_ms =
        |view: &ApplicationView| view.ended.unwrap_or(asked.live.now).since_ms(view.submitted);
    let key = |view: &&ApplicationView, by: &str| match by {
        "name" => Key::text(&view.description.name),
        "user" => Key::text(&view.description.user),
        "cores" => view.cores.into(),
        "memory" => view.description.memory_per_executor_mb.into(),
        "submitted" => view.submitted.0.into(),
        "duration" => duration_ms(view).into(),
        "state" => Key::text(view.state.name()),
        "why" => Key::text(view.message.as_deref().unwrap_or_default()),
        _ => Key::text(&view.app),
    };
    let is_over = list.name == "completedApps";
    let row = |view: &&ApplicationView| {
        let description = &view.description;
        vec![
            Cell::linked(&view.app, Some(asked.app_page(view))),
            Cell::linked(&description.name, asked.own_page(view)),
            Cell::text(&description.user),
            Cell::text(view.cores),
            Cell::text(description.memory_per_executor_mb),
            Cell::text(date::readable(view.submitted)),
            Cell::text(duration(duration_ms(view))),
            Cell::text(view.state.name()),
            match is_over {
                true => Cell::text(view.message.as_deref().unwrap_or_default()),
                false => asked.kill("application", "/app/kill/", &view.app.0),
            },
        ]
    };
    list.add(html, at, all, key, row)
}

const DRIVERS: [(&str, &str); 8] = [
    ("Id", "id"),
    ("Name", "name"),
    ("Worker", "worker"),
    ("Submitted", "submitted"),
    ("Cores", "cores"),
    ("Memory (MB)", "memory"),
    ("State", "state"),
    ("", ""),
];

fn drivers<'a>(
    html: Html,
    asked: &Asked<'_>,
    at: At<'_>,
    list: &List<'_>,
    all: impl Iterator<Item = &'a DriverView>,
) -> Html {
    let is_over = list.name == "completedDrivers";
    let key = |view: &&DriverView, by: &str| match by {
        "name" => Key::text(&view.description.name),
        "worker" => Key::text(worker_of(view)),
        "submitted" => view.submitted.0.into(),
        "cores" => view.description.cores.into(),
        "memory" => view.description.memory_mb.into(),
        "state" => Key::text(view.state.name()),
        _ => Key::text(&view.driver),
    };
    let row = |view: &&DriverView| {
        vec![
            Cell::text(&view.driver),
            Cell::text(&view.description.name),
            place(asked, view),
            Cell::text(date::readable(view.submitted)),
            Cell::text(view.description.cores),
            Cell::text(view.description.memory_mb),
            Cell::text(view.state.name()),
            match is_over {
                true => Cell::default(),
                false => asked.kill("driver", "/driver/kill/", &view.driver.0),
            },
        ]
    };
    list.add(html, at, all, key, row)
}

fn worker_of(view: &DriverView) -> &str {
    view.worker.as_ref().map_or("none", |worker| &worker.0)
}

/// Where a driver runs, and what it prints there.
fn place(asked: &Asked<'_>, view: &DriverView) -> Cell {
    let worker = view.worker.as_ref();
    let known = worker.and_then(|id| asked.view.workers.iter().find(|it| it.worker.id == *id));
    let page = known.and_then(|known| asked.worker_page(known));
    let logs = page.clone().map(|page| {
        let id = encoded(view.driver.0.as_bytes(), "");
        ["stdout", "stderr"].map(|log| {
            (
                log.to_owned(),
                format!("{}/logPage/?driverId={id}&logType={log}", page.trim_end_matches('/')),
            )
        })
    });
    let mut named = Cell::linked(worker_of(view), page);
    named.links =
        logs.into_iter().flatten().filter(|(_, to)| crate::page::is_harmless(to)).collect();
    named
}

fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// One application; `None`: there is none of this id.
pub(super) fn application(asked: &Asked<'_>, id: &str) -> Option<String> {
    let mut all = asked.view.active_apps.iter().chain(&asked.view.completed_apps);
    let view = all.find(|it| *it.app.0 == *id)?;
    let (description, lasted) = (&view.description, view.ended.unwrap_or(asked.live.now));
    let most =
        description.max_cores.map_or_else(String::new, |most| format!(" of {most} asked for"));
    let mut html = asked
        .html(&format!("Application {}: {}", view.app, description.name))
        .line(&format!("State: {}", view.state.name()))
        .line(&format!("User: {}", description.user))
        .line(&format!("Cores: {}{most}", view.cores))
        .line(&format!("Memory per executor: {} MB", description.memory_per_executor_mb))
        .line(&format!("Submitted: {}", date::readable(view.submitted)))
        .line(&format!("Duration: {}", duration(lasted.since_ms(view.submitted))));
    if let Some(message) = &view.message {
        html = html.line(&format!("Why it ended: {message}"));
    }
    let links = [
        Cell::linked("all applications", Some(format!("{}/", asked.root))),
        Cell::linked("pages of the application", asked.own_page(view)),
        asked.kill("application", "/app/kill/", &view.app.0),
    ];
    let links = links.into_iter().filter(|it| it.link.is_some() || it.kill.is_some());
    let links = links.filter(|it| it.kill.is_none() || view.ended.is_none());
    html = html.table("Links", &["Where"], links.map(|it| vec![it]).collect());
    let path = format!("{}/app/", asked.root);
    let at = At { path: &path, query: asked.query };
    let list = List { heading: "Executors", name: "executors", columns: &EXECUTORS };
    let key = |view: &&ExecutorView, by: &str| match by {
        "worker" => Key::text(&view.worker),
        "cores" => view.cores.into(),
        "memory" => view.memory_mb.into(),
        "state" => Key::text(view.state.name()),
        _ => view.executor.0.into(),
    };
    let row = |it: &&ExecutorView| executor(asked, view, it);
    Some(list.add(html, at, view.executors.iter(), key, row).finish())
}

const EXECUTORS: [(&str, &str); 6] = [
    ("Executor", "id"),
    ("Worker", "worker"),
    ("Cores", "cores"),
    ("Memory (MB)", "memory"),
    ("State", "state"),
    ("Logs", ""),
];

fn executor(asked: &Asked<'_>, app: &ApplicationView, view: &ExecutorView) -> Vec<Cell> {
    let worker = asked.view.workers.iter().find(|it| it.worker.id == view.worker);
    let page = worker.and_then(|worker| asked.worker_page(worker));
    let log = |log: &str| {
        let page = page.as_deref()?.trim_end_matches('/');
        let (app, executor) = (encoded(app.app.0.as_bytes(), ""), view.executor);
        let to = format!("{page}/logPage/?appId={app}&executorId={executor}&logType={log}");
        Some((log.to_owned(), to)).filter(|(_, to)| crate::page::is_harmless(to))
    };
    let links = ["stdout", "stderr"].into_iter().filter_map(log).collect();
    vec![
        Cell::text(view.executor),
        Cell::linked(&view.worker, page.clone()),
        Cell::text(view.cores),
        Cell::text(view.memory_mb),
        Cell::text(view.state.name()),
        Cell { links, ..Cell::default() },
    ]
}

#[cfg(test)]
mod tests {
    use firesteel_standalone_core::master::RecoveryState;

    use super::*;

    #[test]
    fn a_standby_says_so_and_names_its_leader_each_by_itself() {
        let view = MasterView {
            url: "spark://a:7077".to_owned(),
            status: RecoveryState::Standby,
            leader: Some("spark://b:7077".to_owned()),
            workers: Vec::new(),
            active_apps: Vec::new(),
            completed_apps: Vec::new(),
            active_drivers: Vec::new(),
            completed_drivers: Vec::new(),
        };
        let page = status(Html::new("a master"), &view).finish();
        assert!(page.contains("<p>Status: STANDBY</p>"), "{page}");
        assert!(page.contains("<p>Leader: spark://b:7077</p>"), "{page}");
        let alone = status(Html::new("a master"), &MasterView { leader: None, ..view }).finish();
        assert!(!alone.contains("Leader"), "{alone}");
    }
}
