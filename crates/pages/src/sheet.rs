//! Pages of tables: those of a master and a worker. What is used of something (`3 of 8`) is drawn as a bar, states as signs.

use maud::{Markup, html};

use crate::badge::badge;
use crate::chart::gauge;
use crate::frame;
use crate::text::counted;

/// A table of a page: its heading, columns and cells.
pub struct SheetTable<'a> {
    pub heading: &'a str,
    pub columns: &'a [String],
    pub rows: &'a [Vec<String>],
}

/// A page of a master or a worker.
#[derive(Default)]
pub struct SheetPage<'a> {
    pub title: &'a str,
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
    let SheetPage { title, lines, links, text, tables } = *page;
    let main = html! {
        h1 { (title) }
        @for text in lines { (line(text)) }
        @if !links.is_empty() { p { @for (name, to) in links { a href=(to) { (name) } " " } } }
        @if let Some(text) = text { pre { (text) } }
        @for table in tables { (section(table)) }
        p { a href="/json/" { "as JSON" } }
    };
    frame::plain("", title, &[], &main).into_string()
}

/// The style sheet's type and text, if this is its path.
pub fn asset(path: &str) -> Option<(&'static str, &'static str)> {
    crate::assets::find(path)
}

/// `Cores: 3 of 8 used`
fn line(text: &str) -> Markup {
    let said = text.split_once(": ");
    let used = said.and_then(|(_, value)| used(value));
    html! {
        @match (said, used) {
            (Some((name, value)), Some((part, whole))) => div.run { p { (name) ": " strong { (value) } } (gauge(part, whole, value)) },
            (Some((name, value)), None) => p { (name) ": " strong { (cell(value)) } },
            (None, _) => p { (text) },
        }
    }
}

fn section(table: &SheetTable<'_>) -> Markup {
    let SheetTable { heading, columns, rows } = table;
    html! {
        h2 { (heading) " " span.dim { "(" (rows.len()) ")" } }
        @if rows.is_empty() { p.dim { "None." } } @else {
            table aria-label=(heading) {
                thead { tr { @for column in *columns { th scope="col" { (column) } } } }
                tbody { @for row in rows.iter().take(ROWS) {
                    tr { @for (column, text) in columns.iter().zip(row) { td data-label=(column) { (cell(text)) } } }
                } }
            }
            @if rows.len() > ROWS { p.dim { (counted((rows.len() - ROWS) as u64, "more row")) ": see the JSON." } }
        }
    }
}

/// The numbers of `3 of 8` and what may follow.
fn used(text: &str) -> Option<(u64, u64)> {
    let (part, rest) = text.split_once(" of ")?;
    let whole = rest.split(' ').next()?;
    Some((part.parse().ok()?, whole.parse().ok()?))
}

fn cell(text: &str) -> Markup {
    if let Some((part, whole)) = used(text) {
        return html! { (gauge(part, whole, text)) span.numbers { (text) } };
    }
    match text {
        "ALIVE" | "RUNNING" => badge("good", "✓", text),
        "FINISHED" | "EXITED" => badge("idle", "✓", text),
        "WAITING"
        | "SUBMITTED"
        | "STANDBY"
        | "RECOVERING"
        | "COMPLETING_RECOVERY"
        | "RELAUNCHING" => badge("busy", "…", text),
        "DEAD" | "FAILED" | "KILLED" | "LOST" | "ERROR" | "UNKNOWN" | "DECOMMISSIONED" => {
            badge("bad", "✕", text)
        }
        _ => html! { (text) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_is_a_bar_and_what_others_say_is_text() {
        let evil = "<script>alert(1)</script>".to_owned();
        let rows = [vec!["3 of 8".to_owned(), "DEAD".to_owned(), evil.clone()]];
        let columns = ["Cores", "State", "Name"].map(str::to_owned);
        let table = SheetTable { heading: "Workers", columns: &columns, rows: &rows };
        let text = sheet(&SheetPage {
            title: &evil,
            lines: &["Cores: 3 of 8 used".to_owned(), evil.clone()],
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
        assert!(!text.contains("<script>"));
        assert_eq!(
            (used("3 of 8 used"), used("a of b"), used("18446744073709551616 of 1")),
            (Some((3, 8)), None, None)
        );
    }
}
