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
/// No list has more pages.
const LAST_PAGE: usize = u32::MAX as usize;

/// Which part of a list is asked for, and in which order.
#[derive(Clone)]
pub(crate) struct Listing {
    /// In front of the names of its parameters: a page may have two lists.
    prefix: &'static str,
    pub(crate) sort: String,
    pub(crate) order: Order,
    /// From 0.
    page: usize,
    size: usize,
    /// In lower case; empty: everything.
    pub(crate) search: String,
}

impl Listing {
    /// `sort` and `order` are those of a page without parameters.
    pub(crate) fn of(query: &Query, sort: &str, order: Order) -> Self {
        Self::beside(query, "", sort, order)
    }

    /// Of a list that is not the only one of its page, and that has no search.
    pub(crate) fn beside(query: &Query, prefix: &'static str, sort: &str, order: Order) -> Self {
        let get = |name: &str| query.get(&format!("{prefix}{name}"));
        let number = |name: &str| get(name).and_then(|text| text.parse::<usize>().ok());
        let order = match get("order") {
            Some("asc") => Order::Ascending,
            Some("desc") => Order::Descending,
            _ => order,
        };
        Listing {
            prefix,
            sort: get("sort").unwrap_or(sort).to_owned(),
            order,
            page: number("page").unwrap_or(1).clamp(1, LAST_PAGE) - 1,
            size: number("size").unwrap_or(ROWS).clamp(1, ROWS_AT_MOST),
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
    is_number: bool,
}

pub(crate) const fn text_column(title: &'static str, key: &'static str) -> Column {
    Column { title, key, is_number: false }
}

pub(crate) const fn number_column(title: &'static str, key: &'static str) -> Column {
    Column { title, key, is_number: true }
}

/// A table whose cells follow its columns.
pub(crate) fn table(
    frame: &Frame<'_>,
    listing: &Listing,
    label: &str,
    columns: &[Column],
    rows: Vec<Vec<Markup>>,
) -> Markup {
    let head = html! { @for column in columns { (heading(frame, listing, column)) } };
    whole(label, columns, &head, rows)
}

/// A table that stays in its order.
pub(crate) fn fixed_table(label: &str, columns: &[Column], rows: Vec<Vec<Markup>>) -> Markup {
    let head = html! { @for column in columns { th.num[column.is_number] scope="col" { (column.title) } } };
    whole(label, columns, &head, rows)
}

fn whole(label: &str, columns: &[Column], head: &Markup, rows: Vec<Vec<Markup>>) -> Markup {
    html! {
        table aria-label=(label) {
            thead { tr { (head) } }
            tbody {
                @for row in rows {
                    tr { @for (column, cell) in columns.iter().zip(row) {
                        td.num[column.is_number] data-label=(column.title) { (cell) }
                    } }
                }
            }
        }
    }
}

fn heading(frame: &Frame<'_>, listing: &Listing, column: &Column) -> Markup {
    let is_sorted = !column.key.is_empty() && listing.sort == column.key;
    let (named, sign, next) = match (is_sorted, listing.order) {
        (true, Order::Ascending) => (Some("ascending"), " ▲", "desc"),
        (true, Order::Descending) => (Some("descending"), " ▼", "asc"),
        (false, _) if column.is_number => (None, "", "desc"),
        (false, _) => (None, "", "asc"),
    };
    let can_sort = !column.key.is_empty() && frame.place != Place::Report;
    html! {
        th.num[column.is_number] scope="col" aria-sort=[named] {
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
pub(crate) fn search(frame: &Frame<'_>, label: &str, choices: &[Choice<'_>]) -> Markup {
    if frame.place == Place::Report {
        return html! {};
    }
    let own = |name: &str| {
        name == "q" || name == "page" || choices.iter().any(|(known, ..)| *known == name)
    };
    html! {
        form.search data-key="search" method="get" action=(format!("{}{}", frame.home, frame.path)) role="search" {
            @for (name, value) in frame.query.iter().filter(|(name, _)| !own(name)) {
                input type="hidden" name=(name) value=(value);
            }
            label { (label) " " input type="search" name="q" value=(frame.query.get("q").unwrap_or_default()); }
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
