//! Lists of pages of a master or a worker: sorted, searched and paged by the parameters of a page, on the server.
//!
//! A list has a name: `workers=2` is its second page, `workers-sort=cores` and `workers-order=desc` sort it, and `workers-q=dead`
//! searches it.

use crate::page::{Cell, Column, Html, Order, Table, TablePages, TableSearch};
use crate::web::{Query, encoded};

/// So many rows of a table are shown at once.
const ROWS: usize = 50;
/// Parameters that are longer go.
const LONGEST: usize = 200;

/// What sorts a row, and where it is found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Number(u64),
    Text(String),
}

impl Key {
    pub(crate) fn text(text: impl ToString) -> Self {
        Key::Text(text.to_string())
    }

    /// `search` is in lower case.
    fn has(&self, search: &str) -> bool {
        match self {
            Key::Number(number) => number.to_string() == search,
            Key::Text(text) => text.to_lowercase().contains(search),
        }
    }
}

impl From<u32> for Key {
    fn from(number: u32) -> Self {
        Key::Number(number.into())
    }
}

impl From<u64> for Key {
    fn from(number: u64) -> Self {
        Key::Number(number)
    }
}

/// A page with lists, as it is asked for.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    /// With what is in front of it.
    pub(crate) path: &'a str,
    pub(crate) query: &'a Query,
}

/// A list of a page. Of each row, `key` says what sorts it by a column.
pub(crate) struct List<'a> {
    pub(crate) heading: &'a str,
    pub(crate) name: &'a str,
    /// Titles, and by what they sort: nothing if that is empty.
    pub(crate) columns: &'a [(&'a str, &'a str)],
}

/// What is asked for of one list.
struct Wanted<'a> {
    sort: Option<(&'a str, Order)>,
    search: String,
    page: usize,
}

impl At<'_> {
    /// Other parameters of the page.
    fn others<'a>(&'a self, gone: &'a [String]) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.query.iter().filter(move |(name, value)| {
            name.len() <= LONGEST && value.len() <= LONGEST && gone.iter().all(|it| it != name)
        })
    }

    /// The page with these parameters, and others as they are but for those that go.
    fn link(&self, gone: &[&str], new: &[(&str, &str)]) -> String {
        let gone: Vec<String> = gone.iter().map(|name| (*name).to_owned()).collect();
        let pairs = self.others(&gone).chain(new.iter().copied());
        let pairs = pairs.map(|(name, value)| {
            format!("{}={}", encoded(name.as_bytes(), ""), encoded(value.as_bytes(), ""))
        });
        format!("{}?{}", self.path, pairs.collect::<Vec<_>>().join("&"))
    }
}

impl List<'_> {
    fn wanted<'a>(&self, at: At<'a>) -> Wanted<'a> {
        let name = self.name;
        let get = |what: &str| at.query.get(&format!("{name}-{what}"));
        let is_known = |sort: &&str| self.columns.iter().any(|(_, key)| key == sort);
        let order = match get("order") {
            Some("desc") => Order::Descending,
            _ => Order::Ascending,
        };
        let sort = get("sort").filter(|sort| !sort.is_empty()).filter(is_known);
        let search = get("q").filter(|text| text.len() <= LONGEST);
        Wanted {
            sort: sort.map(|sort| (sort, order)),
            search: search.unwrap_or_default().trim().to_lowercase(),
            page: at.query.page(name),
        }
    }

    /// The rows that are asked for, as a table of `html`. Without an order they stay in theirs.
    pub(crate) fn add<T>(
        &self,
        html: Html,
        at: At<'_>,
        rows: impl Iterator<Item = T>,
        key: impl Fn(&T, &str) -> Key,
        cells: impl Fn(&T) -> Vec<Cell>,
    ) -> Html {
        let wanted = self.wanted(at);
        let sorting = || self.columns.iter().filter(|(_, key)| !key.is_empty());
        let is_found = |row: &T| {
            wanted.search.is_empty() || sorting().any(|(_, by)| key(row, by).has(&wanted.search))
        };
        let mut rows: Vec<T> = rows.filter(is_found).collect();
        if let Some((by, order)) = wanted.sort {
            rows.sort_by_cached_key(|row| key(row, by));
            if order == Order::Descending {
                rows.reverse();
            }
        }
        let (total, last) = (rows.len(), rows.len().div_ceil(ROWS).max(1));
        let page = wanted.page.min(last);
        let rows = rows.iter().skip((page - 1) * ROWS).take(ROWS).map(cells).collect();
        let link = at.link(&[self.name], &[(self.name, "")]);
        html.list(Table {
            heading: self.heading.to_owned(),
            columns: self.columns.iter().map(|column| self.column(at, &wanted, *column)).collect(),
            rows,
            pages: Some(TablePages { total, page, last, link }),
            search: Some(self.search(at)),
        })
    }

    fn column(&self, at: At<'_>, wanted: &Wanted<'_>, (title, key): (&str, &str)) -> Column {
        let order = wanted.sort.filter(|(by, _)| *by == key && !key.is_empty()).map(|(_, it)| it);
        let [sort, direction] = ["sort", "order"].map(|what| format!("{}-{what}", self.name));
        let next = if order == Some(Order::Ascending) { "desc" } else { "asc" };
        let gone = [self.name, &sort, &direction];
        let link = (!key.is_empty()).then(|| at.link(&gone, &[(&sort, key), (&direction, next)]));
        Column { title: title.to_owned(), link, order }
    }

    fn search(&self, at: At<'_>) -> TableSearch {
        let name = format!("{}-q", self.name);
        let own = [self.name.to_owned(), name.clone()];
        let others = at.others(&own).map(|(name, value)| (name.to_owned(), value.to_owned()));
        TableSearch {
            action: at.path.to_owned(),
            value: at.query.get(&name).unwrap_or_default().to_owned(),
            others: others.collect(),
            name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: List<'static> = List {
        heading: "Numbers",
        name: "numbers",
        columns: &[("Number", "number"), ("Name", "name"), ("", "")],
    };

    /// The numbers from 1 to 120 and their names.
    fn shown(query: &str) -> String {
        let query = Query::parse(query);
        let at = At { path: "/m/", query: &query };
        let key = |number: &u32, by: &str| match by {
            "number" => Key::from(*number),
            _ => Key::text(format!("Name {}", number % 7)),
        };
        let cells = |number: &u32| vec![Cell::text(format!("no. {number}."))];
        LIST.add(Html::new("x"), at, 1..=120u32, key, cells).finish()
    }

    fn numbers(query: &str) -> Vec<u32> {
        let text = shown(query);
        let parts = text.split("no. ").skip(1).filter_map(|rest| rest.split('.').next());
        parts.map(|number| number.parse().unwrap()).collect()
    }

    #[test]
    fn a_list_is_sorted_both_ways_searched_and_paged() {
        assert_eq!(numbers(""), (1..=50).collect::<Vec<_>>());
        assert_eq!(numbers("numbers=3"), (101..=120).collect::<Vec<_>>());
        assert_eq!(numbers("numbers=99"), (101..=120).collect::<Vec<_>>());
        let down = numbers("numbers-sort=number&numbers-order=desc");
        assert_eq!(down, (71..=120).rev().collect::<Vec<_>>());
        assert_eq!(numbers("numbers-sort=number&numbers-order=asc"), numbers(""));
        assert_eq!(numbers("numbers-sort=name")[..3], [7, 14, 21]);
        assert_eq!(numbers("numbers-sort=nothing&numbers-q="), numbers(""));
        assert_eq!(
            numbers("numbers-q=name+6&numbers-sort=number&numbers-order=desc")[..2],
            [118, 111]
        );
        assert_eq!(numbers("numbers-q=17"), [17], "a number is searched as a whole");
        assert_eq!(numbers("numbers-q=nobody"), [0; 0]);
        assert_eq!(numbers("others-q=17").len(), 50, "it is another list's");
    }

    #[test]
    fn links_keep_what_other_lists_show() {
        let text = shown("others=4&numbers=2&numbers-sort=name&numbers-order=asc&a=%22%3E%3Cb%3E");
        for wanted in [
            "/m/?others=4&amp;a=%22%3E%3Cb%3E&amp;numbers-sort=number&amp;numbers-order=asc",
            "numbers-sort=name&amp;numbers-order=desc",
            "numbers-order=asc&amp;a=%22%3E%3Cb%3E&amp;numbers=3",
            "name=\"numbers-q\" value=\"\"",
            "name=\"others\" value=\"4\"",
        ] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
        let long = format!("a={}", "x".repeat(LONGEST + 1));
        assert!(!shown(&long).contains("xxx"));
    }
}
