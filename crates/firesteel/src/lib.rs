//! Apache Spark's engine in Rust: an RDD program compiles to one executable and runs in one process or on a cluster.
//!
//! [`Context`] is where a program starts, [`Rdd`] has the operations, [`prelude`] brings both and what goes with them.
//! Settings have Spark's names ([`conf`]); [`Error`] says what to do.
#![doc = include_str!("../../../docs/tour.md")]
#![warn(missing_docs)]

pub use firesteel_closure::Data;
pub use firesteel_conf as conf;
pub use firesteel_driver::{
    Builder, By, Context, Error, ExecutorSummary, IntoPartitioner, JobFuture, JobSummary, Listener,
    Rdd, Result, SaveOptions, StageSummary, StatusTracker, TextOptions, Total, With,
};
pub use firesteel_io::Compression;
pub use firesteel_rdd::csv::CsvOptions;
pub use firesteel_rdd::files::PortableDataStream;
pub use firesteel_rdd::json::JsonOptions;
pub use firesteel_rdd::malformed::ParseMode;
pub use firesteel_rdd::narrow::Emitter;
pub use firesteel_rdd::source::{NumberRange, RangeItem};
pub use firesteel_rdd::stats::{Number, Stats};
pub use firesteel_rdd::{Boxed, HashPartitioner, Partition, Partitioner, Pipe};
pub use firesteel_status as status;
pub use firesteel_task::{Accumulate, Accumulator, Broadcast, SparkFiles, TaskContext};
pub use firesteel_types as types;
pub use firesteel_types::{Determinism, StorageLevel};

/// What most programs want: `use firesteel::prelude::*;`
pub mod prelude {
    pub use crate::{
        Accumulator, Broadcast, By, Compression, Context, CsvOptions, Data, Error, HashPartitioner,
        JsonOptions, ParseMode, Partition, Partitioner, Rdd, Result, SaveOptions, SparkFiles,
        StorageLevel, TaskContext, TextOptions, Total,
    };
}

/// The program's own arguments: the process's, without its name and without `--master`, `--conf`
/// and `--properties-file`, which [`Context::builder`] reads.
pub fn arguments() -> Result<Vec<String>> {
    Ok(conf::Loader::from_process()?.load()?.arguments)
}

/// The code in the guides, compiled (and run, where it has a `main`) with the documentation tests. That of the tour is
/// in this crate's own documentation.
#[cfg(doctest)]
mod guides {
    #[doc = include_str!("../../../docs/closures.md")]
    mod closures {}

    #[doc = include_str!("../../../docs/failures.md")]
    mod failures {}

    #[doc = include_str!("../../../docs/jobs.md")]
    mod jobs {}

    #[doc = include_str!("../../../docs/memory.md")]
    mod memory {}

    #[doc = include_str!("../../../docs/rdd.md")]
    mod rdd {}

    #[doc = include_str!("../../../README.md")]
    mod readme {}

    #[doc = include_str!("../../../docs/types-that-travel.md")]
    mod types_that_travel {}
}
