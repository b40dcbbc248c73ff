//! HTML by hand, for the plain pages of master and worker: everything that is not ours is escaped.

use std::fmt::Write;

/// A page under construction.
pub(crate) struct Html(String);

impl Html {
    /// A page of this title.
    pub(crate) fn new(title: &str) -> Self {
        let title = escape(title);
        Self(format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\n\
             <style>body{{font-family:sans-serif;margin:2em}}table{{border-collapse:collapse;margin-bottom:2em}}\
             td,th{{border:1px solid #ccc;padding:.3em .6em;text-align:left}}</style></head>\n\
             <body><h1>{title}</h1>\n"
        ))
    }

    /// One line of text.
    pub(crate) fn line(mut self, text: &str) -> Self {
        let _ = writeln!(self.0, "<p>{}</p>", escape(text));
        self
    }

    /// A table with a heading; `rows` are cells of text.
    pub(crate) fn table(mut self, heading: &str, columns: &[&str], rows: Vec<Vec<String>>) -> Self {
        let _ = writeln!(self.0, "<h2>{} ({})</h2>\n<table>", escape(heading), rows.len());
        let head = columns.iter().map(|column| format!("<th>{}</th>", escape(column)));
        let _ = writeln!(self.0, "<tr>{}</tr>", head.collect::<String>());
        for row in rows {
            let cells = row.iter().map(|cell| format!("<td>{}</td>", escape(cell)));
            let _ = writeln!(self.0, "<tr>{}</tr>", cells.collect::<String>());
        }
        self.0.push_str("</table>\n");
        self
    }

    pub(crate) fn finish(mut self) -> String {
        self.0.push_str("<p><a href=\"/json/\">as JSON</a></p></body></html>\n");
        self.0
    }
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
        let html = Html::new(name).line(name).table(name, &[name], rows).finish();
        assert!(!html.contains("<script>") && !html.contains("alert('"), "{html}");
        assert_eq!(html.matches("&lt;script&gt;").count(), 6, "{html}");
    }
}
