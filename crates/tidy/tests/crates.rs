//! The crate table of ARCHITECTURE.md against what cargo knows: every crate is in it, and depends only on crates above.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Crates of the workspace by their short names, and the crates of the workspace that each depends on itself.
type Crates = BTreeMap<String, BTreeSet<String>>;

fn workspace() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).expect("this package is two directories deep")
}

/// `firesteel-rdd` is `rdd`.
fn short(name: &str) -> String {
    name.strip_prefix("firesteel-").unwrap_or(name).to_owned()
}

fn crates() -> Crates {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(workspace())
        .output()
        .expect("cargo can be run");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo tells in JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let name = |package: &Value| package["name"].as_str().expect("a name").to_owned();
    let own: BTreeSet<String> = packages.iter().map(name).collect();
    let dependencies = |package: &Value| {
        let all = package["dependencies"].as_array().expect("dependencies").iter();
        // Those of tests and build scripts have another kind.
        let normal = all.filter(|dependency| dependency["kind"].is_null()).map(name);
        normal.filter(|name| own.contains(name)).map(|name| short(&name)).collect()
    };
    packages.iter().map(|package| (short(&name(package)), dependencies(package))).collect()
}

/// The names in the first column of the crate table, in order.
fn table() -> Vec<String> {
    let text = std::fs::read_to_string(workspace().join("ARCHITECTURE.md")).expect("the guide");
    let rows = text.lines().skip_while(|line| !line.starts_with("| crate |")).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    rows.map(|row| row.split('`').nth(1).expect("a name").to_owned()).collect()
}

/// All that a crate depends on, directly or not.
fn reached(crates: &Crates, from: &str) -> BTreeSet<String> {
    let (mut found, mut todo) = (BTreeSet::new(), vec![from.to_owned()]);
    while let Some(name) = todo.pop() {
        for dependency in &crates[&name] {
            if found.insert(dependency.clone()) {
                todo.push(dependency.clone());
            }
        }
    }
    found
}

#[test]
fn the_crate_table_has_every_crate_and_none_depends_on_one_below_it() {
    let (mut crates, table) = (crates(), table());
    crates.remove("benches");
    let listed: BTreeSet<_> = table.iter().cloned().collect();
    assert_eq!(listed, crates.keys().cloned().collect(), "ARCHITECTURE.md against cargo metadata");
    for (place, name) in table.iter().enumerate() {
        let below: Vec<_> = crates[name].iter().filter(|it| !table[..place].contains(it)).collect();
        assert!(below.is_empty(), "{name} depends on {below:?}, which the table has below it");
    }
}

#[test]
fn the_borders_between_front_doors_engine_and_executors_hold() {
    let crates = crates();
    for (name, never) in [("executor", "rdd"), ("engine", "rdd"), ("rdd", "engine")] {
        assert!(!reached(&crates, name).contains(never), "{name} depends on {never}");
    }
    let status: Vec<_> = crates["status"].iter().map(String::as_str).collect();
    assert_eq!(status, ["conf", "types"]);
}
