//! The list of applications: searched by name, user, id, dates and state; two of them can be compared.

use std::cmp::Ordering;

use firesteel_monitor::rest::{ApplicationEntry, AttemptEntry, Query, parse_date};
use firesteel_monitor::site::Asked;
use firesteel_status::Order;
use maud::{Markup, html};

use super::link;
use crate::app::{brief, named};
use crate::badge::badge;
use crate::frame::{self, Frame};
use crate::known::Known;
use crate::list::{self, Column, Listing, number_column, text_column};
use crate::text::{encoded, millis, time};

const COLUMNS: [Column; 8] = [
    text_column("Compare", ""),
    text_column("Application", "name"),
    text_column("Id", "id"),
    text_column("State", "state"),
    text_column("User", "user"),
    text_column("Started", "started"),
    number_column("Duration", "duration"),
    text_column("Version", "version"),
];

const DAY_MS: i64 = 86_400_000;

pub(crate) fn page(asked: &Asked<'_>, root: &str) -> Markup {
    let known = Known::default();
    let frame = super::frame(asked, root, "/", &known);
    let mut listing = Listing::of(&frame.query, "started", Order::Descending);
    let all = asked.served.list();
    let count_all = all.len();
    let wanted: Vec<&ApplicationEntry> =
        all.iter().filter(|entry| is_wanted(&frame.query, &listing, entry)).collect();
    let sort = listing.sort.clone();
    let (entries, total) = listing.cut(wanted, |a, b| compare(&sort, a, b));
    let rows = entries.iter().map(|entry| row(&frame, entry)).collect();
    let main = html! {
        h1 { "Applications" }
        (search(&frame))
        @if count_all == 0 { p.empty { "There are no event logs here yet. An application writes one with spark.eventLog.enabled=true." } }
        @else if entries.is_empty() { p.empty { "No application is like that." } }
        @else {
            (list::pager(&frame, &listing, total))
            form method="get" action=(format!("{root}/compare/")) {
                (list::table(&frame, &listing, "Applications", &COLUMNS, rows))
                p { button type="submit" { "Compare two" } " " span.dim { "Mark two applications: what differs, stage by stage." } }
            }
            (list::pager(&frame, &listing, total))
        }
    };
    frame::plain(root, "History", &[], &main)
}

fn search(frame: &Frame<'_>) -> Markup {
    let value = |name: &str| frame.query.get(name).unwrap_or_default().to_owned();
    let states =
        [("completed", "completed"), ("failed", "failed"), ("running", "running or without end")];
    html! {
        form.search method="get" action=(format!("{}/", frame.root)) role="search" {
            label { "Name, user or id " input type="search" name="q" value=(value("q")); }
            label { "State " select name="state" {
                option value="" { "all" }
                @for (key, word) in states { option value=(key) selected[value("state") == key] { (word) } }
            } }
            label { "Started from " input type="date" name="from" value=(value("from")); }
            label { "to " input type="date" name="to" value=(value("to")); }
            button type="submit" { "Show" }
        }
    }
}

fn state(attempt: Option<&AttemptEntry>) -> &'static str {
    match attempt {
        Some(AttemptEntry { completed: false, .. }) | None => "running",
        Some(AttemptEntry { exit_code: Some(code), .. }) if *code != 0 => "failed",
        Some(_) => "completed",
    }
}

fn is_wanted(query: &Query, listing: &Listing, entry: &ApplicationEntry) -> bool {
    let last = entry.attempts.first();
    let user = last.map_or("", |attempt| &attempt.user);
    let started = last.map_or(0, |attempt| i64::try_from(attempt.started.0).unwrap_or(i64::MAX));
    let date = |name: &str| query.get(name).and_then(parse_date);
    listing.finds(&[&entry.name, &entry.id, user])
        && query.get("state").is_none_or(|wanted| wanted.is_empty() || wanted == state(last))
        && date("from").is_none_or(|from| started >= from)
        && date("to").is_none_or(|to| started < to.saturating_add(DAY_MS))
}

fn duration(attempt: &AttemptEntry) -> u64 {
    attempt.ended.unwrap_or(attempt.updated).since_ms(attempt.started)
}

fn compare(sort: &str, a: &ApplicationEntry, b: &ApplicationEntry) -> Ordering {
    let (last_a, last_b) = (a.attempts.first(), b.attempts.first());
    let by = match sort {
        "name" => a.name.cmp(&b.name),
        "state" => state(last_a).cmp(state(last_b)),
        "user" => last_a.map(|it| &it.user).cmp(&last_b.map(|it| &it.user)),
        "started" => last_a.map(|it| it.started).cmp(&last_b.map(|it| it.started)),
        "duration" => last_a.map(duration).cmp(&last_b.map(duration)),
        "version" => last_a.map(|it| &it.version).cmp(&last_b.map(|it| &it.version)),
        _ => Ordering::Equal,
    };
    by.then_with(|| a.id.cmp(&b.id))
}

fn row(frame: &Frame<'_>, entry: &ApplicationEntry) -> Vec<Markup> {
    let last = entry.attempts.first();
    let place = link(&frame.root, &entry.id, last.and_then(|it| it.id.as_deref()));
    let sign = match state(last) {
        "completed" => badge("good", "✓", "Completed"),
        "failed" => badge("bad", "✕", "Failed"),
        _ => badge("idle", "…", "No end yet"),
    };
    vec![
        html! { input type="checkbox" name="app" value=(entry.id) aria-label=(format!("Compare {} {}", named(&entry.name), named(&entry.id))); },
        html! {
            a href=(place) { @if entry.name.is_empty() { "(no name)" } @else { (named(&entry.name)) } }
            @if entry.attempts.len() > 1 { br; span.dim { "attempts: " @for it in entry.attempts.iter().take(20) {
                @let id = it.id.as_deref().unwrap_or("?");
                a href=(link(&frame.root, &entry.id, it.id.as_deref())) { (brief(id)) } " "
            } } }
        },
        html! { (named(&entry.id)) " " a.dim href=(format!("{}/api/v1/applications/{}/logs", frame.root, encoded(&entry.id))) aria-label=(format!("Download the log of {}", named(&entry.id))) { "log" } },
        sign,
        html! { (named(last.map_or("", |it| &it.user))) },
        last.map_or_else(|| html! {}, |it| time(it.started)),
        html! { (last.map_or_else(String::new, |it| millis(duration(it)))) },
        html! { (brief(last.map_or("", |it| &it.version))) },
    ]
}
