//! Lineage as text, in the form Spark prints it.

use std::fmt::Write;
use std::sync::Arc;

use firesteel_rdd::Pipe;
use firesteel_types::{Dependency, RddInfo};

use crate::Rdd;

impl<T: 'static, P: Pipe<Item = T>> Rdd<T, P> {
    /// The lineage, one RDD per line; an indented `+-` marks a shuffle, `(n)` counts partitions.
    pub fn to_debug_string(&self) -> String {
        let mut lines = Vec::new();
        stage(&self.info, "", &mut lines);
        lines.join("\n")
    }
}

/// Prints one stage: the RDDs from `info` to the next shuffles, `info` with its partition count.
fn stage(info: &Arc<RddInfo>, indent: &str, lines: &mut Vec<String>) {
    let count = format!("({})", info.partitions);
    let below = format!("{indent}{}", " ".repeat(count.len() - 1));
    lines.push(format!("{indent}{count} {}", describe(info)));
    let mut pending: Vec<_> = info.dependencies.iter().rev().collect();
    let several = |dependencies: &[Dependency]| dependencies.len() > 1;
    let mut branch = several(&info.dependencies);
    while let Some(dependency) = pending.pop() {
        match dependency {
            Dependency::Narrow { rdd, .. } => {
                lines.push(format!("{below}|  {}", describe(rdd)));
                branch |= several(&rdd.dependencies);
                pending.extend(rdd.dependencies.iter().rev());
            }
            Dependency::Shuffle { rdd, .. } => {
                let bar = if branch && !pending.is_empty() { "|" } else { " " };
                let first = lines.len();
                stage(rdd, &format!("{below}{bar}  "), lines);
                mark_shuffle(&mut lines[first], below.len());
            }
        }
    }
}

/// Turns the three columns before a stage's count into `+-`.
fn mark_shuffle(line: &mut String, at: usize) {
    line.replace_range(at..at + 3, " +-");
}

fn describe(info: &RddInfo) -> String {
    let mut text = String::new();
    if let Some(name) = &info.name {
        let _ = write!(text, "{name} ");
    }
    let _ = write!(text, "{}[{}] at {} []", info.kind, info.id, info.call_site);
    text
}
