//! The documentation page of all keys, rendered from the registry.

use std::fmt::Write;

use crate::entries;
use crate::entry::{AnyEntry, Scope};

const INTRODUCTION: &str = "\
# Configuration

<!-- Generated from crates/conf/src/entries.rs. To update it:
     UPDATE_EXPECT=1 cargo test -p firesteel-conf -->

Settings have Spark's names. They come from, the first one winning:

1. the program (`Conf::set` or the builder),
2. the flags `--master` and `--name`,
3. `--conf key=value` (or `-c key=value`),
4. the environment: `MASTER` or `SPARK_MASTER`, `SPARK_LOCAL_DIRS`, `SPARK_DRIVER_MEMORY`,
   `SPARK_EXECUTOR_MEMORY`, `SPARK_EXECUTOR_CORES`,
5. the file given with `--properties-file`, or else `spark-defaults.conf` in `$SPARK_CONF_DIR` or
   `$SPARK_HOME/conf`.

Arguments after `--` are the program's own. A value that is not valid is refused before any job
runs, with the key, where it was set and what is expected. Keys that do not start with `spark.` are
ignored with a warning; unknown `spark.` keys are kept and passed on.

Sizes are whole numbers with `b`, `k`, `m`, `g`, `t` or `p` (powers of 1024); durations are whole
numbers with `us`, `ms`, `s`, `min`, `h` or `d`.

Keys marked *cluster* are checked with every master but make a difference only on a cluster.
";

/// The page as Markdown.
pub fn markdown() -> String {
    let mut page = INTRODUCTION.to_owned();
    let mut category = "";
    for entry in entries::ALL {
        if entry.about().category != category {
            category = entry.about().category;
            heading(&mut page, category).expect("a string grows");
        }
        row(&mut page, *entry).expect("a string grows");
    }
    page
}

fn heading(page: &mut String, category: &str) -> std::fmt::Result {
    writeln!(page, "\n## {category}\n")?;
    writeln!(page, "| Key | Default | Value | Meaning | Since |\n|---|---|---|---|---|")
}

fn row(page: &mut String, entry: &dyn AnyEntry) -> std::fmt::Result {
    let about = entry.about();
    let default = match (about.follows, about.default) {
        (Some(key), _) => format!("that of `{key}`"),
        (None, Some(text)) => format!("`{text}`"),
        (None, None) => "not set".to_owned(),
    };
    let cluster = if about.scope == Scope::Cluster { "*Cluster.* " } else { "" };
    let cells = [
        format!("`{}`", about.key),
        default,
        entry.kind(),
        format!("{cluster}{}", about.doc_text()),
        about.since.to_owned(),
    ];
    writeln!(page, "| {} |", cells.map(|cell| cell.replace('|', "\\|")).join(" | "))
}
