//! What a job brings with it besides its lineage.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// Settings of one job by key, and its tags: Spark's local properties. Front doors may add keys of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Properties {
    values: BTreeMap<String, String>,
    tags: BTreeSet<String>,
}

impl Properties {
    /// The group that the job can be cancelled with.
    pub const GROUP: &str = "spark.jobGroup.id";
    /// What the user says the job does.
    pub const DESCRIPTION: &str = "spark.job.description";
    /// The pool that its tasks are scheduled in.
    pub const POOL: &str = "spark.scheduler.pool";
    /// Where the action stands in the program.
    pub const CALL_SITE: &str = "callSite.short";
    /// The key under which Spark's event log has the tags, separated by commas.
    pub const TAGS: &str = "spark.job.tags";

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str)
    }

    /// Sets a key, or removes it.
    pub fn set(&mut self, key: &str, value: Option<&str>) {
        match value {
            Some(value) => self.values.insert(key.to_owned(), value.to_owned()),
            None => self.values.remove(key),
        };
    }

    /// The same with a key set.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> Self {
        self.set(key, Some(value));
        self
    }

    /// All keys and values, without the tags.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The tags that the job can be cancelled with.
    pub fn tags(&self) -> &BTreeSet<String> {
        &self.tags
    }

    /// The tags, to be changed.
    pub fn tags_mut(&mut self) -> &mut BTreeSet<String> {
        &mut self.tags
    }

    /// [`Properties::GROUP`]
    pub fn group(&self) -> Option<&str> {
        self.get(Self::GROUP)
    }

    /// [`Properties::DESCRIPTION`]
    pub fn description(&self) -> Option<&str> {
        self.get(Self::DESCRIPTION)
    }

    /// [`Properties::POOL`]
    pub fn pool(&self) -> Option<&str> {
        self.get(Self::POOL)
    }

    /// [`Properties::CALL_SITE`]; empty if it is not known.
    pub fn call_site(&self) -> &str {
        self.get(Self::CALL_SITE).unwrap_or_default()
    }
}
