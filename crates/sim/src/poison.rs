//! Tasks that do the same to their executor whenever they run (L06).

use firesteel_backend::blame::ExitStatus;
use firesteel_scheduler::messages::{TaskOptions, TaskSetKind};
use firesteel_types::{JobId, TaskFailure, TaskInfo};

use crate::driver::DriverNode;
use crate::plan::{NETWORK_TIMEOUT_MS, Poison};
use crate::world::{Body, Event, ProcId, World};

impl World {
    /// A task does what it does whenever it runs. Its job must end with that (L06).
    pub(crate) fn poison(
        &mut self,
        proc: ProcId,
        driver: ProcId,
        info: &TaskInfo,
        kind: TaskSetKind,
        poison: Poison,
    ) -> Result<(), String> {
        self.poisoned = Some(self.now);
        // A task that was there by chance may explain some; a word that is lost may be the one that blames.
        let limit = 2 * TaskOptions::default().max_failures as usize;
        let allowed = limit + self.plan.faults.len() + usize::from(self.plan.loss);
        if let Some(Body::Driver(node)) = &mut self.procs[driver].body {
            node.poisoned += 1;
            if node.poisoned > allowed {
                let (app, times) = (node.app, node.poisoned);
                return Err(format!("L06: poison of application {app} ran {times} times"));
            }
        }
        match poison {
            Poison::Exit(status) => {
                self.counters.poison_exits += 1;
                self.counters.poison_zeros += u64::from(status == ExitStatus::Code(0));
                self.die(proc, status, false)
            }
            Poison::Freeze => {
                self.counters.poison_freezes += 1;
                self.procs[proc].paused_until = u64::MAX / 2;
                if let Some(Body::Executor(node)) = &mut self.procs[proc].body {
                    node.frozen = true;
                }
                let due = self.now + NETWORK_TIMEOUT_MS;
                self.push(due, Event::NoticeDue { dead: proc, since: self.now });
                Ok(())
            }
            Poison::Overlarge => {
                self.counters.poison_reports += 1;
                let message = "over spark.rpc.message.maxSize".to_owned();
                self.task_ended(proc, info, kind, Err(TaskFailure::Fatal { message }))
            }
        }
    }
}

impl DriverNode {
    /// What the task does to its executor: the last partition of the first job has the poison.
    pub(crate) fn poison_of(
        &self,
        info: &TaskInfo,
        kind: TaskSetKind,
        poison: Option<Poison>,
    ) -> Option<Poison> {
        let first = kind == TaskSetKind::Result(JobId(0)) && self.last_job != Some(JobId(0));
        let last = first && info.partition + 1 == self.jobs[&JobId(0)].rdd.partitions;
        poison.filter(|_| last)
    }
}
