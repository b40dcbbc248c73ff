//! Docs that only repeat a name: "The executor." above `executor: ExecutorId`, "Which." above anything. They cost a
//! line and say nothing. What is meant is a short doc whose words are all in the item's name, join others, or ask a
//! question.

/// Longer docs may repeat a name and say something else beside it.
const FEW_WORDS: usize = 5;

/// Words that say nothing by themselves.
const JOINING: &[&str] = &[
    "a", "all", "an", "and", "are", "at", "be", "has", "in", "is", "it", "its", "of", "on", "one",
    "that", "the", "them", "these", "this", "those", "to",
];

const QUESTIONS: &[&str] =
    &["how", "there", "what", "when", "where", "which", "who", "whose", "why"];

/// What may stand before the name of an item.
const BEFORE_NAMES: &[&str] = &[
    "async", "const", "enum", "fn", "mod", "mut", "pub", "static", "struct", "trait", "type",
    "union", "unsafe",
];

/// Lines, counted from 1, with a doc that only repeats the name of its item, and the doc.
pub(crate) fn repetitions(text: &str) -> Vec<(usize, &str)> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let is_whole = at == 0 || doc_of(lines[at - 1]).is_none();
        if let Some(doc) = doc_of(line).filter(|_| is_whole)
            && let Some(item) = item_after(&lines[at + 1..])
            && repeats(doc, item)
        {
            found.push((at + 1, doc));
        }
    }
    found
}

fn doc_of(line: &str) -> Option<&str> {
    line.strip_prefix("///").filter(|doc| !doc.starts_with('/')).map(str::trim)
}

/// The first line of the item that the doc before these lines is for; `None` if the doc goes on.
fn item_after<'a>(lines: &[&'a str]) -> Option<&'a str> {
    let mut open = 0;
    for line in lines {
        if open == 0 && !line.starts_with("#[") {
            return doc_of(line).is_none().then_some(line);
        }
        open += line.matches(['[', '(']).count();
        open = open.saturating_sub(line.matches([']', ')']).count());
    }
    None
}

fn repeats(doc: &str, item: &str) -> bool {
    let words: Vec<String> = doc.split_whitespace().map(plain).collect();
    let name = parts(name_of(item));
    let says_nothing = |word: &String| {
        let word = word.as_str();
        let is_in_name = || name.iter().any(|part| singular(part) == singular(word));
        JOINING.contains(&word) || QUESTIONS.contains(&word) || is_in_name()
    };
    (1..=FEW_WORDS).contains(&words.len()) && words.iter().all(says_nothing)
}

/// Of verbs, too: "waits" is what `wait` says.
fn singular(word: &str) -> &str {
    word.strip_suffix('s').unwrap_or(word)
}

fn plain(word: &str) -> String {
    word.trim_end_matches(['.', ',', ':', ';', '?']).to_lowercase()
}

fn name_of(item: &str) -> &str {
    let mut words = item.split(|c: char| !c.is_alphanumeric() && c != '_');
    // `pub(in path)` leaves its path, which no name has.
    let visibility = ["", "crate", "in", "self", "super"];
    let skipped = |word: &&str| visibility.contains(word) || BEFORE_NAMES.contains(word);
    words.find(|word| !skipped(word)).unwrap_or_default()
}

/// `memory_mb` and `MemoryMb` as words in lower case.
fn parts(name: &str) -> Vec<String> {
    let is_camel = name.contains(char::is_lowercase);
    let mut apart = String::new();
    for letter in name.chars() {
        if is_camel && letter.is_uppercase() {
            apart.push('_');
        }
        apart.extend(letter.to_lowercase());
    }
    apart.split('_').filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::repetitions;

    fn is_refused(text: &str) -> bool {
        !repetitions(text).is_empty()
    }

    #[test]
    fn docs_that_repeat_the_name_of_their_item_are_found() {
        for text in [
            "/// Which.\npub executor: ExecutorId,",
            "/// The executor.\nexecutor: ExecutorId,",
            "    /// Its memory.\n    pub(super) memory_mb: u64,",
            "/// The RDD.\n#[serde(default)]\nRdd(RddId),",
            "/// Why.\n#[error(\n    \"{reason}\"\n)]\nreason: String,",
            "/// A worker.\n#[derive(Debug)]\npub(crate) struct Worker {",
            "/// One job.\npub struct JobStatus {",
            "/// The name.\npub const fn name(&self) -> &str {",
            "/// The limit\nconst MAX_LIMIT: usize = 1;",
            "/// It waits.\nWait,",
            "/// All of the executors.\nexecutors: Vec<ExecutorId>,",
            "/// The peer that this is.\npeer: Peer,",
        ] {
            assert!(is_refused(text), "{text}");
        }
        assert_eq!(repetitions("//! Head.\n\n/// When.\nat: Tick,"), [(3, "When.")]);
    }

    #[test]
    fn docs_that_say_something_pass() {
        for text in [
            "/// In bytes.\nlimit: u64,",
            "/// Never 0.\nport: u16,",
            "/// `csv`\npub struct CsvSource<T> {",
            "/// Whose output.\ntask: TaskId,",
            "/// Never waits.\nfn tell(&self) {",
            "/// From 1.\npage: usize,",
            "/// `map`\npub struct Map {",
            "/// The executor of the task that failed.\nexecutor: ExecutorId,",
            "/// The executor that holds it.\nexecutor: ExecutorId,",
            "/// The executor.\n/// It may be lost.\nexecutor: ExecutorId,",
            "/// The executor. Each\n/// one.\nexecutor: ExecutorId,",
            "//// The executor.\nexecutor: ExecutorId,",
            "// The executor.\nexecutor: ExecutorId,",
            "/// The fields.\nimpl Worker {",
        ] {
            assert!(!is_refused(text), "{text}");
        }
    }
}
