//! What is cached, how much of it, and where.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use firesteel_status::{AppStatus, CachedBlock, Order, RddStatus};
use firesteel_types::ExecutorId;
use maud::{Markup, html};

use super::{brief, executor_name, facts, named, said, size};
use crate::chart::gauge;
use crate::frame::Frame;
use crate::list::{self, Column, Listing, Part, number_column, text_column};
use crate::text::{bytes, count};

/// So many executors that hold one partition are named.
const REPLICAS: usize = 10;

const RDDS: [Column; 6] = [
    number_column("RDD", "id"),
    text_column("Name", "name"),
    text_column("Storage level", "level"),
    text_column("Cached partitions", "partitions"),
    number_column("In memory", "memory"),
    number_column("On disk", "disk"),
];

const PARTITIONS: [Column; 4] = [
    number_column("Partition", "id"),
    text_column("Executors", "executors"),
    number_column("In memory", "memory"),
    number_column("On disk", "disk"),
];

const HOLDERS: [Column; 5] = [
    text_column("Executor", "id"),
    text_column("Share", "size"),
    number_column("Partitions", "partitions"),
    number_column("In memory", "memory"),
    number_column("On disk", "disk"),
];

pub(crate) fn main(frame: &Frame<'_>, status: &AppStatus) -> Markup {
    let mut listing = Listing::of(&frame.query, "memory", Order::Descending);
    let all: Vec<&RddStatus> = status
        .rdds()
        .filter(|rdd| listing.finds(&[&rdd.rdd.name, &rdd.rdd.id.to_string()]))
        .collect();
    let sort = listing.sort.clone();
    let (rdds, total) = listing.cut(all, |a, b| compare(&sort, a, b));
    let rows = rdds.iter().map(|rdd| row(frame, rdd)).collect();
    html! {
        h1 { "Storage" }
        @if status.rdds().next().is_none() {
            p.empty { "Nothing is cached. Cached partitions are in event logs only with spark.eventLog.logBlockUpdates.enabled=true." }
        } @else {
            (list::search(frame, &listing, "Name or id", &[]))
            @if rdds.is_empty() { p.empty { "No RDD is like that." } } @else {
                (list::pager(frame, &listing, total))
                (list::table(frame, &listing, "Cached RDDs", &RDDS, rows))
                (list::pager(frame, &listing, total))
            }
        }
    }
}

fn compare(sort: &str, a: &RddStatus, b: &RddStatus) -> Ordering {
    let by = match sort {
        "name" => a.rdd.name.cmp(&b.rdd.name),
        "level" => a.level.description().cmp(&b.level.description()),
        "partitions" => a.partitions.len().cmp(&b.partitions.len()),
        "memory" => a.memory_bytes().cmp(&b.memory_bytes()),
        "disk" => a.disk_bytes().cmp(&b.disk_bytes()),
        _ => Ordering::Equal,
    };
    by.then(a.rdd.id.cmp(&b.rdd.id))
}

fn cached(rdd: &RddStatus) -> Markup {
    let (cached, all) = (rdd.partitions.len() as u64, u64::from(rdd.rdd.partitions));
    html! { (gauge(cached, all, &format!("{cached} of {all} partitions"))) span.numbers { (count(cached)) "/" (count(all)) } }
}

fn row(frame: &Frame<'_>, rdd: &RddStatus) -> Vec<Markup> {
    vec![
        html! { a href=(frame.rdd(rdd.rdd.id)) { (rdd.rdd.id) } },
        html! { a href=(frame.rdd(rdd.rdd.id)) { (named(&rdd.rdd.name)) } br; span.dim { (named(&rdd.rdd.call_site)) } },
        said(rdd.level.description()),
        cached(rdd),
        size(rdd.memory_bytes()),
        size(rdd.disk_bytes()),
    ]
}

pub(crate) fn rdd(frame: &Frame<'_>, status: &AppStatus, rdd: &RddStatus) -> Markup {
    let mut listing = Listing::of(&frame.query, "id", Order::Ascending);
    let is_found = |(partition, blocks): &Partition<'_>| {
        listing.search.is_empty()
            || partition.to_string() == listing.search
            || blocks.keys().any(|it| executor_name(status, *it).to_lowercase() == listing.search)
    };
    let all = rdd.partitions.iter().filter(is_found).collect();
    let sort = listing.sort.clone();
    let (partitions, total) = listing.cut(all, |a, b| compare_partitions(&sort, a, b));
    let rows = partitions.iter().map(|partition| partition_row(frame, status, partition)).collect();
    html! {
        h1 { "RDD " (rdd.rdd.id) ": " (named(&rdd.rdd.name)) }
        (facts(&[
            ("Storage level", said(rdd.level.description())),
            ("Cached partitions", cached(rdd)),
            ("In memory", said(bytes(rdd.memory_bytes()))),
            ("On disk", said(bytes(rdd.disk_bytes()))),
            ("Made by", said(named(&rdd.rdd.call_site))),
        ]))
        (holders(frame, status, rdd))
        h2 { "Partitions" }
        (list::search(frame, &listing, "Partition or executor", &[]))
        @if partitions.is_empty() { p.empty { "No partition is like that." } } @else {
            (list::pager(frame, &listing, total))
            (list::table(frame, &listing, "Partitions", &PARTITIONS, rows))
            (list::pager(frame, &listing, total))
        }
    }
}

fn sum(blocks: &BTreeMap<ExecutorId, CachedBlock>, of: fn(&CachedBlock) -> u64) -> u64 {
    blocks.values().fold(0, |sum, block| sum.saturating_add(of(block)))
}

type Partition<'a> = (&'a u32, &'a BTreeMap<ExecutorId, CachedBlock>);

fn compare_partitions(sort: &str, a: &Partition<'_>, b: &Partition<'_>) -> Ordering {
    let by = match sort {
        "executors" => a.1.len().cmp(&b.1.len()).then_with(|| a.1.keys().cmp(b.1.keys())),
        "memory" => sum(a.1, |it| it.memory_bytes).cmp(&sum(b.1, |it| it.memory_bytes)),
        "disk" => sum(a.1, |it| it.disk_bytes).cmp(&sum(b.1, |it| it.disk_bytes)),
        _ => Ordering::Equal,
    };
    by.then(a.0.cmp(b.0))
}

fn partition_row(
    frame: &Frame<'_>,
    status: &AppStatus,
    (partition, blocks): &Partition<'_>,
) -> Vec<Markup> {
    vec![
        said(count(u64::from(**partition))),
        html! {
            @for executor in blocks.keys().take(REPLICAS) { a href=(frame.executor(*executor)) { (executor_name(status, *executor)) } " " }
            @if blocks.len() > REPLICAS { (count((blocks.len() - REPLICAS) as u64)) " more" }
        },
        size(sum(blocks, |it| it.memory_bytes)),
        size(sum(blocks, |it| it.disk_bytes)),
    ]
}

/// What one executor holds of an RDD.
#[derive(Clone, Copy, Default)]
struct Holding {
    partitions: u64,
    memory: u64,
    disk: u64,
}

impl Holding {
    fn size(self) -> u64 {
        self.memory.saturating_add(self.disk)
    }
}

fn compare_holders(
    sort: &str,
    (one, a): &(ExecutorId, Holding),
    (other, b): &(ExecutorId, Holding),
) -> Ordering {
    let by = match sort {
        "id" => Ordering::Equal,
        "partitions" => a.partitions.cmp(&b.partitions),
        "memory" => a.memory.cmp(&b.memory),
        "disk" => a.disk.cmp(&b.disk),
        _ => a.size().cmp(&b.size()),
    };
    by.then(one.cmp(other))
}

/// How much each executor holds, those that hold most first.
fn holders(frame: &Frame<'_>, status: &AppStatus, rdd: &RddStatus) -> Markup {
    let mut held: BTreeMap<ExecutorId, Holding> = BTreeMap::new();
    for (executor, block) in rdd.partitions.values().flatten() {
        let one = held.entry(*executor).or_default();
        one.partitions += 1;
        one.memory = one.memory.saturating_add(block.memory_bytes);
        one.disk = one.disk.saturating_add(block.disk_bytes);
    }
    let most = held.values().map(|it| it.size()).max().unwrap_or(0);
    let part = Part {
        listing: Listing::beside(&frame.query, "executors-", "size", Order::Descending),
        label: "By executor",
        search: "Executor or host",
        columns: &HOLDERS,
        items: held.into_iter().collect(),
    };
    let host = |executor: &ExecutorId| status.executor(*executor).map_or("", |it| &it.info.host.0);
    let is_found = |listing: &Listing, (executor, _): &(ExecutorId, Holding)| {
        listing.finds(&[&executor_name(status, *executor), host(executor)])
    };
    let row = |(executor, holding): &(ExecutorId, Holding)| {
        let all = bytes(holding.size());
        vec![
            html! { a href=(frame.executor(*executor)) { (executor_name(status, *executor)) } " " span.dim { (brief(host(executor))) } },
            html! { (gauge(holding.size(), most, &all)) span.numbers { (all) } },
            said(count(holding.partitions)),
            size(holding.memory),
            size(holding.disk),
        ]
    };
    html! { h2 { "By executor" } (part.draw(frame, is_found, compare_holders, row)) }
}
