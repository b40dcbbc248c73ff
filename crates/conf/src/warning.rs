//! What a user should know about settings that are not wrong but probably not meant.

use std::fmt;

use crate::conf::Origin;
use crate::entries;

/// A setting that has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// The key does not start with `spark.`; the setting is ignored.
    NotSpark {
        /// The key.
        key: String,
        /// Who set it.
        origin: Origin,
    },
    /// The key is not known, but one very much like it is; the setting is kept and passed on.
    Misspelt {
        /// The key.
        key: String,
        /// The known key.
        suggestion: &'static str,
        /// Who set it.
        origin: Origin,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSpark { key, origin } => {
                write!(f, "ignoring {key:?} (from {origin}): keys have to start with \"spark.\"")
            }
            Self::Misspelt { key, suggestion, origin } => {
                write!(f, "{key} (from {origin}) is not a known key: did you mean {suggestion}?")
            }
        }
    }
}

/// How many letters of a key may be wrong for it to count as a misspelling.
const MAX_DISTANCE: usize = 2;

/// The known key an unknown one was probably meant to be.
pub(crate) fn suggest(key: &str) -> Option<&'static str> {
    if entries::find(key).is_some() {
        return None;
    }
    let wanted = key.to_lowercase();
    let distances = entries::ALL.iter().map(|entry| {
        let known = entry.about().key;
        (edit_distance(&wanted, &known.to_lowercase()), known)
    });
    distances.filter(|(distance, _)| *distance <= MAX_DISTANCE).min().map(|(_, known)| known)
}

/// How many characters have to be inserted, removed or replaced to turn `a` into `b`.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Conf;

    #[test]
    fn the_edit_distance_counts_single_changes() {
        for (a, b, distance) in [
            ("", "", 0),
            ("", "abc", 3),
            ("kitten", "sitting", 3),
            ("flaw", "lawn", 2),
            ("é", "e", 1),
        ] {
            assert_eq!(edit_distance(a, b), distance, "{a} {b}");
            assert_eq!(edit_distance(b, a), distance, "{b} {a}");
        }
    }

    #[test]
    fn a_misspelt_key_is_suggested_and_a_foreign_one_is_not() {
        for (key, suggestion) in [
            ("spark.task.maxFailure", Some("spark.task.maxFailures")),
            ("spark.task.maxfailures", Some("spark.task.maxFailures")),
            ("spark.excutor.memory", Some("spark.executor.memory")),
            ("spark.task.maxFailures", None),
            ("spark.sql.shuffle.partitions", None),
            ("spark.executor.instances", None),
            ("spark.x", None),
        ] {
            assert_eq!(suggest(key), suggestion, "{key}");
        }
    }

    #[test]
    fn warnings_say_what_was_ignored_and_what_was_probably_meant() {
        let mut conf = Conf::new();
        conf.set("fs.default", "x").set("spark.task.cpu", 2).set("spark.mine", 1);
        let warnings: Vec<String> = conf.warnings().iter().map(Warning::to_string).collect();
        assert_eq!(
            warnings,
            [
                "ignoring \"fs.default\" (from the program): keys have to start with \"spark.\"",
                "spark.task.cpu (from the program) is not a known key: did you mean spark.task.cpus?",
            ]
        );
        assert_eq!(conf.get_raw("fs.default"), None);
        assert_eq!(conf.get_raw("spark.mine"), Some("1"));
    }
}
