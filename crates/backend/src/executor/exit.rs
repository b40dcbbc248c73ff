//! With which code an executor ends, for people who look at its worker's log. A task can end its executor with any
//! of them, so that nobody is cleared by one: [`crate::blame`].

/// Its driver told it to end.
pub const STOPPED: i32 = 0;
/// It heard nothing of its driver for too long; Spark's number.
pub const HEARTBEAT_FAILURE: i32 = 56;
/// Its connection to the driver broke.
pub const DRIVER_LOST: i32 = 60;
/// Its worker is gone.
pub const WORKER_LOST: i32 = 61;
/// Its driver has declared it dead, or is ending.
pub const REFUSED: i32 = 62;
/// Its driver cannot use it: another executable, another application.
pub const UNFIT: i32 = 63;
/// Its machine told it to end (`SIGTERM`); as a process that such a signal kills.
pub const TERMINATED: i32 = 143;
