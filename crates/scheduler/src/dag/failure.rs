//! What goes wrong: fetch failures, lost executors, failed task sets, cancellation.
//!
//! A fetch failure ends the reading attempt, unregisters the outputs that could not be read and
//! lets both stages rest for a moment, in which more of the same are gathered, before they are
//! submitted again. An attempt that found an output unreadable which none before it had found so on
//! that executor does not count against the stage (invariant L07): there is only so much to be found. Everything that ends a job goes through `end_job`.

use firesteel_types::{
    ExecutorId, JobError, JobId, Properties, ShuffleId, StageId, StageRef, TaskFailure,
};

use super::completion::Leftover;
use super::state::{StageKind, StageState};
use super::{DagScheduler, Turn};
use crate::SchedulerEffect;
use crate::blocks::Dropped;
use crate::messages::TaskSetFailure;
use crate::mutant::Mutant;

impl DagScheduler {
    /// Only the latest attempt is believed, and only until its stage is complete; after its first
    /// fetch failure it is over, but further ones still tell which outputs are missing.
    pub(super) fn on_fetch_failed(
        &mut self,
        turn: &mut Turn<'_>,
        attempt: StageRef,
        failure: &TaskFailure,
    ) {
        let TaskFailure::FetchFailed { shuffle, location, broken, .. } = failure else { return };
        let known = self.stages.get(&attempt.stage);
        let Some(stage) = known.filter(|s| s.is_latest(attempt) && !s.is_idle()) else { return };
        let was_running = stage.is_running();
        let (one, planted) = (Mutant::FindsOneOutputPerAttempt, self.options.planted);
        let broken = match &broken[..] {
            [first, ..] if planted.is(one) => std::slice::from_ref(first),
            _ if planted.is(Mutant::KeepsUnreadableOutputs) => &[],
            all => all,
        };
        let dropped = self.blocks.outputs_mut().unregister(*shuffle, *location, broken);
        let unregistered = !dropped.is_empty();
        let is_new = self.note_unfetched(attempt.stage, *shuffle, &dropped) && !planted.is(one);
        if unregistered {
            self.publish(turn, *shuffle);
        }
        self.drop_map_outputs(turn, *shuffle, dropped);
        if !(was_running && self.fail_attempt(turn, attempt.stage, failure, is_new)) {
            self.rest_map_stage(attempt.stage, *shuffle);
            self.arm_resubmission(turn);
        }
        if unregistered {
            self.rest_readers(turn, *shuffle, &failure.to_string());
        }
    }

    /// Whether one of these outputs had been readable for all the stage knew.
    fn note_unfetched(&mut self, id: StageId, shuffle: ShuffleId, dropped: &[Dropped]) -> bool {
        let unfetched = &mut self.stage_mut(id).unfetched;
        let outputs = dropped.iter().map(|(at, output)| (shuffle, output.map_partition, *at));
        let before = unfetched.len();
        unfetched.extend(outputs);
        unfetched.len() > before
    }

    /// Outputs of the shuffle are gone: attempts that read it launch nothing more and rest, rather
    /// than find out task by task (invariant S09). Not their fault: nothing is counted.
    pub(super) fn rest_readers(&mut self, turn: &mut Turn<'_>, shuffle: ShuffleId, reason: &str) {
        let Some(map_stage) = self.shuffle_stages.get(&shuffle).copied() else { return };
        let children = self.stages[&map_stage].children.clone();
        for id in children {
            let stage = &self.stages[&id];
            if !stage.is_running() || !self.missing_parents(stage).contains(&map_stage) {
                continue;
            }
            let reason = format!("map outputs it reads are lost: {reason}");
            self.end_attempt(turn, id, Some(&reason), Leftover::Retire);
            self.stage_mut(id).state = StageState::Resting;
            self.rest_map_stage(id, shuffle);
            self.arm_resubmission(turn);
        }
    }

    /// Counts the attempt unless it told something new; whether it was one too many and the stage's
    /// jobs are aborted.
    fn fail_attempt(
        &mut self,
        turn: &mut Turn<'_>,
        id: StageId,
        failure: &TaskFailure,
        is_new: bool,
    ) -> bool {
        let limit = self.options.max_consecutive_attempts;
        let stage = self.stage_mut(id);
        stage.failed_in_a_row += u32::from(!is_new);
        let failed = stage.failed_in_a_row;
        if failed < limit || is_new {
            self.end_attempt(turn, id, Some(&failure.to_string()), Leftover::Retire);
            self.stage_mut(id).state = StageState::Resting;
            return false;
        }
        let reason = format!(
            "{failed} attempt(s) in a row failed to fetch (spark.stage.maxConsecutiveAttempts), most recently: {failure}"
        );
        self.abort_stage(turn, id, &reason, |job, name| JobError::StageAborted {
            job,
            stage: id,
            stage_name: name,
            reason: reason.clone(),
        });
        true
    }

    /// The failed stage reads this shuffle, whatever is said to be kept: it will wait for it. A
    /// map stage that is under way finds the missing output by itself.
    fn rest_map_stage(&mut self, reader: StageId, shuffle: ShuffleId) {
        let Some(map_stage) = self.shuffle_stages.get(&shuffle).copied() else { return };
        self.stage_mut(reader).proven_parents.insert(map_stage);
        if !self.blocks.outputs().is_complete(shuffle) && self.stage_mut(map_stage).is_idle() {
            self.stage_mut(map_stage).state = StageState::Resting;
        }
    }

    pub(super) fn arm_resubmission(&mut self, turn: &mut Turn<'_>) {
        if self.resubmit_at.is_none() {
            let at = turn.now.plus_ms(self.options.resubmit_delay_ms);
            self.resubmit_at = Some(at);
            turn.emit(SchedulerEffect::ArmTimer(at));
        }
    }

    pub(super) fn on_ticked(&mut self, turn: &mut Turn<'_>) {
        let Some(at) = self.resubmit_at else { return };
        if turn.now < at {
            // An early tick may have been the one that was armed.
            turn.emit(SchedulerEffect::ArmTimer(at));
            return;
        }
        self.resubmit_at = None;
        let resting = self.stages.values().filter(|stage| stage.is_resting());
        let resting: Vec<StageId> = resting.map(|stage| stage.id).collect();
        for id in &resting {
            self.stage_mut(*id).state = StageState::Idle;
        }
        for id in resting {
            self.submit(turn, id);
        }
    }

    pub(super) fn on_task_set_failed(
        &mut self,
        turn: &mut Turn<'_>,
        attempt: StageRef,
        cause: TaskSetFailure,
    ) {
        let known = self.stages.get(&attempt.stage).filter(|stage| !stage.is_idle());
        let stands = known.is_some_and(|stage| match &cause {
            _ if stage.is_latest(attempt) && stage.is_running() => true,
            // Executors that a task took along count against it over all attempts of its stage: the last one may be told of an
            // attempt that it retired itself, because the executor had outputs it read, and others may have taken over since.
            TaskSetFailure::TaskFailed { partition, .. } => {
                self.missing_partitions(stage).contains(partition)
            }
            TaskSetFailure::Unschedulable { .. } => false,
        });
        if !stands {
            return;
        }
        let reason = describe(&cause);
        self.abort_stage(turn, attempt.stage, &reason, |job, stage_name| match cause.clone() {
            TaskSetFailure::TaskFailed { partition, attempts, failure } => JobError::TaskFailed {
                job,
                stage: attempt,
                stage_name,
                partition,
                attempts,
                failure,
            },
            TaskSetFailure::Unschedulable { .. } => JobError::StageAborted {
                job,
                stage: attempt.stage,
                stage_name,
                reason: reason.clone(),
            },
        });
    }

    /// Ends the stage's attempt and every job that may need the stage.
    pub(super) fn abort_stage(
        &mut self,
        turn: &mut Turn<'_>,
        id: StageId,
        reason: &str,
        error: impl Fn(JobId, String) -> JobError,
    ) {
        self.end_attempt(turn, id, Some(reason), Leftover::Cancel);
        let name = self.stages[&id].described(&self.blocks);
        for job in self.jobs_of_stage(id) {
            self.end_job(turn, job, Err(error(job, name.clone())));
        }
    }

    pub(super) fn cancel(&mut self, turn: &mut Turn<'_>, jobs: Vec<JobId>, reason: &str) {
        for job in jobs {
            let action = self.jobs.get(&job).map(|job| job.properties.call_site().to_owned());
            let (action, reason) = (action.unwrap_or_default(), reason.to_owned());
            self.end_job(turn, job, Err(JobError::Cancelled { job, action, reason }));
        }
    }

    /// The living jobs with such properties.
    pub(super) fn jobs_where(&self, has: impl Fn(&Properties) -> bool) -> Vec<JobId> {
        let jobs = self.jobs.iter().filter(|(_, job)| has(&job.properties));
        jobs.map(|(id, _)| *id).collect()
    }

    pub(crate) fn jobs_of_stage(&self, id: StageId) -> Vec<JobId> {
        self.stages.get(&id).map(|s| s.jobs.iter().copied().collect()).unwrap_or_default()
    }

    /// Running map stages find what they lost when their task set is done, waiting stages before
    /// they are submitted; running readers rest.
    pub(super) fn on_executor_lost(
        &mut self,
        turn: &mut Turn<'_>,
        executor: ExecutorId,
        outputs_lost: bool,
    ) {
        if !self.jobs.is_empty() {
            self.lost.lost(turn.now, executor, outputs_lost);
        }
        self.blocks.remove_holder(executor.into());
        if !outputs_lost {
            return;
        }
        for shuffle in self.blocks.outputs_mut().lose(executor.into()) {
            self.publish(turn, shuffle);
            self.rest_readers(turn, shuffle, &format!("executor {executor} is lost"));
            if !self.shuffle_stages.contains_key(&shuffle) {
                self.blocks.outputs_mut().remove_if_empty(shuffle);
            }
        }
    }

    /// With a living stage this is a loss like any other, but for outputs not outliving the stage.
    pub(super) fn on_shuffle_removed(&mut self, turn: &mut Turn<'_>, shuffle: ShuffleId) {
        let Some(id) = self.shuffle_stages.get(&shuffle).copied() else {
            self.blocks.outputs_mut().remove(shuffle);
            return;
        };
        if let StageKind::ShuffleMap { removed, .. } = &mut self.stage_mut(id).kind {
            *removed = true;
        }
        self.blocks.outputs_mut().clear(shuffle);
        self.publish(turn, shuffle);
        self.rest_readers(turn, shuffle, "the shuffle was removed");
    }
}

fn describe(cause: &TaskSetFailure) -> String {
    match cause {
        TaskSetFailure::TaskFailed { partition, attempts, failure } => {
            format!("partition {partition} failed {attempts} time(s), most recently: {failure}")
        }
        TaskSetFailure::Unschedulable { partition, reason } => {
            format!("partition {partition} cannot be placed: {reason}")
        }
    }
}
