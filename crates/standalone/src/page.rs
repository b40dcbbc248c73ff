//! The pages of master and worker as data, and HTML by hand for them: everything that is not ours is escaped. A program that can do
//! better, such as the command `firesteel`, says so with [`draw_with`]; a program that only links this crate compiles no templates.

use std::fmt::Write;
use std::sync::OnceLock;

use firesteel_types::Tick;

/// A page: a title, sentences, links, text, tables.
#[derive(Debug, Default)]
pub struct Sheet {
    pub title: String,
    /// In front of every link to a page of this server: where a proxy shows it. No slash at its end.
    pub root: String,
    pub lines: Vec<String>,
    /// What they are called, and where they lead.
    pub links: Vec<(String, String)>,
    /// Lines of text as a process printed them.
    pub text: Option<String>,
    pub tables: Vec<Table>,
    /// What keeps it up to date; `None`: it shows a moment.
    pub live: Option<Live>,
}

/// What a page shows that is kept up to date: `/events` tells it of another state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    /// Stands for what is shown.
    pub state: u64,
    /// Stands for this process.
    pub process: u64,
    pub now: Tick,
}

#[derive(Debug)]
pub struct Table {
    pub heading: String,
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Cell>>,
    /// Of a long table, where the other rows are.
    pub pages: Option<TablePages>,
    pub search: Option<TableSearch>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column {
    /// Empty: what can be done with the row.
    pub title: String,
    /// Where the table is sorted by this column; `None`: nowhere.
    pub link: Option<String>,
    /// Whether the table is sorted by it, and how.
    pub order: Option<Order>,
}

/// How a table is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Ascending,
    Descending,
}

/// A field that searches a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableSearch {
    /// The path of the page.
    pub action: String,
    /// The parameter, and what it is now.
    pub name: String,
    pub value: String,
    /// Other parameters of the page.
    pub others: Vec<(String, String)>,
}

/// Which part of a table is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TablePages {
    /// The rows of all pages.
    pub total: usize,
    /// From 1.
    pub page: usize,
    pub last: usize,
    /// The address of a page, but for its number, which follows.
    pub link: String,
}

/// What stands in a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    pub text: String,
    /// Where the text leads.
    pub link: Option<String>,
    /// Further words, and where they lead.
    pub links: Vec<(String, String)>,
    pub kill: Option<KillForm>,
}

/// A button that ends something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KillForm {
    /// `Kill` or `Decommission`.
    pub verb: &'static str,
    /// `application`, `driver` or `worker`.
    pub what: &'static str,
    pub id: String,
    /// The path that the form is sent to.
    pub action: String,
    /// Proves that the form comes from a page of this server.
    pub token: String,
}

impl Cell {
    pub(crate) fn text(text: impl ToString) -> Self {
        Cell { text: text.to_string(), ..Cell::default() }
    }

    /// A link, if there is somewhere to go.
    pub(crate) fn linked(text: impl ToString, link: Option<String>) -> Self {
        Cell { text: text.to_string(), link: link.filter(|it| is_harmless(it)), ..Cell::default() }
    }
}

/// What others say where their pages are may be anything.
pub(crate) fn is_harmless(link: &str) -> bool {
    ["http://", "https://"].iter().any(|scheme| link.starts_with(scheme))
        || link.starts_with('/') && !link.starts_with("//")
}

/// How pages are drawn.
pub struct Drawing {
    pub page: fn(&Sheet) -> String,
    /// Type and text of what its documents ask for.
    pub asset: fn(&str) -> Option<(&'static str, &'static str)>,
}

static DRAWING: OnceLock<Drawing> = OnceLock::new();

/// Has the pages of this process drawn so. The first call counts.
pub fn draw_with(drawing: Drawing) {
    let _ = DRAWING.set(drawing);
}

/// What pages may do in a browser: nothing from elsewhere, no frames around them, and no script and no style but ours.
pub(crate) fn policy() -> &'static str {
    match DRAWING.get() {
        Some(_) => {
            "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; form-action 'self'; \
             frame-ancestors 'none'; base-uri 'none'"
        }
        // Those by hand have their style in them, and no script at all.
        None => {
            "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
        }
    }
}

/// What drawn pages ask for.
pub(crate) fn asset(path: &str) -> Option<(&'static str, &'static str)> {
    DRAWING.get().and_then(|drawing| (drawing.asset)(path))
}

/// A page under construction.
pub(crate) struct Html(Sheet);

impl Html {
    /// A page of this title.
    pub(crate) fn new(title: &str) -> Self {
        Self(Sheet { title: title.to_owned(), ..Sheet::default() })
    }

    /// Shown by a proxy below this path.
    pub(crate) fn below(mut self, root: &str) -> Self {
        root.clone_into(&mut self.0.root);
        self
    }

    pub(crate) fn line(mut self, text: &str) -> Self {
        self.0.lines.push(text.to_owned());
        self
    }

    /// A link to a page of this server.
    pub(crate) fn link(mut self, name: &str, to: &str) -> Self {
        self.0.links.push((name.to_owned(), to.to_owned()));
        self
    }

    /// What a process printed.
    pub(crate) fn text(mut self, text: &str) -> Self {
        self.0.text = Some(text.to_owned());
        self
    }

    /// It is kept up to date from this state on.
    pub(crate) fn live(mut self, live: Live) -> Self {
        self.0.live = Some(live);
        self
    }

    /// A table of a few rows that stay in their order.
    pub(crate) fn table(self, heading: &str, columns: &[&str], rows: Vec<Vec<Cell>>) -> Self {
        let column = |title: &&str| Column { title: (*title).to_owned(), ..Column::default() };
        let (heading, columns) = (heading.to_owned(), columns.iter().map(column).collect());
        self.list(Table { heading, columns, rows, pages: None, search: None })
    }

    /// A table, or a part of it.
    pub(crate) fn list(mut self, table: Table) -> Self {
        self.0.tables.push(table);
        self
    }

    pub(crate) fn finish(self) -> String {
        DRAWING.get().map_or_else(|| plain(&self.0), |drawing| (drawing.page)(&self.0))
    }
}

/// The page without anything.
fn plain(sheet: &Sheet) -> String {
    let title = escape(&sheet.title);
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\n\
         <style>body{{font-family:sans-serif;margin:2em}}table{{border-collapse:collapse;margin-bottom:2em}}\
         td,th{{border:1px solid #ccc;padding:.3em .6em;text-align:left}}</style></head>\n\
         <body><h1>{title}</h1>\n"
    );
    for line in &sheet.lines {
        let _ = writeln!(html, "<p>{}</p>", escape(line));
    }
    for (name, to) in &sheet.links {
        let _ = writeln!(html, "<a href=\"{}\">{}</a>", escape(to), escape(name));
    }
    if let Some(text) = &sheet.text {
        let _ = writeln!(html, "<pre>{}</pre>", escape(text));
    }
    for table in &sheet.tables {
        let total = table.pages.as_ref().map_or(table.rows.len(), |pages| pages.total);
        let _ = writeln!(html, "<h2>{} ({total})</h2>", escape(&table.heading));
        html.push_str(&table.search.as_ref().map_or_else(String::new, plain_search));
        html.push_str("<table>\n");
        let head = table.columns.iter().map(|column| match &column.link {
            Some(link) => format!("<th>{}</th>", plain_link((&column.title, link))),
            None => format!("<th>{}</th>", escape(&column.title)),
        });
        let _ = writeln!(html, "<tr>{}</tr>", head.collect::<String>());
        for row in &table.rows {
            let cells = row.iter().map(|cell| format!("<td>{}</td>", plain_cell(cell)));
            let _ = writeln!(html, "<tr>{}</tr>", cells.collect::<String>());
        }
        html.push_str("</table>\n");
        html.push_str(&plain_pages(table.pages.as_ref()));
    }
    let root = escape(&sheet.root);
    let _ = writeln!(html, "<p><a href=\"{root}/json/\">as JSON</a></p></body></html>");
    html
}

fn plain_link((text, link): (&str, &str)) -> String {
    format!("<a href=\"{}\">{}</a>", escape(link), escape(text))
}

fn plain_cell(cell: &Cell) -> String {
    let text = match &cell.link {
        Some(link) => plain_link((&cell.text, link)),
        None => escape(&cell.text),
    };
    let links = cell.links.iter().map(|(text, link)| format!(" {}", plain_link((text, link))));
    let kill = cell.kill.as_ref().map(|KillForm { verb, what, id, action, token }| {
        format!(
            "<form method=\"post\" action=\"{}\">{}{}{}<button>{verb} {what}</button></form>",
            escape(action),
            plain_hidden(("id", id)),
            plain_hidden(("terminate", "true")),
            plain_hidden(("token", token))
        )
    });
    format!("{text}{}{}", links.collect::<String>(), kill.unwrap_or_default())
}

fn plain_hidden((name, value): (&str, &str)) -> String {
    format!("<input type=\"hidden\" name=\"{}\" value=\"{}\">", escape(name), escape(value))
}

fn plain_search(search: &TableSearch) -> String {
    let TableSearch { action, name, value, others } = search;
    let others = others.iter().map(|(name, value)| plain_hidden((name, value)));
    format!(
        "<form action=\"{}\">{}<input type=\"search\" name=\"{}\" value=\"{}\"><button>Show</button></form>\n",
        escape(action),
        others.collect::<String>(),
        escape(name),
        escape(value)
    )
}

fn plain_pages(pages: Option<&TablePages>) -> String {
    let Some(TablePages { page, last, link, .. }) = pages.filter(|pages| pages.last > 1) else {
        return String::new();
    };
    let to = |text: &str, page: usize| plain_link((text, &format!("{link}{page}")));
    let before = if *page > 1 { to("Previous", page - 1) } else { String::new() };
    let after = if page < last { to("Next", page + 1) } else { String::new() };
    format!("<p>Page {page} of {last} {before} {after}</p>\n")
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_smuggle_in_markup() {
        let name = "<script>alert('x & \"y\"')</script>";
        let html = Html::new(name).line(name).link(name, name).text(name);
        let html = html.table(name, &[name], vec![vec![Cell::text(name)]]);
        let pair = || (name.to_owned(), name.to_owned());
        let link = Some(name.to_owned());
        let search = Some(TableSearch {
            action: name.to_owned(),
            name: name.to_owned(),
            value: name.to_owned(),
            others: vec![pair()],
        });
        let columns = vec![Column { title: name.to_owned(), link, order: None }];
        let cell = Cell { links: vec![pair()], ..Cell::linked(name, None) };
        let (heading, rows, pages) = (name.to_owned(), vec![vec![cell]], None);
        let html = html.list(Table { heading, columns, rows, pages, search }).finish();
        assert!(!html.contains("<script>") && !html.contains("alert('"), "{html}");
        assert_eq!(html.matches("&lt;script&gt;").count(), 20, "{html}");
    }

    #[test]
    fn links_that_others_tell_lead_to_pages_only() {
        let link = |to: &str| Cell::linked("x", Some(to.to_owned())).link.is_some();
        assert!(link("http://a:1") && link("https://a") && link("/proxy/app-1/"));
        assert!(
            !link("javascript:alert(1)")
                && !link("//evil.org")
                && !link("data:text/html,x")
                && !link("")
        );
    }
}
