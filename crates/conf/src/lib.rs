//! Spark's configuration, typed.
//!
//! * [`entries`] is the one registry of keys: type, default, rules and documentation of each.
//! * [`Conf`] holds the settings of one application as text, each with where it came from, and
//!   reads them as the types of their entries.
//! * [`Master`], [`ByteSize`], durations, and [`properties`] are the notations.
//!
//! Nothing here acts on a setting or logs: mistakes are typed errors that say what to write
//! instead, and what is merely odd is returned as [`Warning`]s.

mod choice;
mod conf;
mod duration;
pub mod entries;
mod entry;
mod error;
mod master;
pub mod properties;
mod redaction;
mod size;
mod value;
mod warning;

pub use choice::{Choice, DeployMode, LocalTransport, SchedulingMode};
pub use conf::{Conf, Origin, Setting};
pub use duration::{TimeUnit, format_duration, parse_duration};
pub use entry::{About, AnyEntry, Entry, Scope};
pub use error::{ConfError, InvalidValue};
pub use master::{HostPort, Master, MasterError, Threads};
pub use properties::{EscapeError, PropertiesError};
pub use redaction::{REDACTED, Redaction};
pub use size::{ByteSize, ByteUnit};
pub use value::{Range, Refusal, Rules, Value};
pub use warning::Warning;
