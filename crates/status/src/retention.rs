//! How much of what is over is remembered.

use firesteel_conf::{Conf, ConfError, entries};

/// How much of what is over is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// `spark.ui.retainedJobs`
    pub jobs: usize,
    /// `spark.ui.retainedStages`: attempts.
    pub stages: usize,
    /// `spark.ui.retainedTasks`: of each stage attempt.
    pub tasks: usize,
    /// `spark.ui.retainedDeadExecutors`
    pub dead_executors: usize,
}

impl Retention {
    /// As the settings say.
    pub fn from_conf(conf: &Conf) -> Result<Self, ConfError> {
        Ok(Retention {
            jobs: conf.get(&entries::UI_RETAINED_JOBS)? as usize,
            stages: conf.get(&entries::UI_RETAINED_STAGES)? as usize,
            tasks: conf.get(&entries::UI_RETAINED_TASKS)? as usize,
            dead_executors: conf.get(&entries::UI_RETAINED_DEAD_EXECUTORS)? as usize,
        })
    }
}
