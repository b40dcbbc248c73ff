//! What a master, a worker and an application may be doing, under Spark's names.

/// What a master is doing. Spark's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryState {
    /// Another master leads.
    Standby,
    /// It leads: it accepts registrations and places executors.
    Alive,
    /// It learns what its predecessor knew. It places executors when all workers have answered.
    Recovering,
    /// It declares dead what did not answer.
    CompletingRecovery,
}

impl RecoveryState {
    /// As Spark writes it.
    pub fn name(self) -> &'static str {
        match self {
            RecoveryState::Standby => "STANDBY",
            RecoveryState::Alive => "ALIVE",
            RecoveryState::Recovering => "RECOVERING",
            RecoveryState::CompletingRecovery => "COMPLETING_RECOVERY",
        }
    }
}

/// What a worker is to the master. Spark's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerStatus {
    /// It gets work.
    Alive,
    /// It ends what it does, and gets nothing more.
    Decommissioned,
    /// It was declared dead.
    Dead,
    /// It was known to the master before this one and has not answered.
    Unknown,
}

impl WorkerStatus {
    /// As Spark writes it.
    pub fn name(self) -> &'static str {
        match self {
            WorkerStatus::Alive => "ALIVE",
            WorkerStatus::Decommissioned => "DECOMMISSIONED",
            WorkerStatus::Dead => "DEAD",
            WorkerStatus::Unknown => "UNKNOWN",
        }
    }
}

/// The state of an application, under Spark's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplicationState {
    /// It has no executor.
    Waiting,
    /// It has executors.
    Running,
    /// It unregistered, or its driver is gone.
    Finished,
    /// Its executors failed too often.
    Failed,
    /// A user ended it.
    Killed,
}

impl ApplicationState {
    /// As Spark writes it.
    pub fn name(self) -> &'static str {
        match self {
            ApplicationState::Waiting => "WAITING",
            ApplicationState::Running => "RUNNING",
            ApplicationState::Finished => "FINISHED",
            ApplicationState::Failed => "FAILED",
            ApplicationState::Killed => "KILLED",
        }
    }
}
