//! Settings keep their word: what is registered in the crate of settings is read by another one, tests aside.
//!
//! A constant that only names its key (`entries::NAME.key()`, as a flag does that sets it) is not read by that. One
//! that others follow is read with them.

use std::collections::BTreeSet;

use crate::rules::{Complaint, positions};
use crate::uses::imported_paths;
use crate::{Source, code::is_word};

/// Where settings are registered, and reading one does not count.
const REGISTRY: &str = "crates/conf/";

/// What the registry itself acts on: `Conf::redacted`, which hides values.
const READ_IN_THE_REGISTRY: &[&str] = &["REDACTION_REGEX"];

/// A setting as it is registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    /// The name of its constant.
    pub name: String,
    /// The constant whose value counts when this one is not set.
    pub follows: Option<String>,
    /// The line, counted from 1.
    pub line: usize,
}

/// The settings that `source` registers: `NAME: Type = Entry::...`.
pub fn registered(source: &Source) -> Vec<Registered> {
    if !source.path.starts_with(REGISTRY) {
        return Vec::new();
    }
    let starts = source.code.match_indices("Entry::").map(|(position, _)| position);
    starts.filter_map(|position| registered_at(source, position)).collect()
}

fn registered_at(source: &Source, position: usize) -> Option<Registered> {
    if source.is_test_code(position) {
        return None;
    }
    let (before, after) = source.code.split_at(position);
    let before = before.trim_end().strip_suffix('=')?;
    let item = before.rsplit([';', '{', '}']).next()?.trim_start();
    let (name, _) = item.split_once(':')?;
    let is_constant = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    if name.is_empty() || !name.bytes().all(is_constant) {
        return None;
    }
    let arguments = after.strip_prefix("Entry::following(").and_then(|rest| rest.split(')').next());
    let follows = arguments.and_then(|arguments| arguments.split('&').nth(1));
    let line = source.line_of(before.len());
    let follows = follows.map(|name| name.trim().to_owned());
    Some(Registered { name: name.to_owned(), follows, line })
}

/// Complains about settings that nothing outside of the registry reads.
pub fn check_settings(sources: &[Source]) -> Vec<Complaint> {
    let found: Vec<(&Source, Registered)> = sources
        .iter()
        .flat_map(|source| registered(source).into_iter().map(move |setting| (source, setting)))
        .collect();
    let is_read = |name: &str| {
        READ_IN_THE_REGISTRY.contains(&name) || sources.iter().any(|source| reads(source, name))
    };
    let read: BTreeSet<String> =
        found.iter().map(|(_, s)| s.name.clone()).filter(|name| is_read(name)).collect();
    let followed: BTreeSet<String> = found
        .iter()
        .filter(|(_, setting)| read.contains(&setting.name))
        .filter_map(|(_, setting)| setting.follows.clone())
        .collect();
    let ignored = found
        .iter()
        .filter(|(_, setting)| !read.contains(&setting.name) && !followed.contains(&setting.name));
    ignored.map(|(source, setting)| complaint(source, setting)).collect()
}

fn complaint(source: &Source, setting: &Registered) -> Complaint {
    let message = format!(
        "nothing outside {REGISTRY} reads {}: see that it has an effect, or take it out",
        setting.name
    );
    Complaint { path: source.path.clone(), line: setting.line, message }
}

/// Does `source` read the setting, outside of tests?
fn reads(source: &Source, name: &str) -> bool {
    if !source.path.starts_with("crates/") || source.path.starts_with(REGISTRY) {
        return false;
    }
    let code = &source.code;
    let imported = || {
        let end = format!("entries::{name}");
        imported_paths(code).iter().any(|(_, path)| path.ends_with(&end))
    };
    positions(code, name).any(|position| {
        let after = code[position + name.len()..].trim_start();
        let names_its_key =
            after.strip_prefix(".key").is_some_and(|rest| !rest.starts_with(is_part));
        let is_entry = code[..position].ends_with("entries::")
            || code[..position].ends_with('&') && imported();
        is_entry && !names_its_key && !source.is_test_code(position)
    })
}

fn is_part(c: char) -> bool {
    u8::try_from(c).is_ok_and(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRIES: &str = r#"//! Header.
entries! {
    "A" {
        /// A doc: of it = Entry::new.
        PLAIN: Option<u32> = Entry::optional("spark.plain").positive();

        /// Broken into two lines.
        BROKEN: Vec<String> =
            Entry::new("spark.broken; {", "x");

        /// Follows.
        NARROW: bool = Entry::following("spark.narrow", &WIDE).since("1");

        /// Followed.
        WIDE: bool = Entry::new("spark.wide", "false");
    }
}
#[cfg(test)]
mod tests {
    const OTHER: Entry<u32> = Entry::new("spark.other", "3");
}
"#;

    fn entries() -> Source {
        Source::new("crates/conf/src/entries.rs", ENTRIES)
    }

    /// The settings that are complained of beside `code` in a file.
    fn ignored(path: &str, code: &str) -> Vec<String> {
        let complaints = check_settings(&[entries(), Source::new(path, code)]);
        let name = |c: &Complaint| c.message.split([' ', ':']).nth(4).unwrap().to_owned();
        complaints.iter().map(name).collect()
    }

    #[test]
    fn the_registry_is_read_with_its_lines() {
        let found = registered(&entries());
        let short: Vec<_> = found.iter().map(|s| (s.name.as_str(), s.line)).collect();
        assert_eq!(short, [("PLAIN", 5), ("BROKEN", 8), ("NARROW", 12), ("WIDE", 15)]);
        assert_eq!(found[2].follows.as_deref(), Some("WIDE"));
        assert_eq!(registered(&Source::new("crates/other/src/lib.rs", ENTRIES)), []);
    }

    #[test]
    fn a_setting_is_read_by_its_constant_and_with_those_that_follow_it() {
        let all = "fn a() { get(&entries::PLAIN); get(&entries::BROKEN); get(&entries::NARROW); }";
        assert_eq!(ignored("crates/a/src/lib.rs", all), [""; 0]);
        let some = "fn a() { get(&entries::PLAIN); get(&entries::WIDE) }";
        assert_eq!(ignored("crates/a/src/lib.rs", some), ["BROKEN", "NARROW"]);
        let imported =
            "use conf::entries::{self, PLAIN, BROKEN};\nfn a() { get(&PLAIN); BROKEN.key(); }";
        assert_eq!(ignored("crates/a/src/lib.rs", imported), ["BROKEN", "NARROW", "WIDE"]);
        let complaints = check_settings(&[entries()]);
        let first = "crates/conf/src/entries.rs:5: nothing outside crates/conf/ reads PLAIN: see that \
                     it has an effect, or take it out";
        assert_eq!(complaints[0].to_string(), first);
    }

    #[test]
    fn naming_a_key_testing_it_or_having_the_same_name_is_not_reading_it() {
        let all = ["PLAIN", "BROKEN", "NARROW", "WIDE"];
        for (path, code) in [
            ("crates/a/src/lib.rs", "fn a() { set(entries::PLAIN.key(), 1) }"),
            ("crates/a/src/lib.rs", "fn a() { set(entries::PLAIN\n    .key(), 1) }"),
            ("crates/a/src/lib.rs", "fn a() { get(&PLAIN); get(&entries::PLAINER); }"),
            ("crates/a/src/lib.rs", "// entries::PLAIN"),
            ("crates/a/src/lib.rs", "#[cfg(test)]\nmod tests { fn a() { get(&entries::PLAIN) } }"),
            ("crates/a/tests/it.rs", "fn a() { get(&entries::PLAIN) }"),
            ("crates/conf/src/conf.rs", "fn a() { get(&entries::PLAIN) }"),
            ("benches/src/main.rs", "fn a() { get(&entries::PLAIN) }"),
        ] {
            assert_eq!(ignored(path, code), all, "{code}");
        }
    }
}
