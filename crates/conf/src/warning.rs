//! What a user should know about settings that are not wrong but probably not meant.

use std::fmt;

use crate::conf::Origin;
use crate::prefixes::PREFIXES;
use crate::spark_names::{self, Known};
use crate::{entries, promises};

/// A setting that has no effect, or should be written in another way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// The key does not start with `spark.`; the setting is ignored.
    NotSpark {
        /// The key as written.
        key: String,
        /// The file, variable, flag or program that set it.
        origin: Origin,
    },
    /// The key is not known, but one very much like it is; the setting is kept and passed on.
    Misspelt {
        /// The key as written.
        key: String,
        /// The known key it resembles.
        suggestion: &'static str,
        /// The file, variable, flag or program that set it.
        origin: Origin,
    },
    /// The key has another name now; the setting counts unless that is set too.
    Renamed {
        /// The key as it was written.
        old_name: &'static str,
        /// The key as it is now.
        current: &'static str,
        /// The file, variable, flag or program that used the old name.
        origin: Origin,
        /// Whether the new name is set too, which wins.
        overruled: bool,
    },
    /// Spark knows these keys, but nothing here reads them; the settings are kept and passed on.
    NoEffect {
        /// In alphabetical order.
        keys: Vec<String>,
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
            Self::Renamed { old_name, current, origin, overruled: false } => {
                write!(f, "{old_name} (from {origin}) is an old name of {current}: write that")
            }
            Self::Renamed { old_name, current, origin, overruled: true } => write!(
                f,
                "{old_name} (from {origin}) does not count: it is an old name of {current}, which is set too"
            ),
            Self::NoEffect { keys } => match keys.split_last() {
                Some((last, [])) => write!(f, "{last} has no effect here, unlike in Spark"),
                Some((last, others)) => {
                    write!(
                        f,
                        "{} and {last} have no effect here, unlike in Spark",
                        others.join(", ")
                    )
                }
                None => Ok(()),
            },
        }
    }
}

/// How many letters of a key may be wrong for it to count as a misspelling.
const MAX_DISTANCE: usize = 2;

/// What there is to say about a key.
pub(crate) enum Verdict {
    /// It is read, or the user's own.
    Fine,
    /// Spark reads it.
    NoEffect,
    /// It was probably meant to be another.
    Misspelt { suggestion: &'static str },
}

/// What there is to say about a key that is set.
pub(crate) fn judge(key: &str) -> Verdict {
    let mut prefixes = PREFIXES.iter();
    let is_read = entries::find(key).is_some()
        || prefixes.any(|(prefix, _)| key.starts_with(prefix))
        || promises::keys().any(|promise| promise == key);
    if is_read {
        return Verdict::Fine;
    }
    let known = spark_names::look_up(key);
    if known == Some(Known::ByName) {
        return Verdict::NoEffect;
    }
    match (suggest(key), known) {
        (Some(suggestion), _) => Verdict::Misspelt { suggestion },
        (None, Some(_)) => Verdict::NoEffect,
        (None, None) => Verdict::Fine,
    }
}

/// The known key an unknown one was probably meant to be.
fn suggest(key: &str) -> Option<&'static str> {
    if entries::find(key).is_some() {
        return None;
    }
    let wanted = key.to_lowercase();
    let known = entries::all().map(|entry| entry.about().key).chain(promises::keys());
    let distances = known.map(|known| (edit_distance(&wanted, &known.to_lowercase()), known));
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
            ("spark.io.encryption.enable", Some("spark.io.encryption.enabled")),
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

    #[test]
    fn keys_of_spark_without_effect_are_answered_in_one_line() {
        let answer = |keys: &[&str]| {
            let mut conf = Conf::new();
            for key in keys {
                conf.set(*key, 1);
            }
            conf.validate().unwrap();
            let warnings = conf.warnings();
            assert!(conf.iter().map(|(key, _)| key).eq(keys.iter().copied()), "they are kept");
            warnings.iter().map(Warning::to_string).collect::<Vec<_>>()
        };
        let one = answer(&["spark.ui.timelineEnabled"]);
        assert_eq!(one, ["spark.ui.timelineEnabled has no effect here, unlike in Spark"]);
        assert_eq!(
            answer(&[
                "spark.akka.threads",
                "spark.eventLog.gcMetrics.youngGenerationGarbageCollectors",
                "spark.mine",
                "spark.sql.ansi.enabled"
            ]),
            [
                "spark.akka.threads, spark.eventLog.gcMetrics.youngGenerationGarbageCollectors and spark.sql.ansi.enabled have no effect here, unlike \
              in Spark"
            ]
        );
        assert_eq!(answer(&["spark.executorEnv.A", "spark.hadoop.fs.s3a.endpoint"]), [""; 0]);
        let misspelt = answer(&["spark.hadoop.validateOutputSpec"]);
        assert!(
            misspelt[0].contains("did you mean spark.hadoop.validateOutputSpecs?"),
            "{misspelt:?}"
        );
    }
}
