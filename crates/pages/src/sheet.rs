//! Pages of tables: those of a master and a worker. What is used of something (`3 of 8`) is drawn as a bar, states as signs.

use maud::{Markup, html};

use crate::badge::badge;
use crate::chart::gauge;
use crate::frame;
use crate::text::{count, counted};

/// A table of a page: its heading, columns and cells.
pub struct SheetTable<'a> {
    pub heading: &'a str,
    pub columns: &'a [String],
    pub rows: Vec<Vec<SheetCell<'a>>>,
    /// Of a long table, where the other rows are.
    pub pages: Option<SheetPages<'a>>,
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
}

/// So many rows of a table are shown.
const ROWS: usize = 500;

/// A whole page, as HTML.
pub fn sheet(page: &SheetPage<'_>) -> String {
    let SheetPage { title, root, lines, links, text, tables } = *page;
    let main = html! {
        h1 { (title) }
        (facts(lines))
        @if !links.is_empty() { p { @for (name, to) in links { a href=(to) { (name) } " " } } }
        @if let Some(text) = text { pre { (text) } }
        @for table in tables { (section(table)) }
        p { a href=(format!("{root}/json/")) { "as JSON" } }
    };
    frame::plain(root, title, &[], &main).into_string()
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
    let SheetTable { heading, columns, rows, pages } = table;
    let total = pages.as_ref().map_or(rows.len(), |pages| pages.total);
    html! {
        h2 { (heading) " " span.dim { "(" (count(total as u64)) ")" } }
        @if rows.is_empty() { p.dim { "None." } } @else {
            table aria-label=(heading) {
                thead { tr { @for column in *columns {
                    th scope="col" { @if column.is_empty() { span.hidden { "What can be done" } } @else { (column) } }
                } } }
                tbody { @for row in rows.iter().take(ROWS) {
                    tr { @for (column, text) in columns.iter().zip(row) { td data-label=(column) { (cell(text)) } } }
                } }
            }
            @if rows.len() > ROWS { p.dim { (counted((rows.len() - ROWS) as u64, "more row")) ": see the JSON." } }
            @if let Some(pages) = pages { (pager(heading, pages)) }
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
            (Some(link), _) => a href=(link) { (cell.text) },
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
        details.kill {
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
        let columns = ["Cores", "State", "Name", ""].map(str::to_owned);
        let rows = vec![vec![text("3 of 8"), text("DEAD"), text(&evil), last]];
        let pages = Some(SheetPages { total: 120, page: 2, last: 3, link: "/m/?workers=" });
        let table = SheetTable { heading: "Workers", columns: &columns, rows, pages };
        let lines = ["Cores: 3 of 8 used".to_owned(), evil.clone()];
        let text = sheet(&SheetPage {
            title: &evil,
            root: "/m",
            lines: &lines,
            links: &[(evil.clone(), "/log?a=1&b=2".to_owned())],
            text: Some(&evil),
            tables: &[table],
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
        ] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
        assert_eq!(
            (used("3 of 8 used"), used("a of b"), used("18446744073709551616 of 1")),
            (Some((3, 8)), None, None)
        );
    }
}
