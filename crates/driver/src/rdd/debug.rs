//! Lineage as text, in the form Spark prints it.

use std::collections::BTreeSet;
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
    ///
    /// What an RDD reads is told once, where it is met first. Of a very long lineage, the first 10,000 lines are.
    pub fn to_debug_string(&self) -> String {
        describe_lineage(&self.info)
    }
}

/// How much of a lineage is printed. Each shuffle moves what is behind it to the right.
const MOST_LINES: usize = 10_000;
const MOST_BYTES: usize = 16 << 20;

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
    let (mut bytes, mut seen) = (0, BTreeSet::new());
    let mut pending = children(rdd, &below(&count));
    while let Some(node) = pending.pop() {
        if lines.len() >= MOST_LINES || bytes > MOST_BYTES {
            lines.push("... and more, which is not shown".to_owned());
            break;
        }
        let again = !seen.insert(node.rdd.id) && !node.rdd.reads().is_empty();
        let seen_before = if again { " (as above)" } else { "" };
        let (line, prefix) = node.line();
        bytes += line.len();
        lines.push(line + seen_before);
        if !again {
            pending.extend(children(&node.rdd, &prefix));
        }
    }
    lines.join("\n")
}

impl Pending {
    /// Its line, and what stands before the lines of its parents.
    fn line(&self) -> (String, String) {
        if !self.through_shuffle {
            return (format!("{}{}", self.prefix, describe(&self.rdd)), self.prefix.clone());
        }
        let count = format!("({})", self.rdd.partitions);
        let before = self.prefix.trim_end().trim_end_matches('|');
        let beside = if self.last { "  " } else { "| " };
        let line = format!("{before}+-{count} {}", describe(&self.rdd));
        (line, format!("{before}{beside}{}", below(&count)))
    }
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
