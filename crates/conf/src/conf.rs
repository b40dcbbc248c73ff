//! The settings of one application: text by key, each with where it came from.
//!
//! A setting only replaces one of the same or a lower rank, so the result does not depend on the
//! order in which sources are read:
//!
//! ```text
//! builder  >  --master  >  --conf  >  environment  >  spark-defaults.conf
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use crate::entries::{self, REDACTION_REGEX};
use crate::entry::{About, AnyEntry, Entry};
use crate::redaction::REDACTED;
use crate::value::{Refusal, Value};
use crate::warning::{self, Verdict, Warning};
use crate::{ConfError, InvalidValue, executor_env, promises, properties};

/// The settings of one application, in the order of their keys.
#[derive(Clone, Default)]
pub struct Conf {
    settings: BTreeMap<String, Setting>,
    ignored: Vec<Warning>,
    /// Old names that were used, and who used them.
    old_names: BTreeMap<&'static str, Origin>,
}

/// A value of a key, and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The value, trimmed.
    pub value: String,
    /// Where it came from; decides which of several values counts.
    pub origin: Origin,
    /// The old name of its key, if it was set under that.
    pub old_name: Option<&'static str>,
}

impl Setting {
    /// The current name of a key wins over an old one, from any source.
    fn rank(&self) -> (bool, u8) {
        (self.old_name.is_none(), self.origin.rank())
    }
}

/// Who made a setting; later variants win over earlier ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A file of settings.
    File {
        /// The path it was opened by.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// An environment variable that stands for a key.
    Environment {
        /// Such as `SPARK_LOCAL_DIRS`.
        variable: String,
    },
    /// `--conf key=value`.
    ConfArgument,
    /// A flag of its own, such as `--master`.
    Flag {
        /// With its dashes: `--master`.
        flag: &'static str,
    },
    /// The program, through [`Conf::set`].
    Builder,
}

impl Origin {
    fn rank(&self) -> u8 {
        match self {
            Self::File { .. } => 0,
            Self::Environment { .. } => 1,
            Self::ConfArgument => 2,
            Self::Flag { .. } => 3,
            Self::Builder => 4,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment { variable } => write!(f, "the environment variable {variable}"),
            Self::ConfArgument => f.write_str("--conf"),
            Self::Flag { flag } => f.write_str(flag),
            Self::Builder => f.write_str("the program"),
        }
    }
}

impl Conf {
    /// No settings: every entry has its default.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a key from the program, which wins over every other source. The value is checked when
    /// it is read or by [`Conf::validate`].
    pub fn set(&mut self, key: impl Into<String>, value: impl ToString) -> &mut Self {
        self.insert(key, value, Origin::Builder);
        self
    }

    /// Sets a key unless a source of a higher rank did. An old name sets the key that it is now. A key that
    /// does not start with `spark.` is ignored with a warning, as spark-submit does.
    pub fn insert(&mut self, key: impl Into<String>, value: impl ToString, origin: Origin) {
        let key = key.into().trim().to_owned();
        if !key.starts_with("spark.") {
            self.ignored.push(Warning::NotSpark { key, origin });
            return;
        }
        let value = value.to_string().trim().to_owned();
        match renamed(&key) {
            Some((old_name, current)) => {
                let old_name = Some(old_name);
                self.put(current.to_owned(), Setting { value, origin, old_name });
            }
            None => self.put(key, Setting { value, origin, old_name: None }),
        }
    }

    fn put(&mut self, key: String, setting: Setting) {
        if let Some(old_name) = setting.old_name {
            self.old_names.insert(old_name, setting.origin.clone());
        }
        let outranked = |present: &Setting| present.rank() > setting.rank();
        if !self.settings.get(&key).is_some_and(outranked) {
            self.settings.insert(key, setting);
        }
    }

    /// Removes a setting; its entry has its default again.
    pub fn remove(&mut self, key: &str) -> Option<Setting> {
        self.settings.remove(current(key))
    }

    /// Takes over the settings of `other` that are not outranked here.
    pub fn merge(&mut self, other: Conf) {
        self.ignored.extend(other.ignored);
        self.old_names.extend(other.old_names);
        for (key, setting) in other.settings {
            self.put(key, setting);
        }
    }

    /// The typed value of an entry: what was set, what the entry follows, or the default.
    pub fn get<T: Value>(&self, entry: &Entry<T>) -> Result<T, ConfError> {
        match self.setting_of(entry.about()) {
            Some((key, setting)) => entry
                .parse(&setting.value)
                .map_err(|refusal| refused(key, setting, entry.about(), refusal)),
            None => Ok(entry.default_value()),
        }
    }

    /// The setting that decides an entry, with the key it was made under.
    fn setting_of(&self, about: &About) -> Option<(&'static str, &Setting)> {
        [Some(about.key), about.follows]
            .into_iter()
            .flatten()
            .find_map(|key| Some((key, self.settings.get(key)?)))
    }

    /// The text of a key, known or not, if it was set.
    pub fn get_raw(&self, key: &str) -> Option<&str> {
        self.setting(key).map(|setting| setting.value.as_str())
    }

    /// The setting of a key with where it came from.
    pub fn setting(&self, key: &str) -> Option<&Setting> {
        self.settings.get(current(key))
    }

    /// Every setting, secrets included: for handing on, never for showing.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.settings.iter().map(|(key, setting)| (key.as_str(), setting.value.as_str()))
    }

    /// Every setting as it may be shown. When `spark.redaction.regex` itself is invalid, every
    /// value is hidden.
    pub fn redacted(&self) -> impl Iterator<Item = (&str, &str)> {
        let redaction = self.get(&REDACTION_REGEX).ok();
        self.iter().map(move |(key, value)| match &redaction {
            Some(redaction) => (key, redaction.apply(key, value)),
            None => (key, REDACTED),
        })
    }

    /// Every setting as properties text: what `FIRESTEEL_CONF` holds. Secrets included.
    pub fn to_properties(&self) -> String {
        properties::write(self.iter())
    }

    /// What was ignored, old names, keys of Spark's that have no effect here, and unknown keys that look like a
    /// known one misspelt.
    pub fn warnings(&self) -> Vec<Warning> {
        let mut found = self.ignored.clone();
        found.extend(self.old_names.iter().filter_map(|(old_name, origin)| {
            let (old_name, current) = renamed(old_name)?;
            let present = self.settings.get(current);
            let overruled = present.is_some_and(|setting| setting.old_name != Some(old_name));
            Some(Warning::Renamed { old_name, current, origin: origin.clone(), overruled })
        }));
        let mut without_effect = Vec::new();
        for (key, setting) in &self.settings {
            match warning::judge(key) {
                Verdict::Fine => {}
                Verdict::NoEffect => without_effect.push(key.clone()),
                Verdict::Misspelt { suggestion } => {
                    let (key, origin) = (key.clone(), setting.origin.clone());
                    found.push(Warning::Misspelt { key, suggestion, origin });
                }
            }
        }
        if !without_effect.is_empty() {
            found.push(Warning::NoEffect { keys: without_effect });
        }
        found
    }

    /// Reads every known key that is set, and reports all that are wrong at once. Keys that promise more than
    /// is there are wrong too.
    pub fn validate(&self) -> Result<(), ConfError> {
        let known = self.settings.iter().filter_map(|(key, setting)| {
            let entry = entries::find(key)?;
            let refusal = entry.check(&setting.value).err()?;
            Some(refused(entry.about().key, setting, entry.about(), refusal))
        });
        let unkept = self.settings.iter().filter_map(|(key, setting)| {
            promises::unkept(self, key, setting).or_else(|| executor_env::refusal(key, setting))
        });
        let mut errors: Vec<ConfError> = known.chain(unkept).collect();
        if errors.is_empty() {
            errors = self.contradictions()?;
        }
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(ConfError::Several { errors }),
        }
    }

    /// Pairs of valid settings that exclude each other.
    fn contradictions(&self) -> Result<Vec<ConfError>, ConfError> {
        use entries::{
            EXCLUDE_ENABLED, EXCLUDE_TASK_ATTEMPTS_PER_NODE, EXECUTOR_HEARTBEAT_INTERVAL,
            NETWORK_TIMEOUT, TASK_MAX_FAILURES,
        };
        let mut found = Vec::new();
        found.extend(self.not_smaller(&EXECUTOR_HEARTBEAT_INTERVAL, &NETWORK_TIMEOUT)?);
        if self.get(&EXCLUDE_ENABLED)? {
            found.extend(self.not_smaller(&EXCLUDE_TASK_ATTEMPTS_PER_NODE, &TASK_MAX_FAILURES)?);
        }
        Ok(found)
    }

    fn not_smaller<T: Value + PartialOrd>(
        &self,
        smaller: &Entry<T>,
        larger: &Entry<T>,
    ) -> Result<Option<ConfError>, ConfError> {
        if self.get(smaller)? < self.get(larger)? {
            return Ok(None);
        }
        let text = |about: &About| match self.setting_of(about) {
            Some((_, setting)) => setting.value.clone(),
            None => about.default.unwrap_or_default().to_owned(),
        };
        Ok(Some(ConfError::Contradiction {
            smaller: smaller.key(),
            small: text(smaller.about()),
            larger: larger.key(),
            large: text(larger.about()),
        }))
    }
}

/// The old name that `key` is, and the key that it is now.
fn renamed(key: &str) -> Option<(&'static str, &'static str)> {
    entries::all().find_map(|entry| {
        let old_name = entry.about().formerly.iter().find(|old_name| **old_name == key)?;
        Some((*old_name, entry.about().key))
    })
}

/// The key that an old name is now.
fn current(key: &str) -> &str {
    renamed(key).map_or(key, |(_, current)| current)
}

fn refused(key: &str, setting: &Setting, about: &About, refusal: Refusal) -> ConfError {
    ConfError::InvalidValue(Box::new(InvalidValue {
        key: setting.old_name.unwrap_or(key).to_owned(),
        value: setting.value.clone(),
        origin: setting.origin.clone(),
        reason: refusal.reason,
        example: about.example(),
    }))
}

impl fmt::Debug for Conf {
    /// Redacted, so that a logged configuration gives no secret away.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.redacted()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::entries::*;
    use crate::{ByteSize, LocalTransport};

    fn file(line: usize) -> Origin {
        Origin::File { path: "/etc/spark-defaults.conf".into(), line }
    }

    fn variable() -> Origin {
        Origin::Environment { variable: "MASTER".to_owned() }
    }

    #[test]
    fn a_higher_source_wins_in_whatever_order_the_sources_come() {
        let ascending = [
            file(1),
            variable(),
            Origin::ConfArgument,
            Origin::Flag { flag: "--master" },
            Origin::Builder,
        ];
        for winner in 0..ascending.len() {
            for order in [true, false] {
                let mut origins = ascending[..=winner].to_vec();
                if order {
                    origins.reverse();
                }
                let mut conf = Conf::new();
                for origin in origins {
                    conf.insert("spark.master", origin.to_string(), origin);
                }
                assert_eq!(conf.setting("spark.master").unwrap().origin, ascending[winner]);
                assert_eq!(conf.get_raw("spark.master").unwrap(), ascending[winner].to_string());
            }
        }
    }

    #[test]
    fn the_last_setting_of_one_source_wins() {
        let mut conf = Conf::new();
        conf.insert("spark.task.cpus", 1, file(9));
        conf.insert("spark.task.cpus", 2, file(3));
        assert_eq!(conf.get(&TASK_CPUS).unwrap(), 2);
    }

    #[test]
    fn an_entry_that_is_not_set_has_its_default() {
        let conf = Conf::new();
        assert_eq!(conf.get(&TASK_MAX_FAILURES).unwrap(), 4);
        assert_eq!(conf.get(&FILES_MAX_PARTITION_BYTES).unwrap(), ByteSize(128 << 20));
        assert_eq!(conf.get(&DEFAULT_PARALLELISM).unwrap(), None);
        assert_eq!(conf.get(&MASTER).unwrap(), None);
        assert_eq!(conf.get(&LOCAL_TRANSPORT).unwrap(), LocalTransport::Direct);
        assert!(conf.get(&SHOW_CONSOLE_PROGRESS).unwrap());
    }

    #[test]
    fn the_locality_waits_follow_the_general_one_until_they_are_set() {
        let mut conf = Conf::new();
        let waits = |conf: &Conf| {
            [LOCALITY_WAIT_PROCESS, LOCALITY_WAIT_NODE]
                .map(|entry| conf.get(&entry).unwrap().as_millis())
        };
        assert_eq!(waits(&conf), [3000, 3000]);
        conf.set("spark.locality.wait", "1s").set("spark.locality.wait.node", 0);
        assert_eq!(waits(&conf), [1000, 0]);
        conf.set("spark.locality.wait", "often");
        let error = conf.get(&LOCALITY_WAIT_PROCESS).unwrap_err().to_string();
        assert!(error.starts_with("spark.locality.wait = \"often\""), "{error}");
    }

    #[test]
    fn a_wrong_value_is_refused_with_key_value_origin_expectation_and_example() {
        let mut conf = Conf::new();
        conf.insert("spark.task.maxFailures", " 0 ", file(7));
        assert_eq!(
            conf.get(&TASK_MAX_FAILURES).unwrap_err().to_string(),
            "spark.task.maxFailures = \"0\" (from /etc/spark-defaults.conf:7) is refused: \
             expected a whole number above 0; for example spark.task.maxFailures=4"
        );
        conf.set("spark.master", "local[0]");
        assert_eq!(
            conf.get(&MASTER).unwrap_err().to_string(),
            "spark.master = \"local[0]\" (from the program) is refused: `0` is not a number of \
             threads: write 1 or more, or `*` for all cores; for example spark.master=local[*]"
        );
    }

    #[test]
    fn validation_reports_every_wrong_setting() {
        let mut conf = Conf::new();
        conf.set("spark.task.cpus", "two").set("spark.scheduler.mode", "LIFO");
        conf.set("spark.app.name", "fine").set("spark.unknown", "kept");
        let ConfError::Several { errors } = conf.validate().unwrap_err() else {
            panic!("there are two mistakes")
        };
        let keys: Vec<&str> = errors
            .iter()
            .map(|error| match error {
                ConfError::InvalidValue(invalid) => invalid.key.as_str(),
                other => panic!("{other}"),
            })
            .collect();
        assert_eq!(keys, ["spark.scheduler.mode", "spark.task.cpus"]);
        conf.set("spark.task.cpus", 2).set("spark.scheduler.mode", "fair");
        conf.validate().unwrap();
        assert_eq!(conf.get_raw("spark.unknown"), Some("kept"));
    }

    #[test]
    fn settings_that_exclude_each_other_are_refused() {
        let mut conf = Conf::new();
        conf.set("spark.network.timeout", 10);
        assert_eq!(
            conf.validate().unwrap_err().to_string(),
            "spark.executor.heartbeatInterval has to be smaller than spark.network.timeout, but \
             they are 10s and 10"
        );
        conf.set("spark.network.timeout", "11s").set("spark.task.maxFailures", 2);
        conf.validate().unwrap();
        conf.set("spark.excludeOnFailure.enabled", true);
        assert!(
            matches!(conf.validate(), Err(ConfError::Contradiction { large, .. }) if large == "2")
        );
    }

    #[test]
    fn secrets_are_shown_neither_by_the_redacted_list_nor_by_debug() {
        let mut conf = Conf::new();
        conf.set("spark.my.password", "hunter2").set("spark.task.cpus", 1);
        let shown: Vec<_> = conf.redacted().collect();
        assert_eq!(shown, [("spark.my.password", REDACTED), ("spark.task.cpus", "1")]);
        assert!(!format!("{conf:?}").contains("hunter2"));
        conf.set("spark.redaction.regex", "(");
        assert!(!format!("{conf:?}").contains("hunter2"));
        assert!(conf.validate().is_err());
        conf.set("spark.redaction.regex", "cpus");
        assert!(conf.redacted().any(|setting| setting == ("spark.task.cpus", REDACTED)));
        assert!(conf.redacted().any(|setting| setting == ("spark.my.password", "hunter2")));
    }

    #[test]
    fn an_old_name_sets_what_the_new_one_does_and_says_so() {
        let mut conf = Conf::new();
        conf.insert("spark.deploy.spreadOut", false, file(1));
        assert!(!conf.get(&DEPLOY_SPREAD_OUT_APPS).unwrap());
        for key in ["spark.deploy.spreadOut", "spark.deploy.spreadOutApps"] {
            assert_eq!(conf.get_raw(key), Some("false"), "{key}");
        }
        let settings: Vec<_> = conf.iter().collect();
        assert_eq!(settings, [("spark.deploy.spreadOutApps", "false")], "others need not know");
        assert_eq!(
            conf.warnings().iter().map(Warning::to_string).collect::<Vec<_>>(),
            ["spark.deploy.spreadOut (from /etc/spark-defaults.conf:1) is an old name of \
              spark.deploy.spreadOutApps: write that"]
        );
        conf.set("spark.akka.askTimeout", "soon");
        let error = conf.validate().unwrap_err().to_string();
        assert!(
            error.starts_with("spark.akka.askTimeout = \"soon\" (from the program)"),
            "{error}"
        );
        conf.remove("spark.akka.askTimeout");
        conf.validate().unwrap();
    }

    #[test]
    fn the_new_name_wins_over_the_old_one_from_any_source_in_any_order() {
        for new_first in [true, false] {
            let mut conf = Conf::new();
            if new_first {
                conf.insert("spark.rpc.askTimeout", 5, file(1));
            }
            conf.set("spark.akka.askTimeout", 7);
            if !new_first {
                let mut others = Conf::new();
                others.insert("spark.rpc.askTimeout", 5, file(1));
                conf.merge(others);
            }
            assert_eq!(conf.get(&RPC_ASK_TIMEOUT).unwrap(), Duration::from_secs(5));
            let warnings: Vec<String> = conf.warnings().iter().map(Warning::to_string).collect();
            assert_eq!(
                warnings,
                ["spark.akka.askTimeout (from the program) does not count: it is an old name of \
                  spark.rpc.askTimeout, which is set too"]
            );
        }
    }

    #[test]
    fn merging_keeps_the_ranks_and_the_warnings() {
        let mut loaded = Conf::new();
        loaded.insert("spark.task.cpus", 2, file(1));
        loaded.insert("spark.cores.max", 2, file(2));
        loaded.insert("other", 2, file(3));
        let mut conf = Conf::new();
        conf.set("spark.task.cpus", 3);
        conf.merge(loaded);
        assert_eq!(conf.get(&TASK_CPUS).unwrap(), 3);
        assert_eq!(conf.get(&CORES_MAX).unwrap(), Some(2));
        assert_eq!(conf.warnings().len(), 1);
    }

    #[test]
    fn a_bare_number_counts_in_the_unit_of_its_entry() {
        let mut conf = Conf::new();
        conf.set("spark.executor.memory", 512).set("spark.network.timeout", 60);
        conf.set("spark.locality.wait", 60);
        assert_eq!(conf.get(&EXECUTOR_MEMORY).unwrap(), ByteSize(512 << 20));
        assert_eq!(conf.get(&NETWORK_TIMEOUT).unwrap(), Duration::from_secs(60));
        assert_eq!(conf.get(&LOCALITY_WAIT).unwrap(), Duration::from_millis(60));
    }
}
