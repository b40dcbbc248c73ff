//! Settings, those that differ from their defaults first, and what the application runs on. Secrets are hidden.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use firesteel_conf::entries;
use firesteel_status::{AppStatus, Order};
use firesteel_types::ResourceProfile;
use maud::{Markup, html};

use super::{brief, named};
use crate::frame::{Frame, Place};
use crate::list::{self, Column, Listing, Part, head_column, number_column, text_column};
use crate::text::{counted, key, short};

/// So many lists of others, and resources of a profile, are shown, and so many characters of a value.
const LISTS: usize = 20;
const VALUE: usize = 300;
const LONG: usize = 4000;

const SETTINGS: [Column; 4] = [
    head_column("Setting", "name"),
    text_column("Value", "value"),
    text_column("Default", "default"),
    text_column("What it does", ""),
];
const ENTRIES: [Column; 2] = [head_column("Name", "name"), text_column("Value", "value")];
const PROFILES: [Column; 3] = [
    number_column("Profile", "id"),
    text_column("Of each executor", "executor"),
    text_column("Of each task", "task"),
];

/// What is known of a setting: its default, and what it does.
struct Known {
    default: Option<&'static str>,
    doc: String,
}

type Registry = BTreeMap<&'static str, Known>;

fn registry() -> Registry {
    entries::all()
        .map(|entry| {
            let about = entry.about();
            (about.key, Known { default: about.default, doc: about.doc_text() })
        })
        .collect()
}

/// A name and a value without its secrets: also what is searched and sorted has none.
type Entry<'a> = (&'a str, &'a str);

fn shown<'a>(
    frame: &Frame<'a>,
    pairs: impl Iterator<Item = (&'a String, &'a String)>,
) -> Vec<Entry<'a>> {
    pairs.map(|(name, value)| (&**name, frame.secrets.apply(name, value))).collect()
}

fn compare(sort: &str, known: &Registry, a: &Entry<'_>, b: &Entry<'_>) -> Ordering {
    let default = |name: &str| known.get(name).map(|it| it.default);
    let by = match sort {
        "value" => a.1.cmp(b.1),
        "default" => default(a.0).cmp(&default(b.0)),
        _ => Ordering::Equal,
    };
    by.then(a.0.cmp(b.0))
}

/// All of a page that one field searches.
struct Lists<'a> {
    frame: &'a Frame<'a>,
    search: Listing,
    known: Registry,
}

pub(crate) fn main(frame: &Frame<'_>, status: &AppStatus) -> Markup {
    let application = status.application();
    let search = Listing::of(&frame.query, "", Order::Ascending);
    let lists = Lists { frame, search, known: registry() };
    let properties = application.properties.iter().map(|(name, value)| (name, value));
    let is_default = |(name, value): &Entry<'_>| {
        lists.known.get(*name).is_some_and(|it| it.default == Some(*value))
    };
    let (same, differ): (Vec<_>, Vec<_>) =
        shown(frame, properties).into_iter().partition(is_default);
    html! {
        h1 { "Environment" }
        (list::search(frame, &lists.search, "Setting or value", &[]))
        h2 { "Settings that differ from their defaults" }
        @if differ.is_empty() { p.empty { "None." } } @else { (lists.settings(differ)) }
        (lists.folded("same-", "Settings at their defaults", same))
        (lists.folded("runtime-", "Runtime", shown(frame, application.runtime.iter())))
        (lists.folded("files-", "Files", shown(frame, application.resources.iter())))
        @for (number, (name, list)) in application.others.iter().take(LISTS).enumerate() {
            (lists.folded(&format!("other{number}-"), name, shown(frame, list.iter().map(|(name, value)| (name, value)))))
        }
        (profiles(frame, status))
    }
}

impl Lists<'_> {
    fn settings(&self, differ: Vec<Entry<'_>>) -> Markup {
        let part = Part {
            listing: Listing::long(&self.frame.query, "settings-", "name", Order::Ascending),
            label: "Settings that differ from their defaults",
            search: "",
            columns: &SETTINGS,
            items: differ,
        };
        let row = |(name, value): &Entry<'_>| {
            let about = self.known.get(*name);
            vec![
                html! { (short(name, VALUE)) },
                self.said("setting", name, value),
                html! { @match about { Some(Known { default: Some(default), .. }) => code { (default) }, Some(_) => span.dim { "not set" }, None => span.dim { "–" } } },
                html! { span.dim { (about.map_or_else(|| "Firesteel has no such setting.".to_owned(), |it| short(&it.doc.replace('`', ""), 160))) } },
            ]
        };
        part.draw(
            self.frame,
            |_, entry| self.is_found(entry),
            |sort, a, b| self.compare(sort, a, b),
            row,
        )
    }

    fn folded(&self, prefix: &str, title: &str, entries: Vec<Entry<'_>>) -> Markup {
        let entries: Vec<Entry<'_>> = entries.into_iter().filter(|it| self.is_found(it)).collect();
        let count = counted(entries.len() as u64, "entry").replace("entrys", "entries");
        let part = Part {
            listing: Listing::long(&self.frame.query, prefix, "name", Order::Ascending),
            label: &named(title),
            search: "",
            columns: &ENTRIES,
            items: entries,
        };
        let is_open = !self.search.search.is_empty()
            || part.listing.is_asked_for
            || title == "Runtime" && self.frame.place != Place::Report;
        let row = |(name, value): &Entry<'_>| {
            vec![html! { (short(name, VALUE)) }, self.said(title, name, value)]
        };
        html! {
            @if !part.items.is_empty() {
                details data-key=(key("list", title)) open[is_open] {
                    summary { h2 { (named(title)) } " " span.dim { (count) } }
                    (part.draw(self.frame, |_, _| true, |sort, a, b| self.compare(sort, a, b), row))
                }
            }
        }
    }

    fn is_found(&self, (name, value): &Entry<'_>) -> bool {
        self.search.finds(&[name, value])
    }

    fn compare(&self, sort: &str, a: &Entry<'_>, b: &Entry<'_>) -> Ordering {
        compare(sort, &self.known, a, b)
    }

    /// A class path takes pages: it is folded.
    fn said(&self, list: &str, name: &str, value: &str) -> Markup {
        html! {
            @if value.chars().count() <= VALUE { code { (value) } } @else {
                details data-key=(key(list, name)) { summary { code { (short(value, VALUE)) } } pre tabindex="0" { (short(value, LONG)) } }
            }
        }
    }
}

/// What each executor, or each task, is asked for with.
fn amounts<'a>(all: impl Iterator<Item = (&'a String, String)>) -> String {
    let words = all.take(LISTS).map(|(name, amount)| format!("{} {amount}", brief(name)));
    words.collect::<Vec<_>>().join(" ")
}

fn of_executor(profile: &ResourceProfile) -> String {
    amounts(profile.executor.iter().map(|(name, amount)| (name, amount.to_string())))
}

fn of_task(profile: &ResourceProfile) -> String {
    amounts(profile.task.iter().map(|(name, amount)| (name, amount.to_string())))
}

fn profiles(frame: &Frame<'_>, status: &AppStatus) -> Markup {
    let part = Part {
        listing: Listing::beside(&frame.query, "profiles-", "id", Order::Ascending),
        label: "Resource profiles",
        search: "Profile or resource",
        columns: &PROFILES,
        items: status.application().profiles.values().collect(),
    };
    let is_found = |listing: &Listing, it: &&ResourceProfile| {
        it.id.to_string() == listing.search || listing.finds(&[&of_executor(it), &of_task(it)])
    };
    let compare = |sort: &str, a: &&ResourceProfile, b: &&ResourceProfile| {
        let by = match sort {
            "executor" => of_executor(a).cmp(&of_executor(b)),
            "task" => of_task(a).cmp(&of_task(b)),
            _ => Ordering::Equal,
        };
        by.then(a.id.cmp(&b.id))
    };
    let row = |it: &&ResourceProfile| {
        vec![html! { (it.id) }, html! { (of_executor(it)) }, html! { (of_task(it)) }]
    };
    html! {
        @if !part.items.is_empty() {
            details data-key="profiles" open[part.listing.is_asked_for] {
                summary { h2 { "Resource profiles" } }
                (part.draw(frame, is_found, compare, row))
            }
        }
    }
}
