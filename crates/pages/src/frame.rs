//! What all pages have around them: head, navigation, foot; and where links lead.

use std::collections::BTreeSet;

use firesteel_conf::Redaction;
use firesteel_monitor::rest::Query;
use firesteel_status::AppStatus;
use firesteel_types::{ExecutorId, JobId, RddId, StageRef, Tick};
use maud::{DOCTYPE, Markup, html};

use crate::assets;
use crate::badge;
use crate::known::Known;
use crate::live::{fingerprint, identity};
use crate::text::{encoded, moment, short};

/// Where a page is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// By the application itself: what it shows may change.
    Live,
    /// By a history server.
    History,
    /// In a file of its own, with all other pages of the application.
    Report,
}

/// What a report has a place for: links lead nowhere else.
#[derive(Default)]
pub(crate) struct Drawn {
    pub(crate) jobs: BTreeSet<JobId>,
    pub(crate) stages: BTreeSet<StageRef>,
    pub(crate) executors: BTreeSet<ExecutorId>,
}

/// What a page needs to know besides the status.
pub(crate) struct Frame<'a> {
    pub(crate) place: Place,
    /// In front of every link: where a proxy shows this server. No slash at its end.
    pub(crate) root: String,
    /// In front of links to pages of this application. No slash at its end.
    pub(crate) home: String,
    /// Of this page, behind `home`.
    pub(crate) path: String,
    pub(crate) query: Query,
    pub(crate) now: Tick,
    /// When everything ended that has not.
    pub(crate) end: Tick,
    /// What was found out before.
    pub(crate) known: &'a Known,
    /// What is not shown.
    pub(crate) secrets: &'a Redaction,
    /// Proves that a form comes from a page of ours; `None`: nothing can be killed.
    pub(crate) token: Option<&'a str>,
    /// What a report has a place for; empty on a page.
    pub(crate) drawn: Drawn,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tab {
    Overview,
    Jobs,
    Stages,
    Storage,
    Environment,
    Executors,
}

impl Tab {
    const ALL: [(Tab, &'static str, &'static str); 6] = [
        (Tab::Overview, "Overview", "/"),
        (Tab::Jobs, "Jobs", "/jobs/"),
        (Tab::Stages, "Stages", "/stages/"),
        (Tab::Storage, "Storage", "/storage/"),
        (Tab::Environment, "Environment", "/environment/"),
        (Tab::Executors, "Executors", "/executors/"),
    ];

    /// Where it is in a report.
    fn anchor(self) -> &'static str {
        match self {
            Tab::Overview => "#overview",
            Tab::Jobs => "#jobs",
            Tab::Stages => "#stages",
            Tab::Storage => "#storage",
            Tab::Environment => "#environment",
            Tab::Executors => "#executors",
        }
    }
}

impl Frame<'_> {
    pub(crate) fn tab(&self, tab: Tab) -> String {
        let path = Tab::ALL.iter().find(|(known, ..)| *known == tab).map_or("/", |(.., path)| path);
        match self.place {
            Place::Report => tab.anchor().to_owned(),
            _ => format!("{}{path}", self.home),
        }
    }

    pub(crate) fn job(&self, job: JobId) -> String {
        match self.place {
            Place::Report if self.drawn.jobs.contains(&job) => format!("#job-{job}"),
            Place::Report => Tab::Jobs.anchor().to_owned(),
            _ => format!("{}/jobs/job/?id={job}", self.home),
        }
    }

    pub(crate) fn stage(&self, stage: StageRef) -> String {
        let is_drawn = self.drawn.stages.contains(&stage);
        let StageRef { stage, attempt } = stage;
        match self.place {
            Place::Report if is_drawn => format!("#stage-{stage}-{attempt}"),
            Place::Report => Tab::Stages.anchor().to_owned(),
            _ => format!("{}/stages/stage/?id={stage}&attempt={attempt}", self.home),
        }
    }

    pub(crate) fn rdd(&self, rdd: RddId) -> String {
        match self.place {
            Place::Report => "#storage".to_owned(),
            _ => format!("{}/storage/rdd/?id={rdd}", self.home),
        }
    }

    /// To where an executor stands on the page of executors: on the part of the list that has it.
    pub(crate) fn executor(&self, executor: ExecutorId) -> String {
        match self.place {
            Place::Report if self.drawn.executors.contains(&executor) => {
                format!("#executor-{executor}")
            }
            Place::Report => Tab::Executors.anchor().to_owned(),
            _ => format!("{}/executors/?at={executor}#executor-{executor}", self.home),
        }
    }

    /// To the tasks of a stage attempt on one executor, by its name.
    pub(crate) fn tasks_on(&self, stage: StageRef, executor: &str) -> String {
        match self.place {
            Place::Report => self.stage(stage),
            _ => format!("{}&executor={}#tasks", self.stage(stage), encoded(executor)),
        }
    }

    /// To this page with other parameters; those with no value go.
    pub(crate) fn with(&self, changes: &[(&str, Option<&str>)]) -> String {
        let kept = self.query.iter().filter(|(name, _)| changes.iter().all(|(new, _)| new != name));
        let new = changes.iter().filter_map(|(name, value)| Some((*name, (*value)?)));
        let pairs: Vec<String> = kept
            .chain(new)
            .map(|(name, value)| format!("{}={}", encoded(name), encoded(value)))
            .collect();
        match pairs.is_empty() {
            true => format!("{}{}", self.home, self.path),
            false => format!("{}{}?{}", self.home, self.path, pairs.join("&")),
        }
    }

    pub(crate) fn is_live(&self) -> bool {
        self.place == Place::Live
    }

    /// Until when something took that may not have ended.
    pub(crate) fn until(&self, ended: Option<Tick>) -> Tick {
        ended.unwrap_or(self.end)
    }
}

/// When everything ended that has not: with the application, now, or with the last event of a log that just ends.
pub(crate) fn end(place: Place, status: &AppStatus, now: Tick) -> Tick {
    status.application().ended.unwrap_or_else(|| match place {
        Place::Live => now,
        _ => status.last_moment(),
    })
}

/// What the script of a page needs to know to keep it up to date.
#[derive(Clone, Copy)]
pub(crate) struct Followed<'a> {
    /// Where it is told of changes; `None`: there will be none.
    pub(crate) events: Option<&'a str>,
    /// Stands for what the page shows.
    pub(crate) state: u64,
    /// Stands for the application, or the process: another one may take its port.
    pub(crate) application: u64,
}

/// Where the script says how old the page is, and stops.
fn as_of(now: Tick) -> Markup {
    html! { span.live { span #live { "As of " (moment(now)) } " " button #pause type="button" hidden { "Pause" } } }
}

fn document(
    root: &str,
    title: &str,
    header: &Markup,
    main: &Markup,
    followed: Option<Followed<'_>>,
) -> Markup {
    let number = |of: fn(Followed<'_>) -> u64| followed.map(|it| format!("{:016x}", of(it)));
    let events = followed.and_then(|it| it.events);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                link rel="icon" href=(assets::ICON);
                link rel="stylesheet" href=(format!("{root}{}", assets::style_path()));
                @if events.is_some() {
                    script defer src=(format!("{root}{}", assets::script_path())) {}
                }
            }
            body data-events=[events] data-state=[number(|it| it.state)] data-application=[number(|it| it.application)] {
                a.skip href="#main" { "Skip to content" }
                (header)
                main #main tabindex="-1" { (main) }
                footer { "Firesteel " (env!("CARGO_PKG_VERSION")) " · all times are UTC" }
            }
        }
    }
}

/// A page of an application.
pub(crate) fn page(
    frame: &Frame<'_>,
    status: &AppStatus,
    tab: Tab,
    title: &str,
    main: &Markup,
) -> Markup {
    framed(frame, status, (tab, title), main, status.application().ended.is_none())
}

/// A page that shows a moment: it is asked for again by hand.
pub(crate) fn still_page(
    frame: &Frame<'_>,
    status: &AppStatus,
    tab: Tab,
    title: &str,
    main: &Markup,
) -> Markup {
    framed(frame, status, (tab, title), main, false)
}

fn framed(
    frame: &Frame<'_>,
    status: &AppStatus,
    (tab, title): (Tab, &str),
    main: &Markup,
    changes: bool,
) -> Markup {
    let application = status.application();
    let name = if application.name.is_empty() { "Application" } else { &application.name };
    let name = &short(name, 300);
    let events = format!("{}/events", frame.home);
    let is_live = frame.is_live() && changes;
    let header = html! {
        header {
            div.top {
                a.brand href=(format!("{}/", frame.root)) {
                    (assets::mark()) span { "Firesteel" }
                }
                span.app { (name) } " " span #state { (badge::application(application, frame.is_live())) }
                @if is_live { (as_of(frame.now)) }
            }
            nav aria-label="Application" { ul {
                @for (known, title, _) in Tab::ALL {
                    li { a href=(frame.tab(known)) aria-current=[(known == tab).then_some("page")] { (title) } }
                }
            } }
        }
    };
    let title = format!("{title} · {name} · Firesteel");
    let followed = Followed {
        events: is_live.then_some(events.as_str()),
        state: fingerprint(status),
        application: identity(status),
    };
    document(&frame.root, &title, &header, main, frame.is_live().then_some(followed))
}

/// A page of something else: a list of applications, a refusal.
pub(crate) fn plain(root: &str, title: &str, links: &[(&str, String)], main: &Markup) -> Markup {
    told(root, title, links, main, None)
}

/// The same, perhaps kept up to date: a master, a worker.
pub(crate) fn told(
    root: &str,
    title: &str,
    links: &[(&str, String)],
    main: &Markup,
    followed: Option<(Followed<'_>, Tick)>,
) -> Markup {
    let header = html! {
        header {
            div.top {
                a.brand href=(format!("{root}/")) { (assets::mark()) span { "Firesteel" } }
                span.app { (title) }
                @if let Some((_, now)) = followed { (as_of(now)) }
            }
            @if !links.is_empty() {
                nav aria-label="Pages" { ul {
                    @for (title, link) in links { li { a href=(link) { (title) } } }
                } }
            }
        }
    };
    document(root, &format!("{title} · Firesteel"), &header, main, followed.map(|(it, _)| it))
}
