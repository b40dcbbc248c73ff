//! Long lists: sorted, filtered and paged by the parameters of a page, on the server.

use std::cmp::Ordering;

use firesteel_monitor::rest::Query;
use firesteel_status::{Order, Paging};
use maud::{Markup, html};

use crate::frame::{Frame, Place};
use crate::text::count;

/// How many rows a page has unless it is asked for another number, and the most it can be asked for.
const ROWS: usize = 50;
const ROWS_AT_MOST: usize = 200;
/// A list of so few rows that stands beside others has no field to search it.
const FEW: usize = 10;
/// No list has more pages.
const LAST_PAGE: usize = u32::MAX as usize;

/// Which part of a list is asked for, and in which order.
#[derive(Clone)]
pub(crate) struct Listing {
    /// In front of the names of its parameters: a page may have several lists.
    prefix: String,
    pub(crate) sort: String,
    pub(crate) order: Order,
    /// From 0.
    page: usize,
    size: usize,
    /// In lower case; empty: everything.
    pub(crate) search: String,
    /// Of one that stands beside others: a part, an order or a search of it is asked for.
    pub(crate) is_asked_for: bool,
}

impl Listing {
    /// `sort` and `order` are those of a page without parameters.
    pub(crate) fn of(query: &Query, sort: &str, order: Order) -> Self {
        Self::beside(query, "", sort, order)
    }

    /// Of a list that is not the only one of its page. How many rows it has may be said of all lists of a page at once.
    pub(crate) fn beside(query: &Query, prefix: &str, sort: &str, order: Order) -> Self {
        Self::with_rows(ROWS, query, prefix, sort, order)
    }

    /// The same, as long as a page of a list can be.
    pub(crate) fn long(query: &Query, prefix: &str, sort: &str, order: Order) -> Self {
        Self::with_rows(ROWS_AT_MOST, query, prefix, sort, order)
    }

    fn with_rows(rows: usize, query: &Query, prefix: &str, sort: &str, order: Order) -> Self {
        let get = |name: &str| query.get(&format!("{prefix}{name}"));
        let number = |name: &str| get(name).and_then(|text| text.parse::<usize>().ok());
        let order = match get("order") {
            Some("asc") => Order::Ascending,
            Some("desc") => Order::Descending,
            _ => order,
        };
        let size = number("size").or_else(|| query.get("size")?.parse().ok());
        Listing {
            prefix: prefix.to_owned(),
            is_asked_for: query
                .iter()
                .any(|(name, _)| !prefix.is_empty() && name.starts_with(prefix)),
            sort: get("sort").unwrap_or(sort).to_owned(),
            order,
            page: number("page").unwrap_or(1).clamp(1, LAST_PAGE) - 1,
            size: size.unwrap_or(rows).clamp(1, ROWS_AT_MOST),
            search: get("q").unwrap_or_default().trim().to_lowercase(),
        }
    }

    /// A parameter of this list.
    fn parameter(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    pub(crate) fn paging(&self) -> Paging {
        Paging { offset: self.page.saturating_mul(self.size), length: self.size }
    }

    /// Whether one of the texts has what is searched for.
    pub(crate) fn finds(&self, texts: &[&str]) -> bool {
        self.search.is_empty()
            || texts.iter().any(|text| text.to_lowercase().contains(&self.search))
    }

    /// Who asks for a page behind the last one gets the last one: lists shrink while people read them.
    pub(crate) fn limit(&mut self, total: usize) {
        self.page = self.page.min(self.last(total));
    }

    fn last(&self, total: usize) -> usize {
        total.saturating_sub(1) / self.size
    }

    /// The page of `all` that is asked for, sorted by `compare`, and how many there are.
    pub(crate) fn cut<T>(
        &mut self,
        all: Vec<T>,
        compare: impl Fn(&T, &T) -> Ordering,
    ) -> (Vec<T>, usize) {
        self.cut_at(all, compare, |_| false)
    }

    /// The same, or the page with the first row that `is_it`.
    pub(crate) fn cut_at<T>(
        &mut self,
        mut all: Vec<T>,
        compare: impl Fn(&T, &T) -> Ordering,
        is_it: impl Fn(&T) -> bool,
    ) -> (Vec<T>, usize) {
        all.sort_by(|a, b| match self.order {
            Order::Ascending => compare(a, b),
            Order::Descending => compare(b, a),
        });
        self.page = all.iter().position(is_it).map_or(self.page, |row| row / self.size);
        self.limit(all.len());
        let (total, Paging { offset, length }) = (all.len(), self.paging());
        (all.into_iter().skip(offset).take(length).collect(), total)
    }
}

/// A column of a table.
pub(crate) struct Column {
    title: &'static str,
    /// By what it sorts; empty: it does not.
    key: &'static str,
    kind: ColumnKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ColumnKind {
    /// What a row is called: long names are broken.
    Head,
    Text,
    Number,
}

pub(crate) const fn head_column(title: &'static str, key: &'static str) -> Column {
    Column { title, key, kind: ColumnKind::Head }
}

pub(crate) const fn text_column(title: &'static str, key: &'static str) -> Column {
    Column { title, key, kind: ColumnKind::Text }
}

pub(crate) const fn number_column(title: &'static str, key: &'static str) -> Column {
    Column { title, key, kind: ColumnKind::Number }
}

/// A list that stands beside others on a page.
pub(crate) struct Part<'a, T> {
    pub(crate) listing: Listing,
    /// What its table is called.
    pub(crate) label: &'a str,
    /// What can be searched; empty: a field of the page does it.
    pub(crate) search: &'a str,
    pub(crate) columns: &'a [Column],
    pub(crate) items: Vec<T>,
}

impl<T> Part<'_, T> {
    /// With its search, its table and its pages. `compare` is told by what it sorts.
    pub(crate) fn draw(
        self,
        frame: &Frame<'_>,
        is_found: impl Fn(&Listing, &T) -> bool,
        compare: impl Fn(&str, &T, &T) -> Ordering,
        row: impl Fn(&T) -> Vec<Markup>,
    ) -> Markup {
        let Part { mut listing, label, search: field, columns, items } = self;
        let has_field = !field.is_empty() && (items.len() > FEW || !listing.search.is_empty());
        let found = items.into_iter().filter(|item| is_found(&listing, item)).collect();
        let sort = listing.sort.clone();
        let (shown, total) = listing.cut(found, |a, b| compare(&sort, a, b));
        html! {
            @if has_field { (search(frame, &listing, field, &[])) }
            @if shown.is_empty() { p.empty { "Nothing here is like that." } } @else {
                (table(frame, &listing, label, columns, shown.iter().map(row).collect()))
                (pager(frame, &listing, total))
            }
        }
    }
}

/// A table whose cells follow its columns.
pub(crate) fn table(
    frame: &Frame<'_>,
    listing: &Listing,
    label: &str,
    columns: &[Column],
    rows: Vec<Vec<Markup>>,
) -> Markup {
    html! {
        table aria-label=(label) {
            thead { tr { @for column in columns { (heading(frame, listing, column)) } } }
            tbody {
                @for row in rows {
                    tr { @for (column, cell) in columns.iter().zip(row) {
                        @match column.kind {
                            ColumnKind::Head => th scope="row" data-label=(column.title) { (cell) },
                            ColumnKind::Text => td data-label=(column.title) { (cell) },
                            ColumnKind::Number => td.num data-label=(column.title) { (cell) },
                        }
                    } }
                }
            }
        }
    }
}

fn heading(frame: &Frame<'_>, listing: &Listing, column: &Column) -> Markup {
    let is_number = column.kind == ColumnKind::Number;
    let is_sorted = !column.key.is_empty() && listing.sort == column.key;
    let (named, sign, next) = match (is_sorted, listing.order) {
        (true, Order::Ascending) => (Some("ascending"), " ▲", "desc"),
        (true, Order::Descending) => (Some("descending"), " ▼", "asc"),
        (false, _) if is_number => (None, "", "desc"),
        (false, _) => (None, "", "asc"),
    };
    let can_sort = !column.key.is_empty() && frame.place != Place::Report;
    html! {
        th.num[is_number] scope="col" aria-sort=[named] {
            @if can_sort {
                @let [sort, order, page] = ["sort", "order", "page"].map(|name| listing.parameter(name));
                a href=(frame.with(&[(&sort, Some(column.key)), (&order, Some(next)), (&page, None)])) {
                    (column.title) span aria-hidden="true" { (sign) }
                }
            } @else { (column.title) }
        }
    }
}

/// Which rows are shown, and links to others, which a report does not have. Nothing if there are no others.
pub(crate) fn pager(frame: &Frame<'_>, listing: &Listing, total: usize) -> Markup {
    let Paging { offset, .. } = listing.paging();
    if total <= listing.size && offset == 0 {
        return html! {};
    }
    let last = listing.last(total);
    let (from, to) = ((offset + 1).min(total), (offset + listing.size).min(total));
    if frame.place == Place::Report {
        return html! { p.dim { (count(from as u64)) "–" (count(to as u64)) " of " (count(total as u64)) ": the pages of a history server have all of them." } };
    }
    let link = |title: &str, page: usize, is_there: bool| {
        let number = (page + 1).to_string();
        html! {
            @if is_there { a href=(frame.with(&[(&listing.parameter("page"), Some(&number))])) { (title) } }
            @else { span.off { (title) } }
        }
    };
    html! {
        nav.pager aria-label="Pages of the list" {
            span { (count(from as u64)) "–" (count(to as u64)) " of " (count(total as u64)) }
            (link("First", 0, listing.page > 0))
            (link("Previous", listing.page.saturating_sub(1).min(last), listing.page > 0))
            (link("Next", listing.page + 1, listing.page < last))
            (link("Last", last, listing.page < last))
            span.sizes { "Rows: "
                @for size in ["20", "50", "100", "200"] {
                    @if listing.size.to_string() == size { strong { (size) } " " }
                    @else { a href=(frame.with(&[(&listing.parameter("size"), Some(size)), (&listing.parameter("page"), None)])) { (size) } " " }
                }
            }
        }
    }
}

/// A parameter, its title, and the values that it can have with their titles.
pub(crate) type Choice<'a> = (&'static str, &'static str, &'a [(&'static str, String)]);

/// A form that searches the list, and narrows it to a state.
pub(crate) fn search(
    frame: &Frame<'_>,
    listing: &Listing,
    label: &str,
    choices: &[Choice<'_>],
) -> Markup {
    if frame.place == Place::Report {
        return html! {};
    }
    let [q, page] = ["q", "page"].map(|name| listing.parameter(name));
    let own =
        |name: &str| name == q || name == page || choices.iter().any(|(known, ..)| *known == name);
    html! {
        form.search data-key=(listing.parameter("search")) method="get" action=(format!("{}{}", frame.home, frame.path)) role="search" aria-label=(label) {
            @for (name, value) in frame.query.iter().filter(|(name, _)| !own(name)) {
                input type="hidden" name=(name) value=(value);
            }
            label { (label) " " input type="search" name=(q) value=(frame.query.get(&q).unwrap_or_default()); }
            @for (name, title, options) in choices {
                label { (title) " " select name=(name) {
                    option value="" { "all" }
                    @for (value, text) in *options {
                        option value=(value) selected[frame.query.get(name) == Some(value)] { (text) }
                    }
                } }
            }
            button type="submit" { "Show" }
        }
    }
}
