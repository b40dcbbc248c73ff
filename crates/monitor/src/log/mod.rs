//! Event logs as files, laid out as Spark's are:
//!
//! ```text
//! APP[_ATTEMPT][.CODEC][.inprogress]                one file
//! eventlog_v2_APP[_ATTEMPT]/                        a rolling log
//!     appstatus_APP[_ATTEMPT][.inprogress]          empty
//!     events_1_APP[_ATTEMPT][.CODEC][.compact]      one after the other
//! ```
//!
//! | file | owns |
//! |---|---|
//! | `lz4`, `snappy`, `lzf`, `chunks`, `codec` | bytes and their compression |
//! | `source` | which files a log is |
//! | `reader` | lines, of a log that may still grow or end in the middle of something |
//! | `writer` | a log that is written |
//! | `upload` | its files, where they go to an object store |

mod chunks;
mod codec;
mod lz4;
mod lzf;
mod reader;
mod snappy;
mod source;
mod upload;
mod writer;

pub use codec::Codec;
pub use reader::Lines;
pub(crate) use reader::last_lines;
pub use source::{LogDirectory, LogSource, discover};
pub use writer::{EventLog, EventLogError};

/// The end of the name of a log that is being written.
const IN_PROGRESS: &str = ".inprogress";
/// Before the name of a directory that is a log.
const ROLLING: &str = "eventlog_v2_";
