//! What a cluster manager tells of the processes that it starts, in variables that begin so. Named as Spark names them.

/// Before the name of an executor's log (`STDOUT`): where it can be read.
pub const EXECUTOR_LOG_URL: &str = "SPARK_LOG_URL_";
/// Before the name of an executor's attribute.
pub const EXECUTOR_ATTRIBUTE: &str = "SPARK_EXECUTOR_ATTRIBUTE_";
/// Before the name of a driver's log.
pub const DRIVER_LOG_URL: &str = "SPARK_DRIVER_LOG_URL_";
/// Before the name of a driver's attribute.
pub const DRIVER_ATTRIBUTE: &str = "SPARK_DRIVER_ATTRIBUTE_";
