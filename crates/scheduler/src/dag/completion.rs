//! What a task's success means: results delivered, map outputs registered, stages and jobs ended.

use firesteel_types::{
    Event, JobError, JobId, MapAttempt, MapOutputLocation, MapStatus, ShuffleId, StageId, TaskInfo,
};

use super::state::{StageKind, StageState};
use super::{DagScheduler, Turn};
use crate::SchedulerEffect;
use crate::blocks::Registered;
use crate::messages::DagEffect;
use crate::mutant::Mutant;

/// What happens to tasks of an attempt that have not ended when it does.
pub(super) enum Leftover {
    /// They are of no use.
    Cancel,
    /// They may go on, and count if they succeed; a newer attempt does the rest.
    Retire,
}

impl DagScheduler {
    /// Of attempts that read the same map outputs it does not matter which one it is: a late success
    /// of an old one counts where its partition is still missing, and changes nothing where it is not.
    pub(super) fn on_success(&mut self, turn: &mut Turn<'_>, task: &TaskInfo, written: MapStatus) {
        let id = task.stage.stage;
        match self.stages.get(&id).map(|stage| &stage.kind) {
            None => turn.emit(SchedulerEffect::ReleaseTask { task: task.task }),
            Some(StageKind::Result { .. }) => self.on_result(turn, task),
            Some(StageKind::ShuffleMap { shuffle, .. }) => {
                self.on_map_output(turn, *shuffle, task, written);
            }
        }
    }

    fn on_result(&mut self, turn: &mut Turn<'_>, task: &TaskInfo) {
        let id = task.stage.stage;
        if self.is_rolled_back(task) {
            turn.emit(SchedulerEffect::ReleaseTask { task: task.task });
            return;
        }
        self.forget_pending(task);
        let StageKind::Result { job, wanted, delivered } = &mut self.stage_mut(id).kind else {
            return;
        };
        let job = *job;
        if let Some(indices) = wanted.remove(&task.partition) {
            *delivered += 1;
            turn.emit(SchedulerEffect::ApplyAccumulators { task: task.task });
            for index in indices {
                turn.emit(SchedulerEffect::DeliverResult { job, index, task: task.task });
            }
        }
        let done = wanted.is_empty();
        turn.emit(SchedulerEffect::ReleaseTask { task: task.task });
        if done {
            self.end_attempt(turn, id, None, Leftover::Cancel);
            self.end_job(turn, job, Ok(()));
        }
    }

    fn on_map_output(
        &mut self,
        turn: &mut Turn<'_>,
        shuffle: ShuffleId,
        task: &TaskInfo,
        written: MapStatus,
    ) {
        let id = task.stage.stage;
        let registered = self.register(shuffle, task, written);
        match registered {
            Registered::No => {
                let output = MapAttempt { map_partition: task.partition, task: task.task };
                self.drop_map_outputs(turn, shuffle, vec![(task.executor.into(), output)]);
            }
            Registered::Already => {}
            Registered::Yes | Registered::Changed => {
                if self.note_accumulated(id, task.partition) {
                    turn.emit(SchedulerEffect::ApplyAccumulators { task: task.task });
                }
            }
        }
        turn.emit(SchedulerEffect::ReleaseTask { task: task.task });
        if registered == Registered::Changed {
            self.stop_readers(turn, id, task.partition);
        }
        self.settle(turn, id, shuffle);
    }

    fn register(
        &mut self,
        shuffle: ShuffleId,
        task: &TaskInfo,
        mut written: MapStatus,
    ) -> Registered {
        let at = MapOutputLocation { location: task.executor.into(), task: task.task };
        if self.blocks.outputs().is_registered(shuffle, task.partition, at) {
            return Registered::Already;
        }
        if self.is_rolled_back(task) {
            return Registered::No;
        }
        self.forget_pending(task);
        if self.lost.voids(task) {
            return Registered::No;
        }
        if self.options.planted.is(Mutant::IgnoresChecksums) {
            written.checksum = 0;
        }
        self.blocks.outputs_mut().register(shuffle, task.partition, at, written)
    }

    /// Whether this is the first time, over all attempts of the stage (invariant S16).
    fn note_accumulated(&mut self, id: StageId, partition: u32) -> bool {
        match &mut self.stage_mut(id).kind {
            StageKind::ShuffleMap { accumulated, .. } => accumulated.insert(partition),
            StageKind::Result { .. } => false,
        }
    }

    /// The running attempt no longer owes this partition, if the task was one of its own.
    fn forget_pending(&mut self, task: &TaskInfo) {
        let stage = self.stage_mut(task.stage.stage);
        if stage.is_latest(task.stage)
            && let StageState::Running { pending, .. } = &mut stage.state
        {
            pending.remove(&task.partition);
        }
    }

    /// Completes a map stage whose outputs are all there, or runs it again if its task set is done
    /// and some are not: they were lost in the meantime.
    fn settle(&mut self, turn: &mut Turn<'_>, id: StageId, shuffle: ShuffleId) {
        let stage = self.stage_mut(id);
        if stage.is_idle() {
            return;
        }
        let set_done =
            matches!(&stage.state, StageState::Running { pending, .. } if pending.is_empty());
        if self.blocks.outputs().is_complete(shuffle) {
            self.complete_map_stage(turn, id, shuffle);
        } else if set_done {
            let reason = "map outputs were lost with their executors while the stage ran";
            self.end_attempt(turn, id, Some(reason), Leftover::Retire);
            self.submit(turn, id);
        }
    }

    fn complete_map_stage(&mut self, turn: &mut Turn<'_>, id: StageId, shuffle: ShuffleId) {
        self.end_attempt(turn, id, None, Leftover::Cancel);
        let stage = self.stage_mut(id);
        stage.state = StageState::Idle;
        stage.failed_in_a_row = 0;
        stage.unfetched.clear();
        stage.proven_parents.clear();
        let children: Vec<StageId> = stage.children.iter().copied().collect();
        self.publish(turn, shuffle);
        self.end_map_jobs(turn, id, shuffle);
        for child in children {
            self.parent_completed(turn, child, id);
        }
    }

    /// Ends the jobs that wanted the map outputs and nothing else.
    pub(super) fn end_map_jobs(&mut self, turn: &mut Turn<'_>, id: StageId, shuffle: ShuffleId) {
        let StageKind::ShuffleMap { wanted_by, .. } = &mut self.stage_mut(id).kind else { return };
        for (job, readers) in std::mem::take(wanted_by) {
            let bytes = self.blocks.outputs().bytes_by_reader(shuffle, readers);
            turn.emit(SchedulerEffect::DeliverMapStatistics { job, bytes });
            self.end_job(turn, job, Ok(()));
        }
    }

    /// A stage that waited for this parent last looks again at all of them.
    fn parent_completed(&mut self, turn: &mut Turn<'_>, child: StageId, parent: StageId) {
        // A child before it may have ended its job.
        let Some(stage) = self.stages.get_mut(&child) else { return };
        let StageState::Waiting { on } = &mut stage.state else { return };
        on.remove(&parent);
        if on.is_empty() {
            stage.state = StageState::Idle;
            self.submit(turn, child);
        }
    }

    /// Tasks of retired attempts are of no use once nobody needs the stage.
    fn cancel_retired(&mut self, turn: &mut Turn<'_>, id: StageId, reason: &str) {
        for stage in std::mem::take(&mut self.stage_mut(id).retired) {
            turn.emit(DagEffect::CancelTaskSet { stage, reason: reason.to_string() });
        }
    }

    /// Ends the running attempt of a stage, if one runs, and leaves the stage idle.
    pub(super) fn end_attempt(
        &mut self,
        turn: &mut Turn<'_>,
        id: StageId,
        failure: Option<&str>,
        leftover: Leftover,
    ) {
        let now_lost = self.lost.epoch();
        let stage = self.stage_mut(id);
        let StageState::Running { pending, epoch, .. } = &stage.state else { return };
        // Of a map stage, finished tasks may be running again for an executor lost since.
        let nothing_runs = pending.is_empty() && (stage.shuffle().is_none() || *epoch == now_lost);
        let (attempt, info) = (stage.attempt(), stage.info());
        match leftover {
            Leftover::Retire => {
                stage.retired.insert(attempt);
                turn.emit(DagEffect::RetireTaskSet { stage: attempt });
            }
            Leftover::Cancel if failure.is_none() && nothing_runs => {}
            Leftover::Cancel => turn.emit(DagEffect::CancelTaskSet {
                stage: attempt,
                reason: failure.unwrap_or("the stage is complete").to_string(),
            }),
        }
        let failure = failure.map(str::to_string);
        turn.post(Event::StageCompleted { stage: info, failure, at: turn.now });
        stage.state = StageState::Idle;
    }

    /// Ends a job, and with it the stages that no other job needs (invariants S07, S17).
    pub(super) fn end_job(&mut self, turn: &mut Turn<'_>, id: JobId, result: Result<(), JobError>) {
        let Some(job) = self.jobs.remove(&id) else { return };
        let reason = match &result {
            Ok(()) => format!("job {id} ended without it"),
            Err(error) => error.to_string(),
        };
        for stage in job.stages.iter().rev() {
            self.leave_stage(turn, *stage, id, &reason);
        }
        if self.jobs.is_empty() {
            self.lost.clear();
            self.resubmit_at = None;
        }
        self.announce_job_end(turn, id, result);
    }

    pub(super) fn announce_job_end(
        &self,
        turn: &mut Turn<'_>,
        job: JobId,
        result: Result<(), JobError>,
    ) {
        turn.post(Event::JobEnd { job, result: result.clone(), at: turn.now });
        turn.emit(SchedulerEffect::EndJob { job, result });
    }

    fn leave_stage(&mut self, turn: &mut Turn<'_>, id: StageId, job: JobId, reason: &str) {
        let stage = self.stage_mut(id);
        stage.jobs.remove(&job);
        if let StageKind::ShuffleMap { wanted_by, .. } = &mut stage.kind {
            wanted_by.remove(&job);
        }
        if stage.jobs.is_empty() {
            self.end_attempt(turn, id, Some(reason), Leftover::Cancel);
            self.cancel_retired(turn, id, reason);
            self.drop_stage(id);
        }
    }

    fn drop_stage(&mut self, id: StageId) {
        let Some(stage) = self.stages.remove(&id) else { return };
        for parent in &stage.parents {
            if let Some(parent) = self.stages.get_mut(parent) {
                parent.children.remove(&id);
            }
        }
        if let StageKind::ShuffleMap { shuffle, removed, .. } = stage.kind {
            self.shuffle_stages.remove(&shuffle);
            if removed {
                self.blocks.outputs_mut().remove(shuffle);
            } else {
                self.blocks.outputs_mut().remove_if_empty(shuffle);
            }
        }
    }
}
