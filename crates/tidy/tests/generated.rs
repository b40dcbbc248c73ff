//! The generated parts of README.md are up to date: the figures of `./bench`, and the beginning of the tour that the book and
//! the library's documentation open with.

use std::fs;
use std::path::{Path, PathBuf};

use firesteel_tidy::{Results, as_section, table, with_part};

/// What `./bench` may have left, in the order of the table.
const COMMANDS: [&str; 3] = ["engine", "rdd", "cluster"];

fn at(path: &str) -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).expect("this package is two directories deep").join(path)
}

fn results() -> Vec<Results> {
    let read = |command: &&str| {
        let text = fs::read_to_string(at(&format!("benches/results/{command}.tsv"))).ok()?;
        Some(Results::parse(command, &text).unwrap_or_else(|line| panic!("not a result: {line}")))
    };
    COMMANDS.iter().filter_map(read).collect()
}

#[test]
fn the_front_page_has_the_last_figures_and_the_tour() {
    let written = fs::read_to_string(at("README.md")).expect("there is a front page");
    let tour = fs::read_to_string(at("docs/tour.md")).expect("there is a tour");
    let rendered = with_part(&written, "figures", &table(&results())).unwrap();
    let (beginning, _) = tour.split_once("\n## ").expect("the tour has sections");
    let rendered = with_part(&rendered, "tour", &as_section(beginning)).unwrap();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(at("README.md"), &rendered).unwrap();
        return;
    }
    assert!(
        written == rendered,
        "README.md is out of date: run UPDATE_EXPECT=1 cargo test -p firesteel-tidy"
    );
}
