//! Reads `use` declarations: `use std::{fs, io::{self, Read}};` imports `std::fs`, `std::io`, `std::io::Read`.

use crate::code::is_word;

/// Every path imported in `code`, with the position of its declaration.
pub(crate) fn imported_paths(code: &str) -> Vec<(usize, String)> {
    let mut paths = Vec::new();
    for (position, _) in code.match_indices("use ") {
        if position > 0 && is_word(code.as_bytes()[position - 1]) {
            continue;
        }
        let Some(length) = code[position..].find(';') else { continue };
        let tree = &code[position + "use ".len()..position + length];
        let mut found = Vec::new();
        expand("", tree, &mut found);
        paths.extend(found.into_iter().map(|path| (position, path)));
    }
    paths
}

fn expand(prefix: &str, tree: &str, found: &mut Vec<String>) {
    let tree = tree.trim();
    let Some((path, group)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default().trim();
        let whole = format!("{prefix}{path}");
        found.push(whole.trim_start_matches("::").trim_end_matches("::self").to_owned());
        return;
    };
    let prefix = format!("{prefix}{}", path.trim());
    let group = group.rsplit_once('}').map_or(group, |(inside, _)| inside);
    for branch in split_at_top_level(group) {
        expand(&prefix, branch, found);
    }
}

fn split_at_top_level(group: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    group
        .split(move |c| {
            match c {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            c == ',' && depth == 0
        })
        .filter(|branch| !branch.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::imported_paths;

    #[test]
    fn nested_groups_are_expanded() {
        for (code, expected) in [
            ("use std::fs;", vec!["std::fs"]),
            ("pub use std::fs as files;", vec!["std::fs"]),
            (
                "use std::{fs, io::{self, Read}, fmt};",
                vec!["std::fs", "std::io", "std::io::Read", "std::fmt"],
            ),
            ("use ::tokio::*;", vec!["tokio::*"]),
            ("fn reuse () {}", vec![]),
        ] {
            let paths: Vec<_> = imported_paths(code).into_iter().map(|(_, path)| path).collect();
            assert_eq!(paths, expected, "{code}");
        }
    }
}
