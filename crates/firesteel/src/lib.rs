//! Firesteel: Apache Spark's engine in Rust.
//!
//! A program describes data as [`Rdd`]s, typed collections cut into partitions, and runs actions on
//! them; a scheduler computes the partitions in parallel, tries again what fails, and shuffles data
//! between stages. The same program runs in one process and, unchanged, on a cluster.
//!
//! ```
//! use firesteel::prelude::*;
//!
//! fn main() -> Result<()> {
//!     let ctx = Context::builder().app_name("squares").master("local[2]").build()?;
//!     let sum = ctx.range(1..101u64).map(|x| x * x).filter(|x| x % 2 == 0).reduce(|a, b| a + b)?;
//!     assert_eq!(sum, 171_700);
//!     Ok(())
//! }
//! ```
//!
//! Closures capture nothing: that is what lets them travel to executors, and it is checked when the
//! program is compiled. What a closure needs is passed with [`Rdd::with`]:
//!
//! ```
//! # use firesteel::prelude::*;
//! # fn main() -> Result<()> {
//! # let ctx = Context::builder().master("local[2]").build()?;
//! let factor = std::env::args().count() as u64;
//! let scaled = ctx.range(0..10u64).with(factor).map(|factor, x| x * factor).collect()?;
//! # assert_eq!(scaled.len(), 10);
//! # Ok(())
//! # }
//! ```

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
pub use firesteel_rdd::source::RangeItem;
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

/// The program's own arguments: the process's, without its name and without `--master`, `--conf`,
/// `--name` and `--properties-file`, which [`Context::builder`] reads.
pub fn arguments() -> Result<Vec<String>> {
    Ok(conf::Loader::from_process()?.load()?.arguments)
}

/// The code in the guides, compiled (and run, where it has a `main`) with the documentation tests.
#[cfg(doctest)]
mod guides {
    #[doc = include_str!("../../../README.md")]
    mod readme {}

    #[doc = include_str!("../../../docs/rdd.md")]
    mod rdd {}

    #[doc = include_str!("../../../docs/types-that-travel.md")]
    mod types_that_travel {}
}
