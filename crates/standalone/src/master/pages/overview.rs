//! What the master's pages say: workers, applications and drivers, with what they use as bars, where their own pages and logs are,
//! and a button for those that can be killed.

use std::ops::Range;

use firesteel_standalone_core::date;
use firesteel_standalone_core::master::{
    ApplicationView, DriverView, ExecutorView, MasterView, WorkerStatus, WorkerView,
};
use firesteel_types::Tick;

use crate::master::proxy;
use crate::page::{Cell, Html, KillForm, TablePages};
use crate::web::{Query, encoded};

/// So many rows of a table are shown at once.
const ROWS: usize = 50;

/// What a page is made of.
pub(super) struct Asked<'a> {
    pub(super) view: &'a MasterView,
    pub(super) now: Tick,
    /// In front of every link to a page of the master. No slash at its end.
    pub(super) root: &'a str,
    pub(super) query: &'a Query,
    /// Of forms that kill; `None`: who asks may not.
    pub(super) token: Option<&'a str>,
    /// Whether pages of others are shown below the master's own.
    pub(super) proxies: bool,
}

/// The parts of a page that are paged by themselves.
const PARTS: [&str; 5] = ["workers", "apps", "completedApps", "drivers", "completedDrivers"];

impl Asked<'_> {
    /// The rows that are asked for of so many.
    fn part(&self, name: &str, total: usize) -> (Range<usize>, TablePages) {
        let last = total.div_ceil(ROWS).max(1);
        let page = self.query.page(name).min(last);
        let others = PARTS.iter().filter(|other| **other != name);
        let others = others.filter(|other| self.query.page(other) > 1);
        let others = others.map(|other| format!("{other}={}&", self.query.page(other)));
        let link = format!("{}/?{}{name}=", self.root, others.collect::<String>());
        let from = (page - 1) * ROWS;
        (from..(from + ROWS).min(total), TablePages { total, page, last, link })
    }

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
        Html::new(title).below(self.root)
    }
}

fn status(view: &MasterView) -> String {
    match &view.leader {
        Some(leader) => format!("Status: {}, {leader} leads", view.status.name()),
        None => format!("Status: {}", view.status.name()),
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
    let html = asked
        .html(&format!("Firesteel master at {}", view.url))
        .line(&status(view))
        .line(&format!("Workers: {} alive", alive.len()))
        .line(&format!("Cores: {cores_used} of {cores} used"))
        .line(&format!("Memory: {memory_used} of {memory} MB used"));
    let html = workers(html, asked);
    let html = applications(html, asked, "Running applications", "apps", &view.active_apps);
    let html = drivers(html, asked, "Running drivers", "drivers", &view.active_drivers);
    let (heading, parameter) = ("Completed applications", "completedApps");
    let html = applications(html, asked, heading, parameter, &view.completed_apps);
    let (heading, parameter) = ("Completed drivers", "completedDrivers");
    drivers(html, asked, heading, parameter, &view.completed_drivers).finish()
}

fn workers(html: Html, asked: &Asked<'_>) -> Html {
    const COLUMNS: [&str; 7] =
        ["Id", "Address", "State", "Cores used", "Memory used (MB)", "Last heartbeat", ""];
    let (range, pages) = asked.part("workers", asked.view.workers.len());
    let row = |view: &WorkerView| {
        let worker = &view.worker;
        let silent = asked.now.since_ms(view.last_heartbeat) / 1000;
        vec![
            Cell::linked(&worker.id, asked.worker_page(view)),
            Cell::text(&worker.address),
            Cell::text(view.status.name()),
            Cell::text(format!("{} of {}", view.cores_used, worker.cores)),
            Cell::text(format!("{} of {}", view.memory_used_mb, worker.memory_mb)),
            Cell::text(format!("{silent} s ago")),
            match view.status {
                WorkerStatus::Alive => asked.kill("worker", "/workers/kill/", &worker.id.0),
                _ => Cell::default(),
            },
        ]
    };
    let rows = asked.view.workers[range].iter().map(row).collect();
    html.cells("Workers", &COLUMNS, rows, Some(pages))
}

/// Those that are over: the last one first.
fn applications(
    html: Html,
    asked: &Asked<'_>,
    heading: &str,
    parameter: &str,
    all: &[ApplicationView],
) -> Html {
    let is_over = parameter == "completedApps";
    let last = if is_over { "Why it ended" } else { "" };
    let columns = [
        "Id",
        "Name",
        "User",
        "Cores",
        "Memory per executor (MB)",
        "Submitted",
        "Duration",
        "State",
        last,
    ];
    let (range, pages) = asked.part(parameter, all.len());
    let row = |view: &ApplicationView| {
        let description = &view.description;
        vec![
            Cell::linked(&view.app, Some(asked.app_page(view))),
            Cell::linked(&description.name, asked.own_page(view)),
            Cell::text(&description.user),
            Cell::text(view.cores),
            Cell::text(description.memory_per_executor_mb),
            Cell::text(date::readable(view.submitted)),
            Cell::text(duration(view, asked.now)),
            Cell::text(view.state.name()),
            match is_over {
                true => Cell::text(view.message.as_deref().unwrap_or_default()),
                false => asked.kill("application", "/app/kill/", &view.app.0),
            },
        ]
    };
    let rows = in_order(all, range, is_over).map(row).collect();
    html.cells(heading, &columns, rows, Some(pages))
}

fn drivers(
    html: Html,
    asked: &Asked<'_>,
    heading: &str,
    parameter: &str,
    all: &[DriverView],
) -> Html {
    const COLUMNS: [&str; 8] =
        ["Id", "Name", "Worker", "Submitted", "Cores", "Memory (MB)", "State", ""];
    let is_over = parameter == "completedDrivers";
    let (range, pages) = asked.part(parameter, all.len());
    let row = |view: &DriverView| {
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
        let mut named = Cell::linked(worker.map_or("none", |worker| &worker.0), page);
        named.links =
            logs.into_iter().flatten().filter(|(_, to)| crate::page::is_harmless(to)).collect();
        vec![
            Cell::text(&view.driver),
            Cell::text(&view.description.name),
            named,
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
    let rows = in_order(all, range, is_over).map(row).collect();
    html.cells(heading, &COLUMNS, rows, Some(pages))
}

/// A part of a list, from its end if that comes first.
fn in_order<T>(all: &[T], range: Range<usize>, from_end: bool) -> impl Iterator<Item = &T> {
    range.filter_map(move |at| match from_end {
        true => all.len().checked_sub(at + 1).and_then(|at| all.get(at)),
        false => all.get(at),
    })
}

fn duration(view: &ApplicationView, now: Tick) -> String {
    let seconds = view.ended.unwrap_or(now).since_ms(view.submitted) / 1000;
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
    let description = &view.description;
    let most =
        description.max_cores.map_or_else(String::new, |most| format!(" of {most} asked for"));
    let mut html = asked
        .html(&format!("Application {}: {}", view.app, description.name))
        .line(&format!("State: {}", view.state.name()))
        .line(&format!("User: {}", description.user))
        .line(&format!("Cores: {}{most}", view.cores))
        .line(&format!("Memory per executor: {} MB", description.memory_per_executor_mb))
        .line(&format!("Submitted: {}", date::readable(view.submitted)))
        .line(&format!("Duration: {}", duration(view, asked.now)));
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
    html = html.cells("Links", &["Where"], links.map(|it| vec![it]).collect(), None);
    const COLUMNS: [&str; 6] = ["Executor", "Worker", "Cores", "Memory (MB)", "State", "Logs"];
    let (range, pages) = asked.part("executors", view.executors.len());
    let link = format!("{}&executors=", asked.app_page(view));
    let pages = TablePages { link, ..pages };
    let rows = view.executors[range].iter().map(|it| executor(asked, view, it)).collect();
    Some(html.cells("Executors", &COLUMNS, rows, Some(pages)).finish())
}

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
