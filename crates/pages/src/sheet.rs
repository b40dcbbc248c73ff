//! Pages of tables: those of a master and a worker. What is used of something (`3 of 8`) is drawn as a bar, states as signs. Who made
//! the tables sorts, searches and pages them; what is shown here are links and fields for that.

use firesteel_types::Tick;
use maud::{Markup, html};

use crate::badge::badge;
use crate::chart::gauge;
use crate::frame::{self, Followed};
use crate::text::{count, counted, key};

/// A table of a page: its heading, columns and cells.
pub struct SheetTable<'a> {
    pub heading: &'a str,
    pub columns: Vec<SheetColumn>,
    pub rows: Vec<Vec<SheetCell<'a>>>,
    /// Of a long table, where the other rows are.
    pub pages: Option<SheetPages<'a>>,
    pub search: Option<SheetSearch<'a>>,
}

/// A column of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SheetColumn {
    /// Empty: what can be done with the row.
    pub title: String,
    /// Where the table is sorted by this column; `None`: nowhere.
    pub link: Option<String>,
    /// Whether the table is sorted by it, from small to large or from large to small.
    pub order: Option<SheetOrder>,
}

/// How a table is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SheetOrder {
    Ascending,
    Descending,
}

/// A field that searches a table.
pub struct SheetSearch<'a> {
    /// The path of the page.
    pub action: &'a str,
    /// The parameter, and what it is now.
    pub name: &'a str,
    pub value: &'a str,
    /// Other parameters of the page.
    pub others: &'a [(String, String)],
}

/// Which part of a table is shown.
pub struct SheetPages<'a> {
    /// The rows of all pages.
    pub total: usize,
    /// From 1.
    pub page: usize,
    pub last: usize,
    /// The address of a page, but for its number, which follows.
    pub link: &'a str,
}

/// What stands in a table.
#[derive(Default)]
pub struct SheetCell<'a> {
    pub text: &'a str,
    /// Where the text leads.
    pub link: Option<&'a str>,
    /// Further words, and where they lead.
    pub links: &'a [(String, String)],
    pub kill: Option<SheetKill<'a>>,
}

/// A button that ends something.
pub struct SheetKill<'a> {
    /// `Kill` or `Decommission`.
    pub verb: &'a str,
    /// `application`, `driver` or `worker`.
    pub what: &'a str,
    pub id: &'a str,
    /// The path that the form is sent to.
    pub action: &'a str,
    /// Proves that the form comes from a page of this server.
    pub token: &'a str,
}

/// A page of a master or a worker.
#[derive(Default)]
pub struct SheetPage<'a> {
    pub title: &'a str,
    /// Where a proxy shows the server.
    pub root: &'a str,
    pub lines: &'a [String],
    /// What they are called, and where they lead.
    pub links: &'a [(String, String)],
    /// Lines of text as a process printed them.
    pub text: Option<&'a str>,
    pub tables: &'a [SheetTable<'a>],
    /// What keeps it up to date; `None`: it shows a moment.
    pub live: Option<SheetLive>,
}

/// What a page that is kept up to date shows. Its server's `/events` tells it of another state, as `live` does of applications: the
/// event `hello`, then `changed`, each with both numbers in 16 digits of base 16 and a space between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SheetLive {
    /// Stands for what is shown.
    pub state: u64,
    /// Stands for the process that shows it: another one may take its port.
    pub process: u64,
    pub now: Tick,
}

/// So many rows of a table are shown.
const ROWS: usize = 500;
/// A text of so few bytes stays on one line.
const SHORT: usize = 14;
/// A table of so few rows has no field to search it.
const FEW: usize = 10;

/// A whole page, as HTML.
pub fn sheet(page: &SheetPage<'_>) -> String {
    let SheetPage { title, root, lines, links, text, tables, live } = *page;
    let events = format!("{root}/events");
    let main = html! {
        // The head of the page says it already.
        h1.hidden { (title) }
        (facts(lines))
        @if !links.is_empty() { p { @for (name, to) in links { a href=(to) { (name) } " " } } }
        @if let Some(text) = text { pre.log tabindex="0" aria-label=(title) role="region" { (text) } }
        @for table in tables { (section(table)) }
        p { a href=(format!("{root}/json/")) { "as JSON" } }
    };
    let followed = live.map(|SheetLive { state, process, now }| {
        (Followed { events: Some(&events), state, application: process }, now)
    });
    let anchor = |table: &SheetTable<'_>| {
        let title = format!("{} ({})", table.heading, count(table.total() as u64));
        (title, format!("#{}", key("table", table.heading)))
    };
    let anchors: Vec<(String, String)> = tables.iter().map(anchor).collect();
    let anchors: Vec<(&str, String)> =
        anchors.iter().map(|(title, to)| (title.as_str(), to.clone())).collect();
    let anchors = if anchors.len() > 1 { &anchors[..] } else { &[] };
    frame::told(root, title, anchors, &main, followed).into_string()
}

impl SheetTable<'_> {
    /// Rows of all its pages.
    fn total(&self) -> usize {
        self.pages.as_ref().map_or(self.rows.len(), |pages| pages.total)
    }

    /// Whether a column has numbers and nothing else.
    fn is_number(&self, column: usize) -> bool {
        let texts = || self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.text);
        texts().any(|text| !text.is_empty())
            && texts().all(|text| text.bytes().all(|it| it.is_ascii_digit()))
    }
}

/// The style sheet's type and text, if this is its path.
pub fn asset(path: &str) -> Option<(&'static str, &'static str)> {
    crate::assets::find(path)
}

/// Lines such as `Cores: 3 of 8 used` beside each other; others below.
fn facts(lines: &[String]) -> Markup {
    html! {
        dl.facts { @for (name, value) in lines.iter().filter_map(|line| line.split_once(": ")) {
            div { dt { (name) } dd { (value_of(value)) } }
        } }
        @for text in lines.iter().filter(|line| !line.contains(": ")) { p { (text) } }
    }
}

fn value_of(value: &str) -> Markup {
    html! {
        @match used(value) {
            Some((part, whole)) => { (gauge(part, whole, value)) span.numbers { (value) } }
            None => (word(value)),
        }
    }
}

fn section(table: &SheetTable<'_>) -> Markup {
    let SheetTable { heading, columns, rows, pages, search } = table;
    let total = table.total();
    let is_number: Vec<bool> = (0..columns.len()).map(|column| table.is_number(column)).collect();
    let is_searched = search.as_ref().is_some_and(|it| !it.value.is_empty());
    html! {
        h2 id=(key("table", heading)) { (heading) " " span.dim { "(" (count(total as u64)) ")" } }
        @if let Some(search) = search.as_ref().filter(|_| is_searched || total > FEW) { (field(heading, search)) }
        @if rows.is_empty() { p.dim { @if is_searched { "Nothing here is like that." } @else { "None." } } } @else {
            table.sheet aria-label=(heading) {
                thead { tr { @for (column, is_number) in columns.iter().zip(&is_number) { (column_head(column, *is_number)) } } }
                tbody { @for row in rows.iter().take(ROWS) {
                    tr { @for ((column, is_number), text) in columns.iter().zip(&is_number).zip(row) {
                        td.num[*is_number] data-label=(column.title) { (cell(text)) }
                    } }
                } }
            }
            @if rows.len() > ROWS { p.dim { (counted((rows.len() - ROWS) as u64, "more row")) ": see the JSON." } }
            @if let Some(pages) = pages { (pager(heading, pages)) }
        }
    }
}

fn column_head(column: &SheetColumn, is_number: bool) -> Markup {
    let (order, sign) = match column.order {
        Some(SheetOrder::Ascending) => (Some("ascending"), " ▲"),
        Some(SheetOrder::Descending) => (Some("descending"), " ▼"),
        None => (None, ""),
    };
    html! {
        th.num[is_number] scope="col" aria-sort=[order] {
            @match &column.link {
                Some(link) => a href=(link) { (column.title) span aria-hidden="true" { (sign) } },
                None if column.title.is_empty() => span.hidden { "What can be done" },
                None => (column.title),
            }
        }
    }
}

fn field(heading: &str, search: &SheetSearch<'_>) -> Markup {
    let SheetSearch { action, name, value, others } = search;
    let label = format!("Search {}", heading.to_lowercase());
    html! {
        form.search data-key=(name) method="get" action=(action) role="search" aria-label=(label) {
            @for (name, value) in *others { input type="hidden" name=(name) value=(value); }
            label { (label) " " input type="search" name=(name) value=(value); }
            button type="submit" { "Show" }
        }
    }
}

fn pager(heading: &str, pages: &SheetPages<'_>) -> Markup {
    let SheetPages { page, last, link, .. } = pages;
    let to = |title: &str, page: usize, is_there: bool| {
        html! {
            @if is_there { a href=(format!("{link}{page}")) { (title) } } @else { span.off { (title) } }
        }
    };
    html! {
        @if *last > 1 {
            nav.pager aria-label=(format!("Pages of {heading}")) {
                span { "Page " (page) " of " (last) }
                (to("First", 1, *page > 1))
                (to("Previous", page.saturating_sub(1), *page > 1))
                (to("Next", page + 1, page < last))
                (to("Last", *last, page < last))
            }
        }
    }
}

/// The numbers of `3 of 8` and what may follow.
fn used(text: &str) -> Option<(u64, u64)> {
    let (part, rest) = text.split_once(" of ")?;
    let whole = rest.split(' ').next()?;
    Some((part.parse().ok()?, whole.parse().ok()?))
}

fn cell(cell: &SheetCell<'_>) -> Markup {
    html! {
        @match (cell.link, used(cell.text)) {
            (Some(link), _) => a.whole[cell.text.len() <= SHORT] href=(link) { (cell.text) },
            (None, Some((part, whole))) => { (gauge(part, whole, cell.text)) span.numbers { (cell.text) } }
            (None, None) => (word(cell.text)),
        }
        @for (text, link) in cell.links { " " a href=(link) { (text) } }
        @if let Some(kill) = &cell.kill { (kill_form(kill)) }
    }
}

/// Folded, so that no stray click ends anything.
fn kill_form(kill: &SheetKill<'_>) -> Markup {
    html! {
        details.kill data-key=(key(kill.what, kill.id)) {
            summary { (kill.verb) "…" }
            form method="post" action=(kill.action) {
                input type="hidden" name="id" value=(kill.id);
                input type="hidden" name="terminate" value="true";
                input type="hidden" name="token" value=(kill.token);
                button.danger type="submit" aria-label=(format!("{} {} {}", kill.verb, kill.what, kill.id)) { (kill.verb) " this " (kill.what) }
            }
        }
    }
}

fn word(text: &str) -> Markup {
    match text {
        "ALIVE" | "RUNNING" => badge("good", "✓", text),
        "FINISHED" | "EXITED" => badge("idle", "✓", text),
        "WAITING"
        | "LAUNCHING"
        | "SUBMITTED"
        | "DECOMMISSIONED"
        | "STANDBY"
        | "RECOVERING"
        | "COMPLETING_RECOVERY"
        | "RELAUNCHING" => badge("busy", "…", text),
        "DEAD" | "FAILED" | "KILLED" | "LOST" | "ERROR" | "UNKNOWN" => badge("bad", "✕", text),
        text if text.len() <= SHORT => html! { span.whole { (text) } },
        _ => html! { (text) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> SheetCell<'_> {
        SheetCell { text, ..SheetCell::default() }
    }

    #[test]
    fn what_is_used_is_a_bar_and_what_others_say_is_text() {
        let evil = "<script>alert(1)</script>\"'>".to_owned();
        let links = [(evil.clone(), format!("http://a/{evil}"))];
        let kill = SheetKill {
            verb: "Kill",
            what: "driver",
            id: &evil,
            action: "/driver/kill/",
            token: "abc",
        };
        let last = SheetCell { text: &evil, link: Some(&evil), links: &links, kill: Some(kill) };
        let mut columns = ["Cores", "State", "Name", ""]
            .map(|it| SheetColumn { title: it.to_owned(), ..SheetColumn::default() });
        columns[0].link = Some(format!("/m/?sort={evil}"));
        columns[0].order = Some(SheetOrder::Descending);
        let rows = vec![vec![text("3 of 8"), text("DEAD"), text(&evil), last]];
        let pages = Some(SheetPages { total: 120, page: 2, last: 3, link: "/m/?workers=" });
        let others = [("apps".to_owned(), evil.clone())];
        let search =
            Some(SheetSearch { action: "/m/", name: "workers-q", value: &evil, others: &others });
        let columns = columns.into();
        let table = SheetTable { heading: "Workers", columns, rows, pages, search };
        let live = SheetLive { state: 1, process: 0xab, now: Tick(1_790_000_000_000) };
        let lines = ["Cores: 3 of 8 used".to_owned(), evil.clone()];
        let text = sheet(&SheetPage {
            title: &evil,
            root: "/m",
            lines: &lines,
            links: &[(evil.clone(), "/log?a=1&b=2".to_owned())],
            text: Some(&evil),
            tables: &[table],
            live: Some(live),
        });
        assert!(text.contains("href=\"/log?a=1&amp;b=2\""), "{text}");
        assert_eq!(
            (text.matches("37.5%").count(), text.contains("✕ </span>DEAD")),
            (2, true),
            "{text}"
        );
        assert!(!text.contains("<script>") && !text.contains("\"'>"), "{text}");
        for wanted in [
            "(120)",
            "Page 2 of 3",
            "/m/?workers=1",
            "/m/?workers=3",
            "value=\"abc\"",
            "/m/json/",
            "method=\"post\"",
            "aria-sort=\"descending\"",
            "name=\"workers-q\" value=\"&lt;script&gt;",
            "data-events=\"/m/events\" data-state=\"0000000000000001\" data-application=\"00000000000000ab\"",
            "As of 2026-09-21 14:13:20",
        ] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
        assert_eq!(
            (used("3 of 8 used"), used("a of b"), used("18446744073709551616 of 1")),
            (Some((3, 8)), None, None)
        );
    }
}
