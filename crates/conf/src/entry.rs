//! One configuration key: its name, type, default, rules and documentation.
//!
//! Entries are constants; the default is text and goes through the same reader as a user's value,
//! so what the documentation page shows is what the engine uses.

use std::marker::PhantomData;

use crate::value::{Range, Refusal, Rules, Value};
use crate::{ByteUnit, TimeUnit};

/// A configuration key whose values are of type `T`.
///
/// ```
/// use firesteel_conf::{Conf, Entry};
/// const RETRIES: Entry<u32> = Entry::new("spark.example.retries", "3").positive();
/// let mut conf = Conf::new();
/// assert_eq!(conf.get(&RETRIES)?, 3);
/// conf.set("spark.example.retries", 5);
/// assert_eq!(conf.get(&RETRIES)?, 5);
/// # Ok::<(), firesteel_conf::ConfError>(())
/// ```
#[derive(Debug)]
pub struct Entry<T> {
    about: About,
    value: PhantomData<fn() -> T>,
}

/// What is known of an entry whatever its type.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// The key, `spark.` included.
    pub key: &'static str,
    /// The default as a user would write it; `None` when the entry may stay unset.
    pub default: Option<&'static str>,
    /// The key whose setting counts when this one is not set.
    pub follows: Option<&'static str>,
    /// Keys it had in older versions; they are read too.
    pub formerly: &'static [&'static str],
    /// A value to show in messages when there is no default that helps.
    pub example: Option<&'static str>,
    /// The version that introduced it.
    pub since: &'static str,
    /// Where it stands on the documentation page.
    pub category: &'static str,
    /// Which part of the engine uses it.
    pub scope: Scope,
    /// What its values have to satisfy.
    pub rules: Rules,
    /// Its documentation, line by line.
    pub doc: &'static [&'static str],
}

/// Which part of the engine uses an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Every application, whatever its master.
    Engine,
    /// Checked everywhere, but it only makes a difference with a cluster.
    Cluster,
}

impl About {
    /// A value that is accepted.
    pub fn example(&self) -> &'static str {
        self.example.or(self.default).unwrap_or_default()
    }

    /// The documentation in one paragraph.
    pub fn doc_text(&self) -> String {
        let lines: Vec<&str> = self.doc.iter().map(|line| line.trim()).collect();
        lines.join(" ").trim().to_owned()
    }
}

impl<T> Clone for Entry<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Entry<T> {}

impl<T> Entry<T> {
    /// An entry with a default.
    pub const fn new(key: &'static str, default: &'static str) -> Self {
        Self::with_default(key, Some(default))
    }

    /// An entry that uses the setting of `other` when it is not set itself, and `other`'s default
    /// when neither is.
    pub const fn following(key: &'static str, other: &Entry<T>) -> Self {
        let about = About { key, follows: Some(other.about.key), formerly: &[], ..other.about };
        Self { about, value: PhantomData }
    }

    const fn with_default(key: &'static str, default: Option<&'static str>) -> Self {
        let about = About {
            key,
            default,
            follows: None,
            formerly: &[],
            example: None,
            since: "",
            category: "",
            scope: Scope::Engine,
            rules: Rules::NONE,
            doc: &[],
        };
        Self { about, value: PhantomData }
    }

    /// Only more than zero is accepted.
    pub const fn positive(mut self) -> Self {
        self.about.rules.range = Range::Positive;
        self
    }

    /// Only this and more is accepted.
    pub const fn at_least(mut self, least: u32) -> Self {
        self.about.rules.range = Range::AtLeast(least);
        self
    }

    /// Only these two and what is between them is accepted.
    pub const fn between(mut self, least: f64, most: f64) -> Self {
        self.about.rules.range = Range::Between(least, most);
        self
    }

    /// What a size without a suffix counts; bytes unless said.
    pub const fn byte_unit(mut self, unit: ByteUnit) -> Self {
        self.about.rules.byte_unit = unit;
        self
    }

    /// What a duration without a suffix counts; milliseconds unless said.
    pub const fn time_unit(mut self, unit: TimeUnit) -> Self {
        self.about.rules.time_unit = unit;
        self
    }

    /// A value to show in messages.
    pub const fn example(mut self, example: &'static str) -> Self {
        self.about.example = Some(example);
        self
    }

    /// Keys it had in older versions.
    pub const fn formerly(mut self, keys: &'static [&'static str]) -> Self {
        self.about.formerly = keys;
        self
    }

    /// The version that introduced it.
    pub const fn since(mut self, version: &'static str) -> Self {
        self.about.since = version;
        self
    }

    /// Says that only a cluster makes use of it.
    pub const fn for_cluster(mut self) -> Self {
        self.about.scope = Scope::Cluster;
        self
    }

    pub(crate) const fn documented(
        mut self,
        category: &'static str,
        doc: &'static [&'static str],
    ) -> Self {
        self.about.category = category;
        self.about.doc = doc;
        self
    }

    /// The key as users write it, `spark.` included.
    pub const fn key(&self) -> &'static str {
        self.about.key
    }
}

impl<T> Entry<Option<T>> {
    /// An entry that may stay unset.
    pub const fn optional(key: &'static str) -> Self {
        Self::with_default(key, None)
    }
}

impl<T: Value> Entry<T> {
    /// Reads a value of this entry.
    pub fn parse(&self, text: &str) -> Result<T, Refusal> {
        T::parse(text.trim(), &self.about.rules)
    }

    /// The value when nobody set any.
    ///
    /// # Panics
    /// When the entry's own default is not a value of it, which is a mistake in its definition.
    pub fn default_value(&self) -> T {
        let value = match self.about.default {
            Some(text) => self.parse(text).ok(),
            None => T::unset(),
        };
        value.unwrap_or_else(|| panic!("the default of {} is not a value of it", self.about.key))
    }
}

/// An entry of any type: what the registry, validation and the documentation page need.
pub trait AnyEntry: Sync {
    /// What is known of it.
    fn about(&self) -> &About;
    /// Whether `text` is a value of it.
    fn check(&self, text: &str) -> Result<(), Refusal>;
    /// The values that are accepted, for messages and the documentation page.
    fn kind(&self) -> String;
}

impl<T: Value> AnyEntry for Entry<T> {
    fn about(&self) -> &About {
        &self.about
    }

    fn check(&self, text: &str) -> Result<(), Refusal> {
        self.parse(text).map(drop)
    }

    fn kind(&self) -> String {
        T::kind(&self.about.rules)
    }
}
