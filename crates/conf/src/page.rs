//! The documentation page of all keys, rendered from the registry.

use std::fmt::Write;

use crate::entry::{AnyEntry, Scope};
use crate::prefixes::PREFIXES;
use crate::{entries, promises};

const INTRODUCTION: &str = "\
# Configuration

<!-- Generated from crates/conf/src/entries. To update it:
     UPDATE_EXPECT=1 cargo test -p firesteel-conf -->

Settings have Spark's names. They come from, the first one winning:

1. the program (`Conf::set` or the builder),
2. the flag `--master` (and `--name` of `firesteel submit`),
3. `--conf key=value` (of `firesteel submit` also `-c key=value`),
4. the environment: `MASTER` or `SPARK_MASTER`, `SPARK_LOCAL_DIRS`, `SPARK_DRIVER_MEMORY`,
   `SPARK_EXECUTOR_MEMORY`, `SPARK_EXECUTOR_CORES`,
5. the file given with `--properties-file`, or else `spark-defaults.conf` in `$SPARK_CONF_DIR` or
   `$SPARK_HOME/conf`.

Arguments after `--` are the program's own. A value that is not valid is refused before any job
runs, with the key, where it was set and what is expected. Keys that do not start with `spark.` are
ignored with a warning; unknown `spark.` keys are kept and passed on. Those that Spark 4.3 knows and nothing
here reads are named in one warning that they have no effect. An old name of a key sets it, with a warning,
unless its new name is set too.

Settings that promise safety which is not here are refused with the reason until it is:
";

const NOTATIONS: &str = "
Sizes are whole numbers with `b`, `k`, `m`, `g`, `t` or `p` (powers of 1024); durations are whole
numbers with `us`, `ms`, `s`, `min`, `h` or `d`.

Keys marked *cluster* are checked with every master but make a difference only on a cluster.
";

/// The page as Markdown.
pub fn markdown() -> String {
    let mut page = INTRODUCTION.to_owned();
    refusals(&mut page).expect("a string grows");
    page.push_str(NOTATIONS);
    let mut category = "";
    for entry in entries::all() {
        if entry.about().category != category {
            category = entry.about().category;
            heading(&mut page, category).expect("a string grows");
        }
        row(&mut page, entry).expect("a string grows");
    }
    prefixes(&mut page).expect("a string grows");
    page
}

/// Keys that are refused unless they promise nothing.
fn refusals(page: &mut String) -> std::fmt::Result {
    let keys: Vec<String> = promises::keys().map(|key| format!("`{key}`")).collect();
    writeln!(page, "{}.", keys.join(", "))
}

/// Keys that go on with a name of the user's.
fn prefixes(page: &mut String) -> std::fmt::Result {
    writeln!(page, "\n## Keys that go on with a name\n\n| Key | Meaning |\n|---|---|")?;
    let mut rows = PREFIXES.iter();
    rows.try_for_each(|(prefix, meaning)| writeln!(page, "| `{prefix}NAME` | {meaning} |"))
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
    let formerly = about.formerly.iter().map(|old_name| format!(" Formerly `{old_name}`."));
    let cluster = if about.scope == Scope::Cluster { "*Cluster.* " } else { "" };
    let cells = [
        format!("`{}`", about.key),
        default,
        entry.kind(),
        format!("{cluster}{}{}", about.doc_text(), formerly.collect::<String>()),
        about.since.to_owned(),
    ];
    writeln!(page, "| {} |", cells.map(|cell| cell.replace('|', "\\|")).join(" | "))
}
