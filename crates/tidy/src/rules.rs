//! The rules, one function each, and what they say when broken.

use std::fmt;

use crate::Source;
use crate::code::is_word;
use crate::docs::repetitions;
use crate::fields::{Fields, open_structs};
use crate::uses::imported_paths;
use crate::words;

/// Where decisions are made: no clock, randomness, IO, locks, threads or unordered maps in here.
pub const PURE_CORES: &[&str] = &[
    "crates/backend/src/",
    "crates/kubernetes-core/src/",
    "crates/standalone-core/src/application/",
    "crates/standalone-core/src/leaders.rs",
    "crates/standalone-core/src/master/",
    "crates/standalone-core/src/messages.rs",
    "crates/standalone-core/src/worker/",
    "crates/scheduler/src/",
    "crates/status/src/",
    "crates/storage/src/grants.rs",
    "crates/types/src/",
];

/// The only crate that may contain `unsafe`.
const UNSAFE_CRATE: &str = "crates/closure/";

/// Not part of Firesteel: the programs it is measured against, which may do whatever makes them fast.
const MEASURED_AGAINST: &str = "benches/limit/";

/// Files longer than this, tests aside, hide two things that want a name each.
const MAX_LINES: usize = 600;

/// Structs that are too open and still to be cut into sub-states. Only ever shorter.
const OPEN_FOR_NOW: &[(&str, &str)] =
    &[("crates/engine/src/state.rs", "State"), ("crates/sim/src/world.rs", "World")];

/// Paths, macros and words that make a core impure.
const IMPURE: &[&str] = &[
    "Instant::now",
    "SystemTime",
    "std::thread",
    "std::fs",
    "std::net",
    "std::io",
    "std::env",
    "std::process",
    "tokio",
    "rand",
    "fastrand",
    "HashMap",
    "HashSet",
    "Mutex",
    "RwLock",
    "async",
    "print!",
    "println!",
    "eprint!",
    "eprintln!",
];

/// Words that an identifier of our own may well be: they are only impure as a path's first part.
const IMPURE_AS_PATH_ONLY: &[&str] = &["rand", "fastrand", "tokio"];

const LEFTOVERS: &[&str] = &["todo!", "unimplemented!", "dbg!"];

const NAMELESS: &[&str] = &["utils", "util", "common", "misc", "helpers", "helper"];

/// Directories of the machine something was written on. Split so that this file obeys its own rule.
const MACHINE_PATHS: &[&str] = &[concat!("/ro", "ot/"), concat!("/wo", "rk/")];

/// One broken rule at one place. Displays as `file:line: message`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// Path relative to the workspace.
    pub path: String,
    /// Line, counted from 1.
    pub line: usize,
    /// What is wrong, and what to do where that is not plain.
    pub message: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// Applies every rule to `source`.
pub fn check(source: &Source) -> Vec<Complaint> {
    let mut found = Findings { source, complaints: Vec::new() };
    found.name();
    found.lines();
    if source.is_rust() {
        found.header();
        found.docs();
        found.purity();
        found.unsafe_code();
        found.leftovers();
        found.size();
        found.fields();
    }
    found.complaints
}

struct Findings<'a> {
    source: &'a Source,
    complaints: Vec<Complaint>,
}

impl Findings<'_> {
    fn complain(&mut self, line: usize, message: impl Into<String>) {
        let complaint = Complaint { path: self.source.path.clone(), line, message: message.into() };
        if !self.complaints.contains(&complaint) {
            self.complaints.push(complaint);
        }
    }

    fn name(&mut self) {
        let nameless = self.source.path.split('/').find_map(|part| {
            let stem = part.split('.').next().unwrap_or_default();
            NAMELESS.contains(&stem).then(|| stem.to_owned())
        });
        if let Some(stem) = nameless {
            self.complain(1, format!("`{stem}` names nothing: call it after what it owns"));
        }
    }

    fn lines(&mut self) {
        let source = self.source;
        for (index, line) in source.text.split('\n').enumerate() {
            let number = index + 1;
            if line.ends_with([' ', '\t', '\r']) {
                self.complain(number, "trailing whitespace");
            }
            if line.contains('\t') {
                self.complain(number, "a tab: indent with spaces");
            }
            for complaint in words::complaints(&source.path, line) {
                self.complain(number, complaint);
            }
            for path in MACHINE_PATHS.iter().filter(|path| has_absolute_path(line, path)) {
                self.complain(number, format!("`{path}` only exists on one machine"));
            }
        }
    }

    fn header(&mut self) {
        let first = self.source.text.lines().find(|line| {
            let line = line.trim();
            !(line.is_empty() || line.starts_with("#![") || line.starts_with("#!/"))
        });
        if !first.is_some_and(|line| line.starts_with("//!")) {
            self.complain(1, "no `//!` header: say what this file owns and what it never does");
        }
    }

    fn docs(&mut self) {
        let source = self.source;
        for (line, doc) in repetitions(&source.text) {
            let message = format!(
                "`{doc}` only repeats the name: say what it does not (a unit, what `None` means), or leave it out"
            );
            self.complain(line, message);
        }
    }

    fn purity(&mut self) {
        let source = self.source;
        if !PURE_CORES.iter().any(|core| source.path.starts_with(core)) {
            return;
        }
        let imports = imported_paths(&source.code);
        for word in IMPURE {
            let imported = imports.iter().filter(|(_, path)| mentions(path, word)).map(|(p, _)| *p);
            let written = positions(&source.code, word).filter(|position| {
                !IMPURE_AS_PATH_ONLY.contains(word)
                    || source.code[position + word.len()..].starts_with("::")
            });
            let places: Vec<usize> = imported.chain(written).collect();
            for position in places.into_iter().filter(|p| !source.is_test_code(*p)) {
                let line = source.line_of(position);
                self.complain(line, format!("a pure core must not use `{word}`"));
            }
        }
    }

    fn unsafe_code(&mut self) {
        let source = self.source;
        if [UNSAFE_CRATE, MEASURED_AGAINST].iter().any(|start| source.path.starts_with(start)) {
            return;
        }
        for position in positions(&source.code, "unsafe") {
            let message = format!("`unsafe` outside {UNSAFE_CRATE}: all of it lives there");
            self.complain(source.line_of(position), message);
        }
    }

    fn leftovers(&mut self) {
        let source = self.source;
        for word in LEFTOVERS {
            for position in positions(&source.code, word) {
                self.complain(source.line_of(position), format!("`{word}` was left behind"));
            }
        }
    }

    fn size(&mut self) {
        let lines = self.source.lines_without_tests();
        if !self.source.is_test_file() && lines > MAX_LINES {
            let message = format!("{lines} lines without tests, {MAX_LINES} at most: split it");
            self.complain(MAX_LINES + 1, message);
        }
    }

    fn fields(&mut self) {
        let source = self.source;
        for found in open_structs(&source.code) {
            let Fields { name, position, all, open } = found;
            let listed = OPEN_FOR_NOW.contains(&(source.path.as_str(), name));
            if !listed && !source.is_test_code(position) {
                let message = format!(
                    "{open} of {all} fields of `{name}` are open to its siblings, though it changes itself: \
                     cut it into sub-states with private fields and methods"
                );
                self.complain(source.line_of(position), message);
            }
        }
    }
}

/// Does the imported `path` contain `word` as whole parts? Crates only count as the first part.
fn mentions(path: &str, word: &str) -> bool {
    if word.contains("::") || IMPURE_AS_PATH_ONLY.contains(&word) {
        path.strip_prefix(word).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    } else {
        path.split("::").any(|part| part == word)
    }
}

/// Where `word` stands in `code` as a whole word.
pub(crate) fn positions<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let bytes = code.as_bytes();
    code.match_indices(word).map(|(position, _)| position).filter(move |position| {
        let before = position.checked_sub(1).map(|at| bytes[at]);
        let after = bytes.get(position + word.len()).copied();
        let ends_in_word = word.bytes().last().is_some_and(is_word);
        let is_longer = before.is_some_and(is_word) || ends_in_word && after.is_some_and(is_word);
        !is_longer
    })
}

/// Does `path` stand in `line` as the beginning of an absolute path, not inside a longer one?
fn has_absolute_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(position, _)| {
        let before = line[..position].chars().next_back();
        before.is_none_or(|c| c.is_whitespace() || "\"'`(=:,<[".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::{MACHINE_PATHS, MAX_LINES, check};
    use crate::Source;

    const CORE: &str = "crates/scheduler/src/core.rs";
    const SHELL: &str = "crates/driver/src/shell.rs";

    fn complaints(path: &str, text: &str) -> Vec<String> {
        check(&Source::new(path, text))
            .into_iter()
            .map(|c| format!("{}: {}", c.line, c.message))
            .collect()
    }

    #[track_caller]
    fn accepted(path: &str, text: &str) {
        assert_eq!(complaints(path, text), Vec::<String>::new(), "{path}: {text:?}");
    }

    /// Expects one complaint at `line` that contains `words`.
    #[track_caller]
    fn refused(path: &str, text: &str, line: usize, words: &str) {
        let found = complaints(path, text);
        let expected = |c: &String| c.starts_with(&format!("{line}: ")) && c.contains(words);
        assert!(found.len() == 1 && found.iter().all(expected), "{path}: {text:?}: {found:?}");
    }

    fn body(line: &str) -> String {
        format!("//! Header.\n\n{line}\n")
    }

    #[test]
    fn a_file_opens_with_its_header_after_inner_attributes() {
        accepted(SHELL, "//! Owns a thing.\n");
        accepted(SHELL, "#![allow(missing_docs)]\n\n//! Owns a thing.\n");
        refused(SHELL, "use std::fmt;\n", 1, "no `//!` header");
        refused(SHELL, "// Owns a thing.\n", 1, "no `//!` header");
        refused(SHELL, "/// Owns a thing.\nstruct Thing;\n", 1, "no `//!` header");
        refused(SHELL, "", 1, "no `//!` header");
    }

    #[test]
    fn a_pure_core_has_no_clock_rng_io_lock_thread_or_unordered_map() {
        for (line, word) in [
            ("let now = std::time::Instant::now();", "Instant::now"),
            ("use std::time::{Duration, SystemTime};", "SystemTime"),
            ("fn a() { std::thread::yield_now() }", "std::thread"),
            ("use std::{fmt, fs};", "std::fs"),
            ("use std::{fmt, io::{self, Read}};", "std::io"),
            ("use std::net::SocketAddr;", "std::net"),
            ("fn a() { tokio::spawn(b()); }", "tokio"),
            ("use rand::Rng;", "rand"),
            ("fn a() -> u8 { fastrand::u8(..) }", "fastrand"),
            ("struct A { b: HashMap<u8, u8> }", "HashMap"),
            ("use std::collections::{BTreeMap, HashSet};", "HashSet"),
            ("struct A(Mutex<u8>);", "Mutex"),
            ("use std::sync::RwLock;", "RwLock"),
            ("async fn a() {}", "async"),
            ("fn a() { println!(); }", "println!"),
        ] {
            refused(CORE, &body(line), 3, &format!("`{word}`"));
            refused("crates/types/src/id.rs", &body(line), 3, &format!("`{word}`"));
            accepted(SHELL, &body(line));
        }
    }

    #[test]
    fn words_that_only_look_impure_are_fine_in_a_core() {
        for line in [
            "// no HashMap and no Instant::now in here",
            "const A: &str = \"HashMap\";",
            "use std::{collections::BTreeMap, time::Duration};",
            "fn a(rand: u64, tokio: u64) -> u64 { rand + tokio }",
            "struct MyHashMap; struct HashMapLike; fn my_println() {}",
            "use crate::strand::rand_like;",
            "#[cfg(test)]\nmod tests {\n    use std::collections::HashMap;\n}",
        ] {
            accepted(CORE, &body(line));
        }
        accepted("crates/scheduler/src/core/tests.rs", &body("use std::collections::HashMap;"));
        accepted("crates/scheduler/tests/jobs.rs", &body("use std::collections::HashMap;"));
    }

    #[test]
    fn unsafe_lives_in_the_closure_crate_only() {
        let line = "fn a() { unsafe { b() } }";
        refused(SHELL, &body(line), 3, "`unsafe` outside crates/closure/");
        refused("crates/driver/tests/a.rs", &body(line), 3, "`unsafe`");
        refused("benches/src/main.rs", &body(line), 3, "`unsafe`");
        accepted("benches/limit/src/main.rs", &body(line));
        accepted("crates/closure/src/lib.rs", &body(line));
        accepted(SHELL, &body("#![forbid(unsafe_code)] // unsafe is far away"));
    }

    #[test]
    fn leftovers_of_work_in_progress_are_refused_in_tests_too() {
        for word in ["todo!", "unimplemented!", "dbg!"] {
            refused(SHELL, &body(&format!("fn a() {{ {word}() }}")), 3, word);
            refused("crates/a/tests/b.rs", &body(&format!("fn a() {{ {word}() }}")), 3, word);
            accepted(SHELL, &body(&format!("// {word}() is refused")));
        }
        accepted(SHELL, &body("fn todo() {}"));
    }

    #[test]
    fn a_file_has_at_most_600_lines_without_its_tests() {
        let lines = |n: usize| format!("//! Header.\n{}", "fn a() {}\n".repeat(n - 1));
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "fn b() {}\n".repeat(500));
        accepted(SHELL, &lines(MAX_LINES));
        accepted(SHELL, &(lines(MAX_LINES) + &tests));
        accepted("crates/a/tests/b.rs", &lines(2 * MAX_LINES));
        refused(SHELL, &lines(MAX_LINES + 1), MAX_LINES + 1, "601 lines");
        refused(SHELL, &(lines(MAX_LINES + 1) + &tests), MAX_LINES + 1, "601 lines");
    }

    #[test]
    fn a_struct_that_changes_itself_keeps_fields_to_itself() {
        let fields: String = (0..4).map(|n| format!("    pub(super) a{n}: u8,\n")).collect();
        let data = body(&format!("struct A {{\n{fields}}}"));
        let keeper = format!("{data}impl A {{\n    fn b(&mut self) {{}}\n}}\n");
        accepted(SHELL, &data);
        refused(SHELL, &keeper, 3, "4 of 4 fields of `A` are open");
        accepted("crates/a/src/tests.rs", &keeper);
    }

    #[test]
    fn a_name_says_what_the_file_owns() {
        for path in
            ["crates/a/src/utils.rs", "crates/a/src/common/mod.rs", "crates/misc/src/lib.rs"]
        {
            refused(path, "//! Header.\n", 1, "names nothing");
        }
        refused("docs/helpers.md", "# Words\n", 1, "names nothing");
        accepted("crates/a/src/commonality.rs", "//! Header.\n");
    }

    #[test]
    fn whitespace_is_clean_in_every_text_file() {
        for path in ["README.md", "Cargo.toml", ".ci/run"] {
            refused(path, "a\nb \n", 2, "trailing whitespace");
            refused(path, "a\n\tb\n", 2, "a tab");
            refused(path, "a\r\n", 1, "trailing whitespace");
            accepted(path, "a\n  b\n");
        }
    }

    #[test]
    fn machine_paths_are_refused_wherever_they_stand() {
        for path in MACHINE_PATHS {
            refused("README.md", &format!("a\nsee `{path}a`\n"), 2, "one machine");
            refused(SHELL, &body(&format!("const A: &str = \"{path}a\";")), 3, "one machine");
            accepted("README.md", &format!("$SPARK_HOME{path}app-1/stdout\n"));
        }
    }
}
