//! What a cluster manager tells of a process in its variables: where its output can be read, and attributes. Named as
//! Spark names them.

use std::collections::BTreeMap;
use std::ffi::OsString;

use firesteel_conf::process_variables::{
    DRIVER_ATTRIBUTE, DRIVER_LOG_URL, EXECUTOR_ATTRIBUTE, EXECUTOR_LOG_URL,
};

/// Where the output of this executor can be read, by name, and what else its cluster manager tells of it.
pub fn of_executor() -> [BTreeMap<String, String>; 2] {
    both(EXECUTOR_LOG_URL, EXECUTOR_ATTRIBUTE)
}

/// The same of this driver.
pub fn of_driver() -> [BTreeMap<String, String>; 2] {
    both(DRIVER_LOG_URL, DRIVER_ATTRIBUTE)
}

fn both(log_urls: &str, attributes: &str) -> [BTreeMap<String, String>; 2] {
    let log_urls = named(std::env::vars_os(), log_urls, str::to_lowercase);
    [log_urls, named(std::env::vars_os(), attributes, str::to_uppercase)]
}

fn named(
    variables: impl Iterator<Item = (OsString, OsString)>,
    prefix: &str,
    spelled: fn(&str) -> String,
) -> BTreeMap<String, String> {
    let named = variables.filter_map(|(name, value)| {
        let name = name.to_str()?.strip_prefix(prefix)?;
        Some((spelled(name), value.into_string().ok()?))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_known_by_what_follows_their_prefix() {
        let all = [("SPARK_DRIVER_LOG_URL_STDOUT", "u"), ("SPARK_LOG_URL", "v"), ("HOME", "/h")];
        let all = all.map(|(name, value)| (name.into(), value.into()));
        let found = named(all.into_iter(), DRIVER_LOG_URL, str::to_lowercase);
        assert_eq!(found, BTreeMap::from([("stdout".to_owned(), "u".to_owned())]));
    }
}
