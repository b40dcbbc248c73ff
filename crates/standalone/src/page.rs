//! The pages of master and worker as data, and HTML by hand for them: everything that is not ours is escaped. A program that can do
//! better, such as the command `firesteel`, says so with [`draw_with`]; a program that only links this crate compiles no templates.

use std::fmt::Write;
use std::sync::OnceLock;

/// A page: a title, sentences, links, text, tables.
#[derive(Debug, Default)]
pub struct Sheet {
    pub title: String,
    pub lines: Vec<String>,
    /// What they are called, and where they lead.
    pub links: Vec<(String, String)>,
    /// Lines of text as a process printed them.
    pub text: Option<String>,
    pub tables: Vec<Table>,
}

#[derive(Debug)]
pub struct Table {
    pub heading: String,
    pub columns: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// How pages are drawn.
pub struct Drawing {
    /// A whole document.
    pub page: fn(&Sheet) -> String,
    /// Type and text of what its documents ask for.
    pub asset: fn(&str) -> Option<(&'static str, &'static str)>,
}

static DRAWING: OnceLock<Drawing> = OnceLock::new();

/// Has the pages of this process drawn so. The first call counts.
pub fn draw_with(drawing: Drawing) {
    let _ = DRAWING.set(drawing);
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

    /// One line of text.
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

    /// A table with a heading; `rows` are cells of text.
    pub(crate) fn table(mut self, heading: &str, columns: &[&str], rows: Vec<Vec<String>>) -> Self {
        let columns = columns.iter().map(|column| (*column).to_owned()).collect();
        self.0.tables.push(Table { heading: heading.to_owned(), columns, rows });
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
        let _ =
            writeln!(html, "<h2>{} ({})</h2>\n<table>", escape(&table.heading), table.rows.len());
        let head = table.columns.iter().map(|column| format!("<th>{}</th>", escape(column)));
        let _ = writeln!(html, "<tr>{}</tr>", head.collect::<String>());
        for row in &table.rows {
            let cells = row.iter().map(|cell| format!("<td>{}</td>", escape(cell)));
            let _ = writeln!(html, "<tr>{}</tr>", cells.collect::<String>());
        }
        html.push_str("</table>\n");
    }
    html.push_str("<p><a href=\"/json/\">as JSON</a></p></body></html>\n");
    html
}

/// A row of cells.
macro_rules! row {
    ($($cell:expr),* $(,)?) => { vec![$($cell.to_string()),*] };
}
pub(crate) use row;

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
        let rows = vec![row![name]];
        let html = Html::new(name).line(name).link(name, name).text(name);
        let html = html.table(name, &[name], rows).finish();
        assert!(!html.contains("<script>") && !html.contains("alert('"), "{html}");
        assert_eq!(html.matches("&lt;script&gt;").count(), 9, "{html}");
    }
}
