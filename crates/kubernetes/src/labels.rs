//! Labels, names and variables by which pods are found and told who they are. Most are Spark's: tools rely on them.

use firesteel_conf::Conf;
use k8s_openapi::api::core::v1::{EnvVar, EnvVarSource, ObjectFieldSelector};

use crate::Error;

/// Whose pod it is: the id of an application.
pub(crate) const APPLICATION: &str = "spark-app-selector";
/// Its name, as far as it is a label.
pub(crate) const APPLICATION_NAME: &str = "spark-app-name";
/// [`DRIVER`] or [`EXECUTOR`].
pub(crate) const ROLE: &str = "spark-role";
pub(crate) const DRIVER: &str = "driver";
pub(crate) const EXECUTOR: &str = "executor";
pub(crate) const EXECUTOR_ID: &str = "spark-exec-id";
pub(crate) const RESOURCE_PROFILE: &str = "spark-exec-resourceprofile-id";
/// `true`: its executor is over, and it is left for people to look at.
pub(crate) const INACTIVE: &str = "spark-exec-inactive";
/// Which process of the driver asked for it.
pub(crate) const GENERATION: &str = "firesteel-driver-generation";
/// Of claims: the volume of the settings that they were made for.
pub(crate) const VOLUME: &str = "firesteel-volume";
pub(crate) const VERSION: &str = "spark-version";

/// What neither users nor their templates set.
pub(crate) const RESERVED: [&str; 9] = [
    APPLICATION,
    APPLICATION_NAME,
    ROLE,
    EXECUTOR_ID,
    RESOURCE_PROFILE,
    INACTIVE,
    GENERATION,
    VOLUME,
    VERSION,
];

/// An annotation of executors' pods: whose they are, where an admission webhook takes labels away.
pub(crate) const OWNER: &str = "firesteel.io/application";

/// An annotation of the driver's pod: which call of `submit` created it.
pub(crate) const SUBMISSION: &str = "firesteel.io/submission";
/// An annotation of the driver's pod: how many processes of the driver there were.
pub(crate) const PROCESSES: &str = "firesteel.io/driver-processes";

/// Settings that begin with a prefix, by the rest of their names.
pub(crate) fn named<'a>(
    conf: &'a Conf,
    prefix: &'a str,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    conf.iter().filter_map(move |(key, value)| Some((key.strip_prefix(prefix)?, value)))
}

/// The labels that a user gives pods. Those by which pods are found cannot be changed.
pub(crate) fn of_user(conf: &Conf, prefix: &str) -> Result<Vec<(String, String)>, Error> {
    let labels = named(conf, prefix).map(|(name, value)| match RESERVED.contains(&name) {
        true => Err(Error::value(
            format!("{prefix}{name}"),
            "this label tells whose pod it is: choose another name",
        )),
        false => Ok((name.to_owned(), value.to_owned())),
    });
    labels.collect()
}

/// What of a text a label can have: at most 63 letters, digits, `-`, `_` and `.`, the first and the last one of the former.
pub(crate) fn as_label(text: &str) -> String {
    let ok = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let replaced: String = text.chars().map(|c| if ok(c) { c } else { '-' }).take(63).collect();
    replaced.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned()
}

/// What of a text the name of a pod or service can have: small letters, digits and `-`, beginning with a letter.
pub(crate) fn as_name(text: &str, longest: usize) -> String {
    let ok = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let lower = text.to_lowercase();
    let replaced = lower.chars().map(|c| if ok(c) { c } else { '-' });
    let mut name = String::new();
    for c in replaced.skip_while(|c| !c.is_ascii_lowercase()) {
        if c != '-' || !name.ends_with('-') {
            name.push(c);
        }
    }
    name.truncate(longest);
    let name = name.trim_end_matches('-');
    if name.is_empty() { "application".to_owned() } else { name.to_owned() }
}

/// Whether a text is the name of a pod and of a host: at most 63 small letters, digits and `-`.
pub(crate) fn check_name(key: &str, name: &str, longest: usize) -> Result<(), Error> {
    let ok = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let edges = name.starts_with('-') || name.ends_with('-') || name.is_empty();
    if name.len() > longest {
        let reason = format!("`{name}` has {} characters: write {longest} at most", name.len());
        return Err(Error::value(key, reason));
    }
    if edges || !name.chars().all(ok) {
        let reason = format!(
            "`{name}` is not a name of Kubernetes: write small letters, digits and -, with a letter or digit at both ends"
        );
        return Err(Error::value(key, reason));
    }
    Ok(())
}

pub(crate) fn variable(name: &str, value: impl Into<String>) -> EnvVar {
    EnvVar { name: name.to_owned(), value: Some(value.into()), value_from: None }
}

/// A variable with what only the kubelet knows, such as `status.podIP`.
pub(crate) fn variable_of_pod(name: &str, field: &str) -> EnvVar {
    let selector = ObjectFieldSelector { field_path: field.to_owned(), api_version: None };
    let source = EnvVarSource { field_ref: Some(selector), ..EnvVarSource::default() };
    EnvVar { name: name.to_owned(), value: None, value_from: Some(source) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_becomes_a_name_and_a_label() {
        for (text, name, label) in [
            ("Word count!", "word-count", "Word-count"),
            ("9 lives", "lives", "9-lives"),
            ("--", "application", ""),
            ("ünder_score.x", "nder-score-x", "nder_score.x"),
        ] {
            assert_eq!((as_name(text, 40).as_str(), as_label(text).as_str()), (name, label));
        }
        assert_eq!(as_name(&"ab-".repeat(20), 5), "ab-ab");
        assert!(check_name("k", "pi-1", 63).is_ok());
        for bad in ["Pi", "-pi", "pi-", "p.i", ""] {
            assert!(check_name("k", bad, 63).is_err(), "{bad}");
        }
        let long = check_name("spark.x", &"a".repeat(64), 63).unwrap_err().to_string();
        assert!(long.contains("spark.x") && long.contains("63 at most"), "{long}");
    }

    #[test]
    fn labels_by_which_pods_are_found_are_not_for_users() {
        let mut conf = Conf::new();
        conf.set("spark.kubernetes.executor.label.team", "a");
        let prefix = "spark.kubernetes.executor.label.";
        assert_eq!(of_user(&conf, prefix).unwrap(), [("team".to_owned(), "a".to_owned())]);
        conf.set("spark.kubernetes.executor.label.spark-role", "driver");
        let refused = of_user(&conf, prefix).unwrap_err().to_string();
        assert!(refused.contains("label.spark-role"), "{refused}");
    }
}
