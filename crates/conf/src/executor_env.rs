//! `spark.executorEnv.NAME=value`: environment variables of executors.

use std::collections::BTreeMap;

use crate::conf::{Conf, Setting};
use crate::error::ConfError;
use crate::prefixes::EXECUTOR_ENV_PREFIX;

/// What all names begin with that driver and workers tell executors things by.
const OURS: &str = "FIRESTEEL_";

/// Variables that driver or worker sets.
const TAKEN: [&str; 2] = ["_SPARK_AUTH_SECRET", "SPARK_LOCAL_DIRS"];

impl Conf {
    /// The environment variables that executors shall have, by name.
    pub fn executor_environment(&self) -> Result<BTreeMap<String, String>, ConfError> {
        let mut variables = BTreeMap::new();
        for (key, value) in self.iter() {
            let Some(name) = key.strip_prefix(EXECUTOR_ENV_PREFIX) else { continue };
            match self.setting(key).and_then(|setting| refusal(key, setting)) {
                Some(refused) => return Err(refused),
                None => variables.insert(name.to_owned(), value.to_owned()),
            };
        }
        Ok(variables)
    }
}

/// Why a setting cannot be a variable of executors, if it is to be one.
pub(crate) fn refusal(key: &str, setting: &Setting) -> Option<ConfError> {
    let name = key.strip_prefix(EXECUTOR_ENV_PREFIX)?;
    let reason = if name.is_empty() {
        format!("it names no variable: write {EXECUTOR_ENV_PREFIX}NAME=value")
    } else if name.contains(['=', '\0']) || setting.value.contains('\0') {
        "a variable's name has no `=`, and neither name nor value a NUL".to_owned()
    } else if name.starts_with(OURS) || TAKEN.contains(&name) {
        format!("{name} is set by driver and workers: choose another name")
    } else {
        return None;
    };
    Some(ConfError::Refused { key: key.to_owned(), origin: setting.origin.clone(), reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_executors_are_what_follows_the_prefix() {
        let mut conf = Conf::new();
        conf.set("spark.executorEnv.RUST_LOG", "debug").set("spark.executorEnv.a.b", " x=y ");
        conf.set("spark.executorEnv.EMPTY", "").set("spark.executor.cores", 2);
        conf.validate().unwrap();
        assert!(conf.warnings().is_empty());
        let variables: Vec<_> = conf.executor_environment().unwrap().into_iter().collect();
        let expected = [("EMPTY", ""), ("RUST_LOG", "debug"), ("a.b", "x=y")];
        assert_eq!(variables, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn variables_that_driver_and_workers_set_and_names_that_are_none_are_refused() {
        for (name, value) in [
            ("FIRESTEEL_ROLE", "driver"),
            ("FIRESTEEL_ANYTHING", "x"),
            ("_SPARK_AUTH_SECRET", "hush"),
            ("SPARK_LOCAL_DIRS", "/x"),
            ("", "x"),
            ("A=B", "x"),
            ("A\0", "x"),
            ("A", "x\0y"),
        ] {
            let mut conf = Conf::new();
            conf.set(format!("spark.executorEnv.{name}"), value);
            let error = conf.validate().unwrap_err().to_string();
            assert!(error.contains("is refused: ") && !error.contains("hush"), "{error}");
            assert!(conf.executor_environment().is_err(), "{name:?}");
        }
    }
}
