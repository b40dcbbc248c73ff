//! What a run leaves behind, and who reads it: event logs as Spark writes and reads them, the REST API `/api/v1` of
//! applications, the history server.
//!
//! | module | owns |
//! |---|---|
//! | `spark` | Spark's JSON event model, both ways |
//! | `log` | event logs as files: names, compression, reading while they grow, writing |
//! | `replay` | the status of an application from its log |
//! | `metrics` | metrics of applications |
//! | `access`, `guard` | who may see an application, and that nobody else does |
//! | `archive` | logs as a zip archive, made while it is sent |
//! | `rest` | answers of `/api/v1`: functions of a status and a path |
//! | `history` | a directory of logs: listing, opening, cleaning |
//! | `traces` | jobs, stages and tasks as spans for a collector of OpenTelemetry |
//! | `threads` | what the threads of a process do, in answers |
//! | `server`, `hosts`, `places` | HTTP |
//! | `site` | the hook for pages: what the server shows besides `/api/v1` |
//!
//! Everything here reads an [`AppStatus`](firesteel_status::AppStatus), whether that of a running application or one from a
//! log. Nothing here schedules, and no job waits for anything here.

pub mod access;
mod archive;
#[doc(hidden)]
pub mod fuzzing;
mod groups;
mod guard;
pub mod history;
mod hosts;
pub mod log;
pub mod metrics;
mod places;
pub mod replay;
pub mod rest;
pub mod server;
pub mod site;
pub mod spark;
mod threads;
mod traces;

pub use access::{Access, AccessError};
pub use archive::{Archive, Chunks};
pub use history::{History, HistoryError, HistoryOptions};
pub use log::{EventLog, EventLogError, LogDirectory};
pub use replay::Replay;
pub use server::{Server, ServerOptions};
pub use spark::{Decoder, Encoder, Extent, LineError};
pub use traces::{Traces, TracesError};
