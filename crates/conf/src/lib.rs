//! Spark's configuration, typed.
pub mod duration;
pub mod master;
pub mod size;
pub use duration::{TimeUnit, format_duration, parse_duration};
pub use master::{HostPort, Master, MasterError, Threads};
pub use size::{ByteSize, ByteUnit};
