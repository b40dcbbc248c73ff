//! Settings, those that differ from their defaults first, and what the application runs on. Secrets are hidden.

use std::collections::BTreeMap;

use firesteel_conf::entries;
use firesteel_status::{AppStatus, Order};
use maud::{Markup, html};

use super::{brief, named};
use crate::frame::{Frame, Place};
use crate::list::{self, Listing};
use crate::text::{counted, key, short};

/// So many entries of a list are shown, and so many characters of each; a search finds the others.
const ROWS: usize = 400;
const LISTS: usize = 20;
const VALUE: usize = 300;
const LONG: usize = 4000;

/// What is known of a setting: its default, and what it does.
struct Known {
    default: Option<&'static str>,
    doc: String,
}

fn registry() -> BTreeMap<&'static str, Known> {
    entries::all()
        .map(|entry| {
            let about = entry.about();
            (about.key, Known { default: about.default, doc: about.doc_text() })
        })
        .collect()
}

pub(crate) fn main(frame: &Frame<'_>, status: &AppStatus) -> Markup {
    let application = status.application();
    let listing = Listing::of(&frame.query, "", Order::Ascending);
    let known = registry();
    let found =
        |(key, value): &&(String, String)| listing.finds(&[key, frame.secrets.apply(key, value)]);
    let is_default = |(key, value): &&(String, String)| {
        known.get(key.as_str()).is_some_and(|it| it.default == Some(value.as_str()))
    };
    let (same, differ): (Vec<_>, Vec<_>) =
        application.properties.iter().filter(found).partition(is_default);
    let pairs = |map: &BTreeMap<String, String>| {
        map.iter().map(|(key, value)| (key.clone(), value.clone())).collect::<Vec<_>>()
    };
    html! {
        h1 { "Environment" }
        (list::search(frame, "Setting or value", &[]))
        h2 { "Settings that differ from their defaults" }
        @if differ.is_empty() { p.empty { "None." } } @else {
            table aria-label="Settings that differ from their defaults" {
                thead { tr { th scope="col" { "Setting" } th scope="col" { "Value" } th scope="col" { "Default" } th scope="col" { "What it does" } } }
                tbody { @for (key, value) in differ.iter().take(ROWS) {
                    @let about = known.get(key.as_str());
                    tr {
                        th scope="row" data-label="Setting" { (short(key, VALUE)) }
                        td data-label="Value" { (said(frame, "setting", key, value)) }
                        td data-label="Default" { @match about { Some(Known { default: Some(default), .. }) => code { (default) }, Some(_) => span.dim { "not set" }, None => span.dim { "–" } } }
                        td.dim data-label="What it does" { (about.map_or_else(|| "Firesteel has no such setting.".to_owned(), |it| short(&it.doc, 160))) }
                    }
                } }
            }
            (left_out(differ.len()))
        }
        (folded(frame, &listing, "Settings at their defaults", same.into_iter().cloned().collect()))
        (folded(frame, &listing, "Runtime", pairs(&application.runtime)))
        (folded(frame, &listing, "Files", pairs(&application.resources)))
        @for (name, list) in application.others.iter().take(LISTS) { (folded(frame, &listing, name, list.clone())) }
        (profiles(status))
    }
}

fn folded(
    frame: &Frame<'_>,
    listing: &Listing,
    title: &str,
    pairs: Vec<(String, String)>,
) -> Markup {
    let pairs: Vec<_> = pairs
        .into_iter()
        .filter(|(key, value)| listing.finds(&[key, frame.secrets.apply(key, value)]))
        .collect();
    let is_open = !listing.search.is_empty() || title == "Runtime" && frame.place != Place::Report;
    html! {
        @if !pairs.is_empty() {
            details data-key=(key("list", title)) open[is_open] {
                summary { h2 { (named(title)) } " " span.dim { (counted(pairs.len() as u64, "entry").replace("entrys", "entries")) } }
                table aria-label=(named(title)) {
                    thead { tr { th scope="col" { "Name" } th scope="col" { "Value" } } }
                    tbody { @for (key, value) in pairs.iter().take(ROWS) {
                        tr { th scope="row" data-label="Name" { (short(key, VALUE)) } td data-label="Value" { (said(frame, title, key, value)) } }
                    } }
                }
                (left_out(pairs.len()))
            }
        }
    }
}

/// A value without its secrets. A class path takes pages: it is folded.
fn said(frame: &Frame<'_>, list: &str, name: &str, value: &str) -> Markup {
    let value = frame.secrets.apply(name, value);
    html! {
        @if value.chars().count() <= VALUE { code { (value) } } @else {
            details data-key=(key(list, name)) { summary { code { (short(value, VALUE)) } } pre { (short(value, LONG)) } }
        }
    }
}

fn left_out(entries: usize) -> Markup {
    html! { @if entries > ROWS { p.dim { (ROWS) " of " (entries) " entries: search for the others." } } }
}

fn profiles(status: &AppStatus) -> Markup {
    html! {
        @if !status.application().profiles.is_empty() {
            details data-key="profiles" {
                summary { h2 { "Resource profiles" } }
                table aria-label="Resource profiles" {
                    thead { tr { th.num scope="col" { "Profile" } th scope="col" { "Of each executor" } th scope="col" { "Of each task" } } }
                    tbody { @for profile in status.application().profiles.values().take(ROWS) {
                        tr {
                            td.num data-label="Profile" { (profile.id) }
                            td data-label="Of each executor" { @for (name, amount) in profile.executor.iter().take(LISTS) { (brief(name)) " " (amount) " " } }
                            td data-label="Of each task" { @for (name, amount) in profile.task.iter().take(LISTS) { (brief(name)) " " (amount) " " } }
                        }
                    } }
                }
            }
        }
    }
}
