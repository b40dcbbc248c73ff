//! What can go wrong between a user's settings and a typed configuration.

use std::fmt;
use std::path::PathBuf;

use crate::conf::Origin;

/// A setting that is not a value of its entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} = {value:?} (from {origin}) is refused: {reason}; for example {key}={example}")]
pub struct InvalidValue {
    /// The key that was set.
    pub key: String,
    /// The value it was set to.
    pub value: String,
    /// The file, variable, flag or program that set it.
    pub origin: Origin,
    /// What is wrong or what is expected.
    pub reason: String,
    /// A value that is accepted.
    pub example: &'static str,
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfError {
    /// A setting is not a value of its entry.
    #[error(transparent)]
    InvalidValue(Box<InvalidValue>),
    /// A key that may not be set, or not to this value.
    #[error("{key} (from {origin}) is refused: {reason}")]
    Refused {
        /// The key that was set.
        key: String,
        /// The file, variable, flag or program that set it.
        origin: Origin,
        /// Why. The value is not shown: it may be a secret.
        reason: String,
    },
    /// Two settings, each valid, exclude each other.
    #[error("{smaller} has to be smaller than {larger}, but they are {small} and {large}")]
    Contradiction {
        /// The key that has to have the smaller value.
        smaller: &'static str,
        /// The value of `smaller` in force, set or default.
        small: String,
        /// The key that has to have the larger value.
        larger: &'static str,
        /// The value of `larger` in force, set or default.
        large: String,
    },
    /// Validation found more than one mistake.
    #[error("{} settings are refused:{}", errors.len(), Lines(errors))]
    Several {
        /// At least two.
        errors: Vec<ConfError>,
    },
    /// A `--conf` without `key=value`.
    #[error(
        "{flag} {argument:?} is not a setting: write {flag} key=value, such as {flag} spark.task.cpus=2"
    )]
    MalformedArgument {
        /// `--conf`.
        flag: String,
        /// What came after it.
        argument: String,
    },
    /// A flag at the end of the arguments.
    #[error("{flag} needs a value after it, such as {example}")]
    MissingArgument {
        /// With its dashes, as written.
        flag: String,
        /// How it is used.
        example: &'static str,
    },
    /// An argument of the process that is no text.
    #[error("the argument {argument:?} is not valid UTF-8")]
    ArgumentNotUnicode {
        /// The argument with replacement characters.
        argument: String,
    },
    /// A file of settings could not be read.
    #[error("could not read the settings in {}: {source}", path.display())]
    ReadFile {
        /// As the user or `SPARK_CONF_DIR` named it.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A file (or variable) of settings is not in the properties format.
    #[error("{place}, line {}: {}", source.line, source.problem)]
    ParseProperties {
        /// The file's path or the variable's name.
        place: String,
        /// What is wrong, and in which line.
        source: crate::PropertiesError,
    },
}

/// Each error in a line of its own.
struct Lines<'a>(&'a [ConfError]);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|error| write!(f, "\n  {error}"))
    }
}
