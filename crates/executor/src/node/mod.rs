//! An executor of a cluster: a process of the application's executable that a worker started.
//!
//! | file | owns |
//! |---|---|
//! | `shell` | the core of `firesteel_backend::executor`, and carrying out what it decides |
//! | `work` | the threads that run tasks |
//! | `block_manager` | blocks of this process: served to others, kept and forgotten |
//! | `fetch` | what a task sees of the cluster |
//! | `files` | files that the driver added while it runs |
//! | `flow` | map outputs from elsewhere, as the core of `firesteel_backend::fetch` decides |
//! | `cached` | cached partitions read from elsewhere, and replicas of them |
//! | `pieces` | broadcast values from the driver and other executors |
//! | `heartbeat` | what running tasks cost so far, for the driver |
//! | `transfer` | one block from elsewhere, with retries |
//! | `code` | the code of stages |
//! | `settings` | what worker and driver say through the environment |
//! | `protocol` | what driver and executors say to each other beyond the cores' messages |
//!
//! It never decides when to work or to end; that is the core's.

mod block_manager;
mod cached;
mod code;
mod fetch;
mod files;
mod flow;
mod heartbeat;
mod pieces;
mod protocol;
mod settings;
mod shell;
mod transfer;
mod work;

pub use protocol::{
    BLOCK_MASTER, BLOCKS, BlockMasterReply, Bundle, DRIVER_URL, MapOutputLocations, NextPiece,
    SETTINGS, StreamId, THREADS, TaskData, TaskOrder, TaskOutput, TellThreads, ToBlockMaster,
    ToBlocks, items_answer,
};

/// Before `main`: works for the driver that the environment names, and ends with it.
pub(crate) fn become_executor() -> ! {
    let code = match std::panic::catch_unwind(shell::run) {
        Ok(Ok(never)) => match never {},
        Ok(Err(error)) => {
            eprintln!("firesteel executor: {error}");
            1
        }
        Err(_) => 2,
    };
    std::process::exit(code);
}
