//! The words every layer of Firesteel shares: ids, lineage, task outcomes, job errors, listener events.
//!
//! Plain data only. Nothing here decides, does IO, reads a clock or knows a user's types, so the
//! pure scheduler cores, the executors, the driver and the simulator can all depend on it.

pub mod block;
pub mod date;
pub mod event;
pub mod id;
pub mod lineage;
pub mod map_status;
pub mod outcome;
pub mod properties;
pub mod storage_level;
pub mod thread;

pub use block::{BlockLocation, BlockStatus, MapAttempt, MapOutputLocation, RddBlock};
pub use event::{
    Accumulable, BlockManagerId, DeviceRequest, Event, ExecutorInfo, ExecutorMetrics, ProcessInfo,
    ResourceProfile, RunningTask, StageInfo, StagePeak, TaskInfo, TaskMetrics,
};
pub use id::*;
pub use lineage::{
    Attachment, CallSite, Dependency, Determinism, Lent, Location, NarrowMapping, PartitionerId,
    RddInfo, Reads,
};
pub use map_status::{MapOutputSizes, MapStatus};
pub use outcome::{JobError, StageRef, TaskFailure, TaskOutcome};
pub use properties::Properties;
pub use storage_level::{SharedStorageLevel, StorageLevel};
pub use thread::ThreadInfo;
