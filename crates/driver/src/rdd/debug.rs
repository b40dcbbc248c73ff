//! Lineage as text, in the form Spark prints it.

use std::sync::Arc;

use firesteel_rdd::Pipe;
use firesteel_types::{Dependency, RddInfo};

use super::persist::storage_level;
use crate::Rdd;

impl<T: 'static, P: Pipe<Item = T>> Rdd<T, P> {
    /// The lineage, one RDD per line: `(n)` counts partitions, `+-` marks a shuffle.
    ///
    /// ```text
    /// (2) ShuffledRDD[3] at reduce_by_key at src/main.rs:7 []
    ///  +-(2) MapPartitionsRDD[2] at map at src/main.rs:6 []
    ///     |  TextFileRDD[0] at text_file at src/main.rs:4 []
    /// ```
    pub fn to_debug_string(&self) -> String {
        describe_lineage(&self.info)
    }
}

/// A node still to be printed. Kept on a list, because lineages may be too deep for recursion.
struct Pending {
    rdd: Arc<RddInfo>,
    prefix: String,
    through_shuffle: bool,
    last: bool,
}

fn describe_lineage(rdd: &Arc<RddInfo>) -> String {
    let count = format!("({})", rdd.partitions);
    let mut lines = vec![format!("{count} {}", describe(rdd))];
    let mut pending = children(rdd, &below(&count));
    while let Some(node) = pending.pop() {
        if !node.through_shuffle {
            lines.push(format!("{}{}", node.prefix, describe(&node.rdd)));
            pending.extend(children(&node.rdd, &node.prefix));
            continue;
        }
        let count = format!("({})", node.rdd.partitions);
        let before = node.prefix.trim_end().trim_end_matches('|');
        lines.push(format!("{before}+-{count} {}", describe(&node.rdd)));
        let beside = if node.last { "  " } else { "| " };
        pending.extend(children(&node.rdd, &format!("{before}{beside}{}", below(&count))));
    }
    lines.join("\n")
}

/// What stands before the RDDs that share a stage with one whose line starts with `count`.
fn below(count: &str) -> String {
    let left = (count.len() - 1) / 2;
    format!("{}|{}", " ".repeat(left), " ".repeat(count.len() - left))
}

/// The parents, last first.
fn children(rdd: &RddInfo, prefix: &str) -> Vec<Pending> {
    let mut last = true;
    let pending = |dependency: &Dependency| Pending {
        rdd: dependency.rdd().clone(),
        prefix: prefix.to_owned(),
        through_shuffle: matches!(dependency, Dependency::Shuffle { .. }),
        last: std::mem::take(&mut last),
    };
    rdd.reads().iter().rev().map(pending).collect()
}

fn describe(info: &RddInfo) -> String {
    let name = info.name.as_ref().map_or(String::new(), |name| format!("{name} "));
    let level = storage_level(info);
    let kept = if level.is_valid() { level.description() } else { String::new() };
    format!("{name}{}[{}] at {} [{kept}]", info.kind, info.id, info.call_site)
}
