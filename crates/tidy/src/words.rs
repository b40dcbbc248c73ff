//! Words that are not to be used, and the field's own that are: a reader who knows Spark should not have to learn a
//! dialect. Found in code, comments and guides alike.

/// The table itself, where the old words stand beside the new.
const TABLE: &str = "CONTRIBUTING.md";

/// This file.
const HERE: &str = "crates/tidy/src/words.rs";

/// Phrases, in lower case, and what to write. Names have `_` for the spaces.
const PHRASES: &[(&str, &str)] = &[
    ("kept partition", "cached partition"),
    ("keeps its partitions", "caches its partitions"),
    ("keep its partitions", "cache its partitions"),
    ("partitions are kept", "partitions are cached"),
    ("put aside", "spill"),
    ("dealt out", "hash-partition, distribute"),
    ("sign of life", "heartbeat"),
    ("signs of life", "heartbeats"),
    ("sent ahead", "pipelined"),
    ("read ahead", "prefetch"),
    ("gives way", "is evicted"),
    ("give way", "be evicted"),
    ("parts by hash", "hash partitions"),
    ("stands by", "is a standby"),
    ("stand by", "be a standby"),
    ("who leads", "the leader"),
    ("outputs made again", "recomputed outputs"),
    ("outputs are made again", "outputs are recomputed"),
    ("life story", "trace"),
    ("wish", "demand, request"),
    ("copies made again", "replicas"),
    ("copies are made again", "is re-replicated"),
    ("whoever", "the thread, process or component that does it"),
    ("executor was given up", "was declared dead"),
    ("executor is given up", "is declared dead"),
    ("executor is not given up", "is not declared dead"),
    ("gives an executor up", "declares an executor dead"),
    ("worker was given up", "was declared dead"),
    ("gives a worker up", "declares a worker dead"),
];

/// Names of types, and what to call them.
const NAMES: &[(&str, &str)] = &[
    ("Door", "an endpoint"),
    ("Ears", "an endpoint"),
    ("Desk", "a handler"),
    ("News", "a message"),
    ("Wish", "Demand"),
    ("Keeper", "Reaper"),
    ("Said", "a message"),
    ("KeptBlock", "CachedBlock"),
];

/// What is wrong with the words of a line of this file.
pub(crate) fn complaints(path: &str, line: &str) -> Vec<String> {
    if path == TABLE || path == HERE {
        return Vec::new();
    }
    // Names are phrases too.
    let lower = line.to_lowercase().replace('_', " ");
    let begins = |at: usize| !lower[..at].ends_with(char::is_alphanumeric);
    let has_phrase = |old: &str| lower.match_indices(old).any(|(at, _)| begins(at));
    let phrases = PHRASES.iter().filter(|(old, _)| has_phrase(old));
    let names = NAMES.iter().filter(|(old, _)| has_word(line, old));
    phrases.chain(names).map(|(old, new)| format!("`{old}`: write {new}")).collect()
}

fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let part = |c: char| c.is_alphanumeric() || c == '_';
        !line[..at].ends_with(part) && !line[at + word.len()..].starts_with(part)
    })
}

#[cfg(test)]
mod tests {
    use super::complaints;

    #[test]
    fn old_words_are_found_in_code_comments_and_guides() {
        for (path, line) in [
            ("docs/memory.md", "Records that do not fit are Put aside."),
            ("crates/a/src/b.rs", "struct Door(Arc<Shell>);"),
            ("crates/a/src/b.rs", "    fn read_ahead(&self) {}"),
            ("crates/a/src/b.rs", "// Whoever asks waits."),
            ("crates/a/src/b.rs", "fn it_stays_whoever_asks() {"),
            ("crates/a/src/b.rs", "fn a_group_is_put_aside() {"),
            ("crates/a/src/b.rs", "// It stands by."),
        ] {
            assert_eq!(complaints(path, line).len(), 1, "{line}");
        }
        let fine =
            ["a.Doorway", "the output aside", "// it spills", "Newsletter", "prefetch(&self)"];
        assert!(fine.iter().all(|line| complaints("README.md", line).is_empty()));
        assert!(complaints("CONTRIBUTING.md", "| spill | put aside |").is_empty());
    }
}
