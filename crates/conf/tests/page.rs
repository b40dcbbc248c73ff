//! The documentation page in the repository is the one the registry renders.

use std::path::Path;

#[test]
fn the_page_of_keys_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let rendered = firesteel_conf::page::markdown();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, &rendered).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == rendered,
        "docs/configuration.md is out of date: run UPDATE_EXPECT=1 cargo test -p firesteel-conf"
    );
}
