//! What jobs are given, held against what they have to be given.

use std::sync::Arc;

use firesteel_scheduler::messages::TaskSetKind;
use firesteel_types::{Dependency, JobId, RddInfo, ShuffleId, TaskId};

use crate::driver::DriverNode;

impl DriverNode {
    /// The map outputs of a shuffle are there: are they?
    pub(crate) fn deliver_sizes(&mut self, job: JobId, bytes: &[u64]) -> Result<(), String> {
        let state = self.jobs.get_mut(&job).expect("a job that was submitted");
        state.delivered[0] += 1;
        let (shuffle, map_side) = shuffle_of(&state.rdd).expect("a job that wants map outputs");
        let known = self.book.outputs(shuffle);
        if !known.is_some_and(|known| known.iter().all(Option::is_some)) {
            return Err(format!("S09: job {job} ends before shuffle {shuffle} is complete"));
        }
        let wanted = vec![u64::from(map_side.partitions); state.rdd.partitions as usize];
        if bytes != wanted {
            return Err(format!("S08: job {job} was told {bytes:?} in place of {wanted:?}"));
        }
        Ok(())
    }

    pub(crate) fn deliver(&mut self, job: JobId, index: u32, task: TaskId) -> Result<(), String> {
        let (info, kind) = &self.tasks[&task];
        let state = self.jobs.get_mut(&job).expect("a job that was submitted");
        if *kind != TaskSetKind::Result(job) || info.partition != index || state.ended {
            return Err(format!("S08: task {task} is no result {index} of job {job}"));
        }
        state.delivered[index as usize] += 1;
        let computed = self.computed.get(&task).cloned().unwrap_or_default();
        if !state.read.read(&computed.versions, computed.mixed) {
            return Err(format!(
                "S20: result {index} of job {job} mixes two versions of an output"
            ));
        }
        let expected = self.oracle.value_of(&state.rdd, index, &computed.versions);
        let found = self.outputs.get(&task);
        if found != Some(&expected) {
            return Err(format!("S08: result {index} of job {job} is {found:?}, not {expected}"));
        }
        Ok(())
    }
}

/// The first shuffle that an RDD reads itself, with its map side.
pub(crate) fn shuffle_of(rdd: &RddInfo) -> Option<(ShuffleId, Arc<RddInfo>)> {
    rdd.reads().iter().find_map(|dependency| match dependency {
        Dependency::Shuffle { shuffle, rdd } => Some((*shuffle, rdd.clone())),
        Dependency::Narrow { .. } => None,
    })
}
