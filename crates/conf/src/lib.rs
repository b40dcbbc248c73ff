//! Spark's configuration, typed.
//!
//! * [`entries`] is the one registry of keys: type, default, rules and documentation of each. The
//!   page `docs/configuration.md` is generated from it.
//! * [`Conf`] holds the settings of one application as text, each with where it came from, and
//!   reads them as the types of their entries.
//! * [`Loader`] fills a `Conf` from arguments, environment and files that it is handed, so that
//!   only [`Loader::from_process`] looks at the process.
//! * [`Master`], [`ByteSize`], durations, [`properties`] and [`allocation`] are the notations.
//!
//! Nothing here acts on a setting or logs: mistakes are typed errors that say what to write
//! instead, and what is merely odd is returned as [`Warning`]s.
//!
//! ```
//! use firesteel_conf::{Loader, entries};
//!
//! let loaded = Loader::new()
//!     .arguments(["--master", "local[4]", "--conf", "spark.locality.wait=1s", "input.txt"])
//!     .environment([("SPARK_LOCAL_DIRS", "/disk1,/disk2")])
//!     .load()?;
//! assert_eq!(loaded.arguments, ["input.txt"]);
//! assert_eq!(loaded.conf.get(&entries::LOCALITY_WAIT_NODE)?.as_secs(), 1);
//! assert_eq!(loaded.conf.get(&entries::LOCAL_DIR)?, ["/disk1", "/disk2"]);
//! # Ok::<(), firesteel_conf::ConfError>(())
//! ```

#![warn(missing_docs)]

pub mod allocation;
mod arguments;
mod choice;
mod conf;
mod duration;
pub mod entries;
mod entry;
mod error;
mod executor_env;
mod files;
mod hosts;
mod loader;
mod master;
pub mod page;
mod prefixes;
pub mod process_variables;
mod promises;
pub mod properties;
mod proxy;
mod redaction;
mod size;
mod spark_names;
mod value;
mod warning;

pub use choice::{
    Choice, CompressionCodec, DeployMode, LocalTransport, LogLevel, PullPolicy, RecoveryMode,
    RestFilter, RollPolicy, RollingInterval, RollingStrategy, SchedulingMode, Unschedulable,
};
pub use conf::{Conf, Origin, Setting};
pub use duration::{TimeUnit, format_duration, parse_duration};
pub use entry::{About, AnyEntry, Entry, Scope};
pub use error::{ConfError, InvalidValue};
pub use files::{FileListError, FileSource, SharedFile, shared_file, shared_files, url_scheme};
pub use hosts::HostNames;
pub use loader::{Loaded, Loader};
pub use master::{HostPort, Master, MasterError, Threads};
pub use properties::{EscapeError, PropertiesError};
pub use proxy::ProxyUrl;
pub use redaction::{REDACTED, Redaction};
pub use size::{ByteSize, ByteUnit};
pub use value::{Range, Refusal, Rules, Value};
pub use warning::Warning;
