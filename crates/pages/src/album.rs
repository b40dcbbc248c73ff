//! Pictures of large stages that were drawn before. A stage that is over does not change: to sort or page its list of tasks, or to come
//! back to it, needs no other look at what each of a million tasks cost.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use firesteel_status::{AppStatus, StageStatus, TaskCounts};
use firesteel_types::{StageRef, Tick};
use maud::Markup;

/// Stages with fewer tasks are drawn every time.
const LARGE: usize = 10_000;
/// Of so many stages pictures are held, of a few hundred kilobytes at most each.
const STAGES: usize = 16;

/// What needs a look at every task.
pub(crate) struct StagePictures {
    pub(crate) failed: Markup,
    pub(crate) spreads: Markup,
    pub(crate) stream: Markup,
}

/// A stage attempt as it was when it was drawn.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct StageKey {
    application: String,
    attempt: Option<String>,
    started: Tick,
    stage: StageRef,
    completed: Tick,
    /// Some tasks end after their stage.
    tasks: TaskCounts,
    remembered: usize,
    /// Their hosts stand in the pictures, as long as they are remembered.
    executors: usize,
}

impl StageKey {
    /// Of a stage that is over and large; `None`: it is drawn every time.
    pub(crate) fn of(status: &AppStatus, stage: &StageStatus) -> Option<Self> {
        let (application, remembered) = (status.application(), stage.remembered_tasks());
        let completed = stage.completed.filter(|_| remembered >= LARGE)?;
        Some(StageKey {
            application: application.id.clone(),
            attempt: application.attempt_id.clone(),
            started: application.started,
            stage: stage.info.stage,
            completed,
            tasks: stage.tasks,
            remembered,
            executors: status.executors().count(),
        })
    }
}

#[derive(Default)]
pub(crate) struct Album(Mutex<Vec<(StageKey, Arc<StagePictures>)>>);

impl Album {
    pub(crate) fn find(&self, key: &StageKey) -> Option<Arc<StagePictures>> {
        let all = self.lock();
        all.iter().find(|(known, _)| known == key).map(|(_, pictures)| pictures.clone())
    }

    /// Holds them, in place of those that were drawn first.
    pub(crate) fn add(&self, key: StageKey, pictures: Arc<StagePictures>) {
        let mut all = self.lock();
        all.retain(|(known, _)| known.stage != key.stage || known.application != key.application);
        if all.len() >= STAGES {
            all.remove(0);
        }
        all.push((key, pictures));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(StageKey, Arc<StagePictures>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
