//! What is cached, how much of it, and where.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use firesteel_status::{AppStatus, CachedBlock, Order, RddStatus};
use firesteel_types::ExecutorId;
use maud::{Markup, html};

use super::{executor_name, facts, named, said, size};
use crate::chart::gauge;
use crate::frame::Frame;
use crate::list::{self, Column, Listing, number_column, text_column};
use crate::text::{bytes, count, counted};

/// So many executors that hold most of an RDD are shown, and so many that hold one partition.
const HOLDERS: usize = 50;
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
    text_column("Executors", ""),
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
            (list::search(frame, "Name or id", &[]))
            (list::pager(frame, &listing, total))
            (list::table(frame, &listing, "Cached RDDs", &RDDS, rows))
            (list::pager(frame, &listing, total))
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
    let all = rdd.partitions.iter().collect();
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
        (list::pager(frame, &listing, total))
        (list::table(frame, &listing, "Partitions", &PARTITIONS, rows))
        (list::pager(frame, &listing, total))
    }
}

fn sum(blocks: &BTreeMap<ExecutorId, CachedBlock>, of: fn(&CachedBlock) -> u64) -> u64 {
    blocks.values().fold(0, |sum, block| sum.saturating_add(of(block)))
}

type Partition<'a> = (&'a u32, &'a BTreeMap<ExecutorId, CachedBlock>);

fn compare_partitions(sort: &str, a: &Partition<'_>, b: &Partition<'_>) -> Ordering {
    let by = match sort {
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

/// How much each executor holds, those that hold most first.
fn holders(frame: &Frame<'_>, status: &AppStatus, rdd: &RddStatus) -> Markup {
    let mut held: BTreeMap<ExecutorId, (u64, u64, u64)> = BTreeMap::new();
    for (executor, block) in rdd.partitions.values().flatten() {
        let one = held.entry(*executor).or_default();
        *one = (
            one.0 + 1,
            one.1.saturating_add(block.memory_bytes),
            one.2.saturating_add(block.disk_bytes),
        );
    }
    let all_of =
        |(_, (_, memory, disk)): &(ExecutorId, (u64, u64, u64))| memory.saturating_add(*disk);
    let mut held: Vec<_> = held.into_iter().collect();
    held.sort_by_key(|holder| Reverse(all_of(holder)));
    let most = held.first().map_or(0, all_of);
    let others = held.len().saturating_sub(HOLDERS);
    html! {
        h2 { "By executor" }
        table aria-label="By executor" {
            thead { tr { th scope="col" { "Executor" } th.wide scope="col" { "Share" } th.num scope="col" { "Partitions" } th.num scope="col" { "In memory" } th.num scope="col" { "On disk" } } }
            tbody { @for (executor, (blocks, memory, disk)) in held.into_iter().take(HOLDERS) {
                tr {
                    td data-label="Executor" { a href=(frame.executor(executor)) { (executor_name(status, executor)) } }
                    td.wide data-label="Share" { (gauge(memory.saturating_add(disk), most, &bytes(memory.saturating_add(disk)))) }
                    td.num data-label="Partitions" { (count(blocks)) }
                    td.num data-label="In memory" { (size(memory)) }
                    td.num data-label="On disk" { (size(disk)) }
                }
            } }
        }
        @if others > 0 { p.dim { (counted(others as u64, "more executor")) " with less." } }
    }
}
