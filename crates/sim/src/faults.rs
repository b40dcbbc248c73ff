//! What goes wrong.

use firesteel_backend::blame::ExitStatus;
use firesteel_backend::registry::RegistryEvent;
use firesteel_scheduler::SchedulerInput;
use firesteel_scheduler::messages::{DagEvent, TaskEvent};
use firesteel_standalone_core::worker::WorkerEvent;
use firesteel_types::{ExecutorId, JobId, TaskId};

use crate::plan::{Fault, NETWORK_TIMEOUT_MS, WORKER_TIMEOUT_MS};
use crate::world::{Body, Event, Kind, ProcId, World};

impl World {
    pub(crate) fn strike(&mut self, fault: Fault) -> Result<(), String> {
        self.tell(|_| format!("fault: {fault:?}"));
        match fault {
            Fault::CrashExecutor => self.crash_executor(),
            Fault::CrashWorker => self.crash_worker(false),
            Fault::CrashMachine => self.crash_worker(true),
            Fault::CrashMaster => self.crash_master(),
            Fault::CrashDriver => self.crash_driver(),
            Fault::PauseExecutor => self.pause(Kind::Executor),
            Fault::PauseWorker => self.pause(Kind::Worker),
            Fault::PauseDriver => self.pause(Kind::Driver),
            Fault::PauseMaster => self.pause(Kind::Master),
            Fault::BreakConnection => self.break_some_connection(),
            Fault::StallConnection => self.stall_some_connection(),
            Fault::CancelJob => self.cancel_some_job(),
            Fault::KillTask => self.kill_some_task(),
            Fault::SpoilOutputs => self.spoil_outputs(),
            Fault::SetClock => self.set_some_clock(),
            Fault::ReleaseExecutor => self.release_some_executor(),
            Fault::ChangeTarget => self.change_some_target(),
            Fault::DropShuffle => self.drop_some_shuffle(),
            Fault::LoseStore => self.lose_store(),
            Fault::TearWrite => self.tear_write(),
        }
    }

    /// A living process of this kind, drawn.
    pub(crate) fn some(&mut self, kind: Kind) -> Option<ProcId> {
        let living = self.procs.iter().enumerate();
        let living = living.filter(|(_, proc)| proc.alive && proc.kind == kind);
        let living: Vec<ProcId> = living.map(|(id, _)| id).collect();
        self.rng.choice(living)
    }

    fn crash_executor(&mut self) -> Result<(), String> {
        let Some(proc) = self.some(Kind::Executor) else { return Ok(()) };
        self.counters.executor_crashes += 1;
        if let Some(Body::Executor(node)) = &self.procs[proc].body {
            *self.crashed.entry(node.worker).or_default() += 1;
        }
        let status = if self.rng.bool() { ExitStatus::Signal(9) } else { ExitStatus::Code(1) };
        self.die(proc, status, false)
    }

    fn crash_worker(&mut self, machine: bool) -> Result<(), String> {
        let Some(proc) = self.some(Kind::Worker) else { return Ok(()) };
        if machine {
            self.counters.machine_crashes += 1;
        } else {
            self.counters.worker_crashes += 1;
        }
        // One that is told to end says so, while its connection lasts.
        if !machine && self.aside.bool() && self.procs[proc].paused_until <= self.now {
            self.counters.workers_stopped += 1;
            return self.feed_worker(proc, WorkerEvent::StopRequested);
        }
        self.die(proc, ExitStatus::Signal(9), machine)
    }

    fn crash_master(&mut self) -> Result<(), String> {
        let acting = self.acting_process().filter(|_| self.rng.u8(..4) > 0);
        let Some(proc) = acting.or_else(|| self.some(Kind::Master)) else { return Ok(()) };
        self.counters.master_crashes += 1;
        self.die(proc, ExitStatus::Signal(9), false)
    }

    fn crash_driver(&mut self) -> Result<(), String> {
        let Some(proc) = self.some(Kind::Driver) else { return Ok(()) };
        self.counters.driver_crashes += 1;
        self.die(proc, ExitStatus::Signal(9), false)
    }

    /// A process stands still, as with SIGSTOP, and goes on before the quiet phase is long.
    fn pause(&mut self, kind: Kind) -> Result<(), String> {
        let acting = self.acting_process().filter(|_| kind == Kind::Master);
        let Some(proc) = acting.or_else(|| self.some(kind)) else { return Ok(()) };
        match kind {
            Kind::Executor => self.counters.executor_pauses += 1,
            Kind::Worker => self.counters.worker_pauses += 1,
            Kind::Driver => self.counters.driver_pauses += 1,
            Kind::Master => self.counters.master_pauses += 1,
            Kind::Submitted => {}
        }
        let until = self.now + 200 + self.rng.u64(..8000);
        let until = until.min(self.plan.quiet_at.max(self.now + 200));
        let paused = &mut self.procs[proc].paused_until;
        *paused = until.max(*paused);
        if kind == Kind::Executor {
            self.push(
                self.now + NETWORK_TIMEOUT_MS,
                Event::NoticeDue { dead: proc, since: self.now },
            );
        }
        if acting.is_some() {
            self.master_away = self.procs[proc].paused_until;
        }
        Ok(())
    }

    /// Connections whose ends both live.
    fn some_connection(&mut self) -> Option<usize> {
        let open = self.connections.iter().enumerate().filter(|(_, connection)| {
            let lives = connection.ends.iter().all(|proc| self.procs[*proc].alive);
            let may_break = connection.with_master || !self.plan.masters_only;
            lives && may_break && !connection.broken
        });
        let open: Vec<usize> = open.map(|(id, _)| id).collect();
        self.rng.choice(open)
    }

    fn break_some_connection(&mut self) -> Result<(), String> {
        if let Some(id) = self.some_connection() {
            self.counters.connections_broken += 1;
            self.break_connection(id, false);
        }
        Ok(())
    }

    fn stall_some_connection(&mut self) -> Result<(), String> {
        if let Some(id) = self.some_connection() {
            self.counters.connections_stalled += 1;
            let until = self.now + 100 + self.rng.u64(..7000);
            let until = until.min(self.plan.quiet_at.max(self.now + 100));
            self.connections[id].stalled_until = until;
        }
        Ok(())
    }

    fn cancel_some_job(&mut self) -> Result<(), String> {
        let Some(proc) = self.some(Kind::Driver) else { return Ok(()) };
        let Some(Body::Driver(node)) = &self.procs[proc].body else { return Ok(()) };
        let open = node.jobs.iter().filter(|(_, job)| !job.ended);
        let open: Vec<JobId> = open.map(|(id, _)| *id).collect();
        let Some(job) = self.rng.choice(open) else { return Ok(()) };
        let reason = "its user wants it no more".to_owned();
        self.feed_schedulers(
            proc,
            vec![SchedulerInput::Dag(DagEvent::JobCancelled { job, reason })],
        )
    }

    fn kill_some_task(&mut self) -> Result<(), String> {
        let Some(proc) = self.some(Kind::Executor) else { return Ok(()) };
        let Some(Body::Executor(node)) = &self.procs[proc].body else { return Ok(()) };
        let (driver, running): (ProcId, Vec<TaskId>) = (node.driver, node.core.running().collect());
        let Some(task) = self.rng.choice(running) else { return Ok(()) };
        let reason = "its user wants it no more".to_owned();
        let request = TaskEvent::TaskKillRequested { task, reason };
        self.feed_schedulers(driver, vec![SchedulerInput::Task(request)])
    }

    fn release_some_executor(&mut self) -> Result<(), String> {
        let Some(proc) = self.some(Kind::Driver) else { return Ok(()) };
        let Some(Body::Driver(node)) = &self.procs[proc].body else { return Ok(()) };
        let executors: Vec<ExecutorId> = node.registry.executors().collect();
        let Some(executor) = self.rng.choice(executors) else { return Ok(()) };
        self.counters.executors_released += 1;
        self.feed_driver(proc, RegistryEvent::KillRequested { executors: vec![executor] })
    }

    fn change_some_target(&mut self) -> Result<(), String> {
        let Some(proc) = self.some(Kind::Driver) else { return Ok(()) };
        self.counters.targets_changed += 1;
        let total = self.rng.u32(1..6);
        self.feed_driver(proc, RegistryEvent::TargetChanged { total })
    }

    /// A process ends. Silently: its machine is gone, and nobody is told.
    pub(crate) fn die(
        &mut self,
        proc: ProcId,
        status: ExitStatus,
        silent: bool,
    ) -> Result<(), String> {
        if !std::mem::replace(&mut self.procs[proc].alive, false) {
            return Ok(());
        }
        self.tell(|world| {
            format!("{:?} process {proc} ends with {status}", world.procs[proc].kind)
        });
        for connection in std::mem::take(&mut self.procs[proc].connections) {
            self.break_connection(connection, silent);
        }
        match self.procs[proc].body.take() {
            Some(Body::Executor(node)) => {
                let due = self.now + NETWORK_TIMEOUT_MS;
                self.push(due, Event::NoticeDue { dead: proc, since: self.now });
                let (worker, key) = (node.worker, node.key.clone());
                self.push(self.now + 1, Event::ExecutorExited { worker, key, status });
                self.procs[proc].body = Some(Body::Executor(node));
            }
            Some(Body::Worker(node)) => {
                let due = self.now + WORKER_TIMEOUT_MS;
                self.push(due, Event::NoticeDue { dead: proc, since: self.now });
                self.worker_gone(&node, silent)?;
                self.procs[proc].body = Some(Body::Worker(node));
            }
            Some(Body::Master(node)) => {
                self.counters.stale_for_masters += node.core.stale_messages();
                if self.acting_process().is_none() {
                    self.master_away = u64::MAX;
                }
                let long = if self.rng.u8(..3) == 0 { 20_000 } else { 4000 };
                let at = self.now + 300 + self.rng.u64(..long);
                let at = at.min(self.plan.quiet_at.max(self.now + 300));
                let number = self.masters.iter().position(|master| *master == Some(proc));
                self.push(at, Event::StartMaster(number.expect("one of the masters")));
            }
            Some(Body::Submitted { worker, id, .. }) => {
                self.driver_gone = Some(self.now);
                self.push(self.now + 1, Event::SubmittedExited { worker, id, status });
            }
            Some(Body::Driver(node)) => {
                if status == ExitStatus::Code(1) && node.jobs.values().any(|job| !job.ended) {
                    return Err("L02: a job waits though its application has ended".to_owned());
                }
                let stale = node.registry.stale_messages() + node.client.stale_messages();
                self.counters.stale_for_drivers += stale;
                self.driver_gone = Some(self.now);
                let at = self.now + NETWORK_TIMEOUT_MS;
                self.push(at, Event::OrphansDue { driver: proc });
            }
            None => {}
        }
        Ok(())
    }

    pub(crate) fn is_frozen(&self, executor: ProcId) -> bool {
        matches!(&self.procs[executor].body, Some(Body::Executor(node)) if node.frozen)
    }

    /// What a worker started ends with it: by itself, or with the machine. Somebody starts it again.
    fn worker_gone(&mut self, node: &crate::nodes::WorkerNode, silent: bool) -> Result<(), String> {
        self.counters.stale_for_workers += node.core.stale_messages();
        for executor in node.executors.values() {
            if silent || self.is_frozen(*executor) {
                self.die(*executor, ExitStatus::Signal(9), true)?;
            } else {
                let at = self.now + 1 + self.rng.u64(..100);
                self.push(at, Event::WorkerGone { executor: *executor });
            }
        }
        for child in node.submitted.values() {
            self.die(*child, ExitStatus::Signal(9), true)?;
        }
        self.counters.worker_restarts += 1;
        let at = self.now + 1000 + self.rng.u64(..4000);
        self.push(at, Event::StartWorker(node.place));
        Ok(())
    }
}
