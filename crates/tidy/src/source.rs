//! One file of the workspace, cut into what the rules need.

use std::ops::Range;

use crate::code::only_code;

/// A file's path in the workspace and its text, with tests and non-code marked.
#[derive(Debug)]
pub struct Source {
    /// Path relative to the workspace, with `/` between its parts.
    pub path: String,
    /// The file as written.
    pub text: String,
    /// The file with comments and the contents of literals blanked out; empty unless it is Rust.
    pub code: String,
    /// Byte ranges of inline `#[cfg(test)] mod … { … }`.
    test_ranges: Vec<Range<usize>>,
}

impl Source {
    /// Cuts up the file `path` (relative to the workspace) that contains `text`.
    pub fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        let (path, text) = (path.into(), text.into());
        let code = if path.ends_with(".rs") { only_code(&text) } else { String::new() };
        let test_ranges = test_modules(&code);
        Self { path, text, code, test_ranges }
    }

    /// Is this a Rust file?
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Is all of this file test code?
    pub fn is_test_file(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        self.path.split('/').any(|part| part == "tests")
            || name == "tests.rs"
            || name.ends_with("_tests.rs")
            || self.code.contains("#![cfg(test)]")
    }

    /// Does the byte at `position` belong to a test?
    pub fn is_test_code(&self, position: usize) -> bool {
        self.is_test_file() || self.test_ranges.iter().any(|range| range.contains(&position))
    }

    /// The line number, counted from 1, of the byte at `position`.
    pub fn line_of(&self, position: usize) -> usize {
        1 + self.text.as_bytes()[..position].iter().filter(|b| **b == b'\n').count()
    }

    /// How many lines the file has outside its test modules.
    pub fn lines_without_tests(&self) -> usize {
        let in_tests: usize =
            self.test_ranges.iter().map(|range| self.text[range.clone()].lines().count()).sum();
        self.text.lines().count() - in_tests
    }
}

fn test_modules(code: &str) -> Vec<Range<usize>> {
    const ATTRIBUTE: &str = "#[cfg(test)]";
    code.match_indices(ATTRIBUTE)
        .filter_map(|(start, _)| {
            let item = start + ATTRIBUTE.len();
            let body = item + inline_module_brace(&code[item..])?;
            Some(start..body + braces_length(&code[body..]))
        })
        .collect()
}

/// Where the `{` of `mod name {` stands, if that is the item at the start of `code`.
fn inline_module_brace(code: &str) -> Option<usize> {
    let brace = code.find('{')?;
    let header = &code[..brace];
    let is_module = header.split_whitespace().any(|word| word == "mod");
    (is_module && !header.contains(';')).then_some(brace)
}

/// How long the `{…}` at the start of `code` is.
pub(crate) fn braces_length(code: &str) -> usize {
    let mut depth = 0_usize;
    for (position, byte) in code.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return position + 1,
            b'}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::Source;

    #[test]
    fn only_the_inline_test_module_is_test_code() {
        let text =
            "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() { let c = '{'; }\n}\nfn d() {}\n";
        let source = Source::new("crates/x/src/lib.rs", text);
        let is_test = |word: &str| source.is_test_code(text.find(word).unwrap());
        assert_eq!([is_test("fn a"), is_test("fn b"), is_test("fn d")], [false, true, false]);
        assert_eq!(source.lines_without_tests(), 2);
    }

    #[test]
    fn a_test_module_in_another_file_and_a_test_only_import_hide_nothing() {
        for item in ["mod tests;", "use std::fmt;", "fn helper() {}"] {
            let text = format!("#[cfg(test)]\n{item}\nfn a() {{}}\n");
            let source = Source::new("crates/x/src/lib.rs", text.clone());
            assert!(!source.is_test_code(text.find("fn a").unwrap()), "{item}");
        }
    }

    #[test]
    fn files_of_tests_are_known_by_their_place_or_name() {
        for (path, expected) in [
            ("crates/x/tests/jobs.rs", true),
            ("crates/x/src/core/tests.rs", true),
            ("crates/x/src/core/pool_tests.rs", true),
            ("crates/x/src/attests.rs", false),
            ("crates/x/src/core.rs", false),
        ] {
            assert_eq!(Source::new(path, "").is_test_file(), expected, "{path}");
        }
    }

    #[test]
    fn lines_count_from_one() {
        let source = Source::new("a.rs", "a\nb\nc");
        assert_eq!([source.line_of(0), source.line_of(2), source.line_of(4)], [1, 2, 3]);
    }
}
