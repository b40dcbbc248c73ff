//! The guides: links lead somewhere, every page is in the book, limits of length hold, files that are named exist, code
//! is compiled, invariants that the code names are in their table.
//!
//! Not a Markdown parser: it knows headings, fences, code spans and links as these pages write them.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Complaint, Source};

/// Where the pages of the book lie; its contents are in `SUMMARY.md` there.
const BOOK: &str = "docs/";
const SUMMARY: &str = "docs/SUMMARY.md";

/// Compiles the code of the guides with its documentation tests.
const COMPILES_GUIDES: &str = "crates/firesteel/src/lib.rs";

/// Has a row for every invariant, which begins with its id.
const INVARIANTS: &str = "docs/internals/invariants.md";

/// Pages that a reader shall get through: words or lines at most.
const MOST_WORDS: (&str, usize) = ("ARCHITECTURE.md", 2500);
const MOST_LINES: (&str, usize) = ("README.md", 125);

/// The page whose lines have one sentence each, so that a change of one shows as a change of one.
const ONE_SENTENCE_A_LINE: &str = "ARCHITECTURE.md";

/// Pages that name files without `crates/` and `src/`.
const NAMES_FILES: &[&str] = &["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/internals/"];

/// Applies the rules about guides to all sources of the workspace; `exists` knows every other file and directory.
pub fn check_guides(sources: &[Source], exists: impl Fn(&str) -> bool) -> Vec<Complaint> {
    let pages = sources.iter().filter(|source| is_guide(&source.path)).map(Page::new);
    let pages: BTreeMap<&str, Page<'_>> = pages.map(|page| (page.path, page)).collect();
    let mut complaints = Vec::new();
    for page in pages.values() {
        complaints.extend(page.dead_links(&pages, &exists));
        complaints.extend(page.length());
        complaints.extend(page.crowded_lines());
        complaints.extend(page.missing_files(sources));
        complaints.extend(page.uncompiled_code(sources));
    }
    complaints.extend(missing_in_book(&pages));
    complaints.extend(pages.get(INVARIANTS).map_or(Vec::new(), |page| page.missing_ids(sources)));
    complaints
}

fn is_guide(path: &str) -> bool {
    path.ends_with(".md")
}

/// One page and its lines outside of code blocks, by number.
struct Page<'a> {
    path: &'a str,
    text: &'a str,
    prose: Vec<(usize, &'a str)>,
    anchors: BTreeSet<String>,
}

impl<'a> Page<'a> {
    fn new(source: &'a Source) -> Self {
        let (path, text) = (source.path.as_str(), source.text.as_str());
        let prose = prose(text);
        let anchors = anchors(&prose);
        Self { path, text, prose, anchors }
    }

    fn complaint(&self, line: usize, message: String) -> Complaint {
        Complaint { path: self.path.to_owned(), line, message }
    }

    fn links(&self) -> impl Iterator<Item = (usize, String)> {
        let of_line = |(number, line): &(usize, &str)| {
            let number = *number;
            links(line).into_iter().map(move |link| (number, link)).collect::<Vec<_>>()
        };
        self.prose.iter().flat_map(of_line)
    }

    fn dead_links(
        &self,
        pages: &BTreeMap<&str, Page<'_>>,
        exists: &impl Fn(&str) -> bool,
    ) -> Vec<Complaint> {
        let dead = |(line, link): (usize, String)| {
            let message = self.dead(&link, pages, exists)?;
            Some(self.complaint(line, message))
        };
        self.links().filter(|(_, link)| !link.contains("://")).filter_map(dead).collect()
    }

    fn dead(
        &self,
        link: &str,
        pages: &BTreeMap<&str, Page<'_>>,
        exists: &impl Fn(&str) -> bool,
    ) -> Option<String> {
        let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
        let target = if path.is_empty() { self.path.to_owned() } else { resolve(self.path, path) };
        if self.path.starts_with(BOOK) && !target.starts_with(BOOK) {
            return Some(format!(
                "`{link}` leads out of the book, where its readers cannot follow"
            ));
        }
        match pages.get(target.as_str()) {
            Some(page) if anchor.is_empty() || page.anchors.contains(anchor) => None,
            Some(_) => Some(format!("`{link}`: {target} has no heading #{anchor}")),
            None if anchor.is_empty() && exists(&target) => None,
            None => Some(format!("`{link}`: there is no {target}")),
        }
    }

    fn length(&self) -> Option<Complaint> {
        let (words, lines) = (self.text.split_whitespace().count(), self.text.lines().count());
        let message = match self.path {
            path if path == MOST_WORDS.0 && words > MOST_WORDS.1 => {
                format!("{words} words, {} at most: move details to docs/internals", MOST_WORDS.1)
            }
            path if path == MOST_LINES.0 && lines > MOST_LINES.1 => {
                format!("{lines} lines, {} at most: move details to docs", MOST_LINES.1)
            }
            _ => return None,
        };
        Some(self.complaint(1, message))
    }

    fn crowded_lines(&self) -> Vec<Complaint> {
        let is_bound = self.path == ONE_SENTENCE_A_LINE;
        let crowded = self.prose.iter().filter(|(_, line)| is_bound && has_two_sentences(line));
        crowded.map(|(line, _)| self.complaint(*line, "one sentence per line".to_owned())).collect()
    }

    /// Files that the page names in code spans have to be there.
    fn missing_files(&self, sources: &[Source]) -> Vec<Complaint> {
        if !NAMES_FILES.iter().any(|start| self.path.starts_with(start)) {
            return Vec::new();
        }
        let named = self.prose.iter().flat_map(|(number, line)| {
            spans(line).into_iter().filter(|span| is_file_name(span)).map(|span| (*number, span))
        });
        let missing = named.filter(|(_, name)| !sources.iter().any(|it| is_called(&it.path, name)));
        missing.map(|(line, name)| self.complaint(line, format!("there is no `{name}`"))).collect()
    }

    /// Invariants that the code names and the table does not have, each at its first place.
    fn missing_ids(&self, sources: &[Source]) -> Vec<Complaint> {
        let rows = self.prose.iter().filter_map(|(_, line)| line.strip_prefix("| ")?.get(..3));
        let mut known: BTreeSet<&str> = rows.filter(|id| is_invariant(id)).collect();
        let mut complaints = Vec::new();
        for source in sources.iter().filter(|source| source.is_rust()) {
            for (line, id) in invariants(&source.text).filter(|(_, id)| known.insert(id)) {
                let message = format!("{id} is no row of {INVARIANTS}");
                complaints.push(Complaint { path: source.path.clone(), line, message });
            }
        }
        complaints
    }

    /// A page with code in Rust is among those that the documentation tests include.
    fn uncompiled_code(&self, sources: &[Source]) -> Option<Complaint> {
        let is_rust =
            |line: &str| line.trim_start().starts_with("```rust") && !line.contains("ignore");
        let line = self.text.lines().position(is_rust)? + 1;
        let tests = sources.iter().find(|source| source.path == COMPILES_GUIDES)?;
        let include = format!("include_str!(\"../../../{}\")", self.path);
        let message = format!("nothing compiles this code: include the page in {COMPILES_GUIDES}");
        (!tests.text.contains(&include)).then(|| self.complaint(line, message))
    }
}

/// Lines outside of fenced code, with their numbers from 1.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut in_code = false;
    let is_prose = |(_, line): &(usize, &str)| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    };
    text.lines().enumerate().map(|(index, line)| (index + 1, line)).filter(is_prose).collect()
}

/// Does a sentence begin behind a full stop? The number of an item of a list has one, too.
fn has_two_sentences(line: &str) -> bool {
    let begins = |rest: &str| rest.starts_with(|c: char| c.is_uppercase() || "`*[".contains(c));
    let is_number = |before: &str| before.trim_start().chars().all(|c| c.is_ascii_digit());
    line.match_indices(". ")
        .any(|(at, stop)| begins(&line[at + stop.len()..]) && !is_number(&line[..at]))
}

/// What the headings are called in links: lower case, hyphens for spaces, no punctuation.
fn anchors(prose: &[(usize, &str)]) -> BTreeSet<String> {
    let headings = prose.iter().filter_map(|(_, line)| {
        let heading = line.trim_start_matches('#');
        (heading.len() < line.len()).then(|| heading.trim().to_lowercase())
    });
    let is_kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
    headings.map(|it| it.chars().filter(is_kept).collect::<String>().replace(' ', "-")).collect()
}

/// The targets of `[text](target)` in a line, code spans aside.
fn links(line: &str) -> Vec<String> {
    let outside: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let targets = outside.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.to_owned()).collect()
}

fn spans(line: &str) -> Vec<&str> {
    line.split('`').skip(1).step_by(2).collect()
}

fn is_file_name(span: &str) -> bool {
    let is_path = |c: char| c.is_alphanumeric() || "/_-.".contains(c);
    span.ends_with(".rs") && span.chars().all(is_path)
}

/// Is `name` the end of `path`, if `crates/` and `src/` are left out as the guides do?
fn is_called(path: &str, name: &str) -> bool {
    let short = path.replacen("crates/", "", 1).replacen("/src/", "/", 1);
    let ends = |path: &str| path == name || path.ends_with(&format!("/{name}"));
    ends(path) || ends(&short)
}

/// `S01`, `L07`: safety or liveness, and a number.
fn is_invariant(word: &str) -> bool {
    let mut chars = word.chars();
    chars.next().is_some_and(|kind| "SL".contains(kind))
        && word.len() == 3
        && chars.all(|c| c.is_ascii_digit())
}

/// The ids of invariants in `text`, with their lines.
fn invariants(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().flat_map(|(index, line)| {
        let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.filter(|word| is_invariant(word)).map(move |word| (index + 1, word))
    })
}

/// Where a relative link on the page `from` leads.
fn resolve(from: &str, link: &str) -> String {
    let directory = from.rsplit_once('/').map_or("", |(directory, _)| directory);
    let mut parts: Vec<&str> = directory.split('/').filter(|part| !part.is_empty()).collect();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Pages under `docs` that the table of contents does not lead to.
fn missing_in_book(pages: &BTreeMap<&str, Page<'_>>) -> Vec<Complaint> {
    let Some(summary) = pages.get(SUMMARY) else { return Vec::new() };
    let listed: BTreeSet<String> =
        summary.links().map(|(_, link)| resolve(SUMMARY, &link)).collect();
    let of_book = pages.values().filter(|page| page.path.starts_with(BOOK) && page.path != SUMMARY);
    let missing = of_book.filter(|page| !listed.contains(page.path));
    missing.map(|page| page.complaint(1, format!("this page is not in {SUMMARY}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::check_guides;
    use crate::Source;

    #[track_caller]
    fn check(files: &[(&str, &str)], expected: &[&str]) {
        let sources: Vec<Source> =
            files.iter().map(|(path, text)| Source::new(*path, *text)).collect();
        let complaints = check_guides(&sources, |path| path == "LICENSE" || path == "crates");
        let complaints: Vec<String> = complaints.iter().map(ToString::to_string).collect();
        assert_eq!(complaints, expected);
    }

    #[test]
    fn links_to_pages_headings_and_files_that_exist_are_accepted() {
        let readme = "# A\n[a](#a) [b](docs/b.md) [c](docs/b.md#its-second-part) [d](LICENSE)\n\
                      [e](crates/) [f](https://example.org/x) `[g](h)`\n```text\n[i](j)\n```\n";
        let page = "# B\n## Its *second* part?\n[a](#b) [c](SUMMARY.md)\n";
        let summary = "# S\n- [B](b.md)\n";
        check(&[("README.md", readme), ("docs/b.md", page), ("docs/SUMMARY.md", summary)], &[]);
    }

    #[test]
    fn dead_links_are_named_with_their_line() {
        let readme = "# A\n[a](b.md)\n[c](#d) [e](LICENSE#x)\n";
        check(
            &[("README.md", readme)],
            &[
                "README.md:2: `b.md`: there is no b.md",
                "README.md:3: `#d`: README.md has no heading #d",
                "README.md:3: `LICENSE#x`: there is no LICENSE",
            ],
        );
    }

    #[test]
    fn the_book_has_all_its_pages_and_links_to_nothing_else() {
        let pages = [
            ("docs/SUMMARY.md", "- [A](a.md)\n"),
            ("docs/a.md", "[x](../LICENSE)\n"),
            ("docs/b.md", "# B\n"),
        ];
        check(
            &pages,
            &[
                "docs/a.md:1: `../LICENSE` leads out of the book, where its readers cannot follow",
                "docs/b.md:1: this page is not in docs/SUMMARY.md",
            ],
        );
    }

    #[test]
    fn long_pages_are_refused() {
        let (words, lines) = ("a ".repeat(2501), "a\n".repeat(126));
        check(
            &[("ARCHITECTURE.md", &words), ("README.md", &lines), ("CHANGELOG.md", &words)],
            &[
                "ARCHITECTURE.md:1: 2501 words, 2500 at most: move details to docs/internals",
                "README.md:1: 126 lines, 125 at most: move details to docs",
            ],
        );
    }

    #[test]
    fn the_map_has_one_sentence_per_line() {
        let page = "A. B.\n1. **A** b.\n   C.\n- A: `a.b`. `C` d.\n```text\nA. B.\n```\n";
        let expected = [
            "ARCHITECTURE.md:1: one sentence per line",
            "ARCHITECTURE.md:4: one sentence per line",
        ];
        check(
            &[
                ("ARCHITECTURE.md", page),
                ("docs/a.md", "A. B.\n"),
                ("docs/SUMMARY.md", "[a](a.md)"),
            ],
            &expected,
        );
    }

    #[test]
    fn files_that_a_map_names_have_to_be_there() {
        let files = [
            ("ARCHITECTURE.md", "`rdd/text.rs` `text.rs` `rdd/src/text.rs`\n`rdd/gone.rs`\n"),
            ("crates/rdd/src/text.rs", "//! Text.\n"),
        ];
        check(&files, &["ARCHITECTURE.md:2: there is no `rdd/gone.rs`"]);
    }

    #[test]
    fn invariants_that_the_code_names_are_in_their_table() {
        let core = "//! S01.\nfn a() {\n    panic!(\"L09: b {S3} {S001} {X_S02}\"); // L09\n}\n";
        let files = [
            ("crates/scheduler/src/core.rs", core),
            ("docs/internals/invariants.md", "| id | what |\n|---|---|\n| S01 | a |\n"),
        ];
        let expected =
            "crates/scheduler/src/core.rs:3: L09 is no row of docs/internals/invariants.md";
        check(&files, &[expected]);
    }

    #[test]
    fn code_in_rust_is_compiled() {
        let library = "//! L.\n#[doc = include_str!(\"../../../docs/a.md\")]\nmod a {}\n";
        let files = [
            ("crates/firesteel/src/lib.rs", library),
            ("docs/a.md", "```rust\nfn a() {}\n```\n"),
            ("docs/b.md", "# B\n\n  ```rust,no_run\n  fn b() {}\n  ```\n"),
            ("docs/c.md", "```rust,ignore\n...\n```\n"),
        ];
        let place = "include the page in crates/firesteel/src/lib.rs";
        check(&files, &[&format!("docs/b.md:3: nothing compiles this code: {place}")]);
    }
}
