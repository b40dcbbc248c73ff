//! Bytes of files, wherever they lie: found, read from any offset, decompressed, written, committed.
//!
//! ```text
//!   find("logs/*.gz,s3://b/x/") ──► [FileRef] ──► Input: Read      (a task reads one of them)
//!   Target ──► Output: Write ──► Written ──► commit                (a task writes, the driver commits)
//! ```
//!
//! This crate knows bytes and names, not lines, records, tasks or drivers. The object stores' client is
//! asynchronous; `store` hides that, and nothing of it is started for local files.

#[warn(missing_docs)] // users read it
mod compression;
mod copy;
mod fault;
mod find;
mod input;
mod location;
mod objects;
mod output;
#[cfg(feature = "object-store")]
mod store;

pub use compression::Compression;
pub use copy::{DownloadLimits, download, upload};
pub use fault::{is_final, is_full, may_pass};
pub use find::{FileRef, FindError, find};
pub use input::Input;
pub use location::{Location, StoreOptions};
pub use objects::{ObjectDirectory, ObjectEntry};
pub use output::{Output, Target, Written, WrittenAt};
#[cfg(feature = "object-store")]
pub use store::{CommitError, RemoteOutput};
